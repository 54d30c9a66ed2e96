//! Messages of G0: a Ruby hash with symbols as keys (reference, sections 3 to 6).
//!
//! What the security plugin signed or encrypted, `:body`, is kept as received: [`CoreRequest::body`] and
//! [`CoreReply::body`]. So a plugin reads the hash once, verifies or decrypts exactly these bytes, decodes them with [`load`] (or
//! [`Sealed::read`]), and passes the value to `into_request` or `into_reply`.

use super::{
    AgentName, CallerId, Collective, DEFAULT_TTL, Filter, Identity, Refused, Reply, Request,
    RequestId, Serializer,
};
use crate::ruby::{Datum, marshal, psych};
use std::str::FromStr;

/// Text that Ruby marks as ASCII in the outer hash: digests and base64.
const ASCII: [&str; 4] = ["requestid", "hash", "body", "sslkey"];
/// The same within bodies: names that were symbols.
const ASCII_BODY: [&str; 2] = ["action", "data_plugins"];

/// The serializer of a message of G0, detected from its bytes.
pub fn serializer_of(data: &[u8]) -> Option<Serializer> {
    if data.starts_with(&marshal::VERSION) {
        return Some(Serializer::Marshal);
    }
    data.starts_with(b"---").then_some(Serializer::Yaml)
}

/// Decodes a value, such as a body, written by [`dump`] or by Ruby.
///
/// # Errors
/// It is not in that encoding, exceeds a limit, or contains more than data.
pub fn load(data: &[u8], serializer: Serializer) -> Result<Datum, Refused> {
    match serializer {
        Serializer::Marshal => Ok(marshal::read(data)?),
        Serializer::Yaml => Ok(psych::read(data)?),
    }
}

/// Encodes a value as a body.
pub fn dump(datum: &Datum, serializer: Serializer) -> Vec<u8> {
    match serializer {
        Serializer::Marshal => marshal::write_ascii(datum, &ASCII_BODY),
        Serializer::Yaml => psych::write(datum).into_bytes(),
    }
}

/// The fields that security plugins add to the hash of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// `:hash` of PSK (hexadecimal) and SSL (base64 in lines).
    pub hash: Option<String>,
    /// `:sslkey` of AES: base64 in lines of the session key, encrypted by RSA.
    pub key: Option<String>,
    /// `:sslpubkey` of AES: the sender's public key or certificate, as PEM.
    pub public_key: Option<String>,
}

impl Proof {
    fn read(hash: &Datum) -> Result<Proof, Refused> {
        Ok(Proof {
            hash: optional(hash, "hash")?,
            key: optional(hash, "sslkey")?,
            public_key: optional(hash, "sslpubkey")?,
        })
    }

    fn write(&self, pairs: &mut Vec<(Datum, Datum)>) {
        let fields = [
            ("hash", &self.hash),
            ("sslkey", &self.key),
            ("sslpubkey", &self.public_key),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                pairs.push((Datum::symbol(name), Datum::Str(value.clone())));
            }
        }
    }
}

/// A request of G0 whose body is not verified or decrypted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreRequest {
    /// The serializer of the hash.
    pub serializer: Serializer,
    /// `:body`, byte for byte: what `:hash` covers (PSK, SSL), or base64 of the cipher text (AES).
    pub body: Vec<u8>,
    /// What the security plugin added.
    pub proof: Proof,
    /// `:senderid`.
    pub sender: Identity,
    /// `:requestid`.
    pub id: RequestId,
    /// `:filter`; empty if there is none.
    pub filter: Filter,
    /// `:collective`; clients before 1.1 have none.
    pub collective: Option<Collective>,
    /// `:agent`; of clients before 1.1, the one that `:msgtarget` names.
    pub agent: AgentName,
    /// `:callerid`; clients before 1.1 have none.
    pub caller: Option<CallerId>,
    /// `:ttl`, in seconds; [`DEFAULT_TTL`] if there is none.
    pub ttl: u32,
    /// `:msgtime`, in seconds since 1970.
    pub time: i64,
}

impl CoreRequest {
    /// Reads the hash of a request.
    ///
    /// # Errors
    /// It is not such a hash, exceeds a limit, contains more than data, or a name is invalid.
    pub fn read(data: &[u8]) -> Result<CoreRequest, Refused> {
        let (serializer, hash) = outer(data)?;
        let filter = hash.get("filter").map(Filter::read).transpose()?;
        Ok(CoreRequest {
            serializer,
            body: body(&hash)?,
            proof: Proof::read(&hash)?,
            sender: required(&hash, "senderid")?,
            id: required(&hash, "requestid")?,
            filter: filter.unwrap_or_default(),
            collective: named(&hash, "collective")?,
            agent: agent(&hash)?,
            caller: named(&hash, "callerid")?,
            ttl: ttl(&hash, "ttl")?.unwrap_or(DEFAULT_TTL),
            time: time(&hash, "msgtime")?,
        })
    }

    /// Wraps the body that a security plugin made from [`Request::body`].
    pub fn new(request: &Request, serializer: Serializer, body: Vec<u8>, proof: Proof) -> Self {
        CoreRequest {
            serializer,
            body,
            proof,
            sender: request.sender.clone(),
            id: request.id.clone(),
            filter: request.filter.clone(),
            collective: Some(request.collective.clone()),
            agent: request.agent.clone(),
            caller: Some(request.caller.clone()),
            ttl: request.ttl,
            time: request.time,
        }
    }

    /// The request, with the content of the body after verification or decryption. `home` is the collective of a
    /// request without one.
    ///
    /// # Errors
    /// It has no caller id.
    pub fn into_request(self, body: Datum, home: &Collective) -> Result<Request, Refused> {
        let nobody = || Refused::Caller("it has none, as from clients before 1.1".to_owned());
        Ok(Request {
            body,
            sender: self.sender,
            id: self.id,
            filter: self.filter,
            collective: self.collective.unwrap_or_else(|| home.clone()),
            agent: self.agent,
            caller: self.caller.ok_or_else(nobody)?,
            ttl: self.ttl,
            time: self.time,
        })
    }

    /// Writes the hash, its keys in the order of Ruby's clients.
    pub fn write(&self) -> Vec<u8> {
        let mut pairs = vec![
            pair("body", body_datum(&self.body, &self.proof, self.serializer)),
            pair("senderid", self.sender.as_str()),
            pair("requestid", self.id.as_str()),
        ];
        let nowhere = Collective::from_str("mcollective").ok();
        if let Some(collective) = self.collective.as_ref().or(nowhere.as_ref()) {
            pairs.push(pair("filter", self.filter.write(true, collective)));
        }
        if let Some(collective) = &self.collective {
            pairs.push(pair("collective", collective.as_str()));
        }
        pairs.push(pair("agent", self.agent.as_str()));
        if let Some(caller) = &self.caller {
            pairs.push(pair("callerid", caller.as_str()));
        }
        pairs.push(pair("ttl", Datum::Int(self.ttl.into())));
        pairs.push(pair("msgtime", Datum::Int(self.time.into())));
        self.proof.write(&mut pairs);
        write_outer(Datum::Hash(pairs), self.serializer)
    }
}

/// A reply of G0 whose body is not verified or decrypted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreReply {
    /// The serializer of the hash.
    pub serializer: Serializer,
    /// `:body`, byte for byte: what `:hash` covers (PSK, SSL), or base64 of the cipher text (AES).
    pub body: Vec<u8>,
    /// What the security plugin added.
    pub proof: Proof,
    /// `:senderid`.
    pub sender: Identity,
    /// `:requestid`.
    pub id: RequestId,
    /// `:senderagent`.
    pub agent: AgentName,
    /// `:msgtime`, in seconds since 1970.
    pub time: i64,
}

impl CoreReply {
    /// Reads the hash of a reply.
    ///
    /// # Errors
    /// It is not such a hash, exceeds a limit, contains more than data, or a name is invalid.
    pub fn read(data: &[u8]) -> Result<CoreReply, Refused> {
        let (serializer, hash) = outer(data)?;
        Ok(CoreReply {
            serializer,
            body: body(&hash)?,
            proof: Proof::read(&hash)?,
            sender: required(&hash, "senderid")?,
            id: required(&hash, "requestid")?,
            agent: required(&hash, "senderagent")?,
            time: time(&hash, "msgtime")?,
        })
    }

    /// Wraps the body that a security plugin made from [`Reply::body`].
    pub fn new(reply: &Reply, serializer: Serializer, body: Vec<u8>, proof: Proof) -> Self {
        CoreReply {
            serializer,
            body,
            proof,
            sender: reply.sender.clone(),
            id: reply.id.clone(),
            agent: reply.agent.clone(),
            time: reply.time,
        }
    }

    /// The reply, with the content of the body after verification or decryption.
    pub fn into_reply(self, body: Datum) -> Reply {
        Reply {
            body,
            sender: self.sender,
            id: self.id,
            agent: self.agent,
            time: self.time,
        }
    }

    /// Writes the hash, its keys in the order of Ruby's servers.
    pub fn write(&self) -> Vec<u8> {
        let mut pairs = vec![
            pair("senderid", self.sender.as_str()),
            pair("requestid", self.id.as_str()),
            pair("senderagent", self.agent.as_str()),
            pair("msgtime", Datum::Int(self.time.into())),
            pair("body", body_datum(&self.body, &self.proof, self.serializer)),
        ];
        self.proof.write(&mut pairs);
        write_outer(Datum::Hash(pairs), self.serializer)
    }
}

/// The part of a request that SSL signs and AES encrypts: the body, and time and time to live, which must equal those
/// outside (reference, sections 5 and 6).
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// `:ssl_msg`, `:aes_msg`: the body.
    pub body: Datum,
    /// `:ssl_ttl`, `:aes_ttl`, in seconds.
    pub ttl: u32,
    /// `:ssl_msgtime`, `:aes_msgtime`, in seconds since 1970.
    pub time: i64,
}

impl Sealed {
    /// Reads it; `plugin` is `ssl` or `aes`.
    ///
    /// # Errors
    /// It is not such a hash, exceeds a limit, or contains more than data.
    pub fn read(data: &[u8], serializer: Serializer, plugin: &str) -> Result<Sealed, Refused> {
        let mut hash = load(data, serializer)?;
        let name = |field: &str| format!("{plugin}_{field}");
        let missing = || Refused::Malformed(format!("its body has no :{}", name("ttl")));
        Ok(Sealed {
            ttl: ttl(&hash, &name("ttl"))?.ok_or_else(missing)?,
            time: time(&hash, &name("msgtime"))?,
            body: take(&mut hash, &name("msg"))?,
        })
    }

    /// Writes it; `plugin` is `ssl` or `aes`.
    pub fn write(&self, serializer: Serializer, plugin: &str) -> Vec<u8> {
        let name = |field: &str| format!("{plugin}_{field}");
        let pairs = vec![
            pair(&name("msg"), self.body.clone()),
            pair(&name("ttl"), Datum::Int(self.ttl.into())),
            pair(&name("msgtime"), Datum::Int(self.time.into())),
        ];
        dump(&Datum::Hash(pairs), serializer)
    }
}

fn pair(name: &str, value: impl Into<Datum>) -> (Datum, Datum) {
    (Datum::symbol(name), value.into())
}

fn outer(data: &[u8]) -> Result<(Serializer, Datum), Refused> {
    let neither = || Refused::Malformed("it is neither Marshal nor YAML".to_owned());
    let serializer = serializer_of(data).ok_or_else(neither)?;
    match load(data, serializer)? {
        hash @ Datum::Hash(_) => Ok((serializer, hash)),
        _ => Err(Refused::Malformed("it is not a hash".to_owned())),
    }
}

fn write_outer(hash: Datum, serializer: Serializer) -> Vec<u8> {
    match serializer {
        Serializer::Marshal => marshal::write_ascii(&hash, &ASCII),
        Serializer::Yaml => dump(&hash, serializer),
    }
}

fn missing(key: &str) -> Refused {
    Refused::Malformed(format!("it has no :{key}"))
}

fn wrong(key: &str) -> Refused {
    Refused::Malformed(format!("its :{key} is of a wrong type"))
}

/// The value under a key; `None` for `nil`.
fn field<'a>(hash: &'a Datum, key: &str) -> Option<&'a Datum> {
    hash.get(key).filter(|value| **value != Datum::Nil)
}

fn take(hash: &mut Datum, key: &str) -> Result<Datum, Refused> {
    let Datum::Hash(pairs) = hash else {
        return Err(missing(key));
    };
    let found = pairs.iter_mut().find(|(k, _)| k.as_str() == Some(key));
    found
        .map(|(_, value)| std::mem::take(value))
        .ok_or_else(|| missing(key))
}

fn optional(hash: &Datum, key: &str) -> Result<Option<String>, Refused> {
    let text = |value: &Datum| value.as_str().map(str::to_owned).ok_or_else(|| wrong(key));
    field(hash, key).map(text).transpose()
}

fn named<T: FromStr<Err = super::BadName>>(hash: &Datum, key: &str) -> Result<Option<T>, Refused> {
    let text = optional(hash, key)?;
    Ok(text.as_deref().map(T::from_str).transpose()?)
}

fn required<T: FromStr<Err = super::BadName>>(hash: &Datum, key: &str) -> Result<T, Refused> {
    named(hash, key)?.ok_or_else(|| missing(key))
}

/// The agent. Requests of 1.0 have only the topic they were sent to, `/topic/mcollective.AGENT.command`.
fn agent(hash: &Datum) -> Result<AgentName, Refused> {
    if let Some(agent) = named(hash, "agent")? {
        return Ok(agent);
    }
    let target = optional(hash, "msgtarget")?.unwrap_or_default();
    let topic = target.strip_suffix(".command").unwrap_or_default();
    let (_, name) = topic.rsplit_once('.').ok_or_else(|| missing("agent"))?;
    Ok(name.parse()?)
}

fn ttl(hash: &Datum, key: &str) -> Result<Option<u32>, Refused> {
    let Some(value) = field(hash, key) else {
        return Ok(None);
    };
    let seconds = value.as_int().and_then(|n| u32::try_from(n).ok());
    seconds.map(Some).ok_or_else(|| wrong(key))
}

fn time(hash: &Datum, key: &str) -> Result<i64, Refused> {
    let value = field(hash, key).ok_or_else(|| missing(key))?;
    value.as_int().ok_or_else(|| wrong(key))
}

fn body(hash: &Datum) -> Result<Vec<u8>, Refused> {
    let value = field(hash, "body").ok_or_else(|| missing("body"))?;
    let bytes = value.as_bytes().ok_or_else(|| wrong("body"))?;
    Ok(bytes.to_vec())
}

/// A body as in the hash of Ruby's plugins: a dump is binary, YAML and base64 are text.
fn body_datum(body: &[u8], proof: &Proof, serializer: Serializer) -> Datum {
    let text = serializer == Serializer::Yaml || proof.key.is_some();
    match std::str::from_utf8(body) {
        Ok(body) if text => body.into(),
        _ => Datum::Bytes(body.to_vec()),
    }
}

#[cfg(test)]
mod tests;

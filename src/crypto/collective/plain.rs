//! What the plugins SSL and AES share: plain RSA keys, callers by name, and times below the signature.

use crate::crypto::{PrivateKey, PublicKey};
use crate::wire::collective::{CallerId, Refused, Request, Serializer};
use crate::wire::ruby::{Datum, marshal, yaml};
use std::fmt;

/// Kind of all caller ids of these plugins.
const KIND: &str = "cert";

/// Finds the public key, or certificate, of a caller by name, in PEM form. It is asked for names of letters, digits, `_`, `-`
/// and dots only, none of which stands first.
pub type Callers = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Keys and rules of the plugins SSL and AES.
pub struct PlainSettings {
    /// Own key as a client.
    pub client: PrivateKey,
    /// Own caller id: `cert=<name of the key>`.
    pub caller: CallerId,
    /// The key that all servers share, its public half.
    pub server_public: PublicKey,
    /// Its private half; without it nothing can be answered.
    pub server_private: Option<PrivateKey>,
    /// Who may call.
    pub callers: Callers,
    /// Refuse where times are not signed, or other ones than those that are not signed (`enforce_ttl`).
    pub enforce_ttl: bool,
    /// What own requests are written in.
    pub serializer: Serializer,
}

impl fmt::Debug for PlainSettings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PlainSettings({}, ***)", self.caller)
    }
}

impl PlainSettings {
    /// What is known of a caller, in PEM form.
    ///
    /// # Errors
    /// [`Refused::Caller`] where the id is none of these plugins.
    pub(super) fn known(&self, caller: &CallerId) -> Result<Option<String>, Refused> {
        let name = caller.name();
        if caller.kind() != KIND || name.starts_with('.') {
            let why = format!("{caller} is not of the kind {KIND}=<name>");
            return Err(Refused::Caller(why));
        }
        Ok((self.callers)(name))
    }
}

/// Words of the keys that are signed along: `ssl` or `aes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix(pub &'static str);

impl Prefix {
    fn key(self, name: &str) -> String {
        format!("{}_{name}", self.0)
    }

    /// The body of a request together with its times: all of it gets signed (reference, sections 5 and 6).
    pub fn wrap(self, request: &Request) -> Datum {
        Datum::Hash(vec![
            (Datum::Symbol(self.key("msg")), request.body.clone()),
            (Datum::Symbol(self.key("ttl")), Datum::Int(request.ttl.into())),
            (
                Datum::Symbol(self.key("msgtime")),
                Datum::Int(request.time.into()),
            ),
        ])
    }

    /// Takes body and times out of what was signed and puts them into the request in place of those that were not.
    ///
    /// # Errors
    /// With `enforce`: times are missing or are others.
    pub fn unwrap(
        self,
        signed: Datum,
        request: &mut Request,
        enforce: bool,
    ) -> Result<(), Refused> {
        let ttl = signed.get(&self.key("ttl")).and_then(Datum::as_int);
        let time = signed.get(&self.key("msgtime")).and_then(Datum::as_int);
        if enforce && ttl != Some(request.ttl.into()) {
            return Err(Refused::Tampered("ttl"));
        }
        if enforce && time != Some(request.time) {
            return Err(Refused::Tampered("time"));
        }
        if let Some(ttl) = ttl {
            request.ttl = u32::try_from(ttl).map_err(|_| Refused::Tampered("ttl"))?;
        }
        request.time = time.unwrap_or(request.time);
        let name = self.key("msg");
        request.body = match signed {
            Datum::Hash(pairs) if pairs.iter().any(|(key, _)| key.as_str() == Some(&name)) => {
                let mut found = pairs.into_iter().filter(|(key, _)| key.as_str() == Some(&name));
                found.next().map_or(Datum::Nil, |(_, body)| body)
            }
            other => other,
        };
        Ok(())
    }
}

/// What a message is written in: nothing announces it, but its first octets tell.
///
/// # Errors
/// [`Refused::Protocol`] where it is neither.
pub(super) fn sniff(data: &[u8]) -> Result<Serializer, Refused> {
    match data {
        [4, 8, ..] => Ok(Serializer::Marshal),
        [b'-', b'-', b'-', ..] => Ok(Serializer::Yaml),
        [b'{', ..] => Err(Refused::Protocol("JSON".to_owned())),
        _ => Err(Refused::Protocol("neither Marshal nor YAML".to_owned())),
    }
}

/// Reads what Ruby wrote.
///
/// # Errors
/// It is no data, or beyond the limits.
pub(super) fn read(data: &[u8], serializer: Serializer) -> Result<Datum, Refused> {
    Ok(match serializer {
        Serializer::Marshal => marshal::read(data)?,
        Serializer::Yaml => yaml::read(data)?,
    })
}

/// Writes what Ruby reads.
pub(super) fn write(datum: &Datum, serializer: Serializer) -> Vec<u8> {
    match serializer {
        Serializer::Marshal => marshal::write(datum),
        Serializer::Yaml => yaml::write(datum).into(),
    }
}

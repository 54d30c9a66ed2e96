//! The inner documents: `mcollective:request:3` and `choria:request:1`, and their replies.
//!
//! All keys of the envelope are required, as in Go, and no others are accepted, as in Ruby.

use super::{Generation, unknown};
use crate::ruby::{Datum, DatumError, json, psych};
use crate::wire::{BadName, Filter, Form, Refused, Reply, Request};
use std::str::FromStr;

const OLD_REQUEST: &str = "mcollective:request:3";
const OLD_REPLY: &str = "mcollective:reply:3";
const REQUEST: &str = "choria:request:1";
const REPLY: &str = "choria:reply:1";

const DOCUMENT: [&str; 3] = ["protocol", "message", "envelope"];
const REQUEST_ENVELOPE: [&str; 8] = [
    "requestid",
    "senderid",
    "callerid",
    "filter",
    "collective",
    "agent",
    "ttl",
    "time",
];
const REPLY_ENVELOPE: [&str; 4] = ["senderid", "requestid", "agent", "time"];

fn malformed(what: impl Into<String>) -> Refused {
    Refused::Malformed(what.into())
}

/// Parses the text of a verified request; also returns its form.
///
/// # Errors
/// It is not such a document, lacks a key or has an unknown one, exceeds a limit, contains more than data, or a name is
/// invalid.
pub fn read_request(message: &str, generation: Generation) -> Result<(Request, Form), Refused> {
    let parts = Parts::read(message, generation, OLD_REQUEST, REQUEST, &REQUEST_ENVELOPE)?;
    let ttl = parts.int("ttl")?;
    let request = Request {
        sender: parts.name("senderid")?,
        id: parts.name("requestid")?,
        filter: Filter::read(parts.field("filter")?)?,
        collective: parts.name("collective")?,
        agent: parts.name("agent")?,
        caller: parts.name("callerid")?,
        ttl: u32::try_from(ttl).map_err(|_| malformed("its ttl is not a number of seconds"))?,
        time: parts.int("time")?,
        body: parts.body,
    };
    Ok((request, parts.form))
}

/// Parses the text of a reply; also returns its form.
///
/// # Errors
/// It is not such a document, lacks a key or has an unknown one, exceeds a limit, contains more than data, or a name is
/// invalid.
pub fn read_reply(message: &str, generation: Generation) -> Result<(Reply, Form), Refused> {
    let parts = Parts::read(message, generation, OLD_REPLY, REPLY, &REPLY_ENVELOPE)?;
    let reply = Reply {
        sender: parts.name("senderid")?,
        id: parts.name("requestid")?,
        agent: parts.name("agent")?,
        time: parts.int("time")?,
        body: parts.body,
    };
    Ok((reply, parts.form))
}

/// Writes the text of a request, in a form of Choria; any other form counts as [`Form::CHORIA_YAML`].
pub fn write_request(request: &Request, form: Form) -> String {
    let envelope = hash([
        ("requestid", request.id.as_str().into()),
        ("senderid", request.sender.as_str().into()),
        ("callerid", request.caller.as_str().into()),
        (
            "filter",
            request.filter.write(form.symbols(), &request.collective),
        ),
        ("collective", request.collective.as_str().into()),
        ("agent", request.agent.as_str().into()),
        ("ttl", Datum::Int(request.ttl.into())),
        ("time", Datum::Int(request.time.into())),
    ]);
    write(form, [OLD_REQUEST, REQUEST], &request.body, envelope)
}

/// Writes the text of a reply, in a form of Choria; any other form counts as [`Form::CHORIA_YAML`].
pub fn write_reply(reply: &Reply, form: Form) -> String {
    let envelope = hash([
        ("senderid", reply.sender.as_str().into()),
        ("requestid", reply.id.as_str().into()),
        ("agent", reply.agent.as_str().into()),
        ("time", Datum::Int(reply.time.into())),
    ]);
    write(form, [OLD_REPLY, REPLY], &reply.body, envelope)
}

fn hash<const N: usize>(pairs: [(&str, Datum); N]) -> Datum {
    let pairs = pairs.into_iter();
    Datum::Hash(pairs.map(|(key, value)| (key.into(), value)).collect())
}

fn write(form: Form, [old, new]: [&str; 2], body: &Datum, envelope: Datum) -> String {
    let (old_inner, yaml, nested) = match form {
        Form::Choria2 {
            old_inner,
            yaml,
            nested,
        } => (old_inner, yaml, nested),
        Form::Choria1 { json } => (true, !json, true),
        _ => (true, true, true),
    };
    let encode = |datum: &Datum| {
        if yaml {
            psych::write(datum)
        } else {
            json::write(datum)
        }
    };
    let message = if nested {
        body.clone()
    } else {
        Datum::Str(encode(body))
    };
    encode(&hash([
        ("protocol", if old_inner { old } else { new }.into()),
        ("message", message),
        ("envelope", envelope),
    ]))
}

/// The parts of an inner document.
struct Parts {
    body: Datum,
    envelope: Datum,
    form: Form,
}

impl Parts {
    fn read(
        message: &str,
        generation: Generation,
        old: &str,
        new: &str,
        known: &[&str],
    ) -> Result<Parts, Refused> {
        let yaml = !message.trim_start().starts_with('{');
        let document = if yaml {
            psych::read(message.as_bytes())?
        } else {
            json::read(message.as_bytes())?
        };
        let Datum::Hash(pairs) = document else {
            return Err(malformed("its document is not a hash"));
        };
        let (mut protocol, mut message, mut envelope) = (None, None, None);
        for (key, value) in pairs {
            match key.as_str() {
                Some("protocol") => protocol = Some(value),
                Some("message") => message = Some(value),
                Some("envelope") => envelope = Some(value),
                _ => return Err(stranger(&key, "document", &DOCUMENT)),
            }
        }
        let protocol = protocol.ok_or_else(|| malformed("its document names no protocol"))?;
        let protocol = protocol.as_str().unwrap_or_default();
        // A G1 server supports no other inner protocol; a G2 server supports both.
        let old_inner = match protocol {
            name if name == old => true,
            name if name == new && generation == Generation::G2 => false,
            name => return Err(unknown(name)),
        };
        let message = message.ok_or_else(|| malformed("its document has no message"))?;
        let envelope = envelope.ok_or_else(|| malformed("its document has no envelope"))?;
        let Datum::Hash(pairs) = &envelope else {
            return Err(malformed("its envelope is not a hash"));
        };
        if let Some((key, _)) = pairs
            .iter()
            .find(|(key, _)| !key.as_str().is_some_and(|key| known.contains(&key)))
        {
            return Err(stranger(key, "envelope", known));
        }
        let (body, nested) = match (generation, message) {
            (Generation::G2, Datum::Str(text)) => (unpacked(text, yaml)?, false),
            (_, value) => (value, true),
        };
        let form = match generation {
            Generation::G1 => Form::Choria1 { json: !yaml },
            Generation::G2 => Form::Choria2 {
                old_inner,
                yaml,
                nested,
            },
        };
        Ok(Parts {
            body,
            envelope,
            form,
        })
    }

    fn field(&self, key: &str) -> Result<&Datum, Refused> {
        let missing = || malformed(format!("its envelope has no {key}"));
        self.envelope.get(key).ok_or_else(missing)
    }

    fn name<T: FromStr<Err = BadName>>(&self, key: &str) -> Result<T, Refused> {
        let wrong = || malformed(format!("its {key} is not text"));
        Ok(self.field(key)?.as_str().ok_or_else(wrong)?.parse()?)
    }

    fn int(&self, key: &str) -> Result<i64, Refused> {
        let wrong = || malformed(format!("its {key} is not a whole number"));
        self.field(key)?.as_int().ok_or_else(wrong)
    }
}

fn stranger(key: &Datum, place: &str, known: &[&str]) -> Refused {
    let key: String = key.as_str().unwrap_or("?").chars().take(40).collect();
    let known = known.join(", ");
    malformed(format!(
        "its {place} has the key {key:?}; it may have {known} only"
    ))
}

/// The value that is encoded as text in a body, in the encoding of the document around it. If it cannot be decoded, the
/// text itself is the value, such as the bare `ping` of Go.
fn unpacked(text: String, yaml: bool) -> Result<Datum, Refused> {
    let read = if yaml {
        psych::read(text.as_bytes())
    } else {
        json::read(text.as_bytes())
    };
    match read {
        Ok(value) => Ok(value),
        Err(DatumError::Malformed(_)) => Ok(Datum::Str(text)),
        Err(beyond) => Err(beyond.into()),
    }
}

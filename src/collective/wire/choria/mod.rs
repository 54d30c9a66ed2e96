//! Messages of G1 and G2: a signed text in JSON (reference, sections 14 and 18).
//!
//! [`SecureRequest`] and [`SecureReply`] are the outer documents: a text with its signature or hash. The text,
//! [`SecureRequest::message`], is what was signed or hashed, byte for byte; once that is verified, [`read_request`] or
//! [`read_reply`] parses it. Nothing is signed, verified or hashed here.

mod inner;

#[cfg(test)]
mod tests;

pub use inner::{read_reply, read_request, write_reply, write_request};

use super::Refused;
use crate::ruby::{Datum, json};
use halite_wire::base64;

/// The generation of the outer document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// `mcollective::security::choria:request:1`, of 2016 and 2017.
    G1,
    /// `choria:secure:request:1`.
    G2,
}

impl Generation {
    /// `protocol` of requests.
    pub fn request(self) -> &'static str {
        match self {
            Generation::G1 => "mcollective::security::choria:request:1",
            Generation::G2 => "choria:secure:request:1",
        }
    }

    /// `protocol` of replies.
    pub fn reply(self) -> &'static str {
        match self {
            Generation::G1 => "mcollective::security::choria:reply:1",
            Generation::G2 => "choria:secure:reply:1",
        }
    }
}

/// A signed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureRequest {
    /// Its generation.
    pub generation: Generation,
    /// The inner document; exactly these bytes are signed.
    pub message: String,
    /// RSASSA-PKCS1-v1_5 with SHA-256 over the bytes of `message`.
    pub signature: Vec<u8>,
    /// Whether the base64 of the signature is in lines of 60 digits, as written by Ruby, not in one piece, as by Go.
    pub lines: bool,
    /// `pubcert`: the sender's certificate as PEM, optionally followed by the intermediates.
    pub certificate: String,
}

impl SecureRequest {
    /// Parses a signed request. Other keys are ignored, since they are not signed.
    ///
    /// # Errors
    /// It is not such a document, or it has no signature ([`Refused::Unsigned`]) or no certificate.
    pub fn read(data: &[u8]) -> Result<SecureRequest, Refused> {
        let document = json::read(data)?;
        let generation = generation(&document, Generation::request)?;
        let signature = text(&document, "signature")?.ok_or(Refused::Unsigned)?;
        let nobody = || Refused::Certificate("there is none".to_owned());
        let noise = || Refused::Malformed("its signature is not base64".to_owned());
        Ok(SecureRequest {
            generation,
            message: message(&document)?,
            certificate: text(&document, "pubcert")?.ok_or_else(nobody)?.to_owned(),
            lines: signature.contains('\n'),
            signature: base64::decode_lines(signature).ok_or_else(noise)?,
        })
    }

    /// Writes it.
    pub fn write(&self) -> Vec<u8> {
        let signature = if self.lines {
            base64::encode_ruby(&self.signature).trim_end().to_owned()
        } else {
            base64::encode(&self.signature)
        };
        document(&[
            ("protocol", self.generation.request()),
            ("message", &self.message),
            ("signature", &signature),
            ("pubcert", &self.certificate),
        ])
    }
}

/// A reply with its hash, which anybody can compute: replies are only as trustworthy as the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureReply {
    /// Its generation.
    pub generation: Generation,
    /// The inner document; `hash` is of exactly these bytes.
    pub message: String,
    /// SHA-256 of `message`: in hexadecimal in G1, in base64 in G2.
    pub hash: String,
}

impl SecureReply {
    /// Parses a reply. Other keys are ignored.
    ///
    /// # Errors
    /// It is not such a document, or it has no hash ([`Refused::Unsigned`]).
    pub fn read(data: &[u8]) -> Result<SecureReply, Refused> {
        let document = json::read(data)?;
        Ok(SecureReply {
            generation: generation(&document, Generation::reply)?,
            message: message(&document)?,
            hash: text(&document, "hash")?
                .ok_or(Refused::Unsigned)?
                .to_owned(),
        })
    }

    /// Writes it.
    pub fn write(&self) -> Vec<u8> {
        document(&[
            ("protocol", self.generation.reply()),
            ("message", &self.message),
            ("hash", &self.hash),
        ])
    }
}

fn generation(
    document: &Datum,
    protocol: fn(Generation) -> &'static str,
) -> Result<Generation, Refused> {
    let none = || Refused::Malformed("it names no protocol".to_owned());
    let name = text(document, "protocol")?.ok_or_else(none)?;
    let known = [Generation::G1, Generation::G2];
    let found = known.into_iter().find(|g| protocol(*g) == name);
    found.ok_or_else(|| unknown(name))
}

/// The error for an unknown protocol.
fn unknown(name: &str) -> Refused {
    let name: String = name.chars().take(80).collect();
    Refused::Protocol(format!("of the protocol {name:?}"))
}

fn message(document: &Datum) -> Result<String, Refused> {
    let none = || Refused::Malformed("it has no message".to_owned());
    Ok(text(document, "message")?.ok_or_else(none)?.to_owned())
}

/// A text under a key; `None` if it is missing or empty.
fn text<'a>(document: &'a Datum, key: &str) -> Result<Option<&'a str>, Refused> {
    match document.get(key) {
        None | Some(Datum::Nil) => Ok(None),
        Some(Datum::Str(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Refused::Malformed(format!("its {key} is not text"))),
    }
}

fn document(fields: &[(&str, &str)]) -> Vec<u8> {
    let pairs = fields
        .iter()
        .map(|(key, value)| (Datum::from(*key), Datum::from(*value)));
    json::write(&Datum::Hash(pairs.collect())).into_bytes()
}

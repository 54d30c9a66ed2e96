//! The JSON encoding of packets on NATS (reference, sections 15 and 18).

use super::{Federation, Packet, PacketForm, Route};
use crate::wire::Refused;
use halite_wire::base64;
use halite_wire::budget::Budget;
use halite_wire::json::parse_within;
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Largest packet accepted, in bytes.
pub const LARGEST_PACKET: usize = 8 << 20;
/// Most subjects in one `target`. Clients put up to 200 there (reference, section 16).
pub const MOST_TARGETS: usize = 1024;
/// Most hops in one `seen-by`; a route through two brokers and back has six.
pub const MOST_HOPS: usize = 64;
/// Longest header, in bytes.
const LONGEST_HEADER: usize = 1024;
/// `protocol` of packets since G2.
const PROTOCOL: &str = "choria:transport:1";

impl Packet {
    /// Parses a packet. Unknown headers are ignored.
    ///
    /// # Errors
    /// It is too large, not JSON, of another protocol, or a header is invalid.
    pub fn from_json(text: &[u8]) -> Result<Packet, Refused> {
        if text.len() > LARGEST_PACKET {
            return Err(Refused::TooLarge("bytes of a packet"));
        }
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(Refused::Malformed("the packet is not a JSON object".into()));
        }
        let wire: WirePacket = parse_within(text, &mut Budget::fixed())
            .map_err(|e| Refused::Malformed(format!("the packet: {e}")))?;
        let form = match wire.protocol.as_deref() {
            None => PacketForm::Plain,
            Some(PROTOCOL) if wire.data.contains('\n') => PacketForm::ChoriaLines,
            Some(PROTOCOL) => PacketForm::Choria,
            Some(other) => {
                let start: String = other.chars().take(80).collect();
                return Err(Refused::Protocol(format!("a packet of {start:?}")));
            }
        };
        let headers = wire.headers;
        let noise = || Refused::Malformed("data of the packet is not base64".to_owned());
        Ok(Packet {
            form,
            data: base64::decode_lines(&wire.data).ok_or_else(noise)?,
            sender: headers.sender.map(|text| text.0),
            reply_to: headers.reply_to.map(|text| text.0),
            federation: headers.federation.map(|found| Federation {
                request: found.request.0,
                reply_to: found.reply_to.map(|text| text.0),
                targets: found.targets.0.into_iter().map(|text| text.0).collect(),
            }),
            seen_by: headers
                .seen_by
                .map(|hops| hops.0.into_iter().map(|hop| hop.0).collect()),
        })
    }

    /// Writes it, in its form.
    pub fn to_json(&self) -> Vec<u8> {
        let wire = Out {
            protocol: (self.form != PacketForm::Plain).then_some(PROTOCOL),
            data: match self.form {
                PacketForm::Plain | PacketForm::ChoriaLines => base64::encode_ruby(&self.data),
                PacketForm::Choria => base64::encode(&self.data),
            },
            headers: OutHeaders {
                federation: self.federation.as_ref().map(|of| OutFederation {
                    target: &of.targets,
                    request: &of.request,
                    reply_to: of.reply_to.as_deref(),
                }),
                sender: self.sender.as_deref(),
                seen_by: self.seen_by.as_ref().map(Hops),
                reply_to: self.reply_to.as_deref(),
            },
        };
        // Texts and lists of texts can always be encoded in JSON.
        serde_json::to_vec(&wire).unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct WirePacket<'a> {
    #[serde(borrow, default)]
    protocol: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Cow<'a, str>,
    headers: WireHeaders,
}

#[derive(Deserialize)]
struct WireHeaders {
    #[serde(default, rename = "mc_sender")]
    sender: Option<Header>,
    #[serde(default, rename = "reply-to")]
    reply_to: Option<Header>,
    #[serde(default)]
    federation: Option<WireFederation>,
    #[serde(default, rename = "seen-by")]
    seen_by: Option<Bounded<Hop, MOST_HOPS>>,
}

#[derive(Deserialize)]
struct WireFederation {
    #[serde(rename = "req")]
    request: Header,
    #[serde(default, rename = "reply-to")]
    reply_to: Option<Header>,
    /// `targets` in the schema of G2, `target` in all programs (reference, section 18).
    #[serde(default, rename = "target", alias = "targets")]
    targets: Bounded<Header, MOST_TARGETS>,
}

/// A text of bounded length.
struct Header(String);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        if text.len() <= LONGEST_HEADER {
            Ok(Header(text.into_owned()))
        } else {
            Err(de::Error::custom(format!(
                "a header of more than {LONGEST_HEADER} bytes"
            )))
        }
    }
}

/// A list of bounded length; reading fails at the bound.
struct Bounded<T, const MOST: usize>(Vec<T>);

impl<T, const MOST: usize> Default for Bounded<T, MOST> {
    fn default() -> Self {
        Bounded(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
            type Value = Bounded<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a list of at most {MOST}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(one) = seq.next_element()? {
                    if out.len() == MOST {
                        return Err(de::Error::custom(format!("a list of more than {MOST}")));
                    }
                    out.push(one);
                }
                Ok(Bounded(out))
            }
        }
        from.deserialize_seq(List(PhantomData))
    }
}

/// One hop: a list of names, or one name.
struct Hop(Vec<String>);

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hop, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Hop;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a name, or a list of one to three")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Hop, E> {
                if name.len() <= LONGEST_HEADER {
                    Ok(Hop(vec![name.to_owned()]))
                } else {
                    Err(E::custom("too long a hop"))
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Hop, A::Error> {
                let mut names = Vec::new();
                while let Some(Header(name)) = seq.next_element()? {
                    if names.len() == 3 {
                        return Err(de::Error::custom("a hop of more than three names"));
                    }
                    names.push(name);
                }
                if names.is_empty() {
                    Err(de::Error::custom("a hop without a name"))
                } else {
                    Ok(Hop(names))
                }
            }
        }
        from.deserialize_any(Names)
    }
}

#[derive(Serialize)]
struct Out<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
    data: String,
    headers: OutHeaders<'a>,
}

#[derive(Serialize)]
struct OutHeaders<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    federation: Option<OutFederation<'a>>,
    #[serde(rename = "mc_sender", skip_serializing_if = "Option::is_none")]
    sender: Option<&'a str>,
    #[serde(rename = "seen-by", skip_serializing_if = "Option::is_none")]
    seen_by: Option<Hops<'a>>,
    #[serde(rename = "reply-to", skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
}

#[derive(Serialize)]
struct OutFederation<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    target: &'a [String],
    #[serde(rename = "req")]
    request: &'a str,
    #[serde(rename = "reply-to", skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
}

struct Hops<'a>(&'a Route);

impl Serialize for Hops<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(self.0.len()))?;
        for hop in self.0 {
            match hop.as_slice() {
                [one] => list.serialize_element(one)?,
                names => list.serialize_element(names)?,
            }
        }
        list.end()
    }
}

#[cfg(test)]
mod tests;

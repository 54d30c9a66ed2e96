//! The outer shape of every request on port 4506 (reference `salt-protocol.md` 1.5, 1.6).

use super::ids::MinionId;
use super::msgpack::{DecodeError, Item, Reader};
use super::{Map, Value};

/// A request as received; its bytes borrow from the message.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    /// Protocol version the sender claims; 0 if it claims none.
    pub version: i64,
    /// Plaintext, or encrypted with a session key.
    pub body: Body<'a>,
}

/// What an envelope holds.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// `enc: clear`; the load is not decoded yet.
    Clear {
        /// msgpack of the load.
        load: &'a [u8],
    },
    /// Any other `enc`, which Salt treats as `aes`.
    Sealed {
        /// The plaintext id: selects the session key, proves nothing.
        id: Option<&'a str>,
        /// Crypticle output.
        load: &'a [u8],
        /// Algorithm to encrypt a pillar key with.
        enc_algo: Option<&'a str>,
        /// Algorithm to sign a pillar with.
        sig_algo: Option<&'a str>,
    },
}

/// Why a request is refused before anything is decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a msgpack document.
    NotMsgpack,
    /// No envelope, a missing field, or a protocol version below the floor.
    BadLoad,
    /// The load is not a map.
    NotAMap,
    /// The id contains NUL.
    NulInId,
    /// The id is not text; holds Python's `str()` of it.
    IdNotText(String),
}

impl Refusal {
    /// The reply Salt gives (`salt/channel/server.py ReqServerChannel.handle_message`).
    pub fn reply(&self) -> Value {
        match self {
            Refusal::NotMsgpack => Value::Map(crate::map! {"msg" => "bad load"}),
            Refusal::BadLoad => "bad load".into(),
            Refusal::NotAMap => "payload and load must be a dict".into(),
            Refusal::NulInId => "bad load: id contains a null byte".into(),
            Refusal::IdNotText(id) => format!("bad load: id {id} is not a string").into(),
        }
    }
}

impl From<DecodeError> for Refusal {
    fn from(_: DecodeError) -> Refusal {
        Refusal::NotMsgpack
    }
}

impl<'a> Envelope<'a> {
    /// Reads an envelope without copying or decoding its load.
    pub fn parse(bytes: &'a [u8]) -> Result<Envelope<'a>, Refusal> {
        let mut reader = Reader::new(bytes);
        let Item::Map(pairs) = reader.item()? else {
            let mut whole = Reader::new(bytes);
            whole.skip()?;
            return Err(if whole.rest().is_empty() {
                Refusal::BadLoad
            } else {
                Refusal::NotMsgpack
            });
        };
        let (mut enc, mut load, mut version) = (None, None, 0);
        let (mut id, mut enc_algo, mut sig_algo) = (None, None, None);
        for _ in 0..pairs {
            let key = text(reader.item()?);
            match key {
                Some("load") => load = Some(reader.skip()?),
                Some("enc") => enc = text(item(&mut reader)?),
                Some("id") => id = text(item(&mut reader)?),
                Some("enc_algo") => enc_algo = text(item(&mut reader)?),
                Some("sig_algo") => sig_algo = text(item(&mut reader)?),
                Some("version") => {
                    if let Item::Int(n) = item(&mut reader)? {
                        version = n;
                    }
                }
                _ => {
                    reader.skip()?;
                }
            }
        }
        if !reader.rest().is_empty() {
            return Err(Refusal::NotMsgpack);
        }
        let (Some(enc), Some(load)) = (enc, load) else {
            return Err(Refusal::BadLoad);
        };
        let body = if enc == "clear" {
            Body::Clear { load }
        } else {
            let (Item::Str(load) | Item::Bin(load)) = Reader::new(load).item()? else {
                return Err(Refusal::BadLoad);
            };
            Body::Sealed {
                id,
                load,
                enc_algo,
                sig_algo,
            }
        };
        Ok(Envelope { version, body })
    }
}

/// One item; a collection is skipped whole, so that the next call reads the item after it.
fn item<'a>(reader: &mut Reader<'a>) -> Result<Item<'a>, DecodeError> {
    let mut ahead = reader.clone();
    let item = ahead.item()?;
    reader.skip()?;
    Ok(item)
}

fn text(item: Item<'_>) -> Option<&str> {
    match item {
        Item::Str(s) | Item::Bin(s) => std::str::from_utf8(s).ok(),
        _ => None,
    }
}

/// Decodes a clear load and applies the checks that precede every handler.
pub fn clear_load(load: &[u8]) -> Result<Map, Refusal> {
    let Value::Map(map) = super::msgpack::decode(load)? else {
        return Err(Refusal::NotAMap);
    };
    check_id(&map)?;
    Ok(map)
}

/// Checks that the id of a load, if it has one, is text without NUL.
pub fn check_id(load: &Map) -> Result<(), Refusal> {
    match load.get("id") {
        None => Ok(()),
        Some(Value::Str(s)) if s.contains('\0') => Err(Refusal::NulInId),
        Some(Value::Str(_)) => Ok(()),
        Some(Value::Int(n)) => Err(Refusal::IdNotText(n.to_string())),
        Some(Value::Nil) => Err(Refusal::IdNotText("None".into())),
        Some(Value::Bool(b)) => Err(Refusal::IdNotText(if *b { "True" } else { "False" }.into())),
        Some(other) => {
            let shown = serde_json::to_string(other).unwrap_or_default();
            Err(Refusal::IdNotText(shown.chars().take(64).collect()))
        }
    }
}

/// Finds `cmd` at the start of a load's msgpack, which may be truncated anywhere.
/// Stock peers put `cmd` first or, in `_minion_event`, second.
pub fn peek_cmd(load: &[u8]) -> Option<&str> {
    let mut reader = Reader::new(load);
    let Item::Map(pairs) = reader.item().ok()? else {
        return None;
    };
    for _ in 0..pairs {
        if text(reader.item().ok()?) == Some("cmd") {
            return text(reader.item().ok()?);
        }
        reader.skip().ok()?;
    }
    None
}

/// Whether a clear load has credentials for external authentication: `eauth` at its top level
/// (`runner`, `wheel`, `mk_token`) or in its `kwargs` (`publish`).
pub fn peek_login(load: &[u8]) -> bool {
    has_eauth(load, true).unwrap_or(false)
}

fn has_eauth(map: &[u8], inner: bool) -> Option<bool> {
    let mut reader = Reader::new(map);
    let Item::Map(pairs) = reader.item().ok()? else {
        return None;
    };
    for _ in 0..pairs {
        let key = text(item(&mut reader).ok()?);
        let value = reader.skip().ok()?;
        let found = match key {
            Some("eauth") => true,
            Some("kwargs") if inner => has_eauth(value, false).unwrap_or(false),
            _ => false,
        };
        if found {
            return Some(true);
        }
    }
    Some(false)
}

/// The envelope's id as a parsed id.
pub fn envelope_id(id: Option<&str>) -> Option<MinionId> {
    id.and_then(|id| id.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::{Profile, encode_map};

    fn parse(map: Map) -> Result<String, Refusal> {
        let bytes = encode_map(&map, Profile::Wire);
        Envelope::parse(&bytes).map(|e| format!("{e:?}"))
    }

    #[test]
    fn shapes_are_told_apart() {
        let load = crate::map! {"cmd" => "ping"};
        let bytes = encode_map(
            &crate::map! {"enc" => "clear", "load" => load.clone(), "version" => 3},
            Profile::Wire,
        );
        let envelope = Envelope::parse(&bytes).unwrap();
        assert_eq!(envelope.version, 3);
        let Body::Clear { load: raw } = envelope.body else {
            panic!()
        };
        assert_eq!(clear_load(raw).unwrap(), load);
        assert_eq!(peek_cmd(raw), Some("ping"));

        let sealed =
            crate::map! {"enc" => "aes", "load" => vec![0xffu8; 40], "version" => 3, "id" => "m"};
        let bytes = encode_map(&sealed, Profile::Wire);
        let Body::Sealed { id, load, .. } = Envelope::parse(&bytes).unwrap().body else {
            panic!()
        };
        assert_eq!((id, load.len()), (Some("m"), 40));
    }

    #[test]
    fn refusals_are_salts() {
        assert_eq!(
            parse(crate::map! {"enc" => "clear"}).unwrap_err(),
            Refusal::BadLoad
        );
        assert_eq!(
            parse(crate::map! {"enc" => "aes", "load" => 5}).unwrap_err(),
            Refusal::BadLoad
        );
        assert_eq!(Envelope::parse(b"\xc1").unwrap_err(), Refusal::NotMsgpack);
        assert_eq!(Envelope::parse(b"").unwrap_err(), Refusal::NotMsgpack);
        assert_eq!(Envelope::parse(b"\xa3foo").unwrap_err(), Refusal::BadLoad);
        assert_eq!(clear_load(b"\xa1x").unwrap_err(), Refusal::NotAMap);
        let nul = crate::map! {"id" => "a\0b"};
        assert_eq!(check_id(&nul).unwrap_err(), Refusal::NulInId);
        assert_eq!(
            check_id(&crate::map! {"id" => 5}).unwrap_err().reply(),
            Value::from("bad load: id 5 is not a string")
        );
    }

    #[test]
    fn a_cut_load_still_names_its_command() {
        let load = crate::map! {"id" => "m1", "cmd" => "_minion_event", "data" => "x".repeat(500)};
        let bytes = encode_map(&load, Profile::Wire);
        assert_eq!(peek_cmd(&bytes[..60]), Some("_minion_event"));
        assert_eq!(peek_cmd(&bytes[..5]), None);
    }

    #[test]
    fn logins_are_seen() {
        let seen = |map: Map| peek_login(&encode_map(&map, Profile::Wire));
        let inner = |key: &str| crate::map! {"cmd" => "publish", "arg" => vec!["eauth".to_owned()], "kwargs" => crate::map! {key => "pam"}};
        assert!(seen(inner("eauth")));
        assert!(!seen(inner("token")));
        assert!(seen(crate::map! {"cmd" => "runner", "eauth" => "x"}));
        let deep = crate::map! {"kwargs" => crate::map! {"kwargs" => crate::map! {"eauth" => "x"}}};
        assert!(!seen(deep));
        assert!(!peek_login(b"\x82\xa3cmd"));
    }
}

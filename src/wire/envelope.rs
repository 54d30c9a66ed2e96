//! The outer shape of every request on port 4506 (reference `salt-protocol.md` 1.5, 1.6).

use super::budget::Budget;
use super::ids::MinionId;
use super::msgpack::{self, DecodeError, Item, Reader, fields};
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
        /// How it is encrypted.
        enc: &'a str,
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
    fn from(error: DecodeError) -> Refusal {
        match error {
            DecodeError::BadFields => Refusal::BadLoad,
            _ => Refusal::NotMsgpack,
        }
    }
}

impl<'a> Envelope<'a> {
    /// Reads an envelope without copying or decoding its load.
    pub fn parse(bytes: &'a [u8]) -> Result<Envelope<'a>, Refusal> {
        let mut found = fields(bytes).map_err(|e| not_fields(bytes, e))?;
        let (mut enc, mut load, mut version) = (None, None, 0);
        let (mut id, mut enc_algo, mut sig_algo) = (None, None, None);
        for field in found.by_ref() {
            let (name, value) = field?;
            let text = || text(value);
            match name {
                "load" => load = Some(value),
                "enc" => enc = text(),
                "id" => id = text(),
                "enc_algo" => enc_algo = text(),
                "sig_algo" => sig_algo = text(),
                "version" => {
                    if let Item::Int(n) = Reader::new(value).item()? {
                        version = n;
                    }
                }
                _ => {}
            }
        }
        if !found.rest().is_empty() {
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
                enc,
                id,
                load,
                enc_algo,
                sig_algo,
            }
        };
        Ok(Envelope { version, body })
    }
}

/// Bytes that are no map of fields: something else in msgpack, or not msgpack at all.
fn not_fields(bytes: &[u8], error: DecodeError) -> Refusal {
    let mut whole = Reader::new(bytes);
    match whole.skip() {
        Ok(_) if whole.rest().is_empty() => error.into(),
        _ => Refusal::NotMsgpack,
    }
}

/// A value that is text.
fn text(value: &[u8]) -> Option<&str> {
    Reader::new(value).item().ok()?.text()
}

/// A load in the clear, from anybody.
#[derive(Clone, Debug, PartialEq)]
pub struct ClearLoad<'a> {
    /// What the request server went by.
    pub head: Head<'a>,
    /// All of it.
    pub load: Map,
}

/// Decodes a clear load and applies the checks that precede every handler.
pub fn clear_load(load: &[u8]) -> Result<ClearLoad<'_>, Refusal> {
    let head = Head::of(load)?;
    let load = msgpack::decode_load(load, Budget::fixed())?;
    check_id(&load)?;
    Ok(ClearLoad { head, load })
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

/// What decides where a clear load goes. The request server, which queues and limits requests, and the worker, which runs them,
/// read it from the same bytes in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The command.
    pub cmd: Option<&'a str>,
    /// Whether there are credentials for external authentication: `eauth` in the load (`runner`, `wheel`, `mk_token`) or in
    /// its `kwargs` (`publish`).
    pub login: bool,
}

impl<'a> Head<'a> {
    /// Reads the head of a whole load.
    ///
    /// # Errors
    /// The load is not a map, or its names or those of its `kwargs` are not texts, each once.
    pub fn of(load: &'a [u8]) -> Result<Head<'a>, Refusal> {
        if !matches!(Reader::new(load).item()?, Item::Map(_)) {
            return Err(Refusal::NotAMap);
        }
        let mut head = Head::default();
        for field in fields(load)? {
            match field? {
                ("cmd", value) => head.cmd = text(value),
                ("eauth", _) => head.login = true,
                ("kwargs", value) if is_map(value) => {
                    for inner in fields(value)? {
                        head.login |= inner?.0 == "eauth";
                    }
                }
                _ => {}
            }
        }
        Ok(head)
    }
}

fn is_map(value: &[u8]) -> bool {
    matches!(Reader::new(value).item(), Ok(Item::Map(_)))
}

/// Finds `cmd` at the start of a load, which may be cut short anywhere. Stock peers put it first or, in `_minion_event`,
/// second. If the whole load can be [decoded](msgpack::decode_load), its command is this one.
pub fn peek_cmd(load: &[u8]) -> Option<&str> {
    let mut whole = fields(load).ok()?.map_while(Result::ok);
    text(whole.find(|(name, _)| *name == "cmd")?.1)
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
        assert_eq!(clear_load(raw).unwrap().load, load);
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
        let seen = |map: Map| Head::of(&encode_map(&map, Profile::Wire)).unwrap().login;
        let inner = |key: &str| crate::map! {"cmd" => "publish", "arg" => vec!["eauth".to_owned()], "kwargs" => crate::map! {key => "pam"}};
        assert!(seen(inner("eauth")));
        assert!(!seen(inner("token")));
        assert!(seen(crate::map! {"cmd" => "runner", "eauth" => "x"}));
        let deep = crate::map! {"kwargs" => crate::map! {"kwargs" => crate::map! {"eauth" => "x"}}};
        assert!(!seen(deep));
        assert!(!seen(crate::map! {"kwargs" => 5}));
        assert!(Head::of(b"\x82\xa3cmd").is_err());
    }

    /// What one reader takes for the command, the other must not take for something else.
    #[test]
    fn loads_that_say_two_things_are_refused() {
        let twice = crate::map! {"cmd" => "ping", "id" => "m"};
        let twice = Map([twice.0.clone(), crate::map! {"cmd" => "_auth"}.0].concat());
        let bytes = encode_map(&twice, Profile::Wire);
        assert_eq!(clear_load(&bytes), Err(Refusal::BadLoad));
        assert_eq!(Head::of(&bytes), Err(Refusal::BadLoad));
        let hidden = b"\x82\xa2id\xa1m\xc7\x03\x4ecmd\xa5_auth";
        assert_eq!(clear_load(hidden), Err(Refusal::BadLoad));
        let listed = b"\x82\x92\xa3cmd\xa4ping\xc0\xa3cmd\xa5_auth";
        assert_eq!(clear_load(listed), Err(Refusal::BadLoad));
        // A command that is not text is none for both.
        let odd = b"\x81\xa3cmd\xc7\x05\x4e_auth";
        assert_eq!(clear_load(odd).unwrap().head.cmd, None);
        let mut kwargs = crate::map! {"eauth" => "pam", "x" => 1};
        kwargs.0.push(("eauth".into(), "file".into()));
        let kwargs = encode_map(&crate::map! {"kwargs" => kwargs}, Profile::Wire);
        assert_eq!(clear_load(&kwargs), Err(Refusal::BadLoad));
        let mut envelope = crate::map! {"enc" => "aes", "load" => "x"};
        envelope.0.push(("enc".into(), "clear".into()));
        assert_eq!(parse(envelope), Err(Refusal::BadLoad));
    }

    proptest::proptest! {
        #[test]
        fn the_head_is_the_loads(
            pairs in proptest::collection::vec(("(cmd|id|eauth|kwargs)", "(ping|_auth|x)", 0u8..5), 0..5),
        ) {
            let pair = |(name, value, kind): (String, String, u8)| -> (Value, Value) {
                match kind {
                    0 => (name.as_bytes().into(), value.into()),
                    1 => (name.into(), crate::map! {value => 1}.into()),
                    2 => (name.into(), vec![Value::from(value)].into()),
                    _ => (name.into(), value.into()),
                }
            };
            let bytes = encode_map(&Map(pairs.into_iter().map(pair).collect()), Profile::Local);
            if let Ok(clear) = clear_load(&bytes) {
                proptest::prop_assert_eq!(clear.head.cmd, clear.load.str("cmd"));
                proptest::prop_assert_eq!(peek_cmd(&bytes), clear.head.cmd);
                let kwargs = clear.load.get("kwargs").and_then(Value::as_map);
                let login = clear.load.contains("eauth") || kwargs.is_some_and(|k| k.contains("eauth"));
                proptest::prop_assert_eq!(login, clear.head.login);
            }
        }
    }
}

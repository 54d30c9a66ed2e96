//! The captured transcripts against the gateway: what minions said is said again, byte by byte,
//! and every answer is held against the table of recommended answers (reference 7).

use super::{Heard, Wire};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// All transcripts.
pub fn transcripts() -> Vec<Json> {
    serde_json::from_str(include_str!("../../../vectors/sysinspect/transcripts.json")).unwrap()
}

/// How a connection speaks, told apart here without the program's own code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Seed,
    List,
    Single,
}

struct Conn {
    wire: Wire,
    shape: Option<Shape>,
    session: Option<String>,
    open: bool,
}

/// A gateway that accepts every key, and what it should know.
pub struct Stage {
    port: u16,
    pem: String,
    conns: BTreeMap<u64, Conn>,
    known: BTreeSet<String>,
    live: BTreeMap<String, u64>,
    /// Frames said and answers checked.
    pub said: usize,
    pub checked: usize,
}

impl Stage {
    /// At a gateway whose public key is `pem`, without any minion.
    pub fn new(port: u16, pem: &str) -> Stage {
        Stage {
            port,
            pem: pem.to_owned(),
            conns: BTreeMap::new(),
            known: BTreeSet::new(),
            live: BTreeMap::new(),
            said: 0,
            checked: 0,
        }
    }

    /// Plays one transcript with numbered connections; open ones stay for the next.
    pub fn play(&mut self, transcript: &Json) {
        for frame in transcript["frames"].as_array().unwrap() {
            let Some(number) = frame["connection"].as_u64() else {
                panic!("{} has no connections", transcript["name"]);
            };
            let about = format!("{} c{number}", transcript["name"]);
            match (frame["event"].as_str(), frame["from"].as_str()) {
                (Some("minion closes"), _) => self.close(number, &about),
                (None, Some("minion")) => self.say(number, frame["body"].as_str().unwrap(), &about),
                _ => {}
            }
        }
    }

    /// Says one body on a connection, which begins if need be, and checks what comes back.
    pub fn say(&mut self, number: u64, body: &str, about: &str) {
        let port = self.port;
        let conn = self.conns.entry(number).or_insert_with(|| Conn {
            wire: Wire::connect(port),
            shape: None,
            session: None,
            open: true,
        });
        conn.wire.say(body);
        self.said += 1;
        if !conn.open {
            return;
        }
        let about = format!("{about}: {:.100}", body);
        let Some(message) = readable(body) else {
            // Nothing is said about it; the connection may end if there is nothing to go by.
            let heard = conn.wire.glance();
            assert!(!matches!(heard, Heard::Frame(_)), "{about}: {heard:?}");
            conn.open = heard == Heard::Nothing;
            self.checked += 1;
            return;
        };
        let shape = *conn.shape.get_or_insert(shape_of(&message));
        let answer = self.expected(number, &message, shape);
        self.check(number, &message, shape, answer, &about);
    }

    /// Closes a connection, on which nothing more may have come.
    pub fn close(&mut self, number: u64, about: &str) {
        if let Some(mut conn) = self.conns.remove(&number) {
            let heard = conn.wire.glance();
            assert!(!matches!(heard, Heard::Frame(_)), "{about}: {heard:?}");
            self.live.retain(|_, holder| *holder != number);
            drop(conn);
            // The master sees the end of the connection at its own time.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// The answer that the table names: type, code, payload, and whether the connection ends.
    fn expected(
        &mut self,
        number: u64,
        message: &Json,
        shape: Shape,
    ) -> Option<(&'static str, u64, Json, bool)> {
        let id = message["id"].as_str().unwrap().to_owned();
        let in_session = self.live.get(&id) == Some(&number);
        let empty = message["d"] == "";
        match message["r"].as_str().unwrap() {
            "ssr" if in_session => Some(("ssp", 0, Json::Null, false)),
            _ if in_session => None,
            "ehlo" => {
                let told = match message["sid"].as_str() {
                    Some(sid) => sid.to_owned(),
                    None if shape == Shape::List => message["d"].as_str().unwrap().to_owned(),
                    None => String::new(),
                };
                if !self.known.contains(&id) {
                    return Some(("undef", 3, self.pem.as_str().into(), true));
                }
                if self.live.contains_key(&id) {
                    return Some(("cmd", 5, told.into(), true));
                }
                self.live.insert(id, number);
                self.conns.get_mut(&number).unwrap().session = Some(told.clone());
                Some(("tr", 1, told.into(), false))
            }
            "add" if self.known.contains(&id) => Some(("retry", 4, Json::Null, true)),
            "add" if shape == Shape::Seed && empty => {
                Some(("add", 1, self.pem.as_str().into(), false))
            }
            "add" => {
                self.known.insert(id);
                Some(("retry", 1, Json::Null, true))
            }
            _ => None,
        }
    }

    fn check(
        &mut self,
        number: u64,
        message: &Json,
        shape: Shape,
        answer: Option<(&str, u64, Json, bool)>,
        about: &str,
    ) {
        self.checked += 1;
        let conn = self.conns.get_mut(&number).unwrap();
        let Some((kind, code, payload, ends)) = answer else {
            // Checked again when the connection closes; here what comes at once is enough.
            return;
        };
        let Heard::Frame(heard) = conn.wire.hear() else {
            panic!("{about}: no answer, {kind} {code} was expected");
        };
        assert_eq!(
            (&heard["r"], &heard["c"]),
            (&json!(kind), &json!(code)),
            "{about}: {heard}"
        );
        well_formed(&heard, shape, about);
        if kind != "ssp" {
            let id = match shape {
                Shape::Single => &heard["t"]["id"],
                _ => &heard["t"][0]["id"][0],
            };
            assert_eq!(id, &message["id"], "{about}: {heard}");
        }
        if !payload.is_null() {
            let found = match shape {
                Shape::Seed => {
                    let octets =
                        halite::wire::base64::decode(heard["d"].as_str().unwrap().as_bytes());
                    String::from_utf8(octets.unwrap()).unwrap().into()
                }
                _ => heard["d"].clone(),
            };
            assert_eq!(found, payload, "{about}");
        }
        if ends {
            assert_eq!(conn.wire.hear(), Heard::Closed, "{about}");
            conn.open = false;
        }
    }
}

/// A body that real masters take for a message.
fn readable(body: &str) -> Option<Json> {
    let message: Json = serde_json::from_str(body).ok()?;
    let known = "add rm rsp cmd tr ehlo retry pi po undef b ba evt mvt ssr ssp";
    let kind = message["r"].as_str()?;
    let whole = message["id"].is_string() && message["c"].is_u64() && !message["d"].is_null();
    (whole && known.split(' ').any(|k| k == kind)).then_some(message)
}

fn shape_of(message: &Json) -> Shape {
    let text = message["d"].as_str().unwrap_or_default();
    if message.get("sid").is_some() {
        Shape::Single
    } else if text.contains('-') {
        Shape::List
    } else {
        Shape::Seed
    }
}

/// Whether real minions of that time would decode it: every key that they require is there.
fn well_formed(heard: &Json, shape: Shape, about: &str) {
    assert!(
        heard["d"].is_string() || shape == Shape::Single,
        "{about}: {heard}"
    );
    match shape {
        Shape::Single => {
            assert_eq!(
                heard["cl"].as_str().map(str::len),
                Some(36),
                "{about}: {heard}"
            );
            for key in ["id", "sid", "s", "qt", "cq"] {
                assert!(heard["t"][key].is_string(), "{about}, {key}: {heard}");
            }
            assert!(heard["t"]["h"].is_array(), "{about}: {heard}");
        }
        _ => {
            for target in heard["t"].as_array().unwrap() {
                let whole =
                    target["id"].is_array() && target["h"].is_array() && target["t"].is_object();
                assert!(whole, "{about}: {heard}");
            }
        }
    }
}

/// What was shortened in the reference is made whole: keys, and the traits of an `ehlo`.
pub fn whole(body: &str, pem: &str) -> String {
    let marked = "-----BEGIN RSA PUBLIC KEY----- ... -----END RSA PUBLIC KEY-----";
    let escaped = serde_json::to_string(pem).unwrap();
    let body = body.replace(marked, escaped.trim_matches('"'));
    match body.find(" ...[") {
        None => body,
        Some(_) => {
            let (head, tail) = body.split_once(r#","d":"#).unwrap();
            let data = match tail.starts_with('"') {
                true => r#""{}""#,
                false => r#"{"system.hostname":"web-1"}"#,
            };
            format!(r#"{head},"d":{data},"c":0}}"#)
        }
    }
}

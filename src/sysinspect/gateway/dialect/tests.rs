//! The encoding of messages in each dialect.

use super::*;

const UUID: &str = "2407458d-fa33-419a-9e26-9e783ec17a73";

fn written(say: &Outbound, dialect: Dialect) -> String {
    let id = "a1".parse().unwrap();
    let to = To {
        id: &id,
        session: UUID,
        dialect,
        master_key: "PEM",
    };
    let frame = say.frame(&to, "CYCLE").unwrap();
    String::from_utf8(frame[4..].to_vec()).unwrap()
}

fn all(say: &Outbound) -> [String; 3] {
    [Dialect::Seed, Dialect::E1, Dialect::Modern].map(|dialect| {
        let text = written(say, dialect);
        let text = text
            .strip_prefix(r#"{"cl":"CYCLE","t":"#)
            .unwrap()
            .to_owned();
        let list = r#"[{"id":["a1"],"t":{},"h":[]}],"#;
        match text.strip_prefix(list) {
            Some(rest) => {
                assert_ne!(dialect, Dialect::Modern);
                rest.to_owned()
            }
            None => text.replace(r#"{"id":"a1","sid":"","s":"","qt":"","h":[],"cq":""},"#, ""),
        }
    })
}

#[test]
fn answers() {
    for (say, expected) in [
        (
            Outbound::Undefined(Code::NotRegistered),
            [
                r#""r":"undef","d":"UEVN","c":3}"#,
                r#""r":"undef","d":"PEM","c":3}"#,
                r#""r":"undef","d":"PEM","c":3}"#,
            ],
        ),
        (
            Outbound::Retry(Code::AlreadyRegistered, "known"),
            [
                r#""r":"retry","d":"a25vd24=","c":4}"#,
                r#""r":"retry","d":"known","c":4}"#,
                r#""r":"retry","d":"known","c":4}"#,
            ],
        ),
        (
            Outbound::Ping,
            [
                r#""r":"pi","d":"","c":0}"#,
                r#""r":"pi","d":"","c":0}"#,
                r#""r":"pi","d":"pt:g","c":0}"#,
            ],
        ),
        (Outbound::Remove, [r#""r":"rm","d":"","c":0}"#; 3]),
    ] {
        assert_eq!(all(&say), expected);
    }
    let welcome = written(&Outbound::Welcome(UUID.to_owned()), Dialect::Modern);
    let expected = format!(
        r#"{{"cl":"CYCLE","t":{{"id":"a1","sid":"{UUID}","s":"","qt":"","h":[],"cq":""}},"r":"tr","d":"{UUID}","c":1}}"#
    );
    assert_eq!(welcome, expected);
    let welcome = written(&Outbound::Welcome(String::new()), Dialect::Seed);
    assert!(welcome.ends_with(r#""r":"tr","d":"","c":1}"#));
}

#[test]
fn commands() {
    let say = Outbound::Command {
        scheme: "m/e/s".to_owned(),
        words: vec!["two words".to_owned()],
        context: vec![("n".to_owned(), "5".to_owned())],
    };
    let modern = written(&say, Dialect::Modern);
    let target = r#"{"id":"a1","sid":"","s":"m/e/s","qt":"","h":[],"cq":"two words,n:5"}"#;
    assert!(modern.contains(target), "{modern}");
    assert!(modern.contains(r#""uri":"m/e/s"},"c":1}"#), "{modern}");
    let e1 = written(&say, Dialect::E1);
    assert!(
        e1.ends_with(r#""r":"cmd","d":"m/e/s 'two words' n=5","c":0}"#),
        "{e1}"
    );
}

fn heard(body: &str, dialect: Dialect) -> Inbound {
    let message = MinionMessage::decode(body.as_bytes(), dialect).unwrap();
    Inbound::of(&message, dialect)
}

#[test]
fn what_minions_say() {
    let e1 = format!(r#"{{"id":"a1","r":"ehlo","d":"{UUID}","c":0}}"#);
    let hello = |traits| Inbound::Hello {
        session: UUID.to_owned(),
        cipher: None,
        traits,
    };
    assert_eq!(heard(&e1, Dialect::E1), hello(None));
    let e2 = format!(r#"{{"id":"a1","sid":"{UUID}","r":"ehlo","d":"{UUID}","c":0}}"#);
    assert_eq!(heard(&e2, Dialect::Modern), hello(None));
    let e3 = format!(r#"{{"id":"a1","sid":"{UUID}","r":"ehlo","d":{{"a.b":1}},"c":0}}"#);
    assert_eq!(
        heard(&e3, Dialect::Modern),
        hello(Some(halite_wire::map! {"a.b" => 1}))
    );
    let seed = heard(r#"{"id":"a1","r":"ehlo","d":"/w==","c":0}"#, Dialect::Seed);
    assert_eq!(
        seed,
        Inbound::Hello {
            session: String::new(),
            cipher: Some(vec![0xff]),
            traits: None
        }
    );
    let traits = Inbound::Traits(halite_wire::map! {"a.b" => 1});
    let e2 = r#"{"id":"a1","sid":"","r":"tr","d":"{\"a.b\":1}","c":0}"#;
    assert_eq!(heard(e2, Dialect::Modern), traits);
    let seed = r#"{"id":"a1","r":"tr","d":"eyJhLmIiOjF9","c":0}"#;
    assert_eq!(heard(seed, Dialect::Seed), traits);
    let pong = r#"{"id":"a1","sid":"","r":"po","d":{"pt":"pt:g","pl":{"cd":["x"]}},"c":0}"#;
    assert_eq!(
        heard(pong, Dialect::Modern),
        Inbound::Pong(vec!["x".to_owned()])
    );
    let event = r#"{"id":"a1","sid":"","r":"evt","d":{"cid":"x"},"c":0}"#;
    assert_eq!(
        heard(event, Dialect::Modern),
        Inbound::Action {
            cycle: Some("x".to_owned()),
            value: halite_wire::map! {"cid" => "x"}.into()
        }
    );
    let stray = r#"{"id":"a1","sid":"","r":"cmd","d":"","c":0}"#;
    assert_eq!(
        heard(stray, Dialect::Modern),
        Inbound::Stray(MessageKind::Cmd)
    );
}

//! The plugins against captured messages of the original programs, against each other, and against tampering.

mod aes;
mod choria;
mod psk;
mod ssl;

use super::testing::NOW;
use super::*;
use crate::ruby::Datum;
use crate::wire::core::CoreRequest;
use crate::wire::{FactFilter, Filter, Serializer};
use halite_wire::base64;
use serde_json::Value as Json;

/// A file of captured messages.
fn capture(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn messages(capture: &Json) -> &[Json] {
    capture["messages"].as_array().unwrap()
}

fn base64_bytes(text: &Json) -> Vec<u8> {
    base64::decode(text.as_str().unwrap().as_bytes()).unwrap()
}

fn symbol(name: &str) -> Datum {
    Datum::symbol(name)
}

fn request(caller: &str) -> Request {
    Request {
        body: Datum::Hash(vec![
            (symbol("agent"), "package".into()),
            (symbol("action"), "status".into()),
            (symbol("caller"), caller.into()),
            (
                symbol("data"),
                Datum::Hash(vec![
                    (symbol("name"), "bäsh".into()),
                    (symbol("process_results"), Datum::Bool(true)),
                ]),
            ),
        ]),
        sender: "client.example".parse().unwrap(),
        id: "b7ab52b4ac2155b19571e188e952b4aa".parse().unwrap(),
        filter: Filter {
            facts: vec![FactFilter {
                fact: "country".into(),
                operator: Some("==".into()),
                value: "uk".into(),
                symbols: true,
            }],
            classes: vec!["/web/".into()],
            agents: vec!["package".into()],
            ..Filter::default()
        },
        collective: "mcollective".parse().unwrap(),
        agent: "package".parse().unwrap(),
        caller: caller.parse().unwrap(),
        ttl: 60,
        time: NOW,
    }
}

fn reply() -> Reply {
    Reply {
        body: Datum::Hash(vec![
            (symbol("statuscode"), Datum::Int(0)),
            (symbol("statusmsg"), "OK".into()),
            (
                symbol("data"),
                Datum::Hash(vec![(symbol("ensure"), "5.2-2".into())]),
            ),
        ]),
        sender: "node1.example".parse().unwrap(),
        id: "b7ab52b4ac2155b19571e188e952b4aa".parse().unwrap(),
        agent: "package".parse().unwrap(),
        time: NOW,
    }
}

/// Both directions between two ends, and tampering: with each byte changed in turn, the message is refused, or reads the
/// same, or differs only in what `free` allows, because it is not protected.
fn both_ways(client: &dyn Security, server: &dyn Security, free: fn(&Request, &Request) -> bool) {
    // For AES only every third byte, since its thousands of rounds of MD5 are slow.
    let step = if matches!(client.form(), Form::Aes(_)) {
        3
    } else {
        1
    };
    let asked = request(client.caller().as_str());
    let data = client.seal_request(&asked).unwrap();
    let (heard, form) = server.open_request(&data).unwrap();
    assert_eq!((&heard, form), (&asked, client.form()));
    let answer = server.seal_reply(&reply(), form, &heard.caller).unwrap();
    assert_eq!(client.open_reply(&answer).unwrap(), reply());
    for at in (0..data.len()).step_by(step) {
        let mut other = data.clone();
        other[at] ^= 1 << (at % 8);
        if let Ok((heard, _)) = server.open_request(&other) {
            assert!(
                heard == asked || free(&heard, &asked),
                "octet {at}: {heard:?}"
            );
        }
    }
    for end in (0..data.len()).step_by(7) {
        assert!(server.open_request(&data[..end]).is_err(), "{end}");
    }
}

/// The parts of a request that must not change with PSK, SSL and AES; all others are not signed.
fn envelope(heard: &Request, asked: &Request) -> bool {
    (&heard.body, &heard.agent, &heard.caller) == (&asked.body, &asked.agent, &asked.caller)
}

/// The result of a server for a request whose envelope was changed after its body was sealed.
fn with_envelope(
    client: &dyn Security,
    server: &dyn Security,
    asked: &Request,
    change: impl FnOnce(&mut CoreRequest),
) -> Result<Request, Refused> {
    let data = client.seal_request(asked).unwrap();
    let mut core = CoreRequest::read(&data).unwrap();
    change(&mut core);
    server
        .open_request(&core.write())
        .map(|(request, _)| request)
}

const SERIALIZERS: [Serializer; 2] = [Serializer::Marshal, Serializer::Yaml];

#[test]
fn nothing_secret_is_shown() {
    let caller = "uid=0".parse().unwrap();
    let home = "mcollective".parse().unwrap();
    let psk = super::Psk::new(b"throwaway-psk", caller, home);
    assert_eq!(format!("{psk:?}"), "Psk(uid=0, ***)");
}

#[test]
fn what_is_too_large_is_not_looked_at() {
    use super::testing::Pair;
    let (ca, server) = (Pair::ca("CA"), Pair::ca("server"));
    let home = || "mcollective".parse().unwrap();
    let plain = || ssl::settings(&ca, &server, Serializer::Marshal);
    let own = ca.sign("rip.mcollective");
    let psk = super::Psk::new(b"throwaway-psk", "uid=0".parse().unwrap(), home());
    let signed = super::Ssl::new(plain());
    let sealed = super::Aes::new(plain(), None, Arc::new(|| NOW));
    let plugins: [&dyn Security; 4] = [
        &psk,
        &signed,
        &sealed,
        &choria::choria(&ca.pem(), &own, Form::CHORIA, NOW),
    ];
    for start in ["\x04\x08\"", "---\n- ", "{\"protocol\":\""] {
        let mut data = start.as_bytes().to_vec();
        data.resize(9 << 20, b'a');
        for plugin in plugins {
            let refused = plugin.open_request(&data).unwrap_err();
            let other = plugin.open_reply(&data).unwrap_err();
            let json = start.starts_with('{') != (plugin.form() == Form::CHORIA);
            // In another encoding it is not even parsed.
            let large = |why| matches!(why, Refused::TooLarge(_)) || json;
            assert!(large(refused) && large(other), "{start:?}");
        }
    }
}

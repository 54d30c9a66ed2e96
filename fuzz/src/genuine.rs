//! The security plugins of collectives: captured messages, and whatever becomes of them.

use halite::collective::ruby::{Datum, json};
use halite::collective::security::{
    Aes, Authority, Choria, ChoriaSettings, Names, PlainSettings, Psk, Security, Ssl,
};
use halite::collective::wire::{Form, Request, Serializer};
use halite::crypto::{PrivateKey, PublicKey};
use halite::wire::base64;
use std::sync::{Arc, OnceLock};

const OWN_KEY: &str = include_str!("../../tests/vectors/collective/own.key");
const OWN: &str = include_str!("../../tests/vectors/collective/own.pem");
const PSK: &str = include_str!("../../tests/vectors/collective/choria-psk-rabbitmq.json");
const PLAIN: &str = include_str!("../../tests/vectors/collective/choria-ssl-aes.json");
const OLD: &str = include_str!("../../tests/vectors/collective/choria-seed-generation-nats.json");
const NEW: &str = include_str!("../../tests/vectors/collective/choria-v1-json-nats.json");

/// A plugin with what its network has really said.
struct Network {
    security: Box<dyn Security>,
    requests: Vec<Request>,
    bodies: Vec<Datum>,
    /// Whether the envelope is signed as well.
    whole: bool,
}

impl Network {
    fn new(security: impl Security + 'static, said: &[Vec<u8>], whole: bool) -> Network {
        let opened = said.iter().map(|data| security.open_request(data));
        let requests: Vec<Request> = opened.flatten().map(|(request, _)| request).collect();
        let replies = said.iter().map(|data| security.open_reply(data));
        let mut bodies: Vec<Datum> = replies.flatten().map(|reply| reply.body).collect();
        bodies.extend(requests.iter().map(|request| request.body.clone()));
        assert!(requests.len() >= 4);
        Network {
            security: Box::new(security),
            requests,
            bodies,
            whole,
        }
    }
}

/// What is taken for genuine was said.
pub fn collective_security(data: &[u8]) {
    static NETWORKS: OnceLock<Vec<Network>> = OnceLock::new();
    for network in NETWORKS.get_or_init(networks) {
        if let Ok((request, _)) = network.security.open_request(data) {
            match network.whole {
                true => assert!(network.requests.contains(&request), "{request:?}"),
                false => assert!(network.bodies.contains(&request.body), "{request:?}"),
            }
        }
        if let Ok(reply) = network.security.open_reply(data)
            && !network.whole
        {
            assert!(network.bodies.contains(&reply.body), "{reply:?}");
        }
    }
}

fn networks() -> Vec<Network> {
    let home = || "mcollective".parse().expect("a name");
    let own = || PrivateKey::from_pem(OWN_KEY).expect("a key");
    let (psk, plain, old, new) = (read(PSK), read(PLAIN), read(OLD), read(NEW));
    let keys = || {
        let known = text(&plain, "client_public_key_pem");
        PlainSettings {
            client: own(),
            caller: "cert=halite".parse().expect("a caller id"),
            server_public: PublicKey::from_pem(&text(&plain, "server_public_key_pem"))
                .expect("a key"),
            server_private: None,
            callers: Box::new(move |name| (name == "rip").then(|| known.clone())),
            enforce_ttl: true,
            serializer: Serializer::Marshal,
            home: home(),
        }
    };
    let choria = || {
        let names = |list: &[&str]| Names::new(list).expect("a list");
        let settings = ChoriaSettings {
            form: Form::CHORIA,
            authority: Authority::from_pem(&text(&new, "ca_pem")).expect("a CA"),
            certificate: OWN.to_owned(),
            key: own(),
            callers: names(&[r"/\.mcollective$/"]),
            privileged: names(&[r"/\.privileged\.mcollective$/"]),
            clock: Arc::new(|| 1_795_254_050),
        };
        Choria::new(settings).expect("settings")
    };
    let secret = text(&psk, "psk");
    let caller = "uid=0".parse().expect("a caller id");
    let payloads = said(&plain, &["payload_base64"]);
    let signed: Vec<Vec<u8>> = [
        said(&old, &["transport", "data"]),
        said(&new, &["transport", "data"]),
    ]
    .concat();
    vec![
        Network::new(
            Psk::new(secret.as_bytes(), caller, home()),
            &said(&psk, &["marshal_base64"]),
            false,
        ),
        Network::new(Ssl::new(keys()), &payloads, false),
        Network::new(Aes::new(keys(), None, Arc::new(|| 0)), &payloads, false),
        Network::new(choria(), &signed, true),
    ]
}

fn read(capture: &str) -> Datum {
    json::read(capture.as_bytes()).expect("a capture")
}

fn text(capture: &Datum, key: &str) -> String {
    let value = capture.get(key).and_then(Datum::as_str);
    value.expect("a text in the capture").to_owned()
}

fn said(capture: &Datum, path: &[&str]) -> Vec<Vec<u8>> {
    let messages = capture.get("messages").map_or(&[][..], Datum::items);
    let data = messages.iter().filter_map(|message| {
        let found = path.iter().try_fold(message, |at, key| at.get(key))?;
        base64::decode(found.as_str()?.as_bytes()).ok()
    });
    data.collect()
}

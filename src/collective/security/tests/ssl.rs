//! The plugin SSL.

use super::super::testing::Pair;
use super::*;

const CAPTURE: &str = include_str!("../../../../tests/vectors/collective/choria-ssl-aes.json");

pub(super) fn settings(client: &Pair, server: &Pair, serializer: Serializer) -> PlainSettings {
    let known = client.public().to_pem();
    PlainSettings {
        client: client.private(),
        caller: "cert=rip".parse().unwrap(),
        server_public: server.public(),
        server_private: Some(server.private()),
        callers: Box::new(move |name| (name == "rip").then(|| known.clone())),
        enforce_ttl: true,
        serializer,
        home: "mcollective".parse().unwrap(),
    }
}

fn pairs() -> (Pair, Pair) {
    (Pair::ca("rip"), Pair::ca("server-public"))
}

#[test]
fn captures_are_verified() {
    let capture = capture(CAPTURE);
    let (client, server) = pairs();
    let mut settings = settings(&client, &server, Serializer::Marshal);
    let known = capture["client_public_key_pem"]
        .as_str()
        .unwrap()
        .to_owned();
    settings.callers = Box::new(move |name| (name == "rip").then(|| known.clone()));
    let pem = capture["server_public_key_pem"].as_str().unwrap();
    settings.server_public = halite_crypto::PublicKey::from_pem(pem).unwrap();
    let ssl = Ssl::new(settings);
    let (mut requests, mut replies) = (0, 0);
    for message in messages(&capture) {
        if message["plugin"] != "ssl" {
            continue;
        }
        let data = base64_bytes(&message["payload_base64"]);
        match message["headers"].get("reply-to") {
            None => {
                let reply = ssl.open_reply(&data).unwrap();
                assert_eq!(reply.sender.as_str(), "node1");
                replies += 1;
            }
            Some(_) => {
                let (request, form) = ssl.open_request(&data).unwrap();
                let marshal = message["serializer"] == "marshal";
                let serializer = SERIALIZERS[usize::from(!marshal)];
                assert_eq!(form, Form::Ssl(serializer));
                assert_eq!(request.caller.as_str(), "cert=rip");
                requests += 1;
            }
        }
    }
    assert_eq!((requests, replies), (4, 4));
}

#[test]
fn both_ends_agree_and_tampering_with_the_body_shows() {
    let (client, server) = pairs();
    for serializer in SERIALIZERS {
        let ssl = Ssl::new(settings(&client, &server, serializer));
        both_ways(&ssl, &ssl, |heard, asked| {
            envelope(heard, asked) && (heard.ttl, heard.time) == (asked.ttl, asked.time)
        });
    }
}

#[test]
fn only_known_callers_with_their_own_keys_are_heard() {
    let (client, server) = pairs();
    let ssl = |client: &Pair| Ssl::new(settings(client, &server, Serializer::Yaml));
    let stranger = Pair::ca("rip");
    let data = ssl(&stranger).seal_request(&request("cert=rip")).unwrap();
    assert_eq!(ssl(&client).open_request(&data), Err(Refused::Signature));
    for caller in ["cert=bob", "choria=rip", "uid=0", "cert=.rip", "cert=.."] {
        let data = ssl(&client).seal_request(&request(caller)).unwrap();
        let refused = ssl(&client).open_request(&data);
        assert!(matches!(refused, Err(Refused::Caller(_))), "{refused:?}");
    }
}

#[test]
fn times_outside_the_signature_must_be_those_inside() {
    let (client, server) = pairs();
    let ssl = |enforce_ttl: bool| {
        let mut settings = settings(&client, &server, Serializer::Yaml);
        settings.enforce_ttl = enforce_ttl;
        Ssl::new(settings)
    };
    let asked = request("cert=rip");
    let data = String::from_utf8(ssl(true).seal_request(&asked).unwrap()).unwrap();
    let ttl = data.replace("\n:ttl: 60", "\n:ttl: 86400");
    let time = data.replace("\n:msgtime: 1", "\n:msgtime: 2");
    for (changed, field) in [(ttl, "ttl"), (time, "time")] {
        assert_ne!(changed, data);
        let refused = ssl(true).open_request(changed.as_bytes());
        assert_eq!(refused, Err(Refused::Tampered(field)));
        // Otherwise the signed ones are used.
        let (heard, _) = ssl(false).open_request(changed.as_bytes()).unwrap();
        assert_eq!(heard, asked);
    }
}

#[test]
fn old_clients_that_sign_no_times_need_enforce_ttl_off() {
    use super::super::rsa::{Hash, sign};
    use crate::wire::core::{CoreRequest, Proof, dump};
    let (client, server) = pairs();
    let mut settings = settings(&client, &server, Serializer::Marshal);
    let asked = request("cert=rip");
    let body = dump(&asked.body, Serializer::Marshal);
    let signature = sign(&settings.client, Hash::Sha1, &body).unwrap();
    let proof = Proof {
        hash: Some(base64::encode_ruby(&signature)),
        ..Proof::default()
    };
    let data = CoreRequest::new(&asked, Serializer::Marshal, body, proof).write();
    settings.enforce_ttl = false;
    assert_eq!(Ssl::new(settings).open_request(&data).unwrap().0, asked);
    let strict = Ssl::new(self::settings(&client, &server, Serializer::Marshal));
    assert_eq!(strict.open_request(&data), Err(Refused::Tampered("ttl")));
}

#[test]
fn replies_are_of_the_servers_key() {
    let (client, server) = pairs();
    let ssl = Ssl::new(settings(&client, &server, Serializer::Marshal));
    let form = Form::Ssl(Serializer::Marshal);
    let other = Ssl::new(settings(&client, &client, Serializer::Marshal));
    let data = other.seal_reply(&reply(), form, other.caller()).unwrap();
    assert_eq!(ssl.open_reply(&data), Err(Refused::Signature));
    let mut deaf = settings(&client, &server, Serializer::Marshal);
    deaf.server_private = None;
    let deaf = Ssl::new(deaf);
    let failed = deaf.seal_reply(&reply(), form, deaf.caller()).unwrap_err();
    assert!(failed.to_string().contains("server_private"));
    assert!(ssl.seal_reply(&reply(), Form::Psk, ssl.caller()).is_err());
}

#[test]
fn a_certificate_will_do_for_a_key() {
    let (client, server) = pairs();
    let mut settings = settings(&client, &server, Serializer::Marshal);
    let pem = client.pem();
    settings.callers = Box::new(move |_| Some(pem.clone()));
    let ssl = Ssl::new(settings);
    let data = ssl.seal_request(&request("cert=rip")).unwrap();
    assert!(ssl.open_request(&data).is_ok());
}

#[test]
fn the_agent_must_be_the_one_of_the_body() {
    let (client, server) = pairs();
    let ssl = Ssl::new(settings(&client, &server, Serializer::Yaml));
    let aes = Aes::new(
        settings(&client, &server, Serializer::Yaml),
        None,
        Arc::new(|| NOW),
    );
    let both: [&dyn Security; 2] = [&ssl, &aes];
    for plugin in both {
        let asked = request("cert=rip");
        let refused = with_envelope(plugin, plugin, &asked, |core| {
            core.agent = "service".parse().unwrap();
        });
        assert_eq!(refused, Err(Refused::Tampered("agent")));
    }
}

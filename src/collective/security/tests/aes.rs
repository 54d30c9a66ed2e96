//! The plugin AES.

use super::super::cipher;
use super::super::rsa::SessionKey;
use super::super::testing::{CertificateSpec, Pair};
use super::ssl::settings;
use super::*;
use crate::wire::core::CoreReply;

const CAPTURE: &str = include_str!("../../../../tests/vectors/collective/choria-ssl-aes.json");

fn clock() -> Clock {
    Arc::new(|| NOW)
}

fn pairs() -> (Pair, Pair) {
    (Pair::ca("rip"), Pair::ca("server-public"))
}

fn aes(client: &Pair, server: &Pair, serializer: Serializer) -> Aes {
    Aes::new(settings(client, server, serializer), None, clock())
}

#[test]
fn captures_are_opened() {
    let capture = capture(CAPTURE);
    let (client, server) = pairs();
    let mut settings = settings(&client, &server, Serializer::Marshal);
    let known = capture["client_public_key_pem"]
        .as_str()
        .unwrap()
        .to_owned();
    settings.callers = Box::new(move |name| (name == "rip").then(|| known.clone()));
    let aes = Aes::new(settings, None, clock());
    let (mut requests, mut replies, mut known) = (0, 0, 0);
    for message in messages(&capture) {
        if message["plugin"] != "aes" {
            continue;
        }
        let data = base64_bytes(&message["payload_base64"]);
        let body = match message["headers"].get("reply-to") {
            None => {
                // They are encrypted for a key that we do not have.
                assert_eq!(aes.open_reply(&data), Err(Refused::NotForUs));
                replies += 1;
                CoreReply::read(&data).unwrap().body
            }
            Some(_) => {
                let (request, _) = aes.open_request(&data).unwrap();
                assert_eq!(request.caller.as_str(), "cert=rip");
                requests += 1;
                CoreRequest::read(&data).unwrap().body
            }
        };
        if let Some(key) = message.get("session_key_base64") {
            let mut session = SessionKey::default();
            session.copy_from_slice(&base64_bytes(key));
            let text = cipher::decrypt(&session, &base64::decode(&body).unwrap());
            let expected = message["plaintext"].as_str().unwrap();
            assert_eq!(text.unwrap(), expected.as_bytes());
            known += 1;
        }
    }
    assert_eq!((requests, replies, known), (4, 4, 4));
}

#[test]
fn both_ends_agree_and_tampering_shows() {
    let (client, server) = pairs();
    for serializer in SERIALIZERS {
        let aes = aes(&client, &server, serializer);
        both_ways(&aes, &aes, |heard, asked| {
            envelope(heard, asked) && (heard.ttl, heard.time) == (asked.ttl, asked.time)
        });
    }
}

#[test]
fn replies_to_others_are_passed_over() {
    let (client, server) = pairs();
    let ours = aes(&client, &server, Serializer::Marshal);
    let other = aes(&Pair::ca("rip"), &server, Serializer::Marshal);
    let form = ours.form();
    let data = ours.seal_reply(&reply(), form, ours.caller()).unwrap();
    assert_eq!(ours.open_reply(&data).unwrap(), reply());
    assert_eq!(other.open_reply(&data), Err(Refused::NotForUs));
    let nobody = ours.seal_reply(&reply(), form, &"cert=bob".parse().unwrap());
    assert!(nobody.unwrap_err().to_string().contains("not known"));
    assert!(ours.seal_reply(&reply(), Form::Psk, ours.caller()).is_err());
}

#[test]
fn the_key_of_another_caller_opens_nothing() {
    let (client, server) = pairs();
    let ours = aes(&client, &server, Serializer::Yaml);
    let stranger = aes(&Pair::ca("rip"), &server, Serializer::Yaml);
    let data = stranger.seal_request(&request("cert=rip")).unwrap();
    assert_eq!(ours.open_request(&data), Err(Refused::Signature));
    for caller in ["cert=bob", "uid=0", "cert=.rip"] {
        let data = ours.seal_request(&request(caller)).unwrap();
        let refused = ours.open_request(&data);
        assert!(matches!(refused, Err(Refused::Caller(_))), "{refused:?}");
    }
}

#[test]
fn a_session_key_is_good_for_one_body() {
    let (client, server) = pairs();
    let aes = aes(&client, &server, Serializer::Marshal);
    let data = aes.seal_request(&request("cert=rip")).unwrap();
    assert!(aes.open_request(&data).is_ok());
    // Each node of a list gets the same request.
    assert!(aes.open_request(&data).is_ok());
    // Anyone with the public key can extract the session key and encrypt another body with it.
    let mut core = CoreRequest::read(&data).unwrap();
    let wrapped = base64::decode(core.proof.key.as_ref().unwrap().as_bytes()).unwrap();
    let session = rsa::public_decrypt(&client.public(), &wrapped).unwrap();
    let mut forged = request("cert=rip");
    forged.time = NOW + 30;
    let sealed = crate::wire::core::Sealed {
        body: "evil".into(),
        ttl: 60,
        time: NOW + 30,
    };
    let body = cipher::encrypt(&session, &sealed.write(Serializer::Marshal, "aes"));
    core.body = base64::encode_ruby(&body).into_bytes();
    core.time = NOW + 30;
    let refused = aes.open_request(&core.write());
    assert_eq!(refused, Err(Refused::Tampered("body")));
}

/// A public key in a request is accepted only in a certificate issued by the CA.
#[test]
fn keys_that_are_sent_along_need_the_ca() {
    let server = Pair::ca("server-public");
    let ca = Pair::ca("CA");
    let names = || Names::new(&["rip", "boss"]).unwrap();
    let aes = |client: &Pair, with: bool| {
        let mut settings = settings(client, &server, Serializer::Yaml);
        settings.callers = Box::new(|_| None);
        let authority = Authority::from_pem(&ca.pem()).unwrap();
        Aes::new(settings, with.then(|| (authority, names())), clock())
    };
    let send = |client: &Pair, sent: &str, with: bool, caller: &str| {
        let data = aes(client, false).seal_request(&request(caller)).unwrap();
        let mut core = CoreRequest::read(&data).unwrap();
        core.proof.public_key = Some(sent.to_owned());
        let server = aes(client, with);
        let heard = server.open_request(&core.write());
        let heard = heard.map(|(request, form)| {
            let answer = server.seal_reply(&reply(), form, &request.caller).unwrap();
            aes(client, false).open_reply(&answer).unwrap()
        });
        heard.map(|reply| reply.body)
    };
    let rip = ca.sign("rip");
    assert_eq!(send(&rip, &rip.pem(), true, "cert=rip"), Ok(reply().body));
    // Never without a CA, and never a bare key.
    for (with, sent) in [(false, rip.pem()), (true, rip.public().to_pem())] {
        assert!(send(&rip, &sent, with, "cert=rip").is_err());
    }
    // Not from another CA, for another name, expired, or not in the list.
    let foreign = Pair::ca("CA").sign("rip");
    let late = CertificateSpec {
        name: "rip",
        until: NOW,
        ..CertificateSpec::default()
    }
    .by(Some(&ca));
    for bad in [&foreign, &late] {
        let refused = send(bad, &bad.pem(), true, "cert=rip");
        assert!(
            matches!(refused, Err(Refused::Certificate(_))),
            "{refused:?}"
        );
    }
    let node = ca.sign("node1");
    for (pair, caller) in [(&rip, "cert=boss"), (&node, "cert=node1")] {
        let refused = send(pair, &pair.pem(), true, caller);
        assert!(matches!(refused, Err(Refused::Caller(_))), "{refused:?}");
    }
}

#[test]
fn a_known_key_is_not_replaced_by_one_that_is_sent_along() {
    let (client, server) = pairs();
    let ca = Pair::ca("CA");
    let known = ca.sign("rip");
    let pem = known.pem();
    let with = |client: &Pair| {
        let mut settings = settings(client, &server, Serializer::Yaml);
        let pem = pem.clone();
        settings.callers = Box::new(move |_| Some(pem.clone()));
        let names = Names::new(&["rip"]).unwrap();
        let authority = Authority::from_pem(&ca.pem()).unwrap();
        Aes::new(settings, Some((authority, names)), clock())
    };
    let again = ca.sign("rip");
    let data = with(&again).seal_request(&request("cert=rip")).unwrap();
    let mut core = CoreRequest::read(&data).unwrap();
    core.proof.public_key = Some(again.pem());
    assert_eq!(
        with(&known).open_request(&core.write()),
        Err(Refused::Signature)
    );
    let data = with(&known).seal_request(&request("cert=rip")).unwrap();
    assert!(with(&known).open_request(&data).is_ok());
    drop(client);
}

#[test]
fn noise_in_base64_is_refused() {
    let (client, server) = pairs();
    let aes = aes(&client, &server, Serializer::Marshal);
    let data = aes.seal_request(&request("cert=rip")).unwrap();
    let core = CoreRequest::read(&data).unwrap();
    let mut bare = core.clone();
    bare.proof.key = None;
    assert_eq!(aes.open_request(&bare.write()), Err(Refused::Unsigned));
    let mut noisy = core.clone();
    noisy.proof.key = Some("a!b".into());
    assert!(matches!(
        aes.open_request(&noisy.write()),
        Err(Refused::Malformed(_))
    ));
    let mut noisy = core;
    noisy.body = b"a!b".to_vec();
    assert!(matches!(
        aes.open_request(&noisy.write()),
        Err(Refused::Malformed(_))
    ));
}

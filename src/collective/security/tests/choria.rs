//! Choria's plugin, both generations.

use super::super::testing::{CertificateSpec, DAY, Pair};
use super::*;
use crate::wire::choria::{Generation, SecureReply, SecureRequest};
use serde_json::json;

const CAPTURES: [(&str, Form); 3] = [
    (
        include_str!("../../../../tests/vectors/collective/choria-seed-generation-nats.json"),
        Form::CHORIA_YAML,
    ),
    (
        include_str!("../../../../tests/vectors/collective/choria-federation.json"),
        Form::CHORIA_YAML,
    ),
    (
        include_str!("../../../../tests/vectors/collective/choria-v1-json-nats.json"),
        Form::CHORIA,
    ),
];
/// When the messages were captured.
const THEN: i64 = 1_795_254_050;

/// A CA that issues certificates for the tests, with the same lists as Choria's defaults.
struct Network {
    ca: Pair,
}

impl Network {
    fn new() -> Network {
        Network { ca: Pair::ca("CA") }
    }

    fn choria(&self, pair: &Pair, form: Form) -> Choria {
        choria(&self.ca.pem(), pair, form, NOW)
    }

    /// The result of a server of this network for a request with that certificate and caller id.
    fn call(&self, pair: &Pair, caller: &str) -> Result<(), Refused> {
        let server = self.choria(&self.ca.sign("node1.example"), Form::CHORIA);
        let [new, old] = [Form::CHORIA, Form::CHORIA_YAML].map(|form| {
            let data = self.choria(pair, form).seal_request(&request(caller));
            server.open_request(&data.unwrap()).map(|_| ())
        });
        // The generation makes no difference.
        assert_eq!(new, old);
        new
    }
}

pub(super) fn choria(ca: &str, pair: &Pair, form: Form, now: i64) -> Choria {
    Choria::new(ChoriaSettings {
        form,
        authority: Authority::from_pem(ca).unwrap(),
        certificate: pair.pem(),
        key: pair.private(),
        callers: Names::new(&[r"/\.mcollective$/", r"/\.choria$/"]).unwrap(),
        privileged: Names::new(&[r"/\.privileged\.mcollective$/"]).unwrap(),
        clock: Arc::new(move || now),
    })
    .unwrap()
}

/// As [`super::request`], with texts in place of symbols, which JSON does not have.
fn request(caller: &str) -> Request {
    let mut request = super::request(caller);
    request.body = plain(&request.body);
    for fact in &mut request.filter.facts {
        fact.symbols = false;
    }
    request
}

fn reply() -> Reply {
    let mut reply = super::reply();
    reply.body = plain(&reply.body);
    reply
}

fn plain(datum: &Datum) -> Datum {
    Datum::from(&datum.to_value())
}

/// All forms accepted by Choria's plugins.
fn forms() -> Vec<Form> {
    let bits = (0..8).map(|bits| Form::Choria2 {
        old_inner: bits & 1 > 0,
        yaml: bits & 2 > 0,
        nested: bits & 4 > 0,
    });
    let old = [false, true].map(|json| Form::Choria1 { json });
    old.into_iter().chain(bits).collect()
}

#[test]
fn captures_are_verified_at_their_time() {
    let ca = capture(CAPTURES[2].0)["ca_pem"]
        .as_str()
        .unwrap()
        .to_owned();
    let own = Pair::ca("halite.mcollective");
    let at = |now| choria(&ca, &own, Form::CHORIA, now);
    let (mut requests, mut replies) = (0, 0);
    for (text, form) in CAPTURES {
        for message in messages(&capture(text)) {
            // The others are copies.
            if message.get("secure").is_none() {
                continue;
            }
            let data = base64_bytes(&message["transport"]["data"]);
            if let Ok(secure) = SecureRequest::read(&data) {
                let (request, heard) = at(THEN).open_request(&data).unwrap();
                assert_eq!(heard, form);
                assert_eq!(request.caller.as_str(), "choria=rip.mcollective");
                // The same is refused ten years later, and with another CA at any time.
                let late = at(THEN + 3660 * DAY).open_request(&data);
                assert!(matches!(late, Err(Refused::Certificate(_))), "{late:?}");
                let other = choria(&own.pem(), &own, Form::CHORIA, THEN);
                let foreign = other.open_request(&data);
                assert!(matches!(foreign, Err(Refused::Certificate(_))));
                signed_again(&secure, &request, form);
                requests += 1;
            } else {
                let reply = at(THEN).open_reply(&data).unwrap();
                let again = at(THEN).seal_reply(&reply, form, at(THEN).caller());
                assert_eq!(again.unwrap(), data);
                replies += 1;
            }
        }
    }
    assert_eq!((requests, replies), (17, 23));
}

/// Signs a captured request with our own key: except for signature and certificate, the result is equal byte for byte.
fn signed_again(secure: &SecureRequest, request: &Request, form: Form) {
    let network = Network::new();
    let rip = network.ca.sign("rip.mcollective");
    let own = network.choria(&rip, form);
    let data = own.seal_request(request).unwrap();
    let again = SecureRequest::read(&data).unwrap();
    assert_eq!(
        (again.generation, &again.message),
        (secure.generation, &secure.message)
    );
    // Lines end where Ruby's do.
    assert_eq!(again.lines, matches!(form, Form::Choria1 { .. }));
    assert_eq!(own.open_request(&data).unwrap(), (request.clone(), form));
}

#[test]
fn the_known_answer_of_a_reply() {
    let message = r#"{"protocol":"choria:reply:1","message":"{\"statuscode\":0,\"statusmsg\":\"OK\",\"data\":{\"pong\":1795254057}}","envelope":{"senderid":"node1.example","requestid":"95a51d8b76545aa29c7eb527e895a932","agent":"rpcutil","time":1795254057}}"#;
    let hash = "YgIBzC+J/5zhnBI2GgVmtbGiuBF/qXyDX/tW3zzaOFo=";
    let data = json!({"protocol": "choria:secure:reply:1", "message": message, "hash": hash});
    let network = Network::new();
    let own = network.choria(&network.ca.sign("rip.mcollective"), Form::CHORIA);
    let reply = own.open_reply(data.to_string().as_bytes()).unwrap();
    assert_eq!(reply.sender.as_str(), "node1.example");
    let again = own.seal_reply(&reply, Form::CHORIA, own.caller()).unwrap();
    assert_eq!(again, data.to_string().into_bytes());
}

#[test]
fn every_form_is_answered_in_itself() {
    let network = Network::new();
    let client = network.ca.sign("rip.mcollective");
    let server = network.choria(&network.ca.sign("node1.example"), Form::CHORIA);
    for form in forms() {
        let own = network.choria(&client, form);
        let asked = if form.symbols() {
            super::request("choria=rip.mcollective")
        } else {
            request("choria=rip.mcollective")
        };
        let data = own.seal_request(&asked).unwrap();
        assert_eq!(server.open_request(&data).unwrap(), (asked, form));
        let answer = server.seal_reply(&reply(), form, own.caller()).unwrap();
        assert_eq!(own.open_reply(&answer).unwrap(), reply());
        let secure = SecureReply::read(&answer).unwrap();
        let old = matches!(form, Form::Choria1 { .. });
        assert_eq!(secure.generation == Generation::G1, old);
        assert_eq!(secure.hash.len(), if old { 64 } else { 44 });
    }
    let other = server.seal_reply(&reply(), Form::Psk, server.caller());
    assert!(other.unwrap_err().to_string().contains("choria"));
}

#[test]
fn tampering_shows_in_every_octet() {
    let network = Network::new();
    let client = network.ca.sign("rip.mcollective");
    for form in [Form::CHORIA, Form::CHORIA_YAML] {
        let own = network.choria(&client, form);
        let asked = if form.symbols() {
            super::request("choria=rip.mcollective")
        } else {
            request("choria=rip.mcollective")
        };
        let data = own.seal_request(&asked).unwrap();
        for at in 0..data.len() {
            let mut other = data.clone();
            other[at] ^= 1 << (at % 8);
            if let Ok((heard, heard_form)) = own.open_request(&other) {
                assert_eq!((heard, heard_form), (asked.clone(), form), "octet {at}");
            }
        }
        for end in (0..data.len()).step_by(7) {
            assert!(own.open_request(&data[..end]).is_err(), "{end}");
        }
        let answer = own.seal_reply(&reply(), form, own.caller()).unwrap();
        for at in 0..answer.len() {
            let mut other = answer.clone();
            other[at] ^= 1 << (at % 8);
            assert!(own.open_reply(&other) != Err(Refused::Unsigned) || at > 0);
            if let Ok(heard) = own.open_reply(&other) {
                assert_eq!(heard, reply(), "octet {at}");
            }
        }
    }
}

/// The probes of the reference, section 22, that are about security. No reply there means a refusal here; the two where
/// we are stricter are tested with `check_age` and `Replay`.
#[test]
fn probes_of_real_servers() {
    let network = Network::new();
    let rip = network.ca.sign("rip.mcollective");
    let own = network.choria(&rip, Form::CHORIA);
    let server = network.choria(&network.ca.sign("node1.example"), Form::CHORIA);
    let asked = request("choria=rip.mcollective");
    // A valid one.
    assert_eq!(network.call(&rip, "choria=rip.mcollective"), Ok(()));
    // A byte appended to the message after signing.
    let mut longer = SecureRequest::read(&own.seal_request(&asked).unwrap()).unwrap();
    longer.message.push(' ');
    let refused = server.open_request(&longer.write());
    assert_eq!(refused, Err(Refused::Signature));
    // The caller id of somebody else, with an ordinary certificate.
    let caller = |result| matches!(result, Err(Refused::Caller(_)));
    assert!(caller(network.call(&rip, "choria=alice.mcollective")));
    // A certificate of the CA whose name is outside the list.
    let node = network.ca.sign("node2.example");
    assert!(caller(network.call(&node, "choria=node2.example")));
    // A caller id of another kind.
    assert!(caller(network.call(&rip, "cert=rip.mcollective")));
    // Created 100 s ago with a time to live of 60 s, and an hour ahead.
    let (heard, _) = server
        .open_request(&own.seal_request(&asked).unwrap())
        .unwrap();
    let age = |now| check_age(heard.time, heard.ttl, now);
    assert_eq!(age(NOW + 100), Err(Refused::Expired(40)));
    assert_eq!(age(NOW - 3600), Err(Refused::Future(3540)));
    // The same bytes twice.
    let mut replay = Replay::new(10);
    assert_eq!(replay.check(&heard, None, NOW), Ok(()));
    assert_eq!(replay.check(&heard, None, NOW), Err(Refused::Replayed));
    // An unknown key in the envelope, signed.
    let signed = |message: String| {
        let key = rip.private();
        let secure = SecureRequest {
            generation: Generation::G2,
            signature: rsa::sign(&key, rsa::Hash::Sha256, message.as_bytes()).unwrap(),
            message,
            lines: false,
            certificate: rip.pem(),
        };
        server.open_request(&secure.write())
    };
    let inner = |protocol: &str, message: &str| {
        json!({"protocol": protocol, "message": message, "envelope": {
            "requestid": "b54c4d85413c57edaedab2587bea1a11", "senderid": "rip.mcollective",
            "callerid": "choria=rip.mcollective", "filter": {}, "collective": "mcollective",
            "agent": "discovery", "ttl": 60, "time": NOW}})
    };
    let mut extra = inner("choria:request:1", "\"ping\"");
    extra["envelope"]["extra"] = 1.into();
    assert!(matches!(
        signed(extra.to_string()),
        Err(Refused::Malformed(_))
    ));
    // The empty filter, and a bare body.
    let (heard, _) = signed(inner("choria:request:1", "ping").to_string()).unwrap();
    assert_eq!(
        (heard.body, heard.filter),
        ("ping".into(), Filter::default())
    );
    // G1 within G2.
    let (_, form) = signed(inner("mcollective:request:3", "\"ping\"").to_string()).unwrap();
    assert!(matches!(
        form,
        Form::Choria2 {
            old_inner: true,
            ..
        }
    ));
    // G1 outside, which Ruby's servers of G2 do not answer: accepted, as documented.
    let old = network.choria(&rip, Form::CHORIA_YAML);
    let data = old
        .seal_request(&super::request("choria=rip.mcollective"))
        .unwrap();
    assert_eq!(server.open_request(&data).unwrap().1, Form::CHORIA_YAML);
    // An unknown protocol.
    let text = String::from_utf8(own.seal_request(&asked).unwrap()).unwrap();
    let text = text.replace("choria:secure:request:1", "choria:secure:request:2");
    let refused = server.open_request(text.as_bytes());
    assert!(matches!(refused, Err(Refused::Protocol(_))), "{refused:?}");
}

#[test]
fn certificates_decide() {
    let network = Network::new();
    let call = |wish: CertificateSpec, issuer: Option<&Pair>| {
        network.call(&wish.by(issuer), "choria=rip.mcollective")
    };
    let ca = Some(&network.ca);
    assert_eq!(call(CertificateSpec::default(), ca), Ok(()));
    let refused = |result| matches!(result, Err(Refused::Certificate(_)));
    let until = NOW - 1;
    assert!(refused(call(
        CertificateSpec {
            until,
            ..CertificateSpec::default()
        },
        ca
    )));
    let from = NOW + 1;
    assert!(refused(call(
        CertificateSpec {
            from,
            ..CertificateSpec::default()
        },
        ca
    )));
    let client = Some(false);
    assert!(refused(call(
        CertificateSpec {
            client,
            ..CertificateSpec::default()
        },
        ca
    )));
    assert!(refused(call(CertificateSpec::default(), None)));
    assert!(refused(call(
        CertificateSpec::default(),
        Some(&Pair::ca("CA"))
    )));
    // Names, privileged ones, and the same name issued again.
    let boss = network.ca.sign("boss.privileged.mcollective");
    assert_eq!(network.call(&boss, "choria=rip.mcollective"), Ok(()));
    let again = network.ca.sign("rip.mcollective");
    assert_eq!(network.call(&again, "choria=rip.mcollective"), Ok(()));
}

#[test]
fn a_chain_is_sent_along() {
    let network = Network::new();
    let middle = CertificateSpec {
        name: "Middle",
        ca: true,
        ..CertificateSpec::default()
    };
    let middle = middle.by(Some(&network.ca));
    let leaf = middle.sign("rip.mcollective");
    let settings = |certificate: String| ChoriaSettings {
        form: Form::CHORIA,
        authority: Authority::from_pem(&network.ca.pem()).unwrap(),
        certificate,
        key: leaf.private(),
        callers: Names::new(&["rip.mcollective"]).unwrap(),
        privileged: Names::default(),
        clock: Arc::new(|| NOW),
    };
    let asked = request("choria=rip.mcollective");
    let server = network.choria(&network.ca.sign("node1.example"), Form::CHORIA);
    for (certificate, good) in [(leaf.pem() + &middle.pem(), true), (leaf.pem(), false)] {
        let own = Choria::new(settings(certificate)).unwrap();
        let data = own.seal_request(&asked).unwrap();
        assert_eq!(server.open_request(&data).is_ok(), good);
    }
    let other = network.ca.sign("rip.mcollective").pem();
    assert!(Choria::new(settings(other)).unwrap_err().contains("key"));
    assert!(Choria::new(settings(String::new())).is_err());
}

#[test]
fn its_own_name_must_be_a_callers() {
    let network = Network::new();
    let odd = network.ca.sign("a b");
    let settings = ChoriaSettings {
        form: Form::CHORIA,
        authority: Authority::from_pem(&network.ca.pem()).unwrap(),
        certificate: odd.pem(),
        key: odd.private(),
        callers: Names::default(),
        privileged: Names::default(),
        clock: Arc::new(|| NOW),
    };
    let failed = Choria::new(settings).unwrap_err();
    assert!(failed.contains("\"a b\""), "{failed}");
    let good = network.choria(&network.ca.sign("rip.mcollective"), Form::CHORIA);
    assert_eq!(format!("{good:?}"), "Choria(choria=rip.mcollective, ***)");
}

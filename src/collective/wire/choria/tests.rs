use super::*;
use crate::ruby::Datum;
use crate::wire::testing::{base64_bytes, captures};
use crate::wire::{Form, Reply, Request};
use serde_json::{Value as Json, json};

const FILES: [&str; 3] = [
    "choria-seed-generation-nats",
    "choria-v1-json-nats",
    "choria-federation",
];

/// The captured messages: data of the packet and its contents. Forwarded packets are captured without contents.
fn messages() -> Vec<(Vec<u8>, Json)> {
    let mut out = Vec::new();
    for file in FILES {
        for message in captures(file)["messages"].as_array().unwrap() {
            if message.get("secure").is_some() {
                out.push((base64_bytes(&message["transport"]["data"]), message.clone()));
            }
        }
    }
    out
}

#[test]
fn captured_messages_are_read_and_written_again() {
    let (mut requests, mut replies) = (0, 0);
    for (data, message) in messages() {
        let outer: Json = serde_json::from_slice(&data).unwrap();
        assert_eq!(outer, message["secure"]);
        let text = outer["message"].as_str().unwrap();
        if outer["pubcert"].is_string() {
            let secure = SecureRequest::read(&data).unwrap();
            assert_eq!(secure.message, text);
            assert_eq!((secure.lines, secure.signature.len()), (true, 256));
            assert_eq!(secure.write(), data);
            let (request, form) = read_request(text, secure.generation).unwrap();
            assert_eq!(write_request(&request, form), text);
            check_request(&request, &message["inner"]);
            requests += 1;
        } else {
            let secure = SecureReply::read(&data).unwrap();
            assert_eq!(secure.hash, outer["hash"]);
            assert_eq!(secure.write(), data);
            let (reply, form) = read_reply(text, secure.generation).unwrap();
            assert_eq!(write_reply(&reply, form), text);
            check_reply(&reply, &message["inner"]);
            replies += 1;
        }
    }
    assert_eq!((requests, replies), (17, 23));
}

fn check_request(request: &Request, inner: &Json) {
    let envelope = &inner["envelope"];
    assert_eq!(request.sender.as_str(), envelope["senderid"]);
    assert_eq!(request.id.as_str(), envelope["requestid"]);
    assert_eq!(request.caller.as_str(), envelope["callerid"]);
    assert_eq!(request.agent.as_str(), envelope["agent"]);
    assert_eq!(request.ttl, envelope["ttl"].as_u64().unwrap() as u32);
    assert_eq!(request.time, envelope["time"].as_i64().unwrap());
    let kinds = |kind: &str| envelope["filter"][kind].as_array().unwrap().len();
    assert_eq!(request.filter.facts.len(), kinds("fact"));
    assert_eq!(request.filter.compound.len(), kinds("compound"));
}

fn check_reply(reply: &Reply, inner: &Json) {
    assert_eq!(reply.sender.as_str(), inner["envelope"]["senderid"]);
    assert_eq!(reply.id.as_str(), inner["envelope"]["requestid"]);
    assert_eq!(reply.time, inner["envelope"]["time"].as_i64().unwrap());
}

fn request_of(inner: Json) -> Result<(Request, Form), Refused> {
    read_request(&inner.to_string(), Generation::G2)
}

fn inner() -> Json {
    json!({"protocol": "choria:request:1", "message": "ping", "envelope": {
        "requestid": "b54c4d85413c57edaedab2587bea1a11", "senderid": "rip.mcollective",
        "callerid": "choria=rip.mcollective", "filter": {}, "collective": "mcollective",
        "agent": "discovery", "ttl": 60, "time": 1795254052}})
}

#[test]
fn every_form_is_written_as_it_was_read() {
    let (request, _) = request_of(inner()).unwrap();
    let rpc = Datum::Hash(vec![("agent".into(), "rpcutil".into())]);
    for body in [Datum::from("ping"), rpc, Datum::Array(vec![Datum::Int(1)])] {
        let mut request = request.clone();
        request.body = body;
        for bits in 0..8 {
            let form = Form::Choria2 {
                old_inner: bits & 1 > 0,
                yaml: bits & 2 > 0,
                nested: bits & 4 > 0,
            };
            // The only difference between a text and a nested value is that the latter is not in another text.
            if bits & 4 > 0 && request.body == Datum::from("ping") {
                continue;
            }
            let text = write_request(&request, form);
            let read = read_request(&text, Generation::G2);
            assert_eq!(read, Ok((request.clone(), form)), "{text}");
        }
        for form in [false, true].map(|json| Form::Choria1 { json }) {
            let text = write_request(&request, form);
            let read = read_request(&text, Generation::G1);
            assert_eq!(read, Ok((request.clone(), form)), "{text}");
        }
    }
}

#[test]
fn bodies_are_json_in_text_bare_text_or_nested() {
    let body = |message: Json| {
        let mut document = inner();
        document["message"] = message;
        let (request, form) = request_of(document).unwrap();
        let nested = matches!(form, Form::Choria2 { nested: true, .. });
        (request.body, nested)
    };
    assert_eq!(body("ping".into()), ("ping".into(), false));
    assert_eq!(body("\"ping\"".into()), ("ping".into(), false));
    assert_eq!(
        body("[1]".into()),
        (Datum::Array(vec![Datum::Int(1)]), false)
    );
    assert_eq!(body(json!([1])), (Datum::Array(vec![Datum::Int(1)]), true));
    assert_eq!(body("{not json".into()), ("{not json".into(), false));
}

#[test]
fn the_old_document_stands_in_both_outer_ones() {
    let mut old = inner();
    old["protocol"] = "mcollective:request:3".into();
    let (_, form) = request_of(old.clone()).unwrap();
    assert!(matches!(
        form,
        Form::Choria2 {
            old_inner: true,
            ..
        }
    ));
    let read = read_request(&old.to_string(), Generation::G1);
    assert_eq!(read.unwrap().1, Form::Choria1 { json: true });
    let new = read_request(&inner().to_string(), Generation::G1);
    assert!(matches!(new, Err(Refused::Protocol(_))));
    old["protocol"] = "choria:reply:1".into();
    assert!(matches!(request_of(old), Err(Refused::Protocol(_))));
}

#[test]
fn keys_too_few_and_too_many_are_refused_by_name() {
    let good = inner();
    for key in good["envelope"].as_object().unwrap().keys() {
        let mut less = good.clone();
        less["envelope"].as_object_mut().unwrap().remove(key);
        let refused = request_of(less).unwrap_err().to_string();
        assert!(refused.contains(key.as_str()), "{refused}");
        for wrong in [json!(null), json!([1]), json!(-1), json!("a b")] {
            let mut changed = good.clone();
            changed["envelope"][key] = wrong.clone();
            let refused = request_of(changed);
            let fine = key == "time" && wrong == json!(-1);
            assert_eq!(refused.is_ok(), fine, "{key} {wrong} {refused:?}");
        }
    }
    for place in ["", "/envelope"] {
        let mut more = good.clone();
        more.pointer_mut(place).unwrap()["extra"] = 1.into();
        let refused = request_of(more).unwrap_err().to_string();
        assert!(refused.contains("\"extra\""), "{refused}");
    }
    for key in ["protocol", "message", "envelope"] {
        let mut less = good.clone();
        less.as_object_mut().unwrap().remove(key);
        assert!(request_of(less).is_err());
    }
}

#[test]
fn yaml_with_more_than_data_is_refused() {
    let text = write_request(&request_of(inner()).unwrap().0, Form::CHORIA_YAML);
    for (from, to) in [
        ("message: ping", "message: !ruby/object:Object {}"),
        ("message: ping", "message: &a [*a]"),
        ("ttl: 60", "ttl: !ruby/range 1..2"),
    ] {
        for generation in [Generation::G1, Generation::G2] {
            let text = text.replace(from, to);
            let refused = read_request(&text, generation);
            assert!(matches!(refused, Err(Refused::Dangerous(_))), "{refused:?}");
        }
    }
    let body = "message: \"--- !ruby/object:Object {}\\n\"";
    let refused = read_request(&text.replace("message: ping", body), Generation::G2);
    assert!(matches!(refused, Err(Refused::Dangerous(_))), "{refused:?}");
}

#[test]
fn outer_documents_lack_nothing() {
    let good = json!({"protocol": "choria:secure:request:1", "message": "m", "signature": "YWI=", "pubcert": "c"});
    let read = |document: &Json| SecureRequest::read(document.to_string().as_bytes());
    let request = read(&good).unwrap();
    assert_eq!(
        (request.signature.as_slice(), request.lines),
        (&b"ab"[..], false)
    );
    assert_eq!(request.write(), good.to_string().into_bytes());
    let index = |key: &str, value: Json| {
        let mut changed = good.clone();
        changed[key] = value;
        read(&changed).unwrap_err().index()
    };
    let [malformed, protocol, unsigned, certificate] = [0, 3, 4, 7];
    assert_eq!(index("protocol", json!(null)), malformed);
    assert_eq!(index("protocol", "choria:secure:reply:1".into()), protocol);
    assert_eq!(index("message", "".into()), malformed);
    assert_eq!(index("message", json!({})), malformed);
    assert_eq!(index("signature", "".into()), unsigned);
    assert_eq!(index("signature", json!(null)), unsigned);
    assert_eq!(index("signature", "!!".into()), malformed);
    assert_eq!(index("pubcert", "".into()), certificate);
    let mut more = good.clone();
    more["extra"] = 1.into();
    assert_eq!(read(&more).as_ref(), Ok(&request));
    let unhashed = json!({"protocol": "choria:secure:reply:1", "message": "m"});
    let refused = SecureReply::read(unhashed.to_string().as_bytes());
    assert_eq!(refused, Err(Refused::Unsigned));
    for bad in [&b""[..], b"[]", b"{", b"\xff", b"\x04\x080"] {
        assert!(SecureRequest::read(bad).is_err());
        assert!(SecureReply::read(bad).is_err());
    }
}

use super::*;
use crate::wire::testing::{base64_bytes, captures};
use serde_json::Value as Json;

/// Whether Ruby wrote a repeated value as a link to one object, which we never do.
fn has_links(data: &[u8]) -> bool {
    let written = load(data, Serializer::Marshal).unwrap();
    let again = marshal::write_ascii(&written, &ASCII);
    again.len() > data.len()
}

/// A value as in the captures: symbols with a colon.
fn shown(datum: &Datum) -> Json {
    match datum {
        Datum::Symbol(name) => format!(":{name}").into(),
        Datum::Array(items) => items.iter().map(shown).collect(),
        Datum::Hash(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| {
                let key = shown(key).as_str().unwrap().to_owned();
                (key, shown(value))
            });
            Json::Object(pairs.collect())
        }
        Datum::Regexp { .. } => datum.regexp_text().into(),
        other => serde_json::to_value(other.to_value()).unwrap(),
    }
}

#[test]
fn captured_messages_are_read_and_written_again() {
    let file = captures("choria-psk-rabbitmq");
    let (mut same, mut linked) = (0, 0);
    for message in file["messages"].as_array().unwrap() {
        let data = base64_bytes(&message["marshal_base64"]);
        let decoded = &message["decoded"];
        let again = if message["kind"] == "registration" {
            let request = CoreRequest::read(&data).unwrap();
            assert_eq!(request.agent.as_str(), "registration");
            let agents = load(&request.body, Serializer::Marshal).unwrap();
            let names = vec!["discovery".into(), "rpcutil".into()];
            assert_eq!(agents, Datum::Array(names));
            request.write()
        } else if message["kind"] == "request" {
            let request = CoreRequest::read(&data).unwrap();
            assert_eq!(request.sender.as_str(), decoded[":senderid"]);
            assert_eq!(request.id.as_str(), decoded[":requestid"]);
            assert_eq!(
                request.caller.as_ref().unwrap().as_str(),
                decoded[":callerid"]
            );
            assert_eq!(request.agent.as_str(), decoded[":agent"]);
            assert_eq!(request.ttl, decoded[":ttl"].as_u64().unwrap() as u32);
            assert_eq!(request.time, decoded[":msgtime"].as_i64().unwrap());
            assert_eq!(request.proof.hash.as_deref(), decoded[":hash"].as_str());
            check_body(&request.body, message);
            let again = request.write();
            assert_eq!(CoreRequest::read(&again), Ok(request));
            again
        } else {
            let reply = CoreReply::read(&data).unwrap();
            assert_eq!(reply.sender.as_str(), decoded[":senderid"]);
            assert_eq!(reply.agent.as_str(), decoded[":senderagent"]);
            check_body(&reply.body, message);
            let again = reply.write();
            assert_eq!(CoreReply::read(&again), Ok(reply));
            again
        };
        if has_links(&data) {
            linked += 1;
        } else {
            assert_eq!(again, data);
            same += 1;
        }
    }
    assert!(same >= 10 && linked >= 10, "{same} {linked}");
}

/// The body equals that of the capture, and is written with the same bytes.
fn check_body(body: &[u8], message: &Json) {
    assert_eq!(body, base64_bytes(&message["inner_body_base64"]));
    let value = load(body, Serializer::Marshal).unwrap();
    assert_eq!(shown(&value), message["decoded"][":body"]);
    let again = dump(&value, Serializer::Marshal);
    let linked = marshal::write_ascii(&value, &ASCII_BODY).len() > body.len();
    assert!(linked || again == body, "{value:?}");
}

#[test]
fn captured_messages_of_ssl_and_aes_are_written_as_they_were() {
    let file = captures("choria-ssl-aes");
    let mut seen = [0; 4];
    for message in file["messages"].as_array().unwrap() {
        let data = base64_bytes(&message["payload_base64"]);
        let plugin = message["plugin"].as_str().unwrap();
        let serializer = match message["serializer"].as_str().unwrap() {
            "yaml" => Serializer::Yaml,
            _ => Serializer::Marshal,
        };
        let is_request = message["headers"].get("reply-to").is_some();
        let (again, found, body) = if is_request {
            let request = CoreRequest::read(&data).unwrap();
            assert_eq!(request.caller.as_ref().unwrap().as_str(), "cert=rip");
            assert_eq!(request.proof.public_key.is_some(), plugin == "aes");
            assert_eq!(request.proof.key.is_some(), plugin == "aes");
            assert_eq!(request.proof.hash.is_some(), plugin == "ssl");
            let again = request.write();
            assert_eq!(CoreRequest::read(&again).as_ref(), Ok(&request));
            (again, request.serializer, request.body)
        } else {
            let reply = CoreReply::read(&data).unwrap();
            let again = reply.write();
            assert_eq!(CoreReply::read(&again).as_ref(), Ok(&reply));
            (again, reply.serializer, reply.body)
        };
        assert_eq!(found, serializer);
        let linked = serializer == Serializer::Marshal && has_links(&data);
        assert!(linked || again == data, "{message}");
        seen[usize::from(is_request) + 2 * usize::from(linked)] += 1;
        // The inner value is also written as it was.
        let plain = match plugin {
            "ssl" => body,
            _ => match message.get("plaintext") {
                Some(Json::String(text)) => text.clone().into_bytes(),
                _ => continue,
            },
        };
        if is_request {
            let sealed = Sealed::read(&plain, serializer, plugin).unwrap();
            assert_eq!((sealed.ttl, sealed.time / 1000), (60, 1_795_254));
            assert_eq!(sealed.write(serializer, plugin), plain);
        } else {
            let value = load(&plain, serializer).unwrap();
            assert_eq!(dump(&value, serializer), plain);
        }
    }
    let [replies, requests, linked_replies, linked_requests] = seen;
    assert_eq!(linked_replies, 0);
    assert!(
        replies > 6 && requests > 4 && linked_requests > 0,
        "{seen:?}"
    );
}

#[test]
fn the_message_of_the_first_versions_is_read() {
    let fact = Datum::Hash(vec![pair("fact", "country"), pair("value", "uk")]);
    let filter = Datum::Hash(vec![
        (
            "cf_class".into(),
            Datum::Array(vec!["common::linux".into()]),
        ),
        ("fact".into(), Datum::Array(vec![fact])),
        ("agent".into(), Datum::Array(vec!["package".into()])),
    ]);
    let hash = Datum::Hash(vec![
        pair("filter", filter),
        pair("senderid", "devel.your.com"),
        pair("msgtarget", "/topic/mcollective.discovery.command"),
        pair("body", Datum::Bytes(marshal::write(&"ping".into()))),
        pair("hash", "2d437f2904980ac32d4ebb7ca1fd740b"),
        pair("msgtime", Datum::Int(1_258_406_924)),
        pair("requestid", "0b54253cb5d04eb8b26ea75bbf468cbc"),
    ]);
    let request = CoreRequest::read(&marshal::write(&hash)).unwrap();
    assert_eq!(request.agent.as_str(), "discovery");
    assert_eq!((request.ttl, request.time), (60, 1_258_406_924));
    assert_eq!((&request.collective, &request.caller), (&None, &None));
    assert_eq!(request.filter.facts[0].operator, None);
    assert!(request.filter.facts[0].symbols);
    assert_eq!(CoreRequest::read(&request.write()), Ok(request.clone()));
    let home = "mcollective".parse().unwrap();
    let refused = request.into_request(Datum::Nil, &home);
    assert!(matches!(refused, Err(Refused::Caller(_))));
}

#[test]
fn what_is_wrong_is_named() {
    let good = |changes: &[(&str, Option<Datum>)]| {
        let mut pairs = vec![
            pair("body", Datum::Bytes(vec![4, 8, b'0'])),
            pair("senderid", "a.example"),
            pair("requestid", "0b54253cb5d04eb8b26ea75bbf468cbc"),
            pair("agent", "discovery"),
            pair("callerid", "uid=0"),
            pair("msgtime", Datum::Int(1)),
        ];
        for (name, value) in changes {
            pairs.retain(|(key, _)| key.as_str() != Some(name));
            pairs.extend(value.clone().map(|value| pair(name, value)));
        }
        CoreRequest::read(&marshal::write(&Datum::Hash(pairs)))
    };
    assert!(good(&[]).is_ok());
    let int = || Some(Datum::Int(5));
    let text = |text: &str| Some(Datum::from(text));
    for (change, what) in [
        (("body", None), ":body"),
        (("body", int()), ":body"),
        (("senderid", None), ":senderid"),
        (("senderid", text("a b")), "identity"),
        (("requestid", text("../x")), "id of a request"),
        (("agent", None), ":agent"),
        (("agent", text("a.b")), "agent"),
        (("callerid", text("root")), "caller id"),
        (("callerid", int()), ":callerid"),
        (("msgtime", None), ":msgtime"),
        (("msgtime", text("1")), ":msgtime"),
        (("ttl", Some(Datum::Int(-1))), ":ttl"),
        (("filter", int()), "filter"),
        (("hash", int()), ":hash"),
    ] {
        let refused = good(std::slice::from_ref(&change)).unwrap_err();
        assert_eq!(refused.index(), 0, "{change:?}");
        assert!(refused.to_string().contains(what), "{change:?}: {refused}");
    }
    for data in [&b""[..], b"{}", b"\x04\x08i\x06", b"\x04\x08"] {
        assert!(CoreRequest::read(data).is_err());
        assert!(CoreReply::read(data).is_err());
    }
    let object = CoreRequest::read(b"\x04\x08{\x06:\x09bodyo:\x0bObject\x00");
    assert!(matches!(object, Err(Refused::Dangerous(_))));
}

use super::*;
use serde_json::Value;

const VECTORS: [&str; 3] = [
    include_str!("../../../../../tests/vectors/collective/choria-seed-generation-nats.json"),
    include_str!("../../../../../tests/vectors/collective/choria-v1-json-nats.json"),
    include_str!("../../../../../tests/vectors/collective/choria-federation.json"),
];

fn captured() -> Vec<Value> {
    let read = |text: &&str| -> Vec<Value> {
        let whole: Value = serde_json::from_str(text).unwrap();
        whole["messages"].as_array().unwrap().clone()
    };
    VECTORS.iter().flat_map(read).collect()
}

fn refused(text: &str) -> String {
    Packet::from_json(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn captured_packets_are_read_and_written_as_they_were() {
    let mut whole = 0;
    for message in captured() {
        let mut wire = message["transport"].clone();
        if wire["data"] == "(same bytes as above)" {
            wire["data"] = Value::from("AQID\n");
        } else {
            whole += 1;
        }
        let text = serde_json::to_vec(&wire).unwrap();
        let packet = Packet::from_json(&text).unwrap();
        assert_eq!(
            packet.form,
            match wire.get("protocol") {
                Some(_) => PacketForm::ChoriaLines,
                None => PacketForm::Plain,
            }
        );
        assert_eq!(
            packet.sender.as_deref(),
            wire["headers"]["mc_sender"].as_str()
        );
        assert_eq!(
            packet.reply_to.as_deref(),
            wire["headers"]["reply-to"].as_str()
        );
        if message["secure"].is_object() {
            let secure: Value = serde_json::from_slice(&packet.data).unwrap();
            assert_eq!(secure, message["secure"]);
        }
        let again: Value = serde_json::from_slice(&packet.to_json()).unwrap();
        assert_eq!(again, wire);
    }
    assert_eq!(whole, 40);
}

#[test]
fn headers_in_the_order_of_ruby_come_out_octet_by_octet() {
    let text = br#"{"protocol":"choria:transport:1","data":"AQID\n","headers":{"federation":{"target":["mcollective.node.a","mcollective.node.b"],"req":"a9c8115fda9c567c97b78f4ffd935290"},"mc_sender":"rip.mcollective","seen-by":[["rip.mcollective","nats://127.0.0.1:4222"]],"reply-to":"mcollective.reply.rip.mcollective.1.2"}}"#;
    let packet = Packet::from_json(text).unwrap();
    assert_eq!(packet.data, [1, 2, 3]);
    assert_eq!(packet.federation.as_ref().unwrap().targets.len(), 2);
    assert_eq!(packet.to_json(), text);
}

#[test]
fn both_kinds_of_base64_are_read_and_white_space_means_nothing() {
    let data: Vec<u8> = (0..=255).collect();
    let mut packet = Packet::new(PacketForm::Choria, data.clone(), "a");
    let text = String::from_utf8(packet.to_json()).unwrap();
    assert!(!text.contains("\\n"));
    assert_eq!(Packet::from_json(text.as_bytes()).unwrap(), packet);
    packet.form = PacketForm::ChoriaLines;
    let text = String::from_utf8(packet.to_json()).unwrap();
    assert_eq!(text.matches("\\n").count(), 6);
    assert_eq!(Packet::from_json(text.as_bytes()).unwrap(), packet);
    let spaced = text.replace("\\n", " \\r\\n\\t");
    assert_eq!(Packet::from_json(spaced.as_bytes()).unwrap().data, data);
}

#[test]
fn hops_are_lists_or_the_flat_names_of_the_seed() {
    let flat = r#"{"data":"","headers":{"seen-by":["nats1.example.net","collective_a_broker_1"],"new":{"x":[1]}},"more":1}"#;
    let packet = Packet::from_json(flat.as_bytes()).unwrap();
    let hops = vec![vec!["nats1.example.net"], vec!["collective_a_broker_1"]];
    assert_eq!(packet.seen_by.as_deref().unwrap(), hops);
    let again: Value = serde_json::from_slice(&packet.to_json()).unwrap();
    assert_eq!(again["headers"]["seen-by"][1], "collective_a_broker_1");
    let long = r#"{"data":"","headers":{"seen-by":[["a","b","c"],["d","e"]]}}"#;
    let packet = Packet::from_json(long.as_bytes()).unwrap();
    assert_eq!(packet.to_json(), long.as_bytes());
    let empty = r#"{"data":"","headers":{"seen-by":[]}}"#;
    let packet = Packet::from_json(empty.as_bytes()).unwrap();
    assert_eq!(packet.to_json(), empty.as_bytes());
}

#[test]
fn both_names_of_targets_are_known() {
    let text = r#"{"data":"","headers":{"federation":{"req":"1","targets":["a.node.b"]}}}"#;
    let packet = Packet::from_json(text.as_bytes()).unwrap();
    assert_eq!(packet.federation.unwrap().targets, ["a.node.b"]);
}

#[test]
fn what_is_no_packet_is_refused_in_words() {
    for (text, word) in [
        ("", "not a JSON object"),
        ("[null,\"\",{}]", "not a JSON object"),
        ("{", "EOF"),
        ("{}", "data"),
        (r#"{"data":"AA=="}"#, "headers"),
        (r#"{"data":1,"headers":{}}"#, "string"),
        (r#"{"data":"A","headers":{}}"#, "base64"),
        (r#"{"data":"AA*=","headers":{}}"#, "base64"),
        (r#"{"data":"AA==","data":"AA==","headers":{}}"#, "duplicate"),
        (r#"{"data":"","headers":{"mc_sender":["a"]}}"#, "string"),
        (
            r#"{"data":"","headers":{"federation":"a"}}"#,
            "invalid type",
        ),
        (
            r#"{"data":"","headers":{"federation":{"target":[]}}}"#,
            "req",
        ),
        (
            r#"{"data":"","headers":{"federation":{"req":"","target":"x"}}}"#,
            "list",
        ),
        (
            r#"{"data":"","headers":{"seen-by":[[]]}}"#,
            "without a name",
        ),
        (
            r#"{"data":"","headers":{"seen-by":[["a","b","c","d"]]}}"#,
            "three",
        ),
        (r#"{"data":"","headers":{"seen-by":[1]}}"#, "name"),
        (
            r#"{"data":"","headers":{},"protocol":"io.choria.protocol.v2.transport"}"#,
            "v2.transport",
        ),
    ] {
        let told = refused(text);
        assert!(told.contains(word), "{text}: {told}");
    }
    let deep = format!(r#"{{"data":"","headers":{{}},"x":{}"#, "[".repeat(100_000));
    assert!(refused(&deep).contains("inside one another"));
}

#[test]
fn limits_hold_before_more_is_read() {
    let big = vec![b' '; LARGEST_PACKET + 1];
    assert_eq!(
        Packet::from_json(&big),
        Err(Refused::TooLarge("bytes of a packet"))
    );
    let list = |count: usize, one: &str| vec![one; count].join(",");
    let targets = |count| {
        format!(
            r#"{{"data":"","headers":{{"federation":{{"req":"1","target":[{}]}}}}}}"#,
            list(count, r#""a.node.b""#)
        )
    };
    assert!(Packet::from_json(targets(MOST_TARGETS).as_bytes()).is_ok());
    assert!(refused(&targets(MOST_TARGETS + 1)).contains("more than 1024"));
    let hops = |count| {
        format!(
            r#"{{"data":"","headers":{{"seen-by":[{}]}}}}"#,
            list(count, r#"["a","b"]"#)
        )
    };
    assert!(Packet::from_json(hops(MOST_HOPS).as_bytes()).is_ok());
    assert!(refused(&hops(MOST_HOPS + 1)).contains("more than 64"));
    let long = format!(
        r#"{{"data":"","headers":{{"reply-to":"{}"}}}}"#,
        "a".repeat(LONGEST_HEADER + 1)
    );
    assert!(refused(&long).contains("1024 bytes"));
}

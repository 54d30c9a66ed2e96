//! Captured requests of real clients with the replies of two real servers: our nodes' replies must be equal byte for byte.

use super::*;
use crate::security::{Authority, Choria, ChoriaSettings, Names, Security};
use halite_crypto::PrivateKey;
use serde_json::Value as Json;

const CAPTURES: [(&str, Form); 2] = [
    (
        include_str!("../../../../../tests/vectors/collective/choria-seed-generation-nats.json"),
        Form::CHORIA_YAML,
    ),
    (
        include_str!("../../../../../tests/vectors/collective/choria-v1-json-nats.json"),
        Form::CHORIA,
    ),
];
const OWN: &str = include_str!("../../../../../tests/vectors/collective/own.pem");
const KEY: &str = include_str!("../../../../../tests/vectors/collective/own.key");

fn security(ca: &str, now: i64) -> Choria {
    Choria::new(ChoriaSettings {
        form: Form::CHORIA,
        authority: Authority::from_pem(ca).unwrap(),
        certificate: OWN.to_owned(),
        key: PrivateKey::from_pem(KEY).unwrap(),
        callers: Names::new(&[r"/\.mcollective$/"]).unwrap(),
        privileged: Names::default(),
        clock: Arc::new(move || now),
    })
    .unwrap()
}

/// The servers of the captures, with the facts that were queried.
fn servers() -> Vec<Node> {
    let grains = halite_wire::map! {"country" => "uk", "memorysize_mb" => "2048"};
    let node = |id: &str| {
        let classes = ["role::web".to_owned()];
        Node::new(&id.parse().unwrap(), Arc::new(grains.clone()), &classes).unwrap()
    };
    ALL[..2].iter().map(|id| node(id)).collect()
}

fn packet_of(message: &Json) -> Packet {
    let text = serde_json::to_vec(&message["transport"]).unwrap();
    Packet::from_json(&text).unwrap()
}

fn place_of(subject: &str) -> Option<Place> {
    let collective: Collective = "mcollective".parse().unwrap();
    if let Some(agent) = subject.strip_prefix("mcollective.broadcast.agent.") {
        return Some(Place::Broadcast(collective, agent.parse().unwrap()));
    }
    let node = subject.strip_prefix("mcollective.node.")?;
    Some(Place::Node(collective, node.parse().unwrap()))
}

#[test]
fn captured_requests_are_answered_as_they_were() {
    for (text, expected) in CAPTURES {
        let capture: Json = serde_json::from_str(text).unwrap();
        let ca = capture["ca_pem"].as_str().unwrap();
        let messages = capture["messages"].as_array().unwrap();
        let mut rig = Rig::new("");
        rig.inward.handle_news(News::Nodes(servers()));
        let (mut asked, mut compared) = (0, 0);
        for message in messages {
            let subject = message["subject"].as_str().unwrap();
            let Some(place) = place_of(subject) else {
                continue;
            };
            let packet = packet_of(message);
            let (request, form) = security(ca, T0).open_request(&packet.data).unwrap();
            assert_eq!(form, expected);
            // The servers' replies, each with its time in seconds.
            let of_node = |sender: &str| match &place {
                Place::Node(_, node) => node.as_str() == sender,
                _ => true,
            };
            let said: Vec<(&str, Packet, crate::wire::Reply)> = messages
                .iter()
                .filter(|other| place_of(other["subject"].as_str().unwrap()).is_none())
                .map(|other| {
                    let packet = packet_of(other);
                    let reply = security(ca, T0).open_reply(&packet.data).unwrap();
                    (other["subject"].as_str().unwrap(), packet, reply)
                })
                .filter(|(_, _, reply)| reply.id == request.id && of_node(reply.sender.as_str()))
                .collect();
            rig.now.unix = said
                .first()
                .map_or(request.time, |(_, _, reply)| reply.time);
            let heard = rig
                .inward
                .handle_request(Some(&place), &request, form, &packet, rig.now);
            assert_eq!(heard, Ok(Vec::new()));
            let answers = rig.answers();
            asked += 1;
            if said.is_empty() {
                // The capture ends before the replies.
                continue;
            }
            assert_eq!(answers.len(), said.len(), "{subject}");
            for answer in answers {
                let found = said
                    .iter()
                    .find(|(_, _, reply)| reply.sender == answer.reply.sender);
                let (to, around, reply) = found.unwrap();
                if reply.time != rig.now.unix {
                    continue;
                }
                assert_eq!(answer.to, *to);
                let seal = security(ca, T0);
                let data = seal.seal_reply(&answer.reply, answer.form, &answer.caller);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                assert_eq!(text(&data.unwrap()), text(&around.data));
                assert_eq!(answer.packet.sender, around.sender);
                assert_eq!(answer.packet.form, around.form);
                compared += 1;
            }
        }
        assert!(asked >= 6 && compared >= 8, "{asked} {compared}");
    }
}

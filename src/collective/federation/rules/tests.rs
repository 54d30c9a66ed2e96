use super::*;
use crate::wire::PacketForm;
use serde_json::{Value as Json, json};

const CAPTURE: &str = include_str!("../../../../tests/vectors/collective/choria-federation.json");
const FEDERATION: &str = "nats://127.0.0.1:15423";
const COLLECTIVE: &str = "nats://127.0.0.1:15422";
const INWARDS: Via = Via {
    from: FEDERATION,
    to: COLLECTIVE,
};
const OUTWARDS: Via = Via {
    from: COLLECTIVE,
    to: FEDERATION,
};

fn rules() -> Rules {
    Rules {
        cluster: "colla".into(),
        instance: "a1".into(),
        naming: Naming::Deployed,
        record_route: false,
    }
}

fn messages(network: &str) -> Vec<Json> {
    let whole: Json = serde_json::from_str(CAPTURE).unwrap();
    let all = whole["messages"].as_array().unwrap();
    all.iter()
        .filter(|m| m["network"] == network)
        .cloned()
        .collect()
}

/// Our broker treats each message as the Ruby broker did.
#[test]
fn captured_messages_become_what_they_became() {
    let (federation, collective) = (messages("federation"), messages("collective"));
    let mut seen = 0;
    for (side, from, to) in [
        (Side::Federation, &federation, &collective),
        (Side::Collective, &collective, &federation),
    ] {
        let via = match side {
            Side::Federation => INWARDS,
            Side::Collective => OUTWARDS,
        };
        for message in from
            .iter()
            .filter(|m| m["subject"] == rules().subject(side).as_str())
        {
            seen += 1;
            let mut transport = message["transport"].clone();
            if transport["data"] == "(same bytes as above)" {
                transport["data"] = json!("AQID\n");
            }
            let text = serde_json::to_vec(&transport).unwrap();
            let onward = rules().pass(side, &text, via).unwrap();
            let written: Json = serde_json::from_slice(&onward.packet.to_json()).unwrap();
            assert_eq!(written["data"], transport["data"]);
            let expected: Vec<&Json> = to
                .iter()
                .filter(|m| {
                    let headers = &m["transport"]["headers"];
                    match side {
                        Side::Federation => {
                            headers["federation"]["req"]
                                == transport["headers"]["federation"]["req"]
                                && headers["mc_sender"] == "rip.mcollective"
                        }
                        Side::Collective => {
                            m["subject"] == transport["headers"]["federation"]["reply-to"]
                                && headers["mc_sender"] == transport["headers"]["mc_sender"]
                        }
                    }
                })
                .collect();
            let subjects: Vec<&str> = expected
                .iter()
                .map(|m| m["subject"].as_str().unwrap())
                .collect();
            assert_eq!(onward.subjects, subjects);
            for message in expected {
                seen += 1;
                assert_eq!(written["headers"], message["transport"]["headers"]);
            }
        }
    }
    assert_eq!(seen, 17);
}

fn request(targets: &[&str], reply_to: &str) -> Packet {
    let mut packet = Packet::new(PacketForm::Plain, vec![1], "rip.mcollective");
    packet.reply_to = Some(reply_to.to_owned());
    packet.federation = Some(Federation {
        request: "a9c8115fda9c567c97b78f4ffd935290".into(),
        reply_to: None,
        targets: targets.iter().map(|t| (*t).to_owned()).collect(),
    });
    packet
}

fn answer(reply_to: &str) -> Packet {
    let mut packet = Packet::new(PacketForm::Plain, vec![1], "node1.example");
    packet.federation = Some(Federation {
        request: "a9c8115fda9c567c97b78f4ffd935290".into(),
        reply_to: Some(reply_to.to_owned()),
        targets: Vec::new(),
    });
    packet
}

const REPLY: &str = "mcollective.reply.rip.mcollective.1.1";

fn asked(packet: &Packet) -> Result<Onward, Rejection> {
    rules().pass(Side::Federation, &packet.to_json(), INWARDS)
}

fn answered(packet: &Packet) -> Result<Onward, Rejection> {
    rules().pass(Side::Collective, &packet.to_json(), OUTWARDS)
}

#[test]
fn forged_subjects_go_nowhere() {
    let node = "mcollective.node.node1.example";
    for forged in [
        "mcollective.broadcast.agent.shell",
        "choria.federation.colla.federation",
        "choria.federation.colla.collective",
        "mcollective.reply.>",
        "mcollective.reply.*.1",
        "$SYS.reply.x",
        "reply.x",
        "",
    ] {
        let expected = Err(Rejection::ForgedReplyTo(forged.to_owned()));
        assert_eq!(asked(&request(&[node], forged)), expected);
        assert_eq!(answered(&answer(forged)), expected);
    }
    for bad in [
        "mcollective.reply.a",
        ">",
        "mcollective.node.*",
        "$SYS.REQ.node.a",
        "a b.node.c",
    ] {
        // One bad target makes the message invalid.
        let turned = asked(&request(&[node, bad], REPLY));
        assert_eq!(turned, Err(Rejection::BadTarget(bad.to_owned())));
    }
    assert_eq!(asked(&request(&[], REPLY)), Err(Rejection::NoTarget));
    let mut nowhere = request(&[node], REPLY);
    nowhere.reply_to = None;
    assert_eq!(asked(&nowhere), Err(Rejection::NoReplyTo));
    let mut plain = request(&[node], REPLY);
    plain.federation = None;
    assert_eq!(asked(&plain), Err(Rejection::NoFederation));
    assert_eq!(answered(&plain), Err(Rejection::NoFederation));
    let mut nameless = answer(REPLY);
    nameless.federation.as_mut().unwrap().request.clear();
    assert_eq!(answered(&nameless), Err(Rejection::NoFederation));
    let turned = rules().pass(Side::Federation, b"{", INWARDS).unwrap_err();
    assert_eq!(Rejection::REASONS[turned.index()], "unreadable");
}

#[test]
fn nothing_goes_in_circles() {
    for target in [
        "choria.federation.colla.federation",
        "choria.federation.other.federation",
        "choria.federation.other.collective",
        "federation.network.other",
    ] {
        assert!(
            matches!(asked(&request(&[target], REPLY)), Err(Rejection::Loop(_))),
            "{target}"
        );
    }
    // A forwarded message is accepted by neither side again.
    let once = asked(&request(&["mcollective.node.a"], REPLY)).unwrap();
    assert!(asked(&once.packet).is_err());
    let back = answered(&answer(REPLY)).unwrap();
    assert!(answered(&back.packet).is_err());
    // It may have been forwarded by another broker of the same name.
    let hop = |here: &str| {
        vec![
            FEDERATION.to_owned(),
            here.to_owned(),
            COLLECTIVE.to_owned(),
        ]
    };
    let mut been = request(&["mcollective.node.a"], REPLY);
    been.seen_by = Some(vec![hop("other:a1")]);
    assert!(asked(&been).is_ok());
    been.seen_by = Some(vec![hop("colla:a2")]);
    assert!(matches!(asked(&been), Err(Rejection::Loop(_))));
    let mut reply = answer(REPLY);
    reply.seen_by = Some(vec![hop("colla:a2")]);
    assert!(answered(&reply).is_ok());
    reply.seen_by = Some(vec![hop("colla:a2"), hop("colla:a1")]);
    assert!(matches!(answered(&reply), Err(Rejection::Loop(_))));
    been.seen_by = Some(vec![hop("x"); MOST_HOPS]);
    assert!(matches!(asked(&been), Err(Rejection::Loop(_))));
}

#[test]
fn routes_begin_here_only_if_that_is_asked_for() {
    let packet = request(&["mcollective.node.a"], REPLY);
    assert_eq!(asked(&packet).unwrap().packet.seen_by, None);
    let rules = Rules {
        record_route: true,
        ..rules()
    };
    let onward = rules
        .pass(Side::Federation, &packet.to_json(), INWARDS)
        .unwrap();
    let route = onward.packet.seen_by.unwrap();
    assert_eq!(json!(route), json!([[FEDERATION, "colla:a1", COLLECTIVE]]));
}

#[test]
fn the_names_of_the_seed_are_known_as_well() {
    let rules = Rules {
        naming: Naming::Seed,
        cluster: "network_a".into(),
        ..rules()
    };
    for side in [Side::Federation, Side::Collective] {
        assert_eq!(rules.subject(side), "federation.network.network_a");
    }
    let packet = request(
        &["mcollective.broadcast.agent.discovery"],
        "mcollective.reply.client.choria.12413.1",
    );
    let onward = rules
        .pass(Side::Federation, &packet.to_json(), INWARDS)
        .unwrap();
    let headers: Json =
        serde_json::from_slice::<Json>(&onward.packet.to_json()).unwrap()["headers"].clone();
    assert_eq!(
        headers,
        json!({
            "mc_sender": "rip.mcollective",
            "reply-to": "federation.network.network_a",
            "federation": {"req": "a9c8115fda9c567c97b78f4ffd935290", "reply-to": "mcollective.reply.client.choria.12413.1"},
        })
    );
}

#[test]
fn nobody_is_asked_twice_and_unknown_data_is_left_alone() {
    let mut packet = request(
        &[
            "mcollective.node.b",
            "mcollective.node.a",
            "mcollective.node.b",
        ],
        REPLY,
    );
    packet.data = (0..=255).collect();
    for form in [
        PacketForm::Plain,
        PacketForm::ChoriaLines,
        PacketForm::Choria,
    ] {
        packet.form = form;
        let onward = asked(&packet).unwrap();
        assert_eq!(
            onward.subjects,
            ["mcollective.node.b", "mcollective.node.a"]
        );
        assert_eq!(
            (onward.packet.form, &onward.packet.data),
            (form, &packet.data)
        );
    }
}

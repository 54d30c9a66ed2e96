//! Captured messages of real peers (reference, section 9).

use super::*;

const CAPTURES: [&str; 16] = [
    include_str!("../../../../tests/vectors/arena/t01.txt"),
    include_str!("../../../../tests/vectors/arena/t02.txt"),
    include_str!("../../../../tests/vectors/arena/t03.txt"),
    include_str!("../../../../tests/vectors/arena/t04.txt"),
    include_str!("../../../../tests/vectors/arena/t05.txt"),
    include_str!("../../../../tests/vectors/arena/t06.txt"),
    include_str!("../../../../tests/vectors/arena/t07.txt"),
    include_str!("../../../../tests/vectors/arena/t08.txt"),
    include_str!("../../../../tests/vectors/arena/t09.txt"),
    include_str!("../../../../tests/vectors/arena/t10.txt"),
    include_str!("../../../../tests/vectors/arena/t11.txt"),
    include_str!("../../../../tests/vectors/arena/t12.txt"),
    include_str!("../../../../tests/vectors/arena/t13.txt"),
    include_str!("../../../../tests/vectors/arena/t14.txt"),
    include_str!("../../../../tests/vectors/arena/t15.txt"),
    include_str!("../../../../tests/vectors/arena/t16.txt"),
];

/// A captured publication: `T2:3` and so on, topic, payload.
struct Captured {
    name: String,
    topic: &'static str,
    payload: &'static str,
}

fn captured() -> Vec<Captured> {
    let mut all = Vec::new();
    for (n, text) in (1..).zip(CAPTURES) {
        for (line, text) in (1..).zip(text.lines().skip(1)) {
            let mut words = text.splitn(4, ' ').skip(2);
            all.push(Captured {
                name: format!("T{n}:{line}"),
                topic: words.next().unwrap(),
                payload: words.next().unwrap(),
            });
        }
    }
    all
}

/// The topics that a capture uses.
fn topics(topic: &str) -> Topics {
    let (realm, scheme) = match topic.split('/').collect::<Vec<_>>()[..] {
        [realm, "proc", ..] => (realm, Scheme::Draft),
        [realm, "g" | "s", namespace, ..] => {
            let namespace = namespace.into();
            (realm, Scheme::Scene { namespace })
        }
        _ => panic!("{topic}"),
    };
    Topics::new(realm, scheme).unwrap()
}

fn is_message(place: &Place) -> bool {
    !matches!(place, Place::Stdio(..) | Place::Profile(..))
}

/// Where two values differ, and how; nothing if they are identical.
fn differences(was: &Json, is: &Json, path: &str, found: &mut Vec<String>) {
    let (from, to) = match (was, is) {
        (Json::Object(from), Json::Object(to)) => (from, to),
        (Json::Array(from), Json::Array(to)) if from.len() == to.len() => {
            for (n, (was, is)) in from.iter().zip(to).enumerate() {
                differences(was, is, &format!("{path}/{n}"), found);
            }
            return;
        }
        _ if was == is => return,
        _ => return found.push(format!("{path} was {was}, is {is}")),
    };
    for (key, value) in from {
        match to.get(key) {
            Some(now) => differences(value, now, &format!("{path}/{key}"), found),
            None => found.push(format!("-{path}/{key}")),
        }
    }
    let new = to.keys().filter(|key| !from.contains_key(*key));
    found.extend(new.map(|key| format!("+{path}/{key}")));
    let order = |one: &Object, other: &Object| {
        let both = one.keys().filter(|key| other.contains_key(*key));
        both.cloned().collect::<Vec<_>>()
    };
    if order(from, to) != order(to, from) {
        found.push(format!("order{path}"));
    }
}

#[test]
fn every_publication_has_its_place() {
    let all = captured();
    assert_eq!(all.len(), 119);
    for one in all {
        let topics = topics(one.topic);
        let place = topics.place(one.topic);
        assert!(place.is_some(), "{} {}", one.name, one.topic);
    }
}

#[test]
fn messages_are_read_or_refused_for_what_is_wrong_with_them() {
    let mut refused = Vec::new();
    for one in captured() {
        let place = topics(one.topic).place(one.topic).unwrap();
        if is_message(&place) {
            match Message::parse(one.payload.as_bytes()) {
                Ok(_) => {}
                Err(fault) => refused.push(format!("{} {fault}", one.name)),
            }
        }
    }
    assert_eq!(
        refused,
        [
            r#"T4:7 invalid action/type: ["frob","req"]"#,
            "T10:15 missing field: data/uuid",
            "T10:17 missing field: data/type",
        ]
    );
}

/// How captured messages differ once we have written them: omitted lists and defaults are written out, and where peers
/// repeat the whole record in a deletion, only its uuid and name are kept. Messages not listed here are reproduced byte
/// for byte: everything that runtimes, managers and orchestrators of 2023 write.
const REWRITTEN: &[(&str, &[&str])] = &[
    (
        "+/data/apis, +/data/args, +/data/channels",
        &["T3:1", "T4:1", "T4:3", "T7:3", "T8:1", "T10:5", "T10:13"],
    ),
    (
        "-/data/file, +/data/filename, +/data/apis, +/data/args, +/data/env, +/data/channels",
        &["T4:9"],
    ),
    ("+/data/apis, +/data/channels, order/data", &["T6:1"]),
    ("+/data/apis, +/data/channels", &["T6:3", "T15:1", "T16:3"]),
    (
        "+/data/modules/0/apis, +/data/modules/0/channels, +/data/modules/1/apis, +/data/modules/1/channels",
        &["T6:4"],
    ),
    ("+/data/args/env, +/data/apis, +/data/channels", &["T7:5"]),
    ("+/data/args/env", &["T7:6", "T7:11"]),
    ("+/data/status", &["T9:1", "T9:2", "T16:9", "T16:10"]),
    ("order/data", &["T11:1", "T13:1"]),
    ("-/data/env, +/data/apis, +/data/channels", &["T11:3"]),
    (
        "+/data/children/0/active, order/data/children/0, order/data",
        &["T11:7"],
    ),
    ("-/data/name", &["T12:1"]),
    (
        "-/data/max_nmodules, -/data/apis, -/data/runtime_type",
        &["T13:3", "T13:6", "T13:8", "T14:3", "T14:4"],
    ),
    (
        r#"/data/channels/0/path was "/ch/default", is "default", +/data/channels/0/topic, order/data/channels/0, order/data"#,
        &["T13:4", "T14:1"],
    ),
    (
        "-/data/name, -/data/file, -/data/location, -/data/filetype, -/data/env, -/data/args, -/data/channels, -/data/apis",
        &["T13:5", "T14:2"],
    ),
    ("-/data/status", &["T16:4"]),
    (
        "+/data/apis, +/data/args, +/data/env, +/data/channels",
        &["T16:5", "T16:13"],
    ),
    ("+/data/type", &["T16:7"]),
    (
        "+/data/runtime_type, +/data/max_nmodules, +/data/apis",
        &["T16:15"],
    ),
];

#[test]
fn what_was_read_is_written_the_same_but_for_this() {
    let mut found = Vec::new();
    for one in captured() {
        let place = topics(one.topic).place(one.topic).unwrap();
        let Ok(message) = Message::parse(one.payload.as_bytes()) else {
            continue;
        };
        if is_message(&place) {
            let was = serde_json::from_str(one.payload).unwrap();
            let mut differ = Vec::new();
            differences(&was, &written(&message), "", &mut differ);
            if !differ.is_empty() {
                found.push(format!("{} {}", one.name, differ.join(", ")));
            }
        }
    }
    let expected = REWRITTEN.iter().flat_map(|(differ, names)| {
        let one = move |name: &&str| format!("{name} {differ}");
        names.iter().map(one)
    });
    let mut expected: Vec<String> = expected.collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

/// Body of a captured message.
fn body(name: &str) -> Body {
    let one = captured().into_iter().find(|one| one.name == name).unwrap();
    Message::parse(one.payload.as_bytes()).unwrap().body
}

#[test]
fn confirmations_tell_what_the_real_orchestrator_tells() {
    for (request, answer) in [
        ("T1:3", "T1:4"),
        ("T7:1", "T7:2"),
        ("T10:3", "T10:4"),
        ("T11:1", "T11:2"),
        ("T13:1", "T13:2"),
    ] {
        let (Body::Register(runtime), Body::Answer(real)) = (body(request), body(answer)) else {
            panic!("{request} {answer}");
        };
        let ours = Answer::registered(&runtime);
        assert_eq!(
            ours.data["details"].to_string(),
            real.data["details"].to_string()
        );
        assert_eq!(
            (&ours.data["result"], ours.verdict, ours.action),
            (&real.data["result"], real.verdict, real.action)
        );
    }
    let (Body::RegisterManager(manager), Body::Answer(real)) = (body("T1:1"), body("T1:2")) else {
        panic!("no manager");
    };
    assert_eq!(
        Answer::manager(&manager).data["details"].to_string(),
        real.data["details"].to_string()
    );
}

#[test]
fn requests_go_on_as_the_real_orchestrator_sends_them() {
    for (asked, sent) in [
        ("T2:1", "T2:2"),
        ("T6:1", "T6:2"),
        ("T6:3", "T6:9"),
        ("T15:1", "T15:2"),
    ] {
        let (Body::Create(asked), Body::Create(sent)) = (body(asked), body(sent)) else {
            panic!("{asked} {sent}");
        };
        let (uuid, index) = (sent.uuid.clone().unwrap(), sent.index.unwrap());
        let mut module = asked.into_module(uuid, index, Policy::Wait);
        module.runtime = sent.parent.as_ref().map(|parent| parent.0.parse().unwrap());
        assert_eq!(module.request(), *sent);
    }
}

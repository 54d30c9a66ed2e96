//! Captured dialogues of real peers with the real orchestrator (reference, section 9): the messages of its peers are
//! played, and ours must equal its messages, field by field, apart from the differences noted here.
//!
//! Differences in all of them: our answers have more fields; `args` is always an object; running numbers start
//! elsewhere; errors name the request, and are also sent as answers; requests to create or end a module are answered.

mod played;

use super::*;
use played::Goes::{self, As, But, Error, Fails, FailsBut, Ours};
use played::PLAYED;
use std::collections::HashMap;

const DIALOGUES: [&str; 16] = [
    include_str!("../../../../../../tests/vectors/arena/t01.txt"),
    include_str!("../../../../../../tests/vectors/arena/t02.txt"),
    include_str!("../../../../../../tests/vectors/arena/t03.txt"),
    include_str!("../../../../../../tests/vectors/arena/t04.txt"),
    include_str!("../../../../../../tests/vectors/arena/t05.txt"),
    include_str!("../../../../../../tests/vectors/arena/t06.txt"),
    include_str!("../../../../../../tests/vectors/arena/t07.txt"),
    include_str!("../../../../../../tests/vectors/arena/t08.txt"),
    include_str!("../../../../../../tests/vectors/arena/t09.txt"),
    include_str!("../../../../../../tests/vectors/arena/t10.txt"),
    include_str!("../../../../../../tests/vectors/arena/t11.txt"),
    include_str!("../../../../../../tests/vectors/arena/t12.txt"),
    include_str!("../../../../../../tests/vectors/arena/t13.txt"),
    include_str!("../../../../../../tests/vectors/arena/t14.txt"),
    include_str!("../../../../../../tests/vectors/arena/t15.txt"),
    include_str!("../../../../../../tests/vectors/arena/t16.txt"),
];

/// State that the captures assume but do not show.
const MISSING: [(&str, &str); 4] = [
    (
        "realm/proc/reg",
        r#"{"object_id": "0", "action": "create", "type": "req", "data": {"type": "runtime",
            "uuid": "9fbc17ab-9773-478d-a19b-b3b6ee779e3a", "name": "node2", "max_nmodules": 1}}"#,
    ),
    (
        "realm/proc/control/0b99e423-e94e-435d-8e75-a3a3bf19a1c8",
        r#"{"object_id": "0", "action": "create", "type": "req", "data": {"type": "module",
            "uuid": "eeeeeeee-0000-4000-8000-000000000007", "name": "nat", "file": "x"}}"#,
    ),
    (
        "realm/g/public/p/0b99e423-e94e-435d-8e75-a3a3bf19a1c8",
        r#"{"object_id": "0", "action": "create", "type": "req", "data": {"type": "runtime",
            "uuid": "0b99e423-e94e-435d-8e75-a3a3bf19a1c8", "name": "pyruntime", "apis": ["python:python3"]}}"#,
    ),
    (
        "realm/proc/reg",
        r#"{"object_id": "0", "action": "create", "type": "req", "data": {"type": "runtime",
            "uuid": "660e45dd-a892-4abc-b9a8-dd1a9fa96af2", "name": "bnode.bench"}}"#,
    ),
];

/// Topic and payload of a line.
fn captured(dialogue: usize, line: usize) -> (String, String) {
    if dialogue == 0 {
        let (topic, payload) = MISSING[line - 1];
        return (topic.into(), payload.into());
    }
    let line = DIALOGUES[dialogue - 1].lines().nth(line).unwrap();
    let mut words = line.splitn(4, ' ').skip(2).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

/// A replay.
struct Replay {
    world: World,
    name: String,
    /// Generated uuids and running numbers: the captured ones, and ours.
    uuids: HashMap<String, String>,
    numbers: HashMap<u64, u64>,
}

impl Replay {
    fn play(&mut self, topic: &str, payload: &str) -> Came {
        let mut payload = payload.to_owned();
        let mut topic = topic.to_owned();
        for (theirs, own) in &self.uuids {
            payload = payload.replace(theirs, own);
            topic = topic.replace(theirs, own);
        }
        let message = Incoming {
            topic,
            payload: payload.into_bytes().into(),
            retained: false,
            properties: Vec::new(),
        };
        self.world.hear(&message)
    }

    /// Checks that a message equals the captured one.
    fn same(&mut self, topic: &str, message: &Json, captured: &(String, String), but: &[&str]) {
        let name = self.name.clone();
        assert_eq!(topic, captured.0, "{name}");
        let theirs: Json = serde_json::from_str(&captured.1).unwrap();
        let answers = theirs["action"].is_null();
        let object_id = message["object_id"].as_str().unwrap();
        assert_eq!(
            answers,
            message["object_id"] == theirs["object_id"],
            "{name}"
        );
        assert_eq!(answers, !self.world.fleet.ids.is_own(object_id), "{name}");
        let mut theirs = theirs;
        theirs.as_object_mut().unwrap().remove("object_id");
        self.compare(&theirs, message, "", but);
    }

    /// Checks that our message has everything that the captured one has.
    fn compare(&mut self, theirs: &Json, own: &Json, path: &str, but: &[&str]) {
        let name = format!("{} {path}", self.name);
        if but.contains(&path) {
            if path == "data/uuid" {
                let text = |json: &Json| json.as_str().unwrap().to_owned();
                self.uuids.insert(text(theirs), text(own));
            }
            return;
        }
        match (theirs, own) {
            (Json::Object(theirs), Json::Object(own)) => {
                for (key, value) in theirs {
                    let path = format!("{path}/{key}");
                    let path = path.trim_start_matches('/');
                    let own = own.get(key).unwrap_or(&Json::Null);
                    self.compare(value, own, path, but);
                }
            }
            (Json::Array(argv), Json::Object(own)) if path == "data/args" => {
                assert_eq!(own["argv"].as_array(), Some(argv), "{name}");
            }
            (Json::Number(theirs), Json::Number(own)) if path == "data/index" => {
                let (theirs, own) = (theirs.as_u64().unwrap(), own.as_u64().unwrap());
                let before = *self.numbers.entry(theirs).or_insert(own);
                assert_eq!(before, own, "{name}");
            }
            _ => assert_eq!(theirs, own, "{name}"),
        }
    }

    fn step(&mut self, dialogue: usize, line: usize, goes: &[Goes], told: &[&str]) {
        self.name = format!("T{dialogue}:{line}");
        let (topic, payload) = captured(dialogue, line);
        let came = self.play(&topic, &payload);
        let published = came.published();
        let lines = came.sent();
        let mut sent = published.iter().zip(&lines);
        for goes in goes {
            let ((to, message), shown) = sent
                .next()
                .unwrap_or_else(|| panic!("{}: {lines:?}", self.name));
            match goes {
                As(line) => {
                    self.same(to, message, &captured(dialogue, *line), &[]);
                    continue;
                }
                But(line, but) => {
                    self.same(to, message, &captured(dialogue, *line), but);
                    continue;
                }
                Ours(expected) => {
                    assert!(fits(expected, shown), "{}: {shown}", self.name);
                    continue;
                }
                Fails(line) => {
                    self.same(to, message, &captured(dialogue, *line), &[]);
                }
                FailsBut(line, but) => {
                    self.same(to, message, &captured(dialogue, *line), but);
                }
                Error(desc) => {
                    assert!(
                        to.ends_with("log") || to.ends_with("log/orchestrator"),
                        "{to}"
                    );
                    assert_eq!(message["data"]["desc"], *desc, "{}", self.name);
                }
            }
            let request: Json = serde_json::from_str(&payload).unwrap();
            assert_eq!(
                message["data"]["request"], request["object_id"],
                "{}",
                self.name
            );
            let ((back, answer), _) = sent.next().unwrap();
            assert_eq!(**back, *topic, "{}", self.name);
            assert_eq!(answer["object_id"], request["object_id"], "{}", self.name);
            assert_eq!(answer["data"]["result"], "error", "{}", self.name);
            assert_eq!(answer["data"]["details"]["desc"], message["data"]["desc"]);
        }
        assert_eq!(
            sent.map(|(_, line)| line).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{}",
            self.name
        );
        let happened = came.told();
        let all = happened.len() == told.len();
        let fit = happened
            .iter()
            .zip(told)
            .all(|(is, expected)| fits(expected, is));
        assert!(all && fit, "{}: {happened:?}", self.name);
    }
}

/// Whether a line matches the expected words. `*` is the rest of a word or of the line; `M` and `R` are the uuids of a
/// module and a runtime.
fn fits(expected: &str, shown: &str) -> bool {
    let uuid = |word: &str| word.len() == 36 || word == "seedrt";
    let word = |expected: &str, shown: &str| match expected {
        "M" | "R" => uuid(shown),
        _ if expected.ends_with("/R") => {
            let (head, tail) = shown.rsplit_once('/').unwrap_or_default();
            uuid(tail) && expected.strip_suffix("/R") == Some(head)
        }
        _ => match expected.strip_suffix('*') {
            Some(start) => shown.starts_with(start),
            None => expected == shown,
        },
    };
    let mut shown = shown.split(' ');
    for expected in expected.split(' ') {
        match shown.next() {
            Some(shown) if word(expected, shown) => {}
            _ => return false,
        }
    }
    expected.ends_with('*') || shown.next().is_none()
}

#[test]
fn dialogues_of_real_peers() {
    for dialogue in PLAYED {
        let number = dialogue.number;
        let (realm, scheme) = match number {
            14 => (
                "realm",
                Scheme::Scene {
                    namespace: "public".into(),
                },
            ),
            16 => ("old", Scheme::Draft),
            _ => ("realm", Scheme::Draft),
        };
        let mut replay = Replay {
            world: World::with(Rules {
                topics: Topics::new(realm, scheme).unwrap(),
                keepalive: Duration::from_secs(60),
                ..rules()
            }),
            name: format!("T{number}"),
            uuids: HashMap::new(),
            numbers: HashMap::new(),
        };
        for (of, line) in dialogue.before {
            let (topic, payload) = captured(*of, *line);
            let came = replay.play(&topic, &payload);
            assert!(!came.acts.is_empty(), "T{number}: T{of}:{line}");
            assert!(!came.told().iter().any(|told| told.starts_with("fault")));
        }
        // Each line is sent to the orchestrator, or by it, or no longer sent.
        let mut lines: Vec<usize> = dialogue.never.iter().map(|(line, _)| *line).collect();
        for (line, goes, told) in dialogue.steps {
            lines.push(*line);
            lines.extend(goes.iter().filter_map(|goes| match goes {
                As(line) | But(line, _) | Fails(line) | FailsBut(line, _) => Some(*line),
                Error(_) | Ours(_) => None,
            }));
            replay.step(number, *line, goes, told);
        }
        lines.sort_unstable();
        let all: Vec<usize> = (1..DIALOGUES[number - 1].lines().count()).collect();
        assert_eq!(lines, all, "T{number}");
    }
}

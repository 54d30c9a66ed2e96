use super::super::fleet::{Admission, Admitted, Rules};
use super::*;
use crate::mqtt::Incoming;
use crate::wire::{Policy, Scheme};
use serde_json::json;
use std::sync::Arc;

/// Admits everybody, under its own name.
struct Open;

impl Admission for Open {
    fn admit(&mut self, _: &Uuid, name: &str) -> Admitted {
        Admitted::Yes(name.to_owned())
    }

    fn check(&mut self, uuid: &Uuid, name: &str) -> Admitted {
        self.admit(uuid, name)
    }
}

struct Place {
    fleet: Fleet,
    jobs: Jobs,
    output: Output,
    up: bool,
    now: Clock,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("master"), "gateways: {arena: {}}").unwrap();
        let config = halite_config::load_master(dir.path()).unwrap();
        let settings = config.arena_gateway().unwrap();
        let topics = Topics::new("realm", Scheme::Draft).unwrap();
        let rules = Rules {
            topics: topics.clone(),
            keepalive: Duration::from_secs(60),
            policy: Policy::Wait,
            max_managers: 10,
            max_runtimes: 10,
            max_waiting: 10,
            max_modules: 10,
            max_bytes: 1 << 20,
            forget_after: Duration::from_secs(3600),
        };
        let now = Clock::now();
        let mut fleet = Fleet::new(rules, Default::default(), now);
        fleet.connected(true, now);
        Place {
            fleet,
            jobs: Jobs::new(&settings, topics),
            output: Output::new(&settings),
            up: true,
            now,
        }
    }

    /// Handles a message; returns the results that it completes.
    fn hear(
        &mut self,
        topic: &str,
        action: &str,
        kind: &str,
        data: Json,
    ) -> Vec<(String, Value, i64)> {
        let message = json!({"object_id": "x", "action": action, "type": kind, "data": data});
        let message = Incoming {
            topic: format!("realm/proc/{topic}"),
            payload: message.to_string().into(),
            retained: false,
            properties: Vec::new(),
        };
        let acts = self.fleet.handle_message(&message, &mut Open, self.now);
        self.perform(acts)
    }

    fn perform(&mut self, acts: Vec<Act>) -> Vec<(String, Value, i64)> {
        let mut out = Vec::new();
        for act in acts {
            if let Act::Report(happening) = act {
                out.extend(self.jobs.happened(&happening, &self.fleet));
            }
        }
        returns(out)
    }

    fn runtime(&mut self, uuid: &str, metadata: Json) {
        let data = json!({
            "type": "runtime", "uuid": uuid, "name": uuid, "apis": ["wasm", "wasi"], "metadata": metadata,
            "max_nmodules": 1,
        });
        self.hear(&format!("reg/{uuid}"), "create", "req", data);
    }

    /// Runs a job for these ids: what is returned at once, and what is published.
    fn job(&mut self, ids: &[&str], fun: &str, words: &[&str], named: Map) -> Told {
        let mut arg: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
        let mut named = named;
        named.set("__kwarg__", true);
        arg.push(named.into());
        let order = Order {
            jid: "20261121092637195592".parse().unwrap(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            load: Arc::new(halite_wire::map! {"fun" => fun, "arg" => arg}),
        };
        let mut desk = JobContext {
            fleet: &mut self.fleet,
            output: &self.output,
            up: self.up,
            now: self.now,
        };
        let steps = self.jobs.run_job(&order, &mut desk);
        let (mut published, mut requests) = (Vec::new(), Vec::new());
        let sent = steps.into_iter().map(|step| match step {
            JobStep::Input(mut input) => {
                let all = std::mem::take(&mut input.publications);
                published.extend(all.into_iter().map(|one| one.topic));
                input.returned(None)
            }
            other => other,
        });
        let steps: Vec<JobStep> = sent.collect();
        let (acts, rest): (Vec<JobStep>, Vec<JobStep>) = steps
            .into_iter()
            .partition(|step| matches!(step, JobStep::Act(_)));
        let acts: Vec<Act> = acts
            .into_iter()
            .filter_map(|step| match step {
                JobStep::Act(act) => Some(act),
                _ => None,
            })
            .collect();
        for act in &acts {
            if let Act::Publish(publication) = act {
                published.push(publication.topic.clone());
                requests.push(serde_json::from_slice(&publication.payload).unwrap_or_default());
            }
        }
        let mut returned = returns(rest);
        returned.extend(self.perform(acts));
        Told {
            returned,
            published,
            requests,
        }
    }
}

#[derive(Debug)]
struct Told {
    returned: Vec<(String, Value, i64)>,
    published: Vec<String>,
    requests: Vec<Json>,
}

impl Told {
    fn only(&self) -> (&Value, i64) {
        match self.returned.as_slice() {
            [(_, value, retcode)] => (value, *retcode),
            other => panic!("{other:?}"),
        }
    }
}

fn returns(steps: Vec<JobStep>) -> Vec<(String, Value, i64)> {
    let each = steps.into_iter().filter_map(|step| match step {
        JobStep::Return(id, _, load) => Some((
            id.to_string(),
            load.get("return").cloned().unwrap_or_default(),
            load.int("retcode").unwrap_or(-1),
        )),
        _ => None,
    });
    each.collect()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.as_map().and_then(|map| map.str(key))
}

#[test]
fn who_confirms_is_waited_for() {
    let mut place = Place::new();
    place.runtime("r1", json!({"halite": "1"}));
    let named = halite_wire::map! {"uuid" => "m1"};
    let told = place.job(&["r1"], "arena.create", &["a.wasm"], named.clone());
    assert!(told.returned.is_empty(), "{told:?}");
    assert_eq!(told.published, ["realm/proc/control/r1"]);
    assert_eq!(place.jobs.count(), 1);
    // A job published again under the same jid is the same job.
    let again = place.job(&["r1"], "arena.create", &["a.wasm"], named);
    assert!(
        again.returned.is_empty() && again.published.is_empty(),
        "{again:?}"
    );
    let child = json!([{"uuid": "m1", "active": -1, "cpu_usage_percent": 1, "mem_usage": 1}]);
    let data = json!({"type": "runtime", "uuid": "r1", "name": "r1", "children": child});
    let returned = place.hear("keepalive/r1", "update", "req", data);
    assert_eq!((returned.len(), place.jobs.count()), (1, 0));
    assert_eq!(
        (text(&returned[0].1, "state"), returned[0].2),
        (Some("alive"), 0)
    );
}

#[test]
fn who_does_not_confirm_is_not_waited_for() {
    let mut place = Place::new();
    place.runtime("r1", json!({"host": "a"}));
    let told = place.job(&["r1"], "arena.create", &["a.wasm"], Map::new());
    let (value, retcode) = told.only();
    assert_eq!((text(value, "state"), retcode), (Some("alive"), 0));
    // There is one place: the next module waits, which is known at once.
    let told = place.job(&["r1"], "arena.create", &["b.wasm"], Map::new());
    assert_eq!(text(told.only().0, "state"), Some("queued"));
}

#[test]
fn silence_has_an_end() {
    let mut place = Place::new();
    place.runtime("r1", json!({"halite": "1"}));
    place.job(
        &["r1"],
        "arena.create",
        &["a.wasm"],
        halite_wire::map! {"uuid" => "m1"},
    );
    let running = place.job(
        &["r1"],
        "saltutil.find_job",
        &["20261121092637195592"],
        Map::new(),
    );
    // The same jid: a job of its own would be returned.
    assert!(running.returned.is_empty());
    let soon = place.now.after(Duration::from_secs(9));
    assert!(returns(place.jobs.tick(&place.fleet, soon)).is_empty());
    let late = place.now.after(Duration::from_secs(10));
    let returned = returns(place.jobs.tick(&place.fleet, late));
    assert_eq!(returned[0].2, 124);
    let error = text(&returned[0].1, "error").unwrap();
    assert_eq!(error, "the runtime has not confirmed it within 10 s");
    assert_eq!(place.jobs.count(), 0);
}

#[test]
fn an_end_is_waited_for() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    place.job(
        &["r1"],
        "arena.create",
        &["a.wasm"],
        halite_wire::map! {"uuid" => "m1"},
    );
    let told = place.job(&["r1"], "arena.delete", &["m1"], Map::new());
    assert!(told.returned.is_empty(), "{told:?}");
    let exit = json!({"type": "module", "uuid": "m1", "status": "deleted", "exit_code": 3});
    let returned = place.hear("control", "exited", "req", exit);
    let told = returned[0]
        .1
        .as_map()
        .and_then(|map| map.get("exit"))
        .unwrap();
    assert_eq!(text(told, "status"), Some("deleted"));
    assert_eq!(told.as_map().and_then(|map| map.int("exit_code")), Some(3));
    let told = place.job(&["r1"], "arena.delete", &["m1"], Map::new());
    let (value, retcode) = told.only();
    let expected = Value::from("arena.delete: invalid Module Name/UUID: m1");
    assert_eq!((value, retcode), (&expected, 1));
}

#[test]
fn a_runtime_that_goes_ends_what_waits() {
    let mut place = Place::new();
    place.runtime("r1", json!({"halite": "1"}));
    place.job(&["r1"], "arena.create", &["a.wasm"], Map::new());
    let gone = json!({"type": "runtime", "uuid": "r1"});
    let returned = place.hear("reg/r1", "delete", "req", gone);
    assert_eq!(returned[0].2, 1);
    assert_eq!(
        text(&returned[0].1, "error"),
        Some("the module is lost: deleted")
    );
    // It is disconnected: only functions about its record are answered.
    assert!(
        place
            .job(&["r1"], "test.ping", &[], Map::new())
            .returned
            .is_empty()
    );
    let told = place.job(&["r1"], "arena.runtime", &[], Map::new());
    assert_eq!(text(told.only().0, "state"), Some("dead"));
    let told = place.job(&["r1"], "arena.create", &["a.wasm"], Map::new());
    let expected = Value::from("arena.create: runtime is not connected: r1");
    assert_eq!(told.only(), (&expected, 1));
    let others = place.job(&["web1"], "test.ping", &[], Map::new());
    assert!(others.returned.is_empty());
}

#[test]
fn modules_are_those_of_the_runtime_that_is_asked() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    place.runtime("r2", json!({}));
    place.job(
        &["r1"],
        "arena.create",
        &["a.wasm"],
        halite_wire::map! {"uuid" => "m1", "name" => "m"},
    );
    let rows = |told: &Told| told.only().0.as_array().map(<[Value]>::len);
    assert_eq!(
        rows(&place.job(&["r1"], "arena.modules", &[], Map::new())),
        Some(1)
    );
    assert_eq!(
        rows(&place.job(&["r2"], "arena.modules", &[], Map::new())),
        Some(0)
    );
    for fun in ["arena.module", "arena.logs", "arena.delete"] {
        for name in ["m", "m1"] {
            let told = place.job(&["r2"], fun, &[name], Map::new());
            assert_eq!(told.only().1, 1, "{fun} {name}: {told:?}");
        }
    }
    let told = place.job(&["r1"], "arena.module", &["m"], Map::new());
    assert_eq!(text(told.only().0, "uuid"), Some("m1"));
    // Depending on the implementation, the runtime listens on one of these topics.
    let told = place.job(&["r1"], "arena.send", &["m", "x"], Map::new());
    assert_eq!(
        told.published,
        ["realm/proc/io/m1/stdin", "realm/proc/stdio/m1"]
    );
}

#[test]
fn input_is_for_modules_that_read_it() {
    let mut place = Place::new();
    place.runtime("r1", json!({"halite": "1"}));
    place.job(
        &["r1"],
        "arena.create",
        &["a.wasm"],
        halite_wire::map! {"uuid" => "m1"},
    );
    let other = |place: &mut Place| {
        let mut order = halite_wire::map! {"fun" => "arena.send"};
        order.set("arg", vec![Value::from("m1"), Value::from("x")]);
        let order = Order {
            jid: "20261121092637195593".parse().unwrap(),
            ids: vec!["r1".to_owned()],
            load: Arc::new(order),
        };
        let mut desk = JobContext {
            fleet: &mut place.fleet,
            output: &place.output,
            up: place.up,
            now: place.now,
        };
        returns(place.jobs.run_job(&order, &mut desk))
    };
    let returned = other(&mut place);
    let said = answer::text(&returned[0].1);
    assert!(
        said.contains("\"stdio:in\" is not among its apis"),
        "{said}"
    );
}

#[test]
fn without_a_broker_nothing_is_promised() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    place.up = false;
    for (fun, words) in [
        ("arena.create", &["a.wasm"][..]),
        ("arena.delete", &["m1"]),
        ("arena.send", &["m1", "x"]),
    ] {
        let told = place.job(&["r1"], fun, words, Map::new());
        let (value, retcode) = told.only();
        assert!(
            answer::text(value).contains("cannot be reached"),
            "{fun}: {value:?}"
        );
        assert_eq!((retcode, told.published.len()), (1, 0));
    }
    assert!(
        place
            .job(&["r1"], "test.ping", &[], Map::new())
            .returned
            .is_empty()
    );
    let told = place.job(&["r1"], "arena.modules", &[], Map::new());
    assert_eq!(told.only(), (&Value::Array(Vec::new()), 0));
}

#[test]
fn a_refusal_ends_the_wait_unless_another_takes_it() {
    let refuse = |place: &mut Place, object_id: &str| {
        let data = json!({"result": "error", "details": {"desc": "no such file", "uuid": "m1"}});
        let message =
            json!({"object_id": object_id, "action": "create", "type": "resp", "data": data});
        let message = Incoming {
            topic: "realm/proc/control/r1".to_owned(),
            payload: message.to_string().into(),
            retained: false,
            properties: Vec::new(),
        };
        let acts = place.fleet.handle_message(&message, &mut Open, place.now);
        place.perform(acts)
    };
    for (scheduled, expected) in [(false, 1), (true, 0)] {
        let mut place = Place::new();
        place.runtime("r1", json!({"halite": "1"}));
        let named = halite_wire::map! {"uuid" => "m1", "scheduled" => scheduled};
        let told = place.job(&["r1"], "arena.create", &["a.wasm"], named);
        assert!(told.returned.is_empty(), "{told:?}");
        // This one sends no confirmation, so what is sent to it counts as started.
        place.runtime("r2", json!({}));
        let object_id = told.requests[0]["object_id"].as_str().unwrap().to_owned();
        let returned = refuse(&mut place, &object_id);
        assert_eq!(returned.len(), 1, "{returned:?}");
        let (_, value, retcode) = &returned[0];
        assert_eq!(*retcode, expected, "{value:?}");
        if scheduled {
            assert_eq!(text(value, "id"), Some("r2"))
        } else {
            let error = text(value, "error");
            assert_eq!(error, Some("refused by the runtime: no such file"));
        }
    }
}

#[test]
fn input_that_cannot_be_sent_is_no_success() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    let uuid = halite_wire::map! {"uuid" => "m1"};
    place.job(&["r1"], "arena.create", &["a.wasm"], uuid);
    let order = Order {
        jid: "20261121092637195593".parse().unwrap(),
        ids: vec!["r1".to_owned()],
        load: Arc::new(
            halite_wire::map! {"fun" => "arena.send", "arg" => vec![Value::from("m1"), Value::from("x")]},
        ),
    };
    let mut desk = JobContext {
        fleet: &mut place.fleet,
        output: &place.output,
        up: place.up,
        now: place.now,
    };
    let steps = place.jobs.run_job(&order, &mut desk);
    let [JobStep::Input(_)] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    let answers = steps.into_iter().filter_map(|step| match step {
        JobStep::Input(input) => Some(input.returned(Some("Full".into()))),
        _ => None,
    });
    let returned = returns(answers.collect());
    let expected = Value::from("arena.send: cannot be sent: Full");
    assert_eq!(returned, [("r1".to_owned(), expected, 1)]);
}

#[test]
fn what_may_be_secret_is_in_no_return_of_a_start() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    let secret =
        || halite_wire::map! {"env" => "{TOKEN: hush}", "argv" => "[hush]", "uuid" => "m1"};
    let told = place.job(&["r1"], "arena.create", &["a.wasm"], secret());
    let (value, retcode) = told.only();
    assert_eq!((text(value, "state"), retcode), (Some("alive"), 0));
    assert!(!format!("{value:?}").contains("hush"), "{value:?}");
    let told = place.job(&["r1"], "arena.module", &["m1"], Map::new());
    assert!(format!("{told:?}").contains("hush"), "{told:?}");
}

#[test]
fn a_module_of_a_runtime_that_is_gone_can_be_ended_at_any() {
    let mut place = Place::new();
    place.runtime("r1", json!({}));
    place.runtime("r2", json!({}));
    let uuid = || halite_wire::map! {"uuid" => "m1"};
    place.job(&["r1"], "arena.create", &["a.wasm"], uuid());
    let told = place.job(&["r2"], "arena.delete", &["m1"], Map::new());
    let unknown = Value::from("arena.delete: invalid Module Name/UUID: m1");
    assert_eq!(told.only(), (&unknown, 1));
    let gone = json!({"type": "runtime", "uuid": "r1"});
    place.hear("reg/r1", "delete", "req", gone);
    let told = place.job(&["r2"], "arena.delete", &["m1"], Map::new());
    assert_eq!(text(told.only().0, "state"), Some("dead"));
}

//! What functions send, and what completes them.

use super::*;
use crate::wire::Code;
use std::sync::Arc;

const JID: &str = "20261121092637195592";

fn id() -> MachineId {
    "30006546535e428aba0a0caa6712e225".parse().unwrap()
}

fn order_as(jid: &str, fun: &str, arg: Vec<Value>) -> Order {
    Order::of(&halite_wire::map! {
        "jid" => jid, "fun" => fun, "arg" => arg, "user" => "root", "tgt" => "*",
        "tgt_type" => "glob", "minions" => vec![id().as_str().to_owned()],
    })
    .unwrap()
}

fn order(fun: &str, arg: Vec<Value>) -> Order {
    order_as(JID, fun, arg)
}

fn jobs() -> Jobs {
    Jobs::new(Duration::from_secs(300))
}

fn begin(jobs: &mut Jobs, order: &Order) -> Vec<Step> {
    jobs.start(order, &id(), Dialect::Modern, Instant::now())
}

/// The return and its code from a single step.
fn handed(steps: Vec<Step>) -> (Value, i64) {
    let [Step::Return(_, _, load)] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(load.str("id"), Some(id().as_str()));
    assert_eq!(
        load.get("success").unwrap().as_bool(),
        Some(load.int("retcode") == Some(0))
    );
    (
        load.get("return").unwrap().clone(),
        load.int("retcode").unwrap(),
    )
}

fn response(cycle: Option<&str>, code: Code, value: &str) -> Inbound {
    Inbound::Response {
        cycle: cycle.map(str::to_owned),
        code,
        value: value.into(),
    }
}

fn call(jobs: &mut Jobs, jid: &str) -> String {
    let steps = begin(
        jobs,
        &order_as(jid, "sysinspect.call", vec!["m/e/s".into()]),
    );
    let [Step::Send(_, cycle, Outbound::Command { .. })] = &steps[..] else {
        panic!("{steps:?}");
    };
    cycle.clone()
}

#[test]
fn pings() {
    let mut jobs = jobs();
    let steps = begin(&mut jobs, &order("test.ping", vec![]));
    let cycle = cycle(&JID.parse().unwrap());
    assert_eq!(steps, [Step::Send(id(), cycle, Outbound::Ping)]);
    // The same job a second time is not two.
    assert_eq!(begin(&mut jobs, &order("test.ping", vec![])), []);
    let done = handed(jobs.receive(&id(), Inbound::Pong(vec![])));
    assert_eq!(done, (true.into(), 0));
    assert_eq!(jobs.receive(&id(), Inbound::Pong(vec![])), []);
    assert_eq!(jobs.count(), 0);
}

#[test]
fn what_ends_a_command() {
    let mut jobs = jobs();
    // An answer that names its cycle.
    let cycle = call(&mut jobs, JID);
    assert_eq!(
        jobs.receive(&id(), response(Some("x"), Code::Success, "no")),
        []
    );
    let done = handed(jobs.receive(&id(), response(Some(&cycle), Code::GeneralFailure, "bad")));
    assert_eq!(done, ("bad".into(), 1));
    // An answer that names none: the oldest command.
    let jids = ["20261121092637195593", "20261121092637195594"];
    for jid in jids {
        call(&mut jobs, jid);
    }
    for jid in jids {
        let steps = jobs.receive(&id(), response(None, Code::Undef, "done"));
        assert!(matches!(&steps[..], [Step::Return(_, j, _)] if j.as_str() == jid));
    }
    // Events, then the end of the model.
    let cycle = call(&mut jobs, JID);
    let event = |retcode: i64| {
        let response = halite_wire::map! {"retcode" => retcode, "message" => "m"};
        Inbound::Action {
            cycle: Some(cycle.clone()),
            value: halite_wire::map! {"cid" => cycle.as_str(), "response" => response}.into(),
        }
    };
    assert_eq!(jobs.receive(&id(), event(0)), []);
    assert_eq!(jobs.receive(&id(), event(7)), []);
    let end = Inbound::Model {
        cycle: Some(cycle.clone()),
        value: Value::Nil,
    };
    let (value, retcode) = handed(jobs.receive(&id(), end));
    assert_eq!(retcode, 7);
    let map = value.as_map().unwrap();
    assert_eq!(map.get("actions").unwrap().as_array().unwrap().len(), 2);
    assert!(!map.contains("model"));
    // A cycle that a pong lists as finished.
    let cycle = call(&mut jobs, JID);
    assert_eq!(jobs.receive(&id(), Inbound::Pong(vec!["other".into()])), []);
    let (value, retcode) = handed(jobs.receive(&id(), Inbound::Pong(vec![cycle])));
    // Without any action that is a failure: the model is missing, or broken.
    assert_eq!(retcode, 1);
    let map = value.as_map().unwrap();
    assert_eq!(map.get("actions").unwrap(), &Value::Array(vec![]));
    assert!(map.str("error").unwrap().contains("ran no action"));
    let cycle = call(&mut jobs, JID);
    let end = Inbound::Model {
        cycle: Some(cycle),
        value: halite_wire::map! {"status" => "ok"}.into(),
    };
    assert_eq!(handed(jobs.receive(&id(), end)).1, 1);
    // A command of the minion's own has none.
    begin(&mut jobs, &order("sysinspect.call", vec!["cmd://x".into()]));
    let done = Inbound::Pong(vec![super::cycle(&JID.parse().unwrap())]);
    assert_eq!(handed(jobs.receive(&id(), done)).1, 0);
}

#[test]
fn time_ends_everything() {
    let mut jobs = jobs();
    let now = Instant::now();
    call(&mut jobs, JID);
    assert_eq!(jobs.tick(now + Duration::from_secs(200)), []);
    let (value, retcode) = handed(jobs.tick(now + Duration::from_secs(400)));
    assert_eq!(
        (value.as_str(), retcode),
        (Some("no answer within 300 s"), 124)
    );
    // A minion that disconnects counts as not connected, but its running commands may still finish.
    call(&mut jobs, JID);
    begin(
        &mut jobs,
        &order_as("20261121092637195593", "test.ping", vec![]),
    );
    jobs.disconnected(&id());
    assert_eq!(jobs.count(), 1);
    assert_eq!(jobs.receive(&id(), Inbound::Pong(vec![])), []);
}

#[test]
fn arguments_of_a_command() {
    let args = |arg: Vec<Value>| {
        let steps = begin(&mut jobs(), &order("sysinspect.call", arg));
        match steps.into_iter().next() {
            Some(Step::Send(
                _,
                _,
                Outbound::Command {
                    scheme,
                    words,
                    context,
                },
            )) => Ok((scheme, words, context)),
            other => Err(other),
        }
    };
    let named = halite_wire::map! {"__kwarg__" => true, "n" => 5, "b" => true};
    let found = args(vec!["cmd://x".into(), "a b".into(), 7.into(), named.into()]);
    let pairs = [("n", "5"), ("b", "True")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(
        found,
        Ok((
            "cmd://x".to_owned(),
            vec!["a b".to_owned(), "7".to_owned()],
            pairs.to_vec()
        ))
    );
    assert!(args(vec![]).is_err() && args(vec![" ".into()]).is_err());
}

#[test]
fn traits_are_asked_for_and_pushed() {
    let mut jobs = jobs();
    let steps = begin(&mut jobs, &order("grains.items", vec![]));
    assert!(matches!(
        &steps[..],
        [Step::Send(_, _, Outbound::AskTraits)]
    ));
    let told = Inbound::Traits(halite_wire::map! {"system.hostname" => "web"});
    let (value, _) = handed(jobs.receive(&id(), told.clone()));
    assert_eq!(value.as_map().unwrap().str("host"), Some("web"));
    for (fun, arg, expected) in [
        ("grains.get", vec!["system.hostname".into()], "web".into()),
        ("grains.get", vec!["x".into(), "none".into()], "none".into()),
        (
            "grains.item",
            vec!["host".into(), "x".into()],
            halite_wire::map! {"host" => "web", "x" => ""}.into(),
        ),
    ] {
        begin(&mut jobs, &order(fun, arg));
        assert_eq!(handed(jobs.receive(&id(), told.clone())), (expected, 0));
    }
    begin(&mut jobs, &order("grains.ls", vec![]));
    let (names, _) = handed(jobs.receive(&id(), told.clone()));
    assert!(names.str_list().contains(&"system.hostname".to_owned()));
    // E1 minions do not answer: what is known without them is.
    let e1 = |jobs: &mut Jobs, fun: &str, arg: Vec<Value>| {
        handed(jobs.start(&order(fun, arg), &id(), Dialect::E1, Instant::now()))
    };
    let known = e1(&mut jobs, "grains.get", vec!["gateway".into()]);
    assert_eq!(known, ("sysinspect".into(), 0));
    assert_eq!(e1(&mut jobs, "sysinspect.traits", vec![]).1, 1);
}

/// E3 ignores traits in `tr`, and answers it all the same.
#[test]
fn traits_are_pushed_and_it_is_seen_whether_they_were_set() {
    let push = |jobs: &mut Jobs, dialect| {
        let push = halite_wire::map! {
            "__kwarg__" => true, "rack" => "r7", "n" => 5, "old" => Value::Nil,
        };
        let order = order("sysinspect.traits", vec![push.into()]);
        jobs.start(&order, &id(), dialect, Instant::now())
    };
    let said = |steps: &[Step]| -> Vec<Outbound> {
        let message = |step: &Step| match step {
            Step::Send(_, _, message) => message.clone(),
            other => panic!("{other:?}"),
        };
        steps.iter().map(message).collect()
    };
    let traits = halite_wire::map! {"rack" => "r7", "n" => 5, "old" => Value::Nil};
    let update = |text: &str| Outbound::Command {
        scheme: "cmd://cluster/traits/update".to_owned(),
        words: vec![text.to_owned()],
        context: Vec::new(),
    };
    let mut jobs = jobs();
    let steps = push(&mut jobs, Dialect::Modern);
    let expected = [
        update(r#"{"op":"set","traits":{"rack":"r7","n":5}}"#),
        update(r#"{"op":"unset","traits":{"old":null}}"#),
        Outbound::PushTraits(traits.clone()),
    ];
    assert_eq!(said(&steps), expected);
    let told = |rack: &str| {
        Inbound::Traits(halite_wire::map! {"system.hostname" => "web", "rack" => rack, "n" => 5})
    };
    assert_eq!(handed(jobs.receive(&id(), told("r7"))), (true.into(), 0));
    // One that does nothing with them.
    push(&mut jobs, Dialect::Modern);
    let (text, code) = handed(jobs.receive(&id(), told("r6")));
    assert_eq!(code, 1);
    assert!(
        text.as_str().unwrap().contains("has not changed rack;"),
        "{text:?}"
    );
    // An answer to an earlier question says nothing yet.
    begin(
        &mut jobs,
        &order_as("20261121092637195599", "grains.items", vec![]),
    );
    push(&mut jobs, Dialect::Modern);
    assert_eq!(jobs.receive(&id(), told("r6")).len(), 1);
    assert_eq!(handed(jobs.receive(&id(), told("r7"))), (true.into(), 0));
    // The seed's dialect has a message for it.
    let steps = push(&mut jobs, Dialect::Seed);
    assert_eq!(said(&steps), [Outbound::PushTraits(traits)]);
}

#[test]
fn json_stays_json_on_its_way() {
    let request = halite_wire::map! {"op" => "set", "traits" => halite_wire::map! {"a" => true}};
    let arg = vec!["cmd://cluster/traits/update".into(), request.into()];
    let steps = begin(&mut jobs(), &order("sysinspect.call", arg));
    let [Step::Send(_, _, Outbound::Command { words, .. })] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(words, &[r#"{"op":"set","traits":{"a":true}}"#]);
}

#[test]
fn what_is_answered_here() {
    let mut jobs = jobs();
    call(&mut jobs, JID);
    let ask = |jobs: &mut Jobs, fun: &str, arg: Vec<Value>| {
        handed(begin(jobs, &order_as("20261121092637199999", fun, arg)))
    };
    let (found, _) = ask(&mut jobs, "saltutil.find_job", vec![JID.into()]);
    assert_eq!(found.as_map().unwrap().str("fun"), Some("sysinspect.call"));
    let (none, code) = ask(&mut jobs, "saltutil.find_job", vec!["1".into()]);
    assert_eq!((none, code), (Map::new().into(), 0));
    let (all, _) = ask(&mut jobs, "saltutil.running", vec![]);
    assert_eq!(all.as_array().unwrap().len(), 1);
    let (names, _) = ask(&mut jobs, "sys.list_functions", vec![]);
    assert_eq!(names.as_array().unwrap().len(), FUNCTIONS.len());
    let missing = ask(&mut jobs, "cmd.run", vec!["id".into()]);
    assert_eq!(missing, ("'cmd.run' is not available.".into(), 1));
    let mut several = order("x", vec![]);
    several.load = Arc::new(halite_wire::map! {"fun" => vec!["test.ping".to_owned()]});
    assert_eq!(handed(begin(&mut jobs, &several)).1, 1);
}

#[test]
fn unregistration() {
    let steps = begin(&mut jobs(), &order("sysinspect.unregister", vec![]));
    let [
        Step::Send(_, _, Outbound::Remove),
        Step::Send(_, _, Outbound::Command { scheme, .. }),
        Step::Unregister(_, _, load),
    ] = &steps[..]
    else {
        panic!("{steps:?}");
    };
    assert_eq!(scheme, REMOVE_COMMAND);
    assert_eq!(load.get("return"), Some(&true.into()));
    let order = order("sysinspect.unregister", vec![]);
    let steps = jobs().start(&order, &id(), Dialect::Seed, Instant::now());
    assert_eq!(steps.len(), 2);
}

#[test]
fn bounded() {
    let mut jobs = jobs();
    for n in 0..MAX_JOBS {
        call(&mut jobs, &format!("2026112109263719{n:04}"));
    }
    let more = order_as("20271121092637195592", "sysinspect.call", vec!["x".into()]);
    assert_eq!(handed(begin(&mut jobs, &more)).1, 1);
    for _ in 0..MAX_ACTIONS + 5 {
        let value = Value::Map(Map::new());
        jobs.receive(&id(), Inbound::Action { cycle: None, value });
    }
    let end = Inbound::Model {
        cycle: None,
        value: Value::Nil,
    };
    let (value, _) = handed(jobs.receive(&id(), end));
    assert_eq!(value.as_map().unwrap().int("dropped"), Some(5));
    for _ in 0..6 {
        let value = Value::Str("x".repeat(1 << 20));
        jobs.receive(&id(), Inbound::Action { cycle: None, value });
    }
    let end = Inbound::Model {
        cycle: None,
        value: Value::Nil,
    };
    let (value, _) = handed(jobs.receive(&id(), end));
    assert_eq!(value.as_map().unwrap().int("dropped"), Some(3));
}

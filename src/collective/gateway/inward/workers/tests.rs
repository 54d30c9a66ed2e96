use super::bus::{changes, returned};
use super::*;
use crate::gateway::inward::Order;
use halite_ipc::Event;
use halite_wire::Map;
use halite_wire::msgpack::{self, Profile};

const JID: &str = "20261121092637195592_77";

fn event(jid: &str, data: &Map) -> Event {
    Event {
        tag: format!("salt/job/{jid}/ret/node1.example"),
        payload: msgpack::encode_map(data, Profile::Local),
    }
}

#[test]
fn only_returns_of_own_jobs_are_heard() {
    let jobs = &*halite_store::memory::stores().jobs;
    let own = OwnJobs::default();
    let load = halite_wire::map! {"return" => true, "retcode" => 0};
    assert!(returned(&event(JID, &load), &own, jobs).is_none());
    own.change(|jids| {
        jids.insert(JID.parse().unwrap());
    });
    let Some(News::Returned(jid, id, found)) = returned(&event(JID, &load), &own, jobs) else {
        panic!("it is not heard");
    };
    assert_eq!((jid.as_str(), id.as_str()), (JID, "node1.example"));
    assert_eq!(found, load);
    assert!(returned(&event("20261121092637195593", &load), &own, jobs).is_none());
}

#[test]
fn a_return_too_large_for_the_bus_is_looked_up() {
    let jobs = &*halite_store::memory::stores().jobs;
    let own = OwnJobs::default();
    let (jid, id): (Jid, halite_wire::ids::MinionId) =
        (JID.parse().unwrap(), "node1.example".parse().unwrap());
    own.change(|jids| {
        jids.insert(jid.clone());
    });
    let full = halite_wire::map! {"id" => "node1.example", "return" => "x".repeat(100), "retcode" => 0, "success" => true};
    let load = halite_wire::map! {"fun" => "test.ping"};
    jobs.save_load(&jid, &load, &["node1.example".to_owned()], &[])
        .unwrap();
    jobs.save_return(&jid, &id, &full).unwrap();
    let cut = halite_wire::map! {"return" => "VALUE_TRIMMED", "retcode" => 0};
    let Some(News::Returned(_, _, found)) = returned(&event(JID, &cut), &own, jobs) else {
        panic!("it is not heard");
    };
    assert_eq!(found.str("return").map(str::len), Some(100));
}

#[test]
fn what_changes_the_fleet() {
    for tag in [
        "salt/minion/node1.example/start",
        "salt/key",
        "salt/presence/change",
        "minion/refresh/node1.example",
    ] {
        assert!(changes(tag), "{tag}");
    }
    for tag in [
        "salt/presence/present",
        "salt/job/1/new",
        "salt/minion/a/b/start",
        "salt/auth",
    ] {
        assert!(!changes(tag), "{tag}");
    }
}

#[test]
fn a_full_queue_is_said_at_once() {
    let (tasks, queue) = bounded(1);
    let workers = Workers {
        tasks,
        own: OwnJobs::default(),
        threads: Vec::new(),
    };
    let jid: Jid = JID.parse().unwrap();
    let order = Order {
        jid: jid.clone(),
        user: "uid=0".into(),
        from: "host1".into(),
        fun: "test.ping".into(),
        arg: Vec::new(),
        minions: vec!["a".into()],
    };
    assert!(workers.take(Task::Publish(order.clone())).is_none());
    assert!(workers.own.has(&jid));
    assert!(matches!(
        workers.take(Task::Publish(order)),
        Some(News::Unpublished(..))
    ));
    assert!(
        matches!(workers.take(Task::Look(jid.clone())), Some(News::Looked(_, found)) if found.is_empty())
    );
    assert!(workers.take(Task::Forget(jid.clone())).is_none());
    assert!(!workers.own.has(&jid));
    assert_eq!(queue.len(), 1);
}

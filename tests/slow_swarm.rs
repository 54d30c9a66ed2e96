//! A thousand simulated minions against a real master: every one signs in, every one answers,
//! and bus and job cache agree.

mod harness;

use halite::client::gather::{Gather, Outcome, Patience};
use halite::store::jobs::JobStore;
use halite::wire::Value;
use halite::wire::msgpack;
use halite_ipc::{Event, Subscriber};
use harness::{LIMIT, Master};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MINIONS: usize = 1000;

/// Reads all events in a thread of its own, as fast as they come.
fn listen(master: &Master) -> Receiver<Event> {
    let path = master.config().sock_dir.join("master_event_pub.ipc");
    let mut bus = Subscriber::connect(path).unwrap();
    let (send, receive) = channel();
    std::thread::spawn(move || {
        while let Ok(Some(event)) = bus.next(None) {
            assert_ne!(
                event.tag, "halite/bus/dropped",
                "the test listens too slowly"
            );
            if send.send(event).is_err() {
                return;
            }
        }
    });
    receive
}

/// Collects the ids that `pick` finds in events until there are as many as minions.
fn collect(events: &Receiver<Event>, pick: impl Fn(&Event) -> Option<String>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let end = Instant::now() + LIMIT;
    while ids.len() < MINIONS {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(event) = events.recv_timeout(left) else {
            break;
        };
        if let Some(id) = pick(&event) {
            assert!(ids.insert(id.clone()), "{} comes twice for {id}", event.tag);
        }
    }
    ids
}

#[test]
fn a_thousand_minions_sign_in_and_answer() {
    let master = Master::start("");
    let events = listen(&master);
    let swarm = master.swarm(MINIONS);
    let all: BTreeSet<String> = (0..MINIONS).map(|n| format!("sw-{n}")).collect();

    let accepted = collect(&events, |event| {
        if event.tag != "salt/auth" {
            return None;
        }
        let data = msgpack::decode(&event.payload).unwrap().into_map().unwrap();
        assert_eq!(
            (data.str("act"), data.get("result")),
            (Some("accept"), Some(&Value::Bool(true)))
        );
        Some(data.str("id").unwrap().to_owned())
    });
    assert_eq!(accepted, all, "sign-ins on the bus");

    let mut jids = Vec::new();
    for _ in 0..3 {
        let published = master.publish_ping("*");
        assert_eq!(published.minions.len(), MINIONS);
        let prefix = format!("salt/job/{}/ret/", published.jid);
        let returned = collect(&events, |event| {
            let id = event.tag.strip_prefix(&prefix)?.to_owned();
            let load = msgpack::decode(&event.payload).unwrap().into_map().unwrap();
            assert_eq!(load.get("return"), Some(&Value::Bool(true)));
            assert_eq!(load.str("id"), Some(id.as_str()));
            Some(id)
        });
        assert_eq!(returned, all, "returns on the bus");
        jids.push(published.jid);
    }
    let answers = 3 * MINIONS as u64;
    assert!(swarm.wait(LIMIT, |s| s.answered() >= answers));
    let jobs = halite::store::open::job_store(&master.config());
    for jid in &jids {
        let job = jobs.get(&jid.parse().unwrap()).unwrap().unwrap();
        let kept: BTreeSet<String> = job.returns.iter().map(|r| r.id.clone()).collect();
        assert_eq!(
            (kept, job.returns.len()),
            (all.clone(), MINIONS),
            "job cache of {jid}"
        );
    }
    let stats = swarm.finish().unwrap();
    assert_eq!(stats.errors, Default::default());
}

#[test]
fn the_client_accounts_for_every_minion() {
    let master = Master::start("");
    let swarm = master.swarm(MINIONS);
    let config = master.config();
    let mut client = master.client();
    let mut events = client.listen().unwrap();
    let published = master.publish_ping("*");
    let jobs = halite::store::open::job_store(&config);
    let patience = Patience {
        timeout: LIMIT,
        find_job: Duration::from_secs(10),
        together: true,
    };
    let mut returned = BTreeSet::new();
    let mut gather = Gather::new(&mut client, &mut events, Some(&jobs), patience);
    gather.watch(&published);
    gather
        .run(&|| false, &mut |id, outcome| {
            assert!(matches!(outcome, Outcome::Returned(_)), "{id}: {outcome:?}");
            assert!(returned.insert(id.to_owned()), "{id} twice");
        })
        .unwrap();
    assert_eq!(returned.len(), MINIONS);
    assert_eq!(swarm.finish().unwrap().errors, Default::default());
}

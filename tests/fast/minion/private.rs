//! `publish_private`: what goes to one minion is not sent to another.

use super::pair::*;
use halite::client::local::Job;
use halite::crypto::KeyString;
use testing::harness::Master;
use testing::proxy::{Proxy, contains};

const SECRET: &str = "for m1 alone";

/// A master, two minions, and what each of them is sent.
fn network(extra: &str) -> (Pair, Minion, [Proxy; 2]) {
    let master = Master::start(&format!("publish_private: true\n{extra}"));
    let mut bus = listen(&master);
    let [publish, ret] = ports(&master);
    let proxies = [0, 1].map(|_| Proxy::to(publish));
    let transport = extra.lines().find(|line| line.starts_with("transport"));
    let start = |n: usize, id: &str| {
        Minion::start([proxies[n].port, ret], id, transport.unwrap_or_default())
    };
    let other = start(1, "m2");
    wait(&mut bus, |e, _| e.tag == "salt/minion/m2/start");
    let minion = start(0, "m1");
    let mut pair = Pair::new(master, bus, minion);
    pair.started();
    (pair, other, proxies)
}

/// Sends a job to all; both must answer.
fn run_all(pair: &mut Pair) {
    let job = Job {
        fun: "test.ping".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    let published = pair.master.client().publish(&job).unwrap();
    assert_eq!(published.minions, ["m1", "m2"]);
    let mut missing = published.minions;
    while !missing.is_empty() {
        let (event, _) = wait(&mut pair.bus, |e, _| {
            e.tag
                .starts_with(&format!("salt/job/{}/ret/", published.jid))
        });
        missing.retain(|id| !event.tag.ends_with(id.as_str()));
    }
}

fn each_gets_its_own(extra: &str) {
    let (mut pair, _other, proxies) = network(extra);
    proxies.iter().for_each(|proxy| drop(proxy.take_heard()));
    for _ in 0..3 {
        let ret = pair.run("test.echo", &[SECRET.into()]);
        assert_eq!(text(&ret, "return"), SECRET);
    }
    let heard = proxies[1].take_heard();
    assert!(
        !contains(&heard, "gcm") && !contains(&heard, "load"),
        "{heard:?}"
    );
    assert!(contains(&proxies[0].take_heard(), "gcm"));
    run_all(&mut pair);
    for proxy in &proxies {
        let heard = proxy.take_heard();
        assert!(contains(&heard, "gcm") && !contains(&heard, "aes"));
    }
}

#[test]
fn each_gets_its_own_over_zeromq() {
    each_gets_its_own("");
}

#[test]
fn each_gets_its_own_over_tcp() {
    each_gets_its_own("transport: tcp");
}

#[test]
fn each_gets_its_own_over_websocket() {
    each_gets_its_own("transport: ws");
}

#[test]
fn signed_jobs_are_private_too() {
    each_gets_its_own("sign_pub_messages: true");
}

/// Who has no such session gets the job as ever, and so do the others.
#[test]
fn stock_minions_are_served() {
    let (mut pair, mut other, proxies) = network("");
    other.kill();
    let path = other.path("minion");
    let config = std::fs::read_to_string(&path).unwrap() + "handshake: salt\n";
    std::fs::write(&path, config).unwrap();
    other.restart();
    wait(&mut pair.bus, |e, _| e.tag == "salt/minion/m2/start");
    proxies.iter().for_each(|proxy| drop(proxy.take_heard()));
    run_all(&mut pair);
    for proxy in &proxies {
        let heard = proxy.take_heard();
        assert!(contains(&heard, "aes") && !contains(&heard, "gcm"));
    }
    pair.run("test.ping", &[]);
    assert!(contains(&proxies[0].take_heard(), "gcm"));
}

/// Another process of the minion may have signed in anew.
#[test]
fn a_new_session_is_fetched() {
    let (mut pair, _other, _proxies) = network("");
    pair.run("test.ping", &[]);
    let file = pair.master.config().cachedir.join("sessions_gcm/m1");
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, owner) = text.split_once(' ').unwrap();
    let other = format!("{} {owner}", KeyString::generate().as_str());
    std::fs::write(&file, other).unwrap();
    pair.run("test.ping", &[]);
    std::fs::remove_file(&file).unwrap();
    pair.run("test.ping", &[]);
}

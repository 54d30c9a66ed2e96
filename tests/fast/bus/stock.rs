//! Stock Salt's own event code on both sockets of our bus.
//!
//! Needs virtual environments with Salt in them, named by `HALITE_SALT_3006` and
//! `HALITE_SALT_3008`; without them these tests say so and pass.

use super::{Bus, LONG};
use halite::transport::bus::BusOptions;
use halite_ipc::{Event, Framing, Publisher, StampStyle, Subscriber};
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Listens, then tells in JSON lines what it hears; fires two events at the end.
const PEER: &str = r#"
import hashlib, json, sys
import salt.utils.event
bus = salt.utils.event.get_event("master", sock_dir=sys.argv[1], opts={}, listen=True)
def say(**kw):
    print(json.dumps(kw), flush=True)
say(ready=True)
for _ in range(int(sys.argv[2])):
    event = bus.get_event(wait=30, full=True)
    if event is None:
        say(lost=True)
        sys.exit(1)
    text = event["data"].pop("big", None)
    if text is not None:
        event["data"]["big"] = hashlib.sha256(text.encode()).hexdigest()
    say(**event)
say(fired=bool(bus.fire_event({"from": "stock", "octets": b"\xff", "n": 1}, "stock/one")))
say(fired=bool(bus.fire_event({"big": "y" * 300000}, "stock/two")))
while True:
    event = bus.get_event(wait=30, full=True)
    if event is None or event["tag"] == "stock/two":
        break
say(own=event is not None)
"#;

/// The event publisher of a stock master, without the master; ends with its input.
const SERVER: &str = r#"
import os, sys, threading
import salt.config, salt.utils.event
paths = dict.fromkeys(["root_dir", "sock_dir", "pki_dir", "cachedir"], sys.argv[1])
opts = salt.config.apply_master_config(dict(paths, id="bus_master"))
opts["sock_dir"] = sys.argv[1]
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
if hasattr(salt.utils.event, "EventPublisher"):
    salt.utils.event.EventPublisher(opts).run()
else:
    import salt.channel.server
    salt.channel.server.MasterPubServerChannel.factory(opts)._publish_daemon()
"#;

#[test]
fn stock_3006_listens_and_fires() {
    if let Some(venv) = venv("HALITE_SALT_3006") {
        both_directions(&venv, Framing::Prefixed, StampStyle::Naive);
    }
}

#[test]
fn stock_3008_listens_and_fires() {
    if let Some(venv) = venv("HALITE_SALT_3008") {
        both_directions(&venv, Framing::Bare, StampStyle::Offset);
    }
}

#[test]
fn our_client_on_a_stock_3006_bus() {
    if let Some(venv) = venv("HALITE_SALT_3006") {
        client_on_stock(&venv);
    }
}

#[test]
fn our_client_on_a_stock_3008_bus() {
    if let Some(venv) = venv("HALITE_SALT_3008") {
        client_on_stock(&venv);
    }
}

fn client_on_stock(venv: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(format!("{venv}/bin/python"))
        .args(["-c", SERVER])
        .arg(dir.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let pull = dir.path().join("master_event_pull.ipc");
    let publ = dir.path().join("master_event_pub.ipc");
    let (mut listener, mut sender) = loop {
        let both = (
            Subscriber::connect(&publ),
            Publisher::connect(&pull, Framing::Prefixed),
        );
        if let (Ok(listener), Ok(sender)) = both {
            break (listener, sender);
        }
        let ended = server.try_wait().unwrap();
        assert!(
            ended.is_none() && Instant::now() < end,
            "the stock bus did not start"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    // A stock bus may accept a moment later than it relays.
    let fire = |sender: &mut Publisher, n: i32| {
        let data = halite::map! { "n" => n, "big" => "x".repeat(100_000) };
        sender.fire(&Event::new("t", &data).unwrap()).unwrap();
    };
    loop {
        fire(&mut sender, -1);
        let heard = listener.next(Some(Duration::from_millis(100))).unwrap();
        if heard.is_some() {
            break;
        }
        assert!(Instant::now() < end, "the stock bus relays nothing");
    }
    for n in 0..100 {
        fire(&mut sender, n);
        let heard = loop {
            let event = listener.next(LONG).unwrap().unwrap();
            let data: halite::wire::Value = event.decode().unwrap();
            match data.as_map().unwrap().int("n") {
                Some(-1) => {}
                heard => break heard,
            }
        };
        assert_eq!(heard, Some(n.into()));
    }
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(matches!(
        listener.next(LONG),
        Err(halite_ipc::Error::Closed)
    ));
}

fn venv(name: &str) -> Option<String> {
    let found = std::env::var(name).ok();
    if found.is_none() {
        eprintln!("skipped: {name} does not name a virtual environment with Salt");
    }
    found
}

struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(venv: &str, sock_dir: &Path, events: usize) -> Peer {
        let mut child = Command::new(format!("{venv}/bin/python"))
            .args(["-c", PEER])
            .arg(sock_dir)
            .arg(events.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Peer { child, lines }
    }

    fn line(&mut self) -> serde_json::Value {
        let line = self.lines.next().expect("one more line").unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

fn both_directions(venv: &str, framing: Framing, stamp: StampStyle) {
    const BURST: usize = 2000;
    let bus = Bus::start(BusOptions {
        framing,
        stamp,
        ..BusOptions::default()
    });
    let mut ours = bus.listener().with_prefix("stock/");
    let mut peer = Peer::start(venv, bus.dir.path(), BURST + 1);
    assert_eq!(peer.line()["ready"], true);

    let big = "x".repeat(500_000);
    let data = halite::map! { "big" => big.as_str(), "n" => -1 };
    let mut sender = bus.sender(Framing::Prefixed);
    sender
        .fire(&Event::new("halite/big", &data).unwrap())
        .unwrap();
    for n in 0..BURST {
        let data =
            halite::map! { "n" => n, "text" => "grün", "list" => vec![halite::wire::Value::Nil] };
        sender
            .fire(&Event::new("halite/many", &data).unwrap())
            .unwrap();
    }
    let heard = peer.line();
    assert_eq!(heard["tag"], "halite/big");
    assert_eq!(
        heard["data"]["big"],
        "c7adf6280412b3f9acbd4759796fdb295f7894b4a2a7a9d3412b3c72d2434442"
    );
    for n in 0..BURST {
        let heard = peer.line();
        assert_eq!(heard["tag"], "halite/many");
        assert_eq!(heard["data"]["n"], n);
        assert_eq!(heard["data"]["text"], "grün");
        assert!(heard["data"]["list"][0].is_null());
        assert!(heard["data"]["_stamp"].is_string());
    }

    assert_eq!(peer.line()["fired"], true);
    assert_eq!(peer.line()["fired"], true);
    let one = ours.next(LONG).unwrap().unwrap();
    let data: halite::wire::Value = one.decode().unwrap();
    let data = data.as_map().unwrap();
    assert_eq!(one.tag, "stock/one");
    assert_eq!((data.str("from"), data.int("n")), (Some("stock"), Some(1)));
    assert_eq!(data.bytes("octets"), Some(&b"\xff"[..]));
    let offset = one.stamp_text().unwrap().ends_with("+00:00");
    assert_eq!(offset, stamp == StampStyle::Offset);
    let two = ours.next(LONG).unwrap().unwrap();
    assert!(two.tag == "stock/two" && two.payload.len() > 300_000);
    assert_eq!(peer.line()["own"], true);
    assert!(peer.child.wait().unwrap().success());
    let counters = bus.stop();
    assert_eq!((counters.dropped, counters.bad_frames), (0, 0));
}

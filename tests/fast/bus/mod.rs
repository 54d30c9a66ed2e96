//! The event bus over real sockets.

use halite::transport::bus::{BindError, BusCounters, BusHandle, BusOptions, BusServer};
use halite_ipc::{Decoder, Event, Framing, Publisher, Subscriber, frame};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

mod once;
mod stock;

/// Far beyond what anything here takes; only a failing test waits for it.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Bus {
    dir: TempDir,
    handle: BusHandle,
    thread: JoinHandle<BusCounters>,
}

impl Bus {
    fn start(options: BusOptions) -> Bus {
        let dir = tempfile::tempdir().unwrap();
        let mut server = bind(&dir, options).unwrap();
        let handle = server.handle();
        let thread = thread::spawn(move || {
            server.run(None).unwrap();
            server.counters()
        });
        Bus {
            dir,
            handle,
            thread,
        }
    }

    fn pull(&self) -> PathBuf {
        self.dir.path().join("master_event_pull.ipc")
    }

    fn publ(&self) -> PathBuf {
        self.dir.path().join("master_event_pub.ipc")
    }

    fn listener(&self) -> Subscriber {
        Subscriber::connect(self.publ()).unwrap()
    }

    fn sender(&self, framing: Framing) -> Publisher {
        Publisher::connect(self.pull(), framing).unwrap()
    }

    fn raw_sender(&self) -> UnixStream {
        UnixStream::connect(self.pull()).unwrap()
    }

    /// Ends the bus; the counters are final then.
    fn stop(self) -> BusCounters {
        self.handle.stop();
        self.thread.join().unwrap()
    }
}

fn bind(dir: &TempDir, options: BusOptions) -> Result<BusServer, BindError> {
    let pull = dir.path().join("master_event_pull.ipc");
    let publ = dir.path().join("master_event_pub.ipc");
    BusServer::bind(&pull, &publ, options)
}

fn event(tag: &str, n: u64) -> Event {
    Event::new(tag, &BTreeMap::from([("n", n)])).unwrap()
}

fn next(listener: &mut Subscriber) -> Event {
    listener.next(LONG).unwrap().expect("an event in time")
}

fn number(event: &Event) -> u64 {
    let data: halite::wire::Value = event.decode().unwrap();
    data.as_map().unwrap().int("n").unwrap() as u64
}

#[test]
fn four_listeners_lose_nothing_and_keep_the_order_of_each_sender() {
    const EACH: u64 = 10_000;
    let bus = Bus::start(BusOptions::default());
    let listeners: Vec<_> = (0..4)
        .map(|_| {
            let mut listener = bus.listener();
            thread::spawn(move || {
                let mut seen = BTreeMap::new();
                for _ in 0..2 * EACH {
                    let event = next(&mut listener);
                    let at = seen.entry(event.tag.clone()).or_insert(0);
                    assert_eq!(number(&event), *at);
                    *at += 1;
                }
                seen
            })
        })
        .collect();
    let senders: Vec<_> = [("a", Framing::Bare), ("b", Framing::Prefixed)]
        .into_iter()
        .map(|(tag, framing)| {
            let mut sender = bus.sender(framing);
            thread::spawn(move || (0..EACH).for_each(|n| sender.fire(&event(tag, n)).unwrap()))
        })
        .collect();
    senders.into_iter().for_each(|s| s.join().unwrap());
    for listener in listeners {
        let want = BTreeMap::from([("a".to_owned(), EACH), ("b".to_owned(), EACH)]);
        assert_eq!(listener.join().unwrap(), want);
    }
    let counters = bus.stop();
    assert_eq!(counters.events_in, 2 * EACH);
    assert_eq!(counters.frames_out, 8 * EACH);
    assert_eq!((counters.dropped, counters.bad_frames), (0, 0));
}

/// As the CLI relies on: connect first, then cause the event.
#[test]
fn whoever_connects_before_an_event_is_fired_hears_it() {
    let bus = Bus::start(BusOptions::default());
    let mut sender = bus.sender(Framing::Prefixed);
    for n in 0..200 {
        let mut from_socket = bus.listener();
        sender.fire(&event("socket", n)).unwrap();
        assert_eq!(number(&next(&mut from_socket)), n);
        let mut from_handle = bus.listener();
        bus.handle.fire(&event("handle", n)).unwrap();
        assert_eq!(next(&mut from_handle).tag, "handle");
    }
    bus.stop();
}

#[test]
fn frames_are_those_of_salt_byte_for_byte() {
    let vector: serde_json::Value =
        serde_json::from_str(include_str!("../../vectors/event.json")).unwrap();
    let bytes = |key: &str| {
        let hex = vector[key].as_str().unwrap();
        (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect::<Vec<u8>>()
    };
    let (bare, prefixed) = (bytes("frame_msg_hex"), bytes("frame_msg_ipc_hex"));
    for (framing, want) in [(Framing::Bare, &bare), (Framing::Prefixed, &prefixed)] {
        let bus = Bus::start(BusOptions {
            framing,
            ..BusOptions::default()
        });
        let mut listener = UnixStream::connect(bus.publ()).unwrap();
        let mut sender = bus.raw_sender();
        for sent in [&bare, &prefixed] {
            sender.write_all(sent).unwrap();
            let mut got = vec![0; want.len()];
            listener.read_exact(&mut got).unwrap();
            assert_eq!(&got, want);
        }
        bus.stop();
    }
}

#[test]
fn a_listener_that_does_not_read_loses_its_own_events_only() {
    let by_frames = BusOptions {
        queue_frames: 100,
        ..BusOptions::default()
    };
    let by_bytes = BusOptions {
        queue_bytes: 400_000,
        ..BusOptions::default()
    };
    for options in [by_frames, by_bytes] {
        slow_listener(options);
    }
}

fn slow_listener(options: BusOptions) {
    const ALL: u64 = 600;
    let bus = Bus::start(options);
    let mut slow = bus.listener();
    let mut good = bus.listener();
    let filling = "x".repeat(4000);
    for n in 0..ALL {
        let data = halite::map! { "n" => n, "filling" => filling.as_str() };
        bus.handle.fire(&Event::new("t", &data).unwrap()).unwrap();
        assert_eq!(number(&next(&mut good)), n);
    }
    let dropped = bus.handle.counters().dropped;
    assert!(dropped > 0 && dropped < ALL, "{dropped}");

    // It gets what was queued, in order, then the number of those it lost.
    let mut got = 0;
    let notice = loop {
        let event = next(&mut slow);
        if event.tag == "halite/bus/dropped" {
            break event;
        }
        assert_eq!(number(&event), got);
        got += 1;
    };
    let count: halite::wire::Value = notice.decode().unwrap();
    let count = count.as_map().unwrap().int("count").unwrap() as u64;
    assert_eq!((count, got + count), (dropped, ALL));
    assert!(notice.stamp_text().is_some());

    bus.handle.fire(&event("after", 7)).unwrap();
    assert_eq!(next(&mut slow).tag, "after");
    assert_eq!(next(&mut good).tag, "after");
    let counters = bus.stop();
    assert_eq!(counters.dropped, dropped);
    // Two listeners: all events, the last one, and one notice; less what was lost.
    assert_eq!(counters.frames_out, 2 * (ALL + 1) + 1 - dropped);
}

#[test]
fn small_limits_do_not_stop_the_bus() {
    for (queue_frames, queue_bytes) in [(1, 1 << 20), (0, 1 << 20), (100, 1)] {
        let bus = Bus::start(BusOptions {
            queue_frames,
            queue_bytes,
            ..BusOptions::default()
        });
        let mut listener = bus.listener();
        let mut sender = bus.sender(Framing::Prefixed);
        for n in 0..5 {
            sender.fire(&event("small", n)).unwrap();
            assert_eq!(number(&next(&mut listener)), n);
        }
        bus.stop();
    }
}

#[test]
fn a_burst_loses_nothing_for_a_listener_that_reads() {
    const ALL: u64 = 20_000;
    let bus = Bus::start(BusOptions {
        queue_bytes: 400_000,
        ..BusOptions::default()
    });
    let mut listener = bus.listener();
    let mut sender = bus.sender(Framing::Prefixed);
    let burst = thread::spawn(move || {
        for n in 0..ALL {
            sender.fire(&event("burst", n)).unwrap();
        }
    });
    for n in 0..ALL {
        assert_eq!(number(&next(&mut listener)), n);
    }
    burst.join().unwrap();
    assert_eq!(bus.stop().dropped, 0);
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let bus = Bus::start(BusOptions::default());
    let mut listener = bus.listener();
    let mut good = bus.sender(Framing::Prefixed);
    let garbage: [&[u8]; 4] = [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\x82\xa4head\x80\xa4body\xc1",
        b"\x00\x00\x00\x01\x80",
    ];
    for (n, bytes) in garbage.into_iter().enumerate() {
        let mut bad = bus.raw_sender();
        bad.write_all(bytes).unwrap();
        // Whether the end comes as zero or as a reset depends on what was left unread.
        assert!(matches!(bad.read(&mut [0; 8]), Ok(0) | Err(_)));
        good.fire(&event("t", n as u64)).unwrap();
        assert_eq!(number(&next(&mut listener)), n as u64);
    }

    // A frame that holds no event costs that event, not the connection.
    let mut sloppy = bus.raw_sender();
    for body in [&b"no event"[..], b"a\n\n\x81", b"\n\n\x80"] {
        sloppy
            .write_all(&frame::encode(body, Framing::Bare))
            .unwrap();
    }
    let fine = event("fine", 1).frame(Framing::Bare);
    sloppy.write_all(&fine).unwrap();
    assert_eq!(next(&mut listener).tag, "fine");

    let counters = bus.stop();
    assert_eq!((counters.bad_frames, counters.bad_events), (4, 3));
    assert_eq!(counters.events_in, 5);
}

#[test]
fn half_frames_wait_and_torn_ones_vanish() {
    let bus = Bus::start(BusOptions::default());
    let mut listener = bus.listener();
    let mut good = bus.sender(Framing::Prefixed);
    for framing in [Framing::Bare, Framing::Prefixed] {
        let frame = event("halves", 1).frame(framing);
        for cut in [1, 3, 5, frame.len() / 2, frame.len() - 1] {
            let mut slow = bus.raw_sender();
            slow.write_all(&frame[..cut]).unwrap();
            good.fire(&event("between", 1)).unwrap();
            assert_eq!(next(&mut listener).tag, "between");
            slow.write_all(&frame[cut..]).unwrap();
            assert_eq!(next(&mut listener).tag, "halves");
            slow.write_all(&frame[..cut]).unwrap();
        }
    }
    assert_eq!(bus.stop().bad_frames, 10);
}

#[test]
fn events_over_the_limit_are_dropped_alone() {
    let bus = Bus::start(BusOptions {
        max_event_size: 1000,
        ..BusOptions::default()
    });
    let mut listener = bus.listener();
    let mut sender = bus.sender(Framing::Bare);
    let big = Event::new("big", &BTreeMap::from([("k", "x".repeat(1000))])).unwrap();
    sender.fire(&big).unwrap();
    let said = bus.handle.fire(&big).unwrap_err().to_string();
    assert!(said.contains("max_event_size"), "{said}");
    sender.fire(&event("small", 1)).unwrap();
    assert_eq!(next(&mut listener).tag, "small");
    assert_eq!(bus.stop().oversized, 1);
}

/// A large event passes whole, in pieces as the kernel takes them.
#[test]
fn large_events_pass_whole() {
    let bus = Bus::start(BusOptions::default());
    let mut listener = bus.listener();
    let mut sender = bus.sender(Framing::Prefixed);
    let text = "x".repeat(1_000_000);
    for n in 0..3 {
        let data = halite::map! { "n" => n, "text" => text.as_str() };
        sender.fire(&Event::new("big", &data).unwrap()).unwrap();
    }
    for n in 0..3 {
        let event = next(&mut listener);
        assert_eq!(number(&event), n);
        assert!(event.payload.len() > text.len());
    }
    bus.stop();
}

/// The flood is of things that are no events, so that only reading is under load.
#[test]
fn a_flood_does_not_starve_others() {
    let bus = Bus::start(BusOptions::default());
    let mut listener = bus.listener();
    let mut flood = bus.raw_sender();
    let flooding = thread::spawn(move || {
        let frames = frame::encode(b"no event", Framing::Bare).repeat(1000);
        let mut written = 0u64;
        while flood.write_all(&frames).is_ok() {
            written += 1;
        }
        written
    });
    let mut calm = bus.sender(Framing::Prefixed);
    for n in 0..100 {
        calm.fire(&event("calm", n)).unwrap();
        assert_eq!(number(&next(&mut listener)), n);
        bus.handle.fire(&event("own", n)).unwrap();
        assert_eq!(next(&mut listener).tag, "own");
    }
    // The bus stops in spite of the flood.
    let counters = bus.stop();
    assert!(flooding.join().unwrap() > 0 && counters.bad_events > 0);
}

#[test]
fn connections_over_the_limit_are_turned_away() {
    let bus = Bus::start(BusOptions {
        max_connections: 2,
        ..BusOptions::default()
    });
    let mut first = bus.listener();
    let mut sender = bus.sender(Framing::Prefixed);
    sender.fire(&event("t", 1)).unwrap();
    assert_eq!(next(&mut first).tag, "t");
    assert!(bus.listener().next(LONG).is_err());
    drop(first);
    // There is room again once the bus has noticed.
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mut second = bus.listener();
        sender.fire(&event("u", 1)).unwrap();
        if second.next(LONG).is_ok_and(|e| e.is_some()) {
            break;
        }
        assert!(Instant::now() < end);
    }
    assert!(bus.stop().refused >= 1);
}

#[test]
fn sockets_have_their_modes_and_a_living_bus_is_not_replaced() {
    let bus = Bus::start(BusOptions::default());
    let mode = |p: PathBuf| p.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(bus.pull()), mode(bus.publ())), (0o600, 0o660));
    let second = bind(&bus.dir, BusOptions::default());
    assert!(matches!(second.err(), Some(BindError::InUse(_))));
    let mut listener = bus.listener();
    bus.handle.fire(&event("still there", 1)).unwrap();
    assert_eq!(next(&mut listener).tag, "still there");

    // A killed owner leaves its files; they are replaced.
    let Bus {
        dir,
        handle,
        thread,
    } = bus;
    handle.stop();
    thread.join().unwrap();
    assert!(bind(&dir, BusOptions::default()).is_ok());
    assert!(handle.fire(&event("t", 1)).is_err());
}

/// A listener that closes only its sending half goes on hearing, and costs no idle turns.
#[test]
fn half_closed_listeners_are_served() {
    let bus = Bus::start(BusOptions::default());
    let stream = UnixStream::connect(bus.publ()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut listener = Subscriber::over(stream);
    for n in 0..3 {
        bus.handle.fire(&event("t", n)).unwrap();
        assert_eq!(number(&next(&mut listener)), n);
    }
    assert_eq!(bus.handle.counters().subscribers, 1);
    drop(listener);
    assert_eq!(bus.stop().subscribers, 0);
}

#[test]
fn a_readable_descriptor_stops_it_and_what_was_fired_still_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = bind(&dir, BusOptions::default()).unwrap();
    let mut listener = Subscriber::connect(dir.path().join("master_event_pub.ipc")).unwrap();
    let mut sender =
        Publisher::connect(dir.path().join("master_event_pull.ipc"), Framing::Bare).unwrap();
    for n in 0..100 {
        sender.fire(&event("t", n)).unwrap();
    }
    let (mut bell, stop) = UnixStream::pair().unwrap();
    bell.write_all(b"!").unwrap();
    server.run(Some(std::os::fd::AsFd::as_fd(&stop))).unwrap();
    drop(server);
    for n in 0..100 {
        assert_eq!(number(&next(&mut listener)), n);
    }
    assert!(listener.next(LONG).is_err());
}

/// In a process of its own, since the limit holds for the whole process.
#[test]
fn out_of_descriptors() {
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bus::out_of_descriptors_child", "--ignored"])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stdout)
    );
}

#[test]
#[ignore = "run by out_of_descriptors"]
fn out_of_descriptors_child() {
    let cpu = || {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
        let usage = usage.unwrap();
        let (user, system) = (usage.user_time(), usage.system_time());
        user.tv_sec() * 1000
            + user.tv_usec() / 1000
            + system.tv_sec() * 1000
            + system.tv_usec() / 1000
    };
    let dir = tempfile::tempdir().unwrap();
    let mut server = bind(&dir, BusOptions::default()).unwrap();
    let handle = server.handle();
    let path = dir.path().join("master_event_pub.ipc");
    let mut listeners: Vec<_> = (0..10)
        .map(|_| Subscriber::connect(&path).unwrap())
        .collect();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
    setrlimit(Resource::RLIMIT_NOFILE, open + 5, hard).unwrap();
    let thread = thread::spawn(move || server.run(None).unwrap());
    handle.fire(&event("t", 1)).unwrap();
    assert_eq!(next(&mut listeners[0]).tag, "t");
    let before = cpu();
    let none = listeners[9].next(Some(Duration::from_millis(600))).unwrap();
    assert!(none.is_none() && cpu() - before < 100);
    assert!((1..10).contains(&handle.counters().subscribers));

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    while handle.counters().subscribers < 10 {
        thread::yield_now();
    }
    handle.fire(&event("u", 1)).unwrap();
    assert_eq!(next(&mut listeners[9]).tag, "u");
    handle.stop();
    thread.join().unwrap();
}

/// Bodies with their framing, and the lengths of the pieces they arrive in.
fn streams() -> impl Strategy<Value = (Vec<(Vec<u8>, bool)>, Vec<usize>)> {
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(any::<u8>(), 200..300),
        Just(vec![0x82; 66_000]),
    ];
    (
        proptest::collection::vec((body, any::<bool>()), 0..8),
        proptest::collection::vec(1usize..300, 1..50),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoder_yields_what_was_encoded((bodies, pieces) in streams()) {
        let mut stream = Vec::new();
        for (body, prefixed) in &bodies {
            let framing = if *prefixed { Framing::Prefixed } else { Framing::Bare };
            stream.extend(frame::encode(body, framing));
        }
        let mut decoder = Decoder::default();
        let mut got = Vec::new();
        let mut rest = &stream[..];
        for len in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at((*len).min(rest.len()));
            rest = tail;
            decoder.push(piece);
            while let Some(body) = decoder.next_body().unwrap() {
                got.push(body.to_vec());
            }
        }
        let want: Vec<_> = bodies.into_iter().map(|(body, _)| body).collect();
        prop_assert_eq!(got, want);
        prop_assert!(!decoder.in_frame());
    }

    /// The outcome does not depend on how the bytes arrive, whatever they are.
    #[test]
    fn decoder_takes_anything(bytes in proptest::collection::vec(any::<u8>(), 0..300), bare: bool, cut in 0usize..300) {
        let mut stream = if bare { b"\x82\xa4head".to_vec() } else { vec![0, 0, 0] };
        stream.extend(bytes);
        let run = |pieces: &[&[u8]]| {
            let mut decoder = Decoder::new(4096);
            let mut got = Vec::new();
            for piece in pieces {
                decoder.push(piece);
                loop {
                    match decoder.next_body() {
                        Ok(Some(body)) => got.push(body.to_vec()),
                        Ok(None) => break,
                        Err(_) => return (got, true),
                    }
                }
            }
            (got, false)
        };
        let cut = cut.min(stream.len());
        prop_assert_eq!(run(&[&stream]), run(&[&stream[..cut], &stream[cut..]]));
    }

    #[test]
    fn events_take_anything(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let payload = [&[0x83][..], &bytes].concat();
        let body = [&b"tag\n\n"[..], &payload].concat();
        let mut event = Event::from_body(&body).unwrap();
        let decoded = event.decode::<serde::de::IgnoredAny>().is_ok();
        if event.restamp(halite_ipc::StampStyle::Naive).is_ok() {
            prop_assert!(event.stamp_text().is_some());
            prop_assert_eq!(event.decode::<serde::de::IgnoredAny>().is_ok(), decoded);
        }
    }
}

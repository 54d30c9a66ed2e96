//! Subscriber and Publisher against sockets of this process.

use halite_ipc::{Decoder, Error, Event, Framing, Publisher, StampStyle, Subscriber};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

fn event(tag: &str) -> Event {
    Event::new(tag, &BTreeMap::from([("k", "v")])).unwrap()
}

fn pair() -> (Subscriber, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Subscriber::over(ours), theirs)
}

#[test]
fn hears_both_framings_filters_and_ends() {
    let (sub, mut bus) = pair();
    let mut sub = sub.with_prefix("salt/job/").with_prefix("minion");
    assert!(sub.next(Some(Duration::ZERO)).unwrap().is_none());
    assert!(sub.next(Some(Duration::from_millis(1))).unwrap().is_none());
    for (tag, framing) in [
        ("salt/job/1/new", Framing::Bare),
        ("salt/auth", Framing::Bare),
        ("minion_start", Framing::Prefixed),
        ("salt/job/1/ret/a", Framing::Bare),
    ] {
        bus.write_all(&event(tag).frame(framing)).unwrap();
    }
    drop(bus);
    let mut tags = Vec::new();
    let end = loop {
        match sub.next(None) {
            Ok(Some(event)) => tags.push(event.tag),
            other => break other,
        }
    };
    assert_eq!(tags, ["salt/job/1/new", "minion_start", "salt/job/1/ret/a"]);
    assert!(matches!(end, Err(Error::Closed)));
}

#[test]
fn a_flood_of_other_events_does_not_hold_the_caller() {
    let (sub, mut bus) = pair();
    let mut sub = sub.with_prefix("wanted");
    let flood = thread::spawn(move || {
        let frame = event("other").frame(Framing::Bare);
        while bus.write_all(&frame).is_ok() {}
    });
    let got = sub.next(Some(Duration::from_millis(20)));
    assert!(matches!(got, Ok(None)));
    drop(sub);
    flood.join().unwrap();
}

#[test]
fn one_bad_event_does_not_end_the_connection_but_a_bad_frame_does() {
    let (mut sub, mut bus) = pair();
    bus.write_all(&halite_ipc::frame::encode(b"no event", Framing::Bare))
        .unwrap();
    bus.write_all(&event("a").frame(Framing::Bare)).unwrap();
    bus.write_all(b"SSH-2.0").unwrap();
    assert!(matches!(sub.next(None), Err(Error::Event(_))));
    assert_eq!(sub.next(None).unwrap().unwrap().tag, "a");
    assert!(matches!(sub.next(None), Err(Error::Frame(_))));
}

#[test]
fn reconnects_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pub.ipc");
    let mut sub = Subscriber::reconnecting(&path).with_pause(Duration::from_millis(1));
    assert!(matches!(sub.next(), Some(Err(Error::Connect { .. }))));
    let listener = UnixListener::bind(&path).unwrap();
    let bus = thread::spawn(move || {
        for tag in ["first", "second"] {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&event(tag).frame(Framing::Bare)).unwrap();
        }
    });
    assert_eq!(sub.next().unwrap().unwrap().tag, "first");
    assert!(matches!(sub.next(), Some(Err(Error::Closed))));
    assert_eq!(sub.next().unwrap().unwrap().tag, "second");
    bus.join().unwrap();
}

/// Reads one event from a sender.
fn take(stream: &mut UnixStream) -> Event {
    let mut decoder = Decoder::default();
    let mut octet = [0];
    loop {
        stream.read_exact(&mut octet).unwrap();
        decoder.push(&octet);
        if let Some(body) = decoder.next_body().unwrap() {
            return Event::from_body(body).unwrap();
        }
    }
}

#[test]
fn fires_stamped_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pull.ipc");
    assert!(matches!(
        Publisher::connect(&path, Framing::Prefixed),
        Err(Error::Connect { .. })
    ));
    let listener = UnixListener::bind(&path).unwrap();
    let mut out = Publisher::connect(&path, Framing::Prefixed)
        .unwrap()
        .with_stamp(Some(StampStyle::Offset));
    let (mut first, _) = listener.accept().unwrap();
    out.fire(&event("a")).unwrap();
    let got = take(&mut first);
    assert!(got.stamp_text().unwrap().ends_with("+00:00"));

    // An existing stamp is kept.
    out.fire(&got).unwrap();
    assert_eq!(take(&mut first), got);

    drop(first);
    out.fire(&event("b")).unwrap();
    let (mut second, _) = listener.accept().unwrap();
    assert_eq!(take(&mut second).tag, "b");

    drop((second, listener));
    assert!(matches!(out.fire(&event("c")), Err(Error::Connect { .. })));
}

#[test]
fn a_bus_that_does_not_read_is_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pull.ipc");
    let listener = UnixListener::bind(&path).unwrap();
    let mut out = Publisher::connect(&path, Framing::Bare)
        .unwrap()
        .with_timeout(Duration::from_millis(10));
    let big = Event::new("a", &BTreeMap::from([("k", "x".repeat(100_000))])).unwrap();
    let end = loop {
        if let Err(e) = out.fire(&big) {
            break e;
        }
    };
    assert!(matches!(end, Error::Timeout));
    drop(listener);
}

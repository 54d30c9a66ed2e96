//! Channels as files.

use super::*;

fn subscribed(run: &Run) {
    assert_eq!(run.next(), Told::Subscribed("realm/in".into()));
}

fn published(payload: &[u8]) -> Told {
    Told::Published("realm/out".into(), payload.into())
}

#[test]
fn a_message_is_a_read_and_a_write_is_a_message() {
    let run = start(spec(module("echo")));
    subscribed(&run);
    run.deliver("realm/in", b"one");
    run.deliver("realm/in", b"");
    run.deliver("realm/other", b"not for it");
    run.deliver("realm/in", b"two\nlines");
    assert_eq!(run.next(), published(b"one"));
    assert_eq!(run.next(), published(b"two\nlines"));
    assert!(run.running.figures().active.is_some());
    run.running.stop();
    let (told, end) = run.rest();
    assert_eq!(told, [Told::Unsubscribed("realm/in".into())]);
    assert_eq!(end.status, ExitStatus::Deleted);
}

#[test]
fn the_rest_of_a_long_message_is_read_next() {
    let run = start(spec(module("echo")));
    subscribed(&run);
    let long = vec![b'x'; 2500];
    run.deliver("realm/in", &long);
    run.deliver("realm/in", b"next");
    for size in [1000, 1000, 500] {
        assert_eq!(run.next(), published(&vec![b'x'; size]));
    }
    assert_eq!(run.next(), published(b"next"));
}

#[test]
fn a_mode_is_kept_to_when_a_channel_is_opened() {
    for (input, output) in [(Mode::Write, Mode::Write), (Mode::Read, Mode::Read)] {
        let channels = vec![
            open("in", input, "realm/in"),
            open("out", output, "realm/out"),
        ];
        let run = start(Spec {
            channels,
            ..spec(module("echo"))
        });
        // EACCES.
        assert_eq!(run.rest().1, exited(2));
    }
}

#[test]
fn what_is_no_channel_is_not_there() {
    let run = start(Spec {
        channels: vec![open("other", Mode::ReadWrite, "realm/other")],
        ..spec(module("echo"))
    });
    assert_eq!(run.rest(), (vec![], exited(44)));
}

#[test]
fn only_so_many_files_may_be_open_and_each_topic_is_subscribed_to_once() {
    let (told, end) = start(spec(module("files"))).rest();
    assert_eq!(end, exited(33));
    let topic = || "realm/in".to_owned();
    let expected = [Told::Subscribed(topic()), Told::Unsubscribed(topic())];
    assert_eq!(told, expected);
}

/// A module that opens `in` non-blocking, lets the test act once it has written a line, and exits with the result of a
/// read.
const PATIENT: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "in")
  (data (i32.const 16) "\00\04\00\00\e8\03\00\00")
  (func (export "_start")
    (drop (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 2) (i32.const 0)
      (i64.const 2) (i64.const 0) (i32.const 4) (i32.const 200)))
    (call $exit (call $read (i32.load (i32.const 200)) (i32.const 16) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn a_read_that_is_not_to_wait_fails() {
    // EAGAIN.
    assert_eq!(start(spec(wat(PATIENT))).rest().1, exited(6));
}

#[test]
fn a_poll_wakes_for_messages_and_for_time() {
    let run = start(spec(module("poll")));
    subscribed(&run);
    assert_eq!(run.next(), out("tick\n"));
    run.deliver("realm/in", b"something");
    loop {
        match run.next() {
            told if told == out("tick\n") => {}
            told => {
                assert_eq!(told, out("message\n"));
                break;
            }
        }
    }
    run.running.stop();
    assert_eq!(run.rest().1.status, ExitStatus::Deleted);
}

#[test]
fn the_oldest_messages_are_dropped_and_counted() {
    // It sleeps, so that nothing is read while the messages arrive.
    let code = r#"(module
      (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "\00\04\00\00\01\00\00\00")
      (data (i32.const 100) "in")
      (data (i32.const 120) "out")
      (func (export "_start")
        (drop (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 2) (i32.const 0)
          (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 200)))
        (drop (call $open (i32.const 3) (i32.const 0) (i32.const 120) (i32.const 3) (i32.const 0)
          (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 204)))
        ;; Standard input says when to begin.
        (drop (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 8)))
        (loop $next
          (drop (call $read (i32.load (i32.const 200)) (i32.const 16) (i32.const 1) (i32.const 8)))
          (drop (call $write (i32.load (i32.const 204)) (i32.const 16) (i32.const 1) (i32.const 8)))
          (br $next))))"#;
    let mut spec = spec(wat(code));
    spec.stdin = true;
    spec.limits.message = 10;
    let run = start(spec);
    subscribed(&run);
    for n in b'0'..=b'9' {
        run.deliver("realm/in", &[n]);
    }
    run.deliver("realm/in", b"larger than allowed");
    // Four may wait, including standard input: the oldest is dropped.
    assert_eq!(run.running.figures().dropped, 7);
    run.running.input(&Bytes::from("!"));
    assert_eq!(run.running.figures().dropped, 8);
    for n in [b'7', b'8', b'9'] {
        assert_eq!(run.next(), published(&[n]));
    }
}

#[test]
fn a_message_that_has_no_room_waits_for_it() {
    let run = try_start(spec(module("flood")), 2).expect("it starts");
    assert_eq!(run.next(), published(b"flood"));
    assert_eq!(run.next(), published(b"flood"));
    *run.host.room.lock().expect("not poisoned") = 1;
    assert_eq!(run.next(), published(b"flood"));
}

#[test]
fn a_channel_whose_topic_is_not_for_modules_cannot_be_opened() {
    let mut spec = spec(module("flood"));
    spec.channels = vec![open("out", Mode::Write, "reserved/topic")];
    // EACCES.
    assert_eq!(start(spec).rest().1, exited(2));
}

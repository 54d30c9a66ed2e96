use super::*;
use crate::wire::{ExitStatus, Scheme};
use crossbeam_channel::Receiver;

/// A broker that records calls, and accepts a limited number of publications.
#[derive(Default)]
struct Notes {
    log: Mutex<Vec<String>>,
    sent: Mutex<Vec<Publication>>,
    full: std::sync::atomic::AtomicBool,
}

impl Notes {
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.log))
    }
}

impl Broker for Notes {
    fn has_room(&self, _: usize) -> bool {
        !self.full.load(Ordering::Relaxed)
    }

    fn publish(&self, what: Publication) -> Result<(), Unsent> {
        assert!(self.has_room(what.payload.len()), "it is asked before");
        if what.payload.len() > 100_000 {
            return Err(Unsent::TooLarge(100_000));
        }
        lock(&self.sent).push(what);
        Ok(())
    }

    fn subscribe(&self, topic: &str) {
        lock(&self.log).push(format!("+{topic}"));
    }

    fn unsubscribe(&self, topic: &str) {
        lock(&self.log).push(format!("-{topic}"));
    }
}

/// A module that records what it receives.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Running for Ear {
    fn stop(&self) {}

    fn deliver(&self, topic: &str, payload: &Bytes) {
        lock(&self.0).push(format!("{topic}={}", String::from_utf8_lossy(payload)));
    }

    fn input(&self, data: &Bytes) {
        lock(&self.0).push(format!("<{}", String::from_utf8_lossy(data)));
    }

    fn wait_for_room(&self, _: usize) {}

    fn figures(&self) -> Figures {
        Figures::default()
    }
}

struct Rig {
    board: Board,
    broker: Arc<Notes>,
    news: Receiver<ModuleEvent>,
}

fn rig(streams: Streams) -> Rig {
    let broker = Arc::new(Notes::default());
    let (sender, news) = crossbeam_channel::unbounded();
    let topics = Topics::new("realm", Scheme::Draft).unwrap();
    Rig {
        board: Board::new(topics, streams, broker.clone(), sender),
        broker,
        news,
    }
}

impl Rig {
    fn module(&self, name: &str, stdin: bool) -> (Uuid, Arc<Ear>) {
        let uuid: Uuid = name.parse().unwrap();
        let ear = Arc::new(Ear::default());
        let number = self.board.expect(&uuid);
        self.board.attach(&uuid, number, ear.clone(), stdin);
        (uuid, ear)
    }
}

fn got(ear: &Ear) -> Vec<String> {
    std::mem::take(&mut *lock(&ear.0))
}

#[test]
fn a_topic_is_subscribed_to_once_however_many_hear_it() {
    let rig = rig(Streams::One);
    let (a, ear_a) = rig.module("a", false);
    let (b, ear_b) = rig.module("b", false);
    rig.board.subscribe(&a, "home/light");
    rig.board.subscribe(&b, "home/light");
    rig.board.subscribe(&b, "home/light");
    assert_eq!(rig.broker.told(), ["+home/light"]);
    rig.board.deliver("home/light", &Bytes::from_static(b"on"));
    rig.board.deliver("home/other", &Bytes::from_static(b"on"));
    // A topic opened twice still delivers each message once.
    assert_eq!(
        (got(&ear_a), got(&ear_b)),
        (
            vec!["home/light=on".to_owned()],
            vec!["home/light=on".to_owned()]
        )
    );
    rig.board.unsubscribe(&a, "home/light");
    rig.board.unsubscribe(&b, "home/light");
    assert_eq!(rig.broker.told(), [""; 0]);
    rig.board.unsubscribe(&b, "home/light");
    assert_eq!(rig.broker.told(), ["-home/light"]);
    // Closing once too often changes nothing.
    rig.board.unsubscribe(&b, "home/light");
    assert_eq!(rig.broker.told(), [""; 0]);
}

#[test]
fn messages_of_a_module_go_to_the_others_here_and_not_to_itself() {
    let rig = rig(Streams::One);
    let (a, ear_a) = rig.module("a", false);
    let (b, ear_b) = rig.module("b", false);
    rig.board.subscribe(&a, "home/light");
    rig.board.subscribe(&b, "home/light");
    assert!(rig.board.publish(&a, "home/light", b"on"));
    assert_eq!(got(&ear_b), ["home/light=on"]);
    assert_eq!(got(&ear_a), [""; 0]);
    assert_eq!(lock(&rig.broker.sent).len(), 1);
    // A message that does not fit is delivered to nobody, and retried.
    rig.broker.full.store(true, Ordering::Relaxed);
    assert!(!rig.board.publish(&a, "home/light", b"off"));
    assert_eq!(got(&ear_b), [""; 0]);
    // A message that can never be sent is lost.
    rig.broker.full.store(false, Ordering::Relaxed);
    assert!(rig.board.publish(&a, "home/light", &[0; 100_001]));
    assert_eq!(got(&ear_b), [""; 0]);
}

#[test]
fn modules_keep_off_the_topics_of_the_orchestrator() {
    let rig = rig(Streams::One);
    let (a, _) = rig.module("a", false);
    for topic in [
        "realm/proc/control",
        "realm/proc/control/",
        "realm/proc/control/other",
        "realm/proc/reg/a",
        "realm/proc/keepalive/a",
        "realm/proc/log/orchestrator",
        "realm/proc/control//",
        "realm/proc/control/a/b",
        "realm/proc/reg/x/y",
        "realm/proc/keepalive/x/y/z",
        "realm/proc/log/other",
        "realm/proc/log/",
        "realm/proc/notif",
        "realm/proc/notif/a/b",
        "realm/proc/profile/deployed",
        "home/+/light",
        "#",
        "$SYS/broker",
    ] {
        assert!(rig.board.publish(&a, topic, b"x"), "{topic}");
        rig.board.subscribe(&a, topic);
    }
    assert!(lock(&rig.broker.sent).is_empty());
    assert_eq!(rig.broker.told(), [""; 0]);
    // Names that only start alike, and streams, are allowed.
    for topic in [
        "realm/proc/register",
        "realm/proc/stdio/b",
        "realm/process/control",
        "other/proc/control",
    ] {
        assert!(rig.board.allows(topic), "{topic}");
    }
    let namespace = "public".to_owned();
    let scenes = Topics::new("a/realm", Scheme::Scene { namespace }).unwrap();
    for (topic, reserved) in [
        ("a/realm/g/public/p", true),
        ("a/realm/g/public/p/", true),
        ("a/realm/g/public/p/x/y", true),
        ("a/realm/g/public/p/x/-/profile/deployed", true),
        ("a/realm/s/public/scene/p/x/y", true),
        ("a/realm/s/public/scene/p//", true),
        ("a/realm/s/public/scene/p/x/-/stdin", false),
        ("a/realm/s/public/scene/o/x", false),
        ("a/realm/g/public/c/x", false),
        ("a/realm/g/other/p/x", false),
    ] {
        assert_eq!(scenes.is_reserved(topic), reserved, "{topic}");
    }
}

#[test]
fn streams_have_one_topic_or_one_each() {
    let one = rig(Streams::One);
    let (a, ear) = one.module("a", true);
    assert_eq!(
        one.broker.told(),
        ["+realm/proc/io/a/stdin", "+realm/proc/stdio/a"]
    );
    one.board.output(&a, Stream::Stderr, b"oops\n");
    let sent = std::mem::take(&mut *lock(&one.broker.sent));
    assert_eq!(sent[0].topic, "realm/proc/stdio/a");
    assert_eq!(
        sent[0].properties,
        [("stream".to_owned(), "stderr".to_owned())]
    );
    // A module's own output is not its input.
    assert_eq!(got(&ear), [""; 0]);
    one.board
        .deliver("realm/proc/stdio/a", &Bytes::from_static(b"hi"));
    one.board
        .deliver("realm/proc/io/a/stdin", &Bytes::from_static(b"ho"));
    assert_eq!(got(&ear), ["<hi", "<ho"]);
    one.board.output(&a, Stream::Stdout, &[b'x'; PIECE + 1]);
    let lengths: Vec<usize> = lock(&one.broker.sent)
        .iter()
        .map(|p| p.payload.len())
        .collect();
    assert_eq!(lengths, [PIECE, 1]);

    let each = rig(Streams::Each);
    let (a, _) = each.module("a", true);
    assert_eq!(each.broker.told(), ["+realm/proc/io/a/stdin"]);
    each.board.output(&a, Stream::Stdout, b"x");
    let sent = std::mem::take(&mut *lock(&each.broker.sent));
    assert_eq!(sent[0].topic, "realm/proc/io/a/stdout");
    assert!(sent[0].properties.is_empty());
}

#[test]
fn what_a_module_wrote_can_be_the_input_of_another() {
    let rig = rig(Streams::One);
    let (a, _) = rig.module("a", false);
    let (_, ear) = rig.module("b", true);
    assert!(rig.board.publish(&a, "realm/proc/stdio/b", b"hi"));
    assert_eq!(got(&ear), ["<hi"]);
}

#[test]
fn the_end_of_a_module_is_told_once_and_leaves_nothing() {
    let rig = rig(Streams::One);
    let (a, _) = rig.module("a", true);
    rig.board.subscribe(&a, "home/light");
    rig.broker.told();
    let end = End {
        status: ExitStatus::Exited,
        code: Some(0),
        reason: String::new(),
    };
    rig.board.ended(&a, end);
    assert_eq!(
        rig.broker.told(),
        [
            "-home/light",
            "-realm/proc/io/a/stdin",
            "-realm/proc/stdio/a"
        ]
    );
    assert!(matches!(rig.news.try_recv(), Ok(ModuleEvent::Ended(uuid, _)) if uuid == a));
    assert!(rig.board.running(&a).is_none());
    // Attached after it has ended.
    rig.board.attach(&a, 1, Arc::new(Ear::default()), true);
    assert!(rig.board.running(&a).is_none());
    // Nor when the next one with the same uuid is about to run.
    let next = rig.board.expect(&a);
    rig.board.attach(&a, 1, Arc::new(Ear::default()), true);
    assert!(rig.board.running(&a).is_none());
    rig.board.attach(&a, next, Arc::new(Ear::default()), false);
    assert!(rig.board.running(&a).is_some());
    assert_eq!(rig.broker.told(), [""; 0]);
}

//! The minion and a scripted master, in simulated time.

use super::super::trust::OTHER_KEY;
use super::*;
use crate::wire::MachineId;
use halite_crypto::PrivateKey;
use std::sync::OnceLock;

#[path = "tests/programs.rs"]
mod programs;

const ID: &str = "30006546535e428aba0a0caa6712e225";

fn key() -> &'static PrivateKey {
    static KEY: OnceLock<PrivateKey> = OnceLock::new();
    KEY.get_or_init(|| PrivateKey::generate(1048).unwrap())
}

fn other_key() -> &'static PrivateKey {
    static KEY: OnceLock<PrivateKey> = OnceLock::new();
    KEY.get_or_init(|| PrivateKey::generate(1048).unwrap())
}

fn id() -> MachineId {
    ID.parse().unwrap()
}

/// A minion with a clock.
struct Bench {
    course: Course,
    dialect: Dialect,
    now: Duration,
}

fn bench(dialect: Dialect, fingerprint: &str, pinned: Option<PublicKey>) -> Bench {
    let settings = Settings {
        id: id(),
        dialect,
        session: "b53dd758-61ba-46e4-b30e-3b1589868e34".to_owned(),
        fingerprint: fingerprint.to_owned(),
        own_key: "PEM".to_owned(),
        allowed: vec!["test.*".to_owned()],
        pauses: (Duration::from_secs(1), Duration::from_secs(8)),
        chance: || 1.0,
    };
    let mut course = Course::new(settings, pinned, Map::new());
    course.set_traits(map! {"system.hostname" => "web1", "system.id" => ID});
    Bench {
        course,
        dialect,
        now: Duration::ZERO,
    }
}

impl Bench {
    /// Lets time pass until the minion connects; returns the pause and its first message.
    fn connect(&mut self) -> (Duration, MinionMessage) {
        let due = self.course.deadline().unwrap();
        assert!(
            self.course
                .tick(due.saturating_sub(Duration::from_millis(1)))
                .is_empty()
                || due.is_zero()
        );
        let pause = due - self.now;
        self.now = due;
        if due.is_zero() {
            // The first attempt is due at once and was made above.
            self.course.phase = Phase::Connecting;
        } else {
            assert_eq!(self.course.tick(due), [Action::Connect]);
        }
        let mut sent = self.course.connected(self.now);
        assert_eq!(sent.len(), 1, "{sent:?}");
        match sent.remove(0) {
            Action::Send(message) => (pause, message),
            other => panic!("{other:?}"),
        }
    }

    fn say(
        &mut self,
        target: Target,
        kind: MessageKind,
        data: impl Into<Value>,
        code: Code,
    ) -> Vec<Action> {
        self.now += Duration::from_millis(10);
        let message = MasterMessage {
            cycle: "cycle-1".to_owned(),
            ..MasterMessage::new(target, kind, data, code)
        };
        self.course
            .receive(self.now, &message.encode(self.dialect).unwrap())
    }

    fn answer(&mut self, kind: MessageKind, data: impl Into<Value>, code: Code) -> Vec<Action> {
        self.say(Target::id(&id()), kind, data, code)
    }

    fn join(&mut self) {
        assert_eq!(self.connect().1.kind, MessageKind::Ehlo);
        let out = self.answer(MessageKind::Tr, "", Code::Success);
        assert!(self.course.is_joined(), "{out:?}");
    }
}

fn member(dialect: Dialect) -> Bench {
    let mut bench = bench(dialect, "", Some(key().public()));
    bench.join();
    bench
}

fn pem() -> String {
    key().public().to_pkcs1_pem()
}

fn fingerprint() -> String {
    key().public().pkcs1_fingerprint()
}

fn kinds(actions: &[Action]) -> Vec<&'static str> {
    let name = |action: &Action| match action {
        Action::Send(message) => message.kind.name(),
        Action::Close => "close",
        Action::Pin(_) => "pin",
        Action::Run(..) => "run",
        Action::Forget => "forget",
        Action::StoreTraits(_) => "keep",
        Action::Exit(..) => "end",
        Action::Connect => "connect",
    };
    actions.iter().map(name).collect()
}

fn ended(actions: &[Action]) -> (i32, &str) {
    match actions.last() {
        Some(Action::Exit(status, text)) => (*status, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_registration_of_the_description() {
    let mut bench = bench(Dialect::Seed, &fingerprint(), None);
    let (_, add) = bench.connect();
    assert_eq!(
        add.encode(Dialect::Seed),
        format!(r#"{{"id":"{ID}","r":"add","d":"","c":0}}"#).into_bytes()
    );
    let out = bench.answer(MessageKind::Add, pem(), Code::Success);
    assert_eq!(kinds(&out), ["pin", "ehlo"]);
    let Action::Send(ehlo) = &out[1] else {
        unreachable!()
    };
    assert!(key().holds_pkcs1v15(ehlo.data.as_bytes().unwrap(), ID.as_bytes()));
    let out = bench.answer(MessageKind::Tr, "", Code::Success);
    assert_eq!(kinds(&out), ["tr"]);
    let Action::Send(traits) = &out[0] else {
        unreachable!()
    };
    assert_eq!(payload_value(&traits.data), bench.course.traits().into());
    // Later connections send a hello without a payload.
    bench.course.lost(bench.now);
    let (_, ehlo) = bench.connect();
    assert_eq!((ehlo.kind, ehlo.data), (MessageKind::Ehlo, "".into()));
}

#[test]
fn the_registration_of_the_programs() {
    let mut bench = bench(Dialect::Modern, &fingerprint(), None);
    let (_, ehlo) = bench.connect();
    assert_eq!(
        (ehlo.kind, ehlo.data.as_map().is_some()),
        (MessageKind::Ehlo, true)
    );
    assert_eq!(
        kinds(&bench.answer(MessageKind::Undef, pem(), Code::Success)),
        ["pin", "close"]
    );
    let (_, add) = bench.connect();
    assert_eq!(
        (add.kind, add.data, add.session.as_str()),
        (MessageKind::Add, "PEM".into(), "")
    );
    assert_eq!(
        kinds(&bench.answer(MessageKind::Retry, "accepted", Code::Success)),
        ["close"]
    );
    bench.join();
}

#[test]
fn keys_of_others_are_refused() {
    for dialect in [Dialect::Seed, Dialect::Modern] {
        // No fingerprint was given.
        let mut stranger = bench(dialect, "", None);
        stranger.connect();
        let out = stranger.answer(MessageKind::Undef, pem(), Code::NotRegistered);
        let (status, text) = ended(&out);
        assert!(
            status == 1 && text.contains(&format!("--register {}", fingerprint())),
            "{text}"
        );
        assert_eq!(stranger.course.deadline(), None);
        // Another key than the given fingerprint.
        let mut wrong = bench(dialect, &"0".repeat(64), None);
        wrong.connect();
        let kind = match dialect {
            Dialect::Seed => MessageKind::Add,
            _ => MessageKind::Undef,
        };
        let out = wrong.answer(kind, pem(), Code::Success);
        assert_eq!(
            (kinds(&out), ended(&out).0),
            (vec!["close", "end"], OTHER_KEY)
        );
        // Another key than the accepted one.
        let mut pinned = bench(dialect, "", Some(other_key().public()));
        pinned.connect();
        let out = pinned.answer(MessageKind::Undef, pem(), Code::NotRegistered);
        assert_eq!(
            (kinds(&out), ended(&out).0),
            (vec!["close", "end"], OTHER_KEY)
        );
    }
    let mut broken = bench(Dialect::Seed, &fingerprint(), None);
    broken.connect();
    assert_eq!(
        kinds(&broken.answer(MessageKind::Add, "no key", Code::Success)),
        ["close"]
    );
}

#[test]
fn a_pending_registration_is_asked_about_with_growing_pauses() {
    let mut bench = bench(Dialect::Seed, &fingerprint(), None);
    bench.connect();
    bench.answer(MessageKind::Add, pem(), Code::Success);
    assert_eq!(
        kinds(&bench.answer(MessageKind::Undef, pem(), Code::NotRegistered)),
        ["close"]
    );
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (pause, ehlo) = bench.connect();
        seen.push((pause.as_secs(), ehlo.kind));
        bench.answer(MessageKind::Undef, pem(), Code::NotRegistered);
        let (pause, add) = bench.connect();
        seen.push((pause.as_secs(), add.kind));
        bench.answer(
            MessageKind::Retry,
            "already registered",
            Code::AlreadyRegistered,
        );
    }
    let expected = [1, 2, 4, 8, 8, 8].into_iter();
    let expected: Vec<_> = expected
        .zip([MessageKind::Ehlo, MessageKind::Add].into_iter().cycle())
        .collect();
    assert_eq!(seen, expected);
    bench.join();
}

#[test]
fn answers_to_others_are_passed_over() {
    let mut bench = bench(Dialect::Seed, "", Some(key().public()));
    bench.connect();
    let other = || Target::id(&"aaaa6546535e428aba0a0caa6712e2ff".parse().unwrap());
    let strange = other_key().public().to_pkcs1_pem();
    assert_eq!(
        bench.say(other(), MessageKind::Undef, strange, Code::NotRegistered),
        []
    );
    assert_eq!(
        bench.say(other(), MessageKind::Cmd, "", Code::AlreadyConnected),
        []
    );
    assert_eq!(bench.say(other(), MessageKind::Tr, "", Code::Success), []);
    assert_eq!(
        bench.say(Target::everyone(), MessageKind::Pi, "", Code::Undef),
        [],
        "not a member yet"
    );
    assert!(!bench.course.is_joined());
    assert_eq!(
        kinds(&bench.answer(MessageKind::Tr, "", Code::Success)),
        ["tr"]
    );
}

#[test]
fn pings_are_answered_and_silence_ends_a_connection() {
    let mut bench = member(Dialect::Seed);
    for _ in 0..3 {
        bench.now += Duration::from_secs(5);
        assert_eq!(bench.course.tick(bench.now), []);
        let out = bench.say(Target::default(), MessageKind::Pi, "", Code::Undef);
        assert_eq!(kinds(&out), ["po"]);
    }
    bench.now += Duration::from_secs(10);
    assert_eq!(kinds(&bench.course.tick(bench.now)), ["close"]);
    // The master may still hold the session that it did not see end.
    bench.connect();
    assert_eq!(
        kinds(&bench.answer(MessageKind::Cmd, "", Code::AlreadyConnected)),
        ["close"]
    );
    bench.join();
}

#[test]
fn a_second_minion_of_a_machine_ends() {
    for dialect in [Dialect::Seed, Dialect::Modern] {
        let mut second = bench(dialect, "", Some(key().public()));
        second.connect();
        let out = second.answer(MessageKind::Cmd, "", Code::AlreadyConnected);
        let (status, text) = ended(&out);
        assert!(status == 1 && text.contains(ID), "{text}");
        // With the programs, the first minion gets the notice too, and stays.
        assert_eq!(
            member(dialect).answer(MessageKind::Cmd, "", Code::AlreadyConnected),
            []
        );
    }
}

#[test]
fn commands_are_run_and_answered() {
    let mut bench = member(Dialect::Seed);
    let out = bench.answer(MessageKind::Cmd, "test.echo hello", Code::Undef);
    let [Action::Run(number, command)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (command.fun.as_str(), &command.args),
        ("test.echo", &vec!["hello".into()])
    );
    let out = bench.course.finished(*number, &"hello".into(), 0, "");
    let [Action::Send(answer)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (answer.kind, answer.code, answer.cycle.as_str()),
        (MessageKind::Rsp, Code::Success, "cycle-1")
    );
    assert_eq!(payload_value(&answer.data), "hello".into());
    assert_eq!(
        bench.course.finished(*number, &"hello".into(), 0, ""),
        [],
        "once"
    );
    let out = bench.answer(MessageKind::Cmd, "cmd.run id", Code::Undef);
    let [Action::Send(answer)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (answer.kind, answer.code),
        (MessageKind::Rsp, Code::GeneralFailure)
    );
    // For other minions, or for nobody.
    let db = Target {
        hosts: vec!["db*".to_owned()],
        ..Target::default()
    };
    assert_eq!(
        bench.say(db, MessageKind::Cmd, "test.ping", Code::Undef),
        []
    );
    assert_eq!(
        bench.say(
            Target::default(),
            MessageKind::Cmd,
            "test.ping",
            Code::Undef
        ),
        []
    );
    let web = Target {
        hosts: vec!["web*".to_owned()],
        ..Target::default()
    };
    assert_eq!(
        kinds(&bench.say(web, MessageKind::Cmd, "test.ping", Code::Undef)),
        ["run"]
    );
}

#[test]
fn results_wait_for_the_next_connection_and_fit_a_frame() {
    let mut bench = member(Dialect::Seed);
    bench.answer(MessageKind::Cmd, "test.ping", Code::Undef);
    bench.course.lost(bench.now);
    assert_eq!(bench.course.finished(1, &true.into(), 0, ""), []);
    bench.connect();
    assert_eq!(
        kinds(&bench.answer(MessageKind::Tr, "", Code::Success)),
        ["tr", "rsp"]
    );
    bench.answer(MessageKind::Cmd, "test.ping", Code::Undef);
    let out = bench.course.finished(2, &"x".repeat(1 << 20).into(), 0, "");
    let [Action::Send(answer)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(answer.code, Code::GeneralFailure);
}

#[test]
fn the_programs_way_of_results() {
    let mut bench = member(Dialect::Modern);
    let target = Target {
        scheme: "test.echo".to_owned(),
        context: "n:5".to_owned(),
        ..Target::id(&id())
    };
    let payload = map! {"files" => Map::new(), "uri" => "test.echo", "sid" => ""};
    let out = bench.say(target, MessageKind::Cmd, payload, Code::Success);
    let [Action::Run(number, command)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        command.args,
        [Value::from(map! {"n" => 5, "__kwarg__" => true})]
    );
    let out = bench
        .course
        .finished(*number, &5.into(), 0, "2026-01-01T00:00:00");
    assert_eq!(kinds(&out), ["evt", "mvt"]);
    let Action::Send(event) = &out[0] else {
        unreachable!()
    };
    let event = event.data.as_map().unwrap();
    assert_eq!(event.str("cid"), Some("cycle-1"));
    assert_eq!(
        event.get("response").unwrap().as_map().unwrap().get("data"),
        Some(&5.into())
    );
    // The next pong lists the cycle once more.
    let out = bench.say(Target::everyone(), MessageKind::Pi, "pt:g", Code::Undef);
    let Action::Send(pong) = &out[0] else {
        unreachable!()
    };
    let body = String::from_utf8(pong.encode(Dialect::Modern)).unwrap();
    assert!(
        body.contains(r#""cd":["cycle-1"]"#) && body.contains(r#""pt":"pt:g""#),
        "{body}"
    );
}

#[test]
fn traits_are_told_and_pushed() {
    let mut bench = member(Dialect::Seed);
    assert_eq!(
        kinds(&bench.answer(MessageKind::Tr, "", Code::Undef)),
        ["tr"]
    );
    let pushed = map! {"role" => "web", "system.id" => "somebody"};
    let out = bench.answer(MessageKind::Tr, pushed, Code::Undef);
    assert_eq!(kinds(&out), ["keep", "tr"]);
    let traits = bench.course.traits();
    assert_eq!(
        (traits.str("role"), traits.str("system.id")),
        (Some("web"), Some(ID))
    );
    bench.answer(MessageKind::Tr, map! {"role" => Value::Nil}, Code::Undef);
    assert_eq!(bench.course.traits().str("role"), None);
}

#[test]
fn a_removed_minion_forgets_and_ends() {
    let mut bench = member(Dialect::Seed);
    let other = Target {
        hosts: vec!["db*".to_owned()],
        ..Target::default()
    };
    assert_eq!(bench.say(other, MessageKind::Rm, "", Code::Undef), []);
    let out = bench.answer(MessageKind::Rm, "", Code::Undef);
    assert_eq!(
        (kinds(&out), ended(&out).0),
        (vec!["forget", "close", "end"], 0)
    );
    assert_eq!(bench.answer(MessageKind::Pi, "", Code::Undef), []);
}

#[test]
fn bad_frames_are_dropped() {
    let mut bench = member(Dialect::Seed);
    for body in [
        &b""[..],
        b"{",
        b"[]",
        br#"{"t":[],"r":"zzz","d":"","c":0}"#,
        br#"{"t":[],"r":"cmd","d":"-","c":0}"#,
    ] {
        assert_eq!(bench.course.receive(bench.now, body), []);
    }
    assert!(bench.course.is_joined());
}

/// Bodies of a master of the programs, as captured: E3, connection `number` of a transcript.
fn captured(name: &str, number: u64) -> Vec<String> {
    let text = include_str!("../../../tests/vectors/sysinspect/transcripts.json");
    let all: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    let transcript = all.iter().find(|t| t["name"] == name).unwrap();
    let frames = transcript["frames"].as_array().unwrap().iter();
    frames
        .filter(|f| f["connection"] == number && f["from"] == "master")
        .map(|f| f["body"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn captured_masters_are_understood() {
    let play = |bench: &mut Bench, name: &str, number: u64| -> Vec<Vec<&'static str>> {
        let bodies = captured(name, number);
        let hear = |body: &String| kinds(&bench.course.receive(bench.now, body.as_bytes()));
        bodies.iter().map(hear).collect()
    };
    // Unregistered: first a command for all minions, then the key.
    let first: MasterMessage =
        MasterMessage::decode(captured("T15", 1)[1].as_bytes(), Dialect::Modern).unwrap();
    let master = PublicKey::from_pem(first.data.as_str().unwrap()).unwrap();
    let mut bench = bench(Dialect::Modern, &master.pkcs1_fingerprint(), None);
    bench.connect();
    assert_eq!(play(&mut bench, "T15", 1), [vec![], vec!["pin", "close"]]);
    assert_eq!(bench.connect().1.kind, MessageKind::Add);
    assert_eq!(play(&mut bench, "T15", 2), [["close"]]);
    // Joined: traits, a model that is not run, pings; the next pong lists the end of the cycle.
    bench.connect();
    let done = play(&mut bench, "T16", 4);
    let refused = vec!["evt", "mvt"];
    assert_eq!(
        done,
        [
            vec!["tr"],
            vec![],
            vec!["po"],
            refused,
            vec!["po"],
            vec!["po"]
        ]
    );
    // Both minions of this machine see the notice for the other one.
    assert_eq!(play(&mut bench, "T17", 4), [Vec::<&str>::new(), vec![]]);
    assert!(bench.course.is_joined());
    let mut second = self::bench(Dialect::Modern, "", Some(master));
    second.connect();
    assert_eq!(play(&mut second, "T17", 5), [["close", "end"]]);
}

//! The minion under the programs of 2024 and 2026.

use super::*;

impl Bench {
    /// A frame of E1: plain text, targets in a list.
    fn e1(&mut self, kind: MessageKind, data: &str) -> Vec<Action> {
        self.now += Duration::from_secs(5);
        let target = match kind {
            MessageKind::Pi => Target::everyone(),
            _ => Target::id(&id()),
        };
        let code = if kind == MessageKind::Pi {
            Code::Undef
        } else {
            Code::Success
        };
        let message = MasterMessage::new(target, kind, data, code);
        let body = message.encode(Dialect::E1).unwrap();
        self.course.receive(self.now, &body)
    }
}

/// T1, T2 and T4 of the reference: its master writes its key as it is, and does not answer a good hello.
#[test]
fn a_master_of_2024_is_spoken_to_in_its_own_dialect() {
    let mut stranger = bench(Dialect::Seed, "", None);
    stranger.connect();
    let out = stranger.e1(MessageKind::Undef, &pem());
    let (status, text) = ended(&out);
    let told = text.contains(&format!("--register {}", fingerprint()));
    assert!(status == 1 && told, "{text}");

    let mut bench = bench(Dialect::Seed, &fingerprint(), None);
    assert_eq!(bench.connect().1.kind, MessageKind::Add);
    // It accepts the empty key of the seed's dialect, which is of no use.
    let text = "Minion registration has been accepted";
    assert_eq!(kinds(&bench.e1(MessageKind::Retry, text)), ["close"]);
    assert_eq!(bench.course.dialect(), Dialect::E1);
    assert_eq!(
        bench.connect().1.data,
        bench.course.settings.session.as_str().into()
    );
    let out = bench.e1(MessageKind::Undef, &pem());
    assert_eq!(kinds(&out), ["pin", "close"]);
    let (_, add) = bench.connect();
    assert_eq!((add.kind, add.data), (MessageKind::Add, "PEM".into()));
    bench.e1(MessageKind::Retry, text);
    assert_eq!(bench.connect().1.kind, MessageKind::Ehlo);
    // One ping may come before a refusal.
    assert_eq!(bench.e1(MessageKind::Pi, ""), []);
    let out = bench.e1(MessageKind::Pi, "");
    assert_eq!(kinds(&out), ["po"]);
    assert!(bench.course.is_joined());
    assert_eq!(kinds(&bench.e1(MessageKind::Pi, "")), ["po"]);
}

#[test]
fn an_accepted_minion_joins_a_master_of_2024_by_its_pings() {
    let mut bench = bench(Dialect::Seed, "", Some(key().public()));
    bench.connect();
    assert_eq!(bench.e1(MessageKind::Pi, ""), []);
    let out = bench.e1(MessageKind::Pi, "");
    let [Action::Send(pong)] = &out[..] else {
        panic!("{out:?}");
    };
    let session = bench.course.settings.session.as_str();
    assert_eq!((pong.kind, &pong.data), (MessageKind::Po, &session.into()));
}

/// `sysinspect --unregister` and `--traits` of E3's master.
#[test]
fn commands_of_the_cluster_are_obeyed() {
    let command = |bench: &mut Bench, scheme: &str, context: &str| {
        let mut target = Target::id(&id());
        target.scheme = scheme.to_owned();
        target.context = context.to_owned();
        let data = map! {"files" => Map::new(), "uri" => scheme};
        bench.say(target, MessageKind::Cmd, data, Code::Success)
    };
    let mut bench = member(Dialect::Modern);
    let update = "cmd://cluster/traits/update";
    let set = r#"{"op":"set","traits":{"rack":"r7","n":5}}"#;
    let out = command(&mut bench, update, set);
    assert_eq!(kinds(&out), ["keep", "tr"]);
    assert_eq!(bench.course.traits().str("rack"), Some("r7"));
    let unset = r#"{"op":"unset","traits":{"rack":null}}"#;
    command(&mut bench, update, unset);
    assert_eq!(bench.course.traits().get("rack"), None);
    assert_eq!(bench.course.traits().int("n"), Some(5));
    for bad in ["", "rack=r7", "{}", r#"{"op":"drop"}"#, "[]"] {
        assert_eq!(command(&mut bench, update, bad), [], "{bad}");
    }
    command(&mut bench, update, r#"{"op":"reset"}"#);
    assert_eq!(bench.course.traits().get("n"), None);
    let out = command(&mut bench, "cmd://cluster/minion/remove", "");
    assert_eq!(kinds(&out), ["b", "forget", "close", "end"]);
}

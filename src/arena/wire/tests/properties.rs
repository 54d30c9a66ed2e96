//! Properties of all messages.

use super::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

fn uuid() -> impl Strategy<Value = Uuid> {
    "[!-~&&[^/+#]]{1,64}".prop_map(|text| text.parse().unwrap())
}

/// A non-empty text; an empty one counts as missing.
fn text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| format!("x{}", text.chars().take(200).collect::<String>()))
}

fn argument() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\0', ""))
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-1000i32..1000).prop_map(|n| Json::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = vec(inner.clone(), 0..4).prop_map(Json::from);
        let map = vec((any::<String>(), inner), 0..4);
        prop_oneof![
            list,
            map.prop_map(|map| map.into_iter().collect::<Object>().into())
        ]
    })
}

/// Unknown fields.
fn extra() -> impl Strategy<Value = Object> {
    vec(("x_[a-z]{1,8}", value()), 0..3).prop_map(|map| map.into_iter().collect())
}

/// Present and not empty.
fn platform() -> impl Strategy<Value = Json> {
    value().prop_filter("nothing", |value| *value != json!(""))
}

fn channel() -> impl Strategy<Value = Channel> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Write), Just(Mode::ReadWrite)];
    let path = "[a-bd-z .][a-z]{1,6}(/[a-z]{1,5}){0,3}";
    (path, mode, "[a-zé/ ]{1,20}", extra()).prop_map(|(path, mode, topic, extra)| Channel {
        path: path.parse().unwrap(),
        mode,
        topic: topic.parse().unwrap(),
        extra,
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Wait), Just(Policy::Move), Just(Policy::Drop)]
}

prop_compose! {
    fn request()(
        uuid in of(uuid()), name in text(), parent in of(text()), index in of(any::<u64>()),
        file in text(), filetype in of("[A-Z]{1,4}"), apis in vec(argument(), 1..4), argv in vec(argument(), 0..4),
        env in vec(("[A-Z]{1,8}", argument()), 0..4), args in extra(), channels in vec(channel(), 0..3),
        (policy, extra, listed) in (of(policy()), extra(), any::<bool>()),
    ) -> ModuleRequest {
        let file = file.replace('\0', "");
        let env = env.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let parent = parent.map(Parent);
        // A list has no other keys.
        let listed = listed && args.is_empty();
        ModuleRequest { uuid, name, parent, index, file, filetype, apis, argv, env, args, listed, channels, policy, extra }
    }
}

prop_compose! {
    fn runtime()(
        uuid in uuid(), name in text(), kind in text(), max_modules in any::<u32>(), apis in vec(argument(), 0..4),
        platform in platform(), metadata in platform(), keepalive in 0u64..100_000, manager in of(uuid()), dead in any::<bool>(),
        extra in extra(),
    ) -> Runtime {
        let state = if dead { RuntimeState::Dead } else { RuntimeState::Alive };
        Runtime { uuid, name, kind, max_modules, apis, platform, metadata, keepalive, manager, state, extra }
    }
}

prop_compose! {
    fn child()(uuid in uuid(), active in of(text()), cpu in 0u32..100_000, memory in any::<u64>(), extra in extra()) -> Child {
        Child { uuid, active, cpu_percent: f64::from(cpu) / 8.0, memory, extra }
    }
}

prop_compose! {
    fn keepalive()(
        uuid in uuid(), name in of(text()), apis in of(vec(argument(), 0..4)), children in of(vec(child(), 0..4)), extra in extra(),
    ) -> Keepalive {
        Keepalive { uuid, name, apis, children, partial: false, extra }
    }
}

prop_compose! {
    fn exit()(
        uuid in uuid(),
        status in prop_oneof![Just(ExitStatus::Exited), Just(ExitStatus::Deleted), Just(ExitStatus::Crashed), Just(ExitStatus::Killed)],
        code in of(any::<i64>()), reason in of(text()), extra in extra(),
    ) -> ModuleExit {
        ModuleExit { uuid, status, code, reason, extra }
    }
}

prop_compose! {
    fn answer()(action in of("[a-z]{1,10}"), failed in any::<bool>(), extra in extra(), details in value()) -> Answer {
        let (verdict, result) = if failed { (Verdict::Error, "error") } else { (Verdict::Ok, "ok") };
        // `error` is an action of its own.
        let action = action.filter(|action| action != "error");
        let mut data: Object = [("result".to_owned(), Json::from(result))].into_iter().collect();
        data.extend(extra);
        data.insert("details".into(), details);
        Answer { action, verdict, data }
    }
}

fn body() -> impl Strategy<Value = Body> {
    // A registration does not contain its own state.
    let fresh = runtime().prop_map(|runtime| Runtime {
        keepalive: KEEPALIVE,
        state: RuntimeState::Alive,
        ..runtime
    });
    let state = RuntimeState::Alive;
    let manager = (uuid(), text()).prop_map(move |(uuid, name)| Manager { uuid, name, state });
    let report = (text(), platform(), of(text()));
    prop_oneof![
        fresh.prop_map(|runtime| Body::Register(Box::new(runtime))),
        (uuid(), of(text())).prop_map(|(uuid, name)| Body::Unregister(uuid, name)),
        manager.prop_map(Body::RegisterManager),
        (uuid(), of(text())).prop_map(|(uuid, name)| Body::UnregisterManager(uuid, name)),
        keepalive().prop_map(|alive| Body::Keepalive(Box::new(alive))),
        request().prop_map(|module| Body::Create(Box::new(module))),
        (text(), vec(request(), 0..3))
            .prop_map(|(parent, all)| Body::CreateBatch(Parent(parent), all)),
        (text(), of(text())).prop_map(|(module, parent)| Body::Delete(module, parent.map(Parent))),
        exit().prop_map(Body::Exited),
        answer().prop_map(Body::Answer),
        report.prop_map(|(desc, data, request)| Body::Error(ErrorReport {
            desc,
            data,
            request
        })),
    ]
}

/// The older dialect has no index, and lists of arguments only.
fn in_dialect(mut message: Message) -> Message {
    let older = |module: &mut ModuleRequest| {
        module.index = None;
        module.listed = module.args.is_empty();
    };
    if message.dialect == Dialect::Older {
        match &mut message.body {
            Body::Create(module) => older(module),
            Body::CreateBatch(_, modules) => modules.iter_mut().for_each(older),
            _ => {}
        }
    }
    message
}

fn message() -> impl Strategy<Value = Message> {
    let dialect = prop_oneof![Just(Dialect::Draft), Just(Dialect::Older)];
    (text(), dialect, of(text()), body()).prop_map(|(object_id, dialect, from, body)| {
        in_dialect(Message {
            object_id,
            dialect,
            from,
            body,
        })
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(message in message()) {
        let text = message.to_json();
        let again = Message::parse(&text);
        prop_assert_eq!(again.as_ref(), Ok(&message), "{}", String::from_utf8_lossy(&text));
        // Byte for byte, so that the order of fields is checked too.
        prop_assert_eq!(again.map(|again| again.to_json()), Ok(text));
    }

    #[test]
    fn records_are_kept_as_they_were(
        runtime in runtime(), request in request(), uuid in uuid(), index in any::<u64>(), policy in policy(), placed in of(uuid()),
        scheduled in any::<bool>(), apis in vec(argument(), 0..3),
        state in prop_oneof![Just(State::Alive), Just(State::Dead), Just(State::Exiting), Just(State::Killed), Just(State::Queued)],
    ) {
        prop_assert_eq!(Runtime::from_json(runtime.to_json()), Ok(runtime.clone()));
        let text = runtime.to_json().to_string();
        prop_assert_eq!(Runtime::from_json(serde_json::from_str(&text).unwrap()), Ok(runtime.clone()));
        let manager = Manager { uuid: runtime.uuid, name: runtime.name, state: runtime.state };
        prop_assert_eq!(Manager::from_json(manager.to_json()), Ok(manager));
        let module = Module { runtime: placed, scheduled, state, apis, ..request.into_module(uuid, index, policy) };
        let text = module.to_json().to_string();
        prop_assert_eq!(Module::from_json(serde_json::from_str(&text).unwrap()), Ok(module));
    }

    #[test]
    fn nothing_brings_it_down(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Message::parse(&bytes);
    }

    #[test]
    fn no_json_brings_it_down(
        action in prop_oneof![Just("create"), Just("update"), Just("delete"), Just("exited"), Just("create_batch"), Just("error")],
        kind in prop_oneof![Just("runtime"), Just("manager"), Just("module")],
        word in prop_oneof![Just("req"), Just("resp"), Just("arts_req")],
        fields in vec((prop_oneof![
            Just("uuid"), Just("name"), Just("parent"), Just("file"), Just("apis"), Just("args"), Just("env"), Just("channels"),
            Just("children"), Just("modules"), Just("status"), Just("max_nmodules"), Just("policy"), Just("result"), Just("details"),
        ], value()), 0..6),
    ) {
        let mut data: Object = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        data.insert("type".into(), kind.into());
        let text = json!({"object_id": "o", "action": action, "type": word, "data": data}).to_string();
        if let Ok(message) = Message::parse(text.as_bytes()) {
            let once = message.to_json();
            let again = Message::parse(&once);
            prop_assert_eq!(again.map(|again| again.to_json()), Ok(once));
        }
    }

    #[test]
    fn what_is_opened_never_leaves_the_topic_of_its_channel(channels in vec(channel(), 1..4), rest in "[a-z/.+#\\\\ ]{0,12}", folder in any::<bool>()) {
        for one in &channels {
            let opened = format!("{}{}/{rest}", if folder { "/ch/" } else { "" }, one.path);
            if let Some((channel, topic)) = Channel::resolve(&channels, &opened) {
                let below = topic.as_str().strip_prefix(channel.topic.as_str());
                prop_assert!(below.is_some_and(|below| below.is_empty() || below.starts_with('/')), "{} {}", opened, topic);
                prop_assert!(!topic.as_str().contains(['+', '#']));
                prop_assert!(channel.path.as_str().len() >= one.path.as_str().len());
            }
        }
    }
}

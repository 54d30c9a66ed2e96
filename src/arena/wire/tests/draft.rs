//! The examples of the draft (seed 003), produced and consumed. Their commas are corrected: several examples have a
//! trailing one, the keepalive lacks one. `{...}` is filled in.

use super::*;

const OBJECT: &str = "50c2f088-a5b6-48c5-bbc7-4a693b0117a2";
const RUNTIME: &str = "5f937916-d29d-4f66-801e-3d69f57728e2";
const MODULE: &str = "44c72c87-c4ec-4759-b587-30ddc8590f6b";

fn id(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).into()).collect()
}

fn message(object_id: &str, body: Body) -> Message {
    Message::new(object_id, Dialect::Draft, body)
}

/// The example parses as `message`, and `message` is written as the example, in its order, byte for byte.
fn same(example: &str, message: &Message) {
    assert_eq!(&Message::parse(example.as_bytes()).unwrap(), message);
    let example: Json = serde_json::from_str(example).unwrap();
    assert_eq!(
        String::from_utf8(message.to_json()).unwrap(),
        example.to_string()
    );
}

fn runtime() -> Runtime {
    Runtime {
        uuid: id(RUNTIME),
        name: "rt1".into(),
        kind: "linux".into(),
        max_modules: 128,
        apis: texts(&["wasm", "wasi", "channels", "loopback", "delete_module"]),
        platform: json!({"cpu": {"arch": "x86_64"}}),
        metadata: json!({"host": "node-a"}),
        keepalive: 60,
        manager: None,
        state: RuntimeState::Alive,
        extra: Object::new(),
    }
}

#[test]
fn runtime_registration() {
    let example = r#"{
        "object_id": "50c2f088-a5b6-48c5-bbc7-4a693b0117a2",
        "action": "create",
        "type": "req",
        "data": {
            "type": "runtime",
            "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
            "name": "rt1",
            "runtime_type": "linux",
            "max_nmodules": 128,
            "apis": ["wasm", "wasi", "channels", "loopback", "delete_module"],
            "platform": {"cpu": {"arch": "x86_64"}},
            "metadata": {"host": "node-a"}
        }
    }"#;
    same(
        example,
        &message(OBJECT, Body::Register(Box::new(runtime()))),
    );
}

#[test]
fn runtime_confirmation() {
    let example = json!({
        "object_id": "50c2f088-a5b6-48c5-bbc7-4a693b0117e5",
        "type": "resp",
        "data": {
            "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
            "name": "rt1",
            "ka_interval_sec": 60
        }
    });
    let Body::Answer(read) = read(example.clone()).body else {
        panic!("no answer");
    };
    assert_eq!(
        (read.verdict, read.uuid(), read.keepalive()),
        (Verdict::Ok, Some(RUNTIME), 60)
    );
    // Ours has all that, and what real peers look for.
    let answer = message(
        "50c2f088-a5b6-48c5-bbc7-4a693b0117e5",
        Body::Answer(Answer::registered(&runtime())),
    );
    let ours = written(&answer);
    assert_eq!(
        (&ours["object_id"], &ours["type"], ours.get("action")),
        (&example["object_id"], &example["type"], None)
    );
    for (key, value) in example["data"].as_object().unwrap() {
        assert_eq!(&ours["data"][key], value, "{key}");
    }
    let keys: Vec<_> = ours["data"].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["result", "uuid", "name", "ka_interval_sec", "details"]
    );
    assert_eq!(ours["data"]["details"], runtime().to_json());
}

#[test]
fn keepalive() {
    let example = r#"{
        "object_id": "50c2f088-a5b6-48c5-bbc7-4a693b0117a2",
        "action": "update",
        "type": "req",
        "data": {
            "type": "runtime",
            "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
            "name": "rt1",
            "apis": ["wasm", "wasi", "channels", "loopback", "delete_module"],
            "children": [
                {
                    "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
                    "active": "2020-08-25T15:46:20.545Z",
                    "cpu_usage_percent": 0.0065224038671030556,
                    "mem_usage": 1185840
                }
            ]
        }
    }"#;
    let child = Child {
        uuid: id(RUNTIME),
        active: Some("2020-08-25T15:46:20.545Z".into()),
        // The JSON parser keeps 16 of its 17 digits.
        cpu_percent: serde_json::from_str("0.0065224038671030556").unwrap(),
        memory: 1185840,
        extra: Object::new(),
    };
    let alive = Keepalive {
        uuid: id(RUNTIME),
        name: Some("rt1".into()),
        apis: Some(runtime().apis),
        children: Some(vec![child.clone()]),
        partial: false,
        extra: Object::new(),
    };
    same(
        example,
        &message(OBJECT, Body::Keepalive(Box::new(alive.clone()))),
    );
    // No activity on channels.
    let idle = Child {
        active: None,
        ..child
    };
    let alive = Keepalive {
        children: Some(vec![idle]),
        ..alive
    };
    let idle = example.replace("\"2020-08-25T15:46:20.545Z\"", "-1");
    same(&idle, &message(OBJECT, Body::Keepalive(Box::new(alive))));
}

#[test]
fn deletion_of_a_runtime() {
    let example = r#"{
        "object_id": "9d6a1011-5fd2-4e34-9d15-c4adde3c7679",
        "action": "delete",
        "type": "req",
        "data": {
            "type": "runtime",
            "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
            "name": "rt1"
        }
    }"#;
    let body = Body::Unregister(id(RUNTIME), Some("rt1".into()));
    same(
        example,
        &message("9d6a1011-5fd2-4e34-9d15-c4adde3c7679", body),
    );
}

#[test]
fn registration_and_deletion_of_a_manager() {
    let example = r#"{
        "object_id": "50c2f088-a5b6-48c5-bbc7-4a693b0117a2",
        "action": "create",
        "type": "req",
        "data": {
            "type": "manager",
            "uuid": "5f937916-d29d-4f66-801e-3d69f57728e2",
            "name": "mgr1"
        }
    }"#;
    let manager = Manager {
        uuid: id(RUNTIME),
        name: "mgr1".into(),
        state: RuntimeState::Alive,
    };
    same(
        example,
        &message(OBJECT, Body::RegisterManager(manager.clone())),
    );
    let gone = Body::UnregisterManager(id(RUNTIME), Some("mgr1".into()));
    same(&example.replace("create", "delete"), &message(OBJECT, gone));
    let answer = written(&message(OBJECT, Body::Answer(Answer::manager(&manager))));
    let details = json!({"uuid": RUNTIME, "name": "mgr1", "status": "A"});
    assert_eq!(
        answer["data"],
        json!({"result": "ok", "uuid": RUNTIME, "name": "mgr1", "details": details})
    );
}

fn module() -> ModuleRequest {
    let channel = Channel {
        path: "light".parse().unwrap(),
        mode: Mode::ReadWrite,
        topic: "realm/kitchen/light".parse().unwrap(),
        extra: Object::new(),
    };
    ModuleRequest {
        uuid: Some(id(MODULE)),
        name: "test".into(),
        parent: Some(Parent("059ec980-c38f-4612-a655-cc4c1ef9624c".into())),
        index: None,
        file: "stdinread.wasm".into(),
        filetype: None,
        apis: texts(&[
            "wasm",
            "wasi",
            "channels",
            "delete_module",
            "profile:deployed",
        ]),
        argv: texts(&["arg1", "arg2"]),
        env: texts(&["ENV_VAR1=1", "ENV_VAR2=2"]),
        args: [("limit".to_owned(), json!(5))].into_iter().collect(),
        listed: false,
        channels: vec![channel],
        policy: None,
        extra: Object::new(),
    }
}

#[test]
fn creation_of_a_module() {
    let example = r#"{
        "object_id": "fcb2780b-abdd-43b6-bc13-895baa2075a3",
        "action": "create",
        "type": "req",
        "data": {
            "type": "module",
            "uuid": "44c72c87-c4ec-4759-b587-30ddc8590f6b",
            "name": "test",
            "parent": "059ec980-c38f-4612-a655-cc4c1ef9624c",
            "file": "stdinread.wasm",
            "apis": ["wasm", "wasi", "channels", "delete_module", "profile:deployed"],
            "args": {
                "argv": ["arg1", "arg2"],
                "env": ["ENV_VAR1=1", "ENV_VAR2=2"],
                "limit": 5
            },
            "channels": [
                {
                    "path": "light",
                    "mode": "rw",
                    "topic": "realm/kitchen/light"
                }
            ]
        }
    }"#;
    same(
        example,
        &message(
            "fcb2780b-abdd-43b6-bc13-895baa2075a3",
            Body::Create(Box::new(module())),
        ),
    );
    let bare = r#"{"object_id": "o", "action": "create", "type": "req", "data": {"type": "module", "file": "x.wasm"}}"#;
    let Body::Create(bare) = Message::parse(bare.as_bytes()).unwrap().body else {
        panic!("no create");
    };
    assert_eq!(
        (bare.uuid, bare.parent, bare.apis),
        (None, None, texts(&["wasm", "wasi"]))
    );
}

#[test]
fn a_module_that_is_placed_goes_on_as_the_real_orchestrator_writes_it() {
    let mut placed = module().into_module(id(MODULE), 1, Policy::Wait);
    placed.runtime = Some(id("059ec980-c38f-4612-a655-cc4c1ef9624c"));
    let forward = message("o", Body::Create(Box::new(placed.request())));
    // As T2 of the reference, with the fields of the draft's example.
    let text = r#"{"object_id":"o","action":"create","type":"req","data":{"type":"module","index":1,"uuid":"44c72c87-c4ec-4759-b587-30ddc8590f6b","name":"test","parent":"059ec980-c38f-4612-a655-cc4c1ef9624c","file":"stdinread.wasm","apis":["wasm","wasi","channels","delete_module","profile:deployed"],"args":{"argv":["arg1","arg2"],"env":["ENV_VAR1=1","ENV_VAR2=2"],"limit":5},"channels":[{"path":"light","mode":"rw","topic":"realm/kitchen/light"}],"status":"A"}}"#;
    assert_eq!(String::from_utf8(forward.to_json()).unwrap(), text);
    // As T16.
    placed.args = Object::new();
    placed.filetype = Some("WA".into());
    let older = Message::new(
        "o",
        Dialect::Older,
        Body::Create(Box::new(placed.request())),
    );
    let text = r#"{"object_id":"o","action":"create","type":"arts_req","data":{"type":"module","uuid":"44c72c87-c4ec-4759-b587-30ddc8590f6b","name":"test","parent":"059ec980-c38f-4612-a655-cc4c1ef9624c","filename":"stdinread.wasm","filetype":"WA","apis":["wasm","wasi","channels","delete_module","profile:deployed"],"args":["arg1","arg2"],"env":["ENV_VAR1=1","ENV_VAR2=2"],"channels":[{"path":"light","mode":"rw","topic":"realm/kitchen/light"}],"status":"A"}}"#;
    assert_eq!(String::from_utf8(older.to_json()).unwrap(), text);

    // As T11: a list, and the other keys where there is a place for them.
    placed.args = [("limit".to_owned(), json!(5))].into_iter().collect();
    placed.extra = [("location".to_owned(), json!("lab"))]
        .into_iter()
        .collect();
    let request = placed.request().suited_to("containerized-modules");
    let listed = message("o", Body::Create(Box::new(request)));
    let listed: Json = serde_json::from_slice(&listed.to_json()).unwrap();
    let data = &listed["data"];
    assert_eq!(data["args"], json!(["arg1", "arg2"]));
    assert_eq!(data["env"], json!(["ENV_VAR1=1", "ENV_VAR2=2"]));
    assert_eq!(
        (&data["limit"], &data["location"]),
        (&json!(5), &json!("lab"))
    );
    // Others get what was asked for, except those that would crash.
    placed.args = Object::new();
    placed.listed = true;
    assert!(placed.request().suited_to("browser").listed);
    assert!(!placed.request().suited_to("linux/min/wasmer").listed);
    assert!(!placed.request().suited_to("linux").listed);

    for (answer, action) in [
        (Answer::module(&placed), "create"),
        (Answer::deleted(&placed), "delete"),
    ] {
        let ours = written(&message("o", Body::Answer(answer)));
        assert_eq!(
            (&ours["action"], &ours["type"]),
            (&json!(action), &json!("resp"))
        );
        assert_eq!(
            (&ours["data"]["result"], &ours["data"]["uuid"]),
            (&json!("ok"), &json!(MODULE))
        );
        assert_eq!(
            Module::from_json(ours["data"]["details"].clone()).unwrap(),
            placed
        );
    }
    // As T9.
    let taken = message("q", Body::Answer(Answer::taken("create", &id(MODULE))));
    let text = r#"{"object_id":"q","action":"create","type":"resp","data":{"result":"ok","details":{"uuid":"44c72c87-c4ec-4759-b587-30ddc8590f6b"}}}"#;
    assert_eq!(String::from_utf8(taken.to_json()).unwrap(), text);
}

#[test]
fn deletion_and_exit_of_a_module() {
    let example = r#"{
        "object_id": "fcb2780b-abdd-43b6-bc13-895baa2075b4",
        "action": "delete",
        "type": "req",
        "data": {
            "type": "module",
            "uuid": "44c72c87-c4ec-4759-b587-30ddc8590f6b"
        }
    }"#;
    let object = "fcb2780b-abdd-43b6-bc13-895baa2075b4";
    same(example, &message(object, Body::Delete(MODULE.into(), None)));
    // We also write how it ended.
    let exit = ModuleExit {
        uuid: id(MODULE),
        status: ExitStatus::Exited,
        code: None,
        reason: None,
        extra: Object::new(),
    };
    let example = example.replace("delete", "exited");
    let ours = message(object, Body::Exited(exit));
    assert_eq!(Message::parse(example.as_bytes()).unwrap(), ours);
    let mut example: Json = serde_json::from_str(&example).unwrap();
    example["data"]["status"] = "exited".into();
    assert_eq!(written(&ours).to_string(), example.to_string());
}

#[test]
fn errors() {
    let report = ErrorReport {
        desc: "missing field".into(),
        data: "data/uuid".into(),
        request: None,
    };
    let example = r#"{"object_id": "o", "action": "error", "type": "resp", "data": {"desc": "missing field", "data": "data/uuid"}}"#;
    same(example, &message("o", Body::Error(report)));
}

//! Invalid messages, and odd ones that are accepted.

use super::keepalives::keepalive;
use super::*;
use halite_wire::budget::MAX_DEPTH;

fn create(data: Json) -> ModuleRequest {
    match read(request("create", data)).body {
        Body::Create(module) => *module,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_message_is_refused() {
    for text in [
        "",
        " ",
        "nonsense",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "''",
        "'",
        "\u{1}",
        "nul",
    ] {
        let fault = Message::parse(text.as_bytes()).unwrap_err();
        assert_eq!(fault.trouble, Trouble::NotJson, "{text:?}");
        assert_eq!(fault.request, None);
    }
    for value in ["7", "[]", "\"text\"", "null"] {
        assert_eq!(
            Message::parse(value.as_bytes()).unwrap_err().trouble,
            Trouble::NotJson
        );
    }
    assert_eq!(
        Message::parse(b"\xff\xfe").unwrap_err().trouble,
        Trouble::NotJson
    );
}

#[test]
fn one_pair_of_single_quotes_is_nothing() {
    let plain = request("exited", json!({"type": "module", "uuid": "m"})).to_string();
    let message = Message::parse(plain.as_bytes()).unwrap();
    for text in [
        format!("'{plain}'"),
        format!(" '{plain}'\n"),
        format!("' {plain} '"),
    ] {
        assert_eq!(Message::parse(text.as_bytes()).unwrap(), message);
    }
    assert!(Message::parse(format!("''{plain}''").as_bytes()).is_err());
}

#[test]
fn sizes_are_bounded() {
    let name = |n: usize| {
        request(
            "create",
            json!({"type": "module", "file": "f", "name": "é".repeat(n)}),
        )
    };
    read(name(255));
    assert_eq!(trouble(name(256)), (Trouble::BadField, json!("data/name")));
    let object = |n: usize| json!({"object_id": "o".repeat(n), "action": "exited", "type": "req", "data": {"uuid": "m"}});
    read(object(255));
    assert_eq!(
        trouble(object(256)),
        (Trouble::BadField, json!("object_id"))
    );

    let large = json!({"object_id": "o", "x": " ".repeat(MAX_MESSAGE)}).to_string();
    let fault = Message::parse(large.as_bytes()).unwrap_err();
    assert_eq!(fault.trouble, Trouble::TooMany);
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let deep = |n| {
        format!(
            "{{\"object_id\":\"o\",\"type\":\"resp\",\"data\":{{\"x\":{}}}}}",
            nested(n)
        )
    };
    assert!(Message::parse(deep(MAX_DEPTH - 2).as_bytes()).is_ok());
    assert_eq!(
        Message::parse(deep(MAX_DEPTH - 1).as_bytes())
            .unwrap_err()
            .trouble,
        Trouble::NotJson
    );
    assert!(Message::parse("[".repeat(MAX_MESSAGE).as_bytes()).is_err());
    // Brackets in strings do not count, and quotes after a backslash do not end a string.
    let text = json!({"object_id": "\"[[[[\\".repeat(20), "type": "resp", "data": {}});
    read(text);

    for (key, entry, most) in [
        ("apis", json!("a"), 128),
        ("args", json!("a"), 1024),
        ("env", json!("a=b"), 1024),
        (
            "channels",
            json!({"path": "p", "mode": "r", "topic": "t"}),
            256,
        ),
    ] {
        let with = |n| {
            request(
                "create",
                json!({"type": "module", "file": "f", key: vec![entry.clone(); n]}),
            )
        };
        read(with(most));
        let what = format!("data/{key}: {most} at most");
        assert_eq!(trouble(with(most + 1)), (Trouble::TooMany, json!(what)));
    }
    let batch = |n| {
        request(
            "create_batch",
            json!({"parent": "r", "modules": vec![json!({"file": "f"}); n]}),
        )
    };
    read(batch(256));
    assert_eq!(trouble(batch(257)).0, Trouble::TooMany);
    // A keepalive with more is still a sign of life.
    let alive = |n| {
        let children = vec![json!({"uuid": "m"}); n];
        let alive = keepalive(json!({"type": "runtime", "uuid": "r", "children": children}));
        (alive.children.unwrap().len(), alive.partial)
    };
    assert_eq!(alive(4096), (4096, false));
    assert_eq!(alive(4097), (4096, true));
}

#[test]
fn missing_and_mistyped_fields_are_told_by_their_path() {
    use Trouble::{BadAction, BadField, MissingField};
    let whole = request("create", json!({"type": "module", "file": "f"}));
    for key in ["object_id", "action", "type", "data"] {
        for none in [Json::Null, json!("")] {
            let mut without = whole.clone();
            without[key] = none;
            assert_eq!(trouble(without), (MissingField, json!(key)));
        }
        let mut mistyped = whole.clone();
        mistyped[key] = json!(7);
        assert_eq!(trouble(mistyped), (BadField, json!(key)));
    }
    for (action, data, expected) in [
        (
            "create",
            json!({"type": "module"}),
            (MissingField, json!("data/file")),
        ),
        (
            "create",
            json!({"type": "module", "file": ""}),
            (MissingField, json!("data/file")),
        ),
        (
            "create",
            json!({"type": "module", "file": "a\0b"}),
            (BadField, json!("data/file")),
        ),
        (
            "create",
            json!({"type": "runtime"}),
            (MissingField, json!("data/uuid")),
        ),
        (
            "create",
            json!({"type": "manager"}),
            (MissingField, json!("data/uuid")),
        ),
        (
            "create",
            json!({"uuid": "u"}),
            (MissingField, json!("data/type")),
        ),
        (
            "create",
            json!({"type": ["module"]}),
            (BadField, json!("data/type")),
        ),
        (
            "create",
            json!({"type": "scene"}),
            (BadField, json!("data/type")),
        ),
        (
            "create",
            json!({"type": "runtime", "uuid": "a/b"}),
            (BadField, json!("data/uuid")),
        ),
        (
            "create",
            json!({"type": "runtime", "uuid": "u", "max_nmodules": -1}),
            (BadField, json!("data/max_nmodules")),
        ),
        (
            "create",
            json!({"type": "runtime", "uuid": "u", "max_nmodules": 1u64 << 32}),
            (BadField, json!("data/max_nmodules")),
        ),
        (
            "create",
            json!({"type": "runtime", "uuid": "u", "apis": ["a", 7]}),
            (BadField, json!("data/apis/1")),
        ),
        (
            "create",
            json!({"type": "runtime", "uuid": "u", "apis": {}}),
            (BadField, json!("data/apis")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "args": 7}),
            (BadField, json!("data/args")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "args": {"argv": [{}]}}),
            (BadField, json!("data/args/argv/0")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "args": {"argv": ["a\0"]}}),
            (BadField, json!("data/args/argv/0")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "env": ["=x"]}),
            (BadField, json!("data/env/0")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "args": {"env": ["plain"]}}),
            (BadField, json!("data/args/env/0")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "policy": "later"}),
            (BadField, json!("data/policy")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "parent": 7}),
            (BadField, json!("data/parent")),
        ),
        (
            "create",
            json!({"type": "module", "file": "f", "parent": {"uuid": 7}}),
            (BadField, json!("data/parent/uuid")),
        ),
        (
            "create_batch",
            json!({"modules": []}),
            (MissingField, json!("data/parent")),
        ),
        (
            "create_batch",
            json!({"parent": "r"}),
            (MissingField, json!("data/modules")),
        ),
        (
            "create_batch",
            json!({"parent": "r", "modules": [{"file": "f"}, {}]}),
            (MissingField, json!("data/modules/1/file")),
        ),
        (
            "update",
            json!({"type": "module", "uuid": "r"}),
            (BadAction, json!(["update", "req"])),
        ),
        (
            "exited",
            json!({"type": "runtime", "uuid": "r"}),
            (BadAction, json!(["exited", "req"])),
        ),
        (
            "exited",
            json!({"type": "module"}),
            (MissingField, json!("data/uuid")),
        ),
        (
            "exited",
            json!({"type": "module", "uuid": "m", "exit_code": "x"}),
            (BadField, json!("data/exit_code")),
        ),
        (
            "delete",
            json!({"type": "module"}),
            (MissingField, json!("data/uuid")),
        ),
        (
            "delete",
            json!({"type": "manager"}),
            (MissingField, json!("data/uuid")),
        ),
        ("delete", json!([]), (BadField, json!("data"))),
    ] {
        let value = request(action, data);
        assert_eq!(trouble(value.clone()), expected, "{value}");
    }
}

#[test]
fn a_fault_tells_whose_message_it_was_and_in_which_words() {
    let fault =
        refused(json!({"object_id": "mine", "action": "frob", "type": "arts_req", "data": {}}));
    assert_eq!(fault.request.as_deref(), Some("mine"));
    assert_eq!(fault.dialect, Dialect::Older);
    let report = Message::new("new", fault.dialect, Body::Error(fault.report()));
    assert_eq!(
        String::from_utf8(report.to_json()).unwrap(),
        r#"{"object_id":"new","action":"error","type":"arts_resp","data":{"desc":"invalid action/type","data":["frob","arts_req"],"request":"mine"}}"#
    );
    let Body::Answer(answer) = read(written(&Message::new(
        "mine",
        fault.dialect,
        Body::Answer(fault.answer()),
    )))
    .body
    else {
        panic!("no answer");
    };
    assert_eq!(answer.verdict, Verdict::Error);
    assert_eq!(answer.why(), r#"invalid action/type: ["frob","arts_req"]"#);
    let long =
        refused(json!({"object_id": "o", "action": "x".repeat(1000), "type": "y".repeat(1000)}));
    assert_eq!(long.data, json!(["x".repeat(64), "y".repeat(64)]));
    assert_eq!(
        Fault::new(Trouble::BadField, "a\nb").to_string(),
        r"invalid field: a\nb"
    );
}

#[test]
fn arguments_and_environment_are_read_in_every_form() {
    let plain = create(json!({"type": "module", "file": "f"}));
    assert_eq!(
        (plain.name.as_str(), &plain.uuid, &plain.parent),
        ("module", &None, &None)
    );
    assert_eq!(plain.apis, DEFAULT_APIS);
    let none = json!({"type": "module", "filename": "f", "uuid": "", "name": null, "parent": "", "apis": [], "args": null, "env": "", "channels": null, "policy": ""});
    assert_eq!(create(none), plain);
    let list = create(
        json!({"type": "module", "file": "f", "args": ["a", 7, true], "env": {"A": "1", "B": 2, "C": null}}),
    );
    assert_eq!(list.argv, ["a", "7", "true"]);
    assert_eq!(list.env, ["A=1", "B=2", "C="]);
    let object = create(
        json!({"type": "module", "file": "f", "args": {"argv": ["a"], "env": ["A=1", "D=x=y"], "limit": 5, "policy": "move"}, "env": ["A=2", "B=3"]}),
    );
    assert_eq!(object.env, ["A=1", "D=x=y", "B=3"]);
    assert_eq!(object.policy, Some(Policy::Move));
    assert_eq!(Json::Object(object.args), json!({"limit": 5}));
    let beside = create(
        json!({"type": "module", "file": "f", "policy": "drop", "args": {"policy": "move"}}),
    );
    assert_eq!((beside.policy, beside.args.len()), (Some(Policy::Drop), 0));
    let words = create(json!({"type": "module", "file": "f", "apis": "wasm  wasi channels "}));
    assert_eq!(words.apis, ["wasm", "wasi", "channels"]);
    for (parent, named) in [
        (json!("r"), "r"),
        (json!({"uuid": "u", "name": "n"}), "u"),
        (json!({"name": "n"}), "n"),
    ] {
        let module = create(json!({"type": "module", "file": "f", "parent": parent}));
        assert_eq!(module.parent, Some(Parent(named.into())));
    }
    let both = create(json!({"type": "module", "file": "new", "filename": "old"}));
    assert_eq!((both.file.as_str(), both.extra.len()), ("new", 0));
    // Fields that only the orchestrator sets are not kept as unknown fields either.
    let record = create(
        json!({"type": "module", "file": "f", "index": 7.0, "status": "D", "scheduled": true, "location": "here"}),
    );
    assert_eq!(
        (record.index, Json::Object(record.extra)),
        (Some(7), json!({"location": "here"}))
    );
}

#[test]
fn keepalives_exits_and_deletions_are_read_in_every_form() {
    let body = |action, data| read(request(action, data)).body;
    let children = json!([{"uuid": "a"}, {"uuid": "b", "active": -1, "cpu_usage_percent": -3, "mem_usage": -1},
        {"uuid": "c", "active": "2020-08-25T15:46:20.545Z", "cpu_usage_percent": 1, "mem_usage": 2.0, "x": []}, {"uuid": "d", "active": 1598370380}]);
    let Body::Keepalive(alive) = body(
        "update",
        json!({"type": "runtime", "uuid": "r", "children": children, "load": 1}),
    ) else {
        panic!("no keepalive");
    };
    assert_eq!(
        (&alive.name, &alive.apis, alive.extra["load"].as_u64()),
        (&None, &None, Some(1))
    );
    let seen: Vec<_> = alive
        .children
        .iter()
        .flatten()
        .map(|c| (c.active.as_deref(), c.cpu_percent, c.memory, c.extra.len()))
        .collect();
    assert_eq!(
        seen,
        [
            (None, 0.0, 0, 0),
            (None, 0.0, 0, 0),
            (Some("2020-08-25T15:46:20.545Z"), 1.0, 2, 1),
            (Some("1598370380"), 0.0, 0, 0)
        ]
    );

    let exit = |data| match body("exited", data) {
        Body::Exited(exit) => exit,
        other => panic!("{other:?}"),
    };
    assert_eq!(exit(json!({"uuid": "m"})).status, ExitStatus::Exited);
    let odd = exit(
        json!({"type": "module", "uuid": "m", "status": "gone away", "exit_code": -7, "x": 1}),
    );
    assert_eq!(
        (odd.status, odd.code, odd.reason.as_deref(), odd.extra.len()),
        (ExitStatus::Exited, Some(-7), Some("gone away"), 1)
    );
    let known =
        exit(json!({"type": "module", "uuid": "m", "status": "killed", "reason": "memory"}));
    assert_eq!(
        (known.status, known.reason.as_deref()),
        (ExitStatus::Killed, Some("memory"))
    );

    assert_eq!(
        body("delete", json!({"name": "n"})),
        Body::Delete("n".into(), None)
    );
    let own = json!({"type": "module", "uuid": "arena/py/box", "parent": {"uuid": "r"}});
    assert_eq!(
        body("delete", own),
        Body::Delete("arena/py/box".into(), Some(Parent("r".into())))
    );
    let runtime: Uuid = "r".parse().unwrap();
    assert_eq!(
        body("delete", json!({"type": "runtime", "uuid": "r"})),
        Body::Unregister(runtime, None)
    );
}

#[test]
fn an_empty_list_of_apis_is_not_the_usual_one() {
    let apis = |data: Json| Runtime::from_json(data).unwrap().apis;
    assert_eq!(apis(json!({"uuid": "r"})), DEFAULT_APIS);
    assert_eq!(apis(json!({"uuid": "r", "apis": null})), DEFAULT_APIS);
    assert!(apis(json!({"uuid": "r", "apis": []})).is_empty());
}

#[test]
fn confirmations_of_both_kinds_tell_the_interval() {
    let answer =
        |kind: &str, data: Json| match read(json!({"object_id": "o", "type": kind, "data": data}))
            .body
        {
            Body::Answer(answer) => answer,
            other => panic!("{other:?}"),
        };
    for (data, seconds) in [
        (
            json!({"uuid": "r", "name": "rt1", "ka_interval_sec": 30}),
            30,
        ),
        (
            json!({"result": "ok", "details": {"uuid": "r", "ka_interval_sec": 20}}),
            20,
        ),
        (
            json!({"uuid": "r", "ka_interval_sec": 0, "details": {"ka_interval_sec": 20}}),
            0,
        ),
        (json!({"uuid": "r"}), KEEPALIVE),
        (
            json!({"uuid": "r", "ka_interval_sec": null, "details": null}),
            KEEPALIVE,
        ),
    ] {
        for kind in ["resp", "orch_resp", "arts_resp", "runtime_resp"] {
            let answer = answer(kind, data.clone());
            assert_eq!(
                (answer.verdict, answer.keepalive(), answer.why().as_str()),
                (Verdict::Ok, seconds, ""),
                "{data}"
            );
        }
    }
    assert_eq!(
        answer("resp", json!({"details": {"uuid": "r"}})).uuid(),
        Some("r")
    );
    for (data, why) in [
        (json!({"result": "error"}), ""),
        (json!({"result": "error", "details": "no"}), "no"),
        (json!({"result": "failed", "desc": "no"}), "no"),
        (
            json!({"result": 1, "desc": "no", "data": "data/uuid"}),
            "no: data/uuid",
        ),
        (
            json!({"result": "error", "details": {"desc": "no", "data": ["a"]}}),
            "no: [\"a\"]",
        ),
        (
            json!({"result": "error", "details": {"uuid": "m"}}),
            "{\"uuid\":\"m\"}",
        ),
    ] {
        let answer = answer("resp", data.clone());
        assert_eq!(
            (answer.verdict, answer.why().as_str()),
            (Verdict::Error, why),
            "{data}"
        );
    }
    assert_eq!(answer("resp", Json::Null).verdict, Verdict::Ok);
    assert_eq!(
        refused(json!({"object_id": "o", "type": "resp", "data": []})).data,
        "data"
    );
}

#[test]
fn a_record_has_an_end_however_it_is_filled() {
    let module = |more: Json| {
        let mut data = json!({"type": "module", "file": "x"});
        data.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request("create", data)
    };
    let vars = |name: &str, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("{name}{n}=")).collect()
    };
    // Each list is short enough by itself, but they are one in the record.
    let both = |own: usize| json!({"args": {"env": vars("A", own)}, "env": vars("B", 1024 - 24)});
    let Body::Create(fits) = read(module(both(24))).body else {
        panic!();
    };
    assert_eq!(fits.env.len(), 1024);
    let record = fits.into_module("u".parse().unwrap(), 0, Policy::Wait);
    assert_eq!(Module::from_json(record.to_json()).unwrap(), record);
    let fault = refused(module(both(25)));
    assert_eq!(fault.data, "data/env: 1024 at most");
    let long = "x".repeat(64 << 10);
    let many = vec![0; 4096];
    for more in [
        json!({"args": {"argv": [long]}}),
        json!({"args": [long]}),
        json!({"args": {"other": {"deep": [many]}}}),
        json!({"location": long}),
        json!({"channels": [{"path": "p", "mode": "r", "topic": "t", "note": long}]}),
    ] {
        let fault = refused(module(more));
        assert_eq!(fault.trouble, Trouble::TooMany);
        let said = fault.data.as_str().unwrap();
        assert!(said.starts_with("data: 65536 bytes of "), "{said}");
    }
    let runtime = |key: &str, value: Json| {
        let mut data = json!({"type": "runtime", "uuid": "r"});
        data[key] = value;
        request("create", data)
    };
    let long = "x".repeat(16 << 10);
    for key in ["platform", "metadata", "x"] {
        let fault = refused(runtime(key, json!({"a": [long]})));
        assert_eq!(fault.trouble, Trouble::TooMany);
        read(runtime(key, json!({"a": [&long[1000..]]})));
    }
    let fault = refused(runtime("apis", json!([long])));
    assert_eq!(fault.data, "data/apis: 8192 bytes at most");
}

use super::*;
use crate::wire::{Mode, Policy};

/// A job's load as the CLI publishes it.
fn load(fun: &str, words: &[&str], named: Map) -> Map {
    let mut arg: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
    if !named.is_empty() {
        let mut named = named;
        named.set("__kwarg__", true);
        arg.push(named.into());
    }
    halite_wire::map! {"fun" => fun, "arg" => arg}
}

fn said(load: &Map) -> String {
    match Call::of(load).unwrap_err() {
        FunctionResult {
            value: Value::Str(text),
            retcode: 1,
        } => text,
        other => panic!("no text: {other:?}"),
    }
}

fn list(items: &[&str]) -> Value {
    let items: Vec<Value> = items.iter().map(|item| Value::from(*item)).collect();
    items.into()
}

fn created(named: Map) -> ModuleRequest {
    match Call::of(&load("arena.create", &[], named)) {
        Ok(Call::Create { request, .. }) => *request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_module_is_asked_for_as_the_command_line_says() {
    let channel =
        halite_wire::map! {"path" => "light", "mode" => "rw", "topic" => "realm/kitchen/light"};
    let request = created(halite_wire::map! {
        "file" => "echo.wasm", "name" => "echo", "uuid" => "u1", "policy" => "move", "filetype" => "WA",
        "argv" => vec![Value::from("a"), Value::Int(2)], "env" => halite_wire::map! {"A" => 1, "B" => "x"},
        "apis" => "wasm, wasi stdio:in", "channels" => vec![Value::Map(channel)],
        "args" => halite_wire::map! {"repeat" => 2},
    });
    assert_eq!(request.file, "echo.wasm");
    assert_eq!(
        (request.name.as_str(), request.uuid),
        ("echo", "u1".parse().ok())
    );
    assert_eq!(request.argv, ["a", "2"]);
    assert_eq!(request.env, ["A=1", "B=x"]);
    assert_eq!(request.apis, ["wasm", "wasi", "stdio:in"]);
    assert_eq!(request.policy, Some(Policy::Move));
    assert_eq!(request.channels[0].mode, Mode::ReadWrite);
    assert_eq!(request.channels[0].topic.as_str(), "realm/kitchen/light");
    assert_eq!(request.args["repeat"], 2);
    assert_eq!(request.parent, None);
}

#[test]
fn lists_may_be_yaml_as_text() {
    let request = created(halite_wire::map! {
        "file" => "a", "argv" => "[x, '1']", "env" => "{A: b}",
        "channels" => "[{path: p, mode: r, topic: t}]", "apis" => "[wasm]", "args" => "{limit: 3}",
    });
    assert_eq!(request.argv, ["x", "1"]);
    assert_eq!(request.env, ["A=b"]);
    assert_eq!(request.channels[0].mode, Mode::Read);
    assert_eq!(request.apis, ["wasm"]);
    assert_eq!(request.args["limit"], 3);
    assert_eq!(
        created(halite_wire::map! {"file" => "a", "argv" => "one"}).argv,
        ["one"]
    );
    assert_eq!(
        created(halite_wire::map! {"file" => "a", "env" => "[A=1]"}).env,
        ["A=1"]
    );
    let request = created(halite_wire::map! {"file" => "a"});
    assert_eq!(
        (request.name.as_str(), request.apis),
        ("module", vec!["wasm".into(), "wasi".into()])
    );
}

#[test]
fn fields_that_only_some_runtimes_know_are_set() {
    let request = created(halite_wire::map! {
        "file" => "nat.py", "filetype" => "PY", "location" => "lab/nat", "argv" => "[x]",
        "fields" => "{fileid: 7, file: other}",
    });
    assert_eq!(request.file, "nat.py");
    assert_eq!(request.extra["location"], "lab/nat");
    assert_eq!(request.extra["fileid"], 7);
    let text = said(&load(
        "arena.create",
        &[],
        halite_wire::map! {"file" => "a", "fields" => "b"},
    ));
    assert_eq!(text, "arena.create: fields must be a map");
}

#[test]
fn bad_arguments_are_said_in_one_sentence() {
    let channels = |yaml: &str| halite_wire::map! {"file" => "a", "channels" => yaml};
    for (named, part) in [
        (
            halite_wire::map! {"name" => "x"},
            "arena.create: file=... is missing",
        ),
        (halite_wire::map! {"file" => ""}, "file=... is missing"),
        (
            halite_wire::map! {"file" => "a", "argv" => "[x"},
            "argv is not valid YAML",
        ),
        (
            halite_wire::map! {"file" => "a", "argv" => "{a: b}"},
            "argv must be a list of strings",
        ),
        (
            halite_wire::map! {"file" => "a", "argv" => "[[a]]"},
            "argv must be a list of strings",
        ),
        (
            halite_wire::map! {"file" => "a", "args" => "3"},
            "args must be a map",
        ),
        (
            halite_wire::map! {"file" => "a", "policy" => "never"},
            "policy",
        ),
        (halite_wire::map! {"file" => "a", "uuid" => "a/b"}, "uuid"),
        (
            halite_wire::map! {"file" => "a", "fyle" => "b"},
            "unknown argument \"fyle\"",
        ),
        (channels("[{path: p, mode: rw, topic: 'a/#'}]"), "channels"),
        (channels("[{path: ../p, mode: r, topic: a}]"), "channels"),
        (channels("[{path: p, mode: x, topic: a}]"), "channels"),
        (channels("p"), "channels"),
        (
            halite_wire::map! {"file" => list(&["a"])},
            "file must be a string",
        ),
    ] {
        let text = said(&load("arena.create", &[], named));
        assert!(
            text.starts_with("arena.create: ") && text.contains(part),
            "{part}: {text}"
        );
    }
    let text = said(&load("arena.create", &["a", "b"], Map::new()));
    assert!(text.contains("unexpected argument \"b\""), "{text}");
    for fun in ["arena.delete", "arena.module", "arena.logs", "arena.send"] {
        let text = said(&load(fun, &[], Map::new()));
        assert_eq!(
            text,
            format!("{fun}: the uuid or name of a module is missing")
        );
    }
    let text = said(&load("arena.send", &["m"], Map::new()));
    assert_eq!(text, "arena.send: the data to send is missing");
    let text = said(&load("arena.logs", &["m", "many"], Map::new()));
    assert!(text.contains("lines must be a whole number"), "{text}");
    assert_eq!(
        said(&load("arena.frob", &[], Map::new())),
        "'arena.frob' is not available."
    );
    let several = halite_wire::map! {"fun" => vec!["test.ping".to_owned()]};
    assert!(said(&several).contains("a job for each"));
}

#[test]
fn the_other_functions_are_read() {
    let call = |fun: &str, words: &[&str]| Call::of(&load(fun, words, Map::new())).unwrap();
    assert_eq!(call("arena.delete", &["m1"]), Call::Delete("m1".to_owned()));
    assert_eq!(
        call("arena.logs", &["m1"]),
        Call::Logs("m1".to_owned(), LINES)
    );
    assert_eq!(
        call("arena.logs", &["m1", "5"]),
        Call::Logs("m1".to_owned(), 5)
    );
    let lines = load("arena.logs", &["m1"], halite_wire::map! {"lines" => 7});
    assert_eq!(Call::of(&lines), Ok(Call::Logs("m1".to_owned(), 7)));
    assert_eq!(
        call("arena.send", &["m", "hi"]),
        Call::Send("m".to_owned(), b"hi\n".to_vec())
    );
    let raw = load(
        "arena.send",
        &["m", "hi"],
        halite_wire::map! {"raw" => true},
    );
    assert_eq!(
        Call::of(&raw),
        Ok(Call::Send("m".to_owned(), b"hi".to_vec()))
    );
    let scheduled = load(
        "arena.create",
        &["a"],
        halite_wire::map! {"scheduled" => true},
    );
    assert!(matches!(
        Call::of(&scheduled),
        Ok(Call::Create {
            scheduled: true,
            ..
        })
    ));
    // Every listed function exists.
    for fun in FUNCTIONS {
        let text = Call::of(&load(fun, &["m", "x"], Map::new())).err();
        let text = text
            .map(|outcome| answer::text(&outcome.value))
            .unwrap_or_default();
        assert!(!text.contains("not available"), "{fun}");
    }
    assert!(FUNCTIONS.is_sorted());
}

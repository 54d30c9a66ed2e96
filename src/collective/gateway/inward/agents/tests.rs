use super::halite::Run;
use super::*;
use crate::wire::Serializer;
use halite_wire::Map;
use halite_wire::ids::Jid;
use halite_wire::yaml;
use std::sync::Arc;
use std::time::Duration;

const JID: &str = "20261121092637195592";

fn rpc(action: &str, data: &str) -> Datum {
    let data: Value = serde_json::from_str(data).unwrap();
    let data = match Datum::from(&data) {
        Datum::Hash(pairs) => {
            let pairs = pairs.into_iter();
            let symbol = |key: Datum| Datum::symbol(key.as_str().unwrap());
            Datum::Hash(pairs.map(|(k, v)| (symbol(k), v)).collect())
        }
        other => other,
    };
    Datum::Hash(vec![
        (Datum::symbol("action"), action.into()),
        (Datum::symbol("data"), data),
    ])
}

fn settings() -> Settings {
    Settings {
        collectives: vec!["mcollective".parse().unwrap(), "dev".parse().unwrap()],
        master: "master.example".into(),
        configfile: "/etc/halite/master".into(),
        connector: "rabbitmq",
        bus: crate::wire::subjects::Bus::Nats,
        security: "psk",
        ttl: 60,
        started: 1000,
    }
}

fn node() -> Node {
    let grains = yaml::parse(
        "{os: Debian, cpus: 4, up: true, none: null, ratio: 1.5, saltversion: '3007.1', ips: [10.0.0.1, 10.0.0.2], \
         a.b: dotted, disk: {sda: {size: 10}}}",
    );
    let grains = Arc::new(grains.unwrap().into_map().unwrap());
    Node::new(&"node1.example".parse().unwrap(), grains, &["web".into()]).unwrap()
}

fn ask_as(form: Form, action: &str, data: &str) -> (u8, String, Datum) {
    let (prepared, wanted) = prepare("rpcutil", &rpc(action, data)).unwrap();
    assert!(wanted);
    let settings = settings();
    let known = Known {
        node: &node(),
        tally: Tally {
            total: 9,
            passed: 4,
            ..Tally::default()
        },
        settings: &settings,
        form,
        now: Clock {
            at: std::time::Instant::now(),
            unix: 2000,
        },
    };
    parts(answer(&prepared, &known).unwrap())
}

fn ask(action: &str, data: &str) -> (u8, String, Datum) {
    ask_as(Form::Psk, action, data)
}

fn parts(body: Body) -> (u8, String, Datum) {
    let body = body.into_datum();
    let code = body.get("statuscode").and_then(Datum::as_int).unwrap();
    let text = body.get("statusmsg").and_then(Datum::as_str).unwrap();
    let data = body.get("data").unwrap().clone();
    (u8::try_from(code).unwrap(), text.to_owned(), data)
}

fn text<'a>(data: &'a Datum, key: &str) -> Option<&'a str> {
    data.get(key).and_then(Datum::as_str)
}

#[test]
fn discovery_says_pong() {
    let pong = |body: &Datum| match prepare("discovery", body).unwrap().0 {
        Prepared::Pong => true,
        Prepared::Unknown(_) => false,
        other => panic!("{other:?}"),
    };
    assert!(pong(&"ping".into()));
    assert!(!pong(&"pong".into()) && !pong(&Datum::Nil));
    let long = Datum::Str("x".repeat(9000));
    match prepare("discovery", &long).unwrap().0 {
        Prepared::Unknown(text) => assert_eq!(text.len(), SHOWN),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_action_of_rpcutil_gives_its_outputs() {
    for action in rpcutil::DDL.actions {
        let data = match action.name {
            "get_fact" => r#"{"fact": "os"}"#,
            "get_facts" => r#"{"facts": "os, cpus"}"#,
            "get_config_item" => r#"{"item": "identity"}"#,
            "get_data" => r#"{"source": "fact", "query": "os"}"#,
            _ => "{}",
        };
        let (code, message, found) = ask(action.name, data);
        assert_eq!((code, message.as_str()), (0, "OK"), "{}", action.name);
        for output in action.outputs {
            let value = found.get(output.name);
            assert!(
                value.is_some_and(|v| *v != Datum::Nil),
                "{} {}",
                action.name,
                output.name
            );
        }
    }
}

#[test]
fn inventory_is_the_node() {
    let (_, _, data) = ask("inventory", "{}");
    assert_eq!(text(&data, "main_collective"), Some("mcollective"));
    assert_eq!(data.get("classes").unwrap().items(), ["web".into()]);
    assert_eq!(data.get("agents").unwrap().items().len(), 3);
    let facts = data.get("facts").unwrap();
    let shown = |name: &str| facts.get(name).cloned();
    // Ruby's facts are text.
    assert_eq!(shown("cpus"), Some("4".into()));
    assert_eq!(shown("up"), Some("true".into()));
    assert_eq!(shown("none"), Some("".into()));
    assert_eq!(shown("ratio"), Some("1.5".into()));
    let (_, _, typed) = ask_as(Form::CHORIA, "inventory", "{}");
    let facts = typed.get("facts").unwrap();
    assert_eq!(facts.get("cpus"), Some(&Datum::Int(4)));
    assert_eq!(facts.get("up"), Some(&Datum::Bool(true)));
}

#[test]
fn facts_by_name_and_path() {
    let fact = |name: &str| {
        let (code, _, data) = ask("get_fact", &format!(r#"{{"fact": "{name}"}}"#));
        assert_eq!((code, text(&data, "fact")), (0, Some(name)));
        data.get("value").cloned().unwrap()
    };
    assert_eq!(fact("os"), "Debian".into());
    assert_eq!(fact("a.b"), "dotted".into());
    assert_eq!(fact("disk.sda.size"), "10".into());
    assert_eq!(fact("ips.1"), "10.0.0.2".into());
    for missing in ["nothing", "ips.7", "os.x", "disk.sdb.size"] {
        assert_eq!(fact(missing), Datum::Nil, "{missing}");
    }
    let (_, _, data) = ask("get_facts", r#"{"facts": " os , cpus,nothing"}"#);
    let values = data.get("values").unwrap();
    assert_eq!(text(values, "os"), Some("Debian"));
    assert_eq!(values.get("nothing"), Some(&Datum::Nil));
}

#[test]
fn statistics_are_counted_ones() {
    let (_, _, data) = ask("daemon_stats", "{}");
    let number = |name: &str| data.get(name).and_then(Datum::as_int);
    assert_eq!((number("total"), number("passed")), (Some(9), Some(4)));
    assert_eq!(number("starttime"), Some(1000));
    assert_eq!(number("pid"), Some(std::process::id().into()));
    assert!(data.get("times").unwrap().get("utime").is_some());
    let (_, _, data) = ask("ping", "{}");
    assert_eq!(data.get("pong").and_then(Datum::as_int), Some(2000));
}

#[test]
fn settings_are_a_closed_list() {
    let (code, _, data) = ask("get_config_item", r#"{"item": "collectives"}"#);
    assert_eq!((code, data.get("value").unwrap().items().len()), (0, 2));
    for item in ["plugin.psk", "pluginconf", "psk_file", "password", "bosh!"] {
        let (code, message, data) = ask("get_config_item", &format!(r#"{{"item": "{item}"}}"#));
        assert_eq!(code, 1);
        assert_eq!(message, format!("Unknown config property {item}"));
        assert_eq!(data.get("value"), Some(&Datum::Nil));
    }
}

#[test]
fn data_plugins() {
    let ask = |source: &str, query: &str| {
        let query = match query {
            "" => String::new(),
            query => format!(r#", "query": "{query}""#),
        };
        ask("get_data", &format!(r#"{{"source": "{source}"{query}}}"#))
    };
    let (_, _, data) = ask("agent", "rpcutil");
    assert_eq!(data.get("timeout"), Some(&Datum::Int(10)));
    let (_, _, data) = ask("collective_data", "dev");
    assert_eq!(data.get("member"), Some(&Datum::Bool(true)));
    let (_, _, data) = ask("fact", "disk.sda");
    assert_eq!(text(&data, "value"), Some(r#"{"size":10}"#));
    assert_eq!(text(&data, "value_encoding"), Some("application/json"));
    let (_, _, data) = ask("fact", "nope");
    assert_eq!(data.get("exists"), Some(&Datum::Bool(false)));
    assert_eq!(ask("agent", "nope").0, 5);
    assert_eq!(ask("fstat", "/etc/passwd").0, 5);
    assert_eq!(ask("fact", "").0, 4);
    assert_eq!(ask("agent", "a-b").0, 4);
}

#[test]
fn wrong_requests_have_the_codes_of_the_framework() {
    let long = "x".repeat(41);
    for (action, data, code, part) in [
        (
            "reboot",
            "{}",
            2,
            "Unknown action 'reboot' for agent 'rpcutil'",
        ),
        ("get_fact", "{}", 3, "Action get_fact needs a fact argument"),
        (
            "get_fact",
            r#"{"fact": "a b"}"#,
            4,
            "Cannot validate input fact: value should match",
        ),
        ("get_fact", r#"{"fact": "os\n"}"#, 4, "should match"),
        ("get_fact", r#"{"fact": 5}"#, 4, "value should be a string"),
        (
            "get_fact",
            &format!(r#"{{"fact": "{long}"}}"#),
            4,
            "longer than 40",
        ),
        ("get_facts", r#"{"facts": "a;b"}"#, 4, "should match"),
        ("get_data", r#"{"query": "x"}"#, 3, "needs a source"),
    ] {
        let (found, message, data) = ask(action, data);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
        let Datum::Hash(pairs) = data else { panic!() };
        let outputs = rpcutil::DDL.action(action).map_or(0, |a| a.outputs.len());
        assert_eq!(pairs.len(), outputs);
        assert!(pairs.iter().all(|(_, value)| *value == Datum::Nil));
    }
}

#[test]
fn bodies_that_are_none_get_no_answer() {
    for body in [
        Datum::Nil,
        "ping".into(),
        Datum::Hash(Vec::new()),
        Datum::Hash(vec![(Datum::symbol("action"), Datum::Int(1))]),
        Datum::Hash(vec![
            (Datum::symbol("action"), "ping".into()),
            (Datum::symbol("data"), "text".into()),
        ]),
    ] {
        assert!(prepare("rpcutil", &body).is_none(), "{body:?}");
    }
    assert!(prepare("puppet", &rpc("status", "{}")).is_none());
    // Fire and forget.
    let silent = prepare("rpcutil", &rpc("ping", r#"{"process_results": false}"#));
    assert!(!silent.unwrap().1);
    // Batches send no data at all, and keys of JSON are text.
    let bare = Datum::Hash(vec![("action".into(), "ping".into())]);
    assert!(prepare("rpcutil", &bare).unwrap().1);
}

fn run(data: &str) -> Result<Run, (u8, String)> {
    match prepare("halite", &rpc("run", data)).unwrap().0 {
        Prepared::Run(action, run) => {
            assert_eq!(action.name, "run");
            Ok(run)
        }
        Prepared::Invalid(_, wrong) => Err((wrong.0, wrong.1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn functions_with_their_arguments() {
    let plain = run(r#"{"function": "test.ping"}"#).unwrap();
    assert_eq!((plain.fun.as_str(), plain.arg.len()), ("test.ping", 0));
    assert_eq!(plain.patience, Duration::from_secs(50));
    let full = run(
        r#"{"function": "pkg.install", "args": "[\"vim\", 2]", "kwargs": "{\"refresh\": true}", "timeout": 300}"#,
    );
    let full = full.unwrap();
    assert_eq!(full.arg[..2], ["vim".into(), Value::Int(2)]);
    let named = full.arg[2].as_map().unwrap();
    assert_eq!(
        named,
        &halite_wire::map! {"refresh" => true, "__kwarg__" => true}
    );
    assert_eq!(full.patience, Duration::from_secs(300));
    for (data, code) in [
        ("{}", 3),
        (r#"{"function": "test"}"#, 4),
        (r#"{"function": "a.b.c"}"#, 4),
        (r#"{"function": "test.ping; reboot"}"#, 4),
        (r#"{"function": "test.ping\n"}"#, 4),
        (r#"{"function": "test.ping", "args": "vim"}"#, 4),
        (r#"{"function": "test.ping", "args": "[1"}"#, 4),
        (r#"{"function": "test.ping", "args": "[1] x"}"#, 4),
        (r#"{"function": "test.ping", "kwargs": "[1]"}"#, 4),
        (
            r#"{"function": "test.ping", "kwargs": "{\"__kwarg__\": 1}"}"#,
            4,
        ),
        (r#"{"function": "test.ping", "timeout": 0}"#, 4),
        (r#"{"function": "test.ping", "timeout": "5"}"#, 4),
        (r#"{"function": "test.ping", "timeout": 90000000000}"#, 4),
    ] {
        assert_eq!(run(data).unwrap_err().0, code, "{data}");
    }
}

#[test]
fn returns_become_answers() {
    let jid: Jid = JID.parse().unwrap();
    let action = halite::DDL.action("run").unwrap();
    let load = |ret: Value, code: i64, good: bool| -> Map {
        halite_wire::map! {"return" => ret, "retcode" => code, "success" => good}
    };
    let answer = |load: &Map| parts(halite::returned(action, &jid, load));
    let map = halite_wire::map! {"a" => 1, "b" => vec![Value::Nil, Value::Bool(true)]};
    let (code, _, data) = answer(&load(map.into(), 0, true));
    assert_eq!(
        (code, text(&data, "return")),
        (0, Some(r#"{"a":1,"b":[null,true]}"#))
    );
    assert_eq!(text(&data, "jid"), Some(JID));
    let (code, message, data) = answer(&load("no".into(), 3, true));
    assert_eq!((code, data.get("retcode")), (1, Some(&Datum::Int(3))));
    assert!(message.contains("retcode 3"), "{message}");
    assert_eq!(answer(&load("no".into(), 0, false)).0, 1);
    // Keys and bytes that JSON does not have.
    let odd = Map(vec![
        (Value::Int(1), Value::Bytes(vec![0xff])),
        (Value::Nil, Value::Float(f64::NAN)),
    ]);
    let (_, _, data) = answer(&load(odd.into(), 0, true));
    assert_eq!(
        text(&data, "return"),
        Some("{\"1\":\"\u{fffd}\",\"None\":null}")
    );

    let ping = halite::DDL.action("ping").unwrap();
    let (_, _, data) = parts(halite::returned(ping, &jid, &load(true.into(), 0, true)));
    assert_eq!(data.get("pong"), Some(&Datum::Bool(true)));
}

#[test]
fn info_tells_which_minion_it_is() {
    let settings = settings();
    let known = Known {
        node: &node(),
        tally: Tally::default(),
        settings: &settings,
        form: Form::Ssl(Serializer::Yaml),
        now: Clock::now(),
    };
    let (prepared, _) = prepare("halite", &rpc("info", "{}")).unwrap();
    let (code, _, data) = parts(answer(&prepared, &known).unwrap());
    assert_eq!((code, text(&data, "minion")), (0, Some("node1.example")));
    assert_eq!(text(&data, "saltversion"), Some("3007.1"));
    let (prepared, _) = prepare("halite", &rpc("ping", "{}")).unwrap();
    assert!(answer(&prepared, &known).is_none());
    assert!(matches!(prepared, Prepared::Run(_, run) if run.fun == "test.ping"));
}

/// The files that clients install, as the code has it; `HALITE_BLESS=1` writes them.
#[test]
fn the_files_for_clients_are_current() {
    let dir = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("packaging/collective");
    for (name, text) in interface() {
        let path = dir.join(name);
        if std::env::var_os("HALITE_BLESS").is_some() {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let held = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            held == text,
            "{} is not current: run with HALITE_BLESS=1",
            path.display()
        );
    }
}

//! The samples of docs/events.md run against a master.

use super::top;
use halite_ipc::{Event, Framing, Publisher, Subscriber};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::Process;
use testing::{Master, short_dir, wait_for, wait_until};

#[allow(dead_code)]
#[path = "../../../ipc/examples/failed_jobs.rs"]
mod failed_jobs;

/// Every form that data of events can have.
#[derive(Serialize)]
struct Forms {
    none: Option<bool>,
    yes: bool,
    numbers: (i64, i64, i64, i64, u64, u64, f64),
    text: String,
    long: String,
    list: Vec<u16>,
    #[serde(rename = "é")]
    accent: (),
}

fn forms() -> Forms {
    Forms {
        none: None,
        yes: true,
        numbers: (-1, -100, -1000, -5_000_000_000, 200, 1 << 40, 2.5),
        text: "grüße".into(),
        long: "x".repeat(70_000),
        list: (0..20).collect(),
        accent: (),
    }
}

/// What a return looks like, as far as samples look at it.
#[derive(Serialize)]
struct Return<'a> {
    id: &'a str,
    fun: &'a str,
    jid: &'a str,
    retcode: i64,
}

fn returned(id: &str, retcode: i64) -> Event {
    let jid = "20261122224455578844";
    let fun = "cmd.run";
    let data = Return {
        id,
        fun,
        jid,
        retcode,
    };
    Event::new(format!("salt/job/{jid}/ret/{id}"), &data).unwrap()
}

pub(super) fn sample(name: &str) -> PathBuf {
    top().join("docs/samples").join(name)
}

pub(super) fn publisher(master: &Master) -> Publisher {
    let pull = master.home.sockets().join("master_event_pull.ipc");
    Publisher::connect(pull, Framing::Prefixed).unwrap()
}

/// Starts a listener and fires the events until it has heard enough and ended: what it printed.
/// Nothing tells when it has connected, so the events come again and again.
pub(super) fn heard(
    name: &str,
    command: &mut Command,
    master: &Master,
    events: &[Event],
) -> String {
    let dir = short_dir();
    let mut process = Process::start(name, command, &dir.path().join("out"));
    let mut bus = publisher(master);
    let status = wait_for(&format!("{name} ends"), || {
        events.iter().for_each(|event| bus.fire(event).unwrap());
        process.status()
    });
    assert!(status.success(), "{name}: {status}\n{}", process.output());
    process.output()
}

/// Runs one of the listeners in Python; it is to hear two events of one tag.
pub(super) fn python_hears(python: &Path, name: &str, place: &Path, master: &Master) {
    let events = [
        Event::new("other/tag", &forms()).unwrap(),
        Event::new("my/forms", &forms()).unwrap(),
    ];
    let mut command = Command::new(python);
    command.arg(sample(name)).arg(place).args(["my/", "2"]);
    let said = heard(name, &mut command, master, &events);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{name}: {said}");
    let want = [
        "my/forms {",
        "'none': None, 'yes': True",
        "'numbers': [-1, -100, -1000, -5000000000, 200, 1099511627776, 2.5]",
        "'text': 'grüße'",
        "'list': [0, 1, 2,",
        "'é': None",
        "'_stamp': '20",
        &"x".repeat(70_000),
    ];
    for line in lines {
        for part in want {
            assert!(line.contains(part), "{name}: {part} is not in {line:.600}");
        }
    }
}

#[test]
fn python_without_anything_hears_and_fires() {
    let python = Path::new("python3");
    if Command::new(python).arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    for framing in ["bare", "prefixed"] {
        let master = Master::halite(&format!("event_bus_framing: {framing}"));
        python_hears(python, "events.py", &master.bus(), &master);

        let mut bus = Subscriber::connect(master.bus())
            .unwrap()
            .with_prefix("my/fired");
        let mut command = Command::new(python);
        command.arg(sample("fire.py"));
        command.arg(master.home.sockets().join("master_event_pull.ipc"));
        command.args(["my/fired", r#"{"a": [1, -2.5, null, true, "é"], "b": {}}"#]);
        assert!(command.status().unwrap().success());
        let event = bus.next(Some(testing::LONG)).unwrap().expect("an event");
        assert!(event.stamp_text().is_some_and(|t| t.starts_with("20")));
        let data: Value = event.decode().unwrap();
        assert_eq!(data["a"], json!([1, -2.5, null, true, "é"]));
        assert_eq!(data["b"], json!({}));
    }
}

#[test]
fn the_shell_tells_failed_jobs() {
    let master = Master::halite("");
    let mut command = Command::new("sh");
    let tools = testing::halite_program("halite-run");
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .arg(sample("failed_jobs.sh"))
        .arg("4")
        .env("HALITE_CONFIG_DIR", master.home.config_dir())
        .env(
            "PATH",
            format!("{}:{path}", tools.parent().unwrap().display()),
        );
    let events = [returned("web1", 0), returned("web2", 3)];
    let said = heard("failed_jobs.sh", &mut command, &master, &events);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    for line in lines {
        assert!(
            line.starts_with("FAILED salt/job/") && line.contains("/ret/web2 {"),
            "{said}"
        );
    }
}

#[test]
fn rust_tells_failed_jobs() {
    let master = Master::halite("");
    let mut listener = Subscriber::connect(master.bus())
        .unwrap()
        .with_prefix("salt/job/");
    let mut bus = publisher(&master);
    for event in [
        returned("web1", 0),
        returned("web2", 3),
        Event::new("salt/job/1/new", &forms()).unwrap(),
    ] {
        bus.fire(&event).unwrap();
    }
    let mut told = Vec::new();
    wait_until("three events", || {
        let event = listener
            .next(Some(testing::LONG))
            .unwrap()
            .expect("an event");
        told.push(failed_jobs::failure(&event));
        told.len() == 3
    });
    let line = "web2: cmd.run of job 20261122224455578844 ended with 3";
    assert_eq!(told, [None, Some(line.to_owned()), None]);
}

//! A thousand simulated minions against a real master: every one signs in, every one answers,
//! and bus and job cache agree. Every mode of `halite-swarm` against halite, some against stock;
//! a wrong answer is a failed run.

use halite::client::local::{Job, LocalClient};
use halite::config::load_master;
use testing::{Stock, halite_program};

use halite::client::gather::{Gather, GatherTimeouts, MinionOutcome};
use halite::wire::Value;
use halite::wire::msgpack;
use halite_ipc::{Event, Subscriber};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master};

const MINIONS: usize = 1000;

/// Reads all events in a thread of its own, as fast as they come.
fn listen(master: &Master) -> Receiver<Event> {
    let path = master.config().sock_dir.join("master_event_pub.ipc");
    let mut bus = Subscriber::connect(path).unwrap();
    let (send, receive) = channel();
    std::thread::spawn(move || {
        while let Ok(Some(event)) = bus.next(None) {
            assert_ne!(
                event.tag, "halite/bus/dropped",
                "the test listens too slowly"
            );
            if send.send(event).is_err() {
                return;
            }
        }
    });
    receive
}

/// Collects the ids that `pick` finds in events until there are as many as minions.
fn collect(events: &Receiver<Event>, pick: impl Fn(&Event) -> Option<String>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let end = Instant::now() + LIMIT;
    while ids.len() < MINIONS {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(event) = events.recv_timeout(left) else {
            break;
        };
        if let Some(id) = pick(&event) {
            assert!(ids.insert(id.clone()), "{} comes twice for {id}", event.tag);
        }
    }
    ids
}

#[test]
fn a_thousand_minions_sign_in_and_answer() {
    let master = Master::start("");
    let events = listen(&master);
    let swarm = master.swarm(MINIONS);
    let all: BTreeSet<String> = (0..MINIONS).map(|n| format!("sw-{n}")).collect();

    let accepted = collect(&events, |event| {
        if event.tag != "salt/auth" {
            return None;
        }
        let data = msgpack::decode(&event.payload).unwrap().into_map().unwrap();
        assert_eq!(
            (data.str("act"), data.get("result")),
            (Some("accept"), Some(&Value::Bool(true)))
        );
        Some(data.str("id").unwrap().to_owned())
    });
    assert_eq!(accepted, all, "sign-ins on the bus");

    let mut jids = Vec::new();
    for _ in 0..3 {
        let published = master.publish_ping("*");
        assert_eq!(published.minions.len(), MINIONS);
        let prefix = format!("salt/job/{}/ret/", published.jid);
        let returned = collect(&events, |event| {
            let id = event.tag.strip_prefix(&prefix)?.to_owned();
            let load = msgpack::decode(&event.payload).unwrap().into_map().unwrap();
            assert_eq!(load.get("return"), Some(&Value::Bool(true)));
            assert_eq!(load.str("id"), Some(id.as_str()));
            Some(id)
        });
        assert_eq!(returned, all, "returns on the bus");
        jids.push(published.jid);
    }
    let answers = 3 * MINIONS as u64;
    assert!(swarm.wait(LIMIT, |s| s.answered() >= answers));
    let jobs = halite::store::Stores::open(&master.config()).jobs;
    for jid in &jids {
        let job = jobs.get(&jid.parse().unwrap()).unwrap().unwrap();
        let kept: BTreeSet<String> = job.returns.iter().map(|r| r.id.clone()).collect();
        assert_eq!(
            (kept, job.returns.len()),
            (all.clone(), MINIONS),
            "job cache of {jid}"
        );
    }
    let stats = swarm.finish().unwrap();
    assert_eq!(stats.errors, Default::default());
}

#[test]
fn the_client_accounts_for_every_minion() {
    let master = Master::start("");
    let swarm = master.swarm(MINIONS);
    let config = master.config();
    let mut client = master.client();
    let mut events = client.listen().unwrap();
    let published = master.publish_ping("*");
    let jobs = halite::store::Stores::open(&config).jobs;
    let patience = GatherTimeouts {
        timeout: LIMIT,
        find_job: Duration::from_secs(10),
        together: true,
    };
    let mut returned = BTreeSet::new();
    let mut gather = Gather::new(&mut client, &mut events, Some(&*jobs), patience);
    gather.add_job(&published);
    gather
        .run(&|| false, &mut |id, outcome| {
            assert!(
                matches!(outcome, MinionOutcome::Returned(_)),
                "{id}: {outcome:?}"
            );
            assert!(returned.insert(id.to_owned()), "{id} twice");
        })
        .unwrap();
    assert_eq!(returned.len(), MINIONS);
    assert_eq!(swarm.finish().unwrap().errors, Default::default());
}

/// A master with a file and a pillar, and the swarm's program to load it.
struct Rig {
    master: testing::Master,
    dir: tempfile::TempDir,
}

/// Minions of a run of the program.
const FEW: u64 = 12;
/// Bytes of the file: two pieces.
const FILE: usize = 1_050_000;

impl Rig {
    fn start(start: impl FnOnce(&str) -> testing::Master) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let write = |name: &str, data: &[u8]| std::fs::write(at.join(name), data).unwrap();
        for name in ["files", "pillar"] {
            std::fs::create_dir(at.join(name)).unwrap();
        }
        let data: Vec<u8> = (0..FILE).map(|n| ((n * n) >> 7) as u8).collect();
        write("files/data", &data);
        write("pillar/top.sls", b"base:\n  '*':\n    - p\n");
        write(
            "pillar/p.sls",
            b"os: {{ grains['os'] }}\nid: {{ opts['id'][:2] }}\n",
        );
        write("right.json", br#"{"id": "sw", "os": "Swarm"}"#);
        write("wrong.json", br#"{"id": "sw", "os": "Swann"}"#);
        let master = start(&format!(
            "auto_accept: true\nfile_roots:\n  base: [{files}]\npillar_roots:\n  base: [{pillar}]",
            files = at.join("files").display(),
            pillar = at.join("pillar").display()
        ));
        Rig { master, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Starts the program in a mode.
    fn spawn(&self, mode: &str, more: &[&str]) -> Child {
        let port = self.master.ret_port.to_string();
        let (keys, minions) = (self.path("keys"), FEW.to_string());
        // Serving ends when the time is up.
        let seconds = if mode == "serve" { "1" } else { "120" };
        Command::new(halite_program("halite-swarm"))
            .args(["--json", "--ret-port", &port, "--minions", &minions])
            .args(["--keys", &keys, "--key-pool", "1", "--timeout", "60"])
            .args(["--seconds", seconds, "--mode", mode])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs it to its end.
    fn run(&self, mode: &str, more: &[&str]) -> Ran {
        Ran::of(self.spawn(mode, more))
    }

    /// Runs jobs that are answered, acknowledged and heard on the bus.
    fn jobs(&self, more: &[&str]) -> Ran {
        let cache = self.master.home.cache().display().to_string();
        let sockets = self.master.home.sockets().display().to_string();
        let own = ["--cachedir", &cache, "--sock-dir", &sockets];
        self.run("jobs", &[&own, more].concat())
    }

    /// Ends the master below its minions and starts it again.
    fn restart(&mut self) -> Ran {
        let mut child = self.spawn("restart", &[]);
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "restart the master now\n");
        self.master.stop();
        self.master.start_again();
        Ran::of(child)
    }
}

/// What the program said at its end.
#[derive(Debug)]
struct Ran {
    good: bool,
    said: serde_json::Value,
    wrong: String,
}

impl Ran {
    fn of(child: Child) -> Ran {
        let out = child.wait_with_output().unwrap();
        Ran {
            good: out.status.success(),
            said: serde_json::from_slice(&out.stdout).unwrap_or_default(),
            wrong: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// All was right, and so many of each were counted.
    fn right(self, counts: &[(&str, u64)]) {
        assert!(self.good && self.said["error_count"] == 0, "{self:?}");
        for (name, count) in counts {
            let parts = self.said["parts"].as_array().unwrap();
            let part = parts.iter().find(|p| p["operation"] == *name);
            let found = part.map(|p| (p["count"].as_u64(), p["complete"].as_bool()));
            assert_eq!(found, Some((Some(*count), Some(true))), "{name}: {self:?}");
        }
    }

    /// It failed, so often for this reason.
    fn wrong(self, why: &str, times: u64) {
        assert!(!self.good, "{self:?}");
        assert_eq!(self.said["error_count"], times, "{self:?}");
        assert_eq!(self.said["errors"][why], times, "{self:?}");
    }
}

#[test]
fn every_mode_of_the_program_runs_against_halite() {
    let mut rig = Rig::start(testing::Master::halite);
    let sockets = rig.master.home.sockets().display().to_string();
    rig.run("signin", &["--rounds", "1"])
        .right(&[("sign-in", FEW), ("sign-in again", FEW)]);
    rig.run("serve", &[])
        .right(&[("sign-in", FEW), ("job answer", 0)]);
    rig.jobs(&["--jobs", "2", "--fun", "test.arg", "--arg", "x"])
        .right(&[
            ("job", 2),
            ("job answer", 2 * FEW),
            ("return heard", 2 * FEW),
        ]);
    rig.jobs(&["--target", "sw-1*"])
        .right(&[("job answer", 3), ("return heard", 3)]);
    for more in [&[][..], &["--req"]] {
        rig.run("returns", &[&["--count", "30"], more].concat())
            .right(&[("return", 30)]);
    }
    rig.run(
        "events",
        &["--count", "40", "--listeners", "2", "--sock-dir", &sockets],
    )
    .right(&[("event", 40), ("event heard", 80)]);
    let file = ["--file", "salt://data", "--count"];
    rig.run("files", &[&file[..], &["2"]].concat())
        .right(&[("file", 2), ("file request", 8)]);
    rig.run("files", &[&file[..], &["3", "--chunk"]].concat())
        .right(&[("file request", 3)]);
    let right = rig.path("right.json");
    rig.run("pillar", &["--count", "15", "--expect", &right])
        .right(&[("pillar", 15)]);
    rig.restart().right(&[("back", FEW), ("away", FEW)]);
}

#[test]
fn somebody_else_publishes_and_the_program_ends_when_all_have_answered() {
    let rig = Rig::start(testing::Master::halite);
    let mut events = Subscriber::connect(rig.master.bus()).unwrap();
    let child = rig.spawn("ping", &[]);
    let config = load_master(&rig.master.home.config_dir()).unwrap();
    // Until the last one has signed in.
    let mut accepted = 0;
    while accepted < FEW {
        let event = events.next(Some(LIMIT)).unwrap().unwrap();
        accepted += u64::from(event.tag == "salt/auth");
    }
    let job = Job {
        fun: "test.ping".into(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    // A minion may have its session and not its subscription yet: then it hears the next one.
    let mut child = child;
    testing::wait_until("all have answered", || {
        LocalClient::new(config.clone()).publish(&job).unwrap();
        child.try_wait().unwrap().is_some()
    });
    let ran = Ran::of(child);
    assert!(ran.good && ran.said["error_count"] == 0, "{ran:?}");
}

#[test]
fn a_wrong_answer_fails_the_run() {
    let rig = Rig::start(testing::Master::halite);
    let wrong = rig.path("wrong.json");
    rig.run("pillar", &["--count", "4", "--expect", &wrong])
        .wrong("the pillar holds something else than expected under os", 4);
    let missing = ["--file", "salt://missing", "--count", "2"];
    rig.run("files", &missing)
        .wrong("the master does not have the file", 2);
    rig.run("files", &[&missing[..], &["--chunk"]].concat())
        .wrong("the master does not have the file", 1);
    let nobody = rig.jobs(&["--target", "nobody"]);
    assert!(!nobody.good, "{nobody:?}");
    assert!(nobody.wrong.contains("matches no minion"), "{nobody:?}");
}

#[test]
fn a_stock_master_is_held_to_the_same() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let mut rig = Rig::start(|extra| testing::Master::stock(&stock, extra));
    rig.jobs(&[])
        .right(&[("job", 1), ("job answer", FEW), ("return heard", FEW)]);
    let right = rig.path("right.json");
    rig.run("pillar", &["--count", "2", "--expect", &right])
        .right(&[("pillar", 2)]);
    rig.restart().right(&[("back", FEW), ("away", FEW)]);
}

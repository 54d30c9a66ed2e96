//! Batches of stock clients of 3008: what the master does for `salt -b`, and `batch.*`.

use halite::config::MasterConfig;
use halite::map;
use halite::store::local;
use halite::wire::ids::{Jid, JidClock};
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use halite_ipc::{Event, Framing, Publisher, Subscriber};
use std::time::{Duration, Instant};
use testing::{LONG, Master, Minion};

struct Bed {
    master: Master,
    config: MasterConfig,
    bus: Subscriber,
}

impl Bed {
    fn new() -> Bed {
        let master = Master::halite("auto_accept: true\nsalt_series: '3008'\n");
        let config = halite::config::load_master(&master.home.config_dir()).unwrap();
        let bus = Subscriber::connect(master.bus()).unwrap();
        Bed {
            master,
            config,
            bus,
        }
    }

    fn fire(&self, jid: &Jid, what: &str, data: Map) {
        let path = self.config.event_pull();
        let mut bus = Publisher::connect(path, Framing::Prefixed).unwrap();
        let payload = msgpack::encode_map(&data, Profile::Local);
        let tag = format!("salt/batch/{jid}/{what}");
        bus.fire(&Event { tag, payload }).unwrap();
    }

    /// The next event with this tag.
    fn event(&mut self, tag: &str) -> Map {
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            if let Ok(Some(event)) = self.bus.next(Some(Duration::from_millis(200)))
                && event.tag == tag
            {
                return msgpack::decode(&event.payload).unwrap().into_map().unwrap();
            }
        }
        panic!("no event {tag}\n{}", self.master.tail());
    }
}

fn record(jid: &Jid, driver: &str, ids: &[&str]) -> Map {
    let ids: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
    map! {
        "jid" => jid.as_str(), "all_minions" => ids.clone(), "pending" => ids,
        "active" => Map::new(), "done" => Map::new(), "failed" => Map::new(), "wait" => Vec::<Value>::new(),
        "batch_size" => 1, "fun" => "test.arg", "arg" => vec![Value::from("x")], "kwargs" => map! {"k" => 1},
        "tgt" => "*", "tgt_type" => "glob", "failhard" => false, "batch_wait" => 0, "timeout" => 60,
        "gather_job_timeout" => 10, "last_progress" => 0.0, "created" => 0.0, "halted" => false,
        "halted_reason" => Value::Nil, "driver" => driver, "ret" => "", "user" => "root",
    }
}

#[test]
fn a_batch_begun_with_async_is_continued() {
    let mut bed = Bed::new();
    let minions = minions(&bed);
    let jid = JidClock::default().next();
    let records = local::stock_jobs(&bed.config);
    records
        .save_batch(&jid, &record(&jid, "master", &["a", "b"]))
        .unwrap();
    bed.fire(&jid, "new", map! {"jid" => jid.as_str()});
    // Whoever may fire events says nothing about what is run, and in whose name.
    let mut forged = record(&jid, "cli", &["b"]);
    forged.set("arg", vec![Value::from("forged")]);
    for what in ["new", "progress", "halted"] {
        bed.fire(&jid, what, map! {"state" => forged.clone()});
    }
    for id in ["a", "b"] {
        let ret = bed.event(&format!("salt/job/{jid}/ret/{id}"));
        let value = ret.get("return").and_then(Value::as_map).unwrap();
        let args = value.get("args").map(Value::str_list).unwrap_or_default();
        assert_eq!(args, ["x"]);
        let kwargs = value.get("kwargs").and_then(Value::as_map).unwrap();
        assert_eq!(kwargs.get("k"), Some(&Value::Int(1)));
    }
    let data = bed.event(&format!("salt/batch/{jid}/complete"));
    assert_eq!(data.int("completed"), Some(2));
    let over = records.batch(&jid).unwrap();
    assert_eq!(over.get("done").and_then(Value::as_map).unwrap().len(), 2);
    testing::wait_until("an empty index", || {
        local::active_batches(&bed.config).read().is_empty()
    });
    drop(minions);
}

#[test]
fn a_batch_of_a_client_is_recorded_and_stopped() {
    let mut bed = Bed::new();
    let jid = JidClock::default().next();
    let state = record(&jid, "cli", &["a", "b"]);
    // The word of a client alone publishes nothing, and counts for its own batch only.
    let forged = record(&jid, "master", &["a"]);
    let other = JidClock::default().next();
    testing::wait_until("the batch in the list", || {
        // Again and again: the manager may not listen yet.
        bed.fire(&jid, "new", map! {"state" => forged.clone()});
        bed.fire(&other, "new", map! {"state" => state.clone()});
        bed.fire(&jid, "new", map! {"state" => state.clone()});
        let ran = bed
            .master
            .halite_cli()
            .runner(&["--out=json", "batch.list_active"]);
        let list = ran.json().unwrap();
        list[0]["pending"] == 2 && list[0]["jid"] == jid.as_str() && list[1].is_null()
    });
    let ran = bed
        .master
        .halite_cli()
        .runner(&["--out=json", "batch.stop", jid.as_str()]);
    assert_eq!(ran.json().unwrap(), true, "{}", ran.describe());
    let data = bed.event(&format!("salt/batch/{jid}/halted"));
    assert_eq!(data.str("reason"), Some("stop"));
    let ran = bed
        .master
        .halite_cli()
        .runner(&["--out=json", "batch.status", jid.as_str()]);
    assert_eq!(ran.json().unwrap()["halted"], true, "{}", ran.describe());
    let ran = bed
        .master
        .halite_cli()
        .runner(&["--out=json", "batch.stop", jid.as_str()]);
    assert_eq!(ran.json().unwrap(), false, "{}", ran.describe());
}

/// Two minions that answer.
fn minions(bed: &Bed) -> [Minion; 2] {
    let minions = ["a", "b"].map(|id| Minion::halite(&bed.master, id, ""));
    let cli = bed.master.halite_cli();
    testing::wait_until("both minions", || {
        let answers = cli.ask(&["-L", "a,b", "test.ping"]);
        let is_up = |answers: &serde_json::Map<String, serde_json::Value>, id: &str| {
            answers.get(id) == Some(&true.into())
        };
        answers.is_ok_and(|answers| ["a", "b"].iter().all(|id| is_up(&answers, id)))
    });
    minions
}

/// What `halite` tells of its own batch, and that it heeds `batch.stop`.
#[test]
fn a_batch_of_halite_is_listed_and_stopped() {
    let mut bed = Bed::new();
    let minions = minions(&bed);
    let cli = bed.master.halite_cli();
    let mut command = cli.command("salt");
    command.args(["-b", "1", "*", "test.sleep", "600"]);
    command.stdout(std::process::Stdio::piped());
    let client = command.spawn().unwrap();
    let mut jid = String::new();
    testing::wait_until("the batch in the list", || {
        let list = cli.runner(&["--out=json", "batch.list_active"]).json();
        let one = list.map(|list| list[0].clone()).unwrap_or_default();
        let parts = ["active", "pending"].map(|part| one[part].as_u64());
        jid = one["jid"].as_str().unwrap_or_default().to_owned();
        one["driver"] == "cli" && parts == [Some(1); 2]
    });
    let stopped = cli.runner(&["--out=json", "batch.stop", &jid, "kill=True"]);
    assert_eq!(stopped.json().unwrap(), true, "{}", stopped.describe());
    // The first minion's job is ended; the second never gets it.
    let out = client.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.contains("['a']") && !out.contains("['b']"), "{out}");
    let halted = bed.event(&format!("salt/batch/{jid}/halted"));
    assert_eq!(halted.str("fun"), Some("test.sleep"));
    let known = cli.runner(&["--out=json", "jobs.list_job", &jid]);
    assert_eq!(known.json().unwrap()["Minions"], serde_json::json!(["a"]));
    testing::wait_until("an empty list", || {
        local::active_batches(&bed.config).read().is_empty()
    });
    drop(minions);
}

#[test]
fn a_batch_is_handed_over_to_the_master() {
    let bed = Bed::new();
    let minions = minions(&bed);
    let cli = bed.master.halite_cli();
    // What else is published goes with it: this executor exists nowhere.
    let wrong = [
        "--async",
        "-b",
        "1",
        "--module-executors=[nowhere]",
        "a",
        "test.ping",
    ];
    let ran = cli.salt(&wrong);
    let jid = ran.out.trim().rsplit(' ').next().unwrap_or_default();
    testing::wait_until("a failure", || {
        let found = cli.runner(&["--out=json", "jobs.lookup_jid", jid]).json();
        found.is_ok_and(|all| {
            all["a"]
                .as_str()
                .is_some_and(|text| text.contains("nowhere"))
        })
    });
    let args = ["--async", "-b", "1", "*", "test.arg", "x", "k=1"];
    let ran = cli.salt(&args);
    let jid = ran
        .out
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    assert!(
        ran.out.contains("Executed batch command with job ID: "),
        "{}",
        ran.describe()
    );
    testing::wait_until("both returns", || {
        let found = cli.runner(&["--out=json", "jobs.lookup_jid", &jid]).json();
        let is_right = |one: &serde_json::Value| one["args"][0] == "x" && one["kwargs"]["k"] == 1;
        found.is_ok_and(|all| is_right(&all["a"]) && is_right(&all["b"]))
    });
    testing::wait_until("the end of the batch", || {
        let status = cli.runner(&["--out=json", "batch.status", &jid]).json();
        status.is_ok_and(|status| status["completed"] == 2 && status["active"] == 0)
    });
    // Nobody but the master's account can hand over.
    let ran = cli.salt(&[
        "--async",
        "-b",
        "1",
        "-a",
        "pam",
        "--username=x",
        "--password=y",
        "*",
        "test.ping",
    ]);
    assert_eq!(ran.status, Some(64), "{}", ran.describe());
    drop(minions);
}

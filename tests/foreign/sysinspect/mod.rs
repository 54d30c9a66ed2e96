//! Minions of sysinspect's protocol at the gateway of a real master: every captured transcript said
//! again, halite's own minion at the other side, and two thousand minions at once.

mod scripted;

use halite::client::local::{Job, LocalClient};
use halite::crypto::{PrivateKey, PublicKey};
use halite::sys::procs;
use scripted::replay::{Stage, transcripts, whole};
use scripted::swarm::{Swarm, id};
use scripted::{Heard, Wire};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testing::process::Process;
use testing::{Master, halite_program, wait_for, wait_until};

const ID: &str = "30006546535e428aba0a0caa6712e225";
const OTHER: &str = "aaaa6546535e428aba0a0caa6712e2ff";
/// No heartbeat comes between what is said and its answer.
const QUIET: &str = "ping_interval: 600, session_timeout: 1200, hello_timeout: 600, auto_accept: true, \
                     registrations_per_minute: 100000";

/// The master's public key.
fn master_key(master: &Master) -> PublicKey {
    let path = master.home.pki().join("master.pub");
    PublicKey::from_pem(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Plays the transcripts of one era, in their order, at a master of their own.
fn play(names: &[&str], registered_before: &[&str]) {
    let (master, port) = scripted::master(QUIET);
    let pem = master_key(&master).to_pkcs1_pem();
    let all = transcripts();
    let mut stage = Stage::new(port, &pem);
    for id in registered_before {
        // As the first registration of the captures, under this id.
        let add = transcripts()[1]["frames"][1]["body"]
            .as_str()
            .unwrap()
            .replace(ID, id);
        stage.say(1000, &add, "registration");
        stage.close(1000, "registration");
    }
    for name in names {
        let transcript = all.iter().find(|t| t["name"] == *name).unwrap();
        stage.play(transcript);
    }
    eprintln!(
        "{names:?}: {} frames said, {} answers checked",
        stage.said, stage.checked
    );
    assert!(stage.said > 0 && stage.checked > 0);
}

#[test]
fn transcripts_of_e1() {
    play(&["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T9"], &[]);
}

#[test]
fn transcripts_of_e2() {
    play(&["T11", "T12", "T13", "T14"], &[OTHER]);
}

#[test]
fn transcripts_of_e3() {
    play(&["T15", "T16", "T17", "T18"], &[]);
}

/// Scripts of single connections: odd frames, and the run of recommended replies.
#[test]
fn transcripts_of_scripts() {
    for name in ["T8", "T10", "T19-E2", "T19-E3"] {
        let (master, port) = scripted::master(QUIET);
        let pem = master_key(&master).to_pkcs1_pem();
        let mut stage = Stage::new(port, &pem);
        let all = transcripts();
        let transcript = all.iter().find(|t| t["name"] == name).unwrap();
        let mut number = 0;
        let mut step = String::new();
        for frame in transcript["frames"].as_array().unwrap() {
            if let Some(text) = frame["step"].as_str().filter(|s| !s.starts_with("minion ")) {
                stage.close(number, &step);
                number += 1;
                step = format!("{name}, {text}");
            }
            if frame["from"] == "minion" {
                stage.say(number, &whole(frame["body"].as_str().unwrap(), &pem), &step);
            }
        }
        stage.close(number, &step);
        eprintln!(
            "{name}: {} frames said, {} answers checked",
            stage.said, stage.checked
        );
    }
}

/// A connection that speaks the secure transport gets its refusal.
#[test]
fn the_secure_transport_is_refused() {
    let (_master, port) = scripted::master(QUIET);
    let mut wire = Wire::connect(port);
    wire.say(r#"{"kind":"bootstrap_hello","binding":{"minion_id":"a"},"supported_versions":[1]}"#);
    let Heard::Frame(said) = wire.hear() else {
        panic!("no answer");
    };
    assert_eq!(said["kind"], "bootstrap_diagnostic");
    assert_eq!(said["code"], "unsupported_version");
    assert_eq!(wire.hear(), Heard::Closed);
}

/// Before somebody has a session, frames are small, so that strangers cannot fill the memory.
#[test]
fn long_frames_are_for_members() {
    let (_master, port) = scripted::master(QUIET);
    let long = "x".repeat(200 << 10);
    let say = |wire: &mut Wire, kind: &str, data: &str| {
        wire.say(&format!(
            r#"{{"id":"{ID}","sid":"s","r":"{kind}","d":"{data}","c":0}}"#
        ));
    };
    let mut stranger = Wire::connect(port);
    say(&mut stranger, "ehlo", &long);
    assert_eq!(stranger.hear(), Heard::Closed);
    let mut minion = Wire::connect(port);
    say(
        &mut minion,
        "add",
        &PrivateKey::generate(1048)
            .unwrap()
            .public()
            .to_pkcs1_pem()
            .replace("\r\n", "\\n"),
    );
    assert!(matches!(minion.hear(), Heard::Frame(_)));
    let mut minion = Wire::connect(port);
    say(&mut minion, "ehlo", "");
    assert!(matches!(minion.hear(), Heard::Frame(_)));
    say(&mut minion, "evt", &long);
    say(&mut minion, "ssr", "");
    let Heard::Frame(heard) = minion.hear() else {
        panic!("the connection has ended");
    };
    assert_eq!(heard["r"], "ssp");
}

/// halite's own minion.
struct Own {
    process: Process,
    config: PathBuf,
}

impl Own {
    fn start(master: &Master, port: u16, id: &str, args: &[&str]) -> Own {
        let root = master.place(id);
        let config = root.join("etc");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(
            config.join("minion"),
            format!(
                "root_dir: {}\nmaster: 127.0.0.1\nsysinspect_port: {port}\nsysinspect_id: {id}\nrecon_default: 100\n\
                 recon_max: 400\nkeysize: 2048\nlog_level: info\nuser: {}\n",
                root.display(),
                user()
            ),
        )
        .unwrap();
        let mut command = Command::new(halite_program("halite-sysinspect-minion"));
        command
            .arg("-c")
            .arg(&config)
            .args(["-l", "info"])
            .args(args);
        let process = Process::start(id, &mut command, &root.join("log"));
        Own { process, config }
    }

    /// Waits for its end; gives the exit status.
    fn end(&mut self) -> Option<i32> {
        let status = wait_for("the minion ends", || self.process.status());
        status.code()
    }
}

fn user() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid());
    user.ok().flatten().map_or("root".into(), |u| u.name)
}

/// The whole life of a minion, halite on both sides.
fn life(dialect: &str, id: &str) {
    let (master, port) = scripted::master("ping_interval: 1, registrations_per_minute: 1000");
    let cli = master.halite_cli();
    let fingerprint = master_key(&master).pkcs1_fingerprint();
    let with = |more: &[&'static str]| -> Vec<String> {
        let words = ["--dialect", dialect]
            .into_iter()
            .chain(more.iter().copied());
        words.map(str::to_owned).collect()
    };
    let start = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Own::start(&master, port, id, &words)
    };

    // Nobody has said which master to trust: it tells the fingerprint and ends.
    let mut stranger = start(&with(&[]));
    assert_eq!(stranger.end(), Some(1));
    let said = stranger.process.output();
    assert!(
        said.contains(&format!("--register {fingerprint}")),
        "{said}"
    );
    // Another master than the expected one.
    let wrong = "00".repeat(32);
    let mut words = with(&["--register"]);
    words.push(wrong);
    let mut deceived = start(&words);
    assert_eq!(deceived.end(), Some(42));
    let listed = cli.key(&["-L", "--out=json"]).json().unwrap();
    assert_eq!(
        (&listed["minions_pre"], &listed["minions"]),
        (&json!([]), &json!([]))
    );

    let mut words = with(&["--register"]);
    words.push(fingerprint.to_uppercase());
    let mut minion = start(&words);
    wait_until("its key waits", || {
        let listed = cli.key(&["-l", "un", "--out=json"]).json();
        listed.is_ok_and(|l| l["minions_pre"] == json!([id]))
    });
    cli.key(&["-y", "-a", id]).ok().unwrap();
    wait_until("it answers", || {
        minion.process.must_live();
        cli.ask(&["*", "test.ping", "-t", "2"])
            .is_ok_and(|r| r.get(id) == Some(&json!(true)))
    });

    let asked = |args: &[&str]| cli.salt(args).returns().unwrap();
    let grains = asked(&[id, "grains.items", "--out=json"]);
    assert_eq!(grains[id]["system.id"], id);
    assert!(grains[id]["hardware.memory"].as_u64().unwrap() > 0);
    let call = |words: &[&str]| {
        let words: Vec<&str> = [id, "sysinspect.call"]
            .into_iter()
            .chain(words.iter().copied())
            .chain(["--out=json"])
            .collect();
        let returned = cli.salt(&words).returns().unwrap();
        // A result of the later dialect stands in the one action.
        let value = returned[id].clone();
        match value["actions"][0]["response"]["data"].clone() {
            serde_json::Value::Null => value,
            data => data,
        }
    };
    assert_eq!(call(&["test.echo hello"]), "hello");
    assert_eq!(call(&["grains.get kernel"]), "Linux");
    let refused = call(&["cmd.run id"]).to_string();
    assert!(refused.contains("sysinspect_functions"), "{refused}");

    // Traits are pushed, become grains, and outlive a restart.
    asked(&[id, "sysinspect.traits", "role=web", "--out=json"]);
    wait_until("the pushed trait is a grain", || {
        cli.ask(&["-G", "role:web", "test.ping"])
            .is_ok_and(|r| r.get(id) == Some(&json!(true)))
    });
    minion.process.stop();
    let mut minion = start(&with(&[]));
    wait_until("it is back", || {
        cli.ask(&["-G", "role:web", "test.ping", "-t", "2"])
            .is_ok_and(|r| r.get(id) == Some(&json!(true)))
    });
    // A second one of the machine ends, the first one stays.
    let mut second = start(&with(&[]));
    assert_eq!(second.end(), Some(1));
    assert_eq!(cli.ask(&[id, "test.ping"]).unwrap()[id], true);

    asked(&[id, "sysinspect.unregister", "--out=json"]);
    assert_eq!(minion.end(), Some(0));
    let kept = minion
        .config
        .parent()
        .unwrap()
        .join("etc/halite/pki/minion/sysinspect/master.pub");
    assert!(!kept.exists(), "the registration is forgotten");
}

#[test]
fn both_sides_in_the_dialect_of_the_description() {
    life("seed", ID);
}

#[test]
fn both_sides_in_the_later_dialect() {
    life("e3", OTHER);
}

const MINIONS: usize = 2000;
const JOBS: u32 = 5;
/// Far longer than they take, also on a busy machine.
const TOGETHER: Duration = testing::LONG;

#[test]
fn two_thousand_minions() {
    let settings = "ping_interval: 30, session_timeout: 120, auto_accept: true, max_strangers: 5000, \
                    registrations_per_minute: 1000000";
    halite::sys::process::raise_open_files(3 * MINIONS as u64).unwrap();
    let (master, port) = scripted::master(settings);
    let gateway = wait_for("the gateway's process", || {
        let family = procs::family(master.id() as u32).ok()?;
        family
            .into_iter()
            .find(|p| p.title.to_lowercase().contains("sysinspect"))
    });
    let cpu = || procs::cpu(gateway.pid).unwrap();
    let memory = || pss(gateway.pid);
    let empty = memory();

    let begin = Instant::now();
    let before = cpu();
    let swarm = Swarm::start(port, MINIONS);
    while swarm.tally.joined() < MINIONS && begin.elapsed() < TOGETHER {
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = begin.elapsed();
    assert_eq!(
        (swarm.tally.joined(), swarm.tally.lost()),
        (MINIONS, 0),
        "after {took:?}"
    );
    println!(
        "{MINIONS} registrations in {took:.2?}: {:.0}/s, gateway {:.2} ms CPU each, memory {empty} -> {} KiB PSS",
        MINIONS as f64 / took.as_secs_f64(),
        (cpu() - before).as_secs_f64() * 1e3 / MINIONS as f64,
        memory()
    );

    let config = halite::config::load_master(&master.home.config_dir()).unwrap();
    let jobs = halite::store::Stores::open(&config).jobs;
    for (fun, arg) in [
        ("test.ping", vec![]),
        ("sysinspect.call", vec!["do it".into()]),
    ] {
        let before = cpu();
        let begin = Instant::now();
        for _ in 0..JOBS {
            let job = Job {
                fun: fun.into(),
                tgt: "*".into(),
                tgt_type: "glob".into(),
                arg: arg.clone(),
                ..Job::default()
            };
            let mut client = LocalClient::new(config.clone());
            let published = client.publish(&job).unwrap();
            assert_eq!(published.minions.len(), MINIONS);
            let jid = published.jid.parse().unwrap();
            let all = wait_for("every minion has answered", || {
                let job = jobs.get(&jid).unwrap()?;
                (job.returns.len() >= MINIONS).then_some(job.returns)
            });
            let mut ids: Vec<String> = all.iter().map(|r| r.id.clone()).collect();
            ids.sort();
            assert_eq!(ids, (0..MINIONS).map(id).collect::<Vec<_>>());
        }
        let took = begin.elapsed() / JOBS;
        println!(
            "{fun} to {MINIONS} minions: {took:.2?} until all are in the job cache, gateway {:.0} ms CPU per job, memory {} KiB PSS",
            (cpu() - before).as_secs_f64() * 1e3 / f64::from(JOBS),
            memory()
        );
    }
    assert_eq!(swarm.tally.lost(), 0);
    let per_minion = memory().saturating_sub(empty) as f64 / MINIONS as f64;
    println!("{per_minion:.1} KiB per minion");
    assert!(per_minion < 40.0, "{per_minion} KiB per minion");
}

/// Proportional set size in KiB.
fn pss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find(|l| l.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

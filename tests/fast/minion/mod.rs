//! `halite-minion` and `halite-call` against a real `halite-master`, and, where there is one, a
//! stock master. Waits are for events, answers and ends of processes.

mod call;
mod ed25519;
mod false_master;
mod faults;
mod files;
mod handshake;
mod masters;
mod own;
mod pair;
mod private;
mod returners;
mod states;
mod stock;

use halite::client::local::Job;
use halite::store::Stores;
use halite::store::keys::KeyState;
use halite::wire::{Map, Value};
use halite_ipc::Subscriber;
use nix::sys::signal::Signal;
use pair::*;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, eventually, send};

#[test]
fn a_minion_answers() {
    let mut pair = Pair::start("", "");
    let ret = pair.run("test.ping", &[]);
    assert_eq!(ret.get("return"), Some(&true.into()));
    assert_eq!(
        (ret.get("success"), ret.int("retcode")),
        (Some(&true.into()), Some(0))
    );
    assert_eq!((text(&ret, "fun"), text(&ret, "id")), ("test.ping", "m1"));

    let kwargs = halite::map! {"__kwarg__" => true, "schlüssel" => "wért"};
    let ret = pair.run("test.arg", &["grüße ☃".into(), 7.into(), kwargs.into()]);
    let ret = ret.get("return").unwrap().as_map().unwrap().clone();
    assert_eq!(
        ret.get("args").unwrap().as_array().unwrap(),
        ["grüße ☃".into(), Value::Int(7)]
    );
    assert_eq!(
        ret.get("kwargs")
            .unwrap()
            .as_map()
            .unwrap()
            .str("schlüssel"),
        Some("wért")
    );

    let ret = pair.run("no.such_function", &[]);
    assert_eq!(text(&ret, "return"), "'no.such_function' is not available.");
    assert_eq!((ret.int("retcode"), text(&ret, "out")), (Some(1), "nested"));

    let big = "x".repeat(500_000);
    let ret = pair.run("test.echo", &[big.as_str().into()]);
    assert_eq!(text(&ret, "return").len(), big.len());

    let funs = vec!["test.ping".to_owned(), "test.echo".to_owned()];
    let args = [Value::Array(vec![]), Value::Array(vec!["two".into()])];
    let jid = pair.publish_value(funs.into(), &args);
    let ret = pair.returned(&jid);
    assert_eq!(
        ret.get("return"),
        Some(&halite::map! {"test.ping" => true, "test.echo" => "two"}.into())
    );

    let mode = |below: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(pair.minion.path(below))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("etc/halite/pki/minion/minion.pem"), 0o400);
    assert_eq!(mode("etc/halite/pki/minion/minion.pub"), 0o644);
}

#[test]
fn jobs_are_found_and_killed() {
    let mut pair = Pair::start("", "");
    let jid = pair.publish("cmd.run", &["echo $$; sleep 300".into()]);
    let found = pair.find_running(&jid);
    assert_eq!(
        (text(&found, "fun"), text(&found, "jid")),
        ("cmd.run", jid.as_str())
    );
    let child = pid_below(u32::try_from(found.int("pid").unwrap()).unwrap());

    let ret = pair.run("saltutil.kill_job", &[jid.as_str().into()]);
    assert!(
        text(&ret, "return").starts_with("Signal 9 sent to job"),
        "{ret:?}"
    );
    let ret = pair.returned(&jid);
    assert!(
        text(&ret, "return").contains("was ended by signal 9"),
        "{ret:?}"
    );
    assert_eq!(
        (ret.int("retcode"), ret.get("success")),
        (Some(137), Some(&false.into()))
    );
    eventually("the end of the command", || !running(child));
    let proc = pair.minion.path("var/cache/halite/minion/proc");
    // The job of this very question ends right after its return.
    eventually("an empty proc directory", || {
        std::fs::read_dir(&proc).unwrap().count() == 0
    });
}

/// A command below a job's process; waits until there is one.
fn pid_below(job: u32) -> u32 {
    let mut found = None;
    eventually("the command of the job", || {
        let text =
            std::fs::read_to_string(format!("/proc/{job}/task/{job}/children")).unwrap_or_default();
        found = text.split_whitespace().next().and_then(|p| p.parse().ok());
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_full_minion_queues_jobs_and_can_be_asked() {
    let mut pair = Pair::start("", "process_count_max: 1");
    let first = pair.publish("test.sleep", &[300.into()]);
    pair.find_running(&first);
    let second = pair.publish("test.ping", &[]);
    let ret = pair.run("saltutil.find_job", &[second.as_str().into()]);
    let found = ret.get("return").and_then(Value::as_map).unwrap();
    assert_eq!(
        (found.int("pid"), text(found, "queue_type")),
        (Some(0), "job_queue")
    );
    // What waits outlives the minion.
    send(pair.minion.pid(), Signal::SIGTERM);
    pair.minion.wait_end(LIMIT).unwrap();
    pair.minion.restart();
    assert!(text(&pair.returned(&first), "return").contains("signal 15"));
    assert_eq!(pair.returned(&second).get("return"), Some(&true.into()));
    let first = pair.publish("test.sleep", &[300.into()]);
    pair.find_running(&first);
    let second = pair.publish("test.ping", &[]);
    pair.run("saltutil.term_job", &[first.as_str().into()]);
    assert!(text(&pair.returned(&first), "return").contains("signal 15"));
    assert_eq!(pair.returned(&second).get("return"), Some(&true.into()));
}

#[test]
fn a_master_may_be_killed_and_come_back() {
    let mut pair = Pair::start("", "");
    pair.run("test.ping", &[]);
    // A job that ends while there is no master: its result waits.
    let (jid, flag) = pair.publish_waiting();
    pair.find_running(&jid);
    pair.crash_master();
    std::fs::write(&flag, "").unwrap();
    eventually("the result in the spool", || {
        pair.minion.waiting_results() == 1
    });
    pair.restart_master();
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
    eventually("an empty spool", || pair.minion.waiting_results() == 0);
    pair.ping_until_answered();
}

#[test]
fn results_outlive_the_minion() {
    let mut pair = Pair::start("", "");
    let (jid, flag) = pair.publish_waiting();
    pair.find_running(&jid);
    pair.crash_master();
    std::fs::write(&flag, "").unwrap();
    eventually("the result in the spool", || {
        pair.minion.waiting_results() == 1
    });
    pair.minion.kill();
    pair.restart_master();
    pair.minion.restart();
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
    eventually("an empty spool", || pair.minion.waiting_results() == 0);
}

#[test]
fn jobs_outlive_the_minion() {
    let mut pair = Pair::start("", "");
    // One returns while no minion runs, one when the next one does.
    let (early, early_flag) = pair.publish_waiting();
    let (late, late_flag) = pair.publish_waiting();
    for (signal, status) in [(Signal::SIGQUIT, Some(0)), (Signal::SIGKILL, None)] {
        let before = [&early, &late].map(|jid| pair.find_running(jid).int("pid"));
        send(pair.minion.pid(), signal);
        assert_eq!(pair.minion.wait_end(LIMIT).unwrap().code(), status);
        pair.minion.restart();
        pair.ping_until_answered();
        let after = [&early, &late].map(|jid| pair.find_running(jid).int("pid"));
        assert_eq!(before, after, "{signal}");
    }
    send(pair.minion.pid(), Signal::SIGQUIT);
    assert!(pair.minion.wait_end(LIMIT).is_some());
    let left = pair.minion.path("var/cache/halite/minion/left");
    std::fs::write(&early_flag, "").unwrap();
    eventually("the result that nobody took", || left.join(&early).exists());
    pair.minion.restart();
    assert_eq!(text(&pair.returned(&early), "return"), "done");
    pair.find_running(&late);
    std::fs::write(&late_flag, "").unwrap();
    assert_eq!(text(&pair.returned(&late), "return"), "done");
    eventually("an empty spool", || pair.minion.waiting_results() == 0);
    assert_eq!(std::fs::read_dir(&left).unwrap().count(), 0);
    let proc = pair.minion.path("var/cache/halite/minion/proc");
    eventually("an empty proc directory", || {
        std::fs::read_dir(&proc).unwrap().count() == 0
    });
}

#[test]
fn a_minion_accounts_for_jobs_that_ended_without_it() {
    let mut pair = Pair::start("", "");
    let jid = pair.publish("test.sleep", &[300.into()]);
    let found = pair.find_running(&jid);
    pair.minion.kill();
    let job = u32::try_from(found.int("pid").unwrap()).unwrap();
    assert!(running(job), "it goes on");
    send(job, Signal::SIGKILL);
    eventually("the end of the job", || !running(job));
    pair.minion.restart();
    let ret = pair.returned(&jid);
    assert_eq!(
        text(&ret, "return"),
        "The minion was ended while it ran the job."
    );
    assert_eq!(ret.int("retcode"), Some(1));
}

#[test]
fn sigterm_ends_jobs_and_keeps_their_results() {
    let mut pair = Pair::start("", "");
    // One that does not heed SIGTERM.
    let jid = pair.publish(
        "cmd.run",
        &["trap '' TERM; while :; do sleep 0.1; done".into()],
    );
    let found = pair.find_running(&jid);
    let command = pid_below(u32::try_from(found.int("pid").unwrap()).unwrap());
    let begun = Instant::now();
    send(pair.minion.pid(), Signal::SIGTERM);
    let status = pair.minion.wait_end(LIMIT).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert!(!pair.minion.path("var/run/halite-minion.pid").exists());
    pair.minion.restart();
    assert!(text(&pair.returned(&jid), "return").contains("was ended by signal"));
    eventually("the end of the command", || !running(command));
}

#[test]
fn keys_are_rotated_under_way() {
    let mut pair = Pair::start("loop_interval: 1\nrotation_grace: 1", "");
    pair.run("test.ping", &[]);
    for _ in 0..2 {
        rotate(&pair);
        wait(&mut pair.bus, |e, data| {
            e.tag == "key" && data.contains("rotate_aes_key")
        });
        let jid = pair.publish("test.ping", &[]);
        // The key comes under the session key; nobody signs in.
        let ret = format!("salt/job/{jid}/ret/m1");
        let (event, data) = wait(&mut pair.bus, |e, _| e.tag == ret || e.tag == "salt/auth");
        assert_eq!(event.tag, ret);
        assert_eq!(data.get("return"), Some(&true.into()));
    }
    // Without its session the master knows it by its key only.
    pair.master.signal(Signal::SIGTERM);
    assert!(pair.master.wait_end(LIMIT).is_some());
    std::fs::remove_file(pair.master.config().cachedir.join("sessions_gcm/m1")).unwrap();
    pair.master.restart();
    pair.bus = listen(&pair.master);
    pair.ping_until_answered();
}

/// Asks the master for a new key of publications, as a deletion does.
fn rotate(pair: &Pair) {
    use std::os::unix::fs::PermissionsExt;
    let file = pair.master.config().cachedir.join(".dfn");
    std::fs::write(&file, pair.master.config().id).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
}

#[test]
fn the_next_key_is_fetched_before_it_counts() {
    let mut pair = Pair::start("publish_session: 2\nrotation_grace: 2", "");
    // Only a key under which jobs were published is known to all, and its change announced under it.
    eventually("the next key", || {
        pair.run("test.ping", &[]);
        let log = std::fs::read_to_string(pair.minion.path("log")).unwrap();
        log.contains("received the next publication key")
    });
    wait(&mut pair.bus, |e, data| {
        e.tag == "key" && data.contains("rotate_aes_key")
    });
    pair.run("test.ping", &[]);
}

#[test]
fn a_key_is_accepted_later() {
    let include = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(include.path(), "auto_accept: false\n").unwrap();
    let master = Master::start(&format!("include: {}", include.path().display()));
    let bus = listen(&master);
    let minion = Minion::start(ports(&master), "m1", "acceptance_wait_time: 1");
    let mut pair = Pair::new(master, bus, minion);
    wait(&mut pair.bus, |e, data| {
        e.tag == "salt/auth" && data.str("act") == Some("pend")
    });
    let keys = Stores::open(&pair.master.config()).keys;
    let id = "m1".parse().unwrap();
    assert!(
        keys.change(&id, KeyState::Pending, KeyState::Accepted)
            .unwrap()
    );
    pair.started();
    pair.run("test.ping", &[]);

    // Taken away while a job runs: its result waits for the key to be accepted again.
    let (jid, flag) = pair.publish_waiting();
    pair.find_running(&jid);
    assert!(
        keys.change(&id, KeyState::Accepted, KeyState::Pending)
            .unwrap()
    );
    std::fs::write(&flag, "").unwrap();
    wait(&mut pair.bus, |e, data| {
        e.tag == "salt/auth" && data.str("act") == Some("pend")
    });
    assert!(
        keys.change(&id, KeyState::Pending, KeyState::Accepted)
            .unwrap()
    );
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
}

#[test]
fn a_minion_that_is_accepted_again_sends_its_grains() {
    let include = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(include.path(), "").unwrap();
    let lines = format!("include: {}", include.path().display());
    let mut pair = Pair::start(&lines, "acceptance_wait_time: 1");
    // It is told of the new key as well, and what is published for it tells the other one.
    let _other = Minion::start(ports(&pair.master), "m2", "");
    wait(&mut pair.bus, |e, _| e.tag == "salt/minion/m2/start");
    let dir = pair.master.dir.path().to_owned();
    let of_linux = || {
        let mut halite = Command::new(env!("CARGO_BIN_EXE_halite"));
        halite.arg("-c").arg(&dir).args(["-t", "2", "--out", "txt"]);
        let said = halite.args(["-G", "kernel:Linux", "test.ping"]).output();
        let said = String::from_utf8_lossy(&said.unwrap().stdout).into_owned();
        ["m1", "m2"].map(|id| said.contains(&format!("{id}: True")))
    };
    assert_eq!(of_linux(), [true, true]);

    // From now on, somebody has to accept keys.
    std::fs::write(include.path(), "auto_accept: false\n").unwrap();
    pair.master.signal(Signal::SIGTERM);
    pair.master.wait_end(LIMIT).unwrap();
    pair.restart_master();
    pair.ping_until_answered();
    let key = |what: &str| {
        let mut key = Command::new(env!("CARGO_BIN_EXE_halite-key"));
        key.arg("-c").arg(&dir).args(["-y", what, "m1"]);
        assert!(key.stdout(Stdio::null()).status().unwrap().success());
    };
    key("-d");
    wait(&mut pair.bus, |e, data| {
        e.tag == "key" && data.contains("rotate_aes_key")
    });
    assert!(!of_linux()[0], "its grains went with its key");
    wait(&mut pair.bus, |e, data| {
        e.tag == "salt/auth" && data.str("act") == Some("pend")
    });
    key("-a");
    eventually("the grains are there again", || of_linux()[0]);
}

#[test]
fn a_rejected_minion_ends() {
    let include = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(include.path(), "auto_accept: false\n").unwrap();
    let master = Master::start(&format!("include: {}", include.path().display()));
    let mut bus = listen(&master);
    let mut minion = Minion::start(ports(&master), "m1", "acceptance_wait_time: 1");
    wait(&mut bus, |e, data| {
        e.tag == "salt/auth" && data.str("act") == Some("pend")
    });
    let keys = Stores::open(&master.config()).keys;
    assert!(
        keys.change(
            &"m1".parse().unwrap(),
            KeyState::Pending,
            KeyState::Rejected
        )
        .unwrap()
    );
    assert_eq!(minion.wait_end(LIMIT).unwrap().code(), Some(77));
}

#[test]
fn a_master_that_is_late_is_waited_for() {
    let ports = testing::harness::free_ports();
    let mut minion = Minion::start(ports, "m1", "");
    let silent = minion.path("log");
    eventually("a sign-in without an answer", || {
        std::fs::read_to_string(&silent)
            .unwrap_or_default()
            .contains("no reply from the master")
    });
    send(minion.pid(), Signal::SIGTERM);
    assert_eq!(
        minion.wait_end(Duration::from_secs(2)).unwrap().code(),
        Some(0)
    );
    let master = Master::start("");
    let mut bus = listen(&master);
    configure(minion.dir.path(), self::ports(&master), "m1", "");
    minion.restart();
    wait(&mut bus, |e, _| e.tag == "salt/minion/m1/start");
}

#[test]
fn the_local_bus_shows_results_and_bars_a_second_minion() {
    let mut pair = Pair::start("", "ping_interval: 0");
    let hash = halite::crypto::HashType::Sha256.hex(b"m1");
    let socket = pair.minion.path(&format!(
        "var/run/halite/minion/minion_event_{}_pub.ipc",
        &hash[..10]
    ));
    let mut local = Subscriber::connect(&socket).unwrap();
    let jid = pair.publish("test.ping", &[]);
    let tag = format!("salt/job/{jid}/ret/m1");
    assert_eq!(
        wait(&mut local, |e, _| e.tag == tag).1.get("return"),
        Some(&true.into())
    );
    pair.returned(&jid);
    let mut second = spawn(pair.minion.dir.path());
    assert_eq!(second.wait().unwrap().code(), Some(1));
    pair.run("test.ping", &[]);
}

#[test]
fn filtered_and_signed_publications() {
    let mut pair = Pair::start(
        "zmq_filtering: true\nsign_pub_messages: true",
        "zmq_filtering: true\nsign_pub_messages: true\nminion_sign_messages: true",
    );
    assert_eq!(pair.run("test.ping", &[]).get("return"), Some(&true.into()));
    let job = Job {
        fun: "test.ping".into(),
        tgt: "kernel:Linux".into(),
        tgt_type: "grain".into(),
        ..Job::default()
    };
    let jid = pair.master.client().publish(&job).unwrap().jid;
    assert!(pair.returned(&jid).contains("sig"));
}

#[test]
fn in_the_background() {
    let master = Master::start("");
    let mut bus = listen(&master);
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), ports(&master), "m1", "");
    let status = Command::new(env!("CARGO_BIN_EXE_halite-minion"))
        .args(["-d", "-c"])
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    let pid_file = dir.path().join("var/run/halite-minion.pid");
    let pid: u32 = std::fs::read_to_string(&pid_file).unwrap().parse().unwrap();
    wait(&mut bus, |e, _| e.tag == "salt/minion/m1/start");
    send(pid, Signal::SIGTERM);
    eventually("the end of the daemon", || !running(pid));
    assert!(!pid_file.exists());
}

//! Several masters: all at once, or one after the other.

use super::pair::*;
use halite::client::local::Job;
use halite::wire::Value;
use halite_ipc::Subscriber;
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, eventually, send};

/// Two masters with the same key, as minions of several masters need it.
fn twins() -> [Master; 2] {
    let first = Master::start("");
    let mut second = Master::start("");
    stop(&mut second);
    for name in ["master.pem", "master.pub"] {
        let file = format!("etc/halite/pki/master/{name}");
        let to = second.dir.path().join(&file);
        let _ = std::fs::remove_file(&to);
        std::fs::copy(first.dir.path().join(&file), to).unwrap();
    }
    second.restart();
    [first, second]
}

fn stop(master: &mut Master) {
    send(master.pid(), Signal::SIGTERM);
    master.wait_end(LIMIT).unwrap();
}

/// A minion of both.
fn minion(masters: &[Master; 2], extra: &str) -> Minion {
    minion_in(tempfile::tempdir().unwrap(), &list(masters), extra)
}

/// The option `master` of a minion of both, as JSON.
fn list(masters: &[Master; 2]) -> String {
    let [a, b] = masters.each_ref().map(|m| m.ret_port);
    format!("[\"127.0.0.1:{a}\", \"127.0.0.1:{b}\"]")
}

fn minion_in(dir: tempfile::TempDir, master: &str, extra: &str) -> Minion {
    let text = format!(
        "root_dir: {root}\nid: m1\nmaster: {master}\nlog_level: quiet\n\
         log_level_logfile: debug\nlog_file: {root}/log\nrecon_default: 50\nrecon_max: 50\nrecon_randomize: false\n\
         random_reauth_delay: 1\nauth_timeout: 1\nacceptance_wait_time: 1\nreturn_retry_timer: 1\n\
         return_retry_timer_max: 1\nrequest_channel_timeout: 2\nzmq_heartbeat_ivl: 100\nzmq_heartbeat_timeout: 400\n\
         {extra}\n",
        root = dir.path().display()
    );
    std::fs::write(dir.path().join("minion"), text).unwrap();
    let child = spawn(dir.path());
    Minion { dir, child }
}

fn started(bus: &mut Subscriber) {
    wait(bus, |e, _| e.tag == "salt/minion/m1/start");
}

fn publish(master: &Master, fun: &str, arg: &[Value]) -> String {
    let job = Job {
        fun: fun.into(),
        arg: arg.to_vec(),
        tgt: "m1".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    };
    master.client().publish(&job).unwrap().jid
}

/// Pings until an answer comes.
fn answers(master: &Master, bus: &mut Subscriber) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < end, "no answer within {LIMIT:?}");
        let jid = publish(master, "test.ping", &[]);
        let tag = format!("salt/job/{jid}/ret/m1");
        let soon = Instant::now() + Duration::from_secs(1);
        if try_wait(bus, soon, |e, _| e.tag == tag).is_some() {
            return jid;
        }
    }
}

fn knows(master: &Master, jid: &str) -> bool {
    let jobs = halite::store::Stores::open(&master.config()).jobs;
    jobs.get(&jid.parse().unwrap()).unwrap().is_some()
}

#[test]
fn a_list_of_masters_is_heard_at_once() {
    let mut masters = twins();
    let [mut first, mut second] = masters.each_ref().map(listen);
    let minion = minion(&masters, "");
    started(&mut first);
    started(&mut second);
    let jid = answers(&masters[0], &mut first);
    let other = answers(&masters[1], &mut second);
    assert!(
        !knows(&masters[1], &jid),
        "a result goes to the master that asked"
    );
    assert!(!knows(&masters[0], &other));
    // One goes; the other one does not suffer, and the result waits for the one that is gone.
    let waiting = publish(&masters[1], "test.sleep", &[1.into()]);
    let job = minion.path(&format!("var/cache/halite/minion/proc/{waiting}"));
    eventually("the minion has the job", || job.exists());
    stop(&mut masters[1]);
    answers(&masters[0], &mut first);
    let returned = format!("job {waiting} has returned");
    eventually("the job has ended", || {
        let log = std::fs::read_to_string(minion.path("log"));
        log.is_ok_and(|log| log.contains(&returned))
    });
    masters[1].restart();
    let mut second = listen(&masters[1]);
    answers(&masters[1], &mut second);
    let jobs = halite::store::Stores::open(&masters[1].config()).jobs;
    eventually("the result that waited", || {
        let job = jobs.get(&waiting.parse().unwrap()).unwrap().unwrap();
        job.returns.iter().any(|ret| ret.id == "m1")
    });
}

#[test]
fn failover_and_back() {
    let mut masters = twins();
    let [mut first, mut second] = masters.each_ref().map(listen);
    let extra = "master_type: failover\nmaster_alive_interval: 1\nmaster_failback: true";
    let _minion = minion(&masters, extra);
    started(&mut first);
    answers(&masters[0], &mut first);
    assert!(
        try_wait(&mut second, Instant::now(), |e, _| e.tag.contains("m1")).is_none(),
        "one at a time"
    );
    stop(&mut masters[0]);
    started(&mut second);
    answers(&masters[1], &mut second);
    masters[0].restart();
    let mut first = listen(&masters[0]);
    started(&mut first);
    answers(&masters[0], &mut first);
}

#[test]
fn the_first_master_is_not_there_yet() {
    let mut masters = twins();
    stop(&mut masters[0]);
    let mut second = listen(&masters[1]);
    let _minion = minion(&masters, "master_type: failover");
    started(&mut second);
    answers(&masters[1], &mut second);
}

#[test]
fn the_id_decides_which_master_comes_first() {
    let mut masters = twins();
    let buses = masters.each_ref().map(listen);
    let mut crc = flate2::Crc::new();
    crc.update(b"m1");
    let at = crc.sum() as usize % 2;
    let [mut first, mut second] = buses;
    let (home, other) = match at {
        0 => (&mut first, &mut second),
        _ => (&mut second, &mut first),
    };
    let extra = "master_type: distributed\nmaster_alive_interval: 1";
    let _minion = minion(&masters, extra);
    started(home);
    answers(&masters[at], home);
    assert!(try_wait(other, Instant::now(), |e, _| e.tag.contains("m1")).is_none());
    stop(&mut masters[at]);
    started(other);
    answers(&masters[1 - at], other);
}

#[test]
fn a_function_of_ones_own_names_the_masters() {
    use std::os::unix::fs::PermissionsExt;
    let masters = twins();
    let [mut first, mut second] = masters.each_ref().map(listen);
    let dir = tempfile::tempdir().unwrap();
    let modules = dir.path().join("modules");
    std::fs::create_dir(&modules).unwrap();
    let module = modules.join("where");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = describe ]; then echo '{{\"functions\": {{\"masters\": {{}}}}}}'; exit; fi\n\
         cat >/dev/null\necho '{{\"return\": {}}}'\n",
        list(&masters)
    );
    std::fs::write(&module, script).unwrap();
    std::fs::set_permissions(&module, std::fs::Permissions::from_mode(0o755)).unwrap();
    let extra = format!("master_type: func\nmodule_dirs: ['{}']", modules.display());
    let _minion = minion_in(dir, "where.masters", &extra);
    started(&mut first);
    started(&mut second);
    let jid = answers(&masters[0], &mut first);
    assert!(!knows(&masters[1], &jid));
    answers(&masters[1], &mut second);
}

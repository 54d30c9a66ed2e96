//! What goes wrong in the life of a minion; each time it is back by itself, and every result is in the
//! job cache once. A master's restart and rotated keys are beside this.

use super::pair::*;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testing::harness::{Master, eventually, send};
use testing::proxy::Proxy;

/// Dead connections are noticed soon.
const BEATS: &str = "zmq_heartbeat_ivl: 100\nzmq_heartbeat_timeout: 400\n";

/// A pair with a network between the two that can be cut.
fn apart() -> (Pair, [Proxy; 2]) {
    apart_by(|_| ())
}

/// The same, with a network that `prepare` has done something to before the minion begins.
fn apart_by(prepare: impl FnOnce(&[Proxy; 2])) -> (Pair, [Proxy; 2]) {
    let master = Master::start("");
    let bus = listen(&master);
    let network = ports(&master).map(Proxy::to);
    prepare(&network);
    let minion = Minion::start([network[0].port, network[1].port], "m1", BEATS);
    let mut pair = Pair::new(master, bus, minion);
    pair.started();
    (pair, network)
}

/// How often the job cache has the return of a job.
fn kept(pair: &Pair, jid: &str) -> usize {
    let jobs = halite::store::Stores::open(&pair.master.config()).jobs;
    let job = jobs.get(&jid.parse().unwrap()).unwrap().unwrap();
    job.returns.iter().filter(|ret| ret.id == "m1").count()
}

#[test]
fn the_network_is_cut() {
    let (mut pair, network) = apart();
    let (jid, flag) = pair.publish_waiting();
    pair.find_running(&jid);
    network.iter().for_each(Proxy::cut);
    std::fs::write(&flag, "").unwrap();
    eventually("the result in the spool", || {
        pair.minion.waiting_results() == 1
    });
    // Long enough for the connections to count as dead on both sides.
    std::thread::sleep(Duration::from_millis(1500));
    network.iter().for_each(Proxy::mend);
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
    pair.ping_until_answered();
    assert_eq!(kept(&pair, &jid), 1);
}

#[test]
fn the_way_to_publications_is_closed_at_first() {
    let (mut pair, network) = apart_by(|network| network[0].cut());
    let log = std::fs::read_to_string(pair.minion.path("log")).unwrap();
    assert!(log.contains("no jobs can be received"), "{log}");
    network[0].mend();
    pair.ping_until_answered();
}

#[test]
fn the_acknowledgement_is_lost() {
    let (mut pair, network) = apart();
    let (jid, flag) = pair.publish_waiting();
    pair.find_running(&jid);
    // The answer to find_job has been acknowledged.
    eventually("an empty spool", || pair.minion.waiting_results() == 0);
    network[1].deafen();
    std::fs::write(&flag, "").unwrap();
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
    // It is offered again until the master has been heard.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(pair.minion.waiting_results(), 1);
    network[1].mend();
    eventually("an empty spool", || pair.minion.waiting_results() == 0);
    assert_eq!(kept(&pair, &jid), 1, "once in the job cache");
    pair.ping_until_answered();
}

#[test]
fn the_host_sleeps() {
    let mut pair = Pair::start("", BEATS);
    pair.run("test.ping", &[]);
    send(pair.minion.pid(), Signal::SIGSTOP);
    // The master goes and comes meanwhile, so that no connection and no key is what it was.
    pair.crash_master();
    pair.restart_master();
    send(pair.minion.pid(), Signal::SIGCONT);
    pair.ping_until_answered();
    // The same without anything else happening: only time passes.
    send(pair.minion.pid(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1500));
    send(pair.minion.pid(), Signal::SIGCONT);
    pair.ping_until_answered();
}

/// A small file system; it goes with this.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this process may not mount.
    fn mount(at: &Path) -> Option<Disk> {
        std::fs::create_dir_all(at).unwrap();
        let kind = Some("tmpfs");
        let flags = nix::mount::MsFlags::empty();
        let mounted = nix::mount::mount(kind, at, kind, flags, Some("size=64k,mode=755"));
        mounted.ok().map(|()| Disk(at.to_owned()))
    }

    fn fill(&self) {
        let mut size = 64 << 10;
        let mut count = 0;
        while size > 0 {
            let file = self.0.join(format!("filler-{count}"));
            if std::fs::write(file, vec![0; size]).is_err() {
                size /= 2;
            }
            count += 1;
        }
    }

    fn clear(&self) {
        for entry in std::fs::read_dir(&self.0).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[test]
fn the_disk_is_full() {
    let master = Master::start("");
    let bus = listen(&master);
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&dir.path().join("var/cache/halite/minion")) else {
        println!("SKIP: this needs the right to mount");
        return;
    };
    configure(dir.path(), ports(&master), "m1", "");
    let child = spawn(dir.path());
    let minion = Minion { dir, child };
    let mut pair = Pair::new(master, bus, minion);
    pair.started();
    disk.fill();
    let pong = pair.run("test.ping", &[]);
    assert_eq!(pong.get("return"), Some(&true.into()), "{pong:?}");
    // A result that finds no room waits in memory.
    let flag = pair.minion.path("go");
    let command = format!(
        "while [ ! -e {} ]; do sleep 0.01; done; echo done; echo > {}",
        flag.display(),
        pair.minion.path("ended").display()
    );
    let jid = pair.publish("cmd.run", &[command.as_str().into()]);
    pair.crash_master();
    std::fs::write(&flag, "").unwrap();
    let ended = pair.minion.path("ended");
    eventually("the end of the job", || ended.exists());
    pair.restart_master();
    assert_eq!(text(&pair.returned(&jid), "return"), "done");
    assert_eq!(kept(&pair, &jid), 1);
    disk.clear();
    pair.ping_until_answered();
    drop(pair);
    drop(disk);
}

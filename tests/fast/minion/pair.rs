//! A minion, alone or with its master.

use halite::client::local::Job;
use halite::wire::{Map, Value};
use halite_ipc::{Event, Subscriber};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testing::harness::{LIMIT, Master, eventually, send};

/// A minion in a directory of its own; dropping it ends it.
pub struct Minion {
    pub dir: tempfile::TempDir,
    pub child: Child,
}

/// Quick reconnection: the waits of the defaults are for fleets.
const QUICK: &str = "recon_default: 50\nrecon_max: 50\nrecon_randomize: false\nrandom_reauth_delay: 1\n\
    auth_timeout: 1\nreturn_retry_timer: 1\nreturn_retry_timer_max: 1\nrequest_channel_timeout: 5\n";

impl Minion {
    pub fn start(ports: [u16; 2], id: &str, extra: &str) -> Minion {
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path(), ports, id, extra);
        let child = spawn(dir.path());
        Minion { dir, child }
    }

    /// Starts it once more, in the same directory.
    pub fn restart(&mut self) {
        self.child = spawn(self.dir.path());
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub fn wait_end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn waiting_results(&self) -> usize {
        // A hidden file is one that is being written: it is lost with the minion.
        let whole =
            |entry: &std::fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        let dir = std::fs::read_dir(self.path("var/cache/halite/minion/returns"));
        dir.map_or(0, |entries| entries.flatten().filter(whole).count())
    }
}

impl Drop for Minion {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(400).collect();
            eprintln!("--- end of the minion's log:");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        send(self.pid(), Signal::SIGTERM);
        if self.wait_end(Duration::from_secs(10)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn configure(dir: &Path, [publish_port, ret_port]: [u16; 2], id: &str, extra: &str) {
    let text = format!(
        "root_dir: {root}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {ret_port}\npublish_port: {publish_port}\n\
         log_level: quiet\nlog_level_logfile: debug\nlog_file: {root}/log\n{QUICK}{extra}\n",
        root = dir.display()
    );
    std::fs::write(dir.join("minion"), text).unwrap();
}

pub fn spawn(dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_halite-minion"))
        .arg("-c")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A master, the ear on its bus, and a minion that has started.
pub struct Pair {
    pub master: Master,
    pub bus: Subscriber,
    pub minion: Minion,
    /// Returns that came before somebody asked for them.
    pub heard: Vec<(String, Map)>,
}

impl Pair {
    /// A minion that may not have started yet.
    pub fn new(master: Master, bus: Subscriber, minion: Minion) -> Pair {
        Pair {
            master,
            bus,
            minion,
            heard: Vec::new(),
        }
    }

    pub fn start(master: &str, minion: &str) -> Pair {
        let master = Master::start(master);
        let bus = listen(&master);
        let minion = Minion::start(ports(&master), "m1", minion);
        let mut pair = Pair::new(master, bus, minion);
        pair.started();
        pair
    }

    pub fn started(&mut self) {
        wait(&mut self.bus, |e, _| e.tag == "salt/minion/m1/start");
    }

    /// Publishes; gives the jid.
    pub fn publish(&self, fun: &str, arg: &[Value]) -> String {
        self.publish_value(fun.into(), arg)
    }

    pub fn publish_value(&self, fun: Value, arg: &[Value]) -> String {
        let job = Job {
            fun,
            arg: arg.to_vec(),
            tgt: "m1".into(),
            tgt_type: "glob".into(),
            ..Job::default()
        };
        let published = self.master.client().publish(&job).unwrap();
        assert_eq!(published.minions, ["m1"]);
        published.jid
    }

    /// Publishes a job that says `done` once a file is there; gives the file as well.
    pub fn publish_waiting(&self) -> (String, PathBuf) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let flag = self.minion.path(&format!("go-{n}"));
        let command = format!(
            "while [ ! -e {} ]; do sleep 0.01; done; echo done",
            flag.display()
        );
        (self.publish("cmd.run", &[command.as_str().into()]), flag)
    }

    /// The return of a job: from the bus, or from the job cache if it came before this test
    /// heard the bus of a master that has started again.
    pub fn returned(&mut self, jid: &str) -> Map {
        let tag = format!("salt/job/{jid}/ret/m1");
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            let soon = Instant::now() + Duration::from_millis(500);
            if let Some(ret) = self.try_returned(&tag, soon).or_else(|| self.kept(jid)) {
                return ret;
            }
        }
        panic!("the return of {jid} does not come");
    }

    fn kept(&self, jid: &str) -> Option<Map> {
        let jobs = halite::store::Stores::open(&self.master.config()).jobs;
        let job = jobs.get(&jid.parse().unwrap()).unwrap()?;
        let ret = job.returns.into_iter().find(|ret| ret.id == "m1");
        ret.map(|ret| ret.load)
    }

    pub fn try_returned(&mut self, tag: &str, end: Instant) -> Option<Map> {
        loop {
            if let Some(at) = self.heard.iter().position(|(heard, _)| heard == tag) {
                return Some(self.heard.remove(at).1);
            }
            let (event, data) = try_wait(&mut self.bus, end, |e, _| e.tag.ends_with("/ret/m1"))?;
            self.heard.push((event.tag, data));
        }
    }

    pub fn run(&mut self, fun: &str, arg: &[Value]) -> Map {
        let jid = self.publish(fun, arg);
        self.returned(&jid)
    }

    /// Asks until the job is found; gives what find_job says.
    pub fn find_running(&mut self, jid: &str) -> Map {
        loop {
            let ret = self.run("saltutil.find_job", &[jid.into()]);
            let found = ret.get("return").unwrap().as_map().unwrap().clone();
            if !found.is_empty() {
                return found;
            }
        }
    }

    /// Pings until an answer comes: publications before the minion has connected again are lost.
    pub fn ping_until_answered(&mut self) {
        let end = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < end, "no answer within {LIMIT:?}");
            let tag = format!("salt/job/{}/ret/m1", self.publish("test.ping", &[]));
            let soon = Instant::now() + Duration::from_secs(1);
            if self.try_returned(&tag, soon).is_some() {
                return;
            }
        }
    }

    /// Kills the master's main process; waits until its roles are gone as well.
    pub fn crash_master(&mut self) {
        let family = self.master.pids();
        self.master.signal(Signal::SIGKILL);
        self.master.wait_end(LIMIT).unwrap();
        eventually("the end of the master's roles", || {
            !family.iter().any(|pid| running(*pid))
        });
    }

    pub fn restart_master(&mut self) {
        self.master.restart();
        self.bus = listen(&self.master);
    }
}

pub fn ports(master: &Master) -> [u16; 2] {
    [master.publish_port, master.ret_port]
}

pub fn listen(master: &Master) -> Subscriber {
    Subscriber::connect(master.config().sock_dir.join("master_event_pub.ipc")).unwrap()
}

pub fn try_wait(
    bus: &mut Subscriber,
    end: Instant,
    pick: impl Fn(&Event, &Map) -> bool,
) -> Option<(Event, Map)> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = bus.next(Some(left)).unwrap()?;
        let data: Value = event.decode().unwrap();
        let data = data.into_map().unwrap();
        if pick(&event, &data) {
            return Some((event, data));
        }
    }
}

pub fn wait(bus: &mut Subscriber, pick: impl Fn(&Event, &Map) -> bool) -> (Event, Map) {
    try_wait(bus, Instant::now() + LIMIT, pick).expect("the event does not come")
}

pub fn text<'a>(map: &'a Map, key: &str) -> &'a str {
    map.str(key).unwrap_or_else(|| panic!("{key} in {map:?}"))
}

/// Whether a process is there and not merely waiting to be reaped.
pub fn running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

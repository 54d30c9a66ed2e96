//! A real `halite-master` in its own directory, on free ports, for tests.

use super::ports::Ports;
use halite::client::local::{Job, LocalClient, Published};
use halite::client::swarm::session::MinionKeys;
use halite::client::swarm::{Swarm, SwarmOptions};
use halite::config::{MasterConfig, load_master};
use halite::crypto::PrivateKey;
use halite::sys::procs::{self, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A running master; dropping it stops all its processes.
pub struct Master {
    pub dir: tempfile::TempDir,
    pub publish_port: u16,
    pub ret_port: u16,
    child: Child,
    /// Socket on which the master reports that it is ready, as it does to systemd.
    notify: UnixDatagram,
}

impl Master {
    /// Starts a master with further lines of configuration and waits until it is ready.
    pub fn start(extra: &str) -> Master {
        // Another process may take a free port before the master binds it.
        (0..5)
            .find_map(|_| Master::try_start(extra))
            .expect("the master does not start")
    }

    fn try_start(extra: &str) -> Option<Master> {
        let dir = tempfile::tempdir().unwrap();
        let [publish_port, ret_port] = free_ports();
        let text = format!(
            "root_dir: {root}\ninterface: 127.0.0.1\npublish_port: {publish_port}\nret_port: {ret_port}\n\
             auto_accept: true\nlog_level: quiet\nlog_level_logfile: info\nlog_file: {root}/log/master\n{extra}\n",
            root = dir.path().display()
        );
        std::fs::write(dir.path().join("master"), text).unwrap();
        let notify = UnixDatagram::bind(notify_path(dir.path())).unwrap();
        notify
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let child = spawn(dir.path());
        let mut master = Master {
            dir,
            publish_port,
            ret_port,
            child,
            notify,
        };
        master.wait_ready().then_some(master)
    }

    /// Starts the same master again, in the same directory.
    pub fn restart(&mut self) {
        self.child = spawn(self.dir.path());
        assert!(self.wait_ready(), "the master does not start again");
    }

    fn wait_ready(&mut self) -> bool {
        let end = Instant::now() + LIMIT;
        let mut text = [0u8; 64];
        while Instant::now() < end {
            if let Ok(n) = self.notify.recv(&mut text)
                && text[..n].starts_with(b"READY=1")
            {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
        }
        panic!("the master is not ready after {LIMIT:?}");
    }

    pub fn config(&self) -> MasterConfig {
        load_master(self.dir.path()).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.ret_port).into()
    }

    pub fn client(&self) -> LocalClient {
        LocalClient::new(self.config())
    }

    /// Publishes `test.ping` to a target.
    pub fn publish_ping(&self, tgt: &str) -> Published {
        let job = Job {
            fun: "test.ping".into(),
            tgt: tgt.into(),
            tgt_type: "glob".into(),
            ..Job::default()
        };
        self.client().publish(&job).unwrap()
    }

    /// All its processes, the main one first.
    pub fn family(&self) -> Vec<Process> {
        procs::family(self.pid()).unwrap()
    }

    /// Pids in ascending order.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.family().iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        pids
    }

    /// The process whose title ends with `title`.
    pub fn role(&self, title: &str) -> Option<Process> {
        self.family().into_iter().find(|p| p.title.ends_with(title))
    }

    /// Bytes of resident memory of all processes.
    pub fn memory(&self) -> u64 {
        self.family().iter().map(|p| p.resident).sum()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Waits for the main process to exit.
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

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log/master")).unwrap_or_default()
    }

    /// Options of a swarm for this master.
    pub fn swarm_options(&self, minions: usize) -> SwarmOptions {
        let mut options = SwarmOptions::new(self.address(), minions, vec![keys("minion")]);
        options.record = true;
        // How long a restart of the master takes depends on the machine; the tests have their own
        // limits.
        options.tries = u32::MAX;
        options
    }

    /// A swarm of that many minions, all of them ready.
    pub fn swarm(&self, minions: usize) -> Swarm {
        let swarm = Swarm::start(self.swarm_options(minions)).unwrap();
        assert!(
            swarm.wait_ready(LIMIT),
            "{} of {minions} minions are ready",
            swarm.ready()
        );
        swarm
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("--- last lines of the master's log:");
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let family = self.family();
        self.signal(Signal::SIGTERM);
        if self.wait_end(Duration::from_secs(10)).is_none() {
            family.iter().for_each(|p| send(p.pid, Signal::SIGKILL));
            let _ = self.child.wait();
        }
    }
}

pub fn send(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid as i32), signal);
}

/// A `halite-master` for the configuration in `dir`.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(super::halite_program("halite-master"));
    command
        .arg("-c")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn spawn(dir: &Path) -> Child {
    // Roles may write to the temporary directory: its own, so that tests notice what they write elsewhere.
    let temporary = dir.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    command(dir)
        .env("NOTIFY_SOCKET", notify_path(dir))
        .env("TMPDIR", temporary)
        .spawn()
        .unwrap()
}

fn notify_path(dir: &Path) -> PathBuf {
    dir.join("notify")
}

/// Two ports that are free now.
pub fn free_ports() -> [u16; 2] {
    let held = Ports::hold(2);
    [0, 1].map(|n| held.numbers()[n])
}

/// A key pair of the test vectors: `master` or `minion`.
pub fn keys(whose: &str) -> MinionKeys {
    let text = std::fs::read_to_string(super::top().join("tests/vectors/keys.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pem = all[whose]["private_pem"].as_str().unwrap();
    MinionKeys::new(PrivateKey::from_pem(pem).unwrap())
}

/// Waits until `done` is true. Only for tests that have no event to wait for.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

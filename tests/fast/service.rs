//! What the daemons tell the service manager (`sd_notify(3)`): a datagram socket of the test is the manager.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use testing::config::Home;
use testing::ports::Ports;
use testing::process::Process;
use testing::{LONG, halite_program, short_dir};

/// Microseconds that the manager of these tests is patient for.
const PATIENCE: &str = "400000";

/// A daemon under a manager.
struct Unit {
    // Fields are dropped in this order: the process before its directory.
    process: Process,
    manager: UnixDatagram,
    _dir: tempfile::TempDir,
}

impl Unit {
    /// Starts a program whose configuration file is called `file`. The manager has a watchdog if it is `watched`.
    fn start(program: &str, file: &'static str, config: &str, watched: bool) -> Unit {
        let dir = short_dir();
        let home = Home::create(dir.path().join("d"), file);
        let root = home.root().display().to_string();
        home.write(&config.replace("ROOT", &root));
        let socket = dir.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(LONG)).unwrap();
        let mut command = Command::new(halite_program(program));
        command
            .arg("-c")
            .arg(home.config_dir())
            .env("NOTIFY_SOCKET", &socket)
            .env_remove("WATCHDOG_PID")
            .env_remove("WATCHDOG_USEC");
        if watched {
            command.env("WATCHDOG_USEC", PATIENCE);
        }
        let process = Process::start(program, &mut command, &home.log());
        Unit {
            process,
            manager,
            _dir: dir,
        }
    }

    /// The next words.
    fn heard(&self) -> String {
        let mut bytes = [0; 4096];
        let n = self.manager.recv(&mut bytes).unwrap_or_else(|e| {
            panic!("the manager hears nothing: {e}\n{}", self.process.tail());
        });
        String::from_utf8(bytes[..n].to_vec()).unwrap()
    }

    /// All words up to the first for which `is` holds; that one is the last.
    fn until(&self, is: impl Fn(&str) -> bool) -> Vec<String> {
        let mut all = vec![self.heard()];
        while !all.last().is_some_and(|words| is(words)) {
            all.push(self.heard());
        }
        all
    }

    fn signal_main(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id()), signal).unwrap();
    }

    /// Sees readiness, progress, what a reload tells, and the end.
    fn lives(mut self) {
        let first = self.heard();
        assert!(first.starts_with("READY=1\nSTATUS="), "{first}");
        for _ in 0..3 {
            self.until(is_beat);
        }
        self.process.must_live();
        self.signal_main(Signal::SIGTERM);
        self.until(|words| words.starts_with("STOPPING=1"));
    }
}

fn is_beat(words: &str) -> bool {
    words == "WATCHDOG=1"
}

fn is_fault(words: &str) -> bool {
    words.starts_with("STATUS=not healthy: publish (silent for ")
}

fn master(watched: bool) -> Unit {
    let ports = Ports::hold(2);
    let numbers = ports.numbers();
    let config = format!(
        "root_dir: ROOT\ninterface: 127.0.0.1\npublish_port: {}\nret_port: {}\nworker_threads: 1\nmetrics_address: ''\n",
        numbers[0], numbers[1]
    );
    ports.release();
    Unit::start("halite-master", "master", &config, watched)
}

#[test]
fn a_master_beats_only_while_its_roles_live() {
    let unit = master(true);
    assert_eq!(unit.heard(), "READY=1\nSTATUS=all roles serve");
    for _ in 0..3 {
        unit.until(is_beat);
    }
    unit.signal_main(Signal::SIGHUP);
    let reload = unit.until(|words| words == "READY=1");
    let begun = |words: &String| words.starts_with("RELOADING=1\nMONOTONIC_USEC=");
    assert!(reload.iter().any(begun), "{reload:?}");

    let pid = unit.process.id() as u32;
    let family = halite::sys::procs::family(pid).unwrap();
    let title = " PubServerChannel._publish_daemon";
    let role = family.iter().find(|p| p.title.ends_with(title)).unwrap();
    let role = Pid::from_raw(role.pid as i32);
    kill(role, Signal::SIGSTOP).unwrap();
    unit.until(is_fault);
    // It says each second for how long by now; five times the manager would have heard of progress meanwhile.
    for _ in 0..2 {
        let words = unit.until(is_fault);
        assert!(!words.iter().any(|w| is_beat(w)), "{words:?}");
    }
    kill(role, Signal::SIGCONT).unwrap();
    let words = unit.until(|words| words == "STATUS=all roles serve");
    let beats = words.iter().filter(|w| is_beat(w)).count();
    assert_eq!(beats, 1, "{words:?}");
    unit.until(is_beat);
    unit.signal_main(Signal::SIGTERM);
    unit.until(|words| words.starts_with("STOPPING=1"));
}

#[test]
fn who_has_no_watchdog_hears_of_no_progress() {
    let unit = master(false);
    assert_eq!(unit.heard(), "READY=1\nSTATUS=all roles serve");
    // Others hear of it right after they heard of readiness.
    for _ in 0..20 {
        unit.signal_main(Signal::SIGHUP);
        let words = unit.until(|words| words == "READY=1");
        assert!(!words.iter().any(|w| is_beat(w)), "{words:?}");
    }
    unit.signal_main(Signal::SIGTERM);
    let words = unit.until(|words| words.starts_with("STOPPING=1"));
    assert!(!words.iter().any(|w| is_beat(w)), "{words:?}");
}

/// A minion without a master, also while it waits for its own start.
#[test]
fn minions_live() {
    for delay in [0, 3600] {
        let config = format!(
            "root_dir: ROOT\nid: m\nmaster: 127.0.0.1\nmaster_port: 1\npublish_port: 1\nrandom_startup_delay: {delay}\n"
        );
        Unit::start("halite-minion", "minion", &config, true).lives();
    }
}

#[test]
fn a_syndic_lives() {
    let config = "root_dir: ROOT\nsyndic_master: 127.0.0.1\nsyndic_master_port: 1\nid: s\n";
    Unit::start("halite-syndic", "master", config, true).lives();
}

#[test]
fn a_minion_for_sysinspect_lives() {
    let config = "root_dir: ROOT\nmaster: 127.0.0.1\nsysinspect_port: 1\nsysinspect_id: 0123456789abcdef0123456789abcdef\n";
    Unit::start("halite-sysinspect-minion", "minion", config, true).lives();
}

#[test]
fn a_federation_broker_lives() {
    let config = "cluster: c\nfederation_servers: ['127.0.0.1:1']\ncollective_servers: ['127.0.0.1:1']\nlog_file: ''\npidfile: ''\n";
    let file = "federation-broker";
    Unit::start("halite-federation-broker", file, config, true).lives();
}

#[test]
fn a_runtime_lives() {
    let config = "servers: ['127.0.0.1:1']\nroot_dir: ROOT\nlog_file: ''\npidfile: ''\n";
    Unit::start("halite-runtime", "runtime", config, true).lives();
}

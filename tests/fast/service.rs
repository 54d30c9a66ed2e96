//! What the daemons tell the service manager (`sd_notify(3)`): a datagram socket of the test is the manager.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use testing::config::Home;
use testing::harness::eventually;
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
    dir: tempfile::TempDir,
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
            .env("TMPDIR", dir.path())
            .env_remove("WATCHDOG_PID")
            .env_remove("WATCHDOG_USEC");
        if watched {
            command.env("WATCHDOG_USEC", PATIENCE);
        }
        let process = Process::start(program, &mut command, &home.log());
        Unit {
            process,
            manager,
            dir,
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

    /// Waits until it can start no programs any more: its system calls are filtered.
    fn confined(self) -> Unit {
        let status = format!("/proc/{}/status", self.process.id());
        eventually("it is confined", || {
            std::fs::read_to_string(&status).is_ok_and(|text| text.contains("\nSeccomp:\t2\n"))
        });
        self
    }

    /// Sees readiness, progress, what a reload tells, and the end.
    fn lives(mut self) {
        let first = self.heard();
        assert!(first.starts_with("READY=1\nSTATUS="), "{first}");
        for _ in 0..3 {
            self.until(is_beat);
        }
        let pid = self.process.id();
        send_all(pid);
        eventually("a report", || self.reports().len() == 1);
        let report = &self.reports()[0];
        assert!(report.contains(&format!("  process: {pid}\n")), "{report}");
        assert!(report.contains("  thread "), "{report}");
        has_no_core(pid);
        self.until(is_beat);
        self.process.must_live();
        self.signal_main(Signal::SIGQUIT);
        self.until(|words| words.starts_with("STOPPING=1"));
    }

    /// The reports that SIGUSR1 asked for, which only their account can read.
    fn reports(&self) -> Vec<String> {
        let mut all = Vec::new();
        for entry in self.dir.path().read_dir().unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if !name.starts_with("salt-debug-") || !name.ends_with(".log") {
                continue;
            }
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            let text = std::fs::read_to_string(entry.path()).unwrap();
            all.extend(text.contains("  process: ").then_some(text));
        }
        all
    }
}

/// Sends a process everything that would end a program which is not prepared for it; SIGUSR1 is the last.
fn send_all(pid: i32) {
    let signals = (1..=64).filter(|n| {
        let faults = [3, 4, 5, 6, 7, 8, 11, 31];
        let ends = [2, 3, 9, 15];
        let stops = [17, 18, 19, 20, 21, 22];
        // The C library keeps the first two real-time signals for itself.
        let others = [10, 32, 33];
        ![&faults[..], &ends, &stops, &others].concat().contains(n)
    });
    let words: Vec<String> = signals
        .chain([10])
        .map(|n: i32| format!("kill -{n} {pid}"))
        .collect();
    let status = Command::new("sh")
        .arg("-c")
        .arg(words.join(" && "))
        .status();
    assert!(status.unwrap().success(), "{words:?}");
}

/// The soft limit of a resource; `None` without one.
fn limit(pid: i32, name: &str) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix(name));
    let soft = line.unwrap().split_whitespace().next().unwrap();
    (soft != "unlimited").then(|| soft.parse().unwrap())
}

fn has_no_core(pid: i32) {
    assert_eq!(limit(pid, "Max core file size"), Some(0), "process {pid}");
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
fn signals_end_no_role_and_ask_each_for_a_report() {
    let unit = master(false);
    assert_eq!(unit.heard(), "READY=1\nSTATUS=all roles serve");
    let main = unit.process.id();
    let family = || halite::sys::procs::family(main as u32).unwrap();
    let pids = || -> Vec<u32> { family().iter().map(|p| p.pid).collect() };
    let before = pids();
    for pid in &before {
        send_all(*pid as i32);
        has_no_core(*pid as i32);
        let ceiling = (*pid as i32 != main).then_some(2 << 30);
        assert_eq!(
            limit(*pid as i32, "Max data size"),
            ceiling,
            "process {pid}"
        );
    }
    eventually("a report of each", || unit.reports().len() == before.len());
    assert_eq!(pids(), before);
    // A role that has just started has no counters yet.
    eventually("a report on all roles", || {
        unit.signal_main(Signal::SIGUSR1);
        let parts = [
            "ReqServer MWorkerQueue: serves, 0 restarts",
            "  depth:",
            &format!("  process: {main}\n"),
        ];
        let reports = unit.reports();
        let mut of_main = reports.iter().filter(|r| r.starts_with("MainProcess\n"));
        of_main.any(|report| parts.iter().all(|part| report.contains(part)))
    });
    unit.signal_main(Signal::SIGQUIT);
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
    Unit::start("halite-syndic", "master", config, true)
        .confined()
        .lives();
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
    Unit::start("halite-federation-broker", file, config, true)
        .confined()
        .lives();
}

/// Without a master: it may be started before it.
#[test]
fn an_api_lives() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root changes to another account");
    }
    let ports = Ports::hold(1);
    let config = format!(
        "root_dir: ROOT\nlog_file: ''\naudit_log: ''\n\
         api: {{user: nobody, host: 127.0.0.1, port: {}, disable_ssl: true}}\n",
        ports.numbers()[0]
    );
    ports.release();
    let unit = Unit::start("halite-api", "master", &config, true);
    // The account writes its reports there.
    std::fs::set_permissions(unit.dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    unit.confined().lives();
}

#[test]
fn a_runtime_lives() {
    let config = "servers: ['127.0.0.1:1']\nroot_dir: ROOT\nlog_file: ''\npidfile: ''\n";
    Unit::start("halite-runtime", "runtime", config, true)
        .confined()
        .lives();
}

//! What the roles of a running master have given up.

use nix::sys::signal::Signal;
use testing::harness::{Master, send};
use testing::{wait_for, wait_until};

/// A field of `/proc/<pid>/status`.
fn field(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found
        .unwrap_or_else(|| panic!("no {name} in {status}"))
        .trim()
        .to_owned()
}

/// Whether a process can gain privileges, and how its system calls are filtered (2: by a program).
fn freedom(pid: u32) -> (String, String) {
    (field(pid, "NoNewPrivs"), field(pid, "Seccomp"))
}

#[test]
fn roles_keep_what_they_need() {
    let master = Master::start("metrics_address: 127.0.0.1:0");
    let confined = ("1".to_owned(), "2".to_owned());
    let own = freedom(std::process::id());
    for (title, wanted) in [
        ("MainProcess", &own),
        ("EventPublisher", &confined),
        ("_publish_daemon", &confined),
        ("Maintenance", &confined),
        ("MWorkerQueue", &confined),
        ("Metrics", &confined),
        ("MWorker-0", &own),
    ] {
        let role = master.role(title).unwrap();
        assert_eq!(freedom(role.pid), *wanted, "{title}");
        if *wanted == confined {
            let effective = u64::from_str_radix(&field(role.pid, "CapEff"), 16).unwrap();
            let sys_admin = 1 << 21;
            assert_eq!(effective & sys_admin, 0, "{title}");
        }
    }
    // One that is not forked but executed, since it exited.
    let before = master.role("EventPublisher").unwrap().pid;
    send(before, Signal::SIGKILL);
    let now = wait_for("the next one", || {
        master
            .role("EventPublisher")
            .filter(|role| role.pid != before)
    });
    wait_until("it is confined", || freedom(now.pid) == confined);
    let log = master.log();
    assert!(
        !log.contains("EACCES") && !log.contains("Permission denied"),
        "{log}"
    );
}

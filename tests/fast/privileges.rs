//! What the roles of a running master have given up.

use halite::config::load_master;
use halite_ipc::Subscriber;
use nix::sys::signal::Signal;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use testing::config::Home;
use testing::harness::{Master, send};
use testing::ports::{Ports, listens};
use testing::process::Process;
use testing::{halite_program, short_dir, wait_for, wait_until};

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

/// What the unit of the packages does: root prepares, and the master never is root.
#[test]
fn root_hands_over_to_an_account() {
    let account = nix::unistd::User::from_name("nobody").unwrap();
    let Some(account) = account.filter(|_| nix::unistd::geteuid().is_root()) else {
        eprintln!("skipped: only root can hand over");
        return;
    };
    let dir = short_dir();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let home = Home::create(dir.path().join("m"), "master");
    let ports = Ports::hold(2);
    let numbers = ports.numbers();
    home.write(&format!(
        "root_dir: {}\ninterface: 127.0.0.1\npublish_port: {}\nret_port: {}\nuser: nobody\nmetrics_address: ''\n\
         worker_threads: 1\nmax_open_files: 1000\npublisher_acl: {{daemon: [test.ping]}}\n",
        home.root().display(),
        numbers[0],
        numbers[1]
    ));
    let program = halite_program("halite-master");
    let mut prepare = Command::new(&program);
    prepare.arg("--prepare").arg("-c").arg(home.config_dir());
    let prepared = prepare.output().unwrap();
    assert!(prepared.status.success(), "{prepared:?}");
    let config = load_master(&home.config_dir()).unwrap();
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    for path in [
        &config.sock_dir,
        &config.cachedir,
        &config.pki_dir,
        &config.pidfile,
        Path::new(&config.log_file),
        &config.client_key("root"),
    ] {
        assert_eq!(owner(path), account.uid.as_raw(), "{}", path.display());
    }
    assert_eq!(owner(&config.client_key("daemon")), 1);
    // The supervisor is in no case root, and needs nothing that it was not given.
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "nobody", "--clear-groups", "--regid"])
        .arg(account.gid.to_string())
        .arg(program)
        .arg("-c")
        .arg(home.config_dir());
    ports.release();
    let mut process = Process::start("master", &mut command, &home.log());
    wait_until("the master serves", || {
        process.must_live();
        listens(numbers[1]) && Subscriber::connect(config.event_pub()).is_ok()
    });
    let pid = std::fs::read_to_string(&config.pidfile).unwrap();
    assert_eq!(pid, process.id().to_string());
    // Again, while it runs, as before a restart.
    assert!(prepare.status().unwrap().success());
    assert_eq!(std::fs::read_to_string(&config.pidfile).unwrap(), pid);
    let log = process.tail();
    assert!(!log.contains("WARNING") && !log.contains("ERROR"), "{log}");
}

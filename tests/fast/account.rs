//! A master that starts as root and runs as another account, in directories which that account arranged.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use testing::config::Home;
use testing::ports::Ports;
use testing::process::Process;
use testing::{LONG, halite_program, short_dir};

#[test]
fn the_account_gets_nothing_of_root() {
    let nobody = User::from_name("nobody").unwrap();
    let (true, Some(nobody)) = (nix::unistd::geteuid().is_root(), nobody) else {
        return eprintln!("skipped: only root changes to another account");
    };
    let dir = short_dir();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let home = Home::create(dir.path().join("d"), "master");
    let ports = Ports::hold(2);
    let numbers = ports.numbers();
    home.write(&format!(
        "root_dir: {}\ninterface: 127.0.0.1\npublish_port: {}\nret_port: {}\nworker_threads: 1\n\
         metrics_address: ''\nuser: nobody\nlog_file: {}\n",
        home.root().display(),
        numbers[0],
        numbers[1],
        home.root().join("log").display(),
    ));
    ports.release();

    // What the account can do in its own directory before root starts the master.
    let secrets = dir.path().join("secrets");
    fs::create_dir(&secrets).unwrap();
    fs::set_permissions(&secrets, PermissionsExt::from_mode(0o700)).unwrap();
    let secret = secrets.join("secret");
    fs::write(&secret, "of root").unwrap();
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let cache = home.cache();
    fs::create_dir_all(cache.join("own")).unwrap();
    fs::hard_link(&secret, cache.join("own/second")).unwrap();
    symlink(&secrets, cache.join("own/way")).unwrap();
    symlink(&secret, cache.join(".nobody_key")).unwrap();
    symlink(&secret, cache.join(".root_key")).unwrap();
    for own in [cache.clone(), cache.join("own")] {
        chown(&own, Some(nobody.uid), Some(nobody.gid)).unwrap();
    }

    let manager = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    manager.set_read_timeout(Some(LONG)).unwrap();
    // As systemd's is for the account of a service.
    fs::set_permissions(dir.path().join("notify"), PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = Command::new(halite_program("halite-master"));
    command
        .arg("-c")
        .arg(home.config_dir())
        .env("NOTIFY_SOCKET", dir.path().join("notify"));
    let process = Process::start("halite-master", &mut command, &home.log());
    let mut words = [0; 100];
    let n = manager.recv(&mut words).unwrap_or_else(|e| {
        panic!("it is not ready: {e}\n{}", process.tail());
    });
    assert!(words[..n].starts_with(b"READY=1"), "{}", process.tail());

    let uid = nobody.uid.as_raw();
    for path in [&secrets, &secret] {
        assert_eq!(fs::metadata(path).unwrap().uid(), 0, "{path:?}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "of root");
    assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    for own in [
        home.pki(),
        home.pki().join("master.pem"),
        cache.join(".root_key"),
    ] {
        assert_eq!(fs::symlink_metadata(&own).unwrap().uid(), uid, "{own:?}");
    }
    let family = halite::sys::procs::family(process.id() as u32).unwrap();
    assert!(family.len() > 5, "{family:?}");
    for one in family {
        let proc = format!("/proc/{}", one.pid);
        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        let runs_as = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let mut runs_as = runs_as.unwrap().split_whitespace();
        assert!(runs_as.all(|n| n == uid.to_string()), "{one:?}");
        // The kernel gives these files to root if others of the account may not look into the process.
        let environ = fs::metadata(format!("{proc}/environ")).unwrap();
        assert_eq!(environ.uid(), 0, "{one:?} can be dumped");
    }
    kill(Pid::from_raw(process.id()), Signal::SIGTERM).unwrap();
}

/// A minion that root starts as another account, with files where only root may create them; and `halite-call` beside it.
#[test]
fn minions_and_calls_take_on_their_account() {
    let nobody = User::from_name("nobody").unwrap();
    let (true, Some(nobody)) = (nix::unistd::geteuid().is_root(), nobody) else {
        return eprintln!("skipped: only root changes to another account");
    };
    let dir = short_dir();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let home = Home::create(dir.path().join("d"), "minion");
    // Both are below root_dir.
    let at = |name: &str| home.root().join(name.trim_start_matches('/'));
    let [log, pid] = ["/l/log", "/r/pid"];
    let config = |user: &str| {
        home.write(&format!(
            "root_dir: {}\nid: m\nmaster: 127.0.0.1\nmaster_port: 1\npublish_port: 1\nuser: {user}\nlog_file: {}\npidfile: {}\n",
            home.root().display(),
            log,
            pid,
        ));
    };
    config("nobody");
    let call = |words: &[&str]| {
        let mut command = Command::new(halite_program("halite-call"));
        command
            .arg("-c")
            .arg(home.config_dir())
            .args(["--local", "--out=txt"]);
        let done = command.args(words).output().unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).into_owned(),
        )
    };
    assert_eq!(
        call(&["cmd.run", "id -un"]),
        (Some(0), "local: nobody\n".to_owned())
    );
    assert_eq!(
        fs::metadata(home.cache()).unwrap().uid(),
        nobody.uid.as_raw()
    );

    let mut command = Command::new(halite_program("halite-minion"));
    command.arg("-c").arg(home.config_dir());
    let mut process = Process::start("halite-minion", &mut command, &home.log());
    testing::wait_until("it has its pid file", || {
        process.must_live();
        fs::read_to_string(at(pid)).is_ok_and(|text| text.trim() == process.id().to_string())
    });
    for own in [log, pid] {
        assert_eq!(
            fs::metadata(at(own)).unwrap().uid(),
            nobody.uid.as_raw(),
            "{own:?}"
        );
    }
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let uid = nobody.uid.to_string();
    assert!(
        status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n")),
        "{status}"
    );
    process.terminate();

    config("no-such-account");
    assert_eq!(call(&["test.ping"]).0, Some(67));
    let done = Command::new(halite_program("halite-minion"))
        .arg("-c")
        .arg(home.config_dir())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(67));
}

//! Daemons as systemd would run them: by what their units say.

use crate::deb::root::Root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use testing::process::Process;
use testing::{LONG, halite_program, wait_until};

/// A daemon in a Debian root.
pub struct Daemon {
    name: &'static str,
    process: Process,
}

impl Daemon {
    /// Starts what `ExecStart` of the installed unit says, under its account and after `ExecStartPre` as root, and waits until it
    /// has notified that it is ready.
    pub fn start(root: &Root, name: &'static str) -> Daemon {
        assert_eq!(option(root, name, "Type"), "notify");
        let before = option(root, name, "ExecStartPre");
        if let Some(before) = before.strip_prefix('+') {
            root.run(&before.split_whitespace().collect::<Vec<_>>());
        }
        let (user, exec) = (option(root, name, "User"), option(root, name, "ExecStart"));
        let mut words: Vec<&str> = Vec::new();
        if !user.is_empty() {
            words.extend([
                "setpriv",
                "--init-groups",
                "--reuid",
                &user,
                "--regid",
                &user,
            ]);
        }
        words.extend(exec.split_whitespace());
        let place = root.path("run/notify");
        let _ = std::fs::remove_file(&place);
        let socket = UnixDatagram::bind(&place).expect("a socket in the root");
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).expect("it is ours");
        socket.set_read_timeout(Some(LONG)).expect("a time");
        let mut command = root.command(&words);
        command.env("NOTIFY_SOCKET", "/run/notify");
        let log = root.path(&format!("tmp/{name}.log"));
        let mut process = Process::start(name, &mut command, &log);
        let mut said = [0u8; 4096];
        loop {
            let got = socket.recv(&mut said);
            process.must_live();
            let got = got.unwrap_or_else(|e| panic!("{name} does not get ready: {e}"));
            if String::from_utf8_lossy(&said[..got])
                .lines()
                .any(|line| line == "READY=1")
            {
                break;
            }
        }
        // Nobody reads any more, so nobody is to write.
        std::fs::remove_file(&place).expect("it is there");
        Daemon { name, process }
    }

    /// Checks the account of the main process.
    pub fn runs_as(&self, root: &Root, account: &str) {
        let passwd = root.read("etc/passwd");
        let line = passwd
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{account}:x:")));
        let uid = line.and_then(|line| line.split(':').next());
        let uid = uid.unwrap_or_else(|| panic!("no account {account}"));
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let uids: Vec<&str> = uids.expect("a line").split_whitespace().collect();
        assert!(uids.iter().all(|own| *own == uid), "{account}: {uids:?}");
    }

    /// What systemd does at a restart, which is what an upgrade of the package asks for.
    pub fn restart(&mut self, root: &Root) {
        assert_eq!(option(root, self.name, "KillMode"), "process");
        let signal = match option(root, self.name, "RestartKillSignal").as_str() {
            "" => Signal::SIGTERM,
            name => Signal::from_str(name).expect("a signal"),
        };
        self.stop(signal);
        *self = Daemon::start(root, self.name);
    }

    /// Ends the main process, and waits for its end.
    pub fn stop(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.process.id()), signal).expect("it is a child of ours");
        wait_until(&format!("the end of {}", self.name), || {
            self.process.status().is_some()
        });
        let status = self.process.status().expect("it has ended");
        assert!(status.success(), "{}: {status}", self.name);
    }
}

/// The value of an option of an installed unit; an empty text without one.
fn option(root: &Root, name: &str, key: &str) -> String {
    let text = root.read(&format!("lib/systemd/system/{name}.service"));
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_default().to_owned()
}

/// What `systemd-analyze security` may say of a unit at most, in tenths.
const MOST_EXPOSED: u32 = 24;

/// Units of the minions, whose jobs manage the host.
const UNCONFINED: [&str; 2] = ["halite-minion.service", "halite-sysinspect-minion.service"];

/// Checks what systemd says of the sandboxes of the units; `dir` is for copies.
pub fn check_exposure(dir: &Path) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let units = std::fs::read_dir(top.join("packaging/systemd")).expect("units");
    let mut confined: Vec<PathBuf> = units.flatten().map(|entry| entry.path()).collect();
    confined.retain(|path| !UNCONFINED.iter().any(|name| path.ends_with(name)));
    assert!(confined.len() >= 4);
    // With this drop-in a minion is confined too.
    let minion = top.join("packaging/systemd").join(UNCONFINED[0]);
    let read = |path: &Path| std::fs::read_to_string(path).expect("a text");
    let text = read(&minion) + &read(&top.join("docs/samples/report-only.conf"));
    confined.push(dir.join(UNCONFINED[0]));
    std::fs::write(dir.join(UNCONFINED[0]), text).expect("a copy");
    for path in confined {
        let said = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(format!("--threshold={MOST_EXPOSED}"))
            .arg(&path)
            .output()
            .expect("systemd-analyze runs");
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(
            said.status.success() && text.contains("Overall exposure level"),
            "{}: {text}",
            path.display()
        );
    }
}

/// Has systemd look at the units of the source, with the programs where they will be.
pub fn check_units(root: &Path) {
    let units = root.join("lib/systemd/system");
    for dir in [&units, &root.join("usr/bin"), &root.join("bin")] {
        std::fs::create_dir_all(dir).expect("a directory");
    }
    let copied = Command::new("cp")
        .args(["-a", "/lib/systemd/system/."])
        .arg(&units)
        .status();
    assert!(copied.expect("cp runs").success());
    std::fs::copy("/bin/true", root.join("bin/kill")).expect("a program");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/systemd"))
        .expect("units")
        .flatten()
    {
        let name = entry.file_name().into_string().expect("a plain name");
        std::fs::copy(entry.path(), units.join(&name)).expect("a copy");
        let program = name.strip_suffix(".service").expect("a service");
        assert!(
            halite_program(program).exists(),
            "{name} is for no program of ours"
        );
        std::fs::copy("/bin/true", root.join("usr/bin").join(program)).expect("a copy");
        names.push(name);
    }
    for name in names {
        let said = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(format!("--root={}", root.display()))
            .arg(&name)
            .output()
            .expect("systemd-analyze runs");
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(
            said.status.success() && !text.contains(&name),
            "{name}: {}\n{text}",
            said.status
        );
    }
}

//! The RPM packages on a machine of their own, with systemd as its first process and rpm as its package manager: installed,
//! used, upgraded under a job, erased, installed again. The programs are those of this build.

mod root;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::machine::Machine;
use testing::{halite_program, short_dir, wait_for, wait_until};

/// The version that is upgraded, older than any.
const OLD: &str = "0.0.1";
/// What an administrator of a master and a minion on one host installs.
const INSTALLED: [&str; 4] = ["common", "master", "minion", "cli"];
/// What the minion is told.
const MINION: &str = "id: web1\nmaster: 127.0.0.1\nacceptance_wait_time: 1\n";

/// Runs a program that must succeed, and returns what it prints.
fn run(command: &mut Command) -> String {
    let done = command.output();
    let done = done.unwrap_or_else(|e| panic!("{command:?} does not run: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}\n{}",
        done.status,
        text(&done.stdout),
        text(&done.stderr)
    );
    text(&done.stdout)
}

/// The programs of this build without debug information, which takes the time of packing.
fn programs(dir: &Path) -> PathBuf {
    let stripped = dir.join("programs");
    fs::create_dir(&stripped).unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin")).unwrap() {
        let name = entry.unwrap().path();
        let name = name.file_stem().unwrap().to_str().unwrap();
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(stripped.join(name));
        run(strip.arg(halite_program(name)));
    }
    stripped
}

/// Packages of a version, below the machine's root.
fn build(root: &Path, programs: &Path, version: Option<&str>) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/package");
    let mut package = Command::new(script);
    package.args(["rpm", "--binaries"]).arg(programs);
    package.arg("--out").arg(root.join("packages"));
    if let Some(version) = version {
        package.args(["--version", version]);
    }
    package.env("HALITE_RPM_PAYLOAD", "w1.zstdio");
    run(&mut package);
}

/// Calls rpm on packages of halite in one version.
fn rpm(machine: &Machine, action: &str, names: &[&str], version: &str) -> String {
    let files = names.iter().map(|name| {
        let kind = if ["common", "salt-compat"].contains(name) {
            "noarch"
        } else {
            "$(uname -m)"
        };
        format!(" /packages/halite-{name}-{version}-1.{kind}.rpm")
    });
    machine.shell(&format!("rpm {action}{}", files.collect::<String>()))
}

/// A property of a unit.
fn property(machine: &Machine, unit: &str, name: &str) -> String {
    let said = machine.run(&["systemctl", "show", "--value", "-p", name, unit]);
    said.trim().to_owned()
}

/// Whether the minion answers; jobs are asked for again until the minion hears them.
fn wait_for_ping(machine: &Machine, command: &str) {
    wait_until("the minion answers", || {
        let said = machine.output(&[command, "-t", "2", "--out", "txt", "web1", "test.ping"]);
        said.stdout == b"web1: True\n"
    });
}

fn start(machine: &Machine) {
    machine.shell("systemctl enable halite-master halite-minion");
    machine.shell("systemctl start halite-master && systemctl start --no-block halite-minion");
}

#[test]
fn packages_are_installed_upgraded_and_erased() {
    if let Some(why) = Machine::impossible() {
        eprintln!("skipped: {why}");
        return;
    }
    for program in ["rpmbuild", "dpkg-query", "strip"] {
        if Command::new(program).arg("--version").output().is_err() {
            eprintln!("skipped: {program} is not installed; `scripts/test` installs it on Debian");
            return;
        }
    }
    let new = env!("CARGO_PKG_VERSION");
    let dir = short_dir();
    let root = root::make(dir.path());
    let programs = programs(dir.path());
    build(&root, &programs, Some(OLD));
    build(&root, &programs, None);
    let machine = Machine::boot(&root);

    install(&machine);
    upgrade_under_a_job(&machine, new);
    names_of_salt(&machine, new);
    erase(&machine);
    // Nothing was lost: keys and configuration are taken up again.
    rpm(&machine, "-i", &INSTALLED, new);
    machine.shell("mv /etc/halite/master.rpmsave /etc/halite/master && mv /etc/halite/minion.rpmsave /etc/halite/minion");
    start(&machine);
    wait_for_ping(&machine, "halite");
    // All packages are installed beside each other, and verify.
    let others = [
        "api",
        "federation-broker",
        "runtime",
        "swarm",
        "syndic",
        "sysinspect-minion",
    ];
    rpm(&machine, "-i", &others, new);
    for name in others {
        machine.run(&["rpm", "-V", &format!("halite-{name}")]);
    }
    for account in ["halite-api", "halite-federation-broker", "halite-runtime"] {
        machine.run(&["getent", "passwd", account]);
    }
}

fn install(machine: &Machine) {
    rpm(machine, "-i", &INSTALLED, OLD);
    for name in INSTALLED {
        // Modes, owners and contents are those of the package.
        machine.run(&["rpm", "-V", &format!("halite-{name}")]);
    }
    for unit in ["halite-master", "halite-minion"] {
        assert_eq!(property(machine, unit, "UnitFileState"), "disabled");
        assert_eq!(property(machine, unit, "ActiveState"), "inactive");
    }
    machine.shell(&format!("printf '{MINION}' >>/etc/halite/minion"));
    machine.shell("echo '# ours' >>/etc/halite/master");
    start(machine);
    wait_until("the key of the minion waits", || {
        machine
            .run(&["halite-key", "-l", "un", "--out", "txt"])
            .contains("web1")
    });
    machine.run(&["halite-key", "-y", "-a", "web1"]);
    wait_for_ping(machine, "halite");
    let pid = property(machine, "halite-master", "MainPID");
    let roles = machine.run(&["ps", "-o", "user=", "-p", &pid, "--ppid", &pid]);
    assert!(
        !roles.contains("root"),
        "the master is no longer root: {roles}"
    );
    assert_eq!(property(machine, "halite-minion", "ActiveState"), "active");
}

fn upgrade_under_a_job(machine: &Machine, new: &str) {
    let said = machine.run(&[
        "halite",
        "--async",
        "web1",
        "cmd.run",
        "touch /srv/begun; until [ -e /srv/go ]; do sleep 0.1; done; echo came through",
    ]);
    let jid = said.trim().rsplit(' ').next().unwrap().to_owned();
    wait_until("the job runs", || {
        machine
            .output(&["test", "-e", "/srv/begun"])
            .status
            .success()
    });
    let units = ["halite-master", "halite-minion"];
    let before = units.map(|unit| property(machine, unit, "MainPID"));
    rpm(machine, "-U", &INSTALLED, new);
    for (unit, before) in units.iter().zip(before) {
        assert_ne!(
            property(machine, unit, "MainPID"),
            before,
            "{unit} was started anew"
        );
    }
    let installed = machine.run(&["rpm", "-q", "--qf", "%{version}", "halite-minion"]);
    assert_eq!(installed, new);
    assert!(
        machine
            .shell("tail -n 1 /etc/halite/master")
            .contains("# ours")
    );
    wait_for_ping(machine, "halite");
    machine.run(&["touch", "/srv/go"]);
    wait_for("the job's result", || {
        let said = machine.run(&["halite-run", "jobs.lookup_jid", &jid]);
        said.contains("came through").then_some(())
    });
    assert_eq!(machine.shell("find /etc/halite -name '*.rpm*'"), "");
}

fn names_of_salt(machine: &Machine, new: &str) {
    rpm(machine, "-i", &["salt-compat"], new);
    wait_for_ping(machine, "salt");
    assert!(machine.run(&["salt-key", "-L"]).contains("web1"));
}

/// What is left is what the administrator and the fleet have made.
const LEFT: [&str; 4] = [
    "/etc/halite",
    "/var/cache/halite",
    "/var/log/halite",
    "/packages",
];

fn erase(machine: &Machine) {
    machine.shell("rpm -e $(rpm -qa 'halite-*')");
    let running = machine.output(&["pgrep", "-f", "halite"]);
    assert_eq!(String::from_utf8_lossy(&running.stdout), "");
    let found = machine.shell("find / -xdev -iname '*halite*'; find /run -iname '*halite*'");
    let strange: Vec<&str> = found
        .lines()
        .filter(|path| !LEFT.iter().any(|place| path.starts_with(place)))
        .collect();
    assert_eq!(strange, [""; 0]);
    assert_eq!(
        machine.run(&["systemctl", "--failed", "--quiet"]).trim(),
        ""
    );
    let left = machine.shell("cd /etc/halite && find . -type f | sort");
    let left: Vec<&str> = left.lines().collect();
    assert_eq!(
        left,
        [
            "./master.rpmsave",
            "./minion.rpmsave",
            "./minion_id",
            "./pki/master/.keys.lock",
            "./pki/master/master.noise",
            "./pki/master/master.pem",
            "./pki/master/master.pub",
            "./pki/master/minions/web1",
            "./pki/minion/minion.noise",
            "./pki/minion/minion.pem",
            "./pki/minion/minion.pub",
            "./pki/minion/minion_master.noise",
            "./pki/minion/minion_master.pub",
            "./pki/minion/minion_master.session",
        ]
    );
}

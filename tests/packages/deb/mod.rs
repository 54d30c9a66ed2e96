//! The Debian packages as `scripts/package deb` makes them: what lintian says, whether units and profile can be loaded, and one life of a host in a clean
//! Debian root: install, start, accept, ping, upgrade with a job under way, remove, install again, purge; and one with systemd as its
//! first process, on this release of Debian and on a later one.
//!
//! Needs root and Debian's `debootstrap`, `debhelper` and `lintian`; says so and passes where they are not to be had.

mod booted;
mod daemon;
mod packages;
mod root;

use daemon::Daemon;
use nix::sys::signal::Signal;
use packages::{NEW, OLD, Packages};
use root::{Root, lacking};
use std::process::Command;
use testing::machine::Machine;
use testing::ports::Ports;
use testing::{short_dir, wait_for, wait_until};

#[test]
fn lintian_is_content() {
    if lacking(&["dh", "dpkg-buildpackage", "lintian"]) {
        return;
    }
    let built = Packages::get(NEW);
    let said = Command::new("lintian")
        .args([
            "--profile",
            "debian",
            "--allow-root",
            "--fail-on",
            "error,warning",
            "--tag-display-limit",
            "0",
        ])
        .arg(built.changes())
        .output()
        .expect("lintian runs");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{}\n{text}", said.status);
    assert!(!text.contains("unused-override"), "{text}");
}

#[test]
fn units_can_be_loaded() {
    if lacking(&["systemd-analyze"]) {
        return;
    }
    let dir = short_dir();
    daemon::check_units(dir.path());
}

#[test]
fn units_are_confined() {
    if lacking(&["systemd-analyze"]) {
        return;
    }
    daemon::check_exposure(short_dir().path());
}

#[test]
fn the_profile_can_be_loaded() {
    if lacking(&["apparmor_parser"]) {
        return;
    }
    let profile = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/packaging/apparmor/usr.bin.halite-master"
    );
    // Compiled, but not given to the kernel.
    let said = Command::new("apparmor_parser")
        .args(["--skip-kernel-load", "--skip-cache", profile])
        .output()
        .expect("apparmor_parser runs");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{}\n{text}", said.status);
}

/// What it takes to make packages, and a Debian root for them.
const NEEDED: [&str; 5] = [
    "dh",
    "dpkg-buildpackage",
    "debootstrap",
    "unshare",
    "apt-get",
];

/// A release of Debian later than the oldest that packages are made on.
const LATER: &str = "trixie";

#[test]
fn systemd_runs_a_host() {
    if can_boot() {
        booted::live(&root::own_release());
    }
}

/// Packages made here are for the release after this one too.
#[test]
fn systemd_runs_a_host_of_a_later_release() {
    if !can_boot() {
        return;
    }
    if root::own_release() == LATER {
        eprintln!("skipped: this host has {LATER} itself");
        return;
    }
    booted::live(LATER);
}

/// Whether packages can be made here and a machine booted for them; says so if not.
fn can_boot() -> bool {
    if lacking(&NEEDED) {
        return false;
    }
    let impossible = Machine::impossible();
    if let Some(why) = impossible {
        eprintln!("skipped: {why}");
    }
    impossible.is_none()
}

#[test]
fn one_life_of_a_host() {
    if lacking(&NEEDED) || root::not_root() {
        return;
    }
    let (old, new) = (Packages::get(OLD), Packages::get(NEW));
    let root = Root::new(new);
    let before = root.state();

    root.install(old);
    modes(&root);
    let ports = Ports::hold(2);
    configure(&root, &ports);
    ports.release();
    let mut master = Daemon::start(&root, "halite-master");
    master.runs_as(&root, "halite");
    let mut minion = Daemon::start(&root, "halite-minion");
    wait_until("the key of m1 waits", || {
        root.run(&["salt-key", "-l", "un"]).contains("m1")
    });
    root.run(&["halite-key", "-y", "-a", "m1"]);
    wait_until("m1 answers", || answers(&root));
    assert_eq!(
        root.run(&["halite-master", "--version"]).trim(),
        root.run(&["salt-master", "--version"]).trim()
    );

    // It ends by itself, whatever becomes of this test.
    let command = "for n in $(seq 3000); do [ ! -e /go ] || { echo kept; exit; }; sleep 0.1; done";
    let said = root.run(&["halite", "--async", "m1", "cmd.run", command]);
    let jid = said
        .split_whitespace()
        .find(|word| word.len() == 20 && word.bytes().all(|b| b.is_ascii_digit()));
    let jid = jid.unwrap_or_else(|| panic!("no jid in {said}")).to_owned();
    wait_until("the job runs", || {
        root.run(&["halite", "m1", "saltutil.find_job", &jid])
            .contains(&jid)
    });

    root.write("etc/halite/minion", |text| {
        text + "# of the administrator\n"
    });
    root.install(new);
    minion.restart(&root);
    master.restart(&root);
    assert!(
        root.read("etc/halite/minion")
            .ends_with("# of the administrator\n")
    );
    wait_until("m1 answers after the upgrade", || answers(&root));
    // The directory is the master's, but not what root writes there.
    for (path, owner) in [
        ("master", "halite"),
        ("audit", "halite"),
        ("minion", "root"),
    ] {
        let is = root.run(&["stat", "-c", "%U", &format!("/var/log/halite/{path}")]);
        assert_eq!(is.trim(), owner, "{path}");
    }
    assert!(
        root.run(&["halite", "m1", "saltutil.find_job", &jid])
            .contains(&jid),
        "the job goes on"
    );
    root.write("go", |_| String::new());
    let kept = wait_for("the result of the job", || {
        let said = root.run(&["halite-run", "jobs.lookup_jid", &jid]);
        said.contains("m1").then_some(said)
    });
    assert!(kept.contains("kept"), "{kept}");
    std::fs::remove_file(root.path("go")).expect("the file is there");

    // Who removes keeps options and keys.
    minion.stop(Signal::SIGTERM);
    master.stop(Signal::SIGTERM);
    root.remove(new);
    for path in [
        "etc/halite/minion",
        "etc/halite/master",
        "etc/halite/pki/master/minions/m1",
        "etc/halite/pki/minion/minion.pem",
    ] {
        assert!(root.path(path).exists(), "{path}");
    }
    assert!(!root.path("usr/bin/halite-master").exists());
    root.install(new);
    let mut master = Daemon::start(&root, "halite-master");
    let mut minion = Daemon::start(&root, "halite-minion");
    wait_until("m1 answers with its old key", || answers(&root));
    minion.stop(Signal::SIGTERM);
    master.stop(Signal::SIGTERM);

    root.purge(new);
    let after = root.state();
    let left: Vec<&String> = after.difference(&before).collect();
    let lost: Vec<&String> = before.difference(&after).collect();
    assert!(
        left.is_empty() && lost.is_empty(),
        "left: {left:#?}\nlost: {lost:#?}"
    );
}

fn answers(root: &Root) -> bool {
    root.try_run(&["salt", "--out", "txt", "-t", "3", "m1", "test.ping"])
        .is_ok_and(|said| said.contains("m1: True"))
}

/// What holds secrets is for the accounts of the daemons alone.
fn modes(root: &Root) {
    for (path, wanted) in [
        ("etc/halite/master", "640 root:halite"),
        ("etc/halite/master.d", "750 root:halite"),
        ("etc/halite/minion", "640 root:root"),
        ("etc/halite/runtime", "640 root:halite-runtime"),
        (
            "etc/halite/federation-broker",
            "640 root:halite-federation-broker",
        ),
        ("etc/halite/pki/master", "700 halite:halite"),
        ("etc/halite/pki/minion", "700 root:root"),
        ("var/log/halite", "750 root:root"),
        (
            "var/lib/halite/modules",
            "700 halite-runtime:halite-runtime",
        ),
    ] {
        let is = root.run(&["stat", "-c", "%a %U:%G", &format!("/{path}")]);
        assert_eq!(is.trim(), wanted, "{path}");
    }
}

fn configure(root: &Root, ports: &Ports) {
    let numbers = ports.numbers();
    let (publish, ret) = (numbers[0], numbers[1]);
    root.write("etc/halite/master.d/test.conf", |_| {
        format!(
            "interface: 127.0.0.1\npublish_port: {publish}\nret_port: {ret}\nmetrics_address: ''\n"
        )
    });
    root.write("etc/halite/minion.d/test.conf", |_| {
        format!("id: m1\nmaster: 127.0.0.1\npublish_port: {publish}\nmaster_port: {ret}\nacceptance_wait_time: 1\n")
    });
    // The master's account reads it as well.
    root.run(&["chgrp", "halite", "/etc/halite/master.d/test.conf"]);
    let said = root.run(&["halite-master", "--check-config"]);
    assert!(said.contains("the configuration is usable"), "{said}");
}

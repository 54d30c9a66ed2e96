//! A Debian host with systemd as its first process: its units are run by systemd itself, as packages have it.

use crate::deb::packages::{NEW, OLD, Packages};
use crate::deb::root::Root;
use testing::machine::Machine;
use testing::{wait_for, wait_until};

/// Units that serve as soon as their package is there.
const UNITS: [&str; 2] = ["halite-master", "halite-minion"];

/// One life of a host with a release of Debian, from the installation to the purge.
pub fn live(release: &str) {
    let (old, new) = (Packages::get(OLD), Packages::get(NEW));
    let root = Root::bootable(new, release);
    let machine = Machine::boot(root.top());

    dpkg(&machine, "-i", root.bring(old));
    for unit in UNITS {
        assert_eq!(property(&machine, unit, "ActiveState"), "active", "{unit}");
        assert_eq!(property(&machine, unit, "UnitFileState"), "enabled");
    }
    let waiting = property(&machine, "halite-runtime", "ActiveState");
    assert_eq!(waiting, "inactive", "it has nobody to serve yet");
    machine.shell(
        "printf 'id: m1\\nmaster: 127.0.0.1\\nacceptance_wait_time: 1\\n' >/etc/halite/minion.d/m1.conf && \
         systemctl restart halite-minion",
    );
    wait_until("the key of m1 waits", || {
        machine.run(&["halite-key", "-l", "un"]).contains("m1")
    });
    machine.run(&["halite-key", "-y", "-a", "m1"]);
    wait_until("m1 answers", || answers(&machine));
    let pid = property(&machine, "halite-master", "MainPID");
    let roles = machine.run(&["ps", "-o", "user=", "-p", &pid, "--ppid", &pid]);
    assert!(!roles.contains("root"), "the roles of the master: {roles}");

    others(&machine);
    upgrade_under_a_job(&machine, &root, new);
    logs(&machine);

    // What is hung is ended and started anew, and the fleet is served again.
    let pid = property(&machine, "halite-master", "MainPID");
    machine.run(&[
        "systemctl",
        "kill",
        "--kill-who=main",
        "--signal=ABRT",
        "halite-master",
    ]);
    wait_until("systemd starts the master again", || {
        let now = property(&machine, "halite-master", "MainPID");
        now != "0" && now != pid
    });
    wait_until("m1 answers the new master", || answers(&machine));

    // Directives that this systemd does not know, or knows better names for.
    let said = machine.run(&["journalctl", "--quiet", "--output", "cat", "_PID=1"]);
    assert!(said.contains("halite-master"), "{said}");
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("/halite-") && line.contains(".service:"))
        .collect();
    assert_eq!(complaints, Vec::<&str>::new());

    dpkg(&machine, "-P", new.names());
    let running = machine.output(&["pgrep", "-f", "^(/usr/bin/)?halite"]);
    assert_eq!(String::from_utf8_lossy(&running.stdout), "");
    assert_eq!(
        machine.run(&["systemctl", "--failed", "--quiet"]).trim(),
        ""
    );
    let left = machine.shell(
        "find /etc /usr /var /run -xdev -iname '*halite*' ! -path '/var/log/journal/*' ! -path '/var/lib/dpkg/*'; \
         find /run -iname '*halite*'",
    );
    assert_eq!(left, "");
}

/// The daemons that need a configuration first work in their sandboxes too.
fn others(machine: &Machine) {
    let nowhere = "['127.0.0.1:1']";
    for (unit, dir, config, account) in [
        (
            "halite-federation-broker",
            "federation-broker.d",
            format!(
                "cluster: c\\nfederation_servers: {nowhere}\\ncollective_servers: {nowhere}\\n"
            ),
            "halite-federation-broker",
        ),
        (
            "halite-runtime",
            "runtime.d",
            "servers: ['127.0.0.1:1']\\n".to_owned(),
            "halite-runtime",
        ),
        (
            "halite-api",
            "master.d",
            "api: {user: halite-api, host: 127.0.0.1, port: 8000, disable_ssl: true}\\n".to_owned(),
            "halite-api",
        ),
        (
            "halite-syndic",
            "master.d",
            "syndic_master: 127.0.0.2\\nsyndic_master_port: 1\\n".to_owned(),
            "root",
        ),
    ] {
        machine.shell(&format!(
            "printf \"{config}\" >/etc/halite/{dir}/t.conf && chmod a+r /etc/halite/{dir}/t.conf && systemctl start {unit}"
        ));
        assert_eq!(property(machine, unit, "ActiveState"), "active", "{unit}");
        let pid = property(machine, unit, "MainPID");
        let user = machine.run(&["ps", "-o", "user:40=", "-p", &pid]);
        assert_eq!(user.trim(), account, "{unit}");
        machine.shell(&format!(
            "systemctl stop {unit} && rm /etc/halite/{dir}/t.conf"
        ));
    }
    for unit in ["master", "api", "federation-broker", "runtime", "syndic"] {
        let unit = format!("halite-{unit}");
        machine.run(&[
            "systemd-analyze",
            "security",
            "--no-pager",
            "--threshold=24",
            &unit,
        ]);
    }
}

fn upgrade_under_a_job(machine: &Machine, root: &Root, new: &Packages) {
    let command = "touch /srv/begun; until [ -e /srv/go ]; do sleep 0.1; done; echo came through";
    let said = machine.run(&["halite", "--async", "m1", "cmd.run", command]);
    let jid = said
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    wait_until("the job runs", || {
        machine
            .output(&["test", "-e", "/srv/begun"])
            .status
            .success()
    });
    let before = UNITS.map(|unit| property(machine, unit, "MainPID"));
    dpkg(machine, "-i", root.bring(new));
    for (unit, before) in UNITS.iter().zip(before) {
        assert_eq!(property(machine, unit, "ActiveState"), "active", "{unit}");
        let now = property(machine, unit, "MainPID");
        assert_ne!(now, before, "{unit} was started anew");
    }
    let installed = machine.run(&["dpkg-query", "-W", "-f", "${Version}", "halite-minion"]);
    assert!(installed.starts_with(NEW) && !installed.starts_with(OLD));
    wait_until("m1 answers after the upgrade", || answers(machine));
    machine.run(&["touch", "/srv/go"]);
    wait_for("the result of the job", || {
        let said = machine.run(&["halite-run", "jobs.lookup_jid", &jid]);
        said.contains("came through").then_some(())
    });
}

/// A reload opens the log files anew, so that logrotate may move them away.
fn logs(machine: &Machine) {
    machine.shell(
        "mv /var/log/halite/master /var/log/halite/master.1 && systemctl reload halite-master",
    );
    wait_until("there is a new log file", || {
        machine
            .output(&["test", "-e", "/var/log/halite/master"])
            .status
            .success()
    });
}

fn dpkg(machine: &Machine, how: &str, what: Vec<String>) {
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", how];
    words.extend(what.iter().map(String::as_str));
    machine.run(&words);
}

/// A property of a unit.
fn property(machine: &Machine, unit: &str, name: &str) -> String {
    let said = machine.run(&["systemctl", "show", "--value", "-p", name, unit]);
    said.trim().to_owned()
}

fn answers(machine: &Machine) -> bool {
    let said = machine.output(&["halite", "--out", "txt", "-t", "3", "m1", "test.ping"]);
    String::from_utf8_lossy(&said.stdout).contains("m1: True")
}

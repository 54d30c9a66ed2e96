//! The same commands through stock `salt-key` and `halite-key`, on two copies of one directory.
//!
//! `HALITE_SALT_3006` and `HALITE_SALT_3008` name virtual environments with stock Salt of that
//! series; without them nothing is compared.
//!
//! Differences beyond those declared below, for which stock is no model: names beside
//! `-A`, `-R` and `-D` are a wrong command line (64), so that nobody who mistakes `-A` for `-a`
//! trusts every minion that waits; what cannot be done ends with status 1, not 0; 3008.3 fails
//! after `--gen-keys` and prints no fingerprint; files whose names are no minion ids, and links,
//! are not keys (3006 lists them).

use crate::key::fixture::{Fixture, Ran};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A command, and how the two may differ on it.
struct Case {
    args: &'static [&'static str],
    input: &'static str,
    /// A change of the directory before the command.
    prepare: fn(&Fixture),
    /// What is put in place of stock's output and tree before they are compared.
    declare: fn(&str, &mut Ran, &mut Tree),
}

type Tree = BTreeMap<String, String>;

fn plain(args: &'static [&'static str]) -> Case {
    Case {
        args,
        input: "",
        prepare: |_| {},
        declare: |_, _, _| {},
    }
}

fn asked(args: &'static [&'static str], input: &'static str) -> Case {
    Case {
        input,
        ..plain(args)
    }
}

fn broken_key(fixture: &Fixture) {
    fixture.put_key("minions_pre", "broken", "no key\n");
}

fn two_states(fixture: &Fixture) {
    let key = crate::key::fixture::pairs().minion_public;
    for state in ["minions", "minions_rejected"] {
        fixture.put_key(state, "two", &key);
    }
}

/// Without a declared difference.
#[rustfmt::skip]
const EQUAL: &[&[&str]] = &[
    &[], &["-L"], &["--list-all"], &["-l", "all"], &["-l", "acc"], &["-l", "accepted"], &["-l", "pre"],
    &["-l", "un"], &["-l", "unaccepted"], &["-l", "rej"], &["-l", "den"], &["--list=denied"],
    &["-L", "--out", "json"], &["-L", "--out=yaml"], &["-L", "--output", "raw"], &["-L", "--out", "pprint"],
    &["-L", "--out", "nested"], &["-L", "--out", "txt"], &["-l", "un", "--out", "highstate"],
    &["-L", "--out", "json", "--out-indent", "-1"], &["-L", "--out", "json", "--out-indent=2"],
    &["-L", "--force-color"], &["-L", "--no-color"], &["-L", "--force-colour", "--no-colour"],
    &["-L", "--out-file", "ROOT/out"], &["-L", "--out", "nonsense"], &["-l", "den", "--out", "json", "-q"],
    &["-p", "web1"], &["-p", "m*,web1", "--out", "json"], &["-P"], &["--print-all", "--out", "yaml"], &["-p", "nobody"],
    &["-f", "web1"], &["-f", "*1"], &["-f", "master.pub"], &["-F"], &["-F", "--out", "json"], &["-F", "--force-color"],
    &["-f", "nobody"], &["-f", "[mw]?b1"],
    &["-a", "web1", "-y"], &["-a", "web*", "-y"], &["-a", "web1,db1", "--yes"], &["-A", "-y"], &["-y", "-A"], &["-ya", "db1"],
    &["-a", "nobody", "-y"], &["-a", "m1", "-y"], &["-a", "x", "--include-rejected"],
    &["-a", "x", "--include-rejected", "--include-denied"], &["-a", "x", "--include-all"],
    &["-a", "x", "--include-accepted"], &["-r", "x", "--include-accepted", "--include-denied"],
    &["-r", "x", "--include-all"], &["-d", "x"], &["-d", "x", "--include-all", "--include-accepted"],
    &["-a", "bad1", "--include-rejected", "-y"], &["-a", "bad1", "--include-all", "-y"],
    &["-a", "den1", "--include-denied", "-y"], &["-a", "*", "--include-rejected", "--include-denied", "-y"],
    &["-a", "web1", "-y", "--out", "json"],
    &["-r", "web1", "-y"], &["-R", "-y"], &["-r", "m1", "--include-accepted", "-y"],
    &["-r", "*", "--include-all", "--include-denied", "-y"], &["-r", "web1", "-y", "--rotate-aes-key", "False"],
    &["-d", "nobody", "-y"], &["-d", "db1", "-y"], &["-d", "db1,Web*", "-y", "--rotate-aes-key=false"],
    &["-d", "den1", "-y"], &["-l", "nonsense"], &["--keysize", "1024"], &["--nonsense"], &["--out"],
    &["--gen-signature"], &["--gen-signature", "--priv", "ROOT/none"], &["--gen-signature", "--pub", "ROOT/none"],
    &["-L", "-a", "web1", "-y"], &["-a", ""], &["--accept-a", "-y"], &["-F", "master"],
];

/// Commands that read the master's own key: 3008 moves it to the name of the host first and
/// leaves links; halite leaves it where it is.
#[rustfmt::skip]
const SIGNATURES: &[&[&str]] = &[
    &["--gen-signature", "--priv", "ROOT/etc/salt/pki/master/master.pem"],
    &["--gen-signature", "--priv", "ROOT/etc/salt/pki/master/master.pem", "--pub", "ROOT/etc/salt/pki/master/minions/m1"],
    &["--gen-signature", "--priv", "ROOT/etc/salt/pki/master/master.pem", "--signature-path", "ROOT/salt"],
];

fn master_key_moves(series: &str, _: &mut Ran, tree: &mut Tree) {
    if series == "3008" {
        let pki = "etc/salt/pki/master";
        for end in ["pem", "pub"] {
            let mut moved = tree.remove(&format!("{pki}/hub.{end}")).unwrap();
            if end == "pub" {
                moved = moved.replacen("400", "644", 1);
            }
            tree.insert(format!("{pki}/master.{end}"), moved);
        }
    }
}

fn cases() -> Vec<Case> {
    let mut out: Vec<Case> = EQUAL.iter().map(|args| plain(args)).collect();
    out.extend(SIGNATURES.iter().map(|args| Case {
        declare: master_key_moves,
        ..plain(args)
    }));
    for args in [&["-a", "web1"] as &[&str], &["-r", "web1"], &["-d", "web1"]] {
        for answer in ["y\n", "Y\n", "yes", "\n", "n\n", "no\n", " y\n", "x\n"] {
            out.push(asked(args, answer));
        }
        // No answer at all.
        out.push(Case {
            declare: |_, stock, _| stock.status = 1,
            ..plain(args)
        });
    }
    // A key that is none: 3008 tells of its acceptance although it stays where it is.
    let declare = |series: &str, stock: &mut Ran, _: &mut Tree| {
        if series == "3008" {
            stock.stdout = stock
                .stdout
                .replace("Key for minion broken accepted.\n", "");
        }
    };
    for args in [&["-a", "broken", "-y"] as &[&str], &["-A", "-y"]] {
        out.push(Case {
            prepare: broken_key,
            declare,
            ..plain(args)
        });
    }
    // 3008 refuses to reject it; halite moves it as 3006 does, since an operator must be able
    // to refuse anything.
    out.push(Case {
        prepare: broken_key,
        declare: |series, _, tree| {
            if series == "3008" {
                let key = tree
                    .remove("etc/salt/pki/master/minions_pre/broken")
                    .unwrap();
                tree.insert("etc/salt/pki/master/minions_rejected/broken".into(), key);
            }
        },
        ..plain(&["-r", "broken", "-y"])
    });
    out.push(Case {
        prepare: broken_key,
        ..plain(&["-d", "broken", "-y"])
    });
    // An id that several globs match: stock tells of it once per glob.
    out.push(Case {
        declare: |_, stock, _| {
            stock.stdout = stock.stdout.replace("m1\nm1\n", "m1\n");
            let line = "Key for minion m1 deleted.\n";
            stock.stdout = stock.stdout.replace(&line.repeat(2), line);
        },
        ..plain(&["-d", "m1,m*", "-y"])
    });
    // An id in two states: 3006 shows each file; halite shows, as 3008, the one the master heeds.
    out.push(Case {
        prepare: two_states,
        declare: |series, stock, _| {
            if series == "3006" {
                stock.stdout = stock.stdout.replacen("two\n", "", 1);
            }
        },
        ..plain(&["-L"])
    });
    out.push(Case {
        prepare: two_states,
        ..plain(&["-a", "two", "--include-rejected", "-y"])
    });
    out.push(Case {
        prepare: two_states,
        declare: |series, stock, _| {
            if series == "3006" {
                stock.stdout = stock.stdout.replace("Accepted Keys:\ntwo\n", "");
                stock.stdout = stock
                    .stdout
                    .replacen("Key for minion two deleted.\n", "", 1);
            }
        },
        ..plain(&["-d", "two", "-y"])
    });
    for args in [
        &["-d", "m1", "-y"] as &[&str],
        &["-D", "-y"],
        &["-d", "m1", "-y", "--preserve-minions", "True"],
        &["-d", "m*", "-y", "--preserve-minions=false"],
    ] {
        out.push(plain(args));
    }
    out
}

/// Session keys go at once with halite; stock leaves them until they expire. Stock keeps no
/// audit log.
fn drop_own(tree: &mut Tree) {
    let own = |path: &str| {
        path.starts_with("var/cache/salt/master/sessions/")
            || path.starts_with("var/log")
            || path == "etc/salt/pki/master/.keys.lock"
    };
    tree.retain(|path, _| !own(path));
}

/// Tests among which the cases of a series are divided.
const PARTS: usize = 3;

/// Compares each third case from `part` on: in one test, they take as long as all others together.
fn compare(series: &str, part: usize) {
    let variable = format!("HALITE_SALT_{series}");
    let Some(venv) = std::env::var_os(&variable) else {
        eprintln!("{variable} is not set: nothing is compared with stock {series}");
        return;
    };
    let stock = PathBuf::from(venv).join("bin/salt-key");
    let mut faults = Vec::new();
    let cases = cases();
    for case in cases.iter().skip(part).step_by(PARTS) {
        let (theirs, ours) = (Fixture::new(series), Fixture::new(series));
        (case.prepare)(&theirs);
        (case.prepare)(&ours);
        let mut expected = theirs.run_program(&stock, case.args, case.input);
        let finger = case.args.iter().any(|a| ["-f", "-F"].contains(a));
        let mut args = case.args.to_vec();
        if finger && series == "3008" {
            // 3008 hashes the armour too, which fits neither key.finger nor master_finger.
            args.extend(["--finger-form", "text"]);
        }
        let got = ours.answer(&args, case.input);
        let mut tree = theirs.tree();
        (case.declare)(series, &mut expected, &mut tree);
        let mut our_tree = ours.tree();
        drop_own(&mut tree);
        drop_own(&mut our_tree);
        if (got.status, &got.stdout) != (expected.status, &expected.stdout) {
            faults.push(format!(
                "{:?} {:?}\n-- stock {}:\n{}{}\n-- halite {}:\n{}{}",
                case.args,
                case.input,
                expected.status,
                expected.stdout,
                expected.stderr,
                got.status,
                got.stdout,
                got.stderr
            ));
        }
        let paths = tree
            .keys()
            .chain(our_tree.keys())
            .collect::<std::collections::BTreeSet<_>>();
        for path in paths {
            if tree.get(path) != our_tree.get(path) {
                faults.push(format!(
                    "{:?} {:?} {path}\n-- stock: {:?}\n-- halite: {:?}",
                    case.args,
                    case.input,
                    tree.get(path),
                    our_tree.get(path)
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults in {} commands:\n{}",
        faults.len(),
        cases.len(),
        faults.join("\n")
    );
}

#[test]
fn as_stock_3006_first_part() {
    compare("3006", 0);
}

#[test]
fn as_stock_3006_second_part() {
    compare("3006", 1);
}

#[test]
fn as_stock_3006_third_part() {
    compare("3006", 2);
}

#[test]
fn as_stock_3008_first_part() {
    compare("3008", 0);
}

#[test]
fn as_stock_3008_second_part() {
    compare("3008", 1);
}

#[test]
fn as_stock_3008_third_part() {
    compare("3008", 2);
}

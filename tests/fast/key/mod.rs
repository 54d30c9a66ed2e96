//! `halite-key`, run as a program on directories of its own. What it is expected to print was
//! printed by stock `salt-key` for the same directory; `key/stock.rs` asks stock again.

mod changes;
mod fixture;
mod making;
mod stock;

use fixture::{Fixture, pairs};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Fingerprints of the minion's public key: the lines inside, and the whole text as the master stores it.
const BODY: &str = "0d:f9:56:7b:a2:cf:1a:2b:07:ff:79:57:ff:a5:ec:df:58:0b:d7:a3:ad:91:2f:9f:11:13:db:6e:f3:db:15:be";
const TEXT: &str = "80:d1:83:af:2e:22:23:5f:6c:65:2f:de:7a:cf:1d:62:87:b1:7d:07:75:44:aa:50:1b:e5:a6:53:c3:33:a5:2c";

const ALL: &str = "Accepted Keys:\nZed\nm1\nm2\nDenied Keys:\nden1\nUnaccepted Keys:\nWeb2\ndb1\nweb1\nRejected Keys:\nbad1\n";

#[track_caller]
fn prints(fixture: &Fixture, args: &[&str], expected: &str) {
    let ran = fixture.run(args);
    assert_eq!(ran.stdout, expected, "{args:?}: {}", ran.stderr);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{args:?}");
}

#[track_caller]
fn wrong(fixture: &Fixture, args: &[&str], words: &str) {
    let ran = fixture.run(args);
    assert_eq!(ran.status, 64, "{args:?}");
    assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

fn mode(path: std::path::PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn lists_by_state() {
    let f = Fixture::new("3008");
    for args in [
        &[] as &[&str],
        &["-L"],
        &["--list-all"],
        &["-l", "all"],
        &["-F", "-L"],
    ] {
        prints(&f, args, ALL);
    }
    for word in ["acc", "accepted", "accurate"] {
        prints(&f, &["-l", word], "Accepted Keys:\nZed\nm1\nm2\n");
    }
    for word in ["pre", "un", "unaccepted", "unsigned"] {
        prints(&f, &["--list", word], "Unaccepted Keys:\nWeb2\ndb1\nweb1\n");
    }
    prints(&f, &["-l", "rejected"], "Rejected Keys:\nbad1\n");
    prints(&f, &["-l", "den"], "Denied Keys:\nden1\n");
}

#[test]
fn every_outputter() {
    let (old, new) = (Fixture::new("3006"), Fixture::new("3008"));
    prints(
        &old,
        &["-L", "--out", "raw"],
        "{'minions': ['m1', 'm2', 'Zed'], 'minions_pre': ['db1', 'web1', 'Web2'], 'minions_rejected': ['bad1'], 'minions_denied': ['den1']}\n",
    );
    prints(
        &new,
        &["-L", "--out", "raw"],
        "{'minions_pre': ['db1', 'web1', 'Web2'], 'minions_rejected': ['bad1'], 'minions': ['m1', 'm2', 'Zed'], 'minions_denied': ['den1']}\n",
    );
    prints(
        &new,
        &["-l", "den", "--out=json"],
        "{\n    \"minions_denied\": [\n        \"den1\"\n    ]\n}\n",
    );
    prints(
        &new,
        &["-l", "acc", "--output", "json", "--out-indent=-1"],
        "{\"minions\": [\"m1\", \"m2\", \"Zed\"]}\n",
    );
    prints(
        &new,
        &["-l", "acc", "--out", "yaml"],
        "minions:\n- m1\n- m2\n- Zed\n",
    );
    prints(
        &new,
        &["-l", "rej", "--out", "nested"],
        "minions_rejected:\n    - bad1\n",
    );
    prints(
        &new,
        &["-l", "rej", "--out", "highstate"],
        "Rejected Keys:\nbad1\n",
    );
    prints(
        &new,
        &["-l", "rej", "--force-color"],
        "\x1b[0;1;34mRejected Keys:\x1b[0;0m\n\x1b[0;34mbad1\x1b[0;0m\n",
    );
    prints(&new, &["-l", "rej", "--no-color"], "Rejected Keys:\nbad1\n");
    let ran = new.run(&["-l", "rej", "--out", "nonsense"]);
    assert_eq!(
        (ran.stdout.as_str(), ran.status),
        ("minions_rejected:\n    - bad1\n", 0)
    );
    assert!(ran.stderr.contains("Invalid outputter nonsense specified"));
}

#[test]
fn results_go_to_a_file() {
    let f = Fixture::new("3008");
    let out = || fs::read_to_string(f.path("out")).unwrap();
    prints(&f, &["-l", "den", "--out-file", "ROOT/out"], "");
    prints(
        &f,
        &["-l", "rej", "--out-file", "ROOT/out", "--out-file-append"],
        "",
    );
    assert_eq!(out(), "Denied Keys:\nden1\nRejected Keys:\nbad1\n");
    prints(&f, &["-l", "rej", "--output-file", "ROOT/out"], "");
    assert_eq!(out(), "Rejected Keys:\nbad1\n");
    wrong(&f, &["-L", "--out-file", "ROOT/none/out"], "none/out");
}

#[test]
fn prints_keys() {
    let f = Fixture::new("3008");
    let key = pairs().minion_public;
    prints(
        &f,
        &["-p", "web1"],
        &format!("Unaccepted Keys:\nweb1:  {key}"),
    );
    prints(
        &f,
        &["-p", "m1,bad*", "--out", "raw"],
        &format!(
            "{{'minions_rejected': {{'bad1': {0:?}}}, 'minions': {{'m1': {0:?}}}}}\n",
            key
        )
        .replace('"', "'"),
    );
    prints(&f, &["-p", "nobody"], "");
    assert_eq!(f.run(&["-P"]).stdout.matches("BEGIN PUBLIC KEY").count(), 8);
}

#[test]
fn fingerprints_of_both_eras() {
    let f = Fixture::new("3008");
    prints(
        &f,
        &["-f", "web1"],
        &format!("Unaccepted Keys:\nweb1:  {BODY}\n"),
    );
    f.put_key("minions_pre", "web1", pairs().minion_public.trim_end());
    prints(
        &f,
        &["-f", "web1"],
        &format!("Unaccepted Keys:\nweb1:  {BODY}\n"),
    );
    prints(
        &f,
        &["-f", "web1", "--finger-form", "text"],
        &format!("Unaccepted Keys:\nweb1:  {TEXT}\n"),
    );
    let master = "7c:3c:cd:74:26:1f:2c:be:6e:53:af:25:c1:61:5a:db:d7:a5:7c:49:f7:c5:93:88:bb:62:af:5c:ec:69:a4:09";
    prints(
        &f,
        &["-f", "master.pub"],
        &format!("Local Keys:\nmaster.pub:  {master}\n"),
    );
    let all = f.run(&["-F"]).stdout;
    assert!(
        all.starts_with("Local Keys:\nmaster.pem:  ")
            && all.contains(&format!("Accepted Keys:\nZed:  {BODY}\n"))
    );
    f.config("hash_type: md5");
    prints(
        &f,
        &["-f", "web1"],
        "Unaccepted Keys:\nweb1:  fe:66:76:36:c1:1d:ee:91:8a:8b:d9:e1:3b:36:a4:a2\n",
    );
}

#[test]
fn wrong_command_lines() {
    let f = Fixture::new("3008");
    wrong(
        &f,
        &["-l", "nonsense"],
        "'nonsense' is not a valid argument to '--list'",
    );
    for word in ["pre", "un", "accepted", "rej", "denied", "all"] {
        wrong(&f, &["-l", "foo"], &format!(" {word}"));
    }
    wrong(&f, &["--state-verbose", "maybe"], "True or False");
    wrong(
        &f,
        &["--keysize", "1024"],
        "The minimum value for keysize is 2048",
    );
    wrong(
        &f,
        &["--keysize", "99999"],
        "The maximum value for keysize is 8192",
    );
    wrong(&f, &["--rotate-aes-key", "maybe"], "True or False");
    wrong(&f, &["--nonsense"], "--nonsense");
    wrong(&f, &["-a"], "--accept");
    wrong(&f, &["-A", "web1"], "--accept-all");
    wrong(&f, &["-D", "-y", "web1"], "--delete-all");
    wrong(&f, &["--finger-form", "md5"], "body");
    wrong(&f, &["--log-level", "loud"], "warning");
    assert_eq!(f.run(&["--user", "no-such-account", "-L"]).status, 67);
    assert_eq!(f.ids("minions_pre").len(), 3);
    prints(
        &f,
        &[
            "-u",
            &nix::unistd::User::from_uid(nix::unistd::geteuid())
                .unwrap()
                .unwrap()
                .name,
            "-l",
            "rej",
        ],
        "Rejected Keys:\nbad1\n",
    );
    prints(
        &f,
        &["--hard-crash", "-q", "--state-output", "terse", "-l", "rej"],
        "Rejected Keys:\nbad1\n",
    );
    let help = f.run(&["--help"]);
    assert_eq!((help.status, help.stdout.contains("--eauth")), (0, true));
}

#[test]
fn an_empty_directory() {
    let f = Fixture::new("3008");
    fs::remove_dir_all(f.path("etc")).unwrap();
    fs::remove_dir_all(f.path("var")).unwrap();
    prints(
        &f,
        &["-L"],
        "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n",
    );
    prints(&f, &["-F"], "");
    prints(
        &f,
        &["-A", "-y"],
        "The key glob '*' does not match any unaccepted keys.\n",
    );
}

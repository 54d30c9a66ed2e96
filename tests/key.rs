//! `halite-key`, run as a program on directories of its own. What it is expected to print was
//! printed by stock `salt-key` for the same directory; `key/stock.rs` asks stock again.

#[path = "key/fixture.rs"]
mod fixture;
#[path = "key/stock.rs"]
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
fn accepts() {
    let f = Fixture::new("3008");
    prints(
        &f,
        &["-a", "web1", "-y"],
        "The following keys are going to be accepted:\nUnaccepted Keys:\nweb1\nKey for minion web1 accepted.\n",
    );
    assert_eq!(
        (f.ids("minions"), f.ids("minions_pre")),
        (
            vec!["Zed".into(), "m1".into(), "m2".into(), "web1".to_owned()],
            vec!["Web2".into(), "db1".to_owned()]
        )
    );
    prints(
        &f,
        &["-a", "web1", "-y"],
        "The key glob 'web1' does not match any unaccepted keys.\n",
    );
    prints(
        &f,
        &[
            "-a",
            "bad*,den*",
            "-y",
            "--include-rejected",
            "--include-denied",
        ],
        "The following keys are going to be accepted:\nDenied Keys:\nden1\nRejected Keys:\nbad1\nKey for minion bad1 accepted.\nKey for minion den1 accepted.\n",
    );
    prints(
        &f,
        &["-A", "-y"],
        "The following keys are going to be accepted:\nUnaccepted Keys:\nWeb2\ndb1\nKey for minion db1 accepted.\nKey for minion Web2 accepted.\n",
    );
    assert!(f.ids("minions_pre").is_empty() && f.ids("minions_denied").is_empty());
    assert_eq!(
        fs::read_to_string(f.pki("minions/web1")).unwrap(),
        pairs().minion_public
    );
    assert!(!f.cache(".dfn").exists(), "nobody was refused");
    assert!(f.cache("grains/ghost.p").exists());
}

#[test]
fn asks_first() {
    let f = Fixture::new("3006");
    let shown =
        "The following keys are going to be accepted:\nUnaccepted Keys:\ndb1\nProceed? [n/Y] ";
    let ran = f.answer(&["-a", "db1"], "n\n");
    assert_eq!((ran.stdout.as_str(), ran.status), (shown, 0));
    let ran = f.answer(&["-a", "db1"], "");
    assert_eq!((ran.stdout.as_str(), ran.status), (shown, 0));
    assert!(
        ran.stderr.contains("Error: EOF when reading a line")
            && ran.stderr.contains("nothing was changed")
    );
    assert!(f.pki("minions_pre/db1").exists());
    let ran = f.answer(&["-a", "db1"], "\n");
    assert_eq!(ran.stdout, format!("{shown}Key for minion db1 accepted.\n"));
    let ran = f.answer(&["-d", "db1"], "\n");
    assert_eq!(
        ran.stdout,
        "The following keys are going to be deleted:\nAccepted Keys:\ndb1\nProceed? [N/y] "
    );
    assert!(f.pki("minions/db1").exists());
    f.answer(&["-d", "db1"], "Yes\n");
    assert!(!f.pki("minions/db1").exists());
}

#[test]
fn rejects_and_rotates() {
    for (series, content) in [("3006", ""), ("3007", "hub_master"), ("3008", "hub_master")] {
        let f = Fixture::new(series);
        prints(
            &f,
            &["-r", "m1", "--include-accepted", "-y"],
            "The following keys are going to be rejected:\nAccepted Keys:\nm1\nKey for minion m1 rejected.\n",
        );
        assert_eq!(f.ids("minions_rejected"), ["bad1", "m1"]);
        assert_eq!(fs::read_to_string(f.cache(".dfn")).unwrap(), content);
        assert_eq!(mode(f.cache(".dfn")), 0o400);
        assert!(
            !f.cache("sessions/m1").exists(),
            "the session ends with the trust"
        );
        assert!(
            f.cache(if series == "3008" {
                "grains/m1.p"
            } else {
                "minions/m1/data.p"
            })
            .exists()
        );
        assert!(!f.cache("grains/ghost.p").exists() && !f.cache("minions/ghost").exists());
        prints(
            &f,
            &["-r", "nobody", "--include-all", "-y"],
            "The key glob 'nobody' does not match any unaccepted or accepted keys.\n",
        );
        assert_eq!(f.run(&["-R", "-y"]).status, 0);
        assert!(f.ids("minions_pre").is_empty());
    }
}

#[test]
fn deletes_with_caches_unless_preserved() {
    let f = Fixture::new("3008");
    f.write("var/cache/salt/master/mine/m1.p", "x");
    prints(
        &f,
        &["-d", "m1,den1", "-y", "--rotate-aes-key", "False"],
        "The following keys are going to be deleted:\nAccepted Keys:\nm1\nDenied Keys:\nden1\nKey for minion m1 deleted.\nKey for minion den1 deleted.\n",
    );
    for gone in [
        "grains/m1.p",
        "pillar/m1.p",
        "pillar/m1:dev.p",
        "mine/m1.p",
        "sessions/m1",
        "grains/ghost.p",
        ".dfn",
    ] {
        assert!(!f.cache(gone).exists(), "{gone}");
    }
    assert!(f.cache("grains/bad1.p").exists());

    let f = Fixture::new("3008");
    f.run(&["-d", "m1", "-y", "--preserve-minions=True"]);
    assert!(
        f.cache("grains/m1.p").exists()
            && !f.cache("grains/ghost.p").exists()
            && !f.cache("sessions/m1").exists()
    );
    assert!(f.cache(".dfn").exists());

    let f = Fixture::new("3008");
    f.config("preserve_minion_cache: true\nrotate_aes_key: false");
    assert_eq!(f.run(&["-D", "-y"]).status, 0);
    assert!(f.cache("grains/ghost.p").exists() && !f.cache(".dfn").exists());
    assert_eq!(
        f.run(&["-L"]).stdout,
        "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n"
    );
}

#[test]
fn a_denied_key_says_nothing_about_the_session() {
    let f = Fixture::new("3008");
    f.put_key("minions_denied", "m1", &pairs().master_public);
    f.run(&["-d", "m1,nobody", "-y"]);
    assert!(!f.cache("sessions/m1").exists());

    let f = Fixture::new("3008");
    f.put_key("minions_denied", "other", &pairs().master_public);
    f.put_key("minions", "other", &pairs().minion_public);
    f.write("var/cache/salt/master/sessions/other", "x");
    f.run(&["-d", "den1", "-y"]);
    assert!(f.cache("sessions/other").exists());
}

#[test]
fn an_id_is_in_one_state_after_a_change() {
    let f = Fixture::new("3008");
    let key = pairs().minion_public;
    f.put_key("minions", "two", &key);
    f.put_key("minions_rejected", "two", &key);
    prints(&f, &["-l", "acc"], "Accepted Keys:\nZed\nm1\nm2\n");
    f.run(&["-d", "two", "-y"]);
    assert!(
        !f.pki("minions/two").exists(),
        "a deleted rejection must not leave an acceptance"
    );
    f.put_key("minions_denied", "m1", &key);
    f.run(&["-r", "m1", "--include-denied", "-y"]);
    assert!(!f.pki("minions/m1").exists() && f.pki("minions_rejected/m1").exists());
}

#[test]
fn keys_that_are_none() {
    let f = Fixture::new("3008");
    f.put_key("minions_pre", "broken", "no key\n");
    let ran = f.run(&["-a", "broken", "-y"]);
    assert_eq!(
        ran.stdout,
        "The following keys are going to be accepted:\nUnaccepted Keys:\nbroken\n"
    );
    assert_eq!(
        (ran.stderr.as_str(), ran.status),
        ("Unable to accept invalid key for broken.\n", 0)
    );
    assert!(f.pki("minions_pre/broken").exists());
    f.run(&["-r", "broken", "-y"]);
    assert!(f.pki("minions_rejected/broken").exists());
}

#[test]
fn what_is_no_id_is_left_alone() {
    let f = Fixture::new("3008");
    f.put_key("minions_pre", ".key_cache", "x");
    f.put_key("minions_pre", "back\\slash", "x");
    fs::create_dir(f.pki("minions_pre/folder")).unwrap();
    std::os::unix::fs::symlink(f.pki("master.pem"), f.pki("minions_pre/link")).unwrap();
    prints(&f, &["-l", "un"], "Unaccepted Keys:\nWeb2\ndb1\nweb1\n");
    for args in [["-A", "-y"], ["-R", "-y"], ["-D", "-y"]] {
        assert_eq!(f.run(&args).status, 0);
    }
    assert_eq!(
        f.ids("minions_pre"),
        [".key_cache", "back\\slash", "folder", "link"]
    );
    for name in ["../../master.pem", "/etc/passwd", "..", "", "\n"] {
        f.run(&["-d", name, "-y"]);
        f.run(&["-a", name, "-y"]);
    }
    assert!(f.pki("master.pem").exists() && f.pki("master.pub").exists());
}

#[test]
fn makes_key_pairs() {
    for (series, public_mode) in [("3006", 0o644), ("3008", 0o400)] {
        let f = Fixture::new(series);
        let ran = f.run(&[
            "--gen-keys",
            "new",
            "--gen-keys-dir",
            "ROOT/made",
            "--keysize",
            "2048",
        ]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(
            ran.stdout.starts_with("return:\n    ") && ran.stdout.len() == 12 + 95 + 1,
            "{}",
            ran.stdout
        );
        assert_eq!(
            (mode(f.path("made/new.pem")), mode(f.path("made/new.pub"))),
            (0o400, public_mode)
        );
        assert!(
            fs::read_to_string(f.path("made/new.pem"))
                .unwrap()
                .starts_with("-----BEGIN RSA PRIVATE KEY-----\n")
        );
        // A second time: the same pair.
        prints(
            &f,
            &["--gen-keys=new", "--gen-keys-dir=ROOT/made"],
            &ran.stdout,
        );
        assert_eq!(
            f.run(&["--gen-keys", "../up", "--gen-keys-dir", "ROOT/made"])
                .status,
            1
        );
    }
}

#[test]
fn signs_the_masters_key() {
    for (series, name, expected_mode) in [
        ("3006", "master_pubkey_signature", 0o644),
        ("3008", "hub_master_pubkey_signature", 0o400),
    ] {
        let f = Fixture::new(series);
        prints(
            &f,
            &["--gen-signature"],
            "return:\n    No usable private-key found\n",
        );
        prints(
            &f,
            &["--gen-signature", "--pub", "ROOT/none"],
            "return:\n    Public-key ROOT/none does not exist\n",
        );
        prints(
            &f,
            &["--gen-signature", "--priv", "ROOT/none"],
            "return:\n    Private-key ROOT/none does not exist\n",
        );
        prints(
            &f,
            &["--gen-signature", "--auto-create"],
            "return:\n    True\n",
        );
        assert_eq!(mode(f.pki(name)), expected_mode);
        assert_eq!(mode(f.pki("master_sign.pem")), 0o400);
        let ran = f.run(&["--gen-signature"]);
        assert_eq!(ran.stdout, "return:\n    False\n", "the file is there");
        assert!(ran.stderr.contains("remove it first"));
        use base64::Engine;
        use halite::crypto::{PublicKey, Signing, clean_key};
        let text = fs::read_to_string(f.pki(name)).unwrap();
        let signature = base64::engine::general_purpose::STANDARD
            .decode(text.trim())
            .unwrap();
        let signer =
            PublicKey::from_pem(&fs::read_to_string(f.pki("master_sign.pub")).unwrap()).unwrap();
        assert!(signer.verify(
            Signing::default(),
            clean_key(&pairs().master_public).as_bytes(),
            &signature
        ));
        f.config("master_pubkey_signature: own_name");
        prints(
            &f,
            &["--gen-signature", "--signature-path", "ROOT/there"],
            "return:\n    True\n",
        );
        assert_eq!(fs::read_to_string(f.path("there/own_name")).unwrap(), text);
    }
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
        "The maximum value for keysize is",
    );
    wrong(&f, &["--rotate-aes-key", "maybe"], "True or False");
    wrong(&f, &["--nonsense"], "--nonsense");
    wrong(&f, &["--eauth", "pam"], "--eauth");
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
    assert_eq!((help.status, help.stdout.contains("eauth")), (0, false));
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

#[test]
fn events_in_the_form_of_the_series() {
    use std::io::Read;
    for (series, accept, reject) in [
        ("3006", "accept", "reject"),
        ("3008", "accepted", "rejected"),
    ] {
        let f = Fixture::new(series);
        fs::create_dir_all(f.path("run")).unwrap();
        let bus =
            std::os::unix::net::UnixListener::bind(f.path("run/master_event_pull.ipc")).unwrap();
        // What was fired is there when the command has ended.
        bus.set_nonblocking(true).unwrap();
        f.run(&["-a", "web1", "-y"]);
        f.run(&["-r", "db1", "-y"]);
        f.run(&["-d", "den1", "-y"]);
        for (id, act, with_key) in [
            ("web1", accept, true),
            ("db1", reject, true),
            ("den1", "delete", false),
        ] {
            let mut octets = Vec::new();
            bus.accept().unwrap().0.read_to_end(&mut octets).unwrap();
            let mut decoder = halite_ipc::Decoder::new(1 << 20);
            decoder.push(&octets);
            let event =
                halite_ipc::Event::from_body(decoder.next_body().unwrap().unwrap()).unwrap();
            let data: serde_json::Value = event.decode().unwrap();
            assert_eq!(
                (
                    event.tag.as_str(),
                    &data["result"],
                    &data["act"],
                    &data["id"]
                ),
                ("salt/key", &true.into(), &act.into(), &id.into())
            );
            let key = data.get("pub").map(|k| k.as_str().unwrap().to_owned());
            let expected =
                (with_key && series == "3008").then(|| pairs().minion_public.trim_end().to_owned());
            assert_eq!(key, expected);
            assert_eq!(
                data["_stamp"].as_str().unwrap().ends_with("+00:00"),
                series == "3008"
            );
        }
    }
}

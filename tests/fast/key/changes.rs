//! Accepting, rejecting and deleting.

use super::*;

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
    assert_eq!((ran.stdout.as_str(), ran.status), (shown, 1));
    assert!(
        ran.stderr.contains("EOF when reading a line")
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

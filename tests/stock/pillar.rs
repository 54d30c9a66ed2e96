//! The pillar from end to end: stock and halite minions at a halite master, targets by pillar,
//! and an external pillar that takes its time.

use std::fs;
use std::time::{Duration, Instant};
use testing::{Master, Minion, Stock, wait_for, wait_until};

const FILES: &[(&str, &str)] = &[
    ("top.sls", "base:\n  '*': [common]\n  'm3006': [old]\n"),
    (
        "common.sls",
        "id: {{ grains['id'] }}\nkernel: {{ grains.kernel }}\nlist: [1, 2.5, yes, ~]\n\
         deep: {b: 1, a: {{ salt['grains.get']('nodename', '') | length > 0 }}}\nrole: web\n",
    ),
    ("old.sls", "include: [common]\nrole: db\nold: true\n"),
];

fn config(master: &std::path::Path, extra: &str) -> String {
    fs::create_dir_all(master).unwrap();
    for (name, text) in FILES {
        fs::write(master.join(name), text).unwrap();
    }
    format!(
        "auto_accept: true\npillar_roots: {{base: ['{}']}}\n{extra}",
        master.display()
    )
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn up(cli: &testing::Cli, ids: &[&str]) {
    wait_until("all minions answer", || {
        let ran = cli.run(
            "salt",
            &["-t", "5", "--out", "json", "--static", "*", "test.ping"],
        );
        ids.iter()
            .all(|id| ran.out.contains(&format!("\"{id}\": true")))
    });
}

#[test]
fn minions_of_all_kinds() {
    let (Some(old), Some(new)) = (Stock::find("3006"), Stock::find("3008")) else {
        return;
    };
    let roots = tempfile::tempdir().unwrap();
    let master = Master::halite(&config(&roots.path().join("p"), "salt_series: '3008'"));
    let _minions = [
        Minion::stock(&old, &master, "m3006", ""),
        Minion::stock(&new, &master, "m3008", ""),
        Minion::halite(&master, "mhalite", ""),
    ];
    let cli = master.halite_cli();
    up(&cli, &["m3006", "m3008", "mhalite"]);
    let ran = cli.run(
        "salt",
        &["-t", "60", "--out", "json", "--static", "*", "pillar.raw"],
    );
    let all = value(&ran.out);
    for (id, role) in [("m3006", "db"), ("m3008", "web"), ("mhalite", "web")] {
        let pillar = &all[id];
        assert_eq!(pillar["id"], id, "{ran:?}");
        assert_eq!(
            (&pillar["kernel"], &pillar["role"]),
            (&"Linux".into(), &role.into())
        );
        assert_eq!(pillar["list"], serde_json::json!([1, 2.5, true, null]));
        assert_eq!(pillar["deep"], serde_json::json!({"b": 1, "a": true}));
        assert_eq!(pillar.get("_errors"), None);
    }
    let ran = cli.run(
        "salt",
        &[
            "-t",
            "60",
            "--out",
            "json",
            "--static",
            "-I",
            "role:web",
            "pillar.raw",
            "id",
        ],
    );
    assert_eq!(
        value(&ran.out),
        serde_json::json!({"m3008": "m3008", "mhalite": "mhalite"}),
        "{ran:?}"
    );
    let ran = cli.run(
        "salt",
        &[
            "-t",
            "60",
            "--out",
            "json",
            "--static",
            "-J",
            "role:d.",
            "test.ping",
        ],
    );
    assert_eq!(
        value(&ran.out),
        serde_json::json!({"m3006": true}),
        "{ran:?}"
    );
    let given = [
        "-t",
        "60",
        "--out",
        "json",
        "--static",
        "m3006",
        "pillar.items",
        "pillar={\"given\": 1}",
    ];
    let ran = cli.run("salt", &given);
    assert_eq!(value(&ran.out)["m3006"]["given"], 1, "{ran:?}");
    let ran = cli.run(
        "salt-run",
        &["--out", "json", "pillar.show_pillar", "m3006"],
    );
    assert_eq!(value(&ran.out)["old"], true, "{ran:?}");
    let ran = cli.run("salt-run", &["--out", "json", "pillar.show_top"]);
    assert_eq!(
        value(&ran.out)["base"]["m3006"],
        serde_json::json!(["old"]),
        "{ran:?}"
    );
}

/// Pillars wait for a slow external pillar; pings, that is sign-ins and returns, do not.
#[test]
fn a_slow_external_pillar_holds_up_nothing_else() {
    let roots = tempfile::tempdir().unwrap();
    let slow = roots.path().join("slow");
    let extra = format!(
        "request_timeout: 20\next_pillar:\n  - cmd_yaml: 'if test -e {}; then sleep 600; fi; echo \"ext: 1\"'\n",
        slow.display()
    );
    let master = Master::halite(&config(&roots.path().join("p"), &extra));
    let _first = Minion::halite(&master, "first", "");
    let cli = master.halite_cli();
    up(&cli, &["first"]);
    fs::write(&slow, "").unwrap();
    // It signs in, asks for its pillar, and waits for that.
    let _waits = Minion::halite(&master, "waits", "");
    wait_for("a command of the external pillar", || {
        let procs = fs::read_dir("/proc").unwrap().flatten();
        let mut lines = procs.filter_map(|p| fs::read_to_string(p.path().join("cmdline")).ok());
        lines.find(|line| line.contains(&*slow.to_string_lossy()) && line.contains("sleep 600"))
    });
    let began = Instant::now();
    for _ in 0..5 {
        let ran = cli.run(
            "salt",
            &[
                "-t",
                "10",
                "--out",
                "json",
                "--static",
                "first",
                "test.ping",
            ],
        );
        assert_eq!(
            value(&ran.out),
            serde_json::json!({"first": true}),
            "{ran:?}"
        );
    }
    let _second = Minion::halite(&master, "second", "");
    wait_until("the second minion signs in", || {
        cli.run("salt-key", &["-l", "acc", "--out", "json"])
            .out
            .contains("second")
    });
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "held up for {:?}",
        began.elapsed()
    );
}

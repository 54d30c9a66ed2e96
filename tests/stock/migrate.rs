//! A fleet moves from a stock master to halite and back; its minions keep their keys.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use testing::cli::{Ran, run};
use testing::{Cli, Master, Minion, Stock, halite_program, wait_for, wait_until};

/// Longest that `halite-migrate` may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(90);

fn migrate(args: &[&str]) -> Ran {
    let mut command = Command::new(halite_program("halite-migrate"));
    command.args(args).env_remove("HALITE_CONFIG_DIR");
    run(command, format!("halite-migrate {}", args.join(" ")), LIMIT)
}

/// Runs it with `--out json`; gives the status and what it printed.
fn told(args: &[&str]) -> (Option<i32>, Value) {
    let ran = migrate(&[args, &["--out", "json"]].concat());
    let value = ran.json().unwrap_or_else(|e| panic!("{e}"));
    (ran.status, value)
}

/// Waits until every one of these minions answers with what was sent.
fn all_echo(cli: &Cli, minions: &[&str], text: &str) {
    let what = format!("{minions:?} answer {}", cli.name);
    wait_until(&what, || {
        let Ok(all) = cli.ask(&["*", "test.echo", text, "-t", "5"]) else {
            return false;
        };
        minions
            .iter()
            .all(|id| all.get(*id).is_some_and(|said| said == text))
    });
}

/// The newest job that echoed a text, with its returns.
fn echoed(cli: &Cli, text: &str) -> BTreeMap<String, Value> {
    wait_for(&format!("{} finds the job of {text}", cli.name), || {
        let jobs = ["jobs.list_jobs", "search_function=test.echo", "--out=json"];
        let jobs = cli.runner(&jobs).json().ok()?;
        let jobs = jobs.as_object()?.iter();
        let of_text = |job: &Value| {
            job["Arguments"]
                .as_array()
                .is_some_and(|a| a.len() == 1 && a[0] == text)
        };
        let (jid, _) = jobs
            .filter(|(_, job)| of_text(job))
            .max_by_key(|(jid, _)| (*jid).clone())?;
        let found = cli
            .runner(&["jobs.lookup_jid", jid, "--out=json"])
            .json()
            .ok()?;
        let found = found.as_object()?.clone();
        (!found.is_empty()).then(|| found.into_iter().collect())
    })
}

/// Every file of keys of some minions.
fn keys_of(minions: &[&Minion]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for minion in minions {
        for name in ["minion.pem", "minion_master.pub"] {
            out.push(std::fs::read(minion.home.pki().join(name)).expect("a minion has its keys"));
        }
    }
    out
}

fn accepted(master: &Master) -> Vec<String> {
    let dir = std::fs::read_dir(master.home.pki().join("minions")).expect("there are keys");
    let names = dir
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn to_directories_of_its_own_and_back() {
    let (Some(old), Some(new)) = (Stock::find("3006"), Stock::find("3008")) else {
        return;
    };
    let mut master = Master::stock(&new, "auto_accept: true\nkeep_jobs_seconds: 7200");
    let a = Minion::stock(&old, &master, "m3006", "");
    let b = Minion::stock(&new, &master, "m3008", "");
    all_echo(&master.stock_cli(&new), &["m3006", "m3008"], "before");
    let salt = master.home.config_dir();
    let salt = salt.to_str().expect("paths are UTF-8");
    let halite = master.home.beside("halite").config_dir();
    let halite = halite.to_str().expect("paths are UTF-8");

    let (status, report) = told(&["check", "-c", salt]);
    assert_eq!(report["counts"]["needs a hand"], 0, "{report:#}");
    assert_eq!(status, Some(0));
    let (status, dry) = told(&["import", "--from", salt, "--to", halite, "--dry-run"]);
    assert_eq!(status, Some(0), "{dry:#}");
    assert_eq!(dry["keys"]["new"]["accepted"], 2);
    assert!(!std::path::Path::new(halite).exists(), "nothing is made");

    master.stop();
    let keys = keys_of(&[&a, &b]);
    let (status, done) = told(&["import", "--from", salt, "--to", halite]);
    assert_eq!(status, Some(0), "{done:#}");
    assert_eq!(done["master_key"], "brought");
    assert_eq!(done["keys"]["new"]["accepted"], 2);
    assert_eq!(done["data"]["minions"], 2, "{done:#}");
    let (_, again) = told(&["import", "--from", salt, "--to", halite]);
    assert_eq!(again["jobs"]["new"], 0, "{again:#}");
    assert_eq!(again["configuration"]["same"], 1);

    let before = accepted(&master);
    master.go_on_as(halite_program("halite-master"), "halite");
    let cli = master.halite_cli();
    all_echo(&cli, &["m3006", "m3008"], "during");
    assert_eq!(
        keys_of(&[&a, &b]),
        keys,
        "no minion has a new key or master"
    );
    assert_eq!(accepted(&master), before);
    let jobs = echoed(&cli, "before");
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    assert_eq!(jobs["m3006"], "before");
    let refused = migrate(&["import", "--from", salt, "--to", halite]);
    assert_eq!(refused.status, Some(2), "{}", refused.describe());
    assert!(refused.err.contains("stop it first"), "{}", refused.err);

    // One more comes while halite is the master.
    let c = Minion::stock(&new, &master, "late", "");
    all_echo(&cli, &["late"], "during");
    master.stop();
    let (status, back) = told(&["export", "-c", halite, "--to", salt]);
    assert_eq!(status, Some(0), "{back:#}");
    assert_eq!(back["keys"]["new"]["accepted"], 1);
    assert_eq!(back["keys"]["same"], 2);
    master.go_on_as(new.program("salt-master"), "salt");
    let cli = master.stock_cli(&new);
    all_echo(&cli, &["late", "m3006", "m3008"], "after");
    assert_eq!(accepted(&master), ["late", "m3006", "m3008"]);
    assert_eq!(keys_of(&[&a, &b]), keys);
    assert_eq!(echoed(&cli, "during")["late"], "during");
    assert_eq!(echoed(&cli, "before").len(), 2);
    drop((a, b, c));
}

#[test]
fn in_the_same_directory_and_back() {
    let Some(old) = Stock::find("3006") else {
        return;
    };
    let mut master = Master::stock(&old, "auto_accept: true\nsalt_series: '3006'");
    let a = Minion::stock(&old, &master, "m1", "");
    all_echo(&master.stock_cli(&old), &["m1"], "before");
    master.stop();
    let keys = keys_of(&[&a]);
    let dir = master.home.config_dir();
    let dir = dir.to_str().expect("paths are UTF-8");
    let refused = migrate(&["import", "--from", dir, "--to", dir]);
    assert_eq!(refused.status, Some(2), "{}", refused.describe());

    master.go_on_as(halite_program("halite-master"), "salt");
    let cli = master.halite_cli();
    all_echo(&cli, &["m1"], "during");
    assert_eq!(echoed(&cli, "before")["m1"], "before");
    let b = Minion::stock(&old, &master, "m2", "");
    all_echo(&cli, &["m1", "m2"], "during");
    let refused = migrate(&["export", "-c", dir, "--to", dir]);
    assert_eq!(refused.status, Some(2), "{}", refused.describe());
    master.stop();
    let (status, back) = told(&["export", "-c", dir, "--to", dir]);
    assert_eq!(status, Some(0), "{back:#}");
    // Where the directory is Salt's, jobs and returns are written for stock as they come.
    assert!(back["jobs"]["same"].as_u64() >= Some(3), "{back:#}");

    master.go_on_as(old.program("salt-master"), "salt");
    let cli = master.stock_cli(&old);
    all_echo(&cli, &["m1", "m2"], "after");
    assert_eq!(keys_of(&[&a]), keys);
    assert_eq!(echoed(&cli, "during")["m2"], "during");
    drop((a, b));
}

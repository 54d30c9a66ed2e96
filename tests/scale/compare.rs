//! `benches/compare --quick`: every row works on halite's master, and on a stock one where there is one; how fast
//! is not looked at. The ceilings are run with little of each.

use std::path::Path;
use std::process::Command;

/// Where the programs of this build lie.
fn programs() -> &'static Path {
    let master = Path::new(env!("CARGO_BIN_EXE_halite-master"));
    master.parent().expect("programs lie in a directory")
}

/// Runs the comparison with small numbers; gives its figures.
fn compare(more: &[&str]) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("figures.json");
    let ran = Command::new("benches/compare")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--quick", "--markdown"])
        .args(more)
        .arg("--programs")
        .arg(programs())
        .arg("--json")
        .arg(&file)
        .output()
        .expect("it can be started");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    // The table is made of what the file has.
    let table = String::from_utf8_lossy(&ran.stdout);
    assert!(table.contains("| first sign-in | CPU ms |"), "{table}");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Figures of a kind of master: each is a number above nothing.
fn rows(figures: &serde_json::Value, kind: &str) -> Vec<String> {
    let rounds = figures["compare"]["rounds"][kind]
        .as_object()
        .expect("its figures");
    for (row, values) in rounds {
        let values = values.as_array().expect("one for each round");
        assert_eq!(values.len(), 1, "{row}");
        assert!(
            values[0].as_f64().is_some_and(|v| v >= 0.0),
            "{row}: {values:?}"
        );
    }
    rounds.keys().cloned().collect()
}

/// Rows of stock masters are those for which a start of one is worth it here: each asks another part of them.
const BOTH: &str = "signin,signin-again,req,job,cli-wall";

#[test]
fn every_row_works_on_halite_and_sizes_are_measured() {
    let figures = compare(&[
        "--only",
        "halite",
        "--parts",
        "compare,sizing,states,transports,python",
    ]);
    // A row without a figure is a failure of the script.
    let found = rows(&figures, "halite");
    assert!(found.len() > 20, "{found:?}");
    // Three figures of five runs without a master, two of those through one.
    assert_eq!(
        figures["states"]["found"].as_object().map(|m| m.len()),
        Some(25)
    );
    assert_eq!(
        figures["python"]["found"].as_object().map(|m| m.len()),
        Some(22)
    );
    let transports = figures["transports"]["found"]
        .as_object()
        .expect("transports");
    let rows = transports
        .values()
        .map(|rows| rows.as_object().map(|m| m.len()));
    assert!(rows.eq([Some(7); 6]), "{transports:?}");
    let line = &figures["sizing"]["lines"][0];
    assert_eq!(line[0], "20", "{figures}");
    // How many cells say that the machine was too slow for them is not looked at.
    assert_eq!(
        line.as_array().map(Vec::len),
        figures["sizing"]["heads"].as_array().map(Vec::len)
    );
}

#[test]
fn both_masters_take_the_same_load() {
    if std::env::var_os("HALITE_SALT_3008").is_none_or(|v| v.is_empty()) {
        eprintln!("skipped: HALITE_SALT_3008 names no virtual environment with Salt");
        return;
    }
    let figures = compare(&["--parts", "compare", "--rows", BOTH]);
    for kind in ["stock", "halite"] {
        let mut found = rows(&figures, kind);
        found.sort_unstable();
        let mut wanted: Vec<&str> = BOTH.split(',').collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{kind}");
    }
}

#[test]
fn the_ceilings_are_measured() {
    let ran = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "test", "--quiet", "--bench", "ceilings", "--", "--quick", "--json",
        ])
        .output()
        .expect("cargo can be started");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let found: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&ran.stdout).unwrap();
    for name in [
        "rsa sign",
        "crypticle seal 300",
        "zmq hop 64",
        "job store append",
    ] {
        assert!(
            found.get(name).is_some_and(serde_json::Value::is_number),
            "{name}: {found:?}"
        );
    }
}

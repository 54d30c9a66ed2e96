//! The corpus of `tests/data/python`: modules, states, grains, utilities and renderers of all the shapes that public trees
//! have, with the outcomes that stock 3006 and 3008 gave (`stock.py`, which also records them anew).

use std::path::Path;
use std::process::Command;

#[test]
fn the_corpus_has_the_same_outcome_as_with_stock() {
    let data = Path::new("tests/data/python");
    let out = tempfile::tempdir().unwrap();
    let done = Command::new("python3")
        .arg(data.join("stock.py"))
        .args([
            "--program",
            env!("CARGO_BIN_EXE_halite-call"),
            "--python",
            "python3",
        ])
        .arg(out.path().join("own.json"))
        .arg("--against")
        .arg(data.join("expected-3008.json"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let lines = said.lines().filter(|line| !line.starts_with("(need not)"));
    let (summary, different): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| line.ends_with(" with differences"));
    assert!(
        done.status.success() && summary.len() == 1 && different.is_empty(),
        "{}\n{}",
        different.join("\n"),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// What halite's own part of Salt's package answers, case by case, is what Salt's answers.
#[test]
fn our_part_of_salts_package_answers_as_salts() {
    let Some(venv) = std::env::var_os("HALITE_SALT_3008").filter(|venv| !venv.is_empty()) else {
        return;
    };
    let shim = Path::new("tests/data/python/shim");
    let run = |python: &Path, args: &[&Path]| {
        let out = Command::new(python).args(args).output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let stock = run(
        &Path::new(&venv).join("bin/python"),
        &[&shim.join("cases.py"), Path::new("--stub")],
    );
    let ours = run(Path::new("python3"), &[&shim.join("run.py")]);
    assert!(stock.lines().count() > 600);
    for (stock, ours) in stock.lines().zip(ours.lines()) {
        assert_eq!(ours, stock);
    }
    assert_eq!(ours.lines().count(), stock.lines().count());
}

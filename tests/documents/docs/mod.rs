//! What the documents name exists, and what they show works.

mod book;
mod samples;
mod stock;

use halite::master::roles::TOPOLOGY;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(top().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn rust_files(dir: PathBuf, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            rust_files(path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Names of the functions under `#[test]` in a file.
fn tests_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            marked = true;
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| marked) {
            found.push(rest.split('(').next().unwrap_or_default().to_owned());
            marked = false;
        }
    }
    found
}

/// Every test: `tests/dir/file.rs name`, or `module::path::tests::name`.
fn all_tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for dir in ["src", "tests", "ipc"] {
        rust_files(top().join(dir), &mut files);
    }
    let mut all = BTreeSet::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path
            .strip_prefix(top())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        for name in tests_in(&text) {
            let full = match shown.strip_prefix("src/") {
                None => format!("{shown} {name}"),
                Some(inside) => {
                    let module = inside.trim_end_matches(".rs").trim_end_matches("/mod");
                    let module = module.replace('/', "::");
                    let inner = !inside.ends_with("tests.rs") && !inside.contains("/tests/");
                    format!("{module}{}::{name}", if inner { "::tests" } else { "" })
                }
            };
            all.insert(full);
        }
    }
    all
}

/// Pieces of a text between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The rows of tables: cells without the first and the last, which are empty.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|l| l.starts_with("| CVE-"));
    lines.map(|l| {
        let cells: Vec<&str> = l.split(" | ").collect();
        cells
    })
}

#[test]
fn tests_named_for_flaws_exist() {
    let all = all_tests();
    let text = read("docs/cve.md");
    let mut missing = Vec::new();
    let mut count = 0;
    for cells in rows(&text) {
        assert_eq!(cells.len(), 3, "flaw, reason, tests: {}", cells[0]);
        let (flaw, last) = (cells[0], cells[2]);
        let named: Vec<&str> = quoted(last).collect();
        if named.is_empty() && !last.trim_start().starts_with("none: ") {
            missing.push(format!("{flaw}: no test, and no reason why"));
        }
        for name in named {
            count += 1;
            if !all.contains(name) {
                missing.push(format!("{flaw}: {name}"));
            }
        }
    }
    assert!(count > 40, "only {count} tests are named");
    assert!(missing.is_empty(), "not there:\n  {}", missing.join("\n  "));
}

/// The table of processes, which `halite-master --topology` prints.
#[test]
fn every_process_is_explained() {
    let text = read("ARCHITECTURE.md");
    for role in TOPOLOGY {
        let row = text
            .lines()
            .find(|l| l.starts_with(&format!("| {} |", role.title)));
        let row = row.unwrap_or_else(|| panic!("no row for {}", role.title));
        for name in role.binds.split(", ").filter(|name| !name.is_empty()) {
            let name = name.trim_start_matches("tcp ");
            assert!(
                row.contains(&format!("`{name}`")),
                "{} binds {name}",
                role.title
            );
        }
    }
    for entry in fs::read_dir(top().join("src")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let known = name == "lib.rs" || text.contains(&format!("`src/{name}`"));
        assert!(known, "the room src/{name} is not explained");
    }
}

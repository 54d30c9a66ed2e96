//! The options of stock's tools, as their `--help` names them.

use super::{program, run};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Columns before which an option stands; behind them it is a word of a text.
const INDENT: usize = 8;

/// The long and short options at the beginnings of the lines of a help text of Python's optparse.
fn options(help: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in help.lines() {
        let text = line.trim_start();
        if line.len() - text.len() > INDENT || !text.starts_with('-') {
            continue;
        }
        for word in text.split("  ").next().unwrap_or_default().split(", ") {
            let name: String = word.split(['=', ' ']).next().unwrap_or_default().to_owned();
            found.insert(name);
        }
    }
    found
}

fn stock_options(tool: &Path) -> BTreeSet<String> {
    let help = Command::new(tool).arg("--help").output().unwrap();
    options(&String::from_utf8_lossy(&help.stdout))
}

/// Whether our command knows an option: it does not say that there is none, nor that it is unexpected where it stands.
fn known(name: &str, option: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    // With the help behind it nothing is done.
    let ran = run(name, dir.path(), &[option, "--help"]);
    let unknown = ["no such option", "unexpected argument"].map(|word| ran.err.contains(word));
    unknown == [false; 2] || ran.err.contains("no such option: --help")
}

#[test]
fn no_option_of_salt_and_salt_key_is_missing() {
    for series in ["3006", "3008"] {
        let Some(venv) = std::env::var_os(format!("HALITE_SALT_{series}")) else {
            eprintln!("skipped: HALITE_SALT_{series} names no virtual environment with Salt");
            continue;
        };
        for tool in ["salt", "salt-key"] {
            let own = tool.replacen("salt", "halite", 1);
            let stock = stock_options(&Path::new(&venv).join("bin").join(tool));
            assert!(stock.len() > 40, "{stock:?}");
            assert!(program(&own).exists());
            let missing: Vec<&String> = stock.iter().filter(|o| !known(&own, o)).collect();
            assert!(
                missing.is_empty(),
                "{own} lacks options of {tool} {series}: {missing:?}"
            );
        }
    }
}

//! Recorded replies of stock to the calls of scenarios, from `tests/data/modules_cases.json`.
//!
//! `HALITE_RECORD=1 scripts/test modules` records them again: stock 3008 runs the files in [`FILES`] twice. A reply that
//! differs the second time, or that contains the name of this host or the date, is not recorded.

use super::play::{Asked, text};
use super::{Scenario, place};
use halite::wire::Map;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Files whose calls give the same results on every host and with every master.
pub const FILES: [&str; 15] = [
    "config", "cp", "data", "defaults", "environ", "file", "hashutil", "http", "match", "mine",
    "pillar", "ret", "slsutil", "temp", "test",
];

/// Functions that are not recorded, since their replies depend on the file system or on other programs.
const EXCLUDED: [&str; 3] = ["file.chattr", "file.lsattr", "file.restorecon"];

fn path() -> PathBuf {
    place().join("../data/modules_cases.json")
}

/// By file and `about` of a scenario: its calls, each with its reply, `null` if that was not recorded.
pub struct Recorded(BTreeMap<String, Vec<(String, Option<String>)>>);

fn name(scenario: &Scenario) -> String {
    format!("{}: {}", scenario.file, scenario.about)
}

impl Recorded {
    pub fn read() -> Recorded {
        let text = std::fs::read_to_string(path()).expect("recorded answers");
        Recorded(serde_json::from_str(&text).expect("recorded answers are JSON"))
    }

    /// Compares the replies of halite's minion to a scenario: how many were compared, and the differences.
    pub fn compare(&self, scenario: &Scenario, found: &[Option<Map>]) -> (usize, Vec<String>) {
        let again = "record it with HALITE_RECORD=1 scripts/test modules";
        let Some(calls) = self.0.get(&name(scenario)) else {
            return (
                0,
                vec![format!("{} is not recorded; {again}", name(scenario))],
            );
        };
        let mut wrong = Vec::new();
        let mut compared = 0;
        if calls.len() != scenario.calls.len() {
            wrong.push(format!(
                "{}: other calls are recorded; {again}",
                name(scenario)
            ));
        }
        for ((call, found), (asked, expected)) in scenario.calls.iter().zip(found).zip(calls) {
            if Asked(call).to_string() != *asked {
                wrong.push(format!(
                    "{}: {asked} is recorded, not {}; {again}",
                    name(scenario),
                    Asked(call)
                ));
                continue;
            }
            let Some(expected) = expected else { continue };
            compared += 1;
            let found = text(found);
            if (found == *expected) == call.differs.is_some() {
                let shown = format!(
                    "{}: {asked}\n  stock  {expected}\n  halite {found}",
                    name(scenario)
                );
                wrong.push(shown);
            }
        }
        (compared, wrong)
    }
}

fn output_of(command: &[&str]) -> String {
    let done = Command::new(command[0]).args(&command[1..]).output();
    let text = done.expect("the command runs").stdout;
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Writes the replies of stock's minion that were the same both times.
pub fn write(played: &[(&Scenario, [Vec<Option<Map>>; 2])]) {
    let [host, year] = [&["hostname"][..], &["date", "+%Y"]].map(output_of);
    let mut all = serde_json::Map::new();
    for (scenario, [one, two]) in played {
        let calls = scenario.calls.iter().zip(one.iter().zip(two));
        let calls = calls.map(|(call, (one, two))| {
            let answer = text(one);
            let own = answer.contains(&host)
                || answer.contains(&year)
                || EXCLUDED.contains(&call.fun.as_str());
            let kept = answer == text(two) && !own;
            json!([Asked(call).to_string(), kept.then_some(answer)])
        });
        all.insert(name(scenario), calls.collect::<Vec<Json>>().into());
    }
    // One call per line.
    let mut out = String::from("{\n");
    for (n, (name, calls)) in all.iter().enumerate() {
        let calls: Vec<String> = calls
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| format!("  {c}"))
            .collect();
        let end = if n + 1 == all.len() { "\n" } else { ",\n" };
        out += &format!("{}: [\n{}\n]{end}", json!(name), calls.join(",\n"));
    }
    std::fs::write(path(), out + "}\n").expect("it can be written");
}

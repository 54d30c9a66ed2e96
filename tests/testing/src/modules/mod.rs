//! Calls of execution functions, written once: `tests/stock/modules.rs` runs those in `calls` on a stock minion
//! and on halite's, `tests/stock/rpm/mod.rs` those in `rpm`, and `tests/documents/generated/mod.rs` generates `docs/modules.md`
//! from all of them.
//!
//! One YAML file per module, a list of scenarios:
//!
//! ```yaml
//! - about: what it tests
//!   sorted: true                # applies to all its calls
//!   calls:                      # run in order, first all on one minion, then on the other
//!   - test.arg: [1, "{dir}/x"]  # the function with its positional arguments
//!     kwargs: {a: 2}
//!     drop: [pid, "0.time"]     # ignores these keys or paths; a key may end with `*`, and `.0` is
//!                               # the first item of a reply that is a list
//!     kinds: true               # compares types of values, not the values
//!     sorted: true              # ignores the order of lists
//!     differs: why              # a known difference, which is also checked
//! ```
//!
//! `{dir}` is an empty directory, a different one for each minion, `{root}` is the minion's `root_dir`, `{http}` the
//! address of the test's web server, `http://127.0.0.1:PORT`.

pub mod play;
pub mod recorded;
pub mod web;

use halite::wire::{Map, Value, yaml};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Calls that are run together.
pub struct Scenario {
    pub file: String,
    pub about: String,
    pub calls: Vec<Call>,
}

/// One call, and which parts of its reply are compared.
#[derive(Default)]
pub struct Call {
    pub fun: String,
    pub args: Vec<Value>,
    pub kwargs: Map,
    pub drop: Vec<String>,
    pub kinds: bool,
    pub sorted: bool,
    pub differs: Option<String>,
}

/// The directory of these files.
pub fn place() -> PathBuf {
    super::top().join("tests/modules")
}

/// The scenarios for this host, ordered by file name.
pub fn scenarios() -> Vec<Scenario> {
    scenarios_in("calls")
}

/// The scenarios for hosts with RPM packages, of one OS family, ordered by file name.
pub fn rpm_scenarios(family: &str) -> Vec<Scenario> {
    scenarios_in(&format!("rpm/{family}"))
}

fn scenarios_in(folder: &str) -> Vec<Scenario> {
    let folder = place().join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Scenario> {
    let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let value = yaml::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let list = value.as_array().unwrap_or_default();
    assert!(!list.is_empty(), "{} has no scenario", path.display());
    list.iter()
        .map(|item| {
            let item = item.as_map().expect("a scenario is a map");
            let about = item
                .str("about")
                .expect("a scenario has `about`")
                .to_owned();
            let calls = item.get("calls").and_then(Value::as_array);
            let calls = calls.unwrap_or_else(|| panic!("{file}, {about}: no calls"));
            let sorted = item.get("sorted").is_some_and(Value::truthy);
            let one = |value| {
                let call = call(&file, value);
                Call {
                    sorted: call.sorted || sorted,
                    ..call
                }
            };
            Scenario {
                calls: calls.iter().map(one).collect(),
                file: file.clone(),
                about,
            }
        })
        .collect()
}

fn call(file: &str, value: &Value) -> Call {
    let map = value
        .as_map()
        .unwrap_or_else(|| panic!("{file}: {value:?} is not a call"));
    let mut call = Call::default();
    for (key, value) in map.iter() {
        match key.as_str().expect("keys are text") {
            "kwargs" => call.kwargs = value.as_map().cloned().expect("kwargs is a map"),
            "drop" => call.drop = value.str_list(),
            "kinds" => call.kinds = value.truthy(),
            "sorted" => call.sorted = value.truthy(),
            "differs" => call.differs = Some(value.as_str().expect("a reason").to_owned()),
            fun if fun.contains('.') => {
                call.fun = fun.to_owned();
                call.args = value.as_array().map(<[_]>::to_vec).unwrap_or_else(|| {
                    assert!(value.is_nil(), "{file}: arguments of {fun} are not a list");
                    Vec::new()
                });
            }
            other => panic!("{file}: a call has no `{other}`"),
        }
    }
    assert!(!call.fun.is_empty(), "{file}: {map:?} names no function");
    call
}

/// One function of stock Salt, from `tests/data/functions.json`.
pub struct Stock {
    /// Names of arguments with their defaults as JSON.
    pub args: Vec<(String, Option<serde_json::Value>)>,
    pub varargs: bool,
    pub keywords: bool,
}

/// The functions of stock 3008.3 in modules that halite has.
pub fn stock() -> BTreeMap<String, Stock> {
    let all: BTreeMap<String, serde_json::Value> = data("functions.json");
    specs(all)
}

/// The functions of `pkg` in stock 3008.3, by OS family, where they differ from `functions.json`.
pub fn families() -> BTreeMap<String, BTreeMap<String, Stock>> {
    let all: BTreeMap<String, BTreeMap<String, serde_json::Value>> = data("functions-pkg.json");
    let one = |(family, all)| (family, specs(all));
    all.into_iter().map(one).collect()
}

fn data<T: serde::de::DeserializeOwned>(file: &str) -> T {
    let path = place().join("../data").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn specs(all: BTreeMap<String, serde_json::Value>) -> BTreeMap<String, Stock> {
    all.into_iter()
        .map(|(name, spec)| {
            let args = spec["args"].as_array().unwrap().iter();
            let stock = Stock {
                args: args
                    .map(|a| (a[0].as_str().unwrap().to_owned(), a.get(1).cloned()))
                    .collect(),
                varargs: spec["varargs"] == true,
                keywords: spec["keywords"] == true,
            };
            (name, stock)
        })
        .collect()
}

/// Why functions are missing or have other arguments: a map of names (or `module.*`) to reasons.
pub fn reasons(file: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(place().join(file)).unwrap();
    let value = yaml::parse(&text).unwrap();
    let map = value.as_map().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    map.iter().map(|(k, v)| (text(k), text(v))).collect()
}

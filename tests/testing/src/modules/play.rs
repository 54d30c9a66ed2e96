//! Runs the calls of scenarios on minions and compares the replies, for `tests/stock/modules.rs` and
//! `tests/stock/rpm/mod.rs`.
//!
//! `HALITE_MODULES=file,cp` runs only the scenarios of these files; `HALITE_SHOW=1` prints stock's replies.

use super::{self as modules, Call, Scenario};
use crate::{Master, Minion};
use halite::client::command::{self, CmdJob};
use halite::client::local::Job;
use halite::config::{MasterConfig, load_master};
use halite::sys::signals::StopFlag;
use halite::wire::{Map, Value, pytext};
use std::path::Path;

/// A halite master with the files and the pillar of `tests/modules`.
pub fn master() -> (Master, MasterConfig) {
    let place = modules::place();
    let master = Master::halite(&format!(
        "salt_series: '3008'\nauto_accept: true\nfile_recv: true\nfile_roots: {{base: [{0}/roots]}}\n\
         pillar_roots: {{base: [{0}/pillar]}}\npeer: {{'.*': ['.*']}}",
        place.display()
    ));
    let config = load_master(&master.home.config_dir()).unwrap();
    (master, config)
}

/// Configuration of the minions for [`super::scenarios`].
pub const MINION: &str = "multiprocessing: false\ngrains: {role: web, list: [a, b], deep: {er: 1}}\nown_option: {a: 1}\n\
                          mine_functions: {test.ping: []}\n";

/// Waits until each minion answers.
pub fn wait(config: &MasterConfig, minions: &mut [Minion]) {
    for minion in minions {
        crate::wait_until(&format!("{} answers", minion.id), || {
            minion.must_live();
            let ping = Call {
                fun: "test.ping".into(),
                ..Call::default()
            };
            ask(config, &minion.id, &ping, &[], 2).is_some()
        });
    }
}

/// The scenarios whose file is named by `HALITE_MODULES`; all if it is not set.
pub fn selected(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let wanted = std::env::var("HALITE_MODULES").unwrap_or_default();
    let fits = |s: &Scenario| wanted.is_empty() || wanted.split(',').any(|w| w == s.file);
    scenarios.into_iter().filter(fits).collect()
}

/// Runs scenarios on both minions, each time after `before`; panics with all differences.
pub fn both(
    config: &MasterConfig,
    minions: &[Minion; 2],
    scenarios: &[Scenario],
    before: &dyn Fn(),
) {
    let mut made = 0;
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let both = || {
            let answers = minions.each_ref().map(|minion| {
                before();
                play(config, minion, scenario)
            });
            compare(scenario, answers)
        };
        let mut differ = both();
        if !differ.is_empty() {
            // Processes, memory and time of this host change meanwhile, so only repeated differences count.
            let text = differ.join("\n");
            eprintln!("{text}\n{}, {}: once more", scenario.file, scenario.about);
            differ = both();
        }
        made += scenario.calls.len();
        wrong.append(&mut differ);
    }
    for text in &wrong {
        eprintln!("{text}\n");
    }
    eprintln!("{made} calls compared, {} of them wrong", wrong.len());
    assert!(wrong.is_empty());
}

/// Runs all calls of a scenario on one minion; returns the parts of the replies that are compared.
pub fn play(config: &MasterConfig, minion: &Minion, scenario: &Scenario) -> Vec<Option<Map>> {
    let dir = crate::short_dir();
    let own = dir.path().join("d");
    std::fs::create_dir(&own).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let web = modules::web::address().to_owned();
    let places = [
        ("{dir}", text(&own)),
        ("{root}", text(minion.home.root())),
        ("{http}", web),
    ];
    let calls = scenario.calls.iter();
    calls
        .map(|call| ask(config, &minion.id, call, &places, 60).map(|ret| plain(ret, call, &places)))
        .collect()
}

/// Placeholders and the directories of one minion that they stand for.
type Places = [(&'static str, String)];

/// Runs one call; returns the reply of the minion.
pub fn ask(
    config: &MasterConfig,
    id: &str,
    call: &Call,
    places: &Places,
    timeout: u64,
) -> Option<Map> {
    let one = |text: String, (name, dir): &(&str, String)| text.replace(name, dir);
    let put = |v: &Value| mapped(v, &|text| places.iter().fold(text.to_owned(), one));
    let args = call.args.iter().map(put).collect();
    let kwargs = put(&Value::Map(call.kwargs.clone())).into_map().unwrap();
    let order = CmdJob {
        job: Job {
            fun: call.fun.as_str().into(),
            arg: command::arguments(args, kwargs),
            tgt: id.into(),
            tgt_type: "glob".into(),
            ..Job::default()
        },
        timeout: Some(timeout),
        ..CmdJob::default()
    };
    let returns = command::run(config, order, &StopFlag::default()).unwrap();
    returns.minions.into_iter().next().map(|(_, entry)| entry)
}

/// The parts of a reply that are compared.
fn plain(entry: Map, call: &Call, places: &Places) -> Map {
    let one = |text: String, (name, dir): &(&str, String)| text.replace(dir, name);
    let mut ret = entry.get("ret").cloned().unwrap_or_default();
    ret = mapped(&ret, &|text| {
        fault(&places.iter().fold(text.to_owned(), one))
    });
    for place in call.drop.iter().map(String::as_str).chain(["__pub_*"]) {
        let path: Vec<&str> = place.split('.').filter(|part| !part.is_empty()).collect();
        remove(&mut ret, &path, !place.contains('.'));
    }
    if call.sorted {
        ret = sorted(ret);
    }
    if call.kinds {
        ret = kinds(ret);
    }
    halite::map! {"ret" => ret, "retcode" => entry.get("retcode").cloned()}
}

/// Of an exception only the first and the last line, of wrong arguments only the message: the
/// rest is stock's code and documentation.
fn fault(text: &str) -> String {
    if let Some((head, tail)) = text.split_once("Traceback (most recent call last):") {
        let last = tail.trim_end().lines().last().unwrap_or_default();
        return format!("{head}Traceback: {last}");
    }
    match text.starts_with("Passed invalid arguments") {
        true => text.lines().next().unwrap_or_default().to_owned(),
        false => timeless(text),
    }
}

/// The text without times printed by dnf, and without process ids in errors.
///
/// dnf prints the age of its metadata only if that is a second or more, so the whole line is removed;
/// a list dash before it is moved to the next line.
fn timeless(text: &str) -> String {
    const AGE: &str = "Last metadata expiration check:";
    let mut lines: Vec<String> = Vec::new();
    let mut pid = false;
    let mut dash: Option<&str> = None;
    for line in text.split('\n') {
        let is_pid = std::mem::replace(&mut pid, line.trim() == "pid:");
        if let Some((head, _)) = line.split_once(AGE) {
            dash = dash.or(Some(head));
        } else if let Some(head) = dash.take() {
            lines.push(format!("{head}{}", line.get(head.len()..).unwrap_or("")));
        } else {
            lines.push(if is_pid { "PID" } else { line }.to_owned());
        }
    }
    lines.join("\n")
}

/// Applies `change` to every text in a value, including keys.
fn mapped(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Str(text) => change(text).into(),
        Value::Array(list) => Value::Array(list.iter().map(|v| mapped(v, change)).collect()),
        Value::Map(map) => {
            let pairs = map.iter();
            Value::Map(
                pairs
                    .map(|(k, v)| (mapped(k, change), mapped(v, change)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

fn remove(value: &mut Value, path: &[&str], anywhere: bool) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Map(map) => {
            if rest.is_empty() {
                map.0.retain(|(k, _)| !fits(first, &pytext::str(k)));
            }
            for (key, inner) in &mut map.0 {
                if anywhere {
                    remove(inner, path, true);
                } else if fits(first, &pytext::str(key)) {
                    remove(inner, rest, false);
                }
            }
        }
        Value::Array(list) => {
            for (at, inner) in list.iter_mut().enumerate() {
                if anywhere {
                    remove(inner, path, true);
                } else if fits(first, &at.to_string()) {
                    match rest.is_empty() {
                        true => *inner = Value::Nil,
                        false => remove(inner, rest, false),
                    }
                }
            }
        }
        _ => {}
    }
}

/// Whether a key matches a pattern, which may end with `*`.
fn fits(pattern: &str, key: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(head) => key.starts_with(head),
        None => pattern == key,
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<Value> = list.into_iter().map(sorted).collect();
            list.sort_by_key(pytext::repr);
            Value::Array(list)
        }
        Value::Map(map) => {
            let mut pairs: Vec<_> = map.0.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            pairs.sort_by_key(|(k, _)| pytext::repr(k));
            Value::Map(pairs.into_iter().collect())
        }
        other => other,
    }
}

fn kinds(value: Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(map.0.into_iter().map(|(k, v)| (k, kinds(v))).collect()),
        Value::Array(list) => Value::Array(list.into_iter().take(1).map(kinds).collect()),
        Value::Str(_) => "text".into(),
        Value::Int(_) => "integer".into(),
        Value::Float(_) => "float".into(),
        other => other,
    }
}

/// Differences between the replies of stock's minion and of halite's to the calls of a scenario.
fn compare(scenario: &Scenario, [expected, found]: [Vec<Option<Map>>; 2]) -> Vec<String> {
    let answers = scenario.calls.iter().zip(expected).zip(found);
    answers
        .filter_map(|((call, expected), found)| {
            if std::env::var_os("HALITE_SHOW").is_some() {
                eprintln!("{}\n  {}", head(scenario, call), text(&expected));
            }
            compare_one(scenario, call, expected, found)
        })
        .collect()
}

/// The difference between two replies, if there is an unexpected one or an expected one is missing.
fn compare_one(
    scenario: &Scenario,
    call: &Call,
    expected: Option<Map>,
    found: Option<Map>,
) -> Option<String> {
    let head = || head(scenario, call);
    match (expected == found, &call.differs) {
        (true, None) => None,
        (false, Some(_)) => None,
        (true, Some(_)) => Some(format!("{}\n  no longer differs", head())),
        (false, None) => Some(format!(
            "{}\n  stock  {}\n  halite {}",
            head(),
            text(&expected),
            text(&found)
        )),
    }
}

fn head(scenario: &Scenario, call: &Call) -> String {
    format!("{} ({}): {}", scenario.file, scenario.about, Asked(call))
}

/// Displays a call.
pub struct Asked<'a>(pub &'a Call);

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Asked(call) = self;
        let args = pytext::repr(&Value::Array(call.args.clone()));
        write!(f, "{} {args} {}", call.fun, pytext::repr_map(&call.kwargs))
    }
}

/// A reply as text.
pub fn text(answer: &Option<Map>) -> String {
    answer.as_ref().map_or("no answer".into(), pytext::repr_map)
}

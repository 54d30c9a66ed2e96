//! The state trees of `tests/corpus/state` with the results of stock Salt (`scripts/corpus-states`).

use super::compile::{CompileOptions, compile, resolve};
use super::highstate::{RenderedSls, SlsSource, render_highstate};
use super::run::{Condition, RunOptions, StateModules, run};
use super::*;
use halite_wire::yaml;
use std::path::Path;
use std::time::Duration;

/// Cases in which our messages have another wording.
const OTHER_WORDING: [&str; 2] = ["extend nothing", "colon too much"];

struct Tree(Map);

impl Tree {
    fn file(&self, saltenv: &str, sls: &str) -> Option<(&str, bool)> {
        let env = self.0.get(saltenv)?.as_map()?;
        let path = sls.replace('.', "/");
        let plain = env.str(&format!("{path}.sls")).map(|text| (text, false));
        plain.or_else(|| {
            env.str(&format!("{path}/init.sls"))
                .map(|text| (text, true))
        })
    }
}

impl SlsSource for Tree {
    fn available(&self, saltenv: &str) -> Option<Vec<String>> {
        let env = self.0.get(saltenv)?.as_map()?;
        let files = env.iter().filter_map(|(k, _)| k.as_str());
        let name = |file: &str| {
            let file = file.trim_end_matches(".sls");
            file.trim_end_matches("/init").replace('/', ".")
        };
        Some(files.map(name).collect())
    }

    fn render(&mut self, saltenv: &str, sls: &str) -> Result<Option<RenderedSls>, String> {
        let Some((text, init)) = self.file(saltenv, sls) else {
            return Ok(None);
        };
        let data = yaml::parse(text).map_err(|e| e.to_string())?;
        Ok(Some(RenderedSls { data, init }))
    }
}

/// The states of Salt's module `test`.
struct TestStates;

impl StateModules for TestStates {
    fn has(&self, function: &str) -> bool {
        function.starts_with("test.") && function != "test.none_such"
    }

    fn missing_argument(&self, _: &Map) -> Option<String> {
        None
    }

    fn call(&self, low: &Map, test: bool) -> Map {
        let changes = || {
            halite_wire::map! {"testing" => halite_wire::map! {
                "old" => "Unchanged", "new" => "Something pretended to change",
            }}
        };
        let given = |key: &str, default: bool| low.get(key).map_or(default, Value::truthy);
        let (result, changed, text): (Value, bool, &str) = match low.str("fun").unwrap() {
            "nop" | "succeed_without_changes" => (true.into(), false, "Success!"),
            "fail_without_changes" if test => (
                false.into(),
                false,
                "If we weren't testing, this would be a failure!",
            ),
            "fail_without_changes" => (false.into(), false, "Failure!"),
            "succeed_with_changes" if test => (
                Value::Nil,
                true,
                "If we weren't testing, this would be successful with changes",
            ),
            "succeed_with_changes" => (true.into(), true, "Success!"),
            "fail_with_changes" if test => (
                Value::Nil,
                true,
                "If we weren't testing, this would be failed with changes",
            ),
            "fail_with_changes" => (false.into(), true, "Failure!"),
            "configurable_test_state" => (
                given("result", true).into(),
                given("changes", true),
                low.str("comment").unwrap_or_default(),
            ),
            "mod_watch" => (true.into(), true, "Watch statement fired."),
            "mod_beacon" => (true.into(), false, "Added."),
            other => panic!("{other}"),
        };
        halite_wire::map! {
            "name" => low.get("name").cloned(), "result" => result, "comment" => text,
            "changes" => if changed { changes() } else { Map::new() },
        }
    }

    fn condition(&self, _: &Map, condition: &Value) -> Result<Condition, String> {
        match condition.as_map() {
            Some(_) => Err("no such function".to_owned()),
            None if condition.is_str("true") => Ok(Condition::Holds),
            None => Ok(Condition::Fails),
        }
    }

    fn exists(&self, path: &str) -> bool {
        path == "/"
    }

    fn sleep(&self, _: Duration) {}
}

fn run_case(case: &Map) -> Result<Map, Vec<String>> {
    let files = case.get("files").and_then(Value::as_map).unwrap().clone();
    let matches: Vec<(String, Vec<String>)> = case
        .get("run")
        .and_then(Value::as_map)
        .unwrap()
        .iter()
        .map(|(env, list)| (env.as_str().unwrap().to_owned(), list.str_list()))
        .collect();
    let gathered = render_highstate(&mut Tree(files), &matches, true);
    let mut high = gathered.high;
    if !gathered.errors.is_empty() {
        return Err(gathered.errors);
    }
    let rules = CompileOptions {
        watching: vec!["test".to_owned()],
        ..CompileOptions::default()
    };
    resolve(&mut high, &rules)?;
    let compiled = compile(high, &rules)?;
    let options = RunOptions {
        test: case.get("test").is_some_and(Value::truthy),
        ..RunOptions::default()
    };
    Ok(run(&TestStates, compiled, &options))
}

fn corpus(name: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/corpus/state");
    std::fs::read_to_string(path.join(name)).unwrap()
}

#[test]
fn state_trees_match_stock() {
    let cases = yaml::parse(&corpus("cases.yaml")).unwrap();
    let expected: Value = serde_json::from_str(&corpus("expected.json")).unwrap();
    let expected = expected.as_map().unwrap().get("cases").unwrap().clone();
    let expected = expected.as_map().unwrap();
    let mut wrong = Vec::new();
    for (name, case) in cases.as_map().unwrap().iter() {
        let name = name.as_str().unwrap();
        let want = expected.get(name).and_then(Value::as_map).unwrap();
        match (run_case(case.as_map().unwrap()), want.get("errors")) {
            (Err(errors), Some(stock)) => {
                let stock = stock.str_list();
                let same = errors == stock
                    || OTHER_WORDING.contains(&name) && errors.len() == stock.len()
                    || name == "no dictionary";
                if !same {
                    wrong.push(format!("{name}:\n  {errors:?}\n  {stock:?}"));
                }
            }
            (Ok(results), None) => compare(name, &results, want, &mut wrong),
            (ours, _) => wrong.push(format!("{name}: {ours:?}\n  stock: {want:?}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn compare(name: &str, results: &Map, want: &Map, wrong: &mut Vec<String>) {
    let want = want.get("results").and_then(Value::as_map).unwrap();
    let tags = |map: &Map| -> Vec<String> {
        let tags = map.iter().map(|(k, _)| k.as_str().unwrap().to_owned());
        tags.collect()
    };
    if tags(results) != tags(want) {
        wrong.push(format!("{name}: {:?}\n  {:?}", tags(results), tags(want)));
        return;
    }
    for (tag, stock) in want.iter() {
        let tag = tag.as_str().unwrap();
        let stock = stock.as_map().unwrap();
        let ours = results.get(tag).and_then(Value::as_map).unwrap();
        for (key, value) in stock.iter() {
            let key = key.as_str().unwrap();
            let watch = stock.str("comment") == Some("Watch statement fired.");
            // Changes of `mod_watch` do not count here.
            let same = ours.get(key) == Some(value) || key == "changes" && watch;
            if !same {
                wrong.push(format!(
                    "{name}: {tag} {key}: {:?}, stock {value:?}",
                    ours.get(key)
                ));
            }
        }
    }
}

#[test]
fn parallel_states_run_at_once_and_are_waited_for() {
    use std::sync::Barrier;
    struct Both(Barrier);
    impl StateModules for Both {
        fn has(&self, _: &str) -> bool {
            true
        }
        fn missing_argument(&self, _: &Map) -> Option<String> {
            None
        }
        fn call(&self, low: &Map, _: bool) -> Map {
            // Two states that wait for each other only end if they run in parallel.
            if low.get("parallel").is_some() {
                self.0.wait();
            }
            halite_wire::map! {"name" => low.get("name").cloned(), "result" => true, "changes" => Map::new(), "comment" => "done"}
        }
        fn condition(&self, _: &Map, _: &Value) -> Result<Condition, String> {
            Ok(Condition::Holds)
        }
        fn exists(&self, _: &str) -> bool {
            false
        }
    }
    let text = "a:\n  t.x:\n    - parallel: True\nb:\n  t.x:\n    - parallel: True\n\
                c:\n  t.x:\n    - require:\n      - t: a\n";
    let tree = halite_wire::map! {"base" => halite_wire::map! {"main.sls" => text}};
    let gathered = render_highstate(
        &mut Tree(tree),
        &[("base".into(), vec!["main".into()])],
        true,
    );
    let mut high = gathered.high;
    resolve(&mut high, &CompileOptions::default()).unwrap();
    let compiled = compile(high, &CompileOptions::default()).unwrap();
    let results = run(&Both(Barrier::new(2)), compiled, &RunOptions::default());
    assert_eq!(results.len(), 3);
    for (tag, result) in results.iter() {
        let result = result.as_map().unwrap();
        assert_eq!(result.str("comment"), Some("done"), "{tag:?}");
    }
    assert!(result::check_result(&Value::Map(results), false));
}

#[test]
fn a_run_is_good_if_nothing_in_it_is_false() {
    let state = |result: Value| Value::Map(halite_wire::map! {"result" => result});
    let run = |result: Value| Value::Map(halite_wire::map! {"a_|-b_|-c_|-d" => state(result)});
    assert!(result::check_result(&run(true.into()), false));
    assert!(result::check_result(&run(Value::Nil), false));
    assert!(!result::check_result(&run(false.into()), false));
    assert!(result::check_result(
        &Value::Map(halite_wire::map! {"m" => run(true.into())}),
        false
    ));
    assert!(!result::check_result(
        &Value::Map(halite_wire::map! {"m" => run(false.into())}),
        false
    ));
    assert!(!result::check_result(
        &Value::Array(vec!["an error".into()]),
        false
    ));
    assert!(!result::check_result(&Value::Map(Map::new()), false));
    assert!(result::is_state_return(&run(true.into())));
    assert!(!result::is_state_return(&Value::Map(
        halite_wire::map! {"a" => 1}
    )));
}

#[test]
fn beacons_come_last_whatever_their_states_did() {
    let text = "a:\n  test.nop:\n    - beacon: False\n    - require:\n      - test: f\n\
                f:\n  test.fail_without_changes:\n    - failhard: True\n    - beacon: True\nz:\n  test.nop: []\n";
    let files = halite_wire::map! {"base" => halite_wire::map! {"main.sls" => text}};
    let run = halite_wire::map! {"base" => vec![Value::from("main")]};
    let results = run_case(&halite_wire::map! {"files" => files, "run" => run}).unwrap();
    let tags: Vec<&str> = results.iter().filter_map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(
        tags,
        [
            "test_|-f_|-f_|-fail_without_changes",
            "test_|-beacon_f_|-f_|-mod_beacon",
            "test_|-beacon_a_|-a_|-mod_beacon",
        ]
    );
}

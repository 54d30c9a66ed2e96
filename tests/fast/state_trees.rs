//! Whole trees of states give what stock's minion returns, in the same order and with the same files afterwards: the trees of
//! `tests/data/state_trees.json`, recorded by `tests/data/make_state_trees.py`, applied by `halite-call --local`.

use serde_json::{Map, Value as Json, json};
use std::path::Path;
use std::process::Command;

/// What differs from run to run.
const IGNORED: [&str; 3] = ["start_time", "duration", "pid"];

fn plain(value: &Json, work: &str) -> Json {
    super::states::plain(value, &IGNORED, &|text| text.replace(work, "{W}"))
}

fn write(top: &Path, files: &Json) {
    for (path, text) in files.as_object().into_iter().flatten() {
        let path = top.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
}

fn configure(work: &Path, tree: &Json) {
    let at = |name: &str| work.join(name).to_string_lossy().into_owned();
    let mut roots = Map::new();
    if tree["envs"] == true {
        for path in tree["files"].as_object().unwrap().keys() {
            let env = path.split('/').next().unwrap();
            roots.insert(env.to_owned(), json!([at(&format!("srv/{env}"))]));
        }
    } else {
        roots.insert("base".to_owned(), json!([at("srv")]));
    }
    let mut opts = json!({
        "id": "m1", "file_client": "local", "file_roots": roots, "pillar_roots": {"base": [at("pillar")]},
        "log_level": "quiet", "log_level_logfile": "quiet", "root_dir": at("root"),
    });
    for (name, value) in tree["opts"].as_object().into_iter().flatten() {
        opts[name] = value.clone();
    }
    write(work, &json!({"conf/minion": opts.to_string()}));
}

/// Makes one call; the outcome has the form of the recorded ones.
fn call(work: &Path, call: &Json) -> Json {
    let words = call.as_array().unwrap().iter();
    let ran = Command::new(env!("CARGO_BIN_EXE_halite-call"))
        .arg("-c")
        .arg(work.join("conf"))
        .args([
            "--local",
            "--out=json",
            "--retcode-passthrough",
            "--log-level=quiet",
        ])
        .args(words.map(|word| word.as_str().unwrap()))
        .env("SHELL", "/bin/bash")
        .output()
        .unwrap();
    let work = work.to_string_lossy();
    match serde_json::from_slice::<Json>(&ran.stdout) {
        Ok(out) => json!({"return": plain(&out["local"], &work), "status": ran.status.code()}),
        Err(_) => {
            let text = String::from_utf8_lossy(&ran.stderr).trim_end().to_owned();
            json!({"error": plain(&text.into(), &work)})
        }
    }
}

fn files(dir: &Path, top: &Path, found: &mut Map<String, Json>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, top, found);
        } else {
            let name = path.strip_prefix(top).unwrap().to_string_lossy();
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(name.into_owned(), text.into());
        }
    }
}

/// What differs from stock; empty if nothing does.
fn differences(tree: &Json) -> Vec<String> {
    let work = tempfile::tempdir().unwrap();
    let work = work.path();
    let made = work.join("D");
    std::fs::create_dir(&made).unwrap();
    let sandbox = made.to_string_lossy().into_owned();
    let filled = |value: &Json| -> Json {
        serde_json::from_str(&value.to_string().replace("{D}", &sandbox)).unwrap()
    };
    write(&work.join("srv"), &filled(&tree["files"]));
    write(&work.join("pillar"), &filled(&tree["pillar"]));
    configure(work, &filled(tree));
    let mut wrong = Vec::new();
    let returns = tree["returns"].as_array().unwrap();
    for (words, stock) in tree["calls"].as_array().unwrap().iter().zip(returns) {
        let halite = call(work, &filled(words));
        if halite != *stock {
            wrong.push(format!(
                "  {words}\n    stock  {stock}\n    halite {halite}"
            ));
        }
    }
    let mut found = Map::new();
    files(&made, &made, &mut found);
    if Json::Object(found.clone()) != tree["made"] {
        wrong.push(format!(
            "  files\n    stock  {}\n    halite {}",
            tree["made"],
            Json::Object(found)
        ));
    }
    wrong
}

#[test]
fn trees_as_recorded() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/state_trees.json");
    let trees: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(data).unwrap()).unwrap();
    let next = std::sync::Mutex::new(trees.iter());
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(tree) = { next.lock().unwrap().next() } {
                    let differences = differences(tree);
                    if differences.is_empty() == tree.get("differs").is_some() {
                        let text = format!("{}:\n{}", tree["name"], differences.join("\n"));
                        wrong.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} trees:\n{}",
        wrong.len(),
        trees.len(),
        wrong.join("\n")
    );
}

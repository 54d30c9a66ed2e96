//! The states of Docker without an engine: the calls of `tests/data/docker.json`, recorded by `tests/data/make_docker.py`
//! with a real one. Each request must be the recorded one, each result that which was the same as stock's.

use halite::config::load_minion;
use halite::modules::all_grains;
use halite::modules::execution::{self, Context};
use halite::wire::{Map, Value, map};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What differs from run to run.
const IGNORED: [&str; 6] = [
    "start_time",
    "duration",
    "__run_num__",
    "pid",
    "__sls__",
    "Time_Elapsed",
];

/// What the engine of a test still has to be asked, and what it was asked instead.
#[derive(Default)]
struct Script {
    left: Vec<Json>,
    wrong: Vec<String>,
}

fn read_line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Reads a request: method, path and body.
fn request(from: &mut BufReader<UnixStream>) -> (String, String, Vec<u8>) {
    let first = read_line(from);
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = read_line(from).to_ascii_lowercase();
        match header.split_once(": ") {
            Some(("content-length", size)) => length = size.parse().unwrap(),
            Some(("transfer-encoding", _)) => chunked = true,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    while chunked {
        let size = usize::from_str_radix(&read_line(from), 16).unwrap();
        let mut part = vec![0; size + 2];
        from.read_exact(&mut part).unwrap();
        chunked = size > 0;
    }
    (method, path, body)
}

/// A temporary network has the number of the process in its name, after the start of an id.
fn without_process(text: &str) -> String {
    let mut parts = text.split("halite-");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.get(13..).unwrap_or_default();
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        shown.push_str(&format!(
            "halite-{}-N{rest}",
            part.get(..12).unwrap_or(part)
        ));
    }
    shown
}

fn serve(mut client: UnixStream, script: &Mutex<Script>, dir: &str) {
    let mut from = BufReader::new(client.try_clone().unwrap());
    let (method, path, body) = request(&mut from);
    let sent = serde_json::from_slice::<Json>(&body).unwrap_or(Json::Null);
    let asked = json!([method, path, sent]).to_string();
    let asked = without_process(&asked).replace(dir, "{W}");
    let mut script = script.lock().unwrap();
    // The version is asked for once per process.
    let next = match path.as_str() {
        "/version" => json!([null, null, null, 200, {"ApiVersion": "1.41"}]),
        _ if script.left.is_empty() => json!(["nothing more"]),
        _ => script.left.remove(0),
    };
    let expected = without_process(&json!([next[0], next[1], next[2]]).to_string());
    if path != "/version" && asked != expected {
        script
            .wrong
            .push(format!("    recorded {expected}\n    asked    {asked}"));
    }
    let answer = match &next[4] {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other => other.to_string(),
    };
    let status = next[3].as_u64().unwrap_or(500);
    let head = match status {
        204 | 304 => format!("HTTP/1.1 {status} X\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        ),
    };
    client
        .write_all(format!("{head}{answer}").as_bytes())
        .unwrap();
}

fn context(dir: &Path) -> Context {
    let work = dir.display();
    let conf = dir.join("conf");
    std::fs::create_dir_all(&conf).unwrap();
    let text = format!(
        "id: m1\nfile_client: local\nroot_dir: {work}/root\nfile_roots: {{base: [{work}/srv]}}\n\
         docker.url: unix://{work}/engine.sock\n"
    );
    std::fs::write(conf.join("minion"), text).unwrap();
    let config = load_minion(&conf).unwrap();
    Context {
        id: "m1".to_owned(),
        grains: Arc::new(all_grains(&config)),
        opts: Arc::new(config.as_map()),
        cachedir: config.cachedir.clone(),
        ..Context::default()
    }
}

fn call(ctx: &Context, case: &Json, step: &Json, dir: &str) -> Json {
    let test = step == "test" || step["step"] == "test";
    let mut kwargs = map! {"__kwarg__" => true, "test" => test, "name" => "c1"};
    for args in [&case["args"], &step["args"]] {
        for (key, value) in args.as_object().into_iter().flatten() {
            let text = value.to_string().replace("{D}", &format!("{dir}/D"));
            let text = text.replace("{W}", dir);
            kwargs.set(key, serde_json::from_str::<Value>(&text).unwrap());
        }
    }
    let args = [case["state"].as_str().unwrap().into(), Value::Map(kwargs)];
    let returned = execution::call(ctx, "state.single", &args).ret;
    let result = match returned {
        Value::Map(Map(mut results)) if results.len() == 1 => results.remove(0).1,
        other => other,
    };
    let text = serde_json::to_string(&result).unwrap().replace(dir, "{W}");
    serde_json::from_str(&text).unwrap()
}

/// A result without what differs from run to run.
fn plain(value: &Json) -> Json {
    match value {
        Json::Array(list) => list.iter().map(plain).collect(),
        Json::Object(map) => {
            let kept = map
                .iter()
                .filter(|(key, _)| !IGNORED.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), plain(value)))
                .collect()
        }
        other => other.clone(),
    }
}

#[test]
fn states_of_docker_as_recorded() {
    halite::states::install();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/docker.json");
    let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(place).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().to_string_lossy().into_owned();
    let listener = UnixListener::bind(dir.path().join("engine.sock")).unwrap();
    let script = Arc::new(Mutex::new(Script::default()));
    let (own, at) = (script.clone(), work.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            serve(client.unwrap(), &own, &at);
        }
    });
    let ctx = context(dir.path());
    let mut wrong = Vec::new();
    for case in &cases {
        *script.lock().unwrap() = Script {
            left: case["dialogue"].as_array().unwrap().clone(),
            wrong: Vec::new(),
        };
        prepare(case, dir.path());
        let usual = json!(["test", "real", "real"]);
        let steps = case.get("steps").unwrap_or(&usual).as_array().unwrap();
        let mut faults = Vec::new();
        for (step, recorded) in steps.iter().zip(case["results"].as_array().unwrap()) {
            let (found, recorded) = (plain(&call(&ctx, case, step, &work)), plain(recorded));
            if found != recorded {
                faults.push(format!(
                    "  {step}\n    recorded {recorded}\n    found    {found}"
                ));
            }
        }
        let script = script.lock().unwrap();
        faults.extend(script.wrong.iter().cloned());
        if !script.left.is_empty() {
            faults.push(format!(
                "    {} recorded requests were not made",
                script.left.len()
            ));
        }
        if !faults.is_empty() {
            wrong.push(format!(
                "{} {}\n{}",
                case["state"],
                case["args"],
                faults.join("\n")
            ));
        }
    }
    eprintln!("{} calls compared, {} differ", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Makes the files of a case.
fn prepare(case: &Json, dir: &Path) {
    let sandbox = dir.join("D");
    let _ = std::fs::remove_dir_all(&sandbox);
    std::fs::create_dir_all(&sandbox).unwrap();
    for (name, text) in case["files"].as_object().into_iter().flatten() {
        let path = sandbox.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
}

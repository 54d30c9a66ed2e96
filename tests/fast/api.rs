//! The REST service: what stock's `salt-api` 3008.3 answered is answered alike (tests/vectors/salt-api.jsonl), but for what is listed
//! here with its reason.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use testing::harness::free_ports;
use testing::{Master, Minion, wait_until};

/// A request on a connection of its own; status, headers in lower case, body.
pub fn ask(port: u16, head: &str, body: &[u8]) -> (u16, BTreeMap<String, String>, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = Vec::new();
    if !head.starts_with("HEAD")
        && headers
            .get("content-type")
            .is_none_or(|t| !t.contains("event-stream"))
    {
        let _ = reader.read_to_end(&mut body);
    }
    (status.unwrap_or(0), headers, body)
}

pub fn request(port: u16, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let (status, _, body) = ask(port, &head, body.as_bytes());
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// The service, its master and two minions.
pub struct Place {
    pub port: u16,
    pub master: Master,
    _minions: [Minion; 2],
}

pub const USERS: &str = "alice:wonder\nbob:builder\ncarol:singer\ndave:runner\neve:nothing\n";

impl Place {
    pub fn start(more: &str) -> Place {
        let [port, _] = free_ports();
        let dir = tempfile::tempdir().unwrap().keep();
        let users = dir.join("users");
        std::fs::write(&users, USERS).unwrap();
        std::fs::set_permissions(&users, PermissionsExt::from_mode(0o600)).unwrap();
        let master = Master::halite(&format!(
            "id: master1\nauto_accept: true\ntimeout: 2\ngather_job_timeout: 1\nnodegroups: {{all: '*'}}\n\
             sharedsecret: s3cret-s3cret-s3cret\nsalt_series: '3008'\n\
             external_auth:\n  file:\n    ^filename: {}\n    ^filetype: text\n    alice: ['.*', '@runner', '@wheel', '@jobs']\n    \
             bob: ['test.*']\n    carol: [{{m1: ['grains.*', test.ping]}}, '@jobs']\n    dave: ['@runner']\n\
             netapi_enable_clients: [local, local_async, local_batch, local_subset, runner, runner_async, ssh, wheel, wheel_async]\n\
             api: {{port: {port}, host: 127.0.0.1, disable_ssl: true{more}}}\n",
            users.display()
        ));
        let minions = ["m1", "m2"].map(|id| Minion::halite(&master, id, ""));
        wait_until("both answer", || {
            let said = master.halite_cli().ask(&["*", "test.ping", "-t", "1"]);
            said.is_ok_and(|said| said.len() == 2)
        });
        wait_until("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Place {
            port,
            master,
            _minions: minions,
        }
    }

    pub fn log_in(&self, user: &str, password: &str) -> String {
        log_in(self.port, user, password)
    }
}

/// The token of a new session.
pub fn log_in(port: u16, user: &str, password: &str) -> String {
    let body = json!({"username": user, "password": password, "eauth": "file"}).to_string();
    let headers = "Content-Type: application/json\r\n";
    let (status, body) = request(port, "POST", "/login", headers, &body);
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    answer["return"][0]["token"].as_str().unwrap().to_owned()
}

/// What is answered otherwise, by the beginning of ids: why.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "root-options",
        "a preflight is answered (salt-api.md 14, 1)",
    ),
    ("root-preflight", "the same"),
    ("login-preflight", "the same"),
    ("minions-preflight", "the same"),
    ("preflight-", "the same"),
    ("login-bad-yaml", "400 in the place of 500 (14, 8)"),
    ("login-sharedsecret", "ours has to have 16 characters"),
    ("login-with-given-session", "the id is not kept (14, 6)"),
    ("login-again-same-session", "the same"),
    ("cmd-ssh", "no Salt with salt-ssh is installed"),
    ("cmd-local-bad-jid", "refused (14, 15)"),
    ("local-bad-jid", "refused (14, 15)"),
    ("local-jid", "of another year"),
    ("minions-query", "grains"),
    (
        "cmd-local-expr-form",
        "the master knows that nobody is meant",
    ),
    ("body-too-big", "413"),
    ("after-relogin-old-id", "the id is not kept (14, 6)"),
    ("ssh-", "no Salt with salt-ssh is installed"),
    ("app", "a browser gets the console"),
    ("root-get-html", "the same"),
    ("root-get-browser", "the same"),
    ("static", "there is no directory here; see api_service"),
    ("ws-no-upgrade", "400 in the place of 500 (14, 8)"),
    ("favicon", "there is none"),
    ("keys-post-badcreds", "401 in the place of 500 (14, 8)"),
    ("keys-post-noauth", "the same"),
    ("keys-post-token-header", "the same"),
    ("keys-post-all-noauth", "400 in the place of 500 (14, 8)"),
    ("keys-post-form", "a number as text is one"),
    ("keys-post-traversal", "no id of a minion"),
    ("stats", "counters of its own"),
    ("events-eauth-token", "by sessions alone"),
    ("no-content-length", "chunked bodies are read"),
    ("logout-get", "404 in the place of 500"),
    ("minions-get", "grains: compared by their ids below"),
    ("cmd-wheel-unknown", "the text of an exception"),
    ("cmd-wheel-bad-args", "the text of an exception"),
    ("cmd-wheel-full-return", "works"),
    ("cmd-runner-bad-args", "a text of its own"),
    (
        "cmd-runner-timeout",
        "test.sleep of ours has another argument",
    ),
    ("jobs-get-one-yaml", "aliases"),
    ("cmd-local-exception", "a text of its own"),
];

/// Ids after which stock had another configuration.
const LAST: &str = "hook-noauth-disabled";

/// Without what differs from run to run, and what minions of stock alone tell.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !name.starts_with("__pub_"));
            let kept = kept.filter(|(name, _)| {
                ![
                    "_stamp",
                    "start",
                    "expire",
                    "token",
                    "jid",
                    "tag",
                    "StartTime",
                    "local",
                ]
                .contains(&name.as_str())
            });
            let kept = kept.map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(kept.collect())
        }
        Value::Array(all) => all.iter().map(plain).collect(),
        Value::String(text) if text.starts_with("/jobs/") => json!("/jobs/<jid>"),
        // A fingerprint.
        Value::String(text) if text.len() == 95 && text.matches(':').count() == 31 => {
            json!("<fingerprint>")
        }
        other => other.clone(),
    }
}

/// Whether an answer is the expected one; `...` at the end of a text stands for more.
fn fits(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), Value::String(found)) => match text.strip_suffix("...") {
            Some(start) => found.starts_with(start),
            None => text == found,
        },
        (Value::Object(all), Value::Object(found)) => {
            all.len() == found.len()
                && all
                    .iter()
                    .all(|(name, value)| found.get(name).is_some_and(|f| fits(value, f)))
        }
        (Value::Array(all), Value::Array(found)) => {
            all.len() == found.len() && all.iter().zip(found).all(|(a, b)| fits(a, b))
        }
        _ => expected == found,
    }
}

#[test]
fn requests_are_answered_as_by_stock() {
    let place = Place::start("");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/salt-api.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    // What stock's answers named, and ours in its place.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    // A session of alice whose beginning was not captured.
    let alice = place.log_in("alice", "wonder");
    names.insert("cd9c6c5b9dced4dd4c7e473babbdc3adb552913a".into(), alice);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let id = vector["id"].as_str().unwrap();
        if id == LAST {
            break;
        }
        let is_other = |start: &str| {
            id == start || id.starts_with(&format!("{}-", start.trim_end_matches('-')))
        };
        // It is sent all the same, since others follow from it.
        let is_otherwise = OTHERWISE.iter().any(|(start, _)| is_other(start))
            || ["jobs-get", "jobs-get-one-yaml"].contains(&id);
        let replace = |text: &str| {
            let mut text = text.to_owned();
            names
                .iter()
                .for_each(|(theirs, ours)| text = text.replace(theirs, ours));
            text
        };
        let body = replace(vector["body"].as_str().unwrap_or_default());
        let mut headers = String::new();
        for header in vector["headers"].as_array().unwrap() {
            let text = |n: usize| header[n].as_str().unwrap().to_owned();
            headers.push_str(&format!("{}: {}\r\n", text(0), replace(&text(1))));
        }
        if vector["body"].is_string() {
            headers.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n",
            vector["method"].as_str().unwrap(),
            replace(vector["path"].as_str().unwrap())
        );
        // Wrong passwords of other requests are not to count here.
        let failures = place.master.home.sockets().join(".failed-logins");
        let _ = std::fs::remove_file(failures);
        if id == "jobs-get-one" {
            wait_until("the minion has returned", || {
                let (_, _, body) = ask(place.port, &head, b"");
                !String::from_utf8_lossy(&body).contains("\"return\": [{}]")
            });
        }
        let (status, headers, content) = ask(place.port, &head, body.as_bytes());
        let content = String::from_utf8_lossy(&content).into_owned();
        let answer = &vector["answer"];
        let mut differs = Vec::new();
        if Some(u64::from(status)) != vector["status"].as_u64() {
            differs.push(format!("status {status}, not {}", vector["status"]));
        }
        if let Some(expected) = answer.get("json") {
            let mut found: Value = serde_json::from_str(&content).unwrap_or_default();
            if status == 500 {
                // Stock does not say what is wrong.
                found.as_object_mut().map(|map| map.remove("reason"));
            }
            for pointer in ["/return/0/token", "/return/0/jid", "/0/token"] {
                if let (Some(Value::String(theirs)), Some(Value::String(ours))) =
                    (expected.pointer(pointer), found.pointer(pointer))
                {
                    names.insert(theirs.clone(), ours.clone());
                }
            }
            let mut expected = plain(expected);
            if let Some(clients) = expected.get_mut("clients").and_then(Value::as_array_mut) {
                // A mistake of stock's.
                clients.retain(|one| one != "destroy");
            }
            let is_random = id.starts_with("cmd-local-subset") || id.starts_with("cmd-local-batch");
            if !is_random && !fits(&expected, &plain(&found)) {
                differs.push(format!("{content:.400}\n    not {expected}"));
            }
            let media = headers.get("content-type").map(String::as_str);
            if media != Some("application/json") {
                differs.push(format!("type {media:?}"));
            }
        }
        if let Some(title) = answer.get("html_title").and_then(Value::as_str) {
            let message = answer["html_message"].as_str().unwrap_or_default();
            let (message, _) = message.split_once("...").unwrap_or((message, ""));
            let message = message.replace('&', "&amp;").replace('"', "&quot;");
            if !content.contains(&format!("<title>{title}</title>"))
                || !content.contains(&format!("<p>{message}"))
            {
                differs.push(format!("{content:?}\n    not {title}: {message}"));
            }
        }
        compared += usize::from(!is_otherwise);
        if !differs.is_empty() && !is_otherwise {
            wrong.push(format!("{id}: {}", differs.join("; ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 120, "{compared}");
    drop(place.master);
}

/// A mistake is told with its reason, and what stands beside it does not run.
#[test]
fn a_mistake_is_told_and_nothing_runs() {
    let place = Place::start("");
    let token = place.log_in("alice", "wonder");
    let json = format!("X-Auth-Token: {token}\r\nContent-Type: application/json\r\n");
    let post = |path: &str, body: Value| {
        let (status, text) = request(place.port, "POST", path, &json, &body.to_string());
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        (status, answer, text)
    };
    let get = |path: &str| request(place.port, "GET", path, &json, "");
    let pings = || get("/jobs").1.matches("\"test.ping\"").count();
    let before = pings();
    let good = json!({"client": "local_async", "fun": "test.ping", "tgt": "*"});
    for (path, wrong, reason) in [
        ("/", json!(5), "a map is expected"),
        ("/", json!({"client": "local", "fun": "test.ping"}), "`tgt`"),
        ("/", json!({"client": "runner"}), "`fun`"),
        ("/", json!({"client": "wheel", "fun": ["a"]}), "`fun`"),
        ("/minions", json!({"tgt": "*"}), "`tgt` or `fun`"),
    ] {
        let (status, answer, text) = post(path, json!([good, wrong]));
        assert_eq!(status, 500, "{text}");
        assert_eq!(answer["return"], "An unexpected error occurred");
        let told = answer["reason"].as_str().unwrap_or_default();
        assert!(told.contains(reason), "{text}");
    }
    let batch = |size: Value| json!({"client": "local_batch", "fun": "test.ping", "tgt": "nobody", "batch": size});
    let (status, _, text) = post("/", json!([good, batch(json!("x"))]));
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("batch: x is neither"), "{text}");
    assert_eq!(pings(), before, "nothing has run");
    let (status, answer, _) = post("/", json!([{"client": "runner", "fun": "no.such"}]));
    assert_eq!(status, 500);
    assert_eq!(answer["reason"], "'no.such' is not available.");
    assert_eq!(post("/", json!([batch(json!(1.0))])).0, 200);
    assert_eq!(get("/jobs?timeout=-1").0, 400);
    assert_eq!(get("/jobs?timeout=60").0, 200);
    assert_eq!(get("/keys?timeout=60").0, 404);
}

/// A stream of events shows what happens, to those who may see it, and ends with the session.
#[test]
fn events_are_followed() {
    let place = Place::start("");
    let alice = place.log_in("alice", "wonder");
    let bob = place.log_in("bob", "builder");
    let headers = |token: &str| format!("X-Auth-Token: {token}\r\n");
    let (status, _) = request(place.port, "GET", "/events", &headers(&bob), "");
    assert_eq!(status, 401);
    let mut stream = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    let head = format!(
        "GET /events HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        headers(&alice)
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "retry: 400"));
    let json = "Content-Type: application/json\r\n";
    let hook = format!("{}{json}", headers(&alice));
    let (status, body) = request(place.port, "POST", "/hook/a/b", &hook, "{\"x\": 1}");
    assert_eq!((status, body.as_str()), (200, "{\"success\": true}"));
    assert!(lines.any(|line| line == "tag: salt/netapi/hook/a/b"));
    let data = lines.find(|line| line.starts_with("data: ")).unwrap();
    let data: Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
    assert_eq!(data["data"]["post"], json!({"x": 1}));
    assert_eq!(data["data"]["headers"]["Content-Type"], "application/json");
    assert!(
        !data.to_string().contains(&alice),
        "tokens are shown to nobody"
    );
    // It ends at the next event after the session has.
    let (status, _) = request(place.port, "POST", "/logout", &headers(&alice), "");
    assert_eq!(status, 200);
    place
        .master
        .halite_cli()
        .salt(&["m1", "test.ping"])
        .ok()
        .unwrap();
    assert!(lines.all(|line| !line.starts_with("tag: salt/job")));
}

/// What stock lets pass (reference `salt-api.md` 14), and what nobody should be able to do.
#[test]
fn nobody_gets_more_than_they_should() {
    let place = Place::start(
        ", cors_origins: ['https://console.example.org'], max_request_body_size: 2000",
    );
    let json = "Content-Type: application/json\r\n";
    // Wrong passwords count, further down.
    let id = place.log_in("alice", "wonder");
    // Origins.
    let with_origin = |origin: &str| {
        let head = format!(
            "OPTIONS /run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: {origin}\r\n\r\n"
        );
        let (status, headers, _) = ask(place.port, &head, b"");
        (status, headers.get("access-control-allow-origin").cloned())
    };
    let named = "https://console.example.org";
    assert_eq!(with_origin(named), (204, Some(named.to_owned())));
    assert_eq!(with_origin("https://evil.example.org"), (204, None));
    // Large bodies, and many small ones that never end.
    let large = format!("[{}]", "1,".repeat(2000));
    let (status, _) = request(place.port, "POST", "/run", json, &large);
    assert_eq!(status, 413);
    let deep = "[".repeat(1900);
    let (status, _) = request(place.port, "POST", "/run", json, &deep);
    assert_eq!(status, 400);
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\ne: &e [*d, *d]\nf: &f [*e, *e]\ng: &g [*f, *f]\n\
                h: &h [*g, *g]\ni: &i [*h, *h]\nj: &j [*i, *i]\nk: &k [*j, *j]\nl: &l [*k, *k]\nm: &m [*l, *l]\nn: &n [*m, *m]\n\
                o: &o [*n, *n]\np: &p [*o, *o]\nq: &q [*p, *p]\nr: &r [*q, *q]\ns: &s [*r, *r]\nt: &t [*s, *s]\nu: [*t, *t]\n";
    let (status, _) = request(
        place.port,
        "POST",
        "/run",
        "Content-Type: application/x-yaml\r\n",
        bomb,
    );
    assert_eq!(status, 400);
    // A cookie that scripts cannot read, and an id that nobody chose.
    let chosen = "a".repeat(40);
    let body = json!({"username": "alice", "password": "wonder", "eauth": "file"}).to_string();
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: session_id={chosen}\r\n{json}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let (status, headers, _) = ask(place.port, &head, body.as_bytes());
    let cookie = &headers["set-cookie"];
    assert!(status == 200 && !cookie.contains(&chosen), "{cookie}");
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    // Every client, without credentials and with wrong ones (CVE-2021-25281 and the like).
    for client in [
        "local",
        "local_async",
        "local_batch",
        "local_subset",
        "runner",
        "runner_async",
        "wheel",
        "wheel_async",
        "ssh",
    ] {
        for more in [
            "",
            ", \"token\": \"../../etc/passwd\"",
            ", \"token\": \"deadbeefdeadbeef\"",
            ", \"username\": \"alice\", \"password\": \"x\", \"eauth\": \"file\"",
            ", \"eauth\": \"x\", \"username\": \"x\", \"password\": \"x\"",
        ] {
            let body = format!(
                "{{\"client\": \"{client}\", \"tgt\": \"*\", \"fun\": \"test.ping\"{more}}}"
            );
            let (status, answer) = request(place.port, "POST", "/run", json, &body);
            assert_eq!(status, 401, "{client}{more}: {answer}");
        }
    }
    // Pages of others do not act with somebody's cookie; what is of the service's own origin does.
    let low = "{\"client\": \"local\", \"tgt\": \"m1\", \"fun\": \"test.ping\"}";
    for (origin, expected) in [
        ("https://evil.example.org", 403),
        ("http://localhost", 200),
        (named, 200),
    ] {
        let headers = format!("{json}Cookie: session_id={id}\r\nOrigin: {origin}\r\n");
        let (status, answer) = request(place.port, "POST", "/", &headers, low);
        assert_eq!(status, expected, "{origin}: {answer}");
    }
    // Numbers without end.
    let headers = format!("{json}X-Auth-Token: {id}\r\n");
    for (more, expected) in [
        ("\"client\": \"local_batch\", \"batch\": 1000000000000", 200),
        ("\"client\": \"local_batch\", \"batch\": \"x\"", 400),
        (
            "\"client\": \"local\", \"timeout\": 9223372036854775807",
            200,
        ),
        (
            "\"client\": \"runner\", \"timeout\": 9223372036854775807",
            500,
        ),
    ] {
        let body = format!("{{{more}, \"tgt\": \"m1\", \"fun\": \"test.ping\"}}");
        let (status, answer) = request(place.port, "POST", "/", &headers, &body);
        assert_eq!(status, expected, "{more}: {answer}");
    }
    // Without a session, a body is not waited for.
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1900\r\n\r\n";
    assert_eq!(ask(place.port, head, b"").0, 401);
    // A request that others may take for one to another host.
    for hosts in ["", "Host: localhost\r\nHost: other\r\n"] {
        let head = format!("GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        assert_eq!(ask(place.port, &head, b"").0, 400, "{hosts}");
    }
    // Tags that are none.
    let (status, _) = request(place.port, "POST", "/hook/a%0A%0Adata:x", &headers, "{}");
    assert_eq!(status, 400);
    let log = place.master.log();
    assert!(!log.contains("wonder"), "passwords are logged nowhere");
}

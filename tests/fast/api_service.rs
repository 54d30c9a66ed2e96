//! The REST service where it goes beyond stock's: streams that go on, results as they come, limits, files, its description.

use crate::api::{Place, ask, request};
use halite::store::Stores;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testing::wait_until;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest;

const JSON: &str = "Content-Type: application/json\r\n";

/// A stream of server-sent events; each is its fields by name.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Its status too.
    pub fn open(port: u16, path: &str, headers: &str) -> (u16, Stream) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut stream = Stream(BufReader::new(stream));
        let status = stream.line().unwrap();
        while stream.line().is_some_and(|line| !line.is_empty()) {}
        (status.split(' ').nth(1).unwrap().parse().unwrap(), stream)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event that has data.
    pub fn event(&mut self) -> Option<BTreeMap<String, String>> {
        let mut fields = BTreeMap::new();
        loop {
            match self.line()?.split_once(": ") {
                Some((name, value)) => {
                    fields.insert(name.to_owned(), value.to_owned());
                }
                None if fields.contains_key("data") => return Some(fields),
                None => fields.clear(),
            }
        }
    }
}

fn with_token(token: &str) -> String {
    format!("X-Auth-Token: {token}\r\n{JSON}")
}

fn hook(place: &Place, token: &str, name: &str) {
    let path = format!("/hook/{name}");
    let (status, body) = request(place.port, "POST", &path, &with_token(token), "{}");
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_listener_goes_on_where_it_was() {
    let place = Place::start("");
    let alice = place.log_in("alice", "wonder");
    let open = |more: &str| {
        let headers = format!("{}{more}", with_token(&alice));
        Stream::open(place.port, "/events?tag=salt/netapi/hook/*", &headers)
    };
    let (status, mut first) = open("");
    assert_eq!(status, 200);
    for name in ["a", "b"] {
        hook(&place, &alice, name);
    }
    let heard: Vec<_> = (0..2).map(|_| first.event().unwrap()).collect();
    let tags: Vec<_> = heard.iter().map(|event| event["tag"].as_str()).collect();
    assert_eq!(tags, ["salt/netapi/hook/a", "salt/netapi/hook/b"]);
    drop(first);
    hook(&place, &alice, "c");
    let (_, mut second) = open(&format!("Last-Event-ID: {}\r\n", heard[0]["id"]));
    let tags: Vec<_> = (0..2)
        .map(|_| second.event().unwrap()["tag"].clone())
        .collect();
    assert_eq!(tags, ["salt/netapi/hook/b", "salt/netapi/hook/c"]);
    let headers = with_token(&alice);
    let (status, _) = Stream::open(place.port, "/events?token=x", &headers);
    assert_eq!(status, 400);
}

#[test]
fn returns_are_told_as_they_come() {
    let place = Place::start("");
    let bob = place.log_in("bob", "builder");
    let low = json!({"client": "local_async", "tgt": ["m1", "m2", "m9"], "tgt_type": "list", "fun": "test.echo", "arg": ["x"]});
    let (status, body) = request(place.port, "POST", "/", &with_token(&bob), &low.to_string());
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let jid = answer["return"][0]["jid"].as_str().unwrap().to_owned();
    let path = format!("/jobs/{jid}/events");
    let follow = |token: &str| Stream::open(place.port, &path, &with_token(token));
    // As it runs, and when it is over.
    for _ in 0..2 {
        let (status, mut stream) = follow(&bob);
        assert_eq!(status, 200);
        let mut ids = Vec::new();
        let done = loop {
            let event = stream.event().expect("it goes on");
            let data: Value = serde_json::from_str(&event["data"]).unwrap();
            match event["event"].as_str() {
                "return" => {
                    assert_eq!(
                        (&data["return"], &data["retcode"]),
                        (&json!("x"), &json!(0))
                    );
                    ids.push(data["id"].as_str().unwrap().to_owned());
                }
                "done" => break data,
                other => panic!("{other}"),
            }
        };
        ids.sort_unstable();
        assert_eq!(ids, ["m1", "m2"]);
        assert_eq!(
            done,
            json!({"missing": ["m9"], "outcomes": {"m9": "no key"}})
        );
        assert!(stream.event().is_none(), "it ends");
    }
    // Others see it if they may look at jobs; another session of the same user does not count.
    assert_eq!(follow(&place.log_in("alice", "wonder")).0, 200);
    for (user, password) in [("bob", "builder"), ("eve", "nothing")] {
        assert_eq!(follow(&place.log_in(user, password)).0, 401, "{user}");
    }
    let (status, _) = Stream::open(place.port, "/jobs/x/events", &with_token(&bob));
    assert_eq!(status, 400);
}

#[test]
fn the_bus_is_heard_over_a_websocket() {
    let place = Place::start("");
    let alice = place.log_in("alice", "wonder");
    let bob = place.log_in("bob", "builder");
    let open = |path: &str, headers: &[(&'static str, &str)]| {
        let mut asked = format!("ws://127.0.0.1:{}{path}", place.port)
            .into_client_request()
            .unwrap();
        for (name, value) in headers {
            asked.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        tungstenite::client(asked, stream)
            .ok()
            .map(|(socket, _)| socket)
    };
    assert!(open("/ws", &[]).is_none() && open("/ws/nothing", &[]).is_none());
    assert!(open(&format!("/ws/{bob}"), &[]).is_none());
    let cookie = format!("session_id={alice}");
    let evil = [
        ("cookie", cookie.as_str()),
        ("origin", "https://evil.example.org"),
    ];
    assert!(open("/ws", &evil).is_none(), "a page of others");
    let mut socket = open(&format!("/ws/{alice}"), &[]).unwrap();
    socket
        .send(Message::text("websocket client ready"))
        .unwrap();
    let text = |message: Message| message.into_text().unwrap().as_str().to_owned();
    assert_eq!(text(socket.read().unwrap()), "server received message");
    hook(&place, &alice, "over/ws");
    let heard = loop {
        let heard = text(socket.read().unwrap());
        if heard.contains("over/ws") {
            break heard;
        }
    };
    let data = heard
        .strip_prefix("data: ")
        .and_then(|rest| rest.strip_suffix("\n\n"));
    let data: Value = serde_json::from_str(data.unwrap()).unwrap();
    assert_eq!(data["tag"], "salt/netapi/hook/over/ws");
    // It ends with its session.
    let (status, _) = request(place.port, "POST", "/logout", &with_token(&alice), "");
    assert_eq!(status, 200);
    let _ = socket.send(Message::text("x"));
    assert!(std::iter::from_fn(|| socket.read().ok()).all(|m| m.is_close() || m.is_text()));
}

#[test]
fn it_tells_about_itself() {
    let place = Place::start("");
    let get = |path: &str, headers: &str| {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        let (status, headers, body) = ask(place.port, &head, b"");
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(get("/health", "").0, 200);
    wait_until("the master is ready", || get("/ready", "").0 == 200);
    // Each path that is described is there.
    let (status, _, body) = get("/openapi.json", "");
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    for path in document["paths"].as_object().unwrap().keys() {
        let path = path.replace(['{', '}'], "");
        assert_ne!(get(&path, "").0, 500, "{path}");
    }
    // Requests have ids.
    let (_, headers, _) = get("/", "");
    assert_eq!(headers["x-request-id"].len(), 16);
    let (_, headers, _) = get("/", "X-Request-Id: my-1\r\n");
    assert_eq!(headers["x-request-id"], "my-1");
    // What a client has is not sent again.
    let (_, headers, _) = get("/", "");
    let head = "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, of_head, body) = ask(place.port, head, b"");
    assert_eq!((&of_head["etag"], body.len()), (&headers["etag"], 0));
    assert_eq!(headers["vary"], "Accept");
    let known = format!("If-None-Match: {}\r\n", headers["etag"]);
    let (status, _, body) = get("/", &known);
    assert_eq!((status, body.as_str()), (304, ""));
    // A browser gets the console, a program does not.
    let (status, headers, body) = get("/", "Accept: text/html,*/*;q=0.8\r\n");
    assert!(
        status == 200 && body.to_ascii_lowercase().starts_with("<!doctype html>"),
        "{body}"
    );
    let policy = &headers["content-security-policy"];
    assert!(
        policy.contains("script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(
        get("/console/app.js", "").1["content-type"],
        "text/javascript;charset=utf-8"
    );
    assert_eq!(get("/console/../service.rs", "").0, 404);
    assert!(get("/", "Accept: */*\r\n").2.contains("Welcome"));
    // Who has logged in, and that alone.
    assert_eq!(get("/console/session", "").2, "{\"return\": []}");
    let bob = place.log_in("bob", "builder");
    let (_, _, body) = get("/console/session", &with_token(&bob));
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["return"][0]["user"], "bob");
    assert_eq!(told["return"][0]["perms"], json!(["test.*"]));
    assert!(!body.contains(&bob));
    // A session that has ended leaves no token behind.
    let (status, _) = request(place.port, "POST", "/logout", &with_token(&bob), "");
    assert_eq!(status, 200);
    let config = halite::config::load_master(&place.master.home.config_dir()).unwrap();
    let tokens = Stores::open(&config).tokens;
    let valid = |digest| {
        tokens
            .by_digest(&digest, 0.0)
            .unwrap()
            .is_some_and(|one| !one.is_revoked)
    };
    assert!(!tokens.digests().unwrap().into_iter().any(valid));
    // Each call is in the audit log.
    let audit = std::fs::read_to_string(&config.audit_log).unwrap();
    let line = audit
        .lines()
        .find(|line| line.contains("POST /logout"))
        .unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["what"], &line["user"], &line["verdict"]),
        (&json!("api"), &json!("bob"), &json!("allowed"))
    );
    // Jobs, the newest ones, page by page.
    let alice = place.log_in("alice", "wonder");
    let page = |path: &str| {
        let (_, headers, body) = get(path, &with_token(&alice));
        let body: Value = serde_json::from_str(&body).unwrap();
        let jobs = body["return"][0].as_object().unwrap();
        let jids: Vec<String> = jobs.keys().cloned().collect();
        (jids, headers.get("link").cloned())
    };
    let low = json!([1, 2, 3].map(|_| json!({"client": "local", "tgt": "m1", "fun": "test.ping"})));
    let (status, _) = request(
        place.port,
        "POST",
        "/",
        &with_token(&alice),
        &low.to_string(),
    );
    assert_eq!(status, 200);
    let (first, link) = page("/jobs?limit=1");
    let link = link.unwrap();
    assert_eq!(
        link,
        format!("</jobs?limit=1&before={}>; rel=\"next\"", first[0])
    );
    let (second, _) = page(&format!("/jobs?limit=1&before={}", first[0]));
    assert!(second[0] < first[0]);
    assert_eq!(get("/jobs?limit=x", &with_token(&alice)).0, 400);
}

#[test]
fn nobody_sends_too_much() {
    let place = Place::start(", rate_limit: 2");
    let alice = place.log_in("alice", "wonder");
    let head = format!(
        "POST /logout HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n{}\r\n",
        "X-Auth-Token: nothing\r\n"
    );
    let answers: Vec<_> = (0..40).map(|_| ask(place.port, &head, b"")).collect();
    let (status, headers, _) = answers.last().unwrap();
    assert_eq!((*status, headers["retry-after"].as_str()), (429, "1"));
    assert_eq!(answers[0].0, 401);
    // Others are not held up.
    let (status, _) = request(place.port, "GET", "/stats", &with_token(&alice), "");
    assert_eq!(status, 200);
    let (status, _) = request(place.port, "GET", "/health", "", "");
    assert_eq!(status, 200);
}

#[test]
fn keys_are_made_for_a_minion() {
    let place = Place::start("");
    let make = |user: &str, password: &str, id: &str| {
        let body =
            json!({"mid": id, "username": user, "password": password, "eauth": "file"}).to_string();
        let head = format!(
            "POST /keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{JSON}Content-Length: {}\r\n\r\n",
            body.len()
        );
        ask(place.port, &head, body.as_bytes())
    };
    let (status, headers, body) = make("alice", "wonder", "new1");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    assert_eq!(headers["content-type"], "application/x-tar");
    assert!(headers["content-disposition"].contains("\"saltkeys-new1.tar\""));
    let mut archive = tar::Archive::new(body.as_slice());
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), text);
    }
    assert!(files["minion.pem"].contains("PRIVATE KEY"));
    let config = halite::config::load_master(&place.master.home.config_dir()).unwrap();
    let keys = Stores::open(&config).keys;
    let state = halite::store::keys::KeyState::Accepted;
    let kept = keys.get(state, &"new1".parse().unwrap()).unwrap().unwrap();
    assert_eq!(kept.trim(), files["minion.pub"].trim());
    assert_eq!(make("alice", "wonder", "../x").0, 400);
    assert_eq!(make("bob", "builder", "new2").0, 401);
    assert_eq!(make("alice", "wrong", "new2").0, 401);
}

#[test]
fn pages_of_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("static")).unwrap();
    std::fs::write(dir.path().join("index.html"), "<p>mine</p>").unwrap();
    std::fs::write(dir.path().join("static/a.css"), "a {}").unwrap();
    let dir = dir.path().display();
    let place = Place::start(&format!(
        ", app: {dir}/index.html, static: {dir}/static, static_path: /files"
    ));
    let html = "Accept: text/html\r\n";
    for path in ["/", "/app", "/app/some/where"] {
        let (status, body) = request(place.port, "GET", path, html, "");
        assert_eq!((status, body.as_str()), (200, "<p>mine</p>"), "{path}");
    }
    let (status, body) = request(place.port, "GET", "/files/a.css", "", "");
    assert_eq!((status, body.as_str()), (200, "a {}"));
    for path in [
        "/files/../index.html",
        "/files/%2e%2e/index.html",
        "/static/a.css",
        "/files",
    ] {
        assert_eq!(request(place.port, "GET", path, "", "").0, 404, "{path}");
    }
}

/// What an attacker found.
#[test]
fn nobody_comes_in_by_another_way() {
    let place = Place::start(", api_acl: {users: {'*': ['*'], bob: [10.0.0.1]}}");
    let alice = place.log_in("alice", "wonder");
    // Who may not log in from here may not do so on another path either.
    let bob = json!({"username": "bob", "password": "builder", "eauth": "file", "mid": "new",
        "client": "local", "tgt": "m1", "fun": "test.ping"});
    for path in ["/login", "/token", "/run", "/keys"] {
        let (status, body) = request(place.port, "POST", path, JSON, &bob.to_string());
        assert_eq!(status, 401, "{path}: {body}");
    }
    // Pages of others neither publish jobs with somebody's cookie, nor log somebody in.
    let cookie = format!("Cookie: session_id={alice}\r\n");
    let elsewhere = format!("{cookie}Sec-Fetch-Site: same-site\r\n");
    for (path, headers, expected) in [
        ("/minions", &elsewhere, 403),
        ("/minions", &cookie, 200),
        ("/", &elsewhere, 200),
    ] {
        assert_eq!(
            request(place.port, "GET", path, headers, "").0,
            expected,
            "{path}"
        );
    }
    let login = json!({"username": "alice", "password": "wonder", "eauth": "file"}).to_string();
    let headers = format!("{JSON}Origin: https://evil.example.org\r\n");
    let (status, _) = request(place.port, "POST", "/login", &headers, &login);
    assert_eq!(status, 403);
    // Every event is compared with each glob.
    let path = format!("/events?tag={}", "[!a]*".repeat(200));
    assert_eq!(Stream::open(place.port, &path, &with_token(&alice)).0, 400);
    // Commands of one user leave places for others.
    let low = json!({"client": "local", "tgt": "m1", "fun": "test.sleep", "arg": [30]}).to_string();
    let carol = place.log_in("alice", "wonder");
    let many: Vec<TcpStream> = (0..70)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
            let headers = with_token(&carol);
            let head = format!(
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{headers}\r\n{low}",
                low.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let running = || {
        let (_, body) = request(place.port, "GET", "/stats", &with_token(&carol), "");
        let stats: Value = serde_json::from_str(&body).unwrap();
        stats["halite-api"]["running"].as_u64().unwrap()
    };
    wait_until("no more of them run", || running() == 64);
    let (status, _) = request(place.port, "GET", "/jobs", &with_token(&carol), "");
    assert_eq!(status, 429);
    place.log_in("carol", "singer");
    // When their clients have gone, nobody waits for them.
    drop(many);
    wait_until("there are places again", || running() == 0);
    // Ids of sessions are in no log.
    let _ = request(place.port, "GET", &format!("/ws/{alice}"), "", "");
    let config = halite::config::load_master(&place.master.home.config_dir()).unwrap();
    let audit = std::fs::read_to_string(&config.audit_log).unwrap();
    assert!(!audit.contains(&alice) && !place.master.log().contains(&alice));
}

#[test]
fn tools_of_arena_ask_without_a_login_where_the_operator_lets_them() {
    for (more, status) in [("", 404), (", arena: true", 200)] {
        let place = Place::start(more);
        let (said, body) = request(place.port, "GET", "/api/runtimes/", JSON, "");
        assert_eq!(said, status, "{body}");
        if status == 200 {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                body,
                json!({"count": 0, "start": 0, "results": [], "runtimes": []})
            );
            let (said, _) = request(place.port, "GET", "/api/runtimes/x/", JSON, "");
            assert_eq!(said, 404);
        }
    }
}

#[test]
fn without_a_provider_there_is_no_login_at_one() {
    let place = Place::start("");
    for path in ["/oidc/login", "/oidc/callback?code=a&state=b"] {
        let (status, body) = request(place.port, "GET", path, "", "");
        assert_eq!(status, 404, "{body}");
    }
    let login = r#"{"username": "alice", "password": "a.b.c", "eauth": "oidc"}"#;
    let (status, _) = request(place.port, "POST", "/login", JSON, login);
    assert_eq!(status, 401);
}

//! What a real master tells of itself: `/metrics`, `/healthz`, `fleet.status`.

use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use testing::harness::{LIMIT, Master, eventually};

/// Status line and body of a page.
fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Samples by name with labels. Every family must have a HELP and a TYPE line before its samples.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut out = BTreeMap::new();
    let mut family = String::new();
    let mut suffixes: &[&str] = &[""];
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(family.starts_with("halite_"), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let counter = rest == format!("{family} counter");
            let histogram = rest == format!("{family} histogram");
            let known = counter || histogram || rest == format!("{family} gauge");
            assert!(known, "{line}");
            assert_eq!(counter, family.ends_with("_total"), "{line}");
            suffixes = match histogram {
                true => &["_bucket", "_sum", "_count"],
                false => &[""],
            };
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let plain = name.split('{').next().unwrap();
        let of_family = |suffix: &&str| plain == format!("{family}{suffix}");
        assert!(suffixes.iter().any(of_family), "{line}");
        let before = out.insert(name.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "{line} stands there twice");
    }
    out
}

fn free_port() -> u16 {
    testing::harness::free_ports()[0]
}

#[test]
fn counters_move() {
    let port = free_port();
    let master = Master::start(&format!(
        "worker_threads: 2\nmetrics_address: 127.0.0.1:{port}"
    ));
    let scrape = || samples(&get(port, "/metrics").1);
    let swarm = master.swarm(4);
    master.publish_ping("*");
    eventually("returns in the metrics", || {
        let now = scrape();
        let sum = |family: &str| -> f64 {
            let prefix = format!("{family}{{");
            now.iter()
                .filter(|(k, _)| k.starts_with(&prefix))
                .map(|(_, v)| v)
                .sum()
        };
        sum("halite_worker_returns_total") == 4.0 && sum("halite_worker_published_total") == 1.0
    });
    eventually("the rest", || {
        let now = scrape();
        let at = |name: &str| *now.get(name).unwrap_or(&-1.0);
        at("halite_publications_total") == 1.0
            && at("halite_requests_total{class=\"auth\"}") >= 4.0
            && at("halite_requests_total{class=\"return\"}") >= 4.0
            && at("halite_request_queue_depth{class=\"auth\"}") == 0.0
            && at("halite_workers{state=\"idle\"}") == 2.0
            && at("halite_events_total") >= 5.0
            && at("halite_events_dropped_total") == 0.0
            && at("halite_keys{state=\"accepted\"}") == 4.0
            && at("halite_connections{port=\"publish\"}") == 4.0
            && at("halite_jobs_waiting") == 0.0
            && at("halite_request_seconds_count{class=\"return\"}") >= 4.0
            && at("halite_request_seconds_bucket{class=\"return\",le=\"+Inf\"}")
                == at("halite_request_seconds_count{class=\"return\"}")
            && at("halite_role_up{role=\"publish\"}") == 1.0
            && at("halite_role_resident_bytes{role=\"request\"}") > 0.0
            && at("halite_role_restarts_total{role=\"publish\"}") == 0.0
    });
    assert_eq!(
        get(port, "/healthz"),
        ("HTTP/1.0 200 OK".into(), "ok\n".into())
    );
    assert!(get(port, "/other").0.contains("404"));

    let role = master.role(" PubServerChannel._publish_daemon").unwrap();
    testing::harness::send(role.pid, Signal::SIGKILL);
    eventually("a restart in the metrics", || {
        scrape()["halite_role_restarts_total{role=\"publish\"}"] == 1.0
    });
    eventually("health", || get(port, "/healthz").0.contains("200"));
    drop(swarm);
}

/// Nobody who only connects gets a thread or keeps others out.
#[test]
fn silent_connections_cost_no_thread_and_keep_nobody_out() {
    let port = free_port();
    let master = Master::start(&format!(
        "worker_threads: 1\nmetrics_address: 127.0.0.1:{port}"
    ));
    let pid = master.role(" Metrics").unwrap().pid;
    let count = |what: &str| {
        let listing = std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap();
        listing.count()
    };
    let page = get(port, "/metrics").0;
    let (threads, files) = (count("task"), count("fd"));
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    assert_eq!(get(port, "/metrics").0, page);
    assert_eq!(count("task"), threads);
    assert!(count("fd") <= files + 64, "{} files", count("fd"));
    drop(silent);
}

#[test]
fn two_masters_share_a_host() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let master = Master::start(&format!("worker_threads: 1\nmetrics_address: '{address}'"));
    assert!(master.log().contains("metrics_address"), "{}", master.log());
    let socket = master.config().sock_dir.join("master_status.ipc");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    eventually("the same text on the socket", || {
        let mut text = String::new();
        UnixStream::connect(&socket)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        samples(&text).contains_key("halite_start_time_seconds")
    });
}

#[test]
fn fleet_status_is_one_screen() {
    let mut master = Master::start("worker_threads: 1\nmetrics_address: ''");
    let dir = master.dir.path().to_owned();
    let status = || -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_halite-run"));
        let out = command
            .arg("-c")
            .arg(&dir)
            .args(["--out=json", "fleet.status"])
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        serde_json::from_slice(&out.stdout).unwrap()
    };
    let _swarm = master.swarm(2);
    eventually("figures", || {
        let now = status();
        now["master"]["running"] == true
            && now["keys"]["accepted"] == 2
            && now["queues"]["return"] == 0
            && now["dropped"]["events"] == 0
            && now["workers"]["idle"] == 1
    });
    master.signal(Signal::SIGTERM);
    master.wait_end(LIMIT).unwrap();
    let now = status();
    assert_eq!(now["master"]["running"], false);
    assert_eq!(now["keys"]["accepted"], 2);
}

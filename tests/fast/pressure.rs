//! Queues that run full: what is lost is counted, said and told apart from what is not.

use halite::client::local::{ClientError, Job};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use testing::harness::{Master, eventually};

/// What the master tells of itself.
fn metrics(master: &Master) -> String {
    let socket = master.config().sock_dir.join("master_status.ipc");
    let mut text = String::new();
    UnixStream::connect(socket)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// The value of a sample, by its name with labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// A subscriber that says what one must, and never reads.
fn stuck(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    setsockopt(&stream, sockopt::RcvBuf, &4096).unwrap();
    let mut said = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    said.extend_from_slice(b"NULL");
    said.resize(64, 0);
    said.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x00\x01\x01");
    stream.write_all(&said).unwrap();
    stream
}

fn job(octets: usize) -> Job {
    Job {
        fun: "test.ping".into(),
        arg: vec!["x".repeat(octets).into()],
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ..Job::default()
    }
}

#[test]
fn a_subscriber_that_never_reads_is_named_and_the_others_get_all() {
    // Together more than the kernel holds for one connection; those who read never have more than GROUP waiting.
    const JOBS: usize = 12;
    const GROUP: usize = 3;
    const OCTETS: usize = 1_500_000;
    let master =
        Master::start("worker_threads: 1\nmetrics_address: ''\npub_hwm: 4\nzmq_heartbeat_ivl: 0");
    let swarm = master.swarm(2);
    let stuck = stuck(master.publish_port);
    eventually("three subscribers", || {
        sample(&metrics(&master), "halite_subscribers") == Some(3.0)
    });
    let mut client = master.client();
    for n in (GROUP..=JOBS).step_by(GROUP) {
        for _ in 0..GROUP {
            client.publish(&job(OCTETS)).unwrap();
        }
        eventually("returns of the others", || {
            let text = metrics(&master);
            sample(&text, "halite_worker_returns_total{worker=\"MWorker-0\"}")
                == Some(2.0 * n as f64)
        });
    }
    let peer = stuck.local_addr().unwrap();
    eventually("losses", || {
        let text = metrics(&master);
        let lost = sample(
            &text,
            "halite_publication_copies_lost_total{reason=\"slow\"}",
        );
        let by_peer = sample(
            &text,
            &format!("halite_subscriber_lost_total{{peer=\"{peer}\"}}"),
        );
        let waiting = sample(&text, "halite_publication_copies_waiting");
        let copies = sample(&text, "halite_publication_copies_total").unwrap_or(0.0);
        let all = copies + lost.unwrap_or(0.0) + waiting.unwrap_or(0.0);
        lost > Some(0.0) && by_peer == lost && waiting == Some(4.0) && all == 3.0 * JOBS as f64
    });
    eventually("its name in the log", || {
        master
            .log()
            .contains(&format!("subscriber {peer} is too slow and lost"))
    });
    drop(stuck);
    eventually("what waited is lost as well", || {
        let text = metrics(&master);
        sample(
            &text,
            "halite_publication_copies_lost_total{reason=\"gone\"}",
        ) == Some(4.0)
            && sample(&text, "halite_subscribers") == Some(2.0)
    });
    drop(swarm);
}

#[test]
fn a_job_that_is_too_large_is_an_error_to_its_sender() {
    let master = Master::start("worker_threads: 1\nmetrics_address: ''\nmax_request_size: 60000");
    let mut client = master.client();
    let refused = client.publish(&job(70_000)).unwrap_err();
    assert!(matches!(refused, ClientError::TooLarge(octets, 60_000) if octets > 70_000));
    let out = Command::new(env!("CARGO_BIN_EXE_halite"))
        .arg("-c")
        .arg(master.dir.path())
        .args(["*", "test.echo", &"x".repeat(70_000)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr) + String::from_utf8_lossy(&out.stdout);
    assert!(!out.status.success(), "{said}");
    assert!(said.contains("max_request_size allows 60000"), "{said}");
    // The connection is as good as before.
    client.publish(&job(1000)).unwrap();
}

#[test]
fn the_check_of_a_configuration_counts_keys() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "root_dir: {}\nmax_open_files: 101\nrequest_queue_limit: 1\nevent_queue_limit: 3\n",
        dir.path().display()
    );
    std::fs::write(dir.path().join("master"), text).unwrap();
    let check = || {
        let out = testing::harness::command(dir.path())
            .arg("--check-config")
            .stdout(std::process::Stdio::piped())
            .output()
            .unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(!check().contains("warning"), "{}", check());
    let config = halite::config::load_master(dir.path()).unwrap();
    let keys = halite::store::Stores::open(&config).keys;
    keys.prepare().unwrap();
    for id in ["a", "b"] {
        let accepted = halite::store::keys::KeyState::Accepted;
        keys.put(accepted, &id.parse().unwrap(), "key").unwrap();
    }
    let told = check();
    for (option, figure) in [
        ("max_open_files", "set it to 102 or more"),
        ("request_queue_limit", "set it to 2 or more"),
    ] {
        let line = format!("warning: {option}: ");
        let found = told.lines().find(|l| l.starts_with(&line));
        assert!(found.is_some_and(|l| l.contains(figure)), "{told}");
    }
    assert!(
        !told.contains("event_queue_limit") && told.contains("is usable"),
        "{told}"
    );
}

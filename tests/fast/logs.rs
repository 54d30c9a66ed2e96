//! Logs of real daemons: lines of JSON with their fields, and logrotate.

use serde_json::{Map, Value};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testing::mosquitto::Mosquitto;
use testing::ports::Ports;
use testing::process::Process;
use testing::{Cli, LONG, Master, Minion, NatsServer, wait_for, wait_until};

/// The lines of a log of JSON; a line that is no object is a failure.
fn lines(path: &Path) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        // The last line may be on its way.
        .filter(|line| line.ends_with('}'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Waits for a line that is what is wanted.
fn line(what: &str, path: &Path, is: impl Fn(&Map<String, Value>) -> bool) -> Map<String, Value> {
    wait_for(what, || lines(path).into_iter().find(|line| is(line)))
}

fn is(line: &Map<String, Value>, name: &str, value: &str) -> bool {
    line.get(name).is_some_and(|v| v == value)
}

fn says(line: &Map<String, Value>, words: &str) -> bool {
    let message = line.get("message").and_then(Value::as_str);
    message.is_some_and(|m| m.contains(words))
}

fn pinged(cli: &Cli) -> String {
    let out = cli.run("salt", &["web1", "test.ping", "--out=json"]);
    assert!(out.out.contains("true"), "{out:?}");
    out.out
}

const JSON: &str = "log_format: json\nlog_level_logfile: debug\n";

#[test]
fn lines_of_json_have_fields_and_no_secret() {
    let secret = "correct-horse-battery";
    let master = Master::halite(&format!(
        "auto_accept: true\nlog_format_logfile: json\nlog_level_logfile: debug\nreturner.pgjsonb.pass: {secret}"
    ));
    let minion = Minion::halite(&master, "web1", JSON);
    let (cli, log) = (
        master.halite_cli(),
        master.home.root().join("var/log/salt/master"),
    );
    wait_until("the minion answers", || {
        let out = cli.run("salt", &["web1", "test.ping", "--out=json"]);
        out.out.contains("true")
    });
    pinged(&cli);
    // A job that was published before the minion was ready has no return.
    let returned = line("the return", &log, |l| {
        is(l, "fun", "test.ping") && is(l, "minion", "web1") && says(l, "return of web1")
    });
    let jid = returned["jid"].as_str().unwrap().to_owned();
    let published = line("the job", &log, |l| {
        is(l, "jid", &jid) && says(l, "published test.ping to 1 minions")
    });
    assert!(is(&published, "fun", "test.ping"));
    assert_eq!(published["level"], "INFO");
    assert_eq!(published["name"], "halite.master.worker.publish");
    let time = published["time"].as_str().unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    line("the sign-in", &log, |l| {
        let peer = l.get("peer").and_then(Value::as_str).unwrap_or_default();
        is(l, "minion", "web1") && peer.starts_with("127.0.0.1")
    });
    let own = minion.home.root().join("var/log/salt/minion");
    line("the job at the minion", &own, |l| {
        is(l, "jid", &jid) && is(l, "minion", "web1") && is(l, "fun", "test.ping")
    });
    let key = std::fs::read_to_string(minion.home.pki().join("minion.pem")).unwrap();
    let key: Vec<&str> = key.lines().filter(|l| l.len() > 60).collect();
    assert!(!key.is_empty());
    for path in [&log, &own] {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains(secret), "{}", path.display());
        assert!(
            !key.iter().any(|part| text.contains(part)),
            "{}",
            path.display()
        );
    }
}

/// Debian's and Fedora's logrotate, by the configuration that comes with the packages.
#[test]
fn logrotate_moves_files_and_nothing_is_lost() {
    let logrotate = ["/usr/sbin/logrotate", "/sbin/logrotate"].map(PathBuf::from);
    let Some(logrotate) = logrotate.into_iter().find(|p| p.exists()) else {
        eprintln!("skipped: there is no logrotate");
        return;
    };
    let master = Master::halite("auto_accept: true\nlog_format: json\nlog_level_logfile: info");
    let _minion = Minion::halite(&master, "web1", JSON);
    let cli = master.halite_cli();
    let dir = master.home.root();
    let logs = dir.join("var/log/salt");
    let log = logs.join("master");
    wait_until("the minion answers", || {
        let out = cli.run("salt", &["web1", "test.ping", "--out=json"]);
        out.out.contains("true")
    });
    let (config, state) = (dir.join("logrotate.conf"), dir.join("logrotate.state"));
    let pid = dir.join("var/run/salt-master.pid");
    // The file of the packages, with the places of this test.
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/logrotate/halite-master");
    let text = std::fs::read_to_string(shipped).unwrap();
    let placed = text
        .replace("/var/log/halite/", &format!("{}/", logs.display()))
        .replace(
            "systemctl kill --kill-who=main --signal=HUP halite-master.service",
            &format!("kill -HUP \"$(cat {})\"", pid.display()),
        );
    assert_eq!(
        placed.matches(&*logs.to_string_lossy()).count(),
        3,
        "{text}"
    );
    assert_eq!(placed.matches(&*pid.to_string_lossy()).count(), 1, "{text}");
    let text = placed;
    std::fs::write(&config, text).unwrap();
    let done = Command::new(logrotate)
        .arg("--force")
        .arg("--state")
        .args([&state, &config])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let old = dir.join("var/log/salt/master.1");
    assert!(lines(&old).iter().any(|l| says(l, "published test.ping")));
    line("the word about the signal", &log, |l| says(l, "SIGHUP"));
    let before = lines(&old).len();
    // Workers may be told a moment after the main process.
    wait_until("a job in the new file", || {
        pinged(&cli);
        lines(&log).iter().any(|l| says(l, "published test.ping"))
    });
    assert!(lines(&old).len() >= before);
}

/// The lines of a log at level error or above.
fn errors(log: &str) -> Vec<&str> {
    let is_error = |line: &&str| {
        let head: String = line.chars().take(60).collect();
        head.contains("ERROR") || head.contains("CRITICAL")
    };
    log.lines().filter(is_error).collect()
}

/// What each role does in an ordinary life is no error.
#[test]
fn an_ordinary_life_leaves_no_errors() {
    let mut upper = Master::halite("auto_accept: true\norder_masters: true");
    let dir = testing::short_dir();
    let reaction = dir.path().join("up.sls");
    std::fs::write(&reaction, "up:\n  runner.manage.up: []\n").unwrap();
    let mut master = Master::halite(&format!(
        "auto_accept: true\nsyndic_master: 127.0.0.1:{}\nevent_return: [rawfile_json]\n\
         reactor: [{{'salt/minion/*/start': [{}]}}]\nschedule: {{up: {{function: manage.up, seconds: 1}}}}\n\
         metrics_address: 127.0.0.1:0\npresence_events: true",
        upper.ret_port,
        reaction.display()
    ));
    let files = "schedule: {ping: {function: test.ping, seconds: 1}}\nmine_functions: {test.ping: []}\n\
                 beacons: {status: []}";
    let mut minion = Minion::halite(&master, "web1", files);
    let text = format!("root_dir: {}\nid: lower\n", master.home.root().display());
    std::fs::write(master.home.config_dir().join("minion"), text).unwrap();
    let mut command = Command::new(testing::halite_program("halite-syndic"));
    command
        .arg("-c")
        .arg(master.home.config_dir())
        .args(["-l", "info"]);
    let below = master.place("syndic.log");
    let mut syndic = Process::start("the syndic", &mut command, &below);
    wait_until("the minion answers from above", || {
        syndic.must_live();
        let out = upper
            .halite_cli()
            .run("salt", &["web1", "test.ping", "--out=json"]);
        out.out.contains("true")
    });
    let cli = master.halite_cli();
    pinged(&cli);
    for call in [
        &["state.single", "test.nop"][..],
        &["sys.doc"],
        &["no.such"],
        &["mine.update"],
    ] {
        cli.salt(&[&["web1"][..], call].concat());
    }
    cli.runner(&["manage.status"]);
    cli.key(&["-L"]);

    minion.terminate();
    syndic.terminate();
    master.terminate();
    upper.terminate();
    for log in [
        minion.home.log(),
        below,
        master.home.log(),
        upper.home.log(),
    ] {
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(text.contains("[INFO"), "{}: {text}", log.display());
        assert_eq!(errors(&text), [""; 0], "{}", log.display());
    }
}

/// What a master logs from its start, once its gateway has said `ready`, to its end by TERM; four times.
fn lives(gateway: &str, ready: &str) -> String {
    let mut master = Master::halite(&format!("gateways: {{{gateway}}}"));
    let log = master.home.log();
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    for life in 1..=4 {
        if life > 1 {
            master.start_again();
        }
        wait_until(&format!("start {life} of {gateway}"), || {
            text().matches(ready).count() >= life
        });
        master.stop();
    }
    text()
}

/// An operator who is woken by errors must not be woken by a restart.
#[test]
fn an_ordinary_start_and_stop_has_no_error() {
    let port = Ports::hold(1).numbers()[0];
    let dir = testing::short_dir();
    let psk = dir.path().join("psk");
    std::fs::write(&psk, "throwaway-psk-of-a-test").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&psk, mode).unwrap();
    let (mosquitto, nats) = (Mosquitto::start(), NatsServer::start(&[]));
    let mut gateways = vec![(
        format!("sysinspect: {{interface: 127.0.0.1, port: {port}}}"),
        "listening for sysinspect minions",
    )];
    if let Some(broker) = &mosquitto {
        let settings = format!("arena: {{servers: '{}'}}", broker.address());
        gateways.push((settings, "connected to the broker of ARENA"));
    }
    if let Some(broker) = &nats {
        let settings = format!(
            "collective: {{servers: ['{}'], security: psk, psk_file: {}, inward: true, outward: true}}",
            broker.address(),
            psk.display()
        );
        gateways.push((settings, "the collective is reached through"));
    }
    let all: Vec<_> = gateways
        .into_iter()
        .map(|(settings, ready)| std::thread::spawn(move || (lives(&settings, ready), settings)))
        .collect();
    for one in all {
        let (log, settings) = one.join().unwrap();
        assert_eq!(errors(&log), [""; 0], "{settings}");
    }
}

/// Daemons, their other processes, and a command tell a syslog daemon.
#[test]
fn a_syslog_daemon_gets_the_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let options = format!(
        "log_file: file://{}/LOG_LOCAL1\nlog_level_logfile: info\nlog_fmt_logfile: '%(process)d %(message)s'\n",
        path.display()
    );
    let daemon = UnixDatagram::bind(&path).unwrap();
    daemon
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let hear = |level: u8, what: &str| {
        let mut bytes = vec![0; 1 << 16];
        let end = Instant::now() + LONG;
        loop {
            let Ok(n) = daemon.recv(&mut bytes) else {
                assert!(Instant::now() < end, "{what} is not said");
                continue;
            };
            let line = String::from_utf8_lossy(&bytes[..n]).into_owned();
            if line.contains(what) {
                assert!(line.starts_with(&format!("<{level}>")), "{line}");
                return;
            }
        }
    };
    let master = Master::halite(&format!("auto_accept: true\n{options}"));
    hear(142, "all roles serve");
    let minion = options.replace("LOCAL1", "LOCAL2");
    let _minion = Minion::halite(&master, "m", &minion);
    let cli = master.halite_cli();
    std::thread::scope(|scope| {
        // The daemon's queue is short: somebody must read.
        let called = scope.spawn(|| {
            wait_until("the minion answers", || {
                let ran = cli.run("salt", &["m", "cmd.run", "echo a"]);
                ran.out.contains("a\n")
            });
        });
        hear(142, "published cmd.run");
        hear(150, "Executing command echo");
        while !called.is_finished() {
            let _ = daemon.recv(&mut [0; 1024]);
        }
    });
    let own = format!(
        "{options}file_client: local\nid: m\nroot_dir: {}\n",
        dir.path().display()
    );
    std::fs::write(dir.path().join("minion"), own).unwrap();
    let said = Command::new(env!("CARGO_BIN_EXE_halite-call"))
        .arg("-c")
        .arg(dir.path())
        .args(["-l", "quiet", "cmd.run", "exit 3"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
    hear(139, "Command 'exit' failed with return code: 3");
}

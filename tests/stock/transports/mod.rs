//! Other transports than ZeroMQ: every minion at every master that a stock pair of them works with, and at halite's those that
//! stock cannot.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;
use testing::authority::Authority;
use testing::check::same;
use testing::ports::Ports;
use testing::{Checks, Cli, LONG, Master, Minion, Stock, wait_until};

const HALITE: &str = "halite";

/// What a minion of `transport: tcp` is told.
const TCP: &str = "transport: tcp";

/// A master of `transport: tcp`, `halite` or a series of stock, and its minions.
fn tcp(at: &str, minions: &[&str]) {
    // Of stock's minions, as many as are needed to see a race.
    play(at, minions, 2, "transport: tcp", TCP);
}

/// WebSocket. A stock minion of it never comes back after a restart of any master.
fn ws(at: &str, minions: &[&str]) {
    play(at, minions, 1, "transport: ws", "transport: ws");
}

/// The same with TLS, where both sides have certificates.
fn mutual(at: &str, transport: &str, minions: &[&str]) {
    let dir = testing::short_dir();
    let authority = Authority::new(dir.path(), "ca");
    let ssl = |name: &str| {
        let issued = authority.issue(name);
        format!(
            "transport: {transport}\nworker_pools_enabled: {}\nssl: {{certfile: {}, keyfile: {}, ca_certs: {}, cert_reqs: CERT_REQUIRED}}",
            at != "3008",
            issued.certificate.display(),
            issued.key.display(),
            authority.file().display()
        )
    };
    play(at, minions, 1, &ssl("127.0.0.1"), &ssl("minion"));
}

/// With a certificate of the master only.
fn of_the_master_only(minions: &[&str]) {
    let dir = testing::short_dir();
    let authority = Authority::new(dir.path(), "ca");
    let issued = authority.issue("127.0.0.1");
    let lines = format!(
        "transport: tcp\nssl: {{certfile: {}, keyfile: {}, cert_reqs: CERT_NONE}}",
        issued.certificate.display(),
        issued.key.display()
    );
    let ca = authority.file();
    let minion = format!(
        "transport: tcp\nssl: {{ca_certs: {}, cert_reqs: CERT_REQUIRED}}",
        ca.display()
    );
    play(HALITE, minions, 1, &lines, &minion);
}

/// `each`: how many of each series, where the master is halite's.
fn play(at: &str, minions: &[&str], each: usize, lines: &str, minion: &str) {
    let roots = roots();
    let lines = format!("{lines}\n{}", config(roots.path()));
    let (master, stock) = match at {
        HALITE => (Master::halite(&lines), Stock::find("3008")),
        series => {
            let stock = Stock::find(series);
            let master = stock.as_ref().map(|stock| Master::stock(stock, &lines));
            (master.expect("the caller has looked"), stock)
        }
    };
    let mut tools = vec![master.halite_cli()];
    tools.extend(stock.map(|stock| master.stock_cli(&stock)));
    let mut checks = Checks::default();
    let mut fleet = Fleet {
        minions: Vec::new(),
        master,
    };
    for series in minions {
        fleet.add(series, &format!("m{series}"), minion);
    }
    let each = if fleet.master.is_stock() { 1 } else { each };
    for n in 1..each {
        for series in minions.iter().filter(|series| **series != HALITE) {
            fleet.add(series, &format!("m{series}-{n}"), minion);
        }
    }
    fleet.accept();
    fleet.wait_answering(&tools[0]);
    for cli in &tools {
        jobs(&fleet, cli, &mut checks);
    }
    for minion in &fleet.minions {
        if minion.id == format!("m{HALITE}") {
            checks.run("halite-call", || called(minion));
        }
    }
    let comes_back = minion.contains("tcp") || minions == [HALITE];
    if !fleet.master.is_stock() && comes_back {
        // As a service manager does: to the main process alone, which ends the request server first.
        fleet.master.terminate();
        fleet.master.start_again();
        fleet.wait_answering(&tools[0]);
        jobs(&fleet, &tools[0], &mut checks);
    }
    checks.finish();
}

/// One master with all transports.
fn together(minions: &[&str]) {
    let further = Ports::hold(4);
    let ports = further.numbers();
    let roots = roots();
    let lines = format!(
        "transports: [tcp, ws]\ntransport_opts: {{tcp: {{publish_port: {}, ret_port: {}}}, ws: {{publish_port: {}, ret_port: {}}}}}\n{}",
        ports[0],
        ports[1],
        ports[2],
        ports[3],
        config(roots.path())
    );
    further.release();
    let master = Master::halite(&lines);
    let tools = [master.halite_cli()];
    let mut checks = Checks::default();
    let mut fleet = Fleet {
        minions: Vec::new(),
        master,
    };
    for series in minions {
        fleet.add(series, &format!("m{series}"), "");
    }
    let own = (fleet.master.publish_port, fleet.master.ret_port);
    // With its default, a minion takes the publish port that the master names.
    (fleet.master.publish_port, fleet.master.ret_port) = (4506, ports[1]);
    for series in minions {
        fleet.add(series, &format!("tcp-{series}"), TCP);
    }
    fleet.master.ret_port = ports[3];
    fleet.add(HALITE, "ws-halite", "transport: ws");
    (fleet.master.publish_port, fleet.master.ret_port) = own;
    fleet.accept();
    fleet.wait_answering(&tools[0]);
    jobs(&fleet, &tools[0], &mut checks);
    checks.finish();
}

fn roots() -> TempDir {
    let dir = testing::short_dir();
    for (name, text) in [
        ("file", "content\n"),
        ("top.sls", "base: {'*': [p]}\n"),
        ("p.sls", "from: the master\n"),
    ] {
        std::fs::write(dir.path().join(name), text).expect("a file can be written");
    }
    dir
}

fn config(roots: &Path) -> String {
    let dir = roots.display();
    format!("file_roots: {{base: [{dir}]}}\npillar_roots: {{base: [{dir}]}}")
}

/// Who has the wrong transport is told so, on both sides.
fn wrong() {
    let all = ["zeromq", "tcp", "ws"];
    let pairs = all.iter().flat_map(|at| all.iter().map(move |of| (at, of)));
    for (at, of) in pairs.filter(|(at, of)| at != of) {
        let master = Master::halite(&format!("transport: {at}"));
        let minion = Minion::halite(&master, "m", &format!("transport: {of}"));
        wait_until(&format!("the master of {at} says what is wrong"), || {
            master
                .tail()
                .contains("both must have the same `transport`")
        });
        wait_until(&format!("the minion of {of} says what is wrong"), || {
            minion.tail().contains("`transport`")
        });
    }
}

struct Fleet {
    // Minions end before their master.
    minions: Vec<Minion>,
    master: Master,
}

impl Fleet {
    fn add(&mut self, series: &str, id: &str, extra: &str) {
        let extra = format!("grains: {{role: {series}}}\n{extra}");
        self.minions.push(match series {
            HALITE => Minion::halite(&self.master, id, &extra),
            series => {
                let stock = Stock::find(series).expect("the caller has looked");
                Minion::stock(&stock, &self.master, id, &extra)
            }
        });
    }

    /// Accepts everybody, one after the other as they ask.
    fn accept(&mut self) {
        let keys = self.master.home.pki();
        for minion in &mut self.minions {
            let id = minion.id.clone();
            wait_until(&format!("{id} asks to be accepted"), || {
                minion.must_live();
                keys.join("minions_pre").join(&id).exists()
            });
            let ran = self.master.halite_cli().key(&["-a", &id, "-y"]);
            ran.ok().expect("a key can be accepted");
        }
    }

    fn ids(&self) -> Vec<&str> {
        self.minions.iter().map(|m| m.id.as_str()).collect()
    }

    fn wait_answering(&mut self, cli: &Cli) {
        let end = Instant::now() + LONG;
        let list = self.ids().join(",");
        loop {
            let minions = self.minions.iter_mut();
            minions.for_each(Minion::must_live_or_start_again);
            // By a list, which a stock minion hears only if it has said who it is.
            let ran = cli.salt(&["-L", &list, "test.ping", "-t", "3", "--out=json"]);
            let all = ran.returns().unwrap_or_default();
            let silent = self
                .minions
                .iter()
                .find(|minion| all.get(&minion.id) != Some(&json!(true)));
            let Some(silent) = silent else { return };
            assert!(
                Instant::now() < end,
                "{} does not answer: {}\nits log ends with:\n{}",
                silent.id,
                ran.describe(),
                silent.tail()
            );
        }
    }
}

fn jobs(fleet: &Fleet, cli: &Cli, checks: &mut Checks) {
    let list = fleet.ids().join(",");
    let all = |answer: &dyn Fn(&str) -> Value| {
        let ids = fleet.ids();
        let pairs = ids.iter().map(|id| ((*id).to_owned(), answer(id)));
        pairs.collect::<serde_json::Map<_, _>>()
    };
    let large = "ü".repeat(50_000);
    for (args, answer) in [
        (vec!["*", "test.ping"], all(&|_| json!(true))),
        (vec!["-L", &list, "test.echo", "x"], all(&|_| json!("x"))),
        (vec!["-G", "role:*", "test.echo", "y"], all(&|_| json!("y"))),
        (
            vec!["-C", "G@role:* and *", "grains.get", "id"],
            all(&|id| json!(id)),
        ),
        (vec!["*", "test.echo", &large], all(&|_| json!(large))),
        (vec!["*", "pillar.ls"], all(&|_| json!(["from"]))),
        (
            vec!["*", "cp.get_file_str", "salt://file"],
            all(&|_| json!("content\n")),
        ),
    ] {
        let line: String = format!("{}: {}", cli.name, args.join(" "));
        checks.run(line.get(..60).unwrap_or(&line), || {
            same(cli.ask(&args)?, answer.clone())
        });
    }
    let one = fleet.ids()[0];
    checks.run(&format!("{}: {one} alone", cli.name), || {
        let answer = all(&|_| json!(true));
        let alone = cli.ask(&[one, "test.ping"])?;
        same(alone.get(one), answer.get(one))?;
        same(alone.len(), 1)
    });
}

/// `halite-call` has the transport of the minion on its host.
fn called(minion: &Minion) -> Result<(), String> {
    let here = Cli::halite(minion.home.config_dir());
    for (args, expected) in [
        (&["pillar.ls"][..], json!(["from"])),
        (&["cp.get_file_str", "salt://file"], json!("content\n")),
    ] {
        let ran = here.run("salt-call", &[&["--out=json"], args].concat());
        same(ran.json()?["local"].clone(), expected)?;
    }
    Ok(())
}

/// All series of stock, or nothing to test.
fn all_stock() -> bool {
    ["3006", "3007", "3008"]
        .iter()
        .all(|series| Stock::find(series).is_some())
}

#[test]
fn tcp_at_halite() {
    if all_stock() {
        tcp("halite", &["halite", "3006", "3007", "3008"]);
    }
}

/// Its publications have a form that later minions do not read.
#[test]
fn tcp_at_stock_3006() {
    if all_stock() {
        tcp("3006", &["halite", "3006"]);
    }
}

#[test]
fn tcp_at_stock_3007() {
    if all_stock() {
        tcp("3007", &["halite", "3006", "3007"]);
    }
}

#[test]
fn tcp_at_stock_3008() {
    if all_stock() {
        tcp("3008", &["halite", "3007", "3008"]);
    }
}

#[test]
fn all_transports_at_one_master() {
    if all_stock() {
        together(&["halite", "3006", "3008"]);
    }
}

#[test]
fn the_wrong_transport_is_named_on_both_sides() {
    wrong();
}

#[test]
fn tls_at_halite() {
    if all_stock() {
        mutual("halite", "tcp", &["halite", "3006", "3008"]);
    }
}

#[test]
fn tls_at_halite_without_certificates_of_minions() {
    if all_stock() {
        of_the_master_only(&["halite", "3006", "3008"]);
    }
}

#[test]
fn tls_at_stock_3006() {
    if all_stock() {
        mutual("3006", "tcp", &["halite", "3006"]);
    }
}

#[test]
fn tls_at_stock_3008() {
    if all_stock() {
        mutual("3008", "tcp", &["halite", "3008"]);
    }
}

#[test]
fn ws_at_halite() {
    if all_stock() {
        ws("halite", &["halite", "3007", "3008"]);
    }
}

#[test]
fn ws_at_stock_3007() {
    if all_stock() {
        ws("3007", &["halite", "3007"]);
    }
}

#[test]
fn ws_at_stock_3008() {
    if all_stock() {
        ws("3008", &["halite", "3008"]);
    }
}

#[test]
fn wss_at_halite() {
    if all_stock() {
        mutual("halite", "ws", &["halite", "3008"]);
    }
}

#[test]
fn wss_at_stock_3008() {
    if all_stock() {
        mutual("3008", "ws", &["halite", "3008"]);
    }
}

#[test]
fn a_halite_minion_of_ws_comes_back() {
    ws("halite", &["halite"]);
}

/// Keys of both sides that Salt does not know; over tcp and ws, a subscriber proves who it is.
#[test]
fn ed25519_keys_over_all_transports() {
    for transport in ["zeromq", "tcp", "ws"] {
        let lines = format!("transport: {transport}\nkey_type: ed25519");
        play(HALITE, &[HALITE], 1, &lines, &lines);
    }
}

/// Keys of this type at a stock peer: both sides go on, and one of ours says what is wrong.
#[test]
fn ed25519_keys_are_for_halite_alone() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let ed25519 = "key_type: ed25519";
    let master = Master::halite(ed25519);
    let mut minion = Minion::stock(&stock, &master, "m", "");
    wait_until("the master says what is wrong", || {
        let log = master.tail();
        log.contains("\"m\" signs in as Salt's minions do, which need an RSA key of the master")
    });
    wait_until("the stock minion says that it is refused", || {
        minion.must_live();
        minion.tail().contains("signing algorithm")
    });
    drop(minion);
    let master = Master::stock(&stock, "");
    let mut minion = Minion::halite(&master, "m", ed25519);
    wait_until("the minion says what is wrong", || {
        minion.must_live();
        let log = minion.tail();
        log.contains("the master is not halite's, and this minion's key is Ed25519")
    });
    assert!(!master.home.pki().join("minions_pre/m").exists());
}

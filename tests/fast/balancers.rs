//! Load balancers in front of both ports (`proxy_protocol`): the address in the header is that of the peer.

use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};
use halite::wire::proxy::{header, local_header};
use halite::wire::{Value, map};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;
use testing::authority::Authority;
use testing::ports::{Ports, listens};
use testing::process::Process;
use testing::proxy::{Proxy, connect_from};
use testing::{LONG, Master, Minion, wait_until};

/// Where the balancers connect from, and whom they speak for.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CLIENT: &str = "192.0.2.77";
const OTHER: &str = "192.0.2.88";

fn named(client: &str) -> Vec<u8> {
    let client = format!("{client}:40000").parse().unwrap();
    // A field of 3 bytes, of a type for anybody's use (PP2_TYPE_MIN_CUSTOM).
    header(client, SocketAddr::from((BALANCER, 4505)), b"\xe0\0\x03abc")
}

fn master(extra: &str) -> Master {
    Master::halite(&format!("proxy_protocol: [{BALANCER}]\n{extra}"))
}

/// Balancers in front of the ports for publications and for requests.
struct Balancers([Proxy; 2]);

impl Balancers {
    fn new(master: &Master, hello: &[u8]) -> Balancers {
        let ports = [master.publish_port, master.ret_port];
        Balancers(ports.map(|port| Proxy::balancer(port, BALANCER, hello)))
    }

    /// Starts a minion that has a master there, and these grains; its key is accepted.
    fn minion(&self, master: &Master, id: &str, address: &str, extra: &str) -> Minion {
        let ports = self.0.each_ref().map(|proxy| proxy.port);
        minion(master, ports, id, address, extra)
    }
}

/// Starts a minion that has a master at these ports, for publications and for requests; see [`Balancers::minion`].
fn minion(master: &Master, ports: [u16; 2], id: &str, address: &str, extra: &str) -> Minion {
    let [publish, requests] = ports;
    let further = master.place(id).join("etc/salt/minion.d");
    std::fs::create_dir_all(&further).unwrap();
    let lines = format!(
        "publish_port: {publish}\nmaster_port: {requests}\ngrains: {{ipv4: ['{address}']}}\n"
    );
    std::fs::write(further.join("balancer.conf"), lines).unwrap();
    let mut minion = Minion::halite(master, id, extra);
    wait_until("the minion asks to be accepted", || {
        minion.must_live();
        master.home.pki().join("minions_pre").join(id).exists()
    });
    let ran = master.halite_cli().key(&["-a", id, "-y"]);
    ran.ok().expect("a key can be accepted");
    wait_until("the minion answers", || {
        let asked = [id, "test.ping", "-t", "2"];
        let all = master.halite_cli().ask(&asked).unwrap_or_default();
        all.get(id) == Some(&json!(true))
    });
    minion
}

/// What a runner says.
fn runner(master: &Master, args: &[&str]) -> serde_json::Value {
    let ran = master
        .halite_cli()
        .runner(&[args, &["--out=json"]].concat());
    serde_json::from_str(&ran.ok().expect("the runner ends well")).expect("it is JSON")
}

/// What `manage.alived` says, with addresses.
fn alived(master: &Master) -> serde_json::Value {
    runner(master, &["manage.alived", "show_ip=True"])
}

/// A minion is where the header says, while it is connected; and another balancer's is elsewhere.
fn is_seen_where_the_header_says(lines: &str, minions: &str) {
    let master = master(lines);
    let (balancers, others) = (
        Balancers::new(&master, &named(CLIENT)),
        Balancers::new(&master, &named(OTHER)),
    );
    let one = balancers.minion(&master, "one", CLIENT, minions);
    let _two = others.minion(&master, "two", OTHER, minions);
    let both = json!({"one": CLIENT, "two": OTHER});
    wait_until("both are seen", || alived(&master) == both);
    let file = master.home.cache().join("last_seen");
    let is_noted = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("one "));
    wait_until("the master has looked", is_noted);
    drop(one);
    wait_until("one has gone", || alived(&master) == json!({"two": OTHER}));
    wait_until("time goes on for the other alone", || {
        let seen = runner(&master, &["fleet.seen", "*"]);
        let time = |id: &str| seen[id].as_str().unwrap().parse::<jiff::Timestamp>();
        let [one, two] = ["one", "two"].map(|id| time(id).unwrap().as_second());
        two - one > 3
    });
    let relayed = master.home.sockets().join(".relayed");
    wait_until("nothing else is left", || {
        std::fs::read_to_string(&relayed).unwrap().lines().count() == 1
    });
}

#[test]
fn zeromq_minions_are_seen_where_the_header_says() {
    is_seen_where_the_header_says("", "");
}

#[test]
fn websocket_minions_are_seen_where_the_header_says() {
    is_seen_where_the_header_says("transport: ws", "transport: ws");
}

#[test]
fn tls_begins_after_the_header() {
    let dir = testing::short_dir();
    let authority = Authority::new(dir.path(), "ca");
    let (own, ca) = (authority.issue("127.0.0.1"), authority.file());
    let (certificate, key, ca) = (own.certificate.display(), own.key.display(), ca.display());
    is_seen_where_the_header_says(
        &format!(
            "transport: tcp\nssl: {{certfile: {certificate}, keyfile: {key}, ca_certs: {ca}, cert_reqs: CERT_NONE}}"
        ),
        &format!("transport: tcp\nssl: {{ca_certs: {ca}}}"),
    );
}

/// Whether a sign-in is answered within some time.
fn answers(proxy: &Proxy, limit: Duration) -> bool {
    let url = tcp_url("127.0.0.1", proxy.port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    let load = map! {
        "cmd" => "_auth", "id" => "m", "nonce" => "n".repeat(32), "enc_algo" => "OAEP-SHA1",
        "sig_algo" => "PKCS1v15-SHA1", "pub" => "none",
    };
    let envelope = Value::Map(map! {"enc" => "clear", "load" => load, "version" => 3});
    let envelope = msgpack::encode(&envelope, Profile::Wire);
    requester.ask(&envelope, limit).unwrap().is_some()
}

#[test]
fn the_rate_of_sign_ins_is_that_of_the_address_in_the_header() {
    let master = master("auth_rate_limit: 1\nauth_rate_burst: 2");
    let balancer = |hello: &[u8]| Proxy::balancer(master.ret_port, BALANCER, hello);
    let flood = balancer(&named(CLIENT));
    let line = format!("exceeds auth_rate_limit, most recently {CLIENT}");
    wait_until("the address is limited", || {
        answers(&flood, Duration::from_millis(20));
        master.log().contains(&line)
    });
    for hello in [named(OTHER), local_header()] {
        assert!(answers(&balancer(&hello), LONG), "another address");
    }
}

/// Sends this from an address, and reads until the master ends the connection.
fn told(from: Ipv4Addr, port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut tcp = connect_from(from, port).unwrap();
    tcp.set_read_timeout(Some(LONG)).unwrap();
    tcp.write_all(bytes).unwrap();
    let mut all = Vec::new();
    let mut chunk = [0; 256];
    loop {
        match tcp.read(&mut chunk) {
            Ok(n) if n > 0 => all.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("it is left open"),
            _ => return all,
        }
    }
}

#[test]
fn a_balancer_without_a_header_is_cut_off() {
    let master = master("");
    let greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03";
    for port in [master.publish_port, master.ret_port] {
        for bytes in [
            &greeting[..],
            b"PROXY TCP4 192.0.2.7 192.0.2.8 40000 4506\r\n",
            // 65535 bytes are to follow.
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff\x7f",
        ] {
            assert_eq!(told(BALANCER, port, bytes), b"", "{bytes:?}");
        }
    }
    let log = master.log();
    for server in ["publisher", "request server"] {
        let line = format!("{server}: {BALANCER} was cut off: it sent no PROXY header; it is in");
        assert!(log.contains(&line), "{log}");
    }
    // It goes on for everybody else.
    let direct = Proxy::to(master.ret_port);
    assert!(answers(&direct, LONG));
}

#[test]
fn nobody_else_is_believed() {
    let master = master("");
    for port in [master.publish_port, master.ret_port] {
        for from in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 3)] {
            let header = named(CLIENT);
            told(from, port, &header);
            // A second one is not for us, either.
            told(BALANCER, port, &[&header[..], &header].concat());
        }
    }
    let log = master.log();
    for server in ["publisher", "request server"] {
        let line = format!("{server}: 127.0.0.1:");
        assert!(log.contains(&line), "{log}");
    }
    assert!(!log.contains("PROXY"), "{log}");
}

#[test]
fn the_balancers_own_connections_are_served_and_nobodys() {
    let master = master("");
    let own = Balancers::new(&master, &local_header());
    let _minion = own.minion(&master, "m", &BALANCER.to_string(), "");
    assert_eq!(alived(&master), json!({}));
}

/// The configuration of HAProxy in docs/cluster.md, for this master alone.
fn documented(master: &Master, ports: [u16; 2], metrics: u16) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cluster.md");
    let page = std::fs::read_to_string(page).unwrap();
    let lines = page.lines().skip_while(|line| *line != "    defaults");
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    let lines = lines.filter(|line| !line.contains("master2"));
    let mut text: String = lines.map(|line| format!("{line}\n")).collect();
    let own = format!("127.0.0.1:{} source {BALANCER}", master.publish_port);
    for (from, to) in [
        ("10.0.0.11:4505", own),
        (
            "10.0.0.11:4506",
            format!("127.0.0.1:{} source {BALANCER}", master.ret_port),
        ),
        ("*:4505", format!("127.0.0.1:{}", ports[0])),
        ("*:4506", format!("127.0.0.1:{}", ports[1])),
        ("port 4507", format!("port {metrics}")),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        text = text.replace(from, &to);
    }
    format!("global\n    maxconn 100\n{text}")
}

#[test]
fn haproxy_as_documented_names_the_minion() {
    let program = "/usr/sbin/haproxy";
    if !std::path::Path::new(program).exists() {
        return eprintln!("skipped: there is no haproxy; install the package haproxy");
    }
    let held = Ports::hold(3);
    let numbers = held.numbers();
    let (ports, metrics) = ([numbers[0], numbers[1]], numbers[2]);
    held.release();
    let master = master(&format!("metrics_address: 127.0.0.1:{metrics}"));
    let dir = testing::short_dir();
    let (file, log) = (dir.path().join("haproxy.cfg"), dir.path().join("log"));
    std::fs::write(&file, documented(&master, ports, metrics)).unwrap();
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(&file);
    let mut haproxy = Process::start("haproxy", &mut command, &log);
    wait_until("HAProxy serves", || {
        haproxy.must_live();
        ports.iter().all(|port| listens(*port))
    });
    // It tells that the connection is from this host, which is the balancer's, and the minion's.
    let mut minion = minion(&master, ports, "m", "127.0.0.1", "grains: {}");
    wait_until("the minion is there", || {
        minion.must_live();
        let relayed = std::fs::read_to_string(master.home.sockets().join(".relayed"));
        relayed.is_ok_and(|all| all.ends_with(&format!(" {BALANCER}\n")))
    });
    let log = master.log();
    assert!(!log.contains("cut off"), "{log}");
}

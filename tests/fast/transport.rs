//! Transports between halite's own programs: wrong certificates, other protocols, connections that lead nowhere.

use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use testing::authority::{Authority, Issued};
use testing::{Master, Minion, wait_until};

fn ssl(own: Option<&Issued>, ca: &Path, more: &str) -> String {
    let own = own.map_or_else(String::new, |own| {
        let (certificate, key) = (own.certificate.display(), own.key.display());
        format!("certfile: {certificate}, keyfile: {key}, ")
    });
    format!(
        "transport: tcp\nssl: {{{own}ca_certs: {}{more}}}",
        ca.display()
    )
}

fn accept(master: &Master, minion: &mut Minion) {
    let id = minion.id.clone();
    wait_until("the minion asks to be accepted", || {
        minion.must_live();
        master.home.pki().join("minions_pre").join(&id).exists()
    });
    let ran = master.halite_cli().key(&["-a", &id, "-y"]);
    ran.ok().expect("a key can be accepted");
    wait_until("the minion answers", || answers(master, &id));
}

fn answers(master: &Master, id: &str) -> bool {
    let cli = master.halite_cli();
    let all = cli.ask(&[id, "test.ping", "-t", "2"]).unwrap_or_default();
    all.get(id) == Some(&json!(true))
}

#[test]
fn whoever_has_no_right_certificate_is_named_on_both_sides() {
    let dir = testing::short_dir();
    let authority = Authority::new(&dir.path().join("own"), "own");
    let foreign = Authority::new(&dir.path().join("foreign"), "foreign");
    let (ca, server) = (authority.file(), authority.issue("127.0.0.1"));
    let master = Master::halite(&ssl(Some(&server), &ca, ""));
    let issued = authority.issue("minion");
    let mut good = Minion::halite(&master, "good", &ssl(Some(&issued), &ca, ""));
    accept(&master, &mut good);
    let stranger = foreign.issue("stranger");
    // A name that its certificate does not have.
    let further = master.place("misled").join("etc/salt/minion.d");
    std::fs::create_dir_all(&further).unwrap();
    std::fs::write(further.join("master.conf"), "master: localhost\n").unwrap();
    for (id, lines, told) in [
        (
            "foreign",
            ssl(Some(&stranger), &ca, ""),
            "TLS: tlsv1 alert unknown ca",
        ),
        (
            "bare",
            ssl(None, &ca, ""),
            "TLS: tlsv13 alert certificate required",
        ),
        ("plain", "transport: tcp".to_owned(), "it hung up at once"),
        (
            "zeromq",
            "transport: zeromq".to_owned(),
            "it hung up instead of greeting",
        ),
        (
            "doubter",
            ssl(Some(&issued), &foreign.file(), ""),
            "its certificate is not trusted: ",
        ),
        (
            "misled",
            ssl(Some(&issued), &ca, ""),
            "its certificate is not trusted: hostname mismatch",
        ),
        (
            "nothing",
            ssl(None, &dir.path().join("none"), ""),
            "cannot be used: No such file or directory",
        ),
    ] {
        let minion = Minion::halite(&master, id, &lines);
        wait_until(&format!("{id} is told what is wrong"), || {
            let log = std::fs::read_to_string(minion.home.log()).unwrap_or_default();
            log.contains(told)
        });
        drop(minion);
        let keys = master.home.pki();
        assert!(!keys.join("minions_pre").join(id).exists(), "{id}");
    }
    let log = std::fs::read_to_string(master.home.log()).unwrap();
    assert!(
        log.contains("was cut off: its certificate is not trusted"),
        "{log}"
    );
    assert!(answers(&master, "good"));
}

#[test]
fn changed_certificates_are_used_without_a_restart() {
    let dir = testing::short_dir();
    let authority = Authority::new(dir.path(), "ca");
    let server = authority.issue("127.0.0.1");
    let lines = ssl(Some(&server), &authority.file(), ", cert_reqs: CERT_NONE");
    let master = Master::halite(&lines);
    let serial = |port: u16| {
        let mut builder =
            openssl::ssl::SslConnector::builder(openssl::ssl::SslMethod::tls_client()).unwrap();
        builder.set_ca_file(authority.file()).unwrap();
        let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let stream = builder.build().connect("127.0.0.1", tcp).unwrap();
        let certificate = stream.ssl().peer_certificate().unwrap();
        certificate.serial_number().to_bn().unwrap().to_vec()
    };
    let ports = [master.ret_port, master.publish_port];
    let before = ports.map(serial);
    // A half-written file changes nothing.
    let whole = std::fs::read(&server.certificate).unwrap();
    std::fs::write(&server.certificate, &whole[..100]).unwrap();
    wait_until("the master says so", || {
        master.tail().contains("the earlier ones remain in use")
    });
    assert_eq!(ports.map(serial), before);
    authority.issue("127.0.0.1");
    wait_until("both ports have the new certificate", || {
        let now = ports.map(serial);
        now[0] == now[1] && now[0] != before[0]
    });
}

/// What does not become a connection holds up nobody, whatever its number.
#[test]
fn connections_that_lead_nowhere_hold_up_nobody() {
    let dir = testing::short_dir();
    let authority = Authority::new(dir.path(), "ca");
    let server = authority.issue("127.0.0.1");
    let lines = ssl(Some(&server), &authority.file(), ", cert_reqs: CERT_NONE");
    let master = Master::halite(&lines);
    let mut minion = Minion::halite(&master, "m", &ssl(None, &authority.file(), ""));
    accept(&master, &mut minion);
    let hello = {
        // What a client of TLS says first.
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        ours.set_nonblocking(true).unwrap();
        let builder =
            openssl::ssl::SslConnector::builder(openssl::ssl::SslMethod::tls_client()).unwrap();
        let _ = builder.build().connect("x", ours);
        let mut hello = vec![0; 4096];
        let n = theirs.read(&mut hello).unwrap();
        hello.truncate(n);
        hello
    };
    let mut open = Vec::new();
    for n in 0..600 {
        for port in [master.ret_port, master.publish_port] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            match n % 4 {
                0 => {}
                1 => stream.write_all(&hello[..hello.len() / 2]).unwrap(),
                2 => stream.write_all(&hello).unwrap(),
                // Garbage that begins like a record.
                _ => stream.write_all(&[0x16; 300]).unwrap(),
            }
            open.push(stream);
        }
    }
    assert!(answers(&master, "m"));
    let mut later = Minion::halite(&master, "later", &ssl(None, &authority.file(), ""));
    accept(&master, &mut later);
    drop(open);
    assert!(answers(&master, "m") && answers(&master, "later"));
}

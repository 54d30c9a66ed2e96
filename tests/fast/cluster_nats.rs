//! The sample configuration of NATS servers, `packaging/nats/halite.conf`, with masters as it says.

use std::fs;
use std::path::Path;
use testing::authority::Authority;
use testing::cluster::{LINES, is_member};
use testing::ports::Ports;
use testing::{Master, NatsServer, short_dir, top, wait_until};

/// The sample with these replacements, each of which must find something.
fn sample(replacements: &[(&str, String)]) -> String {
    let path = top().join("packaging/nats/halite.conf");
    let mut text = fs::read_to_string(path).expect("it is there");
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

#[test]
fn the_sample_configuration_of_nats_works() {
    let dir = short_dir();
    let authority = Authority::new(dir.path(), "authority");
    let [server, master] = ["localhost", "master"].map(|name| authority.issue(name));
    let text = |path: &Path| path.display().to_string();
    let held = Ports::hold(9);
    let ports: Vec<[u16; 3]> = held.numbers().as_chunks().0.to_vec();
    let route = |n: usize| format!("tls://localhost:{}", ports[n][2]);
    let files: Vec<_> = (0..3)
        .map(|n| {
            let [port, monitor, links] = ports[n];
            let config = sample(&[
                ("server_name: n1", format!("server_name: n{}", n + 1)),
                ("0.0.0.0:4222", format!("127.0.0.1:{port}")),
                ("127.0.0.1:8222", format!("127.0.0.1:{monitor}")),
                ("0.0.0.0:6222", format!("127.0.0.1:{links}")),
                ("/var/lib/nats", text(&dir.path().join(format!("store{n}")))),
                ("/etc/nats/ca.pem", text(&authority.file())),
                ("/etc/nats/server.pem", text(&server.certificate)),
                ("/etc/nats/server.key", text(&server.key)),
                ("password: CHANGE-ME}", "password: a-secret}".to_owned()),
                ("tls://n1:6222", route(0)),
                ("tls://n2:6222", route(1)),
                ("tls://n3:6222", route(2)),
            ]);
            let file = dir.path().join(format!("n{n}.conf"));
            fs::write(&file, config).expect("it can be written");
            file
        })
        .collect();
    held.release();
    let mut servers = Vec::new();
    for (file, [port, _, _]) in files.iter().zip(&ports) {
        let Some(server) = NatsServer::start_configured(file, *port) else {
            return;
        };
        servers.push(server);
    }
    let addresses: Vec<String> = ports
        .iter()
        .map(|[port, ..]| format!("localhost:{port}"))
        .collect();
    let lines = |id: &str, password: &str| {
        format!(
            "id: {id}\n{LINES}cluster: {{servers: [{}], user: halite, password: {password}, tls: true, \
             tls_ca: {}, tls_cert: {}, tls_key: {}}}",
            addresses.join(", "),
            text(&authority.file()),
            text(&master.certificate),
            text(&master.key),
        )
    };
    let first = Master::halite(&lines("one", "a-secret"));
    wait_until("the first is a member", || is_member(&first));
    let second = Master::halite(&lines("two", "a-secret"));
    wait_until("the second is a member", || is_member(&second));
    let key =
        |master: &Master| fs::read(master.home.pki().join("master.pub")).expect("it has a key");
    assert_eq!(key(&first), key(&second));
}

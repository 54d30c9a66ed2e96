//! Keys from files: valid ones, and the error messages for others.

use super::*;
use crate::security::testing::{CertificateSpec, Pair};
use crate::wire::{Filter, Reply, Request, Serializer};
use halite_config::load_master;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A directory with keys and a configuration.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Home {
        Home {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, text: &str, mode: u32) {
        std::fs::write(self.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    fn settings(&self, lines: &[&str]) -> CollectiveGateway {
        let top = self.dir.path().display();
        let lines: String = lines
            .iter()
            .map(|line| format!("    {}\n", line.replace("DIR", &top.to_string())))
            .collect();
        let text = format!("root_dir: {top}\nid: m\ngateways:\n  collective:\n{lines}");
        self.file("master", &text, 0o600);
        let config = load_master(self.dir.path()).unwrap();
        config.collective_gateway().unwrap()
    }

    fn build(&self, lines: &[&str]) -> Result<Secure, String> {
        build(&self.settings(lines)).map_err(|bad| bad.to_string())
    }

    fn error(&self, lines: &[&str]) -> String {
        match self.build(lines) {
            Ok(_) => panic!("it works"),
            Err(bad) => bad,
        }
    }
}

const PSK: &[&str] = &["security: psk", "psk_file: DIR/psk"];
const CHORIA: &[&str] = &[
    "security: choria",
    "ca: DIR/ca.pem",
    "certificate: DIR/own.pem",
    "key: DIR/own.key",
];
const PLAIN: [&str; 6] = [
    "client_private: DIR/rip.key",
    "client_public: DIR/rip.pem",
    "server_private: DIR/server.key",
    "server_public: DIR/server.pem",
    "client_certs: DIR/clients",
    "serializer: yaml",
];

fn request(secure: &Secure) -> Request {
    Request {
        body: "ping".into(),
        sender: "m".parse().unwrap(),
        id: "b7ab52b4ac2155b19571e188e952b4aa".parse().unwrap(),
        filter: Filter::default(),
        collective: "mcollective".parse().unwrap(),
        agent: "discovery".parse().unwrap(),
        caller: secure.security.caller().clone(),
        ttl: 60,
        time: now(),
    }
}

/// Checks that it accepts its own requests and replies.
fn works(secure: &Secure) {
    let asked = request(secure);
    let data = secure.security.seal_request(&asked).unwrap();
    let (heard, form) = secure.security.open_request(&data).unwrap();
    assert_eq!((&heard.caller, &heard.body), (&asked.caller, &asked.body));
    let reply = Reply {
        body: "pong".into(),
        sender: "node1".parse().unwrap(),
        id: asked.id,
        agent: asked.agent,
        time: now(),
    };
    let data = secure
        .security
        .seal_reply(&reply, form, &heard.caller)
        .unwrap();
    assert_eq!(secure.security.open_reply(&data).unwrap(), reply);
}

#[test]
fn a_shared_secret() {
    let home = Home::new();
    let missing = home.error(PSK);
    assert!(
        missing.starts_with("gateways:collective:psk_file: /"),
        "{missing}"
    );
    assert!(
        missing.ends_with("/psk: there is no such file"),
        "{missing}"
    );
    home.file("psk", " \n", 0o600);
    assert!(home.error(PSK).contains("plugin.psk"));
    home.file("psk", "throwaway-psk-of-a-test\n", 0o600);
    let secure = home.build(PSK).unwrap();
    assert_eq!(secure.security.caller().as_str(), "user=halite");
    assert_eq!(secure.security.form(), Form::Psk);
    works(&secure);
    // The line end is not part of it.
    let caller = secure.security.caller().clone();
    let collective = "mcollective".parse().unwrap();
    let bare = Psk::new(b"throwaway-psk-of-a-test", caller, collective);
    let data = secure.security.seal_request(&request(&secure)).unwrap();
    assert!(bare.open_request(&data).is_ok());
    let caller = home.error(&[PSK, &["caller: me"]].concat());
    assert!(
        caller.starts_with("gateways:collective:caller: "),
        "{caller}"
    );
    assert!(caller.contains("user=halite"), "{caller}");
}

#[test]
fn files_that_others_could_read_or_change_are_not_used() {
    let home = Home::new();
    for (mode, good) in [
        (0o600, true),
        (0o400, true),
        (0o640, true),
        (0o644, false),
        (0o660, false),
    ] {
        home.file("psk", "throwaway-psk-of-a-test", mode);
        match home.build(PSK) {
            Ok(_) => assert!(good, "{mode:o}"),
            Err(bad) => assert!(!good && bad.contains("chmod 0600"), "{mode:o} {bad}"),
        }
    }
    let ca = Pair::ca("CA");
    let own = CertificateSpec {
        until: now() + 3600,
        ..CertificateSpec::default()
    }
    .by(Some(&ca));
    home.file("own.pem", &own.pem(), 0o644);
    home.file("own.key", &own.key_pem(), 0o600);
    home.file("ca.pem", &ca.pem(), 0o666);
    let open = home.error(CHORIA);
    assert!(
        open.contains(":ca: ") && open.contains("chmod go-w"),
        "{open}"
    );
}

#[test]
fn what_is_no_key_file_is_named() {
    let home = Home::new();
    std::fs::create_dir(home.path("psk")).unwrap();
    assert!(home.error(PSK).contains("no regular file"));
    std::fs::remove_dir(home.path("psk")).unwrap();
    home.file("psk", &"x".repeat(70_000), 0o600);
    assert!(home.error(PSK).contains("65536"));
    nix::unistd::unlink(&home.path("psk")).unwrap();
    nix::unistd::mkfifo(&home.path("psk"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(home.error(PSK).contains("no regular file"));
}

#[test]
fn certificates_of_choria() {
    let home = Home::new();
    let year = 365 * 86_400;
    let ca = CertificateSpec {
        name: "CA",
        ca: true,
        from: 0,
        until: now() + year,
        ..CertificateSpec::default()
    };
    let ca = ca.by(None);
    let sign = |name: &str| {
        let wish = CertificateSpec {
            name,
            from: now() - 60,
            until: now() + 3600,
            ..CertificateSpec::default()
        };
        wish.by(Some(&ca))
    };
    let own = sign("halite.mcollective");
    home.file("ca.pem", &ca.pem(), 0o644);
    home.file("own.pem", &own.pem(), 0o644);
    home.file("own.key", &own.key_pem(), 0o600);
    let secure = home.build(CHORIA).unwrap();
    assert_eq!(
        secure.security.caller().as_str(),
        "choria=halite.mcollective"
    );
    assert_eq!(secure.security.form(), Form::CHORIA);
    assert!(
        secure.trusts.starts_with("the CA's key, "),
        "{}",
        secure.trusts
    );
    works(&secure);
    let old = [&["security: choria-yaml"], &CHORIA[1..]].concat();
    let old = home.build(&old).unwrap();
    assert_eq!(old.security.form(), Form::CHORIA_YAML);
    works(&old);
    // A name outside of the list is allowed; nodes with the same list ignore it.
    let narrow = home
        .build(&[CHORIA, &["callers: [somebody]"]].concat())
        .unwrap();
    let data = narrow.security.seal_request(&request(&narrow)).unwrap();
    assert!(matches!(
        narrow.security.open_request(&data),
        Err(Refused::Caller(_))
    ));
    let broken = home.error(&[CHORIA, &["callers: ['/(/']"]].concat());
    assert!(
        broken.starts_with("gateways:collective:callers: `/(/`"),
        "{broken}"
    );
    // Keys and certificates that do not belong together, or are something else.
    home.file("own.key", &sign("other").key_pem(), 0o600);
    let other = home.error(CHORIA);
    assert!(
        other.contains(":key: ") && other.contains("`certificate`"),
        "{other}"
    );
    home.file("own.key", &own.public().to_pem(), 0o600);
    assert!(
        home.error(CHORIA)
            .contains("public key, but a private key is needed")
    );
    home.file("own.pem", "nothing", 0o600);
    let nothing = home.error(CHORIA);
    assert!(
        nothing.contains(":certificate: ") && nothing.contains("BEGIN CERTIFICATE"),
        "{nothing}"
    );
    home.file("ca.pem", "nothing", 0o600);
    let nothing = home.error(CHORIA);
    assert!(
        nothing.contains(":ca: ") && nothing.contains("BEGIN CERTIFICATE"),
        "{nothing}"
    );
}

#[test]
fn plain_keys() {
    let home = Home::new();
    let (client, server) = (Pair::ca("rip by certificate"), Pair::ca("server"));
    home.file("rip.key", &client.key_pem(), 0o600);
    home.file("rip.pem", &client.public().to_pem(), 0o644);
    home.file("server.key", &server.key_pem(), 0o600);
    home.file("server.pem", &server.public().to_pem(), 0o644);
    std::fs::create_dir(home.path("clients")).unwrap();
    for plugin in ["ssl", "aes"] {
        let security = format!("security: {plugin}");
        let lines = [&[security.as_str()], &PLAIN[..]].concat();
        home.file("clients/rip.pem", &client.public().to_pem(), 0o644);
        let secure = home.build(&lines).unwrap();
        assert_eq!(secure.security.caller().as_str(), "cert=rip");
        let yaml = Serializer::Yaml;
        assert!([Form::Ssl(yaml), Form::Aes(yaml)].contains(&secure.security.form()));
        assert!(
            secure.trusts.contains("all servers share, "),
            "{}",
            secure.trusts
        );
        works(&secure);
        // Callers come and go with their files, without a restart.
        let data = secure.security.seal_request(&request(&secure)).unwrap();
        for (mode, good) in [(0o644, true), (0o666, false)] {
            home.file("clients/rip.pem", &client.public().to_pem(), mode);
            assert_eq!(
                secure.security.open_request(&data).is_ok(),
                good,
                "{mode:o}"
            );
        }
        std::fs::remove_file(home.path("clients/rip.pem")).unwrap();
        let gone = secure.security.open_request(&data);
        assert!(matches!(gone, Err(Refused::Caller(_))), "{gone:?}");
    }
}

/// Another account that can write there could put its own certificate under any name.
#[test]
fn certificates_of_callers_are_where_nobody_else_can_put_them() {
    let home = Home::new();
    let (client, server) = (Pair::ca("rip"), Pair::ca("server"));
    home.file("rip.key", &client.key_pem(), 0o600);
    home.file("rip.pem", &client.public().to_pem(), 0o644);
    home.file("server.key", &server.key_pem(), 0o600);
    home.file("server.pem", &server.public().to_pem(), 0o644);
    std::fs::create_dir_all(home.path("a/clients")).unwrap();
    std::os::unix::fs::symlink("a/clients", home.path("clients")).unwrap();
    home.file("a/clients/rip.pem", &client.public().to_pem(), 0o644);
    let lines = [&["security: ssl"], &PLAIN[..]].concat();
    let mode = |name: &str, mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(home.path(name), mode).unwrap();
    };
    mode("a", 0o755);
    mode("a/clients", 0o755);
    let secure = home.build(&lines).unwrap();
    let data = secure.security.seal_request(&request(&secure)).unwrap();
    for (name, bits, good) in [
        ("a/clients", 0o777, false),
        ("a/clients", 0o775, false),
        // Files cannot be replaced there, but added.
        ("a/clients", 0o1777, false),
        ("a", 0o777, false),
        ("a", 0o1777, true),
    ] {
        mode(name, bits);
        if good {
            home.build(&lines).unwrap();
        } else {
            let words = home.error(&lines);
            let dir = home.path(name);
            let part = format!("others can write to {}", dir.display());
            assert!(
                words.starts_with("gateways:collective:client_certs: "),
                "{words}"
            );
            assert!(words.contains(&part), "{words}");
        }
        // The same for a gateway that runs.
        assert_eq!(
            secure.security.open_request(&data).is_ok(),
            good,
            "{bits:o}"
        );
        mode(name, 0o755);
    }
}

#[test]
fn plain_keys_belong_together() {
    let home = Home::new();
    let (client, server) = (Pair::ca("rip.mcollective"), Pair::ca("server"));
    let lines = |security| [&[security], &PLAIN[..]].concat();
    home.file("rip.key", &client.key_pem(), 0o600);
    home.file("rip.pem", &server.public().to_pem(), 0o644);
    home.file("server.key", &server.key_pem(), 0o600);
    home.file("server.pem", &client.public().to_pem(), 0o644);
    let words = home.error(&lines("security: ssl"));
    assert!(
        words.contains(":client_public: ") && words.contains("client_private"),
        "{words}"
    );
    home.file("rip.pem", &client.pem(), 0o644);
    let words = home.error(&lines("security: ssl"));
    assert!(
        words.contains(":server_public: ") && words.contains("server_private"),
        "{words}"
    );
    home.file("server.pem", &server.pem(), 0o644);
    // AES uses the name in the certificate, SSL that of its file.
    for (security, caller) in [
        ("security: ssl", "cert=rip"),
        ("security: aes", "cert=rip.mcollective"),
    ] {
        let secure = home.build(&lines(security)).unwrap();
        assert_eq!(secure.security.caller().as_str(), caller);
    }
    home.file("rip@home.pem", &client.public().to_pem(), 0o644);
    let mut odd = lines("security: ssl");
    odd[2] = "client_public: DIR/rip@home.pem";
    let words = home.error(&odd);
    assert!(words.contains("rename it"), "{words}");
}

#[test]
fn the_ca_of_the_broker_is_not_the_one_of_callers() {
    let home = Home::new();
    let lines = [&["security: aes", "tls_ca: DIR/broker.pem"], &PLAIN[..]].concat();
    assert_eq!(home.settings(&lines).ca, PathBuf::new());
    let lines = [&["security: aes", "ca: DIR/callers.pem"], &PLAIN[..]].concat();
    assert_eq!(home.settings(&lines).ca, home.path("callers.pem"));
    let lines = [
        "tls_ca: DIR/ca.pem",
        "certificate: DIR/own.pem",
        "key: DIR/own.key",
    ];
    assert_eq!(home.settings(&lines).ca, home.path("ca.pem"));
}

#[test]
fn refusals_are_counted_by_reason() {
    let mut counters = RefusedCounters::default();
    for refused in [Refused::Unsigned, Refused::Expired(1), Refused::Expired(2)] {
        counters.count(&refused);
    }
    assert_eq!(counters.seen(), [("unsigned", 1), ("expired", 2)]);
    // Each reason has a place and a name of its own.
    let all = [
        Refused::Malformed(String::new()),
        Refused::TooLarge(""),
        Refused::Dangerous(String::new()),
        Refused::Protocol(String::new()),
        Refused::Unsigned,
        Refused::Signature,
        Refused::Tampered(""),
        Refused::Certificate(String::new()),
        Refused::Caller(String::new()),
        Refused::Expired(1),
        Refused::Future(1),
        Refused::Replayed,
        Refused::NotForUs,
    ];
    let mut counters = RefusedCounters::default();
    for refused in &all {
        counters.count(refused);
    }
    let seen = counters.seen();
    assert!(seen.iter().all(|(_, number)| *number == 1));
    assert_eq!(seen.len(), all.len());
}

//! Masters and minions with Ed25519 keys (option `key_type`), for installations of halite alone.

use super::*;
use halite::crypto::{IdentityKey, KeyType};
use halite::map;
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};

const RSA: &str = "";
const ED25519: &str = "key_type: ed25519\n";

fn kind_of(file: &Path) -> KeyType {
    let text = std::fs::read_to_string(file).unwrap();
    IdentityKey::from_pem(&text).unwrap().kind()
}

fn log_of(minion: &Minion) -> String {
    std::fs::read_to_string(minion.path("log")).unwrap_or_default()
}

/// A pair whose minion finds what `prepare` puts into its `pki_dir`.
fn started(master: &str, minion: &str, prepare: impl Fn(&Master, &Path)) -> Pair {
    let master = Master::start(master);
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), ports(&master), "m1", minion);
    let pki = dir.path().join("etc/halite/pki/minion");
    std::fs::create_dir_all(&pki).unwrap();
    prepare(&master, &pki);
    let bus = listen(&master);
    let child = spawn(dir.path());
    let mut pair = Pair::new(master, bus, Minion { dir, child });
    pair.started();
    pair
}

/// Signatures of jobs, returns and publication keys, a pillar, a file, a restart of either side.
#[test]
fn each_type_works_with_each() {
    let roots = tempfile::tempdir().unwrap();
    std::fs::write(roots.path().join("top.sls"), "base: {'*': [data]}\n").unwrap();
    std::fs::write(roots.path().join("data.sls"), "colour: green\n").unwrap();
    let place = roots.path().display();
    for (master, minion) in [(RSA, ED25519), (ED25519, ED25519), (ED25519, RSA)] {
        let mut pair = started(
            &format!(
                "{master}sign_pub_messages: true\nmaster_sign_pubkey: true\nrequire_minion_sign_messages: true\n\
                 file_roots: {{base: [{place}]}}\npillar_roots: {{base: [{place}]}}"
            ),
            &format!(
                "{minion}sign_pub_messages: true\nverify_master_pubkey_sign: true\nminion_sign_messages: true"
            ),
            |master, pki| {
                let signer = master.config().sign_key().with_extension("pub");
                std::fs::copy(signer, pki.join("master_sign.pub")).unwrap();
            },
        );
        let config = pair.master.config();
        let wanted = |text: &str| match text {
            ED25519 => KeyType::Ed25519,
            _ => KeyType::Rsa,
        };
        assert_eq!(kind_of(&config.master_key()), wanted(master));
        assert_eq!(kind_of(&config.sign_key()), wanted(master));
        let pki = pair.minion.path("etc/halite/pki/minion");
        assert_eq!(kind_of(&pki.join("minion.pem")), wanted(minion));
        let ret = pair.run("pillar.ls", &[]);
        assert_eq!(ret.get("return"), Some(&vec!["colour".to_owned()].into()));
        let ret = pair.run("cp.get_file_str", &["salt://data.sls".into()]);
        assert_eq!(ret.str("return"), Some("colour: green\n"));
        assert!(log_of(&pair.minion).contains("with AES-256-GCM"));
        // What a key of publications is signed with.
        pair.master.signal(Signal::SIGTERM);
        pair.master.wait_end(LIMIT).unwrap();
        pair.master.restart();
        pair.bus = listen(&pair.master);
        pair.ping_until_answered();
        pair.minion.kill();
        pair.minion.restart();
        pair.started();
        pair.run("test.ping", &[]);
        let log = log_of(&pair.minion);
        assert!(!log.contains("does not match"), "{log}");
    }
}

/// What Salt's sign-in does not have.
#[test]
fn salts_sign_in_needs_rsa_keys() {
    // At a master whose key is Ed25519: both sides say what is wrong.
    let master = Master::start(ED25519);
    let salt = Minion::start(ports(&master), "m1", "handshake: salt");
    eventually("the master says what is wrong", || {
        let log = master.log();
        log.contains("signs in as Salt's minions do, which need an RSA key of the master")
    });
    eventually("the minion says that it is refused", || {
        log_of(&salt).contains("signing_algorithm")
    });
    // With an Ed25519 key of the minion.
    let dir = tempfile::tempdir().unwrap();
    let options = format!("{ED25519}handshake: salt");
    configure(dir.path(), ports(&master), "m2", &options);
    let mut child = spawn(dir.path());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("`handshake: salt` needs an RSA key"), "{log}");
    // A key without proof is not even stored: in a message of Salt, there is none for an Ed25519 key.
    let master = Master::start(RSA);
    let key = IdentityKey::generate(KeyType::Ed25519, 0).unwrap();
    let load = map! {
        "cmd" => "_auth", "id" => "m3", "nonce" => "0".repeat(32), "pub" => key.public().to_pem(),
        "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
    };
    let envelope = map! {"enc" => "clear", "load" => load, "version" => 3};
    let url = tcp_url("127.0.0.1", master.ret_port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    let body = msgpack::encode_map(&envelope, Profile::Wire);
    let reply = requester.ask(&body, LIMIT).unwrap().expect("an answer");
    let reply = msgpack::decode(&reply).unwrap().into_map().unwrap();
    let inner = msgpack::decode(reply.bytes("load").unwrap()).unwrap();
    assert_eq!(inner.as_map().unwrap().get("ret"), Some(&false.into()));
    eventually("the master says why", || {
        master.log().contains("Salt's sign-in needs an RSA key")
    });
    let pki = master.config().pki_dir.clone();
    for state in [
        "minions",
        "minions_pre",
        "minions_denied",
        "minions_rejected",
    ] {
        let dir = std::fs::read_dir(pki.join(state));
        assert_eq!(dir.map_or(0, Iterator::count), 0, "{state}");
    }
}

/// A key made on the master's host, and its fingerprint.
#[test]
fn keys_are_made_in_advance() {
    let include = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(include.path(), "auto_accept: false\n").unwrap();
    let options = format!("include: {}", include.path().display());
    let mut pair = started(&options, "", |master, pki| {
        let key = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_halite-key"));
            let command = command.arg("-c").arg(master.dir.path()).args(args);
            let out = command.output().unwrap();
            assert!(out.status.success(), "{out:?}");
            String::from_utf8(out.stdout).unwrap()
        };
        let place = pki.display().to_string();
        let made = key(&[
            "--gen-keys=minion",
            "--gen-keys-dir",
            &place,
            "--key-type=ed25519",
        ]);
        assert_eq!(kind_of(&pki.join("minion.pem")), KeyType::Ed25519);
        let pending = master.config().minion_keys("minions_pre");
        std::fs::create_dir_all(&pending).unwrap();
        std::fs::copy(pki.join("minion.pub"), pending.join("m1")).unwrap();
        let shown = key(&["-f", "m1"]);
        let finger = made.split_whitespace().last().unwrap();
        assert!(shown.contains(finger), "{made} {shown}");
        key(&["-y", "-a", "m1"]);
    });
    pair.run("test.ping", &[]);
}

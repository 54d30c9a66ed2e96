//! The handshake between halite peers (docs/protocol.md): who listens, changes messages, or has another key.

use super::pair::*;
use halite::channel::signin::MasterKey;
use halite::client::swarm::session::{MinionKeys, Session, SessionError, SignIn, SignInStep};
use halite::crypto::noise::{
    Initiator, Signer, StaticKey, StaticPublic, fingerprint, prologue, statement,
};
use halite::crypto::{IdentityKey, KeyType, Signing, clean_key};
use halite::map;
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use testing::harness::{LIMIT, Master, eventually};
use testing::proxy::{Proxy, contains};

const SECRET: &str = "what nobody else may read, in plain text";

fn log(minion: &Minion) -> String {
    std::fs::read_to_string(minion.path("log")).unwrap_or_default()
}

/// A pair, with a relay before the port for requests.
fn overheard(minion: &str) -> (Pair, Proxy) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), SECRET.repeat(200_000)).unwrap();
    let master = Master::start(&format!("file_roots: {{base: [{}]}}", dir.keep().display()));
    let bus = listen(&master);
    let [publish, ret] = ports(&master);
    let proxy = Proxy::to(ret);
    let minion = Minion::start([publish, proxy.port], "m1", minion);
    let mut pair = Pair::new(master, bus, minion);
    pair.started();
    (pair, proxy)
}

#[test]
fn a_session_shows_nothing() {
    let (mut pair, proxy) = overheard("");
    let ret = pair.run("test.echo", &[SECRET.into()]);
    assert_eq!(text(&ret, "return"), SECRET);
    // 8 MB, in two chunks; the minion holds its hash against the master's.
    let place = pair.minion.path("fetched");
    let args = ["salt://file".into(), place.display().to_string().into()];
    let ret = pair.run("cp.get_file", &args);
    assert_eq!(text(&ret, "return"), place.display().to_string());
    assert_eq!(
        std::fs::read_to_string(&place).unwrap(),
        SECRET.repeat(200_000)
    );
    let heard = proxy.take_heard();
    assert!(heard.len() > SECRET.len() * 200_000);
    for told in [SECRET, "test.echo", "pickle", "BEGIN PUBLIC KEY"] {
        // The master presents its public key at first.
        let once = heard.len() / 100 * usize::from(told.starts_with("BEGIN"));
        assert!(!contains(&heard[once..], told), "{told} can be read");
    }
    assert!(contains(&heard, "gcm"));
    assert!(log(&pair.minion).contains("with AES-256-GCM"));
    // The same as Salt does it, in the same file.
    let (mut pair, proxy) = overheard("handshake: salt");
    pair.run("test.ping", &[]);
    let heard = proxy.take_heard();
    assert!(contains(&heard, "aes") && !contains(&heard, "gcm"));
    assert!(!log(&pair.minion).contains("with AES-256-GCM"));
}

#[test]
fn nobody_can_make_them_fall_back() {
    let (mut pair, proxy) = overheard("");
    pair.minion.kill();
    let pki = pair.minion.path("etc/halite/pki/minion");
    std::fs::remove_file(pki.join("minion_master.session")).unwrap();
    // What asks for the handshake, and what the handshake is, gets lost on the way.
    proxy.change(b"\xa5noise", b"\xa5eison");
    pair.minion.restart();
    eventually("the minion says what is missing", || {
        log(&pair.minion).contains("no longer supports the handshake that it had before")
    });
    proxy.change(b"", b"");
    pair.started();
    pair.run("test.ping", &[]);
    // A minion that must have it does not take anything else from a master that it meets.
    proxy.change(b"\xa5noise", b"\xa5eison");
    let strict = Minion::start(
        [pair.master.publish_port, proxy.port],
        "m2",
        "handshake: noise",
    );
    eventually("the minion says what it wants", || {
        log(&strict).contains("`handshake` is `noise`")
    });
    // Changed anywhere, it fails on either side.
    let other = Minion::start([pair.master.publish_port, proxy.port], "m3", "");
    eventually("one that does not know the master falls back", || {
        log(&other).contains("signed in at")
    });
    assert!(!log(&other).contains("with AES-256-GCM"));
}

#[test]
fn a_new_static_key_is_introduced() {
    let mut pair = Pair::start("", "");
    pair.run("test.ping", &[]);
    let pinned = pair
        .minion
        .path("etc/halite/pki/minion/minion_master.noise");
    let before = std::fs::read_to_string(&pinned).unwrap();
    pair.crash_master();
    std::fs::remove_file(pair.master.config().noise_key()).unwrap();
    std::fs::remove_file(pair.master.config().cachedir.join("sessions_gcm/m1")).unwrap();
    pair.restart_master();
    pair.ping_until_answered();
    assert_ne!(std::fs::read_to_string(&pinned).unwrap(), before);
}

/// After a restart, and in other processes, a minion goes on with the session that it has: its handshake would have told it
/// the master's new static key.
#[test]
fn a_session_outlives_the_process() {
    let mut pair = Pair::start("", "");
    pair.run("test.ping", &[]);
    let pki = pair.minion.path("etc/halite/pki/minion");
    let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
    let known = || [read("minion_master.noise"), read("minion_master.session")];
    let before = known();
    let kept = pki.join("minion_master.session").metadata().unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
    pair.crash_master();
    std::fs::remove_file(pair.master.config().noise_key()).unwrap();
    pair.restart_master();
    let restart = |pair: &mut Pair| {
        pair.minion.kill();
        pair.minion.restart();
        pair.started();
        pair.run("test.ping", &[]);
    };
    restart(&mut pair);
    assert_eq!(known(), before);
    let mut call = Command::new(env!("CARGO_BIN_EXE_halite-call"));
    call.arg("-c").arg(pair.minion.path(""));
    let called = call.args(["pillar.items", "--out=json"]).output().unwrap();
    assert!(called.status.success(), "{called:?}");
    assert_eq!(known(), before);
    // The master has lost the session.
    std::fs::remove_file(pair.master.config().cachedir.join("sessions_gcm/m1")).unwrap();
    restart(&mut pair);
    let renewed = known();
    assert_ne!(renewed[0], before[0]);
    assert_ne!(renewed[1], before[1]);
    // What the minion has kept is damaged.
    std::fs::write(pki.join("minion_master.session"), "x").unwrap();
    restart(&mut pair);
    assert_eq!(known(), renewed);
}

/// A peer that makes its own messages.
struct Peer<'a> {
    master: &'a Master,
    key: IdentityKey,
    noise: StaticKey,
    remote: StaticPublic,
    /// Fingerprint of the master's key.
    of: String,
}

impl<'a> Peer<'a> {
    fn new(master: &'a Master) -> Peer<'a> {
        Peer::with_key(master, KeyType::Rsa)
    }

    fn with_key(master: &'a Master, kind: KeyType) -> Peer<'a> {
        let text = std::fs::read_to_string(master.config().noise_key()).unwrap();
        let remote = *StaticKey::from_text(&text).unwrap().public();
        Peer {
            master,
            key: IdentityKey::generate(kind, 2048).unwrap(),
            noise: StaticKey::generate(),
            remote,
            of: fingerprint(&std::fs::read_to_string(master.config().master_pub()).unwrap()),
        }
    }

    fn ask(&self, load: Map) -> Value {
        let envelope = map! {"enc" => "clear", "load" => load, "version" => 3};
        msgpack::decode(&self.send(&msgpack::encode_map(&envelope, Profile::Wire))).unwrap()
    }

    fn send(&self, body: &[u8]) -> Vec<u8> {
        let url = tcp_url("127.0.0.1", self.master.ret_port);
        let mut requester = Requester::new(&url, RequesterOptions::default());
        requester.ask(body, LIMIT).unwrap().expect("an answer")
    }

    fn payload(&self, id: &str) -> Map {
        let statement = statement(Signer::Minion, self.noise.public(), &self.of);
        map! {
            "id" => id, "pub" => clean_key(&self.key.public().to_pem()),
            "sig" => self.key.sign(Signing::Pkcs1v15Sha224, &statement),
        }
    }

    /// The `ret` of the reply to a first message for `id`; `None` if there is none, since it was accepted.
    fn sign_in(&self, id: &str, payload: &Map) -> Option<Value> {
        let payload = msgpack::encode_map(payload, Profile::Wire);
        let (initiator, message) =
            Initiator::start(&self.noise, &self.remote, &prologue(&self.of, id), &payload).unwrap();
        let load = map! {"cmd" => "_auth", "id" => id, "noise" => message};
        let reply = self.ask(load).into_map().unwrap();
        let reply = initiator.finish(reply.bytes("noise").unwrap()).unwrap();
        let mut reply = msgpack::decode(&reply).unwrap().into_map().unwrap();
        assert!(reply.contains("ret") != reply.contains("session"));
        reply.remove("ret")
    }

    /// What the master says of itself.
    fn introduction(&self, message: &[u8]) -> Map {
        let load = map! {"cmd" => "_auth", "id" => "x", "noise" => message};
        let mut reply = self.ask(load).into_map().unwrap();
        reply.remove("noise").unwrap().into_map().unwrap()
    }
}

#[test]
fn strangers_get_nothing() {
    let types = [
        ("", "rsa"),
        ("", "ed25519"),
        ("key_type: ed25519", "ed25519"),
    ];
    for (master, minion) in types {
        strangers_get_nothing_at(master, KeyType::of_name(minion).unwrap());
    }
}

fn strangers_get_nothing_at(options: &str, kind: KeyType) {
    let master = Master::start(options);
    let peer = Peer::with_key(&master, kind);
    let about = peer.introduction(b"");
    assert_eq!(about.bytes("key"), Some(&peer.remote[..]));
    // What cannot be read is answered with that, and costs nothing else.
    for garbage in [&b"x"[..], &[0; 32], &[7; 200], &[255; 60_000]] {
        assert_eq!(peer.introduction(garbage), about);
    }
    // A static key that the presented key has not signed, one that a master would sign, and an id that is not in the
    // prologue.
    let own = peer.payload("m1");
    let other = Peer::with_key(&master, kind).payload("m1");
    let elsewhere = statement(Signer::Minion, peer.noise.public(), &fingerprint("x"));
    let masters = statement(Signer::Master, peer.noise.public(), &peer.of);
    for (field, value) in [
        ("sig", Value::from(other.bytes("sig").unwrap())),
        (
            "sig",
            peer.key.sign(Signing::Pkcs1v15Sha224, &masters).into(),
        ),
        // Made for another master, which would have it from a sign-in there.
        (
            "sig",
            peer.key.sign(Signing::Pkcs1v15Sha224, &elsewhere).into(),
        ),
        ("sig", Value::Nil),
        ("pub", other.str("pub").unwrap().into()),
        ("pub", "x".into()),
        ("pub", format!("x\n{}", own.str("pub").unwrap()).into()),
        (
            "pub",
            format!("{}\n\x1b[2J", own.str("pub").unwrap()).into(),
        ),
        ("id", "m2".into()),
        ("id", Value::Nil),
    ] {
        let mut payload = own.clone();
        payload.set(field, value);
        assert_eq!(peer.sign_in("m1", &payload), Some(false.into()), "{field}");
    }
    assert_eq!(
        peer.sign_in("../m1", &peer.payload("../m1")),
        Some(false.into())
    );
    assert_eq!(peer.sign_in("m1", &Map::new()), Some(false.into()));
    let keys = master.config().minion_keys("minions");
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), 0);
    assert_eq!(peer.sign_in("m1", &own), None);
    // Nobody else gets that id then.
    let second = Peer::with_key(&master, kind);
    assert_eq!(second.sign_in("m1", &other), Some(false.into()));
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), 1);
}

fn session(peer: &Peer, keys: &MinionKeys, id: &str) -> Session {
    let (sign_in, request) = SignIn::begin(id, keys, None, None);
    let Ok(SignInStep::Send(sign_in, request)) = sign_in.step(None, &peer.send(&request)) else {
        panic!("no handshake");
    };
    sign_in.finish(None, &peer.send(&request)).unwrap()
}

#[test]
fn sessions_are_for_one_minion_and_one_cipher() {
    let master = Master::start("");
    let peer = Peer::new(&master);
    let keys = MinionKeys::new(peer.key.clone()).with_noise();
    let [one, other] = ["m1", "m2"].map(|id| session(&peer, &keys, id));
    let load = map! {"cmd" => "_aes_keys", "id" => "m1"};
    let (request, nonce) = one.seal("m1", &keys, &load);
    let reply = peer.send(&request);
    assert!(
        one.open(&nonce, &reply)
            .unwrap()
            .as_map()
            .unwrap()
            .contains("aes")
    );
    assert!(other.open(&nonce, &reply).is_err());
    // Again, for another minion, as Salt's, under the other's session, and changed.
    let mut envelope = msgpack::decode(&request).unwrap().into_map().unwrap();
    let mut refused = vec![request.clone()];
    let (fresh, _) = one.seal("m1", &keys, &load);
    envelope.set("load", load_of(&fresh));
    for (field, value) in [("id", "m2"), ("enc", "aes"), ("enc", "xcm")] {
        let mut changed = envelope.clone();
        changed.set(field, value);
        refused.push(msgpack::encode_map(&changed, Profile::Wire));
    }
    refused.push(other.seal("m1", &keys, &load).0);
    let mut changed = load_of(&fresh);
    changed[20] ^= 1;
    envelope.set("load", changed);
    refused.push(msgpack::encode_map(&envelope, Profile::Wire));
    // A key of Salt's sign-in is none for AES-256-GCM.
    let salt = MinionKeys::new(peer.key.clone());
    let (sign_in, hello) = SignIn::begin("m1", &salt, None, None);
    let salts = sign_in.finish(None, &peer.send(&hello)).unwrap();
    let (request, nonce) = salts.seal("m1", &salt, &load);
    let mut envelope = msgpack::decode(&request).unwrap().into_map().unwrap();
    envelope.set("enc", "gcm");
    refused.push(msgpack::encode_map(&envelope, Profile::Wire));
    for request in refused {
        let reply = msgpack::decode(&peer.send(&request)).unwrap();
        assert_eq!(reply, "bad load".into());
    }
    // Both go on side by side.
    assert!(salts.open(&nonce, &peer.send(&request)).is_ok());
    let (request, nonce) = one.seal("m1", &keys, &load);
    assert!(one.open(&nonce, &peer.send(&request)).is_ok());
}

/// The public key in a sign-in of Salt's is no secret, and thus no proof that stock's minion has taken the place of halite's.
#[test]
fn what_anybody_can_repeat_ends_no_session() {
    let master = Master::start("publish_private: true");
    let peer = Peer::new(&master);
    let keys = MinionKeys::new(peer.key.clone()).with_noise();
    let load = map! {"cmd" => "_aes_keys", "id" => "m1"};
    let ours = session(&peer, &keys, "m1");
    let works = || {
        let (request, nonce) = ours.seal("m1", &keys, &load);
        ours.open(&nonce, &peer.send(&request)).is_ok()
    };
    let salt = MinionKeys::new(peer.key.clone());
    let (sign_in, hello) = SignIn::begin("m1", &salt, None, None);
    let reply = peer.send(&hello);
    assert!((0..20).all(|_| works()));
    // Who can read the reply is a minion without the handshake.
    let theirs = sign_in.finish(None, &reply).unwrap();
    let (request, nonce) = theirs.seal("m1", &salt, &load);
    assert!(theirs.open(&nonce, &peer.send(&request)).is_ok());
    assert!((0..20).all(|_| !works()));
}

/// Sessions end with their time and with the key that they were made for.
#[test]
fn sessions_end() {
    let master = Master::start("");
    let peer = Peer::new(&master);
    let keys = MinionKeys::new(peer.key.clone()).with_noise();
    let file = master.config().cachedir.join("sessions_gcm/m1");
    let works = |session: &Session, keys: &MinionKeys| {
        let load = map! {"cmd" => "_aes_keys", "id" => "m1"};
        let (request, nonce) = session.seal("m1", keys, &load);
        session.open(&nonce, &peer.send(&request)).is_ok()
    };
    let first = session(&peer, &keys, "m1");
    // Several times, since each worker keeps what it has read.
    assert!((0..20).all(|_| works(&first, &keys)));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(90_000);
    let open = std::fs::File::open(&file).unwrap();
    open.set_modified(old).unwrap();
    assert!((0..20).all(|_| !works(&first, &keys)));
    let second = session(&peer, &keys, "m1");
    assert!((0..20).all(|_| works(&second, &keys) && !works(&first, &keys)));
    // Somebody else gets the id: the operator replaces the key, by whatever means.
    let other = IdentityKey::generate(KeyType::Rsa, 2048).unwrap();
    let text = clean_key(&other.public().to_pem());
    std::fs::write(master.config().minion_keys("minions").join("m1"), text).unwrap();
    let others = MinionKeys::new(other).with_noise();
    let third = session(&peer, &others, "m1");
    assert!((0..20).all(|_| works(&third, &others)));
    assert!(!works(&second, &others) && !works(&second, &keys) && !works(&third, &keys));
}

#[test]
fn a_pillar_is_asked_for_once() {
    let master = Master::start("");
    let peer = Peer::new(&master);
    let keys = MinionKeys::new(peer.key.clone()).with_noise();
    let session = session(&peer, &keys, "m1");
    let load =
        map! {"cmd" => "_pillar", "id" => "m1", "ver" => "2", "grains" => map! {"os" => "old"}};
    let (request, nonce) = session.seal("m1", &keys, &load);
    assert!(
        session
            .open_pillar(&keys, &nonce, &peer.send(&request))
            .is_ok()
    );
    let again = msgpack::decode(&peer.send(&request)).unwrap();
    assert_eq!(again, "bad load".into(), "it would bring old grains back");
}

/// Files that can be made anew are.
#[test]
fn damaged_static_keys_are_replaced() {
    let mut pair = Pair::start("", "");
    for text in ["", "x", "AAAA"] {
        pair.crash_master();
        pair.minion.kill();
        let own = pair.minion.path("etc/halite/pki/minion/minion.noise");
        for file in [pair.master.config().noise_key(), own] {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, text).unwrap();
        }
        pair.restart_master();
        pair.minion.restart();
        pair.started();
        pair.run("test.ping", &[]);
    }
    // A list of masters that cannot be read binds the minion to all of them.
    pair.minion.kill();
    let list = pair
        .minion
        .path("etc/halite/pki/minion/minion_master.noise");
    std::fs::write(&list, "").unwrap();
    pair.minion.restart();
    pair.started();
    assert!(!std::fs::read_to_string(&list).unwrap().is_empty());
    // A master with another RSA key is noticed, whatever static key it has.
    pair.crash_master();
    for file in [
        pair.master.config().master_key(),
        pair.master.config().master_pub(),
    ] {
        std::fs::remove_file(file).unwrap();
    }
    pair.restart_master();
    // Its session is good as before, but the key of publications is not signed by the master that it knows.
    eventually("the minion sees another master", || {
        pair.publish("test.ping", &[]);
        log(&pair.minion).contains("the master's key has changed")
    });
}

fn load_of(request: &[u8]) -> Vec<u8> {
    let envelope = msgpack::decode(request).unwrap().into_map().unwrap();
    envelope.bytes("load").unwrap().to_vec()
}

/// Whoever answers instead of the master, with all that it says in public.
#[test]
fn an_impostor_is_not_the_master() {
    let [master, impostor] = [Master::start(""), Master::start("")];
    let (peer, other) = (Peer::new(&master), Peer::new(&impostor));
    let keys = MinionKeys::new(peer.key.clone()).with_noise();
    let known = session(&peer, &keys, "m1");
    let pinned: &Arc<MasterKey> = &known.master;
    let refusal = |seen: Option<&StaticPublic>, at: &Peer| {
        let (sign_in, request) = SignIn::begin("m1", &keys, Some(pinned), seen);
        match sign_in.step(Some(pinned), &at.send(&request)) {
            Err(SessionError::Wrong(why)) => why,
            Ok(_) => "none".to_owned(),
            Err(e) => panic!("{e}"),
        }
    };
    for seen in [None, known.noise.as_ref()] {
        assert!(refusal(seen, &other).contains("the master's key has changed"));
        assert_eq!(refusal(seen, &peer), "none");
    }
    // It repeats what the master says of itself, but cannot read what it gets then.
    let stolen = map! {"enc" => "clear", "noise" => peer.introduction(b"")};
    let stolen = msgpack::encode_map(&stolen, Profile::Wire);
    let (sign_in, _) = SignIn::begin("m1", &keys, Some(pinned), None);
    let Ok(SignInStep::Send(sign_in, message)) = sign_in.step(Some(pinned), &stolen) else {
        panic!("the master's words are true, whoever repeats them");
    };
    match sign_in.step(Some(pinned), &other.send(&message)) {
        Err(SessionError::Wrong(why)) => assert!(why.contains("has just told"), "{why}"),
        _ => panic!("not refused"),
    }
}

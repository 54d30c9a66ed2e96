//! Hostile and broken input against a real master: the answer is Salt's or silence, no process
//! ends, memory stays bounded, and honest minions are served meanwhile.

mod harness;

use halite::client::swarm::Swarm;
use halite::client::swarm::session::{Fault, MinionKeys, Session, SignIn, now};
use halite::client::swarm::zmtp;
use halite::crypto::{PublicKey, Signing};
use halite::map;
use halite::transport::sockets::{KeepAlive, Requester, tcp_url};
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use halite_ipc::{Event, Subscriber};
use harness::{LIMIT, Master, keys};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// What one attack may add to the memory of all processes together.
const GROWTH: u64 = 128 << 20;

/// A master under attack.
struct Target {
    master: Master,
    pids: Vec<u32>,
    memory: u64,
    checks: usize,
}

impl Target {
    fn start() -> Target {
        let master = Master::start("worker_threads: 2\n");
        let mut target = Target {
            pids: master.pids(),
            memory: 0,
            checks: 0,
            master,
        };
        target.is_fine("nothing");
        target.memory = target.master.memory();
        target
    }

    /// A fresh minion signs in and answers a ping, and the processes are those of the beginning.
    fn is_fine(&mut self, after: &str) {
        self.checks += 1;
        let mut options = self.master.swarm_options(1);
        options.prefix = format!("honest{}", self.checks);
        let swarm = Swarm::start(options).unwrap();
        assert!(swarm.wait_ready(LIMIT), "no sign-in after {after}");
        self.master
            .publish_ping(&format!("honest{}-*", self.checks));
        assert!(
            swarm.wait(LIMIT, |s| s.answered() == 1),
            "no ping after {after}"
        );
        assert_eq!(
            swarm.finish().unwrap().errors,
            Default::default(),
            "after {after}"
        );
        assert_eq!(self.master.pids(), self.pids, "processes after {after}");
        let memory = self.master.memory();
        assert!(
            self.memory == 0 || memory < self.memory + GROWTH,
            "memory after {after}: {} MiB, was {} MiB",
            memory >> 20,
            self.memory >> 20
        );
    }

    /// Sends one request body; every body gets an answer.
    fn ask(&self, body: &[u8]) -> Vec<u8> {
        ask(&self.master, body)
            .unwrap_or_else(|| panic!("no answer to {:?}", &body[..body.len().min(80)]))
    }

    fn ask_value(&self, value: &Value) -> Value {
        msgpack::decode(&self.ask(&msgpack::encode(value, Profile::Wire))).unwrap()
    }

    fn raw(&self, port: u16) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn ports(&self) -> [u16; 2] {
        [self.master.ret_port, self.master.publish_port]
    }

    /// Events as they come, from now on.
    fn listen(&self) -> Subscriber {
        Subscriber::connect(self.master.config().sock_dir.join("master_event_pub.ipc")).unwrap()
    }
}

fn ask(master: &Master, body: &[u8]) -> Option<Vec<u8>> {
    let keepalive = KeepAlive {
        on: false,
        idle: -1,
        count: -1,
        interval: -1,
    };
    let mut requester = Requester::new(
        &zmq::Context::new(),
        &tcp_url("127.0.0.1", master.ret_port),
        keepalive,
    );
    requester.ask(body, LIMIT).unwrap()
}

/// A minion with a session.
struct Peer<'a> {
    target: &'a Target,
    id: String,
    keys: MinionKeys,
    session: Session,
}

impl<'a> Peer<'a> {
    fn sign_in(target: &'a Target, id: &str) -> Peer<'a> {
        let keys = keys("minion");
        let session = sign_in(target, id, &keys).unwrap();
        Peer {
            target,
            id: id.to_owned(),
            keys,
            session,
        }
    }

    /// Sends a load as the channel does.
    fn call(&self, load: &Map) -> Result<Value, Fault> {
        let (request, nonce) = self.session.seal(&self.id, &self.keys, load);
        self.session.open(&nonce, &self.target.ask(&request))
    }

    /// A whole load, to be changed by the test before it is sealed.
    fn load(&self, load: Map) -> Map {
        let mut load = load;
        load.set("nonce", NONCE);
        load.set("ts", now());
        load.set("tok", self.keys.token().to_vec());
        load.set("id", self.id.as_str());
        load
    }

    /// Sends a load exactly as it is.
    fn call_raw(&self, load: &Map) -> Result<Value, Fault> {
        self.session.open(
            NONCE,
            &self.target.ask(&self.session.seal_raw(&self.id, load)),
        )
    }
}

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn sign_in(target: &Target, id: &str, keys: &MinionKeys) -> Result<Session, Fault> {
    let (sign_in, request) = SignIn::begin(id, keys, None).unwrap();
    sign_in.finish(keys, None, &target.ask(&request))
}

/// Octets that look random and are the same in every run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn greeting() -> Vec<u8> {
    let mut out = vec![0u8; 64];
    out[0] = 0xff;
    out[9] = 0x7f;
    out[10] = 3;
    out[12..16].copy_from_slice(b"NULL");
    out
}

/// Greeting and READY of a socket type.
fn handshake(kind: &[u8]) -> Vec<u8> {
    let mut out = greeting();
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend_from_slice(&(kind.len() as u32).to_be_bytes());
    ready.extend_from_slice(kind);
    zmtp::frame(&mut out, 4, &ready);
    out
}

/// Waits until the master ends the connection.
fn read_to_end(mut stream: TcpStream) {
    let mut sink = [0u8; 4096];
    // A reset is as good an end as a proper one; a time-out is none.
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the master keeps the connection")
            }
            Err(_) => return,
        }
    }
}

#[test]
fn octets_that_are_no_zmtp() {
    let mut target = Target::start();
    let mut other_mechanism = greeting();
    other_mechanism[12..17].copy_from_slice(b"CURVE");
    let mut inputs = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f".to_vec(),
        b"\x01\x00".to_vec(),
        vec![0; 1000],
        vec![0xff; 1000],
        Vec::new(),
        other_mechanism,
        [greeting(), noise(1, 500)].concat(),
        [handshake(b"NONSENSE"), noise(2, 500)].concat(),
        [handshake(b"REQ"), vec![4, 3, 9, b'X', b'Y']].concat(),
        [handshake(b"SUB"), vec![4, 0]].concat(),
        handshake(b"PAIR"),
    ];
    inputs.extend((10..40).map(|seed| noise(seed, 20 + seed as usize * 37)));
    for port in target.ports() {
        for input in &inputs {
            // The master may hang up while we write.
            let _ = target.raw(port).write_all(input);
        }
    }
    target.is_fine("noise");
}

#[test]
fn frames_too_long_or_cut_off() {
    let mut target = Target::start();
    for port in target.ports() {
        for length in [1u64 << 63, u64::MAX, 1 << 40, (1 << 32) + 5] {
            let mut stream = target.raw(port);
            let kind: &[u8] = if port == target.master.ret_port {
                b"REQ"
            } else {
                b"SUB"
            };
            let mut bytes = handshake(kind);
            bytes.push(2);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&noise(length, 3000));
            let _ = stream.write_all(&bytes);
            read_to_end(stream);
        }
        // Announced and never sent.
        for announced in [200u8, 1] {
            let mut stream = target.raw(port);
            stream.write_all(&handshake(b"REQ")).unwrap();
            stream.write_all(&[0, announced]).unwrap();
        }
    }
    // Larger than `max_request_size` is refused by the header; so much is never read.
    let limit = target.master.config().max_request_size;
    let mut stream = target.raw(target.master.ret_port);
    let mut bytes = handshake(b"REQ");
    bytes.extend_from_slice(&[1, 0, 2]);
    bytes.extend_from_slice(&(limit + 1).to_be_bytes());
    let _ = stream.write_all(&bytes);
    read_to_end(stream);
    target.is_fine("wrong frames");
}

#[test]
fn messages_with_wrong_frames() {
    let mut target = Target::start();
    let context = zmq::Context::new();
    let socket = context.socket(zmq::DEALER).unwrap();
    socket.set_linger(0).unwrap();
    socket
        .connect(&tcp_url("127.0.0.1", target.master.ret_port))
        .unwrap();
    let body = msgpack::encode(
        &Value::Map(map! {"enc" => "clear", "load" => map! {"cmd" => "ping"}, "version" => 3}),
        Profile::Wire,
    );
    let many: Vec<&[u8]> = vec![b"x"; 5000];
    let wrong: [&[&[u8]]; 7] = [
        &[b""],
        &[&body],
        &[b"not empty", &body],
        &[b"", b"", &body],
        &[b"", &body, &body],
        &[b"", b"", b"", b"", b"", b"", b"", b"", b"", &body],
        &many,
    ];
    for parts in wrong {
        socket.send_multipart(parts, 0).unwrap();
    }
    // The same connection still serves a right message.
    socket.send_multipart([b"".as_slice(), &body], 0).unwrap();
    socket.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
    let reply = socket.recv_multipart(0).unwrap();
    assert_eq!(
        reply,
        [
            Vec::new(),
            msgpack::encode(&Value::Map(map! {"cmd" => "ping"}), Profile::Wire)
        ]
    );
    target.is_fine("wrong messages");
}

/// A value of the vectors: `{"hex": ...}` are octets.
fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Object(o) if o.len() == 1 && o.contains_key("hex") => {
            let hex = o["hex"].as_str().unwrap();
            let octets = (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap());
            Value::Bytes(octets.collect())
        }
        serde_json::Value::Object(o) => {
            let mut map = Map::new();
            o.iter()
                .for_each(|(k, v)| map.set(k.as_str(), from_json(v)));
            Value::Map(map)
        }
        serde_json::Value::Array(a) => Value::Array(a.iter().map(from_json).collect()),
        serde_json::Value::String(s) => s.as_str().into(),
        serde_json::Value::Number(n) => n.as_i64().unwrap().into(),
        serde_json::Value::Bool(b) => (*b).into(),
        serde_json::Value::Null => Value::Nil,
    }
}

#[test]
fn replies_to_malformed_envelopes_are_salts() {
    let mut target = Target::start();
    let text = include_str!("vectors/bad-input.json");
    let all: serde_json::Value = serde_json::from_str(text).unwrap();
    let public =
        std::fs::read_to_string(target.master.config().pki_dir.join("master.pub")).unwrap();
    let public = PublicKey::from_pem(&public).unwrap();
    for vector in all["vectors"].as_array().unwrap() {
        let name = &vector["name"];
        let got = target.ask_value(&from_json(&vector["payload"]));
        let want = from_json(&vector["reply"]);
        let Some(signed) = want.as_map() else {
            assert_eq!(got, want, "{name}");
            continue;
        };
        let got = got.into_map().unwrap();
        assert_eq!(got.bytes("load"), signed.bytes("load"), "{name}");
        assert!(
            public.verify(
                Signing::Pkcs1v15Sha1,
                got.bytes("load").unwrap(),
                got.bytes("sig").unwrap()
            ),
            "{name}"
        );
    }
    // Octets that are no msgpack: the answer of 3006 and 3007, or that of 3008.
    for junk in [
        &b""[..],
        b"\xc1",
        b"\xda\xff\xff",
        b"\x81",
        b"\x81\xa3enc",
        &noise(7, 300),
    ] {
        let got = msgpack::decode(&target.ask(junk)).unwrap();
        let salts = [
            Value::Map(map! {"msg" => "bad load"}),
            Value::Map(map! {"error" => "Routing error"}),
            "bad load".into(),
        ];
        assert!(salts.contains(&got), "{junk:?}: {got:?}");
    }
    target.is_fine("malformed envelopes");
}

#[test]
fn envelopes_of_unknown_kind_and_version() {
    let mut target = Target::start();
    let ping = map! {"cmd" => "ping"};
    for enc in [
        Value::from("foo"),
        "pub".into(),
        "".into(),
        5.into(),
        Value::Nil,
        Value::Array(vec![]),
    ] {
        let got = target.ask_value(&Value::Map(
            map! {"enc" => enc.clone(), "load" => ping.clone(), "version" => 3},
        ));
        assert_eq!(got, "bad load".into(), "enc {enc:?}");
    }
    let versions = [
        Value::Int(0),
        1.into(),
        2.into(),
        (-1).into(),
        i64::MIN.into(),
        "3".into(),
        Value::Float(3.0),
        Value::Nil,
        Value::Map(Map::new()),
    ];
    for version in versions {
        for load in [
            ping.clone(),
            map! {"cmd" => "_auth", "id" => "m", "pub" => "x", "nonce" => NONCE},
        ] {
            let got = target.ask_value(&Value::Map(
                map! {"enc" => "clear", "load" => load, "version" => version.clone()},
            ));
            assert_eq!(got, "bad load".into(), "version {version:?}");
        }
    }
    // Later versions are not known to any series and treated as the present one.
    let got = target.ask_value(&Value::Map(
        map! {"enc" => "clear", "load" => ping.clone(), "version" => 99},
    ));
    assert_eq!(got, Value::Map(ping));
    for cmd in [
        Value::from("no_such"),
        "__init__".into(),
        5.into(),
        Value::Nil,
        "_return".into(),
        "x".repeat(100_000).into(),
    ] {
        let got = target.ask_value(&Value::Map(
            map! {"enc" => "clear", "load" => map! {"cmd" => cmd.clone()}, "version" => 3},
        ));
        assert_eq!(got, Value::Map(Map::new()), "cmd {cmd:.50?}");
    }
    target.is_fine("unknown envelopes");
}

fn auth(id: Value, nonce: Value, public: Value) -> Value {
    let load = map! {
        "cmd" => "_auth", "id" => id, "nonce" => nonce, "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1", "pub" => public,
    };
    Value::Map(map! {"enc" => "clear", "load" => load, "version" => 3})
}

/// The signed part of a sign-in reply.
fn signed_part(reply: Value) -> Map {
    let reply = reply.into_map().unwrap();
    msgpack::decode(reply.bytes("load").unwrap())
        .unwrap()
        .into_map()
        .unwrap()
}

#[test]
fn sign_ins_with_wrong_fields() {
    let mut target = Target::start();
    let public = keys("minion").public().to_owned();
    for nonce in [
        Value::Int(5),
        Value::Nil,
        true.into(),
        Value::Array(vec![]),
        Value::Bytes(vec![0xff; 32]),
        Value::Map(Map::new()),
    ] {
        let got = target.ask_value(&auth("m".into(), nonce.clone(), public.as_str().into()));
        assert_eq!(
            got,
            "Some exception handling minion payload".into(),
            "nonce {nonce:?}"
        );
    }
    for nonce in ["", "short", &"n".repeat(10_000)] {
        // Salt asks nothing of the text and gives it back.
        let got =
            signed_part(target.ask_value(&auth("m".into(), nonce.into(), public.as_str().into())));
        assert_eq!(got.str("nonce"), Some(nonce));
    }
    let cut = &public[..public.len() / 2];
    for public in [
        Value::Int(5),
        Value::Nil,
        "".into(),
        "y".into(),
        cut.into(),
        "\0".into(),
        "x".repeat(1 << 20).into(),
        Value::Bytes(noise(3, 450)),
    ] {
        let got =
            signed_part(target.ask_value(&auth("junk-key".into(), NONCE.into(), public.clone())));
        assert_eq!(
            got.get("ret"),
            Some(&Value::Bool(false)),
            "pub {public:.50?}"
        );
    }
    for (key, value, reply) in [
        ("sig_algo", "MD5", "bad sig algo"),
        ("enc_algo", "ROT13", "bad enc algo"),
    ] {
        let Value::Map(mut envelope) = auth("m".into(), NONCE.into(), public.as_str().into())
        else {
            unreachable!()
        };
        let mut load = envelope.remove("load").and_then(Value::into_map).unwrap();
        load.set(key, value);
        envelope.set("load", load);
        let got = target.ask_value(&Value::Map(envelope));
        assert_eq!(
            got,
            Value::Map(map! {"enc" => "clear", "load" => map! {"ret" => reply}})
        );
    }
    // A token that is none is left out of the reply.
    let Value::Map(mut envelope) = auth("m".into(), NONCE.into(), public.as_str().into()) else {
        unreachable!()
    };
    let mut load = envelope.remove("load").and_then(Value::into_map).unwrap();
    load.set("token", noise(5, 256));
    envelope.set("load", load);
    let got = signed_part(target.ask_value(&Value::Map(envelope)));
    assert!(got.contains("pub_key") && !got.contains("token"));
    target.is_fine("wrong sign-ins");
}

#[test]
fn ids_never_become_paths() {
    let mut target = Target::start();
    let public = keys("minion").public().to_owned();
    let config = target.master.config();
    let peer = Peer::sign_in(&target, "m1");
    let long = "l".repeat(300);
    let bad = [
        "../x",
        "a/b",
        "/etc/x",
        "..",
        ".",
        "",
        ".hidden",
        "a\\b",
        "a\nb",
        &long,
        "minions/../../x",
    ];
    for id in bad {
        let got =
            signed_part(target.ask_value(&auth(id.into(), NONCE.into(), public.as_str().into())));
        assert_eq!(got.get("ret"), Some(&Value::Bool(false)), "{id:?}");
        let forged = peer.session.seal_raw(
            id,
            &peer.load(
                map! {"cmd" => "_return", "jid" => "req", "fun" => "test.ping", "return" => true},
            ),
        );
        assert_eq!(
            msgpack::decode(&target.ask(&forged)).unwrap(),
            "bad load".into(),
            "{id:?}"
        );
    }
    let odd = [
        Value::Int(5),
        Value::Nil,
        true.into(),
        Value::Array(vec!["a".into()]),
        Value::Map(Map::new()),
        Value::Float(1.5),
        Value::Bytes(vec![0xff, 0xfe]),
    ];
    for id in odd.into_iter().chain(["a\0b".into(), "\0".into()]) {
        let got = target.ask_value(&auth(id.clone(), NONCE.into(), public.as_str().into()));
        assert!(
            got.as_str().is_some_and(|s| s.starts_with("bad load: id ")),
            "{id:?}: {got:?}"
        );
    }
    assert_eq!(
        peer.call(&map! {"cmd" => "_file_envs"}).unwrap(),
        Value::Array(vec!["base".into()])
    );
    drop(peer);
    let names = |dir: std::path::PathBuf| -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|n| !n.starts_with("honest"));
        names.sort();
        names
    };
    for dir in [
        "minions",
        "minions_pre",
        "minions_rejected",
        "minions_denied",
    ] {
        let want: &[&str] = if dir == "minions" { &["m1"] } else { &[] };
        assert_eq!(names(config.pki_dir.join(dir)), want, "{dir}");
    }
    assert_eq!(names(config.cachedir.join("sessions")), ["m1"]);
    assert!(!config.pki_dir.join("x").exists() && !config.cachedir.join("x").exists());
    target.is_fine("bad ids");
}

#[test]
fn another_key_for_a_known_id() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    let thief = keys("master");
    assert_eq!(sign_in(&target, "m1", &thief).err(), Some(Fault::Rejected));
    let denied = next_event(&mut events, |e| {
        e.tag == "salt/auth" && data(e).str("act") == Some("denied")
    });
    assert_eq!(data(&denied).str("id"), Some("m1"));
    // The session key alone does not do: the token is the key's.
    let (forged, _) = peer
        .session
        .seal("m1", &thief, &map! {"cmd" => "_file_envs"});
    assert_eq!(
        msgpack::decode(&target.ask(&forged)).unwrap(),
        "bad load".into()
    );
    // Nor does the session of one minion serve another, known or not.
    Peer::sign_in(&target, "m2");
    for id in ["m2", "nobody"] {
        let (forged, _) = peer
            .session
            .seal(id, &peer.keys, &map! {"cmd" => "_file_envs"});
        assert_eq!(
            msgpack::decode(&target.ask(&forged)).unwrap(),
            "bad load".into()
        );
    }
    assert!(
        !target
            .master
            .config()
            .cachedir
            .join("sessions/nobody")
            .exists()
    );
    assert!(
        peer.call(&map! {"cmd" => "_file_envs"}).is_ok(),
        "the rightful minion goes on"
    );
    drop(peer);
    target.is_fine("a thief");
}

fn data(event: &Event) -> Map {
    msgpack::decode(&event.payload).unwrap().into_map().unwrap()
}

fn next_event(events: &mut Subscriber, wanted: impl Fn(&Event) -> bool) -> Event {
    let end = Instant::now() + LIMIT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events
            .next(Some(left))
            .unwrap()
            .expect("the event does not come");
        if wanted(&event) {
            return event;
        }
    }
}

/// Events up to a marker that an honest minion fires last.
fn events_until_marker(peer: &Peer, events: &mut Subscriber) -> Vec<Event> {
    let mut out = Vec::new();
    let marker = map! {"cmd" => "_minion_event", "tag" => "test/marker", "data" => Map::new(), "pretag" => Value::Nil};
    assert_eq!(peer.call(&marker).unwrap(), Value::Nil);
    let end = Instant::now() + LIMIT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events
            .next(Some(left))
            .unwrap()
            .expect("the marker does not come");
        if event.tag == "test/marker" {
            return out;
        }
        out.push(event);
    }
}

#[test]
fn a_request_counts_once() {
    let mut target = Target::start();
    let peer = Peer::sign_in(&target, "m1");
    let mut events = target.listen();
    let load =
        peer.load(map! {"cmd" => "_minion_event", "tag" => "my/event", "data" => Map::new()});
    let request = peer.session.seal_raw("m1", &load);
    assert_eq!(
        peer.session.open(NONCE, &target.ask(&request)),
        Ok(Value::Nil)
    );
    for _ in 0..3 {
        assert_eq!(
            msgpack::decode(&target.ask(&request)).unwrap(),
            "bad load".into()
        );
    }
    let seen = events_until_marker(&peer, &mut events);
    assert_eq!(seen.iter().filter(|e| e.tag == "my/event").count(), 1);
    drop(peer);
    target.is_fine("replays");
}

#[test]
fn a_request_sent_many_times_at_once_counts_once() {
    let mut target = Target::start();
    let peer = Peer::sign_in(&target, "m1");
    let mut events = target.listen();
    let context = zmq::Context::new();
    for round in 0..20 {
        let load = peer.load(
            map! {"cmd" => "_minion_event", "tag" => "my/event", "data" => map! {"round" => round}},
        );
        let request = peer.session.seal_raw("m1", &load);
        let sockets: Vec<zmq::Socket> = (0..8).map(|_| context.socket(zmq::REQ).unwrap()).collect();
        for socket in &sockets {
            socket.set_linger(0).unwrap();
            socket.set_rcvtimeo(LIMIT.as_millis() as i32).unwrap();
            socket
                .connect(&tcp_url("127.0.0.1", target.master.ret_port))
                .unwrap();
        }
        sockets.iter().for_each(|s| s.send(&request, 0).unwrap());
        let accepted = sockets
            .iter()
            .filter(|s| peer.session.open(NONCE, &s.recv_bytes(0).unwrap()).is_ok())
            .count();
        assert_eq!(accepted, 1, "round {round}");
    }
    let seen = events_until_marker(&peer, &mut events);
    assert_eq!(seen.iter().filter(|e| e.tag == "my/event").count(), 20);
    drop(peer);
    target.is_fine("parallel replays");
}

/// msgpack of a map with one entry more, whose value is given in octets.
fn with_raw(map: &Map, key: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::put_map_header(&mut out, map.len() + 1);
    let encoded = msgpack::encode_map(map, Profile::Wire);
    let mut reader = msgpack::Reader::new(&encoded);
    reader.item().unwrap();
    out.extend_from_slice(reader.rest());
    msgpack::put_str(&mut out, key.as_bytes(), Profile::Wire);
    out.extend_from_slice(value);
    out
}

#[test]
fn structures_that_exhaust() {
    let mut target = Target::start();
    let deep_arrays = vec![0x91u8; 100_000];
    let deep_maps = b"\x81\xa1k".repeat(100_000);
    let mut shapes = vec![
        deep_arrays,
        deep_maps,
        b"\xdf\xff\xff\xff\xff".to_vec(),
        b"\xdd\xff\xff\xff\xff".to_vec(),
    ];
    shapes.push([b"\xdf\xff\xff\xff\xff".to_vec(), vec![0xc0; 100_000]].concat());
    shapes.push(b"\xdd\xff\xff\xff\xff".repeat(200));
    shapes.push(b"\xc6\xff\xff\xff\xff".to_vec());
    shapes.push(b"\xc9\xff\xff\xff\xff\x4f".to_vec());
    shapes.push(b"\xc7\x03\x4f\x92\xa0\xc1".repeat(100));
    let peer = Peer::sign_in(&target, "m1");
    let clear = map! {"enc" => "clear", "version" => 3};
    let load = peer.load(map! {"cmd" => "_return", "jid" => "req", "fun" => "test.ping"});
    for (n, shape) in shapes.iter().enumerate() {
        let refused = |answer: Vec<u8>| {
            let got = msgpack::decode(&answer).unwrap();
            assert!(
                got.as_str().is_some() || got.as_map().is_some(),
                "shape {n}: {got:?}"
            );
        };
        refused(target.ask(shape));
        refused(target.ask(&with_raw(&clear, "load", shape)));
        refused(target.ask(&with_raw(
            &clear,
            "load",
            &with_raw(&map! {"cmd" => "_auth", "id" => "x"}, "nonce", shape),
        )));
        let sealed = peer
            .session
            .seal_bytes("m1", &with_raw(&load, "return", shape));
        refused(target.ask(&sealed));
    }
    assert!(peer.call(&map! {"cmd" => "_file_envs"}).is_ok());
    drop(peer);
    target.is_fine("exhausting structures");
}

#[test]
fn events_of_others_cannot_be_forged() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    Peer::sign_in(&target, "other");
    let jid = "20261121092637195592";
    let forged = [
        format!("salt/job/{jid}/ret/other"),
        format!("salt/job/{jid}/ret/m1"),
        format!("salt/job/{jid}/new"),
        "salt/auth".into(),
        "salt/key".into(),
        "key".into(),
        jid.into(),
        "salt/minion/other/start".into(),
        "salt/run/x/ret".into(),
        "minion/refresh/other".into(),
        "salt/job/../../x/prog/m1".into(),
        "salt/presence/present".into(),
        "halite/bus/dropped".into(),
        String::new(),
        "a\n\nb".into(),
        "x".repeat(1 << 20),
    ];
    for tag in &forged {
        let payload = map! {"id" => "other", "return" => "forged", "jid" => jid};
        let one = map! {"cmd" => "_minion_event", "tag" => tag.as_str(), "data" => payload.clone(), "pretag" => Value::Nil};
        peer.call(&one).unwrap();
        let list = Value::Array(vec![Value::Map(
            map! {"tag" => tag.as_str(), "data" => payload},
        )]);
        for pretag in [
            Value::Nil,
            "salt".into(),
            tag.as_str().into(),
            Value::Int(5),
        ] {
            peer.call(
                &map! {"cmd" => "_minion_event", "events" => list.clone(), "pretag" => pretag},
            )
            .unwrap();
        }
    }
    // A pretag may not complete a tag.
    let list = Value::Array(vec![Value::Map(
        map! {"tag" => "auth", "data" => Map::new()},
    )]);
    peer.call(&map! {"cmd" => "_minion_event", "events" => list, "pretag" => "salt"})
        .unwrap();
    for event in events_until_marker(&peer, &mut events) {
        let own_sign_in = event.tag == "salt/auth" && data(&event).str("act") == Some("accept");
        let speaks_for_others = forged.contains(&event.tag) || event.tag.starts_with("salt/job/");
        assert!(
            own_sign_in || !speaks_for_others,
            "{} came through",
            event.tag
        );
    }
    drop(peer);
    target.is_fine("forged events");
}

#[test]
fn returns_for_others_and_for_no_job() {
    let mut target = Target::start();
    let mut events = target.listen();
    let peer = Peer::sign_in(&target, "m1");
    Peer::sign_in(&target, "other");
    events_until_marker(&peer, &mut events);
    let load =
        map! {"cmd" => "_return", "fun" => "test.ping", "return" => "forged", "jid" => "req"};
    let mut other = peer.load(load.clone());
    other.set("id", "other");
    assert!(
        peer.call_raw(&other).is_err(),
        "an id that is not the envelope's"
    );
    let mut none = peer.load(load.clone());
    none.remove("id");
    assert!(peer.call_raw(&none).is_err(), "no id");
    let jids = [
        "../../x",
        "..",
        "/etc/x",
        "",
        "20261121092637195592/../../x",
        "2026112109263719559\0",
        "20261121092637195592_",
        "99991231235959999999",
    ];
    for jid in jids {
        let mut load = load.clone();
        load.set("jid", jid);
        assert_eq!(peer.call(&load), Ok(Value::Nil), "{jid:?}");
    }
    for jid in [
        Value::Int(5),
        Value::Nil,
        Value::Array(vec![]),
        Value::Map(Map::new()),
    ] {
        let mut load = load.clone();
        load.set("jid", jid);
        assert_eq!(peer.call(&load), Ok(Value::Nil));
    }
    for field in ["nonce", "tok"] {
        for value in [
            Value::Int(5),
            Value::Nil,
            "".into(),
            "x".into(),
            Value::Array(vec![]),
            Value::Bytes(noise(9, 256)),
        ] {
            let mut load = peer.load(load.clone());
            load.set(field, value);
            assert!(peer.call_raw(&load).is_err(), "{field}");
        }
    }
    // Two ids in one map: whoever reads the event must see the one that was checked.
    let mut twice = peer.load(load);
    let id = Value::from("id");
    twice.0.push((id.clone(), "other".into()));
    assert!(
        peer.call_raw(&twice).is_err(),
        "the last of two ids counts, as in Python"
    );
    twice.0.retain(|(k, _)| *k != id);
    twice.0.push((id.clone(), "other".into()));
    twice.0.push((id, "m1".into()));
    assert_eq!(peer.call_raw(&twice), Ok(Value::Nil));
    let seen = events_until_marker(&peer, &mut events);
    for event in &seen {
        let kept = event.tag.split_once("/ret/").map(|(_, id)| id);
        assert_eq!(kept, Some("m1"), "{}", event.tag);
        let text = String::from_utf8_lossy(&event.payload);
        assert!(
            !text.contains("other"),
            "another's id in {}: {text}",
            event.tag
        );
    }
    let cachedir = target.master.config().cachedir;
    let mut dirs = vec![cachedir];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            assert_ne!(
                entry.file_name(),
                "x",
                "a jid became a path: {:?}",
                entry.path()
            );
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    drop(peer);
    target.is_fine("forged returns");
}

#[test]
fn connections_that_say_nothing() {
    let mut target = Target::start();
    let limit = halite::sys::process::raise_open_files(4096).unwrap();
    let count = 2000.min(limit as usize / 2);
    let silent: Vec<TcpStream> = (0..count)
        .map(|n| target.raw(target.ports()[n % 2]))
        .collect();
    target.is_fine("2000 silent connections");
    drop(silent);
    target.is_fine("the end of 2000 silent connections");
}

#[test]
fn connections_that_speak_slowly() {
    let mut target = Target::start();
    let mut bytes = handshake(b"REQ");
    // A request of 60 000 octets of which one comes now and then.
    bytes.extend_from_slice(&[1, 0, 2]);
    bytes.extend_from_slice(&60_000u64.to_be_bytes());
    let mut slow: Vec<TcpStream> = (0..400)
        .map(|n| target.raw(target.ports()[n % 2]))
        .collect();
    for part in bytes.chunks(bytes.len() / 3 + 1) {
        for octet in part {
            slow.retain_mut(|s| s.write_all(&[*octet]).is_ok());
        }
        target.is_fine("slow octets");
    }
    assert!(
        slow.len() >= 200,
        "the request server bears them: {}",
        slow.len()
    );
}

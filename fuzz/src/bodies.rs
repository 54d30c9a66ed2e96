//! What each fuzz target does with its input; shared by `scripts/fuzz` and `tests/documents/fuzz_corpus.rs`.
//!
//! A body must not panic, hang or take memory out of proportion, whatever it is given. Where a
//! decoder has an inverse, the round trip is checked as well.

mod cluster;
mod genuine;
mod handshakes;
mod judged;
mod limits;
mod modules;

pub use cluster::cluster_message;
pub use genuine::collective_security;
pub use handshakes::{noise_handshake, session_gcm};
pub use judged::collective_filter;
pub use limits::{envelope_peek, ext_types, jinja_budget, kwargs, saltfile, target_regex};
pub use modules::arena_module;

use halite::arena::wire::{Body as ArenaBody, Channel, Json, Message, Module, Policy, Runtime};
use halite::collective::ruby::{Datum, json, marshal, psych};
use halite::collective::stomp::{Decoder as StompDecoder, Frame};
use halite::collective::wire::choria::{self, Generation, SecureReply, SecureRequest};
use halite::collective::wire::core::{self, CoreReply, CoreRequest, Sealed};
use halite::collective::wire::subjects::Bus;
use halite::collective::wire::{Form, Packet, RpcReply, RpcRequest};
use halite::crypto::{Crypticle, IdentityKey, IdentityPublic, KeyString, clean_key};
use halite::jinja::{Environment, EnvironmentOptions, LoadedTemplate, Obj, TemplateLoader};
use halite::python::marshal as python;
use halite::sysinspect::target::{Minion, Query};
use halite::sysinspect::wire::{
    self as sysinspect, Dialect, First, MasterMessage, MinionMessage, Target as Destination,
};
use halite::target::{Subject, Target, TargetType};
use halite::wire::budget::Budget;
use halite::wire::envelope::{Body, Envelope, check_id, clear_load, envelope_id, peek_cmd};
use halite::wire::ids::{Jid, Tag};
use halite::wire::msgpack::{self, Profile};
use halite::wire::proxy::{HeaderDecoder, MAX_HEADER};
use halite::wire::tcp;
use halite::wire::ws;
use halite::wire::yaml;
use halite::wire::zmtp;
use halite::wire::{Map, Value};
use halite_ipc::{Decoder, Event};
use std::sync::LazyLock;

/// A target's name and body.
pub type Entry = (&'static str, fn(&[u8]));

/// All targets; each has a directory of seeds in `fuzz/corpus` and a file in `fuzz/fuzz_targets`.
pub const ALL: &[Entry] = &[
    ("msgpack", msgpack),
    ("envelope", envelope),
    ("crypticle_loads", crypticle_loads),
    ("event_frame", event_frame),
    ("yaml", yaml),
    ("target_compound", target_compound),
    ("parse_input", parse_input),
    ("return_load", return_load),
    ("jinja", jinja),
    ("sysinspect", sysinspect),
    ("collective_packet", collective_packet),
    ("collective_security", collective_security),
    ("stomp", stomp),
    ("zmtp", zmtp_words),
    ("zmtp_request", zmtp_requests),
    ("tcp_frame", tcp_frames),
    ("ws_stream", ws_stream),
    ("proxy_header", proxy_header),
    ("identity_key", identity_key),
    ("ruby_marshal", ruby_marshal),
    ("ruby_psych", ruby_psych),
    ("python_marshal", python_marshal),
    ("collective_core", collective_core),
    ("collective_choria", collective_choria),
    ("collective_filter", collective_filter),
    ("arena_message", arena_message),
    ("arena_module", arena_module),
    ("envelope_peek", envelope_peek),
    ("ext_types", ext_types),
    ("target_regex", target_regex),
    ("jinja_budget", jinja_budget),
    ("kwargs", kwargs),
    ("saltfile", saltfile),
    ("noise_handshake", noise_handshake),
    ("session_gcm", session_gcm),
    ("cluster_message", cluster_message),
];

/// Key of the test vectors.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc=";
const NONCE: &str = "0123456789abcdef0123456789abcdef";

/// Any octets as msgpack; what was read is written and read again.
pub fn msgpack(data: &[u8]) {
    let Ok(value) = msgpack::decode(data) else {
        return;
    };
    for profile in [Profile::Local, Profile::Wire] {
        let bytes = msgpack::encode(&value, profile);
        let again = msgpack::decode(&bytes).expect("what was encoded can be decoded");
        assert_eq!(msgpack::encode(&again, profile), bytes, "{value:?}");
    }
}

/// A request body, up to the point where keys are needed.
pub fn envelope(data: &[u8]) {
    let _ = peek_cmd(data);
    let Ok(envelope) = Envelope::parse(data) else {
        return;
    };
    match envelope.body {
        Body::Clear { load } => {
            let _ = peek_cmd(load);
            let _ = clear_load(load);
        }
        Body::Sealed { id, load, .. } => {
            let _ = envelope_id(id);
            let _ = load.len();
        }
    }
}

/// Ciphertext from anybody, and documents from somebody who has the key.
pub fn crypticle_loads(data: &[u8]) {
    static KEYS: LazyLock<Crypticle> =
        LazyLock::new(|| Crypticle::new(&KeyString::from_text(KEY).expect("the key is right")));
    let crypticle = &*KEYS;
    let _ = crypticle.loads(data, Some(NONCE));
    let _ = crypticle.peek(data, 320);
    let sealed = crypticle.encrypt(data);
    assert_eq!(crypticle.decrypt(&sealed).as_deref(), Ok(data));
    let _ = crypticle.loads(&sealed, None);
    let _ = crypticle.loads(&sealed, Some(NONCE));
    let document = crypticle.dumps_raw(data, Some(NONCE));
    let read = crypticle.loads(&document, Some(NONCE)).ok();
    assert_eq!(read.is_some(), msgpack::decode(data).is_ok());
}

/// The stream of an event bus socket, whole and in pieces.
pub fn event_frame(data: &[u8]) {
    assert_eq!(
        bodies(data.chunks(data.len().max(1))),
        bodies(data.chunks(3))
    );
}

fn bodies<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = Decoder::new(1 << 16);
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_body() {
                Ok(Some(body)) => {
                    let _ = Event::from_body(body);
                    out.push(body.to_vec());
                }
                Ok(None) => break,
                Err(_) => return (out, false),
            }
        }
    }
    (out, true)
}

/// YAML text.
pub fn yaml(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = yaml::parse(text);
    }
}

struct Facts(Map);

impl Subject for Facts {
    fn id(&self) -> &str {
        "web1.example.org"
    }

    fn grains(&self) -> &Map {
        &self.0
    }

    fn pillar(&self) -> &Map {
        &self.0
    }
}

/// The first octet chooses the kind of target, the rest is the expression.
pub fn target_compound(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let kind = TargetType::ALL[usize::from(*kind) % TargetType::ALL.len()];
    let facts = Facts(halite::map! {
        "os" => "Debian", "ipv4" => vec![Value::from("10.0.0.1")], "a" => halite::map! {"b" => "c", "n" => 5},
    });
    for kind in [kind.name(), "compound"] {
        if let Ok(target) = Target::parse(&text.into(), kind, None) {
            let _ = target.try_matches(&facts);
        }
    }
}

/// Words of a command line.
pub fn parse_input(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let words: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for word in &words {
        let _ = yaml::yamlify_arg(word);
        let _ = yaml::parse_kwarg(word);
    }
    let _ = yaml::parse_input(&words, &["a"]);
}

/// The load of a return, after it has been decrypted.
pub fn return_load(data: &[u8]) {
    let Ok(load) = msgpack::decode_load(data, Budget::of(data.len())) else {
        return;
    };
    let _ = check_id(&load);
    let _ = load.str("jid").map(str::parse::<Jid>);
    let _ = load.str("tag").map(str::parse::<Tag>);
    let kept = halite::store::jobs::stored_part(&load);
    let bytes = msgpack::encode_map(&kept, Profile::Local);
    assert!(msgpack::decode(&bytes).is_ok());
    // Whatever a listener decodes has each key once.
    for (n, (key, _)) in load.iter().enumerate() {
        assert!(
            key.as_str().is_none() || load.0[..n].iter().all(|(k, _)| k != key),
            "{key:?} twice"
        );
    }
}

/// Templates of the fuzz target: those after the first zero octet, by number.
struct Parts(Vec<String>);

impl TemplateLoader for Parts {
    fn load(&self, name: &str, _from: Option<&str>) -> Result<Option<LoadedTemplate>, String> {
        let index: usize = name.parse().unwrap_or(usize::MAX);
        Ok(self.0.get(index).map(|source| LoadedTemplate {
            source: source.clone(),
            ..LoadedTemplate::default()
        }))
    }
}

/// A template that may load others, run with little fuel and small limits.
pub fn jinja(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    let source = parts[0].clone();
    let value = halite::map! {"a" => 1, "b" => "text", "c" => vec![Value::from("x"), Value::Nil]};
    let variables = || -> Vec<(String, Obj)> {
        vec![
            ("d".to_owned(), Obj::from(&value)),
            ("n".to_owned(), Obj::from(3)),
            ("s".to_owned(), Obj::from("some text")),
        ]
    };
    for strict in [true, false] {
        let options = EnvironmentOptions {
            strict_undefined: strict,
            trim_blocks: !strict,
            lstrip_blocks: !strict,
            autoescape: !strict,
            line_statement_prefix: (!strict).then(|| "%".to_owned()),
            line_comment_prefix: (!strict).then(|| "##".to_owned()),
            fuel: 4000,
            max_output: 1 << 16,
            max_size: 1 << 14,
            ..EnvironmentOptions::default()
        };
        let loader = std::rc::Rc::new(Parts(parts.clone()));
        let environment = Environment::new(options).with_loader(loader);
        match environment.render(&source, "fuzz", variables()) {
            Ok(output) => assert!(output.len() <= 1 << 16),
            Err(error) => assert!(!error.salt_text().is_empty()),
        }
    }
}

/// The stream of a sysinspect connection, whole and in pieces; each body as either side's message
/// in each dialect. What was read is written and read again.
pub fn sysinspect(data: &[u8]) {
    let whole = frames(data, data.len().max(1));
    assert_eq!(whole, frames(data, 3));
    let (mut bodies, _) = whole;
    bodies.push(data.to_vec());
    for body in &bodies {
        let _ = First::of(body);
        for dialect in [Dialect::Seed, Dialect::E1, Dialect::Modern] {
            if let Ok(message) = MinionMessage::decode(body, dialect) {
                let _ = sysinspect::payload_value(&message.data);
                let bytes = message.encode(dialect);
                let again = MinionMessage::decode(&bytes, dialect);
                let again = again.expect("what was encoded can be decoded");
                assert_eq!(again.encode(dialect), bytes);
            }
            if let Ok(message) = MasterMessage::decode(body, dialect) {
                addressed(&message.targets);
                if let Ok(bytes) = message.encode(dialect) {
                    let again = MasterMessage::decode(&bytes, dialect);
                    let again = again.expect("what was encoded can be decoded");
                    assert_eq!(again.encode(dialect), Ok(bytes));
                }
            }
        }
    }
}

/// A packet of NATS; what was read is written and read again. Then its headers as names of places.
pub fn collective_packet(data: &[u8]) {
    let Ok(packet) = Packet::from_json(data) else {
        return;
    };
    let again = Packet::from_json(&packet.to_json()).expect("what was written can be read");
    match packet.data.is_empty() {
        // Without a line, nothing tells the one base64 from the other.
        true => assert_eq!(again.data, packet.data),
        false => assert_eq!(again, packet),
    }
    for text in packet.reply_to.iter().chain(&packet.sender) {
        for bus in [Bus::Nats, Bus::RabbitMq, Bus::ActiveMq] {
            if bus.may_answer(text, false) {
                assert!(
                    text.bytes()
                        .all(|c| c.is_ascii_graphic() && c != b'*' && c != b'>')
                );
            }
        }
    }
}

/// The stream of a STOMP connection, whole and in pieces, with and without escapes.
pub fn stomp(data: &[u8]) {
    for escapes in [false, true] {
        let whole = stomp_frames(data, data.len().max(1), escapes);
        assert_eq!(whole, stomp_frames(data, 3, escapes));
        for frame in whole {
            // Line ends within a header of 1.0 have no form.
            let mut bytes = Vec::new();
            if frame.encode(escapes, &mut bytes).is_ok() {
                let again = stomp_frames(&bytes, bytes.len(), escapes);
                let [again] = again.as_slice() else {
                    panic!("one frame became {again:?}");
                };
                assert_eq!((&again.command, &again.body), (&frame.command, &frame.body));
            }
        }
    }
}

/// What a subscriber says, whole and in pieces.
pub fn zmtp_words(data: &[u8]) {
    let heard = |size: usize| {
        let (mut listener, mut words) = (zmtp::SubscriberDecoder::default(), Vec::new());
        for piece in data.chunks(size) {
            if let Err(fault) = listener.decode(piece, |word| words.push(word)) {
                return (words, Some(fault));
            }
        }
        (words, None)
    };
    let whole = heard(data.len().max(1));
    assert_eq!(whole, heard(3));
    for word in whole.0 {
        if let zmtp::Command::Ping(context) = word {
            assert!(zmtp::pong(&context).len() <= 23);
        }
    }
}

/// What a client of the request port says, whole and in pieces.
pub fn zmtp_requests(data: &[u8]) {
    const MAX_MESSAGE: usize = 512;
    let heard = |size: usize| {
        let (mut decoder, mut events) = (zmtp::RequestDecoder::default(), Vec::new());
        for piece in data.chunks(size) {
            if let Err(fault) = decoder.decode(piece, MAX_MESSAGE, |event| events.push(event)) {
                return (events, Some(fault));
            }
            assert!(decoder.held() <= MAX_MESSAGE + 9 || decoder.held() <= 4096 + 9);
        }
        (events, None)
    };
    let whole = heard(data.len().max(1));
    assert_eq!(whole, heard(3));
    for event in whole.0 {
        match event {
            zmtp::RequestEvent::Ping(context) => assert!(context.len() <= 16),
            zmtp::RequestEvent::Request(body) => assert!(body.len() <= MAX_MESSAGE),
            zmtp::RequestEvent::Malformed | zmtp::RequestEvent::Other => {}
        }
    }
}

/// What a peer of the TCP transport sends, whole and in pieces.
pub fn tcp_frames(data: &[u8]) {
    const MAX_FRAME: usize = 512;
    let heard = |size: usize| {
        let (mut decoder, mut frames) = (tcp::FrameDecoder::default(), Vec::new());
        for piece in data.chunks(size) {
            let take = |frame: tcp::Frame| frames.push((frame.head.to_vec(), frame.body.to_vec()));
            if let Err(fault) = decoder.decode(piece, MAX_FRAME, take) {
                return (frames, Some(fault));
            }
            assert!(decoder.held() < MAX_FRAME);
        }
        (frames, None)
    };
    let whole = heard(data.len().max(1));
    assert_eq!(whole, heard(3));
    for (head, body) in whole.0 {
        let _ = tcp::mid(&head);
        let inner = &body[tcp::unwrapped(&body)];
        assert!(inner.len() <= body.len());
        // A reply repeats the head as it is.
        let reply = [tcp::frame_start(&head), body.clone()].concat();
        let again = tcp::Frame::parse(&reply).unwrap();
        assert_eq!((again.head, again.body), (&head[..], &body[..]));
    }
}

/// A public key that a peer presents, and what key files hold. A key reads the same as it was written.
pub fn identity_key(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(key) = IdentityPublic::from_bare_pem(&clean_key(&text)) {
        let written = key.to_pem();
        assert_eq!(IdentityPublic::from_pem(&text).as_ref(), Ok(&key));
        assert_eq!(
            IdentityPublic::from_bare_pem(&clean_key(&written)).as_ref(),
            Ok(&key)
        );
        assert!(key.rsa().is_some() || clean_key(&written) == clean_key(&text));
        assert!(!key.made_tok(data) && !key.agent_fingerprint().is_empty());
    }
    if let Ok(key) = IdentityKey::from_pem(&text) {
        let again = IdentityKey::from_pem(&key.to_pem()).expect("it was written by us");
        assert_eq!(again.public(), key.public());
    }
}

/// What a load balancer sends first, whole and in pieces.
pub fn proxy_header(data: &[u8]) {
    let heard = |size: usize| {
        let (mut decoder, mut taken) = (HeaderDecoder::default(), 0);
        while taken < data.len() {
            let wanted = decoder.wanted().min(size).min(data.len() - taken);
            assert!(wanted > 0, "it is not complete");
            let piece = &data[taken..taken + wanted];
            taken += wanted;
            assert!(taken <= MAX_HEADER);
            match decoder.push(piece) {
                Ok(None) => {}
                Ok(Some(origin)) => return Ok(Some((origin, taken))),
                Err(why) => return Err(why),
            }
        }
        Ok(None)
    };
    let whole = heard(data.len().max(1));
    for size in [1, 3] {
        assert_eq!(whole, heard(size));
    }
    if let Ok(Some((origin, length))) = whole {
        let (header, _) = data.split_at(length);
        let mut decoder = HeaderDecoder::default();
        // More than is wanted is left alone.
        let mut again = decoder.push(&header[..header.len().min(16)]);
        if again == Ok(None) {
            again = decoder.push(&data[16..]);
        }
        assert_eq!(again, Ok(Some(origin)));
    }
}

/// What a client or a server of WebSocket sends, from the upgrade on, whole and in pieces.
pub fn ws_stream(data: &[u8]) {
    const MAX_MESSAGE: usize = 512;
    let frames = |bytes: &[u8], size: usize| {
        let (mut decoder, mut events) = (ws::FrameDecoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            if let Err(fault) = decoder.decode(piece, MAX_MESSAGE, |event| events.push(event)) {
                return (events, Some(fault));
            }
            assert!(decoder.held() <= 2 * MAX_MESSAGE + 14);
        }
        (events, None)
    };
    let upgraded = |size: usize| {
        let mut upgrade = ws::ServerUpgrade::default();
        let mut pieces = data.chunks(size);
        while let Some(piece) = pieces.next() {
            match upgrade.push(piece) {
                Ok(None) => {}
                Ok(Some((response, mut rest))) => {
                    assert!(response.starts_with(b"HTTP/1.1 101"));
                    pieces.for_each(|piece| rest.extend_from_slice(piece));
                    return Ok(Some(rest));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    };
    let mut client = ws::ClientUpgrade::new([0; 16]);
    let _ = data
        .chunks(3)
        .find(|piece| !matches!(client.push(piece), Ok(None)));
    let rest = match upgraded(data.len().max(1)) {
        Ok(Some(rest)) => {
            assert_eq!(upgraded(3), Ok(Some(rest.clone())));
            rest
        }
        // Frames alone, which a fuzzer finds sooner.
        _ => data.to_vec(),
    };
    let whole = frames(&rest, rest.len().max(1));
    assert_eq!(whole, frames(&rest, 3));
    for event in whole.0 {
        match event {
            ws::WsEvent::Message(body) => assert!(body.len() <= MAX_MESSAGE),
            ws::WsEvent::Ping(context) => assert!(ws::pong(&context).len() <= 127),
        }
    }
}

fn stomp_frames(data: &[u8], size: usize, escapes: bool) -> Vec<Frame> {
    let mut decoder = StompDecoder::new(1 << 12);
    decoder.set_escapes(escapes);
    let mut out = Vec::new();
    for piece in data.chunks(size) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => out.push(frame),
                Ok(None) => break,
                Err(_) => return out,
            }
        }
    }
    out
}

fn addressed(targets: &[Destination]) {
    let traits = halite::map! {"system.net.eth0.ipv4" => "192.168.0.1", "n" => 2, "a.b" => true};
    let minion = Minion {
        id: "30006546535e428aba0a0caa6712e225",
        hosts: &["web1.example.org".to_owned()],
        traits: &traits,
    };
    let _ = minion.matches(targets);
    for target in targets {
        let _ = Query::parse(&target.query).map(|q| q.matches(&traits));
    }
}

fn frames(data: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = sysinspect::Decoder::new(1 << 12);
    let mut out = Vec::new();
    for piece in data.chunks(size) {
        decoder.push(piece);
        loop {
            match decoder.next_body() {
                Ok(Some(body)) => out.push(body.to_vec()),
                Ok(None) => break,
                Err(_) => return (out, false),
            }
        }
    }
    (out, true)
}

/// Any octets as Ruby's Marshal; what was read is written and read again.
pub fn ruby_marshal(data: &[u8]) {
    if let Ok(datum) = marshal::read(data) {
        let bytes = marshal::write(&datum);
        let again = marshal::read(&bytes).expect("what was written can be read");
        assert_eq!(marshal::write(&again), bytes, "{datum:?}");
        let _ = (psych::write(&datum), json::write(&datum), datum.to_value());
        rpc(&datum);
    }
}

/// Any octets as Python's marshal, which users' code may send; what was read is written and read again.
pub fn python_marshal(data: &[u8]) {
    if let Ok(value) = python::decode(data) {
        let mut bytes = Vec::new();
        python::encode(&value, &mut bytes);
        let again = python::decode(&bytes).expect("what was written can be read");
        let mut twice = Vec::new();
        python::encode(&again, &mut twice);
        assert_eq!(twice, bytes, "{value:?}");
    }
}

/// Any octets as Psych's YAML; what was read is written and read again.
pub fn ruby_psych(data: &[u8]) {
    if let Ok(datum) = psych::read(data) {
        let text = psych::write(&datum);
        let again = psych::read(text.as_bytes()).expect("what was written can be read");
        assert_eq!(psych::write(&again), text, "{datum:?}");
        let _ = marshal::write(&datum);
        rpc(&datum);
    }
}

/// Bodies of SimpleRPC.
fn rpc(body: &Datum) {
    for form in [Form::Psk, Form::CHORIA] {
        if let Ok(request) = RpcRequest::read(body) {
            let again = RpcRequest::read(&request.write(form));
            let again = again.expect("what was written can be read");
            assert_eq!((again.agent, again.action), (request.agent, request.action));
        }
        if let Ok(reply) = RpcReply::read(body) {
            let again = RpcReply::read(&reply.write(form));
            assert_eq!(again.map(|reply| reply.status), Ok(reply.status));
        }
    }
}

/// A message of G0, up to the point where keys are needed, and what would be behind it.
pub fn collective_core(data: &[u8]) {
    if let Ok(request) = CoreRequest::read(data) {
        let again = CoreRequest::read(&request.write()).expect("what was written can be read");
        assert_eq!(again.write(), request.write());
        opened(&request.body, request.serializer);
    }
    if let Ok(reply) = CoreReply::read(data) {
        let again = CoreReply::read(&reply.write()).expect("what was written can be read");
        assert_eq!(again, reply);
        opened(&reply.body, reply.serializer);
    }
}

fn opened(body: &[u8], serializer: halite::collective::wire::Serializer) {
    if let Ok(datum) = core::load(body, serializer) {
        rpc(&datum);
    }
    for plugin in ["ssl", "aes"] {
        if let Ok(sealed) = Sealed::read(body, serializer, plugin) {
            let again = sealed.write(serializer, plugin);
            assert!(Sealed::read(&again, serializer, plugin).is_ok());
        }
    }
}

/// A document of Choria: the outer ones, what stands within them, and the input itself as such an inner text.
pub fn collective_choria(data: &[u8]) {
    if let Ok(secure) = SecureRequest::read(data) {
        assert_eq!(
            SecureRequest::read(&secure.write()).map(|again| again.signature),
            Ok(secure.signature)
        );
        inner(&secure.message);
    }
    if let Ok(secure) = SecureReply::read(data) {
        assert_eq!(SecureReply::read(&secure.write()), Ok(secure.clone()));
        inner(&secure.message);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        inner(text);
    }
}

fn inner(text: &str) {
    for generation in [Generation::G1, Generation::G2] {
        if let Ok((request, form)) = choria::read_request(text, generation) {
            let written = choria::write_request(&request, form);
            let (again, _) = choria::read_request(&written, generation).expect("it can be read");
            assert_eq!((&again.id, again.time), (&request.id, request.time));
            rpc(&request.body);
        }
        if let Ok((reply, form)) = choria::read_reply(text, generation) {
            let written = choria::write_reply(&reply, form);
            let (again, _) = choria::read_reply(&written, generation).expect("it can be read");
            assert_eq!((&again.id, again.time), (&reply.id, reply.time));
            rpc(&reply.body);
        }
    }
}

/// A message of ARENA; written and read again, it says the same. Records that come of it are kept.
pub fn arena_message(data: &[u8]) {
    let Ok(message) = Message::parse(data) else {
        return;
    };
    let text = message.to_json();
    // What is left out is filled in, the older dialect has no index: from the second time on nothing changes.
    let second = Message::parse(&text).expect("what was written can be read");
    let third = Message::parse(&second.to_json()).expect("what was written can be read");
    let exact = !has_floats(&serde_json::from_slice(&text).expect("JSON"));
    assert!(!exact || second == third, "{second:?} {third:?}");
    match second.body {
        ArenaBody::Register(runtime) => {
            let kept = Runtime::from_json(runtime.to_json()).expect("a record can be read");
            assert_eq!(kept, *runtime);
        }
        ArenaBody::Create(request) => {
            let uuid = "m".parse().expect("a uuid");
            let module = request.into_module(uuid, 1, Policy::Wait);
            let kept = Module::from_json(module.to_json()).expect("a record can be read");
            assert_eq!(kept, module);
            for opened in [&module.file, "light/status", "/ch/light/data"] {
                if let Some((channel, topic)) = Channel::resolve(&module.channels, opened) {
                    assert!(topic.as_str().starts_with(channel.topic.as_str()));
                    assert!(!topic.as_str().contains(['+', '#']));
                }
            }
        }
        _ => {}
    }
}

/// Whether there are numbers whose last digit the reader of JSON may change.
fn has_floats(value: &Json) -> bool {
    match value {
        Json::Number(number) => number.is_f64(),
        Json::Array(list) => list.iter().any(has_floats),
        Json::Object(map) => map.values().any(has_floats),
        _ => false,
    }
}

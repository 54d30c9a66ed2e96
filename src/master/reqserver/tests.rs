use super::*;
use halite_transport::poll::Source;
use halite_transport::sockets::Dealer;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// A front without a network: received messages and answers are lists.
struct MemoryFront {
    peers: Rc<Peers>,
    /// Holds a byte per waiting message, so that it can be polled.
    waiting: UnixStream,
}

/// The other side of a [`MemoryFront`].
struct Peers {
    asked: RefCell<VecDeque<Received>>,
    answered: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    tell: UnixStream,
}

impl Peers {
    fn send(&self, message: Received) {
        self.asked.borrow_mut().push_back(message);
        (&self.tell).write_all(b"x").unwrap();
    }

    fn ask(&self, from: &str, body: &[u8]) {
        self.send(Received::Request(Incoming {
            from: from.into(),
            peer: "192.0.2.1".into(),
            body: body.to_vec().into(),
        }));
    }

    fn answers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.answered.take()
    }
}

impl RequestFront for MemoryFront {
    fn source(&self) -> Source<'_> {
        Source::fd(self.waiting.as_raw_fd())
    }

    fn receive(&mut self) -> io::Result<Received> {
        let Some(message) = self.peers.asked.borrow_mut().pop_front() else {
            return Ok(Received::Nothing);
        };
        self.waiting.read_exact(&mut [0u8])?;
        Ok(message)
    }

    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()> {
        if from == b"gone" {
            return Err(io::Error::other("the peer is gone"));
        }
        let mut answered = self.peers.answered.borrow_mut();
        answered.push((from.to_vec(), body.to_vec()));
        Ok(())
    }
}

struct Rig {
    server: Server,
    peers: Rc<Peers>,
    worker: Dealer,
    _dir: TempDir,
}

/// A request server with one worker, played by the test.
fn rig() -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    let options = halite_wire::map! {
        "root_dir" => root.as_str(), "sock_dir" => root.as_str(), "worker_threads" => 1,
    };
    let config = MasterConfig::from_map(options, dir.path()).unwrap();
    let context = Context::new();
    let back = bind_workers(&config, &context).unwrap();
    let (tell, waiting) = UnixStream::pair().unwrap();
    let peers = Rc::new(Peers {
        asked: RefCell::default(),
        answered: RefCell::default(),
        tell,
    });
    let front = MemoryFront {
        peers: peers.clone(),
        waiting,
    };
    let server = Server::new(&config, vec![Box::new(front)], back).unwrap();
    let name = server.pools.worker_names().remove(0);
    let path = config.sock_dir.join("workers.ipc");
    let worker = Dealer::connect(&context, &path, &name).unwrap();
    worker
        .try_send(&[b"R".as_slice(), &[0u8, 0, 0, 1]])
        .unwrap();
    Rig {
        server,
        peers,
        worker,
        _dir: dir,
    }
}

impl Rig {
    /// Frames sent to the worker: a sequence number, then peer and body of each request.
    fn given(&mut self) -> Vec<Vec<u8>> {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.server.turn(true).unwrap();
            if let Some(parts) = self.worker.receive().unwrap() {
                return parts;
            }
        }
        panic!("the worker was given nothing");
    }
}

fn job(word: &str) -> Vec<u8> {
    let load = halite_wire::map! {"cmd" => "publish", "word" => word};
    let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
    msgpack::encode_map(&envelope, Profile::Wire)
}

#[test]
fn a_request_goes_to_a_worker_and_its_reply_to_the_one_who_asked() {
    let mut rig = rig();
    for (from, reply) in [("one", "first"), ("two", "second"), ("three", "")] {
        let body = job(from);
        rig.peers.ask(from, &body);
        let given = rig.given();
        assert_eq!(given[1..], [b"\x00192.0.2.1".to_vec(), body]);
        let head = [b"D".as_slice(), &given[0], &[0u8]];
        let replies = vec![reply.as_bytes().to_vec()];
        rig.worker.send_moved(&head, replies.into_iter()).unwrap();
        let end = Instant::now() + LIMIT;
        while rig.server.dispatcher.pending() > 0 {
            assert!(Instant::now() < end, "the reply did not arrive");
            rig.server.turn(true).unwrap();
        }
        // An empty reply is not forwarded.
        let sent = (!reply.is_empty()).then(|| (from.into(), reply.into()));
        let expected: Vec<(Vec<u8>, Vec<u8>)> = sent.into_iter().collect();
        assert_eq!(rig.peers.answers(), expected);
    }
}

#[test]
fn what_is_no_request_is_refused_or_ignored() {
    let mut rig = rig();
    rig.peers.send(Received::Malformed);
    rig.peers.ask("one", b"\xc1");
    rig.peers.ask("gone", b"\xc1");
    rig.server.turn(true).unwrap();
    let refusal = Envelope::parse(b"\xc1").unwrap_err().reply();
    let refusal = msgpack::encode(&refusal, Profile::Wire);
    assert_eq!(rig.peers.answers(), [(b"one".to_vec(), refusal)]);
    assert_eq!((rig.server.ignored, rig.server.undelivered), (1, 1));
    assert_eq!(rig.server.dispatcher.pending(), 0);
}

#[test]
fn a_server_that_ends_takes_nothing_new() {
    let mut rig = rig();
    rig.peers.ask("one", b"\xc1");
    rig.server.turn(false).unwrap();
    assert!(rig.peers.answers().is_empty());
    rig.server.turn(true).unwrap();
    assert_eq!(rig.peers.answers().len(), 1);
}

#[test]
fn one_turn_takes_a_bounded_number() {
    let mut rig = rig();
    for n in 0..BURST + 1 {
        rig.peers.ask(&n.to_string(), b"\xc1");
    }
    rig.server.turn(true).unwrap();
    assert_eq!(rig.peers.answers().len(), BURST);
    rig.server.turn(true).unwrap();
    assert_eq!(rig.peers.answers().len(), 1);
}

/// A request in the clear with this load.
fn clear(load: &[u8]) -> Vec<u8> {
    [&b"\x83\xa3enc\xa5clear\xa7version\x03\xa4load"[..], load].concat()
}

/// Sends a request in the clear; whether it waits for a worker afterwards.
fn is_taken(rig: &mut Rig, load: &[u8]) -> bool {
    let waiting = rig.server.dispatcher.pending();
    rig.peers.ask("one", &clear(load));
    rig.server.turn(true).unwrap();
    let taken = rig.server.dispatcher.pending() > waiting;
    let refusal = msgpack::encode(&Refusal::BadLoad.reply(), Profile::Wire);
    let answers: Vec<Vec<u8>> = rig.peers.answers().into_iter().map(|(_, a)| a).collect();
    assert_eq!(answers.contains(&refusal), !taken, "{answers:?}");
    taken
}

#[test]
fn a_sign_in_cannot_pass_for_something_else() {
    let mut rig = rig();
    assert!(is_taken(&mut rig, b"\x82\xa2id\xa1m\xa3cmd\xa4ping"));
    for load in [
        &b"\x82\xa3cmd\xa4ping\xa3cmd\xa5_auth"[..],
        // The second is an extension, a list hides the second, the first is no text.
        b"\x82\xa3cmd\xa4ping\xc7\x03\x4ecmd\xa5_auth",
        b"\x82\x92\xa3cmd\xa4ping\xc0\xa3cmd\xa5_auth",
        b"\x82\x01\xa4ping\xa3cmd\xa5_auth",
        b"\x82\xa3cmd\xa7publish\xa6kwargs\x82\xa5eauth\xa1x\xa5eauth\xa1y",
    ] {
        assert!(!is_taken(&mut rig, load), "{load:x?}");
    }
    assert_eq!(rig.server.auth_limit.turned_away(), 0);
    // With credentials it is still one.
    let mut class = |load: &[u8]| {
        let body = clear(load);
        let envelope = Envelope::parse(&body).unwrap();
        rig.server.sort(&envelope, body.len()).unwrap().1
    };
    assert_eq!(class(b"\x82\xa3cmd\xa5_auth\xa5eauth\xa1x"), Class::Auth);
    let inside = b"\x82\xa3cmd\xa5_auth\xa6kwargs\x81\xa5eauth\xa1x";
    assert_eq!(class(inside), Class::Auth);
    assert_eq!(class(b"\x82\xa3cmd\xa6runner\xa5eauth\xa1x"), Class::Login);
}

#[test]
fn requests_in_the_clear_are_small() {
    let mut rig = rig();
    let mut taken = |cmd: &str, length: usize| {
        let load = halite_wire::map! {"cmd" => cmd, "id" => "m", "pub" => "x".repeat(length)};
        is_taken(&mut rig, &msgpack::encode_map(&load, Profile::Wire))
    };
    let sign_in = crate::commands::MAX_SIGN_IN;
    // A key and a token of 8192 bits in base64, and grains.
    assert!(taken("_auth", 16 << 10));
    for cmd in ["_auth", "ping", "_return", "no such"] {
        assert!(!taken(cmd, sign_in), "{cmd}");
    }
    assert!(taken("publish", sign_in) && taken("runner", sign_in));
}

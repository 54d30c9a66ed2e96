//! Hostile and broken input against a real master: the answer is Salt's or silence, no process
//! ends, memory stays bounded, and honest minions are served meanwhile.

mod envelopes;
mod events;
mod octets;
mod replays;
mod sign_in;
mod users;

use halite::client::swarm::Swarm;
use halite::client::swarm::session::{MinionKeys, Session, SessionError, SignIn};
use halite::crypto::{PublicKey, Signing};
use halite::map;
use halite::sys::time::unix_now_i64;
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value, zmtp};
use halite_ipc::{Event, Subscriber};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;
use testing::harness::{LIMIT, Master, keys};

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
        Target::start_with("")
    }

    /// With further lines of configuration.
    fn start_with(extra: &str) -> Target {
        let master = Master::start(&format!("worker_threads: 2\n{extra}"));
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
    let mut requester = Requester::new(
        &tcp_url("127.0.0.1", master.ret_port),
        RequesterOptions::default(),
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
    fn call(&self, load: &Map) -> Result<Value, SessionError> {
        let (request, nonce) = self.session.seal(&self.id, &self.keys, load);
        self.session.open(&nonce, &self.target.ask(&request))
    }

    /// A whole load, to be changed by the test before it is sealed.
    fn load(&self, load: Map) -> Map {
        let mut load = load;
        load.set("nonce", NONCE);
        load.set("ts", unix_now_i64());
        load.set("tok", self.keys.token().to_vec());
        load.set("id", self.id.as_str());
        load
    }

    /// Sends a load exactly as it is.
    fn call_raw(&self, load: &Map) -> Result<Value, SessionError> {
        self.session.open(
            NONCE,
            &self.target.ask(&self.session.seal_raw(&self.id, load)),
        )
    }
}

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn sign_in(target: &Target, id: &str, keys: &MinionKeys) -> Result<Session, SessionError> {
    let (sign_in, request) = SignIn::begin(id, keys, None, None);
    sign_in.finish(None, &target.ask(&request))
}

/// Bytes that look random and are the same in every run.
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

fn data(event: &Event) -> Map {
    msgpack::decode(&event.payload).unwrap().into_map().unwrap()
}

fn next_event(events: &mut Subscriber, mut wanted: impl FnMut(&Event) -> bool) -> Event {
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

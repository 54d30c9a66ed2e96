//! Many simulated minions of the description's dialect in a few threads.

use halite::crypto::PublicKey;
use halite::sysinspect::wire::{
    Code, Decoder, Dialect, MAX_FRAME, MachineId, MasterMessage, MessageKind, MinionMessage,
};
use halite::wire::Value;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

const THREADS: usize = 2;
const SEED: Dialect = Dialect::Seed;

/// What all of them have done.
#[derive(Debug, Default)]
pub struct Tally {
    pub joined: AtomicUsize,
    pub pongs: AtomicUsize,
    pub answers: AtomicUsize,
    pub lost: AtomicUsize,
    stop: AtomicBool,
}

impl Tally {
    pub fn joined(&self) -> usize {
        self.joined.load(Ordering::Relaxed)
    }

    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Minions that run until this is dropped.
pub struct Swarm {
    pub tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

/// The id of the `n`-th minion.
pub fn id(n: usize) -> String {
    format!("{n:032x}")
}

impl Swarm {
    /// All register at once.
    pub fn start(port: u16, count: usize) -> Swarm {
        let tally = Arc::new(Tally::default());
        let threads = (0..THREADS).map(|thread| {
            let own: Vec<usize> = (0..count).filter(|n| n % THREADS == thread).collect();
            let tally = tally.clone();
            std::thread::spawn(move || run(port, &own, &tally))
        });
        Swarm {
            threads: threads.collect(),
            tally,
        }
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Minion {
    id: MachineId,
    stream: TcpStream,
    decoder: Decoder,
    open: bool,
}

fn run(port: u16, numbers: &[usize], tally: &Tally) {
    let mut minions: Vec<Minion> = Vec::new();
    for n in numbers {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut minion = Minion {
            id: id(*n).parse().unwrap(),
            stream,
            decoder: Decoder::new(MAX_FRAME),
            open: true,
        };
        minion.say(MessageKind::Add, "", "");
        minions.push(minion);
        // Those that are there already are heard meanwhile.
        if minions.len().is_multiple_of(64) {
            turn(&mut minions, tally, 0);
        }
    }
    while !tally.stop.load(Ordering::Relaxed) {
        turn(&mut minions, tally, 50);
    }
}

fn turn(minions: &mut [Minion], tally: &Tally, millis: u16) {
    let open: Vec<usize> = (0..minions.len()).filter(|at| minions[*at].open).collect();
    let mut fds: Vec<PollFd> = open
        .iter()
        .map(|at| PollFd::new(minions[*at].stream.as_fd(), PollFlags::POLLIN))
        .collect();
    poll(&mut fds, PollTimeout::from(millis)).unwrap();
    let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
    for (at, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
        minions[at].attend(tally);
    }
}

impl Minion {
    fn say(&mut self, kind: MessageKind, data: impl Into<Value>, cycle: &str) {
        let mut message = MinionMessage::new(&self.id, kind, data);
        message.cycle = cycle.to_owned();
        if kind == MessageKind::Rsp {
            message.code = Code::Success;
        }
        let frame = message.to_frame(SEED).unwrap();
        self.open &= self.stream.write_all(&frame).is_ok();
    }

    fn attend(&mut self, tally: &Tally) {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.open = false,
            Ok(count) => self.decoder.push(&buffer[..count]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(_) => self.open = false,
        }
        if !self.open {
            tally.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        while let Some(body) = self.decoder.next_body().unwrap().map(<[u8]>::to_vec) {
            let message = MasterMessage::decode(&body, SEED).unwrap();
            self.answer(&message, tally);
        }
    }

    fn answer(&mut self, message: &MasterMessage, tally: &Tally) {
        match (message.kind, message.code) {
            (MessageKind::Add, Code::Success) => {
                let key = PublicKey::from_pem(message.data.as_str().unwrap()).unwrap();
                let cipher = key.encrypt_pkcs1v15(self.id.as_str().as_bytes()).unwrap();
                self.say(MessageKind::Ehlo, Value::Bytes(cipher), "");
            }
            (MessageKind::Tr, code) => {
                let traits = format!(
                    r#"{{"system.hostname":"sim-{0}","system.id":"{0}"}}"#,
                    self.id
                );
                self.say(MessageKind::Tr, traits, "");
                if code == Code::Success {
                    tally.joined.fetch_add(1, Ordering::Relaxed);
                }
            }
            (MessageKind::Pi, _) => {
                self.say(MessageKind::Po, "", &message.cycle);
                tally.pongs.fetch_add(1, Ordering::Relaxed);
            }
            (MessageKind::Cmd, Code::Undef) => {
                self.say(MessageKind::Rsp, r#""done""#, &message.cycle);
                tally.answers.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

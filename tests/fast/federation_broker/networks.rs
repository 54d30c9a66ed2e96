//! Two NATS networks with federation brokers between them, nodes on one side and a client on the other.

use halite::collective::wire::{Federation, Packet, PacketForm};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use testing::process::Process;
use testing::{NatsClient, NatsServer, halite_program, ports, short_dir, wait_until};

/// Two networks, and brokers between them.
pub struct Networks {
    pub federation: NatsServer,
    pub collective: NatsServer,
    pub brokers: Vec<Broker>,
    pub dir: tempfile::TempDir,
}

/// A broker with the port of its statistics.
pub struct Broker {
    pub process: Process,
    port: u16,
}

impl Broker {
    pub fn stats(&self) -> Option<Json> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        let asked = "GET /stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(asked.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let (_, body) = text.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    pub fn received(&self, side: &str) -> u64 {
        self.stats()
            .map_or(0, |stats| stats[side]["received"].as_u64().unwrap())
    }
}

impl Networks {
    pub fn new(brokers: usize, more: &str) -> Option<Networks> {
        let mut networks = Networks {
            federation: NatsServer::start(&[])?,
            collective: NatsServer::start(&[])?,
            brokers: Vec::new(),
            dir: short_dir(),
        };
        for number in 1..=brokers {
            networks.start(number, more);
        }
        Some(networks)
    }

    pub fn start(&mut self, number: usize, more: &str) {
        let held = ports::Ports::hold(1);
        let port = held.numbers()[0];
        held.release();
        let dir = self.dir.path().join(format!("b{number}"));
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!(
            "cluster: colla\ninstance: a{number}\nfederation_servers: ['{}']\ncollective_servers: ['{}']\n\
             stats_port: {port}\nlog_file: {}\npidfile: {}\n{more}\n",
            self.federation.address(),
            self.collective.address(),
            dir.join("log").display(),
            dir.join("pid").display(),
        );
        std::fs::write(dir.join("federation-broker"), text).unwrap();
        let mut command = Command::new(halite_program("halite-federation-broker"));
        command.arg("-c").arg(&dir).args(["-l", "info"]);
        let mut process =
            Process::start("halite-federation-broker", &mut command, &dir.join("out"));
        wait_until("the broker is there", || {
            process.must_live();
            process.output().contains("connected to both sides")
        });
        let there = self.brokers.len() + 1;
        let names = match more.contains("seed") {
            true => ["federation.network.colla"; 2],
            false => [
                "choria.federation.colla.federation",
                "choria.federation.colla.collective",
            ],
        };
        wait_until("it is in both groups", || {
            self.federation.hearers(names[0]) >= there && self.collective.hearers(names[1]) >= there
        });
        self.brokers.push(Broker { process, port });
    }

    /// Sends requests until each broker has carried one there and one back.
    pub fn warm(&self, client: &mut Client) {
        wait_until("all brokers work", || {
            for _ in 0..20 {
                client.ask();
            }
            while client.hear(Duration::from_millis(20)) {}
            let works = |broker: &Broker| {
                broker.received("federation") > 0 && broker.received("collective") > 0
            };
            self.brokers.iter().all(works)
        });
        client.settle();
    }
}

/// Nodes of the collective: answer everything, with what was asked and their name.
pub fn nodes(server: &NatsServer) -> std::thread::JoinHandle<u64> {
    let mut wire = server.client();
    wire.subscribe("mcollective.node.*", "");
    wire.subscribe("test.end", "");
    std::thread::spawn(move || {
        let mut answered = 0;
        loop {
            let message = wire.next();
            if message.subject == "test.end" {
                return answered;
            }
            let asked = Packet::from_json(&message.payload).unwrap();
            let name = message.subject.rsplit('.').next().unwrap();
            let data = [asked.data.as_slice(), b" ", name.as_bytes()].concat();
            let mut answer = Packet::new(asked.form, data, name);
            answer.federation = asked.federation;
            wire.publish(&asked.reply_to.unwrap(), &answer.to_json());
            answered += 1;
        }
    })
}

/// Requests that may be on their way at once.
pub const WINDOW: usize = 64;
/// When a request is repeated.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where the client hears replies.
pub const REPLY: &str = "mcollective.reply.37bdf08389145a56c13096c178802d3b.1.1";

/// Asks two nodes at a time and repeats what was not answered.
pub struct Client {
    wire: NatsClient,
    pub next: u64,
    /// What is on its way: number of the request, attempt, since when, who has answered.
    open: BTreeMap<u64, (u64, Instant, BTreeSet<String>)>,
    /// Every reply: number, attempt, node.
    pub replies: BTreeSet<(u64, u64, String)>,
    pub repeated: u64,
    pub duplicates: u64,
}

impl Client {
    pub fn new(server: &NatsServer) -> Client {
        let mut wire = server.client();
        wire.subscribe(REPLY, "");
        Client {
            wire,
            next: 0,
            open: BTreeMap::new(),
            replies: BTreeSet::new(),
            repeated: 0,
            duplicates: 0,
        }
    }

    fn send(&mut self, number: u64, attempt: u64) {
        let mut packet = Packet::new(
            PacketForm::ChoriaLines,
            format!("{number} {attempt}").into_bytes(),
            "rip.mcollective",
        );
        packet.reply_to = Some(REPLY.to_owned());
        packet.federation = Some(Federation {
            request: format!("{number:032x}"),
            reply_to: None,
            targets: vec!["mcollective.node.n1".into(), "mcollective.node.n2".into()],
        });
        self.wire
            .publish("choria.federation.colla.federation", &packet.to_json());
    }

    pub fn ask(&mut self) {
        let number = self.next;
        self.next += 1;
        self.open
            .insert(number, (0, Instant::now(), BTreeSet::new()));
        self.send(number, 0);
    }

    /// One reply, if one comes.
    pub fn hear(&mut self, limit: Duration) -> bool {
        let Some(message) = self.wire.within(limit) else {
            return false;
        };
        let packet = Packet::from_json(&message.payload).unwrap();
        assert_eq!(packet.federation, None);
        let text = String::from_utf8(packet.data).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let [number, attempt, node] = words.as_slice() else {
            panic!("{text}");
        };
        let (number, attempt) = (number.parse().unwrap(), attempt.parse().unwrap());
        if !self.replies.insert((number, attempt, (*node).to_owned())) {
            self.duplicates += 1;
        }
        if let Some((current, _, who)) = self.open.get_mut(&number)
            && *current == attempt
        {
            who.insert((*node).to_owned());
            if who.len() == 2 {
                self.open.remove(&number);
            }
        }
        true
    }

    /// Asks again what has not been answered for too long.
    fn repeat(&mut self) {
        let late: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, (_, since, _))| since.elapsed() > PATIENCE)
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            let (attempt, since, who) = self.open.get_mut(&number).unwrap();
            *attempt += 1;
            *since = Instant::now();
            who.clear();
            let attempt = *attempt;
            self.repeated += 1;
            self.send(number, attempt);
        }
    }

    /// Goes on until everything has been answered.
    pub fn settle(&mut self) {
        wait_until("everything is answered", || {
            while self.hear(Duration::from_millis(20)) {}
            self.repeat();
            self.open.is_empty()
        });
    }

    /// Asks that many times; `between` is called after each.
    pub fn stream(&mut self, count: u64, mut between: impl FnMut(u64)) {
        for asked in 0..count {
            while self.open.len() >= WINDOW {
                self.hear(Duration::from_millis(100));
                self.repeat();
            }
            self.ask();
            between(asked);
        }
        self.settle();
    }
}

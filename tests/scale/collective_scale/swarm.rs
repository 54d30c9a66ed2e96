//! Many simulated nodes of a collective on one connection: what they all hear is read once and answered by each whose filter
//! passes; each has a subscription of its own for what it alone is sent.

use halite::collective::broker::{Connector, Heard, Place, To, Unsent, open};
use halite::collective::filter::{Matcher, Semantics};
use halite::collective::ruby::Datum;
use halite::collective::security::Security;
use halite::collective::wire::{
    AgentName, Collective, Form, Identity, Packet, PacketForm, Reply, Request,
};
use halite::map;
use halite::wire::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testing::collective_nodes::{About, Network, now, rpc};

const AGENTS: [&str; 3] = ["discovery", "package", "rpcutil"];
const COUNTRIES: [&str; 4] = ["uk", "de", "fr", "us"];

/// What all of them were asked and have done.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that came by broadcast.
    pub broadcasts: AtomicUsize,
    /// Requests that came to one node.
    pub direct: AtomicUsize,
    /// Answers of discovery.
    pub pongs: AtomicUsize,
    /// Inventories told.
    pub inventories: AtomicUsize,
    /// Other answers.
    pub answers: AtomicUsize,
    /// Messages that were not genuine, or could not be answered.
    pub broken: AtomicUsize,
    /// Connected, with all subscriptions.
    up: AtomicBool,
    stop: AtomicBool,
}

impl Tally {
    /// Whether they are connected.
    pub fn up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

/// Nodes that run until this is dropped.
pub struct Swarm {
    pub tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

/// The identity of the `n`-th node.
pub fn identity(n: usize) -> String {
    format!("sim-{n:05}.example")
}

/// The class of every tenth node.
pub const TENTH: &str = "role::tenth";

impl Swarm {
    /// They connect at once, and are nodes of the collective `mcollective`.
    pub fn start(network: &Network, count: usize) -> Swarm {
        let (says, heard) = crossbeam_channel::unbounded();
        let security = network.security();
        let settings = network.connection("swarm.example");
        let connector = open(&settings, security.caller(), says).expect("settings of a connection");
        let collective: Collective = "mcollective".parse().expect("a collective");
        let nodes: Vec<About> = (0..count).map(node).collect();
        for agent in AGENTS {
            let agent: AgentName = agent.parse().expect("an agent");
            connector.subscribe(&Place::Broadcast(collective.clone(), agent));
        }
        for node in &nodes {
            connector.subscribe(&Place::Node(collective.clone(), node.identity.clone()));
        }
        let places = nodes.iter().enumerate();
        let places = places.map(|(n, node)| (node.identity.clone(), n)).collect();
        let tally = Arc::new(Tally::default());
        let crowd = Crowd {
            nodes,
            places,
            connector,
            security,
            tally: tally.clone(),
        };
        let thread = std::thread::spawn(move || crowd.run(&heard));
        Swarm {
            tally,
            thread: Some(thread),
        }
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the swarm has panicked");
        }
    }
}

/// The node of that number.
fn node(n: usize) -> About {
    let mut classes = vec!["testing::linux".to_owned()];
    if n.is_multiple_of(10) {
        classes.push(TENTH.to_owned());
    }
    let mut facts = map! {
        "fqdn" => identity(n), "country" => COUNTRIES[n % COUNTRIES.len()],
        "ipaddress" => format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255),
        "processorcount" => i64::try_from(n % 16 + 1).unwrap_or(1), "is_virtual" => true,
        "os" => map! {"family" => "Debian", "name" => "Debian", "release" => map! {"full" => "12.4", "major" => "12"}},
    };
    // About as many as the smallest hosts have.
    for k in 0..20 {
        facts.set(format!("fact_{k}"), format!("value {k} of a node"));
    }
    About {
        identity: identity(n).parse().expect("an identity"),
        facts,
        agents: AGENTS.map(str::to_owned).to_vec(),
        classes,
        collectives: vec!["mcollective".to_owned()],
    }
}

fn inventory(node: &About) -> Map {
    map! {
        "facts" => node.facts.clone(), "agents" => node.agents.clone(), "classes" => node.classes.clone(),
        "collectives" => node.collectives.clone(), "main_collective" => "mcollective", "version" => "2.12.5",
        "data_plugins" => vec!["fact_data".to_owned()],
    }
}

struct Crowd {
    nodes: Vec<About>,
    places: HashMap<Identity, usize>,
    connector: Box<dyn Connector>,
    security: Box<dyn Security>,
    tally: Arc<Tally>,
}

impl Crowd {
    fn run(&self, heard: &crossbeam_channel::Receiver<Heard>) {
        while !self.tally.stop.load(Ordering::Relaxed) {
            match heard.recv_timeout(Duration::from_millis(20)) {
                Ok(Heard::Packet(Some(place), packet)) => self.packet(&place, &packet),
                Ok(Heard::Up(_)) => self.tally.up.store(true, Ordering::Relaxed),
                Ok(_) => {}
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn packet(&self, place: &Place, packet: &Packet) {
        let (request, form) = match self.security.open_request(&packet.data) {
            Ok(opened) => opened,
            Err(e) => {
                eprintln!("a request is not listened to: {e}");
                return count(&self.tally.broken);
            }
        };
        let asked: &[About] = match place {
            Place::Node(_, identity) => {
                count(&self.tally.direct);
                let n = self.places.get(identity).copied();
                n.map_or(&[], |n| std::slice::from_ref(&self.nodes[n]))
            }
            _ => {
                count(&self.tally.broadcasts);
                &self.nodes
            }
        };
        let matcher = Matcher::new(&request.filter, Semantics::of(form)).expect("a filter");
        for node in asked {
            if node.passes(&matcher) {
                self.answer(node, &request, form, packet);
            }
        }
    }

    fn answer(&self, node: &About, request: &Request, form: Form, packet: &Packet) {
        let action = request.body.get("action").and_then(Datum::as_str);
        let (body, tally) = match (request.agent.as_str(), action) {
            ("discovery", _) => ("pong".into(), &self.tally.pongs),
            ("rpcutil", Some("inventory")) => {
                (rpc(0, "OK", inventory(node)), &self.tally.inventories)
            }
            ("rpcutil", Some("ping")) => {
                (rpc(0, "OK", map! {"pong" => now()}), &self.tally.answers)
            }
            ("package", Some("status")) => {
                let inputs = request.body.get("data").map(Datum::to_value);
                let inputs = inputs.and_then(Value::into_map).unwrap_or_default();
                let name = inputs.str("name").unwrap_or_default();
                let data = map! {"name" => name, "ensure" => "5.2.15-2", "status" => "installed"};
                (rpc(0, "OK", data), &self.tally.answers)
            }
            _ => (rpc(2, "unknown action", Map::new()), &self.tally.broken),
        };
        count(tally);
        let reply = Reply {
            body,
            sender: node.identity.clone(),
            id: request.id.clone(),
            agent: request.agent.clone(),
            time: now(),
        };
        let data = self.security.seal_reply(&reply, form, &request.caller);
        let answer = Packet {
            form: match form {
                Form::Choria2 { .. } => PacketForm::Choria,
                _ => PacketForm::Plain,
            },
            data: data.expect("a reply can be sealed"),
            sender: Some(node.identity.to_string()),
            reply_to: None,
            federation: packet.federation.clone(),
            seen_by: None,
        };
        let to = To::Reply(packet.reply_to.clone().expect("a place for the answer"));
        // The broker takes them slower than they are made.
        while let Err(e) = self.connector.publish(&to, answer.clone(), false, 60) {
            assert_eq!(e, Unsent::Full);
            if self.tally.stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn count(tally: &AtomicUsize) {
    tally.fetch_add(1, Ordering::Relaxed);
}

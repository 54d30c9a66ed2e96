//! Connectors of the collective, as tests use them.

use super::{LONG, NatsServer, wait_until};
use crossbeam_channel::Receiver;
use halite::collective::broker::{Connector, Heard, Place, To};
use halite::collective::wire::{Collective, Packet, PacketForm};
use halite::config::{CollectiveGateway, MasterConfig};
use halite::wire::{Map, Value};
use std::path::Path;

/// Who asks.
pub const CALLER: &str = "choria=rip.mcollective";

/// Settings of a gateway with more than the servers.
pub fn settings(servers: &[String], more: Map) -> CollectiveGateway {
    let servers: Vec<Value> = servers.iter().map(|s| Value::from(s.as_str())).collect();
    let mut collective = halite::map! {
        "servers" => servers, "identity" => "rip.mcollective",
        "ca" => "/ca", "certificate" => "/certificate", "key" => "/key",
    };
    for (name, value) in more.iter() {
        collective.0.push((name.clone(), value.clone()));
    }
    let options = halite::map! {"gateways" => halite::map! {"collective" => collective}};
    let config = MasterConfig::from_map(options, Path::new("/nonexistent")).unwrap();
    config.collective_gateway().unwrap()
}

/// A connector with its queue.
pub struct Peer {
    /// It.
    pub connector: Box<dyn Connector>,
    /// What it hears.
    pub heard: Receiver<Heard>,
}

impl Peer {
    /// Opens one with a queue of so many places.
    pub fn open(settings: &CollectiveGateway, room: usize) -> Peer {
        let (to, heard) = crossbeam_channel::bounded(room);
        let connector =
            halite::collective::broker::open(settings, &CALLER.parse().unwrap(), to).unwrap();
        Peer { connector, heard }
    }

    /// Opens one at a NATS server.
    pub fn at(server: &NatsServer) -> Peer {
        Peer::open(&settings(&[server.address()], Map::new()), 1000)
    }

    /// The next word.
    pub fn next(&self) -> Heard {
        self.heard.recv_timeout(LONG).expect("something is heard")
    }

    /// The server that there is a connection to, which comes next.
    pub fn up(&self) -> String {
        match self.next() {
            Heard::Up(server) => server,
            other => panic!("{other:?} instead of a connection"),
        }
    }

    /// Why there is no connection, which comes next.
    pub fn down(&self) -> String {
        match self.next() {
            Heard::Down(why) => why,
            other => panic!("{other:?} instead of no connection"),
        }
    }

    /// The packet that comes next.
    pub fn packet(&self) -> (Option<Place>, Packet) {
        match self.next() {
            Heard::Packet(place, packet) => (place, packet),
            other => panic!("{other:?} instead of a packet"),
        }
    }

    /// Returns once the server knows of the subscription to this subject.
    pub fn hears(&self, server: &NatsServer, subject: &str) {
        wait_until("the subscription", || server.hearers(subject) > 0);
    }
}

/// The collective of all tests.
pub fn main_collective() -> Collective {
    "mcollective".parse().unwrap()
}

/// What a node hears.
pub fn node(name: &str) -> Place {
    Place::Node(main_collective(), name.parse().unwrap())
}

/// What all nodes hear.
pub fn discovery() -> Place {
    Place::Broadcast(main_collective(), "discovery".parse().unwrap())
}

/// The same, to send there.
pub fn to(place: &Place) -> To {
    match place.clone() {
        Place::Broadcast(collective, agent) => To::Broadcast(collective, agent),
        Place::Node(collective, node) => To::Nodes(collective, vec![node]),
        Place::Replies(_) => panic!("requests do not go there"),
    }
}

/// A packet with this text.
pub fn packet(text: &str) -> Packet {
    Packet::new(PacketForm::Choria, text.into(), "rip.mcollective")
}

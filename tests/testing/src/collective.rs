//! Connectors of a collective, for tests.

use super::{LONG, NatsServer, wait_until};
use crossbeam_channel::Receiver;
use halite::collective::broker::{Connector, Heard, Place, To};
use halite::collective::wire::{Collective, Packet, PacketForm};
use halite::config::{CollectiveGateway, MasterConfig};
use halite::wire::{Map, Value};
use std::path::Path;

/// The caller of requests.
pub const CALLER: &str = "choria=rip.mcollective";

/// Settings of a gateway: servers and further ones.
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
    /// The connector.
    pub connector: Box<dyn Connector>,
    /// What it receives.
    pub heard: Receiver<Heard>,
}

impl Peer {
    /// Opens a connector with a queue of `room` places.
    pub fn open(settings: &CollectiveGateway, room: usize) -> Peer {
        let (to, heard) = crossbeam_channel::bounded(room);
        let connector =
            halite::collective::broker::open(settings, &CALLER.parse().unwrap(), to).unwrap();
        Peer { connector, heard }
    }

    /// Opens a connector at a NATS server.
    pub fn at(server: &NatsServer) -> Peer {
        Peer::open(&settings(&[server.address()], Map::new()), 1000)
    }

    /// The next event.
    pub fn next(&self) -> Heard {
        self.heard.recv_timeout(LONG).expect("something is heard")
    }

    /// The next event, which must be a connection: its server.
    pub fn up(&self) -> String {
        match self.next() {
            Heard::Up(server) => server,
            other => panic!("{other:?} instead of a connection"),
        }
    }

    /// The next event, which must be the loss of the connection: its reason.
    pub fn down(&self) -> String {
        match self.next() {
            Heard::Down(why) => why,
            other => panic!("{other:?} instead of no connection"),
        }
    }

    /// The next event, which must be a packet.
    pub fn packet(&self) -> (Option<Place>, Packet) {
        match self.next() {
            Heard::Packet(place, packet) => (place, packet),
            other => panic!("{other:?} instead of a packet"),
        }
    }

    /// Waits until the server has the subscription to this subject.
    pub fn hears(&self, server: &NatsServer, subject: &str) {
        wait_until("the subscription", || server.hearers(subject) > 0);
    }
}

/// The collective of all tests.
pub fn main_collective() -> Collective {
    "mcollective".parse().unwrap()
}

/// The place of requests to one node.
pub fn node(name: &str) -> Place {
    Place::Node(main_collective(), name.parse().unwrap())
}

/// The place of requests to all nodes.
pub fn discovery() -> Place {
    Place::Broadcast(main_collective(), "discovery".parse().unwrap())
}

/// The same as a destination.
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

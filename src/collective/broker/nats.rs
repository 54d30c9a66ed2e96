//! The connector for NATS, as used by Choria (reference, sections 15 to 17).

use super::link::{Link, LinkEvent, LinkOptions, Listener, Outgoing};
use super::{Connector, Heard, Place, To, Unsent, held, next_sequence};
use crate::wire::subjects::{Bus, Names};
use crate::wire::{CallerId, Collective, Federation, Identity, MOST_HOPS, Packet, Route};
use crossbeam_channel::Sender;
use halite_config::{CollectiveGateway, Plugin};
use halite_transport::bounded::{self, BoundedTx};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most subjects in one message to a federation broker, as in clients (reference, section 16).
const TARGETS: usize = 200;

/// A connection to NATS.
pub(super) struct Nats {
    link: Link,
    sink: Arc<BoundedTx<Heard>>,
    names: Arc<Names>,
    identity: Identity,
    federations: Vec<String>,
}

impl Nats {
    pub(super) fn open(
        settings: &CollectiveGateway,
        caller: &CallerId,
        heard: Sender<Heard>,
    ) -> io::Result<Nats> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidInput, e);
        let identity: Identity = settings.identity.parse().map_err(invalid)?;
        let names = Arc::new(Names::new(
            Bus::Nats,
            &identity,
            caller,
            settings.plugin != Plugin::Choria,
            std::process::id(),
            next_sequence(),
        ));
        let sink = Arc::new(BoundedTx::new(heard, bounded::MAX_BYTES));
        let link = Link::open(
            LinkOptions::from(settings),
            listener(sink.clone(), names.clone(), identity.clone()),
        )?;
        Ok(Nats {
            link,
            sink,
            names,
            identity,
            federations: settings.federations.clone(),
        })
    }

    /// One packet for all targets, or with federations one per federation and 200 targets.
    fn request(
        &self,
        collective: &Collective,
        targets: Vec<String>,
        mut packet: Packet,
        keep: Duration,
    ) -> Result<(), Unsent> {
        let reply_to = self.names.replies(collective);
        packet.reply_to = Some(reply_to.clone());
        let out = |subjects, packet: &Packet| Outgoing {
            subjects,
            reply: Some(reply_to.clone()),
            payload: packet.to_json(),
            keep,
        };
        if self.federations.is_empty() {
            return self.link.publish(vec![out(targets, &packet)]);
        }
        let request = match packet.federation.take() {
            Some(given) => given.request,
            None => halite_crypto::random_hex(16),
        };
        let mut items = Vec::new();
        for part in targets.chunks(TARGETS) {
            packet.federation = Some(Federation {
                request: request.clone(),
                reply_to: None,
                targets: part.to_vec(),
            });
            let subject = |name: &String| format!("choria.federation.{name}.federation");
            let subjects = self.federations.iter().map(subject).collect();
            items.push(out(subjects, &packet));
        }
        self.link.publish(items)
    }
}

fn listener(sink: Arc<BoundedTx<Heard>>, names: Arc<Names>, identity: Identity) -> Listener {
    let server = Mutex::new(String::new());
    Arc::new(move |told| match told {
        LinkEvent::Message(subject, payload) => match Packet::from_json(payload) {
            Ok(mut packet) => {
                let place = names.place(subject);
                if let Some(route) = &mut packet.seen_by {
                    let here = match &place {
                        Some(Place::Node(_, node)) => node,
                        _ => &identity,
                    };
                    let server = held(&server);
                    arrived(route, &server, here.as_str());
                }
                sink.put(Heard::Packet(place, packet));
            }
            Err(refused) => sink.put(Heard::Refused(refused)),
        },
        LinkEvent::Up(name) => {
            name.clone_into(&mut held(&server));
            sink.state(Heard::Up(name.to_owned()));
        }
        LinkEvent::Down(why) => sink.state(Heard::Down(why.to_owned())),
        LinkEvent::Tick => sink.tick(),
    })
}

/// Records in the route that a message arrived from a broker.
fn arrived(route: &mut Route, server: &str, here: &str) {
    if route.len() < MOST_HOPS {
        route.push(vec![server.to_owned(), here.to_owned()]);
    }
}

/// Records in the route that a message goes to a broker: for a reply after the hop of its request, for a request as the
/// first hop.
fn leaves(route: &mut Route, server: &str, here: &str) {
    match route.last_mut() {
        None => route.push(vec![here.to_owned(), server.to_owned()]),
        Some(last) => {
            if let [_, name] = last.as_mut_slice() {
                here.clone_into(name);
                last.push(server.to_owned());
            }
        }
    }
}

impl Connector for Nats {
    fn subscribe(&self, place: &Place) {
        self.link.subscribe(&self.names.of(place), None);
    }

    fn unsubscribe(&self, place: &Place) {
        self.link.unsubscribe(&self.names.of(place));
    }

    fn publish(&self, to: &To, mut packet: Packet, request: bool, ttl: u32) -> Result<(), Unsent> {
        if let Some(route) = &mut packet.seen_by {
            let here = packet.sender.as_deref().unwrap_or(self.identity.as_str());
            leaves(route, &self.link.server(), here);
        }
        let keep = Duration::from_secs(ttl.into());
        let (collective, targets) = match to {
            To::Broadcast(collective, agent) => {
                let subject = Bus::Nats.broadcast(collective, agent);
                (collective, vec![subject])
            }
            To::Nodes(collective, nodes) => {
                let subjects = nodes.iter().map(|node| Bus::Nats.node(collective, node));
                (collective, subjects.collect())
            }
            To::Reply(subject) => {
                if !Bus::Nats.may_answer(subject, packet.federation.is_some()) {
                    return Err(Unsent::Forbidden);
                }
                let item = Outgoing {
                    subjects: vec![subject.clone()],
                    reply: None,
                    payload: packet.to_json(),
                    keep,
                };
                return self.link.publish(vec![item]);
            }
        };
        if request {
            return self.request(collective, targets, packet, keep);
        }
        let item = Outgoing {
            subjects: targets,
            reply: None,
            payload: packet.to_json(),
            keep,
        };
        self.link.publish(vec![item])
    }

    fn dropped(&self) -> u64 {
        self.sink.dropped() + self.link.figures().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_noted_as_in_the_capture() {
        let hop = |names: &[&str]| names.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let mut route = Route::new();
        leaves(&mut route, "nats://a", "rip.mcollective");
        assert_eq!(route, [hop(&["rip.mcollective", "nats://a"])]);
        route.push(hop(&["nats://a", "colla:a1", "nats://b"]));
        arrived(&mut route, "nats://b", "node1.example");
        assert_eq!(route[2], hop(&["nats://b", "node1.example"]));
        leaves(&mut route, "nats://c", "node1.example");
        assert_eq!(route[2], hop(&["nats://b", "node1.example", "nats://c"]));
        assert_eq!(route.len(), 3);
        let mut full = vec![hop(&["x"]); MOST_HOPS];
        arrived(&mut full, "a", "b");
        assert_eq!(full.len(), MOST_HOPS);
    }
}

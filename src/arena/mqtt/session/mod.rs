//! The client's side of MQTT 5 on one connection, without sockets and clocks: what may be sent, and what an
//! acknowledgement completes.
//!
//! A publication is kept until its last acknowledgement. The broker forgets it all when the connection breaks (clean
//! start), and some brokers forward QoS 2 messages only at the end; so unacknowledged publications are sent again on
//! the next connection. Thus a broken connection can duplicate a message, but never loses one.

use super::lanes::{Lane, Waiting};
use super::packets::{AckKind, Frame, reason_text, subscribe_error, text};
use super::{Incoming, Qos};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{
    Filter, Packet, PubAck, PubComp, PubRec, PubRel, Publish, Subscribe, Unsubscribe,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Publications in flight at once, if the broker allows more.
const WINDOW: u16 = 1000;
/// Their size in bytes; twice as many including urgent ones.
const WINDOW_BYTES: usize = 16 << 20;
/// One in this many places of the window is reserved for urgent publications.
const RESERVED: usize = 8;
/// Filters per packet.
const FILTERS: usize = 100;
/// Their size in bytes.
const FILTERS_BYTES: usize = 8 << 10;
/// Packets with filters that may be in flight.
pub(super) const ASKED: usize = 64;

/// What the broker supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Publications without their last acknowledgement (receive maximum).
    pub(super) flying: u16,
    /// The highest quality of service.
    pub(super) qos: Qos,
}

/// What follows from a frame.
#[derive(Debug, Default)]
pub(super) struct FrameResult {
    /// The packet to answer with.
    pub(super) answer: Option<Packet>,
    /// A message for the listener.
    pub(super) message: Option<Incoming>,
    /// Filters that the broker rejected, with the reason.
    pub(super) denied: Vec<(String, &'static str)>,
    /// A publication that the broker rejected, with the reason.
    pub(super) refused: Option<(Publish, &'static str)>,
}

struct Flight {
    number: u64,
    waiting: Waiting,
    /// Whether the broker has received it (QoS 2).
    received: bool,
}

/// The state of a connection.
pub(super) struct Session {
    limits: Limits,
    last_id: u16,
    last_number: u64,
    flying: HashMap<u16, Flight>,
    /// Bytes in flight.
    bytes: usize,
    /// Filters that the broker was asked to change, by packet id.
    asked: HashMap<u16, Vec<String>>,
    /// Subscriptions that the broker has, and whether without our own messages.
    known: HashMap<String, bool>,
    /// Ids of QoS 2 messages that the broker has not released yet.
    taken: HashSet<u16>,
}

impl Session {
    pub(super) fn new(limits: Limits) -> Session {
        Session {
            limits,
            last_id: 0,
            last_number: 0,
            flying: HashMap::new(),
            bytes: 0,
            asked: HashMap::new(),
            known: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// Whether another publication of this lane may be sent now.
    pub(super) fn has_room(&self, lane: Lane) -> bool {
        let most = usize::from(self.limits.flying.min(WINDOW));
        let (most, bytes) = match lane {
            Lane::First => (most, 2 * WINDOW_BYTES),
            Lane::Rest => (most - most / RESERVED, WINDOW_BYTES),
        };
        self.flying.len() < most && self.bytes < bytes
    }

    /// Whether another packet with filters may be sent now.
    pub(super) fn may_ask(&self) -> bool {
        self.asked.len() < ASKED
    }

    /// Publications in flight.
    pub(super) fn flying(&self) -> usize {
        self.flying.len()
    }

    /// Packets with filters in flight.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// An unused packet id. There are far more than may be in flight.
    fn id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            let id = self.last_id;
            if !self.flying.contains_key(&id) && !self.asked.contains_key(&id) {
                return id;
            }
        }
    }

    /// Sends a publication, with its quality of service or the broker's highest.
    pub(super) fn publish(&mut self, mut waiting: Waiting) -> Packet {
        let publish = &mut waiting.publish;
        let most = to_client_qos(self.limits.qos);
        if publish.qos > most {
            publish.qos = most;
        }
        if publish.qos == QoS::AtMostOnce {
            return Packet::Publish(waiting.publish);
        }
        publish.pkid = self.id();
        self.last_number += 1;
        self.bytes += publish.payload.len();
        let (id, packet) = (publish.pkid, Packet::Publish(publish.clone()));
        let flight = Flight {
            number: self.last_number,
            waiting,
            received: false,
        };
        self.flying.insert(id, flight);
        packet
    }

    /// Publications that were not fully acknowledged, in the order in which they were sent.
    pub(super) fn unacknowledged(self) -> Vec<Waiting> {
        let by_number = self.flying.into_values().map(|f| (f.number, f.waiting));
        let ordered: BTreeMap<u64, Waiting> = by_number.collect();
        ordered.into_values().collect()
    }

    /// Asks the broker to change these filters: whether without our own messages, or `None` to unsubscribe.
    pub(super) fn change_filters(&mut self, changes: Vec<(String, Option<bool>)>) -> Vec<Packet> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for (filter, want) in changes {
            match want {
                Some(no_local) => match self.known.insert(filter.clone(), no_local) {
                    Some(before) if before == no_local => {}
                    before => {
                        if before.is_some() {
                            // Mosquitto does not change the options of an existing subscription.
                            unwanted.push((filter.clone(), false));
                        }
                        wanted.push((filter, no_local));
                    }
                },
                None => {
                    if self.known.remove(&filter).is_some() {
                        unwanted.push((filter, false));
                    }
                }
            }
        }
        let mut packets = Vec::new();
        for part in split_filters(unwanted) {
            let filters: Vec<String> = part.into_iter().map(|(filter, _)| filter).collect();
            let pkid = self.id();
            self.asked.insert(pkid, Vec::new());
            packets.push(Packet::Unsubscribe(Unsubscribe {
                pkid,
                filters,
                properties: None,
            }));
        }
        for part in split_filters(wanted) {
            let pkid = self.id();
            let names = part.iter().map(|(filter, _)| filter.clone());
            self.asked.insert(pkid, names.collect());
            let filters = part.into_iter().map(|(path, nolocal)| Filter {
                path,
                qos: QoS::ExactlyOnce,
                nolocal,
                ..Filter::default()
            });
            packets.push(Packet::Subscribe(Subscribe {
                pkid,
                filters: filters.collect(),
                properties: None,
            }));
        }
        packets
    }

    /// Handles a packet from the broker.
    ///
    /// # Errors
    /// The broker closes the connection, or violates the protocol.
    pub(super) fn handle_frame(&mut self, frame: Frame) -> Result<FrameResult, String> {
        match frame {
            Frame::Ack(step, id, refused) => self.acknowledged(step, id, refused),
            Frame::Refused(why) | Frame::Goodbye(why) => Err(why),
            Frame::Packet(packet) => self.packet(*packet),
        }
    }

    fn packet(&mut self, packet: Packet) -> Result<FrameResult, String> {
        match packet {
            Packet::Publish(publish) => self.incoming(publish),
            Packet::PubRel(release) => {
                self.taken.remove(&release.pkid);
                Ok(FrameResult {
                    answer: Some(Packet::PubComp(PubComp::new(release.pkid, None))),
                    ..FrameResult::default()
                })
            }
            Packet::SubAck(ack) => {
                let Some(filters) = self.asked.remove(&ack.pkid) else {
                    return Err(unexpected_ack("SUBACK", ack.pkid));
                };
                let answers = filters.into_iter().zip(ack.return_codes);
                let denied = answers
                    .filter_map(|(filter, code)| Some((filter, subscribe_error(code)?)))
                    .collect();
                Ok(FrameResult {
                    denied,
                    ..FrameResult::default()
                })
            }
            Packet::UnsubAck(ack) => match self.asked.remove(&ack.pkid) {
                Some(_) => Ok(FrameResult::default()),
                None => Err(unexpected_ack("UNSUBACK", ack.pkid)),
            },
            Packet::PingResp(_) => Ok(FrameResult::default()),
            _ => Err("it sent a packet that clients never get".to_owned()),
        }
    }

    fn acknowledged(
        &mut self,
        step: AckKind,
        id: u16,
        refused: Option<u8>,
    ) -> Result<FrameResult, String> {
        let Some(flight) = self.flying.get_mut(&id) else {
            return Err(unexpected_ack("acknowledgement", id));
        };
        let fits = match step {
            AckKind::There => flight.waiting.publish.qos == QoS::AtLeastOnce,
            AckKind::Received => flight.waiting.publish.qos == QoS::ExactlyOnce,
            AckKind::Complete => flight.received,
        };
        if !fits {
            return Err(unexpected_ack("acknowledgement", id));
        }
        if step == AckKind::Received && refused.is_none() {
            flight.received = true;
            return Ok(FrameResult {
                answer: Some(Packet::PubRel(PubRel::new(id, None))),
                ..FrameResult::default()
            });
        }
        let flight = self.flying.remove(&id);
        if let Some(flight) = &flight {
            self.bytes -= flight.waiting.publish.payload.len();
        }
        // A PUBCOMP that says the id is unknown is no rejection: the broker has received the publication.
        let refused = refused.filter(|_| step != AckKind::Complete);
        let refused = flight.zip(refused);
        Ok(FrameResult {
            refused: refused.map(|(flight, code)| (flight.waiting.publish, reason_text(code))),
            ..FrameResult::default()
        })
    }

    fn incoming(&mut self, publish: Publish) -> Result<FrameResult, String> {
        let id = publish.pkid;
        let (new, answer) = match publish.qos {
            QoS::AtMostOnce => (true, None),
            QoS::AtLeastOnce => (true, Some(Packet::PubAck(PubAck::new(id, None)))),
            QoS::ExactlyOnce => {
                let new = self.taken.insert(id);
                (new, Some(Packet::PubRec(PubRec::new(id, None))))
            }
        };
        let message = Incoming {
            topic: text(&publish.topic)?,
            payload: publish.payload,
            retained: publish.retain,
            properties: publish
                .properties
                .map_or_else(Vec::new, |p| p.user_properties),
        };
        Ok(FrameResult {
            answer,
            message: new.then_some(message),
            ..FrameResult::default()
        })
    }
}

/// The quality of service in the client library's type.
pub(super) fn to_client_qos(qos: Qos) -> QoS {
    match qos {
        Qos::Zero => QoS::AtMostOnce,
        Qos::One => QoS::AtLeastOnce,
        Qos::Two => QoS::ExactlyOnce,
    }
}

fn unexpected_ack(what: &str, id: u16) -> String {
    format!("it violates MQTT 5: {what} {id}, which was never requested")
}

/// Splits filters into lists that fit into one packet.
fn split_filters(filters: Vec<(String, bool)>) -> Vec<Vec<(String, bool)>> {
    let mut parts: Vec<Vec<(String, bool)>> = Vec::new();
    let mut bytes = 0;
    for one in filters {
        let size = one.0.len() + 3;
        match parts.last_mut() {
            Some(part) if part.len() < FILTERS && bytes + size <= FILTERS_BYTES => {
                bytes += size;
                part.push(one);
            }
            _ => {
                bytes = size;
                parts.push(vec![one]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests;

//! The gateway in its loop: passes messages of the connector, jobs and the time to the two halves, and carries out what
//! they decide.
//!
//! Replies go to `outward`. Requests go to `inward`, except registrations, from which `outward` learns that a node is
//! alive. Messages that are not genuine are counted by reason and go no further.

use super::act::{Act, Clock};
use super::echoes::Echoes;
use super::inward::{self, Inward, workers::Workers};
use super::outward::{Failed, Outward, REGISTRATION};
use super::secure::RefusedCounters;
use crate::broker::{Connector, Heard, Place, To, Unsent};
use crate::security::{Security, check_age};
use crate::wire::{Form, Packet, PacketForm, Refused, Request};
use crossbeam_channel::{Receiver, Select, TryRecvError};
use halite_config::CollectiveGateway;
use halite_gateway::frame::{BATCH, Protocol, thread_ended};
use halite_gateway::master_events::{MasterEvent, MasterEvents};
use halite_gateway::writer::WriteQueue;
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// What the loop is connected to.
pub(super) struct Links {
    /// The broker.
    pub connector: Box<dyn Connector>,
    /// Messages of the broker.
    pub heard: Receiver<Heard>,
    /// Returns, grains and events to write.
    pub writer: WriteQueue,
    /// Seals and opens messages.
    pub security: Box<dyn Security>,
}

/// The inward half with its workers.
pub(super) struct Inner<'scope> {
    /// What decides.
    pub half: Inward,
    /// The threads that use disks, bus and master.
    pub workers: Workers<'scope>,
    /// Their results.
    pub news: Receiver<inward::News>,
}

/// The gateway at work.
pub(super) struct Server<'scope> {
    settings: CollectiveGateway,
    links: Links,
    outward: Option<Outward>,
    inward: Option<Inner<'scope>>,
    /// An answer for which the connector had no room.
    held: Option<inward::OutgoingReply>,
    echoes: Echoes,
    refused: RefusedCounters,
    warned: u64,
    unsent: u64,
    up: bool,
}

impl Protocol for Server<'_> {
    fn wait(&mut self, events: &MasterEvents, limit: Duration) -> Result<(), ExitError> {
        let mut select = Select::new();
        select.recv(&self.links.heard);
        select.recv(events.receiver());
        if let Some(inner) = &self.inward {
            select.recv(&inner.news);
        }
        // Only a timeout is an error here.
        let _ = select.ready_timeout(limit);
        Ok(())
    }

    fn receive(&mut self) -> Result<bool, ExitError> {
        for _ in 0..BATCH {
            match self.links.heard.try_recv() {
                Ok(item) => self.handle(item),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(thread_ended()),
            }
        }
        for _ in 0..BATCH {
            let Some(inner) = &mut self.inward else { break };
            match inner.news.try_recv() {
                Ok(news) => {
                    let acts = inner.half.handle_news(news);
                    self.perform_inward(acts);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(thread_ended()),
            }
        }
        Ok(self.answers())
    }

    fn master_event(&mut self, event: MasterEvent, now: Clock) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        let acts = match event {
            MasterEvent::Job(order) => outward.order(&order, now),
            MasterEvent::Key { id, deleted } => outward.key(&id, deleted, now),
        };
        self.perform(acts);
    }

    fn tick(&mut self, now: Clock) {
        if let Some(outward) = &mut self.outward {
            let acts = outward.tick(now);
            self.perform(acts);
        }
        if let Some(inner) = &mut self.inward {
            let acts = inner.half.tick(now);
            self.perform_inward(acts);
        }
    }

    fn counters(&self) -> Map {
        let mut out = halite_wire::map! {
            "up" => i64::from(self.up), "unsent" => self.unsent, "dropped" => self.links.connector.dropped(),
        };
        let refused: Map = self.refused.seen().into_iter().collect();
        out.set("refused", refused);
        if let Some(outward) = &self.outward {
            out.0.extend(outward.counters().0);
        }
        if let Some(inner) = &self.inward {
            out.0.extend(inner.half.counters().0);
        }
        out
    }

    fn presence_changed(&mut self) -> bool {
        self.outward.as_mut().is_some_and(Outward::changed)
    }

    fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        self.outward
            .as_ref()
            .map(Outward::connected)
            .unwrap_or_default()
    }

    fn alive(&self) -> bool {
        self.inward
            .as_ref()
            .is_none_or(|inner| inner.workers.alive())
    }
}

impl<'scope> Server<'scope> {
    /// The gateway with its halves, which subscribes to what they need.
    pub fn new(
        settings: &CollectiveGateway,
        links: Links,
        outward: Option<Outward>,
        inward: Option<Inner<'scope>>,
    ) -> Server<'scope> {
        let server = Server {
            settings: settings.clone(),
            links,
            outward,
            inward,
            held: None,
            echoes: Echoes::default(),
            refused: RefusedCounters::default(),
            warned: 0,
            unsent: 0,
            up: false,
        };
        let outward = server.outward.as_ref().map(Outward::places);
        let inward = server.inward.as_ref().map(|inner| inner.half.places());
        for place in outward.into_iter().chain(inward).flatten() {
            server.links.connector.subscribe(&place);
        }
        server
    }

    fn handle(&mut self, heard: Heard) {
        let now = Clock::now();
        match heard {
            Heard::Up(server) => {
                log::info!("the collective is reached through {server}");
                self.up = true;
                let acts = self.outward.as_mut().map(|half| half.up(now));
                self.perform(acts.unwrap_or_default());
            }
            Heard::Down(why) => {
                log::warn!("the collective cannot be reached: {why}; trying again");
                self.up = false;
                if let Some(outward) = &mut self.outward {
                    outward.down(&why);
                }
            }
            Heard::Refused(why) => self.refuse("somebody", None, &why),
            Heard::Packet(place, packet) => self.packet(place.as_ref(), &packet, now),
        }
    }

    fn packet(&mut self, place: Option<&Place>, packet: &Packet, now: Clock) {
        let sender = packet.sender.as_deref().unwrap_or("somebody");
        // Only requests name a reply address; queues of STOMP do not always say where a message came in.
        let reply = match place {
            Some(Place::Replies(_)) => true,
            Some(_) => false,
            None => packet.reply_to.is_none(),
        };
        if reply {
            match self.links.security.open_reply(&packet.data) {
                Ok(reply) => {
                    let acts = self.outward.as_mut().map(|half| half.reply(reply, now));
                    self.perform(acts.unwrap_or_default());
                }
                Err(why) => self.refuse(sender, None, &why),
            }
            return;
        }
        // The gateway receives its own discovery, too; its minions are minions already.
        if self.echoes.contains(&packet.data) {
            return;
        }
        match self.links.security.open_request(&packet.data) {
            Ok((request, form)) => self.request(place, &request, form, packet, now),
            Err(why) => self.refuse(sender, place, &why),
        }
    }

    fn request(
        &mut self,
        place: Option<&Place>,
        request: &Request,
        form: Form,
        packet: &Packet,
        now: Clock,
    ) {
        if request.agent.as_str() == REGISTRATION {
            // It could be a replay.
            if let Err(why) = check_age(request.time, request.ttl, now.unix) {
                return self.refuse(request.sender.as_str(), None, &why);
            }
            let acts = self
                .outward
                .as_mut()
                .map(|half| half.registration(request, now));
            return self.perform(acts.unwrap_or_default());
        }
        let Some(inner) = &mut self.inward else {
            return;
        };
        match inner.half.handle_request(place, request, form, packet, now) {
            Ok(acts) => self.perform_inward(acts),
            Err(why) => self.refuse(request.sender.as_str(), None, &why),
        }
    }

    /// Counts a refused message. With its place, the nodes that would have received it count it as well.
    fn refuse(&mut self, sender: &str, place: Option<&Place>, why: &Refused) {
        self.refused.count(why);
        // On a queue shared by clients, most replies are for others.
        if *why == Refused::NotForUs {
            return;
        }
        if let Some(inner) = &mut self.inward
            && place.is_some()
        {
            inner.half.refused(place, why);
        }
        self.warned += 1;
        // A flood makes a few lines, not a million.
        if self.warned.is_power_of_two() {
            log::warn!(
                "a message of {} is refused: {why}; {} refused so far",
                excerpt(sender, 80),
                self.warned
            );
        } else {
            log::debug!("a message of {} is refused: {why}", excerpt(sender, 80));
        }
    }

    /// Carries out what outward has decided, then what follows from it.
    fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Ask(to, request) => acts.extend(self.ask(&to, &request)),
                Act::Write(task) => self.links.writer.push(task),
            }
        }
    }

    /// Carries out what inward has decided.
    fn perform_inward(&mut self, acts: Vec<inward::Act>) {
        let Some(inner) = &mut self.inward else {
            return;
        };
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                inward::Act::Subscribe(place) => self.links.connector.subscribe(&place),
                inward::Act::Unsubscribe(place) => self.links.connector.unsubscribe(&place),
                inward::Act::Do(task) => {
                    if let Some(news) = inner.workers.take(task) {
                        acts.extend(inner.half.handle_news(news));
                    }
                }
            }
        }
    }

    /// Sends a request of this gateway; returns what follows if it cannot be sent.
    fn ask(&mut self, to: &To, request: &Request) -> Vec<Act> {
        let form = match self.links.security.form() {
            Form::Choria2 { .. } => PacketForm::Choria,
            _ => PacketForm::Plain,
        };
        let sealed = self.links.security.seal_request(request);
        let sent = sealed.map_err(|e| Failed::Unsealed(e.to_string()));
        let sent = sent.and_then(|data| {
            if matches!(to, To::Broadcast(..)) {
                self.echoes.record(&data);
            }
            let packet = Packet {
                form,
                data,
                sender: Some(self.settings.identity.clone()),
                reply_to: None,
                federation: None,
                seen_by: None,
            };
            let sent = self.links.connector.publish(to, packet, true, request.ttl);
            sent.map_err(Failed::Unsent)
        });
        let Err(why) = sent else {
            return Vec::new();
        };
        self.unsent += 1;
        let now = Clock::now();
        let failed = self
            .outward
            .as_mut()
            .map(|half| half.failed(&request.id, why, now));
        failed.unwrap_or_default()
    }

    /// Sends waiting answers, [`BATCH`] at most, while the connector has room. Returns whether more could be sent now.
    fn answers(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = Clock::now();
            let held = self.held.take();
            let next = || {
                self.inward
                    .as_mut()
                    .and_then(|inner| inner.half.answer(now))
            };
            let Some(answer) = held.or_else(next) else {
                return false;
            };
            match self.answer(&answer) {
                Ok(()) => {}
                Err(Unsent::Full) => {
                    self.held = Some(answer);
                    return false;
                }
                Err(Unsent::Forbidden) => {
                    let why = "its reply-to is not a place for replies".to_owned();
                    self.refuse(&answer.caller.to_string(), None, &Refused::Malformed(why));
                }
                Err(Unsent::TooLarge(bytes)) => {
                    self.unsent += 1;
                    let Some(inner) = &self.inward else {
                        return false;
                    };
                    let shorter = inner.half.too_large(answer, bytes);
                    if let Err(e) = self.answer(&shorter) {
                        log::warn!("an answer to {} is not sent: {e:?}", shorter.caller);
                    }
                }
            }
        }
        true
    }

    fn answer(&self, answer: &inward::OutgoingReply) -> Result<(), Unsent> {
        let (form, caller) = (answer.form, &answer.caller);
        let data = match self.links.security.seal_reply(&answer.reply, form, caller) {
            Ok(data) => data,
            Err(e) => {
                log::warn!("{caller} cannot be answered: {e}");
                return Ok(());
            }
        };
        let packet = Packet {
            data,
            ..answer.packet.clone()
        };
        let to = To::Reply(answer.to.clone());
        self.links.connector.publish(&to, packet, false, answer.ttl)
    }
}

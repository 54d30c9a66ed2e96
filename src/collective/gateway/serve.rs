//! The loop that decides everything: it hears the connector, the bus and the clock, asks the halves, and does what they say.
//!
//! What comes in as a reply is for `outward`; what comes in as a request is for `inward`, except registrations, from which
//! `outward` learns that a node lives. Messages that are not genuine are counted by their reason and go no further.

use super::act::{Act, Clock};
use super::echoes::Echoes;
use super::inward::{self, Inward, workers::Hands};
use super::outward::{Failed, Outward, REGISTRATION};
use super::secure::RefusedCounters;
use crate::broker::{Connector, Heard, Place, To, Unsent};
use crate::security::{Security, check_age};
use crate::wire::{Form, Packet, PacketForm, Refused, Request};
use crossbeam_channel::{Receiver, Sender, never, select};
use halite_config::CollectiveGateway;
use halite_gateway::news::News;
use halite_gateway::writer::{Task, Telling, give};
use halite_master::roles::{RoleError, exit_if_oversized};
use halite_master::score::Score;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the clock is looked at.
const TURN: Duration = Duration::from_millis(100);
/// Messages that are taken, and answers that are sent, before something else gets its turn.
const BATCH: usize = 256;

/// What the loop is connected to.
pub(super) struct Links {
    /// The broker.
    pub connector: Box<dyn Connector>,
    /// What it hears.
    pub heard: Receiver<Heard>,
    /// What the bus tells.
    pub news: Receiver<News>,
    /// Who writes.
    pub clerk: Sender<Task>,
    /// What makes messages genuine.
    pub security: Box<dyn Security>,
}

/// The inward half with its hands.
pub(super) struct Inner<'scope> {
    /// What decides.
    pub half: Inward,
    /// What asks disks, bus and master.
    pub hands: Hands<'scope>,
    /// What they tell.
    pub news: Receiver<inward::News>,
}

/// The gateway at work.
pub(super) struct Server<'scope> {
    settings: CollectiveGateway,
    links: Links,
    outward: Option<Outward>,
    inward: Option<Inner<'scope>>,
    /// An answer for which the connector had no room.
    held: Option<inward::Answer>,
    echoes: Echoes,
    refused: RefusedCounters,
    warned: u64,
    unsent: u64,
    up: bool,
    busy: bool,
    telling: Telling,
    looked: Instant,
}

impl<'scope> Server<'scope> {
    /// The gateway with its halves; nothing is subscribed yet.
    pub fn new(
        settings: &CollectiveGateway,
        links: Links,
        outward: Option<Outward>,
        inward: Option<Inner<'scope>>,
    ) -> Server<'scope> {
        Server {
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
            busy: false,
            telling: Telling::default(),
            looked: Instant::now(),
        }
    }

    /// Serves until the role is told to stop, or another thread has ended.
    ///
    /// # Errors
    /// A thread has ended, or too much memory is used.
    pub fn run(mut self, stop: &StopFlag, alive: &dyn Fn() -> bool) -> Result<(), RoleError> {
        let mut score = Score::inherited(super::ROLE);
        let heard = self.links.heard.clone();
        let news = self.links.news.clone();
        let told = self
            .inward
            .as_ref()
            .map_or_else(never, |inner| inner.news.clone());
        let outward = self.outward.as_ref().map(Outward::places);
        let inward = self.inward.as_ref().map(|inner| inner.half.places());
        for place in outward.into_iter().chain(inward).flatten() {
            self.links.connector.subscribe(&place);
        }
        while !stop.is_set() {
            // Answers that wait are sent before anybody sleeps.
            let nap = if self.busy { Duration::ZERO } else { TURN };
            select! {
                recv(heard) -> item => self.heard(item.map_err(|_| ended())?),
                recv(news) -> item => self.news(item.map_err(|_| ended())?),
                recv(told) -> item => self.told(item.map_err(|_| ended())?),
                default(nap) => {}
            }
            for _ in 0..BATCH {
                let Ok(item) = heard.try_recv() else { break };
                self.heard(item);
            }
            self.busy = self.answers();
            self.tick()?;
            score.tick(|| self.counters());
            let hands = self.inward.as_ref().is_none_or(|inner| inner.hands.alive());
            if !(stop.is_set() || alive() && hands) {
                return Err(ended());
            }
        }
        // The list must not outlive the gateway.
        give(&self.links.clerk, Task::Connected(Default::default()));
        Ok(())
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

    fn heard(&mut self, heard: Heard) {
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
        // Whoever waits for an answer has asked; queues of STOMP do not always tell where a message came in.
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
        // A discovery of this very gateway reaches it as well; its minions are minions already.
        if self.echoes.hear(&packet.data) {
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
            // It could be one of yesterday.
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
        match inner.half.heard(place, request, form, packet, now) {
            Ok(acts) => self.perform_inward(acts),
            Err(why) => self.refuse(request.sender.as_str(), None, &why),
        }
    }

    /// A message that is not listened to. With its place, the nodes that would have heard it count it as well.
    fn refuse(&mut self, sender: &str, place: Option<&Place>, why: &Refused) {
        self.refused.count(why);
        // On a queue that clients share, most replies are for others.
        if *why == Refused::NotForUs {
            return;
        }
        if let Some(inner) = &mut self.inward
            && place.is_some()
        {
            inner.half.refused(place, why);
        }
        self.warned += 1;
        // A flood is told a few times, not a million.
        if self.warned.is_power_of_two() {
            log::warn!(
                "a message of {sender:.80?} is not listened to: {why}; {} refused so far",
                self.warned
            );
        } else {
            log::debug!("a message of {sender:.80?} is not listened to: {why}");
        }
    }

    fn news(&mut self, news: News) {
        let now = Clock::now();
        let Some(outward) = &mut self.outward else {
            return;
        };
        let acts = match news {
            News::Job(order) => outward.order(&order, now),
            News::Key { id, deleted } => outward.key(&id, deleted, now),
        };
        self.perform(acts);
    }

    fn told(&mut self, news: inward::News) {
        if let Some(inner) = &mut self.inward {
            let acts = inner.half.news(news);
            self.perform_inward(acts);
        }
    }

    fn tick(&mut self) -> Result<(), RoleError> {
        let now = Clock::now();
        if !now.is_past(self.looked, TURN) {
            return Ok(());
        }
        self.looked = now.at;
        if let Some(outward) = &mut self.outward {
            let acts = outward.tick(now);
            self.perform(acts);
        }
        if let Some(inner) = &mut self.inward {
            let acts = inner.half.tick(now);
            self.perform_inward(acts);
        }
        self.tell(now)
    }

    /// Says who is connected, for `manage.*` and presence events.
    fn tell(&mut self, now: Clock) -> Result<(), RoleError> {
        let Some(outward) = &mut self.outward else {
            return Ok(());
        };
        self.telling.changed |= outward.changed();
        if !self.telling.is_due(now.at) {
            return Ok(());
        }
        give(&self.links.clerk, Task::Connected(outward.connected()));
        exit_if_oversized()
    }

    /// Does what outward has decided. What an act leads to follows after it.
    fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Ask(to, request) => acts.extend(self.ask(&to, &request)),
                Act::Write(task) => give(&self.links.clerk, task),
            }
        }
    }

    /// Does what inward has decided.
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
                    if let Some(news) = inner.hands.take(task) {
                        acts.extend(inner.half.news(news));
                    }
                }
            }
        }
    }

    /// Sends a request of ours; what follows if it cannot be sent.
    fn ask(&mut self, to: &To, request: &Request) -> Vec<Act> {
        let form = match self.links.security.form() {
            Form::Choria2 { .. } => PacketForm::Choria,
            _ => PacketForm::Plain,
        };
        let sealed = self.links.security.seal_request(request);
        let sent = sealed.map_err(|e| Failed::Unsealed(e.to_string()));
        let sent = sent.and_then(|data| {
            if matches!(to, To::Broadcast(..)) {
                self.echoes.sent(&data);
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

    /// Sends answers that wait, as long as the connector takes them and others may wait for their turn; whether there are
    /// more that could be sent now.
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
                    let why = "its reply-to is no place for answers".to_owned();
                    self.refuse(&answer.caller.to_string(), None, &Refused::Malformed(why));
                }
                Err(Unsent::TooLarge(octets)) => {
                    self.unsent += 1;
                    let Some(inner) = &self.inward else {
                        return false;
                    };
                    let shorter = inner.half.too_large(answer, octets);
                    if let Err(e) = self.answer(&shorter) {
                        log::warn!("an answer to {} is not sent: {e:?}", shorter.caller);
                    }
                }
            }
        }
        true
    }

    fn answer(&self, answer: &inward::Answer) -> Result<(), Unsent> {
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

fn ended() -> RoleError {
    RoleError::new(1, "a thread of the gateway has ended")
}

//! The loop that decides everything: it hears the connector, the bus and the clock, asks the halves, and does what they say.
//!
//! What opens as a reply is for `outward`; what opens as a request is for `inward`, except registrations, from which
//! `outward` learns that a node lives. Messages that are not genuine are counted by their reason and go no further.

use super::act::{Act, Answer, Clock, Origin};
use super::outward::Outward;
use crate::config::CollectiveGateway;
use crate::crypto::collective::Security;
use crate::gateway::clerk::{Task, give};
use crate::gateway::news::News;
use crate::master::roles::{RoleError, check_memory};
use crate::master::score::Score;
use crate::store::gateways::{GatewayStore, REFRESH};
use crate::sys::signals::StopFlag;
use crate::transport::collective::{Connector, Heard, Place, To};
use crate::wire::Map;
use crate::wire::collective::{Form, Packet, PacketForm, Refused, Reply, Request};
use crossbeam_channel::{Receiver, Sender, select};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the clock is looked at.
const TURN: Duration = Duration::from_millis(100);
/// Shortest time between two lists of who is connected.
const TELL: Duration = Duration::from_secs(1);
/// The agent that takes registrations.
const REGISTRATION: &str = "registration";
/// Messages or news that are taken before the clock is looked at.
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

/// The gateway at work.
pub(super) struct Server {
    settings: CollectiveGateway,
    links: Links,
    records: GatewayStore,
    outward: Option<Outward>,
    refused: [u64; Refused::REASONS.len()],
    unsent: u64,
    down: bool,
    changed: bool,
    told: Option<Instant>,
    looked: Instant,
}

impl Server {
    /// The gateway with its halves; nothing is subscribed yet.
    pub fn new(
        settings: &CollectiveGateway,
        links: Links,
        records: GatewayStore,
        outward: Option<Outward>,
    ) -> Server {
        Server {
            settings: settings.clone(),
            links,
            records,
            outward,
            refused: Default::default(),
            unsent: 0,
            down: true,
            changed: false,
            told: None,
            looked: Instant::now(),
        }
    }

    /// Serves until the role is told to stop, or another thread has ended.
    pub fn run(mut self, stop: &StopFlag, alive: &dyn Fn() -> bool) -> Result<(), RoleError> {
        let mut score = Score::inherited(super::ROLE);
        let clock = crossbeam_channel::tick(TURN);
        for place in self.places() {
            self.links.connector.subscribe(&place);
        }
        while !stop.is_set() {
            let (heard, news) = (self.links.heard.clone(), self.links.news.clone());
            select! {
                recv(heard) -> heard => self.heard(heard.map_err(|_| ended())?),
                recv(news) -> news => self.news(news.map_err(|_| ended())?),
                recv(clock) -> _ => {}
            }
            for _ in 0..BATCH {
                let Ok(heard) = self.links.heard.try_recv() else {
                    break;
                };
                self.heard(heard);
            }
            self.tick()?;
            score.tick(|| self.counters());
            if !alive() {
                return Err(ended());
            }
        }
        // The list must not outlive the gateway.
        if let Err(e) = self.records.put_connected(&Default::default()) {
            log::warn!("who is connected cannot be written: {e}");
        }
        Ok(())
    }

    /// Where something is to be heard from the start.
    fn places(&self) -> Vec<Place> {
        let mut out = Vec::new();
        if let Some(outward) = &self.outward {
            out.extend(outward.places());
        }
        out
    }

    fn counters(&self) -> Map {
        let mut out = crate::map! {
            "up" => !self.down, "unsent" => self.unsent, "dropped" => self.links.connector.dropped(),
        };
        for (name, count) in Refused::REASONS.iter().zip(self.refused) {
            out.set(format!("refused_{name}"), count);
        }
        if let Some(outward) = &self.outward {
            out.0.extend(outward.counters().0);
        }
        out
    }

    fn heard(&mut self, heard: Heard) {
        let now = Clock::now();
        let acts = match heard {
            Heard::Up(server) => {
                log::info!("the collective is reached through {server}");
                self.down = false;
                self.outward.as_mut().map(|half| half.up(now))
            }
            Heard::Down(why) => {
                if !self.down {
                    log::warn!("the collective cannot be reached: {why}; trying again");
                }
                self.down = true;
                self.outward.as_mut().map(|half| half.down(&why))
            }
            Heard::Packet(place, packet) => Some(self.packet(place, packet, now)),
        };
        self.perform(acts.unwrap_or_default());
    }

    fn packet(&mut self, place: Option<Place>, packet: Packet, now: Clock) -> Vec<Act> {
        // Whoever waits for an answer has asked; STOMP does not always tell where a message came in.
        let answer = match place {
            Some(Place::Replies(_)) => true,
            Some(_) => false,
            None => packet.reply_to.is_none(),
        };
        if answer {
            return match self.links.security.open_reply(&packet.data) {
                Ok(reply) => self.reply(reply, now),
                Err(why) => self.refuse(&packet, &why),
            };
        }
        match self.links.security.open_request(&packet.data) {
            Ok((request, form)) => self.request(request, form, &packet, now),
            Err(why) => self.refuse(&packet, &why),
        }
    }

    fn reply(&mut self, reply: Reply, now: Clock) -> Vec<Act> {
        match &mut self.outward {
            Some(outward) => outward.reply(reply, now),
            None => Vec::new(),
        }
    }

    fn request(&mut self, request: Request, _form: Form, packet: &Packet, now: Clock) -> Vec<Act> {
        if request.agent.as_str() == REGISTRATION {
            if let Some(outward) = &mut self.outward {
                return outward.registration(&request, now);
            }
            return Vec::new();
        }
        let _origin = Origin::of(packet);
        // Here inward is asked, unless the request is one of outward's own.
        Vec::new()
    }

    fn refuse(&mut self, packet: &Packet, why: &Refused) -> Vec<Act> {
        let sender = packet.sender.as_deref().unwrap_or("somebody");
        if let Some(count) = self.refused.get_mut(why.index()) {
            *count += 1;
            // A flood is told a few times, not a million.
            if count.is_power_of_two() {
                log::warn!(
                    "a message of {sender:.80?} is not listened to: {why}; {count} of this kind so far"
                );
            }
        }
        Vec::new()
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
        self.tell(now)
    }

    /// Says who is connected, for `manage.*` and presence events.
    fn tell(&mut self, now: Clock) -> Result<(), RoleError> {
        let Some(outward) = &mut self.outward else {
            return Ok(());
        };
        let changed = std::mem::take(&mut self.changed) | outward.changed();
        let due = self
            .told
            .is_none_or(|at| now.is_past(at, REFRESH) || (changed && now.is_past(at, TELL)));
        if !due {
            self.changed = changed;
            return Ok(());
        }
        self.told = Some(now.at);
        let who = outward.connected();
        give(&self.links.clerk, Task::Connected(who));
        check_memory()
    }

    /// Does what was decided. What an act leads to follows after it.
    fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Subscribe(place) => self.links.connector.subscribe(&place),
                Act::Unsubscribe(place) => self.links.connector.unsubscribe(&place),
                Act::Ask(to, request) => acts.extend(self.ask(&to, &request)),
                Act::Answer(answer) => self.answer(*answer),
                Act::Write(task) => give(&self.links.clerk, task),
            }
        }
    }

    fn ask(&mut self, to: &To, request: &Request) -> Vec<Act> {
        let form = self.links.security.form();
        let packet = |data| Packet {
            form: match form {
                Form::Choria2 { .. } => PacketForm::Choria,
                _ => PacketForm::Plain,
            },
            data,
            sender: Some(self.settings.identity.clone()),
            reply_to: None,
            federation: None,
            seen_by: None,
        };
        let sent = match self.links.security.seal_request(request) {
            Ok(data) => self
                .links
                .connector
                .publish(to, packet(data), true, request.ttl)
                .map_err(super::outward::Failed::Unsent),
            Err(e) => Err(super::outward::Failed::Unsealed(e.to_string())),
        };
        let Err(why) = sent else {
            return Vec::new();
        };
        self.unsent += 1;
        let now = Clock::now();
        match &mut self.outward {
            Some(outward) => outward.failed(&request.id, why, now),
            None => Vec::new(),
        }
    }

    fn answer(&mut self, answer: Answer) {
        let ttl = crate::wire::collective::DEFAULT_TTL;
        let sealed = self
            .links
            .security
            .seal_reply(&answer.reply, answer.form, &answer.caller);
        let data = match sealed {
            Ok(data) => data,
            Err(e) => {
                log::warn!("{} cannot be answered: {e}", answer.caller);
                return;
            }
        };
        let packet = Packet {
            form: answer.origin.form,
            data,
            sender: Some(answer.reply.sender.to_string()),
            reply_to: None,
            federation: answer.origin.federation,
            seen_by: answer.origin.seen_by,
        };
        let to = To::Reply(answer.origin.reply_to);
        if let Err(e) = self.links.connector.publish(&to, packet, false, ttl) {
            self.unsent += 1;
            log::warn!("an answer to {} is not sent: {e:?}", answer.caller);
        }
    }
}

fn ended() -> RoleError {
    RoleError::new(1, "a thread of the gateway has ended")
}

//! Decides what a federation broker does with a message (reference, sections 16 and 17). No IO, no state.

use crate::wire::subjects::{Side, federation_of, is_reply_subject, is_target_subject};
use crate::wire::{Federation, MOST_HOPS, Packet, Refused};
use std::collections::HashSet;
use std::fmt;

/// The naming scheme of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `choria.federation.NAME.federation` and `.collective`.
    Deployed,
    /// `federation.network.NAME` on both sides, as in the first description.
    Seed,
}

/// The identity and settings of this broker.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Name of the federation, which all its brokers share.
    pub cluster: String,
    /// Name of this broker.
    pub instance: String,
    /// The naming scheme of subjects.
    pub naming: Naming,
    /// Whether to record routes even if not requested.
    pub record_route: bool,
}

/// The servers that a message passes through, as named in routes.
#[derive(Clone, Copy, Debug)]
pub struct Via<'a> {
    /// The server it came from.
    pub from: &'a str,
    /// The server it goes to.
    pub to: &'a str,
}

/// A message to forward.
#[derive(Clone, Debug, PartialEq)]
pub struct Onward {
    /// The subjects on the other side.
    pub subjects: Vec<String>,
    /// The packet with its new headers.
    pub packet: Packet,
}

/// Why a message is not forwarded.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// It is not a packet.
    Unreadable(Refused),
    /// It has no header `federation`, or no id in it.
    NoFederation,
    /// It has no reply address.
    NoReplyTo,
    /// Its reply address is not a subject for replies; the address.
    ForgedReplyTo(String),
    /// It has no target.
    NoTarget,
    /// One of its targets is not a subject of nodes; the target.
    BadTarget(String),
    /// It would go to a federation broker, or has been here before.
    Loop(String),
}

impl Rejection {
    /// All reasons, as named in counters.
    pub const REASONS: [&'static str; 7] = [
        "unreadable",
        "no_federation",
        "no_reply_to",
        "forged_reply_to",
        "no_target",
        "bad_target",
        "loop",
    ];

    /// The index of this reason in [`Rejection::REASONS`].
    pub fn index(&self) -> usize {
        match self {
            Rejection::Unreadable(_) => 0,
            Rejection::NoFederation => 1,
            Rejection::NoReplyTo => 2,
            Rejection::ForgedReplyTo(_) => 3,
            Rejection::NoTarget => 4,
            Rejection::BadTarget(_) => 5,
            Rejection::Loop(_) => 6,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Rejection::Unreadable(why) => write!(f, "{why}"),
            Rejection::NoFederation => write!(f, "it has no header federation with an id"),
            Rejection::NoReplyTo => write!(f, "it has no reply address"),
            Rejection::ForgedReplyTo(subject) => {
                write!(
                    f,
                    "its reply would go to {subject:?}, which is not for replies"
                )
            }
            Rejection::NoTarget => write!(f, "it has no target"),
            Rejection::BadTarget(subject) => {
                write!(f, "its target {subject:?} is not a subject of nodes")
            }
            Rejection::Loop(what) => write!(f, "it goes in a circle: {what}"),
        }
    }
}

impl Rules {
    /// The subject of this broker on a side.
    pub fn subject(&self, side: Side) -> String {
        let cluster = &self.cluster;
        match (self.naming, side) {
            (Naming::Seed, _) => format!("federation.network.{cluster}"),
            (Naming::Deployed, Side::Federation) => {
                format!("choria.federation.{cluster}.federation")
            }
            (Naming::Deployed, Side::Collective) => {
                format!("choria.federation.{cluster}.collective")
            }
        }
    }

    /// The queue group, in which each message goes to one broker.
    pub fn group(&self, side: Side) -> String {
        match side {
            Side::Federation => format!("{}_federation", self.cluster),
            Side::Collective => format!("{}_collective", self.cluster),
        }
    }

    /// The subject of statistics.
    pub fn stats_subject(&self) -> String {
        format!("choria.federation.{}.stats", self.cluster)
    }

    /// Processes a message received on a side: a request from the federation, a reply from the collective.
    ///
    /// # Errors
    /// Why it is not forwarded.
    pub fn pass(&self, side: Side, payload: &[u8], via: Via) -> Result<Onward, Rejection> {
        let packet = Packet::from_json(payload).map_err(Rejection::Unreadable)?;
        let mut onward = match side {
            Side::Federation => self.request(packet)?,
            Side::Collective => reply(packet)?,
        };
        self.record(side, &mut onward.packet, via)?;
        Ok(onward)
    }

    fn request(&self, mut packet: Packet) -> Result<Onward, Rejection> {
        let federation = packet.federation.take().ok_or(Rejection::NoFederation)?;
        if federation.request.is_empty() {
            return Err(Rejection::NoFederation);
        }
        let reply_to = for_replies(packet.reply_to.take())?;
        if federation.targets.is_empty() {
            return Err(Rejection::NoTarget);
        }
        let mut known = HashSet::new();
        for target in &federation.targets {
            let leads_back = [Side::Federation, Side::Collective]
                .iter()
                .any(|side| federation_of(target, *side).is_some());
            if leads_back {
                return Err(Rejection::Loop(format!(
                    "{target:?} is a federation broker's"
                )));
            }
            if !is_target_subject(target) {
                return Err(Rejection::BadTarget(target.clone()));
            }
            known.insert(target.as_str());
        }
        // A target that is named twice is asked once.
        let once = federation
            .targets
            .iter()
            .filter(|target| known.remove(target.as_str()));
        let subjects = once.cloned().collect();
        packet.federation = Some(Federation {
            request: federation.request,
            reply_to: Some(reply_to),
            targets: Vec::new(),
        });
        packet.reply_to = Some(self.subject(Side::Collective));
        Ok(Onward { subjects, packet })
    }

    /// Adds this broker to the route, if there is one or routes are recorded.
    fn record(&self, side: Side, packet: &mut Packet, via: Via) -> Result<(), Rejection> {
        let ours = format!("{}:", self.cluster);
        let route = match &mut packet.seen_by {
            Some(route) => route,
            None if self.record_route => packet.seen_by.insert(Vec::new()),
            None => return Ok(()),
        };
        let hop =
            |hop: &&Vec<String>| matches!(hop.as_slice(), [_, here, _] if here.starts_with(&ours));
        let been = route.iter().filter(hop).count();
        // A reply has passed here once before, as its request.
        let before = match side {
            Side::Federation => 0,
            Side::Collective => 1,
        };
        if been > before {
            return Err(Rejection::Loop(format!(
                "{} has seen it before",
                self.cluster
            )));
        }
        if route.len() >= MOST_HOPS {
            return Err(Rejection::Loop(format!("its route has {MOST_HOPS} hops")));
        }
        let here = format!("{ours}{}", self.instance);
        route.push(vec![via.from.to_owned(), here, via.to.to_owned()]);
        Ok(())
    }
}

fn reply(mut packet: Packet) -> Result<Onward, Rejection> {
    let federation = packet.federation.take().ok_or(Rejection::NoFederation)?;
    if federation.request.is_empty() {
        return Err(Rejection::NoFederation);
    }
    let subject = for_replies(federation.reply_to)?;
    packet.reply_to = None;
    Ok(Onward {
        subjects: vec![subject],
        packet,
    })
}

fn for_replies(subject: Option<String>) -> Result<String, Rejection> {
    let subject = subject.ok_or(Rejection::NoReplyTo)?;
    if is_reply_subject(&subject) {
        Ok(subject)
    } else {
        Err(Rejection::ForgedReplyTo(subject))
    }
}

#[cfg(test)]
mod tests;

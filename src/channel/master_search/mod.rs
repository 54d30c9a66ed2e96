//! Which master to turn to, in which order, and what to do when that does not work: the way from
//! nothing to a sign-in. No IO: the caller does what [`Action`] says and tells what came of it.
//!
//! `salt/minion.py MinionBase.eval_master`, `resolve_dns`, `MinionManager._connect_minion`. What an
//! answer to a sign-in means at one master is decided by [`RetryPolicy`].
//!
//! ```text
//!            Begin                 Resolved                Answer(accepted)
//!   (start) -------> Resolve(m) ------------> Ask(m) ---------------------> Done
//!                     ^   ^  | Unresolvable     | not accepted
//!                     |   |  v                  v
//!                     |   +-- Wait <------------+----> Fail (refused for good, or tried enough)
//!                     +------ the next of a list
//! ```

use super::signin::{Accepted, Failure, Policy, RetryPolicy, Step, Verdict};
use std::time::Duration;

/// What `master_type` makes of the masters of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One master, for ever.
    Single,
    /// A list of which one is used (`failover`).
    Failover,
    /// The same, and the id decides which one comes first (`distributed`).
    Distributed,
}

/// Why a master is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is none yet.
    First,
    /// The present one does not know our keys any more; it comes first.
    Again,
    /// The connection to the present one is lost; it comes last.
    Lost,
    /// The first of the list is there again.
    Failback,
}

/// The order in which masters are tried.
#[derive(Clone, Debug)]
pub struct MasterOrder {
    kind: Kind,
    count: usize,
    id: String,
    /// `random_master`, `master_shuffle`.
    random: bool,
    /// `master_failback`: the first stays the first.
    failback: bool,
    /// The order of the last search.
    last: Vec<usize>,
}

impl MasterOrder {
    /// For `count` masters.
    pub fn new(kind: Kind, count: usize, id: &str, random: bool, failback: bool) -> MasterOrder {
        MasterOrder {
            kind,
            count,
            id: id.to_owned(),
            random,
            failback,
            last: Vec::new(),
        }
    }

    /// Whether the next master is tried when one is silent.
    pub fn is_list(&self) -> bool {
        self.kind != Kind::Single && self.count > 1
    }

    /// The master that is preferred to all others.
    pub fn first(&self) -> usize {
        match self.kind {
            Kind::Distributed if self.count > 0 => {
                crc32fast::hash(self.id.as_bytes()) as usize % self.count
            }
            _ => 0,
        }
    }

    /// The order for a search; `present` is the master in use. `shuffle` puts a slice into an order by
    /// chance.
    pub fn order(
        &mut self,
        reason: Reason,
        present: usize,
        shuffle: impl FnOnce(&mut [usize]),
    ) -> Vec<usize> {
        let first = self.first();
        let others = |but: usize| (0..self.count).filter(move |n| *n != but);
        let mut order: Vec<usize> = match reason {
            Reason::First | Reason::Failback => {
                std::iter::once(first).chain(others(first)).collect()
            }
            Reason::Again => {
                let before = self.last.iter().copied().filter(|n| *n != present);
                let order: Vec<usize> = std::iter::once(present).chain(before).collect();
                // Chance has spoken already.
                return self.keep(order);
            }
            Reason::Lost => {
                let mut order = match self.last.is_empty() {
                    true => (0..self.count).collect(),
                    false => self.last.clone(),
                };
                order.retain(|n| *n != present);
                order.push(present);
                order
            }
        };
        if self.random && order.len() > 1 {
            let fixed = usize::from(self.failback || self.kind == Kind::Distributed);
            match reason {
                // The lost one stays the last resort.
                Reason::Lost => {
                    let end = order.len() - 1;
                    shuffle(&mut order[..end]);
                }
                _ => shuffle(&mut order[fixed..]),
            }
        }
        self.keep(order)
    }

    fn keep(&mut self, order: Vec<usize>) -> Vec<usize> {
        self.last = order.clone();
        order
    }
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Resolve the name of a master, then say [`Event::Resolved`] or [`Event::Unresolvable`].
    Resolve(usize),
    /// Ask a master to sign in and wait so long, then say [`Event::Answer`].
    Ask(usize, Duration),
    /// Wait, stretched by chance, then say [`Event::Waited`].
    Wait(Duration),
    /// Wait a random share of this, then say [`Event::Waited`].
    Scatter(Duration),
    /// Use the keys.
    Done(usize, Box<Accepted>),
    /// Give up.
    Fail(Failure),
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Nothing yet.
    Begin,
    /// The name has an address.
    Resolved,
    /// The name, which has none.
    Unresolvable(String),
    /// An answer, weighed, or [`Verdict::Silence`].
    Answer(Verdict),
    /// The wait is over.
    Waited,
}

/// One search for a master, from [`Event::Begin`] to [`Action::Done`] or [`Action::Fail`].
#[derive(Clone, Debug)]
pub struct Course {
    policy: Policy,
    rounds: RetryPolicy,
    order: Vec<usize>,
    at: usize,
    /// Whether the next one is tried when one is silent.
    list: bool,
    /// Failures to resolve the name, one after another.
    unresolved: u32,
    /// Times that the whole list was gone through.
    passes: u32,
    /// Grows with fruitless passes.
    wait: Duration,
    /// The first question waits a random share of this.
    scatter: Duration,
}

/// A job may wait for this sign-in, and its client waits five seconds for an answer: the first question is not put off
/// longer than this.
const SOON: Duration = Duration::from_secs(2);

impl Course {
    /// A search in this order, which must not be empty. `list`: masters stand in for each other.
    pub fn new(policy: Policy, id: &str, order: Vec<usize>, list: bool) -> Course {
        Course {
            rounds: RetryPolicy::new(policy.clone(), id),
            wait: policy.wait,
            policy,
            order,
            at: 0,
            list,
            unresolved: 0,
            passes: 0,
            scatter: Duration::ZERO,
        }
    }

    /// Puts the first question off, each minion its own time: what makes this one sign in anew (a lost master, a key
    /// that no longer opens) makes all others of its master sign in at the same moment. Not for a command
    /// that somebody waits for.
    pub fn scattered(mut self, reason: Reason) -> Course {
        self.scatter = match reason {
            _ if self.policy.once => Duration::ZERO,
            Reason::First => Duration::ZERO,
            Reason::Again => self.policy.delay.min(SOON),
            Reason::Lost | Reason::Failback => self.policy.delay,
        };
        self
    }

    /// The next step.
    pub fn next(&mut self, event: Event) -> Action {
        let master = self.order.get(self.at).copied().unwrap_or_default();
        match event {
            Event::Begin if !self.scatter.is_zero() => Action::Scatter(self.scatter),
            Event::Begin | Event::Waited => Action::Resolve(master),
            Event::Resolved => {
                self.unresolved = 0;
                Action::Ask(master, self.rounds.timeout())
            }
            Event::Unresolvable(name) => self.unresolvable(&name),
            Event::Answer(verdict) => self.answer(master, verdict),
        }
    }

    fn answer(&mut self, master: usize, verdict: Verdict) -> Action {
        let passed_on = match &verdict {
            Verdict::Silence => Some("it does not answer".to_owned()),
            Verdict::Untrusted(why) => Some(why.clone()),
            Verdict::Unreadable => Some("its answer is not one to a sign-in".to_owned()),
            Verdict::BadAlgorithm(option) => Some(format!(
                "it does not know the algorithm in the option {option}"
            )),
            // `salt-call` with a list of masters goes on; the daemon waits for the operator.
            Verdict::Pending if self.policy.once => Some("it has not accepted the key".to_owned()),
            _ => None,
        };
        if self.list
            && let Some(why) = passed_on
        {
            log::info!("no sign-in at a master, trying the next one: {why}");
            return self.pass_on(&why);
        }
        match self.rounds.after(verdict) {
            Step::Done(accepted) => Action::Done(master, accepted),
            Step::Again(wait) => Action::Wait(wait),
            Step::Scattered(bound) => Action::Scatter(bound),
            Step::Fail(failure) => Action::Fail(failure),
        }
    }

    fn unresolvable(&mut self, name: &str) -> Action {
        let what = format!("Master hostname: '{name}' not found or not responsive");
        if self.list {
            log::warn!("{what}; trying the next master");
            return self.pass_on(&what);
        }
        if self.policy.once || self.policy.retry_dns.is_zero() {
            // Like a master that is silent.
            log::error!("{what}");
            return match self.rounds.after(Verdict::Silence) {
                Step::Fail(failure) if self.policy.once => Action::Fail(Failure {
                    status: failure.status,
                    message: what,
                }),
                Step::Fail(failure) => Action::Fail(failure),
                _ if self.policy.once => Action::Wait(Duration::from_secs(1)),
                _ => Action::Wait(self.policy.delay.max(Duration::from_secs(1))),
            };
        }
        self.unresolved += 1;
        if self
            .policy
            .retry_dns_count
            .is_some_and(|most| self.unresolved > most)
        {
            return Action::Fail(Failure {
                status: 1,
                message: format!(
                    "Master address: '{name}' could not be resolved. Invalid or unresolveable address. Set 'master' \
                     value in minion config."
                ),
            });
        }
        log::error!(
            "{what}. Retrying in {} seconds",
            self.policy.retry_dns.as_secs()
        );
        Action::Wait(self.policy.retry_dns)
    }

    /// The next master of the list; after the last one, the first after a while.
    fn pass_on(&mut self, why: &str) -> Action {
        self.rounds = RetryPolicy::new(self.policy.clone(), self.rounds.id());
        self.at += 1;
        if let Some(next) = self.order.get(self.at) {
            return Action::Resolve(*next);
        }
        self.at = 0;
        self.passes += 1;
        let message =
            "No master could be reached or all masters denied the minion's connection attempt.";
        let tries = self.policy.master_tries.max(0).unsigned_abs();
        let enough = tries > 0 && self.passes.is_multiple_of(tries);
        if self.policy.once && (enough || tries == 0) {
            return Action::Fail(Failure {
                status: 1,
                message: format!("{message} ({why})"),
            });
        }
        if !enough {
            return Action::Wait(self.policy.wait);
        }
        log::error!("{message}");
        // As long as stock waits before it makes the whole minion anew.
        if self.wait < self.policy.wait_max {
            self.wait = (self.wait + self.policy.wait).min(self.policy.wait_max);
        }
        Action::Wait(self.wait)
    }
}

#[cfg(test)]
mod tests;

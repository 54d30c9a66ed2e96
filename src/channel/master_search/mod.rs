//! The search for a master: which masters to try in which order until a sign-in succeeds, and what to do
//! on failure. No IO: the caller carries out each [`Action`] and passes in the resulting [`Event`].
//!
//! `salt/minion.py MinionBase.eval_master`, `resolve_dns`, `MinionManager._connect_minion`. [`RetryPolicy`]
//! decides what to do after the reply to a sign-in at one master.
//!
//! ```text
//!            Begin                 Resolved                Answer(accepted)
//!   (start) -------> Resolve(m) ------------> Ask(m) ---------------------> Done
//!                     ^   ^  | Unresolvable     | not accepted
//!                     |   |  v                  v
//!                     |   +-- Wait <------------+----> Fail (permanently refused, or out of tries)
//!                     +------ the next of a list
//! ```

use super::signin::{Accepted, RetryOptions, RetryPolicy, Step, Verdict};
use halite_sys::exit::ExitError;
use std::time::Duration;

/// How the masters of one connection are used (`master_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterType {
    /// Always the same master.
    Single,
    /// One of a list (`failover`).
    Failover,
    /// One of a list, where the id decides which is tried first (`distributed`).
    Distributed,
}

/// Why there is a search for a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There has been no sign-in yet.
    First,
    /// The current master no longer has our keys; it is tried first.
    Again,
    /// The connection to the current master is lost; it is tried last.
    Lost,
    /// The first of the list is available again.
    Failback,
}

/// Computes the order in which masters are tried.
#[derive(Clone, Debug)]
pub struct MasterOrder {
    master_type: MasterType,
    count: usize,
    id: String,
    /// `random_master`, `master_shuffle`.
    random: bool,
    /// `master_failback`: the first of the list is always tried first.
    failback: bool,
    /// The order of the last search.
    last: Vec<usize>,
}

impl MasterOrder {
    /// The order for `count` masters.
    pub fn new(
        master_type: MasterType,
        count: usize,
        id: &str,
        random: bool,
        failback: bool,
    ) -> MasterOrder {
        MasterOrder {
            master_type,
            count,
            id: id.to_owned(),
            random,
            failback,
            last: Vec::new(),
        }
    }

    /// Whether the next master is tried if one does not reply.
    pub fn is_list(&self) -> bool {
        self.master_type != MasterType::Single && self.count > 1
    }

    /// The preferred master.
    pub fn first(&self) -> usize {
        match self.master_type {
            MasterType::Distributed if self.count > 0 => {
                crc32fast::hash(self.id.as_bytes()) as usize % self.count
            }
            _ => 0,
        }
    }

    /// The order for a search; `present` is the current master. `shuffle` must put a slice into random
    /// order.
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
                // The last order is already shuffled.
                return self.save(order);
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
            let fixed = usize::from(self.failback || self.master_type == MasterType::Distributed);
            match reason {
                // The lost master stays last.
                Reason::Lost => {
                    let end = order.len() - 1;
                    shuffle(&mut order[..end]);
                }
                _ => shuffle(&mut order[fixed..]),
            }
        }
        self.save(order)
    }

    fn save(&mut self, order: Vec<usize>) -> Vec<usize> {
        self.last = order.clone();
        order
    }
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Resolve the name of a master, then pass in [`Event::Resolved`] or [`Event::Unresolvable`].
    Resolve(usize),
    /// Send a sign-in request to a master, wait for the reply for up to this time, then pass in [`Event::Answer`].
    Ask(usize, Duration),
    /// Wait this time plus a random part, then pass in [`Event::Waited`].
    Wait(Duration),
    /// Wait a random fraction of this, then pass in [`Event::Waited`].
    Scatter(Duration),
    /// Signed in at this master: use the keys.
    Done(usize, Box<Accepted>),
    /// Give up.
    Fail(ExitError),
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The search starts.
    Begin,
    /// The name has an address.
    Resolved,
    /// The name has no address; the name.
    Unresolvable(String),
    /// The verified reply, or [`Verdict::Silence`].
    Answer(Verdict),
    /// The wait is over.
    Waited,
}

/// One search for a master, from [`Event::Begin`] to [`Action::Done`] or [`Action::Fail`].
#[derive(Clone, Debug)]
pub struct MasterSearch {
    policy: RetryOptions,
    rounds: RetryPolicy,
    order: Vec<usize>,
    at: usize,
    /// Whether the next master is tried if one does not reply.
    list: bool,
    /// Consecutive failures to resolve the name.
    unresolved: u32,
    /// Passes through the whole list.
    passes: u32,
    /// Wait after a pass; grows with failed passes.
    wait: Duration,
    /// The first sign-in request is delayed by a random fraction of this.
    scatter: Duration,
}

/// Longest delay of the first sign-in request if a job may wait for it, since the client of a job waits five seconds for a
/// return.
const SOON: Duration = Duration::from_secs(2);

impl MasterSearch {
    /// Searches in this order, which must not be empty. `list`: if one master fails, try the next.
    pub fn new(policy: RetryOptions, id: &str, order: Vec<usize>, list: bool) -> MasterSearch {
        MasterSearch {
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

    /// Delays the first sign-in request by a random time: the cause of a new sign-in (a lost master, an outdated
    /// key) affects all minions of that master at the same time. A command, which has a user waiting, is not
    /// delayed.
    pub fn scattered(mut self, reason: Reason) -> MasterSearch {
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
            Verdict::Silence => Some("it does not reply".to_owned()),
            Verdict::Untrusted(why) => Some(why.clone()),
            Verdict::Unreadable => Some("its reply is not a reply to a sign-in".to_owned()),
            Verdict::BadAlgorithm(option) => Some(format!(
                "it does not support the algorithm in the option {option}"
            )),
            // `salt-call` with a list of masters tries the next; the daemon waits for the operator.
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
            // Like a master that does not reply.
            log::error!("{what}");
            return match self.rounds.after(Verdict::Silence) {
                Step::Fail(failure) if self.policy.once => Action::Fail(ExitError {
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
            return Action::Fail(ExitError {
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

    /// Moves on to the next master of the list; after the last one, to the first after a wait.
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
            return Action::Fail(ExitError {
                status: 1,
                message: format!("{message} ({why})"),
            });
        }
        if !enough {
            return Action::Wait(self.policy.wait);
        }
        log::error!("{message}");
        // As long as stock waits before it restarts the whole minion.
        if self.wait < self.policy.wait_max {
            self.wait = (self.wait + self.policy.wait).min(self.policy.wait_max);
        }
        Action::Wait(self.wait)
    }
}

#[cfg(test)]
mod tests;

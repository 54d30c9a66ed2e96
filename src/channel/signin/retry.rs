//! Whether and when a minion tries again to sign in.

use super::Accepted;
use super::{EXIT_FINGER, EXIT_REJECTED, Verdict};
use halite_config::MinionConfig;
use halite_sys::exit::ExitError;
use std::time::Duration;

/// The options that control further attempts.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// `auth_timeout`.
    pub timeout: Duration,
    /// `auth_tries`: attempts without a reply that make a failed round.
    pub tries: u32,
    /// `auth_retries`: failed rounds allowed; 0 is no limit.
    pub retries: u32,
    /// `acceptance_wait_time`.
    pub wait: Duration,
    /// `acceptance_wait_time_max`.
    pub wait_max: Duration,
    /// `rejected_retry`.
    pub rejected_retry: bool,
    /// `random_reauth_delay`.
    pub delay: Duration,
    /// For commands, which have a user waiting: try again only if there was no reply.
    pub once: bool,
    /// `auth_safemode`: if there is no reply, wait as for a key that is not accepted yet.
    pub safemode: bool,
    /// `retry_dns`; zero is a single attempt to resolve a name.
    pub retry_dns: Duration,
    /// `retry_dns_count`: attempts after the first; `None` is no limit.
    pub retry_dns_count: Option<u32>,
    /// `master_tries`: passes through a list of masters before an error is logged; below 1 is no limit.
    pub master_tries: i32,
}

impl RetryOptions {
    /// As configured, for the daemon.
    pub fn of(config: &MinionConfig) -> RetryOptions {
        let secs = Duration::from_secs;
        RetryOptions {
            timeout: secs(config.auth_timeout.max(1)),
            tries: config.auth_tries.max(1),
            retries: config.auth_retries,
            wait: secs(config.acceptance_wait_time),
            wait_max: secs(config.acceptance_wait_time_max),
            rejected_retry: config.rejected_retry,
            delay: secs(config.random_reauth_delay),
            once: false,
            safemode: config.auth_safemode,
            retry_dns: secs(config.retry_dns),
            retry_dns_count: config.retry_dns_count,
            master_tries: config.master_tries,
        }
    }
}

/// What to do after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Use the keys.
    Done(Box<Accepted>),
    /// Try again after this wait, which the caller lengthens by a random part.
    Again(Duration),
    /// Try again after a random fraction of this.
    Scattered(Duration),
    /// Give up; the exit status is that of stock.
    Fail(ExitError),
}

/// Attempts at one sign-in. Without `auth_retries`, there is no limit on the wait for acceptance, for a slot
/// or for a master that is down.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    policy: RetryOptions,
    id: String,
    wait: Duration,
    silent: u32,
    rounds: u32,
}

impl RetryPolicy {
    /// Before the first attempt.
    pub fn new(policy: RetryOptions, id: &str) -> RetryPolicy {
        RetryPolicy {
            wait: policy.wait,
            policy,
            id: id.to_owned(),
            silent: 0,
            rounds: 0,
        }
    }

    /// The minion id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How long to wait for a reply.
    pub fn timeout(&self) -> Duration {
        self.policy.timeout
    }

    /// The next step.
    pub fn after(&mut self, verdict: Verdict) -> Step {
        let id = &self.id;
        match verdict {
            Verdict::Accepted(accepted) => Step::Done(accepted),
            Verdict::Silence => self.silence(),
            Verdict::Pending if self.policy.once => fail(
                2,
                "Minion failed to authenticate with the master, has the minion key been accepted?"
                    .into(),
            ),
            Verdict::Pending => {
                log::warn!(
                    "the master keeps the key of {id} until somebody accepts it (`halite-key -a {id}` or `salt-key -a {id}` there)"
                );
                self.grown()
            }
            Verdict::Rejected if self.policy.rejected_retry && !self.policy.once => {
                log::error!(
                    "the master has rejected the key of {id}; `halite-key -d {id}` or `salt-key -d {id}` there lets it in again"
                );
                self.grown()
            }
            Verdict::Rejected => fail(
                EXIT_REJECTED,
                format!(
                    "the master has rejected the key of {id}, or has another key under that name; delete that key on \
                     the master (`halite-key -d {id}` or `salt-key -d {id}`) and start this minion again"
                ),
            ),
            Verdict::Full if self.policy.once => fail(
                1,
                "the master has as many minions as max_minions allows".into(),
            ),
            Verdict::Full => {
                log::error!("the master has as many minions as its option max_minions allows");
                self.again(self.policy.delay.max(self.policy.wait))
            }
            Verdict::BadAlgorithm(option) => {
                let message = format!(
                    "the master does not support the algorithm in the option {option}, or takes no sign-in of Salt's kind (its key is Ed25519): \
                     choose another one, or remove `handshake: salt`"
                );
                if self.policy.once {
                    return fail(1, message);
                }
                // It is not signed: anybody on the way can say so.
                log::error!("{message}");
                self.grown()
            }
            Verdict::WrongFinger(finger) => fail(
                EXIT_FINGER,
                format!(
                    "the master's key has the fingerprint {finger} and not the one in the option master_finger: either \
                     the option is out of date or this is not your master"
                ),
            ),
            Verdict::Untrusted(why) => self.untrusted(&why),
            Verdict::Unreadable => self.untrusted("the reply is not a reply to a sign-in"),
        }
    }

    /// Stock gives up the attempt and restarts the whole minion after `random_reauth_delay`.
    fn untrusted(&mut self, why: &str) -> Step {
        let message = format!(
            "the reply to the sign-in of {} is not acceptable: {why}",
            self.id
        );
        if self.policy.once {
            return fail(1, message);
        }
        log::error!("{message}");
        self.again(self.policy.delay.max(Duration::from_secs(1)))
    }

    fn silence(&mut self) -> Step {
        self.silent += 1;
        if self.silent < self.policy.tries {
            if self.policy.once {
                return Step::Again(Duration::ZERO);
            }
            // A short delay at first, in case the master was only slow; then spread out more and more, in case many
            // minions ask at once.
            let bound = Duration::from_secs(1 << (self.silent - 1).min(16));
            return Step::Scattered(self.policy.delay.min(bound));
        }
        self.silent = 0;
        let message = "Attempt to authenticate with the salt master failed with timeout error";
        if self.policy.once {
            return fail(1, message.into());
        }
        log::error!("{message}; the minion will keep trying");
        if self.policy.safemode {
            return self.grown();
        }
        self.again(self.policy.delay)
    }

    /// A wait for the operator; it grows with each call up to `acceptance_wait_time_max`.
    fn grown(&mut self) -> Step {
        let wait = self.wait;
        let step = self.again(wait);
        if self.wait < self.policy.wait_max {
            self.wait = (self.wait + self.wait).min(self.policy.wait_max);
        }
        step
    }

    fn again(&mut self, wait: Duration) -> Step {
        self.silent = 0;
        self.rounds += 1;
        if self.policy.retries > 0 && self.rounds >= self.policy.retries {
            return fail(
                1,
                format!(
                    "Failed to authenticate with the master after {} attempts",
                    self.rounds
                ),
            );
        }
        Step::Again(wait)
    }
}

fn fail(status: i32, message: String) -> Step {
    Step::Fail(ExitError::new(status, message))
}

//! Encrypted requests over the network: timeouts, retries, and signing in again when the
//! master does not understand us any more (reference `salt-protocol.md` 4.5, 6.1).

use super::MinionError;
use super::interrupt::{Stop, Waker};
use super::request;
use super::requester::{Answer, Requester};
use super::session::{Credentials, Session};
use halite_crypto::nonce;
use halite_sys::time::unix_now_i64;
use halite_wire::{Map, Value};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The master's answer.
    Value(Value),
    /// No answer in any of the tries.
    Silence,
    /// The master cannot read us, although we have just signed in; its words.
    Refused(String),
    /// The process is to end.
    Stopped,
}

/// A connection for requests; each thread has its own.
pub struct Channel {
    session: Arc<Session>,
    requester: Requester,
    stop: Stop,
    wake: Waker,
}

enum Outcome<T> {
    Opened(T),
    Unreadable(String),
    Silence,
    Interrupted,
    Stopped,
}

impl Channel {
    /// A channel; it connects when first used.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(session: &Arc<Session>, stop: Stop) -> io::Result<Channel> {
        let wake = Waker::new()?;
        session.announce_to(&wake);
        Ok(Channel {
            requester: Requester::new(session.context(), session.config(), ""),
            session: session.clone(),
            stop,
            wake,
        })
    }

    /// The session that this speaks under.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What ends waits.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Calls a command of the master: `tries` times `timeout`, each with a new nonce.
    ///
    /// # Errors
    /// A sign-in that became necessary was refused for good.
    pub fn call(
        &mut self,
        load: &Map,
        timeout: Duration,
        tries: u32,
    ) -> Result<Reply, MinionError> {
        self.exchange(load, timeout, tries, |_, credentials, answer, nonce| {
            request::open(credentials, answer, nonce).map_err(|e| e.to_string())
        })
        .map(|outcome| match outcome {
            Outcome::Opened(value) => Reply::Value(value),
            Outcome::Unreadable(words) => Reply::Refused(words),
            Outcome::Silence | Outcome::Interrupted => Reply::Silence,
            Outcome::Stopped => Reply::Stopped,
        })
    }

    /// Fetches the pillar that a load asks for.
    ///
    /// # Errors
    /// A sign-in that became necessary was refused for good.
    pub fn pillar_by(&mut self, load: &Map) -> Result<Reply, MinionError> {
        let (timeout, tries) = self.usual();
        let outcome = self.exchange(
            load,
            timeout,
            tries,
            |session, credentials, answer, nonce| {
                request::open_pillar(session.terms(), credentials, answer, nonce)
                    .map_err(|e| e.to_string())
            },
        )?;
        Ok(match outcome {
            Outcome::Opened(pillar) => Reply::Value(pillar.into()),
            Outcome::Stopped => Reply::Stopped,
            Outcome::Unreadable(why) => Reply::Refused(why),
            Outcome::Silence | Outcome::Interrupted => Reply::Silence,
        })
    }

    /// `request_channel_timeout` and `request_channel_tries`.
    pub fn usual(&self) -> (Duration, u32) {
        let config = self.session.config();
        (
            Duration::from_secs(config.request_channel_timeout.max(1)),
            config.request_channel_tries.max(1),
        )
    }

    fn exchange<T>(
        &mut self,
        load: &Map,
        timeout: Duration,
        tries: u32,
        open: impl Fn(&Session, &Credentials, &[u8], &str) -> Result<T, String>,
    ) -> Result<Outcome<T>, MinionError> {
        let mut silent = 0;
        let mut renewed = false;
        loop {
            let Some(credentials) = self.credentials()? else {
                return Ok(Outcome::Stopped);
            };
            match self.once(&credentials, load, timeout, &open)? {
                Outcome::Unreadable(words) if !renewed => {
                    log::info!(
                        "the master does not know our session key ({words}); signing in again"
                    );
                    renewed = true;
                    self.session.renew(credentials.generation, &self.stop)?;
                }
                Outcome::Silence => {
                    silent += 1;
                    if silent >= tries {
                        return Ok(Outcome::Silence);
                    }
                }
                // New keys: whatever was asked under the old ones is asked again.
                Outcome::Interrupted => {}
                other => return Ok(other),
            }
        }
    }

    fn credentials(&self) -> Result<Option<Arc<Credentials>>, MinionError> {
        if self.stop.is_set() {
            return Ok(None);
        }
        match self.session.present() {
            Some(present) => Ok(Some(present)),
            None => self.session.renew(0, &self.stop),
        }
    }

    fn once<T>(
        &mut self,
        credentials: &Credentials,
        load: &Map,
        timeout: Duration,
        open: &impl Fn(&Session, &Credentials, &[u8], &str) -> Result<T, String>,
    ) -> Result<Outcome<T>, MinionError> {
        self.wake.take();
        self.requester.turn_to(&credentials.request_url);
        let nonce = nonce();
        let sign = self.session.config().minion_sign_messages;
        let body = request::seal(
            self.session.terms(),
            credentials,
            load,
            &nonce,
            unix_now_i64(),
            sign,
        );
        Ok(
            match self
                .requester
                .ask(&body, timeout, &self.stop, Some(&self.wake))?
            {
                Answer::Bytes(answer) => match open(&self.session, credentials, &answer, &nonce) {
                    Ok(value) => Outcome::Opened(value),
                    Err(words) => Outcome::Unreadable(words),
                },
                Answer::Silence => Outcome::Silence,
                Answer::Interrupted => Outcome::Interrupted,
                Answer::Stopped => Outcome::Stopped,
            },
        )
    }
}

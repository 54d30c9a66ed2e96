//! Encrypted requests to the master, with timeouts, retries, and a new sign-in if the
//! master no longer has our session key (reference `salt-protocol.md` 4.5, 6.1).

use super::credentials::Credentials;
use super::interrupt::{Stop, Waker};
use super::load::Load;
use super::request;
use super::requester::{RequestResult, Requester};
use super::session::Session;
use halite_crypto::nonce;
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now_i64;
use halite_wire::{Map, Value};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The master's reply.
    Value(Value),
    /// No reply to any of the tries.
    Silence,
    /// The master cannot decrypt our request, although we have just signed in, or its reply cannot be opened: why.
    Refused(String),
    /// The process must stop.
    Stopped,
}

/// A connection for encrypted requests; each thread has its own.
pub struct Channel {
    session: Arc<Session>,
    requester: Requester,
    stop: Stop,
    wake: Waker,
}

enum CallResult<T> {
    Opened(T),
    Unreadable(String),
    Silence,
    Interrupted,
    Stopped,
}

impl Channel {
    /// Creates a channel; it connects when first used.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(session: &Arc<Session>, stop: Stop) -> io::Result<Channel> {
        let wake = Waker::new()?;
        session.wake_on_new_keys(&wake);
        Ok(Channel {
            requester: Requester::new(session.config(), ""),
            session: session.clone(),
            stop,
            wake,
        })
    }

    /// The session whose keys it uses.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The stop signal that ends its waits.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Sends a command to the master: up to `tries` times, each with a new nonce and a wait of `timeout`.
    ///
    /// # Errors
    /// A new sign-in became necessary and was permanently refused.
    pub fn call<'a>(
        &mut self,
        load: impl Into<Load<'a>>,
        timeout: Duration,
        tries: u32,
    ) -> Result<Reply, ExitError> {
        self.exchange(
            &load.into(),
            timeout,
            tries,
            |_, credentials, answer, nonce| {
                request::open(credentials, answer, nonce).map_err(|e| e.to_string())
            },
        )
        .map(|outcome| match outcome {
            CallResult::Opened(value) => Reply::Value(value),
            CallResult::Unreadable(why) => Reply::Refused(why),
            CallResult::Silence | CallResult::Interrupted => Reply::Silence,
            CallResult::Stopped => Reply::Stopped,
        })
    }

    /// Fetches the pillar with a `_pillar` load.
    ///
    /// # Errors
    /// A new sign-in became necessary and was permanently refused.
    pub fn pillar_by(&mut self, load: &Map) -> Result<Reply, ExitError> {
        let (timeout, tries) = self.usual();
        let outcome = self.exchange(
            &load.into(),
            timeout,
            tries,
            |session, credentials, answer, nonce| {
                request::open_pillar(session.sign_in_config(), credentials, answer, nonce)
                    .map_err(|e| e.to_string())
            },
        )?;
        Ok(match outcome {
            CallResult::Opened(pillar) => Reply::Value(pillar.into()),
            CallResult::Stopped => Reply::Stopped,
            CallResult::Unreadable(why) => Reply::Refused(why),
            CallResult::Silence | CallResult::Interrupted => Reply::Silence,
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
        load: &Load<'_>,
        timeout: Duration,
        tries: u32,
        open: impl Fn(&Session, &Credentials, &[u8], &str) -> Result<T, String>,
    ) -> Result<CallResult<T>, ExitError> {
        let mut silent = 0;
        let mut renewed = false;
        loop {
            let Some(credentials) = self.credentials()? else {
                return Ok(CallResult::Stopped);
            };
            match self.once(&credentials, load, timeout, &open)? {
                CallResult::Unreadable(why) if !renewed => {
                    log::info!(
                        "the master does not know our session key ({why}); signing in again"
                    );
                    renewed = true;
                    self.session.renew(credentials.generation, &self.stop)?;
                }
                CallResult::Silence => {
                    silent += 1;
                    if silent >= tries {
                        return Ok(CallResult::Silence);
                    }
                }
                // There are new keys: repeat the request with them.
                CallResult::Interrupted => {}
                other => return Ok(other),
            }
        }
    }

    fn credentials(&self) -> Result<Option<Arc<Credentials>>, ExitError> {
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
        load: &Load<'_>,
        timeout: Duration,
        open: &impl Fn(&Session, &Credentials, &[u8], &str) -> Result<T, String>,
    ) -> Result<CallResult<T>, ExitError> {
        self.wake.take();
        self.requester.set_url(&credentials.request_url);
        let nonce = nonce();
        let sign = self.session.config().minion_sign_messages;
        let terms = self.session.sign_in_config();
        let body = terms.seal(&credentials.cipher, load, &nonce, unix_now_i64(), sign);
        Ok(
            match self
                .requester
                .request(&body, timeout, &self.stop, Some(&self.wake))?
            {
                RequestResult::Bytes(answer) => {
                    match open(&self.session, credentials, &answer, &nonce) {
                        Ok(value) => CallResult::Opened(value),
                        Err(why) => CallResult::Unreadable(why),
                    }
                }
                // With a new nonce, the master takes the next try for a new request.
                RequestResult::Silence | RequestResult::Lost => CallResult::Silence,
                RequestResult::Interrupted => CallResult::Interrupted,
                RequestResult::Stopped => CallResult::Stopped,
            },
        )
    }
}

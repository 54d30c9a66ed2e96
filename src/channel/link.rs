//! How a running function reaches the master.
//!
//! Each job is a separate process. It gets the minion's current keys together with the job, so that
//! requests to the master need no sign-in; it signs in itself only if the master no longer has
//! those keys. It connects at the first request.

use super::channel::{Channel, Reply};
use super::credentials::Credentials;
use super::interrupt::Stop;
use super::session::{Session, lock};
use super::signin::SignInConfig;
use halite_config::MinionConfig;
use halite_sys::exit::ExitError;
use halite_transport::sockets::Context;
use halite_wire::{Map, Value};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A link to the master; empty if there is no master (`halite-call --local`).
#[derive(Clone, Default)]
pub struct Link(Option<Arc<Mutex<State>>>);

enum State {
    /// What is needed to create the channel at the first request.
    Closed {
        opts: Map,
        grains: Arc<Map>,
        credentials: JobCredentials,
    },
    Open(Box<Channel>),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state holds keys.
        f.write_str(match self.0 {
            Some(_) => "Link",
            None => "Link(none)",
        })
    }
}

/// Why there is no reply from the master.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkError {
    /// There is no link to a master.
    NoMaster,
    /// It did not reply in time.
    Silence,
    /// The request failed, or the master refused it.
    Failed(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::NoMaster => f.write_str("there is no connection to a master"),
            LinkError::Silence => f.write_str("Message timed out"),
            LinkError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<ExitError> for LinkError {
    fn from(e: ExitError) -> LinkError {
        LinkError::Failed(e.message)
    }
}

impl Link {
    /// A link for the process of a job, from the configuration as of [`MinionConfig::as_map`] and the
    /// result of [`export`].
    pub fn of_job(opts: &Map, grains: &Arc<Map>, credentials: Option<JobCredentials>) -> Link {
        Link(credentials.map(|credentials| {
            Arc::new(Mutex::new(State::Closed {
                opts: opts.clone(),
                grains: grains.clone(),
                credentials,
            }))
        }))
    }

    /// A link over an existing channel.
    pub fn over(channel: Channel) -> Link {
        Link(Some(Arc::new(Mutex::new(State::Open(Box::new(channel))))))
    }

    /// Whether there is a link to a master.
    pub fn has_master(&self) -> bool {
        self.0.is_some()
    }

    /// Another link with the same keys, for requests at the same time.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn beside(&self) -> io::Result<Link> {
        let Some(state) = &self.0 else {
            return Ok(Link::default());
        };
        match &*lock(state) {
            State::Closed {
                opts,
                grains,
                credentials,
            } => Ok(Link::of_job(opts, grains, Some(credentials.clone()))),
            State::Open(channel) => {
                let other = Channel::new(channel.session(), channel.stop().clone())?;
                Ok(Link::over(other))
            }
        }
    }

    /// Sends a request with the configured timeout and number of tries.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn call(&self, load: &Map) -> Result<Value, LinkError> {
        self.with(|channel| {
            let (timeout, tries) = channel.usual();
            channel.call(load, timeout, tries)
        })
    }

    /// Sends a request up to `tries` times, each with a wait of `timeout`.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn call_within(
        &self,
        load: &Map,
        timeout: Duration,
        tries: u32,
    ) -> Result<Value, LinkError> {
        self.with(|channel| channel.call(load, timeout, tries))
    }

    /// Requests a pillar.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn pillar(&self, load: &Map) -> Result<Map, LinkError> {
        let answer = self.with(|channel| channel.pillar_by(load))?;
        Ok(answer.into_map().unwrap_or_default())
    }

    fn with(
        &self,
        ask: impl FnOnce(&mut Channel) -> Result<Reply, ExitError>,
    ) -> Result<Value, LinkError> {
        let state = self.0.as_ref().ok_or(LinkError::NoMaster)?;
        let mut state = lock(state);
        let opened = match &*state {
            State::Closed {
                opts,
                grains,
                credentials,
            } => Some(open_channel(opts, grains, credentials)?),
            State::Open(_) => None,
        };
        if let Some(channel) = opened {
            *state = State::Open(Box::new(channel));
        }
        let State::Open(channel) = &mut *state else {
            return Err(LinkError::NoMaster);
        };
        match ask(channel)? {
            Reply::Value(value) => Ok(value),
            Reply::Silence => Err(LinkError::Silence),
            Reply::Refused(words) => Err(LinkError::Failed(words)),
            Reply::Stopped => Err(LinkError::Failed("interrupted".to_owned())),
        }
    }
}

/// What a job needs to send requests under the minion's keys. Passed through a pipe, never stored in a file.
#[derive(Clone)]
pub struct JobCredentials(Map);

impl fmt::Debug for JobCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl JobCredentials {
    /// Wraps what was read from the pipe.
    pub fn unpacked(map: Map) -> JobCredentials {
        JobCredentials(map)
    }

    /// The map to write to the pipe.
    pub fn packed(&self) -> &Map {
        &self.0
    }
}

/// Packs keys for a job, and the proof of the private key, which takes an operation with it.
pub fn export(credentials: &Credentials, config: &SignInConfig) -> JobCredentials {
    JobCredentials(halite_wire::map! {
        "tok" => config.tok().to_vec(),
        "aes" => credentials.aes.as_str(), "session" => credentials.session.as_str(),
        "cipher" => credentials.cipher.kind().enc(),
        "master" => credentials.master.pem.as_str(), "publish_url" => credentials.publish_url.as_str(),
        "request_url" => credentials.request_url.as_str(), "name" => credentials.name.as_str(),
    })
}

fn open_channel(
    opts: &Map,
    grains: &Map,
    credentials: &JobCredentials,
) -> Result<Channel, ExitError> {
    let bad = |e: &dyn fmt::Display| ExitError::new(1, e.to_string());
    let file = Path::new(opts.str("conf_file").unwrap_or_default());
    let dir = file.parent().unwrap_or(Path::new("/"));
    let mut own = opts.clone();
    for key in ["conf_file", "__role"] {
        own.remove(key);
    }
    let config = Arc::new(MinionConfig::from_map(own, dir).map_err(|e| bad(&e))?);
    let session = Session::new(config, grains, &Context::new(), true)?;
    if let Some(present) = Credentials::unpack(&credentials.0) {
        session.resume(present);
    }
    if let Some(tok) = credentials.0.bytes("tok") {
        // A new session has none yet.
        let _ = session.sign_in_config().tok.set(tok.to_vec());
    }
    Ok(Channel::new(&Arc::new(session), Stop::never()?)?)
}

//! What minions ask for by themselves, and whether what they get is right: no IO, no sockets.

pub mod events;
pub mod files;
pub mod pillar;

use super::session::Fault;
use events::Events;
use files::Files;
use pillar::Pillars;
use std::fmt;
use std::sync::Arc;

/// A kind of work that minions do in turn.
#[derive(Clone, Debug, Default)]
pub enum Work {
    /// Returns of jobs that the master may never have published.
    #[default]
    Returns,
    /// Pillars.
    Pillars(Arc<Pillars>),
    /// Files, or pieces of one.
    Files(Arc<Files>),
    /// Events.
    Events(Arc<Events>),
}

/// Why an answer is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// It is time to sign in again and to repeat the request.
    SignInAgain,
    /// It is wrong.
    Wrong(String),
}

impl From<Fault> for ReplyError {
    fn from(fault: Fault) -> ReplyError {
        match fault {
            Fault::SignInAgain => ReplyError::SignInAgain,
            other => ReplyError::Wrong(other.to_string()),
        }
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ReplyError::SignInAgain => Fault::SignInAgain.fmt(f),
            ReplyError::Wrong(why) => f.write_str(why),
        }
    }
}

/// Shorthand for a wrong answer.
pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, ReplyError> {
    Err(ReplyError::Wrong(why.into()))
}

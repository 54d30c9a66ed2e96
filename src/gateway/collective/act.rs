//! What the two halves of the gateway ask the loop to do.

use crate::gateway::clerk::Task;
use crate::transport::collective::{Place, To};
use crate::wire::collective::{
    CallerId, Federation, Form, Packet, PacketForm, Reply, Request, Route,
};
use std::time::{Duration, Instant, SystemTime};

/// Something to be done, in the order in which it was decided.
#[derive(Debug)]
pub(super) enum Act {
    /// Hear what comes in there.
    Subscribe(Place),
    /// Hear it no longer.
    Unsubscribe(Place),
    /// Send a request of our own.
    Ask(To, Box<Request>),
    /// Answer a request.
    Answer(Box<Answer>),
    /// Give the clerk something to write.
    Write(Task),
}

/// An answer, with what is to be known of its question.
#[derive(Debug)]
pub(super) struct Answer {
    /// What is answered.
    pub reply: Reply,
    /// How the question was written.
    pub form: Form,
    /// Who asked.
    pub caller: CallerId,
    /// What carried the question.
    pub origin: Origin,
}

/// What carried a request, as far as its answer needs it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    /// `reply-to`.
    pub reply_to: String,
    /// How the packet was written.
    pub form: PacketForm,
    /// What a federation's broker needs to find the client.
    pub federation: Option<Federation>,
    /// Hops so far, where they are to be recorded.
    pub seen_by: Option<Route>,
}

impl Origin {
    /// What carried a request; `None` if nobody waits for an answer.
    pub fn of(packet: &Packet) -> Option<Origin> {
        Some(Origin {
            reply_to: packet.reply_to.clone().filter(|to| !to.is_empty())?,
            form: packet.form,
            federation: packet.federation.clone(),
            seen_by: packet.seen_by.clone(),
        })
    }
}

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// For waiting.
    pub at: Instant,
    /// Seconds since 1970, as messages tell it.
    pub unix: i64,
}

impl Clock {
    /// Now.
    pub fn now() -> Clock {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        Clock {
            at: Instant::now(),
            unix: i64::try_from(seconds).unwrap_or(i64::MAX),
        }
    }

    /// Later, or earlier never.
    #[cfg(test)]
    pub fn after(self, time: Duration) -> Clock {
        Clock {
            at: self.at + time,
            unix: self.unix + i64::try_from(time.as_secs()).unwrap_or(0),
        }
    }

    /// Whether so much time has passed since then.
    pub fn is_past(self, since: Instant, time: Duration) -> bool {
        self.at.duration_since(since) >= time
    }
}

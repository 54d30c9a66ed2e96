//! What a genuine request has to pass before any node looks at it: place, age, replay.

use crate::broker::Place;
use crate::gateway::act::Clock;
use crate::security::{Replay, check_age};
use crate::wire::{Identity, Refused, Request};

/// Requests that are remembered: at most this many times 200 bytes.
const REMEMBERED: usize = 200_000;

/// The doors.
pub(super) struct ReplayGuard {
    replay: Replay,
}

impl ReplayGuard {
    /// Nothing has been seen yet.
    pub fn new() -> ReplayGuard {
        ReplayGuard {
            replay: Replay::new(REMEMBERED),
        }
    }

    /// Whom a request is for: everybody (`None`) or one node.
    ///
    /// # Errors
    /// Why nobody looks at it.
    pub fn pass<'a>(
        &mut self,
        place: Option<&'a Place>,
        request: &Request,
        now: Clock,
    ) -> Result<Option<&'a Identity>, Refused> {
        let wrong = |what: &str| {
            let text = format!("it came in at another {what} than it names");
            Err(Refused::Malformed(text))
        };
        let node = match place {
            Some(Place::Broadcast(collective, _)) if *collective != request.collective => {
                return wrong("collective");
            }
            Some(Place::Broadcast(_, agent)) if *agent != request.agent => return wrong("agent"),
            Some(Place::Broadcast(..)) => None,
            Some(Place::Node(collective, _)) if *collective != request.collective => {
                return wrong("collective");
            }
            Some(Place::Node(_, node)) => Some(node),
            // Everybody would take it for its own.
            Some(Place::Replies(_)) | None => {
                let text = "the broker does not tell to whom it was sent".to_owned();
                return Err(Refused::Malformed(text));
            }
        };
        check_age(request.time, request.ttl, now.unix)?;
        self.replay.check(request, node, now.unix)?;
        Ok(node)
    }

    /// Requests that had to be forgotten too early: they could run again.
    pub fn evicted(&self) -> u64 {
        self.replay.evicted()
    }
}

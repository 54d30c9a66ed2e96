//! Checks of a genuine request before any node processes it: place, age, replay.

use crate::broker::Place;
use crate::gateway::act::Clock;
use crate::security::{Replay, check_age};
use crate::wire::{Identity, Refused, Request};

/// Number of requests remembered, at most 200 bytes each.
const REMEMBERED: usize = 200_000;

/// The checks, with the requests remembered.
pub(super) struct ReplayGuard {
    replay: Replay,
}

impl ReplayGuard {
    /// A guard that remembers no requests.
    pub fn new() -> ReplayGuard {
        ReplayGuard {
            replay: Replay::new(REMEMBERED),
        }
    }

    /// Checks a request. Returns which node it is for, or `None` for all nodes.
    ///
    /// # Errors
    /// Why it is refused.
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
            // Otherwise each node would consider itself addressed.
            Some(Place::Replies(_)) | None => {
                let text = "the broker does not report where it was sent to".to_owned();
                return Err(Refused::Malformed(text));
            }
        };
        check_age(request.time, request.ttl, now.unix)?;
        self.replay.check(request, node, now.unix)?;
        Ok(node)
    }

    /// Number of requests forgotten too early, which could run again.
    pub fn evicted(&self) -> u64 {
        self.replay.evicted()
    }
}

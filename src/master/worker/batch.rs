//! Returns and events of the requests at hand: kept together, told together.
//!
//! A worker gets several returns at once. Each is handled by itself up to where it would be kept; then all are kept
//! with one write for each job, and only then the bus hears of them with one write, in the order in which
//! they came. Who asks for anything else finds all that came before it settled.

use super::context::Context;
use crate::returns;
use halite_store::jobs::Returned;
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};

/// What the requests at hand have led to so far.
#[derive(Default)]
pub(crate) struct Batch {
    /// Number of the request at hand.
    request: usize,
    happened: Vec<Pending>,
    /// Requests whose returns could not be kept.
    unkept: Vec<usize>,
}

enum Pending {
    Return {
        request: usize,
        keep: Keep,
        jid: Jid,
        id: MinionId,
        load: Map,
    },
    Event {
        tag: String,
        data: Map,
    },
}

/// Whether a return goes into the job cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The bus hears of it, that is all.
    No,
    /// With its job.
    Yes,
    /// As the beginning of a job of its own, too.
    AsJob,
}

impl Batch {
    /// The request with that number is next.
    pub fn begin(&mut self, request: usize) {
        self.request = request;
    }

    /// A return that has come.
    pub fn returned(&mut self, keep: Keep, jid: Jid, id: MinionId, load: Map) {
        self.happened.push(Pending::Return {
            request: self.request,
            keep,
            jid,
            id,
            load,
        });
    }

    /// An event for the bus.
    pub fn fire(&mut self, tag: &str, data: Map) {
        self.happened.push(Pending::Event {
            tag: tag.to_owned(),
            data,
        });
    }

    /// Numbers of requests whose returns could not be kept, since the last time this was asked.
    pub fn take_unkept(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unkept)
    }
}

/// Keeps the returns and tells the bus. What cannot be kept because of what is in it is told all the same; what the
/// disk does not take is not told, and its request not answered, so that it comes again.
pub(super) fn flush(worker: &mut Context) {
    let happened = std::mem::take(&mut worker.batch.happened);
    if happened.is_empty() {
        return;
    }
    let kept: Vec<_> = happened
        .iter()
        .filter_map(|one| match one {
            Pending::Return {
                keep: keep @ (Keep::Yes | Keep::AsJob),
                jid,
                id,
                load,
                ..
            } => Some(Returned {
                jid,
                id,
                load,
                begins: *keep == Keep::AsJob,
            }),
            _ => None,
        })
        .collect();
    let mut outcomes = worker.stores.jobs.save_returns(&kept).into_iter();
    let mut events = Vec::with_capacity(happened.len());
    for one in happened {
        let (request, keep, jid, id, load) = match one {
            Pending::Event { tag, data } => {
                events.push((tag, data));
                continue;
            }
            Pending::Return {
                request,
                keep,
                jid,
                id,
                load,
            } => (request, keep, jid, id, load),
        };
        let outcome = match keep {
            Keep::No => Ok(()),
            Keep::Yes | Keep::AsJob => outcomes.next().unwrap_or(Ok(())),
        };
        if let Err(e) = returns::kept(&id, outcome) {
            log::error!(
                "a return of {id} could not be kept ({e}); it is not acknowledged, so that it comes again"
            );
            worker.batch.unkept.push(request);
            continue;
        }
        events.push((returns::tag(&jid, &id), load));
    }
    worker.bus.fire_all(events);
}

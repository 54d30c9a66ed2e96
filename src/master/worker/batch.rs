//! Returns and events of the current requests, stored together and fired together.
//!
//! A worker gets several returns at once. Each is handled on its own up to the point where it would be stored;
//! then all are stored with one write per job, and only then are their events fired with one write, in the
//! order of arrival. Any other request first has everything before it flushed.

use crate::events::Bus;
use crate::returns;
use halite_store::jobs::{JobStore, Returned};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::BTreeSet;

/// Results of the current requests so far.
#[derive(Default)]
pub(crate) struct Batch {
    /// Number of the current request.
    request: usize,
    happened: Vec<Pending>,
    /// Requests whose returns could not be stored.
    unkept: Vec<usize>,
    /// Jobs whose returns were stored.
    stored: BTreeSet<Jid>,
}

enum Pending {
    Return {
        request: usize,
        keep: ReturnStorage,
        jid: Jid,
        id: MinionId,
        load: Map,
    },
    Event {
        tag: String,
        data: Map,
    },
}

/// Whether to store a return in the job cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnStorage {
    /// Only fire the event.
    No,
    /// Store it with its job.
    Yes,
    /// Also create a job for it.
    AsJob,
}

impl Batch {
    /// Starts the request with that number.
    pub fn begin(&mut self, request: usize) {
        self.request = request;
    }

    /// Adds a return.
    pub fn returned(&mut self, keep: ReturnStorage, jid: Jid, id: MinionId, load: Map) {
        self.happened.push(Pending::Return {
            request: self.request,
            keep,
            jid,
            id,
            load,
        });
    }

    /// Adds an event.
    pub fn fire(&mut self, tag: &str, data: Map) {
        self.happened.push(Pending::Event {
            tag: tag.to_owned(),
            data,
        });
    }

    /// Numbers of requests whose returns could not be stored, since the last call.
    pub fn take_unkept(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unkept)
    }

    /// Jobs whose returns were stored, since the last call.
    pub fn take_stored(&mut self) -> BTreeSet<Jid> {
        std::mem::take(&mut self.stored)
    }

    /// Stores the returns and fires the events. If a return cannot be stored because of its content, its event is
    /// fired all the same. If it cannot be stored for other reasons, such as a full disk, no event is fired, and
    /// its request is not answered, so that the minion sends it again.
    pub fn flush(&mut self, jobs: &dyn JobStore, bus: &mut Bus) {
        let happened = std::mem::take(&mut self.happened);
        if happened.is_empty() {
            return;
        }
        let kept: Vec<_> = happened
            .iter()
            .filter_map(|one| match one {
                Pending::Return {
                    keep: keep @ (ReturnStorage::Yes | ReturnStorage::AsJob),
                    jid,
                    id,
                    load,
                    ..
                } => Some(Returned {
                    jid,
                    id,
                    load,
                    starts_job: *keep == ReturnStorage::AsJob,
                }),
                _ => None,
            })
            .collect();
        let mut outcomes = jobs.save_returns(&kept).into_iter();
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
                ReturnStorage::No => Ok(()),
                ReturnStorage::Yes | ReturnStorage::AsJob => outcomes.next().unwrap_or(Ok(())),
            };
            if let Err(e) = returns::kept(&id, outcome) {
                log::error!(
                    "a return of {id} could not be stored ({e}); it is not acknowledged, so that it is sent again"
                );
                self.unkept.push(request);
                continue;
            }
            events.push((returns::tag(&jid, &id), load));
            if keep != ReturnStorage::No {
                self.stored.insert(jid);
            }
        }
        bus.fire_all(events);
    }
}

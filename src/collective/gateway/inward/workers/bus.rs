//! Listens to the event bus for returns of the collective's jobs and for changes of the fleet.

use super::{OwnJobs, tell};
use crate::gateway::inward::News;
use crossbeam_channel::Sender;
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::is_trimmed;
use halite_store::Stores;
use halite_store::jobs::JobStore;
use halite_sys::signals::StopFlag;
use halite_wire::ids::{Jid, MinionId, parse_return_tag};
use halite_wire::{Map, msgpack};

/// Jid and minion id from the tag of a return.
fn of_return(tag: &str) -> Option<(Jid, MinionId)> {
    let (jid, id) = parse_return_tag(tag)?;
    Some((jid.parse().ok()?, id.parse().ok()?))
}

/// Whether this event may change nodes, their facts or their classes.
pub(super) fn changes(tag: &str) -> bool {
    let start = tag
        .strip_prefix("salt/minion/")
        .and_then(|rest| rest.strip_suffix("/start"));
    start.is_some_and(|id| !id.contains('/'))
        || tag == "salt/key"
        || tag == "salt/presence/change"
        || tag.starts_with("minion/refresh/")
}

/// The full return: one that was too large for the bus is read from the job cache.
fn whole(load: Map, jid: &Jid, id: &MinionId, jobs: &dyn JobStore) -> Map {
    if !is_trimmed(&load) {
        return load;
    }
    match jobs.get(jid) {
        Ok(Some(job)) => {
            let mut returns = job.returns.into_iter();
            let found = returns.find(|stored| stored.id == id.as_str());
            found.map_or(load, |stored| stored.load)
        }
        Ok(None) => load,
        Err(e) => {
            log::warn!("the return of {id} for the job {jid} cannot be read: {e}");
            load
        }
    }
}

/// The news in an event, if it is a return of one of our jobs.
pub(super) fn returned(event: &Event, own: &OwnJobs, jobs: &dyn JobStore) -> Option<News> {
    let (jid, id) = of_return(&event.tag)?;
    if !own.has(&jid) {
        return None;
    }
    let load = msgpack::decode(&event.payload).ok()?.into_map()?;
    let load = whole(load, &jid, &id, jobs);
    Some(News::Returned(jid, id, load))
}

/// Listens to the bus until the role must stop.
pub(super) fn run(
    config: &MasterConfig,
    stores: &Stores,
    stop: &StopFlag,
    own: &OwnJobs,
    news: &Sender<News>,
    bell: &Sender<()>,
) {
    let path = config.event_pub();
    // A new survey finds what was missed while the bus was unavailable.
    let mut connected = || ring(bell);
    let mut each = |event: Event| {
        if changes(&event.tag) {
            ring(bell);
        } else if let Some(item) = returned(&event, own, &*stores.jobs) {
            tell(news, stop, item);
        }
    };
    listen(path, stop, &mut connected, &mut each);
}

/// Requests a survey, unless one is already requested.
fn ring(bell: &Sender<()>) {
    let _ = bell.try_send(());
}

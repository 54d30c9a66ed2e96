//! What the bus tells: returns of the collective's jobs, and that the fleet has changed.

use super::{Own, tell};
use crate::gateway::inward::News;
use crossbeam_channel::Sender;
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::TRIMMED;
use halite_store::Stores;
use halite_store::jobs::JobStore;
use halite_sys::signals::StopFlag;
use halite_wire::ids::{Jid, MinionId, parse_return_tag};
use halite_wire::{Map, msgpack};

/// The job and the minion of a return's tag.
fn of_return(tag: &str) -> Option<(Jid, MinionId)> {
    let (jid, id) = parse_return_tag(tag)?;
    Some((jid.parse().ok()?, id.parse().ok()?))
}

/// Whether nodes, their facts or their classes may be others after this event.
pub(super) fn changes(tag: &str) -> bool {
    let start = tag
        .strip_prefix("salt/minion/")
        .and_then(|rest| rest.strip_suffix("/start"));
    start.is_some_and(|id| !id.contains('/'))
        || tag == "salt/key"
        || tag == "salt/presence/change"
        || tag.starts_with("minion/refresh/")
}

/// A return that was too large for the bus stands in the job cache.
fn whole(load: Map, jid: &Jid, id: &MinionId, jobs: &dyn JobStore) -> Map {
    if !load.iter().any(|(_, value)| value.is_str(TRIMMED)) {
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

/// What an event tells, if it is a return of one of these jobs.
pub(super) fn returned(event: &Event, own: &Own, jobs: &dyn JobStore) -> Option<News> {
    let (jid, id) = of_return(&event.tag)?;
    if !own.has(&jid) {
        return None;
    }
    let load = msgpack::decode(&event.payload).ok()?.into_map()?;
    let load = whole(load, &jid, &id, jobs);
    Some(News::Returned(jid, id, load))
}

/// Hears the bus until the role is told to stop.
pub(super) fn hear(
    config: &MasterConfig,
    stores: &Stores,
    stop: &StopFlag,
    own: &Own,
    news: &Sender<News>,
    bell: &Sender<()>,
) {
    let path = config.event_pub();
    // Whatever happened while the bus was away is found by a new survey.
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

/// A bell that rings already need not be rung.
fn ring(bell: &Sender<()>) {
    let _ = bell.try_send(());
}

//! Returns and events from lower masters, sent by their syndics (`salt/master.py AESFuncs._syndic_return`,
//! `_handle_minion_event`).
//!
//! Requires `order_masters`; without it a syndic's command is refused. Ids in a syndic's load name minions that
//! this master does not know: a minion with an accepted key here must report itself, and no syndic may speak
//! for it.

use super::RequestAnswer;
use super::context::Context;
use super::sealed::{Opened, Sealed};
use crate::returns::store_and_fire;
use halite_store::keys::KeyState;
use halite_sys::exit::ExitError;
use halite_wire::ids::{Jid, MinionId, Tag};
use halite_wire::{Map, Value};

/// Most returns in one request.
const MOST_RETURNS: usize = 100_000;

/// Answers `_syndic_return`; if returns could not be stored, it is not acknowledged, so that they are sent
/// again.
pub(crate) fn answer(worker: &mut Context, mut opened: Opened, _: &Sealed<'_>) -> RequestAnswer {
    let load = std::mem::take(&mut opened.load);
    match returns(worker, &opened.id, load) {
        Ok(()) => opened.reply(&Value::Nil),
        Err(e) => {
            let id = &opened.id;
            log::error!(
                minion:% = id;
                "a return of {id} could not be stored ({e}); it is not acknowledged, so that it is sent again"
            );
            RequestAnswer::none()
        }
    }
}

/// Handles returns of minions below as if they had sent them.
fn returns(worker: &mut Context, syndic: &MinionId, mut load: Map) -> Result<(), ExitError> {
    // Old syndics send one job, newer ones a list.
    let jobs = match load.remove("load") {
        Some(Value::Array(jobs)) => jobs,
        Some(other) => {
            load.set("load", other);
            vec![load.into()]
        }
        None => vec![load.into()],
    };
    worker.stores.syndics.put(syndic)?;
    let mut count = 0;
    for job in jobs.into_iter().filter_map(Value::into_map) {
        count += job
            .get("return")
            .and_then(Value::as_map)
            .map_or(0, Map::len);
        if count > MOST_RETURNS {
            log::error!(
                "{syndic} sent more than {MOST_RETURNS} returns at once; the rest is refused"
            );
            break;
        }
        one_job(worker, syndic, job)?;
    }
    Ok(())
}

fn one_job(worker: &mut Context, syndic: &MinionId, mut job: Map) -> Result<(), ExitError> {
    let Some(Ok(jid)) = job.str("jid").map(str::parse::<Jid>) else {
        log::warn!("{syndic} sent returns for an invalid job");
        return Ok(());
    };
    if let Some(Value::Map(load)) = job.remove("load")
        && !load.is_empty()
        && worker
            .stores
            .jobs
            .get(&jid)?
            .is_none_or(|known| known.load.is_empty())
    {
        worker.stores.jobs.save_load(&jid, &load, &[], &[])?;
    }
    let Some(Value::Map(returns)) = job.remove("return") else {
        return Ok(());
    };
    let shared: Map = ["master_id", "fun", "fun_args", "out"]
        .into_iter()
        .filter_map(|key| {
            job.get(key)
                .filter(|v| !v.is_nil())
                .map(|v| (key, v.clone()))
        })
        .collect();
    for (id, part) in returns.0 {
        let Some(Ok(id)) = id.as_str().map(str::parse::<MinionId>) else {
            log::warn!("{syndic} sent a return with an invalid minion id");
            continue;
        };
        if id != *syndic && worker.stores.keys.get(KeyState::Accepted, &id)?.is_some() {
            log::warn!("{syndic} sent a return of {id}, which belongs to this master; refused");
            continue;
        }
        let Value::Map(part) = part else {
            continue;
        };
        one_return(worker, &jid, &id, part, &shared)?;
    }
    Ok(())
}

fn one_return(
    worker: &mut Context,
    jid: &Jid,
    id: &MinionId,
    part: Map,
    shared: &Map,
) -> Result<(), ExitError> {
    let mut load = halite_wire::map! {"jid" => jid.as_str(), "id" => id.as_str()};
    for (key, value) in part.iter().chain(shared.iter()) {
        match key.as_str() {
            None | Some("jid" | "id" | "sig" | "cmd") => {}
            Some(key) if load.contains(key) => {}
            Some(key) => load.set(key, value.clone()),
        }
    }
    let store = worker.config.job_cache;
    store_and_fire(&*worker.stores.jobs, &mut worker.bus, store, jid, id, load)?;
    Ok(())
}

/// Fires an event from below under the syndic's own tag only, `syndic/<id>/<tag>`; records which minions a
/// lower master expects to return.
pub(super) fn event(
    worker: &mut Context,
    syndic: &MinionId,
    tag: &str,
    data: Map,
) -> Result<(), ExitError> {
    if let (Some(Ok(jid)), Some(Value::Array(minions))) =
        (data.str("jid").map(str::parse::<Jid>), data.get("minions"))
    {
        expect(worker, &jid, minions)?;
    }
    match format!("syndic/{syndic}/{tag}").parse::<Tag>() {
        Ok(tag) => worker.batch.fire(tag.as_str(), data),
        Err(e) => log::warn!("{syndic}: {e}"),
    }
    Ok(())
}

/// Adds minions below to those expected to return (`salt/utils/job.py store_minions`).
fn expect(worker: &mut Context, jid: &Jid, minions: &[Value]) -> Result<(), ExitError> {
    let Some(job) = worker.stores.jobs.get(jid)? else {
        return Ok(());
    };
    let mut all = job.minions.clone();
    for id in minions.iter().filter_map(Value::as_str) {
        if id.parse::<MinionId>().is_ok() && !all.iter().any(|own| own == id) {
            all.push(id.to_owned());
        }
    }
    if all.len() > job.minions.len() && all.len() <= MOST_RETURNS {
        worker
            .stores
            .jobs
            .save_load(jid, &job.load, &all, &job.missing)?;
    }
    Ok(())
}

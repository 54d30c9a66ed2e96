//! Returns and events from lower masters, sent by their syndics (`salt/master.py AESFuncs._syndic_return`,
//! `_handle_minion_event`).
//!
//! Requires `order_masters`; without it a syndic's command is refused. Ids in a syndic's load name minions that
//! this master does not know: a minion with an accepted key here must report itself, and no syndic may speak
//! for it.

use super::RequestAnswer;
use super::context::Context;
use super::publish::FAR;
use super::sealed::{Opened, Sealed};
use crate::returns::store_and_fire;
use halite_store::keys::KeyState;
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now_i64;
use halite_wire::ids::{Jid, MinionId, Tag};
use halite_wire::{Map, Value};
use std::collections::HashSet;

/// Most returns in one request.
const MOST_RETURNS: usize = 100_000;
/// Most jobs in one request. Each may become a file.
const MOST_JOBS: usize = 10_000;

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
    if jobs.len() > MOST_JOBS {
        log::error!("{syndic} sent more than {MOST_JOBS} jobs at once; the rest is refused");
    }
    let jobs = jobs.into_iter().take(MOST_JOBS);
    for job in jobs.filter_map(Value::into_map) {
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
    // Jobs are removed by the time in their jid, so that one of the year 9999 would stay.
    let newest = Jid::from_time(unix_now_i64() + FAR, 0);
    if jid.as_str() > newest.as_str() {
        log::warn!("{syndic} sent returns for job {jid}, which is in the future; refused");
        return Ok(());
    }
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
    let load = merged(jid, id, part, shared);
    let store = worker.config.job_cache;
    store_and_fire(&*worker.stores.jobs, &mut worker.bus, store, jid, id, load)?;
    Ok(())
}

/// The return of a minion; what it does not say is that of all minions.
fn merged(jid: &Jid, id: &MinionId, part: Map, shared: &Map) -> Map {
    let mut load = halite_wire::map! {"jid" => jid.as_str(), "id" => id.as_str()};
    let mut seen: HashSet<String> = ["jid", "id", "sig", "cmd"].map(str::to_owned).into();
    for (key, value) in part.0.into_iter().chain(shared.0.clone()) {
        if let Value::Str(key) = key
            && seen.insert(key.clone())
        {
            load.0.push((key.into(), value));
        }
    }
    load
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
    if let Some(all) = extended(&job.minions, minions) {
        worker
            .stores
            .jobs
            .save_load(jid, &job.load, &all, &job.missing)?;
    }
    Ok(())
}

/// `known` with the ids in `more` that are new; `None` if there are none, or too many.
fn extended(known: &[String], more: &[Value]) -> Option<Vec<String>> {
    if more.len() > MOST_RETURNS {
        return None;
    }
    let mut seen: HashSet<&str> = known.iter().map(String::as_str).collect();
    let new = more.iter().filter_map(Value::as_str);
    let new = new.filter(|id| seen.insert(*id) && id.parse::<MinionId>().is_ok());
    let all: Vec<String> = known
        .iter()
        .map(String::as_str)
        .chain(new)
        .map(str::to_owned)
        .collect();
    (all.len() > known.len() && all.len() <= MOST_RETURNS).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minion_speaks_before_its_syndic() {
        let (jid, id) = (
            "20260101000000000000".parse().unwrap(),
            "m1".parse().unwrap(),
        );
        let part = halite_wire::map! {"return" => 1, "id" => "other", "cmd" => "x", "fun" => "own"};
        let shared = halite_wire::map! {"fun" => "shared", "master_id" => "m", "sig" => "x"};
        let expected = halite_wire::map! {
            "jid" => "20260101000000000000", "id" => "m1", "return" => 1, "fun" => "own", "master_id" => "m",
        };
        assert_eq!(merged(&jid, &id, part, &shared), expected);
    }

    #[test]
    fn new_ids_are_added_once() {
        let known = ["a".to_owned(), "b".to_owned()];
        let ids = |ids: &[&str]| -> Vec<Value> { ids.iter().map(|id| (*id).into()).collect() };
        assert_eq!(extended(&known, &ids(&["b", "a", "../x"])), None);
        let more = extended(&known, &ids(&["c", "b", "c"]));
        assert_eq!(more.unwrap(), ["a", "b", "c"]);
    }

    /// With a search for each, this would take longer than any test may.
    #[test]
    fn many_fields_and_ids_are_no_burden() {
        let (jid, id) = (
            "20260101000000000000".parse().unwrap(),
            "m1".parse().unwrap(),
        );
        let part: Map = (0..1_000_000).map(|n| (n.to_string(), n)).collect();
        assert_eq!(merged(&jid, &id, part, &Map::new()).len(), 1_000_002);
        let ids: Vec<Value> = (0..MOST_RETURNS).map(|n| n.to_string().into()).collect();
        assert_eq!(extended(&[], &ids).map(|all| all.len()), Some(MOST_RETURNS));
        let more: Vec<Value> = (0..=MOST_RETURNS).map(|n| n.to_string().into()).collect();
        assert_eq!(extended(&[], &more), None);
    }
}

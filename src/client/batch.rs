//! Rolling batches, as a window over the minions that answer a ping (`salt/cli/batch.py`; reference
//! `salt-local.md` 3.5), and subsets.

pub use super::batch_record::{BatchOptions, can_hand_over, hand_over, has_manager};

use super::batch_record::BatchRecord;
use super::gather::{Gather, GatherTimeouts, MinionOutcome, OnState};
use super::local::{ClientError, Job, LocalClient, Published};
use halite_ipc::Subscriber;
use halite_store::jobs::JobReader;
use halite_sys::signals::StopFlag;
use halite_wire::Value;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Observes a batch run.
pub trait BatchObserver {
    /// No minion matched the target.
    fn no_minions(&mut self);
    /// A minion did not answer the ping and is skipped.
    fn not_responding(&mut self, id: &str);
    /// The next minions are about to get the job.
    fn batch_starts(&mut self, ids: &[String]);
    /// The job was published to them.
    fn published(&mut self, published: &Published);
    /// The outcome of the job on one minion.
    fn outcome(&mut self, id: &str, outcome: MinionOutcome);
    /// Whether a minion failed or did not return.
    fn failed(&self) -> bool;
    /// The batch has ended for this reason before these minions got the job.
    fn halted(&mut self, reason: &str, left: &[String]);
}

/// A client, and what it needs to wait for returns.
pub struct JobSession<'a> {
    /// Publishes.
    pub client: &'a mut LocalClient,
    /// The event bus, subscribed before the first job.
    pub events: &'a mut Subscriber,
    /// The job cache.
    pub jobs: &'a dyn JobReader,
    /// How long to wait for minions.
    pub patience: GatherTimeouts,
    /// Cancels the wait.
    pub stop: &'a StopFlag,
    /// Is told the results of single states.
    pub on_state: Option<OnState<'a>>,
}

/// Whether a batch size is valid: a number, or a share such as `25%`.
pub fn is_size(size: &str) -> bool {
    window(size, 100).is_some()
}

/// Window size for `count` minions; `None` if the batch size is invalid.
fn window(size: &str, count: usize) -> Option<usize> {
    let size = size.trim();
    let places = match size.strip_suffix('%').or_else(|| size.strip_prefix('%')) {
        Some(percent) => {
            let share: f64 = percent.parse().ok()?;
            let exact = share / 100.0 * count as f64;
            (share > 0.0).then(|| (exact as usize).max(1))?
        }
        None => size.parse().ok()?,
    };
    (places > 0).then_some(places)
}

/// Runs `job` in batches. With a size that [`is_size`] rejects, nothing is run.
pub fn run(
    session: &mut JobSession,
    job: Job,
    plan: &BatchOptions,
    observer: &mut dyn BatchObserver,
) -> Result<(), ClientError> {
    let Some((ids, places)) = members(session, &job, plan, observer)? else {
        return Ok(());
    };
    let mut record = match ids.is_empty() {
        true => None,
        false => {
            let part = (ids.as_slice(), places);
            BatchRecord::begin(session.client, &job, plan, session.patience, part)
        }
    };
    // All parts are one job where it has a record.
    let jid = record.as_ref().map_or(String::new(), |r| r.jid.to_string());
    let mut queue = VecDeque::from(ids);
    let patience = GatherTimeouts {
        together: false,
        ..session.patience
    };
    let stop = session.stop;
    let mut gather = Gather::new(session.client, session.events, Some(session.jobs), patience);
    gather.on_state = session.on_state;
    if let Some(record) = &record {
        gather.heed_stop(&record.jid);
    }
    let mut left: Vec<String> = Vec::new();
    let mut free_at = vec![Instant::now(); places];
    while (!queue.is_empty() || gather.waiting() > 0) && !stop.is_set() {
        if plan.failhard && observer.failed() {
            gather.halted.get_or_insert_with(|| "failhard".to_owned());
        }
        if gather.halted.is_some() {
            left.extend(queue.drain(..));
        }
        let now = Instant::now();
        let mut next = Vec::new();
        while gather.waiting() + next.len() < places && !queue.is_empty() {
            let Some(slot) = free_at.iter().position(|at| *at <= now) else {
                break;
            };
            free_at.swap_remove(slot);
            next.extend(queue.pop_front());
        }
        if !next.is_empty() {
            observer.batch_starts(&next);
            if let Some(record) = &mut record {
                record.started(&next);
            }
            let published = gather.client.publish(&Job {
                tgt: next.into(),
                tgt_type: "list".into(),
                jid: jid.clone(),
                ..job.clone()
            })?;
            observer.published(&published);
            gather.add_job(&published);
        }
        let before = gather.waiting();
        gather.poll(Duration::from_millis(50), &mut |id, outcome| {
            if let Some(record) = &mut record {
                record.ended(id, &outcome);
            }
            observer.outcome(id, outcome)
        })?;
        if let Some(record) = &mut record {
            record.tick();
        }
        let freed = before - gather.waiting();
        free_at.extend(std::iter::repeat_n(Instant::now() + plan.wait, freed));
    }
    let interrupted = stop.is_set().then(|| "interrupted".to_owned());
    let halted = gather.halted.clone().or(interrupted);
    gather.cancel(&mut |id, outcome| observer.outcome(id, outcome));
    left.extend(queue);
    if let Some(reason) = halted.as_deref().filter(|_| !left.is_empty()) {
        observer.halted(reason, &left);
    }
    if let Some(record) = record {
        record.over(halted.as_deref());
    }
    Ok(())
}

/// The minions of a batch, and on how many of them it runs at a time; `None` for a size that [`is_size`] rejects.
///
/// # Errors
/// Those of publishing.
pub fn members(
    session: &mut JobSession,
    job: &Job,
    plan: &BatchOptions,
    observer: &mut dyn BatchObserver,
) -> Result<Option<(Vec<String>, usize)>, ClientError> {
    let ids = ping_target(session, job, observer)?;
    let places = window(&plan.size, ids.len());
    let most = ids.len().max(1);
    Ok(places.map(|places| (ids, places.min(most))))
}

/// Pings the target first: only minions that answer are in the batch.
fn ping_target(
    session: &mut JobSession,
    job: &Job,
    observer: &mut dyn BatchObserver,
) -> Result<Vec<String>, ClientError> {
    let ping = Job {
        fun: "test.ping".into(),
        arg: Vec::new(),
        ret: String::new(),
        ..job.clone()
    };
    let published = session.client.publish(&ping)?;
    if published.jid.is_empty() {
        observer.no_minions();
        return Ok(Vec::new());
    }
    let mut up = Vec::new();
    let mut down = published.missing.clone();
    wait(session, &published, &mut |id, outcome| match outcome {
        MinionOutcome::Returned(_) => up.push(id.to_owned()),
        _ => down.push(id.to_owned()),
    })?;
    down.iter().for_each(|id| observer.not_responding(id));
    up.sort_unstable();
    Ok(up)
}

/// Waits for the outcome of a job on all minions.
pub fn wait(
    session: &mut JobSession,
    published: &Published,
    each: &mut dyn FnMut(&str, MinionOutcome),
) -> Result<(), ClientError> {
    let stop = session.stop;
    let mut gather = Gather::new(
        session.client,
        session.events,
        Some(session.jobs),
        session.patience,
    );
    gather.on_state = session.on_state;
    gather.add_job(published);
    gather.run(&|| stop.is_set(), each)
}

/// Replaces the target by `count` of its minions that have the function
/// (`LocalClient.cmd_subset`).
pub fn pick_subset(
    session: &mut JobSession,
    job: &mut Job,
    count: usize,
) -> Result<(), ClientError> {
    use rand::seq::SliceRandom;
    let ask = Job {
        fun: "sys.list_functions".into(),
        arg: Vec::new(),
        ..job.clone()
    };
    let published = session.client.publish(&ask)?;
    let wanted = match &job.fun {
        Value::Str(fun) => vec![fun.clone()],
        other => other.str_list(),
    };
    let mut able = Vec::new();
    wait(session, &published, &mut |id, outcome| {
        if let MinionOutcome::Returned(load) = outcome {
            let has = load.get("return").map(Value::str_list).unwrap_or_default();
            if wanted.iter().all(|f| has.contains(f)) {
                able.push(id.to_owned());
            }
        }
    })?;
    able.shuffle(&mut rand::thread_rng());
    able.truncate(count);
    able.sort_unstable();
    job.tgt = able.into();
    job.tgt_type = "list".into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn sizes_are_numbers_or_shares() {
        assert_eq!(window("3", 10), Some(3));
        assert_eq!(window("50%", 5), Some(2));
        assert_eq!(window("%10", 20), Some(2));
        assert_eq!(window("1%", 5), Some(1), "at least one");
        for bad in ["0", "-1", "x", "%", "0%"] {
            assert_eq!(window(bad, 5), None, "{bad}");
        }
    }
}

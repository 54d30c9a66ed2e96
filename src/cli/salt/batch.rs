//! `-b`: a rolling window over the matching minions (reference `salt-local.md` 3.5).

use super::show::Results;
use crate::cli::output::texts;
use crate::client::gather::{Gather, Outcome, Patience};
use crate::client::local::{ClientError, Job, LocalClient};
use crate::store::jobs::JobStore;
use halite_ipc::Subscriber;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How to batch.
pub(super) struct Plan {
    /// A number, or a percentage of the minions that answer.
    pub size: String,
    /// Pause before a freed place is filled.
    pub wait: Duration,
    /// End at the first failure.
    pub failhard: bool,
}

/// Places in the window for `count` minions; `None` if the size makes no sense.
fn window(size: &str, count: usize) -> Option<usize> {
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

/// Runs `job` in batches.
pub(super) fn run(
    client: &mut LocalClient,
    events: &mut Subscriber,
    jobs: &dyn JobStore,
    patience: Patience,
    job: Job,
    plan: &Plan,
    results: &mut Results,
) -> Result<(), ClientError> {
    if window(&plan.size, 100).is_none() {
        results.screen.text(&texts::invalid_batch(&plan.size));
        return Ok(());
    }
    let stop = super::run::interruption();
    let mut queue = VecDeque::from(who_is_up(client, events, jobs, patience, &job, results)?);
    let Some(places) = window(&plan.size, queue.len()) else {
        return Ok(());
    };
    let patience = Patience {
        together: false,
        ..patience
    };
    let mut gather = Gather::new(client, events, Some(jobs), patience);
    let mut free_at = vec![Instant::now(); places];
    while (!queue.is_empty() || gather.waiting() > 0) && !stop.is_set() {
        if plan.failhard && results.failed() {
            queue.clear();
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
            results.screen.text(&texts::executing_run_on(&next));
            let published = gather.client.publish(&Job {
                tgt: next.into(),
                tgt_type: "list".into(),
                ..job.clone()
            })?;
            results.expect(&published);
            gather.watch(&published);
        }
        let before = gather.waiting();
        gather.step(Duration::from_millis(50), &mut |id, outcome| {
            results.add(id, outcome)
        })?;
        let freed = before - gather.waiting();
        free_at.extend(std::iter::repeat_n(Instant::now() + plan.wait, freed));
    }
    gather.break_off(&mut |id, outcome| results.add(id, outcome));
    Ok(())
}

/// Pings the target first: only who answers is in the batch.
fn who_is_up(
    client: &mut LocalClient,
    events: &mut Subscriber,
    jobs: &dyn JobStore,
    patience: Patience,
    job: &Job,
    results: &mut Results,
) -> Result<Vec<String>, ClientError> {
    let ping = Job {
        fun: "test.ping".into(),
        arg: Vec::new(),
        ret: String::new(),
        ..job.clone()
    };
    let published = client.publish(&ping)?;
    if published.jid.is_empty() {
        results.screen.text(texts::NO_MINIONS_MATCHED);
        return Ok(Vec::new());
    }
    let mut up = Vec::new();
    let mut down = published.missing.clone();
    let stop = super::run::interruption();
    let mut gather = Gather::new(client, events, Some(jobs), patience);
    gather.watch(&published);
    gather.run(&|| stop.is_set(), &mut |id, outcome| match outcome {
        Outcome::Returned(_) => up.push(id.to_owned()),
        _ => down.push(id.to_owned()),
    })?;
    for id in &down {
        results.screen.text(&texts::batch_minion_down(id));
    }
    up.sort_unstable();
    Ok(up)
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

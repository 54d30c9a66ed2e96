//! Queries minions from a runner: publishes a job, waits, and returns the outcome of every expected minion.

use super::{RunContext, RunError};
use crate::gather::{Gather, GatherTimeouts, MinionOutcome};
use crate::local::{Job, Published};
use std::time::Duration;

/// Timeouts of one query in seconds; by default those of the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryTimeouts {
    /// Silence after which minions are asked whether they are still running it.
    pub timeout: Option<u64>,
    /// How long to wait for the answer.
    pub gather_job_timeout: Option<u64>,
}

/// Publishes a job and waits for it. Outcomes are in the order of ids, including listed ids without an accepted
/// key.
pub fn query(
    context: &mut RunContext,
    mut job: Job,
    times: QueryTimeouts,
) -> Result<Vec<(String, MinionOutcome)>, RunError> {
    if !job.kwargs.contains("delimiter") {
        job.kwargs.set("delimiter", ":");
    }
    let mut client = context.client();
    let mut events = client.listen()?;
    let published = client.publish(&job)?;
    let config = &context.config;
    let patience = GatherTimeouts {
        timeout: Duration::from_secs(times.timeout.unwrap_or(config.timeout)),
        find_job: Duration::from_secs(
            times
                .gather_job_timeout
                .unwrap_or(config.gather_job_timeout),
        ),
        together: true,
    };
    let mut out = no_keys(&published);
    let stop = context.stop.clone();
    let mut gather = Gather::new(
        &mut client,
        &mut events,
        Some(&*context.stores.jobs),
        patience,
    );
    gather.add_job(&published);
    gather.run(&|| stop.is_set(), &mut |id, outcome| {
        out.push((id.to_owned(), outcome));
    })?;
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}

fn no_keys(published: &Published) -> Vec<(String, MinionOutcome)> {
    published
        .missing
        .iter()
        .map(|id| (id.clone(), MinionOutcome::NoKey))
        .collect()
}

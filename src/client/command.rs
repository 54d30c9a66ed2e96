//! One job with its returns as data (`salt/modules/saltutil.py cmd`).

use super::batch::{self, BatchObserver, BatchOptions, JobSession};
use super::gather::{Gather, GatherTimeouts, MinionOutcome, OnOutcome, OnState};
use super::local::{ClientError, Credentials, Job, LocalClient, Published};
use halite_config::MasterConfig;
use halite_store::jobs::JobReader;
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::time::Duration;

/// A job and how to wait for it.
#[derive(Clone, Debug, Default)]
pub struct CmdJob {
    /// What to publish.
    pub job: Job,
    /// Seconds of silence after which minions are queried; by default the master's `timeout`.
    pub timeout: Option<u64>,
    /// A batch size.
    pub batch: Option<String>,
    /// Use only this many of the minions that have the function.
    pub subset: Option<usize>,
    /// Pause before a free place of a batch is filled.
    pub batch_wait: Duration,
    /// Stop a batch at the first failure.
    pub failhard: bool,
    /// Whether minions that do not return count as failed; otherwise they are omitted.
    pub expect_minions: bool,
    /// Credentials to use instead of the account's key file.
    pub credentials: Option<Credentials>,
}

/// Returns of the job.
#[derive(Clone, Debug, Default)]
pub struct CmdReturns {
    /// The jid; for a batch, that of the last job.
    pub jid: String,
    /// Ids that were asked for and have no accepted key.
    pub missing: Vec<String>,
    /// By minion: `ret`, `out`, `retcode`, `jid`, or `failed: true`.
    pub minions: Vec<(String, Map)>,
}

/// Publishes the job and waits for the outcomes of all minions, on the host of the master.
///
/// # Errors
/// The master cannot be reached or refuses.
pub fn run(
    config: &MasterConfig,
    command: CmdJob,
    stop: &StopFlag,
) -> Result<CmdReturns, ClientError> {
    let jobs = halite_store::Stores::open(config).jobs;
    run_with(config, &*jobs, command, stop)
}

/// The same, with the job cache read in this way.
///
/// # Errors
/// The master cannot be reached or refuses.
pub fn run_with(
    config: &MasterConfig,
    jobs: &dyn JobReader,
    command: CmdJob,
    stop: &StopFlag,
) -> Result<CmdReturns, ClientError> {
    let mut client = LocalClient::new(config.clone());
    if let Some(credentials) = command.credentials {
        client.set_credentials(credentials);
    }
    let mut events = client.listen()?;
    let mut session = JobSession {
        client: &mut client,
        events: &mut events,
        jobs,
        patience: GatherTimeouts {
            timeout: Duration::from_secs(command.timeout.unwrap_or(config.timeout)),
            find_job: Duration::from_secs(config.gather_job_timeout),
            together: true,
        },
        stop,
        on_state: None,
    };
    let mut job = command.job;
    if let Some(count) = command.subset {
        batch::pick_subset(&mut session, &mut job, count)?;
    }
    let mut collected = Collected {
        returns: CmdReturns::default(),
        expect_minions: command.expect_minions,
        failed: false,
    };
    if let Some(size) = command.batch {
        let plan = BatchOptions {
            size,
            wait: command.batch_wait,
            failhard: command.failhard,
        };
        batch::run(&mut session, job, &plan, &mut collected)?;
    } else {
        let published = session.client.publish(&job)?;
        collected.published(&published);
        if !published.jid.is_empty() {
            batch::wait(&mut session, &published, &mut |id, outcome| {
                collected.outcome(id, outcome)
            })?;
        }
    }
    collected.returns.minions.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(collected.returns)
}

/// What stands in the place of the return of a minion that did not answer in time, in stock's words; no newline at the end.
pub fn no_response(jid: &str) -> String {
    format!(
        "Minion did not return. [No response]\nThe minions may not have all finished running and \
         any remaining minions will return upon completion. To look up the return data for this \
         job later, run the following command:\n\nsalt-run jobs.lookup_jid {jid}"
    )
}

/// Waits for the outcomes of all minions of a job that runs already, or has run: what there is of it first.
///
/// # Errors
/// The master cannot be reached.
pub fn follow(
    config: &MasterConfig,
    jobs: &dyn JobReader,
    published: &Published,
    credentials: Credentials,
    stop: &dyn Fn() -> bool,
    on_state: OnState,
    each: OnOutcome,
) -> Result<(), ClientError> {
    let mut client = LocalClient::new(config.clone());
    client.set_credentials(credentials);
    // Before the cache is read, so that nothing is missed between them.
    let mut events = client.listen()?;
    let patience = GatherTimeouts {
        timeout: Duration::from_secs(config.timeout),
        find_job: Duration::from_secs(config.gather_job_timeout),
        together: true,
    };
    let mut gather = Gather::new(&mut client, &mut events, Some(jobs), patience);
    gather.on_state = Some(on_state);
    gather.add_job(published);
    gather.read_job_cache(each);
    gather.run(stop, each)
}

struct Collected {
    returns: CmdReturns,
    expect_minions: bool,
    failed: bool,
}

impl BatchObserver for Collected {
    fn no_minions(&mut self) {}

    fn not_responding(&mut self, id: &str) {
        self.outcome(id, MinionOutcome::NotConnected);
    }

    fn batch_starts(&mut self, _: &[String]) {}

    fn published(&mut self, published: &Published) {
        self.returns.jid = published.jid.clone();
        self.returns.missing.clone_from(&published.missing);
    }

    fn outcome(&mut self, id: &str, outcome: MinionOutcome) {
        let MinionOutcome::Returned(load) = outcome else {
            self.failed = true;
            if self.expect_minions {
                let failed = halite_wire::map! {"failed" => true};
                self.returns.minions.push((id.to_owned(), failed));
            }
            return;
        };
        let mut entry = halite_wire::map! {"ret" => load.get("return").cloned()};
        for key in ["out", "retcode", "jid"] {
            if let Some(value) = load.get(key) {
                entry.set(key, value.clone());
            }
        }
        self.failed |= load.get("retcode").is_some_and(Value::truthy);
        self.returns.minions.push((id.to_owned(), entry));
    }

    fn failed(&self) -> bool {
        self.failed
    }

    fn halted(&mut self, reason: &str, left: &[String]) {
        log::warn!(
            "a batch was halted ({reason}) before {} minions got the job",
            left.len()
        );
    }
}

/// Positional and keyword arguments in the form used in jobs (`salt/utils/args.py condition_input`).
pub fn arguments(positional: Vec<Value>, keyword: Map) -> Vec<Value> {
    let mut arg = positional;
    if !keyword.is_empty() {
        let mut keyword = keyword;
        keyword.set("__kwarg__", true);
        arg.push(Value::Map(keyword));
    }
    arg
}

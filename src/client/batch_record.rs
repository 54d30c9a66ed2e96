//! What `halite-run batch.*` knows of a batch (`salt/utils/batch_state.py` of 3008).
//!
//! A client that runs a batch tells of it in events `salt/batch/<jid>/...`, which the role `batch` records; one that hands it over
//! to the master writes the record, from which the role continues it.

use super::call::fire;
use super::gather::{GatherTimeouts, MinionOutcome};
use super::local::{Job, LocalClient};
use halite_config::{JobCacheCompat, MasterConfig, SaltSeries};
use halite_ipc::{Event, Framing, Publisher, stamp_now};
use halite_store::local;
use halite_sys::time::unix_now_f64;
use halite_wire::ids::{Jid, JidClock};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// How often the progress is told at most, and the time for each minion on top of it: each time the whole record is told.
const EVERY: Duration = Duration::from_secs(1);
const EVERY_MINION: Duration = Duration::from_millis(1);

/// Options of a batch run.
pub struct BatchOptions {
    /// A number, or a percentage of the minions that answer.
    pub size: String,
    /// Pause before a free slot is filled.
    pub wait: Duration,
    /// Stop at the first failure.
    pub failhard: bool,
}

/// Who runs a batch.
#[derive(Clone, Copy)]
enum Driver {
    Cli,
    Master,
}

/// Whether this master has a role that records batches and continues them.
pub fn has_manager(config: &MasterConfig) -> bool {
    config.salt_series == SaltSeries::S3008 && config.job_cache_compat != JobCacheCompat::None
}

/// The record of a batch that this process runs.
pub(super) struct BatchRecord {
    pub jid: Jid,
    /// What does not change.
    head: Map,
    pending: Vec<String>,
    active: Vec<(String, f64)>,
    done: Map,
    failed: Map,
    bus: Publisher,
    stamp: halite_ipc::StampStyle,
    told: Instant,
    /// How often the progress is told.
    every: Duration,
    /// Whether there is something to tell.
    is_changed: bool,
}

impl BatchRecord {
    /// Begins the record of a batch on these minions; `None` if nobody keeps it, or this account may not tell of it.
    pub fn begin(
        client: &LocalClient,
        job: &Job,
        plan: &BatchOptions,
        patience: GatherTimeouts,
        (ids, places): (&[String], usize),
    ) -> Option<BatchRecord> {
        let config = client.config();
        if !has_manager(config) || client.has_credentials() {
            return None;
        }
        let bus = Publisher::connect(config.event_pull(), Framing::Prefixed).ok()?;
        let jid = JidClock::default().next();
        let mut record = BatchRecord {
            head: head(
                client,
                job,
                plan,
                patience,
                (ids, places, &jid, Driver::Cli),
            ),
            jid,
            pending: ids.to_vec(),
            active: Vec::new(),
            done: Map::new(),
            failed: Map::new(),
            bus,
            stamp: config.salt_series.stamp_style(),
            told: Instant::now(),
            every: EVERY + EVERY_MINION * u32::try_from(ids.len()).unwrap_or(u32::MAX),
            is_changed: false,
        };
        record.tell("new", None);
        Some(record)
    }

    /// These minions have got the job.
    pub fn started(&mut self, ids: &[String]) {
        let now = unix_now_f64();
        self.pending.retain(|id| !ids.contains(id));
        self.active.extend(ids.iter().map(|id| (id.clone(), now)));
        self.is_changed = true;
    }

    /// Tells what has changed, if it is time.
    pub fn tick(&mut self) {
        if self.is_changed && self.told.elapsed() >= self.every {
            self.tell("progress", None);
        }
    }

    /// How the job has ended on a minion.
    pub fn ended(&mut self, id: &str, outcome: &MinionOutcome) {
        self.active.retain(|(one, _)| one != id);
        match outcome {
            // The return itself is in the job cache.
            MinionOutcome::Returned(load) => {
                let retcode = load.get("retcode").cloned().unwrap_or(Value::Int(0));
                let jid = self.jid.as_str();
                let entry =
                    halite_wire::map! {"ret" => Value::Nil, "retcode" => retcode, "jid" => jid};
                self.done.set(id, entry);
            }
            _ => self.failed.set(id, "timeout"),
        }
        self.is_changed = true;
    }

    /// The batch is over; it was halted for this reason if minions are left.
    pub fn over(mut self, reason: Option<&str>) {
        match reason {
            None => self.tell("complete", None),
            Some(_) => self.tell("halted", reason),
        }
    }

    fn tell(&mut self, what: &str, halted: Option<&str>) {
        (self.told, self.is_changed) = (Instant::now(), false);
        let mut state = self.head.clone();
        state.set("pending", self.pending.clone());
        let active = self.active.iter();
        let active = active.map(|(id, at)| (Value::from(id.as_str()), Value::from(*at)));
        state.set("active", Value::Map(active.collect()));
        state.set("done", self.done.clone());
        state.set("failed", self.failed.clone());
        state.set("last_progress", unix_now_f64());
        state.set("halted", halted.is_some());
        state.set("halted_reason", halted.map_or(Value::Nil, Value::from));
        let mut data = news(&self.head);
        data.set("state", state);
        data.set("_stamp", stamp_now(self.stamp));
        let event = Event {
            tag: format!("salt/batch/{}/{what}", self.jid),
            payload: msgpack::encode_map(&data, Profile::Local),
        };
        if let Err(e) = self.bus.fire(&event) {
            log::warn!(
                "the master does not learn how far batch {} is: {e}",
                self.jid
            );
        }
    }
}

/// Whether this process may hand batches over: only the master's account, and root, can write to its bus.
///
/// # Errors
/// The bus cannot be connected to.
pub fn can_hand_over(config: &MasterConfig) -> Result<(), Box<dyn std::error::Error>> {
    Publisher::connect(config.event_pull(), Framing::Prefixed)?;
    Ok(())
}

/// Hands a batch over to the master, which runs it; this process must have the master's account.
///
/// # Errors
/// The record cannot be written, or the master does not run.
pub fn hand_over(
    client: &LocalClient,
    job: &Job,
    plan: &BatchOptions,
    patience: GatherTimeouts,
    (ids, places): (&[String], usize),
) -> Result<Jid, Box<dyn std::error::Error>> {
    let config = client.config();
    let jid = JidClock::default().next();
    let record = head(
        client,
        job,
        plan,
        patience,
        (ids, places, &jid, Driver::Master),
    );
    local::stock_jobs(config).save_batch(&jid, &record)?;
    fire(config, format!("salt/batch/{jid}/new"), news(&record))?;
    Ok(jid)
}

/// What each event says of a batch.
fn news(record: &Map) -> Map {
    let names = ["jid", "fun", "tgt", "tgt_type", "user", "driver"];
    let field = |name: &'static str| (name, record.get(name).cloned().unwrap_or_default());
    names.into_iter().map(field).collect()
}

/// The record of a batch that has not begun.
fn head(
    client: &LocalClient,
    job: &Job,
    plan: &BatchOptions,
    patience: GatherTimeouts,
    (ids, places, jid, driver): (&[String], usize, &Jid, Driver),
) -> Map {
    let is_keywords = |value: &&Value| value.as_map().is_some_and(|map| map.contains("__kwarg__"));
    let (keywords, arg): (Vec<&Value>, Vec<&Value>) = job.arg.iter().partition(is_keywords);
    let mut kwargs = Map::new();
    for (name, value) in keywords
        .into_iter()
        .filter_map(Value::as_map)
        .flat_map(Map::iter)
    {
        if name.as_str() != Some("__kwarg__") {
            kwargs.0.push((name.clone(), value.clone()));
        }
    }
    let now = unix_now_f64();
    let driver = match driver {
        Driver::Cli => "cli",
        Driver::Master => "master",
    };
    halite_wire::map! {
        "jid" => jid.as_str(), "all_minions" => ids.to_vec(), "pending" => ids.to_vec(), "active" => Map::new(),
        "done" => Map::new(), "failed" => Map::new(), "wait" => Vec::<Value>::new(), "batch_size" => places as u64,
        "fun" => job.fun.clone(), "arg" => arg.into_iter().cloned().collect::<Vec<Value>>(), "kwargs" => kwargs,
        "tgt" => job.tgt.clone(), "tgt_type" => job.tgt_type.as_str(), "failhard" => plan.failhard,
        "batch_wait" => plan.wait.as_secs_f64(), "timeout" => patience.timeout.as_secs(),
        "gather_job_timeout" => patience.find_job.as_secs(), "last_progress" => now, "created" => now,
        "halted" => false, "halted_reason" => Value::Nil, "driver" => driver, "ret" => job.ret.as_str(),
        "user" => client.user(), "options" => client.options(job),
    }
}

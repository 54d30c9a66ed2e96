//! Waiting for the returns of jobs until every expected minion is accounted for.
//!
//! As in stock Salt (`LocalClient.get_iter_returns`), after `timeout` of silence the missing minions are
//! queried with `saltutil.find_job`, and again while any of them runs the job. The difference is at the end:
//! each minion gets a definite outcome, because any answer to `find_job` shows that it is connected, and the
//! job cache is checked before a return is considered lost.

use super::local::{ClientError, Job, LocalClient, Published};
use halite_ipc::{DROPPED, Event, Subscriber};
use halite_master::events::is_trimmed;
use halite_store::Stores;
use halite_store::jobs::JobReader;
use halite_wire::ids::{Jid, parse_return_tag};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// After a minion answered that the job is not running, its return may still be on its way.
const GRACE: Duration = Duration::from_secs(2);
/// Longest sleep, so that Ctrl-C takes effect.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long to try to reconnect to a bus that is gone (a master restarting).
const BUS_RETRY: Duration = Duration::from_secs(15);

/// The outcome of a job on one minion.
#[derive(Clone, Debug, PartialEq)]
pub enum MinionOutcome {
    /// The return load: `return`, `retcode`, `out`, ...
    Returned(Map),
    /// It was still running when the wait was cancelled.
    Running,
    /// It does not answer.
    NotConnected,
    /// It is connected, does not know the job, and no return has arrived.
    Lost,
    /// It has no accepted key.
    NoKey,
}

/// Timeouts of a wait.
#[derive(Clone, Copy, Debug)]
pub struct GatherTimeouts {
    /// Silence after which minions are queried (option `timeout`).
    pub timeout: Duration,
    /// How long to wait for the answers (option `gather_job_timeout`).
    pub find_job: Duration,
    /// Whether to wait for a silent minion as long as another one runs the job.
    pub together: bool,
}

/// Receives the outcome of each minion.
pub type OnOutcome<'f> = &'f mut dyn FnMut(&str, MinionOutcome);

#[derive(Clone, Copy, Debug, PartialEq)]
enum ReturnState {
    /// Published, or last heard of, at this time.
    Since(Instant),
    /// Queried; the answer is due by this time.
    Asked(Instant),
    /// No answer arrived in time.
    Silent,
    /// It answered that it does not run the job; final at this time.
    Idle(Instant),
}

#[derive(Clone, Debug)]
struct Entry {
    jid: String,
    state: ReturnState,
}

/// Waits for any number of jobs at once.
pub struct Gather<'a> {
    /// The client that also publishes the queries.
    pub client: &'a mut LocalClient,
    events: &'a mut Subscriber,
    jobs: Option<&'a dyn JobReader>,
    patience: GatherTimeouts,
    entries: BTreeMap<String, Entry>,
    find_jobs: BTreeMap<String, BTreeSet<String>>,
    last_return: Instant,
    below: Option<LowerMasters>,
    /// The event that halts this batch.
    halt: Option<String>,
    /// Why the batch is to be halted, once somebody has asked for it.
    pub halted: Option<String>,
    /// Is told the results of single states while jobs run (`state_events`): minion, result, number of states.
    pub on_state: Option<OnState<'a>>,
}

/// Receives the result of one state.
pub type OnState<'a> = &'a dyn Fn(&str, &Map, usize);

/// State of lower masters (option `order_masters`): until `until` they may announce minions from which returns
/// are expected.
struct LowerMasters {
    jids: BTreeSet<String>,
    /// Minions heard of, including those that have already returned.
    known: BTreeSet<(String, String)>,
    until: Instant,
}

impl<'a> Gather<'a> {
    /// Waits for nothing yet. `jobs` is the master's job cache if this process can read it.
    pub fn new(
        client: &'a mut LocalClient,
        events: &'a mut Subscriber,
        jobs: Option<&'a dyn JobReader>,
        patience: GatherTimeouts,
    ) -> Gather<'a> {
        Gather {
            client,
            events,
            jobs,
            patience,
            entries: BTreeMap::new(),
            find_jobs: BTreeMap::new(),
            last_return: Instant::now(),
            below: None,
            halt: None,
            halted: None,
            on_state: None,
        }
    }

    /// Heeds `salt/batch/<jid>/stop` (`halite-run batch.stop`).
    pub(super) fn heed_stop(&mut self, batch: &Jid) {
        self.halt = Some(format!("salt/batch/{batch}/stop"));
    }

    /// Adds the minions of a job.
    pub fn add_job(&mut self, published: &Published) {
        let state = ReturnState::Since(Instant::now());
        let config = self.client.config().clone();
        if config.order_masters && !published.jid.is_empty() {
            let until = Instant::now() + Duration::from_secs(config.syndic_wait);
            let below = self.below.get_or_insert(LowerMasters {
                jids: BTreeSet::new(),
                known: BTreeSet::new(),
                until,
            });
            below.until = until;
            below.jids.insert(published.jid.clone());
            for id in &published.minions {
                below.known.insert((published.jid.clone(), id.clone()));
            }
        }
        for id in &published.minions {
            // A syndic is not a minion; if a minion of that name below it returns, it is added then.
            if self.is_syndic(id) {
                if let Some(below) = &mut self.below {
                    below.known.remove(&(published.jid.clone(), id.clone()));
                }
                continue;
            }
            let jid = published.jid.clone();
            self.entries.insert(id.clone(), Entry { jid, state });
        }
    }

    /// Whether this is the id of a lower master's syndic, as recorded by the master.
    fn is_syndic(&self, id: &str) -> bool {
        let config = self.client.config();
        config.order_masters && Stores::open(config).syndics.contains(id)
    }

    /// Number of minions that are waited for.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Waits until all minions have an outcome, or `stop` returns true.
    pub fn run(&mut self, stop: &dyn Fn() -> bool, each: OnOutcome) -> Result<(), ClientError> {
        while (!self.entries.is_empty() || self.awaits_masters()) && !stop() {
            self.poll(POLL_INTERVAL, each)?;
        }
        self.cancel(each);
        Ok(())
    }

    /// Whether lower masters may still announce minions.
    fn awaits_masters(&self) -> bool {
        let below = self.below.as_ref();
        below.is_some_and(|b| Instant::now() < b.until)
    }

    /// Adds minions announced by a lower master (`syndic/<id>/salt/job/<jid>/new`).
    fn on_syndic_job(&mut self, event: &Event) {
        let Some(below) = &mut self.below else { return };
        let tag = event.tag.strip_suffix("/new").unwrap_or_default();
        let Some((_, jid)) = tag.rsplit_once("/job/") else {
            return;
        };
        if !event.tag.starts_with("syndic/") || !below.jids.contains(jid) {
            return;
        }
        let ids = load_of(event).get("minions").map(Value::str_list);
        for id in ids.unwrap_or_default() {
            if below.known.insert((jid.to_owned(), id.clone())) {
                let entry = Entry {
                    jid: jid.to_owned(),
                    state: ReturnState::Since(Instant::now()),
                };
                self.entries.insert(id, entry);
            }
        }
    }

    /// Cancels the wait: the remaining minions count as running.
    pub fn cancel(&mut self, each: OnOutcome) {
        self.read_job_cache(each);
        for (id, _) in std::mem::take(&mut self.entries) {
            each(&id, MinionOutcome::Running);
        }
    }

    /// Handles events that arrive within `limit` (at least those already there), then does what is due.
    pub fn poll(&mut self, limit: Duration, each: OnOutcome) -> Result<(), ClientError> {
        match self.events.next(Some(limit.min(POLL_INTERVAL))) {
            Ok(Some(event)) => {
                self.on_event(&event, each);
                // Read what has arrived before querying about it.
                while let Ok(Some(event)) = self.events.buffered() {
                    self.on_event(&event, each);
                }
            }
            Ok(None) => {}
            Err(_) => self.reconnect(each)?,
        }
        self.query_silent(each)?;
        self.report_expired(each);
        Ok(())
    }

    fn on_event(&mut self, event: &Event, each: OnOutcome) {
        if event.tag == DROPPED {
            return self.read_job_cache(each);
        }
        let Some((jid, id)) = parse_return_tag(&event.tag) else {
            if self.halt.as_ref() == Some(&event.tag) {
                let reason = load_of(event).str("reason").map(str::to_owned);
                self.halted = Some(reason.unwrap_or_else(|| "stop".to_owned()));
            }
            self.on_state_result(event);
            return self.on_syndic_job(event);
        };
        self.add_if_new(jid, id);
        let ours = self.entries.get(id).is_some_and(|e| e.jid == jid);
        if ours {
            let load = self.untrimmed(id, load_of(event));
            if load.contains("return") {
                self.entries.remove(id);
                self.last_return = Instant::now();
                each(id, MinionOutcome::Returned(load));
            }
        } else if self
            .find_jobs
            .get_mut(jid)
            .is_some_and(|asked| asked.remove(id))
            && let Some(entry) = self.entries.get_mut(id)
        {
            let running =
                matches!(load_of(event).get("return"), Some(Value::Map(m)) if !m.is_empty());
            entry.state = if running {
                ReturnState::Since(Instant::now())
            } else {
                ReturnState::Idle(Instant::now() + GRACE)
            };
        }
    }

    /// `salt/job/JID/prog/MINION/NUMBER`. The master lets a minion fire this with its own id alone; what is in the data are its own words.
    fn on_state_result(&mut self, event: &Event) {
        let Some(tell) = self.on_state else { return };
        let mut parts = event
            .tag
            .strip_prefix("salt/job/")
            .unwrap_or_default()
            .split('/');
        let (Some(jid), Some("prog")) = (parts.next(), parts.next()) else {
            return;
        };
        let load = load_of(event);
        let id = parts.next().unwrap_or_default();
        if self.entries.get(id).is_none_or(|entry| entry.jid != jid) {
            return;
        }
        self.last_return = Instant::now();
        let data = load.get("data").and_then(Value::as_map);
        if let Some(data) = data
            && let Some(Value::Map(result)) = data.get("ret")
        {
            let total = data.int("len").and_then(|n| n.try_into().ok());
            tell(id, result, total.unwrap_or(0));
        }
    }

    /// A minion below may return before its master has announced it.
    fn add_if_new(&mut self, jid: &str, id: &str) {
        let Some(below) = &mut self.below else { return };
        if below.jids.contains(jid) && below.known.insert((jid.to_owned(), id.to_owned())) {
            let entry = Entry {
                jid: jid.to_owned(),
                state: ReturnState::Since(Instant::now()),
            };
            self.entries.insert(id.to_owned(), entry);
        }
    }

    /// The bus trims large returns; the job cache has them complete.
    fn untrimmed(&self, id: &str, load: Map) -> Map {
        if !is_trimmed(&load) {
            return load;
        }
        let stored = || {
            let jid: Jid = self.entries.get(id)?.jid.parse().ok()?;
            let job = self.jobs?.get(&jid).ok()??;
            job.returns.into_iter().find(|r| r.id == id)
        };
        stored().map_or(load, |r| r.load)
    }

    /// Queries minions that have been silent for too long whether they run their job.
    fn query_silent(&mut self, each: OnOutcome) -> Result<(), ClientError> {
        let now = Instant::now();
        let quiet = |since: Instant| {
            now.duration_since(since.max(self.last_return)) >= self.patience.timeout
        };
        let due = |e: &Entry| matches!(e.state, ReturnState::Since(since) if quiet(since));
        if !self.entries.values().any(due) {
            return Ok(());
        }
        self.read_job_cache(each);
        let mut by_job: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, entry) in &self.entries {
            // One query for all silent minions of a job, including those given up.
            if matches!(entry.state, ReturnState::Since(_) | ReturnState::Silent) {
                by_job
                    .entry(entry.jid.clone())
                    .or_default()
                    .push(id.clone());
            }
        }
        for (jid, ids) in by_job {
            self.send_find_job(&jid, ids)?;
        }
        Ok(())
    }

    fn send_find_job(&mut self, jid: &str, ids: Vec<String>) -> Result<(), ClientError> {
        let by = Instant::now() + self.patience.find_job;
        for id in &ids {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.state = ReturnState::Asked(by);
            }
        }
        let asked = self.client.publish(&Job {
            fun: "saltutil.find_job".into(),
            arg: vec![jid.into()],
            tgt: ids.clone().into(),
            tgt_type: "list".into(),
            kwargs: halite_wire::map! {"delimiter" => ":"},
            ..Job::default()
        });
        let asked = match asked {
            // The job was published all the same, and whoever started it must not take it for refused.
            Err(ClientError::Refused(_, why)) => {
                log::warn!(
                    "job {jid}: minions cannot be asked whether they run it ({why}); `jobs.lookup_jid {jid}` shows what they return later"
                );
                return Ok(());
            }
            other => other?,
        };
        self.find_jobs.insert(asked.jid, ids.into_iter().collect());
        Ok(())
    }

    /// Reports final outcomes of minions whose time is over.
    fn report_expired(&mut self, each: OnOutcome) {
        let now = Instant::now();
        for entry in self.entries.values_mut() {
            if matches!(entry.state, ReturnState::Asked(by) if by <= now) {
                entry.state = ReturnState::Silent;
            }
        }
        let open = |s: ReturnState| matches!(s, ReturnState::Since(_) | ReturnState::Asked(_));
        let others = self.patience.together && self.entries.values().any(|e| open(e.state));
        let over = |e: &Entry| match e.state {
            ReturnState::Idle(at) => at <= now,
            ReturnState::Silent => !others,
            _ => false,
        };
        if !self.entries.values().any(over) {
            return;
        }
        self.read_job_cache(each);
        let done: Vec<(String, ReturnState)> = self
            .entries
            .iter()
            .filter(|(_, e)| over(e))
            .map(|(id, e)| (id.clone(), e.state))
            .collect();
        for (id, state) in done {
            self.entries.remove(&id);
            let lost = matches!(state, ReturnState::Idle(_));
            // A syndic may have registered only after the job was published.
            if !lost && self.is_syndic(&id) {
                continue;
            }
            each(
                &id,
                if lost {
                    MinionOutcome::Lost
                } else {
                    MinionOutcome::NotConnected
                },
            );
        }
    }

    /// The event bus is gone: a master is restarting. Its jobs go on, so keep waiting.
    fn reconnect(&mut self, each: OnOutcome) -> Result<(), ClientError> {
        let end = Instant::now() + BUS_RETRY;
        loop {
            match self.client.listen() {
                Ok(fresh) => {
                    *self.events = fresh;
                    self.read_job_cache(each);
                    return Ok(());
                }
                Err(e) if Instant::now() > end => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Reads returns from the job cache that did not arrive over the bus.
    pub fn read_job_cache(&mut self, each: OnOutcome) {
        let Some(jobs) = self.jobs else { return };
        let jids: BTreeSet<String> = self.entries.values().map(|e| e.jid.clone()).collect();
        for text in jids {
            let Ok(jid) = text.parse::<Jid>() else {
                continue;
            };
            let Ok(Some(job)) = jobs.get(&jid) else {
                continue;
            };
            for stored in job.returns {
                if self.entries.get(&stored.id).is_some_and(|e| e.jid == text) {
                    self.entries.remove(&stored.id);
                    each(&stored.id, MinionOutcome::Returned(stored.load));
                }
            }
        }
    }
}

fn load_of(event: &Event) -> Map {
    halite_wire::msgpack::decode(&event.payload)
        .ok()
        .and_then(Value::into_map)
        .unwrap_or_default()
}

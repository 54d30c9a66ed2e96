//! Waiting for the returns of a job until every expected minion is accounted for.
//!
//! Rounds as stock Salt's (`LocalClient.get_iter_returns`): wait `timeout`, ask the silent
//! minions with `saltutil.find_job`, go on while any of them still runs the job. What differs
//! is the end: each minion gets a definite outcome, because an answer of any kind to
//! `find_job` shows that it is connected, and the job cache is consulted before a return is
//! called lost.

use super::local::{ClientError, Job, LocalClient, Published};
use crate::store::jobs::JobStore;
use crate::wire::ids::Jid;
use crate::wire::{Map, Value};
use halite_ipc::{Event, Subscriber};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// After a minion said that it no longer runs the job, its return may still be on its way.
const GRACE: Duration = Duration::from_secs(2);

/// What became of a job on one minion.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The return load: `return`, `retcode`, `out`, ...
    Returned(Map),
    /// It still runs the job; only when the wait was broken off.
    Running,
    /// It answers nothing.
    NotConnected,
    /// It is connected and knows nothing of the job, and no return has come.
    Lost,
    /// It has no accepted key.
    NoKey,
}

/// Times of one wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Silence after which minions are asked (option `timeout`).
    pub timeout: Duration,
    /// Wait for the answers to that (option `gather_job_timeout`).
    pub find_job: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Heard {
    Nothing,
    Running,
    Idle,
}

/// One wait for one job.
pub struct Gather<'a> {
    client: &'a mut LocalClient,
    events: &'a mut Subscriber,
    jobs: Option<&'a dyn JobStore>,
    jid: String,
    patience: Patience,
    waiting: BTreeMap<String, Heard>,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Gather<'a> {
    /// Waits for `published`; `stop` is asked now and then whether to break off. `jobs` is
    /// the master's job cache where this process can read it.
    pub fn new(
        client: &'a mut LocalClient,
        events: &'a mut Subscriber,
        jobs: Option<&'a dyn JobStore>,
        published: &Published,
        patience: Patience,
        stop: &'a dyn Fn() -> bool,
    ) -> Gather<'a> {
        Gather {
            client,
            events,
            jobs,
            jid: published.jid.clone(),
            patience,
            waiting: published
                .minions
                .iter()
                .map(|id| (id.clone(), Heard::Nothing))
                .collect(),
            stop,
        }
    }

    /// Waits to the end. `each` sees every minion once, as soon as its outcome is known.
    pub fn run(mut self, each: &mut dyn FnMut(&str, Outcome)) -> Result<(), ClientError> {
        loop {
            self.listen(self.patience.timeout, &BTreeSet::new(), None, each)?;
            self.look_up(each);
            if self.waiting.is_empty() || (self.stop)() {
                break;
            }
            self.ask(each)?;
            let running = self.waiting.values().any(|h| *h == Heard::Running);
            if (self.stop)() {
                break;
            }
            if !running {
                if self.waiting.values().any(|h| *h == Heard::Idle) {
                    self.listen(GRACE, &BTreeSet::new(), None, each)?;
                    self.look_up(each);
                }
                break;
            }
        }
        for (id, heard) in std::mem::take(&mut self.waiting) {
            each(
                &id,
                match heard {
                    Heard::Running => Outcome::Running,
                    Heard::Idle => Outcome::Lost,
                    Heard::Nothing if (self.stop)() => Outcome::Running,
                    Heard::Nothing => Outcome::NotConnected,
                },
            );
        }
        Ok(())
    }

    /// Asks the silent minions whether they run the job.
    fn ask(&mut self, each: &mut dyn FnMut(&str, Outcome)) -> Result<(), ClientError> {
        let silent: Vec<String> = self.waiting.keys().cloned().collect();
        let asked = self.client.publish(&Job {
            fun: "saltutil.find_job".into(),
            arg: vec![self.jid.as_str().into()],
            tgt: silent.into(),
            tgt_type: "list".into(),
            kwargs: crate::map! {"delimiter" => ":"},
            ..Job::default()
        })?;
        self.waiting.values_mut().for_each(|h| *h = Heard::Nothing);
        let expected: BTreeSet<String> = asked.minions.into_iter().collect();
        self.listen(self.patience.find_job, &expected, Some(&asked.jid), each)
    }

    /// Reads events until nobody is waited for, or `limit` passes without one that counts.
    /// With `find_job`, the wait also ends when all of `asked` have answered that.
    fn listen(
        &mut self,
        limit: Duration,
        asked: &BTreeSet<String>,
        find_job: Option<&str>,
        each: &mut dyn FnMut(&str, Outcome),
    ) -> Result<(), ClientError> {
        let mut asked = asked.clone();
        let mut deadline = Instant::now() + limit;
        while !self.waiting.is_empty() && !(self.stop)() {
            if find_job.is_some() && asked.iter().all(|id| !self.waiting.contains_key(id)) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            // Short waits, so that Ctrl-C is heeded.
            let event = match self.events.next(Some(left.min(Duration::from_millis(200)))) {
                Ok(Some(event)) => event,
                Ok(None) => continue,
                Err(_) => {
                    self.reconnect(deadline)?;
                    continue;
                }
            };
            if event.tag == "halite/bus/dropped" {
                self.look_up(each);
                continue;
            }
            let Some((jid, id)) = return_of(&event.tag) else { continue };
            if jid == self.jid {
                if self.took(id, &event, each) && find_job.is_none() {
                    deadline = deadline.max(Instant::now() + limit);
                }
            } else if find_job == Some(jid)
                && let Some(heard) = self.waiting.get_mut(id)
            {
                *heard = match load_of(&event).get("return") {
                    Some(Value::Map(m)) if !m.is_empty() => Heard::Running,
                    _ => Heard::Idle,
                };
                asked.remove(id);
            }
        }
        Ok(())
    }

    fn took(&mut self, id: &str, event: &Event, each: &mut dyn FnMut(&str, Outcome)) -> bool {
        let load = load_of(event);
        if !load.contains("return") || self.waiting.remove(id).is_none() {
            return false;
        }
        each(id, Outcome::Returned(load));
        true
    }

    /// The event bus went away: a master restarts. Its jobs go on, so does the wait.
    fn reconnect(&mut self, deadline: Instant) -> Result<(), ClientError> {
        loop {
            match self.client.listen() {
                Ok(fresh) => {
                    *self.events = fresh;
                    return Ok(());
                }
                Err(e) if Instant::now() > deadline => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Takes returns from the job cache that the bus did not bring.
    fn look_up(&mut self, each: &mut dyn FnMut(&str, Outcome)) {
        if self.waiting.is_empty() {
            return;
        }
        let (Some(jobs), Ok(jid)) = (self.jobs, self.jid.parse::<Jid>()) else { return };
        let Ok(Some(job)) = jobs.get(&jid) else { return };
        for stored in job.returns {
            if self.waiting.remove(&stored.id).is_some() {
                each(&stored.id, Outcome::Returned(stored.load));
            }
        }
    }
}

/// Jid and id of a return's tag.
fn return_of(tag: &str) -> Option<(&str, &str)> {
    tag.strip_prefix("salt/job/")?.split_once("/ret/")
}

fn load_of(event: &Event) -> Map {
    crate::wire::msgpack::decode(&event.payload)
        .ok()
        .and_then(Value::into_map)
        .unwrap_or_default()
}

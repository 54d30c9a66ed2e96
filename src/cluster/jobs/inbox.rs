//! What other masters tell about jobs: to this master's job log, bus and publisher.

use super::record::{JobRecord, Message, unpack};
use halite_config::{MasterConfig, SaltSeries};
use halite_master::events::{Bus, PEER};
use halite_store::jobs::{JobStore, JobUpdate, Returned};
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now;
use halite_transport::sockets::{Context, Push, PushOptions};
use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// A job is not published if it is older, in seconds: its client has given up, and a minion that was started anew would run
/// it twice.
const FRESH: u64 = 30;
/// Most ids that are remembered; beyond this all are forgotten, and read again from the job log.
const MOST_IDS: usize = 500_000;

/// What the job log has about a job.
#[derive(Default)]
struct Known {
    has_load: bool,
    is_published: bool,
    returned: HashSet<String>,
}

/// Takes what other masters tell.
pub struct Inbox {
    jobs: Arc<dyn JobStore>,
    publisher: Push,
    known: HashMap<Jid, Known>,
    ids: usize,
    series: SaltSeries,
    /// Returns of other masters that were new.
    pub returns: u64,
    /// Jobs of other masters that were published.
    pub published: u64,
}

impl Inbox {
    /// Of this master.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn new(config: &MasterConfig, jobs: Arc<dyn JobStore>) -> Result<Inbox, ExitError> {
        let options = PushOptions {
            reconnect: Some((Duration::from_millis(20), Duration::from_millis(200))),
            send_timeout: Some(Duration::from_millis(500)),
        };
        Ok(Inbox {
            jobs,
            publisher: Push::connect(&Context::new(), &config.publish_pull(), options)?,
            known: HashMap::new(),
            ids: 0,
            series: config.salt_series,
            returns: 0,
            published: 0,
        })
    }

    /// Takes a message of the master `peer`.
    ///
    /// # Errors
    /// The job log cannot be read or written: the message is to be taken again.
    pub fn take(&mut self, peer: &str, message: Message, bus: &mut Bus) -> io::Result<()> {
        let mut all = message.records.into_iter();
        all.try_for_each(|record| self.record(peer, record, bus))
    }

    fn record(&mut self, peer: &str, record: JobRecord, bus: &mut Bus) -> io::Result<()> {
        let JobRecord {
            jid,
            load,
            minions,
            missing,
            published,
            publication,
            returns,
            is_started_by_minion,
        } = record;
        let is_fresh = published.abs_diff(unix_now()) <= FRESH;
        let jobs = self.jobs.clone();
        let series = self.series;
        let known = self.known(&jid)?;
        if let Some(mut load) = load
            .filter(|_| !known.has_load)
            .and_then(|load| unpack(&load))
        {
            load.set(PEER, peer);
            jobs.save_load(&jid, &load, &minions, &missing)?;
            known.has_load = true;
            bus.fire_all(announcements(&jid, &load, &minions, &missing, series));
        }
        let is_new = !publication.is_empty() && !std::mem::replace(&mut known.is_published, true);
        let starts_job = is_started_by_minion && !known.has_load;
        known.has_load |= is_started_by_minion;
        let mut fresh: Vec<(MinionId, Map)> = Vec::new();
        for mut load in returns.iter().filter_map(|load| unpack(load)) {
            let Some(Ok(id)) = load.str("id").map(str::parse::<MinionId>) else {
                continue;
            };
            if known.returned.insert(id.to_string()) {
                load.set(PEER, peer);
                fresh.push((id, load));
            }
        }
        if is_new && is_fresh {
            match self.publisher.send(&publication) {
                Ok(()) => self.published += 1,
                Err(e) => {
                    log::error!(jid:% = jid; "the publisher does not accept the job {jid} of {peer} ({e})")
                }
            }
        } else if is_new {
            log::warn!(jid:% = jid; "the job {jid} of {peer} came too late to be published, or its clock differs from ours");
        }
        self.ids += fresh.len();
        self.returns += fresh.len() as u64;
        let all: Vec<Returned<'_>> = fresh
            .iter()
            .map(|(id, load)| Returned {
                jid: &jid,
                id,
                load,
                starts_job,
            })
            .collect();
        for outcome in jobs.save_returns(&all) {
            match outcome {
                // Trying again would not help.
                Err(e) if e.kind() == ErrorKind::InvalidInput => {
                    log::warn!(jid:% = jid; "a return that {peer} told of: {e}; not stored");
                }
                other => other?,
            }
        }
        let events = fresh.into_iter();
        bus.fire_all(
            events
                .map(|(id, load)| (format!("salt/job/{jid}/ret/{id}"), load))
                .collect(),
        );
        Ok(())
    }

    fn known(&mut self, jid: &Jid) -> io::Result<&mut Known> {
        if self.ids > MOST_IDS {
            self.known.clear();
            self.ids = 0;
        }
        if !self.known.contains_key(jid) {
            let stored = self.jobs.get(jid)?.unwrap_or_default();
            let has_load = !stored.load.is_empty();
            let returned: HashSet<String> = stored.returns.into_iter().map(|r| r.id).collect();
            self.ids += returned.len() + 1;
            let known = Known {
                has_load,
                is_published: has_load,
                returned,
            };
            self.known.insert(jid.clone(), known);
        }
        Ok(self.known.entry(jid.clone()).or_default())
    }

    /// Hears of what this master's own job log has got.
    pub fn learn(&mut self, update: &JobUpdate) {
        if let Some(known) = self.known.get_mut(&update.jid) {
            let before = known.returned.len();
            known
                .returned
                .extend(update.returns.iter().map(|r| r.id.clone()));
            self.ids += known.returned.len() - before;
        }
    }
}

/// What listeners hear of a job, as where it was published.
fn announcements(
    jid: &Jid,
    load: &Map,
    minions: &[String],
    missing: &[String],
    series: SaltSeries,
) -> Vec<(String, Map)> {
    let take = |key: &str| load.get(key).cloned().unwrap_or_default();
    let mut out = Vec::new();
    if series != SaltSeries::S3008 {
        let data = halite_wire::map! {"minions" => minions.to_vec(), PEER => take(PEER)};
        out.push((jid.to_string(), data));
    }
    let new = halite_wire::map! {
        "jid" => jid.as_str(), "tgt_type" => take("tgt_type"), "tgt" => take("tgt"),
        "user" => take("user"), "fun" => take("fun"), "arg" => take("arg"),
        "minions" => Value::from(minions.to_vec()), "missing" => Value::from(missing.to_vec()),
        PEER => take(PEER),
    };
    out.push((format!("salt/job/{jid}/new"), new));
    out
}

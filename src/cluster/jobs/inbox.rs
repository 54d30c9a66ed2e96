//! What other masters tell about jobs: to this master's job log, bus and publisher.

use super::known::Known;
use super::record::{JobRecord, Message};
use halite_config::{MasterConfig, SaltSeries};
use halite_master::events::{Bus, PEER};
use halite_store::jobs::JobStore;
use halite_sys::exit::ExitError;
use halite_sys::time::unix_now;
use halite_transport::sockets::{Context, Push, PushOptions};
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A job is not published if it is older, in seconds: its client has given up, and a minion that was started anew would run
/// it twice.
const FRESH: u64 = 30;

/// Takes what other masters tell.
pub struct Inbox {
    /// What the job log has.
    pub known: Known,
    publisher: Push,
    series: SaltSeries,
    /// When this process started, in Unix seconds.
    started: u64,
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
            known: Known::of(jobs),
            publisher: Push::connect(&Context::new(), &config.publish_pull(), options)?,
            series: config.salt_series,
            started: unix_now(),
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

    fn record(&mut self, peer: &str, mut record: JobRecord, bus: &mut Bus) -> io::Result<()> {
        let jid = record.jid.clone();
        let publication = std::mem::take(&mut record.publication);
        let is_fresh = record.published.abs_diff(unix_now()) <= FRESH;
        let is_earlier = record.published < self.started;
        self.returns += self.store(peer, record, bus)?;
        let is_new = !publication.is_empty() && self.known.publishes(&jid)?;
        if is_new && is_fresh {
            match self.publisher.send(&publication) {
                Ok(()) => self.published += 1,
                Err(e) => {
                    log::error!(jid:% = jid; "the publisher does not accept the job {jid} of {peer} ({e})")
                }
            }
        } else if is_new && is_earlier {
            log::debug!(jid:% = jid; "the job {jid} of {peer} was published before this process started");
        } else if is_new {
            log::warn!(jid:% = jid; "the job {jid} of {peer} came too late to be published, or its clock differs from ours");
        }
        Ok(())
    }

    /// Stores what is new of a record and announces it on the bus; the number of returns.
    ///
    /// # Errors
    /// The job log cannot be read or written.
    pub fn store(&mut self, peer: &str, record: JobRecord, bus: &mut Bus) -> io::Result<u64> {
        let jid = record.jid.clone();
        let (minions, missing) = (record.minions.clone(), record.missing.clone());
        let stored = self.known.store(peer, record)?;
        if let Some(load) = stored.load {
            bus.fire_all(announcements(&jid, &load, &minions, &missing, self.series));
        }
        let count = stored.returns.len() as u64;
        let events = stored.returns.into_iter();
        let events = events.map(|(id, load)| (format!("salt/job/{jid}/ret/{id}"), load));
        bus.fire_all(events.collect());
        Ok(count)
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

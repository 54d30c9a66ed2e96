//! The events of a run, and its record in the job cache.

use halite_config::MasterConfig;
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_master::events::trimmed;
use halite_store::jobs::JobStore;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long to wait for a bus that does not accept an event.
const PATIENCE: Duration = Duration::from_secs(2);

/// The event bus as used by one run, its states, and the runs that it starts: one connection, since the bus keeps the order
/// of events only within a connection.
#[derive(Clone)]
pub(crate) struct RunEvents {
    publisher: Arc<Mutex<Publisher>>,
    tag: String,
    stamp: StampStyle,
    largest: usize,
}

impl RunEvents {
    /// For events below `salt/<prefix>/<jid>`.
    pub fn open(config: &MasterConfig, prefix: &str, jid: impl Display) -> RunEvents {
        let stamp = config.salt_series.stamp_style();
        let publisher = Publisher::unconnected(config.event_pull(), Framing::Prefixed)
            .with_timeout(PATIENCE)
            .with_stamp(Some(stamp));
        RunEvents {
            publisher: Arc::new(Mutex::new(publisher)),
            tag: format!("salt/{prefix}/{jid}"),
            stamp,
            largest: usize::try_from(config.max_event_size).unwrap_or(usize::MAX),
        }
    }

    /// The same connection for events of a run that this one starts.
    pub fn of_inner(&self, jid: &Jid) -> RunEvents {
        RunEvents {
            tag: format!("salt/run/{jid}"),
            ..self.clone()
        }
    }

    /// The style of time stamps.
    pub fn stamp(&self) -> StampStyle {
        self.stamp
    }

    /// Fires `data` below the tag of the run; values too large for the bus are trimmed.
    pub fn fire(&self, what: &str, data: &Map) {
        self.fire_as(format!("{}/{what}", self.tag), data.clone());
    }

    /// Fires `data` with another tag.
    pub fn fire_as(&self, tag: String, data: Map) {
        let payload = trimmed(data, self.largest);
        let publisher = self.publisher.lock();
        let mut publisher = publisher.unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = publisher.fire(&Event { tag, payload }) {
            log::debug!("no event bus: {e}");
        }
    }
}

/// Stores the result of a runner or wheel function in the job cache, under the master's id (`salt/utils/job.py
/// store_job`).
pub(crate) fn keep(config: &MasterConfig, jobs: &dyn JobStore, jid: &Jid, record: Map) {
    if !config.job_cache {
        return;
    }
    let Ok(id) = config.id.parse() else {
        return;
    };
    let load = halite_wire::map! {
        "fun" => record.get("fun").cloned(), "arg" => record.get("fun_args").cloned().unwrap_or(Value::Array(Vec::new())),
        "tgt" => config.id.as_str(), "tgt_type" => "list", "jid" => jid,
        "user" => record.get("user").cloned(),
    };
    let mut kept = halite_wire::map! {"id" => config.id.as_str()};
    kept.set("return", record);
    let minions = [config.id.clone()];
    let saved = jobs
        .save_load(jid, &load, &minions, &[])
        .and_then(|()| jobs.save_return(jid, &id, &kept));
    if let Err(e) = saved {
        log::warn!("this run could not be stored in the job cache: {e}");
    }
}

//! The events of a run, and its record in the job cache.

use halite_config::MasterConfig;
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_master::events::trimmed;
use halite_store::jobs::JobStore;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::time::Duration;

/// How long to wait for a bus that does not accept an event.
const PATIENCE: Duration = Duration::from_secs(2);

/// The event bus as used by one run.
pub(crate) struct RunEvents {
    publisher: Option<Publisher>,
    tag: String,
    stamp: StampStyle,
    largest: usize,
}

impl RunEvents {
    /// Connects for events below `salt/<prefix>/<jid>`.
    pub fn open(config: &MasterConfig, prefix: &str, jid: &Jid) -> RunEvents {
        let path = config.event_pull();
        RunEvents {
            publisher: Publisher::connect(path, Framing::Prefixed)
                .ok()
                .map(|p| p.with_timeout(PATIENCE)),
            tag: format!("salt/{prefix}/{jid}"),
            stamp: config.salt_series.stamp_style(),
            largest: usize::try_from(config.max_event_size).unwrap_or(usize::MAX),
        }
    }

    /// The style of time stamps.
    pub fn stamp(&self) -> StampStyle {
        self.stamp
    }

    /// Fires `data`; values too large for the bus are trimmed.
    pub fn fire(&mut self, what: &str, data: &Map) {
        let Some(publisher) = &mut self.publisher else {
            return;
        };
        let payload = trimmed(data.clone(), self.largest);
        let tag = format!("{}/{what}", self.tag);
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

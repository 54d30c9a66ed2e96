//! Firing events on the master's bus from a role process.

use crate::config::{MasterConfig, SaltSeries};
use crate::wire::Map;
use crate::wire::msgpack::{self, Profile};
use halite_ipc::{Event, Framing, Publisher};
use std::path::PathBuf;
use std::time::Duration;

/// How long a role waits for an EventPublisher that is being restarted.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pushing end of the bus.
pub struct Bus {
    path: PathBuf,
    publisher: Option<Publisher>,
    naive_stamp: bool,
    lost: u64,
}

impl Bus {
    /// A bus below the `sock_dir` of `config`; connects when first used.
    pub fn new(config: &MasterConfig) -> Bus {
        Bus {
            path: config.sock_dir.join("master_event_pull.ipc"),
            publisher: None,
            naive_stamp: config.salt_series != SaltSeries::S3008,
            lost: 0,
        }
    }

    /// Fires `data` under `tag`, stamped with the time. An event that cannot be delivered
    /// is counted and logged: the caller's own work must not fail for it.
    pub fn fire(&mut self, tag: &str, mut data: Map) {
        data.set("_stamp", stamp(self.naive_stamp));
        let event = Event {
            tag: tag.to_owned(),
            payload: msgpack::encode_map(&data, Profile::Local),
        };
        if let Err(e) = self.push(&event) {
            self.lost += 1;
            log::error!("the event {tag} could not be fired ({e}); {} lost so far", self.lost);
        }
    }

    fn push(&mut self, event: &Event) -> Result<(), halite_ipc::Error> {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let tried = self.try_push(event);
            if tried.is_ok() || std::time::Instant::now() > end {
                return tried;
            }
            self.publisher = None;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_push(&mut self, event: &Event) -> Result<(), halite_ipc::Error> {
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            slot => slot.insert(Publisher::connect(&self.path, Framing::Prefixed)?),
        };
        publisher.fire(event)
    }
}

/// The time as `_stamp` carries it: naive UTC up to 3007, with an offset from 3008 on
/// (reference `salt-local.md` 1.3).
pub fn stamp(naive: bool) -> String {
    let form = if naive { "%Y-%m-%dT%H:%M:%S%.6f" } else { "%Y-%m-%dT%H:%M:%S%.6f+00:00" };
    jiff::Timestamp::now().strftime(form).to_string()
}

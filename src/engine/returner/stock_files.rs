//! The files that stock's `salt-run jobs.*` reads (`job_cache_compat: full`).

use super::sink::Sink;
use halite_config::MasterConfig;
use halite_returners::{Store, StoreError};
use halite_store::jobs::JobUpdate;
use halite_store::local::{self, StockLayout};
use std::io::ErrorKind;

/// A sink for the job cache of stock Salt below `cachedir`. Old jobs are removed together with those of the job log.
pub fn sink(config: &MasterConfig) -> Sink {
    Sink::with_store(
        "local_cache",
        Box::new(StockFiles(local::stock_jobs(config))),
    )
}

struct StockFiles(StockLayout);

impl Store for StockFiles {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        updates.iter().try_for_each(|update| {
            self.0.add(update).map_err(|e| {
                let why = format!("job {}: {e}", update.jid);
                match e.kind() {
                    ErrorKind::InvalidData | ErrorKind::InvalidInput => StoreError::Refused(why),
                    _ => StoreError::Away(why),
                }
            })
        })
    }
}

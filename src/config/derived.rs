//! Values derived from several options of the master, or from the `salt_series` it serves.

use super::kinds::SaltSeries;
use super::{MasterConfig, finish};

impl MasterConfig {
    /// Name of the file with the signature of the master's key: `master_pubkey_signature`, else
    /// the default of the series.
    pub fn signature_name(&self) -> String {
        match (&self.master_pubkey_signature, self.salt_series) {
            (Some(name), _) => name.clone(),
            (None, SaltSeries::S3008) => format!("{}_pubkey_signature", self.id),
            (None, SaltSeries::S3006 | SaltSeries::S3007) => "master_pubkey_signature".into(),
        }
    }

    /// Whether frames on the event bus have a length prefix.
    pub fn bus_prefixed(&self) -> bool {
        finish::prefixed(self.event_bus_framing, self.salt_series)
    }
}

//! `local`: the return on standard output (`salt/returners/local.py`). In a daemon's jobs it goes nowhere, as in stock.

use super::{Store, StoreError};
use halite_store::jobs::JobUpdate;
use halite_wire::{Value, pytext};
use std::io::Write;

/// Standard output.
pub struct Local;

impl Store for Local {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let returns = updates.iter().flat_map(|job| &job.returns);
        let text: String = returns
            .map(|ret| pytext::repr(&Value::Map(ret.load.clone())) + "\n")
            .collect();
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| StoreError::Away(e.to_string()))
    }
}

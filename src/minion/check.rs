//! What `halite-minion --check-config` tells of settings that cannot be honoured.

use halite_config::MinionConfig;
use halite_modules::execution::{engines, executors};
use std::sync::Arc;

/// Python files that are not used or broken, executors and engines that are not there. The minion runs without them.
pub fn warnings(config: &MinionConfig) -> Vec<String> {
    let opts = Arc::new(config.as_map());
    let mut out = halite_python::check::faults(&opts);
    out.extend(executors::absent(&opts));
    out.extend(engines::absent(
        &opts,
        &config.engines.0,
        "saltutil.sync_engines",
    ));
    out
}

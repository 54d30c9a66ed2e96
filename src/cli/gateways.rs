//! The gateways of this build.

use halite_client::runner;
use halite_config::MasterConfig;
use halite_gateway::Gateway;

/// All gateways. A new one is added here.
pub(super) const GATEWAYS: &[Gateway] = &[
    #[cfg(feature = "gateways")]
    halite_arena::gateway::GATEWAY,
    #[cfg(feature = "gateways")]
    halite_collective::gateway::GATEWAY,
    #[cfg(feature = "gateways")]
    halite_sysinspect::gateway::GATEWAY,
];

/// Registers the runner functions of gateways, and of clusters, in this process.
pub(super) fn register_runners() {
    let tables = GATEWAYS.iter().map(|gateway| gateway.runners);
    #[cfg(feature = "gateways")]
    let tables = tables.chain([halite_cluster::runners::FUNCTIONS]);
    runner::add(tables.collect());
}

/// Warnings and faults of the cluster that a master belongs to.
pub(super) fn check_cluster(config: &MasterConfig) -> (Vec<String>, Vec<String>) {
    #[cfg(feature = "gateways")]
    return halite_cluster::check::check(config);
    #[cfg(not(feature = "gateways"))]
    {
        let _ = config;
        Default::default()
    }
}

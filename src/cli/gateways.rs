//! The gateways of this build.

use halite_client::runner;
use halite_gateway::Gateway;

/// Every gateway. A new one gets a line here.
pub(super) const GATEWAYS: &[Gateway] = &[
    #[cfg(feature = "gateways")]
    halite_arena::gateway::GATEWAY,
    #[cfg(feature = "gateways")]
    halite_collective::gateway::GATEWAY,
    #[cfg(feature = "gateways")]
    halite_sysinspect::gateway::GATEWAY,
];

/// Makes the runner functions of gateways known to this process.
pub(super) fn register_runners() {
    runner::add(GATEWAYS.iter().map(|gateway| gateway.runners).collect());
}

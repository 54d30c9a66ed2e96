//! Gateway: MCollective and Choria. Outward, their servers are minions of this master; inward, this master's minions are nodes
//! of their collective.
//!
//! One thread decides everything (`serve.rs`): it hears the connector, the bus and the clock, and asks the two halves,
//! which know neither sockets nor disks: messages in, acts out (`act.rs`). `outward` finds nodes, keeps their
//! facts as grains and runs jobs on them; `inward` answers for minions. The connector's threads belong to the
//! broker; one thread hears the bus, one writes (`clerk.rs` of all gateways).
//!
//! Hears `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the cache,
//! keys to the key store. Below `cachedir/gateways/collective` it notes which ids came in here.
//!
//! When it fails: requests that were running are forgotten, and clients call their nodes lost; its successor looks
//! for all nodes at once.

mod act;
mod inward;
mod outward;
mod serve;

use super::{clerk, news};
use crate::config::{CollectiveGateway, MasterConfig};
use crate::master::roles::{RoleError, Roles};
use crate::sys::signals::StopFlag;

/// Its name in the table of roles.
pub const ROLE: &str = "gateway-collective";
/// Its name in the configuration and below `cachedir`.
const NAME: &str = "collective";
/// Jobs that may wait for the loop; then the bus waits, and drops for this listener.
const WAITING: usize = 10_000;
/// Messages of the broker that may wait for the loop; more are dropped and counted.
const HEARD: usize = 20_000;

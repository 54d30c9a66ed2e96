//! SUSE packages: `zypper` (`salt/modules/zypperpkg.py`).

mod files;
mod find;
mod install;
mod list;
mod locks;
mod repos;
mod run;
mod table;
mod wildcard;

use super::common;
use crate::execution::Call;
use halite_wire::Value;
pub use table::MODULE;

/// The root from the undeclared keywords.
fn root_arg(call: &Call<'_>) -> Value {
    common::option(call, "root")
}

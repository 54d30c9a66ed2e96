//! `pkg`: packages, through apt, dnf (yum) or zypper. A host has only the functions of its family, according to the
//! grain `os_family`.

mod apt;
mod common;
mod dnf;
mod ini;
pub(super) mod loose_version;
mod lowpkg;
mod rpm;
mod zypper;

pub use apt::expand_repo;
pub use common::{Packages, changes, holds, parse_pkgs, parse_sources, split_comparison};

use super::declare::ModulesByHost;
use halite_wire::Map;

/// Systems with dnf or yum outside the Red Hat family.
const YUM: [&str; 8] = [
    "Amazon",
    "XCP",
    "XenServer",
    "VirtuozzoLinux",
    "Virtuozzo",
    "Issabel PBX",
    "openEuler",
    "VMware Photon OS",
];

/// All variants of `pkg`, with predicates on the grains.
pub(super) const MODULES: ModulesByHost = &[
    (apt::MODULE, |grains| family(grains) == "Debian"),
    (dnf::MODULE, |grains| {
        let os = grains.str("os").unwrap_or_default();
        family(grains) == "RedHat" || YUM.iter().any(|name| name.eq_ignore_ascii_case(os))
    }),
    (zypper::MODULE, |grains| family(grains) == "Suse"),
];

fn family(grains: &Map) -> &str {
    grains.str("os_family").unwrap_or_default()
}

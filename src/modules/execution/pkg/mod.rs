//! `pkg`: packages, by apt, dnf (yum) or zypper. A host has the functions of its family only, with their
//! arguments, which the grain `os_family` says.

mod apt;
mod common;
mod dnf;
mod ini;
mod loose_version;
mod lowpkg;
mod rpm;
mod zypper;

use super::declare::ModulesByHost;
use halite_wire::Map;

/// Systems with dnf or yum that are of no family.
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

/// Every `pkg` there is, with the grains that a host with it has.
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

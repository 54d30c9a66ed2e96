//! The calls of `tests/modules/rpm` on a stock 3008 minion and on halite's minion, with the real programs of a
//! family of systems whose packages are those of rpm, against repositories that the test builds. Both must
//! return the same, or differ where the call says so and why.
//!
//! Each family has a host of its own: a mount namespace over which nothing reaches the real one (`slow_rpm/host.rs`).
//! `HALITE_MODULES=repos` makes only the calls of this file. Needs root.

mod common;
mod modules;
#[path = "modules/play.rs"]
mod play;

#[path = "slow_rpm/dnf.rs"]
mod dnf;
#[path = "slow_rpm/host.rs"]
mod host;
#[path = "slow_rpm/packages.rs"]
mod packages;
#[path = "slow_rpm/zypper.rs"]
mod zypper;

use common::{Minion, Stock};
use host::Host;

/// One family of systems.
struct Family {
    /// The folder below `tests/modules/rpm`, and the name of its test.
    name: &'static str,
    /// What both minions are told.
    minion: &'static str,
    /// Programs without which it cannot be tried.
    programs: &'static [&'static str],
    /// Directories that are as they were before each scenario.
    state: &'static [&'static str],
    /// Makes the configuration and installs what is there from the start; the repositories lie in
    /// [`packages::REPOS`].
    prepare: fn(),
}

#[test]
fn dnf_returns_what_stock_returns() {
    compare("dnf_returns_what_stock_returns", &dnf::FAMILY);
}

#[test]
fn zypper_returns_what_stock_returns() {
    compare("zypper_returns_what_stock_returns", &zypper::FAMILY);
}

/// Runs the test `name` again on a host of the family, and makes all calls there.
fn compare(name: &str, family: &Family) {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    if !host::inside() {
        return host::run_inside(name);
    }
    for program in family.programs {
        assert!(
            host::has(program),
            "{program} is not installed; scripts/test installs it"
        );
    }
    let host = Host::new(family);
    packages::build();
    (family.prepare)();
    host.keep();
    let (master, config) = play::master();
    let mut minions = [
        Minion::stock(&stock, &master, "stock", family.minion),
        Minion::halite(&master, "halite", family.minion),
    ];
    play::wait(&config, &mut minions);
    let scenarios = play::wanted(modules::rpm_scenarios(family.name));
    play::both(&config, &minions, &scenarios, Vec::new(), &|| host.reset());
}

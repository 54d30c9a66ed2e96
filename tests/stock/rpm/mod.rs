//! The calls of `tests/modules/rpm` on a stock 3008 minion and on halite's minion, with the real programs of a
//! family of systems whose packages are those of rpm, against repositories that the test builds. Both must
//! return the same, or differ where the call says so and why.
//!
//! Each family has a host of its own: a mount namespace over which nothing reaches the real one (`rpm/host.rs`).
//! `HALITE_MODULES=repos` makes only the calls of this file. Needs root.

use testing::modules::play;

mod dnf;
mod host;
mod packages;
mod zypper;

use host::Host;
use testing::{Minion, Stock};

/// One family of systems.
struct Family {
    /// The folder below `tests/modules/rpm`.
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

// Half of the calls each, beside each other: most of the time dnf starts.
const QUESTIONS: [&str; 4] = ["groups", "look", "odd", "repos"];

#[test]
fn dnf_says_what_stock_says() {
    compare("rpm::dnf_says_what_stock_says", &dnf::FAMILY, |file| {
        QUESTIONS.contains(&file)
    });
}

#[test]
fn dnf_does_what_stock_does() {
    compare("rpm::dnf_does_what_stock_does", &dnf::FAMILY, |file| {
        !QUESTIONS.contains(&file)
    });
}

#[test]
fn zypper_says_what_stock_says() {
    compare(
        "rpm::zypper_says_what_stock_says",
        &zypper::FAMILY,
        |file| zypper::QUESTIONS.contains(&file),
    );
}

#[test]
fn zypper_does_what_stock_does() {
    compare(
        "rpm::zypper_does_what_stock_does",
        &zypper::FAMILY,
        |file| !zypper::QUESTIONS.contains(&file),
    );
}

/// Runs the test `name` again on a host of the family, and makes there the calls of the files that are `meant`.
fn compare(name: &str, family: &Family, meant: fn(&str) -> bool) {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let mut scenarios = play::selected(testing::modules::rpm_scenarios(family.name));
    scenarios.retain(|s| meant(&s.file));
    if scenarios.is_empty() {
        return;
    }
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
    play::both(&config, &minions, &scenarios, &|| host.reset());
}

//! The calls of `tests/modules/calls` on a stock 3008 minion and on halite's minion, on this host:
//! both must return the same, or differ where the call says so and why.
//!
//! `HALITE_MODULES=file,cp` makes only those of these files. `HALITE_RECORD=1` records what stock answers instead, for `tests/fast/modules.rs`.

use testing::modules::play;

use halite::config::MasterConfig;
use halite::wire::{Value, pytext};
use testing::modules::play::{MINION, ask};
use testing::modules::{Call, Scenario, recorded};
use testing::{Master, Minion, Stock};

// A third of the time each, beside each other: most of the time a minion waits for a program.

/// Files whose calls change users, packages, disks and services of this host, or look at them.
const HOST: [&str; 22] = [
    "alternatives",
    "cron",
    "disk",
    "extfs",
    "group",
    "hosts",
    "kmod",
    "locale",
    "mount",
    "network",
    "partition",
    "pkg",
    "ps",
    "service",
    "shadow",
    "ssh",
    "status",
    "sysctl",
    "system",
    "timezone",
    "user",
    "xfs",
];

/// Files whose calls work on files in a directory of their own.
const FILES: [&str; 7] = ["archive", "cp", "data", "file", "git", "hashutil", "http"];

#[test]
fn calls_on_the_host_return_what_stock_returns() {
    compare(|file| HOST.contains(&file));
}

#[test]
fn calls_on_files_return_what_stock_returns() {
    if std::env::var_os("HALITE_RECORD").is_some() {
        return record();
    }
    compare(|file| FILES.contains(&file));
}

#[test]
fn other_calls_return_what_stock_returns() {
    compare(|file| !HOST.contains(&file) && !FILES.contains(&file));
}

#[test]
fn grains_are_stocks() {
    let Some((_master, config, _minions)) = start() else {
        return;
    };
    let wrong = other_grains(&config);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A halite master with a stock minion and halite's, both ready; nothing without stock Salt.
fn start() -> Option<(Master, MasterConfig, [Minion; 2])> {
    let stock = Stock::find("3008")?;
    let (master, config) = play::master();
    let mut minions = [
        Minion::stock(&stock, &master, "stock", MINION),
        Minion::halite(&master, "halite", MINION),
    ];
    play::wait(&config, &mut minions);
    Some((master, config, minions))
}

/// Makes the calls of the files that are `meant` on both minions.
fn compare(meant: fn(&str) -> bool) {
    let mut scenarios = play::selected(testing::modules::scenarios());
    scenarios.retain(|s| meant(&s.file));
    if scenarios.is_empty() {
        return;
    }
    let Some((_master, config, minions)) = start() else {
        return;
    };
    play::both(&config, &minions, &scenarios, &|| {});
}

/// Records what stock answers to the files of [`recorded::FILES`].
fn record() {
    let Some((_master, config, minions)) = start() else {
        return;
    };
    let scenarios = play::selected(testing::modules::scenarios());
    let twice = |scenario| [0; 2].map(|_| play::play(&config, &minions[0], scenario));
    let meant = |s: &&Scenario| recorded::FILES.contains(&s.file.as_str());
    let played: Vec<_> = scenarios
        .iter()
        .filter(meant)
        .map(|s| (s, twice(s)))
        .collect();
    recorded::write(&played);
}

/// Grains that differ without a reason in `tests/modules/grains.yaml`, and reasons without a difference.
fn other_grains(config: &MasterConfig) -> Vec<String> {
    let call = Call {
        fun: "grains.items".into(),
        ..Call::default()
    };
    let [stock, own] = ["stock", "halite"].map(|id| {
        let all = ask(config, id, &call, &[], 60).expect("grains");
        all.get("ret")
            .cloned()
            .and_then(Value::into_map)
            .expect("a map of grains")
    });
    let reasons = testing::modules::reasons("grains.yaml");
    let names = stock
        .iter()
        .chain(own.iter())
        .map(|(k, _)| pytext::str(k).into_owned());
    let names: std::collections::BTreeSet<String> = names.collect();
    let mut wrong = Vec::new();
    for name in &names {
        let (stock, own) = (stock.get(name), own.get(name));
        let shown = |v: Option<&Value>| v.map_or("not there".to_owned(), pytext::repr);
        match (stock == own, reasons.contains_key(name)) {
            (true, true) => wrong.push(format!("grain {name}: has a reason, but is the same")),
            (false, false) => wrong.push(format!(
                "grain {name}\n  stock  {}\n  halite {}",
                shown(stock),
                shown(own)
            )),
            _ => {}
        }
    }
    wrong
}

//! The calls of `tests/modules/calls` on a stock 3008 minion and on halite's minion, on this host:
//! both must return the same, or differ where the call says so and why.
//!
//! `HALITE_MODULES=file,cp` makes only those of these files. `HALITE_RECORD=1` records what stock answers instead, for `tests/fast/modules.rs`.

use testing::modules::play;

use halite::config::MasterConfig;
use halite::wire::{Value, pytext};
use testing::modules::play::{MINION, ask};
use testing::modules::{Call, Scenario, recorded};
use testing::{Minion, Stock};

#[test]
fn calls_return_what_stock_returns() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    let (master, config) = play::master();
    let mut minions = [
        Minion::stock(&stock, &master, "stock", MINION),
        Minion::halite(&master, "halite", MINION),
    ];
    play::wait(&config, &mut minions);
    let all = testing::modules::scenarios();
    let count = all.len();
    let scenarios = play::selected(all);
    // Before anything sets grains.
    let wrong = match scenarios.len() == count {
        true => other_grains(&config),
        false => Vec::new(),
    };
    if std::env::var_os("HALITE_RECORD").is_some() {
        let twice = |scenario| [0; 2].map(|_| play::play(&config, &minions[0], scenario));
        let meant = |s: &&Scenario| recorded::FILES.contains(&s.file.as_str());
        let played: Vec<_> = scenarios
            .iter()
            .filter(meant)
            .map(|s| (s, twice(s)))
            .collect();
        recorded::write(&played);
        return;
    }
    play::both(&config, &minions, &scenarios, wrong, &|| {});
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

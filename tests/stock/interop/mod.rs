//! Stock Salt and halite in one fleet, in any mix.
//!
//! One master with three minions (stock 3006, stock 3008, halite) per test, and every command
//! line tool that speaks to it; a small fleet of stock 3007 beside. Needs stock Salt (see
//! `tests/testing`).

mod fleet;
mod jobs;
mod life;
mod masters;
mod middle;
mod presence;
mod rotation;

use fleet::Fleet;
use testing::{Checks, Master, Stock};

/// What the masters of the tests are told.
const MASTER: &str = "nodegroups:\n  webs: 'G@role:web'\n  old: 'L@m3006'\n";

/// Both releases, or nothing to test.
fn stock() -> Option<(Stock, Stock)> {
    Some((Stock::find("3006")?, Stock::find("3008")?))
}

fn whole_matrix(master: Master, series: &Stock, old: &Stock, new: &Stock) {
    let tools = vec![master.halite_cli(), master.stock_cli(series)];
    let mut checks = Checks::default();
    let mut fleet = Fleet::start(master, &tools, old, new, &mut checks);
    for cli in &tools {
        jobs::all(&fleet, cli, &mut checks);
    }
    life::listen(&fleet, &tools, &mut checks);
    life::rotate(&fleet, &tools, &mut checks);
    life::restart(&mut fleet, &tools, &mut checks);
    checks.finish();
}

#[test]
fn halite_master_as_3008() {
    let Some((old, new)) = stock() else { return };
    let master = Master::halite(&format!("{MASTER}rotation_grace: 1\nsalt_series: '3008'"));
    whole_matrix(master, &new, &old, &new);
}

#[test]
fn halite_master_as_3006() {
    let Some((old, new)) = stock() else { return };
    let master = Master::halite(&format!("{MASTER}rotation_grace: 1\nsalt_series: '3006'"));
    whole_matrix(master, &old, &old, &new);
}

#[test]
fn stock_master_3008() {
    let Some((old, new)) = stock() else { return };
    let master = Master::stock(&new, &format!("{MASTER}salt_series: '3008'"));
    whole_matrix(master, &new, &old, &new);
}

#[test]
fn stock_master_3006() {
    let Some((old, new)) = stock() else { return };
    let master = Master::stock(&old, &format!("{MASTER}salt_series: '3006'"));
    whole_matrix(master, &old, &old, &new);
}

#[test]
fn halite_master_as_3007() {
    if let Some(stock) = Stock::find("3007") {
        middle::all(&stock);
    }
}

#[test]
fn presence_at_a_stock_master() {
    if let Some(stock) = Stock::find("3008") {
        presence::all(Master::stock(&stock, presence::MASTER), &stock);
    }
}

#[test]
fn presence_at_halite() {
    for series in ["3006", "3008"] {
        if let Some(stock) = Stock::find(series) {
            let lines = format!("{}salt_series: '{series}'", presence::MASTER);
            presence::all(Master::halite(&lines), &stock);
        }
    }
}

#[test]
fn keys_of_publications_change_under_stock_minions() {
    let Some((old, new)) = stock() else { return };
    rotation::all(&old, &new);
}

#[test]
fn a_halite_minion_of_stock_masters_of_two_series() {
    let Some((old, new)) = stock() else { return };
    masters::all(&old, &new);
}

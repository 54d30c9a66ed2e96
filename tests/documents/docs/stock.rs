//! The samples that need Python packages, with those that come along with stock Salt.

use super::samples::python_hears;
use testing::{Master, Stock};

#[test]
fn the_python_of_3006_hears() {
    hears("3006");
}

#[test]
fn the_python_of_3007_hears() {
    hears("3007");
}

#[test]
fn the_python_of_3008_hears() {
    hears("3008");
}

fn hears(series: &str) {
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let master = Master::halite(&format!("salt_series: '{series}'"));
    let python = stock.program("python");
    python_hears(&python, "events_msgpack.py", &master.bus(), &master);
    python_hears(&python, "events_salt.py", &master.home.sockets(), &master);
}

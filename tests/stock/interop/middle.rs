//! The series between: a stock 3007 minion and stock 3007 tools at halite's master.
//!
//! Small on purpose: the asyncio client of stock 3007 may wait for its whole timeout when many
//! events reach it at once, whatever the master.

use serde_json::{Value, json};
use std::time::Instant;
use testing::check::same;
use testing::{Checks, LONG, Master, Minion, Stock, wait_until};

const ID: &str = "m3007";

/// Sign-in, a job without arguments, one with a shell command and one with all sorts of values.
pub fn all(stock: &Stock) {
    let master = Master::halite("salt_series: '3007'");
    let mut minion = Minion::stock(stock, &master, ID, "");
    let tools = [master.stock_cli(stock), master.halite_cli()];
    let mut checks = Checks::default();
    let pending = master.home.pki().join("minions_pre").join(ID);
    wait_until("the minion asks to be accepted", || {
        minion.must_live();
        pending.exists()
    });
    checks.run("stock salt-key accepts", || {
        tools[0].key(&["-a", ID, "-y"]).ok()?;
        same(pending.exists(), false)
    });
    let end = Instant::now() + LONG;
    while tools[1]
        .ask(&[ID, "test.ping", "-t", "3"])
        .ok()
        .and_then(|all| all.get(ID).cloned())
        != Some(json!(true))
    {
        minion.must_live();
        assert!(
            Instant::now() < end,
            "the minion does not answer:\n{}",
            master.tail()
        );
    }
    for cli in &tools {
        for (args, wanted) in [
            (vec!["test.ping"], json!(true)),
            (vec!["test.version"], json!(minion_version(stock))),
            (vec!["cmd.run", "echo 'grüße  3007'"], json!("grüße  3007")),
            (
                vec!["test.arg", "7", "[1, {a: b}]", "x=y", "n=None"],
                json!({"args": [7, [1, {"a": "b"}]], "kwargs": {"x": "y", "n": null}}),
            ),
        ] {
            checks.run(&format!("{}: {}", cli.name, args.join(" ")), || {
                let mut all = vec![ID];
                all.extend(&args);
                let mut returned = cli.ask(&all)?.remove(ID).unwrap_or_default();
                let kwargs = returned.get_mut("kwargs").and_then(Value::as_object_mut);
                if let Some(kwargs) = kwargs {
                    kwargs.retain(|name, _| !name.starts_with("__pub"));
                }
                same(returned, wanted)
            });
        }
    }
    checks.finish();
}

/// What its programs say of themselves.
fn minion_version(stock: &Stock) -> String {
    let mut command = std::process::Command::new(stock.program("salt-minion"));
    let said = command.arg("--version").output().expect("stock Salt runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned()
}

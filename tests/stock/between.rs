//! The mine and jobs between a stock minion and halite's, at halite's master and at a stock one.

use serde_json::{Value, json};
use testing::check::same;
use testing::{Checks, Cli, Master, Minion, Stock, wait_until};

const MASTER: &str =
    "auto_accept: true\npeer:\n  .*:\n    - test.*\npeer_run:\n  .*:\n    - jobs.*\n";

fn one(cli: &Cli, id: &str, args: &[&str]) -> Result<Value, String> {
    let mut all = vec![id];
    all.extend(args);
    cli.ask(&all)?
        .remove(id)
        .ok_or(format!("{id} did not return"))
}

fn between(master: Master, stock: &Stock) {
    let cli = master.stock_cli(stock);
    let _minions = [
        Minion::stock(stock, &master, "a", ""),
        Minion::halite(&master, "b", "mine_functions: {test.ping: []}"),
    ];
    wait_until("both minions answer", || {
        cli.ask(&["*", "test.ping"])
            .is_ok_and(|all| all.len() == 2 && all.values().all(|v| v == &json!(true)))
    });
    let mut checks = Checks::default();
    for (me, other) in [("a", "b"), ("b", "a")] {
        let ask = |args: &[&str], want: Value| same(one(&cli, me, args)?, want);
        checks.run(&format!("{me}: mine"), || {
            ask(
                &["mine.send", "x", "mine_function=test.echo", me],
                json!(true),
            )?;
            let only = format!("allow_tgt={other}");
            ask(
                &["mine.send", "y", "mine_function=test.echo", me, &only],
                json!(true),
            )?;
            ask(&["mine.get", me, "x"], json!({me: me}))?;
            ask(&["mine.get", me, "y"], json!({}))?;
            same(one(&cli, other, &["mine.get", me, "y"])?, json!({me: me}))?;
            ask(&["mine.delete", "x"], json!(true))?;
            ask(&["mine.get", me, "x"], json!({}))
        });
        checks.run(&format!("{me}: publish"), || {
            ask(
                &["publish.publish", other, "test.echo", "hello"],
                json!({other: "hello"}),
            )?;
            ask(&["publish.publish", other, "cmd.run", "id"], json!({}))?;
            ask(
                &["publish.full_data", other, "test.ping"],
                json!({other: {"ret": true}}),
            )?;
            ask(&["publish.runner", "manage.up"], json!({}))
        });
    }
    checks.run("the halite minion's own update", || {
        same(
            one(&cli, "a", &["mine.get", "b", "test.ping"])?,
            json!({"b": true}),
        )
    });
    checks.finish();
}

#[test]
fn at_halite() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    between(Master::halite(MASTER), &stock);
}

#[test]
fn at_stock() {
    let Some(stock) = Stock::find("3008") else {
        return;
    };
    between(Master::stock(&stock, MASTER), &stock);
}

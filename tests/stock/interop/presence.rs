//! Events of presence: a minion comes and goes while stock's listener hears the master.

use serde_json::{Value, json};
use testing::check::same;
use testing::process::Process;
use testing::{Checks, Master, Minion, Stock, wait_until};

/// Further lines of configuration.
pub const MASTER: &str = "auto_accept: true\npresence_events: true\n";

/// What is told, the same one after the other once.
pub fn all(master: Master, stock: &Stock) {
    let dir = testing::short_dir();
    let mut command = master.stock_cli(stock).command("salt-run");
    command.args(["state.event", "salt/presence/*"]);
    let log = dir.path().join("events");
    let listener = Process::start("a listener", &mut command, &log);
    let told = |last: &[(String, Value)]| {
        let heard = events(&listener.output());
        heard.ends_with(last)
    };
    let present = |ids: &[&str]| {
        let data = json!({"present": ids});
        ("salt/presence/present".to_owned(), data)
    };
    let change = |new: &[&str], lost: &[&str]| {
        let data = json!({"new": new, "lost": lost});
        ("salt/presence/change".to_owned(), data)
    };
    wait_until("nobody is present", || told(&[present(&[])]));
    let minion = Minion::stock(stock, &master, "m1", "");
    wait_until("the minion is present", || told(&[present(&["m1"])]));
    drop(minion);
    wait_until("the minion is gone", || {
        told(&[present(&[])]) && events(&listener.output()).len() > 3
    });
    let mut checks = Checks::default();
    let expected = [
        present(&[]),
        change(&["m1"], &[]),
        present(&["m1"]),
        change(&[], &["m1"]),
        present(&[]),
    ];
    checks.run("events of presence", || {
        same(events(&listener.output()), expected.to_vec())
    });
    checks.finish();
}

fn events(text: &str) -> Vec<(String, Value)> {
    let mut found: Vec<(String, Value)> = Vec::new();
    for line in text.lines() {
        let Some((tag, data)) = line.split_once('\t') else {
            continue;
        };
        let Ok(Value::Object(mut data)) = serde_json::from_str(data) else {
            continue;
        };
        data.remove("_stamp");
        let event = (tag.to_owned(), Value::Object(data));
        if found.last() != Some(&event) {
            found.push(event);
        }
    }
    found
}

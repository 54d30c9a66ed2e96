//! Runners that a stock minion calls (`publish.runner`, option `peer_run`): the same answers from
//! a stock master and from halite.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use testing::check::same;
use testing::{Checks, Cli, Master, Minion, Stock, cli, wait_until};

const MASTER: &str = "auto_accept: true\npeer_run:\n  m1:\n    - test.arg\n    - test.raw_arg\n    - manage.up\n    - test.nosuch\n    - jobs.*\n";

/// What the minion asks for; the last line is refused.
const CALLS: &[&[&str]] = &[
    &["test.arg", "[a, 'b=c']"],
    &["test.arg", "[1, '2', 'x=[1, 2]', 'y=# no comment', 'z=']"],
    &["test.arg", "['{a: 1}', '[b']"],
    &["test.arg"],
    &["test.raw_arg", "[a, 'b=c']"],
    &["jobs.list_job", "['20200101000000000000']"],
    &["test.sleep", "[0]"],
];

struct Place {
    _master: Master,
    minion: Minion,
}

impl Place {
    fn start(master: Master, stock: &Stock, cli: &Cli) -> Place {
        let mut minion = Minion::stock(stock, &master, "m1", "");
        wait_until("the minion answers", || {
            minion.must_live();
            let said = cli.ask(&["m1", "test.ping", "-t", "3"]).unwrap_or_default();
            said.get("m1") == Some(&Value::Bool(true))
        });
        Place {
            _master: master,
            minion,
        }
    }

    /// What `publish.runner` returned to the minion.
    fn call(&self, stock: &Stock, args: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(stock.program("salt-call"));
        command.arg("-c").arg(self.minion.home.config_dir());
        command.args(["--out=json", "-l", "quiet", "publish.runner"]);
        command.args(args);
        let line = format!("salt-call publish.runner {args:?}");
        let ran = cli::run(command, line, Duration::from_secs(90));
        let mut all = ran.json()?;
        let mut local = all["local"].take();
        // Names the process, the time, and whom the call came from; stock's, too, differ from call to call.
        if let Some(kwargs) = local.get_mut("kwargs").and_then(Value::as_object_mut) {
            kwargs.retain(|name, _| !name.starts_with("__pub"));
        }
        Ok(local)
    }
}

fn compare(series: &str) {
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let theirs = Master::stock(&stock, MASTER);
    let theirs_cli = theirs.stock_cli(&stock);
    let theirs = Place::start(theirs, &stock, &theirs_cli);
    let ours = Master::halite(&format!("{MASTER}salt_series: '{series}'\n"));
    let ours_cli = ours.halite_cli();
    let ours = Place::start(ours, &stock, &ours_cli);
    let mut checks = Checks::default();
    for args in CALLS {
        checks.run(&format!("publish.runner {args:?}"), || {
            same(ours.call(&stock, args)?, theirs.call(&stock, args)?)
        });
    }
    checks.finish();
}

#[test]
fn as_stock_3006() {
    compare("3006");
}

#[test]
fn as_stock_3008() {
    compare("3008");
}

//! A halite minion of two stock masters at once, each of another series: one goes and comes back.

use serde_json::json;
use testing::config::Home;
use testing::{Cli, Master, Minion, Stock, wait_until};

/// Whether the minion answers the job of a master.
fn answers(cli: &Cli) -> bool {
    let said = cli.ask(&["-t", "10", "m1", "test.arg", "x"]);
    said.is_ok_and(|all| all.get("m1").is_some_and(|ret| ret["args"] == json!(["x"])))
}

/// Both hear of the minion, one alone does, both again.
pub fn all(old: &Stock, new: &Stock) {
    let extra = "auto_accept: true\n";
    let mut first = Master::stock(old, extra);
    let mut second = Master::stock(new, extra);
    // Masters of one minion share their key; 3008 calls it by the master's id, and `master.pem` is a link.
    second.stop();
    for entry in std::fs::read_dir(second.home.pki()).unwrap() {
        let path = entry.unwrap().path();
        let Some(kind @ ("pem" | "pub")) = path.extension().and_then(|e| e.to_str()) else {
            continue;
        };
        std::fs::remove_file(&path).unwrap();
        std::fs::copy(first.home.pki().join(format!("master.{kind}")), &path).unwrap();
    }
    second.start_again();
    let tools = [first.stock_cli(old), second.stock_cli(new)];
    let home = Home::create(second.place("m1"), "minion");
    let further = home.config_dir().join("minion.d");
    std::fs::create_dir_all(&further).unwrap();
    // Another port of publications than the usual one would be meant for both.
    let list = format!(
        "publish_port: 4505\nmaster: ['127.0.0.1:{}', '127.0.0.1:{}']\n",
        first.ret_port, second.ret_port
    );
    std::fs::write(further.join("masters.conf"), list).unwrap();
    let mut minion = Minion::halite(&second, "m1", "auth_timeout: 5\n");
    for cli in &tools {
        wait_until("each master is answered", || answers(cli));
    }
    // Results of jobs that run beside each other go to whoever asked.
    let echo = |cli: &Cli, text: &str| {
        let all = cli.ask(&["m1", "test.echo", text]).unwrap();
        assert_eq!(all["m1"], json!(text), "{}", minion.tail());
    };
    std::thread::scope(|scope| {
        for (cli, text) in tools.iter().zip(["old", "new"]) {
            scope.spawn(|| echo(cli, text));
        }
    });
    first.stop();
    assert!(answers(&tools[1]), "{}", minion.tail());
    first.start_again();
    wait_until("the master that is back is answered", || answers(&tools[0]));
    assert!(answers(&tools[1]));
    minion.must_live();
}

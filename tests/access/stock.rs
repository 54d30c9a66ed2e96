//! Stock tools against a halite master.

use super::common::Stock;
use super::{Place, allowed};

const CONFIG: &str = "
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: htpasswd
    fred: ['test.*', '@jobs', '@wheel']
";

fn tools(series: &str) {
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let place = Place::start(&format!("salt_series: '{series}'\n{CONFIG}"));
    let cli = place.master.stock_cli(&stock);
    let login = ["-a", "file", "--username", "fred", "--password", "geheim"];
    let as_fred = |tool: &str, args: &[&str]| {
        let mut all = login.to_vec();
        all.extend(args);
        place.run(&cli, tool, &all)
    };
    // Stock tools take root's key file where they can read it and a token is there.
    allowed(&as_fred("salt", &["m1", "test.ping", "--out=json"]));
    let denied = as_fred("salt", &["m1", "cmd.run", "id"]);
    assert!(
        denied.out.contains("Authorization error occurred."),
        "{}",
        denied.describe()
    );
    let runs = as_fred("salt-run", &["jobs.list_jobs", "--out=json"]);
    assert!(runs.out.contains("test.ping"), "{}", runs.describe());
    let denied = as_fred("salt-run", &["manage.up"]);
    let told = format!("{}{}", denied.out, denied.err);
    assert!(
        told.contains("Authentication failure"),
        "{}",
        denied.describe()
    );
    let made = as_fred("salt", &["-T", "m1", "test.ping", "--out=json"]);
    allowed(&made);
    let token = std::fs::read_to_string(place.token_file()).unwrap();
    assert_eq!(token.len(), 64, "{}", made.describe());
    let last = place.audit().pop().unwrap();
    assert_eq!(last["method"], "token:file");
    // The token that a stock tool keeps serves halite's as well.
    let own = place.run(
        &place.cli,
        "salt",
        &["-a", "file", "m1", "test.ping", "--out=json"],
    );
    allowed(&own);
}

#[test]
fn tools_of_3006() {
    tools("3006");
}

#[test]
fn tools_of_3008() {
    tools("3008");
}

//! Stock tools against a halite master.

use super::pam::{Account, PASSWORD, PLAIN};
use super::{Place, allowed};
use testing::Stock;

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

fn pam(series: &str, tag: &str) {
    let Some(stock) = Stock::find(series) else {
        return;
    };
    let Some(account) = Account::make(tag, PLAIN) else {
        return;
    };
    let place = Place::start(&format!("salt_series: '{series}'\n{}", account.config()));
    let cli = place.master.stock_cli(&stock);
    let ask = |password: &str, args: &[&str]| {
        let mut all = vec![
            "-a",
            "pam",
            "--username",
            &account.name,
            "--password",
            password,
        ];
        all.extend(args);
        place.run(&cli, "salt", &all)
    };
    allowed(&ask(PASSWORD, &["m1", "test.ping", "--out=json"]));
    let by_group = ask(PASSWORD, &["m1", "test.echo", "x", "--out=json"]);
    allowed(&by_group);
    let denied = ask(PASSWORD, &["m1", "cmd.run", "id"]);
    let told = format!("{}{}", denied.out, denied.err);
    assert!(
        told.contains("Authorization error occurred."),
        "{}",
        denied.describe()
    );
    let wrong = ask("falsch", &["m1", "test.ping"]);
    let told = format!("{}{}", wrong.out, wrong.err);
    assert!(
        told.contains("Authentication error occurred."),
        "{}",
        wrong.describe()
    );
    let made = ask(PASSWORD, &["-T", "m1", "test.ping", "--out=json"]);
    allowed(&made);
    let token = std::fs::read_to_string(place.token_file()).unwrap();
    assert_eq!(token.len(), 64, "{}", made.describe());
    // The token stands for the password now; stock's tools would take root's key file first.
    let ping = ["-a", "pam", "m1", "test.ping", "--out=json"];
    let again = place.run(&place.cli, "salt", &ping);
    allowed(&again);
    assert_eq!(place.audit().pop().unwrap()["method"], "token:pam");
}

#[test]
fn pam_of_3006() {
    pam("3006", "s");
}

#[test]
fn pam_of_3008() {
    pam("3008", "t");
}

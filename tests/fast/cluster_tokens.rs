//! Tokens of external authentication: what one master has given, the others of its cluster accept.

use halite::client::local::LocalClient;
use serde_json::json;
use std::process::Command;
use testing::cluster::{Cluster, LINES, is_member};
use testing::{Master, wait_until};

const ACCESS: &str = "external_auth: {sharedsecret: {fred: ['test.*', '@runner']}}\nsharedsecret: 5e6f7a8b9c0d1e2f3a4b\n";

/// `halite-run` at a master, as somebody whose token is in this file.
fn run(master: &Master, token: &std::path::Path, args: &[&str]) -> Command {
    let mut command = master.halite_cli().command("salt-run");
    command
        .args(["-a", "sharedsecret", "--out=json"])
        .args(args);
    command.env("HOME", token.parent().expect("a directory"));
    command
}

#[test]
fn a_token_of_one_master_is_valid_at_all() {
    let Some(mut cluster) = Cluster::start(&format!("token_expire: 3600\n{ACCESS}")) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let token = home.path().join("salt_token");
    let login = [
        "-T",
        "--username=fred",
        "--password=5e6f7a8b9c0d1e2f3a4b",
        "test.arg",
        "here",
    ];
    let made = run(&cluster.masters[0], &token, &login).output().unwrap();
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success() && token.is_file(), "{text}");
    let works = |master: &Master| {
        let ran = run(master, &token, &["test.arg", "there"])
            .output()
            .unwrap();
        let out: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
        ran.status.success() && out["args"] == json!(["there"])
    };
    assert!(works(&cluster.masters[0]));
    wait_until("the second knows it", || works(&cluster.masters[1]));
    // One that joins later is told what is valid.
    let nats = cluster.nats.address();
    let third = Master::halite(&format!(
        "id: three\n{LINES}cluster: {{servers: ['{nats}'], replicas: 1}}\n{ACCESS}"
    ));
    wait_until("the third is a member", || is_member(&third));
    wait_until("the third knows it", || works(&third));
    // One that has lost it is told again by the others, and a stranger's word is worth nothing anywhere.
    cluster.masters[0].stop();
    std::fs::remove_dir_all(cluster.masters[0].home.cache().join("tokens")).unwrap();
    cluster.masters[0].start_again();
    wait_until("the first knows it again", || works(&cluster.masters[0]));
    let text = std::fs::read_to_string(&token).unwrap();
    std::fs::write(&token, "ab".repeat(32)).unwrap();
    assert!(!works(&cluster.masters[1]));
    // What is revoked at one is revoked at all, also at one that was away, and by its word no other takes it up again.
    std::fs::write(&token, &text).unwrap();
    assert!(works(&third));
    cluster.masters[0].stop();
    let config = halite::config::load_master(&third.home.config_dir()).unwrap();
    let revoke = || {
        LocalClient::new(config.clone())
            .rm_token(text.trim())
            .unwrap()
    };
    assert!(revoke() && !revoke());
    assert!(!works(&third));
    wait_until("the second hears of it", || !works(&cluster.masters[1]));
    cluster.masters[0].start_again();
    wait_until("the first hears of it", || !works(&cluster.masters[0]));
    assert!(!works(&third) && !works(&cluster.masters[1]));
}

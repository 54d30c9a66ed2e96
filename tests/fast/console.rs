//! The console, in a real browser: a master, three minions, a fourth whose key waits, and `tests/console/run.mjs`, which plays what
//! people do. `scripts/test console` has what it takes.

use crate::api::USERS;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use testing::harness::free_ports;
use testing::{Master, Minion, wait_until};

#[test]
fn people_use_it_in_a_browser() {
    let Some(dir) = std::env::var_os("HALITE_CONSOLE_TESTS") else {
        eprintln!("skipped: HALITE_CONSOLE_TESTS is not set; `scripts/test console` sets it");
        return;
    };
    let [port, _] = free_ports();
    let home = tempfile::tempdir().unwrap();
    let users = home.path().join("users");
    std::fs::write(&users, USERS).unwrap();
    std::fs::set_permissions(&users, PermissionsExt::from_mode(0o600)).unwrap();
    let master = Master::halite(&format!(
        "id: master1\ntimeout: 5\nexternal_auth:\n  file:\n    ^filename: {}\n    ^filetype: text\n    \
         alice: ['.*', '@runner', '@wheel', '@jobs']\n    bob: ['test.*']\n\
         netapi_enable_clients: [local, local_async, runner, wheel]\n\
         api: {{port: {port}, host: 127.0.0.1, disable_ssl: true}}\n",
        users.display()
    ));
    let ids = ["m1", "m2", "m3"];
    let _minions = ids.map(|id| Minion::halite(&master, id, ""));
    let _newcomer = Minion::halite(&master, "newcomer", "");
    let waits = |id: &str| master.home.pki().join("minions_pre").join(id).exists();
    wait_until("all wait to be accepted", || {
        ids.iter().chain(&["newcomer"]).all(|id| waits(id))
    });
    for id in ids {
        let accepted = master.halite_cli().key(&["-y", "-a", id]);
        accepted.ok().expect("it is accepted");
    }
    wait_until("three answer", || {
        let said = master.halite_cli().ask(&["*", "test.ping", "-t", "1"]);
        said.is_ok_and(|said| said.len() == 3)
    });
    wait_until("it listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let played = Command::new("node")
        .arg("run.mjs")
        .current_dir(dir)
        .env("HALITE_CONSOLE_URL", format!("http://127.0.0.1:{port}/"))
        .env("HALITE_CONSOLE_USER", "alice")
        .env("HALITE_CONSOLE_PASSWORD", "wonder")
        .env("HALITE_CONSOLE_NARROW_USER", "bob")
        .env("HALITE_CONSOLE_NARROW_PASSWORD", "builder")
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&played.stdout);
    let complaints = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{said}{complaints}");
    let steps = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(steps >= 15, "{said}");
}

#[test]
fn people_log_in_at_an_openid_provider() {
    let Some(dir) = std::env::var_os("HALITE_CONSOLE_TESTS") else {
        eprintln!("skipped: HALITE_CONSOLE_TESTS is not set; `scripts/test console` sets it");
        return;
    };
    let [port, provider] = free_ports();
    let url = format!("http://127.0.0.1:{port}/");
    let issuer = format!("http://127.0.0.1:{provider}");
    let _master = Master::halite(&format!(
        "external_auth:\n  oidc:\n    ^issuer: {issuer}\n    ^client_id: halite\n    \
         ^client_secret: 'a secret: with & and +'\n    ^redirect_uri: {url}oidc/callback\n    \
         ^scope: openid groups\n    ^title: Company login\n    \
         'ops%': ['.*', '@runner', '@wheel', '@jobs']\n\
         netapi_enable_clients: [local, local_async, runner, wheel]\n\
         api: {{port: {port}, host: 127.0.0.1, disable_ssl: true}}\n",
    ));
    wait_until("it listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let played = Command::new("node")
        .arg("oidc.mjs")
        .current_dir(dir)
        .env("HALITE_CONSOLE_URL", &url)
        .env("HALITE_CONSOLE_ISSUER", &issuer)
        .envs(
            ["USER", "PASSWORD", "NARROW_USER", "NARROW_PASSWORD"]
                .map(|name| (format!("HALITE_CONSOLE_{name}"), "unused")),
        )
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&played.stdout);
    let complaints = String::from_utf8_lossy(&played.stderr);
    assert!(played.status.success(), "{said}{complaints}");
}

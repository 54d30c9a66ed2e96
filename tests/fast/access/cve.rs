//! Flaws of authorisation that stock Salt had, with a real master (docs/cve.md).

use super::{Place, allowed, refused, unproven};
use nix::unistd::{User, geteuid};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::time::Duration;

const LOCAL: &str =
    "publisher_acl:\n  nobody: [test.ping]\npublisher_acl_blacklist:\n  users: [daemon]\n";

/// Runs `halite` as another account of this host, in the group of the master's.
fn as_account(place: &Place, user: &str, args: &[&str]) -> super::Ran {
    let account = User::from_name(user).unwrap().unwrap();
    let mut command = place.cli.command("salt");
    command
        .args(args)
        .args(["--out=json"])
        .uid(account.uid.as_raw())
        .gid(0);
    command.env("HOME", "/nonexistent").env_remove("SUDO_USER");
    super::run(
        command,
        format!("as {user} {args:?}"),
        Duration::from_secs(60),
    )
}

#[test]
fn a_local_user_with_a_key_of_his_own() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can act as another account");
        return;
    }
    let place = Place::start(LOCAL);
    for dir in [
        place.master.home.root(),
        place.master.home.root().parent().unwrap(),
    ] {
        std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let key = place.master.home.cache().join(".nobody_key");
    let nobody = User::from_name("nobody").unwrap().unwrap();
    let meta = key.metadata().unwrap();
    assert_eq!(
        (meta.uid(), meta.mode() & 0o777),
        (nobody.uid.as_raw(), 0o600)
    );
    allowed(&as_account(&place, "nobody", &["m1", "test.ping"]));
    refused(&as_account(&place, "nobody", &["m1", "cmd.run", "id"]));
    let other = as_account(&place, "daemon", &["m1", "test.ping"]);
    assert_ne!(other.status, Some(0), "{}", other.describe());
}

#[test]
fn an_ended_token() {
    // CVE-2021-3144.
    let config = "
token_expire: 1
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: htpasswd
    fred: ['.*']
";
    let place = Place::start(config);
    allowed(&place.salt("file", "fred", "geheim", &["-T", "m1", "test.ping"]));
    let tokens = place.master.home.cache().join("tokens");
    assert!(tokens.is_dir());
    super::wait_until("the ended token is removed by Maintenance", || {
        std::fs::read_dir(&tokens).unwrap().count() == 0
    });
    // The tool would not use an old file; a client that does gets nothing.
    let now = std::time::SystemTime::now();
    let file = std::fs::File::options()
        .write(true)
        .open(place.token_file())
        .unwrap();
    file.set_modified(now + Duration::from_secs(60)).unwrap();
    unproven(&place.run(&place.cli, "salt", &["-a", "file", "m1", "test.ping"]));
}

#[test]
fn no_minions_of_a_lower_master_by_a_limited_permission() {
    // CVE-2022-22941: nobody matches here, so that whoever is below a syndic would be meant.
    let config = "
order_masters: true
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: htpasswd
    fred: [{'m1': ['test.ping']}]
    mary: ['test.ping']
";
    let place = Place::start(config);
    allowed(&place.salt("file", "fred", "geheim", &["m1", "test.ping"]));
    refused(&place.salt("file", "fred", "geheim", &["lower1", "test.ping"]));
    let mary = place.salt(
        "file",
        "mary",
        "geheim",
        &["--async", "lower1", "test.ping"],
    );
    assert_eq!(mary.status, Some(0), "{}", mary.describe());
}

/// CVE-2021-25284: passwords, tokens and keys of clients are in no file, at any level of the log.
#[test]
fn proofs_are_not_logged() {
    let config = "
log_level_logfile: trace
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: htpasswd
    fred: ['.*', '@runner', '@wheel']
";
    let place = Place::start(config);
    allowed(&place.salt("file", "fred", "geheim", &["-T", "m1", "test.ping"]));
    unproven(&place.salt("file", "fred", "falsches-wort", &["m1", "test.ping"]));
    let token = std::fs::read_to_string(place.token_file()).unwrap();
    allowed(&place.run(
        &place.cli,
        "salt",
        &["-a", "file", "m1", "test.ping", "--out=json"],
    ));
    let user = halite::sys::process::user_name();
    let key = place.master.home.cache().join(format!(".{user}_key"));
    let text = std::fs::read_to_string(&key).unwrap();
    allowed(&place.run(&place.cli, "salt", &["m1", "test.ping", "--out=json"]));
    for secret in ["geheim", "falsches-wort", token.trim()] {
        let found = place.files_with(secret);
        assert!(found.is_empty(), "{secret:?} in {found:?}");
    }
    assert_eq!(place.files_with(text.trim()), [key]);
}

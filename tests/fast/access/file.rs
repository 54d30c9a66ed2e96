//! The system `file`, tokens, runners, wheel, the audit log.

use super::{Place, allowed, refused, unproven};
use std::os::unix::fs::PermissionsExt;

const CONFIG: &str = "
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: htpasswd
    fred:
      - 'test.*'
      - '@jobs'
      - '@wheel': ['key.list_all', 'key.name_match']
    mary:
      - 'm1':
        - test.ping
        - test.arg: {args: ['safe$'], kwargs: {color: 'blue$'}}
      - 'G@os:*':
        - test.version
token_expire: 600
publisher_acl_blacklist:
  modules: [test.exception]
";

#[test]
fn users_of_a_file() {
    let place = Place::start(CONFIG);
    let fred = |args: &[&str]| place.salt("file", "fred", "geheim", args);
    let mary = |args: &[&str]| place.salt("file", "mary", "geheim", args);
    allowed(&fred(&["*", "test.ping"]));
    unproven(&place.salt("file", "fred", "falsch", &["*", "test.ping"]));
    unproven(&place.salt("file", "eve", "geheim", &["*", "test.ping"]));
    unproven(&place.salt("pam", "fred", "geheim", &["*", "test.ping"]));
    refused(&fred(&["*", "cmd.run", "id"]));
    refused(&fred(&["*", "test.exception"]));
    refused(&fred(&["*", "test.ping,cmd.run", ",", "id"]));
    allowed(&mary(&["m1", "test.ping"]));
    refused(&mary(&["m1", "test.echo", "x"]));
    allowed(&mary(&["m1", "test.arg", "safe", "color=blue"]));
    refused(&mary(&["m1", "test.arg", "evil", "color=blue"]));
    refused(&mary(&["m1", "test.arg", "safe", "color=red"]));
    // Her permission is for minions with a grain: the job goes to these by name.
    allowed(&mary(&["-G", "os:*", "test.version"]));
    let audit = place.audit();
    let last = audit.last().unwrap();
    assert_eq!(
        (&last["user"], &last["method"]),
        (&"mary".into(), &"eauth:file".into())
    );
    assert_eq!(
        (&last["verdict"], &last["target"]),
        (&"allowed".into(), &serde_json::json!(["m1"]))
    );
    assert_eq!(last["from"], "127.0.0.1");
    assert!(
        audit
            .iter()
            .any(|l| l["verdict"] == "refused" && l["function"] == "cmd.run")
    );
    let kept = place.files_with("geheim");
    assert!(kept.is_empty(), "passwords are kept nowhere: {kept:?}");
}

#[test]
fn a_shared_secret_and_any_password() {
    let secret = "5e6f7a8b9c0d1e2f3a4b";
    let place = Place::start(&format!(
        "external_auth:\n  sharedsecret: {{fred: ['test.*']}}\n  auto: {{mary: ['test.*']}}\nsharedsecret: {secret}"
    ));
    allowed(&place.salt("sharedsecret", "fred", secret, &["m1", "test.ping"]));
    refused(&place.salt("sharedsecret", "fred", secret, &["m1", "cmd.run", "id"]));
    refused(&place.salt("sharedsecret", "mary", secret, &["m1", "test.ping"]));
    unproven(&place.salt("sharedsecret", "fred", &secret[1..], &["m1", "test.ping"]));
    unproven(&place.salt("file", "fred", secret, &["m1", "test.ping"]));
    allowed(&place.salt("auto", "mary", "any", &["m1", "test.ping"]));
    refused(&place.salt("auto", "fred", "any", &["m1", "test.ping"]));
}

#[test]
fn tokens() {
    let place = Place::start(CONFIG);
    let made = place.salt("file", "fred", "geheim", &["-T", "m1", "test.ping"]);
    allowed(&made);
    let mode = place.token_file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let with_token = |args: &[&str]| {
        let mut all = vec!["-a", "file"];
        all.extend(args);
        place.run(&place.cli, "salt", &all)
    };
    allowed(&with_token(&["m1", "test.ping", "--out=json"]));
    refused(&with_token(&["m1", "cmd.run", "id"]));
    let token = std::fs::read_to_string(place.token_file()).unwrap();
    let kept = place.files_with(&token);
    assert!(
        kept.is_empty(),
        "the token stands nowhere at the master: {kept:?}"
    );

    let runs = with_tool(&place, "salt-run", &["jobs.list_jobs", "--out=json"]);
    assert_eq!(runs.status, Some(0), "{}", runs.describe());
    assert!(runs.out.contains("test.ping"), "{}", runs.describe());
    let denied = with_tool(&place, "salt-run", &["manage.up"]);
    assert_ne!(denied.status, Some(0), "{}", denied.describe());
    assert!(
        denied.err.contains("for user fred."),
        "{}",
        denied.describe()
    );

    let listed = with_tool(&place, "salt-key", &["-L", "--out=json"]);
    assert!(listed.out.contains("m1"), "{}", listed.describe());
    let kept = with_tool(&place, "salt-key", &["-y", "-d", "m1"]);
    assert_ne!(kept.status, Some(0), "{}", kept.describe());
    let audit = place.audit();
    let line = audit
        .iter()
        .find(|l| l["function"] == "key.delete_dict")
        .unwrap();
    assert_eq!(
        (&line["what"], &line["verdict"]),
        (&"wheel".into(), &"refused".into())
    );

    // Nobody may hand out or read tokens of others.
    std::fs::set_permissions(place.token_file(), PermissionsExt::from_mode(0o644)).unwrap();
    let open = place.run(
        &place.cli,
        "salt",
        &[
            "-a",
            "file",
            "--username",
            "fred",
            "--password",
            "x",
            "m1",
            "test.ping",
        ],
    );
    unproven(&open);
}

fn with_tool(place: &Place, tool: &str, args: &[&str]) -> super::Ran {
    let mut all = vec!["--auth", "file"];
    all.extend(args);
    place.run(&place.cli, tool, &all)
}

#[test]
fn key_actions_are_written_down() {
    let place = Place::start("");
    let ran = place.cli.key(&["-y", "-d", "m1"]);
    assert_eq!(ran.status, Some(0), "{}", ran.describe());
    let audit = place.audit();
    let line = audit.iter().find(|l| l["what"] == "key").unwrap();
    assert_eq!(
        (&line["function"], &line["method"]),
        (&"key.delete".into(), &"account".into())
    );
    assert_eq!(line["target"], serde_json::json!(["m1"]));
}

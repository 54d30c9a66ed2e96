//! `ssh_known_hosts`: known keys of hosts.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::Value;

pub(super) const MODULE: StateModule = StateModule {
    name: "ssh_known_hosts",
    functions: &[
        StateFunction::new("absent", absent, "Ensures that no key of a host is known.")
            .args(args![user = None, config = None]),
        StateFunction::new(
            "present",
            present,
            "Ensures that the key of a host is known.",
        )
        .args(args![
            user = None,
            fingerprint = None,
            key = None,
            port = None,
            enc = None,
            config = None,
            hash_known_hosts = True,
            timeout = { 5 },
            fingerprint_hash_type = None
        ]),
    ],
};

const RELATIVE: &str = "If not specifying a \"user\", specify an absolute \"config\".";

/// The file; an error if it is not clear which one.
fn config(s: &State<'_, '_>) -> std::result::Result<String, StateOutcome> {
    match (s.flag("user"), s.text("config").filter(|c| !c.is_empty())) {
        (true, None) => Ok(".ssh/known_hosts".to_owned()),
        (false, None) => Ok("/etc/ssh/ssh_known_hosts".to_owned()),
        (false, Some(path)) if !path.starts_with('/') => Err(StateOutcome::bad(RELATIVE)),
        (_, Some(path)) => Ok(path),
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let config = match config(s) {
        Ok(config) => config,
        Err(outcome) => return Ok(outcome),
    };
    if s.test {
        return test(s, &name, &config);
    }
    let mut given = s.pick(&[
        "user",
        "fingerprint",
        "key",
        "port",
        "enc",
        "hash_known_hosts",
        "timeout",
        "fingerprint_hash_type",
    ]);
    given.set("hostname", name.as_str());
    given.set("config", config.as_str());
    let answer = s.salt_with("ssh.set_known_host", Vec::new(), given)?;
    let answer = answer.into_map().unwrap_or_default();
    let part = |key: &str| answer.get(key).cloned().unwrap_or_default();
    Ok(match answer.str("status").unwrap_or_default() {
        "exists" => StateOutcome::good(format!("{name} already exists in {config}")),
        "error" => StateOutcome::bad(python::str(&part("error"))),
        _ => {
            let new = part("new");
            let keys = new
                .as_array()
                .and_then(|l| l.first())
                .and_then(Value::as_map);
            let keys = keys.cloned().unwrap_or_default();
            let comment = if s.flag("key") {
                let key = keys.get("key").map(python::str).unwrap_or_default();
                format!("{name}'s key saved to {config} (key: {key})")
            } else {
                let print = keys.get("fingerprint").map(python::str).unwrap_or_default();
                format!("{name}'s key saved to {config} (fingerprint: {print})")
            };
            StateOutcome::good(comment).changes(old_new(part("old"), new))
        }
    })
}

fn test(s: &mut State<'_, '_>, name: &str, config: &str) -> Result {
    if s.flag("key") && s.flag("fingerprint") {
        return Ok(StateOutcome::bad(
            "Specify either \"key\" or \"fingerprint\", not both.",
        ));
    }
    if s.flag("key") && !s.flag("enc") {
        return Ok(StateOutcome::bad(
            "Required argument \"enc\" if using \"key\" argument.",
        ));
    }
    let mut given = s.pick(&[
        "user",
        "key",
        "fingerprint",
        "port",
        "fingerprint_hash_type",
    ]);
    given.set("hostname", name);
    given.set("config", config);
    let found = match s.salt_with("ssh.check_known_host", Vec::new(), given) {
        Ok(found) => found,
        Err(CallError::Command(e)) => return Ok(StateOutcome::bad(e)),
        Err(other) => return Err(other),
    };
    Ok(match found.as_str().unwrap_or_default() {
        "exists" => StateOutcome::good(format!("Host {name} is already in {config}")),
        "add" => StateOutcome::would(format!("Key for {name} is set to be added to {config}")),
        "update" => StateOutcome::would(format!("Key for {name} is set to be updated in {config}")),
        _ => {
            let error = found.as_map().and_then(|m| m.get("error")).map(python::str);
            StateOutcome::bad(error.unwrap_or_else(|| python::str(&found)))
        }
    })
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let config = match config(s) {
        Ok(config) => config,
        Err(outcome) => return Ok(outcome),
    };
    let mut given = s.pick(&["user"]);
    given.set("hostname", name.as_str());
    given.set("config", config.as_str());
    let known = s.salt_with("ssh.get_known_host_entries", Vec::new(), given.clone());
    if matches!(&known, Ok(entries) if !entries.truthy()) {
        return Ok(StateOutcome::good("Host is already absent"));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Key for {name} is set to be removed from {config}"
        )));
    }
    let answer = s.salt_with("ssh.rm_known_host", Vec::new(), given)?;
    let answer = answer.into_map().unwrap_or_default();
    let text = |key: &str| answer.get(key).map(python::str).unwrap_or_default();
    Ok(if answer.str("status") == Some("error") {
        StateOutcome::bad(text("error"))
    } else {
        StateOutcome::good(text("comment")).changes(old_new(known.unwrap_or_default(), Value::Nil))
    })
}

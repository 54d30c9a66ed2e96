//! The policy for ports.

use super::{grep, groups};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python, shell};
use halite_wire::{Value, map};

/// Protocol and port, from the name or else from their own arguments.
fn parse(call: &Call<'_>) -> Result<(String, String)> {
    let text = |name| python::str(call.arg(name));
    let (name, protocol, port) = (text("name"), text("protocol"), text("port"));
    for spec in [name.clone(), format!("{protocol}/{port}")] {
        if let Some(parts) = groups(r"^(tcp|udp)/([0-9]+-?[0-9]+)\n?$", &spec)?
            && let [_, protocol, port] = parts.as_slice()
        {
            return Ok((protocol.clone(), port.clone()));
        }
    }
    Err(CallError::Invocation(format!(
        "Invalid name \"{name}\" format and protocol and port not provided or invalid: \"{protocol}\" \"{port}\"."
    )))
}

/// `selinux.port_get_policy`.
pub fn get(call: &mut Call<'_>) -> Result {
    let (protocol, port) = parse(call)?;
    let kind = call.text("sel_type").filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or(r"\w+".to_owned());
    let text = shell::stdout(call, &["semanage", "port", "--list"])?;
    call.retcode = 0.into();
    let found = grep(&format!("^{kind}[ ]+{protocol}[ ]+.*[ ]{port}($|,)"), &text)?;
    if found.is_empty() {
        return Ok(Value::Nil);
    }
    match groups(r"^(\w+)[ ]+(\w+)[ ]+([0-9\-, ]+)", &found)?.as_deref() {
        Some([_, kind, protocol, port]) => Ok(map! {
            "sel_type" => kind.as_str(), "protocol" => protocol.as_str(), "port" => port.trim(),
        }
        .into()),
        _ => Err(CallError::Command(format!(
            "Port policy {found} did not match expected format"
        ))),
    }
}

/// `selinux.port_add_policy`, `port_modify_policy` and `port_delete_policy`.
pub fn change(call: &mut Call<'_>, action: &str) -> Result {
    let given = |name: &str| {
        // Deleting needs neither.
        let known = action != "delete";
        known
            .then(|| call.text(name))
            .flatten()
            .filter(|text| !text.is_empty())
    };
    let (kind, range) = (given("sel_type"), given("sel_range"));
    if action == "add" && kind.is_none() {
        let text = "SELinux Type is required to add a policy";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let (protocol, port) = parse(call)?;
    let mut argv = [
        "semanage",
        "port",
        &format!("--{action}"),
        "--proto",
        &protocol,
    ]
    .map(str::to_owned)
    .to_vec();
    for (option, value) in [("--type", kind), ("--range", range)] {
        if let Some(value) = value {
            argv.extend([option.to_owned(), value]);
        }
    }
    argv.push(port);
    shell::run_all_map(call, &argv)
}

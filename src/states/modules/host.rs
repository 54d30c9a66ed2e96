//! `host`: the hosts file.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule =
    StateModule {
        name: "host",
        functions: &[
            StateFunction::new("absent", absent, "Ensures that addresses lack a name.")
                .args(args![ip]),
            StateFunction::new(
                "only",
                only,
                "Ensures that an address has these names and no others.",
            )
            .args(args![hostnames]),
            StateFunction::new("present", present, "Ensures that addresses have a name.")
                .args(args![ip, comment = "", clean = False]),
        ],
    };

fn aliases(entry: &Value) -> &[Value] {
    let aliases = entry.as_map().and_then(|e| e.get("aliases"));
    aliases.and_then(Value::as_array).unwrap_or_default()
}

/// Adds to the lists of an address below `kind`.
fn note(changes: &mut Map, kind: &str, ip: &str, what: &str) {
    let mut lists = match changes.remove(kind) {
        Some(Value::Map(lists)) => lists,
        _ => Map::new(),
    };
    lists.set(ip, vec![Value::from(what)]);
    changes.set(kind, lists);
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let comment = s.text("comment").unwrap_or_default();
    let ips: Vec<String> = s.list("ip").iter().map(python::str).collect();
    let hosts = s.salt("hosts.list_hosts", Vec::new())?;
    let hosts = hosts.into_map().unwrap_or_default();
    let mut extra = Vec::new();
    let mut warnings = Vec::new();
    for (ip, entry) in hosts.iter() {
        let ip = python::str(ip);
        if ips.contains(&ip) || !aliases(entry).iter().any(|a| a.is_str(&name)) {
            continue;
        }
        if s.flag("clean") {
            extra.push(ip);
        } else {
            warnings.push(format!(
                "Host {name} present for IP address {ip}. To get rid of this warning, either run this state with \
                 'clean' set to True to remove {name} from {ip}, or add {ip} to the 'ip' argument."
            ));
        }
    }
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    let mut comments = Vec::new();
    let mut sorted = ips.clone();
    sorted.sort();
    sorted.dedup();
    for ip in &sorted {
        let has = hosts
            .get(ip)
            .is_some_and(|e| aliases(e).iter().any(|a| a.is_str(&name)));
        if !has {
            added.push(ip.clone());
        } else if comment.is_empty() || comment_of(&hosts, ip) == Some(comment.as_str()) {
            lines.push(format!("Host {name} ({ip}) already present"));
        }
    }
    if !comment.is_empty() {
        let differs = |ip: &&String| comment_of(&hosts, ip) != Some(comment.as_str());
        comments.extend(ips.iter().filter(differs).cloned());
    }
    let mut changes = Map::new();
    let mut good = true;
    for ip in &added {
        let done = s.test
            || s.salt("hosts.add_host", [ip.as_str(), &name].map(Value::from))?
                .truthy();
        lines.push(match (s.test, done) {
            (true, _) => format!("Host {name} ({ip}) would be added"),
            (_, true) => format!("Added host {name} ({ip})"),
            (_, false) => format!("Failed to add host {name} ({ip})"),
        });
        good &= done;
        if done {
            note(&mut changes, "added", ip, &name);
        }
    }
    for ip in &comments {
        let done = s.test
            || s.salt(
                "hosts.set_comment",
                [ip.as_str(), &comment].map(Value::from),
            )?
            .truthy();
        lines.push(match (s.test, done) {
            (true, _) => format!("Comment for {ip} ({comment}) would be added"),
            (_, true) => format!("Set comment for host {ip} ({comment})"),
            (_, false) => format!("Failed to add comment for host {ip} ({comment})"),
        });
        good &= done;
        if done {
            note(&mut changes, "comment_added", ip, &comment);
        }
    }
    for ip in &extra {
        let done = s.test
            || s.salt("hosts.rm_host", [ip.as_str(), &name].map(Value::from))?
                .truthy();
        lines.push(match (s.test, done) {
            (true, _) => format!("Host {name} ({ip}) would be removed"),
            (_, true) => format!("Removed host {name} ({ip})"),
            (_, false) => format!("Failed to remove host {name} ({ip})"),
        });
        good &= done;
        if done {
            note(&mut changes, "removed", ip, &name);
        }
    }
    // In test mode a new comment alone is no reason to say that something would change, as in stock.
    let result = if s.test && !(added.is_empty() && extra.is_empty()) {
        None
    } else {
        Some(good)
    };
    let mut outcome = StateOutcome::new(result, lines.join("\n")).changes(changes);
    if !warnings.is_empty() {
        outcome.more.set("warnings", warnings);
    }
    Ok(outcome)
}

fn comment_of<'h>(hosts: &'h Map, ip: &str) -> Option<&'h str> {
    hosts.get(ip)?.as_map()?.str("comment")
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let mut outcome = StateOutcome::new(None, "");
    let mut lines = Vec::new();
    // The last address decides the result, as in stock.
    for ip in s.list("ip") {
        let shown = python::str(&ip);
        let pair = [ip, name.as_str().into()];
        if !s.salt("hosts.has_pair", pair.clone())?.truthy() {
            outcome.result = Some(true);
            lines.push(format!("Host {name} ({shown}) already absent"));
        } else if s.test {
            outcome.result = None;
            lines.push(format!("Host {name} ({shown}) needs to be removed"));
        } else if s.salt("hosts.rm_host", pair)?.truthy() {
            outcome.changes = halite_wire::map! {"host" => name.as_str()}.into();
            outcome.result = Some(true);
            lines.push(format!("Removed host {name} ({shown})"));
        } else {
            outcome.result = Some(false);
            lines.push("Failed to remove host".to_owned());
        }
    }
    outcome.comment = lines.join("\n");
    Ok(outcome)
}

fn only(s: &mut State<'_, '_>) -> Result {
    let ip = s.name();
    let names: Vec<String> = s.list("hostnames").iter().map(python::str).collect();
    let new = names.join(" ");
    let old = s.salt("hosts.get_alias", [Value::from(ip.as_str())])?;
    let old = old.str_list().join(" ");
    if old == new {
        return Ok(StateOutcome::good(format!(
            "IP address {ip} already set to \"{new}\""
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Would change {ip} from \"{old}\" to \"{new}\""
        )));
    }
    if !s
        .salt("hosts.set_host", [ip.as_str(), &new].map(Value::from))?
        .truthy()
    {
        return Ok(StateOutcome::bad(format!(
            "hosts.set_host failed to change {ip} from \"{old}\" to \"{new}\""
        )));
    }
    Ok(StateOutcome::good(format!(
        "successfully changed {ip} from \"{old}\" to \"{new}\""
    ))
    .changes(halite_wire::map! {ip => old_new(old, new)}))
}

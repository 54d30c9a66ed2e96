//! `selinux`: modes, booleans, modules and policies.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "selinux",
    functions: &[
        StateFunction::new("boolean", boolean, "Ensures that booleans have a value.")
            .args(args![value = None, booleans = None, persist = False]),
        StateFunction::new("fcontext_policy_absent", fcontext_absent, "Ensures that the policy has no such entry for files.")
            .args(args![filetype = "a", sel_type = None, sel_user = None, sel_level = None]),
        StateFunction::new("fcontext_policy_applied", fcontext_applied, "Ensures that files have the contexts of the policy.")
            .args(args![recursive = False]),
        StateFunction::new("fcontext_policy_present", fcontext_present, "Ensures that the policy has an entry for files.")
            .args(args![sel_type, filetype = "a", sel_user = None, sel_level = None]),
        StateFunction::new("mode", mode, "Ensures that SELinux is enforcing, permissive or disabled."),
        StateFunction::new("module", module, "Ensures that a module is enabled or disabled, with install or remove that it is there or not.")
            .args(args![module_state = "Enabled", version = "any"])
            .keywords(),
        StateFunction::new("module_install", |s| install(s, &Value::from(s.name())), "Installs a module from a file."),
        StateFunction::new("module_remove", remove, "Ensures that a module is removed."),
        StateFunction::new("port_policy_absent", port_absent, "Ensures that the policy has no such entry for a port.")
            .args(args![sel_type = None, protocol = None, port = None]),
        StateFunction::new("port_policy_present", port_present, "Ensures that the policy has an entry for a port.")
            .args(args![sel_type, protocol = None, port = None, sel_range = None]),
    ],
};

fn mode(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let word = name.to_lowercase();
    let wanted = if word.starts_with('e') || word == "1" || word == "on" {
        "Enforcing"
    } else if word.starts_with('p') || word == "0" || word == "off" {
        "Permissive"
    } else if word.starts_with('d') {
        "Disabled"
    } else {
        return Ok(StateOutcome::bad(format!("{name} is not an accepted mode")));
    };
    let mut now = s.salt("selinux.getenforce", Vec::new())?;
    let configured = s.salt("selinux.getconfig", Vec::new())?;
    if now.is_str(wanted) && !configured.is_str(wanted) {
        now = configured;
    }
    if now.is_str(wanted) {
        return Ok(StateOutcome::good(format!(
            "SELinux is already in {wanted} mode"
        )));
    }
    if s.test {
        let text = format!("SELinux mode is set to be changed to {wanted}");
        return Ok(StateOutcome::would(text).changes(old_new(now, wanted)));
    }
    let new = s.salt("selinux.setenforce", [wanted.into()])?;
    let done = new.is_str(wanted)
        || (wanted == "Disabled" && s.salt("selinux.getconfig", Vec::new())?.is_str(wanted));
    if !done {
        return Ok(StateOutcome::bad(format!(
            "Failed to set SELinux to {wanted} mode"
        )));
    }
    let text = format!("SELinux has been set to {wanted} mode");
    Ok(StateOutcome::good(text).changes(old_new(now, new)))
}

/// `on` or `off`.
fn on_off(value: &Value) -> Option<&'static str> {
    match python::str(value).to_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some("on"),
        "0" | "off" | "no" | "false" => Some("off"),
        _ => None,
    }
}

/// Adds declared booleans to others; those without a value of their own get `value`.
fn add_booleans(all: &mut Map, booleans: &Value, value: &Value) {
    match booleans {
        Value::Map(map) => map
            .iter()
            .for_each(|(k, v)| all.set(python::str(k), v.clone())),
        Value::Array(list) => {
            for one in list {
                match one {
                    Value::Map(_) => add_booleans(all, one, value),
                    name => all.set(python::str(name), value.clone()),
                }
            }
        }
        other => all.set(python::str(other), value.clone()),
    }
}

fn boolean(s: &mut State<'_, '_>) -> Result {
    let mut wanted = Map::new();
    let value = s.arg("value").clone();
    if s.flag("booleans") {
        add_booleans(&mut wanted, s.arg("booleans"), &value);
    } else {
        wanted.set(s.name(), value);
    }
    let persist = s.flag("persist");
    let known = s
        .salt("selinux.list_sebool", Vec::new())?
        .into_map()
        .unwrap_or_default();
    let (mut right, mut change, mut changes) = (Vec::new(), Map::new(), Map::new());
    for (name, value) in wanted.iter() {
        let name = python::str(name);
        let Some(now) = known.get(&name).and_then(Value::as_map) else {
            return Ok(StateOutcome::bad(format!(
                "Boolean {name} is not available"
            )));
        };
        let Some(new) = on_off(value) else {
            return Ok(StateOutcome::bad(format!(
                "{} is not a valid value for the boolean {name}",
                python::str(value)
            )));
        };
        let (state, default) = (now.str("State"), now.str("Default"));
        if state == Some(new) && (!persist || default == Some(new)) {
            right.push(name);
            continue;
        }
        let both = |a: Option<&str>, b: Option<&str>| -> Value {
            let list = [a, b].map(|word| Value::from(word.unwrap_or_default()));
            if persist {
                Value::Array(list.to_vec())
            } else {
                list.into_iter().next().unwrap_or_default()
            }
        };
        changes.set(
            name.as_str(),
            old_new(both(state, default), both(Some(new), Some(new))),
        );
        change.set(name, new);
    }
    let mut lines = Vec::new();
    right.sort();
    if !right.is_empty() {
        lines.push(format!(
            "The following booleans were in the correct state: {}",
            right.join(", ")
        ));
    }
    if change.is_empty() {
        return Ok(StateOutcome::good(lines.join("\n")));
    }
    let mut names: Vec<String> = change.iter().map(|(name, _)| python::str(name)).collect();
    names.sort();
    if s.test {
        lines.push(format!(
            "The following booleans would be changed: {}",
            names.join(", ")
        ));
        return Ok(StateOutcome::would(lines.join("\n")).changes(changes));
    }
    let args = [change.into(), s.arg("persist").clone()];
    if !s.salt("selinux.setsebools", args)?.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Failed to set the following booleans: {}",
            python::str(&wanted.into())
        )));
    }
    lines.push(format!(
        "The following booleans have been changed: {}",
        names.join(", ")
    ));
    Ok(StateOutcome::good(lines.join("\n")).changes(changes))
}

/// A call of `boolean` with the booleans of others that persist as it does; `None` if there are none.
pub(super) fn joined(low: &Map, others: &[&Map]) -> Option<Map> {
    if low.str("fun") != Some("boolean") {
        return None;
    }
    let value = |low: &Map| low.get("value").cloned().unwrap_or_default();
    let own = |low: &Map, all: &mut Map| match low.get("booleans") {
        Some(booleans) => add_booleans(all, booleans, &value(low)),
        None => all.set(low.str("name").unwrap_or_default(), value(low)),
    };
    let mut all = Map::new();
    own(low, &mut all);
    let mut more = false;
    for other in others {
        if other.str("fun") == Some("boolean") && other.get("persist") == low.get("persist") {
            own(other, &mut all);
            more = true;
        }
    }
    let mut joined = low.clone();
    joined.set("booleans", all);
    more.then_some(joined)
}

fn enabled(value: &Value) -> &'static str {
    match python::str(value).to_lowercase().as_str() {
        "1" | "on" | "yes" | "true" | "enabled" => "enabled",
        "0" | "off" | "no" | "false" | "disabled" => "disabled",
        _ => "unknown",
    }
}

fn module(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let keyword = |name: &str| s.kwargs.get(name).cloned().unwrap_or_default();
    let (add, take) = (keyword("install").truthy(), keyword("remove").truthy());
    if add && take {
        return Ok(StateOutcome::bad(
            "Cannot install and remove at the same time",
        ));
    }
    let mut outcome = StateOutcome::good("");
    if add {
        let source = s.kwargs.get("source").cloned();
        let source = source.unwrap_or(name.as_str().into());
        outcome = install(s, &source)?.with("name", source);
        if outcome.result != Some(true) {
            return Ok(outcome);
        }
    } else if take {
        return remove(s);
    }
    // An installed one keeps the name of its file in the result.
    let told = |result: Option<bool>, text: String| {
        let mut told = outcome.clone();
        (told.result, told.comment) = (result, text);
        Ok(told)
    };
    let modules = s
        .salt("selinux.list_semod", Vec::new())?
        .into_map()
        .unwrap_or_default();
    let Some(now) = modules.get(&name).and_then(Value::as_map) else {
        return told(Some(false), format!("Module {name} is not available"));
    };
    let wanted = s.arg("module_state").clone();
    let shown = python::str(&wanted);
    if enabled(&wanted) == "unknown" {
        return told(
            Some(false),
            format!("{shown} is not a valid state for the {name} module."),
        );
    }
    let version = python::str(now.get("Version").unwrap_or(&Value::Nil));
    let wanted_version = python::str(s.arg("version"));
    if wanted_version != "any" && version != wanted_version {
        return told(
            Some(false),
            format!(
                "Module version is {version} and does not match the desired version of {wanted_version} or you are using semodule >= 2.4"
            ),
        );
    }
    let now = now.get("Enabled").cloned().unwrap_or_default();
    if enabled(&wanted) == enabled(&now) {
        return told(Some(true), format!("Module {name} is in the desired state"));
    }
    if s.test {
        return told(
            None,
            format!("Module {name} is set to be toggled to {shown}"),
        );
    }
    if s.salt(
        "selinux.setsemod",
        [name.as_str().into(), enabled(&wanted).into()],
    )?
    .truthy()
    {
        return told(Some(true), format!("Module {name} has been set to {shown}"));
    }
    told(
        Some(false),
        format!("Failed to set the Module {name} to {shown}"),
    )
}

/// Installs a module. Stock does so even in test mode.
fn install(s: &mut State<'_, '_>, path: &Value) -> Result {
    let shown = python::str(path);
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Module {shown} is set to be installed"
        )));
    }
    Ok(
        if s.salt("selinux.install_semod", [path.clone()])?.truthy() {
            StateOutcome::good(format!("Module {shown} has been installed"))
        } else {
            StateOutcome::bad(format!("Failed to install module {shown}"))
        },
    )
}

/// Removes a module. Stock does so even in test mode.
fn remove(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let modules = s
        .salt("selinux.list_semod", Vec::new())?
        .into_map()
        .unwrap_or_default();
    if !modules.contains(&name) {
        return Ok(StateOutcome::bad(format!("Module {name} is not available")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Module {name} is set to be removed"
        )));
    }
    Ok(
        if s.salt("selinux.remove_semod", [name.as_str().into()])?
            .truthy()
        {
            StateOutcome::good(format!("Module {name} has been removed"))
        } else {
            StateOutcome::bad(format!("Failed to remove module {name}"))
        },
    )
}

/// The declared entry of the policy for files.
fn entry(s: &State<'_, '_>) -> Map {
    let mut entry = s.pick(&["filetype", "sel_type", "sel_user", "sel_level"]);
    entry.set("name", s.name());
    entry
}

fn failed(ran: &Value) -> bool {
    ran.as_map().and_then(|m| m.int("retcode")) != Some(0)
}

fn fcontext_present(s: &mut State<'_, '_>) -> Result {
    let (name, kind) = (s.name(), s.arg("sel_type").clone());
    let letter = s.arg("filetype").clone();
    let file_type = s.salt("selinux.filetype_id_to_string", [letter])?;
    let entry = entry(s);
    let now = s.salt_with("selinux.fcontext_get_policy", Vec::new(), entry.clone())?;
    let of_type = |kind: Value| map! {name.as_str() => map! {"sel_type" => kind}};
    let (old, new) = match now.as_map().filter(|now| !now.is_empty()) {
        None => (
            Map::new(),
            map! {name.as_str() => map! {"filetype" => file_type, "sel_type" => kind}},
        ),
        Some(now) => {
            let was = now.get("sel_type").cloned().unwrap_or_default();
            if was == kind {
                return Ok(StateOutcome::good(format!(
                    "SELinux policy for \"{name}\" already present with specified filetype \"{}\" and sel_type \"{}\".",
                    python::str(&file_type),
                    python::str(&kind)
                )));
            }
            (of_type(was), of_type(kind))
        }
    };
    if s.test {
        return Ok(StateOutcome::would(""));
    }
    let ran = s.salt_with("selinux.fcontext_add_policy", Vec::new(), entry)?;
    if failed(&ran) {
        let text = format!("Error adding new rule: {}", python::str(&ran));
        return Ok(StateOutcome::bad(text));
    }
    Ok(StateOutcome::good("").changes(old_new(old, new)))
}

fn fcontext_absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let mut entry = entry(s);
    let now = s.salt_with("selinux.fcontext_get_policy", Vec::new(), entry.clone())?;
    let Some(now) = now.into_map().filter(|now| !now.is_empty()) else {
        return Ok(StateOutcome::good(format!(
            "SELinux policy for \"{name}\" already absent with specified filetype \"{}\" and sel_type \"{}\".",
            python::str(s.arg("filetype")),
            python::str(s.arg("sel_type"))
        )));
    };
    let changes = old_new(map! {name => now.clone()}, Map::new());
    if s.test {
        return Ok(StateOutcome::would("").changes(changes));
    }
    if !s.flag("sel_type") {
        entry.set("sel_type", now.get("sel_type").cloned().unwrap_or_default());
    }
    let ran = s.salt_with("selinux.fcontext_delete_policy", Vec::new(), entry)?;
    let outcome = if failed(&ran) {
        StateOutcome::bad(format!("Error removing policy: {}", python::str(&ran)))
    } else {
        StateOutcome::good("")
    };
    Ok(outcome.changes(changes))
}

fn fcontext_applied(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let args = [name.as_str().into(), s.arg("recursive").clone()];
    let pending = s.salt("selinux.fcontext_policy_is_applied", args.clone())?;
    if pending.is_str("") {
        return Ok(StateOutcome::good(format!(
            "SElinux policies are already applied for filespec \"{name}\""
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(""));
    }
    let ran = s.salt("selinux.fcontext_apply_policy", args)?;
    if failed(&ran) {
        return Ok(StateOutcome::bad("").with("comment", ran));
    }
    let changes = ran.as_map().and_then(|ran| ran.get("changes")).cloned();
    Ok(StateOutcome::good("").changes(changes.unwrap_or_default()))
}

/// The declared entry of the policy for a port.
fn port(s: &State<'_, '_>, names: &[&str]) -> Map {
    let mut entry = s.pick(names);
    entry.set("name", s.name());
    entry
}

const PORT: &[&str] = &["sel_type", "protocol", "port"];

fn port_policy(s: &mut State<'_, '_>, names: &[&str]) -> Result<Value> {
    let entry = port(s, names);
    s.salt_with("selinux.port_get_policy", Vec::new(), entry)
}

fn port_as_declared(s: &State<'_, '_>, word: &str) -> StateOutcome {
    let text = |name| python::str(s.arg(name));
    StateOutcome::good(format!(
        "SELinux policy for \"{}\" already {word} with specified sel_type \"{}\", protocol \"{}\" and port \"{}\".",
        s.name(),
        text("sel_type"),
        text("protocol"),
        text("port")
    ))
}

fn port_changed(s: &mut State<'_, '_>, ran: &Value, verb: &str, old: Value) -> Result {
    if failed(ran) {
        let text = format!("Error {verb} policy: {}", python::str(ran));
        return Ok(StateOutcome::bad(text));
    }
    let new = port_policy(s, PORT)?;
    Ok(StateOutcome::good("").changes(old_new(old, new)))
}

fn port_present(s: &mut State<'_, '_>) -> Result {
    if port_policy(s, PORT)?.truthy() {
        return Ok(port_as_declared(s, "present"));
    }
    if s.test {
        return Ok(StateOutcome::would(""));
    }
    let old = port_policy(s, &["protocol", "port"])?;
    let fun = if old.truthy() {
        "selinux.port_modify_policy"
    } else {
        "selinux.port_add_policy"
    };
    let entry = port(s, &["sel_type", "protocol", "port", "sel_range"]);
    let ran = s.salt_with(fun, Vec::new(), entry)?;
    port_changed(s, &ran, "adding new", old)
}

fn port_absent(s: &mut State<'_, '_>) -> Result {
    let old = port_policy(s, PORT)?;
    if !old.truthy() {
        return Ok(port_as_declared(s, "absent"));
    }
    if s.test {
        return Ok(StateOutcome::would(""));
    }
    let entry = port(s, &["protocol", "port"]);
    let ran = s.salt_with("selinux.port_delete_policy", Vec::new(), entry)?;
    port_changed(s, &ran, "deleting", old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_joined() {
        let call =
            |name: &str, value: bool| map! {"fun" => "boolean", "name" => name, "value" => value};
        let mut kept = call("c", true);
        kept.set("persist", true);
        let all = joined(&call("a", true), &[&call("b", false), &kept]).unwrap();
        assert_eq!(
            all.get("booleans"),
            Some(&map! {"a" => true, "b" => false}.into())
        );
        assert!(joined(&call("a", true), &[&kept]).is_none());
    }
}

//! dpkg selections: hold, install, remove.

use super::list::forget;
use super::quiet;
use crate::execution::declare::Result;
use crate::execution::pkg::common::{cached, empty};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value, yaml};
use indexmap::IndexMap;

/// Packages by selection state.
type Selections = IndexMap<String, Vec<String>>;

const STATES: [&str; 4] = ["install", "hold", "deinstall", "purge"];

fn parse(text: &str) -> Selections {
    let mut map = Selections::new();
    for line in text.lines() {
        if let [package, state] = line.split_whitespace().collect::<Vec<_>>().as_slice() {
            map.entry((*state).to_owned())
                .or_default()
                .push((*package).to_owned());
        }
    }
    map
}

/// The selections, or those that match a pattern.
pub fn by_state(call: &mut Call<'_>, pattern: Option<&str>) -> Result<Selections> {
    let pattern = pattern.filter(|p| !p.is_empty()).unwrap_or("*");
    let ran = command_helpers::run_all(call, ["dpkg", "--get-selections", pattern])?;
    Ok(parse(&ran.stdout))
}

fn plain(selections: Selections) -> Map {
    selections
        .into_iter()
        .map(|(state, packages)| (state, Value::from(packages)))
        .collect()
}

pub fn get_selections(call: &mut Call<'_>) -> Result {
    let pattern = call.text("pattern");
    let mut found = by_state(call, pattern.as_deref())?;
    let state = call.text("state").filter(|s| !s.is_empty());
    let Some(state) = state else {
        return Ok(plain(found).into());
    };
    let packages = found.swap_remove(&state).unwrap_or_default();
    Ok(map! {state => packages}.into())
}

fn test_mode(call: &Call<'_>) -> bool {
    call.ctx.opts.get("test").is_some_and(Value::truthy)
}

pub fn set_selections(call: &mut Call<'_>) -> Result {
    if !call.flag("path") && !call.flag("selection") {
        return empty();
    }
    if call.flag("path") && call.flag("selection") {
        return Err(CallError::Invocation(
            "The 'selection' and 'path' arguments to pkg.set_selections are mutually exclusive, and cannot be \
             specified together"
                .to_owned(),
        ));
    }
    let mut selection = call.arg("selection").clone();
    if let Value::Str(text) = &selection {
        selection = yaml::parse(text)
            .map_err(|e| CallError::Invocation(format!("Improperly-formatted selection: {e}")))?;
    }
    if call.flag("path") {
        let (path, env) = (python::str(call.arg("path")), call.arg("saltenv").clone());
        let file = cached(call, &path, env)?.unwrap_or_default();
        selection = plain(parse(&command_helpers::read(&file)?)).into();
    }
    let Value::Map(selection) = selection else {
        return empty();
    };
    set(call, &selection)
}

fn set(call: &mut Call<'_>, selection: &Map) -> Result {
    let states = || selection.iter().map(|(s, _)| python::str(s));
    let bad: Vec<String> = states().filter(|s| !STATES.contains(&s.as_str())).collect();
    if !bad.is_empty() {
        return Err(CallError::Invocation(format!(
            "Invalid state(s): {}",
            bad.join(", ")
        )));
    }
    let test = test_mode(call);
    if call.arg("clear").truthy() && !test {
        let ran = command_helpers::run_all_with(call, quiet(["dpkg", "--clear-selections"]))?;
        if !ran.ok() {
            let text = format!("Running dpkg --clear-selections failed: {}", ran.stderr);
            return Err(CallError::Command(text));
        }
    }
    let mut now = IndexMap::new();
    for (state, packages) in by_state(call, None)? {
        now.extend(packages.into_iter().map(|p| (p, state.clone())));
    }
    let mut ret = Map::new();
    for (state, packages) in selection.iter() {
        let state = python::str(state);
        for package in packages
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(python::str)
        {
            let old = now.get(&package);
            if old == Some(&state) || test {
                continue;
            }
            let mut helper = quiet(["dpkg", "--set-selections"]);
            helper.stdin = Some(format!("{package} {state}").into_bytes());
            let ran = command_helpers::run_all_with(call, helper)?;
            forget();
            if ran.ok() {
                ret.set(
                    package.clone(),
                    map! {"old" => old.cloned(), "new" => state.clone()},
                );
            }
        }
    }
    Ok(ret.into())
}

pub fn hold(call: &mut Call<'_>) -> Result {
    let targets = targets(call)?;
    change_hold(call, &targets, true)
}

pub fn unhold(call: &mut Call<'_>) -> Result {
    let targets = targets(call)?;
    change_hold(call, &targets, false)
}

/// The names in the arguments of `hold` and `unhold`.
fn targets(call: &Call<'_>) -> Result<Vec<String>> {
    let (name, pkgs, sources) = (call.arg("name"), call.arg("pkgs"), call.arg("sources"));
    if !name.truthy() && !pkgs.truthy() && !sources.truthy() {
        let text = "One of name, pkgs, or sources must be specified.";
        return Err(CallError::Invocation(text.to_owned()));
    }
    if pkgs.truthy() && sources.truthy() {
        let text = "Only one of pkgs or sources can be specified.";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let one = |value: &Value| match value {
        Value::Map(map) => map
            .0
            .first()
            .map(|(k, _)| python::str(k))
            .unwrap_or_default(),
        other => python::str(other),
    };
    Ok(match (pkgs, sources) {
        (Value::Array(list), _) | (_, Value::Array(list)) if !list.is_empty() => {
            list.iter().map(one).collect()
        }
        _ => vec![one(name)],
    })
}

/// Holds or unholds packages; returns a result per package.
pub fn change_hold(call: &mut Call<'_>, targets: &[String], hold: bool) -> Result {
    let mut ret = Map::new();
    for target in targets {
        let state = by_state(call, Some(target))?;
        let held = state.get("hold").is_some_and(|list| !list.is_empty());
        let mut answer = map! {
            "name" => target.as_str(), "changes" => Map::new(), "result" => false, "comment" => "",
        };
        if !hold && state.is_empty() {
            answer.set(
                "comment",
                format!("Package {target} does not have a state."),
            );
        } else if held == hold {
            answer.set("result", true);
            let not = if hold { "" } else { "not " };
            answer.set(
                "comment",
                format!("Package {target} is already set {not}to be held."),
            );
        } else if test_mode(call) {
            answer.set("result", Value::Nil);
            let not = if hold { "" } else { "not " };
            answer.set(
                "comment",
                format!("Package {target} is set {not}to be held."),
            );
        } else {
            let state = if hold { "hold" } else { "install" };
            let list = vec![Value::from(target.as_str())];
            let done = set(call, &map! {state => list})?;
            let change = done.as_map().and_then(|m| m.get(target)).cloned();
            let missing = || CallError::raised("KeyError", python::repr(&target.as_str().into()));
            answer.set("changes", change.ok_or_else(missing)?);
            answer.set("result", true);
            let now = if hold { "now" } else { "no longer" };
            answer.set("comment", format!("Package {target} is {now} being held."));
        }
        ret.set(target.clone(), answer);
    }
    Ok(ret.into())
}

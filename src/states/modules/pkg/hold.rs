//! Held packages: `pkg.held`, `pkg.unheld`, and `hold` of `pkg.installed`.

use super::message;
use super::wanted::{self, Wanted};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::{find_for, python};
use halite_wire::{Map, Value, map};

/// The answers of `pkg.hold` or `pkg.unhold` for several packages.
pub(super) struct Holds {
    pub result: Option<bool>,
    pub comments: Vec<String>,
    pub changes: Vec<(String, Map)>,
}

impl Holds {
    /// Holds or unholds packages as `hold` says; `None` if that was not declared.
    pub fn apply(s: &mut State<'_, '_>, list: &[Wanted]) -> Result<Option<Holds>> {
        let Some(hold) = s.kwargs.get("hold").map(Value::truthy) else {
            return Ok(None);
        };
        let names: Vec<&str> = list.iter().map(|w| w.name.as_str()).collect();
        Holds::set(s, &names, hold).map(Some)
    }

    /// Holds or unholds packages.
    fn set(s: &mut State<'_, '_>, names: &[&str], hold: bool) -> Result<Holds> {
        let fun = if hold { "pkg.hold" } else { "pkg.unhold" };
        let pkgs: Vec<Value> = names.iter().map(|n| Value::from(*n)).collect();
        let mut holds = Holds {
            result: Some(true),
            comments: Vec::new(),
            changes: Vec::new(),
        };
        let done = match s.salt_with(fun, Vec::new(), map! {"pkgs" => pkgs}) {
            Ok(done) => done.into_map().unwrap_or_default(),
            Err(fault) => {
                holds.result = Some(false);
                holds.comments.push(message(fault)?);
                return Ok(holds);
            }
        };
        for (name, answer) in done.iter() {
            let Some(answer) = answer.as_map() else {
                continue;
            };
            match answer.get("result") {
                Some(Value::Nil) if holds.result == Some(true) => holds.result = None,
                Some(Value::Bool(false)) => holds.result = Some(false),
                _ => {}
            }
            holds
                .comments
                .push(answer.str("comment").unwrap_or_default().to_owned());
            let change = answer.get("changes").and_then(Value::as_map);
            if let Some(change) = change.filter(|c| !c.is_empty()) {
                holds.changes.push((python::str(name), change.clone()));
            }
        }
        Ok(holds)
    }

    /// Adds these changes to those of an installation.
    pub fn merge(&self, changes: &mut Map) {
        for (name, change) in &self.changes {
            let Some(Value::Map(known)) = changes.get_mut(name) else {
                let new = change.get("new").cloned().unwrap_or_default();
                changes.set(name.clone(), map! {"new" => new});
                continue;
            };
            for key in ["old", "new"] {
                let more = change.get(key).map(python::str).unwrap_or_default();
                let text = known.str(key).unwrap_or_default();
                let both = match (text, more.as_str()) {
                    ("", more) => more.to_owned(),
                    (text, "") => text.to_owned(),
                    (text, more) => format!("{text}\n{more}"),
                };
                known.set(key, both);
            }
        }
    }
}

/// The packages that are held.
fn known(s: &mut State<'_, '_>) -> Result<Vec<String>> {
    if find_for(s.ctx(), "pkg.list_holds").is_some() {
        let list = s.salt_with("pkg.list_holds", Vec::new(), map! {"full" => false})?;
        return Ok(list.str_list());
    }
    let kwargs = map! {"state" => "hold"};
    let list = s.salt_with("pkg.get_selections", Vec::new(), kwargs)?;
    let held = list.as_map().and_then(|m| m.get("hold"));
    Ok(held.map(Value::str_list).unwrap_or_default())
}

/// The names and versions of the state; here a map of names is allowed.
fn named(s: &State<'_, '_>) -> Result<Vec<Wanted>> {
    if let Value::Map(map) = s.arg("pkgs") {
        let one = |(name, _): &(Value, Value)| Wanted {
            name: python::str(name),
            version: None,
        };
        return Ok(map.iter().map(one).collect());
    }
    wanted::wanted(s, true)
}

/// `held` and `unheld`.
pub(super) fn held(s: &mut State<'_, '_>, hold: bool) -> Result {
    let what = if hold { "held" } else { "unheld" };
    let all = !hold && s.flag("all");
    if super::nothing(s) && !all {
        return Ok(StateOutcome::good(format!(
            "No packages to be {what} provided"
        )));
    }
    let held = known(s)?;
    let named = if all { Vec::new() } else { named(s)? };
    let others = || {
        let names: Vec<&String> = named.iter().map(|w| &w.name).collect();
        let others = held.iter().filter(move |h| !names.contains(h));
        others
            .map(|name| Wanted {
                name: name.clone(),
                version: None,
            })
            .collect::<Vec<_>>()
    };
    // Which to hold and which to release.
    let (hold_these, free_these): (Vec<Wanted>, Vec<Wanted>) = if hold {
        let new = named
            .iter()
            .filter(|w| !held.contains(&w.name))
            .cloned()
            .collect();
        (
            new,
            if s.flag("replace") {
                others()
            } else {
                Vec::new()
            },
        )
    } else if all {
        (Vec::new(), others())
    } else {
        let some = named
            .iter()
            .filter(|w| held.contains(&w.name))
            .cloned()
            .collect();
        (Vec::new(), some)
    };
    let mut lines = Vec::new();
    if s.test {
        for (list, what, hold) in [(&hold_these, "held", true), (&free_these, "unheld", false)] {
            for one in list {
                let version = match &one.version {
                    Some(version) if hold => format!(" (version = {version})"),
                    // A held package has no version.
                    Some(_) => " (version = None)".to_owned(),
                    None => String::new(),
                };
                lines.push(format!(
                    "The following package would be {what}: {}{version}",
                    one.name
                ));
            }
        }
        if lines.is_empty() {
            lines.push("No changes made".to_owned());
        }
        return Ok(StateOutcome::good(lines.join("\n")));
    }
    let mut changes = Map::new();
    let mut good = true;
    for (list, fun) in [(&hold_these, "pkg.hold"), (&free_these, "pkg.unhold")] {
        for one in list {
            let name = one.name.as_str();
            let answer = match s.salt(fun, vec![name.into()]) {
                Ok(answer) => answer,
                Err(fault) => {
                    good = false;
                    lines.push(message(fault)?);
                    continue;
                }
            };
            let answer = answer.as_map().and_then(|m| m.get(name)).cloned();
            let done = answer.as_ref().and_then(Value::as_map);
            let worked = done.is_some_and(|a| a.get("result").is_some_and(Value::truthy));
            if fun == "pkg.hold" && worked {
                lines.push(format!("Package {name} is now being held"));
            } else {
                let text = done.and_then(|a| a.str("comment")).unwrap_or_default();
                lines.push(text.to_owned());
            }
            good &= worked;
            if let Some(answer) = answer.filter(|_| worked) {
                changes.set(name, answer);
            }
        }
    }
    if lines.is_empty() {
        lines.push("No changes made".to_owned());
    }
    Ok(StateOutcome::new(Some(good), lines.join("\n")).changes(changes))
}

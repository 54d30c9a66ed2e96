//! Changes to crontabs, with stock's results: new, updated, present, removed, absent.

use super::tab::{TIMES, Tab};
use super::{read, write};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use rand::Rng;

/// Placeholder for a job without identifier.
const NO_ID: &str = "NO ID SET";

fn field(entry: &Map, key: &str) -> Value {
    entry.get(key).cloned().unwrap_or_default()
}

fn id(entry: &Map) -> String {
    match field(entry, "identifier") {
        id if id.truthy() => python::str(&id),
        _ => NO_ID.to_owned(),
    }
}

/// Whether an entry matches: by its identifier, or, without one, by its command.
fn matches(entry: &Map, cmd: &Value, identifier: &Value) -> bool {
    let wanted = if identifier.truthy() {
        python::str(identifier)
    } else {
        NO_ID.to_owned()
    };
    let (id, same) = (id(entry), field(entry, "cmd") == *cmd);
    if id == NO_ID { same } else { id == wanted }
}

/// Whether a new value changes anything: nil does not, `random` only if nothing is set.
fn needs_change(old: &Value, new: &Value) -> bool {
    old != new && !new.is_nil() && (!new.is_str("random") || old.is_str("*"))
}

fn lower(call: &Call<'_>, name: &str) -> Value {
    python::str(call.arg(name)).to_lowercase().into()
}

fn entry(call: &Call<'_>) -> Map {
    ["cmd", "identifier", "comment", "commented"]
        .iter()
        .map(|key| (*key, call.arg(key).clone()))
        .collect()
}

pub fn set_job(call: &mut Call<'_>) -> Result {
    let mut wanted = entry(call);
    for key in TIMES {
        wanted.set(key, lower(call, key));
    }
    set(call, wanted, &TIMES, false)
}

pub fn set_special(call: &mut Call<'_>) -> Result {
    let mut wanted = map! {"spec" => call.arg("special").clone()};
    wanted.0.extend(entry(call).0);
    set(call, wanted, &["spec"], false)
}

/// Adds an entry or replaces the matching one; `times` are the time fields of its type.
fn set(call: &mut Call<'_>, mut wanted: Map, times: &[&str], again: bool) -> Result {
    let mut tab = read(call)?;
    let (cmd, identifier) = (field(&wanted, "cmd"), field(&wanted, "identifier"));
    if python::str(&cmd).trim_end().contains(['\n', '\r']) {
        return Err(CallError::Invocation(
            "A command has one line; the next would be a job of its own".into(),
        ));
    }
    let all = tab.crons.iter().chain(&tab.special);
    let old = all
        .into_iter()
        .find(|e| matches(e, &cmd, &identifier))
        .cloned();
    let Some(old) = old else {
        let job = times.len() > 1;
        if job {
            wanted.0.extend(date_time(&wanted)?.0);
            dedup(&mut wanted);
        }
        if job {
            &mut tab.crons
        } else {
            &mut tab.special
        }
        .push(wanted);
        return Ok(match write(call, &tab)? {
            Some(refused) => refused.into(),
            None if again => "updated".into(),
            None => "new".into(),
        });
    };
    let changes = |key: &str| needs_change(&field(&old, key), &field(&wanted, key));
    let changed = ["comment", "commented", "cmd"].iter().any(|k| changes(k))
        || times.iter().any(|k| changes(k))
        || needs_change(&identifier, &set_id(&old));
    // After removing the old entry the second pass finds nothing, unless two entries match.
    if !changed {
        return Ok("present".into());
    }
    let id = id(&old);
    let list = if old.contains("spec") {
        EntryKind::Special
    } else {
        EntryKind::Job
    };
    take(
        call,
        list,
        &cmd,
        &id.as_str().into(),
        |_| true,
        list == EntryKind::Special,
    )?;
    for key in times.iter().chain(&["commented", "comment"]) {
        if !needs_change(&field(&old, key), &field(&wanted, key)) {
            wanted.set(*key, field(&old, key));
        }
    }
    let mut kept = Value::from(id);
    if field(&old, "cmd") == cmd && kept.is_str(NO_ID) {
        kept = if identifier.truthy() {
            identifier.clone()
        } else {
            Value::Nil
        };
    }
    if !kept.truthy() || !needs_change(&kept, &identifier) {
        wanted.set("identifier", kept);
    }
    set(call, wanted, times, true)
}

/// The last value of a duplicate key wins.
fn dedup(map: &mut Map) {
    let pairs = std::mem::take(&mut map.0);
    for (key, value) in pairs {
        map.set(python::str(&key), value);
    }
}

fn set_id(entry: &Map) -> Value {
    match field(entry, "identifier") {
        Value::Nil => NO_ID.into(),
        id => id,
    }
}

/// The times of a new job. `random` and `low:high` are picked at random, the day within the month's range.
fn date_time(wanted: &Map) -> Result<Map> {
    const RANGES: [(&str, i64, i64); 4] = [
        ("minute", 0, 59),
        ("hour", 0, 23),
        ("month", 1, 12),
        ("dayweek", 0, 6),
    ];
    let mut random = rand::thread_rng();
    let mut out = Map::new();
    for (key, low, high) in RANGES {
        let value = python::str(&field(wanted, key)).to_lowercase();
        let mut parts: Vec<&str> = value.split(':').collect();
        let drawn = if value == "random" {
            random.gen_range(low..=high).to_string()
        } else if parts.len() == 2 {
            parts.sort_unstable();
            let (low, high) = (
                python::int(&parts[0].into())?,
                python::int(&parts[1].into())?,
            );
            if low > high {
                return Err(CallError::raised(
                    "ValueError",
                    format!(
                        "empty range for randrange() ({low}, {}, {})",
                        high + 1,
                        high + 1 - low
                    ),
                ));
            }
            random.gen_range(low..=high).to_string()
        } else {
            value
        };
        out.set(key, drawn);
    }
    let last = match out.str("month").unwrap_or_default() {
        "1" | "3" | "5" | "7" | "8" | "10" | "12" => 31,
        "4" | "6" | "9" | "11" => 30,
        _ => 28,
    };
    let day = match python::str(&field(wanted, "daymonth")).to_lowercase() {
        day if day == "random" => random.gen_range(1..=last).to_string(),
        day => day,
    };
    out.set("daymonth", day);
    Ok(out)
}

#[derive(Clone, Copy, PartialEq)]
enum EntryKind {
    Job,
    Special,
}

/// Removes and returns the first matching entry.
fn take(
    call: &mut Call<'_>,
    kind: EntryKind,
    cmd: &Value,
    identifier: &Value,
    fits: impl Fn(&Map) -> bool,
    always_write: bool,
) -> Result {
    let mut tab = read(call)?;
    let list = match kind {
        EntryKind::Job => &mut tab.crons,
        EntryKind::Special => &mut tab.special,
    };
    let at = list
        .iter()
        .position(|e| matches(e, cmd, identifier) && fits(e));
    if let Some(at) = at {
        list.remove(at);
    }
    finish(call, &tab, at.is_some(), always_write)
}

fn finish(call: &mut Call<'_>, tab: &Tab, removed: bool, always_write: bool) -> Result {
    if (removed || always_write)
        && let Some(refused) = write(call, tab)?
    {
        return Ok(refused.into());
    }
    Ok(if removed { "removed" } else { "absent" }.into())
}

pub fn rm_job(call: &mut Call<'_>) -> Result {
    let (cmd, identifier) = (call.arg("cmd").clone(), call.arg("identifier").clone());
    let times: Vec<(&str, Value)> = TIMES.iter().map(|t| (*t, call.arg(t).clone())).collect();
    let fits = |entry: &Map| {
        times.iter().all(|(key, wanted)| {
            let (own, text) = (field(entry, key), python::str(wanted));
            wanted.is_nil()
                || own.is_str(&text)
                || (text.to_lowercase() == "random" && !own.is_str("*"))
        })
    };
    take(call, EntryKind::Job, &cmd, &identifier, fits, false)
}

pub fn rm_special(call: &mut Call<'_>) -> Result {
    let (cmd, identifier) = (call.arg("cmd").clone(), call.arg("identifier").clone());
    let special = call.arg("special").clone();
    let fits = |entry: &Map| special.is_nil() || field(entry, "spec") == special;
    take(call, EntryKind::Special, &cmd, &identifier, fits, true)
}

pub fn set_env(call: &mut Call<'_>) -> Result {
    let (name, value) = (call.arg("name").clone(), call.arg("value").clone());
    let mut tab = read(call)?;
    let fresh = map! {"name" => name.clone(), "value" => value.clone()};
    let old = tab.env.iter().find(|e| field(e, "name") == name);
    let answer = match old {
        Some(old) if field(old, "value") == value => return Ok("present".into()),
        Some(_) => "updated",
        None => "new",
    };
    if answer == "updated"
        && let Some(at) = tab.env.iter().rposition(|e| field(e, "name") == name)
    {
        tab.env.remove(at);
    }
    tab.env.push(fresh);
    Ok(match write(call, &tab)? {
        Some(refused) => refused.into(),
        None => answer.into(),
    })
}

pub fn rm_env(call: &mut Call<'_>) -> Result {
    let name = call.arg("name").clone();
    let mut tab = read(call)?;
    let at = tab.env.iter().rposition(|e| field(e, "name") == name);
    if let Some(at) = at {
        tab.env.remove(at);
    }
    finish(call, &tab, at.is_some(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_by_identifier_or_command() {
        let with = map! {"cmd" => "a", "identifier" => "1"};
        let without = map! {"cmd" => "a", "identifier" => Value::Nil};
        assert!(matches(&with, &"b".into(), &"1".into()));
        assert!(!matches(&with, &"a".into(), &"2".into()));
        assert!(!matches(&with, &"a".into(), &Value::Nil));
        assert!(matches(&without, &"a".into(), &Value::Nil));
        assert!(matches(&without, &"a".into(), &"2".into()));
        assert!(!matches(&without, &"b".into(), &Value::Nil));
        assert!(needs_change(&"*".into(), &"random".into()));
        assert!(!needs_change(&"5".into(), &"random".into()));
        assert!(!needs_change(&"5".into(), &Value::Nil));
    }
}

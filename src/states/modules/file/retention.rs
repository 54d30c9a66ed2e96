//! `file.retention_schedule`.

use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::remove;
use halite_modules::execution::{CallError, python};
use halite_wire::{Value, map};
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};

/// The period that a rule keeps the first file of; `None` for the newest files.
fn period(rule: &str, time: DateTime) -> Option<[i16; 4]> {
    let (year, month, day) = (time.year(), time.month().into(), time.day().into());
    Some(match rule {
        "first_of_hour" => [year, month, day, time.hour().into()],
        "first_of_day" => [year, month, day, 0],
        "first_of_week" => {
            let week = time.date().iso_week_date();
            [week.year(), week.week().into(), 0, 0]
        }
        "first_of_month" => [year, month, 0, 0],
        "first_of_year" => [year, 0, 0, 0],
        _ => return None,
    })
}

/// The names that a rule keeps, of files in the order of time.
fn kept(rule: &str, count: &Value, files: &[(DateTime, String)]) -> Result<Vec<String>, CallError> {
    let all = matches!(count, Value::Str(text) if text == "all");
    let mut number = match all {
        true => files.len(),
        false => usize::try_from(python::int(count)?).unwrap_or(0),
    };
    if rule == "most_recent" {
        return Ok(files
            .iter()
            .rev()
            .take(number)
            .map(|(_, name)| name.clone())
            .collect());
    }
    // Stock keeps one week more than it is asked for.
    if rule == "first_of_week" && !all && number > 0 {
        number += 1;
    }
    let mut first = BTreeMap::new();
    for (time, name) in files {
        let key = period(rule, *time)
            .ok_or_else(|| CallError::raised("KeyError", python::repr(&rule.into())))?;
        first.entry(key).or_insert_with(|| name.clone());
    }
    if first.is_empty() && period(rule, DateTime::default()).is_none() {
        return Err(CallError::raised("KeyError", python::repr(&rule.into())));
    }
    Ok(first.into_values().rev().take(number).collect())
}

/// When a file is from: by its name, or by its time.
fn time_of(path: &str, name: &str, format: Option<&str>) -> Option<DateTime> {
    match format {
        Some(format) => {
            let parsed = BrokenDownTime::parse(format, name).ok()?;
            let date = parsed.to_date().ok()?;
            let time = parsed.to_time().unwrap_or_default();
            Some(date.to_datetime(time))
        }
        None => {
            let modified = std::fs::metadata(path)
                .and_then(|meta| meta.modified())
                .ok()?;
            let time = jiff::Timestamp::try_from(modified).ok()?;
            Some(time.to_zoned(TimeZone::system()).datetime())
        }
    }
}

/// Names from the last one to the first.
fn descending(names: impl IntoIterator<Item = String>) -> Vec<Value> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by(|a, b| b.cmp(a));
    names.into_iter().map(Value::from).collect()
}

pub(super) fn retention_schedule(s: &mut State<'_, '_>) -> Step {
    let name = match expanduser(&s.name()) {
        name if name.is_empty() => return fail("Must provide name to file.retention_schedule"),
        name => name,
    };
    if !paths::is_dir(&name) {
        return fail("Name provided to file.retention must be a directory");
    }
    let format = s
        .text("strptime_format")
        .filter(|format| !format.is_empty());
    let entries = std::fs::read_dir(&name)
        .map_err(|e| halite_modules::execution::file::os::fault(&e, &name))?;
    let (mut files, mut ignored) = (Vec::new(), vec![".".to_owned(), "..".to_owned()]);
    for entry in entries.flatten() {
        let child = entry.file_name().to_string_lossy().into_owned();
        match time_of(&paths::join(&name, &child), &child, format.as_deref()) {
            Some(time) => files.push((time, child)),
            None => ignored.push(child),
        }
    }
    files.sort();
    let mut retained = BTreeSet::new();
    let rules = s.arg("retain").as_map().cloned().unwrap_or_default();
    for (rule, count) in rules.iter() {
        retained.extend(kept(&python::str(rule), count, &files)?);
    }
    let (keep, gone): (Vec<String>, Vec<String>) = files
        .into_iter()
        .map(|(_, name)| name)
        .partition(|name| retained.contains(name));
    let verb = if s.test { "would have been" } else { "were" };
    let text = format!("{} backups {verb} removed from {name}.\n", gone.len());
    if gone.is_empty() {
        return Ok(StateOutcome::good(text));
    }
    let changes = map! {
        "retained" => descending(keep), "deleted" => descending(gone.clone()),
        "ignored" => descending(ignored),
    };
    if s.test {
        return Ok(StateOutcome::would(text).changes(changes));
    }
    for child in &gone {
        if let Err(why) = remove(&paths::join(&name, child)) {
            return fail(why.message());
        }
    }
    Ok(StateOutcome::good(text).changes(changes))
}

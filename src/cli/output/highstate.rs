//! Results of states, one block or one line each (`salt/output/highstate.py`).
//!
//! Like the original this works in place: if a later state cannot be shown, the nested fallback shows the data
//! with what has been filled in so far.

use super::colors::Palette;
use super::pprint::pformat;
use super::python::{compare, decode, python_str, split_lines, strip, strip_esc};
use super::summary::{Counts, SEPARATOR, compress_ids};
use super::textwrap::fill_behind_label;
use super::{Style, Unshowable, nested};
use halite_wire::{Map, Value};
use std::cmp::Ordering;

const RUN_NUM: &str = "__run_num__";

type Shown<T> = Result<T, Unshowable>;

/// The text for `{minion id: {state key: state return}}`, also inside job or runner envelopes.
pub(super) fn render(data: &mut Value, style: &Style) -> Shown<String> {
    output(data, style, 1)
}

fn output(data: &mut Value, style: &Style, level: usize) -> Shown<String> {
    let data = job_data(descend(descend(data, "return"), "data"))?;
    let map = match data {
        Value::Str(text) => return Ok(text.clone()),
        Value::Nil => return Ok("None".into()),
        Value::Map(map) => map,
        _ => return Err(Unshowable),
    };
    if map.iter().any(|(key, _)| key.as_str().is_none()) {
        return Err(Unshowable);
    }
    let is_master = |key: &Value| key.as_str().is_some_and(|k| k.ends_with("_master"));
    let masters = map.iter().filter(|(key, _)| is_master(key)).count();
    if masters == 1 {
        map.remove("retcode");
    }
    if style.state_compress_ids
        && let Some(mut compressed) = compress_ids(map)
    {
        return hosts(&mut compressed, style, level);
    }
    hosts(map, style, level)
}

fn hosts(map: &mut Map, style: &Style, level: usize) -> Shown<String> {
    let mut texts = Vec::new();
    for (host, data) in &mut map.0 {
        texts.push(format_host(host, data, style, level)?.0);
    }
    Ok(texts.join("\n"))
}

/// The value under a key, or the value itself if it has no such key.
fn descend<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    let at = match value {
        Value::Map(map) => map.iter().position(|(k, _)| k.is_str(key)),
        _ => None,
    };
    match (value, at) {
        (Value::Map(map), Some(at)) => &mut map.0[at].1,
        (other, _) => other,
    }
}

/// Unwraps `{jid: {jid, fun, return: {data}}}` as returned by the jobs runner.
fn job_data(value: &mut Value) -> Shown<&mut Value> {
    let job = value.as_map().filter(|map| map.len() == 1);
    let job = job
        .and_then(|map| map.iter().next())
        .and_then(|(_, v)| v.as_map());
    let Some(job) = job.filter(|job| job.contains("jid") && job.contains("fun")) else {
        return Ok(value);
    };
    let has_data = match job.get("return") {
        None => false,
        Some(Value::Map(ret)) => ret.contains("data"),
        Some(_) => return Err(Unshowable),
    };
    if !has_data {
        return Ok(value);
    }
    let Value::Map(map) = value else {
        return Err(Unshowable);
    };
    let job = map.0.first_mut().map(|(_, job)| job).ok_or(Unshowable)?;
    Ok(descend(descend(job, "return"), "data"))
}

/// The output lines of one minion.
struct Host<'a> {
    style: &'a Style,
    colors: Palette,
    level: usize,
    color: &'static str,
    lines: Vec<String>,
    counts: Counts,
}

/// The text of one minion and whether anything changed on it.
fn format_host(
    host: &Value,
    data: &mut Value,
    style: &Style,
    level: usize,
) -> Shown<(String, bool)> {
    let colors = Palette::new(style.color);
    let mut name = python_str(&decode(host));
    let mut shown = Host {
        style,
        colors,
        level,
        color: colors.green,
        lines: Vec::new(),
        counts: Counts::default(),
    };
    match data {
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) => shown.plain(&[&python_str(data)]),
        Value::Str(text) => shown.plain(&split_lines(text)),
        Value::Array(errors) => shown.errors(errors),
        Value::Map(states) => shown.states(&name, states)?,
        Value::Nil | Value::Float(_) | Value::Bytes(_) => {}
    }
    if style.strip_colors {
        name = strip_esc(&name);
    }
    let head = format!("{}{name}:{}", shown.color, colors.end);
    shown.lines.insert(0, head);
    Ok((shown.lines.join("\n"), shown.counts.changed > 0))
}

impl Host<'_> {
    /// The result of a function inside an orchestration: always counts as a change.
    fn plain(&mut self, lines: &[&str]) {
        let Palette { green, end, .. } = self.colors;
        self.counts.changed = 1;
        for line in lines {
            self.lines.push(format!("{green}    {line}{end}"));
        }
        self.color = self.colors.cyan;
    }

    /// A list instead of states: errors of the state compiler.
    fn errors(&mut self, errors: &[Value]) {
        let Palette { light_red, end, .. } = self.colors;
        self.color = light_red;
        self.lines
            .push(format!("    {light_red}Data failed to compile:{end}"));
        for error in errors {
            let text = match (self.style.strip_colors, decode(error)) {
                (true, Value::Str(text)) => strip_esc(&text),
                (true, other) => python_str(&other),
                (false, _) => python_str(error),
            };
            self.lines
                .push(format!("{light_red}----------\n    {text}{end}"));
        }
    }

    fn states(&mut self, host: &str, states: &mut Map) -> Shown<()> {
        for (key, info) in states.iter() {
            self.note_missing_order(key, info);
        }
        for index in in_order(states)? {
            let (key, info) = &mut states.0[index];
            if let Value::Map(ret) = info {
                self.state(key, ret)?;
            }
        }
        let lines = self.counts.summary(host, self.style, &self.colors);
        self.lines.extend(lines);
        Ok(())
    }

    fn note_missing_order(&mut self, key: &Value, info: &Value) {
        let Value::Map(map) = info else { return };
        if key.is_str("changes") || map.is_empty() || map.contains(RUN_NUM) {
            return;
        }
        let note = "The State execution failed to record the order in which all states were \
                    executed. The state return missing data is:";
        self.lines.insert(0, pformat(info, 1));
        self.lines.insert(0, note.into());
    }

    fn state(&mut self, key: &Value, ret: &mut Map) -> Shown<()> {
        let result = ret.get("result").cloned().unwrap_or_default();
        let names = if self.style.state_compress_ids {
            compressed_names(key)
        } else {
            1
        };
        self.counts.result(&result, names)?;
        self.counts.duration(key, ret)?;
        let (changed, changes) = self.changes(ret, names)?;
        let quiet = self.style.state_output_diff || !self.style.state_verbose;
        if quiet && result.truthy() && !changed {
            return Ok(());
        }
        let color = self.state_color(&result, changed);
        let mode = self.style.state_output.to_lowercase();
        let key = key.as_str().ok_or(Unshowable)?;
        let mut parts: Vec<&str> = key.split(SEPARATOR).collect();
        if mode.ends_with("_id") {
            let id = *parts.get(1).ok_or(Unshowable)?;
            *parts.get_mut(2).ok_or(Unshowable)? = id;
        }
        if mode.starts_with("filter") {
            let name = python_str(&result);
            if listed(&self.style.state_output_terse, &name)? {
                return self.terse(color, &parts, ret);
            }
            if listed(&self.style.state_output_exclude, &name)? {
                return Ok(());
            }
        } else if is_terse(&mode, &result, changed) {
            return self.terse(color, &parts, ret);
        }
        self.full(color, &parts, ret, &changes)
    }

    /// Also sets the colour of the minion: the last failed or pending state decides.
    fn state_color(&mut self, result: &Value, changed: bool) -> &'static str {
        let color = match result {
            Value::Bool(false) => self.colors.red,
            Value::Nil => self.colors.light_yellow,
            _ if changed => return self.colors.cyan,
            _ => return self.colors.green,
        };
        self.color = color;
        color
    }

    /// Whether the state changed anything, and the text of its changes.
    fn changes(&mut self, ret: &mut Map, names: i64) -> Shown<(bool, String)> {
        let orchestrated = ["state.orch", "state.orchestrate", "state.sls"];
        let nested = ret.str("name").is_some_and(|n| orchestrated.contains(&n));
        let changes = ret.get_mut("changes").ok_or(Unshowable)?;
        if nested {
            let text = format!("\n{}", output(changes, self.style, self.level + 1)?);
            let margin = " ".repeat(14 * self.level);
            let lines: Vec<_> = text.split('\n').map(|l| format!("{margin}{l}")).collect();
            self.counts.changed += 1;
            return Ok((true, lines.join("\n")));
        }
        let (changed, text) = format_changes(changes, self.style)?;
        if changed {
            self.counts.changed += if names > 1 {
                compressed_changes(changes)?
            } else {
                1
            };
        }
        Ok((changed, text))
    }

    fn terse(&mut self, color: &str, parts: &[&str], ret: &Map) -> Shown<()> {
        let get = |i: usize| parts.get(i).copied().ok_or(Unshowable);
        let (module, name, fun) = (get(0)?, get(2)?, get(parts.len() - 1)?);
        let Palette { light_red, end, .. } = self.colors;
        let tabular = self.style.state_tabular;
        let mut line = String::new();
        if let Some(warnings) = ret.get("warnings") {
            let gap = if tabular { "\n" } else { "" };
            let text = join_lines(warnings)?;
            line.push_str(&format!("{light_red}Warnings:\n{text}{end}{gap}"));
        }
        let result = terse_result(ret)?;
        let times = match ret.get("start_time") {
            Some(start) if self.style.state_output_profile => {
                let duration = ret.get("duration").ok_or(Unshowable)?;
                Some((python_str(start), python_str(duration)))
            }
            _ => None,
        };
        if tabular {
            line.push_str(color);
            if let Some((start, duration)) = times {
                line.push_str(&format!("{start} [{duration:>7} ms] "));
            }
            line.push_str(&format!("{module:>10}.{fun:<10} {result:7}   Name: {name}"));
        } else {
            line.push_str(&format!(
                " {color} Name: {name} - Function: {module}.{fun} - Result: {result}"
            ));
            if let Some((start, duration)) = times {
                line.push_str(&format!(" - Started: {start} - Duration: {duration} ms"));
            }
        }
        self.lines.push(line + end);
        Ok(())
    }

    fn full(&mut self, color: &str, parts: &[&str], ret: &mut Map, changes: &str) -> Shown<()> {
        let end = self.colors.end;
        let &[module, id, name, fun, ..] = parts else {
            return Err(Unshowable);
        };
        let timed = self.style.state_output_profile && ret.contains("start_time");
        let comment = comment(ret)?;
        fill_in_times(ret);
        let field = |label: &str, text: &str| format!("    {color}{label:>8}: {text}{end}");
        let text_of = |key: &str| ret.get(key).map(python_str).unwrap_or_default();
        self.lines.push(format!("{color}----------{end}"));
        self.lines.push(field("ID", id));
        self.lines
            .push(field("Function", &format!("{module}.{fun}")));
        if id != name {
            self.lines.push(field("Name", name));
        }
        self.lines.push(field("Result", &text_of("result")));
        self.lines.push(field("Comment", &comment));
        if timed {
            self.lines.push(field("Started", &text_of("start_time")));
            self.lines.push(field("Duration", &text_of("duration")));
        }
        self.lines
            .push(format!("{color}     Changes:   {changes}{end}"));
        if let Some(warnings) = ret.get("warnings") {
            self.counts.warning();
            let text = fill_behind_label(&join_lines(warnings)?, 80, 14);
            let light_red = self.colors.light_red;
            self.lines
                .push(format!("   {light_red} Warnings: {text}{end}"));
        }
        Ok(())
    }
}

/// Indexes of what looks like a state's return, in order of execution.
fn in_order(states: &Map) -> Shown<Vec<usize>> {
    let zero = Value::Int(0);
    let number = |i: usize| {
        let info = states.0[i].1.as_map();
        info.and_then(|m| m.get(RUN_NUM)).unwrap_or(&zero)
    };
    let is_state = |i: &usize| {
        let info = states.0[*i].1.as_map();
        info.is_some_and(|m| m.contains("result"))
    };
    let mut indexes: Vec<usize> = (0..states.len()).filter(is_state).collect();
    let compares = |w: &[usize]| compare(number(w[0]), number(w[1])).is_some();
    if !indexes.windows(2).all(compares) {
        return Err(Unshowable);
    }
    indexes.sort_by(|a, b| compare(number(*a), number(*b)).unwrap_or(Ordering::Equal));
    Ok(indexes)
}

/// How many states a compressed one stands for: the number in parentheses after its ID.
fn compressed_names(key: &Value) -> i64 {
    let key = key.as_str().unwrap_or_default();
    if !key.contains("_|-state_compressed_") {
        return 1;
    }
    let id = key.split(SEPARATOR).nth(1).unwrap_or_default();
    let number = id.strip_suffix(')').and_then(|rest| rest.rsplit_once('('));
    number.and_then(|(_, n)| n.parse().ok()).unwrap_or(1)
}

fn compressed_changes(changes: &Value) -> Shown<i64> {
    let map = changes.as_map().ok_or(Unshowable)?;
    let count = match map.get("compressed changes") {
        None => 0,
        Some(Value::Map(inner)) => inner.len(),
        Some(Value::Array(inner)) => inner.len(),
        Some(_) => return Err(Unshowable),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX).max(1))
}

fn format_changes(changes: &mut Value, style: &Style) -> Shown<(bool, String)> {
    if !changes.truthy() {
        return Ok((false, String::new()));
    }
    let Value::Map(map) = changes else {
        let text = format!("Invalid Changes data: {}", python_str(changes));
        return Ok((true, text));
    };
    let wrapped = map.str("out") == Some("highstate");
    match map.get_mut("ret") {
        Some(ret) if wrapped && !ret.is_nil() => minion_changes(ret, style),
        _ => {
            let colors = Palette::new(style.color);
            let text = nested::render(changes, 14, false, style.strip_colors, &colors);
            Ok((true, format!("\n{}", super::python::rstrip(&text))))
        }
    }
}

/// Changes that are the states of minions, as returned by orchestrations.
fn minion_changes(ret: &mut Value, style: &Style) -> Shown<(bool, String)> {
    let Value::Map(map) = ret else {
        return Err(Unshowable);
    };
    let mut text = String::new();
    let mut changed = false;
    for (host, data) in &mut map.0 {
        let (lines, host_changed) = format_host(host, data, style, 1)?;
        let lines: Vec<_> = split_lines(&lines)
            .into_iter()
            .map(|line| format!("{:14}{line}", ""))
            .collect();
        text.push('\n');
        text.push_str(&lines.join("\n"));
        changed |= host_changed;
    }
    Ok((changed, text))
}

fn is_terse(mode: &str, result: &Value, changed: bool) -> bool {
    mode.starts_with("terse")
        || (mode.starts_with("mixed") && *result != Value::Bool(false))
        || (mode.starts_with("changes") && result.truthy() && !changed)
}

fn terse_result(ret: &Map) -> Shown<&'static str> {
    let changes = ret.get("changes").ok_or(Unshowable)?;
    Ok(match ret.get("result") {
        Some(Value::Bool(false)) => "Failed",
        Some(Value::Nil) => "Differs",
        _ if changes.truthy() => "Changed",
        _ => "Clean",
    })
}

/// Python's `in` for the lists of the filter mode.
fn listed(list: &Value, name: &str) -> Shown<bool> {
    match list {
        Value::Str(text) => Ok(text.split(',').any(|part| part == name)),
        Value::Array(items) => Ok(items.iter().any(|item| item.is_str(name))),
        Value::Map(map) => Ok(map.contains(name)),
        _ => Err(Unshowable),
    }
}

/// `"\n".join()`: to Python, a string is a sequence of characters.
fn join_lines(value: &Value) -> Shown<String> {
    let lines: Option<Vec<String>> = match value {
        Value::Str(text) => Some(text.chars().map(String::from).collect()),
        Value::Array(items) => items
            .iter()
            .map(|i| i.as_str().map(str::to_owned))
            .collect(),
        Value::Map(map) => map
            .iter()
            .map(|(k, _)| k.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    };
    Ok(lines.ok_or(Unshowable)?.join("\n"))
}

/// The comment with its lines aligned, followed by the `data` of the return.
fn comment(ret: &mut Map) -> Shown<String> {
    let comment = python_str(ret.get("comment").ok_or(Unshowable)?);
    ret.set("comment", comment.as_str());
    let mut text = strip(&comment).replace('\n', &format!("\n{:14}", ""));
    match ret.get("data") {
        None => {}
        Some(Value::Array(items)) => {
            for item in items {
                text.push_str(&format!(" {}", python_str(item)));
            }
        }
        Some(Value::Map(map)) => {
            for (key, value) in map.iter() {
                text.push_str(&format!("\n\t\t{}: {}", python_str(key), python_str(value)));
            }
        }
        Some(other) => text.push_str(&format!(" {}", python_str(other))),
    }
    Ok(text)
}

fn fill_in_times(ret: &mut Map) {
    for key in ["start_time", "duration"] {
        if !ret.contains(key) {
            ret.set(key, "");
        }
    }
    let duration = ret.get("duration").map(python_str).unwrap_or_default();
    if !duration.is_empty() {
        ret.set("duration", format!("{duration} ms"));
    }
}

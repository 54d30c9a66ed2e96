//! Summary of the highstate outputter: results, times, and compression of IDs.

use super::colors::Palette;
use super::python::{python_str, strip};
use super::{Style, Unshowable};
use halite_wire::{Map, Value};
use std::cmp::Ordering;

/// What separates module, ID, name and function in the key of a state.
pub(super) const SEPARATOR: &str = "_|-";
/// Width of the longest label, `Succeeded`.
const LABEL_WIDTH: usize = 9;
const WARNINGS: &str = "warnings";

/// Counts over the states of one minion.
#[derive(Default)]
pub(super) struct Counts {
    /// By result; any hashable Python value has its own count.
    results: Vec<(Value, i64)>,
    /// States that changed something.
    pub changed: i64,
    durations: Vec<f64>,
    parallel: Vec<f64>,
    /// Milliseconds and keys of all states.
    timed: Vec<(f64, String)>,
}

/// To Python `True` is 1 and `False` is 0.
fn hash_key(result: &Value) -> Value {
    match result {
        Value::Int(0) => Value::Bool(false),
        Value::Int(1) => Value::Bool(true),
        Value::Float(f) if *f == 0.0 => Value::Bool(false),
        Value::Float(f) if *f == 1.0 => Value::Bool(true),
        other => other.clone(),
    }
}

impl Counts {
    pub fn result(&mut self, result: &Value, names: i64) -> Result<(), Unshowable> {
        if matches!(result, Value::Array(_) | Value::Map(_)) {
            return Err(Unshowable);
        }
        self.add(hash_key(result), names);
        Ok(())
    }

    pub fn warning(&mut self) {
        self.add(Value::from(WARNINGS), 1);
    }

    fn add(&mut self, key: Value, count: i64) {
        match self.results.iter_mut().find(|(k, _)| *k == key) {
            Some((_, n)) => *n += count,
            None => self.results.push((key, count)),
        }
    }

    fn get(&self, key: &Value) -> i64 {
        let found = self.results.iter().find(|(k, _)| k == key);
        found.map_or(0, |(_, n)| *n)
    }

    /// Adds the duration of a state in milliseconds; of parallel states, only the longest counts.
    pub fn duration(&mut self, key: &Value, ret: &Map) -> Result<(), Unshowable> {
        let duration = match ret.get("duration") {
            None => Some(0.0),
            Some(Value::Int(i)) => Some(*i as f64),
            Some(Value::UInt(u)) => Some(*u as f64),
            Some(Value::Float(f)) => Some(*f),
            Some(Value::Bool(b)) => Some(f64::from(u8::from(*b))),
            Some(Value::Str(text)) => milliseconds(text),
            Some(_) => return Err(Unshowable),
        };
        if let (Some(duration), Some(key)) = (duration, key.as_str()) {
            self.timed.push((duration, key.to_owned()));
        }
        let list = if ret.contains("__parallel__") {
            &mut self.parallel
        } else {
            &mut self.durations
        };
        list.extend(duration);
        Ok(())
    }

    /// The lines below the states.
    pub fn summary(&self, host: &str, style: &Style, colors: &Palette) -> Vec<String> {
        let Palette { cyan, end, .. } = colors;
        let digits = self.results.iter().map(|(_, n)| n.to_string().len());
        let width = LABEL_WIDTH + digits.max().unwrap_or(0) + 2;
        let line = |color: &str, label: &str, count: String| {
            format!(
                "{color}{label}: {count:>w$}{end}",
                w = width - label.len() - 2
            )
        };
        let done = self.get(&Value::Bool(true)) + self.get(&Value::Nil);
        let failed = self.get(&Value::Bool(false));
        let warnings = self.get(&Value::from(WARNINGS));
        let total = self.results.iter().map(|(_, n)| n).sum::<i64>() - warnings;
        let fail_color = if failed > 0 { colors.red } else { cyan };
        let rule = "-".repeat(width);
        let mut lines = vec![format!("{cyan}\nSummary for {host}\n{rule}{end}")];
        lines.push(line(colors.green, "Succeeded", done.to_string()) + &self.remarks(colors));
        lines.push(line(fail_color, "Failed", failed.to_string()));
        if style.state_output_pct && total != 0 {
            lines.push(line(colors.green, "Success %", percent(done, total)));
            lines.push(line(fail_color, "Failure %", percent(failed, total)));
        }
        if warnings > 0 {
            lines.push(line(colors.light_red, "Warnings", warnings.to_string()));
        }
        let room = width - 7;
        lines.push(format!(
            "{cyan}{rule}\nTotal states run: {total:>room$}{end}"
        ));
        if style.state_output_profile {
            lines.push(self.run_time(width - 5, colors));
        }
        lines.extend(self.slowest(style.slowest_states, colors));
        lines
    }

    /// The states that took longest.
    fn slowest(&self, count: usize, colors: &Palette) -> Vec<String> {
        let mut timed: Vec<&(f64, String)> = self.timed.iter().collect();
        timed.sort_by(|a, b| b.0.total_cmp(&a.0));
        timed.truncate(count);
        let Palette { cyan, end, .. } = colors;
        let line = |(time, key): &&(f64, String)| {
            let parts: Vec<&str> = key.split(SEPARATOR).collect();
            let shown = match parts[..] {
                [module, id, name, fun] if id == name => format!("{module}.{fun} {id}"),
                [module, id, name, fun] => format!("{module}.{fun} {id}: {name}"),
                _ => key.clone(),
            };
            format!("{cyan}{time:>14.3} ms  {}{end}", shown.replace('\n', " "))
        };
        let title = (!timed.is_empty()).then(|| format!("{cyan}Slowest states:{end}"));
        title.into_iter().chain(timed.iter().map(line)).collect()
    }

    /// ` (unchanged=1, changed=2)`, without what is 0.
    fn remarks(&self, colors: &Palette) -> String {
        let pending = self.get(&Value::Nil);
        let mut remarks = Vec::new();
        if pending > 0 {
            let yellow = colors.light_yellow;
            remarks.push(format!("{yellow}unchanged={pending}{}", colors.end));
        }
        if self.changed > 0 {
            let (green, changed) = (colors.green, self.changed);
            remarks.push(format!("{green}changed={changed}{}", colors.end));
        }
        if remarks.is_empty() {
            String::new()
        } else {
            format!(" ({})", remarks.join(", "))
        }
    }

    fn run_time(&self, width: usize, colors: &Palette) -> String {
        let longest = self
            .parallel
            .iter()
            .copied()
            .reduce(|a, b| if b > a { b } else { a });
        // From 0, not by sum(), which starts at -0.
        let mut time = self.durations.iter().fold(0.0, |a, b| a + b) + longest.unwrap_or(0.0);
        let mut unit = "ms";
        if time > 999.0 {
            time /= 1000.0;
            unit = "s";
        }
        let time = if time.is_nan() {
            "nan".into()
        } else {
            format!("{time:.3}")
        };
        format!(
            "{}Total run time: {time:>width$} {unit}{}",
            colors.cyan, colors.end
        )
    }
}

/// Python's `float()` of a text, or of the part before ` ms`.
fn milliseconds(text: &str) -> Option<f64> {
    let parse = |t: &str| strip(t).parse().ok();
    parse(text).or_else(|| parse(text.split(" ms").next()?))
}

/// Python's `round(part / total * 100, 2)`.
fn percent(part: i64, total: i64) -> String {
    python_str(&Value::Float(round(part as f64 / total as f64 * 100.0, 2)))
}

fn round(number: f64, digits: usize) -> f64 {
    format!("{number:.digits$}").parse().unwrap_or(number)
}

/// Combines states with the same ID, SLS and result; `None` if the data does not allow it.
pub(super) fn compress_ids(hosts: &Map) -> Option<Map> {
    let mut out = Map::new();
    for (host, states) in hosts.iter() {
        let compressed = compress_host(states.as_map()?)?;
        out.0.push((host.clone(), Value::Map(compressed)));
    }
    Some(out)
}

/// The group of a state, and the parts of the new key.
fn group(key: &Value, info: &Map) -> Option<(String, [String; 3])> {
    let module = key.as_str()?.split(SEPARATOR).next()?;
    let [id, sls, result] = ["__id__", "__sls__", "result"].map(|k| info.get(k).map(python_str));
    let parts = [id?, sls?, result?];
    Some((format!("{module}_{}", parts.join("_")), parts))
}

fn compress_host(states: &Map) -> Option<Map> {
    let mut groups = Vec::new();
    for (key, info) in states.iter() {
        groups.push(group(key, info.as_map()?)?);
    }
    let mut out = Map::new();
    for ((key, info), (name, [id, sls, result])) in states.iter().zip(&groups) {
        let count = groups.iter().filter(|(n, _)| n == name).count();
        if count == 1 {
            out.0.push((key.clone(), info.clone()));
            continue;
        }
        let mut parts: Vec<&str> = key.as_str()?.split(SEPARATOR).collect();
        let (shown, rolled) = (
            format!("{id} ({count})"),
            format!("state_compressed_{sls}_{id}_{result}"),
        );
        *parts.get_mut(2)? = &rolled;
        *parts.get_mut(1)? = &shown;
        let key = parts.join(SEPARATOR);
        match out.get_mut(&key) {
            None => out.set(key, info.clone()),
            Some(Value::Map(first)) => merge(first, info.as_map()?)?,
            Some(_) => return None,
        }
    }
    Some(out)
}

fn smaller(a: &Value, b: &Value) -> Option<Value> {
    let order = super::python::compare(a, b)?;
    Some(if order == Ordering::Greater {
        b.clone()
    } else {
        a.clone()
    })
}

fn sum(a: &Value, b: &Value) -> Option<Value> {
    let number = |v: &Value| match v {
        Value::Int(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    };
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        return Some(Value::Int(a.checked_add(*b)?));
    }
    Some(Value::Float(round(number(a)? + number(b)?, 3)))
}

/// Merges another state into the first of its group: earliest start, total time, changes by name.
fn merge(first: &mut Map, info: &Map) -> Option<()> {
    const LISTED: &str = "compressed changes";
    let run_num = smaller(info.get("__run_num__")?, first.get("__run_num__")?)?;
    first.set("__run_num__", run_num);
    let duration = sum(info.get("duration")?, first.get("duration")?)?;
    first.set("duration", duration);
    let start = smaller(info.get("start_time")?, first.get("start_time")?)?;
    first.set("start_time", start);
    let Some(changes) = info.get("changes").filter(|c| c.truthy()) else {
        return Some(());
    };
    let own = first.get("changes").filter(|c| c.truthy()).cloned();
    let mut listed = match &own {
        None => Map::new(),
        Some(Value::Map(own)) => match own.get(LISTED).filter(|l| l.truthy()) {
            Some(Value::Map(listed)) => listed.clone(),
            Some(_) => return None,
            None => Map(vec![(first.get("name")?.clone(), Value::Map(own.clone()))]),
        },
        Some(_) => return None,
    };
    let name = info.get("name")?;
    match listed.0.iter_mut().find(|(k, _)| k == name) {
        Some((_, slot)) => *slot = changes.clone(),
        None => listed.0.push((name.clone(), changes.clone())),
    }
    first.set("changes", halite_wire::map! {LISTED => listed});
    Some(())
}

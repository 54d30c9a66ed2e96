//! Drives: `hdparm`, `smartctl`, `iostat`.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use halite_wire::map;
use halite_wire::{Map, Value};

fn hdparm(call: &mut Call<'_>, words: &[&str], hard: bool) -> Result<String> {
    shell::require("hdparm")?;
    let mut argv = vec!["hdparm"];
    argv.extend(words);
    let done = shell::run_all(call, &argv)?;
    if done.retcode != 0 {
        let text = format!("hdparm {}: {}", words.join(" "), done.stderr);
        if hard {
            return Err(CallError::Command(text));
        }
        log::warn!("{text}");
    }
    Ok(done.stdout)
}

pub(super) fn hdparms(call: &mut Call<'_>) -> Result {
    shell::require("hdparm")?;
    let letters = match call.arg("args") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other),
    };
    parameters(call, &letters).map(Into::into)
}

fn parameters(call: &mut Call<'_>, letters: &str) -> Result<Map> {
    let disks: Vec<String> = match call.arg("disks") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => vec![python::str(other)],
    };
    let mut out = Map::new();
    for disk in disks {
        let disk = if disk.starts_with("/dev") {
            disk
        } else {
            format!("/dev/{disk}")
        };
        let text = hdparm(call, &[&format!("-{letters}"), &disk], false)?;
        let mut data = Map::new();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line == format!("{disk}:") {
                continue;
            }
            if let Some((key, value)) = parameter(line) {
                data.set(key, value);
            }
        }
        out.set(disk, data);
    }
    Ok(out)
}

/// A line of `hdparm`: ` readahead     = 256 (on)`, ` HDIO_... is: x/y`.
fn parameter(line: &str) -> Option<(String, Value)> {
    let (key, value) = match line.split_once(':') {
        Some((key, value)) => (key.strip_suffix(" is").unwrap_or(key), value),
        None => line.split_once('=')?,
    };
    let key = key.trim().to_lowercase().replace(' ', "_");
    let value = value.trim();
    let (head, tail) = value.split_once(' ').unwrap_or((value, ""));
    let counted = !head.is_empty() && head.bytes().all(|b| b.is_ascii_digit());
    if counted && tail.starts_with('(') && tail.contains(')') {
        let word = tail.split(' ').next().unwrap_or_default();
        let word = word.trim_matches(['(', ')']);
        let list = vec![number(head).unwrap_or_else(|| head.into()), word.into()];
        return Some((key, list.into()));
    }
    let mut list: Vec<Value> = Vec::new();
    let mut deep = Map::new();
    for part in value.split(['/', ',']).map(str::trim) {
        if let Some(number) = number(part) {
            list.push(number);
        } else if let Some((name, inner)) = part.split_once('=') {
            if !inner.trim().is_empty() {
                deep.set(name.trim(), inner.trim());
            }
        } else if !part.is_empty() {
            list.push(part.into());
        }
    }
    if !deep.is_empty() {
        list.push(deep.into());
    }
    match list.len() {
        0 => None,
        1 => list.pop().map(|only| (key, only)),
        _ => Some((key, list.into())),
    }
}

fn number(text: &str) -> Option<Value> {
    python::int(&text.into()).ok().map(Value::Int)
}

pub(super) fn hpa(call: &mut Call<'_>) -> Result {
    shell::require("hdparm")?;
    let size = call.arg("size").clone();
    let mut data: Vec<(String, i64, Map)> = Vec::new();
    for (disk, found) in parameters(call, "N")?.iter() {
        let first = found.as_map().and_then(|m| m.iter().next());
        let list = first.and_then(|(_, v)| v.as_array()).unwrap_or_default();
        let [visible, total, status] = list else {
            let count = list.len();
            let text = match first {
                None => return Err(CallError::raised("StopIteration", "")),
                Some(_) => format!("not enough values to unpack (expected 3, got {count})"),
            };
            return Err(CallError::raised("ValueError", text));
        };
        let (shown, all) = (visible.as_int().unwrap_or(0), total.as_int().unwrap_or(0));
        let off = status.as_str().is_some_and(|s| s.contains("disabled"));
        let entry = if visible == total || off {
            map! {"total" => total.clone()}
        } else {
            map! {
                "total" => total.clone(), "visible" => visible.clone(), "hidden" => all - shown,
            }
        };
        data.push((python::str(disk), all, entry));
    }
    if size.is_nil() {
        let map: Map = data
            .into_iter()
            .map(|(disk, _, entry)| (disk, entry))
            .collect();
        return Ok(map.into());
    }
    for (disk, total, _) in data {
        let mut left = match python::int(&size) {
            Ok(number) => total - number,
            Err(_) => {
                let text = python::str(&size);
                let share = python::int(&text.trim_matches('%').into())?;
                (100 - share) * total / 100
            }
        };
        if left <= 0 {
            left = total;
        }
        let option = format!("-Np{left}");
        hdparm(
            call,
            &["--yes-i-know-what-i-am-doing", &option, &disk],
            true,
        )?;
    }
    Ok(Value::Nil)
}

pub(super) fn smart_attributes(call: &mut Call<'_>) -> Result {
    let given = python::str(call.arg("dev"));
    let device = if given.starts_with("/dev/") {
        given
    } else {
        format!("/dev/{given}")
    };
    let options = map! {"output_loglevel" => "quiet"};
    let done = shell::run_all_with(call, &["smartctl", "--attributes", &device], options)?;
    if done.retcode != 0 {
        return Err(CallError::Command(done.stderr));
    }
    let mut lines = done.stdout.lines();
    let head = lines.find(|l| l.starts_with("ID#")).unwrap_or_default();
    let fields: Vec<String> = head
        .split_whitespace()
        .skip(1)
        .map(str::to_lowercase)
        .collect();
    let wanted = match call.arg("values") {
        Value::Nil => None,
        list => Some(list.str_list()),
    };
    let numbers = match call.arg("attributes") {
        Value::Nil => None,
        list => Some(list.as_array().unwrap_or_default().to_vec()),
    };
    let mut out = Map::new();
    for line in lines {
        if !line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        let words = split_most(line.trim(), fields.len());
        let id = Value::Int(python::int(&words[0].into())?);
        if numbers.as_ref().is_some_and(|n| !n.contains(&id)) {
            continue;
        }
        let mut data = Map::new();
        for (field, word) in fields.iter().zip(&words[1..]) {
            if wanted.as_ref().is_none_or(|w| w.contains(field)) {
                data.set(field, smart_value(word));
            }
        }
        out.0.push((id, data.into()));
    }
    Ok(out.into())
}

/// `re.split(r"\s+", text, maxsplit)`.
fn split_most(text: &str, most: usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while out.len() < most {
        let Some((word, tail)) = rest.split_once(char::is_whitespace) else {
            break;
        };
        out.push(word);
        rest = tail.trim_start();
    }
    out.push(rest);
    out
}

/// A number, a list of numbers, or text.
fn smart_value(word: &str) -> Value {
    if let Some(number) = number(word) {
        return number;
    }
    let numbers: Option<Vec<Value>> = word.split(' ').map(number).collect();
    numbers.map_or_else(|| word.into(), Value::Array)
}

/// Column means of rows of decimal numbers, rounded to two places.
fn averages(header: &[String], rows: &[Vec<i128>]) -> Map {
    let count = rows.len() as i128;
    let columns = rows.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |column: usize| {
        let sum: i128 = rows.iter().map(|row| row[column]).sum();
        let (numerator, denominator) = (sum, count * SCALE / 100);
        let (quotient, rest) = (numerator / denominator, (numerator % denominator).abs());
        // Round half to even.
        let up = rest * 2 > denominator || (rest * 2 == denominator && quotient % 2 != 0);
        let hundredths = quotient + if up { numerator.signum() } else { 0 };
        Value::Float(hundredths as f64 / 100.0)
    };
    let values = (0..columns).map(mean);
    header.iter().map(String::as_str).zip(values).collect()
}

const SCALE: i128 = 1_000_000;

/// A decimal number in millionths.
fn decimal(word: &str) -> Result<i128> {
    let bad = || {
        CallError::raised(
            "decimal.InvalidOperation",
            "[<class 'decimal.ConversionSyntax'>]",
        )
    };
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let part = format!("{part:0<6.6}");
    let digits: i128 = format!("{whole}{part}").parse().map_err(|_| bad())?;
    Ok(digits)
}

fn decimals(words: &[&str]) -> Result<Vec<i128>> {
    words.iter().map(|w| decimal(w)).collect()
}

/// A device and its rows of numbers.
type Rows = (String, Vec<Vec<i128>>);

pub(super) fn iostat(call: &mut Call<'_>) -> Result {
    shell::require("iostat")?;
    let (interval, count) = (
        python::str(call.arg("interval")),
        python::str(call.arg("count")),
    );
    let disks: Option<Vec<String>> = match call.arg("disks") {
        Value::Nil => None,
        Value::Array(list) => Some(list.iter().map(python::str).collect()),
        other => Some(
            python::str(other)
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        ),
    };
    let mut argv = vec![
        "iostat",
        if disks.is_none() { "-x" } else { "-xd" },
        &interval,
        &count,
    ];
    argv.extend(disks.iter().flatten().map(String::as_str));
    let text = shell::stdout(call, &argv)?;
    let names = |line: &str| -> Vec<String> {
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    let (mut system, mut system_head) = (Vec::new(), Vec::new());
    let (mut devices, mut device_head): (Vec<Rows>, Vec<String>) = (Vec::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("avg-cpu:") {
            if system_head.is_empty() {
                system_head = names(line);
            }
            let words: Vec<&str> = lines
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            system.push(decimals(&words)?);
        } else if line.starts_with("Device:") {
            if device_head.is_empty() {
                device_head = names(line);
            }
            for line in lines.by_ref() {
                if !line.starts_with(char::is_alphanumeric) {
                    break;
                }
                let words: Vec<&str> = line.split_whitespace().collect();
                let row = decimals(&words[1..])?;
                match devices.iter_mut().find(|(name, _)| name == words[0]) {
                    Some((_, rows)) => rows.push(row),
                    None => devices.push((words[0].to_owned(), vec![row])),
                }
            }
        }
    }
    let mut out = Map::new();
    if !system_head.is_empty() {
        out.set("sys", averages(&system_head, &system));
    }
    for (name, rows) in devices {
        out.set(name, averages(&device_head, &rows));
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdparm_lines() {
        let get = |line: &str| parameter(line).unwrap();
        assert_eq!(
            get("readahead     = 256 (on)"),
            (
                "readahead".into(),
                vec![Value::Int(256), "on".into()].into()
            )
        );
        assert_eq!(
            get("max sectors   = 12/34, HPA is disabled").1,
            vec![Value::Int(12), Value::Int(34), "HPA is disabled".into()].into()
        );
        assert_eq!(get("drive state is:  active/idle").0, "drive_state");
        assert_eq!(
            get("geometry = a=1, b=2").1,
            map! {"a" => "1", "b" => "2"}.into()
        );
        assert!(parameter("nothing").is_none());
    }

    #[test]
    fn means_round_as_decimals_do() {
        let rows = |list: &[&str]| {
            list.iter()
                .map(|w| vec![decimal(w).unwrap()])
                .collect::<Vec<_>>()
        };
        let mean = |list: &[&str]| {
            averages(&["x".to_owned()], &rows(list))
                .get("x")
                .cloned()
                .unwrap()
        };
        assert_eq!(mean(&["0.01", "0.02"]), Value::Float(0.02));
        assert_eq!(mean(&["0.02", "0.03"]), Value::Float(0.02));
        assert_eq!(mean(&["1.00", "2.00", "2.00"]), Value::Float(1.67));
    }
}

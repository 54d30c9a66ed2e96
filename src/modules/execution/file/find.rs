//! `file.find` (`salt/utils/find.py`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::{pattern, sums, users};
use halite_sys::command::Helper;
use halite_sys::time::unix_now_f64;
use halite_target::PyRegex;
use halite_wire::{Map, Value, pylines, shlex};
use nix::unistd::{Group, User};
use std::cmp::Ordering;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Timeout of an `exec` command.
const EXEC_TIMEOUT: Duration = Duration::from_secs(3600);
const KINDS: &str = "bcdflps";

/// A condition on files.
enum Criterion {
    Name(PyRegex),
    Type(String),
    Owner(Vec<u32>),
    Group(Vec<u32>),
    Size(i128, i128),
    Changed { since: f64, later: bool },
    Grep(PyRegex),
}

/// An action on matching files.
enum Action {
    Print(Vec<String>),
    Delete,
    Exec(String),
}

/// A search.
struct Finder {
    criteria: Vec<Criterion>,
    actions: Vec<Action>,
    min: i64,
    max: Option<i64>,
    test: bool,
}

/// Why a search is invalid: `ValueError` becomes the result, everything else is raised.
enum FindError {
    Value(String),
    Raised(CallError),
}

impl From<CallError> for FindError {
    fn from(fault: CallError) -> FindError {
        FindError::Raised(fault)
    }
}

type FindResult<T> = Result<T, FindError>;

fn value<T>(text: impl Into<String>) -> FindResult<T> {
    Err(FindError::Value(text.into()))
}

/// An option's text; numbers lack the methods of text.
fn text(value: &Value, method: &str) -> FindResult<String> {
    match value {
        Value::Str(text) => Ok(text.clone()),
        other => Err(FindError::Raised(CallError::raised(
            "AttributeError",
            format!(
                "'{}' object has no attribute '{method}'",
                python::type_name(other)
            ),
        ))),
    }
}

fn regex(pattern: &str, ignore_case: bool) -> FindResult<PyRegex> {
    let flags = if ignore_case { pattern::IGNORECASE } else { 0 };
    pattern::at_start(pattern, flags)
        .or_else(|_| value(format!("invalid regular expression: \"{pattern}\"")))
}

/// Translates `*` and `?` in a name to a regular expression; the rest is used as it is.
fn glob(name: &str, ignore_case: bool) -> FindResult<PyRegex> {
    let pattern = name
        .replace('.', "\\.")
        .replace('?', ".?")
        .replace('*', ".*");
    let flags = if ignore_case { pattern::IGNORECASE } else { 0 };
    Ok(pattern::at_start(&format!("{pattern}$"), flags)?)
}

fn parse_types(text: &str) -> FindResult<String> {
    let letters: String = text
        .chars()
        .filter(|c| *c != ',' && !halite_wire::pytext::is_space(*c))
        .collect();
    match letters.chars().find(|c| !KINDS.contains(*c)) {
        Some(bad) => value(format!("invalid file type \"{bad}\"")),
        None => Ok(letters),
    }
}

/// User or group ids, given by name or number.
fn ids(text: &str, what: &str, find: impl Fn(&str) -> Option<u32>) -> FindResult<Vec<u32>> {
    let text = text.replace(',', " ");
    let mut ids = Vec::new();
    for name in text.split_whitespace() {
        match name.parse().ok().or_else(|| find(name)) {
            Some(id) => ids.push(id),
            None => return value(format!("no such {what} \"{name}\"")),
        }
    }
    Ok(ids)
}

/// Minimum and maximum size (`_parse_size`).
fn size(given: &str) -> FindResult<(i128, i128)> {
    let bad = || value(format!("invalid size: \"{given}\""));
    let trimmed = given.trim();
    let (style, rest) = match trimmed.chars().next() {
        Some(sign @ ('-' | '+')) => (sign, &trimmed[1..]),
        _ => ('=', trimmed),
    };
    let unit = |c: char| Some(1i128 << (10 * "bkmgt".find(c.to_ascii_lowercase())?));
    let (digits, multiplier) = match rest.chars().next_back().and_then(|c| Some((c, unit(c)?))) {
        Some((c, multiplier)) => (rest[..rest.len() - c.len_utf8()].trim(), multiplier),
        None => (rest, 1),
    };
    let number = match (digits.trim().parse::<i64>(), digits.trim().parse::<f64>()) {
        (Ok(whole), _) => i128::from(whole) * multiplier,
        (_, Ok(float)) if float.is_finite() => (float * multiplier as f64) as i128,
        _ => return bad(),
    };
    Ok(match style {
        '-' => (0, number),
        '+' => (number, i128::from(i64::MAX)),
        _ => (number, number + multiplier - 1),
    })
}

/// Seconds, the smallest unit given in seconds, and whether it means "less than" (`_parse_interval`).
fn interval(given: &str) -> FindResult<(f64, Option<f64>, bool)> {
    let bad = || value(format!("invalid time interval: '{given}'"));
    let mut rest = given.trim();
    let later = rest.starts_with('-');
    rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let (mut seconds, mut resolution) = (0.0, None);
    let units = [
        ('w', 604_800.0),
        ('d', 86_400.0),
        ('h', 3600.0),
        ('m', 60.0),
        ('s', 1.0),
    ];
    for (letter, unit) in units {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let behind = rest[digits..].trim_start();
        let starts = behind.starts_with(letter) || behind.starts_with(letter.to_ascii_uppercase());
        if digits == 0 || !starts {
            continue;
        }
        let Ok(number) = rest[..digits].parse::<f64>() else {
            return bad();
        };
        seconds += number * unit;
        resolution = Some(unit);
        rest = behind[1..].trim_start();
    }
    if rest.is_empty() {
        Ok((seconds, resolution, later))
    } else {
        bad()
    }
}

impl Finder {
    fn new(options: &Map) -> FindResult<Finder> {
        let number = |key: &str| match options.get(key) {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::Int(i)) => Ok(Some(*i)),
            Some(other) => Err(FindError::Raised(CallError::Type(format!(
                "'<' not supported between instances of '{}' and 'int'",
                python::type_name(other)
            )))),
        };
        let mut finder = Finder {
            criteria: Vec::new(),
            actions: Vec::new(),
            min: number("mindepth")?.unwrap_or(0),
            max: number("maxdepth")?,
            test: options.get("test").is_some_and(Value::truthy),
        };
        for (key, given) in options.iter() {
            let key = python::str(key);
            if key.starts_with('_') || ["mindepth", "maxdepth", "test"].contains(&key.as_str()) {
                continue;
            }
            if !given.truthy() {
                return value(format!("missing value for \"{key}\" option"));
            }
            finder.option(&key, given)?;
        }
        if finder.actions.is_empty() {
            finder.actions.push(Action::Print(vec!["path".to_owned()]));
        }
        // Cheap criteria first.
        finder.criteria.sort_by_key(|c| match c {
            Criterion::Name(_) => 0,
            Criterion::Grep(_) => 2,
            _ => 1,
        });
        Ok(finder)
    }

    fn option(&mut self, key: &str, given: &Value) -> FindResult<()> {
        let criterion = match key.to_lowercase().as_str() {
            "name" => Criterion::Name(glob(&text(given, "replace")?, false)?),
            "iname" => Criterion::Name(glob(&text(given, "replace")?, true)?),
            "regex" => Criterion::Name(regex(&python::str(given), false)?),
            "iregex" => Criterion::Name(regex(&python::str(given), true)?),
            "type" => Criterion::Type(parse_types(&text(given, "strip")?)?),
            "owner" => {
                let given = text(given, "replace")?;
                let find = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
                Criterion::Owner(ids(&given, "user", find)?)
            }
            "group" => {
                let given = text(given, "replace")?;
                let find = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
                Criterion::Group(ids(&given, "group", find)?)
            }
            "size" => {
                let (least, most) = size(&text(given, "strip")?)?;
                Criterion::Size(least, most)
            }
            "mtime" => {
                let (seconds, resolution, later) = interval(&python::str(given))?;
                let Some(unit) = resolution else {
                    return Err(FindError::Raised(CallError::Type(
                        "unsupported operand type(s) for /: 'int' and 'NoneType'".to_owned(),
                    )));
                };
                let since = unix_now_f64() - (seconds / unit).trunc() * unit;
                Criterion::Changed { since, later }
            }
            "grep" => {
                let given = python::str(given);
                match pattern::text(&given, 0) {
                    Ok(regex) => Criterion::Grep(regex),
                    Err(_) => return value(format!("invalid regular expression: \"{given}\"")),
                }
            }
            "print" => {
                let words = text(given, "replace")?.replace(',', " ");
                let mut words: Vec<String> = words.split_whitespace().map(Into::into).collect();
                if words.is_empty() {
                    words.push("path".to_owned());
                }
                self.actions.push(Action::Print(words));
                return Ok(());
            }
            "delete" => {
                let given = python::str(given);
                let kinds = if given.contains('a') {
                    KINDS.to_owned()
                } else {
                    parse_types(&given)?
                };
                self.actions.push(Action::Delete);
                Criterion::Type(kinds)
            }
            "exec" => {
                self.actions.push(Action::Exec(text(given, "replace")?));
                return Ok(());
            }
            _ => return value(format!("invalid option \"{key}\"")),
        };
        self.criteria.push(criterion);
        Ok(())
    }

    /// Visits the path itself, then everything below it.
    fn find(&self, path: &str, out: &mut Vec<Value>) -> Result<()> {
        if self.min < 1 {
            self.visit(paths::basename(path), path, out)?;
        }
        self.walk(path, 1, out)
    }

    fn walk(&self, dir: &str, depth: i64, out: &mut Vec<Value>) -> Result<()> {
        let Ok(names) = os::list_dir(dir) else {
            return Ok(());
        };
        let inner: Vec<(String, String, bool)> = names
            .into_iter()
            .map(|name| {
                let path = paths::join(dir, &name);
                let is_dir = paths::is_dir(&path) && !paths::is_link(&path);
                (name, path, is_dir)
            })
            .collect();
        if depth >= self.min && self.max.is_none_or(|max| max >= depth) {
            for (name, path, _) in &inner {
                self.visit(name, path, out)?;
            }
        }
        if self.max.is_some_and(|max| depth > max) {
            return Ok(());
        }
        for (_, path, is_dir) in &inner {
            if *is_dir {
                self.walk(path, depth + 1, out)?;
            }
        }
        Ok(())
    }

    fn visit(&self, name: &str, path: &str, out: &mut Vec<Value>) -> Result<()> {
        let meta = fs::metadata(path).or_else(|_| fs::symlink_metadata(path));
        let meta = match meta {
            Ok(meta) => Some(meta),
            // The file was removed meanwhile.
            Err(_) => return Ok(()),
        };
        for criterion in &self.criteria {
            if !criterion.matches(name, path, meta.as_ref()) {
                return Ok(());
            }
        }
        for action in &self.actions {
            if let Some(result) = action.run(path, meta.as_ref(), self.test)? {
                out.push(result);
            }
        }
        Ok(())
    }
}

fn kind(meta: &Metadata) -> &'static str {
    match meta.mode() & 0o170_000 {
        0o060_000 => "b",
        0o020_000 => "c",
        0o040_000 => "d",
        0o100_000 => "f",
        0o120_000 => "l",
        0o010_000 => "p",
        0o140_000 => "s",
        _ => "?",
    }
}

impl Criterion {
    fn matches(&self, name: &str, path: &str, meta: Option<&Metadata>) -> bool {
        let Some(meta) = meta else {
            return false;
        };
        match self {
            Criterion::Name(regex) => regex.matches(name) == Ok(true),
            Criterion::Type(letters) => letters.contains(kind(meta)),
            Criterion::Owner(ids) => ids.contains(&meta.uid()),
            Criterion::Group(ids) => ids.contains(&meta.gid()),
            Criterion::Size(least, most) => (*least..=*most).contains(&i128::from(meta.size())),
            Criterion::Changed { since, later } => {
                if *later {
                    meta.mtime() as f64 >= *since
                } else {
                    meta.mtime() as f64 <= *since
                }
            }
            Criterion::Grep(regex) => {
                let data = meta.is_file().then(|| os::read(path).ok()).flatten();
                data.is_some_and(|d| !d.is_empty() && regex.found_in(&pylines::decode(&d)))
            }
        }
    }
}

impl Action {
    fn run(&self, path: &str, meta: Option<&Metadata>, test: bool) -> Result<Option<Value>> {
        match self {
            Action::Print(words) => {
                let mut out = Vec::new();
                for word in words {
                    out.extend(
                        meta.map(|m| format_field(word, path, m))
                            .transpose()?
                            .flatten(),
                    );
                }
                Ok(Some(match out.len() {
                    1 => out.remove(0),
                    _ => Value::Array(out),
                }))
            }
            Action::Delete => {
                if test {
                    return Ok(Some(path.into()));
                }
                let done = if paths::is_file(path) || paths::is_link(path) {
                    os::unlink(path)
                } else if paths::is_dir(path) {
                    os::rmtree(path)
                } else {
                    Ok(())
                };
                Ok(done.is_ok().then(|| path.into()))
            }
            Action::Exec(command) => {
                let command = command.replace("{}", path);
                let failed = Value::from(format!("{path}: Failed"));
                let Some(words) = shlex::split(&command).ok().filter(|w| !w.is_empty()) else {
                    return Ok(Some(failed));
                };
                Ok(Some(match Helper::new(words).run(EXEC_TIMEOUT) {
                    Ok(done) => format!("{command}:\n{}\n", pylines::decode(&done.stdout)).into(),
                    Err(e) => {
                        log::error!("Exception while executing command \"{command}\": {e}");
                        failed
                    }
                }))
            }
        }
    }
}

/// One field of a file; `None` for unknown fields.
fn format_field(word: &str, path: &str, meta: &Metadata) -> Result<Option<Value>> {
    Ok(Some(match word {
        "path" => path.into(),
        "name" => paths::basename(path).into(),
        "size" => i64::try_from(meta.size()).unwrap_or(i64::MAX).into(),
        "type" => kind(meta).into(),
        "mode" => (meta.mode() & 0o777).into(),
        "mtime" => meta.mtime().into(),
        "user" => users::uid_to_user(meta.uid()),
        "group" => users::gid_to_group(meta.gid()),
        "md5" if meta.is_file() => sums::get_hash(path, "md5")?.into(),
        "md5" => "".into(),
        _ => return Ok(None),
    }))
}

/// Python's order of strings, numbers and lists of them.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a
            .iter()
            .zip(b)
            .map(|(a, b)| compare_values(a, b))
            .find(|o| o.is_ne())
            .unwrap_or(a.len().cmp(&b.len())),
        _ => Ordering::Equal,
    }
}

pub fn find(call: &mut Call<'_>) -> Result {
    let mut options = call.bound.kwargs.clone();
    options.0.retain(|(k, _)| !python::str(k).starts_with("__"));
    let given = |word: &str| call.bound.varargs.iter().any(|v| v.is_str(word));
    if given("delete") {
        options.set("delete", "f");
    } else if given("print") {
        options.set("print", "path");
    }
    let finder = match Finder::new(&options) {
        Ok(finder) => finder,
        Err(FindError::Value(text)) => return Ok(format!("error: {text}").into()),
        Err(FindError::Raised(fault)) => return Err(fault),
    };
    let path = expanduser(&call.text("path").unwrap_or_default());
    let mut out = Vec::new();
    for place in paths::glob(&path) {
        // A trailing slash is kept, as in Python's `glob`.
        let place = if path.ends_with('/') && !place.ends_with('/') {
            format!("{place}/")
        } else {
            place
        };
        finder.find(&place, &mut out)?;
    }
    out.sort_by(compare_values);
    Ok(Value::Array(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok<T>(read: FindResult<T>) -> Option<T> {
        read.ok()
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(ok(size("10")), Some((10, 10)));
        assert_eq!(ok(size("+1k")), Some((1024, i64::MAX.into())));
        assert_eq!(ok(size("-1.5m")), Some((0, 1_572_864)));
        assert_eq!(ok(size("2k")), Some((2048, 3071)));
        assert!(ok(size("x")).is_none());
        assert_eq!(ok(interval("3d")), Some((259_200.0, Some(86_400.0), false)));
        assert_eq!(
            ok(interval("-1w 2h")),
            Some((612_000.0, Some(3600.0), true))
        );
        assert_eq!(ok(interval("1.5 M")), Some((90.0, Some(60.0), false)));
        assert_eq!(ok(interval("")), Some((0.0, None, false)));
        for bad in ["3", "3x", "2h 1d", "1d2"] {
            assert!(ok(interval(bad)).is_none(), "{bad}");
        }
        assert_eq!(ok(parse_types("f, d")), Some("fd".into()));
        assert!(ok(parse_types("fx")).is_none());
    }
}

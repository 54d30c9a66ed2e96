//! Version locks, through the plugin `versionlock`.

use super::{is_dnf, program, run, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::rpm::installed;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_target::{PyRegex, RegexFlags as Mode, fnmatch};
use halite_wire::map;
use halite_wire::{Map, Value};

/// The name at the start of a locked package.
pub const PATTERN: &str = r"[\w+]+(?:[.-][^-]+)*";
/// dnf5's file of locks.
const LOCKS: &str = "/etc/dnf/versionlock.toml";

/// The package that contains the plugin.
fn plugin(grains: &Map) -> Result<&'static str> {
    let number = |name: &str| grains.get(name).map(python::int).transpose();
    match program()? {
        "dnf" | "dnf5"
            if grains
                .str("os")
                .is_some_and(|o| o.eq_ignore_ascii_case("fedora")) =>
        {
            Ok(if number("osrelease")?.unwrap_or(0) >= 26 {
                "python3-dnf-plugin-versionlock"
            } else {
                "python3-dnf-plugins-extras-versionlock"
            })
        }
        "dnf" | "dnf5" => Ok(if number("osmajorrelease")?.unwrap_or(0) >= 8 {
            "python3-dnf-plugin-versionlock"
        } else {
            "python2-dnf-plugin-versionlock"
        }),
        "tdnf" => Err(CallError::Invocation(
            "Cannot proceed, no versionlock for tdnf".to_owned(),
        )),
        _ => Ok("yum-plugin-versionlock"),
    }
}

/// Requires the plugin.
fn check(call: &mut Call<'_>) -> Result<()> {
    let plugin = plugin(&call.ctx.grains)?;
    if installed(call)?.contains_key(plugin) {
        Ok(())
    } else {
        Err(CallError::Invocation(format!(
            "Cannot proceed, {plugin} is not installed."
        )))
    }
}

pub fn list_holds(call: &mut Call<'_>) -> Result {
    let (pattern, full) = (python::str(call.arg("pattern")), call.flag("full"));
    Ok(holds(call, &pattern, full)?.into())
}

/// The locks, or the package names if `full` is false.
///
/// # Errors
/// The plugin is missing.
pub fn holds(call: &mut Call<'_>, pattern: &str, full: bool) -> Result<Vec<String>> {
    check(call)?;
    let program = program()?;
    if program == "dnf5" {
        let text = std::fs::read_to_string(LOCKS).unwrap_or_default();
        return Ok(parse_toml_locks(&text, full));
    }
    let text = command_helpers::run(call, [program, "versionlock", "list"])?;
    let lock = Lock::new(pattern, full)?;
    Ok(text.split('\n').filter_map(|l| lock.find(l)).collect())
}

/// Matches must be at the exact position.
const EXACT: Mode = Mode {
    ignore_case: false,
    multiline: false,
    dot_all: false,
    verbose: false,
    ascii: false,
    anchored: false,
    exact: true,
};

/// How to find a lock in a line; yum puts the epoch before the name.
struct Lock {
    regex: PyRegex,
    full: bool,
}

impl Lock {
    fn new(pattern: &str, full: bool) -> Result<Lock> {
        let yum = !is_dnf()?;
        let text = match (yum, full) {
            (false, _) => format!(r"({pattern}-\S+)"),
            (true, true) => format!(r"(\d+:{pattern}-\S+)"),
            (true, false) => format!(r"\d+:({pattern}-\S+)"),
        };
        let regex =
            PyRegex::with_flags(&text, EXACT).map_err(|e| CallError::raised("re.error", e))?;
        Ok(Lock { regex, full })
    }

    fn find(&self, line: &str) -> Option<String> {
        let groups = self.regex.captures(line, 0)?;
        let (start, end) = groups.get(1).copied().flatten()?;
        let found = line.get(start..end)?.to_owned();
        if self.full {
            return Some(found);
        }
        let cut = |text: &str, at: char| {
            text.rsplit_once(at)
                .map_or(text.to_owned(), |(head, _)| head.to_owned())
        };
        Some(cut(&cut(&cut(&found, '.'), '-'), '-'))
    }
}

/// The locks in dnf5's file.
fn parse_toml_locks(text: &str, full: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for package in locked(text) {
        let Some(name) = package.name.filter(|n| !n.is_empty()) else {
            continue;
        };
        if !full {
            if !all.contains(&name) {
                all.push(name);
            }
            continue;
        }
        let is_version = |c: &&Condition| c.key == "evr" && c.comparator == "=";
        if let Some(condition) = package.conditions.iter().find(is_version) {
            let evr = &condition.value;
            let epoch = if evr.contains(':') { "" } else { "0:" };
            all.push(format!("{name}-{epoch}{evr}.*"));
        }
    }
    all
}

/// One `[[packages]]`.
#[derive(Default)]
struct Locked {
    name: Option<String>,
    conditions: Vec<Condition>,
}

/// One `[[packages.conditions]]`.
#[derive(Default)]
struct Condition {
    key: String,
    comparator: String,
    value: String,
}

/// The tables of the file in the form dnf5 writes: keys with text, one per line.
fn locked(text: &str) -> Vec<Locked> {
    let mut all: Vec<Locked> = Vec::new();
    let mut inside = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line;
            match (line, all.last_mut()) {
                ("[[packages]]", _) => all.push(Locked::default()),
                ("[[packages.conditions]]", Some(last)) => {
                    last.conditions.push(Condition::default())
                }
                _ => {}
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let quote = value.chars().next().filter(|c| ['"', '\''].contains(c));
        let Some(value) = quote.and_then(|q| value[1..].split(q).next()) else {
            continue;
        };
        let Some(last) = all.last_mut() else { continue };
        match (inside, key, last.conditions.last_mut()) {
            ("[[packages]]", "name", _) => last.name = Some(value.to_owned()),
            ("[[packages.conditions]]", "key", Some(c)) => c.key = value.to_owned(),
            ("[[packages.conditions]]", "comparator", Some(c)) => c.comparator = value.to_owned(),
            ("[[packages.conditions]]", "value", Some(c)) => c.value = value.to_owned(),
            _ => {}
        }
    }
    all
}

/// The packages a call names in one of three arguments.
fn names_to_hold(call: &Call<'_>) -> Result<Vec<String>> {
    let [name, pkgs, sources] = ["name", "pkgs", "sources"].map(|n| call.arg(n));
    if ![name, pkgs, sources].iter().any(|v| v.truthy()) {
        return Err(CallError::Invocation(
            "One of name, pkgs, or sources must be specified.".to_owned(),
        ));
    }
    if pkgs.truthy() && sources.truthy() {
        return Err(CallError::Invocation(
            "Only one of pkgs or sources can be specified.".to_owned(),
        ));
    }
    let first = |item: &Value| match item {
        Value::Map(map) => map
            .iter()
            .next()
            .map(|(k, _)| python::str(k))
            .unwrap_or_default(),
        other => python::str(other),
    };
    let list = |value: &Value| match value {
        Value::Str(text) => text.chars().map(String::from).collect(),
        other => other
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(first)
            .collect(),
    };
    Ok(match (pkgs.truthy(), sources.truthy()) {
        (true, _) => list(pkgs),
        (_, true) => list(sources),
        _ => vec![first(name)],
    })
}

pub fn hold(call: &mut Call<'_>) -> Result {
    check(call)?;
    let targets = names_to_hold(call)?;
    hold_packages(call, targets).map(Value::from)
}

pub fn unhold(call: &mut Call<'_>) -> Result {
    check(call)?;
    let targets = names_to_hold(call)?;
    unhold_packages(call, targets).map(Value::from)
}

/// The result for one package.
fn entry(
    name: &str,
    result: impl Into<Value>,
    comment: String,
    change: Option<(&str, &str)>,
) -> Map {
    let changes = match change {
        Some((new, old)) => map! {"new" => new, "old" => old},
        None => Map::new(),
    };
    map! {"name" => name, "changes" => changes, "result" => result.into(), "comment" => comment}
}

fn testing(call: &Call<'_>) -> bool {
    call.ctx.opts.get("test").is_some_and(Value::truthy)
}

/// Holds packages; returns a result per package.
///
/// # Errors
/// The plugin is missing, or the program cannot be started.
pub fn hold_packages(call: &mut Call<'_>, targets: Vec<String>) -> Result<Map> {
    let current = holds(call, PATTERN, false)?;
    let mut ret = Map::new();
    for target in targets {
        let one = if current.contains(&target) {
            let text = format!("Package {target} is already set to be held.");
            entry(&target, true, text, None)
        } else if testing(call) {
            let text = format!("Package {target} is set to be held.");
            entry(&target, Value::Nil, text, None)
        } else if run(call, to_args(&["versionlock", "add", &target]), false)?.ok() {
            let text = format!("Package {target} is now being held.");
            entry(&target, true, text, Some(("hold", "")))
        } else {
            let text = format!("Package {target} was unable to be held.");
            entry(&target, false, text, None)
        };
        ret.set(target, one);
    }
    Ok(ret)
}

/// Unholds packages; returns a result per package.
///
/// # Errors
/// As [`hold_packages`].
pub fn unhold_packages(call: &mut Call<'_>, targets: Vec<String>) -> Result<Map> {
    let dnf = is_dnf()?;
    let current = holds(call, PATTERN, program()? == "yum")?;
    let name = Lock::new(PATTERN, false)?;
    let mut ret = Map::new();
    for target in targets {
        let is_meant = |lock: &&String| {
            if dnf {
                **lock == target
            } else {
                fnmatch(lock, &format!("*{target}*")) && name.find(lock).as_ref() == Some(&target)
            }
        };
        let locks: Vec<String> = current.iter().filter(is_meant).cloned().collect();
        let one = if locks.is_empty() {
            let text = format!("Package {target} is not being held.");
            entry(&target, true, text, None)
        } else if testing(call) {
            let text = format!("Package {target} is set to be unheld.");
            entry(&target, Value::Nil, text, None)
        } else {
            let mut argv = to_args(&["versionlock", "delete"]);
            argv.extend(locks);
            if run(call, argv, false)?.ok() {
                let text = format!("Package {target} is no longer held.");
                entry(&target, true, text, Some(("", "hold")))
            } else {
                let text = format!("Package {target} was unable to be unheld.");
                entry(&target, false, text, None)
            }
        };
        ret.set(target, one);
    }
    Ok(ret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_dnf5() {
        let text = "version = \"1.0\"\n\n[[packages]]\nname = \"bash\"\n[[packages.conditions]]\nkey = \"evr\"\n\
                    comparator = \"=\"\nvalue = \"5.2-1.fc41\"\n\n[[packages]]\nname = \"vim\"\n\
                    [[packages.conditions]]\nkey = \"evr\"\ncomparator = \"<\"\nvalue = \"3\"\n\
                    [[packages.conditions]]\nkey = \"evr\"\ncomparator = \"=\"\nvalue = \"2:9-1\"\n";
        assert_eq!(
            parse_toml_locks(text, true),
            ["bash-0:5.2-1.fc41.*", "vim-2:9-1.*"]
        );
        assert_eq!(parse_toml_locks(text, false), ["bash", "vim"]);
        assert!(parse_toml_locks("", true).is_empty());
    }

    #[test]
    fn locks_in_lines() {
        let find = |full, yum: bool, line| {
            let text = match (yum, full) {
                (false, _) => format!(r"({PATTERN}-\S+)"),
                (true, true) => format!(r"(\d+:{PATTERN}-\S+)"),
                (true, false) => format!(r"\d+:({PATTERN}-\S+)"),
            };
            let regex = PyRegex::with_flags(&text, EXACT).unwrap();
            Lock { regex, full }.find(line)
        };
        let line = "vim-enhanced-2:7.4.827-1.fc22.*";
        assert_eq!(find(true, false, line).as_deref(), Some(line));
        assert_eq!(find(false, false, line).as_deref(), Some("vim-enhanced"));
        let line = "2:vim-enhanced-7.4.629-5.el6.*";
        assert_eq!(find(true, true, line).as_deref(), Some(line));
        assert_eq!(find(false, true, line).as_deref(), Some("vim-enhanced"));
        assert_eq!(
            find(true, false, "Last metadata expiration check: 0:00:01 ago."),
            None
        );
    }
}

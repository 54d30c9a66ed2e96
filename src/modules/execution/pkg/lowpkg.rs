//! Queries to rpm about packages and their files (`salt/modules/rpm_lowpkg.py`).

use super::common::{keywords, names, option};
use super::loose_version;
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::program::{CommandOutput, DEFAULT_TIMEOUT};
use crate::execution::{Call, CallError, command_helpers, program, python};
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::path::Path;

/// Mismatches reported by `rpm -V`, in column order.
const MISMATCHES: [(char, &str); 9] = [
    ('S', "size"),
    ('M', "mode"),
    ('5', "md5sum"),
    ('D', "device major/minor number"),
    ('L', "readlink path"),
    ('U', "user"),
    ('G', "group"),
    ('T', "mtime"),
    ('P', "capabilities"),
];
/// The same columns, as named by `pkg.modified`.
const CHANGES: [&str; 9] = [
    "size",
    "mode",
    "checksum",
    "device",
    "symlink",
    "owner",
    "group",
    "time",
    "capabilities",
];
/// Attributes of `pkg.info_installed` and their rpm query formats.
const ATTRIBUTES: [(&str, &str); 22] = [
    ("name", "name: %{NAME}\\n"),
    (
        "relocations",
        "relocations: %|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|\\n",
    ),
    ("version", "version: %{VERSION}\\n"),
    ("vendor", "vendor: %{VENDOR}\\n"),
    ("release", "release: %{RELEASE}\\n"),
    ("epoch", "%|EPOCH?{epoch: %{EPOCH}\\n}|"),
    ("build_date_time_t", "build_date_time_t: %{BUILDTIME}\\n"),
    ("build_date", "build_date: %{BUILDTIME}\\n"),
    (
        "install_date_time_t",
        "install_date_time_t: %|INSTALLTIME?{%{INSTALLTIME}}:{(not installed)}|\\n",
    ),
    (
        "install_date",
        "install_date: %|INSTALLTIME?{%{INSTALLTIME}}:{(not installed)}|\\n",
    ),
    ("build_host", "build_host: %{BUILDHOST}\\n"),
    ("group", "group: %{GROUP}\\n"),
    ("source_rpm", "source_rpm: %{SOURCERPM}\\n"),
    ("size", "size: %{SIZE}\\n"),
    ("arch", "arch: %{ARCH}\\n"),
    ("license", "%|LICENSE?{license: %{LICENSE}\\n}|"),
    (
        "signature",
        "signature: %|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:\
         {%|SIGGPG?{%{SIGGPG:pgpsig}}:{%|SIGPGP?{%{SIGPGP:pgpsig}}:{(none)}|}|}|}|\\n",
    ),
    ("packager", "%|PACKAGER?{packager: %{PACKAGER}\\n}|"),
    ("url", "%|URL?{url: %{URL}\\n}|"),
    ("summary", "summary: %{SUMMARY}\\n"),
    (
        "edition",
        "edition: %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n",
    ),
    ("description", "description:\\n%{DESCRIPTION}\\n"),
];

/// The start of an rpm command line, with the root if given.
pub fn rpm(root: &Value) -> Vec<String> {
    let mut argv = vec!["rpm".to_owned()];
    if root.truthy() {
        argv.extend(["--root".to_owned(), python::str(root)]);
    }
    argv
}

/// A list, or comma-separated text; anything else is an error.
fn list(call: &Call<'_>, name: &str) -> Result<Vec<String>> {
    match keywords(call).get(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list.iter().map(python::str).collect()),
        Some(Value::Str(text)) => Ok(text.split(',').map(|w| w.trim().to_owned()).collect()),
        Some(_) => Err(CallError::Invocation(format!(
            "{name} must be a list or a comma-separated string"
        ))),
    }
}

pub fn verify(call: &mut Call<'_>) -> Result {
    let ignored = list(call, "ignore_types")?;
    let options = list(call, "verify_options")?;
    let mut argv = rpm(&option(call, "root"));
    argv.extend(options.iter().map(|o| format!("--{o}")));
    let names = names(call);
    argv.push(if names.is_empty() { "-Va" } else { "-V" }.to_owned());
    argv.extend(names);
    let ran = command_helpers::run_all_tolerant(call, argv)?;
    if ran.stdout.trim().is_empty() && !ran.ok() {
        let mut text = "Failed to verify package(s)".to_owned();
        if !ran.stderr.is_empty() {
            text = format!("{text}: {}", ran.stderr);
        }
        return Err(CallError::Command(text));
    }
    Ok(parse_verify(&ran.stdout, &ignored).into())
}

fn parse_verify(text: &str, ignored: &[String]) -> Map {
    let mut ret = Map::new();
    // Stock treats empty output as one line.
    for line in text.split('\n').filter(|_| !text.is_empty()) {
        let mut file = Map::new();
        let mut line = line.to_owned();
        let missing = line.contains("missing");
        if missing {
            line.insert(0, ' ');
            file.set("missing", true);
        } else {
            file.set("mismatch", Vec::<Value>::new());
        }
        let letters: Vec<char> = line.chars().collect();
        let kind = match letters.get(11) {
            Some('c') => "config",
            Some('d') => "doc",
            Some('g') => "ghost",
            Some('l') => "license",
            Some('r') => "readme",
            _ => "",
        };
        if !kind.is_empty() {
            file.set("type", kind);
        }
        if !kind.is_empty() && ignored.iter().any(|i| i == kind) {
            continue;
        }
        let columns = MISMATCHES.iter().enumerate();
        let wrong: Vec<Value> = columns
            .filter(|(at, (letter, _))| letters.get(*at) == Some(letter))
            .map(|(_, (_, name))| (*name).into())
            .collect();
        if !missing {
            file.set("mismatch", wrong);
        }
        let name: String = letters.iter().skip(13).collect();
        ret.set(name, file);
    }
    ret
}

pub fn modified(call: &mut Call<'_>) -> Result {
    let mut flags = keywords(call);
    flags.0.retain(|(k, _)| !python::str(k).starts_with('_'));
    let root = flags.remove("root").unwrap_or_default();
    let mut argv = rpm(&root);
    argv.push("-Va".to_owned());
    argv.extend(names(call));
    let ran = command_helpers::run_all(call, argv)?;
    if ran.retcode > 1 {
        return Ok(halite_wire::map! {
            "pid" => ran.pid, "retcode" => ran.retcode, "stderr" => ran.stderr,
        }
        .into());
    }
    if ran.ok() {
        return Ok(Map::new().into());
    }
    changed(&ran.stdout, &flags).map(Value::from)
}

fn changed(text: &str, flags: &Map) -> Result<Map> {
    let mut ret = Map::new();
    for line in text.split('\n') {
        let parts: Vec<&str> = line.split(char::is_whitespace).collect();
        let parts: Vec<&str> = drop_empty(&parts);
        let (columns, config, name) = match parts.as_slice() {
            [columns, _, name] => (columns, true, name),
            [columns, name] => (columns, false, name),
            other => {
                let what = if other.len() > 2 {
                    "too many values to unpack (expected 2)".to_owned()
                } else {
                    format!(
                        "not enough values to unpack (expected 2, got {})",
                        other.len()
                    )
                };
                return Err(CallError::raised("ValueError", what));
            }
        };
        let mut stats: Vec<Value> = columns
            .chars()
            .zip(CHANGES)
            .filter(|(letter, _)| *letter != '.')
            .map(|(_, name)| name.into())
            .collect();
        if config {
            stats.push("config".into());
        }
        let fits = |(name, wanted): (&Value, &Value)| stats.contains(name) == wanted.truthy();
        if flags.iter().all(|(k, v)| fits((k, v))) {
            ret.set(*name, stats);
        }
    }
    Ok(ret)
}

/// Collapses runs of blanks, like `re.split` with `\s+`.
fn drop_empty<'a>(parts: &[&'a str]) -> Vec<&'a str> {
    let last = parts.len().saturating_sub(1);
    let inner = parts.iter().enumerate();
    inner
        .filter(|(at, part)| !part.is_empty() || *at == 0 || *at == last)
        .map(|(_, part)| *part)
        .collect()
}

/// The package that owns a file; empty if none.
///
/// # Errors
/// rpm cannot be started.
pub fn owner_of(call: &mut Call<'_>, path: &str, root: &Value) -> Result<String> {
    let mut argv = rpm(root);
    argv.extend(["-qf", "--queryformat", "%{name}", path].map(str::to_owned));
    let text = command_helpers::run_all(call, argv)?.stdout;
    Ok(if text.to_lowercase().contains("not owned") {
        String::new()
    } else {
        text
    })
}

/// `pkg.diff`: differences between files and their packages. `fetch` downloads the packages and returns their paths
/// by name.
///
/// # Errors
/// A package cannot be fetched, or a required program is missing.
pub fn diff(
    call: &mut Call<'_>,
    root: &Value,
    fetch: impl FnOnce(&mut Call<'_>, &[String]) -> Result<Map>,
) -> Result {
    let mut ret = Map::new();
    let mut owned: Vec<(String, Vec<String>)> = Vec::new();
    for path in names(call) {
        let package = owner_of(call, &path, root)?;
        if package.is_empty() {
            let there = Path::new(&path).exists();
            ret.set(path, if there { "Not managed" } else { "N/A" });
            continue;
        }
        match owned.iter_mut().find(|(name, _)| *name == package) {
            Some((_, paths)) => paths.push(path),
            None => owned.push((package, vec![path])),
        }
    }
    if owned.is_empty() {
        return Ok(ret.into());
    }
    let packages: Vec<String> = owned.iter().map(|(name, _)| name.clone()).collect();
    let files = fetch(call, &packages)?;
    for (package, paths) in owned {
        let missing = || CallError::raised("KeyError", format!("'{package}'"));
        let file = files.str(&package).ok_or_else(missing)?;
        for path in paths {
            let text = diff_of(call, file, &path)?;
            ret.set(path, if text.is_empty() { "Unchanged" } else { &text });
        }
    }
    Ok(ret.into())
}

/// The difference between a file and the one in a package file.
fn diff_of(call: &mut Call<'_>, package: &str, path: &str) -> Result<String> {
    for program in ["rpm2cpio", "cpio", "diff"] {
        if which(program).is_none() {
            return Err(CallError::CommandNotFound(format!(
                "The '{program}' binary was not found in $PATH."
            )));
        }
    }
    let archive = piped(&["rpm2cpio", package], None)?;
    let member = format!(".{path}");
    let cpio = ["cpio", "-i", "--quiet", "--to-stdout", &member];
    let member = piped(&cpio, Some(archive.0))?;
    let (a, b) = (format!("A {path}"), format!("B {path}"));
    let argv = [
        "diff",
        "-u",
        "--label",
        &a,
        "--from-file=-",
        "--label",
        &b,
        path,
    ];
    let out = piped(&argv, Some(member.0))?;
    call.retcode = out.2.into();
    let output = [archive.1, member.1, out.1].concat();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output),
        String::from_utf8_lossy(&out.0)
    );
    Ok(if text.starts_with("Binary file") {
        format!("File '{path}' is binary and its content has been modified.")
    } else {
        text.trim_end().to_owned()
    })
}

/// Runs a program with input; returns both outputs and the exit code.
fn piped(argv: &[&str], stdin: Option<Vec<u8>>) -> Result<(Vec<u8>, Vec<u8>, i64)> {
    let helper = Helper {
        stdin,
        env: vec![("LC_ALL".to_owned(), Some("C".to_owned()))],
        ..Helper::new(argv.iter().copied())
    };
    let ran = helper
        .run(DEFAULT_TIMEOUT)
        .map_err(|e| CallError::Command(e.to_string()))?;
    Ok((ran.stdout, ran.stderr, ran.code))
}

/// Data of installed packages: the newest version by name, or all versions as a list.
///
/// # Errors
/// None of the attributes is known.
pub fn info(
    call: &mut Call<'_>,
    names: &[String],
    root: &Value,
    attr: &Value,
    all_versions: bool,
) -> Result<Map> {
    let tags = program::run(["rpm", "--querytags"])?.stdout;
    let long = tags.lines().any(|t| t == "LONGSIZE");
    let (format, described) = query(attr, long)?;
    let mut argv = rpm(root);
    argv.push(if names.is_empty() { "-qa" } else { "-q" }.to_owned());
    // Stock splits names like a command line.
    argv.extend(
        names
            .iter()
            .flat_map(|n| n.split_whitespace())
            .map(str::to_owned),
    );
    argv.extend(["--queryformat".to_owned(), format]);
    let ran: CommandOutput = command_helpers::run_all_tolerant(call, argv)?;
    let mut all = packages(&ran.stdout, described);
    let edition = |info: &Map| info.str("edition").unwrap_or_default().to_owned();
    all.sort_by(|a, b| loose_version::compare(&edition(&a.1), &edition(&b.1)));
    let mut ret = Map::new();
    for (name, mut info) in all.into_iter().rev() {
        if name.starts_with("gpg-pubkey") {
            continue;
        }
        match ret.get_mut(&name) {
            Some(Value::Array(list)) => list.push(info.into()),
            Some(_) => {}
            None if all_versions => ret.set(name, vec![Value::from(info)]),
            None => {
                info.remove("edition");
                ret.set(name, info);
            }
        }
    }
    Ok(ret)
}

/// The rpm query, and whether it includes descriptions.
fn query(attr: &Value, long: bool) -> Result<(String, bool)> {
    let wanted: Option<Vec<String>> = match attr {
        Value::Str(text) if !text.is_empty() => Some(text.split(',').map(str::to_owned).collect()),
        other if other.truthy() => {
            let class = python::type_name(other);
            let text = format!("'{class}' object has no attribute 'split'");
            return Err(CallError::raised("AttributeError", text));
        }
        _ => None,
    };
    let one = |name: &str| {
        let found = ATTRIBUTES.iter().find(|(n, _)| *n == name)?;
        Some(match name {
            "size" if long => found.1.replace("SIZE", "LONGSIZE"),
            _ => found.1.to_owned(),
        })
    };
    let mut names: Vec<&str> = match &wanted {
        None => ATTRIBUTES.iter().map(|(n, _)| *n).collect(),
        Some(wanted) => wanted.iter().map(String::as_str).collect(),
    };
    let described = names.contains(&"description");
    names.retain(|n| *n != "description" && one(n).is_some());
    if names.is_empty() {
        return Err(CallError::Command("No valid attributes found.".to_owned()));
    }
    for needed in ["name", "edition"] {
        if !names.contains(&needed) {
            names.push(needed);
        }
    }
    if described {
        names.push("description");
    }
    let mut format: String = names.into_iter().filter_map(one).collect();
    format.push_str("-----\\n");
    Ok((format, described))
}

/// The packages in rpm's output.
fn packages(text: &str, described: bool) -> Vec<(String, Map)> {
    let mut all = Vec::new();
    for record in records(text) {
        let mut lines: Vec<&str> = record.split('\n').collect();
        let last = lines.last().map(|l| l.to_lowercase()).unwrap_or_default();
        if last.starts_with("distribution") {
            lines.pop();
        }
        let mut info = Map::new();
        let mut name = None;
        let mut lines = lines.into_iter();
        for line in lines.by_ref() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "description" => break,
                "name" => name = Some(value.to_owned()),
                "build_date" | "install_date" => {
                    if let Ok(at) = value.parse() {
                        info.set(key, format!("{}Z", utc(at)));
                    }
                }
                "build_date_time_t" | "install_date_time_t" => {
                    if let Ok(at) = value.parse::<i64>() {
                        info.set(key, at);
                    }
                }
                _ if !value.is_empty() => info.set(key, value),
                _ => {}
            }
        }
        if described {
            info.set("description", lines.collect::<Vec<_>>().join("\n"));
        }
        all.extend(name.map(|name| (name, info)));
    }
    all
}

/// Splits at lines of dashes. As in stock, three dashes in a description also split it.
fn records(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("---") {
        found.push(&rest[..at]);
        rest = rest[at..].trim_start_matches('-');
    }
    found.push(rest);
    found
        .into_iter()
        .map(str::trim)
        .filter(|r| !r.is_empty())
        .collect()
}

/// A time in Python's `isoformat`, in UTC.
pub fn utc(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn files_that_differ() {
        let text =
            "S.5....T.  c /opt/hz/conf\nmissing     /opt/hz/data\n.M.......    /opt/hz/with blank";
        let found = parse_verify(text, &[]);
        assert_eq!(
            found,
            map! {
                "/opt/hz/conf" => map! {
                    "mismatch" => vec![Value::from("size"), "md5sum".into(), "mtime".into()], "type" => "config",
                },
                "/opt/hz/data" => map! {"missing" => true},
                "/opt/hz/with blank" => map! {"mismatch" => vec![Value::from("mode")]},
            }
        );
        assert_eq!(parse_verify(text, &["config".to_owned()]).len(), 2);
        let text = "S.5....T.  c /opt/hz/conf\nmissing     /opt/hz/data";
        let found = changed(text, &Map::new()).unwrap();
        let stats = found.get("/opt/hz/conf").map(Value::str_list).unwrap();
        assert_eq!(stats, ["size", "checksum", "time", "config"]);
        let only = changed(text, &map! {"config" => true, "mode" => false}).unwrap();
        assert_eq!(only.len(), 1);
        assert!(changed("one", &Map::new()).is_err());
    }

    #[test]
    fn rpm_output() {
        let (format, described) = query(&"version,nothing".into(), true).unwrap();
        let fields = [
            "version: %{VERSION}",
            "name: %{NAME}",
            "edition: %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}",
        ];
        assert_eq!(format, format!("{}\\n-----\\n", fields.join("\\n")));
        assert!(!described);
        assert!(query(&"description".into(), true).is_err());
        let (format, _) = query(&Value::Nil, true).unwrap();
        assert!(format.contains("size: %{LONGSIZE}"));
        let text = "name: a\ninstall_date: 1700000000\nvendor: \nurl: https://x/a\nedition: 1-1\n\
                    description:\nOne: two\n\nthree\n-----\npackage b is not installed";
        let found = packages(text, true);
        assert_eq!(
            found,
            [(
                "a".to_owned(),
                map! {
                    "install_date" => "2023-11-14T22:13:20Z", "url" => "https://x/a", "edition" => "1-1",
                    "description" => "One: two\n\nthree",
                }
            )]
        );
    }
}

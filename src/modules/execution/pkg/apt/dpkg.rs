//! Package data from dpkg (`salt/modules/dpkg_lowpkg.py`).

use super::list::with_arch;
use super::quiet;
use crate::execution::declare::Result;
use crate::execution::pkg::common::{cached, keywords, names, reject_unknown_kwargs, remote};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// The control data of a package file.
pub struct Package {
    pub name: String,
    pub version: String,
}

/// Reads the control data of a package file.
///
/// # Errors
/// It does not exist or is not a package.
pub fn bin_pkg_info(call: &mut Call<'_>, path: &str) -> Result<Package> {
    let mut path = path.to_owned();
    if remote(&path) {
        path = cached(call, &path, "base".into())?.ok_or_else(|| {
            CallError::Command(format!("Unable to retrieve {path} from saltenv 'base'"))
        })?;
    } else if !Path::new(&path).exists() {
        return Err(CallError::Command(format!(
            "{path} does not exist on minion"
        )));
    } else if !path.starts_with('/') {
        return Err(CallError::Invocation(format!(
            "{path} does not exist on minion"
        )));
    }
    let ran = command_helpers::run_all(call, ["dpkg", "-I", &path])?;
    if !ran.ok() {
        let why = if ran.stderr.is_empty() {
            String::new()
        } else {
            format!(": {}", ran.stderr)
        };
        return Err(CallError::Command(format!(
            "Unable to get info for {path}{why}"
        )));
    }
    let field = |name: &str| {
        ran.stdout.lines().map(str::trim).rev().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            let last = value.split_whitespace().next_back()?;
            (key.trim_end_matches(' ') == name).then(|| last.to_owned())
        })
    };
    let found = [field("Package"), field("Version"), field("Architecture")];
    match found {
        [Some(name), Some(version), Some(arch)] => Ok(Package {
            name: with_arch(call, &name, &arch),
            version,
        }),
        found => {
            let names = ["name", "version", "arch"].iter().zip(&found);
            let missing: Vec<&str> = names
                .filter(|(_, f)| f.is_none())
                .map(|(n, _)| *n)
                .collect();
            Err(CallError::Command(format!(
                "Unable to get {} for {path}",
                missing.join(", ")
            )))
        }
    }
}

/// The requested packages that are installed, or the error text.
fn installed(call: &mut Call<'_>) -> Result<Result<Vec<String>, String>> {
    let mut argv: Vec<String> = [
        "dpkg-query",
        "-f=${db:Status-Status}\t${binary:Package}\n",
        "-W",
    ]
    .map(str::to_owned)
    .to_vec();
    argv.extend(names(call));
    let ran = command_helpers::run_all(call, argv)?;
    if !ran.ok() {
        return Ok(Err(format!("Error:  {}", ran.stderr)));
    }
    let lines = ran.stdout.lines();
    let list = lines
        .filter_map(|l| l.strip_prefix("installed\t"))
        .map(str::to_owned);
    Ok(Ok(list.collect()))
}

fn files(call: &mut Call<'_>, package: &str) -> Result<Vec<String>> {
    let text = command_helpers::run(call, ["dpkg", "-L", package])?;
    Ok(text.lines().map(str::to_owned).collect())
}

pub fn file_list(call: &mut Call<'_>) -> Result {
    let packages = match installed(call)? {
        Ok(packages) => packages,
        Err(text) => return Ok(text.into()),
    };
    let mut all = std::collections::BTreeSet::new();
    for package in packages {
        all.extend(files(call, &package)?);
    }
    let all: Vec<String> = all.into_iter().collect();
    Ok(map! {"errors" => Value::Array(Vec::new()), "files" => all}.into())
}

pub fn file_dict(call: &mut Call<'_>) -> Result {
    let packages = match installed(call)? {
        Ok(packages) => packages,
        Err(text) => return Ok(text.into()),
    };
    let mut map = Map::new();
    for package in packages {
        let files = files(call, &package)?;
        map.set(package, files);
    }
    Ok(map! {"errors" => Value::Array(Vec::new()), "packages" => map}.into())
}

/// Fields in stock's order, one per line; the description may have several lines.
const FIELDS: [(&str, &str); 17] = [
    ("package", "${Package}"),
    ("revision", "${binary:Revision}"),
    ("architecture", "${Architecture}"),
    ("maintainer", "${Maintainer}"),
    ("summary", "${Summary}"),
    ("source", "${source:Package}"),
    ("version", "${Version}"),
    ("section", "${Section}"),
    ("installed_size", "${Installed-size}"),
    ("size", "${Size}"),
    ("MD5", "${MD5sum}"),
    ("SHA1", "${SHA1}"),
    ("SHA256", "${SHA256}"),
    ("origin", "${Origin}"),
    ("homepage", "${Homepage}"),
    ("status", "${db:Status-Abbrev}"),
    ("install_date", "${db-fsys:Last-Modified}"),
];

const END: &str = "\n*/~^\\*";

pub fn info_installed(call: &mut Call<'_>) -> Result {
    let mut kwargs = keywords(call);
    let failhard = kwargs.remove("failhard").is_none_or(|v| v.truthy());
    reject_unknown_kwargs(&kwargs)?;
    let mut format: String = FIELDS
        .iter()
        .map(|(key, field)| format!("{key}:{field}\\n"))
        .collect();
    format.push_str("description:${Description}\\n\\n*/~^\\\\*\\n");
    let mut argv = vec![
        "dpkg-query".to_owned(),
        "-W".to_owned(),
        format!("-f={format}"),
    ];
    argv.extend(names(call));
    let ran = command_helpers::run_all_with(call, quiet(argv))?;
    if !ran.ok() {
        if failhard {
            let text = format!("Error getting packages information: {}", ran.stderr);
            return Err(CallError::Command(text));
        }
        return Ok(Map::new().into());
    }
    let mut ret = Map::new();
    for record in ran.stdout.split(END) {
        let record = record.strip_prefix('\n').unwrap_or(record);
        if let Some((name, info)) = parse_record(record) {
            ret.set(name, info);
        }
    }
    Ok(ret.into())
}

/// One record with the field names of `pkg.info_installed`; `None` unless installed.
fn parse_record(record: &str) -> Option<(String, Map)> {
    let (head, description) = record.split_once("\ndescription:")?;
    let mut info = Map::new();
    let mut name = String::new();
    for line in head.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (key, value) = line.split_once(':')?;
        if value.is_empty() {
            continue;
        }
        let key = match key {
            "package" => {
                name = value.to_owned();
                "name"
            }
            "status" => {
                // The line was trimmed: the second letter is still the state.
                if value.chars().nth(1) != Some('i') {
                    return None;
                }
                continue;
            }
            "installed_size" => continue,
            "install_date" => {
                if let Some(date) = date(value) {
                    info.set("install_date", date);
                }
                continue;
            }
            "origin" => "vendor",
            "section" => "group",
            "maintainer" => "packager",
            "homepage" => "url",
            other => other,
        };
        info.set(key, value);
    }
    info.set("description", description);
    let license = license(&name);
    if !license.is_empty() {
        info.set("license", license);
    }
    Some((name, info))
}

fn date(seconds: &str) -> Option<String> {
    let at = jiff::Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The licenses in a package's copyright file.
fn license(package: &str) -> String {
    if package.contains('/') {
        return String::new();
    }
    let bytes = std::fs::read(format!("/usr/share/doc/{package}/copyright")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let found: std::collections::BTreeSet<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("License:"))
        .map(str::trim)
        .collect();
    python::str(&found.into_iter().collect::<Vec<_>>().join(", ").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let text = "package:a\nrevision:\nversion:1\nsection:x\nstatus:ii \ninstall_date:0\ndescription:short\n long\n";
        let (name, info) = parse_record(text).unwrap();
        assert_eq!(name, "a");
        let wanted = map! {
            "name" => "a", "version" => "1", "group" => "x",
            "install_date" => "1970-01-01T00:00:00Z", "description" => "short\n long\n",
        };
        assert_eq!(info, wanted);
        assert!(parse_record("package:a\nstatus:rc \ndescription:x").is_none());
    }
}

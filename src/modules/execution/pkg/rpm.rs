//! Shared code of dnf and zypper: the rpm database (`salt/utils/pkg/rpm.py`, `salt/modules/rpm_lowpkg.py`).

use super::common::{Packages, changes, names, option, version as versions};
use super::common::{empty, value, with_info};
use super::lowpkg;
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use indexmap::IndexMap;
use std::cmp::Ordering;

const X86_64: [&str; 2] = ["x86_64", "x86_64_v2"];
const X86: [&str; 4] = ["i386", "i486", "i586", "i686"];
const ARM: [&str; 7] = [
    "armv5tel",
    "armv5tejl",
    "armv6l",
    "armv6hl",
    "armv7l",
    "armv7hl",
    "armv7hnl",
];
const OTHER: [&str; 26] = [
    "athlon",
    "amd64",
    "ia32e",
    "ia64",
    "geode",
    "ppc",
    "ppc64",
    "ppc64le",
    "ppc64iseries",
    "ppc64pseries",
    "s390",
    "s390x",
    "alpha",
    "alphaev4",
    "alphaev45",
    "alphaev5",
    "alphaev56",
    "alphapca56",
    "alphaev6",
    "alphaev67",
    "alphaev68",
    "alphaev7",
    "aarch64",
    "sh3",
    "sh4",
    "sh4a",
];

pub const FORMAT: &str =
    "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}_|-(none)_|-%{INSTALLTIME}";

/// Whether a word is an architecture suffix.
pub fn is_arch(word: &str) -> bool {
    X86_64.contains(&word) || X86.contains(&word) || ARM.contains(&word) || OTHER.contains(&word)
}

/// Whether two architectures belong to the same 32-bit family.
pub fn both_32(one: &str, other: &str) -> bool {
    [&X86[..], &ARM[..]]
        .iter()
        .any(|all| all.contains(&one) && all.contains(&other))
}

/// A name with its architecture if that is foreign.
pub fn name_with_foreign_arch(name: &str, arch: &str, own: &str) -> String {
    let same = both_32(arch, own)
        || arch == own
        || arch == "noarch"
        || (X86_64.contains(&arch) && X86_64.contains(&own));
    if same {
        name.to_owned()
    } else {
        format!("{name}.{arch}")
    }
}

pub fn osarch(call: &Call<'_>) -> String {
    call.ctx.grains.str("osarch").unwrap_or_default().to_owned()
}

/// One installed package.
pub struct Package {
    /// Its name, with its architecture if that is foreign.
    pub name: String,
    /// Epoch, version and release.
    pub version: String,
    arch: String,
    time: Option<i64>,
}

/// Parses a line in [`FORMAT`].
pub fn package(line: &str, own: &str) -> Option<Package> {
    let parts: Vec<&str> = line.split("_|-").collect();
    let [name, epoch, version, release, arch, _, time] = parts.as_slice() else {
        return None;
    };
    let mut full = (*version).to_owned();
    if !release.is_empty() {
        full = format!("{full}-{release}");
    }
    if !["(none)", "0"].contains(epoch) {
        full = format!("{epoch}:{full}");
    }
    Some(Package {
        name: name_with_foreign_arch(name, arch, own),
        version: full,
        arch: (*arch).to_owned(),
        time: time.parse().ok().filter(|t| *t != 0),
    })
}

/// The root directory of another system; only zypper's functions have it.
fn root(call: &Call<'_>) -> Value {
    match call.ctx.grains.str("os_family") {
        Some("Suse") => option(call, "root"),
        _ => Value::Nil,
    }
}

fn query(call: &mut Call<'_>) -> Result<Vec<Package>> {
    let mut argv = vec!["rpm".to_owned()];
    let root = root(call);
    if root.truthy() {
        argv.extend(["--root".to_owned(), python::str(&root)]);
    }
    let format = format!("{FORMAT}\n");
    argv.extend(
        [
            "-qa",
            "--nodigest",
            "--nosignature",
            "--queryformat",
            &format,
        ]
        .map(str::to_owned),
    );
    let own = osarch(call);
    let text = command_helpers::run(call, argv)?;
    let mut all: Vec<Package> = text.lines().filter_map(|l| package(l, &own)).collect();
    // Several versions of one name are ordered as text, without epoch and release.
    all.sort_by(|a, b| {
        if a.name == b.name {
            version_only(&a.version).cmp(version_only(&b.version))
        } else {
            Ordering::Equal
        }
    });
    Ok(all)
}

/// A version without epoch and release.
fn version_only(version: &str) -> &str {
    let rest = version.split_once(':').map_or(version, |(_, rest)| rest);
    rest.split('-').next().unwrap_or_default()
}

/// The installed packages.
pub fn installed(call: &mut Call<'_>) -> Result<Packages> {
    let mut all = Packages::new();
    for package in query(call)? {
        all.entry(package.name).or_default().push(package.version);
    }
    Ok(all)
}

pub fn list_pkgs(call: &mut Call<'_>) -> Result {
    if is_true(&option(call, "removed")) || is_true(&option(call, "purge_desired")) {
        return empty();
    }
    match option(call, "attr") {
        attr if attr.truthy() => packages_by(call, &attr).map(Value::from),
        _ => {
            let as_list = is_true(call.arg("versions_as_list"));
            Ok(value(&installed(call)?, as_list).into())
        }
    }
}

/// The installed packages with their versions, or with the attributes `attr` selects: `all`, a list, or
/// comma-separated text.
///
/// # Errors
/// rpm cannot be started.
pub fn packages_by(call: &mut Call<'_>, attr: &Value) -> Result<Map> {
    if !attr.truthy() {
        return Ok(value(&installed(call)?, false));
    }
    let wanted: Option<Vec<String>> = match attr {
        Value::Array(list) => Some(list.iter().map(python::str).collect()),
        all if all.is_str("all") => None,
        other => Some(
            python::str(other)
                .split(',')
                .map(|w| w.trim().to_owned())
                .collect(),
        ),
    };
    let mut all: IndexMap<String, Vec<Package>> = IndexMap::new();
    for package in query(call)? {
        all.entry(package.name.clone()).or_default().push(package);
    }
    let mut ret = Map::new();
    for (name, packages) in all {
        // A foreign architecture in a name is an attribute as well.
        let bare = name
            .rsplit_once('.')
            .filter(|(_, arch)| {
                packages.iter().any(|p| p.arch == *arch) && (is_arch(arch) || *arch == "noarch")
            })
            .map_or(name.as_str(), |(bare, _)| bare);
        let entries = packages
            .iter()
            .map(|p| attributes(p, wanted.as_deref()).into());
        match ret.get_mut(bare) {
            Some(Value::Array(list)) => list.extend(entries),
            _ => ret.set(bare, entries.collect::<Vec<Value>>()),
        }
    }
    Ok(ret)
}

/// The wanted attributes of a package; all if `None`.
pub fn attributes(package: &Package, wanted: Option<&[String]>) -> Map {
    let (epoch, rest) = match package.version.split_once(':') {
        Some((epoch, rest)) => (Some(epoch), rest),
        None => (None, package.version.as_str()),
    };
    let (version, release) = match rest.split_once('-') {
        Some((version, release)) => (version, Some(release)),
        None => (rest, None),
    };
    let at = package
        .time
        .and_then(|t| jiff::Timestamp::from_second(t).ok());
    let date = at.map(|t| t.strftime("%Y-%m-%dT%H:%M:%S+00:00Z").to_string());
    let mut map = map! {
        "epoch" => epoch, "version" => version, "release" => release, "arch" => package.arch.as_str(),
        "install_date" => date, "install_date_time_t" => package.time,
    };
    if let Some(wanted) = wanted {
        let keep = |k: &Value| {
            k.is_str("version") || k.is_str("arch") || wanted.iter().any(|w| k.is_str(w))
        };
        map.0.retain(|(k, _)| keep(k));
    }
    map
}

pub fn version(call: &mut Call<'_>) -> Result {
    let all = if call.bound.varargs.is_empty() {
        Packages::new()
    } else {
        installed(call)?
    };
    Ok(versions(call, &all))
}

/// Splits a version into epoch, version and release.
fn evr(text: &str) -> (i64, &str, &str) {
    let (epoch, rest) = match text.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, text),
    };
    let (version, release) = rest.split_once('-').unwrap_or((rest, ""));
    (epoch, version, release)
}

/// Compares two versions like rpm.
pub fn compare(one: &str, other: &str, ignore_epoch: bool) -> i64 {
    let cut = |text: &str| match text.split_once(':') {
        Some((_, rest)) if ignore_epoch => rest.to_owned(),
        _ => text.to_owned(),
    };
    let (one, other) = (cut(one), cut(other));
    let (a, b) = (evr(&one), evr(&other));
    let releases = if a.2.is_empty() || b.2.is_empty() {
        Ordering::Equal
    } else {
        segments(a.2, b.2)
    };
    a.0.cmp(&b.0).then(segments(a.1, b.1)).then(releases) as i64
}

/// `rpmvercmp`: compares runs of digits and letters; `~` sorts before everything, `^` after the end.
fn segments(a: &str, b: &str) -> Ordering {
    let skip = |s: &str| {
        s.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '~' && c != '^')
            .to_owned()
    };
    let (mut a, mut b) = (a.to_owned(), b.to_owned());
    if a == b {
        return Ordering::Equal;
    }
    loop {
        (a, b) = (skip(&a), skip(&b));
        match (a.starts_with('~'), b.starts_with('~')) {
            (true, true) => {
                (a, b) = (a[1..].to_owned(), b[1..].to_owned());
                continue;
            }
            (false, true) => return Ordering::Greater,
            (true, false) => return Ordering::Less,
            _ => {}
        }
        match (a.starts_with('^'), b.starts_with('^')) {
            (true, true) => {
                (a, b) = (a[1..].to_owned(), b[1..].to_owned());
                continue;
            }
            (false, false) => {}
            _ if a.is_empty() => return Ordering::Less,
            _ if b.is_empty() => return Ordering::Greater,
            (false, true) => return Ordering::Greater,
            (true, false) => return Ordering::Less,
        }
        let Some(first) = a.chars().next().filter(|_| !b.is_empty()) else {
            break;
        };
        let number = first.is_ascii_digit();
        let run = |s: &str| {
            let fits = |c: char| {
                if number {
                    c.is_ascii_digit()
                } else {
                    c.is_alphabetic()
                }
            };
            s.find(|c| !fits(c)).unwrap_or(s.len())
        };
        let (i, j) = (run(&a), run(&b));
        if j == 0 {
            return if number {
                Ordering::Greater
            } else {
                Ordering::Less
            };
        }
        let (x, y) = (&a[..i], &b[..j]);
        let order = if number {
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then(x.cmp(y))
        } else {
            x.cmp(y)
        };
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (a[i..].to_owned(), b[j..].to_owned());
    }
    match (a.is_empty(), b.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        _ => Ordering::Greater,
    }
}

pub fn version_cmp(call: &mut Call<'_>) -> Result {
    // The argument names differ between dnf's and zypper's functions.
    let [one, other] = [0, 1].map(|at| {
        call.bound
            .named
            .get(at)
            .map(python::str)
            .unwrap_or_default()
    });
    Ok(compare(&one, &other, call.flag("ignore_epoch")).into())
}

/// The argument of functions on names.
///
/// # Errors
/// It is not text.
pub fn name(call: &Call<'_>) -> Result<String> {
    let name = call.arg("name");
    name.as_str().map(str::to_owned).ok_or_else(|| {
        let class = python::type_name(name);
        let text = format!("'{class}' object has no attribute 'rsplit'");
        CallError::raised("AttributeError", text)
    })
}

pub fn parse_arch(call: &mut Call<'_>) -> Result {
    let name = name(call)?;
    let (name, arch) = name_and_arch(&name);
    Ok(map! {"name" => name, "arch" => arch}.into())
}

/// Splits a name from its architecture.
pub fn name_and_arch(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((name, arch)) if is_arch(arch) || arch == "noarch" => (name, Some(arch)),
        _ => (name, None),
    }
}

pub fn file_list(call: &mut Call<'_>) -> Result {
    let names = names(call);
    let mut argv = lowpkg::rpm(&root(call));
    argv.push(if names.is_empty() { "-qla" } else { "-ql" }.to_owned());
    argv.extend(names);
    let text = command_helpers::run(call, argv)?;
    let files: Vec<String> = text.lines().map(str::to_owned).collect();
    Ok(map! {"errors" => Value::Array(Vec::new()), "files" => files}.into())
}

pub fn file_dict(call: &mut Call<'_>) -> Result {
    let names = names(call);
    let mut argv = lowpkg::rpm(&root(call));
    argv.push(if names.is_empty() { "-qa" } else { "-q" }.to_owned());
    argv.extend(["--queryformat", "%{NAME} %{VERSION}\\n"].map(str::to_owned));
    argv.extend(names);
    let text = command_helpers::run(call, argv)?;
    let mut errors: Vec<String> = Vec::new();
    let mut packages = Map::new();
    for line in text.lines() {
        if line.contains("is not installed") {
            errors.push(line.to_owned());
            continue;
        }
        let Some(name) = line.split_whitespace().next() else {
            continue;
        };
        let text = command_helpers::run(call, ["rpm", "-ql", name])?;
        let files: Vec<String> = text.lines().map(str::to_owned).collect();
        packages.set(name, files);
    }
    Ok(map! {"errors" => errors, "packages" => packages}.into())
}

pub fn owner(call: &mut Call<'_>) -> Result {
    let (paths, root) = (names(call), root(call));
    if paths.is_empty() {
        return Ok("".into());
    }
    let mut ret = Map::new();
    for path in paths {
        let package = lowpkg::owner_of(call, &path, &root)?;
        ret.set(path, package);
    }
    match ret.0.as_slice() {
        [(_, only)] => Ok(only.clone()),
        _ => Ok(ret.into()),
    }
}

/// Name and version of a package file.
pub fn query_package_file(call: &mut Call<'_>, path: &str) -> Result<Option<(String, String)>> {
    let own = osarch(call);
    let ran =
        command_helpers::run_all_tolerant(call, ["rpm", "-qp", "--queryformat", FORMAT, path])?;
    Ok(package(&ran.stdout, &own).map(|p| (p.name, p.version)))
}

/// The changes since `old`, or the error with them.
pub fn changed(call: &mut Call<'_>, old: &Packages, what: &str, errors: Vec<String>) -> Result {
    let new = installed(call)?;
    let ret = changes(old, &new);
    if errors.is_empty() {
        return Ok(ret.into());
    }
    Err(with_info(
        what,
        &map! {"errors" => errors, "changes" => ret}.into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_rpm_does() {
        for (one, other, order) in [
            ("1.0", "1.0", 0),
            ("1.0", "1.1", -1),
            ("1.10", "1.9", 1),
            ("1:1.0", "2.0", 1),
            ("1.0-1", "1.0-2", -1),
            ("1.0", "1.0-2", 0),
            ("1.0~rc1", "1.0", -1),
            ("1.0^git", "1.0", 1),
            ("1.0^git", "1.0.1", -1),
            ("1.a", "1.1", -1),
            ("1.1", "1.a", 1),
            ("1.001", "1.1", 0),
            ("2.0.1", "2.0", 1),
            ("1.0.", "1.0", 0),
            ("a", "b", -1),
        ] {
            assert_eq!(compare(one, other, false), order, "{one} {other}");
        }
        assert_eq!(compare("1:1.0", "2.0", true), -1);
    }

    #[test]
    fn packages_are_read() {
        let line = "bash_|-(none)_|-5.2_|-1.el9_|-x86_64_|-(none)_|-1700000000";
        let bash = package(line, "x86_64").unwrap();
        assert_eq!(
            (bash.name.as_str(), bash.version.as_str()),
            ("bash", "5.2-1.el9")
        );
        let all = attributes(&bash, None);
        assert_eq!(all.str("install_date"), Some("2023-11-14T22:13:20+00:00Z"));
        let line = "glibc_|-2_|-2.3_|-1_|-i686_|-(none)_|-0";
        let glibc = package(line, "x86_64").unwrap();
        assert_eq!(
            (glibc.name.as_str(), glibc.version.as_str()),
            ("glibc.i686", "2:2.3-1")
        );
        assert!(package("broken", "x86_64").is_none());
    }
}

//! Which packages a state names, and whether the installed ones are those.

use crate::declare::{Result, State};
use halite_modules::execution::pkg::{Packages, parse_pkgs, split_comparison};
use halite_modules::execution::{CallError, python};
use halite_target::fnmatch;
use halite_wire::{Map, Value, map};

/// A package that a state names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub name: String,
    pub version: Option<String>,
}

impl Wanted {
    /// As it is shown: with its version.
    pub fn shown(&self) -> String {
        match &self.version {
            Some(version) if version.starts_with(['<', '>', '=']) => {
                format!("{}{version}", self.name)
            }
            Some(version) => format!("{}={version}", self.name),
            None => self.name.clone(),
        }
    }

    /// In a list `pkgs`.
    pub fn item(&self) -> Value {
        match &self.version {
            Some(version) => map! {self.name.clone() => version.as_str()}.into(),
            None => self.name.as_str().into(),
        }
    }
}

/// The names of a list, separated by commas.
pub(super) fn names(list: &[Wanted]) -> String {
    let names: Vec<&str> = list.iter().map(|w| w.name.as_str()).collect();
    names.join(", ")
}

/// The names in order of the alphabet.
pub(super) fn sorted(list: &[Wanted]) -> String {
    let mut names: Vec<&str> = list.iter().map(|w| w.name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

/// A name without the host's architecture, unless `normalize` is off.
pub(super) fn normalized(s: &mut State<'_, '_>, name: &str) -> Result<String> {
    if !name.contains(':') {
        return Ok(name.to_owned());
    }
    Ok(python::str(
        &s.salt("pkg.normalize_name", vec![name.into()])?,
    ))
}

/// The packages in `pkgs`, or the one in `name` with its `version`.
pub(super) fn wanted(s: &State<'_, '_>, version: bool) -> Result<Vec<Wanted>> {
    let pkgs = s.arg("pkgs");
    if pkgs.truthy() {
        let list = parse_pkgs(pkgs, &|name| name.to_owned())?;
        let one = |(name, version)| Wanted { name, version };
        return Ok(list.into_iter().map(one).collect());
    }
    let version = version.then(|| s.text("version")).flatten();
    Ok(vec![Wanted {
        name: s.name(),
        version: version.filter(|v| !v.is_empty()),
    }])
}

/// The installed packages with their versions.
pub(super) fn installed(s: &mut State<'_, '_>) -> Result<Packages> {
    let kwargs = map! {"versions_as_list" => true};
    let list = s.salt_with("pkg.list_pkgs", Vec::new(), kwargs)?;
    let Value::Map(list) = list else {
        return Err(CallError::Command(
            "pkg.list_pkgs returned no map".to_owned(),
        ));
    };
    Ok(packages(&list))
}

fn packages(list: &Map) -> Packages {
    let pairs = list.iter();
    pairs
        .map(|(name, versions)| (python::str(name), versions.str_list()))
        .collect()
}

/// The installed versions of a package; none if it is not installed.
pub(super) fn versions<'a>(
    s: &mut State<'_, '_>,
    list: &'a Packages,
    name: &str,
) -> Result<&'a [String]> {
    if let Some(versions) = list.get(name) {
        return Ok(versions);
    }
    let plain = normalized(s, name)?;
    Ok(list.get(&plain).map(Vec::as_slice).unwrap_or_default())
}

/// Whether one of these versions is a wanted one: all comparisons, which are separated by commas, have to hold.
/// `open` makes a version without a comparison the least one.
pub(super) fn fits(
    s: &mut State<'_, '_>,
    versions: &[String],
    wanted: &str,
    open: bool,
) -> Result<bool> {
    'versions: for version in versions {
        for part in wanted.split(',') {
            if !fits_one(s, version, part.trim(), open)? {
                continue 'versions;
            }
        }
        return Ok(true);
    }
    Ok(false)
}

fn fits_one(s: &mut State<'_, '_>, version: &str, wanted: &str, open: bool) -> Result<bool> {
    let (sign, number) = split_comparison(wanted);
    let sign = match sign {
        "" | "=" if open && !number.contains('*') => ">=",
        "" | "=" => "==",
        "<<" => "<",
        ">>" => ">",
        "<>" | "<=>" => "!=",
        sign => sign,
    };
    if sign == "==" && (version == number || number.contains('*') && fnmatch(version, number)) {
        return Ok(true);
    }
    let kwargs = map! {"ignore_epoch" => s.arg("ignore_epoch").truthy()};
    let args = vec![version.into(), number.into()];
    let order = s.salt_with("pkg.version_cmp", args, kwargs)?.as_int();
    Ok(halite_modules::execution::pkg::holds(order, sign))
}

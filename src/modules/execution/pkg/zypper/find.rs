//! Queries for patterns, patches, products and capabilities, and searching.

use super::repos::refresh_with;
use super::root_arg;
use super::run::{ZypperOptions, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::common::{keywords, option, option_is_true};
use crate::execution::pkg::lowpkg;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::xml::Element;
use halite_wire::{Map, Value};
use std::path::Path;

/// Where registration stores releases of other vendors' products.
const OEM: &str = "var/lib/suseRegister/OEM";
/// Keywords of `pkg.search` that count when given, whatever their value.
const OPTIONS: [(&str, &str); 12] = [
    ("provides", "--provides"),
    ("recommends", "--recommends"),
    ("requires", "--requires"),
    ("suggests", "--suggests"),
    ("conflicts", "--conflicts"),
    ("obsoletes", "--obsoletes"),
    ("file_list", "--file-list"),
    ("search_descriptions", "--search-descriptions"),
    ("case_sensitive", "--case-sensitive"),
    ("installed_only", "--installed-only"),
    ("not_installed_only", "-u"),
    ("details", "--details"),
];

/// Records of `zypper info` by name.
pub fn info_records(text: &str) -> Vec<(String, Map)> {
    let mut all = Vec::new();
    for record in text.split("Information for packag") {
        let mut info = Map::new();
        for line in record.lines().filter(|l| !l.starts_with("-----")) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            if !value.trim().is_empty() {
                info.set(key.trim().to_lowercase(), value.trim());
            }
        }
        if let Some(installed) = info.get("installed").map(python::str) {
            info.set("installed", installed.to_lowercase().starts_with("yes"));
        }
        if let Some(name) = info.remove("name") {
            all.push((python::str(&name), info));
        }
    }
    all
}

/// Refreshes if requested; stock passes the root where force is expected.
fn refresh_if(call: &mut Call<'_>) -> Result<()> {
    if call.flag("refresh") {
        let force = call.arg("root").clone();
        let keywords = keywords(call);
        refresh_with(call, force, keywords)?;
    }
    Ok(())
}

pub fn search(call: &mut Call<'_>) -> Result {
    let kwargs = keywords(call);
    let root = root_arg(call);
    if call.flag("refresh") {
        refresh_with(call, root.clone(), kwargs.clone())?;
    }
    let criteria = python::str(call.arg("criteria"));
    Ok(searched(call, &criteria, &root, &kwargs)?.into())
}

/// `pkg.search` with its keywords.
///
/// # Errors
/// Nothing was found.
pub fn searched(call: &mut Call<'_>, criteria: &str, root: &Value, kwargs: &Map) -> Result<Map> {
    let mut args = to_args(&["search"]);
    let how = match kwargs.str("match") {
        Some("exact") => Some("--match-exact"),
        Some("words") => Some("--match-words"),
        Some("substrings") => Some("--match-substrings"),
        _ => None,
    };
    args.extend(how.map(str::to_owned));
    for (key, _) in kwargs.iter() {
        let known = OPTIONS.iter().find(|(name, _)| key.is_str(name));
        args.extend(known.map(|(_, option)| (*option).to_owned()));
    }
    args.push(criteria.to_owned());
    let how = ZypperOptions {
        forgive: true,
        ..ZypperOptions::query(root)
    };
    let found = how.xml(call, &args)?;
    let mut ret = Map::new();
    for solvable in found.all("solvable") {
        let attributes: Map = solvable
            .attributes
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        ret.set(solvable.attribute("name"), attributes);
    }
    if ret.is_empty() {
        Err(CallError::Command(format!(
            "No packages found matching '{criteria}'"
        )))
    } else {
        Ok(ret)
    }
}

/// Solvables of a type found by zypper, each with whether it is installed.
fn solvables(call: &mut Call<'_>, kind: &str, root: &Value) -> Result<Vec<(String, bool, String)>> {
    let found = ZypperOptions::query(root).xml(call, &to_args(&["se", "-t", kind]))?;
    let one = |element: &Element| {
        (
            element.attribute("name").to_owned(),
            element.attribute("status") == "installed",
            element.attribute("summary").to_owned(),
        )
    };
    Ok(found.all("solvable").into_iter().map(one).collect())
}

fn entries(list: Vec<(String, bool, String)>) -> Map {
    let mut ret = Map::new();
    for (name, installed, summary) in list {
        ret.set(name, map! {"installed" => installed, "summary" => summary});
    }
    ret
}

pub fn list_patterns(call: &mut Call<'_>) -> Result {
    refresh_if(call)?;
    let root = call.arg("root").clone();
    Ok(entries(solvables(call, "pattern", &root)?).into())
}

pub fn list_installed_patterns(call: &mut Call<'_>) -> Result {
    let root = call.arg("root").clone();
    Ok(installed_patterns(call, &root)?.into())
}

/// The installed patterns, including hidden ones.
///
/// # Errors
/// zypper failed.
pub fn installed_patterns(call: &mut Call<'_>, root: &Value) -> Result<Map> {
    let mut argv = lowpkg::rpm(root);
    argv.extend(["-q", "--provides", "--whatprovides", "pattern()"].map(str::to_owned));
    let text = command_helpers::run_tolerant(call, argv)?;
    let mut ret = entries(solvables(call, "pattern", root)?);
    ret.0.retain(|(_, v)| {
        v.as_map()
            .and_then(|m| m.get("installed"))
            .is_some_and(Value::truthy)
    });
    for line in text.lines().filter(|l| l.starts_with("pattern() = ")) {
        let name = line.rsplit('=').next().unwrap_or_default().trim();
        if !name.starts_with('.') && ret.get(name).is_none() {
            let hidden = map! {"installed" => true, "summary" => "Non-visible pattern"};
            ret.set(name, hidden);
        }
    }
    Ok(ret)
}

pub fn list_patches(call: &mut Call<'_>) -> Result {
    refresh_if(call)?;
    let root = call.arg("root").clone();
    Ok(patches(call, &root, false)?.into())
}

pub fn list_installed_patches(call: &mut Call<'_>) -> Result {
    let root = call.arg("root").clone();
    Ok(patches(call, &root, true)?.into())
}

/// All patches, or only the installed ones.
///
/// # Errors
/// zypper failed.
pub fn patches(call: &mut Call<'_>, root: &Value, only_installed: bool) -> Result<Map> {
    let mut list = solvables(call, "patch", root)?;
    list.retain(|(_, installed, _)| *installed || !only_installed);
    Ok(entries(list))
}

pub fn list_products(call: &mut Call<'_>) -> Result {
    refresh_if(call)?;
    let (all, root) = (call.flag("all"), call.arg("root").clone());
    let list = products(call, all, &root)?;
    Ok(list.into_iter().map(Value::from).collect::<Vec<_>>().into())
}

/// The installed products, or all in the repositories.
///
/// # Errors
/// zypper failed.
pub fn products(call: &mut Call<'_>, all: bool, root: &Value) -> Result<Vec<Map>> {
    let args = if all {
        to_args(&["products"])
    } else {
        to_args(&["--disable-repositories", "products", "-i"])
    };
    let found = ZypperOptions::query(root).xml(call, &args)?;
    let base = if root.truthy() {
        python::str(root)
    } else {
        "/".to_owned()
    };
    let list = found.all("product-list").into_iter().next();
    let list = list.map(|l| l.all("product")).unwrap_or_default();
    Ok(list
        .into_iter()
        .map(|p| product(p, Path::new(&base)))
        .collect())
}

fn product(element: &Element, root: &Path) -> Map {
    let mut info = Map::new();
    for (key, value) in &element.attributes {
        match key.as_str() {
            "isbase" | "installed" => info.set(key.clone(), value == "true" || value == "1"),
            _ if !value.is_empty() => info.set(key.clone(), value.clone()),
            _ => {}
        }
    }
    if let Some(end) = element.all("endoflife").first() {
        info.set("eol", end.attribute("text"));
        info.set("eol_t", end.attribute("time_t").parse().unwrap_or(0i64));
    }
    let text = element
        .all("description")
        .first()
        .and_then(|d| d.text.clone());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.split('\n').map(str::trim).collect();
    info.set("description", lines.join(" "));
    if let Some(line) = info.str("productline") {
        // Only a file name in this directory, no path.
        let file = root.join(OEM).join(line);
        let plain = !line.contains('/') && file.is_file();
        let text = plain.then(|| std::fs::read_to_string(&file).ok()).flatten();
        let release = text
            .as_deref()
            .and_then(|t| t.lines().next())
            .map(str::trim);
        if let Some(release) = release.filter(|r| !r.is_empty()) {
            let release = release.to_owned();
            info.set("release", release);
        }
    }
    info
}

pub fn resolve_capabilities(call: &mut Call<'_>) -> Result {
    refresh_if(call)?;
    let root = call.arg("root").clone();
    let resolve = option_is_true(call, "resolve_capabilities");
    let pkgs: Vec<Value> = match call.arg("pkgs") {
        Value::Array(list) => list.clone(),
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        Value::Map(map) => map.iter().map(|(k, _)| k.clone()).collect(),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!("'{class}' object is not iterable")));
        }
    };
    let mut ret = Vec::new();
    for pkg in pkgs {
        let (mut name, version) = match &pkg {
            Value::Map(map) => match map.0.first() {
                Some((name, version)) => (name.clone(), version.clone()),
                None => return Err(CallError::raised("StopIteration", "")),
            },
            other => (other.clone(), Value::Nil),
        };
        if resolve && let Some(found) = provider(call, &python::str(&name), &root)? {
            name = found.into();
        }
        ret.push(if version.truthy() {
            Value::Map([(name, version)].into_iter().collect())
        } else {
            name
        });
    }
    Ok(ret.into())
}

/// The only package that provides a capability, unless a package has that name.
fn provider(call: &mut Call<'_>, name: &str, root: &Value) -> Result<Option<String>> {
    let exact = map! {"root" => root.clone(), "match" => "exact"};
    match searched(call, name, root, &exact) {
        Ok(_) => return Ok(None),
        Err(CallError::Command(_)) => {}
        Err(other) => return Err(other),
    }
    let provides = map! {"root" => root.clone(), "provides" => true, "match" => "exact"};
    match searched(call, name, root, &provides) {
        Ok(found) => match found.0.as_slice() {
            [(only, _)] => Ok(Some(python::str(only))),
            _ => {
                log::warn!("Found ambiguous match for capability '{name}'.");
                Ok(None)
            }
        },
        Err(CallError::Command(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

pub fn services_need_restart(call: &mut Call<'_>) -> Result {
    let root = option(call, "root");
    let text = ZypperOptions::query(&root).text(call, &to_args(&["ps", "-sss"]))?;
    let services: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Ok(services.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::xml;

    /// Output of zypper 1.14.
    #[test]
    fn outputs_are_read() {
        let text = "Loading repository data...\nReading installed packages...\n\n\n\
                    Information for package hz-alpha:\n---------------------------------\n\
                    Repository     : r2\nName           : hz-alpha\nVersion        : 2.0-1\n\
                    Installed      : Yes\nStatus         : out-of-date (version 1.0-1 installed)\n\
                    Description    : \n    The package hz-alpha,\n    in two lines: this is one.\n\n\n\
                    Information for package hz-beta:\n--------------------------------\n\
                    Name           : hz-beta\nVersion        : 1:1.0-2\nInstalled      : No";
        let found = info_records(text);
        let alpha = map! {
            "repository" => "r2", "version" => "2.0-1", "installed" => true,
            "status" => "out-of-date (version 1.0-1 installed)", "in two lines" => "this is one.",
        };
        let beta = map! {"version" => "1:1.0-2", "installed" => false};
        assert_eq!(
            found,
            [("hz-alpha".to_owned(), alpha), ("hz-beta".to_owned(), beta)]
        );
        let text = "<?xml version='1.0'?>\n<stream>\n<product-list>\n<product name=\"HZ\" epoch=\"0\" flavor=\"\" \
                    productline=\"../line\" isbase=\"true\" installed=\"0\"><endoflife time_t=\"1943222400\" \
                    text=\"2031-07-31T00:00:00Z\"/><registerflavor/><description>A product of tests,\n  \
                    in two lines &amp; more.</description></product>\n</product-list>\n</stream>";
        let document = xml::parse(text).unwrap();
        assert_eq!(
            product(document.all("product")[0], Path::new("/nosuch")),
            map! {
                "name" => "HZ", "epoch" => "0", "productline" => "../line", "isbase" => true, "installed" => false,
                "eol" => "2031-07-31T00:00:00Z", "eol_t" => 1_943_222_400,
                "description" => "A product of tests, in two lines & more.",
            }
        );
    }
}

//! File attributes through `lsattr` and `chattr`.

use super::super::declare::Result;
use super::super::{Call, cmd, python, shell};
use super::os;
use super::paths;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;

/// Attributes to add and remove.
#[derive(Clone, Debug, Default)]
pub struct AttrChange {
    /// Letters to add.
    pub added: String,
    /// Letters to remove.
    pub removed: String,
}

impl AttrChange {
    /// Whether there is any change.
    pub fn any(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty())
    }
}

/// The attribute letters reported by `lsattr`, by file name; `None` without the program.
///
/// # Errors
/// There is no such path.
pub fn read(call: &mut Call<'_>, path: &str) -> Result<Option<BTreeMap<String, String>>> {
    if cmd::which("lsattr").is_none() {
        return Ok(None);
    }
    if !paths::exists(path) {
        return os::invocation(format!("File or directory does not exist: {path}"));
    }
    let known = if has_extended(call)? {
        "aAcCdDeijPsStTu"
    } else {
        "acdijstuADST"
    };
    let shown = shell::run_tolerant(call, &["lsattr", path])?;
    let mut found = BTreeMap::new();
    for line in shown.lines().filter(|l| !l.starts_with("lsattr: ")) {
        let line = line.trim_start();
        let Some((letters, file)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let letters = letters.chars().filter(|c| known.contains(*c)).collect();
        found.insert(file.trim_start().to_owned(), letters);
    }
    Ok(Some(found))
}

/// Whether e2fsprogs is newer than 1.41.12, which has fewer letters.
fn has_extended(call: &mut Call<'_>) -> Result<bool> {
    let Some(program) = cmd::which("tune2fs") else {
        return Ok(false);
    };
    let shown = shell::run_tolerant(call, &[&program])?;
    let version: Vec<u32> = shown
        .split("tune2fs ")
        .skip(1)
        .filter_map(|rest| {
            rest.split(|c: char| !(c.is_ascii_digit() || c == '.'))
                .next()
        })
        .find(|version| !version.is_empty())
        .unwrap_or_default()
        .split('.')
        .filter_map(|n| n.parse().ok())
        .collect();
    Ok(version > vec![1, 41, 12])
}

/// The changes from a file's attributes to the wanted ones; `None` without the program.
///
/// # Errors
/// As [`read`].
pub fn compare(call: &mut Call<'_>, path: &str, wanted: &str) -> Result<Option<AttrChange>> {
    let Some(found) = read(call, path)? else {
        return Ok(None);
    };
    let old = found.get(path).cloned().unwrap_or_default();
    let mut new = wanted.to_owned();
    if old.contains('e') && !new.contains('e') {
        new.push('e');
    }
    let without = |a: &str, b: &str| {
        let mut letters: Vec<char> = a.chars().filter(|c| !b.contains(*c)).collect();
        letters.sort_unstable();
        letters.dedup();
        letters.into_iter().collect()
    };
    Ok(Some(AttrChange {
        added: without(&new, &old),
        removed: without(&old, &new),
    }))
}

/// Runs `chattr`; true if it printed nothing.
///
/// # Errors
/// The program cannot be run.
pub fn change(
    call: &mut Call<'_>,
    sign: char,
    letters: &str,
    files: &[String],
    more: &[String],
) -> Result<bool> {
    let mut argv = vec!["chattr".to_owned(), format!("{sign}{letters}")];
    argv.extend(more.iter().cloned());
    argv.extend(files.iter().cloned());
    Ok(shell::run(call, &argv)?.is_empty())
}

pub fn lsattr_function(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let Some(found) = read(call, &path)? else {
        return Ok(Value::Nil);
    };
    let listed = found.into_iter().map(|(file, letters)| {
        let list = letters
            .chars()
            .map(|c| Value::from(c.to_string()))
            .collect();
        (file, Value::Array(list))
    });
    Ok(listed.collect::<Map>().into())
}

pub fn chattr_function(call: &mut Call<'_>) -> Result {
    let given = |name: &str| call.bound.kwargs.get(name).filter(|v| !v.is_nil());
    let sign = match given("operator").map(python::str).as_deref() {
        Some("add") => '+',
        Some("remove") => '-',
        _ => {
            return os::invocation("Need an operator: 'add' or 'remove' to modify attributes.");
        }
    };
    let Some(letters) = given("attributes").map(python::str) else {
        return os::invocation("Need attributes: [aAcCdDeijPsStTu]");
    };
    let mut more = Vec::new();
    if let Some(flags) = given("flags") {
        more.push(format!("-{}", python::str(flags)));
    }
    if let Some(version) = given("version") {
        more.extend(["-v".to_owned(), python::str(version)]);
    }
    let files: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    Ok(change(call, sign, &letters, &files, &more)?.into())
}

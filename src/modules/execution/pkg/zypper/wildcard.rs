//! Versions with wildcards: the newest matching one in the repositories (`zypperpkg.py Wildcard`).

use super::run::{ZypperOptions, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::loose_version;
use crate::execution::{Call, CallError, python};
use halite_target::fnmatch;
use halite_wire::Value;

/// zypper's comparison operators.
const OPERATORS: [&str; 5] = ["<", "<=", "=", ">=", ">"];

/// Splits a version into comparison and version.
fn split(requested: &str) -> Result<(String, String)> {
    let exact: String = requested.chars().filter(|c| !"<>=+".contains(*c)).collect();
    let sign = requested.replace(&exact, "");
    // Python replaces an empty string by an empty string.
    let sign = if exact.is_empty() {
        requested.to_owned()
    } else {
        sign
    };
    if sign.is_empty() || OPERATORS.contains(&sign.as_str()) {
        Ok((sign, exact))
    } else {
        Err(CallError::Command(format!(
            "Zypper do not supports operator \"{sign}\"."
        )))
    }
}

/// The version that matches, with its comparison; `None` if there is none.
///
/// # Errors
/// The package does not exist, or the version is invalid.
pub fn version(
    call: &mut Call<'_>,
    name: &Value,
    requested: &Value,
    root: &Value,
) -> Result<Option<String>> {
    if !requested.truthy() {
        return Ok(None);
    }
    let Value::Str(requested) = requested else {
        return Err(CallError::Type(format!(
            "expected string or bytes-like object, got '{}'",
            python::type_name(requested)
        )));
    };
    let (sign, wanted) = split(requested)?;
    let Value::Str(name) = name else {
        // Position of the error in stock's arguments for zypper.
        let place = if root.truthy() { 8 } else { 6 };
        return Err(CallError::Type(format!(
            "sequence item {place}: expected str instance, {} found",
            python::type_name(name)
        )));
    };
    let found = ZypperOptions::query(root).xml(call, &to_args(&["se", "-xv", name]))?;
    let solvables = found.all("solvable");
    if solvables.is_empty() {
        return Err(CallError::Command(format!(
            "No packages found matching '{name}'"
        )));
    }
    let versions = solvables.iter().map(|s| s.attribute("edition"));
    let mut versions: Vec<&str> = versions
        .filter(|v| !v.is_empty() && fnmatch(v, &wanted))
        .collect();
    versions.sort_unstable();
    versions.sort_by(|a, b| loose_version::compare(a, b));
    Ok(versions.last().map(|v| format!("{sign}{v}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_wildcards() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(split("1.*"), pair("", "1.*"));
        assert_eq!(split(">=1.0"), pair(">=", "1.0"));
        assert!(split("==1").is_err() && split("1+git").is_err() && split("<>").is_err());
    }
}

//! `disk`: watches the space of file systems; changes nothing.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, map};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "disk",
    functions: &[StateFunction::new(
        "status",
        status,
        "Ensures that the used (or free) space is within limits.",
    )
    .args(args![
        maximum = None,
        minimum = None,
        absolute = False,
        free = False
    ])],
};

/// A limit: percent, or kibibytes with an optional unit.
fn limit(s: &State<'_, '_>, name: &str) -> std::result::Result<Option<u64>, String> {
    let Some(text) = s.text(name) else {
        return Ok(None);
    };
    let bad = || format!("{name} must be an integer ");
    if s.flag("absolute") {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| bad())?;
        let factor = match text[digits..].trim().to_uppercase().as_str() {
            "" | "K" | "KB" => 1,
            "M" | "MB" => 1 << 10,
            "G" | "GB" => 1 << 20,
            "T" | "TB" => 1 << 30,
            "P" | "PB" => 1 << 40,
            _ => return Err(bad()),
        };
        return number.checked_mul(factor).map(Some).ok_or_else(bad);
    }
    let number: u64 = text.trim_end_matches('%').parse().map_err(|_| bad())?;
    if number > 100 {
        return Err(format!("{name} must be in the range [0, 100] "));
    }
    Ok(Some(number))
}

fn status(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let failed = |why: String| Ok(StateOutcome::bad(why).with("data", Map::new()));
    let (most, least) = match (limit(s, "maximum"), limit(s, "minimum")) {
        (Ok(most), Ok(least)) => (most, least),
        (Err(why), _) | (_, Err(why)) => return failed(why),
    };
    if let (Some(most), Some(least)) = (most, least)
        && least >= most
    {
        return failed("minimum must be less than maximum ".to_owned());
    }
    let all = s.salt("disk.usage", Vec::new())?;
    let (absolute, free) = (s.flag("absolute"), s.flag("free"));
    let (data, value) = match all.as_map().and_then(|all| all.get(&name)?.as_map()) {
        Some(disk) => {
            let text = |key: &str| disk.get(key).map(python::str).unwrap_or_default();
            let number = |text: String| text.trim_end_matches('%').parse::<u64>().unwrap_or(0);
            let used = number(text("capacity"));
            let value = match (absolute, free) {
                (true, true) => number(text("available")),
                (true, false) => number(text("used")),
                (false, true) => 100_u64.saturating_sub(used),
                (false, false) => used,
            };
            (disk.clone(), value)
        }
        None if Path::new(&name).is_dir() => directory(&name, absolute, free)?,
        None => {
            return failed(format!(
                "Disk mount {name} not present. Directory {name} does not exist or is not a directory"
            ));
        }
    };
    let what = if free { "available" } else { "used" };
    let unit = if absolute { "KB" } else { "%" };
    let outcome = if let Some(least) = least.filter(|least| value < *least) {
        StateOutcome::bad(format!(
            "Disk {what} space is below minimum of {least} {unit} at {value} {unit}"
        ))
    } else if let Some(most) = most.filter(|most| value > *most) {
        StateOutcome::bad(format!(
            "Disk {what} space is above maximum of {most} {unit} at {value} {unit}"
        ))
    } else {
        StateOutcome::good(format!("Disk {what} space in acceptable range"))
    };
    Ok(outcome.with("data", data))
}

/// The space of the file system that a directory is on.
fn directory(path: &str, absolute: bool, free: bool) -> Result<(Map, u64)> {
    let stat = nix::sys::statvfs::statvfs(path)
        .map_err(|e| python::os_error(&std::io::Error::from(e), path))?;
    let unit = stat.fragment_size();
    let (total, available) = (stat.blocks() * unit, stat.blocks_available() * unit);
    let used = total.saturating_sub(available);
    let value = match (absolute, free) {
        (true, true) => available / 1024,
        (true, false) => used / 1024,
        (false, _) if total == 0 => 0,
        (false, true) => available * 100 / total,
        (false, false) => used * 100 / total,
    };
    let data = map! {"available" => available, "total" => total};
    Ok((map! {path => data}, value))
}

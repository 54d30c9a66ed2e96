//! Entries of the table of file systems.

use super::{Result, State, StateOutcome, map, python};
use halite_wire::{Map, Value};

/// The declared device as `mount_by` names it; `None` if it has no such name.
fn device(s: &mut State<'_, '_>) -> Result<Option<String>> {
    let name = s.name();
    let by = s.text("mount_by").unwrap_or_default();
    let tag = by.to_uppercase();
    if by.is_empty() || by == "device" || name.starts_with(&format!("{tag}=")) {
        return Ok(Some(name));
    }
    let found = match s.salt("disk.blkid", [Value::from(name.as_str())]) {
        Ok(found) => found,
        Err(e) => {
            log::debug!("{name}: {}", e.message());
            return Ok(None);
        }
    };
    let found = found.as_map().and_then(|all| all.get(&name)?.as_map());
    let value = found.and_then(|tags| tags.get(&tag)).map(python::str);
    Ok(value.map(|value| format!("{tag}={value}")))
}

pub fn present(s: &mut State<'_, '_>) -> Result {
    let place = s.text("fs_file").unwrap_or_default();
    let config = s.text("config").unwrap_or_default();
    let Some(device) = device(s)? else {
        return Ok(StateOutcome::bad(format!(
            "Device {} cannot be converted to {}",
            s.name(),
            s.text("mount_by").unwrap_or_default()
        )));
    };
    let mut given = s.pick(&["config", "match_on", "not_change"]);
    given.set("name", place.as_str());
    given.set("device", device.as_str());
    for (to, from) in [
        ("fstype", "fs_vfstype"),
        ("opts", "fs_mntops"),
        ("dump", "fs_freq"),
        ("pass_num", "fs_passno"),
    ] {
        given.set(to, s.arg(from).clone());
    }
    given.set("test", s.test);
    let answer = s.salt_with("mount.set_fstab", Vec::new(), given)?;
    let (answer, mount) = (python::str(&answer), s.flag("mount"));
    Ok(match (s.test, answer.as_str()) {
        (true, "present") => StateOutcome::good(format!("{place} entry is already in {config}.")),
        (true, "new") => {
            let mut text = format!("{place} entry will be written in {config}.");
            if mount {
                text.push_str(&format!("\nWill mount {device} on {place}"));
            }
            StateOutcome::would(text)
        }
        (true, _) => StateOutcome::would(format!("{place} entry will be updated in {config}.")),
        (_, "present") => StateOutcome::good(format!("{place} entry was already in {config}.")),
        (_, "new") => {
            let mut outcome = StateOutcome::good(format!("{place} entry added in {config}."))
                .changes(map! {"persist" => "new"});
            if mount {
                let out = s.salt("mount.mount", [Value::from(place.as_str())])?;
                if let Value::Str(error) = &out {
                    outcome.result = Some(false);
                    let error = error
                        .split_once(':')
                        .map_or(error.as_str(), |(_, rest)| rest);
                    outcome
                        .comment
                        .push_str(&format!("\nError while mounting {error}"));
                } else {
                    outcome
                        .comment
                        .push_str(&format!("\nMounted {device} on {place}"));
                }
            }
            outcome
        }
        (_, "change") => StateOutcome::good(format!("{place} entry updated in {config}."))
            .changes(map! {"persist" => "change"}),
        _ => StateOutcome::bad(format!(
            "{place} entry cannot be created in {config}: {answer}."
        )),
    })
}

pub fn absent(s: &mut State<'_, '_>) -> Result {
    let place = s.text("fs_file").unwrap_or_default();
    let config = s.text("config").unwrap_or_default();
    let device = device(s)?;
    let table = s.salt("mount.fstab", [Value::from(config.as_str())])?;
    let known = table.as_map().is_some_and(|t: &Map| t.contains(&place));
    if !known {
        let comment = format!("{place} entry is already missing in {config}.");
        return Ok(match s.test {
            true => StateOutcome::would(comment),
            false => StateOutcome::good(comment),
        });
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{place} entry will be removed from {config}."
        )));
    }
    let args = [
        Value::from(place.as_str()),
        device.unwrap_or_else(|| s.name()).into(),
        config.as_str().into(),
    ];
    let out = s.salt("mount.rm_fstab", args)?;
    Ok(if out == Value::Bool(true) {
        StateOutcome::good(format!("{place} entry removed from {config}."))
            .changes(map! {"persist" => "removed"})
    } else {
        StateOutcome::bad(format!("{place} entry failed when removing from {config}."))
    })
}

//! `lvm`: physical volumes, volume groups and logical volumes.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "lvm",
    functions: &[
        StateFunction::new(
            "lv_absent",
            lv_absent,
            "Ensures that a logical volume does not exist.",
        )
        .args(args![vgname = None]),
        StateFunction::new(
            "lv_present",
            lv_present,
            "Ensures that a logical volume exists and has a size.",
        )
        .args(args![
            vgname = None,
            size = None,
            extents = None,
            snapshot = None,
            pv = "",
            thinvolume = False,
            thinpool = False,
            force = False,
            resizefs = False
        ])
        .keywords(),
        StateFunction::new(
            "pv_absent",
            |s| absent(s, "pv"),
            "Ensures that a device is no physical volume.",
        ),
        StateFunction::new(
            "pv_present",
            pv_present,
            "Ensures that a device is a physical volume.",
        )
        .keywords(),
        StateFunction::new(
            "vg_absent",
            |s| absent(s, "vg"),
            "Ensures that a volume group does not exist.",
        ),
        StateFunction::new(
            "vg_present",
            vg_present,
            "Ensures that a volume group exists and has these devices.",
        )
        .args(args![devices = None])
        .keywords(),
    ],
};

/// Whether a program shows a volume or a group.
fn is_there(s: &mut State<'_, '_>, kind: &str, name: &str, quiet: bool) -> Result<bool> {
    let kwargs = if quiet {
        map! {"quiet" => true}
    } else {
        Map::new()
    };
    Ok(
        s.salt_with(&format!("lvm.{kind}display"), [name.into()], kwargs)?
            .truthy(),
    )
}

fn done(word: &str, text: String, changes: Value) -> StateOutcome {
    StateOutcome::good(text).changes(map! {word => changes})
}

fn pv_present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if is_there(s, "pv", &name, true)? {
        return Ok(StateOutcome::good(format!(
            "Physical Volume {name} already present"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Physical Volume {name} is set to be created"
        )));
    }
    let kwargs = s.kwargs.clone();
    let changes = s.salt_with("lvm.pvcreate", [name.as_str().into()], kwargs)?;
    if is_there(s, "pv", &name, false)? {
        return Ok(done(
            "created",
            format!("Created Physical Volume {name}"),
            changes,
        ));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create Physical Volume {name}"
    )))
}

/// Removes a physical volume or a volume group.
fn absent(s: &mut State<'_, '_>, kind: &str) -> Result {
    let name = s.name();
    let (what, gone) = match kind {
        "pv" => ("Physical Volume", "does not exist"),
        _ => ("Volume Group", "already absent"),
    };
    if !is_there(s, kind, &name, true)? {
        return Ok(StateOutcome::good(format!("{what} {name} {gone}")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{what} {name} is set to be removed"
        )));
    }
    let changes = s.salt(&format!("lvm.{kind}remove"), [name.as_str().into()])?;
    if is_there(s, kind, &name, true)? {
        return Ok(StateOutcome::bad(format!("Failed to remove {what} {name}")));
    }
    Ok(done("removed", format!("Removed {what} {name}"), changes))
}

fn vg_present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let devices = match s.arg("devices") {
        Value::Str(text) => text.split(',').map(Value::from).collect::<Vec<_>>().into(),
        other => other.clone(),
    };
    if is_there(s, "vg", &name, true)? {
        return extended(s, &devices);
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Volume Group {name} is set to be created"
        )));
    }
    let kwargs = s.kwargs.clone();
    let changes = s.salt_with("lvm.vgcreate", [name.as_str().into(), devices], kwargs)?;
    if is_there(s, "vg", &name, false)? {
        return Ok(done(
            "created",
            format!("Created Volume Group {name}"),
            changes,
        ));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create Volume Group {name}"
    )))
}

fn real_path(path: &str) -> String {
    let real = std::fs::canonicalize(path);
    real.map_or_else(
        |_| path.to_owned(),
        |real| real.to_string_lossy().into_owned(),
    )
}

/// The volume group of a physical volume, by its path without links.
fn group_of(s: &mut State<'_, '_>, device: &str) -> Result<Option<String>> {
    let all = s.salt_with("lvm.pvdisplay", [device.into()], map! {"real" => true})?;
    let own = all
        .as_map()
        .and_then(|all| all.get(device))
        .and_then(Value::as_map);
    Ok(own.map(|own| own.str("Volume Group Name").unwrap_or_default().to_owned()))
}

/// Adds devices to a group that is there.
fn extended(s: &mut State<'_, '_>, devices: &Value) -> Result {
    let name = s.name();
    let mut lines = vec![format!("Volume Group {name} already present")];
    let mut changes = Map::new();
    let mut good = true;
    let Some(devices) = devices.as_array() else {
        let text = format!("'{}' object is not iterable", python::type_name(devices));
        return Err(CallError::raised("TypeError", text));
    };
    for device in devices.iter().map(python::str) {
        let real = real_path(&device);
        match group_of(s, &real)? {
            Some(group) if group == name => lines.push(format!("{device} is part of Volume Group")),
            Some(group) if group.is_empty() || group == "#orphans_lvm2" => {
                // Stock does so even in test mode.
                if s.test {
                    changes.set(device.as_str(), format!("added to {name}"));
                    continue;
                }
                s.salt(
                    "lvm.vgextend",
                    [name.as_str().into(), device.as_str().into()],
                )?;
                if group_of(s, &real)?.as_deref() == Some(&name) {
                    changes.set(device.as_str(), format!("added to {name}"));
                } else {
                    lines.push(format!("{device} could not be added"));
                    good = false;
                }
            }
            Some(group) => {
                lines.push(format!("{device} is part of {group}"));
                good = false;
            }
            None => {
                lines.push(format!("pv {device} is not present"));
                good = false;
            }
        }
    }
    let result = match s.test && good && !changes.is_empty() {
        true => None,
        false => Some(good),
    };
    Ok(StateOutcome::new(result, lines.join("\n")).changes(changes))
}

/// A size in MiB.
fn mebibytes(size: &str) -> Result<f64> {
    let lower = size.to_lowercase();
    let invalid = |text: String| CallError::raised("salt.exceptions.ArgumentValueError", text);
    let mut chars = lower.chars();
    let unit = match chars.next_back() {
        Some(c) if c.is_ascii_digit() => {
            chars = lower.chars();
            'm'
        }
        Some('b') => chars.next_back().unwrap_or(' '),
        Some(c) => c,
        None => ' ',
    };
    let number = chars.as_str();
    if !number.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(invalid(format!("Size {size} is invalid.")));
    }
    let parsed: u64 = number.trim().parse().map_err(|_| {
        let text = format!("invalid literal for int() with base 10: '{number}'");
        CallError::raised("ValueError", text)
    })?;
    #[expect(clippy::cast_precision_loss, reason = "sizes are compared only")]
    let count = parsed as f64;
    match unit {
        's' => Ok(count / 2048.0),
        'm' => Ok(count),
        'g' => Ok(count * 1024.0),
        't' => Ok(count * 1024.0 * 1024.0),
        'p' => Ok(count * 1024.0 * 1024.0 * 1024.0),
        other => Err(invalid(format!("Unit {other} is invalid."))),
    }
}

fn volume(s: &mut State<'_, '_>, path: &str) -> Result<Option<Map>> {
    let all = s.salt_with("lvm.lvdisplay", [path.into()], map! {"quiet" => true})?;
    let own = all.into_map().and_then(|mut all| all.remove(path));
    Ok(own.and_then(Value::into_map))
}

fn lv_present(s: &mut State<'_, '_>) -> Result {
    if s.flag("extents") && s.flag("size") {
        return Ok(StateOutcome::bad(
            "Only one of extents or size can be specified.",
        ));
    }
    let size = match s
        .text("size")
        .filter(|size| !size.is_empty() && s.flag("size"))
    {
        Some(size) => Some(mebibytes(&size)?),
        None => None,
    };
    // The snapshot is the volume to make, the declared one its origin.
    let (name, origin) = match s.text("snapshot").filter(|_| s.flag("snapshot")) {
        Some(snapshot) => (snapshot, Value::from(s.name())),
        None => (s.name(), Value::Nil),
    };
    let group = python::str(s.arg("vgname"));
    let path = if s.flag("thinvolume") {
        if s.arg("vgname").is_nil() {
            let text = "'NoneType' object has no attribute 'split'";
            return Err(CallError::raised("AttributeError", text));
        }
        format!(
            "/dev/{}/{name}",
            group.split('/').next().unwrap_or_default()
        )
    } else {
        format!("/dev/{group}/{name}")
    };
    if let Some(now) = volume(s, &path)? {
        return resized(s, &name, &path, &now, size);
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Logical Volume {name} is set to be created"
        )));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.0.extend(
        s.pick(&["size", "extents", "pv", "thinvolume", "thinpool", "force"])
            .0,
    );
    kwargs.set("snapshot", origin);
    let args = [name.as_str().into(), s.arg("vgname").clone()];
    let changes = s.salt_with("lvm.lvcreate", args, kwargs)?;
    if is_there(s, "lv", &path, false)? {
        return Ok(done(
            "created",
            format!("Created Logical Volume {name}"),
            changes,
        ));
    }
    let Some(map) = changes.as_map() else {
        let text = "string indices must be integers, not 'str'";
        return Err(CallError::raised("TypeError", text));
    };
    Ok(StateOutcome::bad(format!(
        "Failed to create Logical Volume {name}. Error: {}",
        map.str("Output from lvcreate").unwrap_or_default()
    )))
}

/// The size of a volume, which is shown in sectors.
fn size_of(volume: &Map) -> Result<f64> {
    mebibytes(&format!(
        "{}s",
        volume.str("Logical Volume Size").unwrap_or_default()
    ))
}

/// Gives a volume that is there its size.
fn resized(s: &mut State<'_, '_>, name: &str, path: &str, now: &Map, size: Option<f64>) -> Result {
    let mut comment = format!("Logical Volume {name} already present");
    if size.is_none() && !s.flag("extents") {
        return Ok(StateOutcome::good(comment));
    }
    let old_extents: i64 = now
        .str("Current Logical Extents Associated")
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let old_size = size_of(now)?;
    let mut extents = Value::from(old_extents);
    if size.is_none() {
        let wanted = python::str(s.arg("extents"));
        if wanted.contains('%') {
            comment = format!("Logical Volume {name} already present, {wanted} won't be resized.");
        } else {
            extents = s.arg("extents").clone();
        }
    }
    let new_size = size.unwrap_or(old_size);
    if s.arg("force") == &Value::Bool(false) {
        let less = match &extents {
            _ if new_size < old_size => true,
            Value::Int(extents) => *extents < old_extents,
            other => {
                let text = format!(
                    "'<' not supported between instances of '{}' and 'int'",
                    python::type_name(other)
                );
                return Err(CallError::raised("TypeError", text));
            }
        };
        if less {
            return Ok(StateOutcome::bad(
                "To reduce a Logical Volume option 'force' must be True.",
            ));
        }
    }
    let differs = |a: f64, b: f64| (a - b).abs() > f64::EPSILON;
    if !differs(new_size, old_size) && extents == Value::from(old_extents) {
        return Ok(StateOutcome::good(comment));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Logical Volume {name} is set to be resized"
        )));
    }
    let mut kwargs = s.pick(&["resizefs", "force"]);
    kwargs.set("lvpath", path);
    if size.is_some() {
        kwargs.set("size", s.arg("size").clone());
    } else {
        kwargs.set("extents", extents);
    }
    let changes = s.salt_with("lvm.lvresize", Vec::new(), kwargs)?;
    let after =
        volume(s, path)?.ok_or_else(|| CallError::raised("KeyError", format!("'{path}'")))?;
    if differs(size_of(&after)?, old_size) {
        return Ok(done(
            "resized",
            format!("Resized Logical Volume {name}"),
            changes,
        ));
    }
    let said = changes
        .as_map()
        .and_then(|map| map.str("Output from lvresize"));
    Ok(StateOutcome::bad(format!(
        "Failed to resize Logical Volume {name}.\nError: {}",
        said.unwrap_or_default()
    )))
}

fn lv_absent(s: &mut State<'_, '_>) -> Result {
    let (name, group) = (s.name(), python::str(s.arg("vgname")));
    let path = format!("/dev/{group}/{name}");
    if !is_there(s, "lv", &path, true)? {
        return Ok(StateOutcome::good(format!(
            "Logical Volume {name} already absent"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Logical Volume {name} is set to be removed"
        )));
    }
    let changes = s.salt(
        "lvm.lvremove",
        [name.as_str().into(), s.arg("vgname").clone()],
    )?;
    if is_there(s, "lv", &path, true)? {
        return Ok(StateOutcome::bad(format!(
            "Failed to remove Logical Volume {name}"
        )));
    }
    Ok(done(
        "removed",
        format!("Removed Logical Volume {name}"),
        changes,
    ))
}

#[cfg(test)]
mod tests {
    use super::mebibytes;

    #[test]
    fn sizes() {
        for (text, wanted) in [
            ("10", 10.0),
            ("10G", 10240.0),
            ("1tb", 1_048_576.0),
            ("4096s", 2.0),
        ] {
            assert!(
                mebibytes(text).is_ok_and(|got| (got - wanted).abs() < 0.001),
                "{text}"
            );
        }
        assert!(mebibytes("10%").is_err() && mebibytes("x").is_err());
    }
}

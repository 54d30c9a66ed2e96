//! `blockdev`: block devices.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;
use std::time::Duration;

pub(super) const MODULE: StateModule = StateModule {
    name: "blockdev",
    functions: &[
        StateFunction::new(
            "formatted",
            formatted,
            "Ensures that a device has a file system of a type. Existing data are lost.",
        )
        .args(args![fs_type = "ext4", force = False])
        .keywords(),
        StateFunction::new(
            "tuned",
            tuned,
            "Ensures that a block device has these parameters.",
        )
        .keywords(),
    ],
};

/// What disk.dump calls the parameters.
const SHOWN: &[(&str, &str)] = &[
    ("read-ahead", "getra"),
    ("filesystem-read-ahead", "getfra"),
    ("read-only", "getro"),
    ("read-write", "getro"),
];

fn tuned(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if !s.salt("file.is_blkdev", [name.as_str().into()])?.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Changes to {name} cannot be applied. Not a block device."
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Changes to {name} will be applied "
        )));
    }
    let kwargs = s.kwargs.clone();
    let old = s.salt("disk.dump", [name.as_str().into()])?;
    let new = s.salt_with("disk.tune", [name.as_str().into()], kwargs.clone())?;
    let mut changes = Map::new();
    for (key, value) in kwargs.iter() {
        let key = python::str(key);
        let Some((_, shown)) = SHOWN.iter().find(|(known, _)| *known == key) else {
            continue;
        };
        let part = |map: &Value| map.as_map().and_then(|m| m.get(shown)).cloned();
        let absent = || CallError::raised("KeyError", format!("'{shown}'"));
        let (mut was, mut is) = (
            part(&old).ok_or_else(absent)?,
            part(&new).ok_or_else(absent)?,
        );
        if was == is {
            continue;
        }
        if matches!(value, Value::Bool(_)) {
            (was, is) = (was.is_str("1").into(), is.is_str("1").into());
        }
        if key == "read-write" {
            (was, is) = ((!was.truthy()).into(), (!is.truthy()).into());
        }
        changes.set(
            key,
            format!("Changed from {} to {}", python::str(&was), python::str(&is)),
        );
    }
    Ok(if !new.truthy() {
        StateOutcome::bad(format!("Failed to modify block device {name}"))
    } else if changes.is_empty() {
        StateOutcome::good(format!("Block device {name} already in correct state"))
    } else {
        StateOutcome::good(format!("Block device {name} successfully modified ")).changes(changes)
    })
}

fn type_of(s: &mut State<'_, '_>, device: &str) -> Result<String> {
    let argv: Vec<Value> = ["blkid", "-o", "value", "-s", "TYPE", device]
        .map(Value::from)
        .to_vec();
    let kwargs = map! {"ignore_retcode" => true, "python_shell" => false};
    Ok(python::str(&s.salt_with(
        "cmd.run",
        [Value::Array(argv)],
        kwargs,
    )?))
}

fn formatted(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let kind = python::str(s.arg("fs_type"));
    if !Path::new(&name).exists() || name.starts_with('-') {
        return Ok(StateOutcome::bad(format!("{name} does not exist")));
    }
    if type_of(s, &name)? == kind {
        return Ok(StateOutcome::good(format!(
            "{name} already formatted with {kind}"
        )));
    }
    let program = Value::from(format!("mkfs.{kind}"));
    if !s.salt("cmd.which", [program])?.truthy() {
        return Ok(StateOutcome::bad(format!("Invalid fs_type: {kind}")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Changes to {name} will be applied "
        )));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.set("force", s.arg("force").clone());
    s.salt_with(
        "disk.format",
        [name.as_str().into(), kind.as_str().into()],
        kwargs,
    )?;
    // The kernel may need some time to show it.
    for _ in 0..10 {
        let now = type_of(s, &name)?;
        if now == kind {
            let text = format!("{name} has been formatted with {kind}");
            return Ok(StateOutcome::good(text).changes(map! {"new" => kind, "old" => now}));
        }
        if !now.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_secs(3));
    }
    Ok(StateOutcome::bad(format!("Failed to format {name}")))
}

//! Validation of arguments for `parted`.

use super::super::{Call, CallError, python};
use crate::execution::declare::Result;
use halite_wire::Value;
use std::os::unix::fs::FileTypeExt;

/// Size units.
pub(super) const UNITS: &[&str] = &[
    "s", "B", "kB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "%", "cyl", "chs", "compact",
];

/// Disk flags.
pub(super) const DISK_FLAGS: &[&str] = &[
    "cylinder_alignment",
    "pmbr_boot",
    "implicit_partition_table",
];

/// Partition flags.
pub(super) const PARTITION_FLAGS: &[&str] = &[
    "boot",
    "root",
    "swap",
    "hidden",
    "raid",
    "lvm",
    "lba",
    "hp-service",
    "palo",
    "prep",
    "msftres",
    "bios_grub",
    "atvrecv",
    "diag",
    "legacy_boot",
    "msftdata",
    "irst",
    "esp",
    "type",
];

/// Whether a block device exists.
pub(super) fn is_block(value: &Value) -> bool {
    let meta = std::fs::metadata(python::str(value));
    meta.is_ok_and(|m| m.file_type().is_block_device())
}

/// The path of a block device.
pub(super) fn device(value: &Value) -> Result<String> {
    if is_block(value) {
        Ok(python::str(value))
    } else {
        Err(CallError::Command(
            "Invalid device passed to partition module.".into(),
        ))
    }
}

/// Text that Python's `int()` accepts.
pub(super) fn number(value: &Value) -> Option<String> {
    python::int(value).ok().map(|_| python::str(value))
}

/// A position on a disk: digits and dots, and an optional unit.
pub(super) fn boundary(value: &Value) -> Result<String> {
    let text = python::str(value);
    let digits = text
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b'.');
    let (amount, unit) = text.split_at(digits.count());
    if !amount.is_empty() && (unit.is_empty() || UNITS.contains(&unit)) {
        return Ok(text);
    }
    Err(CallError::Command(format!(
        "Invalid partition boundary passed: \"{text}\""
    )))
}

/// The argument `flag`, if it is one of these.
pub(super) fn flag(call: &Call<'_>, known: &[&str]) -> Option<String> {
    let flag = call.arg("flag").as_str()?;
    known.contains(&flag).then(|| flag.to_owned())
}

/// The argument `state`: on or off.
pub(super) fn state(call: &Call<'_>) -> Option<String> {
    let state = call.arg("state").as_str()?;
    matches!(state, "on" | "off").then(|| state.to_owned())
}

/// Whether a file system type is known.
pub(super) fn known_kind(kind: &str) -> bool {
    const KINDS: [&str; 16] = [
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "fat",
        "fat32",
        "fat16",
        "linux-swap",
        "reiserfs",
        "hfs",
        "hfs+",
        "hfsx",
        "NTFS",
        "ntfs",
        "ufs",
        "xfs",
    ];
    KINDS.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_positions() {
        for good in ["10", "1.5GiB", "0%", "34s"] {
            assert!(boundary(&good.into()).is_ok(), "{good}");
        }
        for bad in ["", "-1s", "10X", "1 0", "x"] {
            assert!(boundary(&bad.into()).is_err(), "{bad}");
        }
    }
}

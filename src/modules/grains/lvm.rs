//! Logical volumes.
//!
//! `lvm vgs` takes longer than all other grains together, and most hosts that have it have no volume. So the block devices
//! are searched for physical volumes first: in what udev knows of them and, of those that it does not know, by their labels.

use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// LVM that waits for a broken disk must not hold up the start of the minion.
const LVM_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for our own look at the disks.
const LABELS_TIMEOUT: Duration = Duration::from_secs(2);

/// A physical volume has its label in one of the first four sectors of 512 bytes (`man pvcreate`, `--labelsector`).
const SECTOR: usize = 512;
const LABEL_SECTORS: usize = 4;
const LABEL_MAGIC: &[u8] = b"LABELONE";

/// Logical volumes by volume group (`salt/grains/lvm.py`).
pub(super) fn volume_groups() -> Map {
    if !may_have_volumes() {
        return Map::new();
    }
    let names = |argv: &[&str]| -> Vec<String> {
        let ran = Helper::new(argv.iter().copied()).run(LVM_TIMEOUT);
        let text = ran.map(|ran| ran.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(|line| line.trim().to_owned()).collect()
    };
    let groups = names(&["lvm", "vgs", "-o", "vg_name", "--noheadings"]);
    let volumes = |group: &String| {
        let argv = [
            "lvm",
            "lvs",
            "-o",
            "lv_name",
            "--noheadings",
            group.as_str(),
        ];
        (Value::from(group.as_str()), Value::from(names(&argv)))
    };
    Map(groups.iter().map(volumes).collect())
}

/// False only if no block device is a physical volume. A thread of its own, since nothing ends a read of a disk that does not
/// answer.
fn may_have_volumes() -> bool {
    let (found, answer) = mpsc::channel();
    let search = move || {
        let any = any_volume(
            Path::new("/sys/class/block"),
            Path::new("/dev"),
            Path::new("/run/udev/data"),
        );
        let _ = found.send(any.unwrap_or(true));
    };
    let thread = thread::Builder::new().name("lvm-labels".to_owned());
    thread.spawn(search).is_err() || answer.recv_timeout(LABELS_TIMEOUT).unwrap_or(true)
}

/// Whether a device of `classes` is a physical volume.
///
/// # Errors
/// A device that is not where it should be; only `lvm` can tell then.
fn any_volume(classes: &Path, nodes: &Path, udev: &Path) -> io::Result<bool> {
    for device in fs::read_dir(classes)? {
        let device = device?;
        let read = |name: &str| fs::read_to_string(device.path().join(name));
        if read("size")?.trim() == "0" {
            continue;
        }
        let number = read("dev")?;
        let known = fs::read_to_string(udev.join(format!("b{}", number.trim())));
        let is_volume = match known.ok().as_deref().and_then(known_content) {
            Some(content) => content == "LVM2_member",
            None => {
                // The kernel writes `cciss/c0d0` as `cciss!c0d0`.
                let name = device.file_name().to_string_lossy().replace('!', "/");
                has_label(&nodes.join(name))?
            }
        };
        if is_volume {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a device contains, according to its record in udev's database; `None` if udev found nothing that it knows.
fn known_content(record: &str) -> Option<&str> {
    let value = |key: &str| record.lines().find_map(|line| line.strip_prefix(key));
    value("E:ID_FS_TYPE=").or_else(|| value("E:ID_PART_TABLE_TYPE="))
}

fn has_label(node: &Path) -> io::Result<bool> {
    // What is no device could wait for a writer.
    if !fs::metadata(node)?.file_type().is_block_device() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY)
        .open(node);
    // What we may not or cannot read, `lvm` cannot either: it runs with our rights.
    Ok(opened
        .and_then(|device| starts_with_label(&device))
        .unwrap_or(false))
}

fn starts_with_label(device: &File) -> io::Result<bool> {
    let mut start = [0; SECTOR * LABEL_SECTORS];
    let mut len = 0;
    while len < start.len() {
        match device.read_at(&mut start[len..], len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(start[..len]
        .chunks(SECTOR)
        .any(|sector| sector.starts_with(LABEL_MAGIC)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn labels_are_in_the_first_four_sectors() {
        for (sector, found) in [(0, true), (1, true), (3, true), (4, false)] {
            let mut file = tempfile::tempfile().unwrap();
            let mut bytes = vec![0; 8 * SECTOR];
            bytes[sector * SECTOR..][..8].copy_from_slice(LABEL_MAGIC);
            file.write_all(&bytes).unwrap();
            assert_eq!(starts_with_label(&file).unwrap(), found, "sector {sector}");
        }
        let mut short = tempfile::tempfile().unwrap();
        short.write_all(b"LABEL").unwrap();
        assert!(!starts_with_label(&short).unwrap());
    }

    #[test]
    fn what_udev_knows_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (classes, nodes, udev) = (
            dir.path().join("class"),
            dir.path().join("dev"),
            dir.path().join("udev"),
        );
        let device = classes.join("sda");
        for made in [&device, &nodes, &udev] {
            fs::create_dir_all(made).unwrap();
        }
        let any = || any_volume(&classes, &nodes, &udev);
        fs::write(device.join("size"), "0\n").unwrap();
        assert!(!any().unwrap());
        fs::write(device.join("size"), "8\n").unwrap();
        fs::write(device.join("dev"), "8:0\n").unwrap();
        for (record, found) in [
            ("E:ID_FS_TYPE=ext4\n", false),
            ("E:ID_FS_TYPE=LVM2_member\n", true),
            ("S:disk\nE:ID_PART_TABLE_TYPE=gpt\n", false),
        ] {
            fs::write(udev.join("b8:0"), record).unwrap();
            assert_eq!(any().unwrap(), found, "{record}");
        }
        // Only `lvm` can tell of a device that is elsewhere, or of something else in its place.
        fs::write(udev.join("b8:0"), "E:DEVTYPE=disk\n").unwrap();
        any().unwrap_err();
        fs::write(nodes.join("sda"), LABEL_MAGIC).unwrap();
        any().unwrap_err();
    }
}

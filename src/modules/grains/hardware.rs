//! Processors, memory, disks and firmware.

use super::{lvm, read};
use crate::programs::which;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::fs;
use std::path::Path;

pub(super) fn add(grains: &mut Map) {
    cpu(grains, &read("/proc/cpuinfo").unwrap_or_default());
    memory(grains, &read("/proc/meminfo").unwrap_or_default());
    if Path::new("/proc/device-tree").is_dir() {
        device_tree(grains);
    }
    firmware(grains);
    disks(grains);
    efi(grains);
    grains.set(
        "fibre_channel_host",
        Path::new("/sys/class/fc_host").is_dir(),
    );
    if let Some(table) = read("/proc/mdstat") {
        grains.set("mdadm", raid(&table));
    }
    if which("selinuxenabled").is_some() {
        selinux(grains);
    }
    if which("lvm").is_some() {
        grains.set("lvm", lvm::volume_groups());
    }
}

/// `salt/grains/core.py _linux_cpudata`: later lines win.
fn cpu(grains: &mut Map, info: &str) {
    let mut count = 0;
    let mut model = "Unknown".to_owned();
    let mut flags: Vec<Value> = Vec::new();
    for line in info.lines() {
        let mut parts = line.split(':');
        let key = parts.next().unwrap_or_default().trim();
        let Some(value) = parts.next().map(str::trim) else {
            continue;
        };
        match key {
            "processor" => count += 1,
            "# processors" => count = value.parse().unwrap_or(0),
            "vendor_id" | "model name" | "cpu" => value.clone_into(&mut model),
            "flags" | "Features" => flags = value.split_whitespace().map(Value::from).collect(),
            "Processor" => {
                model = value.split('-').next().unwrap_or_default().to_owned();
                count = 1;
            }
            _ => {}
        }
    }
    grains.set("num_cpus", count);
    grains.set("cpu_model", model);
    grains.set("cpu_flags", flags);
}

/// In MiB.
fn memory(grains: &mut Map, info: &str) {
    let of = |name: &str| -> i64 {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<i64>().ok())
            .map_or(0, |kib| kib / 1024)
    };
    grains.set("mem_total", of("MemTotal"));
    grains.set("swap_total", of("SwapTotal"));
}

fn device_tree(grains: &mut Map) {
    let text = |name: &str| {
        let text = read(&format!("/proc/device-tree/{name}"))?;
        Some(text.trim_end_matches('\0').to_owned()).filter(|t| !t.is_empty())
    };
    if let Some(model) = text("model") {
        match model.split_once(',') {
            Some((maker, product)) => {
                grains.set("manufacturer", maker);
                grains.set("productname", product);
            }
            None => grains.set("productname", model),
        }
    }
    if let Some(serial) = text("serial-number").or_else(|| text("system-id")) {
        grains.set("serialnumber", serial);
    }
}

const DMI: [(&str, &str); 8] = [
    ("biosversion", "bios_version"),
    ("biosvendor", "bios_vendor"),
    ("boardname", "board_name"),
    ("productname", "product_name"),
    ("manufacturer", "sys_vendor"),
    ("biosreleasedate", "bios_date"),
    ("uuid", "product_uuid"),
    ("serialnumber", "product_serial"),
];

/// Files only root can read are left out for other users.
fn firmware(grains: &mut Map) {
    for (grain, file) in DMI {
        if let Some(text) = read(&format!("/sys/class/dmi/id/{file}")) {
            let text = if grain == "uuid" {
                text.to_lowercase()
            } else {
                text
            };
            grains.set(grain, text);
        }
    }
}

fn disks(grains: &mut Map) {
    let (mut disks, mut ssds) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let is_virtual =
            fs::read_link(entry.path()).is_ok_and(|to| to.starts_with("../devices/virtual"));
        if is_virtual {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let rotational = fs::read(entry.path().join("queue/rotational")).unwrap_or_default();
        match rotational.first() {
            Some(b'0') => ssds.push(name),
            Some(b'1') => disks.push(name),
            _ => {}
        }
    }
    disks.sort();
    ssds.sort();
    grains.set("disks", disks);
    grains.set("ssds", ssds);
}

fn efi(grains: &mut Map) {
    let dir = ["/sys/firmware/efi/efivars", "/sys/firmware/efi/vars"]
        .into_iter()
        .find(|d| Path::new(d).exists());
    grains.set("efi", dir.is_some());
    grains.set("efi-secure-boot", dir.is_some_and(secure_boot));
}

fn secure_boot(dir: &str) -> bool {
    let found: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("SecureBoot-"))
        .collect();
    let [one] = found.as_slice() else {
        return false;
    };
    let path = if dir.ends_with("efivars") {
        one.path()
    } else {
        one.path().join("data")
    };
    fs::read(path).is_ok_and(|data| data.last() == Some(&1))
}

fn raid(table: &str) -> Vec<String> {
    let mut names: Vec<String> = table
        .lines()
        .filter(|l| !l.starts_with("Personalities : ") && !l.starts_with("unused devices:"))
        .filter_map(|l| Some(l.split_once(" : ")?.0.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn selinux(grains: &mut Map) {
    let enforce = read("/sys/fs/selinux/enforce");
    let mut out = map! {"enabled" => enforce.is_some()};
    if which("getenforce").is_some() {
        out.set(
            "enforced",
            match enforce.as_deref() {
                Some("1") => "Enforcing",
                Some(_) => "Permissive",
                None => "Disabled",
            },
        );
    }
    grains.set("selinux", out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors() {
        let get = |text: &str| {
            let mut grains = Map::new();
            cpu(&mut grains, text);
            (
                grains.int("num_cpus").unwrap(),
                grains.str("cpu_model").unwrap().to_owned(),
                grains.get("cpu_flags").unwrap().str_list(),
            )
        };
        let x86 = "processor\t: 0\nvendor_id\t: V\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t: fpu vme\n";
        assert_eq!(
            get(x86),
            (2, "AMD EPYC".into(), vec!["fpu".into(), "vme".into()])
        );
        let arm = "Processor : ARMv6-compatible processor rev 7 (v6l)\nFeatures : swp half\n";
        assert_eq!(
            get(arm),
            (1, "ARMv6".into(), vec!["swp".into(), "half".into()])
        );
        assert_eq!(get(""), (0, "Unknown".into(), vec![]));
    }

    #[test]
    fn memory_and_raid() {
        let mut grains = Map::new();
        memory(
            &mut grains,
            "MemTotal:       2048000 kB\nMemFree: 1 kB\nSwapTotal:  1025 kB\n",
        );
        assert_eq!(
            (grains.int("mem_total"), grains.int("swap_total")),
            (Some(2000), Some(1))
        );
        let table = "Personalities : [raid1]\nmd1 : active raid1\n      1 blocks\nmd0 : active\nunused devices: <none>\n";
        assert_eq!(raid(table), ["md0", "md1"]);
    }
}

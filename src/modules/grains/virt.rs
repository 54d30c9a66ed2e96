//! `virtual` and `virtual_subtype`: the type of machine or container.

use super::read;
use halite_wire::Map;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn add(grains: &mut Map) {
    let product = grains.str("productname").unwrap_or_default().to_owned();
    let vendor = grains.str("manufacturer").unwrap_or_default().to_owned();
    let (mut kind, mut subtype) = match container() {
        Some(found) => found,
        None => (machine(&vendor, &product).unwrap_or("physical"), None),
    };
    let amazon = vendor == "Amazon EC2";
    let (in_chroot, kind_after, subtype_after) = marks(&product);
    if in_chroot {
        subtype = Some("chroot".to_owned());
    }
    kind = kind_after.unwrap_or(kind);
    subtype = subtype_after.or(subtype);
    if subtype.is_some() && kind == "physical" {
        kind = "virtual";
    }
    if amazon && matches!(kind, "kvm" | "qemu" | "xen" | "Nitro") {
        kind = if kind == "xen" { kind } else { "Nitro" };
        subtype = Some(format!("Amazon EC2 ({product})"));
    }
    grains.set("virtual", kind);
    if let Some(subtype) = subtype {
        grains.set("virtual_subtype", subtype);
    }
}

type Found = (&'static str, Option<String>);

/// The container manager, by the indicators `systemd-detect-virt` uses.
fn container() -> Option<Found> {
    let of = |name: &str| -> Option<Found> {
        let subtype = |s: &str| Some(("container", Some(s.to_owned())));
        match name {
            n if n.starts_with("lxc") => subtype("LXC"),
            "podman" => subtype("Podman"),
            "docker" => subtype("Docker"),
            "systemd-nspawn" => Some(("systemd-nspawn", None)),
            _ => None,
        }
    };
    if let Some(found) = read("/run/systemd/container").and_then(|name| of(&name)) {
        return Some(found);
    }
    let environ = std::fs::read("/proc/1/environ").unwrap_or_default();
    let named = environ
        .split(|b| *b == 0)
        .find_map(|v| v.strip_prefix(b"container="));
    if let Some(found) = named.and_then(|n| of(&String::from_utf8_lossy(n))) {
        return Some(found);
    }
    if Path::new("/run/.containerenv").exists() {
        return of("podman");
    }
    Path::new("/.dockerenv").exists().then(|| of("docker"))?
}

/// The hypervisor, from the firmware or else the kernel's clock source.
fn machine(vendor: &str, product: &str) -> Option<&'static str> {
    let firmware = format!(
        "{vendor}\n{product}\n{}\n{}",
        read("/sys/class/dmi/id/board_vendor").unwrap_or_default(),
        read("/sys/class/dmi/id/bios_vendor").unwrap_or_default()
    );
    let says = |text: &str| firmware.contains(text);
    if says("Amazon EC2") && Path::new("/sys/devices/virtual/dmi/id").exists() {
        return Some("Nitro");
    }
    if says("VMware") || says("VMW") {
        return Some("VMware");
    }
    if says("innotek GmbH") || says("VirtualBox") {
        return Some("oracle");
    }
    if says("Microsoft Corporation") && product == "Virtual Machine" {
        return Some("VirtualPC");
    }
    if read("/sys/hypervisor/type").as_deref() == Some("xen") || vendor == "Xen" {
        return Some("xen");
    }
    if says("Parallels") {
        return Some("Parallels");
    }
    if says("BHYVE") {
        return Some("bhyve");
    }
    let clocks = read("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    if clocks.is_some_and(|c| c.contains("kvm-clock"))
        || says("KVM")
        || says("OpenStack")
        || says("Google")
    {
        return Some("kvm");
    }
    if says("QEMU") {
        return Some("qemu");
    }
    says("Bochs").then_some("bochs")
}

/// The second check of `salt/grains/core.py _virtual`, which overrides the first.
fn marks(product: &str) -> (bool, Option<&'static str>, Option<String>) {
    let (mut kind, mut subtype) = (None, None);
    let same_root = || {
        let (own, init) = (std::fs::metadata("/"), std::fs::metadata("/proc/1/root/."));
        match (own, init) {
            (Ok(own), Ok(init)) => (own.dev(), own.ino()) == (init.dev(), init.ino()),
            _ => true,
        }
    };
    let chroot = !same_root();
    if Path::new("/proc/vz/version").is_file() {
        kind = Some("openvzhn");
    } else if Path::new("/proc/vz/veinfo").is_file() {
        kind = Some("openvzve");
    }
    if let Some((k, s)) = xen(product) {
        (kind, subtype) = (Some(k), Some(s.to_owned()));
    }
    if read("/proc/cpuinfo").is_some_and(|c| c.contains("QEMU Virtual CPU")) {
        kind = Some("kvm");
    }
    for (text, k, s) in [
        ("VirtualBox", "VirtualBox", None),
        ("RHEV Hypervisor", "kvm", Some("rhev")),
        ("oVirt Node", "kvm", Some("ovirt")),
        ("Google", "gce", None),
        ("BHYVE", "bhyve", None),
    ] {
        if product.contains(text) {
            kind = Some(k);
            subtype = s.map(str::to_owned).or(subtype);
            break;
        }
    }
    let cgroup = read("/proc/1/cgroup").unwrap_or_default();
    let docker = [":/system.slice/docker", ":/docker/", ":/docker-ce/"];
    if cgroup.contains(":/lxc/") {
        (kind, subtype) = (Some("container"), Some("LXC".to_owned()));
    } else if cgroup.contains(":/kubepods/") {
        subtype = Some("kubernetes".to_owned());
    } else if cgroup.contains(":/libpod_parent/") {
        subtype = Some("libpod".to_owned());
    } else if docker.iter().any(|d| cgroup.contains(d)) {
        (kind, subtype) = (Some("container"), Some("Docker".to_owned()));
    }
    (chroot, kind, subtype)
}

fn xen(product: &str) -> Option<(&'static str, &'static str)> {
    let dir = |path: &str| Path::new(path).is_dir();
    if !(dir("/proc/sys/xen") || dir("/sys/bus/xen") || dir("/proc/xen")) {
        return None;
    }
    if Path::new("/proc/xen/xsd_kva").is_file() {
        return Some(("xen", "Xen Dom0"));
    }
    if product == "HVM domU" {
        return Some(("xen", "Xen HVM DomU"));
    }
    if let Some(capabilities) = read("/proc/xen/capabilities") {
        return Some(if capabilities.contains("control_d") {
            ("xen", "Xen Dom0")
        } else {
            ("xen", "Xen PV DomU")
        });
    }
    dir("/sys/bus/xen/drivers/xenconsole").then_some(("xen", "Xen PV DomU"))
}

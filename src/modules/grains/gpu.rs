//! Graphics cards, from the kernel's PCI devices and `pci.ids`; stock runs `lspci` (`salt/grains/core.py
//! _linux_gpu_data`).

use super::read;
use halite_wire::map;
use halite_wire::{Map, Value};

/// PCI classes of VGA, 3D and other display controllers, and processing accelerators.
const CLASSES: [&str; 4] = ["0x0300", "0x0302", "0x0380", "0x1200"];
/// Words stock looks for in vendor names.
const VENDORS: [&str; 8] = [
    "nvidia",
    "amd",
    "ati",
    "intel",
    "cirrus logic",
    "vmware",
    "matrox",
    "aspeed",
];
const NAMES: [&str; 3] = [
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/share/pci.ids",
];

pub(super) fn add(grains: &mut Map) {
    let entries = std::fs::read_dir("/sys/bus/pci/devices")
        .into_iter()
        .flatten();
    let mut places: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    places.sort();
    let value = |path: &std::path::Path, name: &str| read(&path.join(name).to_string_lossy());
    let cards = places.iter().filter(|path| {
        value(path, "class")
            .is_some_and(|class| CLASSES.iter().any(|known| class.starts_with(known)))
    });
    let ids: Vec<(String, String)> = cards
        .filter_map(|path| Some((value(path, "vendor")?, value(path, "device")?)))
        .collect();
    let names = if ids.is_empty() {
        String::new()
    } else {
        NAMES.iter().find_map(|path| read(path)).unwrap_or_default()
    };
    let cards: Vec<Value> = ids
        .iter()
        .map(|(vendor, device)| gpu(&names, vendor, device).into())
        .collect();
    grains.set("num_gpus", cards.len());
    grains.set("gpus", cards);
}

/// One card; `vendor` and `device` as written by the kernel: `0x10de`.
fn gpu(names: &str, vendor: &str, device: &str) -> Map {
    let (vendor, device) = (
        vendor.trim_start_matches("0x"),
        device.trim_start_matches("0x"),
    );
    let head = format!("{vendor}  ");
    let mut lines = names.lines().skip_while(|line| !line.starts_with(&head));
    let maker = lines
        .next()
        .and_then(|line| line.strip_prefix(&head))
        .unwrap_or_default();
    let own = format!("\t{device}  ");
    let model = lines
        .take_while(|line| line.starts_with('\t') || line.starts_with('#'))
        .find_map(|line| line.strip_prefix(&own));
    let maker = maker.to_lowercase();
    let words: Vec<&str> = maker.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let known = VENDORS.iter().find(|name| words.contains(name));
    map! {
        "vendor" => known.copied().unwrap_or("unknown"),
        "model" => model.map_or_else(|| format!("Device {device}"), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_list() {
        let names = "# comment\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t1234  Old one\n10de  NVIDIA Corporation\n\t0020  NV4\n\t\t1043 0200  Board\n\t1234  Model\n";
        let shown = |vendor: &str, device: &str| {
            let card = gpu(names, vendor, device);
            format!(
                "{} {}",
                card.str("vendor").unwrap(),
                card.str("model").unwrap()
            )
        };
        assert_eq!(shown("0x10de", "0x1234"), "nvidia Model");
        assert_eq!(shown("0x1002", "0x1234"), "amd Old one");
        assert_eq!(shown("0x10de", "0xffff"), "nvidia Device ffff");
        assert_eq!(shown("0xffff", "0x1"), "unknown Device 1");
    }
}

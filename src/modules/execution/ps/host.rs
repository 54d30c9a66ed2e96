//! The host as seen by psutil: processors, memory, disks, network, users.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

fn read(path: &str) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Clock ticks per second.
pub(super) fn ticks() -> f64 {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
    ticks.ok().flatten().map_or(100.0, |n| n as f64)
}

/// Boot time in Unix seconds.
pub(super) fn boot_time() -> f64 {
    let table = read("/proc/stat");
    let line = table.lines().find_map(|l| l.strip_prefix("btime"));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or(0.0)
}

pub(super) fn cpu_count() -> i64 {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    count.ok().flatten().unwrap_or(1)
}

pub(super) fn boot(call: &mut Call<'_>) -> Result {
    let seconds = boot_time() as i64;
    let Some(format) = call.text("time_format").filter(|f| !f.is_empty()) else {
        return Ok(seconds.into());
    };
    let time = jiff::Timestamp::from_second(seconds)
        .map_err(|e| CallError::raised("ValueError", e.to_string()))?
        .to_zoned(jiff::tz::TimeZone::system());
    jiff::fmt::strtime::format(&format, &time)
        .map(Into::into)
        .map_err(|e| CallError::raised("ValueError", e.to_string()))
}

const CPU: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];

/// CPU seconds by category, in total or per processor.
fn times(each: bool) -> Vec<Vec<f64>> {
    let table = read("/proc/stat");
    let lines = table.lines().filter(|l| l.starts_with("cpu"));
    let lines: Vec<&str> = if each {
        lines.skip(1).collect()
    } else {
        lines.take(1).collect()
    };
    let numbers = |line: &&str| -> Vec<f64> {
        line.split_whitespace()
            .skip(1)
            .take(CPU.len())
            .map(|w| w.parse::<f64>().unwrap_or(0.0) / ticks())
            .collect()
    };
    lines.iter().map(numbers).collect()
}

pub(super) fn cpu_times(call: &mut Call<'_>) -> Result {
    let each = call.flag("per_cpu");
    let maps = times(each).into_iter().map(|numbers| {
        let map: Map = CPU.iter().copied().zip(numbers).collect();
        Value::Map(map)
    });
    let mut maps: Vec<Value> = maps.collect();
    if each {
        Ok(maps.into())
    } else {
        Ok(maps.pop().unwrap_or_default())
    }
}

pub(super) fn cpu_percent(call: &mut Call<'_>) -> Result {
    let each = call.flag("per_cpu");
    let wait = seconds(call, "interval")?;
    let before = times(each);
    std::thread::sleep(wait);
    let after = times(each);
    let mut shares = before
        .iter()
        .zip(&after)
        .map(|(a, b)| Value::Float(busy(a, b)));
    if each {
        Ok(shares.collect::<Vec<_>>().into())
    } else {
        Ok(shares.next().unwrap_or_default())
    }
}

/// The fraction of time that was neither idle nor waiting for IO.
fn busy(before: &[f64], after: &[f64]) -> f64 {
    let deltas: Vec<f64> = before
        .iter()
        .zip(after)
        .map(|(a, b)| (b - a).max(0.0))
        .collect();
    let at = |i: usize| deltas.get(i).copied().unwrap_or(0.0);
    // Guest time is already included in user and nice.
    let all = deltas.iter().sum::<f64>() - at(8) - at(9);
    if all > 0.0 {
        round1((all - at(3) - at(4)) / all * 100.0)
    } else {
        0.0
    }
}

/// A duration in seconds; nil is none.
pub(super) fn seconds(call: &Call<'_>, name: &str) -> Result<std::time::Duration> {
    let value = call.arg(name);
    if value.is_nil() {
        return Ok(std::time::Duration::ZERO);
    }
    let number = match value {
        Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Bool(_) => {
            halite_wire::pytext::number(value)
        }
        _ => None,
    };
    let Some(number) = number else {
        let class = python::type_name(value);
        let text = format!("'>' not supported between instances of '{class}' and 'float'");
        return Err(CallError::Type(text));
    };
    std::time::Duration::try_from_secs_f64(number).map_err(|_| {
        let text = format!("interval is not positive (got {})", python::str(value));
        CallError::raised("ValueError", text)
    })
}

/// One decimal, as `round(x, 1)`.
fn round1(number: f64) -> f64 {
    format!("{number:.1}").parse().unwrap_or(number)
}

fn percent(used: f64, total: f64) -> f64 {
    if total == 0.0 {
        0.0
    } else {
        round1(used / total * 100.0)
    }
}

/// `/proc/meminfo` in bytes.
fn meminfo() -> HashMap<String, i64> {
    let table = read("/proc/meminfo");
    let pairs = table.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let kib: i64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), kib * 1024))
    });
    pairs.collect()
}

pub(super) fn total_memory() -> i64 {
    meminfo().get("MemTotal").copied().unwrap_or(0)
}

pub(super) fn virtual_memory(_: &mut Call<'_>) -> Result {
    let info = meminfo();
    let get = |name: &str| info.get(name).copied().unwrap_or(0);
    let (total, free) = (get("MemTotal"), get("MemFree"));
    let mut available = get("MemAvailable");
    if available > total {
        available = free;
    }
    Ok(map! {
        "total" => total,
        "available" => available,
        "percent" => percent((total - available) as f64, total as f64),
        "used" => total - available,
        "free" => free,
        "active" => get("Active"),
        "inactive" => get("Inactive"),
        "buffers" => get("Buffers"),
        "cached" => get("Cached") + get("SReclaimable"),
        "shared" => get("Shmem"),
        "slab" => get("Slab"),
    }
    .into())
}

pub(super) fn swap_memory(_: &mut Call<'_>) -> Result {
    let info = meminfo();
    let get = |name: &str| info.get(name).copied().unwrap_or(0);
    let (total, free) = (get("SwapTotal"), get("SwapFree"));
    let table = read("/proc/vmstat");
    // Counted in pages of 4 KiB.
    let moved = |name: &str| {
        let line = table.lines().find_map(|l| l.strip_prefix(name));
        let pages = line.and_then(|l| l.trim().parse::<i64>().ok());
        pages.unwrap_or(0) * 4096
    };
    Ok(map! {
        "total" => total,
        "used" => total - free,
        "free" => free,
        "percent" => percent((total - free) as f64, total as f64),
        "sin" => moved("pswpin "),
        "sout" => moved("pswpout "),
    }
    .into())
}

/// File system types that use a device.
fn device_fs_types() -> Vec<String> {
    let table = read("/proc/filesystems");
    let kind = |line: &str| match line.trim().strip_prefix("nodev") {
        None => Some(line.trim().to_owned()),
        Some(kind) if kind.trim() == "zfs" => Some("zfs".to_owned()),
        Some(_) => None,
    };
    table.lines().filter_map(kind).collect()
}

/// A field of a mount table, with octal escapes of blanks decoded.
pub(in crate::execution) fn unescaped(word: &str) -> String {
    let mut out = word.to_owned();
    for (code, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        out = out.replace(code, character);
    }
    out
}

/// The device behind `/dev/root`.
fn root_device() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata("/").ok()?.dev();
    let (major, minor) = (
        nix::sys::stat::major(device).to_string(),
        nix::sys::stat::minor(device).to_string(),
    );
    let table = read("/proc/partitions");
    let listed = table.lines().skip(2).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[ma, mi, _, name] = words.as_slice() else {
            return None;
        };
        (ma == major && mi == minor).then(|| format!("/dev/{name}"))
    });
    let named = || {
        let text = read(&format!("/sys/dev/block/{major}:{minor}/uevent"));
        let name = text.lines().find_map(|l| l.strip_prefix("DEVNAME="));
        name.map(|n| format!("/dev/{n}"))
    };
    listed.or_else(named).filter(|p| Path::new(p).exists())
}

fn partitions(all: bool) -> Vec<Map> {
    let kinds = device_fs_types();
    let table = if Path::new("/etc/mtab").is_file() {
        read("/etc/mtab")
    } else {
        read("/proc/self/mounts")
    };
    let mut out = Vec::new();
    for line in table.lines() {
        let words: Vec<String> = line.split_whitespace().map(unescaped).collect();
        let [device, place, kind, opts, ..] = words.as_slice() else {
            continue;
        };
        let device = match device.as_str() {
            "none" => String::new(),
            "/dev/root" | "rootfs" => root_device().unwrap_or_else(|| device.clone()),
            device => device.to_owned(),
        };
        if !all && (device.is_empty() || !kinds.contains(kind)) {
            continue;
        }
        out.push(
            map! {"device" => device, "mountpoint" => place, "fstype" => kind, "opts" => opts},
        );
    }
    out
}

pub(super) fn disk_partitions(call: &mut Call<'_>) -> Result {
    let all = partitions(call.flag("all"));
    Ok(all.into_iter().map(Value::Map).collect::<Vec<_>>().into())
}

fn usage(path: &str) -> Result<Map> {
    let stats = nix::sys::statvfs::statvfs(path)
        .map_err(|e| python::os_error(&std::io::Error::from(e), path))?;
    let size = stats.fragment_size();
    let total = stats.blocks() * size;
    let used = total.saturating_sub(stats.blocks_free() * size);
    let free = stats.blocks_available() * size;
    Ok(map! {
        "total" => total,
        "used" => used,
        "free" => free,
        "percent" => percent(used as f64, (used + free) as f64),
    })
}

pub(super) fn disk_usage(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    usage(&path).map(Into::into)
}

pub(super) fn disk_partition_usage(call: &mut Call<'_>) -> Result {
    let mut out: Vec<Value> = Vec::new();
    for mut partition in partitions(call.flag("all")) {
        let place = partition.str("mountpoint").unwrap_or_default().to_owned();
        partition.0.extend(usage(&place)?.0);
        out.push(partition.into());
    }
    Ok(out.into())
}

/// Adds up maps of numbers.
fn sum(all: impl Iterator<Item = Map>, names: &[&str]) -> Map {
    let mut sums = vec![0_i64; names.len()];
    for map in all {
        for (sum, name) in sums.iter_mut().zip(names) {
            *sum += map.int(name).unwrap_or(0);
        }
    }
    names.iter().copied().zip(sums).collect()
}

/// The value of the requested item, or of all.
fn select_item(wanted: &Value, all: Vec<(String, Map)>, names: &[&str]) -> Value {
    if !wanted.truthy() {
        return sum(all.into_iter().map(|(_, m)| m), names).into();
    }
    let wanted = python::str(wanted);
    let found = all.into_iter().find(|(name, _)| *name == wanted);
    found.map_or(Value::Bool(false), |(_, map)| map.into())
}

/// Counters of a network interface, in psutil's order.
pub const NETWORK_COUNTERS: [&str; 8] = [
    "bytes_sent",
    "bytes_recv",
    "packets_sent",
    "packets_recv",
    "errin",
    "errout",
    "dropin",
    "dropout",
];

pub(super) fn network_io_counters(call: &mut Call<'_>) -> Result {
    const COLUMNS: [usize; 8] = [8, 0, 9, 1, 2, 10, 3, 11];
    let table = read("/proc/net/dev");
    let all = table.lines().skip(2).filter_map(|line| {
        let (name, rest) = line.rsplit_once(':')?;
        let words: Vec<i64> = rest
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        let at = |i: usize| words.get(i).copied().unwrap_or(0);
        let map: Map = NETWORK_COUNTERS
            .iter()
            .copied()
            .zip(COLUMNS.map(at))
            .collect();
        Some((name.trim().to_owned(), map))
    });
    Ok(select_item(
        call.arg("interface"),
        all.collect(),
        &NETWORK_COUNTERS,
    ))
}

pub(super) fn disk_io_counters(call: &mut Call<'_>) -> Result {
    const SECTOR: i64 = 512;
    const NAMES: [&str; 9] = [
        "read_count",
        "write_count",
        "read_bytes",
        "write_bytes",
        "read_time",
        "write_time",
        "read_merged_count",
        "write_merged_count",
        "busy_time",
    ];
    let device = call.arg("device").clone();
    let table = read("/proc/diskstats");
    let all = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = (*words.get(2)?).to_owned();
        // Partitions are already counted in their disks.
        let whole = Path::new("/sys/block").join(name.replace('/', "!"));
        if !device.truthy() && !whole.exists() {
            return None;
        }
        let at = |i: usize| {
            words
                .get(i)
                .and_then(|w| w.parse::<i64>().ok())
                .unwrap_or(0)
        };
        let numbers = [
            at(3),
            at(7),
            at(5) * SECTOR,
            at(9) * SECTOR,
            at(6),
            at(10),
            at(4),
            at(8),
            at(12),
        ];
        Some((name, NAMES.iter().copied().zip(numbers).collect()))
    });
    Ok(select_item(&device, all.collect(), &NAMES))
}

/// Logged-in users, from `utmp`.
pub(super) fn users(_: &mut Call<'_>) -> Result {
    const RECORD: usize = 384;
    const USER_PROCESS: i16 = 7;
    let table = std::fs::read("/var/run/utmp").unwrap_or_default();
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let number = |r: &[u8], at: usize| i32::from_ne_bytes([r[at], r[at + 1], r[at + 2], r[at + 3]]);
    let records = table
        .chunks_exact(RECORD)
        .filter(|r| i16::from_ne_bytes([r[0], r[1]]) == USER_PROCESS);
    let users = records.map(|r| {
        let terminal = Some(text(&r[8..40])).filter(|t| !t.is_empty());
        let host = match text(&r[76..332]) {
            host if host == ":0" || host == ":0.0" => "localhost".to_owned(),
            host => host,
        };
        map! {
            "name" => text(&r[44..76]), "terminal" => terminal, "host" => host,
            "started" => f64::from(number(r, 340)), "pid" => number(r, 4),
        }
        .into()
    });
    Ok(Value::Array(users.collect()))
}

//! `partition`: disk partitions, through `parted` and `sfdisk`.

mod check;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use check::{boundary, device, flag, known_kind, number, state};
use halite_wire::map;
use halite_wire::{Map, Value};

const MINOR: &[Arg] = &[req("device"), req("minor")];
const MAKE: &[Arg] = &[
    req("device"),
    req("part_type"),
    opt("fs_type", Lit::Nil),
    opt("start", Lit::Nil),
    opt("end", Lit::Nil),
];

pub(super) const MODULE: Module = Module {
    name: "partition",
    functions: &[
        Function::new(
            "align_check",
            align_check,
            "Whether a partition is aligned: minimal or optimal.",
        )
        .args(&[req("device"), req("part_type"), req("partition")]),
        Function::new(
            "check",
            |c| run_on_partition(c, "check"),
            "Checks the file system of a partition.",
        )
        .args(MINOR),
        Function::new(
            "cp",
            cp,
            "Copies the file system of a partition to another.",
        )
        .args(&[req("device"), req("from_minor"), req("to_minor")]),
        Function::new("disk_set", disk_set, "Turns a disk flag on or off.").args(&[
            req("device"),
            req("flag"),
            req("state"),
        ]),
        Function::new("disk_toggle", disk_toggle, "Toggles a flag of a disk.")
            .args(&[req("device"), req("flag")]),
        Function::new(
            "exists",
            |c| Ok(check::is_block(c.arg("device")).into()),
            "Whether a block device exists.",
        )
        .args(&[opt("device", Lit::Str(""))]),
        Function::new(
            "get_block_device",
            |c| {
                lines(
                    c,
                    &["lsblk", "-n", "-io", "KNAME", "-d", "-e", "1,7,11", "-l"],
                )
            },
            "The disks.",
        ),
        Function::new("get_id", get_id, "The type of a partition by its number.").args(MINOR),
        Function::new("list", list, "The partitions of a disk.")
            .inner("list_")
            .args(&[req("device"), opt("unit", Lit::Nil)]),
        Function::new(
            "mkfs",
            mkfs,
            "Creates a file system on a partition. Existing data are lost.",
        )
        .args(&[req("device"), req("fs_type")]),
        Function::new(
            "mklabel",
            mklabel,
            "Creates a partition table. Existing partitions are lost.",
        )
        .args(&[req("device"), req("label_type")]),
        Function::new(
            "mkpart",
            mkpart,
            "Creates a partition: primary, logical or extended.",
        )
        .args(MAKE),
        Function::new("mkpartfs", mkpart, "Alias of partition.mkpart.").args(MAKE),
        Function::new("name", name, "Names a partition.").args(&[
            req("device"),
            req("partition"),
            req("name"),
        ]),
        Function::new(
            "probe",
            probe,
            "Informs the kernel of changed partition tables.",
        )
        .varargs(),
        Function::new(
            "rescue",
            rescue,
            "Searches for a lost partition between two positions.",
        )
        .args(&[req("device"), req("start"), req("end")]),
        Function::new("resize", resize, "Changes start and end of a partition.").args(&[
            req("device"),
            req("minor"),
            req("start"),
            req("end"),
        ]),
        Function::new("rm", |c| run_on_partition(c, "rm"), "Removes a partition.").args(MINOR),
        Function::new("set", set, "Turns a partition flag on or off.")
            .inner("set_")
            .args(&[req("device"), req("minor"), req("flag"), req("state")]),
        Function::new(
            "set_id",
            set_id,
            "Sets the type of a partition by its number.",
        )
        .args(&[req("device"), req("minor"), req("system_id")]),
        Function::new(
            "system_types",
            |c| types(c).map(Into::into),
            "The available partition types.",
        ),
        Function::new("toggle", toggle, "Toggles a flag of a partition.").args(&[
            req("device"),
            req("partition"),
            req("flag"),
        ]),
    ],
};

fn list_of(text: &str) -> Value {
    Value::Array(text.lines().map(Into::into).collect())
}

/// A program's output lines.
fn lines(call: &mut Call<'_>, argv: &[&str]) -> Result {
    Ok(list_of(&shell::run(call, argv)?))
}

fn wrong(what: &str, function: &str) -> CallError {
    CallError::Command(format!("Invalid {what} passed to partition.{function}"))
}

fn probe(call: &mut Call<'_>) -> Result {
    let mut words = vec!["partprobe".to_owned(), "--".to_owned()];
    for value in &call.bound.varargs {
        words.push(device(value)?);
    }
    let argv: Vec<&str> = words.iter().map(String::as_str).collect();
    lines(call, &argv)
}

fn list(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let unit = call.text("unit").filter(|u| !u.is_empty());
    let mut argv = vec!["parted", "-m", "-s", device.as_str()];
    if let Some(unit) = &unit {
        if !check::UNITS.contains(&unit.as_str()) {
            return Err(wrong("unit", "part_list"));
        }
        argv.extend(["unit", unit.as_str()]);
    }
    argv.push("print");
    let text = shell::stdout(call, &argv)?;
    parse(&text, unit.as_deref()).map(Into::into)
}

/// Parses `parted -m print`: a line for the disk, then one per partition.
fn parse(text: &str, unit: Option<&str>) -> Result<Map> {
    const DISK: [&str; 8] = [
        "disk",
        "size",
        "interface",
        "logical sector",
        "physical sector",
        "partition table",
        "model",
        "disk flags",
    ];
    let wrong =
        || CallError::Command("Problem encountered while parsing output from parted".into());
    let mut info: Option<Map> = None;
    let mut partitions = Map::new();
    for line in text.lines() {
        if matches!(line, "BYT;" | "CHS;" | "CYL;") {
            continue;
        }
        let mut columns: Vec<&str> = line.trim_end_matches(';').split(':').collect();
        if info.is_none() {
            if !(7..=8).contains(&columns.len()) {
                return Err(wrong());
            }
            info = Some(DISK.into_iter().zip(columns).collect());
            continue;
        }
        let mut fields = vec!["number", "start", "end"];
        if unit != Some("chs") {
            fields.push("size");
        }
        if columns.last() == Some(&"free") {
            columns.pop();
        } else {
            fields.extend(["file system", "name", "flags"]);
        }
        if fields.len() != columns.len() {
            return Err(wrong());
        }
        let number = columns[0].to_owned();
        let map: Map = fields.into_iter().zip(columns).collect();
        partitions.set(number, map);
    }
    Ok(map! {"info" => info.unwrap_or_default(), "partitions" => partitions})
}

fn align_check(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let kind = python::str(call.arg("part_type"));
    if !matches!(kind.as_str(), "minimal" | "optimal") {
        return Err(wrong("part_type", "align_check"));
    }
    let part = number(call.arg("partition")).ok_or_else(|| wrong("partition", "align_check"))?;
    lines(
        call,
        &["parted", "-m", &device, "align-check", &kind, &part],
    )
}

fn run_on_partition(call: &mut Call<'_>, what: &str) -> Result {
    let device = device(call.arg("device"))?;
    let minor = number(call.arg("minor")).ok_or_else(|| wrong("minor number", what))?;
    lines(call, &["parted", "-m", "-s", &device, what, &minor])
}

fn cp(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let get = |name: &str| number(call.arg(name)).ok_or_else(|| wrong("minor number", "cp"));
    let (from, to) = (get("from_minor")?, get("to_minor")?);
    lines(call, &["parted", "-m", "-s", &device, "cp", &from, &to])
}

fn get_id(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let minor = number(call.arg("minor")).ok_or_else(|| wrong("minor number", "get_id"))?;
    lines(call, &["sfdisk", "--print-id", &device, &minor])
}

fn set_id(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let minor = number(call.arg("minor")).ok_or_else(|| wrong("minor number", "set_id"))?;
    let id = call.arg("system_id").clone();
    let known = types(call)?;
    let Some(id) = id.as_str().filter(|id| known.contains(id)) else {
        return Err(wrong("system_id", "set_id"));
    };
    lines(call, &["sfdisk", "--change-id", &device, &minor, id])
}

fn types(call: &mut Call<'_>) -> Result<Map> {
    let text = shell::run(call, &["sfdisk", "-T"])?;
    let mut out = Map::new();
    for line in text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with("Id"))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[id, name, ..] = words.as_slice() else {
            return Err(CallError::raised("IndexError", "list index out of range"));
        };
        out.set(id, name);
    }
    Ok(out)
}

fn mkfs(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let kind = python::str(call.arg("fs_type"));
    if !known_kind(&kind) {
        return Err(wrong("fs_type", "mkfs"));
    }
    let program = match kind.as_str() {
        "linux-swap" => "mkswap".to_owned(),
        "NTFS" => "mkfs.ntfs".to_owned(),
        kind => format!("mkfs.{kind}"),
    };
    if which(&program).is_none() {
        return Ok(format!("Error: {program} is unavailable.").into());
    }
    lines(call, &[&program, &device])
}

fn mklabel(call: &mut Call<'_>) -> Result {
    const KINDS: [&str; 10] = [
        "aix", "amiga", "bsd", "dvh", "gpt", "loop", "mac", "msdos", "pc98", "sun",
    ];
    let kind = python::str(call.arg("label_type"));
    if !KINDS.contains(&kind.as_str()) {
        return Err(wrong("label_type", "mklabel"));
    }
    let device = python::str(call.arg("device"));
    lines(call, &["parted", "-m", "-s", &device, "mklabel", &kind])
}

fn mkpart(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let kind = python::str(call.arg("part_type"));
    if !matches!(kind.as_str(), "primary" | "logical" | "extended") {
        return Err(wrong("part_type", "mkpart"));
    }
    let system = call.text("fs_type").filter(|f| !f.is_empty());
    if system.as_deref().is_some_and(|f| !known_kind(f)) {
        return Err(wrong("fs_type", "mkpart"));
    }
    let (start, end) = (call.arg("start"), call.arg("end"));
    if !start.is_nil() && !end.is_nil() {
        boundary(start)?;
        boundary(end)?;
    }
    let place = |value: &Value| match value {
        Value::Nil => String::new(),
        other => python::str(other),
    };
    let (start, end) = (place(start), place(end));
    let mut argv = vec!["parted", "-m", "-s", "--", &device, "mkpart", &kind];
    argv.extend(system.as_deref());
    argv.extend([start.as_str(), end.as_str()]);
    lines(call, &argv)
}

fn name(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let part = number(call.arg("partition")).ok_or_else(|| wrong("partition", "name"))?;
    let name = python::str(call.arg("name"));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-');
    if !name.chars().all(allowed) {
        return Err(wrong("characters", "name"));
    }
    // The program parses its arguments again and needs the quotes.
    let quoted = format!("'{name}'");
    lines(
        call,
        &["parted", "-m", "-s", &device, "name", &part, &quoted],
    )
}

fn rescue(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let (start, end) = (boundary(call.arg("start"))?, boundary(call.arg("end"))?);
    lines(
        call,
        &["parted", "-m", "-s", &device, "rescue", &start, &end],
    )
}

fn resize(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let minor = number(call.arg("minor")).ok_or_else(|| wrong("minor number", "resize"))?;
    let (start, end) = (boundary(call.arg("start"))?, boundary(call.arg("end"))?);
    let argv = [
        "parted", "-m", "-s", "--", &device, "resize", &minor, &start, &end,
    ];
    lines(call, &argv)
}

fn set(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let minor = number(call.arg("minor")).ok_or_else(|| wrong("minor number", "set"))?;
    let flag = flag(call, check::PARTITION_FLAGS).ok_or_else(|| wrong("flag", "set"))?;
    let state = state(call).ok_or_else(|| wrong("state", "set"))?;
    lines(
        call,
        &["parted", "-m", "-s", &device, "set", &minor, &flag, &state],
    )
}

fn toggle(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let part = number(call.arg("partition")).ok_or_else(|| wrong("partition number", "toggle"))?;
    let flag = flag(call, check::PARTITION_FLAGS).ok_or_else(|| wrong("flag", "toggle"))?;
    lines(
        call,
        &["parted", "-m", "-s", &device, "toggle", &part, &flag],
    )
}

fn disk_set(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let flag = flag(call, check::DISK_FLAGS).ok_or_else(|| wrong("flag", "disk_set"))?;
    let state = state(call).ok_or_else(|| wrong("state", "disk_set"))?;
    lines(
        call,
        &["parted", "-m", "-s", &device, "disk_set", &flag, &state],
    )
}

fn disk_toggle(call: &mut Call<'_>) -> Result {
    let device = device(call.arg("device"))?;
    let flag = flag(call, check::DISK_FLAGS).ok_or_else(|| wrong("flag", "disk_toggle"))?;
    lines(call, &["parted", "-m", "-s", &device, "disk_toggle", &flag])
}

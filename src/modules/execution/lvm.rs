//! `lvm`: physical volumes, volume groups and logical volumes.

use super::declare::{Function, Lit, Module, Result, args, opt, req};
use super::{Call, CallError, python, shell, which};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// Words that are no options.
const NAMES: &[&str] = &[
    "pvname", "vgname", "lvname", "lvpath", "devices", "snapshot", "pv",
];

pub(super) const MODULE: Module = Module {
    name: "lvm",
    functions: &[
        Function::new("version", version, "The version of LVM."),
        Function::new(
            "fullversion",
            |c| Ok(full_version(c)?.into()),
            "The versions of all parts of LVM.",
        ),
        Function::new(
            "pvdisplay",
            |c| {
                let (name, real, quiet) = (text(c, "pvname"), c.flag("real"), c.flag("quiet"));
                Ok(physical(c, &name, real, quiet)?.into())
            },
            "The physical volumes, or one.",
        )
        .args(args![pvname = "", real = False, quiet = False])
        .names(NAMES),
        Function::new(
            "vgdisplay",
            |c| {
                let (name, quiet) = (text(c, "vgname"), c.flag("quiet"));
                Ok(groups(c, &name, quiet)?.into())
            },
            "The volume groups, or one.",
        )
        .args(args![vgname = "", quiet = False])
        .names(NAMES),
        Function::new(
            "lvdisplay",
            |c| {
                let (name, quiet) = (text(c, "lvname"), c.flag("quiet"));
                Ok(logical(c, &name, quiet)?.into())
            },
            "The logical volumes, or one.",
        )
        .args(args![lvname = "", quiet = False])
        .names(NAMES),
        Function::new(
            "pvcreate",
            pvcreate,
            "Makes devices physical volumes; true or an error.",
        )
        .args(&[
            req("devices"),
            opt("override", Lit::Bool(true)),
            opt("force", Lit::Bool(true)),
        ])
        .keywords()
        .names(NAMES),
        Function::new(
            "pvremove",
            pvremove,
            "Makes devices no physical volumes; true or an error.",
        )
        .args(&[
            req("devices"),
            opt("override", Lit::Bool(true)),
            opt("force", Lit::Bool(true)),
        ])
        .names(NAMES),
        Function::new("vgcreate", vgcreate, "Makes a volume group of devices.")
            .args(args![vgname, devices, force = False])
            .keywords()
            .names(NAMES),
        Function::new("vgextend", vgextend, "Adds devices to a volume group.")
            .args(args![vgname, devices, force = False])
            .names(NAMES),
        Function::new("lvcreate", lvcreate, "Makes a logical volume.")
            .args(args![
                lvname,
                vgname,
                size = None,
                extents = None,
                snapshot = None,
                pv = None,
                thinvolume = False,
                thinpool = False,
                force = False
            ])
            .keywords()
            .names(NAMES),
        Function::new(
            "vgremove",
            |c| {
                let name = text(c, "vgname");
                let done = format!("Volume group \"{name}\" successfully removed");
                simple(c, &["vgremove", &name], done)
            },
            "Removes a volume group.",
        )
        .args(args![vgname, force = True])
        .names(NAMES),
        Function::new(
            "lvremove",
            |c| {
                let (name, group) = (text(c, "lvname"), text(c, "vgname"));
                let done = format!("Logical volume \"{name}\" successfully removed");
                simple(c, &["lvremove", &format!("{group}/{name}")], done)
            },
            "Removes a logical volume.",
        )
        .args(args![lvname, vgname, force = True])
        .names(NAMES),
        Function::new(
            "lvresize",
            |c| resize(c, "lvresize", "--force", "resized"),
            "Changes the size of a logical volume.",
        )
        .args(args![
            size = None,
            lvpath = None,
            extents = None,
            force = False,
            resizefs = False
        ])
        .names(NAMES),
        Function::new(
            "lvextend",
            |c| resize(c, "lvextend", "--yes", "extended"),
            "Makes a logical volume larger.",
        )
        .args(args![
            size = None,
            lvpath = None,
            extents = None,
            force = False,
            resizefs = False
        ])
        .names(NAMES),
        Function::new(
            "pvresize",
            pvresize,
            "Adapts physical volumes to the size of their devices; true or an error.",
        )
        .args(&[
            req("devices"),
            opt("override", Lit::Bool(true)),
            opt("force", Lit::Bool(true)),
        ])
        .names(NAMES),
    ],
};

const PHYSICAL: [&str; 11] = [
    "Physical Volume Device",
    "Volume Group Name",
    "Physical Volume Size (kB)",
    "Internal Physical Volume Number",
    "Physical Volume Status",
    "Physical Volume (not) Allocatable",
    "Current Logical Volumes Here",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Free Physical Extents",
    "Allocated Physical Extents",
];

const GROUP: [&str; 17] = [
    "Volume Group Name",
    "Volume Group Access",
    "Volume Group Status",
    "Internal Volume Group Number",
    "Maximum Logical Volumes",
    "Current Logical Volumes",
    "Open Logical Volumes",
    "Maximum Logical Volume Size",
    "Maximum Physical Volumes",
    "Current Physical Volumes",
    "Actual Physical Volumes",
    "Volume Group Size (kB)",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Allocated Physical Extents",
    "Free Physical Extents",
    "UUID",
];

const LOGICAL: [&str; 13] = [
    "Logical Volume Name",
    "Volume Group Name",
    "Logical Volume Access",
    "Logical Volume Status",
    "Internal Logical Volume Number",
    "Open Logical Volumes",
    "Logical Volume Size",
    "Current Logical Extents Associated",
    "Allocated Logical Extents",
    "Allocation Policy",
    "Read Ahead Sectors",
    "Major Device Number",
    "Minor Device Number",
];

fn text(call: &Call<'_>, name: &str) -> String {
    python::str(call.arg(name))
}

fn short() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

fn full_version(call: &mut Call<'_>) -> Result<Map> {
    let mut all = Map::new();
    for line in shell::run(call, &["lvm", "version"])?.lines() {
        let mut parts = line.split(':');
        let (name, value) = (
            parts.next().unwrap_or_default(),
            parts.next().ok_or_else(short)?,
        );
        all.set(name.trim(), value.trim());
    }
    Ok(all)
}

fn version(call: &mut Call<'_>) -> Result {
    let text = shell::run(call, &["lvm", "version"])?;
    let first = text.lines().next().ok_or_else(short)?;
    Ok(first.split(": ").nth(1).ok_or_else(short)?.trim().into())
}

/// What a program shows with `-c`, by the first field of its lines.
fn display(
    call: &mut Call<'_>,
    program: &str,
    name: &str,
    quiet: bool,
    keys: &[&str],
) -> Result<Vec<Map>> {
    let mut argv = vec![program, "-c"];
    argv.extend(Some(name).filter(|name| !name.is_empty()));
    let before = call.retcode.clone();
    let ran = shell::run_all_with(call, &argv, map! {"ignore_retcode" => quiet})?;
    if quiet {
        call.retcode = before;
    }
    if ran.retcode != 0 {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for line in ran
        .stdout
        .lines()
        .filter(|line| !line.contains("is a new physical volume"))
    {
        let values: Vec<&str> = line.trim().split(':').collect();
        let mut one = Map::new();
        for (at, key) in keys.iter().enumerate() {
            one.set(*key, *values.get(at).ok_or_else(short)?);
        }
        all.push(one);
    }
    Ok(all)
}

/// The path without links; as it is if there is none.
fn real_path(path: &str) -> String {
    let real = std::fs::canonicalize(path);
    real.map_or_else(
        |_| path.to_owned(),
        |real| real.to_string_lossy().into_owned(),
    )
}

fn named(list: Vec<Map>, key: &str) -> Map {
    let mut all = Map::new();
    for one in list {
        all.set(one.str(key).unwrap_or_default().to_owned(), one);
    }
    all
}

fn physical(call: &mut Call<'_>, name: &str, real: bool, quiet: bool) -> Result<Map> {
    let list = display(call, "pvdisplay", name, quiet, &PHYSICAL)?;
    if !real {
        return Ok(named(list, PHYSICAL[0]));
    }
    let mut all = Map::new();
    for mut one in list {
        let device = real_path(one.str(PHYSICAL[0]).unwrap_or_default());
        one.set("Real Physical Volume Device", device.as_str());
        all.set(device, one);
    }
    Ok(all)
}

fn groups(call: &mut Call<'_>, name: &str, quiet: bool) -> Result<Map> {
    Ok(named(
        display(call, "vgdisplay", name, quiet, &GROUP)?,
        GROUP[0],
    ))
}

fn logical(call: &mut Call<'_>, name: &str, quiet: bool) -> Result<Map> {
    Ok(named(
        display(call, "lvdisplay", name, quiet, &LOGICAL)?,
        LOGICAL[0],
    ))
}

/// The devices of a call, also given as one text with commas.
fn devices(call: &Call<'_>) -> Vec<String> {
    match call.arg("devices") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Nil => Vec::new(),
        other => python::str(other).split(',').map(str::to_owned).collect(),
    }
}

/// Whether the program may do what it would ask about.
fn answer(call: &Call<'_>) -> &'static str {
    if call.flag("force") { "--yes" } else { "-qq" }
}

/// The options among the keywords, with their values.
fn options(call: &Call<'_>, valid: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in call.bound.kwargs.iter() {
        let key = python::str(key);
        if value.truthy() && valid.contains(&key.as_str()) {
            out.extend([format!("--{key}"), python::str(value)]);
        }
    }
    out
}

/// Runs a program; its errors, or nothing.
fn failure(call: &mut Call<'_>, argv: &[String]) -> Result<Option<String>> {
    let ran = shell::run_all(call, argv)?;
    Ok((ran.retcode != 0).then_some(ran.stderr))
}

fn simple(call: &mut Call<'_>, words: &[&str], done: String) -> Result {
    let mut argv: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    argv.push(answer(call).to_owned());
    let said = failure(call, &argv)?;
    Ok(said.map_or(done, |said| said.trim().to_owned()).into())
}

fn pvcreate(call: &mut Call<'_>) -> Result {
    if !call.flag("devices") {
        return Ok("Error: at least one device is required".into());
    }
    let devices = devices(call);
    let mut argv = vec!["pvcreate".to_owned(), answer(call).to_owned()];
    for device in &devices {
        if !Path::new(device).exists() {
            return Ok(format!("{device} does not exist").into());
        }
        if physical(call, device, false, true)?.is_empty() {
            argv.push(device.clone());
        } else if !call.flag("override") {
            return Ok(format!("Device \"{device}\" is already an LVM physical volume.").into());
        }
    }
    if argv.len() == 2 {
        return Ok(true.into());
    }
    argv.extend(options(
        call,
        &[
            "metadatasize",
            "dataalignment",
            "dataalignmentoffset",
            "pvmetadatacopies",
            "metadatacopies",
            "metadataignore",
            "restorefile",
            "norestorefile",
            "labelsector",
            "setphysicalvolumesize",
        ],
    ));
    if let Some(said) = failure(call, &argv)? {
        return Ok(said.into());
    }
    for device in &devices {
        if physical(call, device, false, false)?.is_empty() {
            return Ok(format!("Device \"{device}\" was not affected.").into());
        }
    }
    Ok(true.into())
}

/// The arguments for devices that are physical volumes; a text if one is not.
fn of_physical(
    call: &mut Call<'_>,
    program: &str,
    devices: &[String],
) -> Result<Result<Vec<String>, String>> {
    let mut argv = vec![program.to_owned(), answer(call).to_owned()];
    for device in devices {
        if !physical(call, device, false, false)?.is_empty() {
            argv.push(device.clone());
        } else if !call.flag("override") {
            return Ok(Err(format!("{device} is not a physical volume")));
        }
    }
    Ok(Ok(argv))
}

fn pvremove(call: &mut Call<'_>) -> Result {
    let devices = devices(call);
    let argv = match of_physical(call, "pvremove", &devices)? {
        Ok(argv) => argv,
        Err(text) => return Ok(text.into()),
    };
    if argv.len() == 2 {
        return Ok(true.into());
    }
    if let Some(said) = failure(call, &argv)? {
        return Ok(said.into());
    }
    for device in &devices {
        if !physical(call, device, false, true)?.is_empty() {
            return Ok(format!("Device \"{device}\" was not affected.").into());
        }
    }
    Ok(true.into())
}

fn pvresize(call: &mut Call<'_>) -> Result {
    let devices = devices(call);
    let argv = match of_physical(call, "pvresize", &devices)? {
        Ok(argv) => argv,
        Err(text) => return Ok(text.into()),
    };
    if argv.len() == 2 {
        return Ok(true.into());
    }
    Ok(failure(call, &argv)?.map_or(true.into(), Value::from))
}

const BOTH: &str = "Error: vgname and device(s) are both required";

fn vgcreate(call: &mut Call<'_>) -> Result {
    if !call.flag("vgname") || !call.flag("devices") {
        return Ok(BOTH.into());
    }
    let name = text(call, "vgname");
    let mut argv = vec!["vgcreate".to_owned(), name.clone()];
    argv.extend(devices(call));
    argv.push(answer(call).to_owned());
    argv.extend(options(
        call,
        &[
            "addtag",
            "alloc",
            "autobackup",
            "clustered",
            "maxlogicalvolumes",
            "maxphysicalvolumes",
            "metadatatype",
            "vgmetadatacopies",
            "metadatacopies",
            "physicalextentsize",
            "zero",
        ],
    ));
    let done = format!("Volume group \"{name}\" successfully created");
    let said = failure(call, &argv)?.map_or(done, |said| said.trim().to_owned());
    let mut data = groups(call, &name, false)?;
    data.set("Output from vgcreate", said);
    Ok(data.into())
}

fn vgextend(call: &mut Call<'_>) -> Result {
    if !call.flag("vgname") || !call.flag("devices") {
        return Ok(BOTH.into());
    }
    let name = text(call, "vgname");
    let mut argv = vec!["vgextend".to_owned(), name.clone(), answer(call).to_owned()];
    argv.extend(devices(call));
    let done = format!("Volume group \"{name}\" successfully extended");
    let said = failure(call, &argv)?.map_or(done, |said| said.trim().to_owned());
    Ok(map! {"Output from vgextend" => said}.into())
}

/// Options of `lvcreate` without and with a value.
const FLAGS: &[&str] = &["nosync", "noudevsync", "ignoremonitoring", "thin"];
const VALUED: &[&str] = &[
    "activate",
    "chunksize",
    "contiguous",
    "discards",
    "stripes",
    "stripesize",
    "minor",
    "persistent",
    "mirrors",
    "monitor",
    "permission",
    "poolmetadatasize",
    "readahead",
    "regionsize",
    "type",
    "virtualsize",
    "zero",
];

fn lvcreate(call: &mut Call<'_>) -> Result {
    let (has_size, has_extents) = (call.flag("size"), call.flag("extents"));
    let (thin, pool) = (call.flag("thinvolume"), call.flag("thinpool"));
    if has_size && has_extents {
        return Ok("Error: Please specify only one of size or extents".into());
    }
    if thin && pool {
        return Ok("Error: Please set only one of thinvolume or thinpool to True".into());
    }
    let program = which("lvcreate");
    let program =
        program.ok_or_else(|| CallError::Command("lvcreate is not installed".to_owned()))?;
    let (name, group) = (text(call, "lvname"), text(call, "vgname"));
    let mut argv = vec![program];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|w| (*w).to_owned()));
    if thin {
        add(&["--thin", "-n", &name]);
    } else if pool {
        add(&["--thinpool", &name]);
    } else {
        add(&["-n", &name]);
    }
    if call.flag("snapshot") {
        add(&["-s", &format!("{group}/{}", text(call, "snapshot"))]);
    } else {
        add(&[&group]);
    }
    if has_size {
        add(&[if thin { "-V" } else { "-L" }, &text(call, "size")]);
    } else if has_extents && thin {
        return Ok("Error: Thin volume size cannot be specified as extents".into());
    } else if has_extents {
        add(&["-l", &text(call, "extents")]);
    } else {
        return Ok("Error: Either size or extents must be specified".into());
    }
    if call.flag("pv") {
        add(&[&text(call, "pv")]);
    }
    for (key, value) in call.bound.kwargs.iter() {
        let key = python::str(key);
        if FLAGS.contains(&key.as_str()) {
            add(&[&format!("--{key}")]);
        } else if VALUED.contains(&key.as_str()) {
            add(&[&format!("--{key}"), &python::str(value)]);
        }
    }
    add(&[answer(call)]);
    let done = format!("Logical volume \"{name}\" created.");
    let said = failure(call, &argv)?.map_or(done, |said| said.trim().to_owned());
    let mut data = logical(call, &format!("/dev/{group}/{name}"), false)?;
    data.set("Output from lvcreate", said);
    Ok(data.into())
}

fn resize(call: &mut Call<'_>, program: &str, force: &str, done: &str) -> Result {
    let (has_size, has_extents) = (call.flag("size"), call.flag("extents"));
    if has_size == has_extents {
        return Ok(Map::new().into());
    }
    let path = text(call, "lvpath");
    let mut argv = vec![program.to_owned()];
    argv.push(if call.flag("force") { force } else { "-qq" }.to_owned());
    if call.flag("resizefs") {
        argv.push("--resizefs".to_owned());
    }
    if has_size {
        argv.extend(["-L".to_owned(), text(call, "size")]);
    } else {
        argv.extend(["-l".to_owned(), text(call, "extents")]);
    }
    argv.push(path.clone());
    let done = format!("Logical volume \"{path}\" successfully {done}.");
    let said = failure(call, &argv)?.map_or(done, |said| said.trim().to_owned());
    Ok(map! {format!("Output from {program}") => said}.into())
}

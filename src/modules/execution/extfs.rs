//! `extfs`: creates, tunes and inspects ext2, ext3 and ext4 file systems.

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell};
use halite_wire::map;
use halite_wire::{Map, Value};

const DUMP: &[Arg] = &[req("device"), opt("args", Lit::Nil)];

pub(super) const MODULE: Module = Module {
    name: "extfs",
    functions: &[
        Function::new(
            "attributes",
            |c| part(c, "attributes"),
            "The attributes of a file system.",
        )
        .args(DUMP),
        Function::new(
            "blocks",
            |c| part(c, "blocks"),
            "The block groups of a file system.",
        )
        .args(DUMP),
        Function::new(
            "dump",
            |c| dumped(c).map(Into::into),
            "Attributes and block groups of a file system.",
        )
        .args(DUMP),
        Function::new(
            "mkfs",
            mkfs,
            "Creates a file system on a device. Existing data are lost.",
        )
        .args(&[
            req("device"),
            req("fs_type"),
            opt("full_return", Lit::Bool(false)),
        ])
        .keywords()
        .names(&["device"]),
        Function::new("tune", tune, "Changes parameters of a file system.")
            .args(&[req("device"), opt("full_return", Lit::Bool(false))])
            .keywords()
            .names(&["device"]),
    ],
};

const MAKE: &[(&str, &str)] = &[
    ("block_size", "-b"),
    ("check", "-c"),
    ("direct", "-D"),
    ("ext_opts", "-E"),
    ("fragment_size", "-f"),
    ("force", "-F"),
    ("blocks_per_group", "-g"),
    ("number_of_groups", "-G"),
    ("bytes_per_inode", "-i"),
    ("inode_size", "-I"),
    ("journal", "-j"),
    ("journal_opts", "-J"),
    ("blocks_file", "-l"),
    ("label", "-L"),
    ("reserved", "-m"),
    ("last_dir", "-M"),
    ("test", "-n"),
    ("number_of_inodes", "-N"),
    ("creator_os", "-o"),
    ("opts", "-O"),
    ("revision", "-r"),
    ("super", "-S"),
    ("usage_type", "-T"),
    ("uuid", "-U"),
    ("cluster_size", "-C"),
    ("root_directory", "-d"),
    ("errors_behavior", "-e"),
];

const TUNE: &[(&str, &str)] = &[
    ("max", "-c"),
    ("count", "-C"),
    ("error", "-e"),
    ("extended_opts", "-E"),
    ("force", "-f"),
    ("group", "-g"),
    ("interval", "-i"),
    ("journal", "-j"),
    ("journal_opts", "-J"),
    ("label", "-L"),
    ("last_dir", "-M"),
    ("opts", "-o"),
    ("feature", "-O"),
    ("mmp_check", "-p"),
    ("reserved", "-r"),
    ("reserved_percentage", "-m"),
    ("quota_opts", "-Q"),
    ("time", "-T"),
    ("user", "-u"),
    ("uuid", "-U"),
];

/// Command line options for keywords; true means an option without value.
fn options(call: &Call<'_>, known: &[(&str, &str)]) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in call.bound.kwargs.iter() {
        let key = python::str(key);
        let Some((_, option)) = known.iter().find(|(name, _)| *name == key) else {
            continue;
        };
        words.push((*option).to_owned());
        let value = python::str(value);
        if !value.eq_ignore_ascii_case("true") {
            words.push(value);
        }
    }
    words
}

/// Runs a program; returns its output lines, or the full result with `full_return`.
fn run(call: &mut Call<'_>, argv: Vec<String>, skipped: &[&str], empty: bool) -> Result {
    call.retcode = 0.into();
    let options = map! {"python_shell" => false};
    let done = call.salt("cmd.run_all", vec![argv.into()], options)?;
    let mut done = done.into_map().unwrap_or_default();
    let text = |key| done.str(key).unwrap_or_default();
    let text = format!("{}\n{}", text("stdout"), text("stderr"));
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| empty || !line.is_empty())
        .filter(|line| !skipped.iter().any(|s| line.starts_with(s)))
        .map(Into::into)
        .collect();
    if !call.flag("full_return") {
        return Ok(lines.into());
    }
    done.set("comment", lines);
    Ok(done.into())
}

fn mkfs(call: &mut Call<'_>) -> Result {
    const PROGRESS: [&str; 6] = [
        "mke2fs",
        "Discarding device blocks",
        "Allocating group tables",
        "Writing inode tables",
        "Creating journal",
        "Writing superblocks",
    ];
    let kind = python::str(call.arg("fs_type"));
    let mut argv = ["mke2fs", "-F", "-t", &kind].map(str::to_owned).to_vec();
    argv.extend(options(call, MAKE));
    argv.push(python::str(call.arg("device")));
    run(call, argv, &PROGRESS, false)
}

fn tune(call: &mut Call<'_>) -> Result {
    let mut argv = vec!["tune2fs".to_owned()];
    argv.extend(options(call, TUNE));
    argv.push(python::str(call.arg("device")));
    run(call, argv, &[], true)
}

fn part(call: &mut Call<'_>, name: &str) -> Result {
    Ok(dumped(call)?.get(name).cloned().into())
}

fn dumped(call: &mut Call<'_>) -> Result<Map> {
    let device = python::str(call.arg("device"));
    let flags = call.text("args").filter(|a| !a.is_empty());
    let flags = flags.map(|f| format!("-{f}"));
    let mut argv = vec!["dumpe2fs", device.as_str()];
    argv.extend(flags.as_deref());
    let text = shell::run(call, &argv)?;
    parse(&text)
}

fn unexpected_output() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

/// Parses `dumpe2fs` output: names and values, then block groups.
fn parse(text: &str) -> Result<Map> {
    let mut attributes = Map::new();
    let mut blocks: Vec<(String, Map)> = Vec::new();
    let mut in_blocks = false;
    for line in text.lines() {
        if line.is_empty() || line.starts_with("dumpe2fs") {
            continue;
        }
        let mut line = line.to_owned();
        if !in_blocks {
            line = line.replace('\t', " ");
            let parts: Vec<&str> = line.split(": ").collect();
            if line.starts_with("Filesystem features") {
                let value = parts.get(1).ok_or_else(unexpected_output)?;
                let words: Vec<Value> = value.split_whitespace().map(Into::into).collect();
                attributes.set(parts[0], words);
            } else if line.starts_with("Group") && !line.starts_with("Group descriptor size") {
                in_blocks = true;
            } else if let Some(value) = parts.get(1) {
                attributes.set(parts[0], value.trim());
            }
        }
        if !in_blocks {
            continue;
        }
        if line.starts_with("Group") {
            let bare = line.replace([':', '(', ')', '[', ']'], "");
            let words: Vec<&str> = bare.split_whitespace().collect();
            let number = words.get(1).ok_or_else(unexpected_output)?;
            let range = words.get(3).ok_or_else(unexpected_output)?;
            let extra: Vec<Value> = Vec::new();
            let group = map! {"group" => *number, "range" => *range, "extra" => extra};
            let name = format!("Group {number}");
            blocks.retain(|(n, _)| *n != name);
            blocks.push((name, group));
            continue;
        }
        let Some((_, group)) = blocks.last_mut() else {
            continue;
        };
        let free = [
            ("Free blocks:", "free blocks"),
            ("Free inodes:", "free inodes"),
        ];
        if let Some((_, key)) = free.iter().find(|(mark, _)| line.contains(mark)) {
            let value = line.split(": ").nth(1).ok_or_else(unexpected_output)?;
            let list: Vec<Value> = value.split(", ").map(Into::into).collect();
            group.set(*key, list);
        } else if let Some(Value::Array(extra)) = group.get_mut("extra") {
            extra.push(line.trim().into());
        }
    }
    let blocks: Map = blocks.into_iter().collect();
    Ok(map! {"attributes" => attributes, "blocks" => blocks})
}

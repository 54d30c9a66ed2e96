//! `slsutil`: helpers for templates and SLS files.

mod configparser;
mod render;
mod serial;
mod toml;

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use crate::files::FileClient;
use halite_render::merge::{MergeError, MergeStrategy, Merger, update as merge_into};
use halite_wire::textwrap::Wrapper;
use halite_wire::{Map, Value};

const TITLE: &str = "THIS FILE IS MANAGED BY SALT - DO NOT EDIT";
const TEXT: &str = "The contents of this file are managed by Salt. Any changes to this file may be \
                    overwritten automatically and without warning.";

pub(super) const MODULE: Module = Module {
    name: "slsutil",
    functions: &[
        Function::new("update", update, "One map merged into another.").args(args![
            dest,
            upd,
            recursive_update = True,
            merge_lists = False
        ]),
        Function::new(
            "merge",
            merge,
            "Merges two maps with one of the pillar's strategies.",
        )
        .args(args![
            obj_a,
            obj_b,
            strategy = "smart",
            renderer = "yaml",
            merge_lists = False
        ]),
        Function::new(
            "merge_all",
            merge_all,
            "Merges all maps of a list with one of the pillar's strategies.",
        )
        .args(args![
            lst,
            strategy = "smart",
            renderer = "yaml",
            merge_lists = False
        ]),
        Function::new(
            "renderer",
            render::renderer,
            "Renders a file or text with a render pipeline.",
        )
        .args(args![
            path = None,
            string = None,
            default_renderer = "jinja|yaml"
        ])
        .keywords(),
        Function::new(
            "serialize",
            serial::serialize,
            "Serializes data: json, yaml, msgpack, toml or configparser.",
        )
        .args(args![serializer, obj])
        .keywords(),
        Function::new(
            "deserialize",
            serial::deserialize,
            "Deserializes text: json, yaml, msgpack, toml or configparser.",
        )
        .args(args![serializer, stream_or_string])
        .keywords(),
        Function::new(
            "banner",
            banner,
            "A framed comment for the head of a managed file.",
        )
        .args(args![
            width = { 72 },
            commentchar = "#",
            borderchar = "#",
            blockstart = None,
            blockend = None,
            title = None,
            text = None,
            newline = False
        ]),
        Function::new(
            "boolstr",
            boolstr,
            "One of two texts, depending on whether a value is true.",
        )
        .args(args![value, true = "true", false = "false"]),
        Function::new(
            "file_exists",
            |c| exists(c, true, false),
            "Whether a file exists on the file server.",
        )
        .args(args![path, saltenv = "base"]),
        Function::new(
            "dir_exists",
            |c| exists(c, false, true),
            "Whether a directory exists on the file server.",
        )
        .args(args![path, saltenv = "base"]),
        Function::new(
            "path_exists",
            |c| exists(c, true, true),
            "Whether a file or directory exists on the file server.",
        )
        .args(args![path, saltenv = "base"]),
        Function::new(
            "findup",
            findup,
            "The first of some file names in a directory of the file server or its parents.",
        )
        .args(args![startpath, filenames, saltenv = "base"]),
    ],
};

fn not_maps() -> CallError {
    CallError::Type(MergeError.to_string())
}

fn update(call: &mut Call<'_>) -> Result {
    let (Value::Map(dest), Value::Map(upd)) = (call.arg("dest"), call.arg("upd")) else {
        return Err(not_maps());
    };
    let mut dest = dest.clone();
    if call.flag("recursive_update") {
        merge_into(&mut dest, upd, call.flag("merge_lists"));
        return Ok(dest.into());
    }
    for (key, value) in upd.iter() {
        match dest.0.iter_mut().find(|(k, _)| k == key) {
            Some(slot) => slot.1 = value.clone(),
            None => dest.0.push((key.clone(), value.clone())),
        }
    }
    Ok(dest.into())
}

fn merger(call: &Call<'_>) -> Merger {
    let word = |name: &str| python::str(call.arg(name));
    Merger {
        strategy: MergeStrategy::of(&word("strategy"), &word("renderer")),
        lists: call.flag("merge_lists"),
    }
}

fn merge(call: &mut Call<'_>) -> Result {
    let Value::Map(first) = call.arg("obj_a").clone() else {
        return Err(not_maps());
    };
    let merged = merger(call).merge_value(first, call.arg("obj_b"));
    Ok(merged.map_err(|_| not_maps())?.into())
}

fn merge_all(call: &mut Call<'_>) -> Result {
    let merger = merger(call);
    let mut merged = Map::new();
    for item in call.arg("lst").as_array().unwrap_or_default() {
        merged = merger.merge_value(merged, item).map_err(|_| not_maps())?;
    }
    Ok(merged.into())
}

/// `str.center`: an odd blank goes to the right if the width is even.
fn centered(text: &str, width: usize) -> String {
    let over = width.saturating_sub(text.chars().count());
    let left = over / 2 + (over & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(over - left))
}

fn banner(call: &mut Call<'_>) -> Result {
    let count = |text: &str| text.chars().count() as i64;
    let width = python::int(call.arg("width"))?.min(10_000);
    let mark = python::str(call.arg("commentchar"));
    let (left, right) = (mark.trim_end(), mark.trim());
    let room = width - count(left) - count(right) - 2;
    if room <= 0 {
        return Err(CallError::Command(
            "Width is too small to render banner".into(),
        ));
    }
    let times = |text: &str, n: i64| text.repeat(usize::try_from(n).unwrap_or(0));
    let border: String = python::str(call.arg("borderchar"))
        .chars()
        .take(1)
        .collect();
    let border = times(&border, width - count(left) - count(right));
    let border = format!("{mark}{border}{right}");
    let spacer = format!("{mark}{}{mark}", times(" ", width - 2 * count(&mark)));
    let room = usize::try_from(room).unwrap_or(1);
    let wrapper = Wrapper {
        width: room,
        break_words: true,
        break_hyphens: true,
    };
    let title = call.text("title").unwrap_or_else(|| TITLE.to_owned());
    let text = call.text("text").unwrap_or_else(|| TEXT.to_owned());
    // Like Python's TextWrapper, replace each white space by one blank.
    let wrap = |text: &str| wrapper.wrap(&text.replace(['\n', '\t', '\r', '\u{b}', '\u{c}'], " "));
    let mut lines: Vec<String> = call.text("blockstart").into_iter().collect();
    lines.extend([border.clone(), spacer.clone()]);
    for line in wrap(&title) {
        lines.push(format!("{left} {} {right}", centered(&line, room)));
    }
    lines.push(spacer);
    for line in wrap(&text) {
        let blanks = " ".repeat(room.saturating_sub(line.chars().count()));
        lines.push(format!("{left} {line}{blanks} {right}"));
    }
    lines.push(border);
    lines.extend(call.text("blockend"));
    let end = if call.flag("newline") { "\n" } else { "" };
    Ok(format!("{}{end}", lines.join("\n")).into())
}

fn boolstr(call: &mut Call<'_>) -> Result {
    let name = if call.flag("value") { "true" } else { "false" };
    Ok(call.arg(name).clone())
}

/// Files on the file server.
struct FileListing {
    files: Vec<String>,
    dirs: Vec<String>,
}

impl FileListing {
    fn new(call: &Call<'_>, files: bool, dirs: bool) -> Result<FileListing> {
        let client = FileClient::new(call.ctx)?;
        let saltenv = python::str(call.arg("saltenv"));
        Ok(FileListing {
            files: if files {
                client.list(&saltenv, "")?
            } else {
                Vec::new()
            },
            dirs: if dirs {
                client.dirs(&saltenv, "")?
            } else {
                Vec::new()
            },
        })
    }

    fn has(&self, path: &str) -> bool {
        [&self.files, &self.dirs]
            .iter()
            .any(|names| names.iter().any(|n| n == path))
    }
}

fn exists(call: &mut Call<'_>, files: bool, dirs: bool) -> Result {
    let listing = FileListing::new(call, files, dirs)?;
    Ok(listing.has(&python::str(call.arg("path"))).into())
}

/// `posixpath.normpath` of a relative path.
fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    if parts.is_empty() && root.is_empty() {
        ".".to_owned()
    } else {
        format!("{root}{}", parts.join("/"))
    }
}

fn findup(call: &mut Call<'_>) -> Result {
    let listing = FileListing::new(call, true, true)?;
    let mut start = match call.arg("startpath") {
        path if path.truthy() => normalize(&python::str(path)),
        _ => String::new(),
    };
    if !start.is_empty() && !listing.has(&start) {
        return Err(CallError::Invocation(format!(
            "Starting path not found in the state tree: {start}"
        )));
    }
    let names = match call.arg("filenames") {
        Value::Str(name) => vec![name.clone()],
        Value::Array(names) => names.iter().map(python::str).collect(),
        _ => {
            return Err(CallError::Invocation(
                "Filenames argument must be a string or list of strings".into(),
            ));
        }
    };
    loop {
        for name in &names {
            let path = if start.is_empty() {
                name.clone()
            } else {
                format!(
                    "{}/{}",
                    start.trim_end_matches('/'),
                    name.trim_start_matches('/')
                )
            };
            if listing.has(&path) {
                return Ok(path.into());
            }
        }
        if start.is_empty() {
            return Err(CallError::Command(
                "File pattern(s) not found in path ancestry".into(),
            ));
        }
        start = start
            .rsplit_once('/')
            .map_or("", |(above, _)| above)
            .to_owned();
    }
}

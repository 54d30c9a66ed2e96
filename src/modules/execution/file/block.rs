//! `file.blockreplace`: replaces the text between two markers.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::codec::{self, Codec};
use super::os;
use super::paths::{self, expanduser};
use super::perms::{Perms, check_perms};
use super::{diff, pattern, text};
use halite_wire::{Value, pylines};

/// The arguments of `file.blockreplace`.
#[derive(Clone, Debug, Default)]
pub struct BlockArgs {
    /// The file.
    pub path: String,
    /// Text contained in the line before the block.
    pub marker_start: String,
    /// Text contained in the line after the block.
    pub marker_end: String,
    /// The block's new content.
    pub content: String,
    /// Append a new block to the file.
    pub append_if_not_found: bool,
    /// Prepend a new block to the file.
    pub prepend_if_not_found: bool,
    /// Extension of the backup.
    pub backup: Option<String>,
    /// Write nothing.
    pub dry_run: bool,
    /// Return a diff.
    pub show_changes: bool,
    /// End the content with a newline; `None` leaves it to the content.
    pub append_newline: Option<bool>,
    /// Insert a new block before the first matching line.
    pub insert_before_match: Value,
    /// Insert a new block after the first matching line.
    pub insert_after_match: Value,
}

/// Writes a block as lines.
struct BlockWriter<'a> {
    block: &'a BlockArgs,
    parts: Vec<&'a str>,
    newline: bool,
}

impl BlockWriter<'_> {
    /// `_add_content`: the block, with or without its first line.
    fn lines(&self, linesep: &str, start: bool, end: Option<&str>) -> Vec<String> {
        let end = end.unwrap_or(&self.block.marker_end);
        let end = format!("{}{linesep}", end.trim_end_matches(['\r', '\n']));
        let mut lines = Vec::new();
        if start {
            lines.push(format!("{}{linesep}", self.block.marker_start));
        }
        let last = self.parts.len() - 1;
        for (i, part) in self.parts.iter().enumerate() {
            if i < last || self.newline {
                lines.push(format!("{part}{linesep}"));
            }
            if i == last {
                lines.push(if self.newline {
                    end.clone()
                } else {
                    format!("{part}{end}")
                });
            }
        }
        lines
    }
}

/// Splits content into lines; only `\r\n` loses its carriage return.
fn parts(content: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = content.split('\n').collect();
    let last = parts.len() - 1;
    for part in &mut parts[..last] {
        *part = part.strip_suffix('\r').unwrap_or(part);
    }
    parts
}

/// The result of searching for the block.
struct BlockSearch {
    orig: Vec<String>,
    new: Vec<String>,
    linesep: String,
    block: bool,
    open: bool,
}

fn find_block(maker: &BlockWriter<'_>, text: &str) -> BlockSearch {
    let block = maker.block;
    let mut found = BlockSearch {
        orig: Vec::new(),
        new: Vec::new(),
        linesep: "\n".to_owned(),
        block: false,
        open: false,
    };
    for (i, line) in pylines::of_file(text).into_iter().enumerate() {
        if i == 0 && line.ends_with("\r\n") {
            found.linesep = "\r\n".to_owned();
        }
        let mut keep = true;
        if line.contains(&block.marker_start) {
            found.open = true;
        } else if found.open {
            keep = false;
            if let Some(at) = line.find(&block.marker_end) {
                found.open = false;
                found.block = true;
                let lines = maker.lines(&found.linesep, false, Some(&line[at..]));
                found.new.extend(lines);
            }
        }
        found.orig.push(line.to_owned());
        if keep {
            found.new.push(line.to_owned());
        }
    }
    found
}

const NOT_FOUND: &str = "Cannot edit marked block. Markers were not found in file.";

/// Inserts a new block.
fn place_block(maker: &BlockWriter<'_>, found: &mut BlockSearch) -> Result<()> {
    let block = maker.block;
    let lines = maker.lines(&found.linesep, true, None);
    if block.prepend_if_not_found {
        found.new.splice(0..0, lines);
        return Ok(());
    }
    if block.append_if_not_found {
        if let Some(last) = found.new.last_mut()
            && !last.ends_with(&found.linesep)
        {
            last.push_str(&found.linesep);
        }
        found.new.extend(lines);
        return Ok(());
    }
    let before = block.insert_before_match.truthy();
    let wanted = if before {
        &block.insert_before_match
    } else {
        &block.insert_after_match
    };
    if !wanted.truthy() {
        return os::command(NOT_FOUND);
    }
    let regex = pattern::text(&python::str(wanted), 0)?;
    let Some(at) = found.orig.iter().position(|l| regex.found_in(l)) else {
        return os::command(NOT_FOUND);
    };
    let at = if before { at } else { at + 1 }.min(found.new.len());
    found.new.splice(at..at, lines);
    Ok(())
}

/// Replaces a block; returns a diff, or whether something changed.
///
/// # Errors
/// The file or the markers are unusable.
pub fn blockreplace(call: &mut Call<'_>, block: &BlockArgs) -> Result {
    let places = [
        block.append_if_not_found,
        block.prepend_if_not_found,
        block.insert_before_match.truthy(),
        block.insert_after_match.truthy(),
    ];
    if places.iter().filter(|p| **p).count() > 1 {
        return os::invocation(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and \
             insert_after_match is permitted",
        );
    }
    let path = expanduser(&block.path);
    if !paths::exists(&path) {
        return os::invocation(format!("File not found: {path}"));
    }
    let codec = codec::guess(&path);
    if text::is_binary_file(&path) && codec.is_none() {
        return os::invocation(format!(
            "Cannot perform string replacements on a binary file: {path}"
        ));
    }
    for (value, name) in [
        (&block.insert_before_match, "insert_before_match"),
        (&block.insert_after_match, "insert_after_match"),
    ] {
        if value.truthy() && value.as_str().is_none() {
            return os::command(format!("RegEx expected in {name} parameter."));
        }
    }
    let maker = BlockWriter {
        parts: parts(&block.content),
        newline: block
            .append_newline
            .unwrap_or(!block.content.ends_with('\n')),
        block,
    };
    let codec = codec.unwrap_or(Codec::Utf8 { mark: false });
    let text = match os::read(&path) {
        Ok(data) => codec.decode(&data)?,
        Err(e) => return os::command(format!("Failed to read from {path}: {e}")),
    };
    let mut found = find_block(&maker, &text);
    if found.open {
        return os::command("Unterminated marked block. End of file reached before marker_end.");
    }
    if !found.block {
        place_block(&maker, &mut found)?;
    }
    let diff = diff::unified(&found.orig, &found.new);
    let changed = !diff.is_empty();
    if changed && !block.dry_run {
        let perms = Perms::read(&path)?;
        if let Some(suffix) = &block.backup {
            let copy = format!("{path}{suffix}");
            os::copy_aside(&path, &copy)?;
            check_perms(call, &copy, None, &perms)?;
        }
        os::write_atomic(&path, &codec.encode(&found.new.concat(), "strict")?)?;
        check_perms(call, &path, None, &perms)?;
    }
    Ok(if block.show_changes {
        diff.into()
    } else {
        changed.into()
    })
}

pub fn blockreplace_function(call: &mut Call<'_>) -> Result {
    let Value::Str(content) = call.arg("content") else {
        return Err(CallError::raised(
            "AttributeError",
            format!(
                "'{}' object has no attribute 'split'",
                python::type_name(call.arg("content"))
            ),
        ));
    };
    let text = |name: &str| call.text(name).unwrap_or_default();
    let block = BlockArgs {
        path: text("path"),
        marker_start: text("marker_start"),
        marker_end: text("marker_end"),
        content: content.clone(),
        append_if_not_found: call.flag("append_if_not_found"),
        prepend_if_not_found: call.flag("prepend_if_not_found"),
        backup: match call.arg("backup") {
            Value::Bool(false) => None,
            other => Some(python::str(other)),
        },
        dry_run: call.flag("dry_run"),
        show_changes: call.flag("show_changes"),
        append_newline: match call.arg("append_newline") {
            Value::Nil => None,
            other => Some(other.truthy()),
        },
        insert_before_match: call.arg("insert_before_match").clone(),
        insert_after_match: call.arg("insert_after_match").clone(),
    };
    blockreplace(call, &block)
}

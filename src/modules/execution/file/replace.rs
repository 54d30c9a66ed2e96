//! `file.replace` and `file.search`: regular expressions on whole files.

use super::super::declare::Result;
use super::super::{Call, python};
use super::codec::Codec;
use super::os::{self, TempFile};
use super::paths::{self, expanduser};
use super::perms::{Perms, check_perms};
use super::{diff, pattern, text};
use halite_target::{RegexTemplate, regex_escape};
use halite_wire::{Value, pylines};

/// The arguments of `file.replace`.
#[derive(Clone, Debug, Default)]
pub struct ReplaceArgs {
    /// The file.
    pub path: String,
    /// What is looked for.
    pub pattern: String,
    /// The replacement.
    pub repl: String,
    /// Maximum number of replacements; 0 means unlimited.
    pub count: usize,
    /// Flags of Python's `re` as a number.
    pub flags: i64,
    /// Append the content if nothing matches.
    pub append_if_not_found: bool,
    /// Prepend the content if nothing matches.
    pub prepend_if_not_found: bool,
    /// The content to add; defaults to the replacement.
    pub not_found_content: Option<String>,
    /// Extension of the backup; empty for none.
    pub backup: String,
    /// Write nothing.
    pub dry_run: bool,
    /// Only report whether there is a match.
    pub search_only: bool,
    /// Return a diff.
    pub show_changes: bool,
    /// A missing file is no error.
    pub ignore_if_missing: bool,
    /// Keep the inode.
    pub preserve_inode: bool,
    /// Treat backslashes in the replacement literally.
    pub backslash_literal: bool,
    /// Encoding of the file; bytes if not given.
    pub encoding: Option<String>,
}

/// How the file content is processed.
enum ContentView {
    /// As bytes, one character each.
    Bytes,
    /// As text in an encoding.
    Text(Codec),
}

impl ContentView {
    /// An argument's text in the form of the content.
    fn encode_arg(&self, text: &str) -> String {
        match self {
            ContentView::Bytes => pylines::latin1(text.as_bytes()),
            ContentView::Text(_) => text.to_owned(),
        }
    }

    fn read(&self, path: &str) -> Result<String> {
        let data = os::read(path)?;
        match self {
            ContentView::Bytes => Ok(pylines::latin1(&data)),
            ContentView::Text(codec) => codec.decode(&data),
        }
    }

    fn to_bytes(&self, text: &str) -> Result<Vec<u8>> {
        match self {
            ContentView::Bytes => Ok(pylines::from_latin1(text)),
            ContentView::Text(codec) => codec.encode(text, "strict"),
        }
    }

    fn lines<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match self {
            ContentView::Bytes => pylines::of_file(text),
            ContentView::Text(_) => pylines::of_text(text),
        }
    }

    /// A line as shown in a diff.
    fn display(&self, line: &str) -> String {
        match self {
            ContentView::Bytes => pylines::decode(&pylines::from_latin1(line)),
            ContentView::Text(_) => line.to_owned(),
        }
    }
}

/// Replaces; returns a diff, whether something changed, or whether there is a match.
///
/// # Errors
/// The file or the pattern is unusable.
pub fn replace(call: &mut Call<'_>, r: &ReplaceArgs) -> Result {
    let given = expanduser(&r.path);
    let link = paths::is_link(&given).then(|| paths::readlink(&given).unwrap_or_default());
    let path = paths::realpath(&given);
    if !paths::exists(&path) {
        return if r.ignore_if_missing {
            Ok(false.into())
        } else {
            os::invocation(format!("File not found: {path}"))
        };
    }
    if r.encoding.is_none() && !text::is_text(&path) {
        return os::invocation(format!(
            "Cannot perform string replacements on a binary file: {path}"
        ));
    }
    if r.search_only && (r.append_if_not_found || r.prepend_if_not_found) {
        return os::invocation("search_only cannot be used with append/prepend_if_not_found");
    }
    if r.append_if_not_found && r.prepend_if_not_found {
        return os::invocation("Only one of append and prepend_if_not_found is permitted");
    }
    let before = Perms::read(&path)?;
    let view = match &r.encoding {
        None => ContentView::Bytes,
        Some(name) => ContentView::Text(Codec::by_name(name)?),
    };
    let regex = match view {
        ContentView::Bytes => pattern::to_bytes(&r.pattern, r.flags)?,
        ContentView::Text(_) => pattern::text(&r.pattern, r.flags)?,
    };
    let original = view.read(&path)?;
    if r.search_only {
        return Ok(regex.found_in(&original).into());
    }
    let repl = view.encode_arg(&r.repl);
    let template = if r.backslash_literal {
        repl.replace('\\', "\\\\")
    } else {
        repl.clone()
    };
    let template = RegexTemplate::new(&template, &regex).map_err(pattern::template_error)?;
    let replaced = regex.replace(&original, &template, r.count, |_| {
        Ok::<(), super::CallError>(())
    })?;
    let mut found = replaced.count > 0;
    let adds = r.append_if_not_found || r.prepend_if_not_found;
    if adds {
        let content = match &r.not_found_content {
            Some(text) if !text.is_empty() => view.encode_arg(text),
            _ => repl.clone(),
        };
        found |= contains(&view, &content, r.flags, &original)?;
    }
    let mut new = replaced.text;
    if !found && adds {
        let content = r.not_found_content.as_ref().map(|t| view.encode_arg(t));
        let content = content.unwrap_or(repl);
        if r.prepend_if_not_found {
            new.insert_str(0, &format!("{content}\n"));
        } else {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            new.push_str(&format!("{content}\n"));
        }
    }
    let changed = new != original;
    if changed && !r.dry_run {
        let data = view.to_bytes(&new)?;
        let copy = copy(&path, r.preserve_inode)?;
        if !found && adds && matches!(view, ContentView::Bytes) {
            os::write_atomic(&path, &data)?
        } else {
            os::overwrite(&path, &data)?
        }
        if !r.backup.is_empty() {
            keep_backup(copy, &path, &r.backup, &given, link.as_deref())?;
        }
    }
    if !r.dry_run {
        check_perms(call, &path, None, &before)?;
    }
    let shown = |text: &str| -> Vec<String> {
        let lines = view.lines(text).into_iter();
        lines.map(|l| view.display(l)).collect()
    };
    let differences = diff::unified(&shown(&original), &shown(&new));
    Ok(if r.show_changes {
        differences.into()
    } else {
        (changed && !differences.is_empty()).into()
    })
}

/// Whether the content to add already exists as a line.
fn contains(view: &ContentView, content: &str, flags: i64, text: &str) -> Result<bool> {
    let line = format!("^{}($|(?=\r\n))", regex_escape(content));
    let regex = match view {
        // The content is already Latin-1.
        ContentView::Bytes => {
            let line = String::from_utf8_lossy(&pylines::from_latin1(&line)).into_owned();
            pattern::to_bytes(&line, flags)?
        }
        ContentView::Text(_) => pattern::text(&line, flags)?,
    };
    Ok(regex.found_in(text))
}

/// Copies a file to the temporary directory, or moves it there (`_mkstemp_copy`).
///
/// # Errors
/// `CommandExecutionError`.
pub fn copy(path: &str, preserve_inode: bool) -> Result<TempFile> {
    let copy = TempFile::with(b"").map_err(|e| {
        super::CallError::Command(format!("Unable to create temp file. Exception: {e}"))
    })?;
    let (done, verb) = if preserve_inode {
        (os::copy2(path, &copy.path()), "copy")
    } else {
        (os::move_to(path, &copy.path()), "move")
    };
    match done {
        Ok(()) => Ok(copy),
        Err(e) => os::command(format!(
            "Unable to {verb} file '{path}' to the temp file '{}'. Exception: {e}",
            copy.path()
        )),
    }
}

/// Turns the copy into the backup; for a link, creates a link to it as well.
fn keep_backup(
    copy: TempFile,
    path: &str,
    backup: &str,
    given: &str,
    link: Option<&str>,
) -> Result<()> {
    let name = format!("{path}{backup}");
    if let Err(e) = os::move_to(&copy.path(), &name) {
        return os::command(format!(
            "Unable to move the temp file '{path}' to the backup file '{}'. Exception: {e}",
            copy.path()
        ));
    }
    let Some(target) = link else {
        return Ok(());
    };
    let (own, target) = (format!("{given}{backup}"), format!("{target}{backup}"));
    let make = || os::symlink(&target, &own);
    make().or_else(|_| os::unlink(&own).and_then(|()| make()))
}

pub fn replace_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let request = ReplaceArgs {
        path: text("path"),
        pattern: text("pattern"),
        repl: python::str(call.arg("repl")),
        count: usize::try_from(python::int(call.arg("count"))?).unwrap_or(0),
        flags: pattern::flags(call.arg("flags"))?,
        append_if_not_found: call.flag("append_if_not_found"),
        prepend_if_not_found: call.flag("prepend_if_not_found"),
        not_found_content: call.text("not_found_content"),
        backup: suffix(call.arg("backup")),
        dry_run: call.flag("dry_run"),
        search_only: call.flag("search_only"),
        show_changes: call.flag("show_changes"),
        ignore_if_missing: call.flag("ignore_if_missing"),
        preserve_inode: call.flag("preserve_inode"),
        backslash_literal: call.flag("backslash_literal"),
        encoding: call.text("encoding"),
    };
    replace(call, &request)
}

/// Extension of the backup; empty for false.
pub fn suffix(value: &Value) -> String {
    if value.truthy() {
        python::str(value)
    } else {
        String::new()
    }
}

pub fn search_function(call: &mut Call<'_>) -> Result {
    let mut flags = pattern::flags(call.arg("flags"))?;
    if call.flag("multiline") {
        flags |= pattern::MULTILINE;
    }
    let request = ReplaceArgs {
        path: call.text("path").unwrap_or_default(),
        pattern: call.text("pattern").unwrap_or_default(),
        flags,
        dry_run: true,
        search_only: true,
        ignore_if_missing: call.flag("ignore_if_missing"),
        ..ReplaceArgs::default()
    };
    replace(call, &request)
}

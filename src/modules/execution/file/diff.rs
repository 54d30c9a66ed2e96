//! Differences between files (`file.get_diff`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::{source, text};
use halite_wire::map;
use halite_wire::{Map, Value, difflib, pylines, pytext};

/// Shown in place of a secret diff.
pub const OBFUSCATED: &str = "<Obfuscated Template>";

/// A unified diff without file names (`salt/utils/stringutils.py get_diff`).
pub fn unified<S: AsRef<str>>(a: &[S], b: &[S]) -> String {
    difflib::unified_diff(a, b, "", "")
}

/// Differences that do not count as changes.
#[derive(Clone, Debug, Default)]
pub struct IgnoredChanges {
    /// The order of lines.
    pub ordering: bool,
    /// White space at line ends.
    pub whitespace: bool,
    /// Text after any of these, given as text or list.
    pub comments: Value,
}

impl IgnoredChanges {
    /// From the arguments `ignore_ordering`, `ignore_whitespace`, `ignore_comment_characters`.
    pub fn from_call(call: &Call<'_>) -> IgnoredChanges {
        IgnoredChanges {
            ordering: call.flag("ignore_ordering"),
            whitespace: call.flag("ignore_whitespace"),
            comments: call.arg("ignore_comment_characters").clone(),
        }
    }

    /// Whether anything is ignored.
    pub fn any(&self) -> bool {
        self.ordering || self.whitespace || self.comments.truthy()
    }

    /// Whether a diff has changes that count (`get_conditional_diff`).
    fn counts(&self, diff: &[String]) -> bool {
        let comments = match &self.comments {
            Value::Str(text) => vec![text.clone()],
            Value::Array(list) => list.iter().map(python::str).collect(),
            _ => Vec::new(),
        };
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for line in diff {
            if line.starts_with("+++") || line.starts_with("---") {
                continue;
            }
            let (list, text) = match (line.strip_prefix('+'), line.strip_prefix('-')) {
                (Some(text), _) => (&mut added, text),
                (_, Some(text)) => (&mut removed, text),
                _ => continue,
            };
            let mut text = text;
            for sign in &comments {
                text = text
                    .split_once(sign.as_str())
                    .map_or(text, |(head, _)| head);
            }
            if self.whitespace {
                text = text.trim_matches(pytext::is_space);
            }
            if !text.is_empty() {
                list.push(text);
            }
        }
        added.sort_unstable();
        removed.sort_unstable();
        added != removed
    }
}

/// How to compare two files.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// The environment of `salt://` URLs.
    pub saltenv: String,
    /// Include file names in the diff.
    pub show_filenames: bool,
    /// Show the diff.
    pub show_changes: bool,
    /// The files come from templates, which may be secret.
    pub template: bool,
    /// Hashes of both files, in case they must be fetched.
    pub source_hashes: [Value; 2],
    /// Changes to ignore.
    pub ignore: IgnoredChanges,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions {
            saltenv: "base".to_owned(),
            show_filenames: false,
            show_changes: true,
            template: false,
            source_hashes: Default::default(),
            ignore: IgnoredChanges::default(),
        }
    }
}

/// The difference between two files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// The diff to show; empty if there is none.
    pub text: String,
    /// Whether the changes count; `None` if nothing is ignored.
    pub counts: Option<bool>,
}

impl Diff {
    /// The form functions return.
    pub fn value(self) -> Value {
        match self.counts {
            None => self.text.into(),
            Some(counts) => Value::Array(vec![counts.into(), self.text.into()]),
        }
    }
}

/// Whether diffs of templates are hidden.
pub fn obfuscates(call: &mut Call<'_>) -> Result<bool> {
    let value = call.salt(
        "config.option",
        vec!["obfuscate_templates".into()],
        Map::new(),
    )?;
    Ok(value.truthy())
}

/// Compares two files, local or from the file server.
///
/// # Errors
/// `CommandExecutionError`: a file is not available.
pub fn get_diff(call: &mut Call<'_>, files: [&str; 2], how: &DiffOptions) -> Result<Diff> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for (file, hash) in files.iter().zip(&how.source_hashes) {
        let with = map! {"source_hash" => hash.clone()};
        match source::cache_file(call, file, &how.saltenv, with) {
            Ok(Some(path)) => found.push(path),
            Ok(None) => errors.push(format!("File {file} not found")),
            Err(CallError::Raised(class, text)) if class == "salt.exceptions.MinionError" => {
                errors.push(text);
            }
            Err(e) => return Err(e),
        }
    }
    if !errors.is_empty() {
        let listed: Vec<String> = errors.iter().map(|e| format!("- {e}")).collect();
        return os::command(format!(
            "Failed to cache one or more files. Additional info follows:\n\n{}",
            listed.join("\n")
        ));
    }
    let mut data = Vec::new();
    for path in &found {
        let opened = halite_sys::safe_open::open_finite(path.as_ref()).and_then(|file| {
            if file.metadata()?.is_dir() {
                Err(std::io::Error::from_raw_os_error(
                    nix::errno::Errno::EISDIR as i32,
                ))
            } else {
                Ok(())
            }
        });
        match opened {
            Ok(()) => data.push(os::read(path)?),
            Err(e) => {
                return os::command(format!("Failed to read {path}: {}", os::strerror(&e)));
            }
        }
    }
    let counts = how.ignore.any().then_some(false);
    if data[0] == data[1] {
        return Ok(Diff {
            text: String::new(),
            counts,
        });
    }
    // Stock returns a plain text in these cases, which its own callers then cannot unpack.
    let bare = |text: &str| Diff {
        text: text.to_owned(),
        counts: counts.map(|_| true),
    };
    if how.template && obfuscates(call)? {
        return Ok(bare(OBFUSCATED));
    }
    if !how.show_changes {
        return Ok(bare("<show_changes=False>"));
    }
    let first = |data: &[u8]| text::is_binary(&data[..data.len().min(512)]);
    match (first(&data[0]), first(&data[1])) {
        (false, false) => {}
        (true, true) => return Ok(bare("Replace binary file")),
        (true, false) => return Ok(bare("Replace binary file with text file")),
        (false, true) => return Ok(bare("Replace text file with binary file")),
    }
    let lines = |data: &[u8]| -> Vec<String> {
        let lines = pylines::split_bytes(data).into_iter();
        lines.map(pylines::decode).collect()
    };
    let names = if how.show_filenames {
        [found[0].as_str(), found[1].as_str()]
    } else {
        ["", ""]
    };
    let diff = difflib::unified_lines(&lines(&data[0]), &lines(&data[1]), names[0], names[1]);
    Ok(Diff {
        counts: counts.map(|_| how.ignore.counts(&diff)),
        text: diff.concat(),
    })
}

pub fn get_diff_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let (file1, file2) = (text("file1"), text("file2"));
    let how = DiffOptions {
        saltenv: text("saltenv"),
        show_filenames: call.flag("show_filenames"),
        show_changes: call.flag("show_changes"),
        template: call.flag("template"),
        source_hashes: ["source_hash_file1", "source_hash_file2"].map(|n| call.arg(n).clone()),
        ignore: IgnoredChanges::from_call(call),
    };
    Ok(get_diff(call, [&file1, &file2], &how)?.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_changes() {
        let a = ["b\n", "a # old\n", " c\n"];
        let b = ["a # new\n", "b\n", "c\n"];
        let diff = difflib::unified_lines(&a, &b, "", "");
        let ignore = |ordering, whitespace, comments: Value| {
            IgnoredChanges {
                ordering,
                whitespace,
                comments,
            }
            .counts(&diff)
        };
        assert!(ignore(true, false, Value::Nil));
        assert!(ignore(true, true, Value::Nil));
        assert!(!ignore(true, true, "#".into()));
    }
}

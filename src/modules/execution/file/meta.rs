//! Pending changes of a managed file (`file.check_file_meta`, `file.check_managed*`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::diff::{self, Diff, IgnoredChanges};
use super::managed::{self, ManagedContent};
use super::os::{self, TempFile};
use super::perms::Perms;
use super::source;
use super::stat::Stats;
use super::{attrs, selinux};
use crate::files::FileHash;
use halite_wire::map;
use halite_wire::{Map, Value, pytext};

/// Arguments of `file.check_file_meta`.
#[derive(Clone, Debug, Default)]
pub struct MetaArgs {
    /// The file.
    pub name: String,
    /// A local file with the wanted content; empty if not fetched yet.
    pub sfn: String,
    /// Where the content comes from.
    pub source: Value,
    /// The hash of the content.
    pub source_sum: Option<FileHash>,
    /// Owner, group, mode, attributes, context.
    pub perms: Perms,
    /// The environment.
    pub saltenv: String,
    /// The content itself.
    pub contents: Value,
    /// Verify certificates of web sources.
    pub verify_ssl: Value,
    /// Changes to ignore.
    pub ignore: IgnoredChanges,
    /// Show a new file as a diff.
    pub new_file_diff: bool,
}

/// Pending changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Changed values by name.
    pub changes: Map,
    /// Whether the changes count; `None` if nothing is ignored.
    pub counts: Option<bool>,
}

impl Changes {
    fn value(self) -> Value {
        match self.counts {
            None => self.changes.into(),
            Some(counts) => Value::Array(vec![counts.into(), self.changes.into()]),
        }
    }
}

/// An argument's content as bytes.
///
/// # Errors
/// `TypeError`: neither text nor bytes.
pub fn to_bytes(contents: &Value) -> Result<Vec<u8>> {
    match contents {
        Value::Str(text) => Ok(text.clone().into_bytes()),
        Value::Bytes(data) => Ok(data.clone()),
        other => Err(CallError::Type(format!(
            "expected str, bytes, or bytearray not {}",
            python::class(other)
        ))),
    }
}

/// The pending changes of a file.
///
/// # Errors
/// The content is not available.
pub fn check_file_meta(call: &mut Call<'_>, m: &MetaArgs) -> Result<Changes> {
    let mut out = Changes {
        changes: Map::new(),
        counts: m.ignore.any().then_some(false),
    };
    let sum = m.source_sum.clone().unwrap_or_default();
    let stats = Stats::with_hash(&m.name, m.perms.follow_symlinks, &sum.hash_type);
    let stats = match stats {
        Ok(stats) => Some(stats),
        Err(CallError::Command(_)) => None,
        Err(e) => return Err(e),
    };
    if stats.is_none() && !m.new_file_diff {
        out.changes.set("newfile", m.name.as_str());
        out.counts = out.counts.map(|_| true);
        return Ok(out);
    }
    if m.source_sum.is_some() {
        let there = stats.as_ref().and_then(|s| s.sum.as_deref());
        if there != Some(sum.hsum.as_str()) {
            compare_source(call, m, &sum, stats.is_some(), &mut out)?;
        }
    }
    if !m.contents.is_nil() {
        compare_contents(call, m, stats.is_some(), &mut out)?;
    }
    if let Some(stats) = stats {
        compare_perms(call, m, &stats, &mut out.changes)?;
    }
    Ok(out)
}

/// The difference between the current file, if any, and a new one.
fn compare(
    call: &mut Call<'_>,
    m: &MetaArgs,
    there: bool,
    file: &str,
    template: bool,
) -> Result<Result<Diff, String>> {
    let how = diff::DiffOptions {
        template,
        ignore: m.ignore.clone(),
        ..diff::DiffOptions::default()
    };
    let found = if there || m.ignore.any() {
        diff::get_diff(call, [&m.name, file], &how)
    } else {
        let empty = TempFile::with(b"")?;
        diff::get_diff(call, [&empty.path(), file], &diff::DiffOptions::default())
    };
    match found {
        Ok(diff) => Ok(Ok(diff)),
        Err(e) => source::only_command(e).map(Err),
    }
}

fn compare_source(
    call: &mut Call<'_>,
    m: &MetaArgs,
    sum: &FileHash,
    there: bool,
    out: &mut Changes,
) -> Result<()> {
    let mut sfn = m.sfn.clone();
    if sfn.is_empty() && m.source.truthy() {
        let with = map! {"source_hash" => sum.hsum.as_str(), "verify_ssl" => m.verify_ssl.clone()};
        let url = python::str(&m.source);
        sfn = source::cache_file(call, &url, &m.saltenv, with)?.unwrap_or_default();
    }
    if sfn.is_empty() {
        out.changes.set("sum", "Checksum differs");
        return Ok(());
    }
    match compare(call, m, there, &sfn, true)? {
        Ok(diff) => {
            out.counts = diff.counts.or(out.counts);
            out.changes.set("diff", diff.text);
        }
        Err(text) => out.changes.set("diff", text),
    }
    Ok(())
}

fn compare_contents(
    call: &mut Call<'_>,
    m: &MetaArgs,
    there: bool,
    out: &mut Changes,
) -> Result<()> {
    let file = TempFile::with(&to_bytes(&m.contents)?)?;
    let differences = match compare(call, m, there, &file.path(), false)? {
        Ok(diff) => {
            out.counts = diff.counts.or(out.counts);
            diff.text
        }
        Err(text) => text,
    };
    if !differences.is_empty() {
        let shown = if diff::obfuscates(call)? {
            diff::OBFUSCATED.to_owned()
        } else {
            differences
        };
        out.changes.set("diff", shown);
    }
    Ok(())
}

fn compare_perms(
    call: &mut Call<'_>,
    m: &MetaArgs,
    stats: &Stats,
    changes: &mut Map,
) -> Result<()> {
    let want = &m.perms;
    if !want.user.is_nil() && !stats.is_user(&want.user) {
        changes.set("user", want.user.clone());
    }
    if !want.group.is_nil() && !stats.is_group(&want.group) {
        changes.set("group", want.group.clone());
    }
    if let Some(mode) = os::normalize_mode(&want.mode).filter(|mode| *mode != stats.mode) {
        changes.set("mode", mode);
    }
    if want.attrs.truthy() {
        let diff = attrs::compare(call, &m.name, &python::str(&want.attrs))?;
        if diff.is_some_and(|d| d.any()) {
            changes.set("attrs", want.attrs.clone());
        }
    }
    if !want.selinux.is_set() {
        return Ok(());
    }
    let Some(current) = selinux::context_fields(&selinux::context(call, &m.name)?) else {
        return Err(CallError::raised(
            "AttributeError",
            "'ValueError' object has no attribute 'strerror'",
        ));
    };
    let names = ["user", "role", "type", "range"];
    for (i, wanted) in want.selinux.words.iter().enumerate() {
        if !wanted.is_empty() && *wanted != current[i] {
            changes.set("selinux", map! {names[i] => wanted.as_str()});
        }
    }
    Ok(())
}

/// The arguments that functions on managed files share.
pub fn perms_of(call: &Call<'_>) -> Perms {
    Perms {
        user: call.arg("user").clone(),
        group: call.arg("group").clone(),
        mode: call.arg("mode").clone(),
        attrs: call.arg("attrs").clone(),
        follow_symlinks: call.flag("follow_symlinks"),
        selinux: selinux::WantedContext::from_call(call),
    }
}

pub fn check_file_meta_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let request = MetaArgs {
        name: text("name"),
        sfn: text("sfn"),
        source: call.arg("source").clone(),
        source_sum: FileHash::from_value(call.arg("source_sum")),
        perms: perms_of(call),
        saltenv: text("saltenv"),
        contents: call.arg("contents").clone(),
        verify_ssl: call.arg("verify_ssl").clone(),
        ignore: IgnoredChanges::from_call(call),
        new_file_diff: call.flag("new_file_diff"),
    };
    Ok(check_file_meta(call, &request)?.value())
}

/// A check of a managed file: source and wanted state.
#[derive(Clone, Debug, Default)]
pub struct CheckArgs {
    /// The source; its `source` and `source_hash` may be lists.
    pub get: managed::GetManagedArgs,
    /// Owner, group, mode, attributes, context.
    pub perms: Perms,
    /// The content itself.
    pub contents: Value,
    /// Use the source's mode.
    pub keep_mode: bool,
    /// Show a new file as a diff.
    pub new_file_diff: bool,
}

/// Pending changes of a managed file, or why there can be none (`file.check_managed_changes`).
///
/// # Errors
/// No source is available.
pub fn check_managed_changes(
    call: &mut Call<'_>,
    c: &CheckArgs,
) -> Result<Result<Changes, String>> {
    let mut get = c.get.clone();
    (get.source, get.source_hash) =
        source::source_list(call, &get.source, &get.source_hash, &get.saltenv)?;
    let mut perms = c.perms.clone();
    let mut found = ManagedContent::default();
    if c.contents.is_nil() {
        found = managed::get_managed(call, &get)?;
        if let Some(sum) = &mut found.sum {
            sum.hsum = sum.hsum.to_lowercase();
        }
        if !found.comment.is_empty() {
            source::clean_tmp(call, &found.sfn);
            return Ok(Err(found.comment));
        }
        if c.keep_mode && !found.sfn.is_empty() && get.source.truthy() {
            let url = python::str(&get.source);
            let scheme = source::urlparse(&url).scheme;
            if matches!(scheme.as_str(), "salt" | "file") || url.starts_with('/') {
                match source::stat_file(call, &url, &get.saltenv) {
                    Ok(mode) => perms.mode = mode,
                    Err(e) => log::warn!("Unable to stat {}: {e}", found.sfn),
                }
            }
        }
    }
    let request = MetaArgs {
        name: get.name.clone(),
        sfn: found.sfn.clone(),
        source: get.source.clone(),
        source_sum: found.sum,
        perms,
        saltenv: get.saltenv.clone(),
        contents: c.contents.clone(),
        verify_ssl: true.into(),
        ignore: get.ignore.clone(),
        new_file_diff: c.new_file_diff,
    };
    let changes = check_file_meta(call, &request);
    source::clean_tmp(call, &found.sfn);
    changes.map(Ok)
}

fn check_of(call: &Call<'_>) -> CheckArgs {
    CheckArgs {
        get: managed::GetManagedArgs::from_call(call),
        perms: perms_of(call),
        contents: call.arg("contents").clone(),
        keep_mode: call.flag("keep_mode"),
        new_file_diff: call.flag("new_file_diff"),
    }
}

pub fn check_managed_changes_function(call: &mut Call<'_>) -> Result {
    let check = check_of(call);
    Ok(match check_managed_changes(call, &check)? {
        Ok(changes) => changes.value(),
        Err(comment) => Value::Array(vec![false.into(), comment.into()]),
    })
}

pub fn check_managed_function(call: &mut Call<'_>) -> Result {
    let check = check_of(call);
    let pair = |result: Value, text: String| Ok(Value::Array(vec![result, text.into()]));
    let mut changes = match check_managed_changes(call, &check)? {
        Ok(found) => found.changes,
        Err(comment) => return pair(false.into(), comment),
    };
    let name = &check.get.name;
    if name.starts_with(&*os::temp_dir().to_string_lossy()) {
        for key in ["user", "group", "mode"] {
            changes.remove(key);
        }
    }
    if changes.is_empty() {
        return pair(
            true.into(),
            format!("The file {name} is in the correct state"),
        );
    }
    let mut text = "The following values are set to be changed:\n".to_owned();
    for (key, value) in changes.iter() {
        text.push_str(&format!("{}: {}\n", pytext::str(key), pytext::str(value)));
    }
    pair(Value::Nil, text)
}

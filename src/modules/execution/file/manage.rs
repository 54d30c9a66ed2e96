//! Brings a file to its wanted content, owner and mode (`file.manage_file`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::backup::replace_file;
use super::codec::Codec;
use super::contents::touch;
use super::diff::{self, IgnoredChanges};
use super::meta;
use super::os::{self, TempFile};
use super::paths::{self, expanduser};
use super::perms::{Perms, check_more_perms, has_changes, is_test};
use super::source::{self, Signature};
use super::sums;
use super::tree::{self, NewNodeArgs};
use crate::files::FileHash;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::os::unix::fs::OpenOptionsExt;

/// Arguments of `file.manage_file`.
#[derive(Clone, Debug, Default)]
pub struct ManageArgs {
    /// The file.
    pub name: String,
    /// A local file with the content; empty if not fetched yet.
    pub sfn: String,
    /// The content, if it was rendered and is in no file.
    pub text: Option<String>,
    /// Where the content comes from.
    pub source: Value,
    /// The hash of the content.
    pub source_sum: Option<FileHash>,
    /// Owner, group, mode, attributes, context.
    pub perms: Perms,
    /// The environment.
    pub saltenv: String,
    /// Backup mode: `minion`, `both`, or nil for the configured one.
    pub backup: Value,
    /// Create missing parent directories.
    pub makedirs: bool,
    /// Show differences.
    pub show_changes: bool,
    /// The content itself.
    pub contents: Value,
    /// The mode of created directories.
    pub dir_mode: Value,
    /// Do not require a hash.
    pub skip_verify: bool,
    /// Use the source's mode.
    pub keep_mode: bool,
    /// Encoding of the content.
    pub encoding: Value,
    /// How to treat characters the encoding lacks.
    pub encoding_errors: String,
    /// Verify certificates of web sources.
    pub verify_ssl: Value,
    /// Let the web server decide by `ETag` whether a file is new.
    pub use_etag: bool,
    /// Required signatures of the content.
    pub signature: Signature,
    /// Changes to ignore.
    pub ignore: IgnoredChanges,
    /// Show a new file as a diff.
    pub new_file_diff: bool,
}

/// A run of `manage_file`: the request, intermediate results and the state return.
struct ManageRun<'a> {
    m: &'a ManageArgs,
    name: String,
    sfn: String,
    sum: Option<FileHash>,
    perms: Perms,
    ret: Map,
    counts: bool,
}

/// Why a run ends early.
enum EarlyReturn {
    Done,
    Raised(CallError),
}

impl From<CallError> for EarlyReturn {
    fn from(fault: CallError) -> EarlyReturn {
        EarlyReturn::Raised(fault)
    }
}

type StepResult<T = ()> = Result<T, EarlyReturn>;

/// Manages a file. `ret` is a state return to continue, if any.
///
/// # Errors
/// Errors other than those about the file itself, which are in the return.
pub fn manage_file(call: &mut Call<'_>, m: &ManageArgs, ret: Option<Map>) -> Result<Map> {
    let name = expanduser(&m.name);
    let ret = ret.filter(|r| !r.is_empty()).unwrap_or_else(
        || map! {"name" => name.as_str(), "changes" => Map::new(), "comment" => "", "result" => true},
    );
    let mut run = ManageRun {
        sfn: m.sfn.clone(),
        sum: m.source_sum.clone(),
        perms: m.perms.clone(),
        m,
        name,
        ret,
        counts: false,
    };
    if let Some(sum) = &mut run.sum {
        sum.hsum = sum.hsum.to_lowercase();
    }
    let done = (|| {
        run.prepare(call)?;
        if paths::is_file(&run.name) || paths::is_link(&run.name) {
            run.existing(call)
        } else {
            run.new_file(call)
        }
    })();
    if m.text.is_some() {
        source::clean_tmp(call, &run.sfn);
    }
    match done {
        Ok(()) | Err(EarlyReturn::Done) => Ok(run.ret),
        Err(EarlyReturn::Raised(fault)) => Err(fault),
    }
}

impl ManageRun<'_> {
    fn source(&self) -> Option<String> {
        self.m.source.truthy().then(|| python::str(&self.m.source))
    }

    /// `_error`.
    fn stop<T>(&mut self, comment: impl Into<String>) -> StepResult<T> {
        self.ret.set("result", false);
        self.ret.set("comment", comment.into());
        Err(EarlyReturn::Done)
    }

    fn change(&mut self, key: &str, text: impl Into<String>) {
        if let Some(Value::Map(changes)) = self.ret.get_mut("changes") {
            changes.set(key, text.into());
        }
    }

    fn fetch(&mut self, call: &mut Call<'_>, with: Map) -> StepResult {
        if !self.sfn.is_empty() {
            return Ok(());
        }
        if let Some(text) = &self.m.text {
            self.sfn = TempFile::with(text.as_bytes())?.persist();
            return Ok(());
        }
        let url = python::str(&self.m.source);
        match source::cache_file(call, &url, &self.m.saltenv, with)? {
            Some(found) => {
                self.sfn = found;
                Ok(())
            }
            None => self.stop(format!("Source file '{url}' not found")),
        }
    }

    fn hash_type(&self, call: &Call<'_>) -> String {
        let own = self.sum.as_ref().map(|s| s.hash_type.clone());
        own.unwrap_or_else(|| {
            call.ctx
                .opts
                .str("hash_type")
                .unwrap_or("sha256")
                .to_owned()
        })
    }

    fn prepare(&mut self, call: &mut Call<'_>) -> StepResult {
        let Some(url) = self.source() else {
            return Ok(());
        };
        if self.sfn.is_empty() && self.m.text.is_none() {
            self.fetch(call, map! {"verify_ssl" => self.m.verify_ssl.clone()})?;
            let kind = self.hash_type(call);
            self.sum = Some(FileHash::new(sums::get_hash(&self.sfn, &kind)?, kind));
        }
        let scheme = source::urlparse(&url).scheme;
        if self.m.keep_mode && matches!(scheme.as_str(), "salt" | "file" | "") {
            match source::stat_file(call, &url, &self.m.saltenv) {
                Ok(mode) => self.perms.mode = mode,
                Err(e) => log::warn!("Unable to stat {}: {e}", self.sfn),
            }
        }
        Ok(())
    }

    /// Checks that the content has the expected hash; `of` names it in the comment.
    fn verify(&mut self, call: &mut Call<'_>, of: &str, hint: &str) -> StepResult {
        let scheme = self.source().map(|url| source::urlparse(&url).scheme);
        let remote = scheme.is_some_and(|s| s != "salt");
        if remote && !self.m.skip_verify && !self.m.use_etag {
            let Some(sum) = self.sum.clone() else {
                return Err(CallError::raised("KeyError", "'hash_type'").into());
            };
            let there = sums::get_hash(&self.sfn, &sum.hash_type)?;
            if there != sum.hsum {
                return self.stop(format!(
                    "Specified {} checksum for {of} ({}) does not match actual checksum ({there}){hint}",
                    sum.hash_type, sum.hsum
                ));
            }
        }
        if !self.m.signature.is_required() {
            return Ok(());
        }
        let m = self.m;
        let checked =
            source::check_signature(call, &self.sfn, &m.signature, &m.saltenv, &m.verify_ssl);
        match checked {
            Err(CallError::Command(why)) => {
                self.stop(format!("Failed checking new file's signature: {why}"))
            }
            other => Ok(other?),
        }
    }

    fn backup_mode(&self, call: &mut Call<'_>) -> Result<String> {
        if self.m.backup.truthy() {
            return Ok(python::str(&self.m.backup));
        }
        let mode = call.salt("config.option", vec!["backup_mode".into()], Map::new())?;
        Ok(python::str(&mode))
    }

    /// Puts a file in place of another.
    fn commit(&mut self, call: &mut Call<'_>, from: &str, to: &str) -> StepResult {
        let mode = self.backup_mode(call)?;
        match replace_file(call, from, to, &mode) {
            Err(e) if os::is_os_error(&e) => {
                source::clean_tmp(call, from);
                self.stop(format!("Failed to commit change: {e}"))
            }
            other => Ok(other?),
        }
    }

    fn how(&self, template: bool) -> diff::DiffOptions {
        diff::DiffOptions {
            template,
            show_changes: !template || self.m.show_changes,
            ignore: self.m.ignore.clone(),
            ..diff::DiffOptions::default()
        }
    }

    /// The content to write, if given.
    fn encoded(&self) -> Result<Option<TempFile>> {
        if self.m.contents.is_nil() {
            return Ok(None);
        }
        let data = match (&self.m.contents, self.m.encoding.truthy()) {
            (Value::Str(text), true) => Codec::by_name(&python::str(&self.m.encoding))?
                .encode(text, &self.m.encoding_errors)?,
            (other, _) => meta::to_bytes(other)?,
        };
        TempFile::with(&data).map(Some)
    }

    fn existing(&mut self, call: &mut Call<'_>) -> StepResult {
        let follow = self.perms.follow_symlinks;
        let is_link = paths::is_link(&self.name);
        let real = if is_link && follow {
            paths::realpath(&self.name)
        } else {
            self.name.clone()
        };
        if let Some(url) = self.source() {
            let kind = self.hash_type(call);
            let own = if !follow && paths::is_link(&real) {
                None
            } else {
                Some(sums::get_hash(&real, &kind)?)
            };
            let wanted = self.sum.as_ref().map(|s| s.hsum.clone());
            if own.is_none() || own != wanted {
                self.replace_by_source(call, &url, &real)?;
            }
        }
        if let Some(content) = self.encoded()? {
            self.replace_by_contents(call, &content.path(), &real)?;
        }
        // Writing the content may have replaced the link.
        if paths::is_link(&self.name) && !follow {
            self.fetch(call, map! {"verify_ssl" => self.m.verify_ssl.clone()})?;
            self.verify(call, &self.name.clone(), "")?;
            let (sfn, name) = (self.sfn.clone(), self.name.clone());
            self.commit(call, &sfn, &name)?;
            self.change("diff", "Replace symbolic link with regular file");
        }
        check_more_perms(call, &self.name, &mut self.ret, &self.perms)?;
        if has_changes(&self.ret) {
            self.ret
                .set("comment", format!("File {} updated", self.name));
            if self.m.ignore.any() && !self.counts {
                self.ret.set("skip_req", true);
            }
        } else if self.ret.get("result").is_some_and(Value::truthy) {
            let text = format!("File {} is in the correct state", self.name);
            self.ret.set("comment", text);
        }
        source::clean_tmp(call, &self.sfn);
        Ok(())
    }

    fn replace_by_source(&mut self, call: &mut Call<'_>, url: &str, real: &str) -> StepResult {
        let with = map! {"verify_ssl" => self.m.verify_ssl.clone(), "use_etag" => self.m.use_etag};
        self.fetch(call, with)?;
        let hint = ". If the 'source_hash' value refers to a remote file with multiple possible matches, then \
                    it may be necessary to set 'source_hash_name'.";
        self.verify(call, url, hint)?;
        if diff::obfuscates(call)? {
            self.change("diff", diff::OBFUSCATED);
        } else if !self.m.show_changes {
            self.change("diff", "<show_changes=False>");
        } else {
            match diff::get_diff(call, [real, &self.sfn], &self.how(false)) {
                Ok(diff) => {
                    self.counts = diff.counts.unwrap_or(self.counts);
                    if !diff.text.is_empty() {
                        self.change("diff", diff.text);
                    }
                }
                Err(e) => {
                    let why = source::only_command(e)?;
                    self.change("diff", why);
                }
            }
        }
        let sfn = self.sfn.clone();
        self.commit(call, &sfn, real)
    }

    fn replace_by_contents(
        &mut self,
        call: &mut Call<'_>,
        content: &str,
        real: &str,
    ) -> StepResult {
        let differences = match diff::get_diff(call, [real, content], &self.how(true)) {
            Ok(diff) => {
                self.counts = diff.counts.unwrap_or(self.counts);
                diff.text
            }
            Err(e) => {
                let why = source::only_command(e)?;
                let warning = format!("Failed to detect changes to file: {why}");
                match self.ret.get_mut("warnings") {
                    Some(Value::Array(list)) => list.push(warning.into()),
                    _ => self.ret.set("warnings", vec![Value::from(warning)]),
                }
                String::new()
            }
        };
        if differences.is_empty() {
            return Ok(());
        }
        self.change("diff", differences);
        self.commit(call, content, real)
    }

    /// Requires the directory of a new file, creating it if allowed.
    fn directory(&mut self, call: &mut Call<'_>) -> StepResult {
        if paths::is_dir(paths::dirname(&self.name)) {
            return Ok(());
        }
        if !self.m.makedirs {
            source::clean_tmp(call, &self.sfn);
            if let Some(Value::Map(changes)) = self.ret.get_mut("changes") {
                changes.remove("diff");
            }
            return self.stop("Parent directory not present");
        }
        let mut mode = self.m.dir_mode.clone();
        if mode.is_nil() && !self.perms.mode.is_nil() {
            // Add execute permission where there is read permission.
            let text = python::str(&self.perms.mode);
            let last = text.chars().count().saturating_sub(3);
            let digit = |c: char| match c.to_digit(10) {
                Some(n) if n != 0 => (n | 1).to_string(),
                _ => c.to_string(),
            };
            mode = text
                .chars()
                .skip(last)
                .map(digit)
                .collect::<String>()
                .into();
        }
        let new = NewNodeArgs {
            user: self.perms.user.clone(),
            group: self.perms.group.clone(),
            mode,
        };
        tree::makedirs(call, &self.name, &new)?;
        Ok(())
    }

    /// Creates an empty file, readable only by its owner if a mode will be set.
    fn make(&mut self) -> Result<bool> {
        if self.perms.mode.truthy() && !paths::exists(&self.name) {
            let mut options = std::fs::OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            os::open(&self.name, &mut options).map_err(|e| CallError::Command(os::strerror(&e)))?;
        }
        touch(&self.name, &Value::Nil, &Value::Nil)
    }

    fn diff_from_nothing(&mut self, call: &mut Call<'_>, file: &str) -> Result<()> {
        let empty = TempFile::with(b"")?;
        let diff = diff::get_diff(call, [&empty.path(), file], &diff::DiffOptions::default())?;
        self.change("diff", diff.text);
        Ok(())
    }

    fn new_file(&mut self, call: &mut Call<'_>) -> StepResult {
        if self.source().is_some() {
            self.fetch(call, map! {"verify_ssl" => self.m.verify_ssl.clone()})?;
            self.verify(call, &self.name.clone(), "")?;
            self.change("diff", "New file");
            if self.m.new_file_diff {
                let sfn = self.sfn.clone();
                self.diff_from_nothing(call, &sfn)?;
            }
            self.directory(call)?;
        } else {
            self.directory(call)?;
            if !is_test(call) {
                self.make()?;
                if self.m.contents.is_nil() {
                    self.change("new", format!("file {} created", self.name));
                    self.ret.set("comment", "Empty file");
                } else {
                    self.change("diff", "New file")
                }
            }
        }
        let (name, sfn) = (self.name.clone(), self.sfn.clone());
        let mode = self.backup_mode(call)?;
        if let Some(content) = self.encoded()? {
            let is_new = |ret: &Map| {
                let changes = ret.get("changes").and_then(Value::as_map);
                changes.and_then(|c| c.str("diff")) == Some("New file")
            };
            if self.m.new_file_diff && is_new(&self.ret) {
                self.diff_from_nothing(call, &content.path())?;
            }
            replace_file(call, &content.path(), &name, &mode)?;
        } else if !sfn.is_empty() {
            replace_file(call, &sfn, &name, &mode)?;
            source::clean_tmp(call, &sfn);
        }
        if self.perms.mode.is_nil() {
            let mode = (0o777 ^ os::umask()) & 0o666;
            self.perms.mode = format!("0o{mode:o}").into();
        }
        let perms = Perms {
            follow_symlinks: false,
            ..self.perms.clone()
        };
        check_more_perms(call, &name, &mut self.ret, &perms)?;
        let changed = has_changes(&self.ret);
        if !self.ret.get("comment").is_some_and(Value::truthy) {
            self.ret.set("comment", format!("File {name} updated"));
        }
        if is_test(call) {
            self.ret.set("comment", format!("File {name} not updated"));
        } else if !changed && self.ret.get("result").is_some_and(Value::truthy) {
            let text = format!("File {name} is in the correct state");
            self.ret.set("comment", text);
        }
        source::clean_tmp(call, &sfn);
        if self.m.ignore.any() && changed && !self.counts {
            self.ret.set("skip_req", true);
        }
        Ok(())
    }
}

pub fn manage_file_function(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let arg = |name: &str| call.arg(name).clone();
    let request = ManageArgs {
        name: text("name"),
        sfn: text("sfn"),
        text: None,
        source: arg("source"),
        source_sum: FileHash::from_value(call.arg("source_sum")),
        perms: meta::perms_of(call),
        saltenv: text("saltenv"),
        backup: arg("backup"),
        makedirs: call.flag("makedirs"),
        show_changes: call.flag("show_changes"),
        contents: arg("contents"),
        dir_mode: arg("dir_mode"),
        skip_verify: call.flag("skip_verify"),
        keep_mode: call.flag("keep_mode"),
        encoding: arg("encoding"),
        encoding_errors: text("encoding_errors"),
        verify_ssl: arg("verify_ssl"),
        use_etag: call.flag("use_etag"),
        signature: Signature::from_call(call, "signature"),
        ignore: IgnoredChanges::from_call(call),
        new_file_diff: call.flag("new_file_diff"),
    };
    let ret = call.arg("ret").as_map().cloned();
    Ok(manage_file(call, &request, ret)?.into())
}

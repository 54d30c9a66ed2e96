//! `file.managed`.

use super::check::{Check, Scratch, run_check};
use super::{Step, fail, has_changes, known_owner, mode_of, outcome_of, user_of, without_end};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::SourceHash;
use halite_modules::execution::file::os;
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{
    CheckManaged, GetManaged, IgnoredChanges, ManageArgs, ManagedContent, Perms, SelinuxContext,
    Signature, check_managed_changes, check_perms, clean_tmp, get_hash, get_managed,
    get_managed_text, get_source_sum, manage_file, source_list, urlparse,
};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};
use std::path::Path;

/// What a test says of a file that would change.
pub(super) fn would_change(name: &str) -> String {
    format!(
        "The file {name} is set to be changed\nNote: No changes made, actual changes may\nbe different due to other \
         states."
    )
}

/// How the contents of a file are given.
const CONTENTS: [&str; 3] = ["contents", "contents_pillar", "contents_grains"];

/// The request of a state, which is that of another function for `serialize` and `recurse`.
#[derive(Clone, Debug)]
pub(super) struct Managed {
    /// The file.
    pub name: String,
    /// Source and template.
    pub get: GetManaged,
    /// Owner, group, mode, attributes and context.
    pub perms: Perms,
    /// The mode of the source.
    pub keep_mode: bool,
    /// The content itself.
    pub contents: Value,
    pub keep_source: bool,
    pub makedirs: bool,
    pub dir_mode: Value,
    pub replace: bool,
    pub backup: Value,
    pub show_changes: bool,
    pub create: bool,
    pub encoding: Value,
    pub encoding_errors: String,
    pub check: Check,
    pub signature: Signature,
    pub new_file_diff: bool,
}

/// The signature arguments of a state.
pub(in crate::modules) fn signature_of(s: &State<'_, '_>, name: &str) -> Signature {
    Signature {
        signature: s.arg(name).clone(),
        signed_by_any: s.arg("signed_by_any").clone(),
        signed_by_all: s.arg("signed_by_all").clone(),
        keyring: s.arg("keyring").clone(),
        gnupghome: s.arg("gnupghome").clone(),
        backend: s.text("sig_backend").unwrap_or_default(),
    }
}

pub(super) fn managed(s: &mut State<'_, '_>) -> Step {
    let name = match expanduser(&s.name()) {
        name if name.is_empty() => return fail("Destination file name is required"),
        name => name,
    };
    let keep_mode = s
        .text("mode")
        .is_some_and(|m| m.eq_ignore_ascii_case("keep"));
    let mut request = Managed::of(s, &name, keep_mode);
    request.perms.user = user_of(s);
    request.get.user = request.perms.user.clone();
    let given = CONTENTS.map(|name| (name, s.arg(name).clone()));
    let mut given = given.into_iter().filter(|(_, v)| !v.is_nil());
    let contents = given.next();
    if given.next().is_some() {
        return fail(
            "Only one of 'contents', 'contents_pillar', and 'contents_grains' is permitted",
        );
    }
    if let Some((by, value)) = &contents {
        if request.get.source.truthy() {
            return fail(
                "'source' cannot be used in combination with 'contents', 'contents_pillar', or 'contents_grains'",
            );
        }
        if keep_mode {
            return fail(
                "Mode preservation cannot be used in combination with 'contents', 'contents_pillar', or \
                 'contents_grains'",
            );
        }
        request.contents = contents_of(s, by, value)?;
    }
    let mut outcome = request.apply(s)?;
    if s.kwargs.contains("file_mode") {
        let text = "The 'file_mode' argument will be ignored.  Please use 'mode' instead to set file permissions.";
        match outcome.more.get_mut("warnings") {
            Some(Value::Array(list)) => list.push(text.into()),
            _ => outcome.more.set("warnings", vec![Value::from(text)]),
        }
    }
    Ok(outcome)
}

/// The content that a state gives itself, by pillar or by grains.
fn contents_of(s: &mut State<'_, '_>, by: &str, value: &Value) -> Step<Value> {
    let delimiter = s.text("contents_delimiter").unwrap_or_default();
    let what = match by {
        "contents" => return text_of(s, value.clone(), "'contents'"),
        "contents_pillar" => "Pillar",
        _ => "Grain",
    };
    let found = match value {
        Value::Array(keys) => {
            let mut parts = Vec::new();
            for (at, key) in keys.iter().enumerate() {
                match looked_up(s, what, key, &delimiter)? {
                    Value::Str(text) => parts.push(text),
                    other => {
                        return Err(CallError::Type(format!(
                            "sequence item {at}: expected str instance, {} found",
                            python::type_name(&other)
                        ))
                        .into());
                    }
                }
            }
            parts.join("\n").into()
        }
        key => looked_up(s, what, key, &delimiter)?,
    };
    text_of(s, found, &format!("{by} {}", python::str(value)))
}

fn looked_up(s: &State<'_, '_>, what: &str, key: &Value, delimiter: &str) -> Step<Value> {
    let ctx = s.ctx();
    let data = if what == "Pillar" {
        &ctx.pillar
    } else {
        &ctx.grains
    };
    match halite_modules::execution::traverse(data, key, delimiter) {
        Some(value) => Ok(value.clone()),
        None => fail(format!("{what} {} does not exist", python::str(key))),
    }
}

/// Makes text of content, line by line.
fn text_of(s: &State<'_, '_>, found: Value, from: &str) -> Step<Value> {
    if !found.truthy() && !s.flag("allow_empty") {
        return fail(format!(
            "{from} value would result in empty contents. Set allow_empty to True to allow the managed file to be \
             empty."
        ));
    }
    let mut text = String::new();
    match &found {
        Value::Bytes(bytes) if bytes.contains(&0) => return Ok(found),
        Value::Str(whole) if whole.contains('\0') => return Ok(found),
        Value::Array(list) if list.is_empty() => {
            return fail(
                "Contents specified by contents/contents_pillar/contents_grains is not a string or list of strings, \
                 and is not binary data. SLS is likely malformed.",
            );
        }
        Value::Array(list) => list
            .iter()
            .for_each(|one| add_lines(&mut text, &python::str(one))),
        Value::Bytes(bytes) => add_lines(&mut text, &os::decoded(bytes.clone())?),
        one => add_lines(&mut text, &python::str(one)),
    }
    if !s.flag("contents_newline") {
        text.truncate(text.trim_end_matches('\n').len());
    }
    Ok(text.into())
}

fn add_lines(text: &mut String, part: &str) {
    for line in halite_wire::pylines::of_text(part) {
        text.push_str(without_end(line));
        text.push('\n');
    }
}

impl Managed {
    /// The request of `file.managed`, without contents.
    fn of(s: &State<'_, '_>, name: &str, keep_mode: bool) -> Managed {
        let arg = |name: &str| s.arg(name).clone();
        let mode = if keep_mode {
            Value::Nil
        } else {
            mode_of(s.arg("mode"))
        };
        let selinux = s.arg("selinux").as_map().cloned().unwrap_or_default();
        let word = |key: &str| match selinux.get(key) {
            Some(value) if value.truthy() => python::str(value),
            _ => String::new(),
        };
        let perms = Perms {
            user: arg("user"),
            group: arg("group"),
            mode: mode.clone(),
            attrs: arg("attrs"),
            follow_symlinks: s.flag("follow_symlinks"),
            selinux: SelinuxContext {
                words: ["seuser", "serole", "setype", "serange"].map(word),
            },
        };
        Managed {
            name: name.to_owned(),
            get: GetManaged {
                name: name.to_owned(),
                template: arg("template"),
                source: arg("source"),
                source_hash: arg("source_hash"),
                source_hash_name: arg("source_hash_name"),
                user: arg("user"),
                group: arg("group"),
                mode,
                attrs: arg("attrs"),
                saltenv: s.saltenv(),
                context: arg("context"),
                defaults: arg("defaults"),
                skip_verify: s.flag("skip_verify"),
                verify_ssl: arg("verify_ssl"),
                use_etag: s.flag("use_etag"),
                signature: signature_of(s, "source_hash_sig"),
                ignore: IgnoredChanges {
                    ordering: s.flag("ignore_ordering"),
                    whitespace: s.flag("ignore_whitespace"),
                    comments: arg("ignore_comment_characters"),
                },
                kwargs: template_keywords(s),
            },
            perms,
            keep_mode,
            contents: Value::Nil,
            keep_source: s.flag("keep_source"),
            makedirs: s.flag("makedirs"),
            dir_mode: mode_of(s.arg("dir_mode")),
            replace: s.flag("replace"),
            backup: arg("backup"),
            show_changes: s.flag("show_changes"),
            create: s.flag("create"),
            encoding: arg("encoding"),
            encoding_errors: s.text("encoding_errors").unwrap_or_default(),
            check: Check::of(s),
            signature: signature_of(s, "signature"),
            new_file_diff: s.flag("new_file_diff"),
        }
    }

    /// A request for a file with this content only.
    pub fn with_contents(s: &State<'_, '_>, name: &str, contents: Value) -> Managed {
        Managed {
            name: name.to_owned(),
            get: GetManaged {
                name: name.to_owned(),
                saltenv: s.saltenv(),
                verify_ssl: true.into(),
                kwargs: template_keywords(s),
                ..GetManaged::default()
            },
            perms: Perms {
                follow_symlinks: true,
                ..Perms::default()
            },
            keep_mode: false,
            contents,
            keep_source: true,
            makedirs: false,
            dir_mode: Value::Nil,
            replace: true,
            backup: "".into(),
            show_changes: true,
            create: true,
            encoding: Value::Nil,
            encoding_errors: "strict".to_owned(),
            check: Check::default(),
            signature: Signature::default(),
            new_file_diff: false,
        }
    }

    /// Manages the file.
    pub fn apply(mut self, s: &mut State<'_, '_>) -> Step {
        let name = self.name.clone();
        if !self.create && !paths::is_file(&name) {
            return Ok(StateOutcome::good(format!(
                "File {name} is not present and is not set for creation"
            )));
        }
        known_owner(s, &self.perms.user, &self.perms.group)?;
        if !paths::is_abs(&name) {
            return fail(format!("Specified file {name} is not an absolute path"));
        }
        if paths::is_dir(&name) {
            return fail(format!("Specified target {name} is a directory"));
        }
        for (key, value) in [
            ("Context", &self.get.context),
            ("Defaults", &self.get.defaults),
        ] {
            if !value.is_nil() && value.as_map().is_none() {
                return fail(format!("{key} must be formed as a dict"));
            }
        }
        self.render_contents(s)?;
        if self.only_permissions(s)? {
            return self.permissions(s);
        }
        let (source, hash) = {
            let get = &self.get;
            match source_list(s.call, &get.source, &get.source_hash, &get.saltenv) {
                Err(CallError::Command(text)) => {
                    return fail(format!("Unable to manage file: {text}"));
                }
                other => other?,
            }
        };
        self.get.source = source;
        self.get.source_hash = hash;
        add_accumulated(s, &name, &mut self.get.kwargs);
        self.write(s)
    }

    /// Writes the file, or tells what would be written.
    pub fn write(&self, s: &mut State<'_, '_>) -> Step {
        if s.test { self.test(s) } else { self.manage(s) }
    }

    /// Renders contents that the state gives itself.
    fn render_contents(&mut self, s: &mut State<'_, '_>) -> Step<()> {
        if self.contents.is_nil() || !self.get.template.truthy() {
            return Ok(());
        }
        let args = vec![
            self.contents.clone(),
            self.get.template.clone(),
            self.get.context.clone(),
            self.get.defaults.clone(),
            self.get.saltenv.as_str().into(),
        ];
        match s.salt("file.apply_template_on_contents", args)? {
            Value::Map(wrong) => Err(outcome_of(wrong).into()),
            text => {
                self.contents = text;
                Ok(())
            }
        }
    }

    /// Whether the content stays as it is: it may not be replaced, is not given, or is known to be the right one.
    fn only_permissions(&self, s: &mut State<'_, '_>) -> Step<bool> {
        if !paths::exists(&self.name) {
            return Ok(false);
        }
        if !self.replace {
            return Ok(true);
        }
        let get = &self.get;
        let nothing = matches!(&get.source, Value::Array(_)) || get.source.truthy();
        if !nothing && self.contents.is_nil() {
            return Ok(true);
        }
        let Value::Str(source) = &get.source else {
            return Ok(false);
        };
        if !get.source_hash.truthy() || self.keep_mode || get.template.truthy() {
            return Ok(false);
        }
        if source.is_empty() || matches!(urlparse(source).scheme.as_str(), "" | "file" | "salt") {
            return Ok(false);
        }
        let want = SourceHash {
            file_name: self.name.clone(),
            source: source.clone(),
            hash: get.source_hash.clone(),
            hash_name: get.source_hash_name.clone(),
            saltenv: get.saltenv.clone(),
            verify_ssl: get.verify_ssl.clone(),
            signature: get.signature.clone(),
        };
        let sum = match get_source_sum(s.call, &want) {
            Err(CallError::Command(_)) => return Ok(false),
            other => other?,
        };
        Ok(get_hash(&self.name, &sum.hash_type).is_ok_and(|there| there == sum.hsum))
    }

    /// Sets permissions only.
    fn permissions(&self, s: &mut State<'_, '_>) -> Step {
        let name = &self.name;
        let (ret, before) = check_perms(s.call, name, None, &self.perms)?;
        let mut outcome = outcome_of(ret);
        let changes = outcome.changes.as_map().cloned().unwrap_or_default();
        if s.test {
            outcome.comment = match changes.get("mode") {
                Some(mode) if outcome.result.is_none() => format!(
                    "File {name} will be updated with permissions {} from its current state of {}",
                    python::str(mode),
                    before.get("lmode").map(python::str).unwrap_or_default()
                ),
                _ => format!("File {name} not updated"),
            };
        } else if changes.is_empty() && outcome.result == Some(true) {
            outcome.comment =
                format!("File {name} exists with proper permissions. No changes made.");
        }
        Ok(outcome)
    }

    fn test(&self, s: &mut State<'_, '_>) -> Step {
        let check = CheckManaged {
            get: self.get.clone(),
            perms: self.perms.clone(),
            contents: self.contents.clone(),
            keep_mode: self.keep_mode,
            new_file_diff: self.new_file_diff,
        };
        let found = match check_managed_changes(s.call, &check)? {
            Ok(found) => found,
            Err(comment) => return fail(comment),
        };
        let mut changes = found.changes;
        if changes.is_empty() {
            return Ok(StateOutcome::good(format!(
                "The file {} is in the correct state",
                self.name
            )));
        }
        if changes.contains("diff") && !self.show_changes {
            changes.set("diff", "<show_changes=False>");
        }
        let mut outcome = StateOutcome::would(would_change(&self.name)).changes(changes);
        if found.counts == Some(false) {
            outcome.more.set("skip_req", true);
        }
        Ok(outcome)
    }

    fn manage(&self, s: &mut State<'_, '_>) -> Step {
        let found = if !self.contents.is_nil() {
            Ok(ManagedContent::default())
        } else if self.check.command.is_empty() {
            get_managed_text(s.call, &self.get)
        } else {
            // A command checks a file.
            get_managed(s.call, &self.get)
        };
        let found = match found {
            Ok(found) if found.comment.is_empty() => found,
            Ok(found) => return fail(format!("Unable to manage file: {}", found.comment)),
            Err(fault) => return fail(format!("Unable to manage file: {}", fault.message())),
        };
        let (cached, is_rendered) = (found.sfn.clone(), found.text.is_some());
        let mut request = ManageArgs {
            name: self.name.clone(),
            sfn: found.sfn,
            text: found.text,
            source: self.get.source.clone(),
            source_sum: found.sum,
            perms: self.perms.clone(),
            saltenv: self.get.saltenv.clone(),
            backup: self.backup.clone(),
            makedirs: self.makedirs,
            show_changes: self.show_changes,
            contents: self.contents.clone(),
            dir_mode: self.dir_mode.clone(),
            skip_verify: self.get.skip_verify,
            keep_mode: self.keep_mode,
            encoding: self.encoding.clone(),
            encoding_errors: self.encoding_errors.clone(),
            verify_ssl: self.get.verify_ssl.clone(),
            use_etag: self.get.use_etag,
            signature: self.signature.clone(),
            ignore: self.get.ignore.clone(),
            new_file_diff: self.new_file_diff,
        };
        // It lives until the file is in place.
        let mut _trial = None;
        if !self.check.command.is_empty() {
            match self.checked(s, &request) {
                Ok(trial) => {
                    // What was checked is what is put in place; a rendered source is gone after the trial.
                    if !request.sfn.is_empty() {
                        request.sfn.clone_from(&trial.0);
                    }
                    _trial = Some(trial);
                }
                Err(outcome) => {
                    clean_tmp(s.call, &cached);
                    return Err(outcome);
                }
            }
        }
        let done = manage_file(s.call, &request, None);
        clean_tmp(s.call, &cached);
        if !self.keep_source && !is_rendered {
            self.forget(s, &cached)?;
        }
        match done {
            Ok(ret) => Ok(outcome_of(ret)),
            Err(fault) => fail(format!("Unable to manage file: {}", fault.message())),
        }
    }

    /// Writes the file to another place first and runs the command that checks it.
    fn checked(&self, s: &mut State<'_, '_>, request: &ManageArgs) -> Step<Scratch> {
        let dir = match self.check.dir.as_str() {
            "" => os::temp_dir(),
            dir => Path::new(dir).to_owned(),
        };
        let temporary = Scratch::new(&dir, &self.check.suffix)?;
        let trial = ManageArgs {
            name: temporary.0.clone(),
            makedirs: false,
            backup: "".into(),
            ..request.clone()
        };
        if paths::is_file(&self.name) {
            std::fs::copy(&self.name, &temporary.0).map_err(|e| os::fault(&e, &self.name))?;
        }
        let made = match manage_file(s.call, &trial, None) {
            Ok(ret) => outcome_of(ret),
            Err(fault) => return fail(format!("Unable to check_cmd file: {}", fault.message())),
        };
        if made.result == Some(false) {
            return Err(made.into());
        }
        if has_changes(&made) {
            let changes = self.check.keeps_changes.then_some(made.changes);
            run_check(s, &self.check.command, &temporary.0, changes)?;
        }
        Ok(temporary)
    }

    /// Removes the cached copy of a remote source.
    fn forget(&self, s: &mut State<'_, '_>, cached: &str) -> Step<()> {
        let source = python::str(&self.get.source);
        let scheme = urlparse(&source).scheme;
        let mut cached = cached.to_owned();
        if cached.is_empty() && scheme == "salt" {
            // Writing the file may have cached it.
            let args = [source.into(), self.get.saltenv.as_str().into()];
            cached = python::str(&s.salt("cp.is_cached", args)?);
        }
        if cached.is_empty() || matches!(scheme.as_str(), "" | "file") {
            return Ok(());
        }
        let cachedir = s.ctx().cachedir.to_string_lossy().into_owned();
        // A local file server's files are its own.
        if cached.starts_with(&format!("{cachedir}/")) {
            let _ = std::fs::remove_file(cached);
        }
        Ok(())
    }
}

/// Keywords of a state that its template sees.
pub(super) fn template_keywords(s: &State<'_, '_>) -> Map {
    s.kwargs.clone()
}

/// What other states have accumulated for a file.
pub(super) fn add_accumulated(s: &State<'_, '_>, name: &str, kwargs: &mut Map) {
    let found = s.run.accumulated(name);
    if !found.is_empty() {
        kwargs.set("accumulator", found);
    }
}

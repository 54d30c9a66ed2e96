//! `file.patch`.

use super::check::Scratch;
use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{
    GetManaged, PatchArgs, cache_file, clean_tmp, get_managed, os, patch as run_patch, source_list,
};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, map};

/// The local copy of the patch file.
fn fetch(s: &mut State<'_, '_>) -> Step<String> {
    let saltenv = s.text("saltenv").unwrap_or_else(|| s.saltenv());
    let (source, hash) = (s.arg("source").clone(), s.arg("source_hash").clone());
    if !source.truthy() {
        return fail("A patch file is required");
    }
    let bad = |why: &str| fail(format!("Unable to manage file: {why}"));
    let (source, hash) = match source_list(s.call, &source, &hash, &saltenv) {
        Err(CallError::Command(why)) => return bad(&why),
        other => other?,
    };
    let request = GetManaged {
        name: s.name(),
        template: s.arg("template").clone(),
        source: source.clone(),
        source_hash: hash,
        source_hash_name: s.arg("source_hash_name").clone(),
        saltenv: saltenv.clone(),
        context: s.arg("context").clone(),
        defaults: s.arg("defaults").clone(),
        skip_verify: s.flag("skip_verify"),
        verify_ssl: true.into(),
        ..GetManaged::default()
    };
    let found = get_managed(s.call, &request)?;
    if !found.comment.is_empty() {
        return bad(&found.comment);
    }
    if !found.sfn.is_empty() {
        return Ok(found.sfn);
    }
    let source = python::str(&source);
    match cache_file(s.call, &source, &saltenv, map! {})? {
        Some(path) => Ok(path),
        None => fail(format!("Source file '{source}' not found")),
    }
}

/// A run of the program.
fn run(s: &mut State<'_, '_>, name: &str, file: &str, options: &str) -> Step<Map> {
    let request = PatchArgs {
        original: name.to_owned(),
        patch: file.to_owned(),
        options: options.to_owned(),
        dry_run: false,
    };
    let ran = run_patch(s.call, &request)?;
    Ok(ran.into_map().unwrap_or_default())
}

/// A result as indented text.
fn shown(result: &Map) -> String {
    let mut keys: Vec<String> = result.iter().map(|(key, _)| python::str(key)).collect();
    keys.sort();
    let margin = " ".repeat(14);
    let mut text = format!("{margin}----------");
    for key in keys {
        text.push_str(&format!("\n{margin}{key}:"));
        let value = result.get(&key).map(python::str).unwrap_or_default();
        for line in value.lines() {
            text.push_str(&format!("\n{margin}    {line}"));
        }
    }
    text
}

pub(super) fn patch(s: &mut State<'_, '_>) -> Step {
    let name = expanduser(&s.name());
    if name.is_empty() {
        return fail("A file/directory to be patched is required");
    }
    if !paths::is_abs(&name) {
        return fail(format!("{name} is not an absolute path"));
    }
    if !paths::exists(&name) {
        return fail(format!("{name} does not exist"));
    }
    let file = fetch(s)?;
    let done = apply(s, &name, &file);
    clean_tmp(s.call, &file);
    done
}

fn apply(s: &mut State<'_, '_>, name: &str, file: &str) -> Step {
    let mut options = s.text("options").unwrap_or_default();
    if let Some(strip) = s.arg("strip").as_int().filter(|strip| *strip >= 0) {
        options.push_str(&format!(" -p{strip}"));
    }
    let (trial, rejects) = (
        Scratch::new(&os::temp_dir(), "")?,
        Scratch::new(&os::temp_dir(), "")?,
    );
    let own_rejects = s.text("reject_file").filter(|path| !path.is_empty());
    let rejected = own_rejects.clone().unwrap_or_else(|| rejects.0.clone());
    let quoted = |path: &str| format!("'{}'", path.replace('\'', "'\\''"));
    // The result of a trial goes elsewhere.
    let ahead = format!("{options} -r {} -o {}", quoted(&rejected), quoted(&trial.0));
    let result = run(s, name, file, &ahead)?;
    let changes = |mut result: Map| {
        result.remove("pid");
        result
    };
    if result.int("retcode") != Some(0) {
        let back = format!(
            "-R -f {options} -r {} -o {}",
            quoted(&rejects.0),
            quoted(&trial.0)
        );
        if run(s, name, file, &back)?.int("retcode") == Some(0) {
            return Ok(StateOutcome::good("Patch was already applied"));
        }
        let hint = match own_rejects {
            Some(_) => "",
            None => {
                " Run state again using the reject_file option to save rejects to a persistent file."
            }
        };
        return fail(format!(
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.{hint}\n\n{}",
            shown(&result)
        ));
    }
    if s.test {
        return Ok(StateOutcome::would("The patch would be applied").changes(changes(result)));
    }
    let real = format!("{options} -r {}", quoted(&rejected));
    let result = run(s, name, file, &real)?;
    if result.int("retcode") == Some(0) {
        Ok(StateOutcome::good("Patch successfully applied").changes(changes(result)))
    } else {
        Ok(StateOutcome::bad("Failed to apply patch").changes(changes(result)))
    }
}

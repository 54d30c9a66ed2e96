//! `file.cached` and `file.not_cached`.

use super::managed::signature_of;
use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::CallError;
use halite_modules::execution::file::paths;
use halite_modules::execution::file::{
    FileSum, SourceHash, cache_file, get_hash, get_source_sum, urlparse,
};
use halite_modules::files::FileClient;
use halite_wire::map;

/// The local path that a source is, if it is one.
fn local(name: &str) -> Option<String> {
    let url = urlparse(name);
    match url.scheme.as_str() {
        "" | "file" => Some(url.host_and_path()),
        _ => None,
    }
}

fn is_cached(s: &State<'_, '_>, name: &str, saltenv: &str) -> Step<Option<String>> {
    let client = FileClient::new(s.ctx()).map_err(CallError::from)?;
    Ok(client
        .is_cached(name, saltenv)
        .filter(|path| !path.is_empty()))
}

/// The hash that a file must have.
fn wanted(s: &mut State<'_, '_>, name: &str, saltenv: &str) -> Step<Option<FileSum>> {
    let hash = s.arg("source_hash").clone();
    if !hash.truthy() {
        return Ok(None);
    }
    let want = SourceHash {
        file_name: name.to_owned(),
        source: name.to_owned(),
        hash,
        hash_name: s.arg("source_hash_name").clone(),
        saltenv: saltenv.to_owned(),
        verify_ssl: true.into(),
        signature: signature_of(s, "source_hash_sig"),
    };
    match get_source_sum(s.call, &want) {
        Ok(sum) => Ok(Some(sum)),
        Err(CallError::Command(why)) => fail(why),
        Err(other) => Err(other.into()),
    }
}

pub(super) fn cached(s: &mut State<'_, '_>) -> Step {
    let name = s.name();
    let saltenv = match s.text("saltenv") {
        Some(env) if env != "base" => env,
        _ => s.saltenv(),
    };
    let url = urlparse(&name);
    let remote = !matches!(url.scheme.as_str(), "" | "file" | "salt");
    let verify = !s.flag("skip_verify") && !s.flag("use_etag");
    if remote && verify && !s.arg("source_hash").truthy() && url.scheme.starts_with("http") {
        return fail(format!(
            "Unable to verify upstream hash of source file {name}, please set source_hash or set skip_verify or \
             use_etag to True"
        ));
    }
    let sum = wanted(s, &name, &saltenv)?;
    if s.test {
        return test(s, &name, &saltenv, sum.as_ref());
    }
    if let Some(path) = local(&name) {
        return present(&path, sum.as_ref());
    }
    let hash_type = match &sum {
        Some(sum) => sum.hash_type.clone(),
        None => s.ctx().opts.str("hash_type").unwrap_or("sha256").to_owned(),
    };
    let before = is_cached(s, &name, &saltenv)?.and_then(|path| get_hash(&path, &hash_type).ok());
    let current = sum
        .as_ref()
        .filter(|sum| before.as_deref() == Some(sum.hsum.as_str()));
    let mut place = None;
    if current.is_some() {
        place = is_cached(s, &name, &saltenv)?;
    }
    if place.is_none() {
        let with = map! {
            "source_hash" => sum.as_ref().map(|sum| sum.hsum.clone()), "use_etag" => s.flag("use_etag"),
        };
        place = match cache_file(s.call, &name, &saltenv, with) {
            Ok(place) => place,
            Err(why) => return fail(why.message()),
        };
    }
    let Some(place) = place else {
        return fail(format!(
            "Failed to cache {name}, check minion log for more information"
        ));
    };
    let after = get_hash(&place, &hash_type)?;
    if let Some(sum) = sum.as_ref().filter(|sum| sum.hsum != after) {
        return fail(format!(
            "File is cached to {place}, but the hash ({after}) does not match the specified hash ({})",
            sum.hsum
        ));
    }
    let mut text = format!("File is cached to {place}");
    if sum.is_some() {
        text.push_str(&format!(" with hash {after}"));
    }
    let mut outcome = StateOutcome::good(text);
    if before.as_deref() != Some(after.as_str()) {
        outcome.changes = map! {"hash" => map! {"old" => before, "new" => after}}.into();
    }
    Ok(outcome)
}

fn test(s: &State<'_, '_>, name: &str, saltenv: &str, sum: Option<&FileSum>) -> Step {
    let place = match local(name) {
        Some(path) => Some(path).filter(|path| paths::exists(path)),
        None => is_cached(s, name, saltenv)?,
    };
    let text = match (place, sum) {
        (None, _) => format!("File will be cached: {name}"),
        (Some(_), None) => format!("No hash found. File will be cached: {name}"),
        (Some(place), Some(sum)) => {
            let kind = s.ctx().opts.str("hash_type").unwrap_or("sha256");
            match get_hash(&place, kind).is_ok_and(|hash| hash == sum.hsum) {
                true => format!("File already cached: {name}"),
                false => format!("Hashes don't match.\nFile will be cached: {name}"),
            }
        }
    };
    Ok(StateOutcome::would(text))
}

/// A local file, which is not cached.
fn present(path: &str, sum: Option<&FileSum>) -> Step {
    if !paths::exists(path) {
        return fail(format!("File {path} is not present on the minion"));
    }
    let text = format!("File {path} is present on the minion");
    let Some(sum) = sum else {
        return Ok(StateOutcome::good(text));
    };
    let there = get_hash(path, &sum.hash_type)?;
    if there == sum.hsum {
        Ok(StateOutcome::good(format!("{text} and has hash {there}")))
    } else {
        fail(format!(
            "{text}, but the hash ({there}) does not match the specified hash ({})",
            sum.hsum
        ))
    }
}

pub(super) fn not_cached(s: &mut State<'_, '_>) -> Step {
    let name = s.name();
    if let Some(path) = local(&name) {
        return Ok(StateOutcome::good(format!(
            "File {path} is a local path, no action taken"
        )));
    }
    let saltenv = s.text("saltenv").unwrap_or_default();
    let Some(path) = is_cached(s, &name, &saltenv)? else {
        return Ok(StateOutcome::good(format!("{name} is not cached")));
    };
    let changes = map! {"deleted" => true};
    // Stock deletes it even in test mode.
    if s.test {
        return Ok(StateOutcome::would(format!("{path} would be deleted")).changes(changes));
    }
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(StateOutcome::good(format!("{path} was deleted")).changes(changes)),
        Err(e) => fail(format!("Failed to delete {path}: {e}")),
    }
}

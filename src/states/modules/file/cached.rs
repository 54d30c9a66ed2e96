//! `file.cached` and `file.not_cached`.

use super::managed::signature_of;
use super::{Step, fail};
use crate::declare::{State, StateOutcome, old_new};
use halite_modules::execution::CallError;
use halite_modules::execution::file::paths;
use halite_modules::execution::file::{
    FileHash, REMOTE_PROTOS, Signature, SourceHash, cache_file, get_hash, get_source_sum, redacted,
    urlparse,
};
use halite_modules::files::FileClient;
use halite_wire::{Value, map};

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

/// A file to cache.
pub(in crate::modules) struct ToCache {
    /// Its URL, or a local path.
    pub name: String,
    pub saltenv: String,
    /// `source_hash`; nil for none.
    pub hash: Value,
    pub hash_name: Value,
    pub skip_verify: bool,
    pub use_etag: bool,
    /// Required signatures of the file of hashes.
    pub signature: Signature,
}

impl ToCache {
    /// The hash that the file must have.
    pub fn wanted(&self, s: &mut State<'_, '_>) -> Step<Option<FileHash>> {
        if !self.hash.truthy() {
            return Ok(None);
        }
        let want = SourceHash {
            file_name: String::new(),
            source: self.name.clone(),
            hash: self.hash.clone(),
            hash_name: self.hash_name.clone(),
            saltenv: self.saltenv.clone(),
            verify_ssl: true.into(),
            signature: self.signature.clone(),
        };
        match get_source_sum(s.call, &want) {
            Ok(sum) => Ok(Some(sum)),
            Err(CallError::Command(why)) => fail(why),
            Err(other) => Err(other.into()),
        }
    }

    /// Caches it, with the hash that it must have, and says where.
    pub fn cache(&self, s: &mut State<'_, '_>, sum: Option<FileHash>) -> Step {
        let name = &self.name;
        let remote = REMOTE_PROTOS.contains(&urlparse(name).scheme.as_str());
        if remote && !self.skip_verify && !self.use_etag && !self.hash.truthy() {
            return fail(format!(
                "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify or \
                 use_etag to True",
                redacted(name)
            ));
        }
        if s.test {
            return test(s, name, &self.saltenv, sum.as_ref());
        }
        let hsum = sum.as_ref().map(|sum| sum.hsum.clone());
        let hash_type = match &sum {
            Some(sum) => sum.hash_type.clone(),
            None => s.ctx().opts.str("hash_type").unwrap_or("sha256").to_owned(),
        };
        let enforced = hsum.as_ref().filter(|_| !self.skip_verify);
        if let Some(path) = local(name) {
            return present(&path, &hash_type, enforced);
        }
        let before = match is_cached(s, name, &self.saltenv)? {
            Some(path) => Some(get_hash(&path, &hash_type)?),
            None => None,
        };
        let with = map! {"source_hash" => hsum.clone(), "use_etag" => self.use_etag};
        let place = match cache_file(s.call, name, &self.saltenv, with) {
            Ok(Some(place)) => place,
            Ok(None) => {
                return fail(format!(
                    "Failed to cache {}, check minion log for more information",
                    redacted(name)
                ));
            }
            Err(why) => return fail(redacted(why.message())),
        };
        let after = get_hash(&place, &hash_type)?;
        let mut outcome = match enforced {
            None => StateOutcome::good(format!("File is cached to {place}")),
            Some(wanted) if *wanted == after => StateOutcome::good(format!(
                "File is already cached to {place} with hash {after}"
            )),
            Some(wanted) => StateOutcome::bad(format!(
                "File is cached to {place}, but the hash ({after}) does not match the specified hash ({wanted})"
            )),
        };
        if before.as_deref() != Some(after.as_str()) {
            outcome.changes = map! {"hash" => old_new(before, after)}.into();
        }
        Ok(outcome)
    }
}

pub(super) fn cached(s: &mut State<'_, '_>) -> Step {
    let saltenv = match s.text("saltenv") {
        Some(env) if env != "base" => env,
        _ => s.saltenv(),
    };
    let get = ToCache {
        name: s.name(),
        saltenv,
        hash: s.arg("source_hash").clone(),
        hash_name: s.arg("source_hash_name").clone(),
        skip_verify: s.flag("skip_verify"),
        use_etag: s.flag("use_etag"),
        signature: signature_of(s, "source_hash_sig"),
    };
    let sum = get.wanted(s)?;
    get.cache(s, sum)
}

fn test(s: &State<'_, '_>, name: &str, saltenv: &str, sum: Option<&FileHash>) -> Step {
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
fn present(path: &str, hash_type: &str, wanted: Option<&String>) -> Step {
    if !paths::exists(path) {
        return fail(format!("File {path} is not present on the minion"));
    }
    let text = format!("File {path} is present on the minion");
    let Some(wanted) = wanted else {
        return Ok(StateOutcome::good(text));
    };
    let there = get_hash(path, hash_type)?;
    if there == *wanted {
        Ok(StateOutcome::good(format!("{text} and has hash {there}")))
    } else {
        fail(format!(
            "{text}, but the hash ({there}) does not match the specified hash ({wanted})"
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

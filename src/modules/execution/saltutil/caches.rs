//! Data on disk: job results, caches, keys.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_channel::keys;
use halite_channel::link::LinkError;
use halite_config::MinionConfig;
use halite_config::paths::minion::cache;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, msgpack};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Not removed by `clear_cache`: files of running jobs, and results not yet sent to the master.
const KEPT_DIRS: &[&str] = &["proc", "returns"];

pub(super) fn find_cached_job(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    let name = python::str(call.arg("jid"));
    let jobs = cache::minion_jobs(&ctx.cachedir);
    let dir = jobs.join(&name);
    let known = name.parse::<Jid>().is_ok();
    if !known || !dir.is_dir() {
        let on = ctx.opts.get("cache_jobs").is_some_and(Value::truthy);
        return Ok(if on {
            format!("Local jobs cache directory {} not found", dir.display())
        } else {
            "Local jobs cache directory not found; you may need to enable cache_jobs on this minion"
                .to_owned()
        }
        .into());
    }
    let bytes =
        fs::read(dir.join("return.p")).map_err(|e| CallError::raised("OSError", e.to_string()))?;
    Ok(match msgpack::decode(&bytes) {
        Ok(Value::Map(map)) => map.into(),
        _ => Value::Nil,
    })
}

pub(super) fn clear_job_cache(call: &mut Call<'_>) -> Result {
    let hours = python::int(call.arg("hours"))?;
    let age = Duration::from_secs(u64::try_from(hours).unwrap_or(0).saturating_mul(3600));
    let oldest = SystemTime::now()
        .checked_sub(age)
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let dir = cache::minion_jobs(&call.ctx.cachedir);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let old = entry
            .metadata()
            .and_then(|meta| Ok(meta.is_dir() && meta.modified()? < oldest));
        let removed = match old {
            Ok(true) => fs::remove_dir_all(entry.path()),
            Ok(false) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = removed {
            log::error!("saltutil.clear_job_cache: {}: {e}", entry.path().display());
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

pub(super) fn clear_cache(call: &mut Call<'_>) -> Result {
    let mut good = true;
    for entry in fs::read_dir(&call.ctx.cachedir)
        .into_iter()
        .flatten()
        .flatten()
    {
        let kept = KEPT_DIRS.iter().any(|name| entry.file_name() == *name);
        if !kept && let Err(e) = remove_files(&entry.path()) {
            log::error!("saltutil.clear_cache: {}: {e}", entry.path().display());
            good = false;
        }
    }
    Ok(good.into())
}

/// Removes files but not directories. Links are removed, not followed.
fn remove_files(path: &Path) -> std::io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    for entry in fs::read_dir(path)? {
        remove_files(&entry?.path())?;
    }
    Ok(())
}

pub(super) fn regen_keys(call: &mut Call<'_>) -> Result {
    let opts = &call.ctx.opts;
    let dir = Path::new(opts.str("pki_dir").unwrap_or_default()).to_owned();
    let entries = fs::read_dir(&dir).map_err(|e| CallError::raised("OSError", e.to_string()))?;
    for entry in entries.flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let mut own = Map::clone(opts);
    for key in ["conf_file", "__role"] {
        own.remove(key);
    }
    let conf = Path::new(opts.str("conf_file").unwrap_or_default());
    let bad = |e: &dyn std::fmt::Display| CallError::Command(e.to_string());
    let config = MinionConfig::from_map(own, conf.parent().unwrap_or(Path::new("/")));
    keys::own_key(&config.map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    Ok(Value::Nil)
}

pub(super) fn revoke_auth(call: &mut Call<'_>) -> Result {
    let load: Map = halite_wire::map! {
        "cmd" => "revoke_auth", "id" => call.ctx.id.as_str(),
        "preserve_minion_cache" => call.arg("preserve_minion_cache").clone(),
    };
    match call.ctx.master.call(&load) {
        Ok(_) => Ok(true.into()),
        Err(LinkError::Silence) => Ok(false.into()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Context, call};
    use super::*;

    #[test]
    fn results_are_kept_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = Context {
            cachedir: dir.path().to_owned(),
            opts: std::sync::Arc::new(halite_wire::map! {"cache_jobs" => true}),
            ..Context::default()
        };
        let jid = "20260101000000000001";
        let job = dir.path().join("minion_jobs").join(jid);
        let find = || call(&ctx, "saltutil.find_cached_job", &[jid.into()]).ret;
        let missing = format!("Local jobs cache directory {} not found", job.display());
        assert_eq!(find(), missing.as_str().into());
        fs::create_dir_all(&job).unwrap();
        let ret = halite_wire::map! {"return" => true};
        let bytes = msgpack::encode_map(&ret, msgpack::Profile::Local);
        fs::write(job.join("return.p"), bytes).unwrap();
        assert_eq!(find(), ret.into());
        let clear = |hours: i64| call(&ctx, "saltutil.clear_job_cache", &[hours.into()]).ret;
        assert_eq!(clear(1), true.into());
        assert!(job.exists());
        assert_eq!(clear(0), true.into());
        assert!(!job.exists());
    }

    #[test]
    fn the_cache_is_cleared_but_for_what_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = Context {
            cachedir: dir.path().to_owned(),
            ..Context::default()
        };
        for file in ["files/base/a", "proc/1", "returns/2", "x"] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let done = call(&ctx, "saltutil.clear_cache", &[]).ret;
        assert_eq!(done, true.into());
        let there = |file: &str| dir.path().join(file).exists();
        assert!(there("proc/1") && there("returns/2") && there("files/base"));
        assert!(!there("files/base/a") && !there("x"));
    }
}

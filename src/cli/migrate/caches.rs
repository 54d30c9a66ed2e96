//! Keys, jobs and caches of a master on disk.

use super::finding::{Finding, Report, Verdict};
use halite_config::{MasterConfig, SaltSeries};
use halite_crypto::{IdentityKey, IdentityPublic};
use halite_store::keys::KeyState;
use halite_store::keys::KeyStore;
use halite_store::local::{self, Layout, LocalMinions};
use halite_store::minions::MinionCache;
use std::fs;
use std::path::Path;

/// Checks `pki_dir` and `cachedir`.
pub(super) fn check(config: &MasterConfig, report: &mut Report) {
    master_key(config, report);
    minion_keys(config, report);
    jobs(config, report);
    layout(config, report);
    let tokens = count(&config.tokens());
    if tokens > 0 {
        let note =
            format!("{tokens} of external users are not migrated: the users must log in again");
        let dir = config.tokens();
        let found = Finding::about(Verdict::Different, &dir, "tokens", note);
        report.findings.push(found);
    }
}

fn master_key(config: &MasterConfig, report: &mut Report) {
    let path = config.master_key();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let note = "there is none; halite makes one, which minions that know another refuse";
            let found = Finding::about(Verdict::Different, &path, "master key", note.to_owned());
            report.findings.push(found);
            return;
        }
        Err(e) => {
            report.unreadable.push(format!("{}: {e}", path.display()));
            return;
        }
    };
    let (verdict, note) = match IdentityKey::from_pem(&text) {
        Ok(IdentityKey::Rsa(_)) => (
            Verdict::Supported,
            "can be read; minions will recognise halite by it".to_owned(),
        ),
        Ok(IdentityKey::Ed25519(_)) => (
            Verdict::Different,
            "an Ed25519 key (key_type): stock minions cannot sign in".to_owned(),
        ),
        Err(e) => (Verdict::NeedsAction, format!("halite cannot use it: {e}")),
    };
    let found = Finding::about(verdict, &path, "master key", note);
    report.findings.push(found);
}

fn minion_keys(config: &MasterConfig, report: &mut Report) {
    let keys = local::key_files(config);
    let mut counts = Vec::new();
    for state in KeyState::ALL {
        let dir = config.minion_keys(state.dir());
        let ids = match keys.list(state) {
            Ok(ids) => ids,
            Err(e) => {
                report.unreadable.push(format!("{}: {e}", dir.display()));
                continue;
            }
        };
        counts.push(format!("{} {state}", ids.len()));
        let foreign = count(&dir).saturating_sub(ids.len());
        if foreign > 0 {
            let note = format!(
                "{foreign} files whose names are not minion ids; Salt does not list them either"
            );
            let found = Finding::about(Verdict::Different, &dir, "minion keys", note);
            report.findings.push(found);
        }
        for id in ids.iter() {
            let wrong = match keys.get(state, id) {
                Ok(Some(text)) => IdentityPublic::from_pem(&text).err().map(|e| e.to_string()),
                Ok(None) => None,
                Err(e) => Some(e.to_string()),
            };
            if let Some(why) = wrong {
                let path = keys.path(state, id);
                let note = format!("not a valid public key, so the minion cannot sign in: {why}");
                let found = Finding::about(Verdict::NeedsAction, &path, "minion key", note);
                report.findings.push(found);
            }
        }
    }
    let note = format!("{}; all of them count at halite", counts.join(", "));
    let found = Finding::about(Verdict::Supported, &config.pki_dir, "minion keys", note);
    report.findings.push(found);
}

fn jobs(config: &MasterConfig, report: &mut Report) {
    let dir = config.stock_job_cache();
    match local::stock_jobs(config).jids() {
        Ok(jids) if jids.is_empty() => {}
        Ok(jids) => {
            let note = format!("{}; halite lists and shows them like its own", jids.len());
            let found = Finding::about(Verdict::Supported, &dir, "jobs", note);
            report.findings.push(found);
        }
        Err(e) => report.unreadable.push(format!("{}: {e}", dir.display())),
    }
}

/// Finds grains and pillar in the layout of stock 3006 or 3007 where halite would use that of 3008.
fn layout(config: &MasterConfig, report: &mut Report) {
    let minions = |layout| {
        let cache = LocalMinions::new(&config.cachedir, layout);
        let ids = cache.ids().unwrap_or_default();
        ids.iter().filter(|id| cache.version(id).is_some()).count()
    };
    let (old, new) = (minions(Layout::Combined), minions(Layout::Split));
    if old > 0 && new == 0 && config.salt_series == SaltSeries::S3008 {
        let dir = config.minions_cache();
        let note = format!(
            "grains and pillar of {old} minions lie as 3006 and 3007 leave them: `halite-migrate import` finds them; \
             for `halite-master -c` on this directory write salt_series: '3006' (or '3007') into the master's file"
        );
        let found = Finding::about(Verdict::Different, &dir, "minion data", note);
        report.findings.push(found);
    }
}

/// Number of entries in a directory, except hidden ones.
fn count(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let shown = entries.filter(|e| !e.file_name().as_encoded_bytes().starts_with(b"."));
    shown.count()
}

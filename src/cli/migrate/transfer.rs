//! `halite-migrate import` and `export`: both masters keep their data, and get what they lack.

use super::TransferOptions;
use super::transfer_report::TransferReport;
use halite_config::{MasterConfig, Role, inspect, load_master, migrate_file};
use halite_crypto::{IdentityKey, IdentityPublic};
use halite_store::keys::KeyState;
use halite_store::keys::KeyStore;
use halite_store::local::jobs::transfer as jobs;
use halite_store::local::transfer::{self, MasterKey};
use halite_store::local::{self, Layout};
use halite_sys::daemon::{InstanceLock, make_dir, write_atomic};
use halite_sys::ownership::chown_tree;
use halite_sys::safe_open::open_no_follow;
use halite_wire::ids::MinionId;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most levels of directories of encryption keys that are copied.
const DEEPEST: usize = 8;

/// Copies from a stock master to halite.
///
/// # Errors
/// Why nothing was done, or where it stopped.
pub(super) fn import(
    from: &Path,
    to: &Path,
    how: TransferOptions,
) -> Result<TransferReport, String> {
    check_exists(from)?;
    if same_dir(from, to) {
        return Err(format!(
            "{} is both source and target; halite-master -c {} can use it as it is, and nothing has to be imported",
            from.display(),
            from.display()
        ));
    }
    let source = load(from)?;
    let mut done = TransferReport::new(from, to, how);
    let target = predicted_config(&source, to)?;
    check_separate(&source, &target)?;
    check_links(&source)?;
    check_links(&target)?;
    let _lock = if how.dry_run {
        None
    } else {
        lock_stopped(&target)?
    };
    transfer_master_key(&source, &target, &[], how, true)?;
    configuration(from, to, &mut done)?;
    let target = if how.dry_run { target } else { load(to)? };
    check_separate(&source, &target)?;
    if running(&source) {
        done.hints.push(format!(
            "the stock master of {} is running; import again after it has stopped",
            from.display()
        ));
    }
    let sign = &source.master_sign_key_name;
    let mut more = vec![format!("{sign}.pem"), format!("{sign}.pub")];
    more.extend(source.master_pubkey_signature.clone());
    transfer_all(&source, &target, &more, how, &mut done)?;
    let log = local::job_log(&target);
    done.jobs = jobs::import(&local::stock_jobs(&source), &log, how.dry_run)
        .map_err(|e| with_path(&source.stock_job_cache(), &e))?;
    if !how.dry_run {
        gpg_keys(&source, &target).map_err(|e| with_path(&target.pki_dir, &e))?;
        chown_all(&target)?;
    }
    Ok(done)
}

/// Copies from halite back to a stock master.
///
/// # Errors
/// Why nothing was done, or where it stopped.
pub(super) fn export(
    from: &Path,
    to: &Path,
    how: TransferOptions,
) -> Result<TransferReport, String> {
    check_exists(from)?;
    check_exists(to)?;
    let (source, target) = (load(from)?, load(to)?);
    check_links(&source)?;
    check_links(&target)?;
    let mut done = TransferReport::new(from, to, how);
    let _lock = lock_stopped(&source)?;
    if running(&target) {
        return Err(format!(
            "the master of {} is running; stop it first, so that it finds everything when it starts",
            to.display()
        ));
    }
    keys_of_halite_alone(&source, &mut done)?;
    done.in_place = source.pki_dir == target.pki_dir;
    if done.in_place {
        done.hints
            .push("keys and minion data are in directories that both masters use".to_owned())
    } else {
        transfer_all(&source, &target, &[], how, &mut done)?
    }
    let log = local::job_log(&source);
    done.jobs = jobs::export(&log, &local::stock_jobs(&target), how.dry_run)
        .map_err(|e| with_path(&source.job_log(), &e))?;
    if !how.dry_run {
        chown_all(&target)?;
    }
    Ok(done)
}

/// Refuses a master key that stock Salt does not know, and tells of minions that have such keys.
fn keys_of_halite_alone(source: &MasterConfig, done: &mut TransferReport) -> Result<(), String> {
    let path = source.master_key();
    let text = fs::read_to_string(&path).unwrap_or_default();
    if IdentityKey::from_pem(&text).is_ok_and(|key| key.rsa().is_none()) {
        return Err(format!(
            "{} is an Ed25519 key (key_type), which stock Salt cannot use: a stock master needs a key of its own, which all minions \
             then have to trust (minion_master.pub)",
            path.display()
        ));
    }
    let keys = local::key_files(source);
    let of_halite_alone = |id: &MinionId| {
        let text = keys.get(KeyState::Accepted, id).ok().flatten();
        text.and_then(|text| IdentityPublic::from_pem(&text).ok())
            .is_some_and(|key| key.rsa().is_none())
    };
    let ids = keys
        .list(KeyState::Accepted)
        .map_err(|e| with_path(&source.pki_dir, &e))?;
    let ids: Vec<&str> = ids
        .iter()
        .filter(|id| of_halite_alone(id))
        .map(MinionId::as_str)
        .collect();
    if !ids.is_empty() {
        done.hints.push(format!(
            "stock Salt does not know the Ed25519 keys of {}: remove minion.pem and the option key_type there, `salt-key -d` them, and accept \
             their new keys",
            ids.join(", ")
        ));
    }
    Ok(())
}

/// Copies keys and data of minions.
fn transfer_all(
    source: &MasterConfig,
    target: &MasterConfig,
    more: &[String],
    how: TransferOptions,
    done: &mut TransferReport,
) -> Result<(), String> {
    let (from, to) = (local::key_files(source), local::key_files(target));
    let way = transfer_mode(how);
    done.master = transfer_master_key(source, target, more, how, false)?;
    done.keys = transfer::keys(&from, &to, way).map_err(|e| with_path(&target.pki_dir, &e))?;
    let ids = from
        .list(KeyState::Accepted)
        .map_err(|e| with_path(&source.pki_dir, &e))?;
    let layout = layout_of(target);
    done.data = transfer::data(&source.cachedir, &target.cachedir, layout, &ids, way);
    Ok(())
}

/// Refuses directories of a master that are links of its account: what root reads there is given to that account, and
/// what it writes there would land elsewhere.
fn check_links(config: &MasterConfig) -> Result<(), String> {
    let keys = KeyState::ALL.map(|state| config.minion_keys(state.dir()));
    let cache = ["minions", "grains", "pillar", "mine", "jobs"].map(|d| config.cachedir.join(d));
    let gpg = config.conf_file.with_file_name("gpgkeys");
    let dirs = [&config.pki_dir, &config.cachedir, &gpg].into_iter();
    for dir in dirs.chain(&keys).chain(&cache) {
        let link = fs::symlink_metadata(dir).is_ok_and(|m| m.is_symlink() && m.uid() != 0);
        if link && nix::unistd::geteuid().is_root() {
            return Err(format!(
                "{} is a link that root does not own, and is not followed",
                dir.display()
            ));
        }
    }
    Ok(())
}

/// Copies the master's own key; with `look`, only checks whether that is possible.
fn transfer_master_key(
    source: &MasterConfig,
    target: &MasterConfig,
    more: &[String],
    how: TransferOptions,
    look: bool,
) -> Result<MasterKey, String> {
    let way = transfer::TransferOptions {
        dry: how.dry_run || look,
        ..transfer_mode(how)
    };
    let (from, to) = (local::key_files(source), local::key_files(target));
    let key =
        transfer::master_key(&from, &to, more, way).map_err(|e| with_path(&target.pki_dir, &e))?;
    if key == MasterKey::Conflict {
        return Err(format!(
            "{} holds another master's key, under which minions are accepted; minions of {} would refuse it. \
             Take that directory away if those minions are not needed",
            target.pki_dir.display(),
            source.pki_dir.display()
        ));
    }
    Ok(key)
}

fn transfer_mode(how: TransferOptions) -> transfer::TransferOptions {
    transfer::TransferOptions {
        dry: how.dry_run,
        delete: how.delete,
    }
}

/// Refuses two masters that would write to the same directories.
fn check_separate(source: &MasterConfig, target: &MasterConfig) -> Result<(), String> {
    if source.pki_dir != target.pki_dir && source.cachedir != target.cachedir {
        return Ok(());
    }
    Err(format!(
        "both configurations name the same pki_dir or cachedir ({}); give halite's its own, or run halite with Salt's directory as it is",
        target.pki_dir.display()
    ))
}

/// The layout of a cache: the one found there, else that of `salt_series`.
fn layout_of(config: &MasterConfig) -> Layout {
    let old = config.minions_cache().is_dir();
    let new = config.grains_cache().is_dir();
    match (config.flavour, old, new) {
        (halite_config::Flavour::Salt, true, false) => Layout::Combined,
        (halite_config::Flavour::Salt, false, true) => Layout::Split,
        _ => local::layout(config),
    }
}

/// Copies the master's file and the files it includes, if they are in the configuration directory.
fn configuration(from: &Path, to: &Path, done: &mut TransferReport) -> Result<(), String> {
    let seen = inspect(from, Role::Master).map_err(|e| e.to_string())?;
    let from = std::path::absolute(from).unwrap_or_else(|_| from.to_owned());
    for file in &seen.files {
        let Ok(name) = file.strip_prefix(&from) else {
            done.hints.push(format!(
                "{} is outside the configuration directory and is not copied; both masters read it",
                file.display()
            ));
            continue;
        };
        let carried = migrate_file(file, Role::Master).map_err(|e| e.to_string())?;
        let path = to.join(name);
        let there = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(with_path(&path, &e)),
        };
        let which = match there {
            Some(text) if text == carried.text => 1,
            // A file without any option is the sample of a package.
            Some(_) if migrate_file(&path, Role::Master).map_or(1, |c| c.options) > 0 => 2,
            _ => {
                done.remarks += carried.remarks;
                if !done.dry {
                    let dir = path.parent().unwrap_or(to);
                    make_dir(dir, 0o755).map_err(|e| with_path(dir, &e))?;
                    copy_config(file, &path, &carried.text).map_err(|e| with_path(&path, &e))?;
                }
                0
            }
        };
        done.files[which].push(path);
    }
    Ok(())
}

/// Writes the copy of a file. It may contain passwords, so its permissions are not wider than the original's,
/// and it gets the same owner.
fn copy_config(file: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::{PermissionsExt, chown};
    let meta = fs::metadata(file)?;
    write_atomic(path, text.as_bytes(), meta.permissions().mode() & 0o644)?;
    if nix::unistd::geteuid().is_root() {
        chown(path, Some(meta.uid()), Some(meta.gid()))?;
    }
    Ok(())
}

/// What the target's configuration will be after copying: the source's options without its paths.
fn predicted_config(source: &MasterConfig, to: &Path) -> Result<MasterConfig, String> {
    let seen = inspect(to, Role::Master).map_err(|e| e.to_string())?;
    // A file without any option is the sample of a package, and is replaced.
    if !seen.given.is_empty() {
        return load(to);
    }
    let root = halite_wire::map! {"root_dir" => source.root_dir.to_string_lossy().as_ref()};
    MasterConfig::from_map(root, to).map_err(|e| e.to_string())
}

/// The key ring of the renderer `gpg`, next to the configuration.
fn gpg_keys(source: &MasterConfig, target: &MasterConfig) -> std::io::Result<()> {
    let beside = |config: &MasterConfig| config.conf_file.with_file_name("gpgkeys");
    let from = beside(source);
    if !source.gpg_keydir.is_empty() || !from.is_dir() {
        return Ok(());
    }
    copy_tree(&from, &beside(target), 0)
}

/// Copies regular files that do not exist yet, readable by their owner only.
fn copy_tree(from: &Path, to: &Path, depth: usize) -> std::io::Result<()> {
    make_dir(to, 0o700)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() && depth < DEEPEST {
            copy_tree(&entry.path(), &path, depth + 1)?;
        } else if kind.is_file() && !path.exists() {
            // Another account may own the directory, and the file may be a link by now.
            let mut content = Vec::new();
            open_no_follow(&entry.path())?.read_to_end(&mut content)?;
            write_atomic(&path, &content, 0o600)?;
        }
    }
    Ok(())
}

/// Changes the owner of everything to the master's account, as the master itself does at startup.
fn chown_all(config: &MasterConfig) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let gpg = config.conf_file.with_file_name("gpgkeys");
    for dir in [&config.pki_dir, &config.cachedir, &gpg] {
        if dir.is_dir() {
            chown_tree(dir, &config.user, &[]).map_err(|e| with_path(dir, &e))?;
        }
    }
    Ok(())
}

/// The lock of a halite master that is not running, so that none is started meanwhile.
fn lock_stopped(config: &MasterConfig) -> Result<Option<InstanceLock>, String> {
    let path = config.instance_lock();
    if !path.exists() {
        return Ok(None);
    }
    match InstanceLock::take(&path) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(format!(
            "halite-master is running with {}; stop it first: it has the keys in memory and continues to accept others",
            config.conf_file.display()
        )),
        Err(e) => Err(with_path(&path, &e)),
    }
}

/// Whether the process in a pid file is a master.
fn running(config: &MasterConfig) -> bool {
    let pid = fs::read_to_string(&config.pidfile).unwrap_or_default();
    let Ok(pid) = pid.trim().parse::<u32>() else {
        return false;
    };
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("master")
}

fn check_exists(dir: &Path) -> Result<(), String> {
    if dir.join(Role::Master.name()).exists() || dir.join("master.d").is_dir() {
        Ok(())
    } else {
        Err(format!(
            "{} does not contain a master's configuration",
            dir.display()
        ))
    }
}

fn load(dir: &Path) -> Result<MasterConfig, String> {
    load_master(dir).map_err(|e| e.to_string())
}

fn same_dir(a: &Path, b: &Path) -> bool {
    let real = |p: &Path| fs::canonicalize(p).unwrap_or_else(|_| p.to_owned());
    real(a) == real(b)
}

fn with_path(path: &Path, e: &std::io::Error) -> String {
    format!("{}: {e}", path.display())
}

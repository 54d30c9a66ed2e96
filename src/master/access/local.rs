//! Authentication of local users: with the content of a key file that only this user can read
//! (`salt/auth/__init__.py LoadAuth.authenticate_key`, `salt/daemons/masterapi.py access_keys`; reference
//! `salt-protocol.md` 7.1).

use super::roles::{self, expr_match};
use super::rules::AuthList;
use super::{Method, Rights};
use halite_config::MasterConfig;
use halite_config::paths::master::key_digest;
use halite_crypto::{HashType, KeyString, constant_time_eq};
use halite_sys::daemon::write_atomic;
use halite_sys::held_path::HeldDir;
use halite_sys::process::user_name;
use halite_sys::safe_open::{no_follow, open_plain, read_text};
use nix::unistd::{Uid, User, fchown};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Largest key file; a key has 76 characters.
const LONGEST: u64 = 4096;

/// Creates missing key files of the master's account and of the one that started it; existing ones are kept, so
/// that a restart breaks no running client.
pub(crate) fn create_key_files(config: &MasterConfig, starter: &str) -> io::Result<()> {
    let mut users = vec![config.user.as_str(), starter];
    users.dedup();
    for user in users {
        create(&config.client_key(user))?;
    }
    match config.api() {
        Some(api) if api.user.is_none() => {
            let _ = std::fs::remove_file(key_digest(&config.api_key()));
            create(&config.api_key())
        }
        _ => Ok(()),
    }
}

/// Reads the key in a file. Users may write anything into their own, so the size is limited.
fn read(path: &Path) -> io::Result<KeyString> {
    let text = read_text(path, LONGEST)?;
    KeyString::from_text(text.trim_end()).map_err(io::Error::other)
}

/// Creates a key for this account. One that another account has had is not kept.
fn create(path: &Path) -> io::Result<()> {
    let is_ours = owner(path) == Some(Uid::effective().as_raw());
    if !is_ours || read(path).is_err() {
        write_atomic(path, KeyString::generate().as_str().as_bytes(), 0o600)?;
    }
    Ok(())
}

fn owner(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|meta| meta.uid())
}

/// Accounts other than the master's that have key files, and where these are in `cachedir`.
pub(crate) fn other_accounts(config: &MasterConfig) -> Vec<(String, PathBuf)> {
    let service = config.api().and_then(|api| api.user);
    let own = [
        Some(config.user.clone()),
        Some(user_name()),
        service.clone(),
    ];
    let others = publishers(config).into_iter();
    let others = others.filter(|user| !own.contains(&Some(user.clone())) && valid_name(user));
    let mut keys: Vec<(String, PathBuf)> = others
        .map(|user| (user.clone(), config.client_key(&user)))
        .collect();
    keys.extend(service.map(|user| (user, config.api_key())));
    keys
}

/// Names of key files in `cachedir` that do not become those of the master's account when it gets that directory.
pub(crate) fn names_of_others(config: &MasterConfig) -> Vec<String> {
    let keys = other_accounts(config).into_iter().map(|(_, path)| path);
    // Also that of a service that was a daemon: its key must not stay valid.
    let keys = keys.chain([config.api_key()]);
    keys.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// Creates the key files of the users of `publisher_acl`, and of the REST service if it has an account of its own. Call as
/// root, before dropping privileges: only its user can read a file, so that the master, which has another account, gets
/// the digest of the key. Without root only the master's own account could use them, so none are created.
pub(crate) fn create_keys_of_others(config: &MasterConfig) -> io::Result<()> {
    let mut keys = other_accounts(config);
    if !Uid::effective().is_root() {
        let is_there = |path: &Path| key_digest(path).exists() || read(path).is_ok();
        keys.retain(|(_, path)| !is_there(path));
        if !keys.is_empty() {
            let missing: Vec<String> = keys.into_iter().map(|(user, _)| user).collect();
            log::warn!(
                "publisher_acl, api: only root can create the key files of {}; run halite-master --prepare as root",
                missing.join(", ")
            );
        }
        return Ok(());
    }
    let Some(master) = User::from_name(&config.user)? else {
        // Switching to it says so.
        return Ok(());
    };
    // The master's account may own this directory and the one above, and exchange it for another one meanwhile.
    let dir = HeldDir::by_links_of_root(&config.cachedir)?;
    let meta = dir.path().metadata()?;
    if ![0, master.uid.as_raw()].contains(&meta.uid()) {
        return Err(io::Error::other(
            "it belongs to neither root nor the master",
        ));
    }
    for (user, path) in keys {
        let Some(name) = path.file_name() else {
            continue;
        };
        // Whatever somebody does with their file, others get theirs.
        if let Err(e) = create_for(&user, &dir.path().join(name), &master) {
            log::warn!(
                "the key file {} of {user:?} cannot be made: {e}",
                path.display()
            );
        }
    }
    // Users open their file by name; the directory is not listable.
    let mode = meta.permissions().mode();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode | 0o001))
}

fn create_for(user: &str, path: &Path, master: &User) -> io::Result<()> {
    let account =
        User::from_name(user)?.ok_or_else(|| io::Error::other("there is no such account"))?;
    if account.uid.is_root() || account.uid == master.uid {
        return Err(io::Error::other("it is root or the master by another name"));
    }
    // One that another account has had is not kept.
    let kept = (owner(path) == Some(account.uid.as_raw())).then(|| read(path).ok());
    let key = kept.flatten().unwrap_or_else(KeyString::generate);
    let digest = key_digest(path);
    for (path, text, account) in [
        (path, key.as_str(), &account),
        (&digest, &digest_of(key.as_str()), master),
    ] {
        write_atomic(path, text.as_bytes(), 0o600)?;
        hand_to(path, account)?;
    }
    Ok(())
}

/// Makes a file that of an account alone. The directory belongs to the master's account and must not be trusted as root, so
/// this works on the open file, not on its name.
fn hand_to(path: &Path, account: &User) -> io::Result<()> {
    let file = open_plain(no_follow().read(true), path)?;
    fchown(&file, Some(account.uid), Some(account.gid))?;
    file.set_permissions(PermissionsExt::from_mode(0o600))
}

/// A key is random, so a plain digest of it tells nothing.
fn digest_of(key: &str) -> String {
    HashType::Sha256.hex(key.as_bytes())
}

/// Whether a client has the key of this file of the master's account.
fn is_own(path: &Path, key: &str) -> bool {
    // Before anything is computed from what a stranger sends.
    key.len() as u64 <= LONGEST
        && read(path).is_ok_and(|own| constant_time_eq(own.as_bytes(), key.as_bytes()))
}

/// The same for a file of another account, which the master itself cannot read. Files of Salt's have no digest.
fn is_of_other(path: &Path, key: &str) -> bool {
    if key.len() as u64 > LONGEST {
        return false;
    }
    match read_text(&key_digest(path), LONGEST) {
        Ok(digest) => constant_time_eq(digest.trim_end().as_bytes(), digest_of(key).as_bytes()),
        Err(_) => is_own(path, key),
    }
}

/// Whether a client is the REST service of this master. It has a key of its own, which permits nothing else.
pub(crate) fn is_api(config: &MasterConfig, key: &str) -> bool {
    match config.api() {
        None => false,
        Some(api) if api.user.is_none() => is_own(&config.api_key(), key),
        Some(_) => is_of_other(&config.api_key(), key),
    }
}

/// Names in `publisher_acl`, and with `client_acl_verify` every account that matches a pattern there.
fn publishers(config: &MasterConfig) -> Vec<String> {
    let keys = config.publisher_acl.iter();
    let mut names: Vec<String> = keys
        .filter_map(|(k, _)| Some(k.as_str()?.to_owned()))
        .collect();
    if config.client_acl_verify {
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let patterns = names.clone();
        // A pattern that is not an account name gets no file.
        names.retain(|name| matches!(User::from_name(name), Ok(Some(_))));
        for name in accounts.lines().filter_map(|line| line.split(':').next()) {
            if patterns
                .iter()
                .any(|pattern| expr_match(name, pattern) == Ok(true))
            {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Whether a name is safe as part of a path.
fn valid_name(user: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._-@$+".contains(c);
    !user.is_empty() && user.len() <= 128 && user.chars().all(plain)
}

/// Checks what `key` permits for a client that claims to be `user`.
///
/// The key of the master's account (or of the account it runs as) permits everything. With `sudo_acl`, a person
/// behind sudo is limited to `publisher_acl`. Any other key is valid only for its own user, with the
/// permissions in `publisher_acl`. Stock Salt treats the key of any user as root's if the request says `root`
/// or `sudo_...`.
///
/// # Errors
/// Why the key is not valid.
pub(super) fn authenticate(
    config: &MasterConfig,
    user: Option<&str>,
    key: &str,
) -> Result<(String, Method, Rights), &'static str> {
    let own = user_name();
    let owners = [config.user.as_str(), own.as_str()];
    let user = user.unwrap_or(&config.user);
    let is_owner = |account: &str| is_own(&config.client_key(account), key);
    if owners.into_iter().any(is_owner) {
        let person = user.strip_prefix("sudo_");
        let rights = match person.filter(|_| config.sudo_acl && !config.publisher_acl.is_empty()) {
            None => Rights::All,
            Some(person) => Rights::Listed(listed(config, person)?),
        };
        return Ok((user.to_owned(), Method::Key, rights));
    }
    let is_service = config
        .api()
        .is_some_and(|api| api.user.as_deref() == Some(user));
    if is_service {
        return Err("the account of the REST service has no permissions");
    }
    if owners.contains(&user) || user == "root" || user.starts_with("sudo_") || !valid_name(user) {
        return Err("the key is not that of the master's account");
    }
    let rights = listed(config, user)?;
    if !is_of_other(&config.client_key(user), key) {
        return Err("the key is not that of the user");
    }
    Ok((user.to_owned(), Method::Key, Rights::Listed(rights)))
}

fn listed(config: &MasterConfig, user: &str) -> Result<AuthList, &'static str> {
    roles::publisher(&config.publisher_acl, user).ok_or("publisher_acl does not name the user")
}

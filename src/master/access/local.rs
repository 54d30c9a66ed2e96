//! Authentication of local users: with the content of a key file that only this user can read
//! (`salt/auth/__init__.py LoadAuth.authenticate_key`, `salt/daemons/masterapi.py access_keys`; reference
//! `salt-protocol.md` 7.1).

use super::roles::{self, expr_match};
use super::rules::AuthList;
use super::{Method, Rights};
use halite_config::MasterConfig;
use halite_crypto::{KeyString, constant_time_eq};
use halite_sys::daemon::write_atomic;
use halite_sys::process::user_name;
use halite_sys::safe_open::{no_follow, open_plain, read_text};
use nix::unistd::{Gid, Uid, User, fchown};
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Largest key file; a key has 76 characters.
const LONGEST: u64 = 4096;

/// Creates missing key files of the master's account and of the one that started it; existing ones are kept, so
/// that a restart breaks no running client.
pub(crate) fn create_key_files(config: &MasterConfig, starter: &str) -> io::Result<()> {
    let mut users = vec![config.user.as_str(), starter];
    users.dedup();
    for user in users {
        create(&config.client_key(user), 0o600)?;
    }
    Ok(())
}

/// Reads the key in a file. Users may write anything into their own, so the size is limited.
fn read(path: &Path) -> io::Result<KeyString> {
    let text = read_text(path, LONGEST)?;
    KeyString::from_text(text.trim_end()).map_err(io::Error::other)
}

fn create(path: &Path, mode: u32) -> io::Result<()> {
    if read(path).is_err() {
        write_atomic(path, KeyString::generate().as_str().as_bytes(), mode)?;
    }
    Ok(())
}

/// Creates the key files of the users of `publisher_acl`. Call as root, before dropping privileges: each file
/// belongs to its user, and to the group of the master's account, which reads it. Without root only the
/// master's own account could use them, so none are created.
pub(crate) fn create_publisher_keys(config: &MasterConfig) -> io::Result<()> {
    if config.publisher_acl.is_empty() {
        return Ok(());
    }
    let own = [config.user.clone(), user_name()];
    let others = publishers(config).into_iter();
    let others = others.filter(|user| !own.contains(user) && valid_name(user));
    if !Uid::effective().is_root() {
        let missing: Vec<String> = others
            .filter(|u| read(&config.client_key(u)).is_err())
            .collect();
        if !missing.is_empty() {
            log::warn!(
                "publisher_acl: only root can create the key files of {}; run halite-master --prepare as root",
                missing.join(", ")
            );
        }
        return Ok(());
    }
    let master = User::from_name(&config.user)?;
    for user in others {
        let path = config.client_key(&user);
        let account = User::from_name(&user)?;
        if account.is_none() && config.client_acl_verify {
            log::warn!("publisher_acl: there is no account {user:?}");
            continue;
        }
        create(&path, 0o600)?;
        let (Some(account), Some(master)) = (account, &master) else {
            continue;
        };
        let (gid, mode) = if master.uid.is_root() {
            (Gid::from_raw(0), 0o600)
        } else {
            (master.gid, 0o640)
        };
        // The directory belongs to the master's account and must not be trusted as root, so work on the open
        // file, not on its name.
        let file = open_plain(no_follow().read(true), &path)?;
        fchown(&file, Some(account.uid), Some(gid))?;
        file.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    // Users open their file by name; the directory is not listable.
    let dir = File::open(&config.cachedir)?;
    let mode = dir.metadata()?.permissions().mode();
    dir.set_permissions(PermissionsExt::from_mode(mode | 0o001))
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
    let matches = |account: &str| {
        read(&config.client_key(account))
            .is_ok_and(|own| constant_time_eq(own.as_bytes(), key.as_bytes()))
    };
    let user = user.unwrap_or(&config.user);
    if owners.into_iter().any(matches) {
        let person = user.strip_prefix("sudo_");
        let rights = match person.filter(|_| config.sudo_acl && !config.publisher_acl.is_empty()) {
            None => Rights::All,
            Some(person) => Rights::Listed(listed(config, person)?),
        };
        return Ok((user.to_owned(), Method::Key, rights));
    }
    if owners.contains(&user) || user == "root" || user.starts_with("sudo_") || !valid_name(user) {
        return Err("the key is not that of the master's account");
    }
    let rights = listed(config, user)?;
    if !matches(user) {
        return Err("the key is not that of the user");
    }
    Ok((user.to_owned(), Method::Key, Rights::Listed(rights)))
}

fn listed(config: &MasterConfig, user: &str) -> Result<AuthList, &'static str> {
    roles::publisher(&config.publisher_acl, user).ok_or("publisher_acl does not name the user")
}

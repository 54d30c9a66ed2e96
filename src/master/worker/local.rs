//! Proof of a local user: the text of a key file that only this user can read
//! (reference `salt-protocol.md` 7.1).

use crate::config::MasterConfig;
use crate::crypto::{KeyString, constant_time_eq};
use crate::sys::daemon::write_atomic;
use crate::sys::process::user_name;
use std::io;
use std::path::{Path, PathBuf};

fn path(cachedir: &Path, user: &str) -> PathBuf {
    cachedir.join(format!(".{user}_key"))
}

/// Makes the key files of the master's accounts where they are missing; existing ones
/// stay, so that a restart breaks no running client.
pub(crate) fn create_key_files(config: &MasterConfig) -> io::Result<()> {
    let mut users = vec![config.user.clone(), user_name()];
    users.dedup();
    for user in users {
        let path = path(&config.cachedir, &user);
        let usable = std::fs::read_to_string(&path).is_ok_and(|t| KeyString::from_text(&t).is_ok());
        if !usable {
            write_atomic(&path, KeyString::generate().as_str().as_bytes(), 0o600)?;
        }
    }
    Ok(())
}

/// Whether `key` proves that the caller may act as the master's own user. `user` is the
/// name that the caller gives; `sudo_<name>` stands for a person behind root.
pub(crate) fn authenticate(config: &MasterConfig, user: &str, key: &str) -> bool {
    let own = user_name();
    let known = [config.user.as_str(), own.as_str()];
    let account = if known.contains(&user) {
        user
    } else if user == "root" || user.starts_with("sudo_") {
        config.user.as_str()
    } else {
        return false;
    };
    let matches = |account: &str| {
        std::fs::read_to_string(path(&config.cachedir, account))
            .is_ok_and(|text| !text.is_empty() && constant_time_eq(text.as_bytes(), key.as_bytes()))
    };
    matches(account) || (account != own && matches(&own))
}

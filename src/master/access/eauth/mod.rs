//! External authentication: checks passwords of users (`salt/auth/__init__.py LoadAuth`).

pub mod child;
pub mod crypt;
pub mod file;
pub mod ldap;
pub mod oidc;
mod python;

use super::names;
use file::FileUsers;
use halite_config::MasterConfig;
use halite_crypto::constant_time_eq;
use halite_wire::{Map, Value};
use oidc::OidcSettings;

/// The supported systems.
pub const SYSTEMS: [&str; 6] = ["pam", "ldap", "file", "oidc", "sharedsecret", "auto"];
/// Shortest `sharedsecret`: whoever guesses it is any user of the system.
const SHORTEST_SECRET: usize = 16;
/// Longest name and longest password.
const LONGEST: usize = 1024;

/// Why a system of `external_auth` is unusable, if it is; reported when the configuration is checked.
pub fn fault(name: &str, system: &Map, config: &MasterConfig) -> Option<String> {
    match name {
        "pam" | "auto" => None,
        "sharedsecret" => shared_secret(config).err(),
        "file" => FileUsers::parse(system).err(),
        "oidc" => OidcSettings::parse(system).err(),
        "ldap" => ldap::fault(&ldap::settings(config)).map(str::to_owned),
        other if python::is_possible(&std::sync::Arc::new(config.as_map()), other) => None,
        other => Some(format!(
            "the system {other:?} is not supported; use one of {}, or a Python file in auth_dirs",
            SYSTEMS.join(", ")
        )),
    }
}

/// The secret of the system `sharedsecret`.
fn shared_secret(config: &MasterConfig) -> Result<&str, String> {
    let secret = config.sharedsecret.as_str();
    if secret.len() < SHORTEST_SECRET {
        return Err(format!(
            "`sharedsecret` must be set to at least {SHORTEST_SECRET} characters, for example with \
             `openssl rand -hex 32`"
        ));
    }
    Ok(secret)
}

/// Whether a system takes different spellings of a name for the same user, see [`names::folded`].
pub fn folds_names(system: &str) -> bool {
    system == "ldap"
}

/// Whether passwords of a system can be guessed, so that wrong ones count. ID tokens cannot.
pub fn has_passwords(system: &str) -> bool {
    system != "oidc"
}

/// Checks a password with a system; returns the user's groups there.
///
/// `service` and the like come from the configuration only: nothing that a client sends chooses how it is
/// authenticated (CVE-2016-3176).
///
/// # Errors
/// Why the check failed, for the log.
pub fn authenticate(
    config: &MasterConfig,
    name: &str,
    system: &Map,
    user: &str,
    password: &str,
) -> Result<Vec<String>, String> {
    let longest = if name == "oidc" {
        oidc::LONGEST
    } else {
        LONGEST
    };
    if user.is_empty() || user.len() > LONGEST || password.len() > longest {
        return Err("the name is empty, or the name or password is too long".into());
    }
    if user.chars().chain(password.chars()).any(|c| c == '\0') {
        return Err("NUL in the name or the password".into());
    }
    let settings = match name {
        "file" => {
            let proven = FileUsers::parse(system)?.check(user, password)?;
            return if proven {
                Ok(Vec::new())
            } else {
                Err("unknown user or wrong password".into())
            };
        }
        "auto" => return Ok(Vec::new()),
        "sharedsecret" => {
            let secret = shared_secret(config)?;
            return if constant_time_eq(password.as_bytes(), secret.as_bytes()) {
                Ok(Vec::new())
            } else {
                Err("wrong secret".into())
            };
        }
        "pam" => halite_wire::map! {"service" => config.auth_pam_service.as_str()},
        "ldap" if !names::is_plain(user) => {
            return Err(
                "the name has blanks or characters that a directory does not read as written"
                    .into(),
            );
        }
        "ldap" => ldap::settings(config),
        "oidc" => oidc::settings_for_child(system),
        other => return python::authenticate(config, other, system, user, password),
    };
    child::ask(&halite_wire::map! {
        "system" => name, "user" => user, "password" => password,
        "settings" => Value::Map(settings),
    })
}

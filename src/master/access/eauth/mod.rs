//! External authentication: whether a password is a user's (`salt/auth/__init__.py LoadAuth`).

pub mod child;
pub mod crypt;
pub mod file;
pub mod ldap;

use file::FileUsers;
use halite_config::MasterConfig;
use halite_wire::{Map, Value};

/// The systems that are known.
pub const SYSTEMS: [&str; 3] = ["pam", "ldap", "file"];
/// Longest name and longest password.
const LONGEST: usize = 1024;

/// Why a system of `external_auth` cannot be used, if so; said when the configuration is checked.
pub fn fault(name: &str, system: &Map, config: &MasterConfig) -> Option<String> {
    match name {
        "pam" => None,
        "file" => FileUsers::parse(system).err(),
        "ldap" => ldap::fault(&ldap::settings(config)).map(str::to_owned),
        other => Some(format!(
            "the system {other:?} is not supported; use one of {}",
            SYSTEMS.join(", ")
        )),
    }
}

/// Asks a system whether the password is the user's; gives his groups there.
///
/// `service` and the like come from the configuration alone: nothing that a client sends chooses
/// how it is authenticated (CVE-2016-3176).
///
/// # Errors
/// Why not, for the log.
pub fn authenticate(
    config: &MasterConfig,
    name: &str,
    system: &Map,
    user: &str,
    password: &str,
) -> Result<Vec<String>, String> {
    if user.is_empty() || user.len() > LONGEST || password.len() > LONGEST {
        return Err("the name is empty, or name or password are too long".into());
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
        "pam" => halite_wire::map! {"service" => config.auth_pam_service.as_str()},
        "ldap" => ldap::settings(config),
        other => return Err(format!("the system {other:?} is not supported")),
    };
    child::ask(&halite_wire::map! {
        "system" => name, "user" => user, "password" => password,
        "settings" => Value::Map(settings),
    })
}

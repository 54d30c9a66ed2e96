//! Who asks for a runner or a wheel function, and whether they may: the one place where both
//! are decided (`salt/master.py ClearFuncs._prep_auth_info`, `salt/auth/__init__.py
//! LoadAuth.check_authentication`; reference `salt-protocol.md` 7.1, 7.3).

use super::context::Context;
use super::local;
use crate::wire::{Map, Value};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `@runner`.
    Runner,
    /// `@wheel`.
    Wheel,
}

impl Kind {
    /// The command on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Runner => "runner",
            Kind::Wheel => "wheel",
        }
    }
}

/// A caller who may run the function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Caller {
    /// The name that events carry.
    pub user: String,
}

/// Proves the caller and takes the proof out of the load, so that neither an event nor a
/// process sees it. The error is what the caller is answered under `error`.
pub(super) fn prove(worker: &Context, kind: Kind, load: &mut Map) -> Result<Caller, Map> {
    let proof: Map = ["token", "eauth", "username", "password"]
        .into_iter()
        .filter_map(|k| Some((k, load.remove(k)?)))
        .collect();
    let fun = load.str("fun").unwrap_or_default();
    if proof.contains("token") {
        log::warn!("{} {fun:?} was refused: tokens are not served", kind.name());
        let message = "Authentication failure of type \"token\" occurred.";
        return Err(error("TokenAuthenticationError", message));
    }
    if proof.contains("eauth") {
        let user = proof.str("username").unwrap_or("UNKNOWN");
        log::warn!("{} {fun:?} of {user:?} was refused: eauth", kind.name());
        let message = format!("Authentication failure of type \"eauth\" occurred for user {user}.");
        return Err(error("EauthAuthenticationError", &message));
    }
    let user = load.remove("user").unwrap_or_default();
    let key = load.remove("key").unwrap_or_default();
    let (user, key) = (text(&user), text(&key));
    if !local::authenticate(&worker.config, user, key) {
        log::warn!("{} of user {user:?} was refused: wrong key", kind.name());
        let message = "Authentication failure of type \"user\" occurred";
        return Err(error("UserAuthenticationError", message));
    }
    let user = match user.starts_with("sudo_") {
        true => worker.config.user.clone(),
        false => user.to_owned(),
    };
    Ok(Caller { user })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// An error as stock clients raise it (`salt/utils/error.py raise_error`).
pub(super) fn error(name: &str, message: &str) -> Map {
    crate::map! {"name" => name, "message" => message}
}

//! Authentication and authorisation of callers of runner and wheel functions, in one place (`salt/master.py
//! ClearFuncs._prep_auth_info`, `salt/auth/__init__.py LoadAuth.check_authentication`; reference
//! `salt-protocol.md` 7.1, 7.3).

use super::context::Context;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};

/// The kind of function called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    /// `@runner`.
    Runner,
    /// `@wheel`.
    Wheel,
}

/// Credentials in a request; they are removed.
const PROOF: [&str; 6] = ["token", "eauth", "username", "password", "user", "key"];

/// Authenticates and authorizes the caller, and removes the credentials from the load, so that neither events
/// nor processes see them. Returns the user name for events; the error is the reply.
pub(super) fn prove(
    worker: &mut Context,
    kind: FunctionKind,
    load: &mut Map,
    peer: &str,
    jid: &Jid,
) -> Result<String, Value> {
    let caller = match kind {
        FunctionKind::Runner => worker.access.authorize_runner(load, peer, jid.as_str())?,
        FunctionKind::Wheel => worker.access.authorize_wheel(load, peer, jid.as_str())?,
    };
    for field in PROOF {
        load.remove(field);
    }
    Ok(if caller.user().starts_with("sudo_") {
        worker.config.user.clone()
    } else {
        caller.user().to_owned()
    })
}

/// An error as stock clients raise it (`salt/utils/error.py raise_error`).
pub(super) fn error(name: &str, message: &str) -> Map {
    halite_wire::map! {"name" => name, "message" => message}
}

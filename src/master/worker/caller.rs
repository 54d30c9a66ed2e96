//! Authentication and authorisation of callers of runner and wheel functions, in one place (`salt/master.py
//! ClearFuncs._prep_auth_info`, `salt/auth/__init__.py LoadAuth.check_authentication`; reference
//! `salt-protocol.md` 7.1, 7.3).

use super::context::Context;
use crate::access::rules::{Call, CallApi};
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};

/// Credentials in a request; no function gets them.
pub(super) const PROOF: [&str; 6] = ["token", "eauth", "username", "password", "user", "key"];

/// Authenticates the caller by the credentials in the load, and authorizes the call. Returns the user name for events;
/// the error is the reply.
pub(super) fn prove(
    worker: &mut Context,
    api: CallApi,
    load: &Map,
    call: &Call,
    (peer, jid): (&str, &Jid),
) -> Result<String, Value> {
    let caller = worker
        .access
        .authorize(api, load, call, (peer, jid.as_str()))?;
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

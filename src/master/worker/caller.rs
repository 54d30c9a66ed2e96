//! Who asks for a runner or a wheel function, and whether they may: the one place where both
//! are decided (`salt/master.py ClearFuncs._prep_auth_info`, `salt/auth/__init__.py
//! LoadAuth.check_authentication`; reference `salt-protocol.md` 7.1, 7.3).

use super::context::Context;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `@runner`.
    Runner,
    /// `@wheel`.
    Wheel,
}

/// Fields that prove who asks; they go no further.
const PROOF: [&str; 6] = ["token", "eauth", "username", "password", "user", "key"];

/// Proves the caller, asks whether they may, and takes the proof out of the load, so that neither
/// an event nor a process sees it. Gives the name that events carry; the error is the answer.
pub(super) fn prove(
    worker: &mut Context,
    kind: Kind,
    load: &mut Map,
    peer: &str,
    jid: &Jid,
) -> Result<String, Value> {
    let caller = match kind {
        Kind::Runner => worker.access.authorize_runner(load, peer, jid.as_str())?,
        Kind::Wheel => worker.access.authorize_wheel(load, peer, jid.as_str())?,
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

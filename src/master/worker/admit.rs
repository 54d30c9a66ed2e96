//! Whether a peer that wants to sign in may: what Salt's sign-in and the handshake of halite's minions have in common.

use super::context::Context;
use crate::admission::{Candidate, Verdict};
use halite_crypto::{CipherKind, IdentityPublic, clean_key};
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};

/// A 2048-bit public key has 450 bytes; no reasonable one comes near this size.
const MAX_PUB: usize = 16 * 1024;

/// Decides about a peer by `id` and `pub` of `load`, stores its key and fires the event. `proves` says why the key
/// cannot be the peer's, as far as that is known already. The inner error is the `ret` of the
/// reply to a peer that is not signed in.
///
/// # Errors
/// The key store cannot be used.
pub(super) fn admit(
    worker: &mut Context,
    load: &Map,
    peer: &str,
    proves: impl FnOnce(&IdentityPublic) -> Result<(), &'static str>,
) -> Result<Result<(MinionId, IdentityPublic), Value>, ExitError> {
    let text = load.str("id").unwrap_or_default();
    let Ok(id) = text.parse::<MinionId>() else {
        log::warn!(peer:% = peer; "{peer} tried to sign in with an invalid id: {}", excerpt(text, 64));
        return Ok(Err(false.into()));
    };
    let Some(presented) = load
        .str("pub")
        .filter(|p| p.len() <= MAX_PUB)
        .map(clean_key)
    else {
        return Ok(Err(false.into()));
    };
    // Only the key as programs write it: it is stored and shown as it came.
    let Ok(key) = IdentityPublic::from_bare_pem(&presented) else {
        log::warn!(minion:% = id, peer:% = peer; "{peer} tried to sign in as {id} with an invalid public key");
        return Ok(Err(false.into()));
    };
    if let Err(why) = proves(&key) {
        log::warn!(minion:% = id, peer:% = peer; "{peer} as {id}: {why}");
        return Ok(Err(false.into()));
    }
    let candidate = Candidate {
        id: &id,
        presented: &presented,
        grains: load.get("autosign_grains").and_then(Value::as_map),
        vouched: false,
        is_alone: worker.cluster.is_some() && !worker.is_member(),
    };
    if is_full(worker, &id) {
        log::warn!(
            minion:% = id, peer:% = peer;
            "{id} may not sign in: max_minions ({}) are connected",
            worker.config.max_minions
        );
        let event = candidate.event(&worker.config, false, Some("full"));
        fire_auth_event(worker, event);
        return Ok(Err("full".into()));
    }
    let decision = candidate.decide(&worker.config, &*worker.stores.keys)?;
    let verdict = decision.verdict;
    match verdict {
        Verdict::Pending { store: true } if candidate.is_alone => {
            log::warn!(
                minion:% = id, peer:% = peer;
                "new key of {id} from {peer} waits: without a connection to its cluster this master trusts nobody new"
            );
        }
        Verdict::Pending { store: true } => {
            log::info!(minion:% = id, peer:% = peer; "new key of {id} from {peer}, waiting for `halite-key -a {id}`");
        }
        Verdict::Rejected { .. } => {
            log::info!(minion:% = id, peer:% = peer; "{id} from {peer} is rejected")
        }
        Verdict::Denied => log::error!(
            minion:% = id, peer:% = peer;
            "{peer} presented another key for {id} than the stored one; if the minion was reinstalled, \
             `halite-key -d {id}` and accept the new key"
        ),
        Verdict::Accepted { .. } => {
            log::debug!(minion:% = id, peer:% = peer; "{id} signs in from {peer}")
        }
        Verdict::Pending { store: false } => {}
    }
    candidate.keep(&*worker.stores.keys, verdict)?;
    if verdict == (Verdict::Accepted { store: true }) {
        // Another key may have had this id before.
        worker.stores.sessions.remove(&id)?;
    }
    drop(decision);
    let (result, act) = verdict.event_fields();
    let event = candidate.event(&worker.config, result, act);
    fire_auth_event(worker, event);
    Ok(match verdict {
        Verdict::Accepted { .. } => Ok((id, key)),
        Verdict::Pending { .. } => Err(true.into()),
        Verdict::Rejected { .. } | Verdict::Denied => Err(false.into()),
    })
}

/// Fires the event of a sign-in of a minion whose key is known to be accepted.
pub(super) fn accepted_again(worker: &mut Context, id: &MinionId, key: &IdentityPublic) {
    let presented = clean_key(&key.to_pem());
    let candidate = Candidate {
        id,
        presented: &presented,
        grains: None,
        vouched: false,
        is_alone: false,
    };
    let (result, act) = Verdict::Accepted { store: false }.event_fields();
    let event = candidate.event(&worker.config, result, act);
    fire_auth_event(worker, event);
}

fn fire_auth_event(worker: &mut Context, event: Map) {
    if worker.config.auth_events {
        worker.bus.fire("salt/auth", event);
    }
}

/// Whether `max_minions` is reached without this one. A minion has one connection to a publish port, so the
/// established connections there are counted.
fn is_full(worker: &Context, id: &MinionId) -> bool {
    let max = worker.config.max_minions as usize;
    if max == 0 {
        return false;
    }
    let connected = halite_sys::net::established(&worker.config.publish_ports());
    let has_session = CipherKind::ALL
        .into_iter()
        .any(|kind| matches!(worker.stores.sessions.get(kind, id), Ok(Some(_))));
    connected >= max && !has_session
}

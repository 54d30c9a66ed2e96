//! Verifies that a master is the one the operator chose.

use halite_crypto::{PublicKey, constant_time_eq};

/// Exit status if the master's key is not the expected one, as for halite-minion.
pub(super) const OTHER_KEY: i32 = 42;

/// Checks a key sent by a master: `true` if it is valid and new, `false` if it is the one already accepted.
///
/// `fingerprint` is the one given by the operator, in lower case, or empty.
///
/// # Errors
/// The key is not valid: exit status and message of the minion, which must end.
pub(super) fn verify(
    key: &PublicKey,
    pinned: Option<&PublicKey>,
    fingerprint: &str,
) -> Result<bool, (i32, String)> {
    let told = key.pkcs1_fingerprint();
    if let Some(pinned) = pinned {
        if pinned == key {
            return Ok(false);
        }
        let text = format!(
            "the master has another key ({told}) than the one that this minion has accepted ({}); if that is right, \
             remove the accepted key and register again",
            pinned.pkcs1_fingerprint()
        );
        return Err((OTHER_KEY, text));
    }
    if fingerprint.is_empty() {
        let text = format!(
            "this minion is not registered. The master's key has the fingerprint {told}; compare it with the one that \
             the master's operator sees, then start with --register {told}"
        );
        return Err((1, text));
    }
    if !constant_time_eq(told.as_bytes(), fingerprint.as_bytes()) {
        let text = format!(
            "the master's key has the fingerprint {told}, expected {fingerprint}; the key was not accepted"
        );
        return Err((OTHER_KEY, text));
    }
    Ok(true)
}

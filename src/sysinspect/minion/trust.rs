//! Whether a master is the one that the operator vouched for.

use halite_crypto::{PublicKey, constant_time_eq};

/// Exit status when the master has another key than expected, as halite-minion's.
pub(super) const OTHER_KEY: i32 = 42;

/// Whether a key that a master has sent is good and new (`true`), or the accepted one (`false`).
///
/// `fingerprint` is what the operator gave, lower case, empty if nothing.
///
/// # Errors
/// It is not good: exit status and message of the minion, which has to end.
pub(super) fn judge(
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
            "the master's key has the fingerprint {told}, expected is {fingerprint}; nothing was accepted"
        );
        return Err((OTHER_KEY, text));
    }
    Ok(true)
}

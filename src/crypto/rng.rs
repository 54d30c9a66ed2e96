//! The only place that names a random number generator.

use rand::RngCore;
use rand::rngs::OsRng;

/// The operating system's generator; the one source of randomness of the program.
pub(super) fn rng() -> OsRng {
    OsRng
}

/// Fills a buffer with random bytes.
///
/// # Panics
/// If the operating system has no randomness to give: going on without would
/// hand out guessable keys.
pub fn fill_random(out: &mut [u8]) {
    rng().fill_bytes(out);
}

/// Lower-case hexadecimal digits of that many random bytes.
pub fn random_hex(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    fill_random(&mut raw);
    super::hash::hex(&raw)
}

/// A random UUID (RFC 9562, version 4), with hyphens and in lower case.
pub fn random_uuid() -> String {
    let mut raw = [0; 16];
    fill_random(&mut raw);
    halite_wire::ids::uuid(raw)
}

/// A fresh request nonce: 32 lower-case hexadecimal digits
/// (`salt/channel/client.py`, which uses `uuid4().hex`; receivers only compare it).
pub fn nonce() -> String {
    random_hex(16)
}

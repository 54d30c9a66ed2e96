//! The only place that names a random number generator.

use rand::RngCore;
use rand::rngs::OsRng;

/// The operating system's generator, the program's only source of randomness.
pub(super) fn rng() -> OsRng {
    OsRng
}

/// Fills a buffer with random bytes.
///
/// # Panics
/// If the operating system cannot provide randomness: continuing would give out guessable keys.
pub fn fill_random(out: &mut [u8]) {
    rng().fill_bytes(out);
}

/// This many random bytes in lower-case hexadecimal.
pub fn random_hex(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    fill_random(&mut raw);
    super::hash::hex(&raw)
}

/// A random UUID (RFC 9562, version 4), with hyphens, in lower case.
pub fn random_uuid() -> String {
    let mut raw = [0; 16];
    fill_random(&mut raw);
    halite_wire::ids::uuid(raw)
}

/// A new request nonce: 32 lower-case hexadecimal digits (`salt/channel/client.py`, which uses `uuid4().hex`; receivers
/// only compare it).
pub fn nonce() -> String {
    random_hex(16)
}

//! FNV-1a, 64 bits: spreads texts evenly. It is no cryptography.

/// The number of some bytes; the same everywhere and always.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

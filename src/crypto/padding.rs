//! Padding of messages to signature blocks. Shared by both back ends, which only do the modular exponentiation.

use super::Signing;
use sha1::{Digest, Sha1};
use sha2::Sha224;

/// DER of `DigestInfo` up to the digest (RFC 8017, 9.2, note 1).
const SHA1_INFO: [u8; 15] = [
    0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14,
];
const SHA224_INFO: [u8; 19] = [
    0x30, 0x2d, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x04, 0x05,
    0x00, 0x04, 0x1c,
];

/// The block of RSASSA-PKCS1-v1_5, `k` bytes: `00 01 ff.. 00 DigestInfo`.
///
/// Built here instead of by the library, so that a system policy against SHA-1 signatures does not break the protocol,
/// which uses them by default.
pub(super) fn pkcs1v15(algorithm: Signing, message: &[u8], k: usize) -> Vec<u8> {
    let mut info = Vec::with_capacity(64);
    match algorithm {
        Signing::Pkcs1v15Sha1 => {
            info.extend_from_slice(&SHA1_INFO);
            info.extend_from_slice(&Sha1::digest(message));
        }
        Signing::Pkcs1v15Sha224 => {
            info.extend_from_slice(&SHA224_INFO);
            info.extend_from_slice(&Sha224::digest(message));
        }
    }
    let mut block = vec![0xff; k];
    block[0] = 0;
    block[1] = 1;
    let at = k - info.len();
    block[at - 1] = 0;
    block[at..].copy_from_slice(&info);
    block
}

/// The block of ANSI X9.31 without a hash, `k` bytes (reference 2.4; OpenSSL
/// `RSA_padding_add_X931`). `None` if the message has more than `k - 2` bytes.
pub(super) fn x931(message: &[u8], k: usize) -> Option<Vec<u8>> {
    let padding = k.checked_sub(message.len() + 2)?;
    let mut block = Vec::with_capacity(k);
    if padding == 0 {
        block.push(0x6a);
    } else {
        block.push(0x6b);
        block.resize(padding, 0xbb);
        block.push(0xba);
    }
    block.extend_from_slice(message);
    block.push(0xcc);
    Some(block)
}

/// The message inside an X9.31 block, `None` if it is not one.
pub(super) fn x931_message(block: &[u8]) -> Option<&[u8]> {
    let (&trailer, rest) = block.split_last()?;
    if trailer != 0xcc {
        return None;
    }
    let (&header, rest) = rest.split_first()?;
    if header == 0x6a {
        return Some(rest);
    }
    if header != 0x6b {
        return None;
    }
    let at = rest.iter().position(|&b| b != 0xbb)?;
    (rest[at] == 0xba).then(|| &rest[at + 1..])
}

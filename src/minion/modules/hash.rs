//! Hash functions by Salt's `hash_type` names.

use super::Fault;
use sha2::Digest;

/// The hash of some octets, as lower-case hex.
///
/// # Errors
/// An unknown name.
pub fn hex(kind: &str, data: &[u8]) -> Result<String, Fault> {
    let digest = match kind {
        "md5" => md5::Md5::digest(data).to_vec(),
        "sha1" => sha1::Sha1::digest(data).to_vec(),
        "sha224" => sha2::Sha224::digest(data).to_vec(),
        "sha256" => sha2::Sha256::digest(data).to_vec(),
        "sha384" => sha2::Sha384::digest(data).to_vec(),
        "sha512" => sha2::Sha512::digest(data).to_vec(),
        other => {
            return Err(Fault::raised(
                "ValueError",
                format!(
                    "unsupported hash type {other}; known are md5, sha1, sha224, sha256, sha384, sha512"
                ),
            ));
        }
    };
    Ok(digest.iter().map(|b| format!("{b:02x}")).collect())
}

//! What `halite-master --topology` and `--check-config` print.

use super::roles::TOPOLOGY;
use crate::config::MasterConfig;
use std::fmt::Write;

/// The process table as text.
pub fn topology() -> String {
    let mut out = String::new();
    for role in TOPOLOGY {
        let _ = writeln!(out, "{}", role.title);
        for (what, text) in [
            ("binds", role.binds),
            ("connects", role.connects),
            ("owns", role.owns),
        ] {
            if !text.is_empty() {
                let _ = writeln!(out, "    {what:<9} {text}");
            }
        }
    }
    out
}

/// What a configuration asks for and does not get; the master serves all the same.
pub fn denials(config: &MasterConfig) -> Vec<String> {
    super::access::faults(config)
}

/// Faults of a configuration that only show when it is used. Empty if it can serve.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let mut out = Vec::new();
    let mut check = |ok: bool, text: String| {
        if !ok {
            out.push(text);
        }
    };
    check(
        config
            .publish_signing_algorithm
            .parse::<crate::crypto::Signing>()
            .is_ok(),
        format!(
            "publish_signing_algorithm: {:?} is not PKCS1v15-SHA1 or PKCS1v15-SHA224",
            config.publish_signing_algorithm
        ),
    );
    check(
        config.hash_type.parse::<crate::crypto::HashType>().is_ok(),
        format!(
            "hash_type: {:?} is not md5, sha1, sha224, sha256, sha384 or sha512",
            config.hash_type
        ),
    );
    check(
        config.publish_port != config.ret_port,
        format!("publish_port and ret_port are both {}", config.ret_port),
    );
    check(
        config.minimum_auth_version >= 3,
        format!(
            "minimum_auth_version: {} asks for versions that are not spoken here; 3 is the lowest",
            config.minimum_auth_version
        ),
    );
    check(
        (1024..=8192).contains(&config.keysize),
        format!(
            "keysize: {} is not between 1024 and 8192 bits",
            config.keysize
        ),
    );
    out
}

//! `key`: fingerprints of the keys in the minion's `pki_dir`.

use super::declare::{Arg, Function, Lit, Module, Result, opt};
use super::{Call, CallError};
use halite_crypto::{HashType, finger as fingerprint};
use std::path::Path;

const HASH: &[Arg] = &[opt("hash_type", Lit::Nil)];

pub(super) const MODULE: Module = Module {
    name: "key",
    functions: &[
        Function::new(
            "finger",
            |c| key_fingerprint(c, "minion.pub"),
            "The fingerprint of the minion's public key.",
        )
        .args(HASH),
        Function::new(
            "finger_master",
            |c| key_fingerprint(c, "minion_master.pub"),
            "The fingerprint of the master's public key known to this minion.",
        )
        .args(HASH),
    ],
};

/// Empty if the file does not exist, as in stock (`salt/utils/crypt.py pem_finger`).
fn key_fingerprint(call: &mut Call<'_>, file: &str) -> Result {
    let opts = &call.ctx.opts;
    let kind = call
        .text("hash_type")
        .or_else(|| opts.str("hash_type").map(str::to_owned))
        .unwrap_or_else(|| HashType::Sha256.name().to_owned());
    let Some(pki) = opts.str("pki_dir") else {
        return Err(CallError::raised("KeyError", "'pki_dir'"));
    };
    let kind: HashType = kind
        .parse()
        .map_err(|e| CallError::raised("AttributeError", format!("{e}")))?;
    Ok(match std::fs::read_to_string(Path::new(pki).join(file)) {
        Ok(text) => fingerprint(&text, kind).into(),
        Err(_) => "".into(),
    })
}

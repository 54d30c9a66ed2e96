//! What `halite-minion --check-config` tells of settings that cannot be honoured.

use halite_config::{MinionConfig, kept_key};
use halite_crypto::{IdentityPublic, KeyType};
use halite_modules::execution::{engines, executors};
use halite_transport::tls::{ClientTls, Trust};
use std::sync::Arc;

/// What the minion cannot run with.
pub fn faults(config: &MinionConfig) -> Vec<String> {
    let mut out = Vec::new();
    if config.handshake == "salt" && config.key_type == KeyType::Ed25519 {
        out.push("key_type: Salt's sign-in (`handshake: salt`) needs an RSA key".to_owned());
    }
    let tls = config.tls().map(|options| ClientTls {
        options: options.clone(),
        trust: Trust::Host,
    });
    if let Some(Err(e)) = tls.map(|tls| tls.check()) {
        out.push(format!("ssl: {e}"));
    }
    out
}

/// What an option says of new keys while there is one of another type.
pub fn present_key(config: &MinionConfig) -> Option<String> {
    let path = config.minion_pub();
    let text = std::fs::read_to_string(&path).ok()?;
    let present = IdentityPublic::from_pem(&text).ok()?.kind();
    kept_key(config.key_type, present, &path)
}

/// Python files that are not used or broken, executors and engines that are not there. The minion runs without them.
pub fn warnings(config: &MinionConfig) -> Vec<String> {
    let opts = Arc::new(config.as_map());
    let mut out = halite_python::check::faults(&opts);
    out.extend(executors::absent(&opts));
    out.extend(engines::absent(
        &opts,
        &config.engines.0,
        "saltutil.sync_engines",
    ));
    out.extend(present_key(config));
    out
}

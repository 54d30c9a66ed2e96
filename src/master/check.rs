//! Output of `halite-master --topology` and `--check-config`.

use super::roles::TOPOLOGY;
use halite_config::{ClusterConfig, MasterConfig, kept_key};
use halite_crypto::{IdentityPublic, KeyType};
use halite_render::ext_nodes::MODULE;
use halite_render::pillar::ext_pillar_names;
use halite_render::python::may_have;
use halite_store::Stores;
use halite_store::files::absent_backends;
use halite_store::keys::KeyState;
use halite_sys::host::Host;
use halite_wire::Value;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The process table as text.
pub fn topology() -> String {
    let mut out = String::new();
    for role in TOPOLOGY {
        let _ = writeln!(out, "{}", role.title);
        let may = role.may.to_string();
        for (what, text) in [
            ("binds", role.binds),
            ("connects", role.connects),
            ("owns", role.owns),
            ("may", may.as_str()),
        ] {
            if !text.is_empty() {
                let _ = writeln!(out, "    {what:<9} {text}");
            }
        }
    }
    out
}

/// Settings that cannot be honoured; the master runs without them.
pub fn denials(config: &MasterConfig) -> Vec<String> {
    let mut out = super::access::faults(config);
    out.extend(absent(config));
    let present = present_key(config);
    out.extend(present.and_then(|kind| kept_key(config.key_type, kind, &config.master_pub())));
    out
}

/// The type of the master's key, if there is one.
fn present_key(config: &MasterConfig) -> Option<KeyType> {
    let text = std::fs::read_to_string(config.master_pub()).ok()?;
    Some(IdentityPublic::from_pem(&text).ok()?.kind())
}

/// Modules of stock Salt in the configuration that halite does not have.
fn absent(config: &MasterConfig) -> Vec<String> {
    let mut out: Vec<String> = absent_backends(config)
        .map(|name| {
            format!("fileserver_backend: '{name}' is not available; its files are not served")
        })
        .collect();
    let entries = config.ext_pillar.0.as_array().unwrap_or_default();
    let names = entries.iter().filter_map(Value::as_map);
    let names = names.flat_map(|entry| entry.iter().filter_map(|(name, _)| name.as_str()));
    let known: Vec<&str> = ext_pillar_names().collect();
    let opts = std::sync::Arc::new(config.as_map());
    let absent = |kind, name: &str| !may_have(&opts, kind, name);
    let unknown = names.filter(|n| !known.contains(n) && absent("pillar", n));
    out.extend(unknown.map(|name| {
        let known = known.join(", ");
        format!(
            "ext_pillar: '{name}' is not available; pillars are compiled without it; there are {known}, and \
             the Python files that `halite-run saltutil.sync_pillar` fetches"
        )
    }));
    let tops = config.master_tops.iter().filter_map(|(n, _)| n.as_str());
    out.extend(
        tops.filter(|n| *n != MODULE && absent("tops", n))
            .map(|name| {
                format!(
                    "master_tops: '{name}' is not available; there is {MODULE}, and the Python files that \
                     `halite-run saltutil.sync_tops` fetches"
                )
            }),
    );
    out
}

/// Where the configuration cannot serve all accepted keys on this host.
pub fn capacity(config: &MasterConfig) -> Vec<String> {
    // A directory that is not there yet has no keys.
    let keys = Stores::open(config).keys.list(KeyState::Accepted);
    let keys = keys.map_or(0, |ids| ids.len() as u64);
    super::capacity::warnings(config, keys, &Host::read())
}

/// Files with secrets that other accounts can read, and directories in which they can exchange keys.
pub fn loose_files(config: &MasterConfig) -> Vec<String> {
    let cluster = config.cluster();
    let secret = cluster.as_ref().and_then(ClusterConfig::loose_secret_file);
    let secret = secret.map(|path| {
        let path = path.display();
        format!("cluster_secret: other accounts can read {path}; `chmod 400 {path}`")
    });
    let is_loose = |dir: &&Path| {
        let meta = dir.metadata();
        meta.is_ok_and(|meta| meta.permissions().mode() & 0o022 != 0)
    };
    let dir = config.cluster_dir_of_key().filter(is_loose).map(|dir| {
        let dir = dir.display();
        format!("cluster_pki_dir: other accounts can exchange keys in {dir}; `chmod go-w {dir}`")
    });
    secret.into_iter().chain(dir).collect()
}

/// Faults of a configuration that would only show up later. Empty if it is usable.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let mut out = Vec::new();
    let mut check = |ok: bool, text: String| {
        if !ok {
            out.push(text);
        }
    };
    if let Some(dir) = config.cluster_dir_of_key() {
        check(
            !dir.exists() || dir.is_dir(),
            format!("cluster_pki_dir: {} is not a directory", dir.display()),
        );
    }
    check(
        config
            .publish_signing_algorithm
            .parse::<halite_crypto::Signing>()
            .is_ok(),
        format!(
            "publish_signing_algorithm: {:?} is not PKCS1v15-SHA1 or PKCS1v15-SHA224",
            config.publish_signing_algorithm
        ),
    );
    check(
        config.hash_type.parse::<halite_crypto::HashType>().is_ok(),
        format!(
            "hash_type: {:?} is not md5, sha1, sha224, sha256, sha384 or sha512",
            config.hash_type
        ),
    );
    if let Some(tls) = config.tls() {
        let usable = halite_transport::tls::ServerTls::new(tls);
        let why = usable
            .as_ref()
            .err()
            .map_or_else(String::new, ToString::to_string);
        check(usable.is_ok(), format!("ssl: {why}"));
    }
    if let Some(cluster) = config.cluster() {
        let secret = halite_store::local::cluster_secret(&cluster);
        check(secret.is_ok(), secret.err().unwrap_or_default());
    }
    check(
        config.publish_port != config.ret_port,
        format!("publish_port and ret_port are both {}", config.ret_port),
    );
    check(
        config.minimum_auth_version >= 3,
        format!(
            "minimum_auth_version: {} asks for unsupported versions; 3 is the lowest",
            config.minimum_auth_version
        ),
    );
    let key = present_key(config).unwrap_or(config.key_type);
    check(
        key != KeyType::Ed25519 || config.sysinspect_gateway().is_none(),
        format!(
            "gateways:sysinspect needs an RSA key of the master, and that in {} is, or would be, Ed25519 (key_type)",
            config.pki_dir.display()
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

//! `cluster_id` and the options beside it: several masters that act as one.

use super::gateways::{SettingKind, check, number};
use super::{ConfigError, MasterConfig, finish};
use halite_sys::safe_open::read_finite;
use halite_wire::Value;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest file of a secret, in bytes.
const LONGEST: u64 = 64 << 10;

/// The cluster that a master belongs to.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `cluster_id`.
    pub id: String,
    /// `cluster_secret`: the text, or the absolute path of a file with it.
    secret: String,
    /// `servers`: `host:port` of the NATS servers.
    pub servers: Vec<String>,
    /// `user`.
    pub user: Option<String>,
    /// `password`.
    pub password: Option<String>,
    /// `tls`.
    pub tls: bool,
    /// `tls_ca`: trusted CA; empty means the system's CAs.
    pub tls_ca: PathBuf,
    /// `tls_cert`: this master's certificate.
    pub tls_cert: PathBuf,
    /// `tls_key`: its key.
    pub tls_key: PathBuf,
    /// `replicas`: servers that keep a copy of what the masters share.
    pub replicas: usize,
    /// `keep`: seconds for which the servers keep what masters tell each other about jobs.
    pub keep: u64,
    /// `keep_bytes`: most bytes of it.
    pub keep_bytes: u64,
    /// `cluster_peers`: ids of the masters that should be there.
    pub peers: Vec<String>,
    /// `patience`: how long the answer to a return waits until the servers have it.
    pub patience: Duration,
    /// `drain`: within what time minions are sent away.
    pub drain: Duration,
    /// `acknowledge`: what happens after that time.
    pub acknowledge: Acknowledge,
}

/// What acknowledges a return that the servers do not have in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// `local`: that this master has it; the servers get it later.
    Local,
    /// `quorum`: nothing; the minion sends it again.
    Quorum,
}

impl ClusterConfig {
    /// `cluster_peers` without the master `own`.
    pub fn others(&self, own: &str) -> Vec<String> {
        let others = self.peers.iter().filter(|peer| *peer != own);
        others.cloned().collect()
    }

    /// The file of the secret, if accounts other than its owner can read it.
    pub fn loose_secret_file(&self) -> Option<&Path> {
        let path = Path::new(&self.secret);
        let meta = path.is_absolute().then(|| path.metadata().ok()).flatten()?;
        (meta.permissions().mode() & 0o077 != 0).then_some(path)
    }

    /// The secret, from its file if it is in one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn secret(&self) -> io::Result<String> {
        match Path::new(&self.secret).is_absolute() {
            true => {
                let named =
                    |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", self.secret));
                let bytes = read_finite(Path::new(&self.secret), LONGEST).map_err(named)?;
                String::from_utf8(bytes).map_err(|e| named(io::Error::other(e)))
            }
            false => Ok(self.secret.clone()),
        }
    }
}

/// Settings of `cluster:`.
const SETTINGS: &[(&str, SettingKind)] = &[
    ("servers", SettingKind::List),
    ("user", SettingKind::Text),
    ("password", SettingKind::Text),
    ("tls", SettingKind::Flag),
    ("tls_ca", SettingKind::Text),
    ("tls_cert", SettingKind::Text),
    ("tls_key", SettingKind::Text),
    ("replicas", SettingKind::Number(1, 5)),
    ("keep", SettingKind::Number(60, 30 * 86_400)),
    ("keep_bytes", SettingKind::Number(16 << 20, 1 << 40)),
    ("drain", SettingKind::Number(0, 86_400)),
    ("patience", SettingKind::Number(0, 60)),
    ("acknowledge", SettingKind::Word(&[LOCAL, QUORUM])),
];

/// `keep`, as stock's job cache.
const KEEP: u64 = 86_400;
/// `keep_bytes`.
const KEEP_BYTES: u64 = 1 << 30;
/// `patience`: stock minions wait for 5 seconds at least.
const PATIENCE: u64 = 2;
/// `drain`.
const DRAIN: u64 = 30;
/// Values of `acknowledge`.
const LOCAL: &str = "local";
const QUORUM: &str = "quorum";
/// Where NATS servers are, unless `servers` says otherwise.
const SERVER: &str = "localhost:4222";

impl MasterConfig {
    /// The cluster; `None` without `cluster_id`.
    pub fn cluster(&self) -> Option<ClusterConfig> {
        let id = self.cluster_id.clone().filter(|id| !id.is_empty())?;
        let given = &self.cluster;
        let text = |name: &str| given.str(name).map(str::to_owned);
        let path = |name: &str| PathBuf::from(given.str(name).unwrap_or_default());
        let servers = match given.get("servers") {
            None => vec![SERVER.to_owned()],
            Some(Value::Str(one)) => vec![one.clone()],
            Some(list) => list.str_list(),
        };
        Some(ClusterConfig {
            id,
            secret: self.cluster_secret.clone().unwrap_or_default(),
            servers,
            user: text("user"),
            password: text("password"),
            tls: given.get("tls").and_then(Value::as_bool) == Some(true),
            tls_ca: path("tls_ca"),
            tls_cert: path("tls_cert"),
            tls_key: path("tls_key"),
            replicas: usize::try_from(number(given, "replicas", 3)).unwrap_or(1),
            keep: number(given, "keep", KEEP),
            keep_bytes: number(given, "keep_bytes", KEEP_BYTES),
            peers: self.cluster_peers.clone(),
            patience: Duration::from_secs(number(given, "patience", PATIENCE)),
            drain: Duration::from_secs(number(given, "drain", DRAIN)),
            acknowledge: match given.str("acknowledge") {
                Some(QUORUM) => Acknowledge::Quorum,
                _ => Acknowledge::Local,
            },
        })
    }

    /// `cluster_pub_fingerprint`; `None` if any key will do.
    pub fn cluster_pin(&self) -> Option<&str> {
        let pin = self.cluster_pub_fingerprint.as_deref();
        pin.filter(|pin| !pin.is_empty())
    }

    /// Refuses settings with which there can be no cluster; returns warnings.
    pub(super) fn check_cluster(
        &self,
        checks: &finish::Checks,
    ) -> Result<Vec<String>, ConfigError> {
        let Some(cluster) = self.cluster() else {
            let given = self.cluster_secret.is_some() || !self.cluster.is_empty();
            let text = "'cluster' and 'cluster_secret' have no effect without 'cluster_id'";
            return Ok(given.then(|| text.to_owned()).into_iter().collect());
        };
        let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !cluster.id.chars().all(named) {
            let what = "letters, digits, '-' and '_'";
            return Err(checks.bad("cluster_id", &cluster.id.into(), what));
        }
        if cluster.secret.is_empty() {
            let what =
                "the secret that all masters of the cluster have, or the path of a file with it";
            return Err(checks.bad("cluster_secret", &"".into(), what));
        }
        if cluster.servers.is_empty() {
            let none = Value::Array(Vec::new());
            return Err(checks.bad("cluster:servers", &none, "at least one NATS server"));
        }
        let is_hash = |pin: &&str| {
            let digits: Vec<char> = pin.chars().filter(|c| *c != ':').collect();
            digits.len() == 64 && digits.iter().all(char::is_ascii_hexdigit)
        };
        if let Some(pin) = self.cluster_pin().filter(|pin| !is_hash(pin)) {
            let what = "64 hexadecimal digits, in quotes: what `sha256sum master.pub` shows on another master";
            return Err(checks.bad("cluster_pub_fingerprint", &pin.into(), what));
        }
        if self.order_masters {
            let what = "false: masters of a cluster cannot have masters below them yet";
            return Err(checks.bad("order_masters", &true.into(), what));
        }
        if cluster.acknowledge == Acknowledge::Quorum && cluster.patience.is_zero() {
            let what = "at least 1 with 'acknowledge: quorum'";
            return Err(checks.bad("cluster:patience", &0.into(), what));
        }
        let mut warnings = check("cluster", &self.cluster, SETTINGS, checks)?;
        if !cluster.peers.is_empty() {
            if cluster.others(&self.id).is_empty() {
                warnings.push("cluster_peers names no other master".to_owned());
            } else if !cluster.peers.contains(&self.id) {
                warnings.push(format!(
                    "cluster_peers does not name this master, {}: it has the ids of all masters, the same at each",
                    self.id
                ));
            }
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::{Map, map};

    fn load(options: Map) -> Result<MasterConfig, ConfigError> {
        MasterConfig::from_map(options, Path::new("/etc/halite"))
    }

    fn cluster() -> Map {
        map! {"cluster_id" => "prod", "cluster_secret" => "0123456789abcdef0123456789abcdef"}
    }

    #[test]
    fn a_master_is_alone_unless_told() {
        assert_eq!(load(Map::new()).unwrap().cluster().map(|c| c.id), None);
        let found = load(cluster()).unwrap().cluster().unwrap();
        assert_eq!((found.id.as_str(), found.replicas), ("prod", 3));
        assert_eq!(found.servers, [SERVER]);
        assert_eq!(found.secret().unwrap(), "0123456789abcdef0123456789abcdef");
    }

    #[test]
    fn a_fingerprint_is_that_of_a_file() {
        let pinned = |text: &str| {
            let mut options = cluster();
            options.set("cluster_pub_fingerprint", text);
            load(options).is_ok()
        };
        assert!(pinned("") && pinned(&"0a".repeat(32)) && pinned(&["0a"; 32].join(":")));
        assert!(!pinned("abc") && !pinned(&"0g".repeat(32)));
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "of the file").unwrap();
        let mut options = cluster();
        options.set("cluster_secret", file.path().display().to_string());
        let found = load(options.clone()).unwrap().cluster().unwrap();
        assert_eq!(found.secret().unwrap(), "of the file");
        options.set("cluster_secret", "/none");
        let error = load(options).unwrap().cluster().unwrap().secret();
        assert!(error.unwrap_err().to_string().starts_with("/none: "));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (name, value) in [
            ("cluster_id", Value::from("a b")),
            ("cluster_secret", "".into()),
            ("order_masters", true.into()),
            ("cluster", map! {"servers" => Vec::<Value>::new()}.into()),
            ("cluster", map! {"replicas" => 9}.into()),
            ("cluster", map! {"acknowledge" => "both"}.into()),
            (
                "cluster",
                map! {"acknowledge" => "quorum", "patience" => 0}.into(),
            ),
        ] {
            let mut options = cluster();
            options.set(name, value);
            let error = load(options).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let mut options = cluster();
        options.set("cluster", map! {"server" => "n1"});
        options.set("publish_private", true);
        let warnings = load(options).unwrap().warnings;
        for text in [
            "'cluster' has no setting",
            "'publish_private' has no effect",
        ] {
            let is_said = warnings.iter().any(|w| w.contains(text));
            assert!(is_said, "{warnings:?}");
        }
    }
}

//! `gateways: arena: {...}`: runtimes of WASM modules over MQTT.

mod names;
mod topics;
mod words;

pub use names::{BadName, ChannelPath, ModulePath, Topic, Uuid, bad};
pub use topics::{Place, Scheme, Stream, Topics};
pub use words::Policy;

use super::super::{ConfigError, MasterConfig, finish};
use super::{SettingKind, gateway_settings};
use halite_wire::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the ARENA gateway. Paths that are not set are empty.
#[derive(Clone, PartialEq, Eq)]
pub struct ArenaGateway {
    /// `servers`: `host:port` each.
    pub servers: Vec<String>,
    /// `user`.
    pub user: Option<String>,
    /// `password`.
    pub password: Option<String>,
    /// `tls`.
    pub tls: bool,
    /// `tls_ca`: trusted CA; empty means the system's CAs.
    pub tls_ca: PathBuf,
    /// `tls_cert`: the gateway's certificate.
    pub tls_cert: PathBuf,
    /// `tls_key`: its key.
    pub tls_key: PathBuf,
    /// `client_id`: MQTT client id; default `halite-` and the master's id.
    pub client_id: String,
    /// `realm`: the first levels of all topics.
    pub realm: String,
    /// `topics`: `draft` or `scene`.
    pub topics: String,
    /// `namespace` of scene topics.
    pub namespace: String,
    /// `keepalive`: keepalive interval sent to runtimes; zero turns keepalives off.
    pub keepalive: Duration,
    /// `policy`: default for modules that do not name one.
    pub policy: Policy,
    /// `auto_accept`: accept the key of every runtime.
    pub auto_accept: bool,
    /// `max_pending`: keys that may wait for the operator to accept them.
    pub max_pending: usize,
    /// `max_managers`: runtime managers kept in the registry.
    pub max_managers: usize,
    /// `max_runtimes`: runtimes kept in the registry.
    pub max_runtimes: usize,
    /// `max_modules`: modules that have not stopped.
    pub max_modules: usize,
    /// `log_lines`: lines per module that `arena.logs` can show.
    pub log_lines: usize,
    /// `output_lines`: lines per module and second that become events; further ones are only counted.
    pub output_lines: usize,
    /// `forget_after`: how long stopped modules and lost runtimes are remembered.
    pub forget_after: Duration,
    /// `max_message`: bytes of the largest message.
    pub max_message: usize,
    /// `create_timeout`: how long a runtime may take to confirm a module.
    pub create_timeout: Duration,
    /// `delete_timeout`: how long a module may take to stop.
    pub delete_timeout: Duration,
}

impl std::fmt::Debug for ArenaGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("ArenaGateway")
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("password", &password)
            .field("tls", &self.tls)
            .field("client_id", &self.client_id)
            .field("realm", &self.realm)
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

/// Settings of `gateways: arena:`.
pub(super) const SETTINGS: &[(&str, SettingKind)] = &[
    ("servers", SettingKind::List),
    ("user", SettingKind::Text),
    ("password", SettingKind::Text),
    ("tls", SettingKind::Flag),
    ("tls_ca", SettingKind::Text),
    ("tls_cert", SettingKind::Text),
    ("tls_key", SettingKind::Text),
    ("client_id", SettingKind::Text),
    ("realm", SettingKind::Text),
    ("topics", SettingKind::Word(&["draft", "scene"])),
    ("namespace", SettingKind::Text),
    ("keepalive", SettingKind::Number(0, 86_400)),
    ("policy", SettingKind::Word(&["wait", "move", "drop"])),
    ("auto_accept", SettingKind::Flag),
    ("max_pending", SettingKind::Number(0, 10_000_000)),
    ("max_managers", SettingKind::Number(0, 100_000)),
    ("max_runtimes", SettingKind::Number(1, 100_000)),
    ("max_modules", SettingKind::Number(1, 1_000_000)),
    ("log_lines", SettingKind::Number(0, 100_000)),
    ("output_lines", SettingKind::Number(0, 10_000)),
    ("forget_after", SettingKind::Number(0, 31_536_000)),
    ("max_message", SettingKind::Number(1024, 256 << 10)),
    ("create_timeout", SettingKind::Number(1, 86_400)),
    ("delete_timeout", SettingKind::Number(1, 86_400)),
];

impl MasterConfig {
    /// Settings of the ARENA gateway; `None` if it is not enabled.
    pub fn arena_gateway(&self) -> Option<ArenaGateway> {
        let given = gateway_settings(&self.gateways, "arena")?;
        let number = |name: &str, default: u64| super::number(&given, name, default);
        let size =
            |name: &str, default: u64| usize::try_from(number(name, default)).unwrap_or(usize::MAX);
        let seconds = |name: &str, default: u64| Duration::from_secs(number(name, default));
        let flag = |name: &str| given.get(name).and_then(Value::as_bool) == Some(true);
        let text = |name: &str| given.str(name).map(str::to_owned);
        let path = |name: &str| PathBuf::from(given.str(name).unwrap_or_default());
        Some(ArenaGateway {
            servers: match given.get("servers") {
                Some(Value::Str(one)) => vec![one.clone()],
                Some(list) => list.str_list(),
                None => vec!["localhost:1883".to_owned()],
            },
            user: text("user"),
            password: text("password"),
            tls: flag("tls"),
            tls_ca: path("tls_ca"),
            tls_cert: path("tls_cert"),
            tls_key: path("tls_key"),
            client_id: text("client_id").unwrap_or_else(|| format!("halite-{}", self.id)),
            realm: text("realm").unwrap_or_else(|| "realm".to_owned()),
            topics: text("topics").unwrap_or_else(|| "draft".to_owned()),
            namespace: text("namespace").unwrap_or_else(|| "public".to_owned()),
            keepalive: seconds("keepalive", 60),
            policy: given
                .str("policy")
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
            auto_accept: flag("auto_accept"),
            max_pending: size("max_pending", 10_000),
            max_managers: size("max_managers", 1000),
            max_runtimes: size("max_runtimes", 10_000),
            max_modules: size("max_modules", 100_000),
            log_lines: size("log_lines", 200),
            output_lines: size("output_lines", 50),
            forget_after: seconds("forget_after", 86_400),
            max_message: size("max_message", 256 << 10),
            create_timeout: seconds("create_timeout", 10),
            delete_timeout: seconds("delete_timeout", 30),
        })
    }
}

impl ArenaGateway {
    /// The topics of the configured realm.
    ///
    /// # Errors
    /// Realm or namespace cannot be part of a topic.
    pub fn topics(&self) -> Result<Topics, BadName> {
        Topics::by_word(&self.realm, &self.topics, &self.namespace)
    }

    /// Refuses settings that cannot work.
    pub(super) fn check(&self, checks: &finish::Checks) -> Result<(), ConfigError> {
        let bad = |name: &str, found: &str, expected: &str| {
            let path = format!("gateways:arena:{name}");
            Err(checks.bad(&path, &Value::from(found), expected))
        };
        if self.servers.is_empty() {
            return bad("servers", "", "at least one host:port");
        }
        for server in &self.servers {
            if !is_server(server) {
                return bad("servers", server, "host:port, with a port from 1 to 65535");
            }
        }
        if self.password.is_some() && self.user.is_none() {
            return bad("user", "", "a name, where there is a password");
        }
        if !self.realm.split('/').all(is_level) {
            return bad("realm", &self.realm, LEVELS);
        }
        if !is_level(&self.namespace) {
            return bad("namespace", &self.namespace, LEVELS);
        }
        if !(1..=256).contains(&self.client_id.len()) || self.client_id.contains('\0') {
            return bad("client_id", &self.client_id, "1 to 256 bytes");
        }
        let both = self.tls_cert.as_os_str().is_empty() == self.tls_key.as_os_str().is_empty();
        if !both {
            return bad("tls_key", "", "given together with tls_cert");
        }
        let any = [&self.tls_ca, &self.tls_cert];
        if !self.tls && any.iter().any(|path| !path.as_os_str().is_empty()) {
            return bad("tls", "false", "true, where a CA or a certificate is given");
        }
        Ok(())
    }
}

const LEVELS: &str = "levels of a topic, without '+', '#', '$', spaces and NUL";

/// Whether a text can be one topic level.
fn is_level(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && !b"+#$/".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn is_server(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic());
        plain && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_master;

    fn load(yaml: &str) -> Result<MasterConfig, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("master"), yaml).unwrap();
        load_master(dir.path())
    }

    #[test]
    fn off_unless_configured() {
        assert_eq!(load("{}").unwrap().arena_gateway(), None);
        let off = load("gateways: {arena: false}").unwrap();
        assert_eq!(off.arena_gateway(), None);
        let on = load("id: m1\ngateways: {arena: true}").unwrap();
        let on = on.arena_gateway().unwrap();
        assert_eq!(on.servers, ["localhost:1883"]);
        assert_eq!(
            (on.client_id.as_str(), on.realm.as_str()),
            ("halite-m1", "realm")
        );
        assert_eq!((on.topics.as_str(), on.policy), ("draft", Policy::Wait));
        assert_eq!(on.keepalive, Duration::from_secs(60));
        assert!(!on.tls && !on.auto_accept);
    }

    #[test]
    fn settings_are_read() {
        let yaml = "gateways: {arena: {servers: 'b:8883', user: u, password: hidden, tls: true, realm: a/b, \
                    topics: scene, namespace: lab, keepalive: 0, policy: move, log_lines: 5}}";
        let config = load(yaml).unwrap();
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let found = config.arena_gateway().unwrap();
        assert_eq!(found.servers, ["b:8883"]);
        assert_eq!(
            (found.topics.as_str(), found.policy),
            ("scene", Policy::Move)
        );
        assert_eq!((found.keepalive, found.log_lines), (Duration::ZERO, 5));
        assert!(found.tls);
        assert!(!format!("{found:?}").contains("hidden"));
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        for (bad, named) in [
            ("servers: []", "servers"),
            ("servers: [localhost]", "servers"),
            ("servers: ['localhost:0']", "servers"),
            ("password: x", "user"),
            ("realm: 'a/#'", "realm"),
            ("realm: ''", "realm"),
            ("realm: 'a//b'", "realm"),
            ("namespace: a/b", "namespace"),
            ("topics: old", "topics"),
            ("policy: restart", "policy"),
            ("keepalive: -1", "keepalive"),
            ("max_message: 1", "max_message"),
            ("tls: true, tls_cert: /c.pem", "tls_key"),
            ("tls_ca: /c.pem", "tls"),
            ("client_id: ''", "client_id"),
        ] {
            let error = load(&format!("gateways: {{arena: {{{bad}}}}}")).unwrap_err();
            let named = format!("gateways:arena:{named}");
            assert!(error.to_string().contains(&named), "{bad}: {error}");
        }
        let config = load("gateways: {arena: {server: b}}").unwrap();
        assert!(config.warnings[0].contains("'gateways:arena' has no setting \"server\""));
    }
}

//! `gateways: collective: {...}`: MCollective and Choria.

mod names;

pub use names::{AgentName, BadName, CallerId, Collective, Identity, RequestId};

use super::super::{ConfigError, MasterConfig, finish};
use super::SettingKind;
use halite_wire::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Encoding of message bodies for Ruby's serializers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serializer {
    /// `Marshal.dump`.
    Marshal,
    /// Psych.
    Yaml,
}

/// The kind of broker that carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    /// NATS, as in Choria.
    Nats,
    /// RabbitMQ over STOMP.
    RabbitMq,
    /// ActiveMQ over STOMP.
    ActiveMq,
}

/// How messages are secured (`security`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// Choria's JSON protocol (G2); G1 requests get G1 answers.
    Choria,
    /// Choria's YAML protocol of 2016 and 2017 (G1).
    ChoriaYaml,
    /// A pre-shared secret.
    Psk,
    /// Plain RSA keys.
    Ssl,
    /// Plain RSA keys and encryption.
    Aes,
}

/// Settings of the collective gateway. Paths that are not set are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveGateway {
    /// `connector`.
    pub broker: Broker,
    /// `servers`: `host:port` each.
    pub servers: Vec<String>,
    /// `user`.
    pub user: Option<String>,
    /// `password`.
    pub password: Option<String>,
    /// `vhost` of RabbitMQ.
    pub vhost: String,
    /// `tls`.
    pub tls: bool,
    /// `tls_ca`: trusted CA; empty means the system's CAs.
    pub tls_ca: PathBuf,
    /// `tls_cert`: the gateway's certificate.
    pub tls_cert: PathBuf,
    /// `tls_key`: its key.
    pub tls_key: PathBuf,
    /// `identity`: sender of messages and name of the connection; default is the master's id.
    pub identity: String,
    /// `collectives`: the first one is the main collective.
    pub collectives: Vec<String>,
    /// `federations`: requests go through the brokers of these instead of directly to the collective.
    pub federations: Vec<String>,
    /// `security`.
    pub plugin: Plugin,
    /// `serializer` for SSL and AES.
    pub serializer: Serializer,
    /// `psk_file`: file with the shared secret.
    pub psk_file: PathBuf,
    /// `caller`: our caller id (PSK). SSL and AES derive it from the name of the key file, Choria from the certificate.
    pub caller: String,
    /// `ca`: the CA of Choria certificates, default `tls_ca`; with AES, the CA of callers' certificates, with no
    /// default, since a broker's CA may be a public one.
    pub ca: PathBuf,
    /// `certificate`: our Choria certificate; default `tls_cert`.
    pub certificate: PathBuf,
    /// `key`: its key; default `tls_key`.
    pub key: PathBuf,
    /// `callers`: names, or `/regular expressions/`, of the certificates that may send requests.
    pub callers: Vec<String>,
    /// `privileged`: the same, for certificates that may speak for any caller.
    pub privileged: Vec<String>,
    /// `client_private`: our key as a client (SSL, AES).
    pub client_private: PathBuf,
    /// `client_public`: its public half; the file name is the caller's name.
    pub client_public: PathBuf,
    /// `server_private`: the servers' key (SSL, AES); needed only to answer requests.
    pub server_private: PathBuf,
    /// `server_public`: its public half.
    pub server_public: PathBuf,
    /// `client_certs`: directory with the public keys of clients that may send requests.
    pub client_certs: PathBuf,
    /// `enforce_ttl`: refuse messages whose signed and unsigned times differ (SSL, AES).
    pub enforce_ttl: bool,
    /// `ttl`: seconds for which requests are valid.
    pub ttl: u32,
    /// `timeout`: how long nodes may take for an action.
    pub timeout: Duration,
    /// `discovery_interval`: time between discoveries of nodes.
    pub discovery_interval: Duration,
    /// `discovery_timeout`: how long to wait for answers.
    pub discovery_timeout: Duration,
    /// `inventory_interval`: time between queries for the facts, classes and agents of a known node.
    pub inventory_interval: Duration,
    /// `direct_threshold`: up to this many nodes get one request each; more get one broadcast.
    pub direct_threshold: usize,
    /// `outward`: nodes of the collective are minions of this master.
    pub outward: bool,
    /// `auto_accept`: accept the key of every server that is discovered.
    pub auto_accept: bool,
    /// `max_pending`: keys that may wait for the operator to accept them.
    pub max_pending: usize,
    /// `inward`: this master's minions are nodes of the collective.
    pub inward: bool,
    /// `inward_targets`: compound target of the minions that are offered as nodes.
    pub inward_targets: String,
}

const SECONDS: SettingKind = SettingKind::Number(1, 604_800);

/// Settings of `gateways: collective:`.
pub(super) const SETTINGS: &[(&str, SettingKind)] = &[
    (
        "connector",
        SettingKind::Word(&["nats", "rabbitmq", "activemq"]),
    ),
    ("servers", SettingKind::List),
    ("user", SettingKind::Text),
    ("password", SettingKind::Text),
    ("vhost", SettingKind::Text),
    ("tls", SettingKind::Flag),
    ("tls_ca", SettingKind::Text),
    ("tls_cert", SettingKind::Text),
    ("tls_key", SettingKind::Text),
    ("identity", SettingKind::Text),
    ("collectives", SettingKind::List),
    ("federations", SettingKind::List),
    (
        "security",
        SettingKind::Word(&["choria", "choria-yaml", "psk", "ssl", "aes"]),
    ),
    ("serializer", SettingKind::Word(&["marshal", "yaml"])),
    ("psk_file", SettingKind::Text),
    ("caller", SettingKind::Text),
    ("ca", SettingKind::Text),
    ("certificate", SettingKind::Text),
    ("key", SettingKind::Text),
    ("callers", SettingKind::List),
    ("privileged", SettingKind::List),
    ("client_private", SettingKind::Text),
    ("client_public", SettingKind::Text),
    ("server_private", SettingKind::Text),
    ("server_public", SettingKind::Text),
    ("client_certs", SettingKind::Text),
    ("enforce_ttl", SettingKind::Flag),
    ("ttl", SettingKind::Number(30, 86_400)),
    ("timeout", SECONDS),
    ("discovery_interval", SECONDS),
    ("discovery_timeout", SECONDS),
    ("inventory_interval", SECONDS),
    ("direct_threshold", SettingKind::Number(0, 10_000)),
    ("outward", SettingKind::Flag),
    ("auto_accept", SettingKind::Flag),
    ("max_pending", SettingKind::Number(0, 10_000_000)),
    ("inward", SettingKind::Flag),
    ("inward_targets", SettingKind::Text),
];

impl MasterConfig {
    /// Whether the collective gateway is enabled and discovers nodes.
    pub fn finds_collective_nodes(&self) -> bool {
        match self.gateways.get("collective") {
            Some(Value::Map(given)) => given.get("outward").and_then(Value::as_bool) != Some(false),
            Some(Value::Nil | Value::Bool(true)) => true,
            _ => false,
        }
    }

    /// Settings of the collective gateway; `None` if it is not enabled.
    pub fn collective_gateway(&self) -> Option<CollectiveGateway> {
        let given = super::gateway_settings(&self.gateways, "collective")?;
        let number = |name: &str, default: u64| super::number(&given, name, default);
        let seconds = |name: &str, default: u64| Duration::from_secs(number(name, default));
        let flag = |name: &str, default: bool| {
            let given = given.get(name).and_then(Value::as_bool);
            given.unwrap_or(default)
        };
        let text = |name: &str| given.str(name).map(str::to_owned);
        let path = |name: &str| PathBuf::from(given.str(name).unwrap_or_default());
        let either = |name: &str, other: &str| match given.str(name) {
            Some(own) => PathBuf::from(own),
            None => path(other),
        };
        let list = |name: &str, default: &[&str]| match given.get(name) {
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(Value::Str(one)) => vec![one.clone()],
            _ => default.iter().map(|text| (*text).to_owned()).collect(),
        };
        let broker = match given.str("connector") {
            Some("rabbitmq") => Broker::RabbitMq,
            Some("activemq") => Broker::ActiveMq,
            _ => Broker::Nats,
        };
        let server = match broker {
            Broker::Nats => "localhost:4222",
            Broker::RabbitMq | Broker::ActiveMq => "localhost:61613",
        };
        Some(CollectiveGateway {
            broker,
            servers: list("servers", &[server]),
            user: text("user"),
            password: text("password"),
            vhost: text("vhost").unwrap_or_else(|| "/".to_owned()),
            tls: flag("tls", false),
            tls_ca: path("tls_ca"),
            tls_cert: path("tls_cert"),
            tls_key: path("tls_key"),
            identity: text("identity").unwrap_or_else(|| self.id.clone()),
            collectives: list("collectives", &["mcollective"]),
            federations: list("federations", &[]),
            plugin: match given.str("security") {
                Some("choria-yaml") => Plugin::ChoriaYaml,
                Some("psk") => Plugin::Psk,
                Some("ssl") => Plugin::Ssl,
                Some("aes") => Plugin::Aes,
                _ => Plugin::Choria,
            },
            serializer: match given.str("serializer") {
                Some("yaml") => Serializer::Yaml,
                _ => Serializer::Marshal,
            },
            psk_file: path("psk_file"),
            caller: text("caller").unwrap_or_else(|| "user=halite".to_owned()),
            ca: match given.str("security") {
                Some("ssl" | "aes" | "psk") => path("ca"),
                _ => either("ca", "tls_ca"),
            },
            certificate: either("certificate", "tls_cert"),
            key: either("key", "tls_key"),
            callers: list("callers", &[r"/\.mcollective$/", r"/\.choria$/"]),
            privileged: list(
                "privileged",
                &[r"/\.privileged\.mcollective$/", r"/\.privileged\.choria$/"],
            ),
            client_private: path("client_private"),
            client_public: path("client_public"),
            server_private: path("server_private"),
            server_public: path("server_public"),
            client_certs: path("client_certs"),
            enforce_ttl: flag("enforce_ttl", true),
            ttl: u32::try_from(number("ttl", 60)).unwrap_or(60),
            timeout: seconds("timeout", 60),
            discovery_interval: seconds("discovery_interval", 60),
            discovery_timeout: seconds("discovery_timeout", 5),
            inventory_interval: seconds("inventory_interval", 3600),
            direct_threshold: usize::try_from(number("direct_threshold", 10)).unwrap_or(10),
            outward: flag("outward", true),
            auto_accept: flag("auto_accept", false),
            max_pending: usize::try_from(number("max_pending", 10_000)).unwrap_or(usize::MAX),
            inward: flag("inward", true),
            inward_targets: text("inward_targets").unwrap_or_else(|| "*".to_owned()),
        })
    }
}

impl CollectiveGateway {
    /// Refuses settings that cannot work.
    pub(super) fn check(&self, checks: &finish::Checks) -> Result<(), ConfigError> {
        let bad = |name: &str, found: &str, expected: &str| {
            let path = format!("gateways:collective:{name}");
            Err(checks.bad(&path, &Value::from(found), expected))
        };
        if self.collectives.is_empty() {
            return bad("collectives", "", "at least one name");
        }
        for name in &self.collectives {
            if name.parse::<Collective>().is_err() {
                return bad("collectives", name, "names of letters, digits, '_' and '-'");
            }
        }
        for name in &self.federations {
            if name.parse::<Collective>().is_err() {
                return bad("federations", name, "names of letters, digits, '_' and '-'");
            }
        }
        if self.identity.parse::<Identity>().is_err() {
            let expected = "letters, digits, '_', '-' and single dots between them";
            return bad("identity", &self.identity, expected);
        }
        if self.servers.is_empty() {
            return bad("servers", "", "at least one host:port");
        }
        if !self.federations.is_empty() && self.broker != Broker::Nats {
            let expected = "empty; only NATS has federations";
            return bad("federations", &self.federations[0], expected);
        }
        let missing = |name: &str, path: &PathBuf, plugin: &str| {
            if path.as_os_str().is_empty() {
                bad(
                    name,
                    "",
                    &format!("a file; security with {plugin} needs it"),
                )
            } else {
                Ok(())
            }
        };
        match self.plugin {
            Plugin::Choria | Plugin::ChoriaYaml => {
                missing("ca", &self.ca, "choria")?;
                missing("certificate", &self.certificate, "choria")?;
                missing("key", &self.key, "choria")
            }
            Plugin::Psk => missing("psk_file", &self.psk_file, "psk"),
            Plugin::Ssl | Plugin::Aes => {
                missing("client_private", &self.client_private, "plain keys")?;
                missing("client_public", &self.client_public, "plain keys")?;
                missing("server_public", &self.server_public, "plain keys")?;
                if self.inward {
                    missing(
                        "server_private",
                        &self.server_private,
                        "plain keys and 'inward'",
                    )
                    .and_then(|()| {
                        missing(
                            "client_certs",
                            &self.client_certs,
                            "plain keys and 'inward'",
                        )
                    })
                } else {
                    Ok(())
                }
            }
        }
    }
}

//! `gateways: collective: {...}`: MCollective and Choria.

mod names;

pub use names::{AgentName, BadName, CallerId, Collective, Identity, RequestId};

use super::super::{ConfigError, MasterConfig, finish};
use super::Kind;
use halite_wire::Value;
use std::path::PathBuf;
use std::time::Duration;

/// What messages of Ruby's own encodings are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serializer {
    /// `Marshal.dump`.
    Marshal,
    /// Psych.
    Yaml,
}

/// What kind of broker carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    /// NATS, as of Choria.
    Nats,
    /// RabbitMQ over STOMP.
    RabbitMq,
    /// ActiveMQ over STOMP.
    ActiveMq,
}

/// How messages are secured (`security`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// Choria's, JSON (G2); requests of G1 are answered in G1.
    Choria,
    /// Choria's of 2016 and 2017, YAML (G1).
    ChoriaYaml,
    /// A secret that all share.
    Psk,
    /// Plain RSA keys.
    Ssl,
    /// Plain RSA keys and encryption.
    Aes,
}

/// Settings of the gateway for a collective. Paths are empty where none is given.
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
    /// `tls_ca`: the CA whose servers are trusted; empty for the system's.
    pub tls_ca: PathBuf,
    /// `tls_cert`: own certificate.
    pub tls_cert: PathBuf,
    /// `tls_key`: its key.
    pub tls_key: PathBuf,
    /// `identity`: who sends, and the name of the connection; the master's id if not given.
    pub identity: String,
    /// `collectives`: the first is the main one.
    pub collectives: Vec<String>,
    /// `federations`: requests go through the brokers of these, not to the collective itself.
    pub federations: Vec<String>,
    /// `security`.
    pub plugin: Plugin,
    /// `serializer` of SSL and AES.
    pub serializer: Serializer,
    /// `psk_file`: file with the shared secret.
    pub psk_file: PathBuf,
    /// `caller`: own caller id (PSK); SSL and AES derive it of the name of the key, Choria of the certificate.
    pub caller: String,
    /// `ca`: the CA of Choria's certificates, `tls_ca` if not given; with AES, the CA of its callers' certificates, none
    /// if not given, since the CA of a broker may be a public one.
    pub ca: PathBuf,
    /// `certificate`: own, of Choria; `tls_cert` if not given.
    pub certificate: PathBuf,
    /// `key`: its key; `tls_key` if not given.
    pub key: PathBuf,
    /// `callers`: names, or `/regular expressions/`, of certificates that may call.
    pub callers: Vec<String>,
    /// `privileged`: the same, of certificates that may speak for any caller.
    pub privileged: Vec<String>,
    /// `client_private`: own key as a client (SSL, AES).
    pub client_private: PathBuf,
    /// `client_public`: its public half; its file's name is that of the caller.
    pub client_public: PathBuf,
    /// `server_private`: the servers' key (SSL, AES); only to answer with.
    pub server_private: PathBuf,
    /// `server_public`: its public half.
    pub server_public: PathBuf,
    /// `client_certs`: directory with the public keys of clients that may call.
    pub client_certs: PathBuf,
    /// `enforce_ttl`: refuse where signed and unsigned times differ (SSL, AES).
    pub enforce_ttl: bool,
    /// `ttl`: seconds that requests are good for.
    pub ttl: u32,
    /// `timeout`: how long nodes may take for an action.
    pub timeout: Duration,
    /// `discovery_interval`: how often nodes are looked for.
    pub discovery_interval: Duration,
    /// `discovery_timeout`: how long answers are waited for.
    pub discovery_timeout: Duration,
    /// `inventory_interval`: how often facts, classes and agents of a known node are asked for.
    pub inventory_interval: Duration,
    /// `direct_threshold`: up to so many nodes get a request each; more get one broadcast.
    pub direct_threshold: usize,
    /// `outward`: the collective's servers are minions of this master.
    pub outward: bool,
    /// `auto_accept`: accept the key of every server that is found.
    pub auto_accept: bool,
    /// `max_pending`: keys that may wait for the operator.
    pub max_pending: usize,
    /// `inward`: this master's minions are nodes of the collective.
    pub inward: bool,
    /// `inward_targets`: compound target of the minions that are.
    pub inward_targets: String,
}

const SECONDS: Kind = Kind::Number(1, 604_800);

/// Settings of `gateways: collective:`.
pub(super) const SETTINGS: &[(&str, Kind)] = &[
    ("connector", Kind::Word(&["nats", "rabbitmq", "activemq"])),
    ("servers", Kind::List),
    ("user", Kind::Text),
    ("password", Kind::Text),
    ("vhost", Kind::Text),
    ("tls", Kind::Flag),
    ("tls_ca", Kind::Text),
    ("tls_cert", Kind::Text),
    ("tls_key", Kind::Text),
    ("identity", Kind::Text),
    ("collectives", Kind::List),
    ("federations", Kind::List),
    (
        "security",
        Kind::Word(&["choria", "choria-yaml", "psk", "ssl", "aes"]),
    ),
    ("serializer", Kind::Word(&["marshal", "yaml"])),
    ("psk_file", Kind::Text),
    ("caller", Kind::Text),
    ("ca", Kind::Text),
    ("certificate", Kind::Text),
    ("key", Kind::Text),
    ("callers", Kind::List),
    ("privileged", Kind::List),
    ("client_private", Kind::Text),
    ("client_public", Kind::Text),
    ("server_private", Kind::Text),
    ("server_public", Kind::Text),
    ("client_certs", Kind::Text),
    ("enforce_ttl", Kind::Flag),
    ("ttl", Kind::Number(30, 86_400)),
    ("timeout", SECONDS),
    ("discovery_interval", SECONDS),
    ("discovery_timeout", SECONDS),
    ("inventory_interval", SECONDS),
    ("direct_threshold", Kind::Number(0, 10_000)),
    ("outward", Kind::Flag),
    ("auto_accept", Kind::Flag),
    ("max_pending", Kind::Number(0, 10_000_000)),
    ("inward", Kind::Flag),
    ("inward_targets", Kind::Text),
];

impl MasterConfig {
    /// Whether the gateway for a collective runs and looks for nodes.
    pub fn finds_collective_nodes(&self) -> bool {
        match self.gateways.get("collective") {
            Some(Value::Map(given)) => given.get("outward").and_then(Value::as_bool) != Some(false),
            Some(Value::Nil | Value::Bool(true)) => true,
            _ => false,
        }
    }

    /// Settings of the gateway for a collective; `None` where it does not run.
    pub fn collective_gateway(&self) -> Option<CollectiveGateway> {
        let given = super::given(&self.gateways, "collective")?;
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
    /// Refuses what cannot work.
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
                    &format!("a file; the security plugin {plugin} needs it"),
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
                missing("client_private", &self.client_private, "of plain keys")?;
                missing("client_public", &self.client_public, "of plain keys")?;
                missing("server_public", &self.server_public, "of plain keys")?;
                if self.inward {
                    missing(
                        "server_private",
                        &self.server_private,
                        "of plain keys (for inward)",
                    )
                    .and_then(|()| {
                        missing(
                            "client_certs",
                            &self.client_certs,
                            "of plain keys (for inward)",
                        )
                    })
                } else {
                    Ok(())
                }
            }
        }
    }
}

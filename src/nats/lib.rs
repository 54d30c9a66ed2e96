//! Connections to NATS that their users establish themselves, one after the other: how to log in, and the words about it.

use async_nats::ConnectOptions;
use halite_config::{ClusterConfig, CollectiveGateway};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Timeout for connecting and logging in, and of requests.
const CONNECTING: Duration = Duration::from_secs(10);
/// How long one attempt to reach a server may take: another one may be there.
const REACHING: Duration = Duration::from_secs(4);
/// Reconnect delay that keeps the library from reconnecting by itself.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Options of a connection to NATS.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// `host:port` or `nats://host:port`; tried in turn.
    pub servers: Vec<String>,
    /// User.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Whether to require TLS.
    pub tls: bool,
    /// File with the CA of the servers; empty for the system's.
    pub ca: PathBuf,
    /// File with our certificate; empty for none.
    pub certificate: PathBuf,
    /// File with its key.
    pub key: PathBuf,
    /// Name of the connection, shown by the servers.
    pub name: String,
}

impl fmt::Debug for LinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("LinkOptions")
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .field("name", &self.name)
            .finish()
    }
}

impl From<&CollectiveGateway> for LinkOptions {
    fn from(settings: &CollectiveGateway) -> LinkOptions {
        LinkOptions {
            servers: settings.servers.clone(),
            user: settings.user.clone(),
            password: settings.password.clone(),
            tls: settings.tls,
            ca: settings.tls_ca.clone(),
            certificate: settings.tls_cert.clone(),
            key: settings.tls_key.clone(),
            name: settings.identity.clone(),
        }
    }
}

impl LinkOptions {
    /// For a master of a cluster; `name` is shown by the servers.
    pub fn of_cluster(cluster: &ClusterConfig, name: &str) -> LinkOptions {
        LinkOptions {
            servers: cluster.servers.clone(),
            user: cluster.user.clone(),
            password: cluster.password.clone(),
            tls: cluster.tls,
            ca: cluster.tls_ca.clone(),
            certificate: cluster.tls_cert.clone(),
            key: cluster.tls_key.clone(),
            name: name.to_owned(),
        }
    }

    /// Options for the client library: it connects once, and never again by itself.
    pub fn connect_options(&self) -> ConnectOptions {
        let connected = AtomicBool::new(false);
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .connection_timeout(REACHING)
            .request_timeout(Some(CONNECTING))
            .ignore_discovered_servers()
            .reconnect_delay_callback(move |_| match connected.swap(true, Ordering::Relaxed) {
                true => NEVER,
                false => Duration::ZERO,
            });
        if let Some(user) = &self.user {
            let password = self.password.clone().unwrap_or_default();
            options = options.user_and_password(user.clone(), password);
        }
        if self.tls {
            options = options.require_tls(true);
        }
        if !self.ca.as_os_str().is_empty() {
            options = options.add_root_certificates(self.ca.clone());
        }
        if !self.certificate.as_os_str().is_empty() {
            options = options.add_client_certificate(self.certificate.clone(), self.key.clone());
        }
        options
    }
}

/// The URL of a server.
pub fn url(server: &str) -> String {
    match server.contains("://") {
        true => server.to_owned(),
        false => format!("nats://{server}"),
    }
}

/// A URL as it may be in a log: without the account and password that may be in it.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// The text of an error with its causes.
pub fn error_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (server, expected) in [
            ("n1:4222", "nats://n1:4222"),
            ("nats://n1:4222", "nats://n1:4222"),
            ("tls://u:p@n1:4222", "tls://n1:4222"),
            ("u:p@ss@n1:4222", "nats://n1:4222"),
        ] {
            assert_eq!(shown(&url(server)), expected);
        }
        let options = LinkOptions {
            password: Some("secret".into()),
            ..LinkOptions::default()
        };
        assert!(!format!("{options:?}").contains("secret"));
    }
}

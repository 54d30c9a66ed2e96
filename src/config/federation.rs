//! Options of the federation broker.

use super::kinds::LogFormat;
use super::paths::{below, log_below};
use super::table::options;
use super::{ConfigError, Flavour, Role, finish};
use crate::gateways::collective::Collective;
use halite_wire::Map;
use std::path::{Path, PathBuf};

options! {
    /// Configuration of the federation broker.
    FederationConfig,
    /// Every option of the federation broker.
    FEDERATION_OPTIONS;

    Network {
        /// Name of the federation that this broker serves, as clients list it in `choria.federation.collectives`. All
        /// brokers with this name share the work. There is no default.
        cluster: String = "''";
        /// Name of this broker in statistics and recorded routes. Empty: the host name and the process id.
        instance: String = "''";
        /// Subject names: `deployed` (choria.federation.NAME.federation and .collective, used by programs since March
        /// 2017) or `seed` (federation.network.NAME on both sides, as first described).
        naming: String = "deployed";
        /// NATS servers on the client side, `host:port` each; tried in turn. There is no default.
        federation_servers: Vec<String> = "[]";
        /// User name for these servers. Empty: none.
        federation_user: Option<String> = "null";
        /// Password for these servers.
        federation_password: Option<String> = "null";
        /// NATS servers on the node side, `host:port` each; tried in turn. There is no default.
        collective_servers: Vec<String> = "[]";
        /// User name for these servers. Empty: none.
        collective_user: Option<String> = "null";
        /// Password for these servers.
        collective_password: Option<String> = "null";
        /// Record the route of every message in `seen-by`, not only of messages that ask for it.
        record_route: bool = "false";
        /// Seconds to keep a message for a server that is unreachable; then it is dropped.
        keep: u64 = "30";
        /// Seconds allowed at shutdown for messages in flight.
        drain_timeout: u64 = "5";
        /// Seconds between statistics on choria.federation.NAME.stats, on both sides; 0 turns them off.
        stats_interval: u64 = "10";
        /// Port on 127.0.0.1 that answers GET /stats; 0 turns it off.
        stats_port: u16 = "0";
        /// Account that the process runs as; it must be able to read the keys below. Empty: the account that starts it.
        user: String = "''";
        /// Directory prepended to the paths in `pidfile` and `log_file`.
        root_dir: PathBuf = "/";
        /// PID file. Empty: none.
        pidfile: PathBuf = "''";
    }

    Security {
        /// Use TLS to the servers on the client side.
        federation_tls: bool = "false";
        /// CA file for these servers. Empty: the system's CAs.
        federation_tls_ca: PathBuf = "''";
        /// File with this broker's certificate for these servers. Empty: none.
        federation_tls_cert: PathBuf = "''";
        /// Key file of that certificate.
        federation_tls_key: PathBuf = "''";
        /// Use TLS to the servers on the node side.
        collective_tls: bool = "false";
        /// CA file for these servers. Empty: the system's CAs.
        collective_tls_ca: PathBuf = "''";
        /// File with this broker's certificate for these servers. Empty: none.
        collective_tls_cert: PathBuf = "''";
        /// Key file of that certificate.
        collective_tls_key: PathBuf = "''";
    }

    Output {
        /// Log level on the console: quiet, critical, error, warning, info, profile, debug, trace, garbage or all.
        log_level: String = "warning";
        /// Log level in the log file. Empty: `log_level`.
        log_level_logfile: Option<String> = "null";
        /// Log file, or a syslog daemon: `udp://HOST[:PORT]`, `file:///dev/log`. Empty: none.
        log_file: String = "/var/log/{product}/federation-broker";
        /// Format of log messages on the console.
        log_fmt_console: String = "'[%(levelname)-8s] %(message)s'";
        /// Format of log messages in the log file.
        log_fmt_logfile: String = "'%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s'";
        /// Time format on the console.
        log_datefmt: String = "'%H:%M:%S'";
        /// Time format in the log file.
        log_datefmt_logfile: String = "'%Y-%m-%d %H:%M:%S'";
        /// Format of log lines on the console and, unless `log_format_logfile` is set, in the log file: `salt` (see
        /// `log_fmt_console` and `log_fmt_logfile`) or `json` (one object per line). Commands at a terminal always use
        /// `salt`.
        log_format: LogFormat = "salt";
        /// Format of lines in the log file: `salt` or `json`. Empty: `log_format`.
        log_format_logfile: Option<LogFormat> = "null";
        /// If the console is systemd's journal, log to it with structured fields instead of text lines.
        log_journald: bool = "true";
        /// Log levels by prefix of the logger's name, such as `halite.master: error`; a leading `salt` means `halite`.
        /// They can only hide messages that the other levels let through. Libraries log only warnings and errors unless
        /// they are named here.
        log_granular_levels: Map = "{}";
    }
}

impl FederationConfig {
    /// Reads `dir/federation-broker` and what it includes.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &Path, flavour: Flavour) -> Result<Self, ConfigError> {
        Self::from_source(super::file::read(dir, Role::FederationBroker, flavour)?)
    }

    /// The configuration that a file with these options in `dir` would give; no file is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let role = Role::FederationBroker;
        Self::from_source(super::source::Source::from_values(
            options,
            dir,
            role,
            Flavour::of(dir),
        )?)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "federation-broker")?;
        let origin = source.origin.clone();
        let mut c = Self::read(source)?;
        let unused = finish::unused_option_warnings(&c.extra, Role::FederationBroker, &origin);
        c.warnings.extend(unused);
        let checks = finish::Checks::new(&origin);
        checks.one_of("naming", &c.naming, &["deployed", "seed"])?;
        for (name, text) in [("cluster", &c.cluster), ("instance", &c.instance)] {
            let dots = name == "instance";
            let plain = text
                .split('.')
                .all(|part| part.parse::<Collective>().is_ok());
            if !text.is_empty() && !(plain && (dots || !text.contains('.'))) {
                let expected = if dots {
                    "letters, digits, '_', '-' and single dots between them"
                } else {
                    "letters, digits, '_' and '-'"
                };
                return Err(checks.bad(name, &text.as_str().into(), expected));
            }
        }
        finish::logs!(c);
        finish::granular_levels(&mut c.log_granular_levels, &mut c.warnings);
        c.root_dir = finish::root(&c.root_dir);
        if !c.pidfile.as_os_str().is_empty() {
            c.pidfile = below(&c.root_dir, &c.pidfile);
        }
        c.log_file = log_below(&c.root_dir, &c.log_file);
        if c.instance.is_empty() {
            let name = nix::unistd::gethostname().unwrap_or_default();
            let name: String = name
                .to_string_lossy()
                .split('.')
                .next()
                .map_or_else(String::new, plain);
            c.instance = format!("{name}-{}", std::process::id());
        }
        Ok(c)
    }

    /// Which required option is missing, and what to set it to; `None` if all are set.
    pub fn incomplete(&self) -> Option<String> {
        let (option, what) = if self.cluster.is_empty() {
            ("cluster", "the name of the federation")
        } else if self.federation_servers.is_empty() {
            (
                "federation_servers",
                "the NATS servers where the clients are",
            )
        } else if self.collective_servers.is_empty() {
            ("collective_servers", "the NATS servers where the nodes are")
        } else {
            return None;
        };
        let file = self.conf_file.display();
        Some(format!("{file}: set the option '{option}': {what}"))
    }

    /// Every option in effect, including unknown ones.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}

/// A host name made fit for an instance name.
fn plain(text: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().filter(|c| good(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn config(options: Map) -> Result<FederationConfig, ConfigError> {
        FederationConfig::from_map(options, Path::new("/nonexistent"))
    }

    #[test]
    fn what_is_missing_is_named() {
        let told = |options| config(options).unwrap().incomplete();
        assert!(told(map! {}).unwrap().contains("'cluster'"));
        let servers = || vec!["localhost:4222".to_owned()];
        let named = map! {"cluster" => "colla", "federation_servers" => servers()};
        assert!(told(named).unwrap().contains("'collective_servers'"));
        let all = map! {"cluster" => "colla", "federation_servers" => servers(), "collective_servers" => servers()};
        assert_eq!(told(all.clone()), None);
        let instance = config(all).unwrap().instance;
        assert!(
            instance.ends_with(&format!("-{}", std::process::id())),
            "{instance}"
        );
    }

    #[test]
    fn names_that_would_break_a_subject_are_refused() {
        for (option, bad) in [
            ("cluster", "a.b"),
            ("cluster", "*"),
            ("cluster", "a b"),
            ("instance", "a..b"),
            ("instance", "a:b"),
            ("naming", "other"),
        ] {
            let error = config(map! {option => bad}).unwrap_err().to_string();
            assert!(error.contains(option) && error.contains(bad), "{error}");
        }
        assert!(config(map! {"instance" => "broker1.example.net"}).is_ok());
        let warnings = config(map! {"clustre" => "a"}).unwrap().warnings;
        assert!(warnings[0].contains("'cluster'"), "{warnings:?}");
    }
}

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
        /// Name of the federation that this broker serves, as clients list it in `choria.federation.collectives`. All brokers with
        /// this name share the work. There is no default.
        cluster: String = "''";
        /// Name of this broker among them, in statistics and recorded routes. Empty: the name of the host and the process id.
        instance: String = "''";
        /// Names of subjects: `deployed` (choria.federation.NAME.federation and .collective, what programs since March
        /// 2017 use) or `seed` (federation.network.NAME on both sides, as first described).
        naming: String = "deployed";
        /// NATS servers where the clients are, `host:port` each; tried in turn. There is no default.
        federation_servers: Vec<String> = "[]";
        /// User at these servers. Empty: none.
        federation_user: Option<String> = "null";
        /// Password at these servers.
        federation_password: Option<String> = "null";
        /// NATS servers where the nodes are, `host:port` each; tried in turn. There is no default.
        collective_servers: Vec<String> = "[]";
        /// User at these servers. Empty: none.
        collective_user: Option<String> = "null";
        /// Password at these servers.
        collective_password: Option<String> = "null";
        /// Record the way of every message in `seen-by`, not only of those that ask for it.
        record_route: bool = "false";
        /// Seconds that a message may wait for a server that is away; then it is dropped.
        keep: u64 = "30";
        /// Seconds that messages on their way may take at the end of the program.
        drain_timeout: u64 = "5";
        /// Seconds between statistics on choria.federation.NAME.stats, on both sides; 0 is none.
        stats_interval: u64 = "10";
        /// Port on 127.0.0.1 that answers GET /stats; 0 is none.
        stats_port: u16 = "0";
        /// Account that the process runs as; it must be able to read the keys below. Empty: the account that starts it.
        user: String = "''";
        /// Directory put in front of the paths of `pidfile` and `log_file`.
        root_dir: PathBuf = "/";
        /// File with the process id. Empty: none.
        pidfile: PathBuf = "''";
    }

    Security {
        /// Speak TLS with the servers of the clients.
        federation_tls: bool = "false";
        /// File with the CA of these servers. Empty: the system's.
        federation_tls_ca: PathBuf = "''";
        /// File with this broker's certificate there. Empty: none.
        federation_tls_cert: PathBuf = "''";
        /// File with its key.
        federation_tls_key: PathBuf = "''";
        /// Speak TLS with the servers of the nodes.
        collective_tls: bool = "false";
        /// File with the CA of these servers. Empty: the system's.
        collective_tls_ca: PathBuf = "''";
        /// File with this broker's certificate there. Empty: none.
        collective_tls_cert: PathBuf = "''";
        /// File with its key.
        collective_tls_key: PathBuf = "''";
    }

    Output {
        /// Level of messages on the console: quiet, critical, error, warning, info, profile, debug, trace, garbage or all.
        log_level: String = "warning";
        /// Level of messages in the log file. Empty: `log_level`.
        log_level_logfile: Option<String> = "null";
        /// Log file. Empty: none.
        log_file: String = "/var/log/{product}/federation-broker";
        /// Form of messages on the console.
        log_fmt_console: String = "'[%(levelname)-8s] %(message)s'";
        /// Form of messages in the log file.
        log_fmt_logfile: String = "'%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s'";
        /// Form of the time on the console.
        log_datefmt: String = "'%H:%M:%S'";
        /// Form of the time in the log file.
        log_datefmt_logfile: String = "'%Y-%m-%d %H:%M:%S'";
        /// Form of lines on the console and, unless `log_format_logfile` says otherwise, in the log file: `salt` (as
        /// `log_fmt_console` and `log_fmt_logfile` have it) or `json` (an object on each line, with fields). Commands at a
        /// terminal write `salt`.
        log_format: LogFormat = "salt";
        /// Form of lines in the log file: `salt` or `json`. Empty: `log_format`.
        log_format_logfile: Option<LogFormat> = "null";
        /// Where the console is systemd's journal, hand messages to it with their fields instead of as lines.
        log_journald: bool = "true";
        /// Levels of parts of the program by the beginning of their name, as `halite.master: error`; `salt` at the beginning of a
        /// name means `halite`. They hold back messages that the other levels let through. Of libraries, whose names
        /// are others, only warnings and errors are shown unless they are named here.
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

    /// The configuration that a file of these options in `dir` would give; no file is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let role = Role::FederationBroker;
        Self::from_source(super::source::Source::of(
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
        let leftovers = finish::leftovers(&c.extra, Role::FederationBroker, &origin);
        c.warnings.extend(leftovers);
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
        finish::levels(&mut c.log_level, &mut c.log_level_logfile, &mut c.warnings);
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

    /// What must be set and is not, in one sentence.
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

    /// Every option in effect, what is no option here included.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}

/// A name of a host as part of a name of an instance.
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

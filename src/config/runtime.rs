//! Options of the runtime for WASM modules.

use super::kinds::{Items, LogFormat};
use super::paths::{below, log_below};
use super::table::options;
use super::{ConfigError, Flavour, OptionValue, Role, finish};
use crate::gateways::arena::{BadName, Topics, Uuid};
use halite_wire::{Map, Value};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Maximum length of a name in characters (reference, section 4.1).
const MAX_NAME: usize = 255;
/// Upper limit of `module_message`, in bytes.
const MAX_MESSAGE: usize = 64 << 20;
/// Upper limit of timeouts, in seconds: one day.
const LONGEST: u64 = 86_400;

options! {
    /// Configuration of the runtime.
    RuntimeConfig,
    /// Every option of the runtime.
    RUNTIME_OPTIONS;

    Network {
        /// Name of this runtime; the master uses it as the minion id. Empty: the host name. With `runtimes`, the name
        /// of the runtime manager.
        name: String = "''";
        /// Id of this runtime, or of the manager. Empty: generated at the first start and stored below `cachedir`.
        uuid: String = "''";
        /// MQTT brokers, `host:port` each; tried in turn. There is no default.
        servers: Vec<String> = "[]";
        /// User name for the broker. Empty: none.
        mqtt_user: Option<String> = "null";
        /// Password for the broker.
        mqtt_password: Option<String> = "null";
        /// MQTT client id; a broker allows one connection per id. Empty: made from the uuid.
        client_id: String = "''";
        /// Seconds between MQTT keepalives. After one and a half times that without one, the broker closes the
        /// connection and announces that the runtime is gone.
        mqtt_keepalive: u32 = "30";
        /// Realm: the first levels of the runtime's topics.
        realm: String = "realm";
        /// Topic scheme: `draft` ({realm}/proc/...) or `scene` ({realm}/g/{namespace}/p/..., as in current ARENA
        /// deployments).
        topics: String = "draft";
        /// Namespace of `scene` topics.
        namespace: String = "public";
        /// Seconds between keepalives to the orchestrator; 0: none. Empty: as the orchestrator asks.
        keepalive: Option<u32> = "null";
        /// Runtime type reported to the orchestrator, for information only.
        runtime_type: String = "linux/wasmi";
        /// A map with anything else to report to the orchestrator; the master stores it as a grain.
        metadata: Option<Map> = "null";
        /// Runtimes that this process offers as their manager over one connection. A list of maps with `name` and,
        /// where they differ, `uuid`, `max_nmodules`, `apis` and the limits of modules. Empty: the process is a single
        /// runtime.
        runtimes: Items = "[]";
        /// Seconds allowed at shutdown for modules to stop and for queued messages to be sent.
        stop_timeout: u64 = "5";
        /// Account that the process runs as. Empty: the account that starts it.
        user: String = "''";
        /// Directory prepended to the paths in `cachedir`, `module_dir`, `pidfile` and `log_file`.
        root_dir: PathBuf = "/";
        /// Directory for uuids and cached files of the master.
        cachedir: PathBuf = "/var/cache/{product}/runtime";
        /// PID file. Empty: none.
        pidfile: PathBuf = "''";
    }

    Security {
        /// Use TLS to the broker.
        tls: bool = "false";
        /// CA file for the broker. Empty: the system's CAs.
        tls_ca: PathBuf = "''";
        /// File with the runtime's certificate. Empty: none.
        tls_cert: PathBuf = "''";
        /// Key file of that certificate.
        tls_key: PathBuf = "''";
    }

    Modules {
        /// Modules that may run at once; further ones are refused. 0: no limit.
        max_nmodules: u32 = "128";
        /// APIs offered to modules; modules that request others are refused. Without `channels` modules have no
        /// channels, without `stdio:in` no standard input; other entries are only reported to the orchestrator. Empty:
        /// everything.
        apis: Vec<String> = "[]";
        /// Memory limit of a module, in bytes.
        module_memory: u64 = "67108864";
        /// Memory limit of all modules of this process together, in bytes, each counted with its `module_memory`;
        /// further modules are refused. 0: no limit.
        modules_memory: u64 = "8589934592";
        /// Maximum number of elements in all tables of a module.
        module_table_elements: u64 = "100000";
        /// Maximum number of files and channels a module may have open.
        module_open_files: usize = "64";
        /// Messages queued for a module; when the queue is full, the oldest is dropped.
        module_waiting_messages: usize = "1024";
        /// Largest message on a channel, in bytes.
        module_message: usize = "131072";
        /// Messages per second that a module may publish; further ones wait.
        messages_per_second: u32 = "1000";
        /// Bytes per second that a module may write to its standard output and error; further output waits.
        output_per_second: u32 = "262144";
        /// Largest module file, in bytes.
        module_size: usize = "16777216";
        /// Topics of standard streams: `stdio` (stdio/{module} for all three, as with ARENA's runtime managers) or `io`
        /// (io/{module}/stdin, stdout and stderr).
        streams: String = "stdio";
    }

    Files {
        /// Directory with module files.
        module_dir: PathBuf = "/var/lib/{product}/modules";
        /// Hosts from which module files may be fetched by http and https, with a port unless it is the default one.
        /// Such a URL must end with `#sha256=` and the digest of the file. Empty: none.
        file_hosts: Vec<String> = "[]";
        /// Configuration directory of a minion on this host; its identity is used to fetch files from the master
        /// (salt://...). Empty: no such files.
        minion_config_dir: PathBuf = "''";
        /// Environment of the master's files, unless the URL names one (salt://...?saltenv=...).
        saltenv: String = "base";
        /// Seconds allowed for fetching a file.
        fetch_timeout: u64 = "60";
    }

    Output {
        /// Log level on the console: quiet, critical, error, warning, info, profile, debug, trace, garbage or all.
        log_level: String = "warning";
        /// Log level in the log file. Empty: `log_level`.
        log_level_logfile: Option<String> = "null";
        /// Log file, or a syslog daemon: `udp://HOST[:PORT]`, `file:///dev/log`. Empty: none.
        log_file: String = "/var/log/{product}/runtime";
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

/// Limits of modules, from an option or an entry of `runtimes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// `module_memory`, in bytes.
    pub memory: u64,
    /// `module_table_elements`.
    pub table_elements: u64,
    /// `module_open_files`.
    pub open_files: usize,
    /// `module_waiting_messages`.
    pub waiting_messages: usize,
    /// `module_message`, in bytes.
    pub message: usize,
    /// `messages_per_second`.
    pub messages_per_second: u32,
    /// `output_per_second`, in bytes.
    pub output_per_second: u32,
    /// `module_size`, in bytes.
    pub size: usize,
}

/// A runtime offered by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedRuntime {
    /// Its name.
    pub name: String,
    /// Its id, if one is configured.
    pub uuid: Option<Uuid>,
    /// `max_nmodules`; 0: no limit.
    pub max_modules: u32,
    /// `apis`; empty: everything.
    pub apis: Vec<String>,
    /// Limits of its modules.
    pub limits: ModuleLimits,
}

/// Keys allowed in an entry of `runtimes`.
const ENTRY: &[&str] = &[
    "name",
    "uuid",
    "max_nmodules",
    "apis",
    "module_memory",
    "module_table_elements",
    "module_open_files",
    "module_waiting_messages",
    "module_message",
    "messages_per_second",
    "output_per_second",
    "module_size",
];

impl RuntimeConfig {
    /// Reads `dir/runtime` and what it includes.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(dir: &Path, flavour: Flavour) -> Result<Self, ConfigError> {
        Self::from_source(super::file::read(dir, Role::Runtime, flavour)?)
    }

    /// The configuration that a file with these options in `dir` would give; no file is read.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_map(options: Map, dir: &Path) -> Result<Self, ConfigError> {
        let role = Role::Runtime;
        let flavour = Flavour::of(dir);
        Self::from_source(super::source::Source::from_values(
            options, dir, role, flavour,
        )?)
    }

    fn from_source(mut source: super::source::Source) -> Result<Self, ConfigError> {
        finish::log_dir(&mut source, "runtime")?;
        let origin = source.origin.clone();
        let mut c = Self::read(source)?;
        let unused = finish::unused_option_warnings(&c.extra, Role::Runtime, &origin);
        c.warnings.extend(unused);
        finish::logs!(c);
        finish::granular_levels(&mut c.log_granular_levels, &mut c.warnings);
        c.resolve_paths();
        c.check(&finish::Checks::new(&origin))?;
        Ok(c)
    }

    /// Puts the paths below `root_dir` and sets the name.
    fn resolve_paths(&mut self) {
        self.root_dir = finish::root(&self.root_dir);
        for path in [&mut self.cachedir, &mut self.module_dir] {
            *path = below(&self.root_dir, path);
        }
        if !self.pidfile.as_os_str().is_empty() {
            self.pidfile = below(&self.root_dir, &self.pidfile);
        }
        self.log_file = log_below(&self.root_dir, &self.log_file);
        if self.name.is_empty() {
            self.name = super::id::generate();
        }
    }

    fn check(&mut self, checks: &finish::Checks) -> Result<(), ConfigError> {
        checks.one_of("topics", &self.topics, &["draft", "scene"])?;
        checks.one_of("streams", &self.streams, &["stdio", "io"])?;
        check_range(checks, "fetch_timeout", self.fetch_timeout, 1..=LONGEST)?;
        check_range(checks, "stop_timeout", self.stop_timeout, 0..=LONGEST)?;
        let keepalive = self.mqtt_keepalive.into();
        check_range(checks, "mqtt_keepalive", keepalive, 1..=u16::MAX.into())?;
        check_name(checks, "name", &self.name)?;
        check_uuid(checks, "uuid", &self.uuid)?;
        self.limits().check(checks, "")?;
        self.topics().map_err(|e| {
            let option = match e.what {
                "namespace" => "namespace",
                _ => "realm",
            };
            checks.bad(option, &e.text.as_str().into(), e.why)
        })?;
        let mut warnings = Vec::new();
        let (mut names, mut uuids) = (Vec::new(), Vec::new());
        for (n, entry) in self.runtimes.0.iter().enumerate() {
            let path = format!("runtimes:{n}");
            let Value::Map(entry) = entry else {
                return Err(checks.bad(&path, entry, "a map with a name"));
            };
            let name = entry.str("name").unwrap_or_default();
            check_name(checks, &format!("{path}:name"), name)?;
            if names.contains(&name) {
                let expected = "a different name for each";
                return Err(checks.bad(&format!("{path}:name"), &name.into(), expected));
            }
            names.push(name);
            let uuid = entry.str("uuid").unwrap_or_default();
            check_uuid(checks, &format!("{path}:uuid"), uuid)?;
            if !uuid.is_empty() && uuid == self.uuid {
                let expected = "different from the manager's";
                return Err(checks.bad(&format!("{path}:uuid"), &uuid.into(), expected));
            }
            if uuids.contains(&uuid) {
                let expected = "a different uuid for each";
                return Err(checks.bad(&format!("{path}:uuid"), &uuid.into(), expected));
            }
            uuids.extend(Some(uuid).filter(|uuid| !uuid.is_empty()));
            for (key, value) in entry.iter() {
                let key = key.as_str().unwrap_or_default();
                if !ENTRY.contains(&key) {
                    warnings.push(format!(
                        "the option '{path}' has no setting {key:?}; it has {}",
                        ENTRY.join(", ")
                    ));
                }
                if key == "apis" && Vec::<String>::from_value(value).is_none() {
                    return Err(checks.bad(&format!("{path}:{key}"), value, "a list of text"));
                }
                let fits = match key {
                    "max_nmodules" | "messages_per_second" | "output_per_second" => {
                        u32::from_value(value).is_some()
                    }
                    key if key.starts_with("module_") => u64::from_value(value).is_some(),
                    _ => true,
                };
                if !fits {
                    return Err(checks.bad(&format!("{path}:{key}"), value, u64::TYPE));
                }
            }
            self.limits_of(entry).check(checks, &format!("{path}:"))?;
        }
        self.warnings.extend(warnings);
        Ok(())
    }

    /// The topics of the configured realm.
    ///
    /// # Errors
    /// Realm or namespace cannot be part of a topic.
    pub fn topics(&self) -> Result<Topics, BadName> {
        Topics::by_word(&self.realm, &self.topics, &self.namespace)
    }

    /// The default limits of modules.
    pub fn limits(&self) -> ModuleLimits {
        self.limits_of(&Map::new())
    }

    fn limits_of(&self, entry: &Map) -> ModuleLimits {
        let wide = |name, default: u64| number(entry, name, default);
        let size = |name, default: usize| number(entry, name, default);
        let rate = |name, default: u32| number(entry, name, default);
        ModuleLimits {
            memory: wide("module_memory", self.module_memory),
            table_elements: wide("module_table_elements", self.module_table_elements),
            open_files: size("module_open_files", self.module_open_files),
            waiting_messages: size("module_waiting_messages", self.module_waiting_messages),
            message: size("module_message", self.module_message),
            messages_per_second: rate("messages_per_second", self.messages_per_second),
            output_per_second: rate("output_per_second", self.output_per_second),
            size: size("module_size", self.module_size),
        }
    }

    /// Whether this process is the manager of several runtimes.
    pub fn is_manager(&self) -> bool {
        !self.runtimes.0.is_empty()
    }

    /// The runtimes offered: those of `runtimes`, or the process itself as the only one.
    pub fn offered(&self) -> Vec<OfferedRuntime> {
        let uuid = |text: &str| text.parse().ok();
        if !self.is_manager() {
            return vec![OfferedRuntime {
                name: self.name.clone(),
                uuid: uuid(&self.uuid),
                max_modules: self.max_nmodules,
                apis: self.apis.clone(),
                limits: self.limits(),
            }];
        }
        let entries = self.runtimes.0.iter().filter_map(Value::as_map);
        entries
            .map(|entry| OfferedRuntime {
                name: entry.str("name").unwrap_or_default().to_owned(),
                uuid: entry.str("uuid").and_then(uuid),
                max_modules: number(entry, "max_nmodules", self.max_nmodules),
                apis: match entry.get("apis").and_then(Vec::from_value) {
                    Some(apis) => apis.value,
                    None => self.apis.clone(),
                },
                limits: self.limits_of(entry),
            })
            .collect()
    }

    /// Which required option is missing, and what to set it to; `None` if all are set.
    pub fn incomplete(&self) -> Option<String> {
        let file = self.conf_file.display();
        self.servers.is_empty().then(|| {
            format!("{file}: set the option 'servers': the MQTT broker, such as [broker.example.net:1883]")
        })
    }

    /// Every option in effect, including unknown ones.
    pub fn as_map(&self) -> Map {
        let mut map = self.typed_map();
        map.set("conf_file", self.conf_file.to_string_lossy().as_ref());
        map.0.extend(self.extra.0.iter().cloned());
        map
    }
}

impl ModuleLimits {
    fn check(&self, checks: &finish::Checks, path: &str) -> Result<(), ConfigError> {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value) in [
            ("module_memory", self.memory),
            ("module_open_files", wide(self.open_files)),
            ("module_waiting_messages", wide(self.waiting_messages)),
            ("module_message", wide(self.message)),
            ("messages_per_second", self.messages_per_second.into()),
            ("output_per_second", self.output_per_second.into()),
            ("module_size", wide(self.size)),
        ] {
            checks.positive(&format!("{path}{name}"), value)?;
        }
        if self.message > MAX_MESSAGE {
            let found = Value::from(u64::try_from(self.message).unwrap_or(u64::MAX));
            let expected = format!("{MAX_MESSAGE} at most");
            return Err(checks.bad(&format!("{path}module_message"), &found, &expected));
        }
        Ok(())
    }
}

/// A whole number from an entry of `runtimes`.
fn number<T: OptionValue>(entry: &Map, name: &str, default: T) -> T {
    let given = entry.get(name).and_then(T::from_value);
    given.map_or(default, |given| given.value)
}

fn check_range(
    checks: &finish::Checks,
    option: &str,
    found: u64,
    range: RangeInclusive<u64>,
) -> Result<(), ConfigError> {
    if range.contains(&found) {
        return Ok(());
    }
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    Err(checks.bad(option, &found.into(), &expected))
}

fn check_name(checks: &finish::Checks, option: &str, name: &str) -> Result<(), ConfigError> {
    let good = |c: char| !c.is_control();
    if !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(good) {
        return Ok(());
    }
    let expected = format!("1 to {MAX_NAME} printable characters");
    Err(checks.bad(option, &name.into(), &expected))
}

fn check_uuid(checks: &finish::Checks, option: &str, uuid: &str) -> Result<(), ConfigError> {
    match uuid.parse::<Uuid>() {
        Err(e) if !uuid.is_empty() => Err(checks.bad(option, &uuid.into(), e.why)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn config(options: Map) -> Result<RuntimeConfig, ConfigError> {
        RuntimeConfig::from_map(options, Path::new("/nonexistent"))
    }

    #[test]
    fn one_runtime_is_the_process_itself() {
        let c = config(map! {"name" => "rt1", "uuid" => "u1", "root_dir" => "/r"}).unwrap();
        assert!(!c.is_manager());
        assert!(c.incomplete().unwrap().contains("'servers'"));
        assert_eq!(c.module_dir, Path::new("/r/var/lib/halite/modules"));
        let offered = c.offered();
        assert_eq!(offered.len(), 1);
        assert_eq!(offered[0].name, "rt1");
        assert_eq!(offered[0].uuid, Some("u1".parse().unwrap()));
        assert_eq!(offered[0].limits, c.limits());
        let named = config(map! {"servers" => vec!["localhost:1883".to_owned()]}).unwrap();
        assert_eq!(named.incomplete(), None);
        assert!(!named.name.is_empty());
    }

    #[test]
    fn a_manager_has_several() {
        let runtimes: Vec<Value> = vec![
            map! {"name" => "small", "max_nmodules" => 2, "module_memory" => 65536, "apis" => vec!["wasm".to_owned()]}.into(),
            map! {"name" => "large", "uuid" => "u2"}.into(),
        ];
        let c = config(map! {"name" => "node", "runtimes" => Value::Array(runtimes)}).unwrap();
        assert!(c.is_manager() && c.warnings.is_empty());
        let offered = c.offered();
        assert_eq!(
            (offered[0].max_modules, offered[0].limits.memory),
            (2, 65536)
        );
        assert_eq!(offered[0].limits.size, c.module_size);
        assert_eq!(offered[0].apis, ["wasm"]);
        assert_eq!((offered[1].max_modules, offered[1].apis.len()), (128, 0));
        assert_eq!(offered[1].uuid, Some("u2".parse().unwrap()));
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let entry = |entry: Map| map! {"runtimes" => Value::Array(vec![entry.into()])};
        for (options, option) in [
            (map! {"topics" => "other"}, "topics"),
            (map! {"streams" => "other"}, "streams"),
            (map! {"realm" => "a/#"}, "realm"),
            (map! {"uuid" => "a/b"}, "uuid"),
            (map! {"name" => "a\nb"}, "name"),
            (map! {"module_memory" => 0}, "module_memory"),
            (map! {"stop_timeout" => 1u64 << 60}, "stop_timeout"),
            (map! {"fetch_timeout" => 0}, "fetch_timeout"),
            (map! {"fetch_timeout" => 1u64 << 60}, "fetch_timeout"),
            (map! {"mqtt_keepalive" => 0}, "mqtt_keepalive"),
            (map! {"mqtt_keepalive" => 65536}, "mqtt_keepalive"),
            (entry(map! {"name" => ""}), "runtimes:0:name"),
            (
                entry(map! {"name" => "a", "module_size" => 0}),
                "runtimes:0:module_size",
            ),
            (
                entry(map! {"name" => "a", "uuid" => "+"}),
                "runtimes:0:uuid",
            ),
            (
                entry(map! {"name" => "a", "max_nmodules" => -1}),
                "runtimes:0:max_nmodules",
            ),
            (
                entry(map! {"name" => "a", "max_nmodules" => 1u64 << 40}),
                "runtimes:0:max_nmodules",
            ),
        ] {
            let error = config(options).unwrap_err().to_string();
            assert!(error.contains(option), "{option}: {error}");
        }
        let twice = Value::Array(vec![
            map! {"name" => "a"}.into(),
            map! {"name" => "a"}.into(),
        ]);
        let error = config(map! {"runtimes" => twice}).unwrap_err().to_string();
        assert!(error.contains("runtimes:1:name"), "{error}");
        let twice = Value::Array(vec![
            map! {"name" => "a", "uuid" => "u"}.into(),
            map! {"name" => "b"}.into(),
            map! {"name" => "c"}.into(),
            map! {"name" => "d", "uuid" => "u"}.into(),
        ]);
        let error = config(map! {"runtimes" => twice}).unwrap_err().to_string();
        assert!(error.contains("runtimes:3:uuid"), "{error}");
        let c = config(entry(map! {"name" => "a", "max_modules" => 1})).unwrap();
        assert!(c.warnings[0].contains("max_nmodules"), "{:?}", c.warnings);
    }
}

//! Returners used by a master or minion, and their settings. The names of these settings contain a dot (`redis.host`),
//! so they are not in the table of options.

use super::value::text;
use super::{MasterConfig, Role};
use halite_wire::{Map, Value};
use std::path::PathBuf;

/// A returner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returner {
    /// PostgreSQL with `jsonb` columns.
    Pgjsonb,
    /// PostgreSQL with text columns.
    Postgres,
    /// Redis.
    Redis,
    /// An SQLite file.
    Sqlite3,
    /// A file, one JSON document per line.
    RawfileJson,
    /// The system log.
    Syslog,
    /// Standard output.
    Local,
}

const PG: &[&str] = &[
    "host",
    "user",
    "pass",
    "passwd",
    "db",
    "port",
    "connect_timeout",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "sslcrl",
];
const REDIS: &[&str] = &["host", "port", "unix_socket_path", "db", "password"];

impl Returner {
    /// All returners.
    pub const ALL: [Returner; 7] = [
        Returner::Pgjsonb,
        Returner::Postgres,
        Returner::Redis,
        Returner::Sqlite3,
        Returner::RawfileJson,
        Returner::Syslog,
        Returner::Local,
    ];

    /// The returner with that name; `redis_return` is an alias of `redis`, as in Salt.
    pub fn parse(name: &str) -> Option<Returner> {
        let name = if name == "redis_return" {
            "redis"
        } else {
            name
        };
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Its name in `master_job_cache` and similar options (`__virtualname__` in `salt/returners`).
    pub fn name(self) -> &'static str {
        match self {
            Returner::Pgjsonb => "pgjsonb",
            Returner::Postgres => "postgres",
            Returner::Redis => "redis",
            Returner::Sqlite3 => "sqlite3",
            Returner::RawfileJson => "rawfile_json",
            Returner::Syslog => "syslog",
            Returner::Local => "local",
        }
    }

    /// Whether it can store a master's jobs and read them back.
    pub fn keeps_jobs(self) -> bool {
        !matches!(
            self,
            Returner::RawfileJson | Returner::Syslog | Returner::Local
        )
    }

    /// Whether it can store a master's events (`event_return` in the Salt module).
    pub fn keeps_events(self) -> bool {
        matches!(
            self,
            Returner::Pgjsonb | Returner::Postgres | Returner::RawfileJson
        )
    }

    /// The part of its settings before the dot.
    fn prefix(self) -> &'static str {
        match self {
            Returner::Pgjsonb => "returner.pgjsonb",
            Returner::Postgres => "returner.postgres",
            other => other.name(),
        }
    }

    fn settings(self) -> &'static [&'static str] {
        match self {
            Returner::Pgjsonb | Returner::Postgres => PG,
            Returner::Redis => REDIS,
            Returner::Sqlite3 => &["database", "timeout"],
            Returner::RawfileJson => &["filename"],
            Returner::Syslog => &["level", "facility", "tag", "options"],
            Returner::Local => &[],
        }
    }

    /// Whether an option is one of its settings, or the map of all of them.
    fn has(self, option: &str) -> bool {
        let rest = option.strip_prefix(self.prefix());
        rest.is_some_and(|rest| match rest.strip_prefix('.') {
            Some(name) => self.settings().contains(&name),
            None => rest.is_empty() && !self.settings().is_empty(),
        })
    }
}

/// Whether an option is a setting of a returner, or the map of all settings of one; on minions also with the name of an
/// alternative as prefix.
pub(super) fn is_setting(option: &str, role: Role) -> bool {
    let of_master = |returner: &Returner| returner.keeps_jobs() || returner.keeps_events();
    let known = |option: &str, all: bool| {
        Returner::ALL
            .iter()
            .any(|returner| (all || of_master(returner)) && returner.has(option))
    };
    match role {
        Role::Master => return known(option, false),
        Role::FederationBroker | Role::Runtime => return false,
        Role::Minion => {}
    }
    let mut behind = option.match_indices('.').map(|(at, _)| &option[at + 1..]);
    known(option, true) || behind.any(|option| known(option, true))
}

/// Settings of one returner (`salt/returners/__init__.py get_returner_options`).
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    returner: Returner,
    sources: Vec<&'a Map>,
    alternative: String,
    given: Option<&'a Map>,
}

impl<'a> Settings<'a> {
    /// Settings found in `sources`; the first one that has a setting wins.
    pub fn new(returner: Returner, sources: Vec<&'a Map>) -> Settings<'a> {
        Settings {
            returner,
            sources,
            alternative: String::new(),
            given: None,
        }
    }

    /// Prefers settings named `<name>.<prefix>` over the usual ones (`ret_config`).
    pub fn with_alternative(mut self, name: &str) -> Settings<'a> {
        self.alternative = name.to_owned();
        self
    }

    /// Prefers these settings over all others (`ret_kwargs`).
    pub fn with_given(mut self, given: Option<&'a Map>) -> Settings<'a> {
        self.given = given;
        self
    }

    /// The returner.
    pub fn returner(&self) -> Returner {
        self.returner
    }

    /// A setting: from a map `<prefix>: {<name>: ...}`, else from the option `<prefix>.<name>`.
    /// Empty ones count as absent.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let prefix = self.returner.prefix();
        let said = |value: &&Value| !value.is_nil() && !value.is_str("");
        let given = self.given.and_then(|map| map.get(name)).filter(said);
        let alternative = || match self.alternative.as_str() {
            "" => None,
            other => self
                .option(&format!("{other}.{prefix}"), name)
                .filter(|value| value.truthy()),
        };
        given
            .or_else(alternative)
            .or_else(|| self.option(prefix, name).filter(said))
    }

    /// All settings of the returner that have a value, as options for another process.
    pub fn resolved(&self) -> Map {
        let names = self.returner.settings().iter();
        names
            .filter_map(|name| {
                let value = self.get(name)?.clone();
                Some((format!("{}.{name}", self.returner.prefix()), value))
            })
            .collect()
    }

    fn option(&self, prefix: &str, name: &str) -> Option<&'a Value> {
        self.find(prefix)
            .and_then(Value::as_map)
            .and_then(|map| map.get(name))
            .or_else(|| self.find(&format!("{prefix}.{name}")))
    }

    fn find(&self, option: &str) -> Option<&'a Value> {
        self.sources.iter().find_map(|map| map.get(option))
    }

    /// A setting as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(text)
    }

    /// A setting as text, or the default.
    pub fn text_or(&self, name: &str, default: &str) -> String {
        self.text(name).unwrap_or_else(|| default.to_owned())
    }

    /// A numeric setting; `None` if it is not set.
    ///
    /// # Errors
    /// It is set but is not a number that fits the type.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!(
                "the option '{}.{name}' is {text:?}, which is not a number that fits",
                self.returner.prefix()
            )),
        }
    }

    /// A setting as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }
}

impl MasterConfig {
    /// The settings of a returner.
    pub fn returner(&self, returner: Returner) -> Settings<'_> {
        Settings::new(returner, vec![&self.extra])
    }

    /// Returners that get copies of jobs, and whether returns are among them: with `ext_job_cache` the minions send the
    /// returns themselves.
    pub fn job_returners(&self) -> Vec<(Returner, bool)> {
        let usable = |name: &str| Returner::parse(name).filter(|r| r.keeps_jobs());
        let mut out: Vec<_> = usable(&self.master_job_cache)
            .map(|r| (r, true))
            .into_iter()
            .collect();
        if let Some(extra) = usable(&self.ext_job_cache)
            && !out.iter().any(|(known, _)| *known == extra)
        {
            out.push((extra, false));
        }
        out
    }

    /// The names of `event_return` that are none of halite's returners: Python files may have them.
    pub fn other_event_returners(&self) -> impl Iterator<Item = &String> {
        let ours = |name: &str| Returner::parse(name).is_some_and(Returner::keeps_events);
        self.event_return.iter().filter(move |name| !ours(name))
    }

    /// Returners that get events.
    pub fn event_returners(&self) -> Vec<Returner> {
        let mut out: Vec<Returner> = Vec::new();
        for name in &self.event_return {
            match Returner::parse(name).filter(|r| r.keeps_events()) {
                Some(returner) if !out.contains(&returner) => out.push(returner),
                _ => {}
            }
        }
        out
    }
}

/// A warning for each configured returner that cannot be used. As with Salt, the master runs without it.
pub(super) fn unusable_returners(config: &MasterConfig) -> Vec<String> {
    let known = |jobs: bool| {
        let fit = |r: &Returner| {
            if jobs {
                r.keeps_jobs()
            } else {
                r.keeps_events()
            }
        };
        let names: Vec<_> = Returner::ALL
            .iter()
            .filter(|r| fit(r))
            .map(|r| r.name())
            .collect();
        names.join(", ")
    };
    let fits = |name: &str, jobs: bool| {
        Returner::parse(name).is_some_and(|r| {
            if jobs {
                r.keeps_jobs()
            } else {
                r.keeps_events()
            }
        })
    };
    let mut out = Vec::new();
    let cache = config.master_job_cache.as_str();
    if !matches!(cache, "" | "local_cache") && !fits(cache, true) {
        let known = known(true);
        out.push(format!(
            "master_job_cache: '{cache}' is not available here, so jobs are kept in the job log only; use local_cache, {known}"
        ));
    }
    let cache = config.ext_job_cache.as_str();
    if !cache.is_empty() && !fits(cache, true) {
        let known = known(true);
        out.push(format!(
            "ext_job_cache: the master cannot write to '{cache}', so the minions' returns are stored there without the loads; it can write to {known}"
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(options: Map) -> MasterConfig {
        MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap()
    }

    #[test]
    fn settings_are_flat_or_in_a_map() {
        let c = config(halite_wire::map! {
            "redis.host" => "h", "redis.port" => 7, "redis.db" => "",
            "returner.pgjsonb" => halite_wire::map! {"port" => "5433"},
            "returner.pgjsonb.port" => 1,
        });
        assert!(c.warnings.is_empty(), "{:?}", c.warnings);
        let redis = c.returner(Returner::Redis);
        assert_eq!(redis.text_or("host", "salt"), "h");
        assert_eq!(redis.number::<u16>("port").unwrap(), Some(7));
        assert!(redis.get("db").is_none());
        let pg = c.returner(Returner::Pgjsonb);
        assert_eq!(pg.number::<u16>("port").unwrap(), Some(5433));
        assert!(
            pg.number::<u8>("port")
                .unwrap_err()
                .contains("pgjsonb.port")
        );
    }

    #[test]
    fn alternatives_and_arguments_take_precedence() {
        let options = halite_wire::map! {
            "redis.host" => "h", "redis.port" => 1, "redis.db" => "2", "other.redis.port" => 3,
            "other.redis" => halite_wire::map! {"db" => 0, "host" => ""},
        };
        let grains = halite_wire::map! {"redis.host" => "grains", "redis.password" => "p"};
        let given = halite_wire::map! {"port" => 4};
        let plain = Settings::new(Returner::Redis, vec![&options, &grains]);
        assert_eq!(plain.text("password"), Some("p".into()));
        let other = plain.clone().with_alternative("other");
        let all = |s: &Settings| ["host", "port", "db"].map(|name| s.text_or(name, "-"));
        assert_eq!(all(&plain), ["h", "1", "2"]);
        assert_eq!(all(&other), ["h", "3", "2"], "zero does not count there");
        assert_eq!(all(&other.with_given(Some(&given))), ["h", "4", "2"]);
        for (option, master, minion) in [
            ("redis.host", true, true),
            ("other.redis.host", false, true),
            ("other.returner.pgjsonb", false, true),
            ("syslog.tag", false, true),
            ("redis.nonsense", false, false),
            ("local", false, false),
        ] {
            assert_eq!(is_setting(option, Role::Master), master, "{option}");
            assert_eq!(is_setting(option, Role::Minion), minion, "{option}");
        }
    }

    #[test]
    fn unusable_returners_are_named() {
        let c = config(halite_wire::map! {
            "master_job_cache" => "mysql", "ext_job_cache" => "redis",
            "event_return" => vec!["redis".to_owned(), "pgjsonb".into(), "pgjsonb".into()],
        });
        assert_eq!(c.warnings.len(), 1, "{:?}", c.warnings);
        assert_eq!(c.job_returners(), [(Returner::Redis, false)]);
        assert_eq!(c.event_returners(), [Returner::Pgjsonb]);
        let c = config(halite_wire::map! {
            "master_job_cache" => "redis_return", "ext_job_cache" => "redis", "event_return" => "",
        });
        assert!(c.warnings.is_empty(), "{:?}", c.warnings);
        assert_eq!(c.job_returners(), [(Returner::Redis, true)]);
        assert!(c.event_returners().is_empty());
    }
}

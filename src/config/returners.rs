//! Returners that this master writes to, and their settings. These have a dot in their names
//! (`redis.host`), so they stand outside the table of options.

use super::MasterConfig;
use super::value::text;
use crate::wire::{Map, Value};
use std::path::PathBuf;

/// A returner of the master.
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
    /// A file of events, one JSON document a line.
    RawfileJson,
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
    const ALL: [Returner; 5] = [
        Returner::Pgjsonb,
        Returner::Postgres,
        Returner::Redis,
        Returner::Sqlite3,
        Returner::RawfileJson,
    ];

    /// The returner of that name; `redis_return` is a second name of `redis`, as in Salt.
    pub fn parse(name: &str) -> Option<Returner> {
        let name = if name == "redis_return" {
            "redis"
        } else {
            name
        };
        Self::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Its name in `master_job_cache` and the like (`__virtualname__` in `salt/returners`).
    pub fn name(self) -> &'static str {
        match self {
            Returner::Pgjsonb => "pgjsonb",
            Returner::Postgres => "postgres",
            Returner::Redis => "redis",
            Returner::Sqlite3 => "sqlite3",
            Returner::RawfileJson => "rawfile_json",
        }
    }

    /// Whether jobs can be kept there.
    pub fn keeps_jobs(self) -> bool {
        self != Returner::RawfileJson
    }

    /// Whether events can be kept there (`event_return` in the Salt module).
    pub fn keeps_events(self) -> bool {
        !matches!(self, Returner::Redis | Returner::Sqlite3)
    }

    /// What stands before the dot of its settings.
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
        }
    }
}

/// Whether an option is a setting of a returner, or the map of all of one.
pub(super) fn is_setting(option: &str) -> bool {
    Returner::ALL.into_iter().any(|returner| {
        option
            .strip_prefix(returner.prefix())
            .is_some_and(|rest| match rest.strip_prefix('.') {
                Some(name) => returner.settings().contains(&name),
                None => rest.is_empty(),
            })
    })
}

/// Settings of one returner (`salt/returners/__init__.py get_returner_options`).
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    extra: &'a Map,
    returner: Returner,
}

impl Settings<'_> {
    /// A setting: from a map `<prefix>: {<name>: ...}`, else from the option `<prefix>.<name>`.
    /// Empty ones count as absent.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let prefix = self.returner.prefix();
        let nested = self.extra.get(prefix).and_then(Value::as_map);
        nested
            .and_then(|map| map.get(name))
            .or_else(|| self.extra.get(&format!("{prefix}.{name}")))
            .filter(|value| !value.is_nil() && !value.is_str(""))
    }

    /// A setting as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(text)
    }

    /// A setting as text, or what applies without it.
    pub fn text_or(&self, name: &str, default: &str) -> String {
        self.text(name).unwrap_or_else(|| default.to_owned())
    }

    /// A setting that is a number.
    ///
    /// # Errors
    /// It is there and is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!(
                "the option '{}.{name}' is {text:?}, which is no number that fits",
                self.returner.prefix()
            )),
        }
    }

    /// A setting that is a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }
}

impl MasterConfig {
    /// The settings of a returner.
    pub fn returner(&self, returner: Returner) -> Settings<'_> {
        Settings {
            extra: &self.extra,
            returner,
        }
    }

    /// Who gets copies of jobs, and whether returns are among them: those of an `ext_job_cache`
    /// come from the minions themselves.
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

    /// Who gets events.
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

/// A warning for each returner that is asked for and not to be had. As with Salt, the master
/// serves without it.
pub(super) fn unusable(config: &MasterConfig) -> Vec<String> {
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
            "master_job_cache: '{cache}' is not to be had here, so jobs are in the job log only; use local_cache, {known}"
        ));
    }
    let cache = config.ext_job_cache.as_str();
    if !cache.is_empty() && !fits(cache, true) {
        let known = known(true);
        out.push(format!(
            "ext_job_cache: the master cannot write to '{cache}', so the minions' returns stand there without the loads; it can to {known}"
        ));
    }
    for name in config.event_return.iter().filter(|n| !fits(n, false)) {
        let known = known(false);
        out.push(format!(
            "event_return: '{name}' cannot keep events here, so it gets none; use {known}"
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
    fn settings_stand_flat_or_in_a_map() {
        let c = config(crate::map! {
            "redis.host" => "h", "redis.port" => 7, "redis.db" => "",
            "returner.pgjsonb" => crate::map! {"port" => "5433"},
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
    fn what_cannot_be_had_is_said() {
        let c = config(crate::map! {
            "master_job_cache" => "mysql", "ext_job_cache" => "redis",
            "event_return" => vec!["redis".to_owned(), "pgjsonb".into(), "pgjsonb".into()],
        });
        assert_eq!(c.warnings.len(), 2, "{:?}", c.warnings);
        assert_eq!(c.job_returners(), [(Returner::Redis, false)]);
        assert_eq!(c.event_returners(), [Returner::Pgjsonb]);
        let c = config(crate::map! {
            "master_job_cache" => "redis_return", "ext_job_cache" => "redis", "event_return" => "",
        });
        assert!(c.warnings.is_empty(), "{:?}", c.warnings);
        assert_eq!(c.job_returners(), [(Returner::Redis, true)]);
        assert!(c.event_returners().is_empty());
    }
}

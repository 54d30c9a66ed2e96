//! Steps between the merged files and the typed configuration that master and minion share.

use super::kinds::{BusFraming, SaltSeries};
use super::source::{Source, describe};
use super::{ConfigError, Flavour, OptionInfo, Role};
use crate::map;
use crate::wire::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Names of all options that Salt 3006 to 3008 know, sorted.
const SALT_OPTIONS: &str = include_str!("salt_options.txt");

/// `log_dir` moves the log file (`salt/config/__init__.py _adjust_log_file_override`).
pub(super) fn log_dir(source: &mut Source, file: &str) -> Result<(), ConfigError> {
    let Some(dir) = source.values.remove("log_dir").filter(Value::truthy) else {
        return Ok(());
    };
    let Some(dir) = dir.as_str() else {
        return Err(source.bad("log_dir", &dir, "a path"));
    };
    let file = source
        .values
        .str("log_file")
        .filter(|f| !f.is_empty())
        .unwrap_or(file);
    let path = Path::new(dir).join(file).to_string_lossy().into_owned();
    source.values.set("log_file", path);
    Ok(())
}

/// Options that weaken the authentication count only when they are exactly `true`.
pub(super) fn exactly_true(source: &mut Source, options: &[&str]) {
    for option in options {
        let Some(value) = source.values.get(option) else {
            continue;
        };
        if value.as_bool().is_none() && !value.is_nil() {
            source.values.set(*option, false);
            source.warn(option, "only the word true turns this on; it is off");
        }
    }
}

/// `file_roots` or `pillar_roots` that are no map give way to one directory, as with Salt
/// (`salt/config/__init__.py _validate_file_roots`).
pub(super) fn roots(source: &mut Source, option: &str, dir: &str) {
    let value = source.values.get(option);
    if let Some(Value::Map(envs)) = value {
        let single = envs.iter().find(|(_, dirs)| dirs.as_str().is_some());
        if let Some((env, dir)) = single.cloned() {
            let (env, dir) = (describe(&env), describe(&dir));
            let text = format!("{env} has no directories; write {dir} as a list");
            source.warn(option, &text);
        }
        return;
    }
    if value.is_none_or(Value::is_nil) {
        return;
    }
    let instead = map! {"base" => vec![dir.to_owned()]};
    source.values.set(option, instead);
    let text = format!("must be a map of environments to lists of directories; {dir} is used");
    source.warn(option, &text);
}

/// `root_dir` as an absolute path.
pub(super) fn root(dir: &Path) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    super::paths::normal(&dir)
}

/// Where a generated id is kept.
pub(super) fn id_cache(conf_file: &Path, flavour: Flavour, root: &Path) -> PathBuf {
    match flavour {
        Flavour::Halite => conf_file.with_file_name("minion_id"),
        Flavour::Salt => root.join("etc/salt/minion_id"),
    }
}

/// Framing of the event bus. Only 3006 since 3006.26 prefixes both directions.
pub(super) fn prefixed(framing: BusFraming, series: SaltSeries) -> bool {
    match framing {
        BusFraming::Bare => false,
        BusFraming::Prefixed => true,
        BusFraming::Auto => series == SaltSeries::S3006,
    }
}

/// Unknown levels mean `warning`, as with Salt.
pub(super) fn levels(console: &mut String, file: &mut Option<String>, warnings: &mut Vec<String>) {
    #[rustfmt::skip]
    const LEVELS: [&str; 10] = [
        "quiet", "critical", "error", "warning", "info", "profile", "debug", "trace", "garbage", "all",
    ];
    for level in [Some(console), file.as_mut()].into_iter().flatten() {
        let lower = level.to_lowercase();
        if LEVELS.contains(&lower.as_str()) {
            *level = lower;
            continue;
        }
        let words = LEVELS.join(", ");
        warnings.push(format!(
            "the log level '{level}' is unknown, so warning applies; write one of {words}"
        ));
        *level = "warning".into();
    }
}

/// Options of Salt's that are left out on purpose when they are false, and why.
const NEVER_OFF: [(&str, &str); 1] = [(
    "multiprocessing",
    "is not followed: each job is a process of its own, never a thread, so that one that crashes, hangs or is \
     ended takes nothing else along",
)];

/// One warning per option that has no effect here; settings of returners have one.
pub(super) fn leftovers(extra: &Map, role: Role, origin: &HashMap<String, PathBuf>) -> Vec<String> {
    let table = match role {
        Role::Master => super::MASTER_OPTIONS,
        Role::Minion => super::MINION_OPTIONS,
        Role::FederationBroker => super::FEDERATION_OPTIONS,
        Role::Runtime => super::RUNTIME_OPTIONS,
    };
    let mut out = Vec::new();
    for (key, value) in extra.iter() {
        let Value::Str(name) = key else {
            continue;
        };
        let never = NEVER_OFF
            .iter()
            .find(|(known, _)| known == name && role == Role::Minion);
        if never.is_some() && value.truthy() {
            continue;
        }
        if super::returners::is_setting(name, role) {
            continue;
        }
        let what = if let Some((_, why)) = never {
            (*why).to_owned()
        } else if SALT_OPTIONS.lines().any(|known| known == name) {
            "Salt has this option, but it is not implemented here and has no effect".to_owned()
        } else {
            match nearest(name, table) {
                Some(near) => format!("unknown; is '{near}' meant?"),
                None => "unknown; it is kept for templates and config lookups only".to_owned(),
            }
        };
        let place = origin.get(name).map(|p| format!("{}: ", p.display()));
        out.push(format!(
            "{}the option '{name}': {what}",
            place.unwrap_or_default()
        ));
    }
    out
}

/// The option whose name differs in at most two letters.
fn nearest(name: &str, table: &[OptionInfo]) -> Option<&'static str> {
    let scored = table.iter().map(|o| (distance(name, o.name), o.name));
    let (score, best) = scored.min()?;
    (score <= 2 && name.len() > 3).then_some(best)
}

/// Letters to insert, drop or replace (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = corner + usize::from(ca != *cb);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// Checks of values that have the right type.
pub(super) struct Checks<'a> {
    origin: &'a HashMap<String, PathBuf>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(origin: &'a HashMap<String, PathBuf>) -> Self {
        Checks { origin }
    }

    pub(super) fn bad(&self, option: &str, found: &Value, expected: &str) -> ConfigError {
        ConfigError::BadValue {
            path: self.origin.get(option).cloned().unwrap_or_default(),
            option: option.to_owned(),
            found: describe(found),
            expected: expected.to_owned(),
        }
    }

    pub(super) fn one_of(
        &self,
        option: &str,
        found: &str,
        words: &[&str],
    ) -> Result<(), ConfigError> {
        if words.contains(&found) {
            return Ok(());
        }
        Err(self.bad(
            option,
            &found.into(),
            &format!("one of {}", words.join(", ")),
        ))
    }

    pub(super) fn signing(&self, option: &str, found: &str) -> Result<(), ConfigError> {
        self.one_of(option, found, &["PKCS1v15-SHA1", "PKCS1v15-SHA224"])
    }

    /// Small letters, and one of Python's `hashlib` that Salt uses.
    pub(super) fn hash_type(&self, found: &mut String) -> Result<(), ConfigError> {
        *found = found.to_lowercase();
        self.one_of(
            "hash_type",
            found,
            &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"],
        )
    }

    pub(super) fn positive(&self, option: &str, found: u64) -> Result<(), ConfigError> {
        if found > 0 {
            return Ok(());
        }
        Err(self.bad(option, &found.into(), "a whole number from 1"))
    }
}

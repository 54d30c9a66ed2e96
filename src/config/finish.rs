//! Steps between the merged files and the typed configuration, shared by master and minion.

use super::kinds::{BusFraming, SaltSeries};
use super::source::{Source, describe};
use super::{ConfigError, Flavour, OptionInfo, Role};
use halite_sys::logging::{LEVELS, SyslogAddress};
use halite_wire::map;
use halite_wire::{Map, Value};
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

/// Options that weaken authentication take effect only if they are exactly `true`.
pub(super) fn require_literal_true(source: &mut Source, options: &[&str]) {
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

/// A `file_roots` or `pillar_roots` that is not a map is replaced by one directory, as in Salt
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

/// Where a generated id is stored.
pub(super) fn id_cache(conf_file: &Path, flavour: Flavour, root: &Path) -> PathBuf {
    match flavour {
        Flavour::Halite => conf_file.with_file_name("minion_id"),
        Flavour::Salt => root.join("etc/salt/minion_id"),
    }
}

/// Whether event bus frames have a length prefix. Only 3006 since 3006.26 prefixes both directions.
pub(super) fn prefixed(framing: BusFraming, series: SaltSeries) -> bool {
    match framing {
        BusFraming::Bare => false,
        BusFraming::Prefixed => true,
        BusFraming::Auto => series == SaltSeries::S3006,
    }
}

/// Checks the options of the log that every program has; what cannot be used is a warning, as in Salt.
macro_rules! logs {
    ($config:ident) => {{
        let (level, file) = (&mut $config.log_level, &mut $config.log_level_logfile);
        $crate::finish::levels(level, file, &mut $config.warnings);
        $crate::finish::log_address(&$config.log_file, &mut $config.warnings);
    }};
}
pub(super) use logs;

/// An address of a syslog daemon that cannot be one.
pub(super) fn log_address(log_file: &str, warnings: &mut Vec<String>) {
    if let Some(Err(why)) = SyslogAddress::of_log_file(log_file) {
        warnings.push(format!("log_file {log_file}: {why}"));
    }
}

/// Replaces unknown levels with `warning`, as Salt does.
pub(super) fn levels(console: &mut String, file: &mut Option<String>, warnings: &mut Vec<String>) {
    for level in [Some(console), file.as_mut()].into_iter().flatten() {
        let lower = level.to_lowercase();
        if LEVELS.contains(&lower.as_str()) {
            *level = lower;
            continue;
        }
        warnings.push(unknown_level(level));
        *level = "warning".into();
    }
}

fn unknown_level(word: &str) -> String {
    let words = LEVELS.join(", ");
    format!("the log level '{word}' is unknown, so warning applies; write one of {words}")
}

/// Lowercases the level names; unknown ones become `warning`, as in Salt.
pub(super) fn granular_levels(levels: &mut Map, warnings: &mut Vec<String>) {
    for (name, level) in &mut levels.0 {
        let word = super::value::text(level).unwrap_or_default().to_lowercase();
        let known = LEVELS.contains(&word.as_str());
        if !known {
            let name = super::value::text(name).unwrap_or_default();
            let why = unknown_level(&word);
            warnings.push(format!("log_granular_levels: {name}: {why}"));
        }
        *level = if known { word.into() } else { "warning".into() };
    }
}

/// Options of Salt that halite always treats as on, and why setting them to false is refused.
const NEVER_OFF: [(&str, &str); 1] = [(
    "multiprocessing",
    "has no effect: each job is always a process of its own, so that one that crashes, hangs or is killed affects \
     nothing else",
)];

/// One warning per option that has no effect here. Settings of returners have one and get no warning.
pub(super) fn unused_option_warnings(
    extra: &Map,
    role: Role,
    origin: &HashMap<String, PathBuf>,
) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in extra.iter() {
        let Value::Str(name) = key else {
            continue;
        };
        let what = match standing(name, value, role) {
            Standing::Followed => continue,
            Standing::Refused(why) => why.to_owned(),
            Standing::Ignored => {
                "Salt has this option, but it is not implemented here and has no effect".to_owned()
            }
            Standing::Unknown(Some(near)) => format!("unknown; is '{near}' meant?"),
            Standing::Unknown(None) => {
                "unknown; it is kept for templates and config lookups only".to_owned()
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

/// Whether some option is one that only Salt has: the file was written for a stock master.
pub(super) fn is_for_stock(extra: &Map, role: Role) -> bool {
    extra.iter().any(|(key, value)| {
        let name = key.as_str().unwrap_or_default();
        matches!(
            standing(name, value, role),
            Standing::Ignored | Standing::Refused(_)
        )
    })
}

/// How halite treats an option found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Supported here, or a setting of a returner supported here.
    Followed,
    /// Refused on purpose, for this reason.
    Refused(&'static str),
    /// An option of Salt that has no effect here.
    Ignored,
    /// Unknown to Salt and to halite; holds the option that was probably meant.
    Unknown(Option<&'static str>),
}

/// Options that are folded into others before the table is read.
const MERGED_OPTIONS: [&str; 1] = ["log_dir"];

/// How halite treats the option `name` with this value in the file of `role`.
pub(super) fn standing(name: &str, value: &Value, role: Role) -> Standing {
    let table = super::doc::table(role);
    let never = NEVER_OFF
        .iter()
        .find(|(known, _)| *known == name && role == Role::Minion);
    if let Some((_, why)) = never {
        return if value.truthy() {
            Standing::Followed
        } else {
            Standing::Refused(why)
        };
    }
    let known = table.iter().any(|o| o.name == name) || MERGED_OPTIONS.contains(&name);
    if known || super::returners::is_setting(name, role) {
        return Standing::Followed;
    }
    if is_salt_option(name) {
        Standing::Ignored
    } else {
        Standing::Unknown(nearest(name, table))
    }
}

/// Whether Salt has an option of this name.
fn is_salt_option(name: &str) -> bool {
    SALT_OPTIONS.lines().any(|known| known == name)
}

/// Maximum edit distance at which a similar option is suggested.
const MAX_TYPOS: usize = 2;

/// The option within an edit distance of [`MAX_TYPOS`].
fn nearest(name: &str, table: &[OptionInfo]) -> Option<&'static str> {
    if name.len() <= 3 {
        return None;
    }
    let letters = name.chars().count();
    let similar = table
        .iter()
        .filter(|o| o.name.chars().count().abs_diff(letters) <= MAX_TYPOS);
    let scored = similar.map(|o| (distance(name, o.name), o.name));
    let (score, best) = scored.min()?;
    (score <= MAX_TYPOS).then_some(best)
}

/// Edit distance (Levenshtein): insertions, deletions, substitutions.
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

/// Checks on values that already have the right type.
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

    /// Lowercases the value; it must be a digest of Python's `hashlib` that Salt uses.
    pub(super) fn hash_type(&self, found: &mut String) -> Result<(), ConfigError> {
        *found = found.to_lowercase();
        self.one_of(
            "hash_type",
            found,
            &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"],
        )
    }

    /// A host name or address with a port, or empty. The name is not resolved here.
    pub(super) fn address(&self, option: &str, found: &str) -> Result<(), ConfigError> {
        let parts = found.rsplit_once(':');
        if found.is_empty()
            || parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        {
            return Ok(());
        }
        Err(self.bad(
            option,
            &found.into(),
            "an address and a port, as in 127.0.0.1:4507, or '' for none",
        ))
    }

    pub(super) fn positive(&self, option: &str, found: u64) -> Result<(), ConfigError> {
        if found > 0 {
            return Ok(());
        }
        Err(self.bad(option, &found.into(), "a whole number from 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_salts_options_are_found_and_no_others() {
        let mut names = SALT_OPTIONS.lines();
        assert!(SALT_OPTIONS.lines().is_sorted() && names.clone().count() > 300);
        assert!(names.all(is_salt_option));
        for other in [
            "",
            "a",
            "zzz",
            "acceptance_wait_tim",
            "acceptance_wait_timee",
            "\n",
        ] {
            assert!(!is_salt_option(other), "{other:?}");
        }
    }

    #[test]
    fn slips_of_two_letters_are_understood() {
        let near = |name| nearest(name, crate::MASTER_OPTIONS);
        assert_eq!(near("worker_thread"), Some("worker_threads"));
        assert_eq!(near("wroker_threads"), Some("worker_threads"));
        assert_eq!(near("publishport"), Some("publish_port"));
        assert_eq!(near("my_own_settings"), None);
        assert_eq!(near("use"), None, "too short to tell");
    }
}

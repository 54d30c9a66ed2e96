//! Whether a presented key is accepted, in Salt's order of decisions (reference `salt-protocol.md` 3;
//! `salt/master.py AuthFuncs._auth_impl_sync`).

use halite_config::MasterConfig;
use halite_store::keys::{KeyState, KeyStore};
use halite_target::{PyRegex, RegexLimit, fnmatch};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The decision about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `ret: true`: wait for the operator.
    Pending {
        /// Whether the key is new and must be stored.
        store: bool,
    },
    /// `ret: false`, rejected by the operator or a list.
    Rejected {
        /// Whether the key is new and must be stored.
        store: bool,
        /// Whether the event `salt/auth` has `act: reject`.
        act: bool,
    },
    /// `ret: false`, the key differs from the stored one and is stored as denied.
    Denied,
    /// Signed in; the key is stored if new.
    Accepted,
}

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Stored state, and whether the stored key equals the presented one.
    stored: Option<(KeyState, bool)>,
    /// A list, stub file or option accepts the id.
    autosign: bool,
    /// A list rejects the id.
    autoreject: bool,
    /// `open_mode`.
    open: bool,
}

/// Checks 3 to 8 of the reference's table, in this order.
fn decide(known: Known) -> Verdict {
    if known.open {
        return Verdict::Accepted;
    }
    match known.stored {
        Some((KeyState::Rejected, _)) => Verdict::Rejected {
            store: false,
            act: true,
        },
        Some((KeyState::Accepted, true)) => Verdict::Accepted,
        Some((KeyState::Accepted, false)) => Verdict::Denied,
        None if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        None if known.autosign => Verdict::Accepted,
        None => Verdict::Pending { store: true },
        Some(_) if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        Some((_, false)) => Verdict::Denied,
        Some((_, true)) if known.autosign => Verdict::Accepted,
        Some((_, true)) => Verdict::Pending { store: false },
    }
}

/// A peer that presents a key.
pub struct Candidate<'a> {
    /// The id it claims.
    pub id: &'a MinionId,
    /// Its public key, in clean form.
    pub presented: &'a str,
    /// The grains it sent for `autosign_grains_dir`.
    pub grains: Option<&'a Map>,
    /// Whether an option of the caller accepts it, like `auto_accept`.
    pub vouched: bool,
}

impl Verdict {
    /// `result` and `act` of the event `salt/auth`.
    pub fn event_fields(self) -> (bool, Option<&'static str>) {
        match self {
            Verdict::Pending { .. } => (true, Some("pend")),
            Verdict::Rejected { act, .. } => (false, act.then_some("reject")),
            Verdict::Denied => (false, Some("denied")),
            Verdict::Accepted => (true, Some("accept")),
        }
    }
}

impl Candidate<'_> {
    /// Decides about the key without storing anything.
    ///
    /// # Errors
    /// The key store is not readable.
    pub fn verdict(&self, config: &MasterConfig, keys: &dyn KeyStore) -> io::Result<Verdict> {
        let stored = keys
            .state(self.id)?
            .map(|(state, key)| (state, key == self.presented));
        let decided = matches!(stored, Some((KeyState::Accepted | KeyState::Rejected, _)));
        // The check consumes a one-shot stub file, so only make it if the result matters.
        let ask = !decided && !config.open_mode;
        let autoreject = ask && listed(&config.autoreject_file, self.id, config, true);
        Ok(decide(Known {
            stored,
            autoreject,
            autosign: ask && !autoreject && self.autosigned(config, keys)?,
            open: config.open_mode,
        }))
    }

    /// `salt/daemons/masterapi.py AutoKey.check_autosign`: first match wins.
    fn autosigned(&self, config: &MasterConfig, keys: &dyn KeyStore) -> io::Result<bool> {
        let autosign = || listed(&config.autosign_file, self.id, config, false);
        if self.vouched || config.auto_accept || autosign() {
            return Ok(true);
        }
        let age = Duration::from_secs(config.autosign_timeout * 60);
        if keys.consume_autosign(self.id, age)? {
            return Ok(true);
        }
        Ok(self
            .grains
            .is_some_and(|g| grain_listed(&config.autosign_grains_dir, g, config)))
    }

    /// Stores the key as the verdict says.
    ///
    /// # Errors
    /// The key store is not writable.
    pub fn keep(&self, keys: &dyn KeyStore, verdict: Verdict) -> io::Result<()> {
        let id = self.id;
        match verdict {
            Verdict::Pending { store: true } => keys.put(KeyState::Pending, id, self.presented),
            Verdict::Rejected { store: true, .. } => {
                keys.put(KeyState::Rejected, id, self.presented)?;
                keys.delete(KeyState::Pending, id).map(drop)
            }
            Verdict::Denied => keys.put(KeyState::Denied, id, self.presented),
            Verdict::Accepted => {
                let stored = keys.get(KeyState::Accepted, id)?;
                if stored.as_deref() == Some(self.presented) {
                    return Ok(());
                }
                keys.put(KeyState::Accepted, id, self.presented)?;
                keys.delete(KeyState::Pending, id).map(drop)
            }
            Verdict::Pending { store: false } | Verdict::Rejected { store: false, .. } => Ok(()),
        }
    }

    /// The event `salt/auth`.
    pub fn event(&self, result: bool, act: Option<&str>) -> Map {
        let mut data = halite_wire::map! {"result" => result};
        if let Some(act) = act {
            data.set("act", act);
        }
        data.set("id", self.id.as_str());
        data.set("pub", self.presented);
        data
    }
}

/// Whether a line of `file` matches `id` (`AutoKey.check_signing_file`); `unsure` counts for a line of which that cannot be told.
fn listed(file: &Option<PathBuf>, id: &MinionId, config: &MasterConfig, unsure: bool) -> bool {
    let Some(file) = file else { return false };
    read_lines(file, config)
        .iter()
        .any(|line| names(line, id.as_str()).unwrap_or(unsure))
}

/// Whether a line is the id, a glob that matches it, or a regular expression that matches all of it
/// (`salt/utils/stringutils.py expr_match`).
fn names(line: &str, id: &str) -> Result<bool, RegexLimit> {
    if line == id || fnmatch(id, line) {
        return Ok(true);
    }
    PyRegex::new(&format!(r"\A(?:{line})\Z")).map_or(Ok(false), |regex| regex.matches(id))
}

fn grain_listed(dir: &Option<PathBuf>, grains: &Map, config: &MasterConfig) -> bool {
    let Some(dir) = dir else { return false };
    grains.iter().any(|(name, value)| {
        // The name of a grain becomes a file name: the rules for ids keep it in its directory.
        let Some(name) = name.as_str().and_then(|n| n.parse::<MinionId>().ok()) else {
            return false;
        };
        let value = match value {
            Value::Str(s) => s.clone(),
            Value::Int(n) => n.to_string(),
            Value::Bool(b) => if *b { "True" } else { "False" }.into(),
            _ => return false,
        };
        read_lines(&dir.join(name.as_str()), config).contains(&value)
    })
}

/// Lines of a signing file without comments; empty if others may write to it.
fn read_lines(path: &Path, config: &MasterConfig) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(meta) = std::fs::metadata(path) else {
        return Vec::new();
    };
    let mode = meta.permissions().mode();
    let forbidden = if config.permissive_pki_access {
        0o002
    } else {
        0o022
    };
    if mode & forbidden != 0 {
        log::warn!(
            "{} is writable by others and is ignored; chmod go-w it",
            path.display()
        );
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stored: Option<(KeyState, bool)>) -> Known {
        Known {
            stored,
            autosign: false,
            autoreject: false,
            open: false,
        }
    }

    #[test]
    fn the_table_of_the_reference() {
        use KeyState::*;
        let reject = |store| Verdict::Rejected { store, act: true };
        let pending = |store| Verdict::Pending { store };
        let sign = |k: Known| Known {
            autosign: true,
            ..k
        };
        let refuse = |k: Known| Known {
            autoreject: true,
            ..k
        };
        let cases = [
            ("4", known(Some((Rejected, true))), reject(false)),
            (
                "4, list cannot help",
                sign(known(Some((Rejected, true)))),
                reject(false),
            ),
            ("5", known(Some((Accepted, false))), Verdict::Denied),
            (
                "5, list cannot help",
                sign(known(Some((Accepted, false)))),
                Verdict::Denied,
            ),
            ("8", known(Some((Accepted, true))), Verdict::Accepted),
            ("6a", refuse(known(None)), reject(true)),
            ("6b", known(None), pending(true)),
            ("6c", sign(known(None)), Verdict::Accepted),
            ("7a", refuse(known(Some((Pending, true)))), reject(true)),
            ("7b", known(Some((Pending, false))), Verdict::Denied),
            ("7c", known(Some((Pending, true))), pending(false)),
            ("7d", sign(known(Some((Pending, false)))), Verdict::Denied),
            ("7e", sign(known(Some((Pending, true)))), Verdict::Accepted),
            (
                "3",
                Known {
                    open: true,
                    ..known(Some((Rejected, false)))
                },
                Verdict::Accepted,
            ),
        ];
        for (row, input, verdict) in cases {
            assert_eq!(decide(input), verdict, "row {row}");
        }
    }
    /// As stock's `expr_match`; the id is never used as a pattern.
    #[test]
    fn lines_of_autosign_files_name_whole_ids() {
        for (line, id, expected) in [
            ("web1", "web1", true),
            ("web1", "web10", false),
            ("web1", "a.web1", false),
            ("web*", "web10", true),
            ("*.example.org", "a.example.org", true),
            ("a.example.org", "*.example.org", false),
            (r"web\d+", "web10", true),
            (r"web\d+", "web10x", false),
            ("web(", "web1", false),
        ] {
            assert_eq!(names(line, id), Ok(expected), "{line:?} {id:?}");
        }
    }
}

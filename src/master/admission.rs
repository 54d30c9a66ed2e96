//! Whether a presented key is accepted, in Salt's order of decisions (reference `salt-protocol.md` 3;
//! `salt/master.py AuthFuncs._auth_impl_sync`).

use halite_config::MasterConfig;
use halite_store::keys::{KeyLock, KeyState, KeyStore};
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
    /// Signed in.
    Accepted {
        /// Whether the key is newly accepted and must be stored.
        store: bool,
    },
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
        let store = known.stored != Some((KeyState::Accepted, true));
        return Verdict::Accepted { store };
    }
    match known.stored {
        Some((KeyState::Rejected, _)) => Verdict::Rejected {
            store: false,
            act: true,
        },
        // It is there already. Storing it again would bring it back if it was deleted meanwhile.
        Some((KeyState::Accepted, true)) => Verdict::Accepted { store: false },
        Some((KeyState::Accepted, false)) => Verdict::Denied,
        None if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        None if known.autosign => Verdict::Accepted { store: true },
        None => Verdict::Pending { store: true },
        Some(_) if known.autoreject => Verdict::Rejected {
            store: true,
            act: true,
        },
        Some((_, false)) => Verdict::Denied,
        Some((_, true)) if known.autosign => Verdict::Accepted { store: true },
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
    /// Whether no key is trusted for the first time now: this master has no connection to its cluster, and another one may be trusting another key.
    pub is_alone: bool,
}

/// A decision that has not been carried out yet. If it changes keys, nobody else does until this is dropped.
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    _lock: Option<KeyLock>,
}

impl Verdict {
    /// Whether it changes stored keys.
    fn stores(self) -> bool {
        match self {
            Verdict::Pending { store }
            | Verdict::Rejected { store, .. }
            | Verdict::Accepted { store } => store,
            Verdict::Denied => true,
        }
    }

    /// `result` and `act` of the event `salt/auth`.
    pub fn event_fields(self) -> (bool, Option<&'static str>) {
        match self {
            Verdict::Pending { .. } => (true, Some("pend")),
            Verdict::Rejected { act, .. } => (false, act.then_some("reject")),
            Verdict::Denied => (false, Some("denied")),
            Verdict::Accepted { .. } => (true, Some("accept")),
        }
    }
}

impl Candidate<'_> {
    /// Decides about the key; [`Candidate::keep`] stores it. A key that is accepted already needs no lock.
    ///
    /// # Errors
    /// The key store is not readable, or cannot be locked.
    pub fn decide(&self, config: &MasterConfig, keys: &dyn KeyStore) -> io::Result<Decision> {
        let mut lock = None;
        // The check consumes a one-shot stub file, so it is made once, and only if the result matters.
        let mut autosign = None;
        loop {
            let stored = keys
                .state(self.id)?
                .map(|(state, key)| (state, key == self.presented));
            let decided = matches!(stored, Some((KeyState::Accepted | KeyState::Rejected, _)));
            let ask = !decided && !config.open_mode;
            let autoreject = ask && listed(&config.autoreject_file, self.id, config, true);
            if ask && !autoreject && !self.is_alone && autosign.is_none() {
                autosign = Some(self.autosigned(config, keys)?);
            }
            let verdict = decide(Known {
                stored,
                autoreject,
                autosign: ask && !autoreject && autosign == Some(true),
                open: config.open_mode && !self.is_alone,
            });
            if lock.is_some() || !verdict.stores() {
                return Ok(Decision {
                    verdict,
                    _lock: lock,
                });
            }
            // Decided once more with what is stored now.
            lock = Some(keys.lock(self.id)?);
        }
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

    /// Stores the key as the verdict of a [`Decision`] says, which must still be held.
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
            Verdict::Accepted { store: true } => {
                keys.put(KeyState::Accepted, id, self.presented)?;
                keys.delete(KeyState::Pending, id).map(drop)
            }
            Verdict::Pending { store: false }
            | Verdict::Rejected { store: false, .. }
            | Verdict::Accepted { store: false } => Ok(()),
        }
    }

    /// The event `salt/auth`, with the grains for kinds in `auth_events_autosign_grains`.
    pub fn event(&self, config: &MasterConfig, result: bool, act: Option<&str>) -> Map {
        let mut data = halite_wire::map! {"result" => result};
        if let Some(act) = act {
            data.set("act", act);
        }
        data.set("id", self.id.as_str());
        data.set("pub", self.presented);
        let wanted = |act| config.auth_events_autosign_grains.iter().any(|a| a == act);
        if let Some(grains) = self
            .grains
            .filter(|g| !g.is_empty() && act.is_some_and(wanted))
        {
            data.set("autosign_grains", grains.clone());
        }
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
    fn grains_are_in_the_events_that_ask_for_them() {
        let options = halite_wire::map! {"auth_events_autosign_grains" => vec!["pend".to_owned()]};
        let config = MasterConfig::from_map(options, Path::new("/nonexistent")).unwrap();
        let (id, grains) = ("m".parse().unwrap(), halite_wire::map! {"rack" => "r7"});
        let candidate = Candidate {
            id: &id,
            presented: "",
            grains: Some(&grains),
            vouched: false,
            is_alone: false,
        };
        let shown = |act| {
            candidate
                .event(&config, true, act)
                .get("autosign_grains")
                .is_some()
        };
        assert!(shown(Some("pend")));
        assert!(!shown(Some("accept")) && !shown(None));
    }

    #[test]
    fn the_table_of_the_reference() {
        use KeyState::*;
        let reject = |store| Verdict::Rejected { store, act: true };
        let pending = |store| Verdict::Pending { store };
        let accepted = |store| Verdict::Accepted { store };
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
            ("8", known(Some((Accepted, true))), accepted(false)),
            ("6a", refuse(known(None)), reject(true)),
            ("6b", known(None), pending(true)),
            ("6c", sign(known(None)), accepted(true)),
            ("7a", refuse(known(Some((Pending, true)))), reject(true)),
            ("7b", known(Some((Pending, false))), Verdict::Denied),
            ("7c", known(Some((Pending, true))), pending(false)),
            ("7d", sign(known(Some((Pending, false)))), Verdict::Denied),
            ("7e", sign(known(Some((Pending, true)))), accepted(true)),
            (
                "3",
                Known {
                    open: true,
                    ..known(Some((Rejected, false)))
                },
                accepted(true),
            ),
            (
                "3, known",
                Known {
                    open: true,
                    ..known(Some((Accepted, true)))
                },
                accepted(false),
            ),
        ];
        for (row, input, verdict) in cases {
            assert_eq!(decide(input), verdict, "row {row}");
        }
    }

    fn candidate(id: &MinionId) -> Candidate<'_> {
        Candidate {
            id,
            presented: "key",
            grains: None,
            vouched: false,
            is_alone: false,
        }
    }

    fn config() -> MasterConfig {
        MasterConfig::from_map(Map::new(), Path::new("/etc/halite")).unwrap()
    }

    #[test]
    fn a_master_alone_trusts_nobody_new() {
        let keys = halite_store::memory::stores().keys;
        let (new, known) = ("new".parse().unwrap(), "known".parse().unwrap());
        keys.put(KeyState::Accepted, &known, "key").unwrap();
        for option in ["auto_accept", "open_mode"] {
            let options = halite_wire::map! {option => true};
            let config = MasterConfig::from_map(options, Path::new("/nonexistent")).unwrap();
            for is_alone in [true, false] {
                let verdict = |id| {
                    let mut candidate = candidate(id);
                    (candidate.vouched, candidate.is_alone) = (true, is_alone);
                    candidate.decide(&config, &*keys).unwrap().verdict
                };
                let accepts = matches!(verdict(&new), Verdict::Accepted { .. });
                assert_eq!(accepts, !is_alone, "{option}");
                assert!(matches!(verdict(&known), Verdict::Accepted { .. }));
            }
        }
    }

    /// An operator who deletes a key while its minion signs in.
    #[test]
    fn an_accepted_key_is_never_put_back() {
        let (keys, id) = (halite_store::memory::stores().keys, "m1".parse().unwrap());
        let signing_in = candidate(&id);
        keys.put(KeyState::Accepted, &id, "key").unwrap();
        let decision = signing_in.decide(&config(), &*keys).unwrap();
        assert_eq!(decision.verdict, Verdict::Accepted { store: false });
        keys.delete(KeyState::Accepted, &id).unwrap();
        signing_in.keep(&*keys, decision.verdict).unwrap();
        assert_eq!(keys.state(&id).unwrap(), None);
    }

    /// An operator who rejects a key while its minion registers it.
    #[test]
    fn what_is_stored_is_decided_under_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let keys = halite_store::local::LocalKeys::new(dir.path());
        keys.prepare().unwrap();
        let id = "m1".parse().unwrap();
        let operator = keys.lock(&id).unwrap();
        std::thread::scope(|scope| {
            let sign_in = scope.spawn(|| candidate(&id).decide(&config(), &keys).unwrap().verdict);
            keys.put(KeyState::Rejected, &id, "key").unwrap();
            drop(operator);
            let refused = Verdict::Rejected {
                store: false,
                act: true,
            };
            assert_eq!(sign_in.join().unwrap(), refused);
        });
        // Known keys sign in meanwhile.
        let _operator = keys.lock(&id).unwrap();
        keys.change(&id, KeyState::Rejected, KeyState::Accepted)
            .unwrap();
        let known = candidate(&id).decide(&config(), &keys).unwrap();
        assert_eq!(known.verdict, Verdict::Accepted { store: false });
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

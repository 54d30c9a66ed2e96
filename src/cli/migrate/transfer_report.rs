//! Results of an import or export, for people and for programs.

use super::TransferOptions;
use halite_store::keys::KeyState;
use halite_store::local::jobs::transfer::JobTransfer;
use halite_store::local::transfer::{DataTransfer, KeyTransfer, MasterKey};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

/// The results.
#[derive(Debug)]
pub(super) struct TransferReport {
    /// Nothing was changed (dry run).
    pub dry: bool,
    /// Configuration directory of the source.
    pub from: PathBuf,
    /// Configuration directory of the target.
    pub to: PathBuf,
    /// Files of the configuration: new, unchanged, not copied because they differ.
    pub files: [Vec<PathBuf>; 3],
    /// Remarks in the new files.
    pub remarks: usize,
    /// The master's own key.
    pub master: MasterKey,
    /// Keys of minions.
    pub keys: KeyTransfer,
    /// Jobs and returns.
    pub jobs: JobTransfer,
    /// Grains, pillar and mine.
    pub data: DataTransfer,
    /// Both masters use the same directories, so only jobs are converted.
    pub in_place: bool,
    /// Hints for the operator, one sentence each.
    pub hints: Vec<String>,
}

impl TransferReport {
    /// An empty report.
    pub(super) fn new(from: &Path, to: &Path, how: TransferOptions) -> TransferReport {
        TransferReport {
            dry: how.dry_run,
            from: from.to_owned(),
            to: to.to_owned(),
            files: Default::default(),
            remarks: 0,
            master: MasterKey::None,
            keys: KeyTransfer::default(),
            jobs: JobTransfer::default(),
            data: DataTransfer::default(),
            in_place: false,
            hints: Vec::new(),
        }
    }

    /// 1 if the target still lacks something of the source.
    pub(super) fn status(&self) -> i32 {
        let left = self.keys.conflicts.len() + self.jobs.failed + self.data.failed;
        i32::from(left + self.files[2].len() > 0)
    }

    /// The human-readable form.
    pub(super) fn table(&self) -> String {
        let mut out = if self.dry {
            format!(
                "would copy from {} to {} (nothing was changed):\n",
                self.from.display(),
                self.to.display()
            )
        } else {
            format!(
                "copied from {} to {}:\n",
                self.from.display(),
                self.to.display()
            )
        };
        for (what, text) in self.rows() {
            out.push_str(&format!("  {what:<14} {text}\n"));
        }
        for hint in self.all_hints() {
            out.push_str(&format!("note: {hint}\n"));
        }
        out
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let [new, same, left] = &self.files;
        let files = counted(&[
            (new.len(), "new"),
            (self.remarks, "remarks in them"),
            (same.len(), "as they were"),
            (left.len(), "left as they are"),
        ]);
        let master = match &self.master {
            MasterKey::Copied(names) => names.join(", "),
            MasterKey::Same => "the same".to_owned(),
            MasterKey::None | MasterKey::Conflict => "none".to_owned(),
        };
        let k = &self.keys;
        let mut keys: Vec<(usize, String)> = KeyState::ALL
            .into_iter()
            .map(|s| (k.new[s as usize], format!("new {s}")))
            .collect();
        keys.extend([
            (k.moved, "in another state now".to_owned()),
            (k.same, "the same".to_owned()),
            (k.conflicts.len(), "with another key there".to_owned()),
            (k.removed, "removed".to_owned()),
        ]);
        let keys = counted(&keys);
        let (j, d) = (&self.jobs, &self.data);
        let jobs = counted(&[
            (j.jobs, "new"),
            (j.returns, "returns new"),
            (j.same, "the same"),
            (j.failed, "not readable"),
        ]);
        let data = counted(&[
            (d.minions, "with grains and pillar"),
            (d.mines, "with a mine"),
            (d.same, "newer or the same there"),
            (d.failed, "not readable"),
        ]);
        if self.in_place {
            return vec![("jobs", jobs)];
        }
        let mut rows = vec![
            ("master key", master),
            ("minion keys", keys),
            ("jobs", jobs),
            ("minion data", data),
        ];
        if self.files.iter().any(|f| !f.is_empty()) {
            rows.insert(0, ("configuration", files));
        }
        rows
    }

    fn all_hints(&self) -> Vec<String> {
        let mut out = Vec::new();
        for path in &self.files[2] {
            out.push(format!(
                "{} exists and differs; it was left as it is",
                path.display()
            ));
        }
        if !self.keys.conflicts.is_empty() {
            out.push(format!(
                "another key exists for {}; it was left as it is",
                ids(&self.keys.conflicts)
            ));
        }
        if self.keys.removed == 0 && !self.keys.only_there.is_empty() {
            out.push(format!(
                "only {} has keys of {}; --delete removes them",
                self.to.display(),
                ids(&self.keys.only_there)
            ));
        }
        out.extend(self.hints.iter().cloned());
        out
    }

    /// The form for programs.
    pub(super) fn to_value(&self) -> Value {
        let [new, same, left] = &self.files;
        let count = |n: usize| n as i64;
        let k = &self.keys;
        let states: Map = KeyState::ALL
            .into_iter()
            .map(|s| (s.name(), count(k.new[s as usize])))
            .collect();
        let names =
            |ids: &[MinionId]| -> Vec<String> { ids.iter().map(ToString::to_string).collect() };
        Value::Map(halite_wire::map! {
            "status" => i64::from(self.status()),
            "dry_run" => self.dry,
            "configuration" => halite_wire::map! {
                "new" => count(new.len()), "same" => count(same.len()), "left" => count(left.len()),
                "remarks" => count(self.remarks),
            },
            "master_key" => match &self.master {
                MasterKey::Copied(_) => "brought",
                MasterKey::Same => "same",
                MasterKey::None | MasterKey::Conflict => "none",
            },
            "keys" => halite_wire::map! {
                "new" => states, "moved" => count(k.moved), "same" => count(k.same),
                "removed" => count(k.removed), "conflicts" => names(&k.conflicts),
                "only_there" => names(&k.only_there),
            },
            "jobs" => halite_wire::map! {
                "new" => count(self.jobs.jobs), "returns" => count(self.jobs.returns),
                "same" => count(self.jobs.same), "failed" => count(self.jobs.failed),
            },
            "data" => halite_wire::map! {
                "minions" => count(self.data.minions), "mines" => count(self.data.mines),
                "same" => count(self.data.same), "failed" => count(self.data.failed),
            },
            "notes" => self.all_hints(),
        })
    }
}

/// Numbers with their labels, without those that are 0.
fn counted<T: AsRef<str>>(all: &[(usize, T)]) -> String {
    let some = all.iter().filter(|(n, _)| *n > 0);
    let some: Vec<String> = some
        .map(|(n, word)| format!("{n} {}", word.as_ref()))
        .collect();
    if some.is_empty() {
        "none".to_owned()
    } else {
        some.join(", ")
    }
}

/// The first ids, and the number of remaining ones.
fn ids(all: &[MinionId]) -> String {
    const SHOWN: usize = 10;
    let names: Vec<&str> = all.iter().take(SHOWN).map(|id| id.as_str()).collect();
    match all.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

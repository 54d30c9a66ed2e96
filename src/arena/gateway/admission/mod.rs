//! Keys and ids of runtimes: the key store that all minions share, seen from this gateway.
//!
//! A runtime of ARENA has no key that it could present: it only has a uuid, and anybody who may publish at the broker
//! can claim any. The master's own key is stored for a runtime, so that nobody but the master can use its id at Salt's
//! ports. `cachedir/gateways/arena/uuids` records which uuid owns which id, for as long as there is a key.

use super::fleet::{Admission, Admitted};
use crate::wire::Uuid;
use halite_config::{ArenaGateway, MasterConfig};
use halite_crypto::IdentityPublic;
use halite_gateway::agent_keys::{AgentKeys, Newcomer, RegisterOutcome, Standing};
use halite_gateway::writer::WriteQueue;
use halite_store::Stores;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// The longest name, in characters, that is used as an id without change.
const LONGEST: usize = 128;
/// Why a runtime is rejected if too many are pending.
const NO_ROOM: &str = "too many keys wait for the operator";

/// Decides which runtimes are admitted.
pub(super) struct KeyAdmission {
    keys: AgentKeys,
    names: Names,
    key: IdentityPublic,
    from: String,
    auto_accept: bool,
    max_pending: usize,
    max_runtimes: usize,
    /// How often a registration was turned away because there was no room.
    pub full: u64,
}

impl KeyAdmission {
    /// Opens the key store that `config` names; `key` is the master's own. Removes records whose keys were deleted
    /// while no gateway ran.
    ///
    /// # Errors
    /// Records cannot be listed or created.
    pub fn new(
        config: &MasterConfig,
        stores: &Stores,
        settings: &ArenaGateway,
        key: IdentityPublic,
        writer: WriteQueue,
    ) -> io::Result<KeyAdmission> {
        let dir = config.gateway(super::NAME);
        let mut keys = AgentKeys::new(config, stores, super::NAME, writer);
        let known: HashSet<MinionId> = keys.sweep()?.into_iter().collect();
        let mut names = Names::open(dir.join("uuids"))?;
        for id in names.ids() {
            if !known.contains(&id) {
                names.forget(&id);
            }
        }
        Ok(KeyAdmission {
            keys,
            names,
            key,
            from: format!("the realm {}", settings.realm),
            auto_accept: settings.auto_accept,
            max_pending: settings.max_pending,
            max_runtimes: settings.max_runtimes,
            full: 0,
        })
    }

    /// Whether an admitted runtime may stay under this id: its key exists and is accepted, or cannot be read right
    /// now.
    pub fn may_stay(&mut self, uuid: &Uuid, id: &str) -> bool {
        let known = self.names.of(uuid).filter(|known| known.as_str() == id);
        known.cloned().is_some_and(|id| {
            let standing = self.keys.try_standing(&id);
            // If the key cannot be read now, assume that nothing has changed.
            standing.map_or(true, |standing| standing == Standing::Accepted)
        })
    }

    /// Frees the id if its key no longer exists; returns whether it does not.
    pub fn forget(&mut self, id: &MinionId) -> bool {
        let gone = self.keys.standing(id) == Standing::Unknown;
        if gone {
            self.keys.forget(id);
            self.names.forget(id);
        }
        gone
    }

    /// The id for a runtime, and its standing: the id that it has, or else the first candidate that is free.
    fn id(&mut self, uuid: &Uuid, name: &str) -> Result<(MinionId, Standing), Admitted> {
        let unclear = |id: &MinionId, e: io::Error| {
            log::error!("the key of {id} cannot be read: {e}");
            Admitted::Unclear("its key cannot be read".to_owned())
        };
        if let Some(id) = self.names.of(uuid).cloned() {
            let standing = self.keys.try_standing(&id).map_err(|e| unclear(&id, e))?;
            if standing != Standing::Foreign {
                return Ok((id, standing));
            }
            // The id has been taken by another agent in the meantime, such as a Salt minion.
            self.names.forget(&id);
        }
        for id in candidates(uuid, name) {
            if self.names.owner(&id).is_some() {
                continue;
            }
            // An id that is in use is not given away, even if its owner is not recorded.
            if self.keys.try_standing(&id).map_err(|e| unclear(&id, e))? == Standing::Unknown {
                return Ok((id, Standing::Unknown));
            }
        }
        let why = "neither its name nor its uuid gives a free minion id";
        Err(Admitted::No(why.to_owned()))
    }
}

impl Admission for KeyAdmission {
    fn admit(&mut self, uuid: &Uuid, name: &str) -> Admitted {
        let (id, standing) = match self.id(uuid, name) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        let known = self.names.of(uuid).is_some();
        // Those that wait take no room from admitted ones, which the fleet counts.
        if !known && self.names.len() >= self.max_runtimes.saturating_add(self.max_pending) {
            self.full += 1;
            return Admitted::No(format!("{} runtimes are known already", self.names.len()));
        }
        let newcomer = Newcomer {
            id: &id,
            key: &self.key,
            from: &self.from,
            vouched: self.auto_accept,
            max_pending: self.max_pending,
        };
        let failed = |e: io::Error| log::error!("{id} cannot be registered: {e}");
        // Decide before writing anything: a flood should cost as little as possible.
        let decision = match standing {
            Standing::Unknown => self.keys.decide(&newcomer).unwrap_or_else(|e| {
                failed(e);
                None
            }),
            _ => None,
        };
        if standing == Standing::Unknown && decision.is_none() {
            self.full += 1;
            if known {
                self.names.forget(&id);
            }
            return Admitted::No(NO_ROOM.to_owned());
        }
        // The name first: an accepted key without one could become another runtime's.
        if !known && let Err(e) = self.names.put(uuid, &id) {
            failed(e);
            return Admitted::No("its id cannot be stored".to_owned());
        }
        let standing = match decision {
            Some(decision) => {
                let stored = self.keys.store(&newcomer, decision).unwrap_or_else(|e| {
                    failed(e);
                    RegisterOutcome::Full
                });
                match stored {
                    RegisterOutcome::Accepted => Standing::Accepted,
                    RegisterOutcome::Waiting => Standing::Waiting,
                    RegisterOutcome::Rejected => Standing::Rejected,
                    RegisterOutcome::Full => Standing::Unknown,
                }
            }
            None => standing,
        };
        match standing {
            Standing::Accepted => Admitted::Yes(id.to_string()),
            Standing::Waiting => Admitted::Waiting(id.to_string()),
            Standing::Rejected => Admitted::No(format!("the key of {id} is rejected")),
            Standing::Unknown | Standing::Foreign => {
                self.full += 1;
                self.names.forget(&id);
                Admitted::No(NO_ROOM.to_owned())
            }
        }
    }

    fn check(&mut self, uuid: &Uuid, name: &str) -> Admitted {
        match self.names.of(uuid).cloned() {
            Some(id) if self.forget(&id) => Admitted::Deleted,
            _ => self.admit(uuid, name),
        }
    }
}

/// Candidates for a runtime's id, in order of preference: its name; its name and the start of its uuid; its uuid.
fn candidates(uuid: &Uuid, name: &str) -> Vec<MinionId> {
    let mut texts = Vec::new();
    if is_plain(name) {
        texts.push(name.to_owned());
    }
    let head: String = uuid.as_str().chars().take(8).collect();
    let stem = made_plain(name);
    if !stem.is_empty() {
        texts.push(format!("{stem}.{}", made_plain(&head)));
    }
    texts.push(uuid.as_str().to_owned());
    texts.retain(|text| is_plain(text));
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// Whether a text can be used as an id without quoting in targets, tags and command lines.
fn is_plain(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric())
        && text.len() <= LONGEST
        && text.bytes().all(fits)
}

/// Replaces the characters that an id cannot have with `-`.
fn made_plain(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain = |c: char| if fits(c) { c } else { '-' };
    let all: String = text.chars().take(LONGEST - 16).map(plain).collect();
    all.trim_matches(['.', '_', '-']).to_owned()
}

/// Which uuid has which id: one file per id, which contains the uuid.
struct Names {
    dir: PathBuf,
    ids: HashMap<Uuid, MinionId>,
    owners: HashMap<MinionId, Uuid>,
}

impl Names {
    fn open(dir: PathBuf) -> io::Result<Names> {
        make_dir(&dir, 0o700)?;
        let mut names = Names {
            ids: HashMap::new(),
            owners: HashMap::new(),
            dir,
        };
        for entry in std::fs::read_dir(&names.dir)?.flatten() {
            let name = entry.file_name().into_string();
            let id = name.ok().and_then(|name| name.parse::<MinionId>().ok());
            if let (Some(id), Some(uuid)) = (id, read(&entry.path())) {
                names.ids.insert(uuid.clone(), id.clone());
                names.owners.insert(id, uuid);
            }
        }
        Ok(names)
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn ids(&self) -> Vec<MinionId> {
        self.owners.keys().cloned().collect()
    }

    fn of(&self, uuid: &Uuid) -> Option<&MinionId> {
        self.ids.get(uuid)
    }

    fn owner(&self, id: &MinionId) -> Option<&Uuid> {
        self.owners.get(id)
    }

    fn put(&mut self, uuid: &Uuid, id: &MinionId) -> io::Result<()> {
        write_atomic(&self.dir.join(id.as_str()), uuid.as_str().as_bytes(), 0o600)?;
        self.ids.insert(uuid.clone(), id.clone());
        self.owners.insert(id.clone(), uuid.clone());
        Ok(())
    }

    fn forget(&mut self, id: &MinionId) {
        if let Some(uuid) = self.owners.remove(id) {
            self.ids.remove(&uuid);
        }
        match std::fs::remove_file(self.dir.join(id.as_str())) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                log::warn!("the record of {id} cannot be removed: {e}");
            }
            _ => {}
        }
    }
}

/// The uuid in a file.
fn read(path: &Path) -> Option<Uuid> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;

//! Copies keys and cached data of minions from one master to another: from a stock master to halite, or back. The
//! source is not changed.

use super::keys::LARGEST_KEY;
use super::{Layout, LocalKeys, LocalMines, LocalMinions};
use crate::keys::{KeyState, KeyStore};
use crate::mine::MineStore;
use crate::minions::MinionCache;
use halite_crypto::clean_key;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::safe_open::read_regular;
use halite_wire::ids::MinionId;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The states that exclude each other; denied keys exist in addition.
const STATES: [KeyState; 3] = [KeyState::Accepted, KeyState::Pending, KeyState::Rejected];

/// What was done with the keys of minions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTransfer {
    /// Keys that were new, by state in the order of [`KeyState::ALL`].
    pub new: [usize; 4],
    /// Keys whose state was changed.
    pub moved: usize,
    /// Keys that were already there.
    pub same: usize,
    /// Ids that have another key in the target, which is left alone.
    pub conflicts: Vec<MinionId>,
    /// Ids that only the target has.
    pub only_there: Vec<MinionId>,
    /// How many of these were removed.
    pub removed: usize,
}

/// How to copy keys and data.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferOptions {
    /// Only count.
    pub dry: bool,
    /// Remove keys that the source does not have.
    pub delete: bool,
}

/// Copies the keys of minions, with their states, to another store.
///
/// # Errors
/// A directory or file cannot be read or written.
pub fn keys(
    from: &dyn KeyStore,
    to: &dyn KeyStore,
    how: TransferOptions,
) -> io::Result<KeyTransfer> {
    let mut done = KeyTransfer::default();
    if !how.dry {
        to.prepare()?;
    }
    let mut seen = BTreeSet::new();
    for state in STATES {
        seen.extend(from.list(state)?.iter().cloned());
    }
    for id in &seen {
        key(from, to, id, how, &mut done)?;
    }
    for id in from.list(KeyState::Denied)?.iter() {
        match to.get(KeyState::Denied, id)? {
            Some(_) => done.same += 1,
            None => copy(from, to, KeyState::Denied, id, how, &mut done)?,
        }
    }
    for state in STATES {
        let there = to.list(state)?;
        let only: Vec<&MinionId> = there.iter().filter(|id| !seen.contains(*id)).collect();
        for id in only {
            if how.delete {
                if !how.dry {
                    to.delete(state, id)?;
                }
                done.removed += 1;
            }
            done.only_there.push(id.clone());
        }
    }
    Ok(done)
}

fn key(
    from: &dyn KeyStore,
    to: &dyn KeyStore,
    id: &MinionId,
    how: TransferOptions,
    done: &mut KeyTransfer,
) -> io::Result<()> {
    let Some((state, key)) = from.state(id)? else {
        return Ok(());
    };
    match to.state(id)? {
        None => copy(from, to, state, id, how, done)?,
        Some((_, other)) if other != key => done.conflicts.push(id.clone()),
        Some((there, _)) if there == state => done.same += 1,
        Some((there, _)) => {
            if !how.dry {
                to.change(id, there, state)?;
            }
            done.moved += 1;
        }
    }
    Ok(())
}

fn copy(
    from: &dyn KeyStore,
    to: &dyn KeyStore,
    state: KeyState,
    id: &MinionId,
    how: TransferOptions,
    done: &mut KeyTransfer,
) -> io::Result<()> {
    let Some(text) = from.text(state, id)? else {
        return Ok(());
    };
    if !how.dry {
        to.put_text(state, id, &text)?;
    }
    done.new[state as usize] += 1;
    Ok(())
}

/// What was done with the master's own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterKey {
    /// These files were copied: they were missing, or differed while no minion was accepted.
    Copied(Vec<String>),
    /// The target has the same key.
    Same,
    /// The source has no key.
    None,
    /// The target has another key, and accepted minions rely on it.
    Conflict,
}

/// A file of a key directory; `None` if there is none. Only links to files of the same directory are followed: Salt 3008
/// leaves such ones as `master.pem` and `master.pub` when it renames a key.
fn read_key(store: &LocalKeys, name: &str) -> io::Result<Option<Vec<u8>>> {
    let dir = store.pki_dir();
    let mut path = dir.join(name);
    if let Ok(target) = std::fs::read_link(&path) {
        let beside = dir.join(&target);
        if beside.parent() == Some(dir) && beside.file_name().is_some() {
            path = beside;
        }
    }
    match read_regular(&path, LARGEST_KEY) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

/// Copies the master's key pair, and the files named in `more` (a signing key pair, a signature) where they exist.
/// An existing key of the target is replaced only if no minion is accepted there.
///
/// # Errors
/// A file cannot be read or written.
pub fn master_key(
    from: &LocalKeys,
    to: &LocalKeys,
    more: &[String],
    how: TransferOptions,
) -> io::Result<MasterKey> {
    let name = "master.pem";
    let Some(own) = read_key(from, name)? else {
        return Ok(MasterKey::None);
    };
    if let Some(there) = read_key(to, name)?
        && clean_key(&String::from_utf8_lossy(&there)) != clean_key(&String::from_utf8_lossy(&own))
        && !to.list(KeyState::Accepted)?.is_empty()
    {
        return Ok(MasterKey::Conflict);
    }
    if !how.dry {
        make_dir(to.pki_dir(), 0o700)?;
    }
    let mut copied = Vec::new();
    let pair = [name.to_owned(), "master.pub".to_owned()];
    for name in pair.iter().chain(more) {
        let Some(bytes) = read_key(from, name)? else {
            continue;
        };
        if read_key(to, name)?.is_some_and(|there| there == bytes) {
            continue;
        }
        let mode = if name.ends_with(".pem") { 0o400 } else { 0o644 };
        if !how.dry {
            write_atomic(&to.pki_dir().join(name), &bytes, mode)?;
        }
        copied.push(name.clone());
    }
    Ok(if copied.is_empty() {
        MasterKey::Same
    } else {
        MasterKey::Copied(copied)
    })
}

/// What was done with grains, pillar and mine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataTransfer {
    /// Minions whose grains and pillar were copied.
    pub minions: usize,
    /// Minions whose mine was copied.
    pub mines: usize,
    /// Entries that the target has in the same or a newer version.
    pub same: usize,
    /// Entries that could not be read or written.
    pub failed: usize,
}

/// Copies the cached data of these minions from one `cachedir` to another. The source may have either layout, or
/// both; then the newer file is used. What is newer in the target is left alone.
pub fn data(
    from: &Path,
    to: &Path,
    layout: Layout,
    ids: &[MinionId],
    how: TransferOptions,
) -> DataTransfer {
    let mut done = DataTransfer::default();
    let layouts = [Layout::Combined, Layout::Split];
    let caches = layouts.map(|l| LocalMinions::new(from, l));
    let mines = layouts.map(|l| LocalMines::new(from, l));
    let (cache, mine) = (LocalMinions::new(to, layout), LocalMines::new(to, layout));
    for id in ids {
        let time = |cache: &LocalMinions| cache.version(id).map(|s| (s[0].0, s[0].1));
        let copied = done.copy_newest(id, &caches, &cache, time, |newest| {
            let data = newest.peek(id)?;
            Some(if how.dry {
                Ok(())
            } else {
                cache.store(id, &data.grains, &data.pillar)
            })
        });
        done.minions += usize::from(copied);
        let copied = done.copy_newest(
            id,
            &mines,
            &mine,
            |mine| mine.written(id),
            |newest| {
                let values = newest.get(id).ok().flatten()?;
                Some(if how.dry {
                    Ok(())
                } else {
                    mine.put(id, values, true)
                })
            },
        );
        done.mines += usize::from(copied);
    }
    done
}

impl DataTransfer {
    /// Copies the newest entry of `from` if it is newer than the target's; returns whether it did. `store` returns
    /// `None` if the entry cannot be read.
    fn copy_newest<S, T: Ord>(
        &mut self,
        id: &MinionId,
        from: &[S],
        there: &S,
        time: impl Fn(&S) -> Option<T>,
        store: impl FnOnce(&S) -> Option<io::Result<()>>,
    ) -> bool {
        let Some(newest) = from.iter().max_by_key(|side| time(side)) else {
            return false;
        };
        let Some(at) = time(newest) else {
            return false;
        };
        if time(there).is_some_and(|there| there >= at) {
            self.same += 1;
            return false;
        }
        let why = match store(newest) {
            Some(Ok(())) => return true,
            Some(Err(e)) => e.to_string(),
            None => "the file is damaged".to_owned(),
        };
        log::error!("the cached data of {id} was not copied: {why}");
        self.failed += 1;
        false
    }
}

#[cfg(test)]
mod tests;

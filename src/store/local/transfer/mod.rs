//! Keys and what is known of minions from one master to another: a stock one to halite's, or back. Files of the side
//! that is read are not changed.

use super::{Layout, LocalKeys, LocalMines, LocalMinions};
use crate::keys::{KeyState, KeyStore};
use crate::mine::MineStore;
use crate::minions::MinionCache;
use halite_crypto::clean_key;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// The states of which a minion has one; denied keys stand beside them.
const STATES: [KeyState; 3] = [KeyState::Accepted, KeyState::Pending, KeyState::Rejected];

/// What became of the keys of minions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTransfer {
    /// Keys that were not there, by state in the order of [`KeyState::ALL`].
    pub new: [usize; 4],
    /// Keys that stood in another state there.
    pub moved: usize,
    /// Keys that stood there already.
    pub same: usize,
    /// Ids with another key there, which is left as it is.
    pub conflicts: Vec<MinionId>,
    /// Ids that only the other side has.
    pub only_there: Vec<MinionId>,
    /// How many of these were removed.
    pub removed: usize,
}

/// How to move keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferOptions {
    /// Only count.
    pub dry: bool,
    /// Remove what the side that is read does not have.
    pub delete: bool,
}

/// Brings the keys of minions, and the state of each, to another store.
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

/// What becomes of the master's own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MasterKey {
    /// These files were not there, or differed while nobody relied on them.
    Brought(Vec<String>),
    /// The same key is there.
    Same,
    /// There is none to be brought.
    None,
    /// Another key is there, and minions are accepted under it.
    Conflict,
}

/// Brings the master's key pair, and the files of these names beside it (a pair that signs it, a signature), where
/// they exist. A key that nobody relies on, since no minion is accepted there, gives way.
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
    let read = |store: &LocalKeys, name: &str| match std::fs::read(store.pki_dir().join(name)) {
        Ok(octets) => Ok(Some(octets)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    };
    let Some(own) = read(from, name)? else {
        return Ok(MasterKey::None);
    };
    if let Some(there) = read(to, name)?
        && clean_key(&String::from_utf8_lossy(&there)) != clean_key(&String::from_utf8_lossy(&own))
        && !to.list(KeyState::Accepted)?.is_empty()
    {
        return Ok(MasterKey::Conflict);
    }
    if !how.dry {
        make_dir(to.pki_dir(), 0o700)?;
    }
    let mut brought = Vec::new();
    let pair = [name.to_owned(), "master.pub".to_owned()];
    for name in pair.iter().chain(more) {
        let Some(octets) = read(from, name)? else {
            continue;
        };
        if read(to, name)?.is_some_and(|there| there == octets) {
            continue;
        }
        let mode = if name.ends_with(".pem") { 0o400 } else { 0o644 };
        if !how.dry {
            write_atomic(&to.pki_dir().join(name), &octets, mode)?;
        }
        brought.push(name.clone());
    }
    Ok(if brought.is_empty() {
        MasterKey::Same
    } else {
        MasterKey::Brought(brought)
    })
}

/// What became of grains, pillar and mine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataTransfer {
    /// Minions whose grains and pillar were brought.
    pub minions: usize,
    /// Minions whose mine was brought.
    pub mines: usize,
    /// What was there, and as new.
    pub same: usize,
    /// What could not be read or written.
    pub failed: usize,
}

/// Brings what is known of these minions from one `cachedir` to another. The side that is read may have either layout, or
/// both, of which the newer file counts; what is newer on the other side is left as it is.
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
        let brought = done.bring(id, &caches, &cache, time, |newest| {
            let data = newest.peek(id)?;
            Some(if how.dry {
                Ok(())
            } else {
                cache.store(id, &data.grains, &data.pillar)
            })
        });
        done.minions += usize::from(brought);
        let brought = done.bring(
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
        done.mines += usize::from(brought);
    }
    done
}

impl DataTransfer {
    /// Brings what the newest of `from` has, if that is newer than what is there; `store` gives nothing if it cannot be
    /// read. Whether it was brought.
    fn bring<S, T: Ord>(
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
        log::error!("what is known of {id} is not copied: {why}");
        self.failed += 1;
        false
    }
}

#[cfg(test)]
mod tests;

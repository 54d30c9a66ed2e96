//! Opening directories and channels.

use super::errno::{Errno, Fault};
use super::files::{FileKind, OpenChannel};
use super::guest::Guest;
use super::io::{self, NONBLOCK, RIGHT_READ, RIGHT_WRITE};
use super::state::State;
use crate::runtime::engine::channels::{self, PathTarget};
use std::sync::Arc;

/// Bytes of a path.
const MOST_PATH: u32 = 1024;
/// Price of comparing a path with a channel, in simple instructions of a module.
const CHANNEL_COST: u64 = 4;

/// `oflags` of preview 1: it must be a directory.
const O_DIRECTORY: u32 = 2;
/// It must not exist.
const O_EXCL: u32 = 4;
/// All flags, including create and truncate, which mean nothing for a channel.
const O_ALL: u32 = 0xf;

/// The directory that a path is relative to.
fn folder(state: &State, fd: u32) -> Result<(String, bool), Fault> {
    match &state.files.get(fd)?.kind {
        FileKind::Folder { path, given } => Ok((path.clone(), *given)),
        _ => Err(Errno::NotFolder.into()),
    }
}

/// The name of a directory that is open from the start.
fn given_name(state: &State, fd: u32) -> Result<String, Fault> {
    match folder(state, fd) {
        Ok((path, true)) => Ok(format!("/{path}")),
        // This is how programs find out that there are no more of them.
        _ => Err(Errno::BadFile.into()),
    }
}

/// `fd_prestat_get`
pub(super) fn fd_prestat_get(
    g: &mut Guest,
    state: &mut State,
    fd: u32,
    out: u32,
) -> Result<(), Fault> {
    let name = given_name(state, fd)?;
    let len = u32::try_from(name.len()).map_err(|_| Errno::Overflow)?;
    let second = out.checked_add(4).ok_or(Errno::Fault)?;
    g.put_u32(out, 0)?;
    g.put_u32(second, len)
}

/// `fd_prestat_dir_name`
pub(super) fn fd_prestat_dir_name(
    guest: &mut Guest,
    state: &mut State,
    fd: u32,
    at: u32,
    len: u32,
) -> Result<(), Fault> {
    let name = given_name(state, fd)?;
    if name.len() > len as usize {
        return Err(Errno::NameTooLong.into());
    }
    guest.put(at, name.as_bytes())
}

/// What a path relative to a directory refers to, and the full path.
fn find(
    guest: &Guest,
    state: &State,
    fd: u32,
    at: u32,
    len: u32,
) -> Result<(PathTarget, String), Fault> {
    let (base, _) = folder(state, fd)?;
    let path = guest.text(at, len, MOST_PATH)?;
    // They are joined, and compared with each channel.
    guest.charge_bytes(base.len() + path.len());
    guest.charge(state.channels.len() as u64 * CHANNEL_COST);
    let path = channels::join(&base, &path).ok_or(Errno::NotCapable)?;
    Ok((channels::find(&state.channels, &path), path))
}

/// `path_filestat_get`
pub(super) fn path_filestat_get(
    guest: &mut Guest,
    state: &mut State,
    fd: u32,
    _follow: u32,
    at: u32,
    len: u32,
    out: u32,
) -> Result<(), Fault> {
    let file_type = match find(guest, state, fd, at, len)?.0 {
        PathTarget::Channel { .. } => io::TYPE_OF_CHANNELS,
        PathTarget::Folder => io::TYPE_OF_FOLDERS,
        PathTarget::Nothing => return Err(Errno::NoEntry.into()),
    };
    io::put_filestat(guest, out, file_type)
}

/// `path_open`: opens a channel, as far as its mode allows, or a directory.
#[expect(clippy::too_many_arguments, reason = "the signature is that of WASI")]
pub(super) fn path_open(
    guest: &mut Guest,
    state: &mut State,
    fd: u32,
    _follow: u32,
    at: u32,
    len: u32,
    how: u32,
    rights: u64,
    _inheriting: u64,
    flags: u32,
    out: u32,
) -> Result<(), Fault> {
    if how & !O_ALL != 0 {
        return Err(Errno::Invalid.into());
    }
    let (place, path) = find(guest, state, fd, at, len)?;
    // Check the result's address before opening anything.
    guest.put_u32(out, 0)?;
    let (read, write) = (rights & RIGHT_READ != 0, rights & RIGHT_WRITE != 0);
    let nonblock = flags & NONBLOCK != 0;
    let opened = match place {
        PathTarget::Nothing => return Err(Errno::NoEntry.into()),
        _ if how & O_EXCL != 0 => return Err(Errno::Exists.into()),
        PathTarget::Channel { topic, mode } if how & O_DIRECTORY == 0 => {
            let may = (mode.reads() || !read) && (mode.writes() || !write);
            if !may || !state.allows(&topic) {
                return Err(Errno::Access.into());
            }
            open_channel(state, topic, read, write, nonblock)?
        }
        PathTarget::Folder if write => return Err(Errno::IsFolder.into()),
        // A channel may have topics below it, so it can also be opened as a directory.
        PathTarget::Folder | PathTarget::Channel { .. } => {
            let kind = FileKind::Folder { path, given: false };
            state.files.add(kind, nonblock)?
        }
    };
    guest.put_u32(out, opened)
}

fn open_channel(
    state: &mut State,
    topic: Arc<str>,
    read: bool,
    write: bool,
    nonblock: bool,
) -> Result<u32, Fault> {
    if !state.files.has_room() {
        return Err(Errno::TooManyFiles.into());
    }
    // Open the reader before subscribing: messages that arrive at once are not lost.
    let reader = read.then(|| state.inbox.open(Some(topic.clone())));
    if read {
        state.subscribe(topic.clone())?;
    }
    let channel = OpenChannel {
        topic,
        reader,
        write,
    };
    state.files.add(FileKind::Channel(channel), nonblock)
}

//! Reading, writing and asking about open files.

use super::errno::{Errno, Fault};
use super::files::{File, Kind};
use super::guest::Guest;
use super::state::State;
use crate::runtime::engine::inbox::Found;
use crate::wire::Stream;

/// Bytes that are read at once at most.
const MOST_READ: u64 = 1 << 20;
/// Bytes of output that are taken at once at most; programs write the rest again.
const MOST_OUTPUT: usize = 64 << 10;
/// Bytes copied that cost about as much as one step of a module.
const COPIED_PER_FUEL: usize = 64;

/// File types of preview 1.
const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY: u8 = 3;
/// What channels are: messages, kept apart.
const SOCKET_DGRAM: u8 = 5;

/// `O_NONBLOCK` among flags of files.
pub(super) const NONBLOCK: u32 = 4;
/// Flags of files that there are.
const FLAGS: u32 = 0x1f;

/// Rights of preview 1 that are in use.
pub(super) const RIGHT_READ: u64 = 1 << 1;
/// To write.
pub(super) const RIGHT_WRITE: u64 = 1 << 6;
const RIGHT_SET_FLAGS: u64 = 1 << 3;
const RIGHT_PATH_OPEN: u64 = 1 << 13;
const RIGHT_PATH_FILESTAT: u64 = 1 << 18;
const RIGHT_FILESTAT: u64 = 1 << 21;
const RIGHT_POLL: u64 = 1 << 27;
const RIGHTS_OF_FILES: u64 = RIGHT_SET_FLAGS | RIGHT_FILESTAT | RIGHT_POLL;

/// The type of a file.
pub(super) fn file_type(kind: &Kind) -> u8 {
    match kind {
        Kind::Input(_) | Kind::Output(_) => CHARACTER_DEVICE,
        Kind::Folder { .. } => DIRECTORY,
        Kind::Channel(_) => SOCKET_DGRAM,
    }
}

/// The type of a channel that is not open.
pub(super) const TYPE_OF_CHANNELS: u8 = SOCKET_DGRAM;
/// The type of folders.
pub(super) const TYPE_OF_FOLDERS: u8 = DIRECTORY;

/// What may be done with a file, and with those opened below it.
fn rights(kind: &Kind) -> (u64, u64) {
    match kind {
        Kind::Input(_) => (RIGHTS_OF_FILES | RIGHT_READ, 0),
        Kind::Output(_) => (RIGHTS_OF_FILES | RIGHT_WRITE, 0),
        Kind::Folder { .. } => {
            let own = RIGHT_PATH_OPEN | RIGHT_PATH_FILESTAT | RIGHT_FILESTAT;
            (own, own | RIGHTS_OF_FILES | RIGHT_READ | RIGHT_WRITE)
        }
        Kind::Channel(channel) => {
            let read = if channel.reader.is_some() {
                RIGHT_READ
            } else {
                0
            };
            let write = if channel.write { RIGHT_WRITE } else { 0 };
            (RIGHTS_OF_FILES | read | write, 0)
        }
    }
}

/// `fd_close`: a channel that nothing else reads is unsubscribed.
pub(super) fn fd_close(_: &mut Guest, state: &mut State, fd: u32) -> Result<(), Fault> {
    if let Kind::Channel(channel) = state.files.close(fd)?.kind
        && let Some(reader) = channel.reader
    {
        state.inbox.close(reader);
        state.unsubscribe(&channel.topic);
    }
    Ok(())
}

/// `fd_fdstat_get`
pub(super) fn fd_fdstat_get(
    g: &mut Guest,
    state: &mut State,
    fd: u32,
    at: u32,
) -> Result<(), Fault> {
    let file = state.files.get(fd)?;
    let (own, inheriting) = rights(&file.kind);
    let mut out = [0; 24];
    let (head, tail) = out.split_at_mut(8);
    let flags = if file.nonblock { NONBLOCK as u8 } else { 0 };
    head.copy_from_slice(&[file_type(&file.kind), 0, flags, 0, 0, 0, 0, 0]);
    let (first, second) = tail.split_at_mut(8);
    first.copy_from_slice(&own.to_le_bytes());
    second.copy_from_slice(&inheriting.to_le_bytes());
    g.put(at, &out)
}

/// `fd_fdstat_set_flags`: only `O_NONBLOCK` has a meaning.
pub(super) fn fd_fdstat_set_flags(
    _: &mut Guest,
    state: &mut State,
    fd: u32,
    flags: u32,
) -> Result<(), Fault> {
    let file = state.files.get_mut(fd)?;
    if flags & !FLAGS != 0 {
        return Err(Errno::Invalid.into());
    }
    file.nonblock = flags & NONBLOCK != 0;
    Ok(())
}

/// Writes what is known of a file: its type and that there is one of it.
pub(super) fn put_filestat(guest: &mut Guest, at: u32, file_type: u8) -> Result<(), Fault> {
    let mut out = [0; 64];
    if let Some(place) = out.get_mut(16) {
        *place = file_type;
    }
    if let Some(links) = out.get_mut(24) {
        *links = 1;
    }
    guest.put(at, &out)
}

/// `fd_filestat_get`
pub(super) fn fd_filestat_get(
    g: &mut Guest,
    state: &mut State,
    fd: u32,
    out: u32,
) -> Result<(), Fault> {
    let file_type = file_type(&state.files.get(fd)?.kind);
    put_filestat(g, out, file_type)
}

/// `fd_seek`: nothing has a position.
pub(super) fn fd_seek(
    _: &mut Guest,
    state: &mut State,
    fd: u32,
    _offset: u64,
    _whence: u32,
    _out: u32,
) -> Result<(), Fault> {
    match state.files.get(fd)?.kind {
        Kind::Folder { .. } => Err(Errno::BadFile.into()),
        _ => Err(Errno::NoSeek.into()),
    }
}

/// `fd_read`: a message, or as much of it as fits; the rest of it is read next. Waits for one unless the file is not to. Nothing is
/// the end: of standard input, or because the module is to end.
pub(super) fn fd_read(
    guest: &mut Guest,
    state: &mut State,
    fd: u32,
    list: u32,
    count: u32,
    out: u32,
) -> Result<(), Fault> {
    let (pieces, total) = guest.pieces(list, count)?;
    let file = state.files.get(fd)?;
    let (reader, nonblock) = (file.reader()?, file.nonblock);
    let is_channel = matches!(file.kind, Kind::Channel(_));
    // Where the result goes is checked before a message is taken.
    guest.put_u32(out, 0)?;
    let most = usize::try_from(total.min(MOST_READ)).map_err(|_| Errno::Overflow)?;
    if most == 0 {
        return Ok(());
    }
    let found = match state.inbox.take(reader, most) {
        Some(found) => found,
        None if nonblock => return Err(Errno::Again.into()),
        None => match state.rest(|inbox| inbox.wait_take(reader, most)) {
            Ok(found) => found,
            Err(Fault::Stopped) => Found::End,
            Err(fault) => return Err(fault),
        },
    };
    let Found::Data(data) = found else {
        return Ok(());
    };
    if is_channel {
        state.inbox.touch();
    }
    state.cost += (data.len() / COPIED_PER_FUEL) as u64;
    guest.scatter(&pieces, &data)?;
    guest.put_u32(out, u32::try_from(data.len()).map_err(|_| Errno::Overflow)?)
}

/// `fd_write`: on a channel all of it is one message; of output a part may be taken.
pub(super) fn fd_write(
    guest: &mut Guest,
    state: &mut State,
    fd: u32,
    list: u32,
    count: u32,
    out: u32,
) -> Result<(), Fault> {
    let (pieces, total) = guest.pieces(list, count)?;
    let file = state.files.get(fd)?.clone();
    guest.put_u32(out, 0)?;
    let written = match &file.kind {
        Kind::Output(stream) => {
            let data = guest.gather(&pieces, MOST_OUTPUT)?;
            write_output(state, *stream, &data)?;
            data.len()
        }
        Kind::Channel(channel) if channel.write => {
            if total > state.largest as u64 {
                return Err(Errno::MessageSize.into());
            }
            let data = guest.gather(&pieces, state.largest)?;
            if !data.is_empty() {
                state.cost += (data.len() / COPIED_PER_FUEL) as u64;
                state.publish(&channel.topic, &data, file.nonblock)?;
            }
            data.len()
        }
        Kind::Folder { .. } => return Err(Errno::IsFolder.into()),
        Kind::Input(_) | Kind::Channel(_) => return Err(Errno::BadFile.into()),
    };
    guest.put_u32(out, u32::try_from(written).map_err(|_| Errno::Overflow)?)
}

fn write_output(state: &mut State, stream: Stream, data: &[u8]) -> Result<(), Fault> {
    state.cost += (data.len() / COPIED_PER_FUEL) as u64;
    state.write(stream, data)
}

/// Whether a write to a file would go through: whether it is open for it.
pub(super) fn is_writable(file: &File) -> bool {
    match &file.kind {
        Kind::Output(_) => true,
        Kind::Channel(channel) => channel.write,
        Kind::Input(_) | Kind::Folder { .. } => false,
    }
}

//! Reading, writing and inspecting open files.

use super::errno::{Errno, Fault};
use super::files::{File, FileKind};
use super::guest::Guest;
use super::state::State;
use crate::runtime::engine::inbox::ReadResult;

/// Bytes read at once.
const MOST_READ: u64 = 1 << 20;
/// Bytes of output written at once; programs write the rest again.
const MOST_OUTPUT: usize = 64 << 10;

/// File types of preview 1.
const CHARACTER_DEVICE: u8 = 2;
const DIRECTORY: u8 = 3;
/// The type of channels, which have message boundaries.
const SOCKET_DGRAM: u8 = 5;

/// `O_NONBLOCK` among the flags of a file.
pub(super) const NONBLOCK: u32 = 4;
/// All valid flags of a file.
const FLAGS: u32 = 0x1f;

/// The rights of preview 1 in use here.
pub(super) const RIGHT_READ: u64 = 1 << 1;
/// The right to write.
pub(super) const RIGHT_WRITE: u64 = 1 << 6;
const RIGHT_SET_FLAGS: u64 = 1 << 3;
const RIGHT_PATH_OPEN: u64 = 1 << 13;
const RIGHT_PATH_FILESTAT: u64 = 1 << 18;
const RIGHT_FILESTAT: u64 = 1 << 21;
const RIGHT_POLL: u64 = 1 << 27;
const RIGHTS_OF_FILES: u64 = RIGHT_SET_FLAGS | RIGHT_FILESTAT | RIGHT_POLL;

/// The type of a file.
pub(super) fn file_type(kind: &FileKind) -> u8 {
    match kind {
        FileKind::Input(_) | FileKind::Output(_) => CHARACTER_DEVICE,
        FileKind::Folder { .. } => DIRECTORY,
        FileKind::Channel(_) => SOCKET_DGRAM,
    }
}

/// The type of a channel that is not open.
pub(super) const TYPE_OF_CHANNELS: u8 = SOCKET_DGRAM;
/// The type of folders.
pub(super) const TYPE_OF_FOLDERS: u8 = DIRECTORY;

/// The rights of a file, and of those opened below it.
fn rights(kind: &FileKind) -> (u64, u64) {
    match kind {
        FileKind::Input(_) => (RIGHTS_OF_FILES | RIGHT_READ, 0),
        FileKind::Output(_) => (RIGHTS_OF_FILES | RIGHT_WRITE, 0),
        FileKind::Folder { .. } => {
            let own = RIGHT_PATH_OPEN | RIGHT_PATH_FILESTAT | RIGHT_FILESTAT;
            (own, own | RIGHTS_OF_FILES | RIGHT_READ | RIGHT_WRITE)
        }
        FileKind::Channel(channel) => {
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
    if let FileKind::Channel(channel) = state.files.close(fd)?.kind
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

/// Writes the attributes of a file: its type and a link count of one.
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

/// `fd_seek`: no file has a position.
pub(super) fn fd_seek(
    _: &mut Guest,
    state: &mut State,
    fd: u32,
    _offset: u64,
    _whence: u32,
    _out: u32,
) -> Result<(), Fault> {
    match state.files.get(fd)?.kind {
        FileKind::Folder { .. } => Err(Errno::BadFile.into()),
        _ => Err(Errno::NoSeek.into()),
    }
}

/// `fd_read`: a message, or as much of it as fits; the next read returns the rest. Blocks until there is one, unless
/// the file is non-blocking. An empty result is the end of file: of standard input, or because the module must end.
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
    let is_channel = matches!(file.kind, FileKind::Channel(_));
    // Check the result's address before taking a message.
    guest.put_u32(out, 0)?;
    let most = usize::try_from(total.min(MOST_READ)).map_err(|_| Errno::Overflow)?;
    if most == 0 {
        return Ok(());
    }
    let found = match state.inbox.take(reader, most) {
        Some(found) => found,
        None if nonblock => return Err(Errno::Again.into()),
        None => match state.wait_paused(|inbox| inbox.wait_take(reader, most)) {
            Ok(found) => found,
            Err(Fault::Stopped) => ReadResult::End,
            Err(fault) => return Err(fault),
        },
    };
    let ReadResult::Data(data) = found else {
        return Ok(());
    };
    if is_channel {
        state.inbox.touch();
    }
    guest.scatter(&pieces, &data)?;
    guest.put_u32(out, u32::try_from(data.len()).map_err(|_| Errno::Overflow)?)
}

/// `fd_write`: one message on a channel; for output, possibly only a part is written.
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
        FileKind::Output(stream) => {
            let data = guest.gather(&pieces, MOST_OUTPUT)?;
            state.write(*stream, &data)?;
            data.len()
        }
        FileKind::Channel(channel) if channel.write => {
            if total > state.largest as u64 {
                return Err(Errno::MessageSize.into());
            }
            let data = guest.gather(&pieces, state.largest)?;
            if !data.is_empty() {
                state.publish(&channel.topic, &data, file.nonblock)?;
            }
            data.len()
        }
        FileKind::Folder { .. } => return Err(Errno::IsFolder.into()),
        FileKind::Input(_) | FileKind::Channel(_) => return Err(Errno::BadFile.into()),
    };
    guest.put_u32(out, u32::try_from(written).map_err(|_| Errno::Overflow)?)
}

/// Whether a file is open for writing.
pub(super) fn is_writable(file: &File) -> bool {
    match &file.kind {
        FileKind::Output(_) => true,
        FileKind::Channel(channel) => channel.write,
        FileKind::Input(_) | FileKind::Folder { .. } => false,
    }
}

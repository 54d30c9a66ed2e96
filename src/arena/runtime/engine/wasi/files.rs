//! The table of open files: standard streams, two directories, and channels.

use super::errno::{Errno, Fault};
use crate::runtime::engine::inbox::ReaderId;
use crate::wire::Stream;
use std::sync::Arc;

/// Files that are open from the start: three streams, `/` and `/ch`.
const GIVEN: usize = 5;

/// An open channel.
#[derive(Clone, Debug)]
pub(super) struct OpenChannel {
    /// Its topic.
    pub(super) topic: Arc<str>,
    /// The reader with its unread messages, if it is open for reading.
    pub(super) reader: Option<ReaderId>,
    /// Whether it is open for writing.
    pub(super) write: bool,
}

/// The kind of an open file.
#[derive(Clone, Debug)]
pub(super) enum FileKind {
    /// Standard input.
    Input(ReaderId),
    /// Standard output or error.
    Output(Stream),
    /// A directory: its path without slashes at either end, and whether it was open from the start.
    Folder {
        /// Its path.
        path: String,
        /// Whether it was open from the start.
        given: bool,
    },
    /// A channel.
    Channel(OpenChannel),
}

/// An open file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Its kind.
    pub(super) kind: FileKind,
    /// `O_NONBLOCK`: operations that would block fail.
    pub(super) nonblock: bool,
}

impl File {
    fn new(kind: FileKind) -> File {
        File {
            kind,
            nonblock: false,
        }
    }

    /// The reader that it reads from.
    pub(super) fn reader(&self) -> Result<ReaderId, Fault> {
        match &self.kind {
            FileKind::Input(reader) => Ok(*reader),
            FileKind::Channel(channel) => Ok(channel.reader.ok_or(Errno::BadFile)?),
            FileKind::Output(_) => Err(Errno::BadFile.into()),
            FileKind::Folder { .. } => Err(Errno::IsFolder.into()),
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Files {
    open: Vec<Option<File>>,
    most: usize,
}

impl Files {
    /// The initial table; `most` more files may be opened.
    pub(super) fn new(stdin: ReaderId, most: usize) -> Files {
        let folder = |path: &str| FileKind::Folder {
            path: path.into(),
            given: true,
        };
        let given: [FileKind; GIVEN] = [
            FileKind::Input(stdin),
            FileKind::Output(Stream::Stdout),
            FileKind::Output(Stream::Stderr),
            folder(""),
            folder("ch"),
        ];
        Files {
            open: given.map(|kind| Some(File::new(kind))).into(),
            most: most.saturating_add(GIVEN),
        }
    }

    /// Finds an open file.
    pub(super) fn get(&self, fd: u32) -> Result<&File, Fault> {
        let file = self.open.get(fd as usize).and_then(Option::as_ref);
        Ok(file.ok_or(Errno::BadFile)?)
    }

    /// Finds an open file, to change it.
    pub(super) fn get_mut(&mut self, fd: u32) -> Result<&mut File, Fault> {
        let file = self.open.get_mut(fd as usize).and_then(Option::as_mut);
        Ok(file.ok_or(Errno::BadFile)?)
    }

    /// Whether another file may be opened.
    pub(super) fn has_room(&self) -> bool {
        self.open.iter().flatten().count() < self.most
    }

    /// Adds a file under the lowest free number.
    pub(super) fn add(&mut self, kind: FileKind, nonblock: bool) -> Result<u32, Fault> {
        if !self.has_room() {
            return Err(Errno::TooManyFiles.into());
        }
        let file = File { kind, nonblock };
        let free = self.open.iter().position(Option::is_none);
        let fd = free.unwrap_or(self.open.len());
        match self.open.get_mut(fd) {
            Some(place) => *place = Some(file),
            None => self.open.push(Some(file)),
        }
        Ok(u32::try_from(fd).map_err(|_| Errno::TooManyFiles)?)
    }

    /// Removes a file.
    pub(super) fn close(&mut self, fd: u32) -> Result<File, Fault> {
        let place = self.open.get_mut(fd as usize);
        Ok(place.and_then(Option::take).ok_or(Errno::BadFile)?)
    }
}

//! Fixed sets of words in messages.

use super::{ExitStatus, Mode, RuntimeState, State};
use halite_config::arena_words;

arena_words!(
    State,
    "state of a module",
    "one of A, D, E, K, Q",
    Alive = "A",
    Dead = "D",
    Exiting = "E",
    Killed = "K",
    Queued = "Q"
);
arena_words!(
    RuntimeState,
    "state of a runtime",
    "one of A, D",
    Alive = "A",
    Dead = "D"
);
arena_words!(
    Mode,
    "mode of a channel",
    "one of r, w, rw",
    Read = "r",
    Write = "w",
    ReadWrite = "rw"
);
arena_words!(
    ExitStatus,
    "status of an exit",
    "one of exited, deleted, crashed, killed",
    Exited = "exited",
    Deleted = "deleted",
    Crashed = "crashed",
    Killed = "killed"
);

impl Mode {
    /// Whether a module may read such a channel.
    pub const fn reads(self) -> bool {
        matches!(self, Mode::Read | Mode::ReadWrite)
    }

    /// Whether a module may write to such a channel.
    pub const fn writes(self) -> bool {
        matches!(self, Mode::Write | Mode::ReadWrite)
    }
}

//! Words of closed sets, as they stand in messages.

use super::names::bad;
use super::{BadName, ExitStatus, Mode, Policy, RuntimeState, State, Stream};
use std::fmt;
use std::str::FromStr;

macro_rules! words {
    ($kind:ident, $what:literal, $why:literal, $($variant:ident = $word:literal),+) => {
        impl $kind {
            /// Its word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($kind::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $kind {
            type Err = BadName;

            fn from_str(text: &str) -> Result<$kind, BadName> {
                match text {
                    $($word => Ok($kind::$variant),)+
                    _ => Err(bad($what, text, $why)),
                }
            }
        }
    };
}

words!(
    State,
    "state of a module",
    "one of A, D, E, K, Q",
    Alive = "A",
    Dead = "D",
    Exiting = "E",
    Killed = "K",
    Queued = "Q"
);
words!(
    RuntimeState,
    "state of a runtime",
    "one of A, D",
    Alive = "A",
    Dead = "D"
);
words!(
    Policy,
    "policy",
    "one of wait, move, drop",
    Wait = "wait",
    Move = "move",
    Drop = "drop"
);
words!(
    Mode,
    "mode of a channel",
    "one of r, w, rw",
    Read = "r",
    Write = "w",
    ReadWrite = "rw"
);
words!(
    ExitStatus,
    "status of an exit",
    "one of exited, deleted, crashed, killed",
    Exited = "exited",
    Deleted = "deleted",
    Crashed = "crashed",
    Killed = "killed"
);
words!(
    Stream,
    "stream",
    "one of stdin, stdout, stderr, stdio",
    Stdin = "stdin",
    Stdout = "stdout",
    Stderr = "stderr",
    Both = "stdio"
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

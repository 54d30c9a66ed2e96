//! Enums with a fixed spelling in settings and messages.

use super::Stream;

/// Implements parsing and printing for an enum with fixed words.
#[macro_export]
macro_rules! arena_words {
    ($kind:ident, $what:literal, $why:literal, $($variant:ident = $word:literal),+) => {
        impl $kind {
            /// The value's word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($kind::$variant => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter) -> ::std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl ::std::str::FromStr for $kind {
            type Err = $crate::gateways::arena::BadName;

            fn from_str(text: &str) -> Result<$kind, $crate::gateways::arena::BadName> {
                match text {
                    $($word => Ok($kind::$variant),)+
                    _ => Err($crate::gateways::arena::bad($what, text, $why)),
                }
            }
        }
    };
}

/// What happens to a module whose runtime is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `wait`: it resumes when its runtime is back, as with the real orchestrator.
    #[default]
    Wait,
    /// `move`: it is started on another suitable runtime.
    Move,
    /// `drop`: it counts as dead.
    Drop,
}

arena_words!(
    Policy,
    "policy",
    "one of wait, move, drop",
    Wait = "wait",
    Move = "move",
    Drop = "drop"
);
arena_words!(
    Stream,
    "stream",
    "one of stdin, stdout, stderr, stdio",
    Stdin = "stdin",
    Stdout = "stdout",
    Stderr = "stderr",
    Both = "stdio"
);

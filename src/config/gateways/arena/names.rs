//! Names received in messages: one type and one parser each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName {
    /// What kind of name was expected.
    pub what: &'static str,
    /// The name, cut to 64 characters.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{:?} is not a valid {}: {}",
            self.text, self.what, self.why
        )
    }
}

impl std::error::Error for BadName {}

/// Makes the error for a refused name.
pub fn bad(what: &'static str, text: &str, why: &'static str) -> BadName {
    let text = text.chars().take(64).collect();
    BadName { what, text, why }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// Id of a runtime, manager or module: 1 to 64 printable ASCII characters that are valid in topic levels and event
    /// tags, so without `/`, `+`, `#` and spaces. Usually a UUID, but peers do not keep to that (reference, T16).
    Uuid
}

name! {
    /// A topic to publish to: 1 to 1024 bytes, no wildcards, no control characters, no leading `$`.
    Topic
}

name! {
    /// Path of a channel as a module sees it: parts separated by `/`, none of them empty, `.` or `..`; no backslashes,
    /// no control characters; 255 bytes at most.
    ChannelPath
}

name! {
    /// Path of a module's file below a folder: parts separated by `/`, none of them empty, `.` or `..`; no backslashes,
    /// no control characters; 1024 bytes at most.
    ModulePath
}

impl FromStr for Uuid {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Uuid, BadName> {
        let fits = |b: u8| b.is_ascii_graphic() && !b"/+#".contains(&b);
        match text.len() {
            1..=64 if text.bytes().all(fits) => Ok(Uuid(text.into())),
            1..=64 => Err(bad(
                "uuid",
                text,
                "only printable ASCII without spaces, '/', '+' and '#'",
            )),
            _ => Err(bad("uuid", text, "1 to 64 characters")),
        }
    }
}

impl FromStr for Topic {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Topic, BadName> {
        let refuse = |why| Err(bad("topic", text, why));
        match text.len() {
            1..=1024 if text.contains(['+', '#']) => refuse("no wildcards"),
            1..=1024 if text.contains(char::is_control) => refuse("no control characters"),
            1..=1024 if text.starts_with('$') => {
                refuse("topics that start with '$' are reserved for the broker")
            }
            1..=1024 => Ok(Topic(text.into())),
            _ => refuse("1 to 1024 bytes"),
        }
    }
}

impl Topic {
    /// A topic made of parts that were already checked.
    pub(super) fn of_parts(text: &str) -> Topic {
        Topic(text.into())
    }
}

/// Why a path is not valid; `None` if it is.
fn path_fault(text: &str, longest: usize) -> Option<&'static str> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if text.is_empty() || text.len() > longest {
        Some("empty or too long")
    } else if text.contains('\\') || text.contains(char::is_control) {
        Some("no backslashes or control characters")
    } else if !text.split('/').all(plain) {
        Some("no empty parts, no '.' and '..'")
    } else {
        None
    }
}

impl FromStr for ChannelPath {
    type Err = BadName;

    fn from_str(text: &str) -> Result<ChannelPath, BadName> {
        match path_fault(text, 255) {
            Some(why) => Err(bad("path of a channel", text, why)),
            None => Ok(ChannelPath(text.into())),
        }
    }
}

impl FromStr for ModulePath {
    type Err = BadName;

    fn from_str(text: &str) -> Result<ModulePath, BadName> {
        match path_fault(text, 1024) {
            Some(why) => Err(bad("path of a module", text, why)),
            None => Ok(ModulePath(text.into())),
        }
    }
}

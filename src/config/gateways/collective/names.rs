//! Names received from a collective, each with its own parser.

use std::fmt;
use std::str::FromStr;

/// An invalid name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName {
    /// What kind of name was expected.
    pub kind: &'static str,
    /// The text, shortened.
    pub text: String,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?} is not a valid {}", self.text, self.kind)
    }
}

impl std::error::Error for BadName {}

/// Maximum length of a name, in bytes.
const LONGEST: usize = 255;

fn word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

/// Letters, digits, `_`, `-` and single dots, not at the start: one or more complete tokens of a subject.
fn dotted(text: &str) -> bool {
    let plain = |c: u8| word(c) || c == b'-';
    text.split('.')
        .all(|part| !part.is_empty() && part.bytes().all(plain))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $good:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Its text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                let good: fn(&str) -> bool = $good;
                if text.len() <= LONGEST && good(text) {
                    Ok($name(text.to_owned()))
                } else {
                    Err(BadName {
                        kind: $kind,
                        text: text.chars().take(80).collect(),
                    })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a node or client. Dots separate tokens of a subject, which is normal (reference, section 15).
    Identity, "identity of a node", dotted
);
name!(
    /// The name of a collective.
    Collective, "name of a collective", |text| {
        !text.is_empty() && text.bytes().all(|c| word(c) || c == b'-')
    }
);
name!(
    /// The name of an agent.
    AgentName, "name of an agent", |text| {
        !text.is_empty() && text.bytes().all(|c| word(c) || c == b'-')
    }
);
name!(
    /// The id of a request: hexadecimal digits (32 in all known programs).
    RequestId, "id of a request", |text| {
        (8..=64).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_alphanumeric())
    }
);
name!(
    /// The sender of a request: `kind=name` (`choria=rip.mcollective`, `cert=admin`, `uid=0`).
    CallerId, "caller id", |text| match text.split_once('=') {
        Some((kind, name)) => {
            !kind.is_empty() && kind.bytes().all(word)
                && !name.is_empty() && name.bytes().all(|c| word(c) || c == b'.' || c == b'-')
        }
        None => false,
    }
);

impl CallerId {
    /// `choria`, `cert`, `uid`, ...
    pub fn kind(&self) -> &str {
        self.0.split_once('=').map_or("", |(kind, _)| kind)
    }

    /// The part after the equals sign.
    pub fn name(&self) -> &str {
        self.0.split_once('=').map_or("", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_tokens_of_subjects() {
        for good in ["node1.example", "a", "rip.mcollective", "x_1-y.z"] {
            assert!(good.parse::<Identity>().is_ok(), "{good}");
        }
        for bad in ["", "a..b", ".a", "a.", "a.*", ">", "a b", "a/b", "a\n", "é"] {
            assert!(bad.parse::<Identity>().is_err(), "{bad}");
        }
        assert!("a.b".parse::<Collective>().is_err());
        assert!("a.b".parse::<AgentName>().is_err());
    }

    #[test]
    fn caller_ids_have_a_kind() {
        let caller: CallerId = "choria=rip.mcollective".parse().unwrap();
        assert_eq!(
            (caller.kind(), caller.name()),
            ("choria", "rip.mcollective")
        );
        for bad in [
            "choria", "=x", "choria=", "a b=c", "a=b c", "a=b=c", "a=b/c",
        ] {
            assert!(bad.parse::<CallerId>().is_err(), "{bad}");
        }
    }
}

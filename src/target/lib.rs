//! Targeting: which minions a job is for. No IO.
//!
//! A [`Target`] is the user's expression. A minion calls [`Target::matches`] for itself; the master calls
//! [`Target::expected`] for all minions it knows. Both follow Salt's rules (`salt/matchers/*` and
//! `salt/utils/minions.py CkMinions`), so that a mixed fleet agrees on them.

pub mod compound;
mod data;
mod error;
mod eval;
mod ip;
mod nodegroup;
mod py_regex;
mod pytext;
mod query;

pub use data::{Compare, DataExpr, subdict_match};
pub use error::TargetError;
pub use eval::{Expected, Inventory, Subject};
pub use halite_wire::fnmatch::{Glob, fnmatch};
pub use halite_wire::ids::{InvalidName, Jid, JidClock, MinionId, Tag};
pub use ip::IpTest;
pub use nodegroup::{Nodegroups, expand_compound, expand_nodegroup};
pub use py_regex::{
    PyRegex, RegexFlags, RegexLimit, RegexReplaced, RegexTemplate, escape as regex_escape,
};
pub use pytext::str as python_str;
pub use query::{DataQuery, QueryResults};

use halite_wire::Value;
use std::fmt;
use std::str::FromStr;

/// The default delimiter (`salt/defaults/__init__.py DEFAULT_TARGET_DELIM`).
pub const DEFAULT_DELIMITER: &str = ":";
/// Maximum length of targets of the types list and compound, in bytes.
pub const MAX_TARGET: usize = 16 * 1024 * 1024;
/// Maximum length of other targets, and of a word in a compound that is not a list, in bytes.
pub const MAX_PATTERN: usize = 64 * 1024;
/// Maximum number of names in a list.
pub const MAX_NAMES: usize = 1_000_000;
/// Maximum number of words in a compound, with nodegroups expanded.
pub const MAX_WORDS: usize = 100_000;
/// Maximum number of words in a compound that are not plain names: each is tested on each minion.
pub const MAX_PATTERNS: usize = 10_000;
/// Maximum number of regular expressions in a compound: they are slow to compile.
pub const MAX_REGEXES: usize = 1_000;
/// Maximum nesting depth of parentheses, and of nodegroups.
pub const MAX_DEPTH: usize = 64;
const MAX_DELIMITER: usize = 16;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $text:literal)*) => {
        /// How a target is interpreted: Salt's `tgt_type`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum TargetType {
            $($(#[$doc])* $name,)*
        }

        impl TargetType {
            /// Every type.
            pub const ALL: &[TargetType] = &[$(TargetType::$name),*];

            /// Its name in loads.
            pub fn name(self) -> &'static str {
                match self {
                    $(TargetType::$name => $text,)*
                }
            }
        }

        impl FromStr for TargetType {
            type Err = TargetError;

            fn from_str(text: &str) -> Result<TargetType, TargetError> {
                match text {
                    $($text => Ok(TargetType::$name),)*
                    _ => Err(TargetError::UnknownType(text.to_owned())),
                }
            }
        }
    };
}

kinds! {
    /// A shell glob on the id.
    Glob "glob"
    /// A regular expression on the start of the id.
    Pcre "pcre"
    /// Ids, as a list or separated by commas.
    List "list"
    /// `key:glob` in the grains.
    Grain "grain"
    /// `key:regex` in the grains.
    GrainPcre "grain_pcre"
    /// `key:glob` in the pillar.
    Pillar "pillar"
    /// `key:regex` in the pillar.
    PillarPcre "pillar_pcre"
    /// `key:value` in the pillar, by equality only.
    PillarExact "pillar_exact"
    /// A boolean expression.
    Compound "compound"
    /// A boolean expression in which `I@` and `J@` compare by equality. Only the master uses it, to check that a user
    /// gains nothing by guessing at pillar data.
    CompoundPillarExact "compound_pillar_exact"
    /// The name of a group in the configuration.
    Nodegroup "nodegroup"
    /// An address or network.
    Ipcidr "ipcidr"
    /// A SECO range; nothing matches it.
    Range "range"
}

impl fmt::Display for TargetType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The expression of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetExpr {
    /// One text.
    Text(String),
    /// Several: the ids of a list or the words of a compound.
    List(Vec<String>),
}

impl From<&TargetExpr> for Value {
    fn from(expr: &TargetExpr) -> Value {
        match expr {
            TargetExpr::Text(text) => Value::from(text),
            TargetExpr::List(items) => Value::from(items.clone()),
        }
    }
}

/// Which minions a job is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: TargetType,
    expr: TargetExpr,
    delimiter: String,
}

impl Target {
    /// Parses the fields `tgt`, `tgt_type` and `delimiter` of a load. An empty or missing `tgt_type` means glob, a
    /// missing delimiter means `:`; an empty delimiter is an error.
    ///
    /// Checks form and size; the patterns themselves are parsed when they are used. Elements of a list must be text.
    pub fn parse(
        tgt: &Value,
        tgt_type: &str,
        delimiter: Option<&str>,
    ) -> Result<Target, TargetError> {
        let kind = match tgt_type {
            "" => TargetType::Glob,
            name => name.parse()?,
        };
        let delimiter = delimiter.unwrap_or(DEFAULT_DELIMITER);
        if delimiter.is_empty() || delimiter.len() > MAX_DELIMITER {
            return Err(TargetError::Delimiter(delimiter.to_owned()));
        }
        Ok(Target {
            kind,
            expr: expr(tgt, kind)?,
            delimiter: delimiter.to_owned(),
        })
    }

    /// The target of exactly these minions.
    pub fn list<'a>(ids: impl IntoIterator<Item = &'a MinionId>) -> Target {
        Target {
            kind: TargetType::List,
            expr: TargetExpr::List(ids.into_iter().map(ToString::to_string).collect()),
            delimiter: DEFAULT_DELIMITER.to_owned(),
        }
    }

    /// The type.
    pub fn kind(&self) -> TargetType {
        self.kind
    }

    /// The expression.
    pub fn expr(&self) -> &TargetExpr {
        &self.expr
    }

    /// The separator of the levels in a grain or pillar expression.
    pub fn delimiter(&self) -> &str {
        &self.delimiter
    }
}

fn expr(tgt: &Value, kind: TargetType) -> Result<TargetExpr, TargetError> {
    let lists = matches!(
        kind,
        TargetType::List | TargetType::Compound | TargetType::CompoundPillarExact
    );
    let limit = if lists { MAX_TARGET } else { MAX_PATTERN };
    let too_long = TargetError::TooLong {
        what: "text",
        limit,
    };
    match tgt {
        // `CkMinions.check_minions` treats None as an empty text.
        Value::Nil => Ok(TargetExpr::Text(String::new())),
        Value::Str(text) if text.len() <= limit => Ok(TargetExpr::Text(text.clone())),
        Value::Str(_) => Err(too_long),
        Value::Array(items) if lists => {
            if items.len() > MAX_NAMES {
                return Err(TargetError::TooMany {
                    what: "elements",
                    limit: MAX_NAMES,
                });
            }
            let not_text = TargetError::NotText { kind: kind.name() };
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            let texts = texts.ok_or(not_text)?;
            if texts.iter().map(|text| text.len()).sum::<usize>() > limit {
                return Err(too_long);
            }
            Ok(TargetExpr::List(
                texts.into_iter().map(str::to_owned).collect(),
            ))
        }
        _ => Err(TargetError::NotText { kind: kind.name() }),
    }
}

#[cfg(test)]
mod tests;

//! Filters of collectives: whether a node must reply to a request of MCollective or Choria (reference, sections 9 and 20).
//!
//! A [`Matcher`] is a compiled filter, which can be evaluated for any number of nodes. All kinds must match. If a part cannot
//! be evaluated (an invalid regular expression, a syntax error in a compound), the node stays silent whatever the
//! rest of the filter says, as on a real server, where it raises an exception; the reason is returned for the log.
//!
//! Servers in Ruby and Go evaluate the same filter differently, and a request of current Choria may come from a client
//! of either kind, without saying which. Nodes of halite behave like Ruby's servers ([`Semantics::of`]): the seeds
//! describe those, and they are stricter. The relevant differences:
//!
//! | filter | Ruby (2.12.5) | Go (0.30) | here, for Ruby |
//! | --- | --- | --- | --- |
//! | `fact` `==` on text | exact | ignores case | exact |
//! | `fact` `=~` | Ruby's syntax, case-sensitive | RE2, ignores case | Ruby's, bounded in size and steps |
//! | name of a fact | top level only | path `a.b.0` | top level only |
//! | type of a fact | always text | its own | text |
//! | list as a fact | any element | always an error or false | any element |
//! | `<` `>` on numbers | digits only; see below | by the fact's type | as Ruby |
//! | operator `=>` `=<` | nothing | nothing | `>=` `<=`, as in the first description of the format |
//! | no operator | nothing | not valid | `/x/` is a regular expression, else equality, as before 1.1 |
//! | entry with string keys | nothing (before 2017) | works | as the generation does |
//! | `cf_class` | case-sensitive; a leading `/` is enough | lower-cased name; `/.../` ignores case | as Ruby |
//! | `identity` | exactly one entry must match | any | exactly one |
//! | agent `mcollective` | always exists | must exist | always exists |
//! | `compound` | token lists | one `expr`, another language | token lists; an `expr` never matches |
//! | only unknown keys | nothing | everything | nothing |
//!
//! Ruby compares with `<`, `<=`, `>`, `>=` and `!=` as integers if both sides are digits (with a leading zero they are octal, and
//! `08` raises an exception), as floats if both look like `^[0-9]+.[0-9]+$`, whose dot is any character, so that `2048` counts as
//! one, else as text: `2.12.5 >= 2.9.0` is false. Nodes of halite do the same.
//!
//! Of the data plugins for `fstatement`, nodes have `agent`, `collective` and `fact`; all others, including `fstat`, are
//! missing, which makes the compound false, negated or not.
//!
//! With [`Semantics::Go`] a `compound` never matches: its language (`expr`) is not supported.

mod compound;
mod data;
mod facts;
mod go;
mod numbers;
mod ruby;

use super::rubyre::RubyRegex;
use crate::wire::{Filter, Form};
use compound::Compound;
use facts::FactTest;
use halite_wire::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Most entries of one filter, all kinds together.
pub const MAX_ENTRIES: usize = 1_000;
/// Most tokens in the compounds of one filter.
pub const MAX_TOKENS: usize = 10_000;

/// Which servers to evaluate a filter like. See the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// MCollective and the first Choria: entries of `fact` are seen only with symbols as keys.
    Mcollective,
    /// Choria's plugins for Ruby since 2017.
    Choria,
    /// go-choria.
    Go,
}

impl Semantics {
    /// The semantics of Ruby's servers of the generation that uses this form.
    pub fn of(form: Form) -> Semantics {
        match form {
            Form::Psk | Form::Ssl(_) | Form::Aes(_) | Form::CHORIA_YAML => Semantics::Mcollective,
            // JSON has no symbols.
            Form::Choria1 { json: true } | Form::Choria2 { .. } => Semantics::Choria,
        }
    }
}

/// The data of a node that filters are evaluated on.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    /// Its identity.
    pub identity: &'a str,
    /// Its facts, with their types.
    pub facts: &'a Map,
    /// Its classes from configuration management.
    pub classes: &'a [String],
    /// The names of its agents.
    pub agents: &'a [String],
    /// Its collectives.
    pub collectives: &'a [String],
    /// `license`, `timeout` (a number, in seconds), `description`, `url`, `version` and `author` of an agent, for the data plugin
    /// `agent`. `None` if there is no such agent.
    pub agent: &'a dyn Fn(&str) -> Option<Map>,
}

/// Why a filter cannot be evaluated, at all or on this node. It then does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

type Verdict = Result<bool, Unusable>;

fn unusable<T>(reason: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable(reason.into()))
}

/// A regular expression, valid or not: it fails only when it is evaluated on a node.
#[derive(Debug)]
struct Pattern(Result<RubyRegex, Unusable>);

impl Pattern {
    fn new(source: &str, options: u8) -> Pattern {
        Pattern(RubyRegex::new(source, options).map_err(|reason| {
            let source: String = source.chars().take(80).collect();
            Unusable(format!("regular expression {source:?}: {reason}"))
        }))
    }

    fn found(&self, text: &str) -> Verdict {
        let regex = self.0.as_ref().map_err(Clone::clone)?;
        regex.is_match(text).map_err(Unusable)
    }
}

/// One entry of `cf_class`, `agent` or `identity` as in Ruby.
#[derive(Debug)]
enum Name {
    Exact(String),
    Regex(Pattern),
}

/// Whether a line of the text starts with a slash: Ruby's `^` matches at each line.
fn slash_first(text: &str) -> bool {
    text.split('\n').any(|line| line.starts_with('/'))
}

impl Name {
    fn new(text: &str) -> Name {
        if slash_first(text) {
            Name::Regex(Pattern::new(&text.replace('/', ""), 0))
        } else {
            Name::Exact(text.to_owned())
        }
    }

    fn is(&self, name: &str) -> Verdict {
        match self {
            Name::Exact(own) => Ok(own == name),
            Name::Regex(pattern) => pattern.found(name),
        }
    }

    fn among(&self, names: &[String]) -> Verdict {
        if let Name::Regex(Pattern(Err(reason))) = self {
            return Err(reason.clone());
        }
        for name in names {
            if self.is(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A compiled filter.
#[derive(Debug)]
pub struct Matcher(Dialect);

#[derive(Debug)]
enum Dialect {
    Ruby(ruby::Ruby),
    Go(go::Go),
}

impl Matcher {
    /// Compiles a filter.
    ///
    /// # Errors
    /// It is too large. It then matches no node.
    pub fn new(filter: &Filter, semantics: Semantics) -> Result<Matcher, Unusable> {
        let entries = filter.facts.len()
            + filter.classes.len()
            + filter.agents.len()
            + filter.identities.len()
            + filter.compound.len();
        if entries > MAX_ENTRIES {
            return unusable(format!("the filter has more than {MAX_ENTRIES} entries"));
        }
        let tokens = filter.compound.iter().map(|list| list.items().len());
        if tokens.sum::<usize>() > MAX_TOKENS {
            return unusable(format!("compounds have more than {MAX_TOKENS} tokens"));
        }
        Ok(Matcher(match semantics {
            Semantics::Mcollective => Dialect::Ruby(ruby::Ruby::new(filter, true)),
            Semantics::Choria => Dialect::Ruby(ruby::Ruby::new(filter, false)),
            Semantics::Go => Dialect::Go(go::Go::new(filter)),
        }))
    }

    /// Whether the node must reply.
    ///
    /// # Errors
    /// The filter cannot be evaluated; the node must then stay silent.
    pub fn passes(&self, node: &Node) -> Verdict {
        match &self.0 {
            Dialect::Ruby(ruby) => ruby.passes(node),
            Dialect::Go(go) => go.passes(node),
        }
    }
}

/// The text of a fact, as Ruby's `to_s`; `None` for lists and maps.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Nil => "".into(),
        Value::Bool(flag) => flag.to_string().into(),
        Value::Int(number) => number.to_string().into(),
        Value::UInt(number) => number.to_string().into(),
        Value::Float(number) => crate::ruby::float_text(*number).into(),
        Value::Str(text) => text.into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        Value::Array(_) | Value::Map(_) => return None,
    })
}

/// The fact with this name, at the top level. Names that are not text are compared by their text.
fn fact<'a>(facts: &'a Map, name: &str) -> Option<&'a Value> {
    facts.get(name).or_else(|| {
        let mut others = facts
            .iter()
            .filter(|(key, _)| !matches!(key, Value::Str(_)));
        let found = others.find(|(key, _)| text(key).is_some_and(|key| key == name));
        found.map(|(_, value)| value)
    })
}

#[cfg(test)]
mod tests;

//! Expands nodegroups: `salt/utils/minions.py nodegroup_comp`.

use super::compound::is_operator;
use super::error::TargetError;
use super::{MAX_WORDS, pytext};
use halite_config::MasterConfig;
use halite_wire::{Map, Value};

/// The groups a name may refer to: those of the option `nodegroups` and, if the collective gateway discovers nodes, the
/// classes of these nodes. A defined group hides a class with the same name.
#[derive(Clone, Copy, Debug)]
pub struct Nodegroups<'a> {
    defined: &'a Map,
    classes: bool,
}

impl<'a> From<&'a Map> for Nodegroups<'a> {
    fn from(defined: &'a Map) -> Nodegroups<'a> {
        Nodegroups {
            defined,
            classes: false,
        }
    }
}

impl<'a> From<&'a MasterConfig> for Nodegroups<'a> {
    fn from(config: &'a MasterConfig) -> Nodegroups<'a> {
        Nodegroups {
            defined: &config.nodegroups,
            classes: config.finds_collective_nodes(),
        }
    }
}

/// The words for all nodes of a collective with a class; `None` if this cannot be a class name.
fn class_words(name: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
    if name.is_empty() || name.len() > LONGEST_CLASS || !name.chars().all(plain) {
        return None;
    }
    let grain = format!("G@classes:{name}");
    let words = ["(", "G@gateway:collective", "and", &grain, ")"];
    Some(words.map(str::to_owned).to_vec())
}

/// Maximum length of a class name in bytes.
const LONGEST_CLASS: usize = 255;

/// The compound expression for `-N name`, as Salt's client publishes it (`client/__init__.py LocalClient._prep_pub`).
///
/// A definition without operators, `*` and `X@` is a list of names, or a regular expression if a word looks like one.
/// Fails on an unknown or malformed group, on a group that contains itself, and on expansions of more than 100 000
/// words.
pub fn expand_nodegroup<'a>(
    name: &str,
    nodegroups: impl Into<Nodegroups<'a>>,
) -> Result<String, TargetError> {
    Ok(expand(name, nodegroups.into())?.join(" "))
}

/// A compound expression with every `N@name` expanded, for the client to publish: minions do not know the groups. Fails
/// like [`expand_nodegroup`].
pub fn expand_compound<'a>(
    expr: &str,
    nodegroups: impl Into<Nodegroups<'a>>,
) -> Result<String, TargetError> {
    let words: Vec<String> = pytext::words(expr).map(str::to_owned).collect();
    Ok(expand_words(words, nodegroups.into())?.join(" "))
}

/// The words of a compound with every `N@name` replaced.
///
/// An expansion to several words gets parentheses. Salt adds them only to groups within groups, so there `not N@g`
/// excludes only the first word of `g`.
pub(super) fn expand_words(
    words: Vec<String>,
    groups: Nodegroups,
) -> Result<Vec<String>, TargetError> {
    if !words.iter().any(|word| group_name(word).is_some()) {
        return Ok(words);
    }
    let mut out = Vec::new();
    for word in words {
        match group_name(&word) {
            None => out.push(word),
            Some(name) => {
                let inner = expand(name, groups)?;
                if is_closed(&inner) {
                    out.extend(inner);
                } else {
                    out.extend(in_parentheses(inner));
                }
            }
        }
        check_count(out.len())?;
    }
    Ok(out)
}

fn expand(name: &str, groups: Nodegroups) -> Result<Vec<String>, TargetError> {
    Expansion {
        groups,
        open: Vec::new(),
        produced: 0,
    }
    .group(name)
}

/// The name in `N@name`.
pub(super) fn group_name(word: &str) -> Option<&str> {
    word.strip_prefix("N@").filter(|name| !name.is_empty())
}

fn check_count(words: usize) -> Result<(), TargetError> {
    if words <= MAX_WORDS {
        return Ok(());
    }
    Err(TargetError::TooMany {
        what: "words",
        limit: MAX_WORDS,
    })
}

fn in_parentheses(words: Vec<String>) -> Vec<String> {
    let mut out = vec!["(".to_owned()];
    out.extend(words);
    out.push(")".to_owned());
    out
}

/// Whether these words already are one operand: one word, or parentheses around everything.
fn is_closed(words: &[String]) -> bool {
    let mut depth = 0_i64;
    let first_end = words.iter().position(|word| {
        depth += match word.as_str() {
            "(" => 1,
            ")" => -1,
            _ => 0,
        };
        depth == 0
    });
    first_end.is_some_and(|at| at + 1 == words.len())
}

struct Expansion<'a> {
    groups: Nodegroups<'a>,
    /// The groups being expanded, outermost first.
    open: Vec<String>,
    produced: usize,
}

impl Expansion<'_> {
    fn group(&mut self, name: &str) -> Result<Vec<String>, TargetError> {
        let fail = |reason| {
            Err(TargetError::Nodegroup {
                name: name.to_owned(),
                reason,
            })
        };
        if self.open.iter().any(|open| open == name) {
            return fail("contains itself");
        }
        if self.open.len() >= super::MAX_DEPTH {
            return fail("is nested too deep");
        }
        let Some(definition) = self.groups.defined.get(name) else {
            if let Some(words) = class_words(name).filter(|_| self.groups.classes) {
                self.produced += words.len();
                check_count(self.produced)?;
                return Ok(words);
            }
            return fail("is not defined");
        };
        let words: Vec<String> = match definition {
            Value::Str(text) => pytext::words(text).map(str::to_owned).collect(),
            Value::Array(items) => match items.iter().map(scalar).collect() {
                Some(words) => words,
                None => return fail("has an element that is not text"),
            },
            _ => return fail("is neither text nor a list"),
        };
        self.open.push(name.to_owned());
        let expanded = self.words(&words);
        self.open.pop();
        expanded
    }

    fn words(&mut self, words: &[String]) -> Result<Vec<String>, TargetError> {
        let outermost = self.open.len() == 1;
        let has_groups = words.iter().any(|word| group_name(word).is_some());
        self.produced += words.len();
        check_count(self.produced)?;
        if (!outermost || !has_groups)
            && let Some(joined) = as_one_word(words)
        {
            return Ok(vec![joined]);
        }
        if !has_groups {
            return Ok(if outermost {
                words.to_vec()
            } else {
                in_parentheses(words.to_vec())
            });
        }
        let mut out = Vec::new();
        for word in words {
            match group_name(word) {
                Some(name) => out.extend(self.group(name)?),
                None => out.push(word.clone()),
            }
        }
        check_count(out.len())?;
        Ok(in_parentheses(out))
    }
}

/// `str(element)` for elements allowed in the list form of a definition.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Array(_) | Value::Map(_) => None,
        other => Some(pytext::str(other).into_owned()),
    }
}

/// Turns a definition without operators, stars and `X@` into `E@...` or `L@...`.
fn as_one_word(words: &[String]) -> Option<String> {
    let is_typed = |word: &str| {
        let mut chars = word.chars();
        chars.next().is_some_and(|c| c.is_ascii_uppercase()) && chars.next() == Some('@')
    };
    if words
        .iter()
        .any(|word| is_operator(word) || word.contains('*') || is_typed(word))
    {
        return None;
    }
    let regex = |word: &String| word.contains(['(', '[', '{', '\\', '?', '}', ']', ')']);
    let letter = if words.iter().any(regex) { 'E' } else { 'L' };
    Some(format!("{letter}@{}", words.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;
    use proptest::prelude::*;

    #[test]
    fn cycles_and_blow_ups_end() {
        let groups = map! { "a" => "N@b or x", "b" => "N@a or y" };
        let error = expand_nodegroup("a", &groups).unwrap_err().to_string();
        assert!(error.contains("\"a\" contains itself"), "{error}");

        let mut groups = Map::new();
        for n in 0..40 {
            groups.set(format!("g{n}"), format!("N@g{0} or N@g{0}", n + 1));
        }
        groups.set("g40", "x* or y*");
        assert!(matches!(
            expand_nodegroup("g0", &groups),
            Err(TargetError::TooMany { .. })
        ));
    }

    #[test]
    fn groups_inside_compounds_keep_together() {
        let groups = map! {
            "one" => "web1",
            "two" => "web1 or web2",
            "odd" => "( web1 ) or ( web2 )",
            "nest" => "N@two",
        };
        for (expr, expected) in [
            ("not N@one", "not L@web1"),
            ("not N@two", "not ( web1 or web2 )"),
            ("not N@odd", "not ( ( web1 ) or ( web2 ) )"),
            ("not N@nest", "not ( ( web1 or web2 ) )"),
            ("N@ or x", "N@ or x"),
        ] {
            assert_eq!(expand_compound(expr, &groups).unwrap(), expected);
        }
    }

    #[test]
    fn classes_of_collective_nodes() {
        let groups = map! { "web" => "web1 or web2", "both" => "N@web or N@role::db" };
        let with = Nodegroups {
            defined: &groups,
            classes: true,
        };
        let db = "( G@gateway:collective and G@classes:role::db )";
        assert_eq!(expand_nodegroup("role::db", with).unwrap(), db);
        assert_eq!(expand_nodegroup("web", with).unwrap(), "web1 or web2");
        assert_eq!(
            expand_nodegroup("both", with).unwrap(),
            format!("( ( web1 or web2 ) or {db} )")
        );
        assert_eq!(
            expand_compound("not N@role::db", with).unwrap(),
            format!("not {db}")
        );
        for bad in ["role*", "a b", "a[b]", "", &"x".repeat(300)] {
            assert!(expand_nodegroup(bad, with).is_err(), "{bad}");
        }
        assert!(expand_nodegroup("role::db", &groups).is_err());
    }

    proptest! {
        #[test]
        fn any_definition(a in "[abN@() ]{0,20}", b in ".*", name in "[ab]") {
            let groups = map! { "a" => a, "b" => b };
            let _ = expand_nodegroup(&name, &groups);
            let _ = expand_compound("not N@a and N@b", &groups);
        }
    }
}

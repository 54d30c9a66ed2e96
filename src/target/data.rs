//! Targets by grain or pillar: `salt/utils/data.py subdict_match`.

use super::error::TargetError;
use super::py_regex::{PyRegex, RegexLimit};
use super::pytext;
use halite_wire::fnmatch::Glob;
use halite_wire::{Map, Value};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum length of an expression in bytes.
pub const MAX_DATA_EXPR: usize = 16 * 1024;
/// Maximum number of levels in an expression.
pub const MAX_LEVELS: usize = 64;

/// How the last part of an expression is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// As a shell glob.
    Glob,
    /// As a regular expression at the start of the value.
    Regex,
    /// By equality of text.
    Exact,
}

/// A parsed expression `key:key:pattern`, ready to be matched many times.
///
/// Every pattern the search can reach is the rest of the expression from some position on, so a position identifies a
/// pattern. Patterns are compiled on first use.
#[derive(Debug)]
pub struct DataExpr {
    text: String,
    compare: Compare,
    /// Positions of the delimiter, used at the top level.
    top: Delimiters,
    /// Positions of the colons: below the first map Salt always splits at them, whatever the delimiter.
    colons: Delimiters,
    patterns: Vec<(usize, OnceLock<Pattern>)>,
    /// Globs over names with dots, with the position of the pattern for their values.
    dotted: Vec<(Glob, usize)>,
    /// Index at which the first key was last found. Similar minions list their grains in the same order, so this guess
    /// avoids searching through a hundred keys.
    hint: AtomicUsize,
}

/// Every start of the expression that is a glob over names with dots.
///
/// Salt takes names in a path literally, so such an expression matches nothing there. Grains with dots in their names
/// come from sysinspect minions, whose traits are flat (`system.net.eth0.ipv4`) and are targeted by globs over the
/// whole name: `system.net.*.ipv4:192.168.*`.
fn dotted(expr: &str, top: &Delimiters) -> Vec<(Glob, usize)> {
    let heads = top.at.iter().map(|at| (&expr[..*at], at + top.width));
    heads
        .filter(|(head, _)| head.contains('.') && head.contains(['*', '?', '[']))
        .map(|(head, rest)| (Glob::new(head), rest))
        .collect()
}

#[derive(Debug)]
struct Delimiters {
    at: Vec<usize>,
    width: usize,
}

#[derive(Debug)]
enum Pattern {
    Glob(Glob),
    Regex(Box<PyRegex>),
    Exact(String),
    /// None that can be compiled, and why.
    Never(String),
}

/// Whether data certainly matches an expression; one over the limits matches nothing.
pub fn subdict_match(
    data: &Map,
    expr: &str,
    delimiter: &str,
    regex_match: bool,
    exact_match: bool,
) -> bool {
    // Salt checks the flag for regular expressions first.
    let compare = match (regex_match, exact_match) {
        (true, _) => Compare::Regex,
        (false, true) => Compare::Exact,
        (false, false) => Compare::Glob,
    };
    DataExpr::new(expr, delimiter, compare).is_ok_and(|expr| expr.matches(data) == Ok(true))
}

impl DataExpr {
    /// Parses an expression. Fails only on the limits: an expression without a delimiter or with an invalid regular
    /// expression is accepted and matches nothing.
    pub fn new(expr: &str, delimiter: &str, compare: Compare) -> Result<DataExpr, TargetError> {
        if expr.len() > MAX_DATA_EXPR {
            return Err(TargetError::TooLong {
                what: "expression",
                limit: MAX_DATA_EXPR,
            });
        }
        if delimiter.is_empty() {
            return Err(TargetError::Delimiter(String::new()));
        }
        let top = Delimiters::new(expr, delimiter);
        let colons = Delimiters::new(expr, ":");
        if top.at.len() > MAX_LEVELS || colons.at.len() > MAX_LEVELS {
            return Err(TargetError::TooMany {
                what: "delimiters in one expression",
                limit: MAX_LEVELS,
            });
        }
        let mut starts: Vec<usize> = [0]
            .into_iter()
            .chain(top.ends())
            .chain(colons.ends())
            .collect();
        starts.sort_unstable();
        starts.dedup();
        Ok(DataExpr {
            dotted: dotted(expr, &top),
            text: expr.to_owned(),
            compare,
            top,
            colons,
            patterns: starts.into_iter().map(|s| (s, OnceLock::new())).collect(),
            hint: AtomicUsize::new(0),
        })
    }

    /// The expression, unless it is a regular expression that can match no value, however it is split.
    ///
    /// # Errors
    /// What is wrong with its last part.
    pub(super) fn checked(self) -> Result<DataExpr, TargetError> {
        let mut fault = None;
        for (start, _) in self.patterns.iter().skip(1) {
            let Some(Pattern::Never(reason)) = self.pattern(*start) else {
                return Ok(self);
            };
            fault = Some(TargetError::Regex {
                pattern: self.text[*start..].to_owned(),
                reason: reason.clone(),
            });
        }
        fault.map_or(Ok(self), Err)
    }

    /// The only top-level name of the data that the result depends on, provided that all names there are text: if the
    /// first word is a plain name, every path starts with it. Without a delimiter nothing matches; then any name will
    /// do, here the empty one.
    pub(super) fn single_key(&self) -> Option<&str> {
        let first = &self.text[..self.top.at.first().copied().unwrap_or(0)];
        (first != "*" && self.dotted.is_empty()).then_some(first)
    }

    /// A text that is equal exactly for equivalent expressions.
    pub(super) fn canonical(&self) -> String {
        let Delimiters { at, width } = &self.top;
        format!("{:?} {width} {at:?} {}", self.compare, self.text)
    }

    /// Whether the data matches.
    ///
    /// # Errors
    /// A regular expression takes too many steps on one of the values, and no other value matches.
    pub fn matches(&self, data: &Map) -> Result<bool, RegexLimit> {
        let mut search = Search {
            expr: self,
            failed: HashSet::new(),
            gave_up: Cell::new(false),
        };
        if search.below(data, 0, &self.top) || search.matches_dotted(data) {
            return Ok(true);
        }
        if search.gave_up.get() {
            return Err(RegexLimit);
        }
        Ok(false)
    }

    fn pattern(&self, start: usize) -> Option<&Pattern> {
        let at = self.patterns.binary_search_by_key(&start, |p| p.0).ok()?;
        let make = || Pattern::new(&self.text[start..], self.compare);
        Some(self.patterns[at].1.get_or_init(make))
    }

    fn first<'a>(&self, data: &'a Map, key: &str) -> Option<&'a Value> {
        let hint = self.hint.load(Ordering::Relaxed);
        if let Some((own, value)) = data.0.get(hint)
            && own.is_str(key)
        {
            return Some(value);
        }
        let at = data.iter().position(|(own, _)| own.is_str(key))?;
        self.hint.store(at, Ordering::Relaxed);
        Some(&data.0[at].1)
    }
}

impl Delimiters {
    fn new(text: &str, delimiter: &str) -> Delimiters {
        let at = text.match_indices(delimiter).map(|(at, _)| at);
        Delimiters {
            // One more than allowed is enough to detect too many.
            at: at.take(MAX_LEVELS + 1).collect(),
            width: delimiter.len(),
        }
    }

    fn ends(&self) -> impl Iterator<Item = usize> {
        self.at.iter().map(|at| at + self.width)
    }

    /// The positions at or after `start`.
    fn from(&self, start: usize) -> &[usize] {
        &self.at[self.at.partition_point(|at| *at < start)..]
    }
}

impl Pattern {
    fn new(text: &str, compare: Compare) -> Pattern {
        // Salt lowercases the whole pattern, including escapes like `\D`.
        let text = text.to_lowercase();
        match compare {
            Compare::Glob => Pattern::Glob(Glob::new(&text)),
            Compare::Exact => Pattern::Exact(text),
            Compare::Regex => match PyRegex::new(&text) {
                Ok(regex) => Pattern::Regex(Box::new(regex)),
                Err(reason) => Pattern::Never(reason),
            },
        }
    }

    fn matches(&self, text: &str) -> Result<bool, RegexLimit> {
        match self {
            Pattern::Glob(glob) => Ok(glob.matches(text)),
            Pattern::Regex(regex) => regex.matches(text),
            Pattern::Exact(own) => Ok(own == text),
            Pattern::Never(_) => Ok(false),
        }
    }
}

/// One search through the data of one minion.
struct Search<'e> {
    expr: &'e DataExpr,
    /// Maps and positions that were tried without success. Without this, data nested as deep as the expression would
    /// take exponential time.
    failed: HashSet<(*const Map, usize)>,
    /// Whether a value could not be compared.
    gave_up: Cell<bool>,
}

impl Search<'_> {
    /// Compares one value with the rest of the expression.
    fn matches_rest(&self, value: &Value, start: usize) -> bool {
        let Some(pattern) = self.expr.pattern(start) else {
            return false;
        };
        let found = pattern.matches(&pytext::lower(value));
        self.gave_up.set(self.gave_up.get() || found.is_err());
        found == Ok(true)
    }

    /// Whether a name with dots matches a glob over names, and its value matches the rest.
    fn matches_dotted(&self, data: &Map) -> bool {
        let in_value = |value: &Value, start: usize| match value {
            Value::Map(_) => false,
            Value::Array(items) => items.iter().any(|item| self.matches_rest(item, start)),
            value => self.matches_rest(value, start),
        };
        self.expr.dotted.iter().any(|(glob, start)| {
            data.iter().any(|(key, value)| {
                let named = key
                    .as_str()
                    .is_some_and(|k| k.contains('.') && glob.matches(k));
                named && in_value(value, *start)
            })
        })
    }

    /// Tries every split of the rest into a path and a pattern, the longest path first.
    fn below(&mut self, data: &Map, start: usize, cuts: &Delimiters) -> bool {
        let here = cuts.from(start);
        (0..here.len()).rev().any(|n| {
            let key = &self.expr.text[start..here[n]];
            let rest = here[n] + cuts.width;
            if key == "*" {
                return !data.is_empty() && self.in_map(data, start);
            }
            match self.walk(data, start, &here[..=n], cuts.width) {
                Some(Value::Map(map)) => !map.is_empty() && self.in_map(map, rest),
                Some(Value::Array(items)) => items.iter().any(|item| self.in_item(item, rest)),
                Some(value) => self.matches_rest(value, rest),
                None => false,
            }
        })
    }

    fn in_item(&mut self, item: &Value, start: usize) -> bool {
        if let Value::Map(map) = item
            && self.in_map(map, start)
        {
            return true;
        }
        self.matches_rest(item, start)
    }

    /// Whether a map contains what the rest asks for: as a key, or further down.
    fn in_map(&mut self, map: &Map, start: usize) -> bool {
        let deep = !self.expr.colons.from(start).is_empty();
        let state = (std::ptr::from_ref(map), start);
        if deep && self.failed.contains(&state) {
            return false;
        }
        let found = self.in_map_uncached(map, start);
        if deep && !found {
            self.failed.insert(state);
        }
        found
    }

    fn in_map_uncached(&mut self, map: &Map, start: usize) -> bool {
        let every = self.expr.text[start..].starts_with("*:");
        let start = start + if every { 2 } else { 0 };
        let pattern = &self.expr.text[start..];
        if pattern == "*" || map.contains(pattern) {
            return true;
        }
        if map.iter().any(|(key, _)| self.matches_rest(key, start)) {
            return true;
        }
        if self.below(map, start, &self.expr.colons) {
            return true;
        }
        every
            && map
                .iter()
                .any(|(_, value)| self.under_any_key(value, start))
    }

    fn under_any_key(&mut self, value: &Value, start: usize) -> bool {
        match value {
            Value::Map(map) => self.in_map(map, start),
            Value::Array(items) => items.iter().any(|item| self.matches_rest(item, start)),
            value => self.matches_rest(value, start),
        }
    }

    /// `salt/utils/data.py traverse_dict_and_list`: follows the words between the cuts.
    fn walk<'d>(
        &self,
        data: &'d Map,
        start: usize,
        cuts: &[usize],
        width: usize,
    ) -> Option<&'d Value> {
        let mut from = start;
        let mut value: Option<&Value> = None;
        for cut in cuts {
            let word = &self.expr.text[from..*cut];
            from = cut + width;
            value = Some(match value {
                None if start == 0 => match self.expr.first(data, word) {
                    Some(value) => value,
                    None => in_dict(data, word)?,
                },
                None => in_dict(data, word)?,
                Some(Value::Map(map)) => in_dict(map, word)?,
                Some(Value::Array(items)) => in_list(items, word)?,
                Some(_) => return None,
            });
        }
        value
    }
}

fn in_dict<'d>(map: &'d Map, word: &str) -> Option<&'d Value> {
    map.get(word)
        .or_else(|| pytext::get_like(map, &pytext::yaml_key(word)?))
}

/// A number is looked up as a key of the maps in a list, then used as an index, which may be negative. Any other word
/// is looked up as a key of the maps.
fn in_list<'d>(items: &'d [Value], word: &str) -> Option<&'d Value> {
    let mut maps = items.iter().filter_map(Value::as_map);
    let Some(index) = pytext::int(word) else {
        return maps.find_map(|map| map.get(word));
    };
    let key = Value::Int(index);
    if let Some(value) = maps.find_map(|map| pytext::get_like(map, &key)) {
        return Some(value);
    }
    if index >= 0 {
        return items.get(usize::try_from(index).ok()?);
    }
    let from_end = usize::try_from(index.unsigned_abs()).ok()?;
    items.get(items.len().checked_sub(from_end)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;
    use proptest::prelude::*;

    #[test]
    fn deep_data_are_walked_once() {
        let mut data = map! { "a" => "x" };
        for _ in 0..60 {
            data = map! { "a" => data };
        }
        let expr = "a:".repeat(60) + "y";
        assert!(!subdict_match(&data, &expr, ":", false, false));
        let stars = "*:".repeat(60) + "y";
        assert!(!subdict_match(&data, &stars, ":", false, false));
        assert!(subdict_match(
            &data,
            &("a:".repeat(61) + "x"),
            ":",
            false,
            false
        ));
    }

    #[test]
    fn limits() {
        let data = map! { "a" => "x" };
        assert!(!subdict_match(&data, "a:x", "", false, false));
        assert!(DataExpr::new(&":".repeat(65), ":", Compare::Glob).is_err());
        assert!(DataExpr::new(&"x".repeat(20_000), ":", Compare::Glob).is_err());
        assert!(subdict_match(&data, "a::x", "::", false, false));
    }

    #[test]
    fn globs_over_names_with_dots() {
        let data = map! {
            "system.net.eth0.ipv4" => "192.168.1.5", "system.net.eth0:1.ipv4" => "10.1.1.1",
            "system.net.lo.ipv6" => vec!["::1".to_owned(), "fe80::1".to_owned()],
            "system" => map! {"net" => map! {"x" => "10.0.0.1"}}, "plain" => "v",
        };
        let hit = |expr: &str| subdict_match(&data, expr, ":", false, false);
        for good in [
            "system.net.*.ipv4:192.168.*",
            "system.net.*.ipv4:10.1.*",
            "system.net.eth?:1.ipv4:10.1.*",
            "system.net.*.ipv6:fe80::*",
            "system.net.eth0.ipv4:192.*",
            "*.ipv[46]:192.*",
        ] {
            assert!(hit(good), "{good}");
        }
        for bad in [
            "system.net.*.ipv4:172.*",
            "system.net.*.mac:*",
            "pl*n:v",
            "system.net.*:10.0.0.1",
            "System.net.*.ipv4:192.168.*",
        ] {
            assert!(!hit(bad), "{bad}");
        }
        let regex = subdict_match(&data, r"system.net.*.ipv4:192\.168\.\d", ":", true, false);
        assert!(regex);
    }

    #[test]
    fn hint_follows_the_data() {
        let expr = DataExpr::new("os:Debian", ":", Compare::Glob).unwrap();
        let matches = |data: Map| expr.matches(&data).unwrap();
        assert!(matches(map! { "os" => "debian", "x" => 1 }));
        assert!(matches(map! { "x" => 1, "y" => 2, "os" => "DEBIAN" }));
        assert!(!matches(map! { "x" => 1, "y" => 2, "z" => "Debian" }));
        assert!(matches(map! { "os" => "Debian" }));
    }

    proptest! {
        #[test]
        fn any_text(expr in ".*", delimiter in ".{0,2}", regex: bool, exact: bool) {
            let inner = map! { "b" => vec![Value::from("c"), Value::from(map! { "d" => 1 })] };
            let data = map! { "a" => inner, "*" => "x", "ü" => 1.5 };
            subdict_match(&data, &expr, &delimiter, regex, exact);
        }

        #[test]
        fn likely_text(expr in "[abcdü*:0-9]{0,12}", regex: bool, exact: bool) {
            let inner = map! { "b" => vec![Value::from("c"), Value::from(map! { "d" => 1 })] };
            let data = map! { "a" => inner, "*" => "x", "ü" => 1.5 };
            subdict_match(&data, &expr, ":", regex, exact);
        }
    }
}

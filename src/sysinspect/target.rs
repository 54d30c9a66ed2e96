//! Which minions a sysinspect message is for: host globs, machine ids, traits.
//!
//! The rules are those of reference 3.4, chosen to cover what the programs do. A message is for a minion if any target
//! in its list matches. In one target, an id decides alone; otherwise all criteria present must match, and a target
//! without criteria matches nobody.

use crate::wire::Target;
use halite_target::fnmatch;
use halite_wire::{Map, Value};

/// What targets are matched against: one minion.
#[derive(Clone, Copy, Debug)]
pub struct Minion<'a> {
    /// Machine id.
    pub id: &'a str,
    /// Its names, any of which a host glob may match: FQDN, host name, address.
    pub hosts: &'a [String],
    /// Traits: dotted name to value.
    pub traits: &'a Map,
}

impl Minion<'_> {
    /// Whether any of the targets matches this minion.
    pub fn matches(&self, targets: &[Target]) -> bool {
        targets.iter().any(|t| self.matches_target(t))
    }

    /// Whether a target matches this minion. A malformed query matches nobody; real minions ignore the query and act.
    pub fn matches_target(&self, target: &Target) -> bool {
        if !target.ids.is_empty() {
            return target.ids.iter().any(|id| id == self.id);
        }
        let criteria = [
            (!target.hosts.is_empty()).then(|| self.matches_host(&target.hosts)),
            (!target.traits.is_empty())
                .then(|| target.traits.iter().all(|pair| self.matches_trait(pair))),
            (!target.query.trim().is_empty())
                .then(|| Query::parse(&target.query).is_some_and(|q| q.matches(self.traits))),
        ];
        criteria.iter().any(Option::is_some) && criteria.iter().flatten().all(|held| *held)
    }

    fn matches_host(&self, globs: &[String]) -> bool {
        let names = || self.hosts.iter();
        globs.iter().any(|glob| names().any(|n| fnmatch(n, glob)))
    }

    /// A star in the name of a trait also matches dots: names of interfaces contain some.
    fn matches_trait(&self, (name, value): &(String, String)) -> bool {
        self.traits.iter().any(|(key, found)| {
            key.as_str().is_some_and(|key| fnmatch(key, name)) && value_matches(found, value)
        })
    }
}

/// Whether the text form of a value matches; for a list, that of any item.
fn value_matches(value: &Value, glob: &str) -> bool {
    match value {
        Value::Str(text) => fnmatch(text, glob),
        Value::Array(items) => items.iter().any(|item| value_matches(item, glob)),
        Value::Map(_) | Value::Bytes(_) => false,
        other => fnmatch(&serde_json::to_string(other).unwrap_or_default(), glob),
    }
}

/// A traits query (`qt`): `key:value [and ...] [or ...]`, `and` before `or`, no parentheses.
///
/// Comparison is exact and typed as in YAML: `2` is a number, `"2"` a string (reference 3.5). Unlike in the programs,
/// a colon inside double quotes is part of the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Query(Vec<Vec<(String, Value)>>);

impl Query {
    /// Parses a whole query; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Query> {
        let mut rest = text.trim_start_matches(BLANK);
        let mut groups = vec![Vec::new()];
        loop {
            let (term, after) = parse_term(rest)?;
            groups.last_mut()?.push(term);
            rest = after.trim_start_matches(BLANK);
            if rest.is_empty() {
                return Some(Query(groups));
            }
            if let Some(after) = rest.strip_prefix("and") {
                rest = after;
            } else {
                rest = rest.strip_prefix("or")?;
                groups.push(Vec::new());
            }
            rest = rest.trim_start_matches(BLANK);
        }
    }

    /// Whether the traits match the query.
    pub fn matches(&self, traits: &Map) -> bool {
        let pair = |(key, value): &(String, Value)| traits.get(key).is_some_and(|v| v == value);
        self.0.iter().any(|group| group.iter().all(pair))
    }
}

const BLANK: [char; 2] = [' ', '\t'];

fn parse_term(text: &str) -> Option<((String, Value), &str)> {
    let (key, rest) = parse_word(text, "-_.")?;
    let rest = rest.trim_start_matches(BLANK).strip_prefix(':')?;
    let rest = rest.trim_start_matches(BLANK);
    if let Some(quoted) = rest.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"')?;
        return Some(((key.to_owned(), value.into()), rest));
    }
    let (value, rest) = parse_word(rest, "-_")?;
    Some(((key.to_owned(), parse_scalar(value)), rest))
}

fn parse_word<'a>(text: &'a str, others: &str) -> Option<(&'a str, &'a str)> {
    let foreign = |c: char| !c.is_ascii_alphanumeric() && !others.contains(c);
    let (word, rest) = text.split_at(text.find(foreign).unwrap_or(text.len()));
    (!word.is_empty()).then_some((word, rest))
}

/// A plain scalar of YAML 1.2, as the programs' reader has it.
fn parse_scalar(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        "null" | "Null" | "NULL" => return Value::Nil,
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(Ok(number)) = text
            .strip_prefix(prefix)
            .map(|d| i64::from_str_radix(d, radix))
        {
            return number.into();
        }
    }
    let zeros = digits.len() > 1 && digits.starts_with('0');
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || zeros {
        return text.into();
    }
    let float = || text.parse::<f64>().map(Value::from);
    let number = text.parse::<i64>().map(Value::from).or_else(|_| float());
    number.unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Dialect, MasterMessage};
    use halite_wire::map;

    const ID: &str = "30006546535e428aba0a0caa6712e225";

    fn meant(target: &str) -> bool {
        let traits = map! {
            "system.os.name" => "Debian GNU/Linux",
            "system.net.eth0.1.ipv4" => "192.168.7.9",
            "system.net.lo.ipv4" => "127.0.0.1",
            "system.net.eth0.mac" => "00:0a:00:00:00:00",
            "hardware.cpu.total" => 2,
            "virtual" => false,
        };
        let hosts = ["web1.example.com".to_owned(), "web1".to_owned()];
        let body = format!(r#"{{"t":{target},"r":"cmd","d":"","c":0}}"#);
        let message = MasterMessage::decode(body.as_bytes(), Dialect::Seed).unwrap();
        let minion = Minion {
            id: ID,
            hosts: &hosts,
            traits: &traits,
        };
        minion.matches(&message.targets)
    }

    #[test]
    fn every_kind_of_target() {
        for (target, expected) in [
            (r#"[]"#, false),
            (r#"{}"#, false),
            (r#"{"h":["*"]}"#, true),
            (r#"{"h":"web*"}"#, true),
            (r#"{"h":"web?"}"#, true),
            (r#"{"h":["db*","*.com"]}"#, true),
            (r#"{"h":"WEB*"}"#, false),
            (r#"{"h":"web"}"#, false),
            (r#"{"id":"30006546535e428aba0a0caa6712e225"}"#, true),
            (
                r#"{"id":["x","30006546535e428aba0a0caa6712e225"],"h":["db*"]}"#,
                true,
            ),
            (r#"{"id":"30006546*"}"#, false),
            (r#"{"id":"x","h":["*"]}"#, false),
            (r#"[{"id":"x"},{"h":"*"}]"#, true),
            (r#"{"t":{"system.net.*.ipv4":"192.168.*"}}"#, true),
            (r#"{"t":{"system.net.*.ipv4":"10.*"}}"#, false),
            (
                r#"{"t":{"system.net.*.ipv4":"192.168.*","system.os.name":"Deb*"}}"#,
                true,
            ),
            (
                r#"{"t":{"system.net.*.ipv4":"192.168.*","system.os.name":"SUSE*"}}"#,
                false,
            ),
            (r#"{"h":"db*","t":{"system.os.name":"*"}}"#, false),
            (r#"{"t":{"hardware.cpu.total":2}}"#, true),
            (r#"{"t":{"virtual":"fal*"}}"#, true),
            (r#"{"h":["*"],"qt":"hardware.cpu.total:2"}"#, true),
            (r#"{"h":["*"],"qt":"system.os.name:Nope"}"#, false),
            (r#"{"h":["*"],"qt":"system.os.name:"}"#, false),
        ] {
            assert_eq!(meant(target), expected, "{target}");
        }
    }

    #[test]
    fn queries() {
        for (query, expected) in [
            ("hardware.cpu.total:2", true),
            (r#"hardware.cpu.total:\"2\""#, false),
            ("hardware.cpu.total:3 or virtual:false", true),
            (
                "hardware.cpu.total:2 and virtual:true or virtual:TRUE",
                false,
            ),
            (
                "virtual:true or hardware.cpu.total : 2 and virtual:false",
                true,
            ),
            (r#"system.os.name:\"Debian GNU/Linux\""#, true),
            (r#"system.net.eth0.mac:\"00:0a:00:00:00:00\""#, true),
            ("system.net.eth0.mac:00:0a", false),
            ("system.os.name:Debian*", false),
            ("hardware.cpu.total:2 and", false),
            ("hardware.cpu.total:2 xor virtual:false", false),
            ("absent:null", false),
        ] {
            assert_eq!(
                meant(&format!(r#"{{"qt":"{query}"}}"#)),
                expected,
                "{query}"
            );
        }
        assert_eq!(parse_scalar("-5"), Value::Int(-5));
        assert_eq!(parse_scalar("0x1f"), Value::Int(31));
        assert_eq!(parse_scalar("010"), "010".into());
        assert_eq!(parse_scalar("1e3"), Value::Float(1000.0));
        assert_eq!(parse_scalar("yes"), "yes".into());
    }
}

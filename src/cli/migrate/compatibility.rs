//! Statements of `docs/compatibility.md` about options. The document is compiled into the program, so that
//! there is one list of differences: rows whose first cell has an option in backticks apply to it.

use halite_config::Role;
use halite_target::python_str;
use halite_wire::Value;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../../docs/compatibility.md");

/// How halite compares to Salt in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Compatibility {
    /// As in Salt.
    Same,
    /// Works, but not exactly as in Salt.
    Different,
    /// Missing.
    Absent,
}

impl Compatibility {
    fn parse(word: &str) -> Option<Compatibility> {
        match word {
            "same" | "new" | "ours" => Some(Compatibility::Same),
            "different" | "partly" => Some(Compatibility::Different),
            "not there" => Some(Compatibility::Absent),
            _ => None,
        }
    }
}

/// A row about an option.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// How halite compares to Salt here.
    pub state: Compatibility,
    /// The difference and its reason.
    pub text: String,
    role: Role,
    option: String,
    /// The row applies to this value only.
    value: Option<String>,
    /// The row does not apply to this value.
    other_than: Option<String>,
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(TEXT));

/// The rows about an option with this value, the most severe first.
pub(super) fn about(name: &str, value: &Value, role: Role) -> Vec<&'static Row> {
    let fits = |row: &&Row| {
        row.role == role
            && row.option == name
            && row.value.as_deref().is_none_or(|v| is(value, v))
            && row.other_than.as_deref().is_none_or(|v| !is(value, v))
    };
    let mut found: Vec<&Row> = ROWS.iter().filter(fits).collect();
    found.sort_by_key(|row| std::cmp::Reverse(row.state));
    found
}

/// Whether a value matches the one named in a row: equal, a string that starts with it (`udp://...`), or a map
/// with that key.
fn is(value: &Value, word: &str) -> bool {
    match (value, word.strip_suffix("...")) {
        (Value::Map(map), _) => map.contains(word),
        (Value::Bool(on), _) => on.to_string() == word,
        (Value::Str(text), Some(begin)) => text.starts_with(begin),
        (other, _) => python_str(other) == word,
    }
}

impl Row {
    /// Whether the row is about one value, not about the option as such.
    pub(super) fn is_of_value(&self) -> bool {
        self.value.is_some()
    }
}

fn rows(text: &str) -> Vec<Row> {
    let mut out = Vec::new();
    let mut role = Role::Master;
    let mut heads: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            role = if title.starts_with("halite-minion") {
                Role::Minion
            } else {
                Role::Master
            };
        }
        let Some(inner) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
            heads.clear();
            continue;
        };
        if inner.starts_with("---") {
            continue;
        }
        let cells: Vec<&str> = cells(inner);
        if heads.is_empty() {
            heads = cells;
            continue;
        }
        let (Some(first), Some(second)) = (cells.first(), cells.get(1)) else {
            continue;
        };
        let last = cells.get(2).copied().unwrap_or_default();
        let state = match heads.get(1..) {
            Some(["state", ..]) => Compatibility::parse(second),
            Some(["stock", "halite"]) => {
                Some(Compatibility::parse(second).unwrap_or(Compatibility::Different))
            }
            _ => None,
        };
        let Some(state) = state else {
            continue;
        };
        let text = match heads.get(1) {
            Some(&"stock") => format!("{}: {}", plain(first), plain(last)),
            _ => plain(last),
        };
        out.extend(named(first).map(|(option, value, other_than)| Row {
            state,
            text: text.clone(),
            role,
            option,
            value,
            other_than,
        }));
    }
    out
}

/// The cells of a row; an escaped bar, or one inside backticks, is text.
fn cells(row: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut from, mut quoted, mut before) = (0, false, ' ');
    for (at, c) in row.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '|' if !quoted && before != '\\' => {
                out.push(row[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    out.push(row[from..].trim());
    out
}

/// Parses text in backticks: `option`, `option: value`, and `option` other than `value`.
fn named(cell: &str) -> impl Iterator<Item = (String, Option<String>, Option<String>)> {
    let parts: Vec<&str> = cell.split('`').collect();
    let mut out: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
        if let ([" other than ", value], Some(last)) = (pair, out.last_mut()) {
            last.2 = Some((*value).to_owned());
            continue;
        }
        let (option, value) = match pair[1].split_once(": ") {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (pair[1], None),
        };
        out.push((option.to_owned(), value, None));
    }
    out.into_iter()
}

/// Converts Markdown to plain text: links become their text, backticks are removed.
fn plain(cell: &str) -> String {
    let mut out = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        let Some((words, target)) = link.split_once("](") else {
            out.push('[');
            rest = link;
            continue;
        };
        out.push_str(words);
        rest = target.split_once(')').map_or("", |(_, rest)| rest);
    }
    out.push_str(rest);
    out.replace('`', "").replace("\\|", "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_understood() {
        assert!(ROWS.len() > 100, "{}", ROWS.len());
        let state =
            |name: &str, value: Value, role| about(name, &value, role).first().map(|r| r.state);
        let master = |name: &str, value: Value| state(name, value, Role::Master);
        assert_eq!(
            master("max_minions", 5.into()),
            Some(Compatibility::Different)
        );
        assert_eq!(
            master("auto_accept", true.into()),
            Some(Compatibility::Same)
        );
        assert_eq!(
            master("engines", "x".into()),
            Some(Compatibility::Different)
        );
        assert_eq!(
            master("ipc_mode", "tcp".into()),
            Some(Compatibility::Absent)
        );
        assert_eq!(
            master("transport", "tcp".into()),
            Some(Compatibility::Different)
        );
        assert_eq!(master("cache", "localfs".into()), None);
        assert_eq!(master("cache", "redis".into()), Some(Compatibility::Absent));
        assert_eq!(master("worker_threads", 5.into()), None);
        assert_eq!(master("log_file", "/var/log/salt/master".into()), None);
        assert_eq!(
            master("log_file", "tcp://h:514".into()),
            Some(Compatibility::Absent)
        );
        let ldap = halite_wire::map! {"ldap" => halite_wire::Map::new()};
        let systems = about("external_auth", &Value::Map(ldap), Role::Master);
        assert!(systems[0].is_of_value() && systems[0].state == Compatibility::Different);
        let minion = |value: bool| state("multiprocessing", value.into(), Role::Minion);
        assert_eq!(
            (minion(false), minion(true)),
            (Some(Compatibility::Different), None)
        );
    }

    #[test]
    fn rows_are_taken_apart() {
        let table = "| feature | state | difference |\n|---|---|---|\n\
                     | `a`, `b: x` other than `y` | partly | see [here](x.md) and `c \\| d` |\n\
                     | `e` | odd | |\n\ntext\n| | stock | halite |\n|---|---|---|\n| `f` | old | new |\n";
        let found: Vec<(String, Compatibility, String)> = rows(table)
            .into_iter()
            .map(|r| (r.option, r.state, r.text))
            .collect();
        let text = "see here and c | d".to_owned();
        assert_eq!(
            found,
            [
                ("a".into(), Compatibility::Different, text.clone()),
                ("b".into(), Compatibility::Different, text),
                ("f".into(), Compatibility::Different, "f: new".into()),
            ]
        );
    }
}

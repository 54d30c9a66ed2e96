//! Statements of users.

use super::super::declare::Result;
use super::super::{Call, python};
use super::client::{self, Answer};
use super::database::connection;
use crate::files::MAX_CONTENT;
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value, map};
use std::time::{Duration, Instant};

/// How long a statement took, as stock tells it.
fn time(took: Duration) -> Map {
    let seconds = took.as_secs_f64();
    let human = if seconds < 0.2 {
        format!("{}ms", shown(seconds * 1000.0, 10.0))
    } else {
        format!("{}s", shown(seconds, 100.0))
    };
    map! {"human" => human, "raw" => shown(seconds, 100_000.0)}
}

/// A number rounded to a part of one, as Python prints it.
fn shown(number: f64, parts: f64) -> String {
    python::str(&Value::Float((number * parts).round() / parts))
}

/// Whether stock takes a statement for one that returns rows.
fn is_select(statement: &str) -> bool {
    let start = statement.trim().to_uppercase();
    ["SELECT", "SHOW", "DESC"]
        .iter()
        .any(|word| start.starts_with(word))
}

fn returned(answer: Answer, statement: &str, took: Duration) -> Map {
    let mut ret = map! {"query time" => time(took)};
    if !is_select(statement) {
        ret.set("rows affected", answer.affected);
        return ret;
    }
    ret.set("rows returned", answer.affected);
    ret.set("columns", answer.columns);
    let rows = answer.rows.into_iter().map(|row| {
        let values = row.into_iter().map(|(_, value)| Value::from(value));
        Value::Array(values.collect())
    });
    ret.set("results", rows.collect::<Vec<_>>());
    ret
}

/// The result of one statement; nothing without a connection, false if it fails.
fn one(call: &mut Call<'_>, with: &Map, database: &str, statement: &str) -> Result {
    let statement = statement.replace("%%", "%");
    let began = Instant::now();
    match client::query(call, with, database, &statement)? {
        Ok(answer) => Ok(returned(answer, &statement, began.elapsed()).into()),
        Err(fault) => {
            client::tolerate(&fault)?;
            Ok(if fault.connected {
                false.into()
            } else {
                Map::new().into()
            })
        }
    }
}

/// `query`.
pub fn query(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let database = call.text("database").unwrap_or_default();
    let statement = python::str(call.arg("query"));
    one(call, &with, &database, &statement)
}

/// `file_query`.
pub fn file_query(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let database = call.text("database").unwrap_or_default();
    let mut path = python::str(call.arg("file_name"));
    let remote = ["salt://", "http://", "https://", "swift://", "s3://"];
    if remote.iter().any(|start| path.starts_with(start)) {
        let cached = call.salt("cp.cache_file", vec![path.into()], Map::new())?;
        path = python::str(&cached);
    }
    let Ok(bytes) = read_finite(path.as_ref(), MAX_CONTENT) else {
        log::error!("File \"{path}\" does not exist");
        return Ok(false.into());
    };
    let text = String::from_utf8_lossy(&bytes);
    let (mut seconds, mut returned, mut affected) = (0.0, 0, 0);
    let (mut columns, mut results) = (Vec::new(), Vec::new());
    for statement in statements(&text) {
        let ret = one(call, &with, &database, &statement)?;
        let Value::Map(ret) = ret else {
            return Ok(false.into());
        };
        let raw = ret
            .get("query time")
            .and_then(|time| time.as_map()?.str("raw"));
        seconds += raw
            .and_then(|raw| raw.parse::<f64>().ok())
            .unwrap_or_default();
        returned += ret.int("rows returned").unwrap_or_default();
        affected += ret.int("rows affected").unwrap_or_default();
        columns.extend(ret.get("columns").cloned());
        results.extend(ret.get("results").cloned());
    }
    let mut all = map! {
        "rows returned" => returned, "columns" => columns, "results" => results, "rows affected" => affected,
    };
    all.0.retain(|(_, value)| value.truthy());
    let human = format!("{}s", shown(seconds, 100.0));
    let raw = Value::Float((seconds * 100_000.0).round() / 100_000.0);
    all.set("query time", map! {"human" => human, "raw" => raw});
    Ok(all.into())
}

/// The statements of a file without its comments; the last one needs a semicolon too.
fn statements(text: &str) -> Vec<String> {
    let (mut all, mut one) = (Vec::new(), String::new());
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(end) = quote {
            one.push(c);
            if c == '\\' && end != '`' {
                one.extend(chars.next());
            } else if c == end {
                quote = None;
            }
            continue;
        }
        match c {
            '\'' | '"' | '`' => {
                quote = Some(c);
                one.push(c);
            }
            '#' => skip_line(&mut chars),
            '-' if is_comment(&chars) => skip_line(&mut chars),
            // Comments for the server are statements.
            '/' if chars.peek() == Some(&'*') && !hints(&chars) => skip_block(&mut chars),
            ';' => {
                if !one.trim().is_empty() {
                    all.push(format!("{};", one.trim()));
                }
                one.clear();
            }
            c => one.push(c),
        }
    }
    all
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// After a first hyphen: another one, and the end of a word.
fn is_comment(chars: &Chars<'_>) -> bool {
    let mut ahead = chars.clone();
    ahead.next() == Some('-') && ahead.next().is_none_or(char::is_whitespace)
}

fn hints(chars: &Chars<'_>) -> bool {
    let mut ahead = chars.clone();
    ahead.next();
    matches!(ahead.next(), Some('!' | '+' | 'M'))
}

fn skip_line(chars: &mut Chars<'_>) {
    while chars.next_if(|c| *c != '\n').is_some() {}
}

fn skip_block(chars: &mut Chars<'_>) {
    chars.next();
    while let Some(c) = chars.next() {
        if c == '*' && chars.next_if_eq(&'/').is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_split() {
        let text = "-- first;\nSELECT 1\n  FROM a; # c;\n/* x; */ INSERT INTO t VALUES ('a;--b', \"c\\\";\");\n;\nSELECT 2";
        let expected = [
            "SELECT 1\n  FROM a;",
            "INSERT INTO t VALUES ('a;--b', \"c\\\";\");",
        ];
        assert_eq!(statements(text), expected);
    }

    #[test]
    fn times_are_told_as_stock_does() {
        let told = time(Duration::from_micros(123));
        assert_eq!(
            (told.str("human"), told.str("raw")),
            (Some("0.1ms"), Some("0.00012"))
        );
        assert_eq!(
            time(Duration::from_millis(1234)).str("human"),
            Some("1.23s")
        );
    }
}

//! JSON lines: one object per record.

use super::fields::Fields;
use super::salt::level_name;
use log::Record;
use serde_json::Value;

/// The line of a record, with a newline. Times are UTC, RFC 3339 with microseconds.
pub(super) fn line(record: &Record) -> String {
    let time = format!("{:.6}", jiff::Timestamp::now());
    let mut object = serde_json::Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("time", time.into());
    put("level", level_name(record.level()).into());
    put("name", super::logger_name(record.target()).into());
    put("process", std::process::id().into());
    put("message", record.args().to_string().into());
    for (field, value) in Fields::of(record).iter() {
        put(field.name(), value.into());
    }
    let mut line = plain(Value::Object(object).to_string());
    line.push('\n');
    line
}

/// Escapes the control characters that JSON allows but a terminal would interpret.
fn plain(json: String) -> String {
    if !json.contains(char::is_control) {
        return json;
    }
    let shown = |c: char| {
        if c.is_control() {
            format!("\\u{:04x}", u32::from(c))
        } else {
            c.into()
        }
    };
    json.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::Level;
    use log::kv::Source;

    #[test]
    fn a_line_is_one_object() {
        let pairs = [
            ("minion", log::kv::Value::from("web\"1")),
            ("jid", log::kv::Value::from(20260102030405u64)),
            ("password", log::kv::Value::from("hidden")),
        ];
        let values: &dyn Source = &&pairs[..];
        let line = line(
            &Record::builder()
                .level(Level::Info)
                .target("halite_master")
                .args(format_args!("a\nb\u{9b}2J {{"))
                .key_values(values)
                .build(),
        );
        assert!(!line.contains("hidden") && !line.contains('\u{9b}'));
        assert_eq!(line.matches('\n').count(), 1);
        let read: serde_json::Map<String, Value> = serde_json::from_str(&line).unwrap();
        let names: Vec<&str> = read.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "time", "level", "name", "process", "message", "jid", "minion"
            ]
        );
        assert_eq!(read["message"], "a\nb\u{9b}2J {");
        assert_eq!(read["minion"], "web\"1");
        assert_eq!(read["jid"], "20260102030405");
        assert_eq!(read["name"], "halite.master");
        let time = read["time"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        assert_eq!(time.len(), "2026-01-02T03:04:05.678901Z".len());
    }
}

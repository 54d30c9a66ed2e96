//! Files of sections with keys, as Python's `configparser` reads them.

use crate::minion::modules::{Fault, python};
use crate::wire::{Map, Value};
use std::collections::HashSet;

/// Why a file cannot be read.
#[derive(Debug, PartialEq)]
pub enum Bad {
    /// A line before the first section.
    NoSection,
    /// An exception by its class.
    Raised(&'static str, String),
}

impl From<Bad> for Fault {
    fn from(bad: Bad) -> Fault {
        match bad {
            Bad::NoSection => Fault::raised("configparser.MissingSectionHeaderError", ""),
            Bad::Raised(class, text) => Fault::raised(&format!("configparser.{class}"), text),
        }
    }
}

/// What the lines of a value become: one text.
fn joined(lines: &[String]) -> String {
    lines.join("\n").trim_end().to_owned()
}

/// The sections with their keys, without the section `DEFAULT`. With `strict` nothing may stand there twice.
///
/// # Errors
/// The text is no such file; `path` is named.
pub fn parse(text: &str, path: &str, strict: bool) -> Result<Map, Bad> {
    let mut sections: Vec<(String, Vec<(String, Vec<String>)>)> = Vec::new();
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    let mut current: Option<usize> = None;
    // The key that indented lines go on with.
    let mut option: Option<usize> = None;
    let mut indent = 0;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let value = line.trim();
        let comment = value.starts_with(['#', ';']);
        if comment || value.is_empty() {
            // An empty line belongs to the value before it; a comment is nothing.
            match current.zip(option).filter(|_| !comment) {
                Some((section, key)) => sections[section].1[key].1.push(String::new()),
                None if !comment => indent = usize::MAX,
                None => {}
            }
            continue;
        }
        let own = line.chars().take_while(|c| c.is_whitespace()).count();
        if let Some((section, key)) = current.zip(option).filter(|_| own > indent) {
            sections[section].1[key].1.push(value.to_owned());
            continue;
        }
        indent = own;
        if let Some(name) = header(value) {
            option = None;
            let known = sections.iter().position(|(n, _)| n == name);
            if known.is_some() && strict && name != "DEFAULT" {
                let text = format!(
                    "While reading from {} [line {number:2}]: section {} already exists",
                    quoted(path),
                    quoted(name)
                );
                return Err(Bad::Raised("DuplicateSectionError", text));
            }
            current = Some(known.unwrap_or(sections.len()));
            if known.is_none() {
                sections.push((name.to_owned(), Vec::new()));
            }
            continue;
        }
        let Some(at) = current else {
            return Err(Bad::NoSection);
        };
        let Some(split) = value.find(['=', ':']) else {
            wrong.push(format!(
                "\n\t[line {number:2}]: {}",
                quoted(&format!("{line}\n"))
            ));
            continue;
        };
        let key = value[..split].trim_end().to_lowercase();
        if key.is_empty() {
            wrong.push(format!(
                "\n\t[line {number:2}]: {}",
                quoted(&format!("{line}\n"))
            ));
        }
        let (name, keys) = &mut sections[at];
        if !seen.insert((name.clone(), key.clone())) && strict {
            let text = format!(
                "While reading from {} [line {number:2}]: option {} in section {} already exists",
                quoted(path),
                quoted(&key),
                quoted(name)
            );
            return Err(Bad::Raised("DuplicateOptionError", text));
        }
        let lines = vec![value[split + 1..].trim().to_owned()];
        // The place of the first, the value of the last.
        option = keys.iter().position(|(k, _)| *k == key);
        match option {
            Some(at) => keys[at].1 = lines,
            None => {
                option = Some(keys.len());
                keys.push((key, lines));
            }
        }
    }
    if !wrong.is_empty() {
        let text = format!(
            "Source contains parsing errors: {}{}",
            quoted(path),
            wrong.concat()
        );
        return Err(Bad::Raised("ParsingError", text));
    }
    sections.retain(|(name, _)| name != "DEFAULT");
    let keys = |keys: Vec<(String, Vec<String>)>| -> Map {
        keys.into_iter()
            .map(|(k, lines)| (k, joined(&lines)))
            .collect()
    };
    Ok(sections
        .into_iter()
        .map(|(name, k)| (name, keys(k)))
        .collect())
}

/// The name in a line that begins a section.
fn header(value: &str) -> Option<&str> {
    let (name, _) = value.strip_prefix('[')?.rsplit_once(']')?;
    (!name.is_empty()).then_some(name)
}

fn quoted(text: &str) -> String {
    crate::wire::pytext::repr(&Value::from(text))
}

/// A line of a file: a value of several lines is indented.
pub fn line(key: &str, value: &Value) -> String {
    match value {
        Value::Str(text) => format!("{key}={}", text.split('\n').collect::<Vec<_>>().join("\n ")),
        Value::Bool(on) => format!("{key}={}", i32::from(*on)),
        other => format!("{key}={}", python::str(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;

    #[test]
    fn files_are_read_as_python_reads_them() {
        let text = "# head\n[a]\nName : One\nbaseurl=http://x/\n  http://y/\n# between\n\nenabled = 1\n[b]\nx=\n";
        let wanted = map! {
            "a" => map! {"name" => "One", "baseurl" => "http://x/\nhttp://y/", "enabled" => "1"},
            "b" => map! {"x" => ""},
        };
        assert_eq!(parse(text, "f", true), Ok(wanted));
        assert_eq!(parse("x=1\n", "f", true), Err(Bad::NoSection));
        let raised = |text| match parse(text, "/f", true) {
            Err(Bad::Raised(class, text)) => format!("{class}: {text}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            raised("[a]\n[a]\n"),
            "DuplicateSectionError: While reading from '/f' [line  2]: section 'a' already exists"
        );
        assert_eq!(
            raised("[a]\nb=1\nb=2\n"),
            "DuplicateOptionError: While reading from '/f' [line  3]: option 'b' in section 'a' already exists"
        );
        assert_eq!(
            raised("[a]\nword\n"),
            "ParsingError: Source contains parsing errors: '/f'\n\t[line  2]: 'word\\n'"
        );
        let twice = parse("[a]\nb=1\n[a]\nb=2\nc=3\n", "/f", false);
        assert_eq!(twice, Ok(map! {"a" => map! {"b" => "2", "c" => "3"}}));
        let again = parse("[a]\nb=1\nc=2\nb=3\n 4\n", "/f", false);
        assert_eq!(again, Ok(map! {"a" => map! {"b" => "3\n4", "c" => "2"}}));
    }

    #[test]
    fn lines() {
        assert_eq!(line("a", &"b\nc".into()), "a=b\n c");
        assert_eq!(line("a", &true.into()), "a=1");
        assert_eq!(line("a", &7.into()), "a=7");
    }
}

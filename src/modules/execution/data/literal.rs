//! Python literals in text (`ast.literal_eval`): strings, numbers, lists, tuples, dicts and named constants.

use super::super::CallError;
use crate::execution::declare::Result;
use halite_wire::{Map, Value};

/// Maximum nesting depth.
const MAX_DEPTH: u32 = 64;

/// Parses one literal.
///
/// # Errors
/// `SyntaxError` or `ValueError`, as in Python.
pub fn parse(text: &str) -> Result {
    let mut reader = Reader {
        rest: text.trim(),
        depth: 0,
    };
    let value = reader.value()?;
    reader.blank();
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(syntax())
    }
}

fn syntax() -> CallError {
    CallError::raised("SyntaxError", "invalid syntax")
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl Reader<'_> {
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, mark: char) -> bool {
        self.blank();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Result {
        self.blank();
        match self.rest.chars().next() {
            Some('{') => self.nested(|r| r.map()),
            Some('[') => self.nested(|r| r.items(']').map(|(items, _)| items.into())),
            Some('(') => self.nested(|r| {
                let (mut items, commas) = r.items(')')?;
                match items.pop() {
                    Some(only) if items.is_empty() && commas == 0 => Ok(only),
                    Some(last) => {
                        items.push(last);
                        Ok(items.into())
                    }
                    None => Ok(items.into()),
                }
            }),
            Some('\'' | '"') => self.text().map(Value::from),
            Some(c) if c.is_ascii_digit() || "+-.".contains(c) => self.number(),
            Some(_) => self.name(),
            None => Err(syntax()),
        }
    }

    fn nested(&mut self, read: impl Fn(&mut Self) -> Result) -> Result {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CallError::raised("MemoryError", "nested too deeply"));
        }
        self.rest = &self.rest[1..];
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Items up to the end mark, and the number of commas.
    fn items(&mut self, end: char) -> Result<(Vec<Value>, usize)> {
        let (mut items, mut commas) = (Vec::new(), 0);
        while !self.take(end) {
            items.push(self.value()?);
            if self.take(',') {
                commas += 1;
            } else if self.take(end) {
                break;
            } else {
                return Err(syntax());
            }
        }
        Ok((items, commas))
    }

    fn map(&mut self) -> Result {
        let mut map = Map::new();
        while !self.take('}') {
            let key = self.value()?;
            if !self.take(':') {
                return Err(syntax());
            }
            let value = self.value()?;
            map.0.retain(|(k, _)| *k != key);
            map.0.push((key, value));
            if self.take(',') {
                continue;
            }
            if self.take('}') {
                break;
            } else {
                return Err(syntax());
            }
        }
        Ok(map.into())
    }

    fn text(&mut self) -> Result<String> {
        let mut chars = self.rest.char_indices();
        let quote = chars.next().map(|(_, c)| c).ok_or_else(syntax)?;
        let mut out = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\n' => return Err(syntax()),
                '\\' => out.push_str(&escape(&mut chars)?),
                c => out.push(c),
            }
        }
        Err(CallError::raised(
            "SyntaxError",
            "unterminated string literal",
        ))
    }

    fn number(&mut self) -> Result {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let word = word.replace('_', "");
        let value = match word.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => Value::Float(word.parse().map_err(|_| syntax())?),
        };
        self.rest = rest;
        Ok(value)
    }

    fn name(&mut self) -> Result {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let value = match word {
            "None" => Value::Nil,
            "True" => true.into(),
            "False" => false.into(),
            "" => return Err(syntax()),
            _ => return Err(CallError::raised("ValueError", "malformed node or string")),
        };
        self.rest = rest;
        Ok(value)
    }
}

/// The escape after a backslash.
fn escape(chars: &mut std::str::CharIndices) -> Result<String> {
    let (_, c) = chars.next().ok_or_else(syntax)?;
    let digits = match c {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => {
            return Ok(match c {
                'n' => "\n".to_owned(),
                't' => "\t".to_owned(),
                'r' => "\r".to_owned(),
                '0' => "\0".to_owned(),
                '\n' => String::new(),
                '\\' | '\'' | '"' => c.to_string(),
                other => format!("\\{other}"),
            });
        }
    };
    let word: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
    let code = u32::from_str_radix(&word, 16)
        .ok()
        .filter(|_| word.len() == digits);
    let found = code.and_then(char::from_u32).ok_or_else(syntax)?;
    Ok(found.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::pytext::repr;

    #[test]
    fn literals() {
        let read = |text: &str| repr(&parse(text).unwrap());
        assert_eq!(
            read("{'a': 1, \"b\": [1.5, None, True,],}"),
            "{'a': 1, 'b': [1.5, None, True]}"
        );
        assert_eq!(read("(1)"), "1");
        assert_eq!(read("(1,)"), "[1]");
        assert_eq!(read(r"'it\'s \x41\u00e4'"), "\"it's Aä\"");
        assert_eq!(read("-3"), "-3");
        for bad in ["", "{", "[1", "{1}", "'a", "1 2", "a", "f()", "[1 2]"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

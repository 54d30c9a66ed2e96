//! From YAML to a [`Datum`].

use super::scalar::{Plain, scan};
use crate::ruby::error::{DatumError, budget};
use crate::ruby::{Datum, pairs};
use halite_wire::base64;
use halite_wire::budget::{Budget, Exceeded, deeper};
use halite_wire::yaml::check_characters;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

/// Reads the only document of a text, as `YAML.load` does; an empty text is `nil`.
///
/// Of duplicate keys the last is used. `<<` merges the hash that is its value.
///
/// # Errors
/// Bad syntax, a second document, anchors, aliases, tags other than those of data, or an exceeded limit.
pub fn read(data: &[u8]) -> Result<Datum, DatumError> {
    let mut reader = Reader {
        budget: budget(data.len())?,
        open: Vec::new(),
        root: None,
    };
    let text = std::str::from_utf8(data).map_err(|_| malformed("it is not UTF-8"))?;
    check_characters(text).map_err(|e| malformed(&e.to_string()))?;
    let mut documents = 0;
    let mut parser = Parser::new_from_str(without_end(text));
    while let Some(step) = parser.next_event() {
        let (event, _) = step.map_err(|e| scan_error(&e))?;
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(malformed("a second document follows"));
                }
            }
            Event::Alias(_) => return Err(dangerous("an alias of YAML")),
            Event::Scalar(text, style, anchor, tag) => {
                no_anchor(anchor)?;
                reader.budget.take(1)?;
                reader.budget.take_text(text.len())?;
                let item = scalar(&text, style, tag.as_deref())?;
                reader.add(item);
            }
            Event::SequenceStart(anchor, tag) => {
                no_anchor(anchor)?;
                no_tag(tag.as_deref(), "seq")?;
                reader.begin(Open::Array(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                no_anchor(anchor)?;
                no_tag(tag.as_deref(), "map")?;
                reader.begin(Open::Hash(Vec::new(), None))?;
            }
            Event::SequenceEnd | Event::MappingEnd => reader.end(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok(reader.root.unwrap_or_default())
}

/// The text without the mark of its end, which says nothing here. libyaml puts it behind text that ends in empty lines; if
/// there are only such lines, the parser would take the mark for one of them.
fn without_end(text: &str) -> &str {
    let before = text.strip_suffix("...\n");
    before.filter(|text| text.ends_with('\n')).unwrap_or(text)
}

fn malformed(what: &str) -> DatumError {
    DatumError::Malformed(format!("as YAML, {what}"))
}

/// The scanner has its own limit on nested brackets.
fn scan_error(e: &ScanError) -> DatumError {
    if e.info().starts_with("recursion limit") {
        Exceeded::Depth.into()
    } else {
        malformed(&e.to_string())
    }
}

fn dangerous(what: &str) -> DatumError {
    DatumError::Dangerous(what.to_owned())
}

fn no_anchor(anchor: usize) -> Result<(), DatumError> {
    match anchor {
        0 => Ok(()),
        _ => Err(dangerous("an anchor of YAML")),
    }
}

/// The name of a tag; `None` for a lone `!`, which precedes text that could not be written plain.
fn tag_name(tag: Option<&Tag>) -> Option<String> {
    let tag = tag.map(|tag| format!("{}{}", tag.handle, tag.suffix));
    tag.filter(|name| name != "!")
}

fn no_tag(tag: Option<&Tag>, allowed: &str) -> Result<(), DatumError> {
    match tag_name(tag) {
        Some(name) if name.strip_prefix("tag:yaml.org,2002:") != Some(allowed) => {
            Err(foreign(&name))
        }
        _ => Ok(()),
    }
}

fn foreign(name: &str) -> DatumError {
    let name: String = name.chars().take(80).collect();
    dangerous(&format!("the tag {name:?} of YAML"))
}

/// A value, and whether it may be the merge key `<<`.
struct Item {
    datum: Datum,
    merges: bool,
}

impl From<Datum> for Item {
    fn from(datum: Datum) -> Item {
        let merges = datum == Datum::Str("<<".to_owned());
        Item { datum, merges }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Item, DatumError> {
    let plain = || {
        Ok(match scan(text)? {
            Plain::Value(datum) => datum,
            Plain::Ambiguous => text.into(),
        })
    };
    let Some(name) = tag_name(tag) else {
        // After a lone `!`, text is resolved as if it had no quotes.
        let quoted = style != ScalarStyle::Plain && tag.is_none();
        return if quoted {
            Ok(Datum::from(text).into())
        } else {
            plain().map(Item::from)
        };
    };
    let datum = match name.strip_prefix("tag:yaml.org,2002:").unwrap_or(&name) {
        "str" | "!str" => {
            let (datum, merges) = (text.into(), false);
            return Ok(Item { datum, merges });
        }
        "int" | "bool" | "null" => plain()?,
        "float" | "!float" => match plain()? {
            Datum::Int(number) => Datum::Float(number as f64),
            number @ Datum::Float(_) => number,
            _ => return Err(malformed("what is tagged as a float is not a float")),
        },
        "binary" | "!binary" => {
            let noise = || malformed("what is tagged as binary is not base64");
            Datum::Bytes(base64::decode_lines(text).ok_or_else(noise)?)
        }
        "!ruby/symbol" | "!ruby/sym" => Datum::symbol(text),
        "!ruby/regexp" => regexp(text)?,
        _ => return Err(foreign(&name)),
    };
    Ok(datum.into())
}

/// `/source/options`
fn regexp(text: &str) -> Result<Datum, DatumError> {
    let bad = || malformed("what is tagged as a regular expression is not one");
    let body = text.strip_prefix('/').ok_or_else(bad)?;
    let (source, letters) = body.rsplit_once('/').ok_or_else(bad)?;
    let mut options = 0;
    for letter in letters.chars() {
        options |= match letter {
            'i' => 1,
            'x' => 2,
            'm' => 4,
            'n' => 0,
            _ => return Err(bad()),
        };
    }
    Ok(Datum::Regexp {
        source: unescaped(source),
        options,
    })
}

/// Removes the escapes that Ruby adds to a source between slashes.
fn unescaped(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some('/')) => {}
            ('\\', Some(next)) => {
                out.extend([c, next]);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

/// An open container.
enum Open {
    Array(Vec<Datum>),
    /// Pairs, and the key that has no value yet.
    Hash(Vec<(Item, Datum)>, Option<Item>),
}

struct Reader {
    budget: Budget,
    open: Vec<Open>,
    root: Option<Datum>,
}

impl Reader {
    fn begin(&mut self, container: Open) -> Result<(), DatumError> {
        self.budget.take(1)?;
        deeper(self.open.len())?;
        self.open.push(container);
        Ok(())
    }

    fn add(&mut self, item: Item) {
        match self.open.last_mut() {
            None => self.root = Some(item.datum),
            Some(Open::Array(items)) => items.push(item.datum),
            Some(Open::Hash(pairs, key)) => match key.take() {
                Some(key) => pairs.push((key, item.datum)),
                None => *key = Some(item),
            },
        }
    }

    fn end(&mut self) {
        let datum = match self.open.pop() {
            None => return,
            Some(Open::Array(items)) => Datum::Array(items),
            Some(Open::Hash(pairs, _)) => Datum::Hash(merged(pairs)),
        };
        let merges = false;
        self.add(Item { datum, merges });
    }
}

/// The pairs of a hash: merges `<<`, and of duplicate keys uses the last value.
fn merged(read: Vec<(Item, Datum)>) -> Vec<(Datum, Datum)> {
    let mut out = Vec::with_capacity(read.len());
    for (key, value) in read {
        match value {
            Datum::Hash(inner) if key.merges => out.extend(inner),
            Datum::Array(items)
                if key.merges && items.iter().all(|i| matches!(i, Datum::Hash(_))) =>
            {
                // The first of them overrides the others.
                for item in items.into_iter().rev() {
                    if let Datum::Hash(inner) = item {
                        out.extend(inner);
                    }
                }
            }
            value => out.push((key.datum, value)),
        }
    }
    pairs::unique(out.into_iter())
}

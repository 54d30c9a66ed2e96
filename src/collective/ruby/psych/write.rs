//! From a [`Datum`] to YAML (`Psych.dump`).

use super::scalar::{Plain, scan};
use crate::ruby::{Datum, float_text};
use halite_wire::base64;
use halite_wire::yaml::lines::{INDENT, Lines, SIMPLE_KEY};
use halite_wire::yaml::style::{Analysis, Style, is_break};
use std::borrow::Cow;

/// Writes a document exactly as `Psych.dump`, but without anchors.
///
/// [`Datum::Bytes`] that are all ASCII are written as text, and symbols whose name would be read as another one with a tag.
pub fn write(datum: &Datum) -> String {
    let mut lines = Lines::new();
    lines.indicator("---", true, false);
    node(&mut lines, datum, Context::Root);
    lines.write_indent();
    if lines.open_ended {
        lines.out.push_str("...\n");
    }
    lines.out
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Root,
    Sequence,
    Mapping,
    SimpleKey,
}

fn node(lines: &mut Lines, datum: &Datum, context: Context) {
    match datum {
        Datum::Array(items) if items.is_empty() => lines.indicator("[]", true, false),
        Datum::Hash(pairs) if pairs.is_empty() => lines.indicator("{}", true, false),
        Datum::Array(items) => {
            let indentless = context == Context::Mapping && !lines.indention;
            let outer = deeper(lines, indentless);
            for item in items {
                lines.write_indent();
                lines.indicator("-", true, true);
                node(lines, item, Context::Sequence);
            }
            lines.indent = outer;
        }
        Datum::Hash(pairs) => {
            let outer = deeper(lines, false);
            for (key, value) in pairs {
                lines.write_indent();
                entry(lines, key, value);
            }
            lines.indent = outer;
        }
        leaf => scalar(lines, &Scalar::of(leaf), context == Context::SimpleKey),
    }
}

/// Starts a level; returns the indent of the outer one.
fn deeper(lines: &mut Lines, indentless: bool) -> isize {
    let outer = lines.indent;
    lines.indent = match outer {
        ..0 => 0,
        _ if indentless => outer,
        _ => outer + INDENT,
    };
    outer
}

fn entry(lines: &mut Lines, key: &Datum, value: &Datum) {
    let simple = match key {
        Datum::Array(items) => items.is_empty(),
        Datum::Hash(pairs) => pairs.is_empty(),
        leaf => {
            let Scalar { text, tag, .. } = Scalar::of(leaf);
            let length = text.len() + tag.map_or(0, str::len);
            !text.contains(is_break) && length <= SIMPLE_KEY
        }
    };
    if simple {
        node(lines, key, Context::SimpleKey);
        lines.indicator(":", false, false);
    } else {
        lines.indicator("?", true, true);
        node(lines, key, Context::Mapping);
        lines.write_indent();
        lines.indicator(":", true, true);
    }
    node(lines, value, Context::Mapping);
}

/// A scalar as Psych passes it to libyaml.
struct Scalar<'a> {
    text: Cow<'a, str>,
    tag: Option<&'static str>,
    style: Style,
    /// Whether it means the same in quotes; if not, a `!` is written before the quotes.
    quotable: bool,
}

impl<'a> Scalar<'a> {
    fn plain(text: impl Into<Cow<'a, str>>) -> Self {
        Scalar {
            text: text.into(),
            tag: None,
            style: Style::Plain,
            quotable: false,
        }
    }

    fn tagged(tag: &'static str, text: impl Into<Cow<'a, str>>, style: Style) -> Self {
        Scalar {
            text: text.into(),
            tag: Some(tag),
            style,
            quotable: false,
        }
    }

    fn text(text: &'a str) -> Self {
        if text == "<<" {
            return Scalar::tagged("!!str", text, Style::Single);
        }
        // Line ends except up to two at the end.
        let one = text.strip_suffix('\n').unwrap_or(text);
        let inner = one.strip_suffix('\n').filter(|_| one.len() < text.len());
        let style = if inner.unwrap_or(one).contains('\n') {
            Style::Literal
        } else if text == "y" || text == "n" || begins_with_sign(text) {
            Style::Double
        } else if misread(text) {
            Style::Single
        } else {
            Style::Plain
        };
        Scalar {
            text: text.into(),
            tag: None,
            style,
            quotable: true,
        }
    }

    fn of(datum: &'a Datum) -> Self {
        match datum {
            Datum::Nil | Datum::Array(_) | Datum::Hash(_) => Scalar::plain(""),
            Datum::Bool(flag) => Scalar::plain(if *flag { "true" } else { "false" }),
            Datum::Int(number) => Scalar::plain(number.to_string()),
            Datum::Float(number) => Scalar::plain(float(*number)),
            Datum::Symbol(name) => {
                let text = format!(":{name}");
                match scan(&text) {
                    Ok(Plain::Value(read)) if read == *datum => Scalar::plain(text),
                    _ => Scalar::tagged("!ruby/symbol", name, Style::Plain),
                }
            }
            Datum::Str(text) => Scalar::text(text),
            Datum::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if text.is_ascii() => Scalar::text(text),
                _ => Scalar::tagged("!binary", base64::encode(bytes), Style::Literal),
            },
            Datum::Regexp { source, options } => {
                let letters = [(4, 'm'), (1, 'i'), (2, 'x')];
                let letters = letters.iter().filter(|(bit, _)| options & bit != 0);
                let letters: String = letters.map(|(_, letter)| *letter).collect();
                let text = format!("/{}/{letters}", escaped(source));
                Scalar::tagged("!ruby/regexp", text, Style::Plain)
            }
        }
    }
}

/// Whether a line starts with a non-word character and has no double quote after it (`/^[^[:word:]][^"]*$/`).
fn begins_with_sign(text: &str) -> bool {
    let mut begins = true;
    for (at, c) in text.char_indices() {
        let word = c.is_alphanumeric() || c == '_';
        if begins && !word {
            let rest = &text[at + c.len_utf8()..];
            if !rest.split('\n').next().unwrap_or_default().contains('"') {
                return true;
            }
        }
        begins = c == '\n';
    }
    false
}

/// Whether plain text would be resolved to something else, by Psych or (octal digits) by others.
fn misread(text: &str) -> bool {
    let text_again = matches!(scan(text), Ok(Plain::Value(Datum::Str(_))));
    let octal = text.strip_prefix('0').is_some_and(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_digit(8));
        rest.starts_with(['8', '9'])
    });
    !text_again || octal
}

/// `Float#to_s`, and YAML's words for infinities and NaN.
fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => ".nan".to_owned(),
        f64::INFINITY => ".inf".to_owned(),
        f64::NEG_INFINITY => "-.inf".to_owned(),
        _ => float_text(number),
    }
}

/// The source of a regular expression between slashes.
fn escaped(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut after_backslash = false;
    for c in source.chars() {
        if c == '/' && !after_backslash {
            out.push('\\');
        }
        after_backslash = c == '\\' && !after_backslash;
        out.push(c);
    }
    out
}

/// Chooses the style as libyaml does, and writes (`yaml_emitter_select_scalar_style`); line ends that readers disagree on are
/// escaped.
fn scalar(lines: &mut Lines, scalar: &Scalar, simple_key: bool) {
    let text = scalar.text.as_ref();
    let analysis = Analysis::of(text);
    // Line ends for libyaml, which folds them, but not for readers of YAML 1.2.
    let unlike = text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    let style = match scalar.style {
        _ if unlike => Style::Double,
        Style::Plain => analysis.plain_style(simple_key, false),
        Style::Single => analysis.quoted_style(simple_key),
        Style::Literal => analysis.block_style(simple_key),
        Style::Double => Style::Double,
    };
    if let Some(tag) = scalar.tag {
        lines.indicator(tag, true, false);
    } else if style != Style::Plain && !scalar.quotable {
        lines.indicator("!", true, false);
    }
    lines.styled(text, style, simple_key);
}

//! INI files as Python's `ConfigParser` reads them.

use super::super::python;
use halite_wire::{Map, Value};
use std::collections::HashSet;

/// Deepest references from value to value.
const MAX_DEPTH: usize = 10;

/// Most references in a file; Python has no limit.
const MAX_REFERENCES: usize = 100_000;

/// The keywords of `ConfigParser` that count when a file is read.
pub struct Options {
    /// Values for all sections.
    pub defaults: Map,
    /// The section whose values count for all sections.
    pub default_section: String,
    /// Whether a name may stand alone.
    pub allow_no_value: bool,
    /// What ends a name.
    pub delimiters: Vec<String>,
    /// What begins a line that is a comment.
    pub comment_prefixes: Vec<String>,
    /// What begins a comment behind a blank.
    pub inline_comment_prefixes: Vec<String>,
    /// Whether a section or a name may be there only once.
    pub strict: bool,
    /// Whether a value may have empty lines.
    pub empty_lines_in_values: bool,
    /// Whether `%(name)s` is replaced.
    pub interpolates: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            defaults: Map::new(),
            default_section: "DEFAULT".to_owned(),
            allow_no_value: false,
            delimiters: vec!["=".to_owned(), ":".to_owned()],
            comment_prefixes: vec!["#".to_owned(), ";".to_owned()],
            inline_comment_prefixes: Vec::new(),
            strict: true,
            empty_lines_in_values: true,
            interpolates: true,
        }
    }
}

/// Names with the lines of their values; `None` for a name that stands alone.
type Lines = Vec<(String, Option<Vec<String>>)>;

/// Names with their values.
type Values = Vec<(String, Option<String>)>;

/// The sections with their values and those that count for all sections, in the words of Python if that fails.
pub fn read(text: &str, options: &Options) -> Result<Map, String> {
    let (defaults, sections) = lines(text, options)?;
    let mut common: Values = options
        .defaults
        .iter()
        .map(|(name, value)| {
            let value = (!value.is_nil()).then(|| python::str(value));
            (python::str(name).to_lowercase(), value)
        })
        .collect();
    update(&mut common, defaults);
    let mut out = Map::new();
    let mut left = MAX_REFERENCES;
    for (name, own) in sections {
        let mut values = common.clone();
        update(&mut values, own);
        let mut section = Map::new();
        for (key, value) in &values {
            let value = match value {
                Some(raw) if options.interpolates => {
                    let at = Place {
                        section: &name,
                        option: key,
                        raw,
                    };
                    let mut text = String::new();
                    at.interpolate(&mut text, raw, (&values, &mut left), 1)?;
                    text.into()
                }
                Some(raw) => raw.as_str().into(),
                // As Python's interpolation makes it.
                None if options.interpolates => "".into(),
                None => Value::Nil,
            };
            section.set(key.as_str(), value);
        }
        out.set(name, section);
    }
    Ok(out)
}

/// Sets values, in place where they exist.
fn update(values: &mut Values, lines: Lines) {
    for (name, lines) in lines {
        let value = lines.map(|lines| lines.join("\n").trim_end().to_owned());
        match values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => values.push((name, value)),
        }
    }
}

/// The lines of the section for all, and of the others.
fn lines(text: &str, options: &Options) -> Result<(Lines, Vec<(String, Lines)>), String> {
    let mut defaults = Lines::new();
    let mut sections: Vec<(String, Lines)> = Vec::new();
    let mut seen: HashSet<(String, String)> = HashSet::new();
    // The name of the current section, and where it is; `None` is the one for all.
    let mut current: Option<(String, Option<usize>)> = None;
    let mut in_value = false;
    let mut indent = 0;
    let mut wrong = String::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let bare = line.trim();
        let is_comment = options
            .comment_prefixes
            .iter()
            .any(|p| bare.starts_with(p.as_str()));
        let inline = inline_comment(line, &options.inline_comment_prefixes);
        let value = match inline {
            _ if is_comment => "",
            Some(at) => line[..at].trim(),
            None => bare,
        };
        let section = current.as_ref().and_then(|(_, at)| match at {
            Some(at) => sections.get_mut(*at).map(|(_, lines)| lines),
            None => Some(&mut defaults),
        });
        let last = section
            .and_then(|lines| lines.last_mut())
            .and_then(|(_, lines)| lines.as_mut());
        if value.is_empty() {
            if !options.empty_lines_in_values {
                indent = usize::MAX;
            } else if let Some(last) = last.filter(|_| in_value && !is_comment && inline.is_none())
            {
                last.push(String::new());
            }
            continue;
        }
        let own = line.chars().take_while(|c| c.is_whitespace()).count();
        if let Some(last) = last.filter(|_| in_value && own > indent) {
            last.push(value.to_owned());
            continue;
        }
        indent = own;
        let header = value
            .strip_prefix('[')
            .and_then(|rest| Some(&rest[..rest.rfind(']')?]));
        if let Some(name) = header.filter(|name| !name.is_empty()) {
            let at = sections.iter().position(|(known, _)| known == name);
            if at.is_some() && options.strict {
                return Err(format!(
                    "While reading from '<???>' [line {number:2}]: section {} already exists",
                    python::repr(&name.into())
                ));
            }
            let at = at.or_else(|| {
                (name != options.default_section).then(|| {
                    sections.push((name.to_owned(), Lines::new()));
                    sections.len() - 1
                })
            });
            current = Some((name.to_owned(), at));
            in_value = false;
            continue;
        }
        let shown = || python::repr(&line.into());
        let Some((section, at)) = &current else {
            return Err(format!(
                "File contains no section headers.\nfile: '<???>', line: {number}\n{}",
                shown()
            ));
        };
        let found = options
            .delimiters
            .iter()
            .filter_map(|d| Some((value.find(d.as_str())?, d.len())))
            .min();
        let (name, text) = match found {
            Some((at, len)) => (&value[..at], Some(value[at + len..].trim())),
            None => (value, None),
        };
        if name.is_empty() || text.is_none() && !options.allow_no_value {
            wrong.push_str(&format!("\n\t[line {number:2}]: {}", shown()));
            if !name.is_empty() {
                continue;
            }
        }
        let name = name.trim_end().to_lowercase();
        let is_new = seen.insert((section.clone(), name.clone()));
        if options.strict && !is_new {
            return Err(format!(
                "While reading from '<???>' [line {number:2}]: option {} in section {} already exists",
                python::repr(&name.into()),
                python::repr(&section.as_str().into())
            ));
        }
        let lines = match at {
            Some(at) => &mut sections[*at].1,
            None => &mut defaults,
        };
        // The current value is the last one.
        if !is_new {
            lines.retain(|(known, _)| *known != name);
        }
        lines.push((name, text.map(|text| vec![text.to_owned()])));
        in_value = true;
    }
    match wrong.is_empty() {
        true => Ok((defaults, sections)),
        false => Err(format!("Source contains parsing errors: '<???>'{wrong}")),
    }
}

/// Where a comment begins that follows a blank.
fn inline_comment(line: &str, prefixes: &[String]) -> Option<usize> {
    let starts = |prefix: &String| {
        let mut found = line.match_indices(prefix.as_str()).map(|(at, _)| at);
        found.find(|&at| at == 0 || line[..at].ends_with(char::is_whitespace))
    };
    prefixes.iter().filter_map(starts).min()
}

/// Whose value is read.
struct Place<'a> {
    section: &'a str,
    option: &'a str,
    raw: &'a str,
}

impl Place<'_> {
    /// Appends a text with what it refers to among `values`, while there are references `left`.
    fn interpolate(
        &self,
        out: &mut String,
        text: &str,
        (values, left): (&Values, &mut usize),
        depth: usize,
    ) -> Result<(), String> {
        let Place {
            section, option, ..
        } = self;
        let raw = python::repr(&self.raw.into());
        if depth > MAX_DEPTH {
            return Err(format!(
                "Recursion limit exceeded in value substitution: option '{option}' in section '{section}' contains an \
                 interpolation key which cannot be substituted in {MAX_DEPTH} steps. Raw value: {raw}"
            ));
        }
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let shown = || python::repr(&rest.into());
            if let Some(after) = rest.strip_prefix("%%") {
                out.push('%');
                rest = after;
                continue;
            }
            let Some(inside) = rest.strip_prefix("%(") else {
                return Err(format!(
                    "'%' must be followed by '%' or '(', found: {}",
                    shown()
                ));
            };
            let Some((name, after)) = inside
                .split_once(')')
                .and_then(|(name, after)| Some((name, after.strip_prefix('s')?)))
                .filter(|(name, _)| !name.is_empty())
            else {
                return Err(format!("bad interpolation variable reference {}", shown()));
            };
            *left = left
                .checked_sub(1)
                .ok_or("too many references between values")?;
            let name = name.to_lowercase();
            let value = values.iter().find(|(known, _)| *known == name);
            let Some(value) = value.and_then(|(_, value)| value.as_ref()) else {
                return Err(format!(
                    "Bad value substitution: option '{option}' in section '{section}' contains an interpolation key '{name}' \
                     which is not a valid option name. Raw value: {raw}"
                ));
            };
            match value.contains('%') {
                true => self.interpolate(out, value, (values, &mut *left), depth + 1)?,
                false => out.push_str(value),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(())
    }
}

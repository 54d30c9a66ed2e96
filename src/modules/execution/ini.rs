//! `ini`: files with options in sections. Lines that are no options are kept.

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, command_helpers, python};
use halite_wire::{Map, Value, map};

const SEPARATOR: Arg = opt("separator", Lit::Str("="));
const ENCODING: Arg = opt("encoding", Lit::Nil);

pub(super) const MODULE: Module = Module {
    name: "ini",
    functions: &[
        Function::new(
            "set_option",
            set_option,
            "Sets options, of sections and outside of them; returns what has changed.",
        )
        .args(&[
            req("file_name"),
            opt("sections", Lit::Nil),
            SEPARATOR,
            ENCODING,
            opt("no_spaces", Lit::Bool(false)),
        ]),
        Function::new(
            "get_option",
            get_option,
            "The value of an option of a section.",
        )
        .args(&[
            req("file_name"),
            req("section"),
            req("option"),
            SEPARATOR,
            ENCODING,
        ]),
        Function::new(
            "remove_option",
            remove_option,
            "Removes an option of a section; returns its value.",
        )
        .args(&[
            req("file_name"),
            req("section"),
            req("option"),
            SEPARATOR,
            ENCODING,
        ]),
        Function::new("get_section", get_section, "The options of a section.").args(&[
            req("file_name"),
            req("section"),
            SEPARATOR,
            ENCODING,
        ]),
        Function::new(
            "remove_section",
            remove_section,
            "Removes a section; returns its options.",
        )
        .args(&[req("file_name"), req("section"), SEPARATOR, ENCODING]),
        Function::new(
            "get_ini",
            |c| Ok(Ini::read(c)?.value().into()),
            "The whole file.",
        )
        .args(&[req("file_name"), SEPARATOR, ENCODING]),
    ],
};

enum Line {
    Option(String, String),
    Other(String),
}

/// A part of the file; the first one has no name.
struct Section {
    name: Option<String>,
    lines: Vec<Line>,
}

impl Section {
    fn get(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| match line {
            Line::Option(name, value) if name == key => Some(value.as_str()),
            _ => None,
        })
    }

    fn set(&mut self, key: &str, value: String) {
        for line in &mut self.lines {
            if let Line::Option(name, old) = line
                && name == key
            {
                *old = value;
                return;
            }
        }
        self.lines.push(Line::Option(key.to_owned(), value));
    }

    fn remove(&mut self, key: &str) {
        self.lines
            .retain(|line| !matches!(line, Line::Option(name, _) if name == key));
    }

    fn options(&self) -> Map {
        let pairs = self.lines.iter().filter_map(|line| match line {
            Line::Option(name, value) => Some((name.as_str(), value.as_str())),
            Line::Other(_) => None,
        });
        pairs.collect()
    }
}

struct Ini {
    path: String,
    separator: String,
    sections: Vec<Section>,
}

impl Ini {
    /// Reads the call's file; a missing one is empty.
    fn read(call: &Call<'_>) -> Result<Ini> {
        let path = python::str(call.arg("file_name"));
        let separator = call.text("separator").unwrap_or_default();
        let text = match command_helpers::read_file(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => {
                return Err(CallError::Command(format!(
                    "Unable to open file '{path}'. Exception: {}",
                    python::os_text(&e, &path)
                )));
            }
        };
        Ok(Ini {
            sections: parse(&text, &separator),
            path,
            separator,
        })
    }

    fn find(&mut self, name: Option<&str>) -> Option<&mut Section> {
        self.sections.iter_mut().find(|s| s.name.as_deref() == name)
    }

    fn value(&self) -> Map {
        let mut all = Map::new();
        for section in &self.sections {
            match &section.name {
                None => all.0.extend(section.options().0),
                Some(name) => all.set(name.as_str(), section.options()),
            }
        }
        all
    }

    fn render(&self, spaces: bool) -> String {
        let separator = if spaces {
            format!(" {} ", self.separator)
        } else {
            self.separator.clone()
        };
        let mut out = String::new();
        for section in &self.sections {
            if let Some(name) = &section.name {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(&format!("[{name}]\n"));
            }
            for line in &section.lines {
                match line {
                    Line::Option(name, value) => {
                        out.push_str(&format!("{name}{separator}{value}\n"));
                    }
                    Line::Other(text) => {
                        out.push_str(text);
                        out.push('\n');
                    }
                }
            }
        }
        out
    }

    fn write(&self, spaces: bool) -> Result<()> {
        let text = self.render(spaces);
        command_helpers::write_file(&self.path, &text).map_err(|e| {
            CallError::Command(format!(
                "Unable to write file '{}'. Exception: {}",
                self.path,
                python::os_text(&e, &self.path)
            ))
        })
    }
}

/// Empty lines at the end of a section are not kept: sections are separated by one.
fn parse(text: &str, separator: &str) -> Vec<Section> {
    let mut sections = vec![Section {
        name: None,
        lines: Vec::new(),
    }];
    for line in text.lines() {
        let trimmed = line.trim();
        let header = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(name) = header {
            sections.push(Section {
                name: Some(name.to_owned()),
                lines: Vec::new(),
            });
            continue;
        }
        let comment = trimmed.starts_with(['#', ';']);
        let last = sections.last_mut().and_then(|s| s.lines.last_mut());
        // An indented line goes on with the value above it.
        if let Some(Line::Option(_, value)) = last
            && !comment
            && !trimmed.is_empty()
            && line.starts_with([' ', '\t'])
        {
            value.push('\n');
            value.push_str(line.trim_end());
            continue;
        }
        let option = trimmed
            .split_once(separator)
            .filter(|(name, _)| !comment && !separator.is_empty() && !name.trim().is_empty());
        let line = match option {
            Some((name, value)) => {
                Line::Option(name.trim_end().to_owned(), value.trim().to_owned())
            }
            None => Line::Other(line.to_owned()),
        };
        if let Some(section) = sections.last_mut() {
            section.lines.push(line);
        }
    }
    for section in &mut sections {
        while matches!(section.lines.last(), Some(Line::Other(text)) if text.trim().is_empty()) {
            section.lines.pop();
        }
    }
    sections
}

fn change(before: Option<&str>, after: impl Into<Value>) -> Map {
    map! {"before" => before, "after" => after.into()}
}

/// Values become lines of a file; the second and later ones have to be indented, or they would be options of their own.
fn one_line(value: &Value) -> Result<String> {
    let text = python::str(value);
    let own = |line: &str| !line.starts_with([' ', '\t']);
    if text.contains('\r') || text.split('\n').skip(1).any(own) {
        return Err(CallError::Invocation(
            "The second and later lines of an option's value have to be indented".into(),
        ));
    }
    Ok(text)
}

fn set_option(call: &mut Call<'_>) -> Result {
    let mut ini = Ini::read(call)?;
    let wanted = call.arg("sections").as_map().cloned().unwrap_or_default();
    let mut changes = Map::new();
    for (name, value) in wanted.iter() {
        let name = one_line(name)?;
        let Value::Map(options) = value else {
            let value = one_line(value)?;
            if let Some(top) = ini.find(None) {
                let old = top.get(&name).map(str::to_owned);
                if old.as_deref() != Some(&value) {
                    changes.set(name.as_str(), change(old.as_deref(), value.as_str()));
                    top.set(&name, value);
                }
            }
            continue;
        };
        if ini.find(Some(&name)).is_none() {
            let mut section = Section {
                name: Some(name.clone()),
                lines: Vec::new(),
            };
            for (key, value) in options.iter() {
                section.set(&one_line(key)?, one_line(value)?);
            }
            changes.set(name, change(None, section.options()));
            ini.sections.push(section);
            continue;
        }
        let mut of_section = Map::new();
        for (key, value) in options.iter() {
            let (key, value) = (one_line(key)?, one_line(value)?);
            let Some(section) = ini.find(Some(&name)) else {
                continue;
            };
            let old = section.get(&key).map(str::to_owned);
            if old.as_deref() != Some(&value) {
                of_section.set(key.as_str(), change(old.as_deref(), value.as_str()));
                section.set(&key, value);
            }
        }
        if !of_section.is_empty() {
            changes.set(name, of_section);
        }
    }
    ini.write(!call.flag("no_spaces"))?;
    Ok(changes.into())
}

/// Section, nothing for the options before all sections, and option.
fn place(call: &Call<'_>) -> (Option<String>, String) {
    let section = call.text("section").filter(|s| !s.is_empty());
    (section, call.text("option").unwrap_or_default())
}

fn get_option(call: &mut Call<'_>) -> Result {
    let mut ini = Ini::read(call)?;
    let (section, option) = place(call);
    let found = ini.find(section.as_deref()).and_then(|s| s.get(&option));
    Ok(found.into())
}

fn remove_option(call: &mut Call<'_>) -> Result {
    let mut ini = Ini::read(call)?;
    let (section, option) = place(call);
    let mut old = None;
    if let Some(section) = ini.find(section.as_deref()) {
        old = section.get(&option).map(str::to_owned);
        section.remove(&option);
    }
    // A file that does not exist is not made.
    if old.is_some() || std::path::Path::new(&ini.path).exists() {
        ini.write(true)?;
    }
    Ok(old.into())
}

fn get_section(call: &mut Call<'_>) -> Result {
    let mut ini = Ini::read(call)?;
    let section = call.text("section").unwrap_or_default();
    Ok(ini
        .find(Some(&section))
        .map(|s| s.options())
        .unwrap_or_default()
        .into())
}

fn remove_section(call: &mut Call<'_>) -> Result {
    let mut ini = Ini::read(call)?;
    let name = call.text("section").unwrap_or_default();
    let Some(at) = ini
        .sections
        .iter()
        .position(|s| s.name.as_deref() == Some(&name))
    else {
        return Ok(Value::Nil);
    };
    let section = ini.sections.remove(at);
    ini.write(true)?;
    Ok(section.options().into())
}

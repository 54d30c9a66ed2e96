//! `sources.list(5)` in both formats (`salt/utils/pkg/deb.py`).

use crate::execution::CallError;
use crate::execution::command_helpers;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// The default file for entries.
pub const LIST: &str = "/etc/apt/sources.list";
const PARTS: &str = "/etc/apt/sources.list.d/";
const KINDS: [&str; 4] = ["deb", "deb-src", "rpm", "rpm-src"];

/// One line of a `.list` file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// As it was read.
    pub line: String,
    /// Not an entry: a blank line or a comment.
    pub invalid: bool,
    pub disabled: bool,
    pub kind: String,
    pub architectures: Vec<String>,
    pub signedby: String,
    pub trusted: Option<bool>,
    pub uri: String,
    pub dist: String,
    pub comps: Vec<String>,
    pub comment: String,
}

/// One section of a `.sources` file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    pub tags: Vec<(String, String)>,
    pub header: Vec<String>,
    pub footer: Vec<String>,
}

/// Either format.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceFormat {
    Line(Line),
    Section(Section),
}

/// An entry and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub file: String,
    pub form: SourceFormat,
}

/// Boolean words.
pub fn flag(text: &str) -> Result<bool> {
    match text.to_lowercase().as_str() {
        "no" | "false" | "without" | "off" | "disable" | "0" => Ok(false),
        "yes" | "true" | "with" | "on" | "enable" | "1" => Ok(true),
        other => Err(CallError::raised(
            "ValueError",
            format!("Unable to convert to boolean: {other}"),
        )),
    }
}

/// Whether a line is disabled and invalid, its comment and its words.
fn split(line: &str) -> (bool, bool, String, Vec<String>) {
    let line = line.trim();
    if line.is_empty() {
        return (false, true, String::new(), Vec::new());
    }
    let (line, disabled) = match line.strip_prefix('#') {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let (line, comment) = match line.find('#') {
        Some(at) if at > 0 => (&line[..at], line[at + 1..].to_owned()),
        _ => (line, String::new()),
    };
    let words = split_words(line.trim());
    let first = words.first().map(String::as_str).unwrap_or_default();
    let mut invalid = !KINDS.contains(&first) || words.len() < 3;
    if !invalid && words[1].starts_with('[') {
        invalid = !words[1..].iter().any(|w| w.ends_with(']'));
    }
    (disabled, invalid, comment, words)
}

/// Splits words; a CD's URI may contain blanks.
fn split_words(line: &str) -> Vec<String> {
    let plain = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (Some(from), Some(to)) = (line.rfind("cdrom:"), line.rfind('/')) else {
        return plain(line);
    };
    if to < from {
        return plain(line);
    }
    let mut words = plain(&line[..from]);
    words.push(line[from..=to].trim().to_owned());
    words.extend(plain(&line[to + 1..]));
    words
}

/// The options in brackets: normalized name, name as written, value. `signed-by` becomes `signedby`.
fn options(line: &str) -> Result<Vec<(String, String, String)>> {
    let mut list: Vec<(String, String, String)> = Vec::new();
    let inner = line.split_once('[').and_then(|(_, rest)| {
        let equals = rest.find('=')?;
        let end = equals + rest[equals..].find(']')?;
        Some(&rest[..end])
    });
    for option in inner
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .split_whitespace()
    {
        let Some((name, value)) = option.split_once('=') else {
            return Err(CallError::raised("IndexError", "list index out of range"));
        };
        let name = match option {
            o if o.starts_with("arch") => "arch",
            o if o.starts_with("signed-by") => "signedby",
            _ => name,
        };
        let entry = (name.to_owned(), option.to_owned(), value.to_owned());
        match list.iter_mut().find(|(n, ..)| n == name) {
            Some(slot) => *slot = entry,
            None => list.push(entry),
        }
    }
    Ok(list)
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// Missing words, or invalid options.
    pub fn parse(line: &str) -> Result<Line> {
        let (disabled, invalid, comment, mut words) = split(line);
        let mut entry = Line {
            line: line.to_owned(),
            disabled,
            invalid,
            comment,
            ..Line::default()
        };
        if invalid {
            return Ok(entry);
        }
        if words[1].starts_with('[') {
            words = words
                .iter()
                .map(|w| w.trim_matches(['[', ']']).to_owned())
                .collect();
            words.retain(|w| !w.is_empty());
            for (name, full, value) in options(line)? {
                match name.as_str() {
                    "arch" => entry
                        .architectures
                        .extend(value.split(',').map(str::to_owned)),
                    "signedby" => entry.signedby = value,
                    "trusted" => entry.trusted = Some(flag(&value)?),
                    _ => {}
                }
                let at = words
                    .iter()
                    .position(|w| *w == full || *w == format!("[{full}]"));
                let Some(at) = at else {
                    let text = format!("'[{full}]' is not in list");
                    return Err(CallError::raised("ValueError", text));
                };
                words.remove(at);
            }
        }
        if words.len() < 3 {
            let text = format!("Invalid repository definition: {}", words.join(" "));
            return Err(CallError::Invocation(text));
        }
        let mut words = words.into_iter();
        let mut next = || words.next().unwrap_or_default();
        (entry.kind, entry.uri, entry.dist) = (next(), next(), next());
        entry.comps = words.collect();
        Ok(entry)
    }

    /// The line to write, without newline.
    pub fn render(&self) -> String {
        if self.invalid {
            return self.line.trim().to_owned();
        }
        let mut options = options(&self.line).unwrap_or_default();
        let mut put = |name: &str, full: String, value: String| {
            let entry = (name.to_owned(), full, value);
            match options.iter_mut().find(|(n, ..)| n == name) {
                Some(slot) => *slot = entry,
                None => options.push(entry),
            }
        };
        if !self.architectures.is_empty() {
            let value = self.architectures.join(",");
            put("arch", format!("arch={value}"), value);
        }
        if !self.signedby.is_empty() {
            put(
                "signedby",
                format!("signed-by={}", self.signedby),
                self.signedby.clone(),
            );
        }
        if self.trusted == Some(true) {
            put("trusted", "trusted=yes".to_owned(), "yes".to_owned());
        }
        options
            .retain(|(name, full, value)| !full.is_empty() && (name != "trusted" || value != "no"));
        let mut words = Vec::new();
        if self.disabled {
            words.push("#".to_owned());
        }
        words.push(self.kind.clone());
        if !options.is_empty() {
            let list: Vec<String> = options.into_iter().map(|(_, full, _)| full).collect();
            words.push(format!("[{}]", list.join(" ")));
        }
        words.extend([self.uri.clone(), self.dist.clone(), self.comps.join(" ")]);
        if !self.comment.is_empty() {
            words.push(format!("#{}", self.comment));
        }
        words.join(" ").trim().to_owned()
    }
}

impl Section {
    /// Parses a section.
    pub fn parse(text: &str) -> Section {
        let mut section = Section::default();
        let mut begun = false;
        let mut open: Option<(String, String)> = None;
        for line in text.lines() {
            if line.starts_with('#') {
                if begun {
                    &mut section.footer
                } else {
                    &mut section.header
                }
                .push(line.to_owned());
                continue;
            }
            begun = true;
            if let Some((tag, value)) = tag(line) {
                section.close(open.replace((tag.to_owned(), value.to_owned())));
            } else if let Some((_, value)) = &mut open {
                value.push('\n');
                value.push_str(line);
            }
        }
        section.close(open);
        section
    }

    fn close(&mut self, open: Option<(String, String)>) {
        if let Some((tag, value)) = open {
            self.tags.push((tag, value.trim().to_owned()));
        }
    }

    /// A field's value; names are case-insensitive.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.tags.iter().find(|(k, _)| k.eq_ignore_ascii_case(key));
        found.map(|(_, v)| v.as_str())
    }

    /// Sets a field.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self
            .tags
            .iter_mut()
            .find(|(k, _)| k.eq_ignore_ascii_case(key))
        {
            Some((_, slot)) => *slot = value,
            None => self.tags.push((key.to_owned(), value)),
        }
    }

    /// Removes a field.
    pub fn remove(&mut self, key: &str) {
        self.tags.retain(|(k, _)| !k.eq_ignore_ascii_case(key));
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.get(key)
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    /// The section to write, without trailing newline.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut add = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        self.header.iter().for_each(|l| add(l));
        for (key, value) in self.tags.iter().filter(|(_, v)| !v.is_empty()) {
            add(&format!("{key}: {value}"));
        }
        self.footer.iter().for_each(|l| add(l));
        text.trim().to_owned()
    }
}

/// `Tag: value` at the start of a line.
fn tag(line: &str) -> Option<(&str, &str)> {
    let first = line
        .split(char::is_whitespace)
        .next()
        .filter(|w| !w.is_empty())?;
    let colon = first.rfind(':').filter(|at| *at > 0)?;
    Some((&line[..colon], line[colon + 1..].trim_start()))
}

impl Entry {
    pub fn invalid(&self) -> bool {
        match &self.form {
            SourceFormat::Line(line) => line.invalid,
            SourceFormat::Section(section) => section.tags.is_empty(),
        }
    }

    pub fn disabled(&self) -> Result<bool> {
        match &self.form {
            SourceFormat::Line(line) => Ok(line.disabled),
            SourceFormat::Section(section) => Ok(!flag(section.get("Enabled").unwrap_or("yes"))?),
        }
    }

    pub fn types(&self) -> Vec<String> {
        match &self.form {
            SourceFormat::Line(line) => vec![line.kind.clone()],
            SourceFormat::Section(section) => section.list("Types"),
        }
    }

    pub fn uris(&self) -> Vec<String> {
        match &self.form {
            SourceFormat::Line(line) => vec![line.uri.clone()],
            SourceFormat::Section(section) => section.list("URIs"),
        }
    }

    pub fn suites(&self) -> Vec<String> {
        match &self.form {
            SourceFormat::Line(line) if line.dist.is_empty() => Vec::new(),
            SourceFormat::Line(line) => vec![line.dist.clone()],
            SourceFormat::Section(section) => section.list("Suites"),
        }
    }

    pub fn comps(&self) -> Vec<String> {
        match &self.form {
            SourceFormat::Line(line) => line.comps.clone(),
            SourceFormat::Section(section) => section.list("Components"),
        }
    }

    pub fn architectures(&self) -> Vec<String> {
        match &self.form {
            SourceFormat::Line(line) => line.architectures.clone(),
            SourceFormat::Section(section) => section.list("Architectures"),
        }
    }

    fn signedby(&self) -> Value {
        match &self.form {
            SourceFormat::Line(line) => line.signedby.as_str().into(),
            SourceFormat::Section(section) => section.get("Signed-By").into(),
        }
    }

    pub fn set_suites(&mut self, suites: &[String]) {
        match &mut self.form {
            SourceFormat::Line(line) => line.dist = suites.first().cloned().unwrap_or_default(),
            SourceFormat::Section(section) => section.set("Suites", suites.join(" ")),
        }
    }

    pub fn set_comps(&mut self, comps: &[String]) {
        match &mut self.form {
            SourceFormat::Line(line) => line.comps = comps.to_vec(),
            SourceFormat::Section(section) => section.set("Components", comps.join(" ")),
        }
    }

    /// The form of `pkg.list_repos`: a map per URI, suite and type.
    pub fn described(&self) -> Result<Vec<Map>> {
        let mut all = Vec::new();
        let disabled = self.disabled()?;
        for uri in self.uris() {
            for suite in self.suites() {
                for kind in self.types() {
                    all.push(map! {
                        "file" => self.file.as_str(),
                        "comps" => self.comps(),
                        "disabled" => disabled,
                        "enabled" => !disabled,
                        "dist" => suite.as_str(),
                        "suites" => self.suites(),
                        "type" => kind.as_str(),
                        "types" => self.types(),
                        "uri" => uri.as_str(),
                        "uris" => self.uris(),
                        "line" => self.as_line(&uri, &suite, &kind, disabled)?,
                        "architectures" => self.architectures(),
                        "signedby" => self.signedby(),
                    });
                }
            }
        }
        Ok(all)
    }

    /// The equivalent one-line entry.
    fn as_line(&self, uri: &str, suite: &str, kind: &str, disabled: bool) -> Result<String> {
        let section = match &self.form {
            SourceFormat::Line(line) => return Ok(line.line.trim().to_owned()),
            SourceFormat::Section(section) => section,
        };
        let mut line = Line::parse(&format!("{kind} {uri} {suite} {}", self.comps().join(" ")))?;
        line.disabled = disabled;
        line.architectures = self.architectures();
        // Stock writes `signed-by=None` if there is no key.
        line.signedby = section.get("Signed-By").unwrap_or("None").to_owned();
        line.trusted = section.get("Trusted").map(flag).transpose()?;
        Ok(line.render())
    }
}

/// All entries of all files in directory order. A file is read up to its first error.
pub fn load() -> Vec<Entry> {
    let mut files = vec![LIST.to_owned()];
    if let Ok(dir) = std::fs::read_dir(PARTS) {
        let names = dir
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        let fits = |n: &String| n.ends_with(".sources") || n.ends_with(".list");
        files.extend(names.filter(fits).map(|n| format!("{PARTS}{n}")));
    }
    let mut all = Vec::new();
    for file in files.into_iter().filter(|f| Path::new(f).is_file()) {
        let Ok(text) = command_helpers::read(&file) else {
            continue;
        };
        if let Err(e) = read(&file, &text, &mut all) {
            log::error!("Failed to parse source file '{file}': {e}");
        }
    }
    all
}

fn read(file: &str, text: &str, all: &mut Vec<Entry>) -> Result<()> {
    let mut add = |form: SourceFormat| {
        all.push(Entry {
            file: file.to_owned(),
            form,
        })
    };
    if !file.ends_with(".sources") {
        for line in text.split_inclusive('\n') {
            add(SourceFormat::Line(Line::parse(line)?));
        }
        return Ok(());
    }
    let mut section = String::new();
    for line in text.split_inclusive('\n').chain(["\n"]) {
        if !line.trim().is_empty() {
            section.push_str(line);
        } else if !section.is_empty() {
            add(SourceFormat::Section(Section::parse(&section)));
            section.clear();
        }
    }
    Ok(())
}

const HEAD: &str = "## See sources.list(5) for more information, especialy\n# Remember that you can only use http, \
                    ftp or file URIs\n# CDROMs are managed through the apt-cdrom tool.\n";

/// Writes all files that have entries.
///
/// # Errors
/// File system errors.
pub fn save(entries: &[Entry]) -> Result<()> {
    let write = |file: &str, text: &str| {
        command_helpers::rewrite(Path::new(file), text.as_bytes())
            .map_err(|e| python::os_error(&e, file))
    };
    if entries.is_empty() {
        return write(LIST, HEAD);
    }
    for (file, text) in texts(entries) {
        write(&file, &text)?;
    }
    Ok(())
}

fn texts(entries: &[Entry]) -> indexmap::IndexMap<String, String> {
    let mut files: indexmap::IndexMap<String, String> = indexmap::IndexMap::new();
    for entry in entries {
        let known = files.contains_key(&entry.file);
        let text = files.entry(entry.file.clone()).or_default();
        match &entry.form {
            SourceFormat::Line(line) => text.push_str(&line.render()),
            SourceFormat::Section(section) => {
                if known {
                    text.push('\n');
                }
                text.push_str(&section.render());
            }
        }
        text.push('\n');
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive() {
        for line in [
            "deb http://a b main",
            "deb [arch=amd64,i386 signed-by=/k.gpg] http://a b main contrib",
            "# deb-src http://a b main",
            "deb http://a b main #why",
            "deb [ trusted=yes ] file:/r ./",
        ] {
            let entry = Line::parse(line).unwrap();
            assert!(!entry.invalid, "{line}");
            assert_eq!(entry.render(), line.replace("[ ", "[").replace(" ]", "]"));
        }
        let entry = Line::parse("deb [arch=amd64 trusted=yes] http://a b c").unwrap();
        assert_eq!(
            (entry.architectures, entry.trusted),
            (vec!["amd64".to_owned()], Some(true))
        );
        assert!(Line::parse("# just words").unwrap().invalid);
        assert!(Line::parse("deb [arch=amd64] http://a").is_err());
        let cd = Line::parse("deb cdrom:[A B 1]/ stable main").unwrap();
        assert_eq!(cd.uri, "cdrom:[A B 1]/");
    }

    #[test]
    fn sections_survive() {
        let text = "# head\nTypes: deb deb-src\n# inside\nURIs: http://a\nSuites: s t\nSigned-By:\n -----BEGIN\n x\n\nTypes: deb\nURIs: http://b\nSuites: u\nEnabled: no\n";
        let mut all = Vec::new();
        read("/x.sources", text, &mut all).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].suites(), ["s", "t"]);
        assert!(all[1].disabled().unwrap());
        assert_eq!(all[0].described().unwrap().len(), 4);
        let moved = text
            .replace("# inside\n", "")
            .replace(" x\n", " x\n# inside\n");
        assert_eq!(
            texts(&all)["/x.sources"],
            moved.replace("Signed-By:\n ", "Signed-By: ")
        );
    }
}

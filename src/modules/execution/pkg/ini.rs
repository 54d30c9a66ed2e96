//! Repository files, read like Python's `configparser`.

use crate::execution::CallError;
use crate::execution::declare::Result;
use halite_wire::pytext;

/// The section whose options apply to all others.
const DEFAULT: &str = "DEFAULT";
/// Maximum depth of interpolation.
const MAX_DEPTH: usize = 10;

/// Options with their lines.
type SectionOptions = Vec<(String, Vec<String>)>;

/// Sections in the order of their first header.
#[derive(Debug, Default)]
pub struct Ini {
    sections: Vec<(String, SectionOptions)>,
    defaults: SectionOptions,
    lenient: bool,
}

/// Exception class for a line before the first section.
pub const NO_SECTION: &str = "configparser.MissingSectionHeaderError";

impl Ini {
    /// An empty file; unless `strict`, duplicates are accepted.
    pub fn new(strict: bool) -> Ini {
        Ini {
            lenient: !strict,
            ..Ini::default()
        }
    }

    /// Parses a file's text.
    ///
    /// # Errors
    /// As raised by `configparser`: duplicates, lines before the first section, lines that are not options.
    pub fn read(&mut self, file: &str, text: &str) -> Result<()> {
        let mut reader = Reader {
            ini: self,
            file,
            section: None,
            option: None,
            indent: 0,
            headers: Vec::new(),
            options: Vec::new(),
            wrong: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            reader.line(number + 1, line)?;
        }
        if reader.wrong.is_empty() {
            return Ok(());
        }
        let lines: String = reader
            .wrong
            .iter()
            .map(|(number, line)| format!("\n\t[line {number:2}]: {}", quoted(line)))
            .collect();
        Err(raised(
            "ParsingError",
            format!(
                "Source contains parsing errors: {}{lines}",
                pytext::repr(&file.into())
            ),
        ))
    }

    /// The section names.
    pub fn sections(&self) -> Vec<String> {
        self.sections.iter().map(|(n, _)| n.clone()).collect()
    }

    /// The sections without interpolation.
    pub fn raw(&self) -> Vec<(String, Vec<(String, String)>)> {
        let option = |(name, lines): &(String, Vec<String>)| (name.clone(), joined(lines));
        self.sections
            .iter()
            .map(|(name, options)| (name.clone(), options.iter().map(option).collect()))
            .collect()
    }

    /// A section's interpolated options; `None` if it does not exist.
    ///
    /// # Errors
    /// An invalid percent sign in a value.
    pub fn items(&self, section: &str) -> Result<Option<Vec<(String, String)>>> {
        let Some((_, own)) = self.sections.iter().find(|(n, _)| n == section) else {
            return Ok(None);
        };
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, lines) in self.defaults.iter().chain(own) {
            let value = joined(lines);
            match all.iter_mut().find(|(n, _)| n == name) {
                Some(slot) => slot.1 = value,
                None => all.push((name.clone(), value)),
            }
        }
        let values: Result<Vec<(String, String)>> = all
            .iter()
            .map(|(name, value)| Ok((name.clone(), interpolate(value, &all, (name, section), 1)?)))
            .collect();
        values.map(Some)
    }
}

/// A value's lines as one text.
fn joined(lines: &[String]) -> String {
    lines.join("\n").trim_end().to_owned()
}

/// Interpolates a value.
fn interpolate(
    value: &str,
    all: &[(String, String)],
    at: (&str, &str),
    depth: usize,
) -> Result<String> {
    let (option, section) = at;
    if depth > MAX_DEPTH {
        let raw = all.iter().find(|(n, _)| n == option).map_or("", |(_, v)| v);
        return Err(raised(
            "InterpolationDepthError",
            format!(
                "Recursion limit exceeded in value substitution: option '{option}' in section '{section}' contains \
                 an interpolation key which cannot be substituted in {MAX_DEPTH} steps. Raw value: {}",
                pytext::repr(&raw.into())
            ),
        ));
    }
    let mut out = String::new();
    let mut rest = value;
    while let Some(at_percent) = rest.find('%') {
        out.push_str(&rest[..at_percent]);
        rest = &rest[at_percent..];
        if let Some(after) = rest.strip_prefix("%%") {
            out.push('%');
            rest = after;
            continue;
        }
        let Some(named) = rest.strip_prefix("%(") else {
            let text = pytext::repr(&rest.into()).to_string();
            return Err(raised(
                "InterpolationSyntaxError",
                format!("'%' must be followed by '%' or '(', found: {text}"),
            ));
        };
        let Some((name, after)) = named
            .split_once(")s")
            .filter(|(n, _)| !n.is_empty() && !n.contains(')'))
        else {
            let text = pytext::repr(&rest.into()).to_string();
            return Err(raised(
                "InterpolationSyntaxError",
                format!("bad interpolation variable reference {text}"),
            ));
        };
        let name = name.to_lowercase();
        let Some((_, found)) = all.iter().find(|(n, _)| *n == name) else {
            let raw = pytext::repr(&value.into()).to_string();
            return Err(raised(
                "InterpolationMissingOptionError",
                format!(
                    "Bad value substitution: option '{option}' in section '{section}' contains an interpolation \
                     key '{name}' which is not a valid option name. Raw value: {raw}"
                ),
            ));
        };
        out.push_str(&interpolate(found, all, at, depth + 1)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn raised(class: &str, message: String) -> CallError {
    CallError::raised(&format!("configparser.{class}"), message)
}

fn quoted(line: &str) -> String {
    pytext::repr(&format!("{line}\n").into())
}

struct Reader<'a> {
    ini: &'a mut Ini,
    file: &'a str,
    section: Option<String>,
    option: Option<String>,
    indent: usize,
    headers: Vec<String>,
    options: Vec<(String, String)>,
    wrong: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<()> {
        let value = line.trim();
        if value.starts_with(['#', ';']) {
            return Ok(());
        }
        if value.is_empty() {
            if let Some(lines) = self.lines() {
                lines.push(String::new());
            }
            return Ok(());
        }
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        let deeper = indent > self.indent;
        if deeper && let Some(lines) = self.lines() {
            lines.push(value.to_owned());
            return Ok(());
        }
        self.indent = indent;
        if let Some(end) = value
            .strip_prefix('[')
            .and_then(|v| v.rfind(']'))
            .filter(|e| *e > 0)
        {
            return self.header(number, &value[1..=end]);
        }
        let Some(section) = self.section.clone() else {
            let text = format!(
                "File contains no section headers.\nfile: {}, line: {number}\n{}",
                pytext::repr(&self.file.into()),
                quoted(line)
            );
            return Err(raised("MissingSectionHeaderError", text));
        };
        match value.split_once(['=', ':']) {
            Some((name, text)) if !name.trim().is_empty() => self.set(
                number,
                &section,
                name.trim_end().to_lowercase(),
                text.trim(),
            ),
            _ => {
                self.wrong.push((number, line.to_owned()));
                Ok(())
            }
        }
    }

    fn header(&mut self, number: usize, name: &str) -> Result<()> {
        if !self.ini.lenient && self.headers.iter().any(|h| h == name) {
            let file = pytext::repr(&self.file.into());
            let text = format!(
                "While reading from {file} [line {number:2}]: section {} already exists",
                pytext::repr(&name.into())
            );
            return Err(raised("DuplicateSectionError", text));
        }
        if name != DEFAULT {
            self.headers.push(name.to_owned());
            if !self.ini.sections.iter().any(|(n, _)| n == name) {
                self.ini.sections.push((name.to_owned(), Vec::new()));
            }
        }
        self.section = Some(name.to_owned());
        self.option = None;
        Ok(())
    }

    fn set(&mut self, number: usize, section: &str, name: String, value: &str) -> Result<()> {
        let key = (section.to_owned(), name.clone());
        if !self.ini.lenient && self.options.contains(&key) {
            let file = pytext::repr(&self.file.into());
            let text = format!(
                "While reading from {file} [line {number:2}]: option {} in section {} already exists",
                pytext::repr(&name.into()),
                pytext::repr(&section.into())
            );
            return Err(raised("DuplicateOptionError", text));
        }
        self.options.push(key);
        self.option = Some(name.clone());
        let lines = vec![value.to_owned()];
        if let Some(options) = self.section_mut(section) {
            match options.iter_mut().find(|(n, _)| *n == name) {
                Some(slot) => slot.1 = lines,
                None => options.push((name, lines)),
            }
        }
        Ok(())
    }

    fn section_mut(&mut self, section: &str) -> Option<&mut SectionOptions> {
        match section {
            DEFAULT => Some(&mut self.ini.defaults),
            _ => {
                let mut all = self.ini.sections.iter_mut();
                all.find(|(n, _)| n == section).map(|(_, options)| options)
            }
        }
    }

    /// The lines of the current option.
    fn lines(&mut self) -> Option<&mut Vec<String>> {
        let (section, option) = (self.section.clone()?, self.option.clone()?);
        let mut options = self.section_mut(&section)?.iter_mut();
        options.find(|(n, _)| *n == option).map(|(_, lines)| lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Ini> {
        let mut ini = Ini::default();
        ini.read("/f", text)?;
        Ok(ini)
    }

    #[test]
    fn duplicates_if_allowed() {
        let mut ini = Ini::new(false);
        let text = "[a]\nb = %x\nc=2\nb=3\n 4\n[d]\n[a]\ne=5\n";
        ini.read("/f", text).unwrap();
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            list.iter().map(pair).collect()
        };
        let wanted = [
            (
                "a".to_owned(),
                pairs(&[("b", "3\n4"), ("c", "2"), ("e", "5")]),
            ),
            ("d".to_owned(), Vec::new()),
        ];
        assert_eq!(ini.raw(), wanted);
    }

    fn items(text: &str) -> Vec<(String, String)> {
        read(text).unwrap().items("r").unwrap().unwrap()
    }

    #[test]
    fn options() {
        let pairs = |list: &[(&str, &str)]| {
            list.iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            items("# c\n[r]\nName = a b\nbaseurl: http://x/y\n; c\nlist = 1\n   2\n\nempty=\n"),
            pairs(&[
                ("name", "a b"),
                ("baseurl", "http://x/y"),
                ("list", "1\n2"),
                ("empty", "")
            ])
        );
        assert_eq!(
            items("[DEFAULT]\na=1\n[r]\nb=%(a)s%%2\na=3\n"),
            pairs(&[("a", "3"), ("b", "3%2")])
        );
        assert!(read("[r]\n").unwrap().items("q").unwrap().is_none());
    }

    /// The texts are from Python 3.11.
    #[test]
    fn parse_errors() {
        for (text, expected) in [
            (
                "[r]\nurl=http://x/a%20b\n",
                "'%' must be followed by '%' or '(', found: '%20b'",
            ),
            (
                "[r]\nurl=%(x\n",
                "bad interpolation variable reference '%(x'",
            ),
            (
                "[r]\na=1\nA=2\n",
                "While reading from '/f' [line  3]: option 'a' in section 'r' already exists",
            ),
            (
                "[r]\n[r]\n",
                "While reading from '/f' [line  2]: section 'r' already exists",
            ),
            (
                "a=1\n",
                "File contains no section headers.\nfile: '/f', line: 1\n'a=1\\n'",
            ),
            (
                "[r]\nword\n",
                "Source contains parsing errors: '/f'\n\t[line  2]: 'word\\n'",
            ),
            (
                "[r]\na=%(b)s\n",
                "Bad value substitution: option 'a' in section 'r' contains an interpolation key 'b' which is not a \
                 valid option name. Raw value: '%(b)s'",
            ),
        ] {
            let fault = read(text).and_then(|ini| ini.items("r")).unwrap_err();
            assert_eq!(fault.message(), expected);
        }
    }
}

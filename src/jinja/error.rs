//! Rendering errors and their locations.

use super::ast::Template;
use std::fmt;
use std::rc::Rc;

/// The Python exception in stock Salt; Salt's wording of the message depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `jinja2.TemplateSyntaxError`, `TemplateAssertionError`.
    Syntax,
    /// `jinja2.UndefinedError`.
    Undefined,
    /// `jinja2.TemplateRuntimeError`, `FilterArgumentError`.
    Runtime,
    /// `jinja2.sandbox.SecurityError`.
    Security,
    /// `jinja2.TemplateNotFound`.
    NotFound,
    /// `salt.exceptions.TemplateError`, from the global function `raise`.
    Raised,
    /// `salt.exceptions.CommandExecutionError` or `SaltInvocationError`, from an execution function.
    Function,
    /// `TypeError`.
    Type,
    /// `ValueError`.
    Value,
    /// `KeyError`.
    Key,
    /// `IndexError`.
    Index,
    /// `ZeroDivisionError`.
    ZeroDivision,
    /// `OverflowError`.
    Overflow,
    /// `AttributeError`.
    Attribute,
    /// Another exception.
    Other,
    /// A limit of this engine: steps, depth, sizes.
    Limit,
}

/// A location in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the template.
    pub template: Rc<str>,
    /// Line, from 1.
    pub line: usize,
    /// The text of the template.
    pub source: Rc<str>,
    /// Whether it is the rendered template itself rather than one that it loaded.
    pub root: bool,
}

/// Why a template cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    /// The locations, innermost first.
    places: Vec<Location>,
}

/// Maximum number of locations kept per error.
const MAX_LOCATIONS: usize = 32;

impl Error {
    /// An error without a location.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            places: Vec::new(),
        }))
    }

    /// `TypeError`.
    pub fn type_error(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Type, message)
    }

    /// `ValueError`.
    pub fn value_error(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Value, message)
    }

    /// `TemplateRuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime, message)
    }

    /// `FilterArgumentError`, which is a `TemplateRuntimeError`.
    pub fn filter_argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Runtime, message)
    }

    /// An exceeded limit.
    pub fn limit(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Limit, message)
    }

    /// A syntax error at a line.
    pub(super) fn syntax(message: impl Into<String>, template: &Rc<str>, line: usize) -> Error {
        Error::new(ErrorKind::Syntax, message).at(Location {
            template: template.clone(),
            line,
            source: "".into(),
            root: false,
        })
    }

    /// Adds the source text to a syntax error.
    pub(super) fn with_source(mut self, source: &Rc<str>) -> Error {
        for place in &mut self.0.places {
            place.source = source.clone();
        }
        self
    }

    /// Adds a location in a template, further out than the existing ones.
    pub(super) fn with_location(self, template: &Rc<Template>, line: usize) -> Error {
        self.at(Location {
            template: template.name.clone(),
            line,
            source: template.source.clone(),
            root: false,
        })
    }

    /// Marks the locations in the rendered template.
    pub(super) fn mark_root(mut self, name: &str, source: &str) -> Error {
        for place in &mut self.0.places {
            place.root = place.template.as_ref() == name && place.source.as_ref() == source;
        }
        self
    }

    fn at(mut self, place: Location) -> Error {
        if self.0.places.len() < MAX_LOCATIONS && self.0.places.last() != Some(&place) {
            self.0.places.push(place);
        }
        self
    }

    /// The kind of exception.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text of Python's `str(exception)`.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The innermost location.
    pub fn place(&self) -> Option<&Location> {
        self.0.places.first()
    }

    /// All locations, innermost first.
    pub fn places(&self) -> &[Location] {
        &self.0.places
    }

    /// The start of Salt's message (`salt/utils/templates.py render_jinja_tmpl`).
    pub fn salt_message(&self) -> String {
        let what = match self.0.kind {
            ErrorKind::Undefined => "Jinja variable",
            ErrorKind::Syntax | ErrorKind::Runtime | ErrorKind::Security => "Jinja syntax error:",
            ErrorKind::Function => "Problem running salt function in Jinja template:",
            _ => "Jinja error:",
        };
        format!("{what} {}", self.0.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(place) = self.place() {
            write!(f, " ({}, line {})", place.template, place.line)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The complete message of Salt's exception (`SaltRenderError` in `salt/utils/templates.py`), with the lines around
    /// the location.
    pub fn salt_text(&self) -> String {
        let mut text = self.salt_message();
        let Some(place) = self.place() else {
            return text;
        };
        if place.root {
            let shown = context(&place.source, place.line);
            text += &format!("; line {}\n\n{shown}", place.line);
        } else {
            let shown = context(&place.source, place.line);
            text += &format!("\n{}({}):\n{shown}", place.template, place.line);
        }
        text
    }
}

/// The lines around a line, which is marked (`salt/utils/stringutils.py get_context` with the marker from
/// `salt/utils/templates.py`).
pub fn context(source: &str, line: usize) -> String {
    const AROUND: usize = 5;
    const MARKER: &str = "    <======================";
    let lines: Vec<&str> = source.lines().collect();
    if line == 0 || line > lines.len() {
        return source.to_owned();
    }
    let index = line - 1;
    let start = index.saturating_sub(AROUND);
    let end = (index + AROUND + 1).min(lines.len());
    let mut shown = Vec::new();
    if start > 0 {
        shown.push("[...]".to_owned());
    }
    for (n, text) in lines[start..end].iter().enumerate() {
        let mark = if start + n == index { MARKER } else { "" };
        shown.push(format!("{text}{mark}"));
    }
    if end < lines.len() {
        shown.push("[...]".to_owned());
    }
    format!("---\n{}\n---", shown.join("\n"))
}

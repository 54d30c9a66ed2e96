//! The outputters: print returns byte for byte as stock Salt does.
//!
//! Each outputter of `salt/output/` has its file here. [`render`] returns the text without the newline that the
//! program prints after it; if the text is empty, nothing is printed at all (`salt/output/__init__.py
//! display_output`).

mod colors;
mod custom;
mod highstate;
mod json;
mod nested;
mod pprint;
mod python;
mod simple;
mod summary;
mod table;
pub mod texts;
mod textwrap;

#[cfg(test)]
mod tests;

pub use colors::want_color;
pub use custom::CustomOutputters;
pub use python::{python_repr, python_str};

use colors::Palette;
use halite_wire::{Value, yaml};
use std::fmt;
use std::str::FromStr;

/// An outputter by its name on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outputter {
    /// Indented keys and values, the default.
    #[default]
    Nested,
    /// Results of states with a summary.
    Highstate,
    /// One JSON document.
    Json,
    /// YAML in block style.
    Yaml,
    /// Python's `repr()`.
    Raw,
    /// `id: line`, one line per line of text.
    Txt,
    /// Python's `pprint`.
    Pprint,
    /// Lists of rows as tables.
    Table,
    /// The listing of `salt-key`.
    Key,
    /// Minions that did not return.
    NoReturn,
    /// Nothing (3006 and 3007).
    Quiet,
    /// Values without ids (3006 and 3007).
    NewlineValuesOnly,
}

const NAMES: [(Outputter, &str); 12] = [
    (Outputter::Nested, "nested"),
    (Outputter::Highstate, "highstate"),
    (Outputter::Json, "json"),
    (Outputter::Yaml, "yaml"),
    (Outputter::Raw, "raw"),
    (Outputter::Txt, "txt"),
    (Outputter::Pprint, "pprint"),
    (Outputter::Table, "table"),
    (Outputter::Key, "key"),
    (Outputter::NoReturn, "no_return"),
    (Outputter::Quiet, "quiet"),
    (Outputter::NewlineValuesOnly, "newline_values_only"),
];

impl fmt::Display for Outputter {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = NAMES.iter().find(|(o, _)| o == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

/// An unknown outputter name; displayed as the line to print on stderr before nested is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOutputter(pub String);

impl fmt::Display for UnknownOutputter {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = &self.0;
        let known: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        write!(
            f,
            "Invalid outputter {name} specified, fall back to nested; there are {}",
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownOutputter {}

impl FromStr for Outputter {
    type Err = UnknownOutputter;

    /// Stock's names, `text` for txt, an empty name for nested; `grains`, which old minions request, is nested
    /// without an error (`salt/output/__init__.py get_printout`).
    fn from_str(name: &str) -> Result<Outputter, UnknownOutputter> {
        match name {
            "" | "grains" => return Ok(Outputter::Nested),
            "text" => return Ok(Outputter::Txt),
            _ => {}
        }
        NAMES
            .iter()
            .find(|(_, n)| *n == name)
            .map(|(outputter, _)| *outputter)
            .ok_or_else(|| UnknownOutputter(name.to_owned()))
    }
}

/// The outputter's name for one return (`salt/output/__init__.py get_printout`).
///
/// `--out` takes precedence, except that `highstate` leaves the choice to the return, whose `out` field comes
/// next; with `--static`, state functions use highstate; everything else is nested.
pub fn choose_name<'a>(
    out_option: Option<&'a str>,
    return_out: &'a str,
    is_static: bool,
    fun: &str,
) -> &'a str {
    if let Some(name) = out_option.filter(|name| *name != "highstate") {
        return name;
    }
    if !return_out.is_empty() {
        return return_out;
    }
    if !is_static {
        return "nested";
    }
    let by_function = if is_state_function(fun) {
        "highstate"
    } else {
        ""
    };
    match out_option.unwrap_or(by_function) {
        "" => "nested",
        name => name,
    }
}

fn is_state_function(fun: &str) -> bool {
    fun.split('.').next() == Some("state")
}

/// Rendering options, named after Salt's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// Whether to colour, see [`want_color`].
    pub color: bool,
    /// `--out-indent` in columns: by default 4 for json and 1 for pprint; if negative, json and yaml use one
    /// line.
    pub indent: Option<i64>,
    /// `output_indent: pretty`: json with sorted keys.
    pub pretty: bool,
    /// `full`, `terse`, `mixed`, `changes` or `filter`, each also with `_id`.
    pub state_output: String,
    /// Whether unchanged successful states are shown.
    pub state_verbose: bool,
    /// Whether only states that changed or failed are shown.
    pub state_output_diff: bool,
    /// Whether times and durations are shown.
    pub state_output_profile: bool,
    /// How many states the summary names as the slowest.
    pub slowest_states: usize,
    /// Whether the summary has percentages.
    pub state_output_pct: bool,
    /// Whether states with the same ID and result are combined.
    pub state_compress_ids: bool,
    /// Whether terse lines are in columns (`state_tabular: True`).
    pub state_tabular: bool,
    /// Results not shown by `filter`: a list of strings, or a comma-separated string.
    pub state_output_exclude: Value,
    /// Results shown tersely by `filter`: a list of strings, or a comma-separated string.
    pub state_output_terse: Value,
    /// Whether escape characters in returned text are replaced by `?`.
    pub strip_colors: bool,
    /// The job's return code: nested is red if it is not 0.
    pub retcode: i64,
    /// Indentation of nested in columns.
    pub nested_indent: usize,
}

impl Default for Style {
    /// Salt's defaults (`salt/config/__init__.py`), without colour.
    fn default() -> Style {
        Style {
            color: false,
            indent: None,
            pretty: false,
            state_output: "full".into(),
            state_verbose: true,
            state_output_diff: false,
            state_output_profile: true,
            slowest_states: 0,
            state_output_pct: false,
            state_compress_ids: false,
            state_tabular: false,
            state_output_exclude: Value::Array(Vec::new()),
            state_output_terse: Value::Array(Vec::new()),
            strip_colors: true,
            retcode: 0,
            nested_indent: 0,
        }
    }
}

/// The outputter cannot show this value; nested can show any value.
#[derive(Clone, Copy, Debug)]
struct Unshowable;

/// The text that stock prints for `data`, usually `{minion id: return}`.
///
/// Data that an outputter cannot show is shown by nested (`salt/output/__init__.py try_printout`).
pub fn render(outputter: Outputter, data: &Value, style: &Style) -> String {
    let mut data = data.clone();
    let text = match attempt(outputter, &mut data, style) {
        Ok(text) => text,
        Err(Unshowable) => show_nested(&data, style),
    };
    python::rstrip(&text).to_owned()
}

fn attempt(outputter: Outputter, data: &mut Value, style: &Style) -> Result<String, Unshowable> {
    let colors = Palette::new(style.color);
    match outputter {
        Outputter::Nested => Ok(show_nested(data, style)),
        Outputter::Highstate => highstate::render(data, style),
        Outputter::Json => Ok(show_json(data, style)),
        Outputter::Yaml if style.pretty => Err(Unshowable),
        Outputter::Yaml => Ok(show_yaml(data, style)),
        Outputter::Raw => Ok(python_str(data)),
        Outputter::Txt => Ok(simple::txt(data)),
        Outputter::Pprint if style.pretty => Err(Unshowable),
        Outputter::Pprint => Ok(pprint::pformat(
            data,
            style.indent.filter(|i| *i >= 0).unwrap_or(1),
        )),
        Outputter::Table => table::render(data, &colors),
        Outputter::Key => simple::key(data, style.strip_colors, &colors),
        Outputter::NoReturn => simple::no_return(data, &colors),
        Outputter::Quiet => Ok(String::new()),
        Outputter::NewlineValuesOnly => simple::newline_values_only(data),
    }
}

fn show_nested(data: &Value, style: &Style) -> String {
    let colors = Palette::new(style.color);
    let failed = style.retcode != 0;
    nested::render(
        data,
        style.nested_indent,
        failed,
        style.strip_colors,
        &colors,
    )
}

fn show_json(data: &Value, style: &Style) -> String {
    if style.pretty {
        return json::render(data, Some(4), true);
    }
    let indent = usize::try_from(style.indent.unwrap_or(4)).ok();
    json::render(data, indent, false)
}

fn show_yaml(data: &Value, style: &Style) -> String {
    match style.indent {
        None => yaml::emit(data, true),
        Some(indent) => yaml::emit_with(data, true, indent, Some(indent < 0)),
    }
}

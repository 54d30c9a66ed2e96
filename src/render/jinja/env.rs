//! Environments: options, loader, parsed templates.

use super::value::Obj;
use std::rc::Rc;

/// How templates are read and run; the defaults are those of Jinja under Salt.
#[derive(Clone, Debug)]
pub struct Options {
    /// `{%`
    pub block_start: String,
    /// `%}`
    pub block_end: String,
    /// `{{`
    pub variable_start: String,
    /// `}}`
    pub variable_end: String,
    /// `{#`
    pub comment_start: String,
    /// `#}`
    pub comment_end: String,
    /// What begins a line that is a statement.
    pub line_statement_prefix: Option<String>,
    /// What begins a comment up to the end of the line.
    pub line_comment_prefix: Option<String>,
    /// The line break after a block is dropped.
    pub trim_blocks: bool,
    /// White space before a block at the beginning of a line is dropped.
    pub lstrip_blocks: bool,
    /// The last line break of a template is kept.
    pub keep_trailing_newline: bool,
    /// What line breaks become: `\n`, `\r\n` or `\r`.
    pub newline_sequence: String,
    /// Undefined values fail when they are used (Salt: unless `allow_undefined`).
    pub strict_undefined: bool,
    /// Output is escaped for HTML.
    pub autoescape: bool,
    /// Steps a run may take.
    pub fuel: u64,
    /// Levels of calls, includes and imports within one another.
    pub max_depth: usize,
    /// Octets of output.
    pub max_output: usize,
    /// Octets of one text, elements of one list.
    pub max_size: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_start: "{%".into(),
            block_end: "%}".into(),
            variable_start: "{{".into(),
            variable_end: "}}".into(),
            comment_start: "{#".into(),
            comment_end: "#}".into(),
            line_statement_prefix: None,
            line_comment_prefix: None,
            trim_blocks: false,
            lstrip_blocks: false,
            keep_trailing_newline: false,
            newline_sequence: "\n".into(),
            strict_undefined: true,
            autoescape: false,
            fuel: 20_000_000,
            max_depth: 100,
            max_output: 64 << 20,
            max_size: 16 << 20,
        }
    }
}

/// A template as a [`Loader`] finds it.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Its text.
    pub source: String,
    /// Its name in messages; the name asked for if empty.
    pub name: String,
    /// Names every template sees from now on: Salt's loader sets `tpldir`, `tplfile` and `tpldot`
    /// (`salt/utils/jinja.py SaltCacheLoader.get_source`).
    pub globals: Vec<(String, Obj)>,
}

/// Where included, imported and extended templates come from.
pub trait Loader {
    /// The template of a name, asked for by the template `from`; nothing if there is none.
    ///
    /// # Errors
    /// It exists but cannot be read.
    fn load(&self, name: &str, from: Option<&str>) -> Result<Option<Loaded>, String>;
}

pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) loader: Option<Rc<dyn Loader>>,
}

/// Options, a loader and the templates parsed so far.
pub struct Environment {
    #[allow(dead_code)]
    inner: Rc<Inner>,
}

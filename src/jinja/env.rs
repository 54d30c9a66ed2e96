//! Environments: options, loader and parsed templates.

use super::ast::Template;
use super::cx::Cx;
use super::error::Error;
use super::globals;
use super::parser::parse;
use super::run::Base;
use super::value::{Args, Obj};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Applies a filter by name to a value and arguments.
pub type HostFilters = fn(&str, &Obj, &Args) -> Result<Obj, Error>;

/// How templates are parsed and run; the defaults are Jinja's as configured by Salt.
#[derive(Clone, Debug)]
pub struct EnvironmentOptions {
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
    /// Prefix of line statements.
    pub line_statement_prefix: Option<String>,
    /// Prefix of line comments.
    pub line_comment_prefix: Option<String>,
    /// Drop the line break after a block.
    pub trim_blocks: bool,
    /// Drop white space before a block at the start of a line.
    pub lstrip_blocks: bool,
    /// Keep the last line break of a template.
    pub keep_trailing_newline: bool,
    /// Line break used in the output: `\n`, `\r\n` or `\r`.
    pub newline_sequence: String,
    /// Make undefined values fail when used (in Salt: unless `allow_undefined`).
    pub strict_undefined: bool,
    /// Escape output for HTML.
    pub autoescape: bool,
    /// Applies filters that look at the host; without it they are refused.
    pub host_filters: Option<HostFilters>,
    /// Maximum number of steps in a run.
    pub fuel: u64,
    /// Maximum nesting of calls, includes and imports.
    pub max_depth: usize,
    /// Maximum use of the thread's stack by a run, in bytes.
    pub max_stack: usize,
    /// Maximum length of the output in bytes.
    pub max_output: usize,
    /// Maximum length of a text in bytes, and of a list in elements.
    pub max_size: usize,
}

impl Default for EnvironmentOptions {
    fn default() -> EnvironmentOptions {
        EnvironmentOptions {
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
            host_filters: None,
            fuel: 20_000_000,
            max_depth: 200,
            max_stack: 1 << 20,
            max_output: 64 << 20,
            max_size: 16 << 20,
        }
    }
}

/// A template returned by a [`TemplateLoader`].
#[derive(Clone, Debug, Default)]
pub struct LoadedTemplate {
    /// Its text.
    pub source: String,
    /// Its name in messages; if empty, the name it was requested by.
    pub name: String,
    /// Variables that all templates see from now on: Salt's loader sets `tpldir`, `tplfile` and `tpldot`
    /// (`salt/utils/jinja.py SaltCacheLoader.get_source`).
    pub globals: Vec<(String, Obj)>,
}

/// Finds included, imported and extended templates.
pub trait TemplateLoader {
    /// The template with a name, requested by the template `from`; `None` if it does not exist.
    ///
    /// # Errors
    /// It exists but cannot be read.
    fn load(&self, name: &str, from: Option<&str>) -> Result<Option<LoadedTemplate>, String>;
}

/// Maximum number of parsed templates in the cache; it is cleared when there are more.
const MAX_CACHED: usize = 256;

/// Name, text, and whether messages omit the name.
type CacheKey = (Rc<str>, Rc<str>, bool);

pub(super) struct Inner {
    pub(super) options: EnvironmentOptions,
    pub(super) loader: Option<Rc<dyn TemplateLoader>>,
    pub(super) builtins: Rc<Base>,
    parsed: RefCell<HashMap<CacheKey, Rc<Template>>>,
}

impl Inner {
    /// Parses a template, or returns it from the cache.
    pub(super) fn parsed(
        &self,
        source: &str,
        name: &str,
        anonymous: bool,
    ) -> Result<Rc<Template>, Error> {
        let key = (Rc::<str>::from(name), Rc::<str>::from(source), anonymous);
        if let Some(template) = self.parsed.borrow().get(&key) {
            return Ok(template.clone());
        }
        let template = parse(source, &key.0, anonymous, &self.options)
            .map_err(|error| error.with_source(&key.1))?;
        let template = Rc::new(template);
        let mut parsed = self.parsed.borrow_mut();
        if parsed.len() >= MAX_CACHED {
            parsed.clear();
        }
        parsed.insert(key, template.clone());
        Ok(template)
    }
}

/// Options, a loader and the templates parsed so far.
pub struct Environment {
    inner: Rc<Inner>,
}

impl Environment {
    /// An environment without a loader.
    pub fn new(options: EnvironmentOptions) -> Environment {
        Environment {
            inner: Rc::new(Inner {
                options,
                loader: None,
                builtins: Base::new(globals::builtins(), None),
                parsed: RefCell::default(),
            }),
        }
    }

    /// The same environment with a loader.
    #[must_use]
    pub fn with_loader(self, loader: Rc<dyn TemplateLoader>) -> Environment {
        Environment {
            inner: Rc::new(Inner {
                options: self.inner.options.clone(),
                loader: Some(loader),
                builtins: self.inner.builtins.clone(),
                parsed: RefCell::default(),
            }),
        }
    }

    /// Renders a template; `name` is used in messages. Imported templates see the variables too, as in Salt.
    ///
    /// The last line break of `source` is dropped unless the options keep it. Salt puts it back
    /// (`salt/utils/templates.py render_jinja_tmpl`); the caller has to do that.
    ///
    /// # Errors
    /// A syntax error, a runtime error with its locations, or an exceeded limit.
    pub fn render(
        &self,
        source: &str,
        name: &str,
        context: Vec<(String, Obj)>,
    ) -> Result<String, Error> {
        let run = || {
            let template = self.inner.parsed(source, name, true)?;
            let mut cx = Cx::new(self.inner.clone());
            let result = cx.render_root(&template, context);
            cx.finish();
            result
        };
        run().map_err(|error| error.mark_root(name, source))
    }
}

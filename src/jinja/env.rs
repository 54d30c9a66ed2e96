//! Environments: options, loader, parsed templates.

use super::ast::Template;
use super::cx::Cx;
use super::error::Error;
use super::globals;
use super::parser::parse;
use super::run::Base;
use super::value::Obj;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// How templates are read and run; the defaults are those of Jinja under Salt.
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
    /// Bytes of the thread's stack that a run may take.
    pub max_stack: usize,
    /// Bytes of output.
    pub max_output: usize,
    /// Bytes of one text, elements of one list.
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
            fuel: 20_000_000,
            max_depth: 200,
            max_stack: 1 << 20,
            max_output: 64 << 20,
            max_size: 16 << 20,
        }
    }
}

/// A template as a [`TemplateLoader`] finds it.
#[derive(Clone, Debug, Default)]
pub struct LoadedTemplate {
    /// Its text.
    pub source: String,
    /// Its name in messages; the name asked for if empty.
    pub name: String,
    /// Names every template sees from now on: Salt's loader sets `tpldir`, `tplfile` and `tpldot`
    /// (`salt/utils/jinja.py SaltCacheLoader.get_source`).
    pub globals: Vec<(String, Obj)>,
}

/// Where included, imported and extended templates come from.
pub trait TemplateLoader {
    /// The template of a name, asked for by the template `from`; nothing if there is none.
    ///
    /// # Errors
    /// It exists but cannot be read.
    fn load(&self, name: &str, from: Option<&str>) -> Result<Option<LoadedTemplate>, String>;
}

/// Sources of templates that stay parsed; beyond, they are forgotten.
const CACHED: usize = 256;

/// Name, text, and whether sentences leave the name out.
type CacheKey = (Rc<str>, Rc<str>, bool);

pub(super) struct Inner {
    pub(super) options: EnvironmentOptions,
    pub(super) loader: Option<Rc<dyn TemplateLoader>>,
    pub(super) builtins: Rc<Base>,
    parsed: RefCell<HashMap<CacheKey, Rc<Template>>>,
}

impl Inner {
    /// The template of a text, parsed at most once.
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
            .map_err(|error| error.sourced(&key.1))?;
        let template = Rc::new(template);
        let mut parsed = self.parsed.borrow_mut();
        if parsed.len() >= CACHED {
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

    /// Renders a template; `name` is for messages. The variables are seen by imported templates
    /// too, as under Salt.
    ///
    /// The last line break of `source` is dropped unless the options keep it; Salt puts it back
    /// (`salt/utils/templates.py render_jinja_tmpl`), which is the caller's part.
    ///
    /// # Errors
    /// A syntax error, an error of the run with its places, or a limit.
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
        run().map_err(|error| error.rooted(name, source))
    }
}

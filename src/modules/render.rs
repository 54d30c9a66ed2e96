//! Templates on the minion: Jinja with `salt[...]` that calls execution functions
//! (`salt/utils/templates.py render_jinja_tmpl` on a minion).
//!
//! A [`Caller`] is the bridge: whoever has execution functions lets templates call them. Managed files and
//! states use the same one.

use super::files::{self, FileClient};
use crate::context::{Context, Fault};
use halite_config::MasterConfig;
use halite_jinja::{Args, Cx, Error, ErrorKind, Obj, Object};
use halite_render::files::{FileTree, SourceFile};
use halite_render::functions::{FunctionLoader, SaltVariable};
use halite_render::template::{TemplateEngine, sls_context};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// Formats of stock Salt (`TEMPLATE_REGISTRY`); only the first is here, the others need Python.
const FORMATS: [&str; 6] = ["jinja", "mako", "py", "wempy", "genshi", "cheetah"];
/// Options of the minion that change Jinja.
const OPTIONS: [&str; 5] = [
    "jinja_env",
    "jinja_sls_env",
    "jinja_trim_blocks",
    "jinja_lstrip_blocks",
    "allow_undefined",
];
/// Templates that render templates, and so on.
const MAX_DEPTH: u32 = 8;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Who has functions for templates.
pub trait Caller {
    /// Whether there is a function of that full name.
    fn has(&self, function: &str) -> bool;

    /// Whether there is a module.
    fn has_module(&self, module: &str) -> bool;

    /// Calls a function.
    ///
    /// # Errors
    /// What it raises.
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Fault>;
}

/// Makes the functions that templates of a minion call.
pub type CallerOf = fn(Context) -> Rc<dyn Caller>;

/// The functions of a [`Caller`] as templates find them.
pub struct Called(pub Rc<dyn Caller>);

impl FunctionLoader for Called {
    fn function(&self, name: &str) -> Option<Obj> {
        let function = || Function {
            caller: self.0.clone(),
            name: name.to_owned(),
        };
        self.contains(name).then(|| Obj::native(function()))
    }

    fn has_module(&self, module: &str) -> bool {
        self.0.has_module(module)
    }

    fn contains(&self, name: &str) -> bool {
        self.0.has(name)
    }
}

struct Function {
    caller: Rc<dyn Caller>,
    name: String,
}

impl Object for Function {
    fn type_name(&self) -> &str {
        "LoadedFunc"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _: &mut Cx, args: &Args) -> Result<Obj, Error> {
        let positional = args.positional.iter().map(Obj::to_value);
        let mut kwargs = Map::new();
        for (name, value) in &args.keyword {
            kwargs.set(name.as_ref(), value.to_value()?);
        }
        let answer = self
            .caller
            .call(&self.name, positional.collect::<Result<_, _>>()?, kwargs);
        answer.map(Obj::from).map_err(|fault| {
            let text = fault.message().to_owned();
            match fault {
                Fault::Command(_) | Fault::Invocation(_) | Fault::CommandNotFound(_) => {
                    Error::new(ErrorKind::Function, text)
                }
                Fault::Type(_) => Error::type_error(text),
                Fault::Missing(_) | Fault::Raised(..) => Error::new(ErrorKind::Other, text),
            }
        })
    }
}

/// Other templates of an environment, fetched from the file server.
struct Fetched {
    ctx: Rc<Context>,
    saltenv: String,
}

impl FileTree for Fetched {
    fn find(&self, name: &str) -> Option<SourceFile> {
        if self.saltenv.is_empty() {
            return None;
        }
        let url = files::url::create(name, None);
        let found = FileClient::new(&self.ctx)
            .and_then(|client| client.cache_file(&url, &self.saltenv))
            .unwrap_or_else(|e| {
                log::warn!("{url}: {e}");
                None
            })?;
        match std::fs::read_to_string(&found) {
            Ok(text) => Some(SourceFile {
                path: found,
                name: name.to_owned(),
                text: text.into(),
            }),
            Err(e) => {
                log::error!("{}: {e}", found.display());
                None
            }
        }
    }
}

/// Whether stock Salt knows a template format of that name.
pub fn is_template(format: &str) -> bool {
    FORMATS.contains(&format)
}

/// A text to be rendered.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// How.
    pub format: &'a str,
    /// The text.
    pub text: &'a str,
    /// The environment that other templates are loaded from; empty for none.
    pub saltenv: &'a str,
    /// Variables beside those that every template has, which they win over.
    pub variables: &'a Map,
}

/// Renders a text with the functions of `caller`; the inner error is text for a state return.
///
/// # Errors
/// `SaltRenderError`: the template is wrong, or something in it failed.
pub fn render(
    ctx: &Context,
    caller: &Rc<dyn Caller>,
    template: &Template<'_>,
) -> Result<Result<String, String>, Fault> {
    if template.format != FORMATS[0] {
        return Ok(Err(format!(
            "Templates of the format {} need Python, which this minion does not have; jinja is there",
            template.format
        )));
    }
    let depth = DEPTH.get();
    if depth >= MAX_DEPTH {
        return Err(fault(format!(
            "templates render templates {MAX_DEPTH} times over"
        )));
    }
    let engine = engine(ctx)?;
    let mut context: Vec<(String, Obj)> = variables(ctx, caller, template.saltenv);
    for (name, value) in template.variables.iter() {
        let Some(name) = name.as_str() else { continue };
        context.retain(|(known, _)| known != name);
        context.push((name.to_owned(), Obj::from(value)));
    }
    let text_of = |name: &str| {
        let found = context.iter().find(|(known, _)| known == name);
        found.and_then(|(_, v)| v.as_str().map(str::to_owned))
    };
    let sls = text_of("sls");
    if let Some(sls) = &sls {
        let path = text_of("tplpath").unwrap_or_default();
        for (name, value) in sls_context(&path, sls) {
            if !context.iter().any(|(known, _)| *known == name) {
                context.push((name, value));
            }
        }
    }
    let tree = Fetched {
        ctx: Rc::new(ctx.clone()),
        saltenv: template.saltenv.to_owned(),
    };
    DEPTH.set(depth + 1);
    let text = engine.render(
        template.text,
        sls.as_deref().unwrap_or_default(),
        Rc::new(tree),
        context,
    );
    DEPTH.set(depth);
    text.map(Ok).map_err(|e| fault(e.to_string()))
}

fn fault(text: String) -> Fault {
    Fault::raised("salt.exceptions.SaltRenderError", text)
}

/// An engine with the options of the minion.
///
/// # Errors
/// `SaltRenderError`: the options make no sense.
pub fn engine(ctx: &Context) -> Result<TemplateEngine, Fault> {
    let mut options = Map::new();
    for (key, value) in ctx.opts.iter() {
        if OPTIONS.iter().any(|name| key.is_str(name)) {
            options.0.push((key.clone(), value.clone()));
        }
    }
    let config =
        MasterConfig::from_map(options, Path::new("/")).map_err(|e| fault(e.to_string()))?;
    Ok(TemplateEngine::new(&config))
}

/// The variables of every template.
pub fn variables(ctx: &Context, caller: &Rc<dyn Caller>, saltenv: &str) -> Vec<(String, Obj)> {
    let mut opts = ctx.opts.clone();
    if !opts.contains("grains") {
        opts.set("grains", (*ctx.grains).clone());
    }
    let more = map! {
        "grains" => (*ctx.grains).clone(), "pillar" => (*ctx.pillar).clone(),
        "opts" => opts, "saltenv" => saltenv,
    };
    let salt = SaltVariable(Rc::new(Called(caller.clone())));
    let mut all = vec![("salt".to_owned(), Obj::native(salt))];
    for (name, value) in more.iter() {
        all.push((
            halite_wire::pytext::str(name).into_owned(),
            Obj::from(value),
        ));
    }
    all
}

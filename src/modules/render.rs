//! Templates on the minion: Jinja with `salt[...]` for execution functions (`salt/utils/templates.py
//! render_jinja_tmpl` on a minion).
//!
//! A [`FunctionCaller`] gives templates access to execution functions. Managed files and states use the same one.

use super::files::{self, FileClient};
use crate::context::{CallError, Context};
use halite_config::{JinjaOptions, RenderOptions};
use halite_jinja::{Args, Cx, Error, ErrorKind, HostFilters, Obj, Object};
use halite_render::RenderError;
use halite_render::files::{FileTree, SourceFile};
use halite_render::functions::{FunctionLoader, assign};
use halite_render::gpg::Gpg;
use halite_render::pipeline::{Source, Templates, python_args};
use halite_render::scene::{Scene, SceneRenderer, SceneTemplate};
use halite_render::template::TemplateEngine;
use halite_wire::{Map, Value};
use std::cell::{Cell, LazyCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Stock's template engines (`TEMPLATE_REGISTRY`); the others than the first run in Python, the last ones by an installed
/// Salt.
const FORMATS: [&str; 6] = ["jinja", "py", "mako", "wempy", "genshi", "cheetah"];
/// Templates that render templates, and so on.
const MAX_DEPTH: u32 = 8;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Execution functions for templates.
pub trait FunctionCaller {
    /// Whether users may name this function or module.
    fn allows(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Whether a function exists, by full name.
    fn has(&self, function: &str) -> bool;

    /// Whether a module exists.
    fn has_module(&self, module: &str) -> bool;

    /// Calls a function.
    ///
    /// # Errors
    /// What it raises.
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, CallError>;

    /// Applies the filters that look at the host.
    fn host_filters(&self) -> HostFilters;

    /// Whether there is a renderer in Python of this name; `is_ours` if halite has one, too.
    fn has_renderer(&self, renderer: &str, is_ours: bool) -> bool;

    /// Makes a request of the job's Python host.
    ///
    /// # Errors
    /// What the code raises.
    fn python(&self, request: &str, args: Vec<Value>) -> Result<Value, CallError>;
}

/// Creates the functions a minion's templates call.
pub type CallerFactory = fn(Context) -> Rc<dyn FunctionCaller>;

/// The functions of a [`FunctionCaller`] as seen by templates.
pub struct SaltFunctions(pub Rc<dyn FunctionCaller>);

impl FunctionLoader for SaltFunctions {
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

    fn allows(&self, name: &str) -> bool {
        self.0.allows(name)
    }

    fn has_renderer(&self, renderer: &str, is_ours: bool) -> bool {
        self.0.has_renderer(renderer, is_ours)
    }

    fn render(&self, args: Vec<Value>) -> Result<Value, String> {
        let done = self.0.python("render", args);
        done.map_err(|e| e.message().to_owned())
    }
}

struct Function {
    caller: Rc<dyn FunctionCaller>,
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
        let answer = answer.map_err(|fault| {
            let text = fault.message().to_owned();
            match fault {
                CallError::Command(_)
                | CallError::Invocation(_)
                | CallError::CommandNotFound(_) => Error::new(ErrorKind::Function, text),
                CallError::Type(_) => Error::type_error(text),
                CallError::Missing(_) | CallError::Raised(..) | CallError::Traced(..) => {
                    Error::new(ErrorKind::Other, text)
                }
            }
        })?;
        match (changed_argument(&self.name, args), answer) {
            (Some(Obj::Dict(dict)), Value::Map(map)) => {
                assign(dict, &map)?;
                Ok(Obj::Dict(dict.clone()))
            }
            (_, answer) => Ok(Obj::from(answer)),
        }
    }
}

/// Functions that change the dict that is their first argument, with the position of an argument that may say that they do not.
const IN_PLACE: &[(&str, Option<usize>)] = &[
    ("defaults.merge", Some(3)),
    ("defaults.update", Some(3)),
    ("slsutil.update", None),
];

/// The argument that a function changes: templates rely on it (`{% do salt['defaults.merge'](a, b) %}`).
fn changed_argument<'a>(function: &str, args: &'a Args) -> Option<&'a Obj> {
    let (_, place) = IN_PLACE.iter().find(|(name, _)| *name == function)?;
    let named = |wanted: &str| {
        let mut all = args.keyword.iter();
        all.find(|(name, _)| name.as_ref() == wanted)
            .map(|(_, value)| value)
    };
    let said = place.and_then(|at| named("in_place").or_else(|| args.positional.get(at)));
    if said.is_some_and(|said| !said.truthy().unwrap_or(true)) {
        return None;
    }
    args.positional.first().or_else(|| named("dest"))
}

/// Imported templates of an environment, fetched from the file server.
struct Fetched {
    ctx: Rc<Context>,
    saltenv: String,
    /// What was fetched before; files do not change during a rendering.
    known: RefCell<HashMap<String, Option<SourceFile>>>,
}

/// The trees of environments.
type FetchedTrees = HashMap<String, Rc<Fetched>>;

impl FileTree for Fetched {
    fn find(&self, name: &str) -> Option<SourceFile> {
        if self.saltenv.is_empty() {
            return None;
        }
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        let found = self.fetch(name);
        self.known
            .borrow_mut()
            .insert(name.to_owned(), found.clone());
        found
    }
}

impl Fetched {
    fn fetch(&self, name: &str) -> Option<SourceFile> {
        let url = files::url::create(name, None);
        let found = FileClient::new(&self.ctx)
            .and_then(|client| client.cache_file(&url, &self.saltenv))
            .unwrap_or_else(|e| {
                log::warn!("{url}: {e}");
                None
            })?;
        match std::fs::read_to_string(&found) {
            Ok(text) => {
                halite_render::written_slots::note(&text);
                Some(SourceFile {
                    path: found,
                    name: name.to_owned(),
                    text: text.into(),
                })
            }
            Err(e) => {
                log::error!("{}: {e}", found.display());
                None
            }
        }
    }
}

/// Renders the SLS files of one run: they share their variables, and imported templates are fetched once.
pub struct MinionTemplates {
    renderer: SceneRenderer,
    caller: Rc<dyn FunctionCaller>,
    gpg: Gpg,
}

/// How long the programs that decrypt the values of a file may take.
const DECRYPT_TIMEOUT: Duration = Duration::from_secs(300);

impl MinionTemplates {
    /// A renderer with the minion's grains, pillar and options, whose templates call `caller`.
    pub fn new(
        ctx: &Context,
        caller: Rc<dyn FunctionCaller>,
        options: &RenderOptions,
    ) -> MinionTemplates {
        let engine = TemplateEngine::with_host_filters(&options.jinja, Some(caller.host_filters()));
        MinionTemplates {
            renderer: SceneRenderer::new(template_scene(
                &Rc::new(ctx.clone()),
                &caller,
                engine,
                &Rc::default(),
            )),
            caller,
            gpg: Gpg::new(options),
        }
    }
}

impl Templates for MinionTemplates {
    fn jinja(&self, source: &Source, text: &str) -> Result<String, RenderError> {
        let scene = self.renderer.scene();
        if scene.engine.is_plain(text) {
            return Ok(text.to_owned());
        }
        let more = vec![
            ("sls", Obj::str_from(source.sls)),
            ("proxy", Obj::from(Map::new())),
        ];
        let template = SceneTemplate {
            text,
            saltenv: source.saltenv,
            place: Some((source.path, source.sls)),
            variables: source.defaults,
        };
        self.renderer.render(&template, more)
    }

    fn gpg(&self, source: &Source, data: &mut Value) -> Result<(), RenderError> {
        let newlines = source.defaults.get("translate_newlines");
        let newlines = newlines.is_some_and(Value::truthy);
        let until = Instant::now() + DECRYPT_TIMEOUT;
        self.gpg
            .decrypt(data, newlines, until)
            .map_err(RenderError::new)
    }

    fn has_python(&self, renderer: &str, is_ours: bool) -> bool {
        self.caller.has_renderer(renderer, is_ours)
    }

    fn python(
        &self,
        source: &Source,
        renderer: &str,
        input: Value,
        args: &str,
    ) -> Result<Value, RenderError> {
        let args = python_args(source, renderer, input, args);
        let done = self.caller.python("render", args);
        done.map_err(|e| RenderError::new(e.message()))
    }
}

/// Whether stock Salt has a template engine of that name.
pub fn is_template(format: &str) -> bool {
    FORMATS.contains(&format)
}

/// A template to render.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// The template engine.
    pub format: &'a str,
    /// The text.
    pub text: &'a str,
    /// The environment for imported templates; empty for none.
    pub saltenv: &'a str,
    /// Variables, which override the default ones.
    pub variables: &'a Map,
}

/// Renders templates one after another, such as those of managed files. They share their variables.
pub struct TemplateRenderer {
    renderer: SceneRenderer,
    caller: Rc<dyn FunctionCaller>,
    trees: Rc<RefCell<FetchedTrees>>,
}

impl TemplateRenderer {
    /// A renderer whose templates call `caller`.
    ///
    /// # Errors
    /// A wrong option.
    pub fn new(
        ctx: &Rc<Context>,
        caller: &Rc<dyn FunctionCaller>,
    ) -> Result<TemplateRenderer, CallError> {
        let jinja = JinjaOptions::of_minion(&ctx.opts).map_err(|e| fault(e.to_string()))?;
        let engine = TemplateEngine::with_host_filters(&jinja, Some(caller.host_filters()));
        let trees = Rc::default();
        Ok(TemplateRenderer {
            renderer: SceneRenderer::new(template_scene(ctx, caller, engine, &trees)),
            caller: caller.clone(),
            trees,
        })
    }

    /// Renders a template; the inner error is text for a state return.
    ///
    /// # Errors
    /// `SaltRenderError`: invalid template, or an error in a function it calls.
    pub fn render(&self, template: &Template<'_>) -> Result<Result<String, String>, CallError> {
        if template.format != FORMATS[0] {
            let args = vec![
                template.format.into(),
                template.text.into(),
                template.saltenv.into(),
                template.variables.clone().into(),
            ];
            return Ok(match self.caller.python("template", args) {
                Ok(Value::Str(text)) => Ok(text),
                Ok(other) => Err(format!(
                    "a template must give text, not {}",
                    crate::python::type_name(&other)
                )),
                Err(e) => Err(e.message().to_owned()),
            });
        }
        let depth = DEPTH.get();
        if depth >= MAX_DEPTH {
            return Err(fault(format!(
                "templates are nested more than {MAX_DEPTH} levels deep"
            )));
        }
        // What the last template imported may have changed since.
        self.trees.borrow_mut().clear();
        let text_of = |name: &str| template.variables.str(name);
        let sls = text_of("sls");
        let template = SceneTemplate {
            text: template.text,
            saltenv: template.saltenv,
            place: sls.map(|sls| (text_of("tplpath").unwrap_or_default(), sls)),
            variables: template.variables,
        };
        DEPTH.set(depth + 1);
        let text = self.renderer.render(&template, Vec::new());
        DEPTH.set(depth);
        text.map(Ok).map_err(|e| fault(e.to_string()))
    }
}

fn fault(text: String) -> CallError {
    CallError::raised("salt.exceptions.SaltRenderError", text)
}

/// What every template of this minion sees.
fn template_scene(
    ctx: &Rc<Context>,
    caller: &Rc<dyn FunctionCaller>,
    engine: TemplateEngine,
    trees: &Rc<RefCell<FetchedTrees>>,
) -> Scene {
    let ctx = ctx.clone();
    let of_opts = ctx.clone();
    let trees = trees.clone();
    Scene {
        engine: Rc::new(engine),
        opts: Rc::new(LazyCell::new(Box::new(move || Map::clone(&of_opts.opts)))),
        grains: ctx.grains.clone(),
        pillar: ctx.pillar.clone(),
        functions: Rc::new(SaltFunctions(caller.clone())),
        trees: Rc::new(move |saltenv| {
            let mut trees = trees.borrow_mut();
            let make = || {
                Rc::new(Fetched {
                    ctx: ctx.clone(),
                    saltenv: saltenv.to_owned(),
                    known: RefCell::default(),
                })
            };
            trees.entry(saltenv.to_owned()).or_insert_with(make).clone()
        }),
    }
}

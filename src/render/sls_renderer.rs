//! Renders SLS files on behalf of a minion: its variables, `salt[...]`, and the renderers `yaml` and `gpg`.

use super::RenderError;
use super::fleet::Fleet;
use super::functions::{
    BuiltinFunctions, ChainedLoader, FunctionContext, FunctionLoader, LazyMap, RunnerFn,
};
use super::gpg::Gpg;
use super::pipeline::{Pipeline, Source, Templates, python_args, render_yaml};
use super::python::{About, MasterPython};
use super::scene::{Scene, SceneRenderer, SceneTemplate, Trees};
use super::template::TemplateEngine;
use halite_config::{MasterConfig, RenderOptions};
use halite_jinja::Obj;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{LazyCell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of rendered texts whose data are cached; the cache is cleared when there are more. Data take about ten
/// times as much memory.
const MAX_PARSED: usize = 4 << 20;

/// Data of texts that were parsed before. Most minions get the same pillar again, and parsing its YAML is most of
/// the work.
#[derive(Default)]
pub(super) struct ParsedCache(RefCell<ParsedTexts>);

#[derive(Default)]
struct ParsedTexts {
    data: HashMap<Box<str>, Value>,
    bytes: usize,
}

impl ParsedCache {
    fn yaml(&self, text: &str) -> Result<Value, RenderError> {
        if let Some(data) = self.0.borrow().data.get(text) {
            return Ok(data.clone());
        }
        let data = render_yaml(text)?;
        let mut cache = self.0.borrow_mut();
        cache.bytes += text.len();
        if cache.bytes > MAX_PARSED {
            *cache = ParsedTexts {
                bytes: text.len(),
                ..ParsedTexts::default()
            };
        }
        cache.data.insert(text.into(), data.clone());
        Ok(data)
    }
}

/// Options and caches that outlive one rendering. A worker has one.
pub(super) struct RenderContext {
    pub options: Rc<RenderOptions>,
    /// The options of the master, or of the minion that renders for itself, as templates see them.
    pub opts: Rc<Map>,
    pub engine: Rc<TemplateEngine>,
    pub parsed: ParsedCache,
    pub gpg: Gpg,
    /// The minions of a master; `None` on a minion.
    pub fleet: Option<Rc<Fleet>>,
    /// All functions of the host, for those who render for it.
    pub functions: Option<Rc<dyn FunctionLoader>>,
    /// Calls runner functions, for SLS files of the master itself.
    pub runner: Option<Rc<RunnerFn>>,
    /// Python files of a master.
    pub python: Option<Rc<MasterPython>>,
}

impl RenderContext {
    /// For a master.
    pub fn of_master(config: &MasterConfig) -> RenderContext {
        let context = RenderContext::new(config.into(), config.as_map());
        let opts = Arc::new(Map::clone(&context.opts));
        RenderContext {
            fleet: Some(Rc::new(Fleet::new(config))),
            python: Some(Rc::new(MasterPython::new(opts))),
            ..context
        }
    }

    /// For a minion that renders for itself.
    pub fn of_minion(
        options: RenderOptions,
        opts: Map,
        functions: Rc<dyn FunctionLoader>,
    ) -> RenderContext {
        RenderContext {
            functions: Some(functions),
            ..RenderContext::new(options, opts)
        }
    }

    fn new(options: RenderOptions, opts: Map) -> RenderContext {
        RenderContext {
            engine: Rc::new(TemplateEngine::new(&options.jinja)),
            parsed: ParsedCache::default(),
            gpg: Gpg::new(&options),
            fleet: None,
            functions: None,
            runner: None,
            python: None,
            opts: Rc::new(opts),
            options: Rc::new(options),
        }
    }

    /// A pipeline with the renderers that the options allow.
    pub fn pipeline(&self, default: &str) -> Pipeline {
        Pipeline {
            default: default.to_owned(),
            blacklist: self.options.renderer_blacklist.clone(),
            whitelist: self.options.renderer_whitelist.clone(),
        }
    }
}

/// For which minion SLS files are rendered, and with what.
pub(super) struct Subject {
    pub id: MinionId,
    pub grains: Arc<Map>,
    /// The pillar as far as templates may see it.
    pub pillar: Arc<Map>,
    /// The options as templates see them.
    pub opts: Rc<LazyMap>,
    /// Where templates find others.
    pub trees: Rc<Trees>,
    /// Whether the files are those of a pillar.
    pub pillar_rend: bool,
    /// When child processes are killed.
    pub deadline: Instant,
}

/// Renders the files of one compilation.
pub(super) struct SlsRenderer {
    context: Rc<RenderContext>,
    renderer: SceneRenderer,
    pillar_rend: bool,
    /// The environment of the running template.
    saltenv: RefCell<String>,
    /// What Python code sees.
    about: OnceCell<About>,
    deadline: Instant,
}

impl SlsRenderer {
    pub fn new(context: &Rc<RenderContext>, subject: Subject) -> Rc<SlsRenderer> {
        Rc::new_cyclic(|own: &Weak<SlsRenderer>| {
            let (render, find) = (own.clone(), own.clone());
            let builtin: Rc<dyn FunctionLoader> =
                Rc::new(BuiltinFunctions(Rc::new(FunctionContext {
                    id: subject.id,
                    grains: subject.grains.clone(),
                    pillar: subject.pillar.clone(),
                    opts: subject.opts.clone(),
                    options: context.options.clone(),
                    fleet: context.fleet.clone(),
                    runner: context.runner.clone(),
                    is_closed: context.functions.is_none(),
                    deadline: subject.deadline,
                    render: Rc::new(move |text, path, pipe, more| {
                        let own = render.upgrade().ok_or("the compilation is over")?;
                        own.pipe(text, path, pipe, more).map_err(|e| e.to_string())
                    }),
                    find: Rc::new(move |name| {
                        let own = find.upgrade()?;
                        let saltenv = own.saltenv.borrow().clone();
                        (own.renderer.scene().trees)(&saltenv).find(name)
                    }),
                })));
            let functions = match &context.functions {
                None => builtin,
                Some(functions) => Rc::new(ChainedLoader(builtin, functions.clone())),
            };
            SlsRenderer {
                context: context.clone(),
                renderer: SceneRenderer::new(Scene {
                    engine: context.engine.clone(),
                    opts: subject.opts,
                    grains: subject.grains,
                    pillar: subject.pillar,
                    functions,
                    trees: subject.trees,
                }),
                pillar_rend: subject.pillar_rend,
                saltenv: RefCell::default(),
                about: OnceCell::new(),
                deadline: subject.deadline,
            }
        })
    }

    /// What Python code on a master sees.
    pub fn about(&self) -> &About {
        self.about.get_or_init(|| {
            let scene = self.renderer.scene();
            let opts = Arc::new(LazyCell::force(&scene.opts).clone());
            About {
                grains: scene.grains.clone(),
                pillar: scene.pillar.clone(),
                functions: Some(scene.functions.clone()),
                ..About::new(opts, self.deadline)
            }
        })
    }

    fn pipe(&self, text: &str, path: &str, pipe: &str, more: &Map) -> Result<Value, RenderError> {
        let saltenv = self.saltenv.borrow().clone();
        let source = Source {
            text,
            path,
            saltenv: &saltenv,
            sls: "",
            defaults: more,
        };
        self.context.pipeline(pipe).compile(&source, self)
    }
}

impl Templates for SlsRenderer {
    fn jinja(&self, source: &Source, text: &str) -> Result<String, RenderError> {
        if self.context.engine.is_plain(text) {
            return Ok(text.to_owned());
        }
        let mut more = vec![
            ("sls", Obj::str_from(source.sls)),
            ("proxy", Obj::from(Map::new())),
        ];
        if self.pillar_rend {
            more.push(("_pillar_rend", Obj::Bool(true)));
        }
        let template = SceneTemplate {
            text,
            saltenv: source.saltenv,
            place: Some((source.path, source.sls)),
            variables: source.defaults,
        };
        let before = self.saltenv.replace(source.saltenv.to_owned());
        let result = self.renderer.render(&template, more);
        self.saltenv.replace(before);
        result
    }

    fn yaml(&self, text: &str) -> Result<Value, RenderError> {
        self.context.parsed.yaml(text)
    }

    fn has_python(&self, renderer: &str, is_ours: bool) -> bool {
        match (&self.context.functions, &self.context.python) {
            (_, Some(python)) => python.has_renderer(|| self.about(), renderer, is_ours),
            (Some(functions), None) => functions.has_renderer(renderer, is_ours),
            (None, None) => false,
        }
    }

    fn python(
        &self,
        source: &Source,
        renderer: &str,
        input: Value,
        args: &str,
    ) -> Result<Value, RenderError> {
        let args = python_args(source, renderer, input, args);
        match (&self.context.functions, &self.context.python) {
            (_, Some(python)) => python
                .request(self.about(), "render", args)
                .map_err(RenderError::new),
            (Some(functions), None) => functions.render(args).map_err(RenderError::new),
            (None, None) => Err(RenderError::new("there is no Python here")),
        }
    }

    fn gpg(&self, source: &Source, data: &mut Value) -> Result<(), RenderError> {
        let newlines = source.defaults.get("translate_newlines");
        let newlines = newlines.is_some_and(Value::truthy);
        let done = self.context.gpg.decrypt(data, newlines, self.deadline);
        done.map_err(RenderError::new)
    }
}

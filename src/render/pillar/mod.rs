//! The pillar of a minion: top files, SLS files, external pillars
//! (`salt/pillar/__init__.py Pillar`).
//!
//! [`PillarCompiler`] outlives requests; `Compilation` is one request. Errors go into the pillar, under
//! `_errors` and in Salt's wording. Where stock Salt fails to return a pillar at all, there is a
//! [`PillarError`] if the pillar could not be trusted, else an entry of `_errors`.

mod cache;
mod decrypt;
mod ext;
mod sls;
mod top;

#[cfg(test)]
mod tests;

use super::RenderError;
use super::files::{FileCache, FileTree, RootsTree};
use super::functions::FunctionLoader;
use super::merge::{MergeStrategy, Merger};
use super::pipeline::{Pipeline, Source};
use super::python::MasterPython;
use super::sls_renderer::{RenderContext, SlsRenderer, Subject};
use halite_config::{MasterConfig, RenderOptions, SaltSeries};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{Cell, LazyCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::tops::Matches;
pub use ext::names as ext_pillar_names;
pub use top::Top;

/// Why no pillar can be returned at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PillarError(pub String);

impl fmt::Display for PillarError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PillarError {}

/// Which pillar to compile, and how.
#[derive(Clone, Debug)]
pub struct PillarRequest {
    /// The minion.
    pub id: MinionId,
    /// Its grains, as it sent them.
    pub grains: Arc<Map>,
    /// The environment of its states.
    pub saltenv: Option<String>,
    /// The only environment of the pillar to use.
    pub pillarenv: Option<String>,
    /// An external pillar that the minion asks for (`on_demand_ext_pillar`).
    pub ext: Option<Value>,
    /// Pillar data from the command line.
    pub pillar_override: Map,
    /// Parts of its configuration for external pillars (`pass_to_ext_pillars`).
    pub extra_minion_data: Map,
    /// Drop the entry of this minion in `pillar_cache` first.
    pub clean_cache: bool,
}

impl PillarRequest {
    /// A request with defaults.
    pub fn new(id: MinionId, grains: Map) -> PillarRequest {
        PillarRequest {
            id,
            grains: Arc::new(grains),
            saltenv: None,
            pillarenv: None,
            ext: None,
            pillar_override: Map::new(),
            extra_minion_data: Map::new(),
            clean_cache: false,
        }
    }
}

/// Compiles pillars. Holds options, stores and caches; a worker has one for all requests.
pub struct PillarCompiler {
    context: Rc<RenderContext>,
    files: Rc<FileCache>,
    cache: cache::PillarCache,
}

impl PillarCompiler {
    /// For a master. Nothing is read yet.
    pub fn new(config: &MasterConfig) -> PillarCompiler {
        PillarCompiler::of(RenderContext::of_master(config))
    }

    fn of(context: RenderContext) -> PillarCompiler {
        PillarCompiler {
            files: Rc::default(),
            cache: cache::PillarCache::new(&context.options),
            context: Rc::new(context),
        }
    }

    fn options(&self) -> &RenderOptions {
        &self.context.options
    }

    /// The Python files of a master.
    pub fn python(&self) -> Option<&MasterPython> {
        self.context.python.as_deref()
    }

    /// For a minion that compiles its own pillar. Templates see its options `opts` and call its execution
    /// functions.
    pub fn of_minion(
        options: RenderOptions,
        opts: Map,
        functions: Rc<dyn FunctionLoader>,
    ) -> PillarCompiler {
        PillarCompiler::of(RenderContext::of_minion(options, opts, functions))
    }

    /// The pillar of a minion, from the cache if `pillar_cache` is on. Child processes are killed after
    /// `limit`.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn pillar(&self, request: &PillarRequest, limit: Duration) -> Result<Map, PillarError> {
        if request.clean_cache {
            self.cache.remove(&request.id);
        }
        if !self.options().pillar_cache {
            return self.compile(request, limit);
        }
        let compile = Compilation::new(self, request, limit);
        let env = compile.settings.pillarenv.clone();
        let pillar = match self.cache.get(&request.id, env.as_deref()) {
            Some(pillar) => pillar,
            None => {
                // Data from the command line must not get into the cache.
                let plain = PillarRequest {
                    pillar_override: Map::new(),
                    ..request.clone()
                };
                let pillar = self.compile(&plain, limit)?;
                self.cache.put(&request.id, env.as_deref(), &pillar);
                pillar
            }
        };
        Ok(compile.merger.merge(pillar, &request.pillar_override))
    }

    /// Compiles the pillar of a minion.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn compile(&self, request: &PillarRequest, limit: Duration) -> Result<Map, PillarError> {
        let began = Instant::now();
        let pillar = Compilation::new(self, request, limit).run(true);
        log::debug!("pillar of {} compiled in {:?}", request.id, began.elapsed());
        pillar
    }

    /// The merged top files, and errors in them.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn top(&self, request: &PillarRequest) -> Result<(Top, Vec<String>), PillarError> {
        Compilation::new(
            self,
            request,
            Duration::from_secs(self.options().request_timeout),
        )
        .top()
    }
}

/// The options of the master as a request changes them (`Pillar.__gen_opts`).
#[derive(Clone, Debug)]
struct PillarSettings {
    roots: Vec<(String, Vec<String>)>,
    saltenv: Option<String>,
    pillarenv: Option<String>,
    ext_pillar: Value,
    /// The roots are checkouts of `git_pillar`.
    git: bool,
}

impl PillarSettings {
    fn of(options: &RenderOptions, request: &PillarRequest) -> PillarSettings {
        let mut pillarenv = request.pillarenv.clone();
        if pillarenv.is_none() && options.pillarenv_from_saltenv {
            pillarenv = request.saltenv.clone();
        }
        let pillarenv = pillarenv
            .or_else(|| options.pillarenv.clone())
            .filter(|env| !env.is_empty());
        let mut roots = options.pillar_roots.0.clone();
        let wanted = pillarenv.as_deref().or(request.saltenv.as_deref());
        dynamic_env(
            &mut roots,
            wanted.filter(|env| !env.is_empty()).unwrap_or("base"),
        );
        PillarSettings {
            roots,
            saltenv: request.saltenv.clone(),
            pillarenv,
            ext_pillar: with_on_demand(options, request.ext.as_ref()),
            git: false,
        }
    }

    fn roots_of(&self, env: &str) -> Option<&[String]> {
        self.roots
            .iter()
            .find(|(name, _)| name == env)
            .map(|(_, dirs)| dirs.as_slice())
    }

    /// `base`, then the other environments in the order of `pillar_roots`.
    fn envs(&self) -> Vec<&str> {
        let others = self
            .roots
            .iter()
            .map(|(env, _)| env.as_str())
            .filter(|env| *env != "base");
        std::iter::once("base").chain(others).collect()
    }
}

/// Makes the roots of `__env__` those of `env`, unless `env` has its own.
fn dynamic_env(roots: &mut Vec<(String, Vec<String>)>, env: &str) {
    let Some(at) = roots.iter().position(|(name, _)| name == "__env__") else {
        return;
    };
    let (_, dirs) = roots.remove(at);
    // The name comes from the minion and becomes part of a path.
    let plain = !env.starts_with('.') && !env.contains(['/', '\0']);
    if plain && !roots.iter().any(|(name, _)| name == env) {
        let dirs = dirs.iter().map(|dir| dir.replace("__env__", env)).collect();
        roots.push((env.to_owned(), dirs));
    }
}

/// `ext_pillar` plus what the minion asks for, if `on_demand_ext_pillar` allows all of it.
fn with_on_demand(options: &RenderOptions, ext: Option<&Value>) -> Value {
    let mut entries = options.ext_pillar.0.clone();
    let Some(ext) = ext.filter(|ext| ext.truthy()) else {
        return entries;
    };
    let Value::Map(wanted) = ext else {
        log::error!("On-demand pillar {ext:?} is not formatted as a dictionary");
        return entries;
    };
    let allowed = &options.on_demand_ext_pillar;
    let known = |name: &Value| {
        name.as_str()
            .is_some_and(|n| allowed.iter().any(|a| a == n))
    };
    let invalid: Vec<String> = wanted
        .iter()
        .filter(|(name, _)| !known(name))
        .map(|(name, _)| name.as_str().unwrap_or("?").to_owned())
        .collect();
    if !invalid.is_empty() {
        log::error!(
            "The following ext_pillar modules are not allowed for on-demand pillar data: {}. \
             Valid on-demand ext_pillar modules are: {}. The valid modules can be adjusted by \
             setting the 'on_demand_ext_pillar' config option.",
            invalid.join(", "),
            allowed.join(", ")
        );
        return entries;
    }
    match &mut entries {
        Value::Array(list) => list.push(ext.clone()),
        other => *other = Value::Array(vec![ext.clone()]),
    }
    entries
}

/// The release of Salt that templates see.
fn salt_version(series: SaltSeries) -> &'static str {
    match series {
        SaltSeries::S3006 => "3006.28",
        SaltSeries::S3007 => "3007.15",
        SaltSeries::S3008 => "3008.3",
    }
}

/// One compilation.
struct Compilation<'a> {
    master: &'a PillarCompiler,
    request: &'a PillarRequest,
    settings: PillarSettings,
    pipeline: Pipeline,
    merger: Merger,
    /// Missing SLS files that are not an error, by environment.
    ignored: RefCell<Vec<(String, String)>>,
    /// The pillar as templates and targets see it.
    pillar: RefCell<Arc<Map>>,
    renderer: RefCell<Option<Rc<SlsRenderer>>>,
    /// The options that external pillars in Python see.
    ext_opts: RefCell<Option<Arc<Map>>>,
    depth: Cell<usize>,
    deadline: Instant,
}

impl<'a> Compilation<'a> {
    fn new(
        master: &'a PillarCompiler,
        request: &'a PillarRequest,
        limit: Duration,
    ) -> Compilation<'a> {
        let settings = PillarSettings::of(master.options(), request);
        Compilation::with(master, request, settings, Instant::now() + limit)
    }

    fn with(
        master: &'a PillarCompiler,
        request: &'a PillarRequest,
        settings: PillarSettings,
        deadline: Instant,
    ) -> Compilation<'a> {
        let options = master.options();
        Compilation {
            master,
            request,
            settings,
            pipeline: master.context.pipeline(&options.renderer),
            merger: Merger {
                strategy: MergeStrategy::of(
                    &options.pillar_source_merging_strategy,
                    &options.renderer,
                ),
                lists: options.pillar_merge_lists,
            },
            ignored: RefCell::default(),
            pillar: RefCell::default(),
            renderer: RefCell::default(),
            ext_opts: RefCell::default(),
            depth: Cell::new(0),
            deadline,
        }
    }

    fn options(&self) -> &RenderOptions {
        self.master.options()
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// `Pillar.compile_pillar`.
    fn run(&self, ext: bool) -> Result<Map, PillarError> {
        let (top, top_errors) = self.top()?;
        let mut errors = Vec::new();
        let mut pillar = if ext && self.options().ext_pillar_first {
            let first = self.ext_pillar(self.request.pillar_override.clone(), &mut errors)?;
            *self.pillar.borrow_mut() = Arc::new(first.clone());
            self.renderer.replace(None);
            let rendered = self.render(&self.matches(&top)?, &mut errors)?;
            self.merger.merge(first, &rendered)
        } else {
            let rendered = self.render(&self.matches(&top)?, &mut errors)?;
            if ext {
                self.ext_pillar(rendered, &mut errors)?
            } else {
                rendered
            }
        };
        errors.extend(top_errors);
        if self.options().pillar_opts {
            pillar.set("master", self.master_opts());
        }
        if !errors.is_empty() {
            for error in &errors {
                log::error!("Pillar render error: {error}");
            }
            pillar.set("_errors", errors);
        }
        let mut pillar = self.merger.merge(pillar, &self.request.pillar_override);
        self.decrypt(&mut pillar);
        Ok(pillar)
    }

    /// The options as `pillar_opts` shows them to minions, without those that are keys to the master itself.
    fn master_opts(&self) -> Map {
        let mut opts = (*self.master.context.opts).clone();
        for hidden in ["grains", "cluster", "cluster_secret", "sharedsecret"] {
            opts.remove(hidden);
        }
        if let Some(Value::Map(systems)) = opts.get_mut("external_auth")
            && let Some(Value::Map(oidc)) = systems.get_mut("oidc")
        {
            oidc.remove("^client_secret");
        }
        opts.set("saltversion", salt_version(self.options().salt_series));
        opts
    }

    /// Renders one source to data.
    fn compile_source(&self, source: &Source) -> Result<Value, RenderError> {
        self.pipeline.compile(source, &*self.renderer())
    }

    /// The renderer of templates, created with the first source.
    fn renderer(&self) -> Rc<SlsRenderer> {
        let mut renderer = self.renderer.borrow_mut();
        let make = || SlsRenderer::new(&self.master.context, self.subject());
        renderer.get_or_insert_with(make).clone()
    }

    fn subject(&self) -> Subject {
        let (files, roots) = (self.master.files.clone(), self.settings.roots.clone());
        let tree = move |env: &str| -> Rc<dyn FileTree> {
            let found = roots.iter().find(|(name, _)| name == env);
            let roots = found.map(|(_, dirs)| dirs.clone()).unwrap_or_default();
            let files = files.clone();
            Rc::new(RootsTree { files, roots })
        };
        let opts = self.master.context.opts.clone();
        let (request, settings) = (self.request.clone(), self.settings.clone());
        let make = move || pillar_opts(&opts, &request, &settings);
        Subject {
            id: self.request.id.clone(),
            grains: self.request.grains.clone(),
            pillar: self.pillar.borrow().clone(),
            opts: Rc::new(LazyCell::new(Box::new(make))),
            trees: Rc::new(tree),
            pillar_rend: true,
            deadline: self.deadline,
        }
    }
}

/// The options as `Pillar.__gen_opts` changes them. Grains are added later.
fn pillar_opts(opts: &Map, request: &PillarRequest, settings: &PillarSettings) -> Map {
    let mut opts = opts.clone();
    let roots: Map = settings
        .roots
        .iter()
        .map(|(env, dirs)| (env.as_str(), dirs.clone()))
        .collect();
    opts.set("pillar_roots", roots);
    opts.set("file_client", "local");
    opts.set("grains", (*request.grains).clone());
    opts.set("saltenv", settings.saltenv.clone());
    opts.set("pillarenv", settings.pillarenv.clone());
    opts.set("id", request.id.as_str());
    opts.set("minion_id", request.id.as_str());
    opts
}

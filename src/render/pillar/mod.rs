//! The pillar of a minion: top files, SLS files, external pillars
//! (`salt/pillar/__init__.py Pillar`).
//!
//! [`PillarCompiler`] is what a worker keeps between requests; `Compilation` is one request.
//! Errors that Salt puts into the pillar stand there under `_errors`, in its words. What makes
//! stock Salt give up on the whole pillar is a [`PillarError`] here where the pillar could not
//! be trusted, else one more entry of `_errors`.

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
use super::variables::{Given, Shared, Variables};
use halite_config::{MasterConfig, SaltSeries};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{Cell, LazyCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use ext::names as ext_pillar_names;
use top::Matches;
pub use top::Top;

/// Why there is no pillar at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PillarError(pub String);

impl fmt::Display for PillarError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PillarError {}

/// For whom a pillar is compiled, and how.
#[derive(Clone, Debug)]
pub struct PillarRequest {
    /// The minion.
    pub id: MinionId,
    /// Its grains, as it sent them.
    pub grains: Rc<Map>,
    /// The environment of its states.
    pub saltenv: Option<String>,
    /// The one environment of the pillar that counts.
    pub pillarenv: Option<String>,
    /// An external pillar it asks for (`on_demand_ext_pillar`).
    pub ext: Option<Value>,
    /// Pillar data given on the command line.
    pub pillar_override: Map,
    /// Parts of its configuration that external pillars get (`pass_to_ext_pillars`).
    pub extra_minion_data: Map,
    /// Forget what `pillar_cache` holds of it.
    pub clean_cache: bool,
}

impl PillarRequest {
    /// A request without any wishes.
    pub fn new(id: MinionId, grains: Map) -> PillarRequest {
        PillarRequest {
            id,
            grains: Rc::new(grains),
            saltenv: None,
            pillarenv: None,
            ext: None,
            pillar_override: Map::new(),
            extra_minion_data: Map::new(),
            clean_cache: false,
        }
    }
}

/// Configuration, stores and what was read before: one per worker, for all its requests.
pub struct PillarCompiler {
    config: Rc<MasterConfig>,
    shared: Rc<Shared>,
    files: Rc<FileCache>,
    cache: cache::PillarCache,
}

impl PillarCompiler {
    /// Opens what `config` names; nothing is read yet.
    pub fn new(config: &MasterConfig) -> PillarCompiler {
        let shared = Rc::new(Shared::new(config));
        PillarCompiler {
            config: shared.config.clone(),
            shared,
            files: Rc::default(),
            cache: cache::PillarCache::new(config),
        }
    }

    /// As [`PillarCompiler::new`] for a minion that compiles its own pillar: templates see `opts`, its options, and
    /// have `functions`, its execution functions.
    pub fn standalone(
        config: &MasterConfig,
        opts: Map,
        functions: Rc<dyn FunctionLoader>,
    ) -> PillarCompiler {
        let mut master = PillarCompiler::new(config);
        let mut shared = Shared::new(config);
        shared.opts = Rc::new(opts);
        shared.functions = Some(functions);
        master.shared = Rc::new(shared);
        master
    }

    /// The pillar of one minion, from the cache if `pillar_cache` is on. `limit` is the time it
    /// may take; child processes are killed when it has passed.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn pillar(&self, request: &PillarRequest, limit: Duration) -> Result<Map, PillarError> {
        if request.clean_cache {
            self.cache.remove(&request.id);
        }
        if !self.config.pillar_cache {
            return self.compile(request, limit);
        }
        let compile = Compilation::new(self, request, limit);
        let env = compile.settings.pillarenv.clone();
        let pillar = match self.cache.get(&request.id, env.as_deref()) {
            Some(pillar) => pillar,
            None => {
                // What is given on the command line belongs to one request only.
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

    /// The pillar of one minion, made afresh.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn compile(&self, request: &PillarRequest, limit: Duration) -> Result<Map, PillarError> {
        let began = Instant::now();
        let pillar = Compilation::new(self, request, limit).run(true);
        log::debug!("pillar of {} compiled in {:?}", request.id, began.elapsed());
        pillar
    }

    /// The merged top files, with the errors on the way.
    ///
    /// # Errors
    /// See [`PillarError`].
    pub fn top(&self, request: &PillarRequest) -> Result<(Top, Vec<String>), PillarError> {
        Compilation::new(
            self,
            request,
            Duration::from_secs(self.config.request_timeout),
        )
        .top()
    }
}

/// What one request changes in the options of the master (`Pillar.__gen_opts`).
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
    fn of(config: &MasterConfig, request: &PillarRequest) -> PillarSettings {
        let mut pillarenv = request.pillarenv.clone();
        if pillarenv.is_none() && config.pillarenv_from_saltenv {
            pillarenv = request.saltenv.clone();
        }
        let pillarenv = pillarenv
            .or_else(|| config.pillarenv.clone())
            .filter(|env| !env.is_empty());
        let mut roots = config.pillar_roots.0.clone();
        let wanted = pillarenv.as_deref().or(request.saltenv.as_deref());
        dynamic_env(
            &mut roots,
            wanted.filter(|env| !env.is_empty()).unwrap_or("base"),
        );
        PillarSettings {
            roots,
            saltenv: request.saltenv.clone(),
            pillarenv,
            ext_pillar: with_on_demand(config, request.ext.as_ref()),
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

/// Lets the roots of `__env__` stand for `env`, unless that has roots of its own.
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

/// `ext_pillar` with what the minion asks for, if `on_demand_ext_pillar` allows all of it.
fn with_on_demand(config: &MasterConfig, ext: Option<&Value>) -> Value {
    let mut entries = config.ext_pillar.0.clone();
    let Some(ext) = ext.filter(|ext| ext.truthy()) else {
        return entries;
    };
    let Value::Map(wanted) = ext else {
        log::error!("On-demand pillar {ext:?} is not formatted as a dictionary");
        return entries;
    };
    let allowed = &config.on_demand_ext_pillar;
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

/// The release of Salt that templates are told.
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
    /// SLS files whose absence is no error, per environment.
    ignored: RefCell<Vec<(String, String)>>,
    /// The pillar as templates and targets see it.
    pillar: RefCell<Rc<Map>>,
    variables: RefCell<Option<Rc<Variables>>>,
    depth: Cell<usize>,
    deadline: Instant,
}

impl<'a> Compilation<'a> {
    fn new(
        master: &'a PillarCompiler,
        request: &'a PillarRequest,
        limit: Duration,
    ) -> Compilation<'a> {
        let settings = PillarSettings::of(&master.config, request);
        Compilation::with(master, request, settings, Instant::now() + limit)
    }

    fn with(
        master: &'a PillarCompiler,
        request: &'a PillarRequest,
        settings: PillarSettings,
        deadline: Instant,
    ) -> Compilation<'a> {
        let config = &master.config;
        Compilation {
            master,
            request,
            settings,
            pipeline: Pipeline {
                default: config.renderer.clone(),
                blacklist: config.renderer_blacklist.clone(),
                whitelist: config.renderer_whitelist.clone(),
            },
            merger: Merger {
                strategy: MergeStrategy::of(
                    &config.pillar_source_merging_strategy,
                    &config.renderer,
                ),
                lists: config.pillar_merge_lists,
            },
            ignored: RefCell::default(),
            pillar: RefCell::default(),
            variables: RefCell::default(),
            depth: Cell::new(0),
            deadline,
        }
    }

    fn config(&self) -> &MasterConfig {
        &self.master.config
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// `Pillar.compile_pillar`.
    fn run(&self, ext: bool) -> Result<Map, PillarError> {
        let (top, top_errors) = self.top()?;
        let mut errors = Vec::new();
        let mut pillar = if ext && self.config().ext_pillar_first {
            let first = self.ext_pillar(self.request.pillar_override.clone(), &mut errors)?;
            *self.pillar.borrow_mut() = Rc::new(first.clone());
            self.variables.replace(None);
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
        if self.config().pillar_opts {
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

    /// The options of the master as `pillar_opts` shows them to minions.
    fn master_opts(&self) -> Map {
        let mut opts = self.config().as_map();
        opts.set("saltversion", salt_version(self.config().salt_series));
        opts
    }

    /// Renders one source to data.
    fn compile_source(&self, source: &Source) -> Result<Value, RenderError> {
        self.pipeline.compile(source, &*self.variables())
    }

    /// What templates see; made when the first source is rendered.
    fn variables(&self) -> Rc<Variables> {
        let mut held = self.variables.borrow_mut();
        let make = || Variables::new(&self.master.shared, self.given());
        held.get_or_insert_with(make).clone()
    }

    fn given(&self) -> Given {
        let (files, roots) = (self.master.files.clone(), self.settings.roots.clone());
        let tree = move |env: &str| -> Rc<dyn FileTree> {
            let found = roots.iter().find(|(name, _)| name == env);
            let roots = found.map(|(_, dirs)| dirs.clone()).unwrap_or_default();
            let files = files.clone();
            Rc::new(RootsTree { files, roots })
        };
        let opts = self.master.shared.opts.clone();
        let (request, settings) = (self.request.clone(), self.settings.clone());
        let make = move || options(&opts, &request, &settings);
        Given {
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

/// The options as `Pillar.__gen_opts` changes them; the grains follow.
fn options(opts: &Map, request: &PillarRequest, settings: &PillarSettings) -> Map {
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

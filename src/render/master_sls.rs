//! SLS files that the master renders for itself, for orchestration and reactions (`salt/minion.py
//! MasterMinion` with `file_client: local`). They come from the file server, from all its backends. Git
//! repositories are not fetched first (`salt/config/__init__.py master_config` sets `__fs_update`).

use super::files::{FileCache, FileTree, SourceFile, sls_files, sls_name, text_of};
use super::functions::{FunctionLoader, RunnerFn};
use super::pipeline::{Pipeline, Source};
use super::sls_renderer::{RenderContext, SlsRenderer, Subject};
use super::state::highstate::{RenderedSls, SlsSource};
use halite_config::{FileServerOptions, MasterConfig};
use halite_store::files::{FileServer, Opened};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{LazyCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout for programs that templates start. Nobody waits for an answer here.
const TEMPLATE_TIMEOUT: Duration = Duration::from_secs(3600);

/// The file server, shared by all environments.
struct Served {
    server: RefCell<FileServer>,
    /// Where stock keeps copies of files. Only the names are used.
    copies: PathBuf,
}

impl Served {
    /// Reads a file; errors are logged.
    fn read(&self, opened: std::io::Result<Option<Opened>>, env: &str) -> Option<SourceFile> {
        let why = match opened {
            Ok(None) => return None,
            Ok(Some(Opened { file, name, path })) => match text_of(file) {
                Ok(text) => {
                    let copy = || self.copies.join(env).join(&name);
                    let path = path.map_or_else(copy, PathBuf::from);
                    let text = text.into();
                    return Some(SourceFile { path, name, text });
                }
                Err(why) => format!("salt://{name}: {why}"),
            },
            Err(e) => e.to_string(),
        };
        log::error!("a file of the environment {env} cannot be read: {why}");
        None
    }

    fn open(&self, name: &str, env: &str) -> Option<SourceFile> {
        // Borrowed for this statement only: the caller may render another file meanwhile.
        let opened = self.server.borrow_mut().open(name, env);
        self.read(opened, env)
    }
}

/// One environment of the file server.
struct Environment {
    served: Rc<Served>,
    env: String,
}

impl FileTree for Environment {
    fn find(&self, name: &str) -> Option<SourceFile> {
        self.served.open(name, &self.env)
    }
}

/// Renders SLS files of the file server.
pub struct MasterSls {
    context: Rc<RenderContext>,
    served: Rc<Served>,
    /// Files outside of the file server.
    files: FileCache,
    /// SLS names by environment.
    listed: RefCell<HashMap<String, Option<Vec<String>>>>,
    id: MinionId,
    grains: Arc<Map>,
    opts: Rc<Map>,
    pillar: Arc<Map>,
    pipeline: Pipeline,
    /// Whether variables are built once for all files.
    reuse_variables: bool,
    cached: RefCell<Option<(Instant, Rc<SlsRenderer>)>>,
}

impl MasterSls {
    /// A renderer for the master's own id, with its grains and the pillar that templates see.
    pub fn new(config: &MasterConfig, id: MinionId, grains: Map, pillar: Map) -> MasterSls {
        let context = RenderContext::of_master(config);
        let mut opts = (*context.opts).clone();
        opts.set("file_client", "local");
        opts.set("id", id.as_str());
        opts.set("grains", grains.clone());
        // A cached list may be older than what was just written.
        let served = FileServerOptions::from(config).uncached();
        MasterSls {
            pipeline: context.pipeline(&config.renderer),
            context: Rc::new(context),
            served: Rc::new(Served {
                server: RefCell::new(FileServer::new(&served)),
                copies: config.file_copies(),
            }),
            files: FileCache::default(),
            listed: RefCell::default(),
            id,
            grains: Arc::new(grains),
            opts: Rc::new(opts),
            pillar: Arc::new(pillar),
            reuse_variables: false,
            cached: RefCell::default(),
        }
    }

    /// Lets templates call all functions of the host, and runner functions.
    pub fn with_functions(
        mut self,
        functions: Rc<dyn FunctionLoader>,
        runner: Rc<RunnerFn>,
    ) -> MasterSls {
        // Nobody else has it yet.
        if let Some(context) = Rc::get_mut(&mut self.context) {
            context.functions = Some(functions);
            context.runner = Some(runner);
        }
        self
    }

    /// Builds grains, options and pillar once for all files instead of for each. As in stock Salt, changes
    /// that a template makes to them are visible to the next.
    pub fn reusing_variables(mut self) -> MasterSls {
        self.reuse_variables = true;
        self
    }

    /// Reads a file of this host.
    pub fn host_file(&self, path: &Path) -> Option<SourceFile> {
        let root = path.parent()?.to_str()?.to_owned();
        self.files.find(&[root], path.file_name()?.to_str()?)
    }

    /// Reads a file of the file server. `url` has no `salt://`.
    pub fn served_file(&self, url: &str) -> Option<SourceFile> {
        let opened = self.served.server.borrow_mut().open_url(url);
        self.served.read(opened, "base")
    }

    /// Renders a file outside of any environment with additional variables; its imports come from the
    /// environment `base`.
    ///
    /// # Errors
    /// Why it cannot be rendered, for the user.
    pub fn render_file(&self, file: &SourceFile, context: &Map) -> Result<Value, String> {
        self.compile(&Source {
            text: &file.text,
            path: &file.path.to_string_lossy(),
            saltenv: "base",
            sls: "",
            defaults: context,
        })
    }

    fn compile(&self, source: &Source) -> Result<Value, String> {
        self.pipeline
            .compile(source, &*self.renderer())
            .map_err(|e| e.to_string())
    }

    fn renderer(&self) -> Rc<SlsRenderer> {
        let mut cached = self.cached.borrow_mut();
        // Programs of templates get at least half of their time.
        if let Some((built, renderer)) = &*cached
            && built.elapsed() < TEMPLATE_TIMEOUT / 2
        {
            return renderer.clone();
        }
        let served = self.served.clone();
        let tree = move |env: &str| -> Rc<dyn FileTree> {
            Rc::new(Environment {
                served: served.clone(),
                env: env.to_owned(),
            })
        };
        let opts = self.opts.clone();
        let subject = Subject {
            id: self.id.clone(),
            grains: self.grains.clone(),
            pillar: self.pillar.clone(),
            opts: Rc::new(LazyCell::new(Box::new(move || (*opts).clone()))),
            trees: Rc::new(tree),
            pillar_rend: false,
            deadline: Instant::now() + TEMPLATE_TIMEOUT,
        };
        let renderer = SlsRenderer::new(&self.context, subject);
        if self.reuse_variables {
            *cached = Some((Instant::now(), renderer.clone()));
        }
        renderer
    }

    fn list(&self, saltenv: &str) -> Option<Vec<String>> {
        let mut server = self.served.server.borrow_mut();
        // As in stock, `base` always exists (`LazyAvailStates`).
        if saltenv != "base" && !server.environments().iter().any(|env| env == saltenv) {
            return None;
        }
        let files = server.files(saltenv);
        let mut states: Vec<String> = files.iter().filter_map(|file| sls_name(file)).collect();
        states.sort_unstable();
        states.dedup();
        Some(states)
    }
}

impl SlsSource for MasterSls {
    fn available(&self, saltenv: &str) -> Option<Vec<String>> {
        if let Some(states) = self.listed.borrow().get(saltenv) {
            return states.clone();
        }
        let states = self.list(saltenv);
        let mut listed = self.listed.borrow_mut();
        listed.insert(saltenv.to_owned(), states.clone());
        states
    }

    fn render(&mut self, saltenv: &str, sls: &str) -> Result<Option<RenderedSls>, String> {
        let mut names = sls_files(sls).into_iter();
        let found = names.find_map(|(name, init)| Some((self.served.open(&name, saltenv)?, init)));
        let Some((file, init)) = found else {
            return Ok(None);
        };
        let data = self.compile(&Source {
            text: &file.text,
            path: &file.path.to_string_lossy(),
            saltenv,
            sls,
            defaults: &Map::new(),
        })?;
        Ok(Some(RenderedSls { data, init }))
    }
}

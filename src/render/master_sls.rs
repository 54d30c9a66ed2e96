//! SLS files that the master renders for itself, for orchestration and reactions
//! (`salt/minion.py MasterMinion` with `file_client: local`): they, and what they include and
//! import, come from the file server with all its backends. Repositories are read as they were
//! fetched last (`salt/config/__init__.py master_config` sets `__fs_update`).

use super::files::{FileCache, FileTree, SourceFile, sls_files, sls_name, text_of};
use super::pipeline::{Pipeline, Source};
use super::state::highstate::{RenderedSls, SlsSource};
use super::variables::{Given, Shared, Variables};
use halite_config::{FileServerOptions, MasterConfig};
use halite_store::files::{FileServer, Opened};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::{LazyCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a program that a template starts may take at most. What runs here answers nobody
/// who waits.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The file server, shared by all environments.
struct Served {
    server: RefCell<FileServer>,
    /// Where stock keeps its copies of files; only the names are used.
    copies: PathBuf,
}

impl Served {
    /// A file with its text; one that cannot be read is told of in the log.
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
        // Borrowed for this statement only: who reads may render another file.
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
    shared: Rc<Shared>,
    served: Rc<Served>,
    /// Files outside of the file server.
    files: FileCache,
    /// The SLS names of the environments that were asked for.
    listed: RefCell<HashMap<String, Option<Vec<String>>>>,
    id: MinionId,
    grains: Rc<Map>,
    opts: Rc<Map>,
    pillar: Rc<Map>,
    pipeline: Pipeline,
    /// Whether the variables are built once and not for each file.
    cache_variables: bool,
    cached: RefCell<Option<(Instant, Rc<Variables>)>>,
}

impl MasterSls {
    /// For the master's own id, with its grains and the pillar that templates see.
    pub fn new(config: &MasterConfig, id: MinionId, grains: Map, pillar: Map) -> MasterSls {
        let shared = Shared::new(config);
        let mut opts = (*shared.opts).clone();
        opts.set("file_client", "local");
        opts.set("id", id.as_str());
        opts.set("grains", grains.clone());
        // A cached list may be older than what was just written.
        let served = FileServerOptions::from(config).uncached();
        MasterSls {
            shared: Rc::new(shared),
            served: Rc::new(Served {
                server: RefCell::new(FileServer::new(&served)),
                copies: config.file_copies(),
            }),
            files: FileCache::default(),
            listed: RefCell::default(),
            id,
            grains: Rc::new(grains),
            opts: Rc::new(opts),
            pillar: Rc::new(pillar),
            pipeline: Pipeline {
                default: config.renderer.clone(),
                blacklist: config.renderer_blacklist.clone(),
                whitelist: config.renderer_whitelist.clone(),
            },
            cache_variables: false,
            cached: RefCell::default(),
        }
    }

    /// Builds grains, options and pillar once for all files, not for each. What a template
    /// changes in them, the next one sees, as in stock Salt.
    pub fn caching_variables(mut self) -> MasterSls {
        self.cache_variables = true;
        self
    }

    /// Finds a file anywhere on this host.
    pub fn host_file(&self, path: &Path) -> Option<SourceFile> {
        let root = path.parent()?.to_str()?.to_owned();
        self.files.find(&[root], path.file_name()?.to_str()?)
    }

    /// Finds a file of the file server by its URL without `salt://`.
    pub fn served_file(&self, url: &str) -> Option<SourceFile> {
        let opened = self.served.server.borrow_mut().open_url(url);
        self.served.read(opened, "base")
    }

    /// Renders a file that is no SLS of an environment; `context` are further variables. What it
    /// imports comes from the environment `base`.
    ///
    /// # Errors
    /// What is wrong with it.
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
            .compile(source, &*self.variables())
            .map_err(|e| e.to_string())
    }

    fn variables(&self) -> Rc<Variables> {
        let mut cached = self.cached.borrow_mut();
        // Programs of templates always have half of their time at least.
        if let Some((built, variables)) = &*cached
            && built.elapsed() < PATIENCE / 2
        {
            return variables.clone();
        }
        let served = self.served.clone();
        let tree = move |env: &str| -> Rc<dyn FileTree> {
            Rc::new(Environment {
                served: served.clone(),
                env: env.to_owned(),
            })
        };
        let opts = self.opts.clone();
        let given = Given {
            id: self.id.clone(),
            grains: self.grains.clone(),
            pillar: self.pillar.clone(),
            opts: Rc::new(LazyCell::new(Box::new(move || (*opts).clone()))),
            trees: Rc::new(tree),
            pillar_rend: false,
            deadline: Instant::now() + PATIENCE,
        };
        let variables = Variables::new(&self.shared, given);
        if self.cache_variables {
            *cached = Some((Instant::now(), variables.clone()));
        }
        variables
    }

    fn list(&self, saltenv: &str) -> Option<Vec<String>> {
        let mut server = self.served.server.borrow_mut();
        // As with stock there always is a base (`LazyAvailStates`).
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

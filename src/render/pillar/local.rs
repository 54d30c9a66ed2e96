//! SLS files of `file_roots`, rendered on the master itself for orchestration and reactions, by
//! the same means as pillar (`salt/minion.py MasterMinion`).
//!
//! Files come from the directories of `file_roots`; other backends of the file server are not
//! looked into.

use super::super::pipeline::{Pipeline, Source};
use super::super::state::gather::{Rendered, Source as Sls};
use super::variables::{Shared, Variables};
use super::{PillarRequest, Settings};
use crate::config::MasterConfig;
use crate::wire::ids::MinionId;
use crate::wire::{Map, Value};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a program that a template starts may take at most. What runs here answers nobody
/// who waits.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Renders SLS files and reads their listings again only when they change.
pub struct LocalSls {
    shared: Rc<Shared>,
    request: PillarRequest,
    settings: Settings,
    pillar: Rc<Map>,
    pipeline: Pipeline,
    /// Whether the variables are built once and not for each file.
    keep: bool,
    kept: RefCell<Option<(Instant, Rc<Variables>)>>,
}

impl LocalSls {
    /// For the master's own id, with its grains and the pillar that templates see.
    pub fn new(config: &MasterConfig, id: MinionId, grains: Map, pillar: Map) -> LocalSls {
        LocalSls {
            shared: Rc::new(Shared::new(config)),
            request: PillarRequest::new(id, grains),
            settings: Settings {
                roots: config.file_roots.0.clone(),
                saltenv: None,
                pillarenv: None,
                ext_pillar: Value::Nil,
                git: false,
            },
            pillar: Rc::new(pillar),
            pipeline: Pipeline {
                default: config.renderer.clone(),
                blacklist: config.renderer_blacklist.clone(),
                whitelist: config.renderer_whitelist.clone(),
            },
            keep: false,
            kept: RefCell::default(),
        }
    }

    /// Builds grains, options and pillar once for all files, not for each. What a template
    /// changes in them, the next one sees, as in stock Salt.
    pub fn keeping(mut self) -> LocalSls {
        self.keep = true;
        self
    }

    /// Renders a file anywhere on this host; `context` are further variables.
    ///
    /// # Errors
    /// The file cannot be read or rendered.
    pub fn render_file(&self, path: &Path, context: &Map) -> Result<Value, String> {
        let (dir, name) = (path.parent(), path.file_name().and_then(|n| n.to_str()));
        let root = dir.and_then(Path::to_str).map(|dir| vec![dir.to_owned()]);
        let found = root
            .zip(name)
            .and_then(|(root, name)| self.shared.files.find(&root, name));
        let file = found.ok_or("the file cannot be read")?;
        self.compile(&Source {
            text: &file.text,
            path: &file.path.to_string_lossy(),
            saltenv: "base",
            sls: "",
            defaults: context,
        })
    }

    /// Where a file of the environment `base` lies.
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        let roots = self.settings.roots_of("base")?;
        self.shared.files.find(roots, name).map(|file| file.path)
    }

    fn compile(&self, source: &Source) -> Result<Value, String> {
        self.pipeline
            .compile(source, &*self.variables())
            .map_err(|e| e.to_string())
    }

    fn variables(&self) -> Rc<Variables> {
        let mut kept = self.kept.borrow_mut();
        // Programs of templates always have half of their time at least.
        if let Some((built, variables)) = &*kept
            && built.elapsed() < PATIENCE / 2
        {
            return variables.clone();
        }
        let variables = Variables::new(
            &self.shared,
            &self.request,
            &self.settings,
            self.pillar.clone(),
            Instant::now() + PATIENCE,
        );
        if self.keep {
            *kept = Some((Instant::now(), variables.clone()));
        }
        variables
    }
}

impl Sls for LocalSls {
    fn available(&self, saltenv: &str) -> Option<Vec<String>> {
        let roots = self.settings.roots_of(saltenv)?;
        let states = self.shared.files.states(roots);
        Some(states.iter().cloned().collect())
    }

    fn render(&mut self, saltenv: &str, sls: &str) -> Result<Option<Rendered>, String> {
        let roots = self.settings.roots_of(saltenv).unwrap_or_default();
        let Some((file, init)) = self.shared.files.state(roots, sls) else {
            return Ok(None);
        };
        let data = self.compile(&Source {
            text: &file.text,
            path: &file.path.to_string_lossy(),
            saltenv,
            sls,
            defaults: &Map::new(),
        })?;
        Ok(Some(Rendered { data, init }))
    }
}

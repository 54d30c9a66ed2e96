//! Users' Python files on the master: external pillars, tops, renderers. One host process for those of a worker, which ends
//! when nothing has needed it for a while.

use super::functions::FunctionLoader;
use halite_python::files;
use halite_python::{HostError, JobHost, Nothing, PythonError, Scene, Service, questions};
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a host without work lives: minions ask for their pillars at once.
const IDLE: Duration = Duration::from_secs(30);

static SESSIONS: AtomicU64 = AtomicU64::new(1);

/// The Python files of a master and their host.
pub struct MasterPython {
    /// `__opts__` where a request has none of its own.
    opts: Arc<Map>,
    host: JobHost,
}

/// Whether Python files, or an installed Salt, may have a module: told from names and texts alone.
pub fn may_have(opts: &Arc<Map>, kind: &str, module: &str) -> bool {
    files::files(opts).may_have(kind, module) || files::installed_salt(opts).is_some()
}

/// What a request is about.
#[derive(Clone)]
pub struct About {
    /// `__opts__`.
    pub opts: Arc<Map>,
    /// `__grains__`: those of the minion that is served.
    pub grains: Arc<Map>,
    /// `__pillar__`.
    pub pillar: Arc<Map>,
    /// The functions of `__salt__`.
    pub functions: Option<Rc<dyn FunctionLoader>>,
    /// When the host is ended, whatever it does.
    pub deadline: Instant,
    /// For whom: nothing of what modules keep is seen by the next one, as in stock, which loads them for each pillar.
    pub(super) session: u64,
    /// Which functions there are.
    pub(super) known: Rc<RefCell<HashMap<String, bool>>>,
}

impl About {
    /// Something new, until `deadline`, without data and functions.
    pub fn new(opts: Arc<Map>, deadline: Instant) -> About {
        About {
            opts,
            grains: Arc::default(),
            pillar: Arc::default(),
            functions: None,
            deadline,
            session: SESSIONS.fetch_add(1, Ordering::Relaxed),
            known: Rc::default(),
        }
    }
}

impl MasterPython {
    /// For these options.
    pub fn new(opts: Arc<Map>) -> MasterPython {
        MasterPython {
            opts,
            host: JobHost::idle(IDLE),
        }
    }

    /// The options of the master.
    pub fn opts(&self) -> &Arc<Map> {
        &self.opts
    }

    /// Whether Python is to be asked for a function: told from names and texts alone, before anything is made for it.
    pub fn is_possible(&self, kind: &str, function: &str, is_ours: bool) -> bool {
        files::is_possible(&self.opts, kind, function, is_ours)
    }

    /// Whether there is a function in Python of this name. If halite has one, too, only a file of the module's very name, or one
    /// that takes it, comes before that.
    ///
    /// # Errors
    /// Python cannot be asked: text for a minion.
    pub fn has(
        &self,
        about: &About,
        kind: &str,
        function: &str,
        is_ours: bool,
    ) -> Result<bool, String> {
        if !self.is_possible(kind, function, is_ours) {
            return Ok(false);
        }
        let key = format!("{kind} {function} {is_ours}");
        if let Some(known) = about.known.borrow().get(&key) {
            return Ok(*known);
        }
        let args = questions::find_args(kind, function, is_ours);
        let found = self.request(about, "find", args)?.truthy();
        about.known.borrow_mut().insert(key, found);
        Ok(found)
    }

    /// Whether there is a renderer in Python; `py` is the host's own. If it cannot be asked, the rendering will say so.
    pub fn has_renderer<'a>(
        &self,
        about: impl FnOnce() -> &'a About,
        name: &str,
        is_ours: bool,
    ) -> bool {
        let function = format!("{name}.render");
        let is_there = || self.has(about(), "renderers", &function, is_ours);
        name == "py" && !is_ours
            || self.is_possible("renderers", &function, is_ours) && is_there().unwrap_or(true)
    }

    /// Why there is no such function although there is a file for it.
    pub fn fault(&self, about: &About, kind: &str, function: &str) -> Option<String> {
        let ask = |what: &str, args| self.request(about, what, args);
        let reason = match self.is_possible(kind, function, false) {
            true => questions::reason(kind, function, ask).unwrap_or_default(),
            false => None,
        };
        reason.or_else(|| files::files(&self.opts).fault(kind, function))
    }

    /// Calls a function; of `optional`, it gets the keywords that it takes.
    ///
    /// # Errors
    /// What it raises: text for a minion.
    pub fn call(
        &self,
        about: &About,
        kind: &str,
        function: &str,
        args: Vec<Value>,
        kwargs: Map,
        optional: Map,
    ) -> Result<Value, String> {
        let args = questions::use_args(kind, function, args, kwargs, optional);
        self.request(about, "use", args)
    }

    /// Makes a request of the host.
    ///
    /// # Errors
    /// What the code raises: text for a minion.
    pub fn request(&self, about: &About, name: &str, args: Vec<Value>) -> Result<Value, String> {
        // For the log: the kind and the function, or the renderer.
        let args_text: Vec<String> = std::iter::once(name)
            .chain(args.iter().take(2).filter_map(Value::as_str))
            .filter(|text| text.len() < 100 && *text != "use")
            .map(str::to_owned)
            .collect();
        let mut service = Functions(about.functions.clone());
        let done = Scene::new(&self.opts).and_then(|scene| {
            let scene = Scene {
                opts: about.opts.clone(),
                grains: about.grains.clone(),
                pillar: about.pillar.clone(),
                deadline: Some(about.deadline),
                session: about.session,
                ..scene
            };
            self.host.request(&scene, name, args, &mut service)
        });
        let what = || {
            let whom = about.opts.str("minion_id").or(about.opts.str("id"));
            let words = args_text.join(" ");
            format!("{words} for {}", whom.unwrap_or_default())
        };
        done.map_err(|e| match e {
            HostError::Raised(e) => {
                let PythonError {
                    class, text, trace, ..
                } = e;
                log::error!(
                    "{}: Traceback (most recent call last):\n{trace}{class}: {text}",
                    what()
                );
                text
            }
            HostError::Broken(why) => {
                // The last words of the process may be about another minion.
                log::error!("{}: {why}", what());
                "the Python process has failed; the master's log says why".to_owned()
            }
        })
    }
}

/// The functions of templates, for Python.
struct Functions(Option<Rc<dyn FunctionLoader>>);

impl Service for Functions {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        let name = text(1);
        let loader = self.0.as_ref().filter(|_| text(0) == "modules");
        match (what, loader) {
            ("has", Some(loader)) => Ok(i64::from(loader.contains(name)).into()),
            ("call", Some(loader)) => {
                let positional = args.get(2).and_then(Value::as_array).unwrap_or_default();
                let keyword = args.get(3).and_then(Value::as_map).cloned();
                let done = loader.invoke(name, positional, keyword.unwrap_or_default());
                match done.unwrap_or_else(|| Err(("KeyError", name.to_owned()))) {
                    Ok(value) => Ok(Value::Array(vec![value, 0.into()])),
                    Err((class, text)) => Err(PythonError::new(class, text)),
                }
            }
            ("local", _) => Err(PythonError::new(
                "RuntimeError",
                "salt.client.LocalClient works in runners and wheel functions only",
            )),
            _ => Nothing.ask(what, args),
        }
    }
}

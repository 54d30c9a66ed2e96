//! Users' Python files on the master: external pillars, tops, renderers. One host process for those of a worker, which ends
//! when nothing has needed it for a while.

use super::functions::FunctionLoader;
use halite_python::files::{self, Known, PythonFiles};
use halite_python::{HostError, JobHost, PythonError, Scene, Service};
use halite_wire::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a host without work lives: minions ask for their pillars at once.
const IDLE: Duration = Duration::from_secs(30);

/// Which names there are, as Python has told.
static KNOWN: Known<bool> = Known::new();

/// The Python files of a master and their host.
pub struct MasterPython {
    /// `__opts__` where a request has none of its own.
    opts: Arc<Map>,
    host: JobHost,
}

/// Whether Python files, or an installed Salt, may have a module: told from names and texts alone.
pub fn may_have(opts: &Map, kind: &str, module: &str) -> bool {
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
}

impl MasterPython {
    /// For these options.
    pub fn new(opts: Arc<Map>) -> MasterPython {
        MasterPython {
            opts,
            host: JobHost::idle(IDLE),
        }
    }

    fn files(&self) -> Arc<PythonFiles> {
        files::files(&self.opts)
    }

    /// The options of the master.
    pub fn opts(&self) -> &Arc<Map> {
        &self.opts
    }

    /// Whether there is a function in Python of this name. If halite has one, too, only a file of the module's very name, or one
    /// that takes it, comes before that.
    pub fn has(&self, about: &About, kind: &'static str, function: &str, is_ours: bool) -> bool {
        let files = self.files();
        let module = function.split('.').next().unwrap_or_default();
        let elsewhere = || files.may_rename(kind) || files::installed_salt(&self.opts).is_some();
        if !files.may_have(kind, module) && (is_ours || !elsewhere()) {
            return false;
        }
        let look = || {
            let args = vec![kind.into(), function.into(), (!is_ours).into()];
            match self.request(about, "find", args) {
                Ok(found) => Some(found.truthy()),
                Err(e) => {
                    log::error!("{function} of {kind}: {e}");
                    None
                }
            }
        };
        let key = format!("{kind} {function} {is_ours}");
        KNOWN.get(&files, &key, look).unwrap_or(false)
    }

    /// Whether there is a renderer in Python; `py` is the host's own.
    pub fn has_renderer(&self, about: &About, name: &str, is_ours: bool) -> bool {
        name == "py" && !is_ours || self.has(about, "renderers", &format!("{name}.render"), is_ours)
    }

    /// Calls a function; of `optional`, it gets the keywords that it takes.
    ///
    /// # Errors
    /// What it raises.
    pub fn call(
        &self,
        about: &About,
        kind: &str,
        function: &str,
        args: Vec<Value>,
        kwargs: Map,
        optional: Map,
    ) -> Result<Value, HostError> {
        let args = vec![
            kind.into(),
            function.into(),
            args.into(),
            kwargs.into(),
            optional.into(),
        ];
        self.request(about, "use", args)
    }

    /// Makes a request of the host.
    ///
    /// # Errors
    /// What the code raises.
    pub fn request(&self, about: &About, name: &str, args: Vec<Value>) -> Result<Value, HostError> {
        let scene = Scene {
            python: files::interpreter(&self.opts).map_err(HostError::Broken)?,
            has_salt: files::installed_salt(&self.opts).is_some(),
            opts: about.opts.clone(),
            grains: about.grains.clone(),
            pillar: about.pillar.clone(),
            files: self.files().files.clone(),
            deadline: Some(about.deadline),
        };
        let mut service = Functions(about.functions.clone());
        self.host.request(&scene, name, args, &mut service)
    }
}

/// The functions of templates, for Python.
struct Functions(Option<Rc<dyn FunctionLoader>>);

fn error(class: &str, text: impl Into<String>) -> PythonError {
    PythonError {
        class: class.to_owned(),
        text: text.into(),
        ..PythonError::default()
    }
}

impl Service for Functions {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        let name = text(1);
        let loader = self.0.as_ref().filter(|_| text(0) == "modules");
        match (what, loader) {
            ("has", None) => Ok(0.into()),
            ("has", Some(loader)) => Ok(i64::from(loader.contains(name)).into()),
            ("names", _) => Ok(Vec::<String>::new().into()),
            ("doc", _) => Ok(Value::Nil),
            ("call", Some(loader)) => {
                let positional = args.get(2).and_then(Value::as_array).unwrap_or_default();
                let keyword = args.get(3).and_then(Value::as_map).cloned();
                let done = loader.invoke(name, positional, keyword.unwrap_or_default());
                match done.unwrap_or_else(|| Err(("KeyError", name.to_owned()))) {
                    Ok(value) => Ok(Value::Array(vec![value, 0.into()])),
                    Err((class, text)) => Err(error(class, text)),
                }
            }
            _ => Err(error(
                "RuntimeError",
                format!("{what} is not available here"),
            )),
        }
    }
}

/// The text of an error as users see it: Python's own.
pub fn text_of(error: HostError) -> String {
    match error {
        HostError::Raised(e) => e.text,
        HostError::Broken(why) => why,
    }
}

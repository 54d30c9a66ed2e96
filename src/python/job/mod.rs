//! The host of a job: started when it is first needed, told what has changed, gone with the job.

use crate::files::{self, KINDS, PythonFile};
use crate::host::{Host, HostError, Nothing, PythonError, Service};
use crate::process::Process;
use crate::sources;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the code sees: told to the host only where it differs from what it was told last.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The interpreter.
    pub python: String,
    /// Whether it has an installed Salt whose functions are used as well.
    pub has_salt: bool,
    /// `__opts__`.
    pub opts: Arc<Map>,
    /// `__grains__`.
    pub grains: Arc<Map>,
    /// `__pillar__`.
    pub pillar: Arc<Map>,
    /// The files to load modules from.
    pub files: Arc<Vec<PythonFile>>,
    /// When the host is ended, whatever it does for this request.
    pub deadline: Option<Instant>,
    /// With another number than before, modules are loaded anew and `__context__` is empty: nothing stays of what was done for others.
    pub session: u64,
}

impl Scene {
    /// For these options: their interpreter and the files that there are now; no grains, no pillar.
    ///
    /// # Errors
    /// There is no interpreter.
    pub fn new(opts: &Arc<Map>) -> Result<Scene, HostError> {
        Ok(Scene {
            python: files::interpreter(opts).map_err(HostError::Broken)?,
            has_salt: files::installed_salt(opts).is_some(),
            opts: opts.clone(),
            files: files::files(opts).files.clone(),
            ..Scene::default()
        })
    }
}

/// Requests within one another: each needs the stack of what native code does in between.
const MAX_NESTED: usize = 16;
/// Names of functions that are kept for the job's return.
const MAX_NOTED: usize = 1000;

#[derive(Default)]
struct State {
    host: Option<Arc<Host>>,
    told: Option<Scene>,
    /// When the last request came.
    used: Option<Instant>,
}

/// The Python host of one job, shared by all its clones. Nothing runs before the first request; the process ends when
/// the last clone is dropped.
#[derive(Clone, Default)]
pub struct JobHost {
    state: Arc<Mutex<State>>,
    /// The functions that ran in Python, and the installed Salt whose they are.
    noted: Arc<Mutex<BTreeMap<String, Option<String>>>>,
    limit: Option<Duration>,
    /// How long it lives without work.
    idle: Option<Duration>,
    /// How long each request may take.
    each: Option<Duration>,
}

impl fmt::Debug for JobHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobHost")
    }
}

impl JobHost {
    /// A host that is ended after a time, whatever it does.
    pub fn with_limit(limit: Duration) -> JobHost {
        JobHost {
            limit: Some(limit),
            ..JobHost::default()
        }
    }

    /// A host that ends when there has been no request for a time.
    pub fn idle(idle: Duration) -> JobHost {
        JobHost {
            idle: Some(idle),
            ..JobHost::default()
        }
    }

    /// A host that is ended when one of its requests takes longer.
    pub fn with_limit_of_each(each: Duration) -> JobHost {
        JobHost {
            each: Some(each),
            ..JobHost::default()
        }
    }

    /// A host of its own for a part of the job that runs beside the rest.
    pub fn beside(&self) -> JobHost {
        JobHost {
            state: Arc::default(),
            ..self.clone()
        }
    }

    /// Notes that a function runs in Python; `by` is the installed Salt whose it is.
    pub fn note(&self, function: &str, by: Option<&str>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < MAX_NOTED && !noted.contains_key(function) {
            noted.insert(function.to_owned(), by.map(str::to_owned));
        }
    }

    /// What a return tells of it: `python`, the sorted names of the functions that ran in Python, and `legacy_salt`, the
    /// installed Salt that ran any of them.
    pub fn noted(&self) -> Map {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = Map::new();
        if !noted.is_empty() {
            told.set("python", noted.keys().cloned().collect::<Vec<_>>());
        }
        if let Some(by) = noted.values().flatten().next() {
            told.set("legacy_salt", by.as_str());
        }
        told
    }

    /// Makes a request of the host, which is started if need be.
    ///
    /// # Errors
    /// See [`HostError`]. After [`HostError::Broken`] the next request starts a new host.
    pub fn request(
        &self,
        scene: &Scene,
        name: &str,
        args: Vec<Value>,
        service: &mut dyn Service,
    ) -> Result<Value, HostError> {
        let host = self.host(scene)?;
        // Before what has changed is looked at: other threads may talk to it meanwhile.
        let turn = host.turn();
        if turn.depth > MAX_NESTED {
            let text = "maximum recursion depth exceeded";
            return Err(HostError::Raised(PythonError::new("RecursionError", text)));
        }
        let before = if turn.depth > 1 {
            self.lock().told.clone()
        } else {
            None
        };
        let changes = self.changes(scene);
        let each = self.each.map(|each| Instant::now() + each);
        let deadline = scene.deadline.into_iter().chain(each).min();
        let answer = host.request(name, changes, args, deadline, &mut Common(service));
        if let Some(before) = before {
            // The host goes back to what the request around this one has told, but for files.
            let files = scene.files.clone();
            self.lock().told = Some(Scene { files, ..before });
        }
        drop(turn);
        if matches!(answer, Err(HostError::Broken(_))) {
            let mut state = self.lock();
            if state.host.as_ref().is_some_and(|h| Arc::ptr_eq(h, &host)) {
                *state = State::default();
            }
        }
        answer
    }

    /// Ends the host with all programs that it has started in its process group.
    pub fn kill_all(&self) {
        if let Some(host) = std::mem::take(&mut *self.lock()).host {
            host.kill_all();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self, scene: &Scene) -> Result<Arc<Host>, HostError> {
        let mut state = self.lock();
        let last = state.used.replace(Instant::now());
        // It ends by itself: not to be met at that moment.
        let is_about_to_end = || {
            let idle = last.zip(self.idle);
            idle.is_some_and(|(last, idle)| last.elapsed() > idle.mul_f64(0.8))
        };
        if let Some(host) = &state.host
            && !is_about_to_end()
        {
            return Ok(host.clone());
        }
        let limit = scene
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let process = Process::start(&scene.python, &sources::all(scene.has_salt), limit)
            .map_err(HostError::Broken)?;
        let deadline = self.limit.map(|limit| Instant::now() + limit);
        let host = Arc::new(Host::new(process, deadline));
        state.host = Some(host.clone());
        state.told = None;
        drop(state);
        if let Some(idle) = self.idle {
            let seconds = vec![idle.as_secs().into()];
            let mut nothing = Common(&mut Nothing);
            host.request("idle", Map::new(), seconds, scene.deadline, &mut nothing)?;
        }
        Ok(host)
    }

    fn changes(&self, scene: &Scene) -> Map {
        let mut state = self.lock();
        let mut changes = Map::new();
        let told = state.told.as_ref();
        for (name, new, old) in [
            ("opts", &scene.opts, told.map(|t| &t.opts)),
            ("grains", &scene.grains, told.map(|t| &t.grains)),
            ("pillar", &scene.pillar, told.map(|t| &t.pillar)),
        ] {
            if old.is_none_or(|old| !Arc::ptr_eq(old, new)) {
                changes.set(name, Map::clone(new));
            }
        }
        if told.is_none_or(|t| t.files != scene.files) {
            changes.set("files", by_kind(&scene.files));
        }
        if told.is_some_and(|t| t.session != scene.session) {
            changes.set("fresh", true);
        }
        state.told = Some(scene.clone());
        changes
    }
}

fn by_kind(files: &[PythonFile]) -> Map {
    let mut all = Map::new();
    for (kind, ..) in KINDS {
        let mut own = Map::new();
        for file in files.iter().filter(|file| file.kind == *kind) {
            if !own.contains(&file.name) {
                own.set(
                    file.name.as_str(),
                    vec![file.path.clone(), file.stamp.clone()],
                );
            }
        }
        all.set(*kind, own);
    }
    all
}

/// Questions that need no minion.
struct Common<'a>(&'a mut dyn Service);

impl Service for Common<'_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let flag = |at: usize| args.get(at).is_some_and(Value::truthy);
        match what {
            "log_level" => Ok(log_level().into()),
            "yaml_load" => {
                let text = args.first().and_then(Value::as_str).unwrap_or_default();
                halite_wire::yaml::parse(text)
                    .map_err(|e| PythonError::new("ValueError", e.to_string()))
            }
            "yaml_dump" => {
                let value = args.first().unwrap_or(&Value::Nil);
                let flow = args.get(1).filter(|f| **f != Value::Nil).map(Value::truthy);
                let indent = args.get(3).and_then(Value::as_int).unwrap_or(0);
                let text = halite_wire::yaml::emit_with(value, flag(2), indent, flow);
                Ok(text.into())
            }
            _ => self.0.ask(what, args),
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// The level of our log as a number of Python's.
fn log_level() -> i64 {
    match log::max_level() {
        log::LevelFilter::Off => 100,
        log::LevelFilter::Error => 40,
        log::LevelFilter::Warn => 30,
        log::LevelFilter::Info => 20,
        log::LevelFilter::Debug => 10,
        log::LevelFilter::Trace => 1,
    }
}

#[cfg(test)]
mod tests;

//! Runner and wheel functions in Python files of users (`_runners`, `_wheel`, `runner_dirs`, `wheel_dirs`), and those of an
//! installed Salt. Each call has a host process of its own.

use crate::call::{Args, RunError, fire};
use crate::command::{self, CmdJob, arguments};
use crate::local::{Job, LocalClient, calling_user};
use halite_config::MasterConfig;
use halite_master::functions::Call;
use halite_python::events::Listeners;
use halite_python::files::{self, PythonFiles};
use halite_python::{HostError, JobHost, Nothing, PythonError, Scene, Service, questions};
use halite_sys::signals::StopFlag;
use halite_wire::ids::JidClock;
use halite_wire::{Map, Value};
use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A function in Python.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Its full name.
    pub name: &'static str,
    /// Its arguments, as our own functions declare theirs.
    pub args: &'static [&'static str],
    /// Its documentation.
    pub doc: &'static str,
}

/// Descriptions live as long as the process, each once.
static DESCRIBED: Mutex<Vec<(Map, Described)>> = Mutex::new(Vec::new());

/// Calls within one another, through runners and wheel functions: each has a process of its own.
const MAX_NESTED: usize = 16;

thread_local! {
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// Python for one call.
pub struct Python {
    opts: Arc<Map>,
    files: Arc<PythonFiles>,
    host: JobHost,
    deadline: Option<Instant>,
}

impl Python {
    /// With the files that there are now. Nothing runs yet.
    pub fn new(config: &MasterConfig) -> Python {
        let opts = Arc::new(config.as_map());
        Python {
            files: files::files(&opts),
            opts,
            host: JobHost::default(),
            deadline: None,
        }
    }

    /// The same, ended when it has run for so long.
    pub fn within(self, limit: Duration) -> Python {
        Python {
            deadline: Some(Instant::now() + limit),
            ..self
        }
    }

    fn is_possible(&self, kind: &str, function: &str, is_ours: bool) -> bool {
        let module = function.split('.').next().unwrap_or_default();
        self.files.is_possible(&self.opts, kind, module, is_ours)
    }

    /// A function; `None` if there is none in Python.
    ///
    /// # Errors
    /// Python cannot be asked.
    pub fn find(
        &self,
        kind: &str,
        function: &str,
        is_ours: bool,
    ) -> Result<Option<Described>, RunError> {
        if !function.contains('.') || !self.is_possible(kind, function, is_ours) {
            return Ok(None);
        }
        let args = questions::find_args(kind, function, is_ours);
        let found = self.request("find", args, &mut Nothing).map_err(failed)?;
        Ok(found.into_map().map(described))
    }

    /// Why a module has no functions, in stock's words, after [`Python::find`] has not found one of them.
    pub fn reason(&self, kind: &str, function: &str) -> Option<String> {
        if !self.is_possible(kind, function, false) {
            return None;
        }
        let ask = |what: &str, args| self.request(what, args, &mut Nothing);
        questions::reason(kind, function, ask).ok()?
    }

    /// All functions of users' files of a kind; what cannot be loaded is logged.
    pub fn all(&self, kind: &str) -> Vec<Described> {
        if !self.files.has_kind(kind) {
            return Vec::new();
        }
        match self.request("list", vec![kind.into()], &mut Nothing) {
            Ok(found) => found
                .into_map()
                .unwrap_or_default()
                .0
                .into_iter()
                .filter_map(|(_, one)| Some(described(one.into_map()?)))
                .collect(),
            Err(e) => {
                log::error!("Python files of {kind}: {e}");
                Vec::new()
            }
        }
    }

    /// Calls a function; the value, and the return code that it has set. `run` is what a runner is told of its run.
    ///
    /// # Errors
    /// What it raises.
    pub fn call(
        &self,
        kind: &str,
        function: &str,
        args: &Args,
        run: Map,
        service: &mut dyn Service,
    ) -> Result<(Value, i64), RunError> {
        let args = vec![
            function.into(),
            args.positional.clone().into(),
            args.keyword.clone().into(),
            kind.into(),
            run.into(),
        ];
        let depth = NESTED.get() + 1;
        if depth > MAX_NESTED {
            let why = "maximum recursion depth exceeded".to_owned();
            return Err(RunError::Raised("RecursionError".to_owned(), why));
        }
        NESTED.set(depth);
        let answer = self.request("call", args, service);
        NESTED.set(depth - 1);
        let answer = answer.map_err(failed)?;
        let (value, retcode) = questions::value_and_retcode(answer);
        Ok((value, retcode.as_int().unwrap_or(0)))
    }

    fn request(
        &self,
        name: &str,
        args: Vec<Value>,
        service: &mut dyn Service,
    ) -> Result<Value, HostError> {
        let scene = Scene {
            deadline: self.deadline,
            ..Scene::new(&self.opts)?
        };
        self.host.request(&scene, name, args, service)
    }
}

fn described(map: Map) -> Described {
    let mut all = DESCRIBED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(known, _)| *known == map) {
        return *known;
    }
    let list = |key: &str| map.get(key).and_then(Value::as_array).unwrap_or_default();
    let flag = |key: &str| map.get(key).is_some_and(Value::truthy);
    let (names, defaults) = (list("args"), list("defaults").len());
    let required = names.len().saturating_sub(defaults);
    let names = names.iter().enumerate().map(|(at, name)| {
        let optional = if at < required { "" } else { "?" };
        format!("{optional}{}", name.as_str().unwrap_or_default())
    });
    let further = [("varargs", "*args"), ("keywords", "**kwargs")];
    let further = further.iter().filter(|(key, _)| flag(key));
    let leak = |text: String| -> &'static str { String::leak(text) };
    let args: Vec<&'static str> = names
        .chain(further.map(|(_, name)| (*name).to_owned()))
        .map(leak)
        .collect();
    let text = |key: &str| leak(map.str(key).unwrap_or_default().to_owned());
    let one = Described {
        name: text("name"),
        args: Vec::leak(args),
        doc: text("doc"),
    };
    all.push((map, one));
    one
}

fn failed(error: HostError) -> RunError {
    match error {
        HostError::Broken(why) => RunError::Unknown(why),
        HostError::Raised(e) => {
            if !e.trace.is_empty() {
                log::error!(
                    "Traceback (most recent call last):\n{}{}: {}",
                    e.trace,
                    e.class,
                    e.text
                );
            }
            let class = e.class.rsplit('.').next().unwrap_or_default().to_owned();
            RunError::Raised(class, e.text)
        }
    }
}

/// The exception in Python for an error of ours.
pub fn python_error(error: &RunError) -> PythonError {
    PythonError::new(error.class(), error.to_string())
}

/// The arguments of a call in a question: a list and a map.
pub fn arguments_at(args: &[Value], at: usize) -> Args {
    let positional = args.get(at).and_then(Value::as_array).unwrap_or_default();
    let keyword = args.get(at + 1).and_then(Value::as_map).cloned();
    Args {
        positional: positional.to_vec(),
        keyword: keyword.unwrap_or_default(),
    }
}

/// The call of another function in a question: its name and its arguments.
pub fn call_at(args: &[Value]) -> Call {
    Call {
        fun: args
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        args: arguments_at(args, 1),
        jid: JidClock::default().next(),
        user: calling_user(),
    }
}

/// What all code on a master may ask for: jobs and events.
pub struct Master {
    /// The master.
    pub config: MasterConfig,
    /// Set by Ctrl-C.
    pub stop: StopFlag,
    /// Listeners of the event bus.
    pub listeners: Listeners,
}

impl Service for Master {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        match what {
            "local" => {
                let job = args.get(1).and_then(Value::as_map);
                self.local(text(0), job.unwrap_or(&Map::new()))
            }
            "fire" => {
                let data = args.get(1).and_then(Value::as_map).cloned();
                let data = data
                    .ok_or_else(|| PythonError::new("TypeError", "an event's data are a dict"))?;
                let fired = fire(&self.config, text(0).to_owned(), data);
                fired.map_err(|e| python_error(&e))?;
                Ok(true.into())
            }
            _ => {
                let event = self.listeners.ask(what, args, || self.config.event_pub());
                event.unwrap_or_else(|| Nothing.ask(what, args))
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }
}

impl Master {
    /// The services of a master.
    pub fn new(config: &MasterConfig, stop: &StopFlag) -> Master {
        Master {
            config: config.clone(),
            stop: stop.clone(),
            listeners: Listeners::default(),
        }
    }

    /// `LocalClient`.
    fn local(&self, what: &str, given: &Map) -> Result<Value, PythonError> {
        let text = |key: &str| given.str(key).unwrap_or_default().to_owned();
        let error = |e: RunError| python_error(&e);
        if what == "returns" {
            let jid = text("jid").parse();
            let jid =
                jid.map_err(|_| PythonError::new("SaltInvocationError", "that is no job id"))?;
            let jobs = halite_store::Stores::open(&self.config).jobs;
            let job = jobs.get(&jid).map_err(|e| error(e.into()))?;
            let returns = job.map(|job| job.returns).unwrap_or_default();
            let told = returns.into_iter().map(|mut one| {
                let ret = one.load.remove("return").unwrap_or_default();
                let mut told = halite_wire::map! {"ret" => ret};
                for key in ["out", "retcode"] {
                    if let Some(value) = one.load.remove(key) {
                        told.set(key, value);
                    }
                }
                (one.id, told)
            });
            return Ok(told.collect::<Map>().into());
        }
        let list = given.get("arg").and_then(Value::as_array);
        let keyword = given.get("kwarg").and_then(Value::as_map).cloned();
        let job = Job {
            fun: given.get("fun").cloned().unwrap_or_default(),
            arg: arguments(
                list.unwrap_or_default().to_vec(),
                keyword.unwrap_or_default(),
            ),
            tgt: given.get("tgt").cloned().unwrap_or_default(),
            tgt_type: text("tgt_type"),
            ret: text("ret"),
            jid: text("jid"),
            kwargs: Map::new(),
        };
        if what == "run_job" {
            let mut client = LocalClient::new(self.config.clone());
            let published = client.publish(&job).map_err(|e| error(e.into()))?;
            if published.jid.is_empty() {
                return Ok(Map::new().into());
            }
            return Ok(halite_wire::map! {
                "jid" => published.jid, "minions" => published.minions,
            }
            .into());
        }
        let job = CmdJob {
            job,
            timeout: given.int("timeout").and_then(|n| u64::try_from(n).ok()),
            expect_minions: given.get("expect_minions").is_some_and(Value::truthy),
            ..Default::default()
        };
        let done = command::run(&self.config, job, &self.stop);
        let done = done.map_err(|e| error(e.into()))?;
        let jid = done.jid;
        let told = done.minions.into_iter().map(|(id, mut one)| {
            if !one.contains("jid") {
                one.set("jid", jid.as_str());
            }
            (id, one)
        });
        Ok(told.collect::<Map>().into())
    }
}

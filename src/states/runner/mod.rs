//! Makes the calls of a state run with this minion's functions (`salt/state.py State.call`).

pub(crate) mod python_states;

use super::declare::{RunData, State, StateFunction, StateOutcome};
use super::modules;
use super::slots::{self, AllowedSlots};
use halite_modules::execution::{
    Call, CallError, Context, find_listed, invoke, invoke_listed, is_listed, names_module, python,
    python_modules, traverse, with_call,
};
use halite_render::state::run::{Condition, StateModules};
use halite_wire::{Map, Value};
use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Arguments of conditions that become options of their command.
const COMMAND_OPTIONS: &[&str] = &[
    "shell",
    "runas",
    "runas_password",
    "umask",
    "cwd",
    "timeout",
    "prepend_path",
    "env",
    "success_retcodes",
    "password",
    "use_vt",
    "root",
];

/// Is told each result, and the number of states of the run.
pub type OnResult = Box<dyn Fn(&Map, usize) + Send + Sync>;

static ON_RESULT: OnceLock<OnResult> = OnceLock::new();

/// Shows results of runs in this process while they go on.
pub fn on_result(show: OnResult) {
    // A command sets it once.
    let _ = ON_RESULT.set(show);
}

/// How results are told while the run goes on.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Whether the run with a file of pauses may go on with a state; waits while it is paused.
    pub may_continue: fn(&Path, &str) -> bool,
    /// `state_events`: every result becomes an event at the master.
    pub events: bool,
    /// The job's id.
    pub jid: String,
    /// Number of calls.
    pub total: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            may_continue: |_, _| true,
            events: false,
            jid: String::new(),
            total: 0,
        }
    }
}

/// The functions that the states of a run call.
pub struct MinionStates {
    ctx: Mutex<Arc<Context>>,
    /// How results are told.
    pub progress: Progress,
    /// Overridden results (`mock`).
    pub mock: bool,
    /// What its states share.
    pub run: Arc<RunData>,
    /// Which slots are heeded.
    pub slots: AllowedSlots,
    /// What was paused or ended by `state.pause` and `state.soft_kill`.
    pauses: Option<std::path::PathBuf>,
    killed: AtomicBool,
    /// Whether states in Python were there when the current state began. Looked up once for each: a state may bring some.
    has_python: AtomicBool,
    /// The modules whose `mod_init` has been called.
    pub(crate) begun: Mutex<Vec<String>>,
    /// Results so far, by tag, if a state in Python may ask for them.
    pub(crate) results: Mutex<Vec<(String, Map)>>,
}

impl MinionStates {
    /// For one run. `pauses` is the job's file of `state.pause`.
    pub fn new(
        ctx: Context,
        progress: Progress,
        pauses: Option<std::path::PathBuf>,
    ) -> MinionStates {
        MinionStates {
            has_python: AtomicBool::new(python_states::has_any(&ctx)),
            ctx: Mutex::new(Arc::new(ctx)),
            progress,
            mock: false,
            run: Arc::default(),
            slots: AllowedSlots::All,
            pauses,
            killed: AtomicBool::new(false),
            begun: Mutex::new(Vec::new()),
            results: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Context>> {
        self.ctx.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The minion as the next state sees it.
    pub fn context(&self) -> Arc<Context> {
        self.lock().clone()
    }

    /// The results so far, by tag.
    pub(crate) fn so_far(&self) -> Map {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().cloned().collect()
    }

    /// Calls a state function with slots filled in.
    pub(crate) fn apply(&self, function: &'static StateFunction, low: &Map, test: bool) -> Map {
        let mut name = low.get("name").cloned().unwrap_or_default();
        let mut ctx = self.context();
        if low.get("parallel").is_some_and(Value::truthy) {
            ctx = apart(&ctx);
        }
        if ctx.opts.get("test").is_some_and(Value::truthy) != test {
            let mut changed = (*ctx).clone();
            Arc::make_mut(&mut changed.opts).set("test", test);
            ctx = Arc::new(changed);
        }
        let filled = match slots::fill(&ctx, low, &self.slots) {
            Err(CallError::Missing(why)) => {
                let text = |key: &str| low.get(key).map(python::str).unwrap_or_default();
                let (module, fun, id) = (text("state"), text("fun"), text("__id__"));
                let comment = format!("A slot of {module}.{fun} with the ID '{id}': {why}");
                return StateOutcome::bad(comment).into_map(&name);
            }
            filled => filled,
        };
        let outcome = filled.and_then(|low| {
            let low = low.as_ref();
            name = low.get("name").cloned().unwrap_or_default();
            with_call(&ctx, |call| {
                self.begin(call, low, test)?;
                let mut state = State::new(call, function, low, test, self.run.clone());
                if let Some(why) = unknown_arguments(function, &state, low) {
                    return Ok(StateOutcome::bad(why));
                }
                (function.run)(&mut state)
            })
        });
        outcome
            .unwrap_or_else(|fault| raised(&fault))
            .into_map(&name)
    }

    /// Calls `mod_init` of a module before the first of its states that wants that.
    fn begin(&self, call: &mut Call<'_>, low: &Map, test: bool) -> Result<(), CallError> {
        let module = low.str("state").unwrap_or_default();
        let Some(function) = modules::find(module, "mod_init") else {
            return Ok(());
        };
        let begun = || self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun().iter().any(|m| m == module) || low.str("fun") == Some("mod_watch") {
            return Ok(());
        }
        let outcome = (function.run)(&mut State::new(call, function, low, test, self.run.clone()))?;
        if outcome.result == Some(true) {
            begun().push(module.to_owned());
        }
        Ok(())
    }

    /// What a state asks for after it has run: `reload_grains`, `reload_pillar`.
    fn reload(&self, low: &Map) {
        let wants = |key: &str| low.get(key).is_some_and(Value::truthy);
        // The next state sees grains that this one has set.
        let set = low.str("state") == Some("grains") && !low.get("test").is_some_and(Value::truthy);
        if wants("reload_grains") || set {
            let ctx = self.context();
            if let Some(grains) = fresh_grains(&ctx) {
                let mut changed = (*ctx).clone();
                changed.grains = Arc::new(grains);
                *self.lock() = Arc::new(changed);
            }
        }
        if wants("reload_pillar") {
            let ctx = self.context();
            match invoke(&ctx, "pillar.items", Vec::new(), Map::new()) {
                Ok(Value::Map(pillar)) => {
                    let mut changed = (*ctx).clone();
                    changed.pillar = Arc::new(pillar);
                    *self.lock() = Arc::new(changed);
                }
                Ok(_) => {}
                Err(e) => log::error!("reload_pillar: {e}"),
            }
        }
    }

    /// Whether a command succeeds, with the options of the declaration.
    fn succeeds(&self, low: &Map, command: &str) -> Result<Condition, String> {
        let ctx = self.context();
        if !is_listed(&ctx, "cmd.retcode") {
            return Err(exception(&CallError::raised("KeyError", "'cmd.retcode'")));
        }
        let mut kwargs = halite_wire::map! {"ignore_retcode" => true, "python_shell" => true};
        for key in COMMAND_OPTIONS {
            if let Some(value) = low.get(key) {
                kwargs.set(*key, value.clone());
            }
        }
        if let Some(password) = kwargs.remove("runas_password") {
            kwargs.set("password", password);
        }
        if let Some(user) = low
            .get("user")
            .filter(|_| !kwargs.contains("runas") && low.str("state") == Some("cmd"))
        {
            kwargs.set("runas", user.clone());
        }
        Ok(
            match invoke(&ctx, "cmd.retcode", vec![command.into()], kwargs) {
                Ok(code) if code.as_int() == Some(0) => Condition::Holds,
                Ok(_) => Condition::Fails,
                Err(e) => {
                    let id = low.str("__id__").unwrap_or_default();
                    if low.get("no_log").is_some_and(Value::truthy) {
                        log::warn!("{id}: a condition cannot be run");
                    } else {
                        log::warn!("{id}: the condition {command:?}: {e}");
                    }
                    Condition::NotRun
                }
            },
        )
    }

    /// Whether a function of a condition returns something true (`fun:`).
    fn function_holds(&self, low: &Map, condition: &Map) -> Result<Condition, CallError> {
        let Some(fun) = condition.get("fun") else {
            let id = low.str("__id__").unwrap_or_default();
            log::warn!("{id}: a condition is a command or a map with fun");
            return Ok(Condition::NoFunction);
        };
        let Some(fun) = fun.as_str() else {
            let kind = python::type_name(fun);
            return Err(CallError::Type(format!(
                "the function of a condition is a name, not {kind}"
            )));
        };
        let ctx = self.context();
        if find_listed(&ctx, fun).is_none() {
            return Err(CallError::raised("KeyError", python::repr(&fun.into())));
        }
        let mut args = Vec::new();
        let mut kwargs = Map::new();
        for (key, value) in condition.iter() {
            match key.as_str() {
                Some("fun" | "get_return") | None => {}
                Some("args") => args.extend(value.as_array().unwrap_or_default().iter().cloned()),
                Some(key) => kwargs.set(key, value.clone()),
            }
        }
        let args = slots::fill_value(&ctx, &Value::Array(args), &self.slots)?;
        let kwargs = slots::fill_value(&ctx, &Value::Map(kwargs), &self.slots)?;
        let args = args.as_array().unwrap_or_default().to_vec();
        let (value, retcode) =
            invoke_listed(&ctx, fun, args, kwargs.into_map().unwrap_or_default())?;
        let part = match (condition.get("get_return"), &value) {
            (None | Some(Value::Nil), _) => Some(&value),
            (Some(path), Value::Map(map)) => traverse(map, path, ":"),
            _ => None,
        };
        let holds = part.is_some_and(Value::truthy) && !retcode.truthy();
        Ok(if holds {
            Condition::Holds
        } else {
            Condition::Fails
        })
    }

    /// Tells the master of a result.
    fn tell(&self, low: &Map, result: &Map) {
        let Some((tag, data)) = self.event(low, result) else {
            return;
        };
        let ctx = self.context();
        if ctx.opts.str("file_client") == Some("local") {
            return;
        }
        let preload = halite_wire::map! {"jid" => self.progress.jid.as_str()};
        let told = invoke(
            &ctx,
            "event.fire_master",
            vec![data.into(), tag.as_str().into(), preload.into()],
            Map::new(),
        );
        if let Err(e) = told {
            log::warn!("event {tag}: {e}");
        }
    }

    /// Tag and data of the event about a result: with `fire_event`, and of every state with `state_events`.
    pub fn event(&self, low: &Map, result: &Map) -> Option<(String, Map)> {
        let event = low.get("fire_event").filter(|v| v.truthy());
        if !self.progress.events && event.is_none() {
            return None;
        }
        let id = self.context().id.clone();
        let jid = &self.progress.jid;
        let mut data = halite_wire::map! {"ret" => result.clone()};
        let tag = match event {
            Some(Value::Str(name)) => format!("salt/state_result/{jid}/{id}/{name}"),
            Some(_) => {
                let name = result.get("name").map(python::str).unwrap_or_default();
                format!("salt/state_result/{jid}/{id}/{name}")
            }
            None => {
                data.set("len", self.progress.total as i64);
                let number = result.int("__run_num__").unwrap_or_default();
                format!("salt/job/{jid}/prog/{id}/{number}")
            }
        };
        Some((tag, data))
    }
}

/// For a call that runs beside others, which may wait for it: with a Python host of its own.
fn apart(ctx: &Context) -> Arc<Context> {
    let mut own = ctx.clone();
    own.python = own.python.beside();
    Arc::new(own)
}

/// The state function of a compiled call.
fn function(low: &Map) -> Option<&'static StateFunction> {
    modules::find(low.str("state")?, low.str("fun")?)
}

/// `module.function` of a compiled call.
pub(crate) fn full_name(low: &Map) -> String {
    let text = |key| low.str(key).unwrap_or_default();
    format!("{}.{}", text("state"), text("fun"))
}

/// Whether a state function exists.
fn is_known(ctx: &Context, function: &str) -> bool {
    let list = ctx.opts.get("whitelist_state_modules");
    if list.is_some_and(|list| !names_module(&list.str_list(), function)) {
        return false;
    }
    let own = function.split_once('.').is_some_and(|(module, name)| {
        modules::find(module, name).is_some() && modules::lacking(module).is_none()
    });
    own || python_states::find(ctx, function).is_some()
}

fn missing_argument(ctx: &Context, low: &Map) -> Option<String> {
    if let Some(described) = python_states::find(ctx, &full_name(low)) {
        return python_states::missing_argument(&described, low);
    }
    missing(function(low)?, low)
}

fn missing(function: &StateFunction, low: &Map) -> Option<String> {
    let mut required = function.args.iter().filter(|arg| arg.default.is_none());
    let missing = required.find(|arg| !low.contains(arg.name))?;
    Some(format!(
        "Missing parameter {} for state {}",
        missing.name,
        full_name(low)
    ))
}

/// Why one call cannot be made, for a caller who gets no result then.
pub fn why_not(ctx: &Context, low: &Map) -> Option<String> {
    let name = full_name(low);
    if !is_known(ctx, &name) {
        return Some(format!("Specified state '{name}' was not found"));
    }
    missing_argument(ctx, low)
}

/// Grains that are read again.
fn fresh_grains(ctx: &Context) -> Option<Map> {
    let file = Path::new(ctx.opts.str("conf_file").unwrap_or_default());
    let dir = file.parent().unwrap_or(Path::new("/"));
    let config = halite_config::MinionConfig::from_map(Map::clone(&ctx.opts), dir).ok()?;
    Some(halite_modules::all_grains(&config))
}

/// What is said of arguments that a function does not have. Stock ends the whole run then.
fn unknown_arguments(function: &StateFunction, state: &State<'_, '_>, low: &Map) -> Option<String> {
    if function.keywords || function.name == "mod_watch" {
        return None;
    }
    // 3006 has these at `file.append` and its like; later series do not.
    let is_old = |key: &Value| key.is_str("encoding") || key.is_str("encoding_errors");
    let is_file = low.str("state") == Some("file");
    let names: Vec<String> = state
        .kwargs
        .iter()
        .filter(|(key, _)| !(is_file && is_old(key)))
        .map(|(key, _)| format!("'{}'", python::str(key)))
        .collect();
    let (last, others) = names.split_last()?;
    let fun = full_name(low);
    Some(if others.is_empty() {
        format!("Passed invalid arguments: {last} is an invalid keyword argument for '{fun}'")
    } else {
        let others = others.join(", ");
        format!(
            "Passed invalid arguments: {others} and {last} are invalid keyword arguments for '{fun}'"
        )
    })
}

fn raised(fault: &CallError) -> StateOutcome {
    StateOutcome::bad(exception(fault))
}

/// What stock says of a function that raised an exception; its traceback names lines of code that we do not have.
pub(crate) fn exception(fault: &CallError) -> String {
    if let CallError::Traced(class, text, trace) = fault {
        return format!(
            "An exception occurred in this state: Traceback (most recent call last):\n{trace}{class}: {text}\n"
        );
    }
    format!(
        "An exception occurred in this state: Traceback (most recent call last):\n{}: {}\n",
        fault.class(),
        fault.message()
    )
}

impl StateModules for MinionStates {
    fn has(&self, function: &str) -> bool {
        is_known(&self.context(), function)
    }

    fn reason(&self, function: &str) -> Option<String> {
        let module = function.split('.').next().unwrap_or_default();
        modules::lacking(module)
            .or_else(|| python_modules::reason(&self.context(), "states", function))
    }

    fn missing_argument(&self, low: &Map) -> Option<String> {
        match function(low) {
            Some(function) if !self.has_python.load(Ordering::Relaxed) => missing(function, low),
            _ => missing_argument(&self.context(), low),
        }
    }

    fn call(&self, low: &Map, test: bool) -> Map {
        let test = low.get("test").map_or(test, Value::truthy);
        if self.mock {
            return StateOutcome::good("Not called, mocked")
                .into_map(low.get("name").unwrap_or(&Value::Nil));
        }
        if low.get("parallel").is_some_and(Value::truthy)
            && let Err(e) = unshare(CloneFlags::CLONE_FS)
        {
            log::warn!("parallel states share their umask: {e}");
        }
        let umask = low
            .get("umask")
            .map(python::str)
            .and_then(|mask| u32::from_str_radix(&mask, 8).ok());
        let before =
            umask.map(|mask| nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(mask)));
        let ctx = self.context();
        let has_python = self.has_python.load(Ordering::Relaxed);
        let result = match function(low) {
            Some(function) if !has_python => self.apply(function, low, test),
            _ if python_states::find(&ctx, &full_name(low)).is_some() => {
                python_states::apply(self, ctx, low, test)
            }
            Some(function) => self.apply(function, low, test),
            None => {
                let fun = full_name(low);
                StateOutcome::bad(format!("Specified state '{fun}' was not found\n"))
                    .into_map(low.get("name").unwrap_or(&Value::Nil))
            }
        };
        if let Some(before) = before {
            nix::sys::stat::umask(before);
        }
        self.reload(low);
        result
    }

    fn runs_check_cmd(&self, low: &Map) -> bool {
        // The file before it is put in place.
        low.str("state") == Some("file") && matches!(low.str("fun"), Some("managed" | "serialize"))
    }

    fn joins(&self, low: &Map) -> bool {
        let module = low.str("state").unwrap_or_default();
        let in_python = || {
            self.has_python.load(Ordering::Relaxed) && python_states::joins(&self.context(), module)
        };
        let all = || match self.context().opts.get("state_aggregate") {
            Some(Value::Array(names)) => names.iter().any(|n| n.is_str(module)),
            Some(other) => other.truthy(),
            None => false,
        };
        (modules::joining(module).is_some() || in_python())
            && low.get("aggregate").map_or_else(all, Value::truthy)
    }

    fn joined(&self, low: &Map, others: &[&Map]) -> Option<Map> {
        match modules::joining(low.str("state")?) {
            Some(join) => join(low, others),
            None => python_states::joined(self, low, others),
        }
    }

    fn condition(&self, low: &Map, condition: &Value) -> Result<Condition, String> {
        match condition {
            Value::Str(command) => self.succeeds(low, command),
            Value::Map(map) => self
                .function_holds(low, map)
                .map_err(|fault| exception(&fault)),
            _ => Ok(Condition::WrongType),
        }
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn finished(&self, low: &Map, result: &Map, _number: usize) {
        if let Some(show) = ON_RESULT.get() {
            show(result, self.progress.total);
        }
        if self.has_python.load(Ordering::Relaxed) {
            let tag = halite_render::state::tag(low);
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((tag, result.clone()));
        }
        self.tell(low, result);
    }

    fn may_continue(&self, low: &Map) -> bool {
        let has_python = python_states::has_any(&self.context());
        self.has_python.store(has_python, Ordering::Relaxed);
        if self.killed.load(Ordering::Relaxed) {
            return false;
        }
        let Some(path) = &self.pauses else {
            return true;
        };
        let id = low.str("__id__").unwrap_or_default();
        let goes_on = (self.progress.may_continue)(path, id);
        self.killed.store(!goes_on, Ordering::Relaxed);
        goes_on
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

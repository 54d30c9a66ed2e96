//! Declarations of state functions: one constant table per module, as for execution functions.

use halite_modules::execution::declare::Arg;
use halite_modules::execution::{Call, CallError, Context, python};
use halite_wire::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// What a state function returns, before the runner adds its own fields.
#[derive(Clone, Debug, PartialEq)]
pub struct StateOutcome {
    /// `None` in test mode if something would change.
    pub result: Option<bool>,
    /// Usually a map.
    pub changes: Value,
    /// For people.
    pub comment: String,
    /// Other fields, such as `pid` or `warnings`.
    pub more: Map,
}

impl StateOutcome {
    /// An outcome without changes.
    pub fn new(result: Option<bool>, comment: impl Into<String>) -> StateOutcome {
        StateOutcome {
            result,
            changes: Map::new().into(),
            comment: comment.into(),
            more: Map::new(),
        }
    }

    /// Success without changes.
    pub fn good(comment: impl Into<String>) -> StateOutcome {
        StateOutcome::new(Some(true), comment)
    }

    /// Failure without changes.
    pub fn bad(comment: impl Into<String>) -> StateOutcome {
        StateOutcome::new(Some(false), comment)
    }

    /// What a test says that would change something.
    pub fn would(comment: impl Into<String>) -> StateOutcome {
        StateOutcome::new(None, comment)
    }

    /// With changes.
    pub fn changes(mut self, changes: impl Into<Value>) -> StateOutcome {
        self.changes = changes.into();
        self
    }

    /// With another field.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> StateOutcome {
        self.more.set(key, value);
        self
    }

    /// The form of a state's return.
    pub fn into_map(self, name: &Value) -> Map {
        // With room for what the run adds to each result.
        let mut map = Map(Vec::with_capacity(12));
        map.set("name", name.clone());
        map.set("changes", self.changes);
        map.set("result", self.result.map_or(Value::Nil, Value::Bool));
        map.set("comment", self.comment);
        for (key, value) in self.more.0 {
            // Some states tell another name than the declared one.
            map.set(python::str(&key), value);
        }
        map
    }
}

/// `{"old": ..., "new": ...}`.
pub fn old_new(old: impl Into<Value>, new: impl Into<Value>) -> Map {
    halite_wire::map! {"old" => old.into(), "new" => new.into()}
}

/// The result of a state function or of a part of one.
pub type Result<T = StateOutcome, E = CallError> = std::result::Result<T, E>;

/// What the states of a run share.
#[derive(Debug, Default)]
pub struct RunData {
    /// All calls of the run (`__lowstate__`).
    pub low: Vec<Arc<Map>>,
    accumulated: Mutex<Vec<Accumulator>>,
}

/// Texts that other states have collected for a file.
#[derive(Debug)]
struct Accumulator {
    file: String,
    name: String,
    texts: Vec<Value>,
    /// The ids of the states that they are for.
    ids: Vec<Value>,
}

impl RunData {
    /// For these calls.
    pub fn new(low: Vec<Arc<Map>>) -> RunData {
        RunData {
            low,
            accumulated: Mutex::default(),
        }
    }

    /// What `file.accumulated` has collected for a file: texts by name.
    pub fn accumulated(&self, file: &str) -> Map {
        self.select(|one| one.file == file)
    }

    /// As [`RunData::accumulated`], but only what is for the state with an id, if there is any.
    pub fn accumulated_for(&self, file: &str, id: &Value) -> Map {
        let own = self.select(|one| one.file == file && one.ids.contains(id));
        if own.is_empty() {
            self.accumulated(file)
        } else {
            own
        }
    }

    fn select(&self, wanted: impl Fn(&Accumulator) -> bool) -> Map {
        let all = self
            .accumulated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let chosen = all.iter().filter(|one| wanted(one));
        let texts = |one: &Accumulator| (one.name.as_str().into(), one.texts.clone().into());
        Map(chosen.map(texts).collect())
    }

    /// Adds texts for a file under a name, for the states with these ids.
    pub fn accumulate(&self, file: &str, name: &str, texts: Vec<Value>, ids: Vec<Value>) {
        let mut all = self
            .accumulated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = all
            .iter()
            .position(|one| one.file == file && one.name == name);
        let at = known.unwrap_or_else(|| {
            all.push(Accumulator {
                file: file.to_owned(),
                name: name.to_owned(),
                texts: Vec::new(),
                ids: Vec::new(),
            });
            all.len() - 1
        });
        let one = &mut all[at];
        for text in texts {
            if !one.texts.contains(&text) {
                one.texts.push(text);
            }
        }
        one.ids.extend(ids);
    }
}

/// One running state: its declared arguments, and the execution functions.
pub struct State<'a, 'c> {
    /// The call of the execution function that runs it, for functions that take one.
    pub call: &'a mut Call<'c>,
    /// The compiled call.
    pub low: &'a Map,
    /// Whether it only reports what it would do.
    pub test: bool,
    /// The run.
    pub run: Arc<RunData>,
    /// What was declared with it and is neither an argument nor for the engine.
    pub kwargs: Map,
    pub(crate) function: &'static StateFunction,
    pub(crate) named: Vec<Value>,
}

impl<'a, 'c> State<'a, 'c> {
    /// A state function with its arguments from a compiled call.
    pub(crate) fn new(
        call: &'a mut Call<'c>,
        function: &'static StateFunction,
        low: &'a Map,
        test: bool,
        run: Arc<RunData>,
    ) -> State<'a, 'c> {
        let (named, kwargs) = arguments(function, low);
        State {
            call,
            low,
            test,
            run,
            kwargs,
            function,
            named,
        }
    }
}

impl State<'_, '_> {
    /// `name`, which every state has.
    pub fn name(&self) -> String {
        self.low.get("name").map(python::str).unwrap_or_default()
    }

    /// The minion.
    pub fn ctx(&self) -> &Context {
        self.call.ctx
    }

    /// A declared argument; nil for undeclared names, which are a bug in the function's table.
    pub fn arg(&self, name: &str) -> &Value {
        const NIL: &Value = &Value::Nil;
        let at = self.function.args.iter().position(|a| a.name == name);
        debug_assert!(at.is_some(), "{name} is not declared");
        at.and_then(|i| self.named.get(i)).unwrap_or(NIL)
    }

    /// A declared argument as text, like Python's `str()`; nil is `None`.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.arg(name) {
            Value::Nil => None,
            other => Some(python::str(other)),
        }
    }

    /// A declared argument as a list; anything else is a list of one, nil an empty one.
    pub fn list(&self, name: &str) -> Vec<Value> {
        match self.arg(name) {
            Value::Nil => Vec::new(),
            Value::Array(list) => list.clone(),
            other => vec![other.clone()],
        }
    }

    /// Whether a declared argument is true in Python's sense.
    pub fn flag(&self, name: &str) -> bool {
        self.arg(name).truthy()
    }

    /// Declared arguments by name, for a function that takes the same ones.
    pub fn pick(&self, names: &[&str]) -> Map {
        let mut map = Map::new();
        for name in names {
            map.set(*name, self.arg(name).clone());
        }
        map
    }

    /// The environment of the state, `base` if it has none.
    pub fn saltenv(&self) -> String {
        let env = self.low.str("__env__").filter(|env| !env.is_empty());
        env.unwrap_or("base").to_owned()
    }

    /// Runs another function of the module with the same declaration, as `mod_watch` does.
    ///
    /// # Errors
    /// What that function raises.
    pub fn run_as(&mut self, function: &'static StateFunction) -> Result {
        self.run_declared(function, self.low)
    }

    /// Runs another function of the module with another declaration.
    ///
    /// # Errors
    /// What that function raises.
    pub fn run_declared(&mut self, function: &'static StateFunction, low: &Map) -> Result {
        let run = self.run.clone();
        (function.run)(&mut State::new(self.call, function, low, self.test, run))
    }

    /// Calls `__salt__[fun](*args)`.
    ///
    /// # Errors
    /// What the function raises, or a `KeyError` if it does not exist.
    pub fn salt(&mut self, fun: &str, args: impl Into<Vec<Value>>) -> Result<Value> {
        self.call.salt(fun, args.into(), Map::new())
    }

    /// Calls `__salt__[fun](*args, **kwargs)`.
    ///
    /// # Errors
    /// As [`State::salt`].
    pub fn salt_with(
        &mut self,
        fun: &str,
        args: impl Into<Vec<Value>>,
        kwargs: Map,
    ) -> Result<Value> {
        self.call.salt(fun, args.into(), kwargs)
    }
}

/// One state function.
#[derive(Clone, Copy)]
pub struct StateFunction {
    /// Its name without the module.
    pub name: &'static str,
    /// Its arguments but `name`, in stock's order.
    pub args: &'static [Arg],
    /// Whether it accepts any keyword.
    pub keywords: bool,
    /// Its documentation.
    pub doc: &'static str,
    /// The code.
    pub run: fn(&mut State<'_, '_>) -> Result,
}

impl StateFunction {
    /// A function with no argument but `name`.
    pub const fn new(
        name: &'static str,
        run: fn(&mut State<'_, '_>) -> Result,
        doc: &'static str,
    ) -> StateFunction {
        StateFunction {
            name,
            args: &[],
            keywords: false,
            doc,
            run,
        }
    }

    /// With these arguments.
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }

    /// Accepts any keyword.
    pub const fn keywords(mut self) -> Self {
        self.keywords = true;
        self
    }
}

/// One state module. One that has a function `mod_watch` reacts to `watch`.
#[derive(Clone, Copy)]
pub struct StateModule {
    /// Its name.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [StateFunction],
}

impl StateModule {
    /// A function by name.
    pub fn function(&self, name: &str) -> Option<&'static StateFunction> {
        self.functions.iter().find(|f| f.name == name)
    }
}

/// Keys of a declaration that are for the engine and never reach a state function (`STATE_INTERNAL_KEYWORDS`).
const ENGINE_KEYS: &[&str] = &[
    "check_cmd",
    "creates",
    "failhard",
    "fire_event",
    "fun",
    "listen",
    "listen_in",
    "name_order",
    "onchanges",
    "onchanges_any",
    "onchanges_in",
    "onfail",
    "onfail_all",
    "onfail_any",
    "onfail_in",
    "onfail_stop",
    "onlyif",
    "order",
    "parallel",
    "prereq",
    "prereq_in",
    "reload_grains",
    "reload_modules",
    "reload_pillar",
    "require",
    "require_any",
    "require_in",
    "retry",
    "sfun",
    "state",
    "unless",
    "use",
    "use_in",
    "watch",
    "watch_any",
    "watch_in",
    "aggregate",
    "no_log",
    "umask",
    "test",
];

/// The declared arguments of a function, and the other keywords.
fn arguments(function: &StateFunction, low: &Map) -> (Vec<Value>, Map) {
    let named = function.args.iter().map(|arg| {
        let given = low.get(arg.name).cloned();
        given.or(arg.default.map(|d| d.value())).unwrap_or_default()
    });
    let mut kwargs = Map::new();
    for (key, value) in low.iter() {
        let Some(key) = key.as_str() else { continue };
        let known = function.args.iter().any(|arg| arg.name == key);
        if !known && !is_engine_key(key) {
            kwargs.set(key, value.clone());
        }
    }
    (named.collect(), kwargs)
}

/// Whether a key of a declaration is for the engine.
pub(crate) fn is_engine_key(key: &str) -> bool {
    key.starts_with("__") || key == "name" || ENGINE_KEYS.contains(&key)
}

//! `salt[...]` in templates that the master renders: a closed table of execution functions.
//!
//! As in stock Salt, they see the minion's grains and run on the master. Other names fail with the error for
//! functions that do not exist.

mod cmd;
mod data;
mod files;
mod grains;
mod hashing;
mod loader;
mod matching;
mod random;
mod runner;
mod slsutil;

pub use data::assign;
pub use loader::{ChainedLoader, FunctionLoader, SaltVariable};

use super::fleet::Fleet;
use halite_config::RenderOptions;
use halite_jinja::{Args, Cx, Error, ErrorKind, Obj, Object};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::cell::LazyCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The data that functions work with; one per pillar.
pub struct FunctionContext {
    /// The minion.
    pub id: MinionId,
    /// Its grains.
    pub grains: Arc<Map>,
    /// The pillar as far as templates may see it.
    pub pillar: Arc<Map>,
    /// The options of the master, as templates see them.
    pub opts: Rc<LazyMap>,
    /// Options of renderers.
    pub options: Rc<RenderOptions>,
    /// The minions of the master; `None` on a minion that renders for itself.
    pub fleet: Option<Rc<Fleet>>,
    /// Calls runner functions that are not here, if they may be called.
    pub runner: Option<Rc<RunnerFn>>,
    /// Whether there are no other functions than these.
    pub is_closed: bool,
    /// When child processes are killed.
    pub deadline: Instant,
    /// Renders a text with a pipeline, for `slsutil.renderer`.
    pub render: Rc<RenderFn>,
    /// Finds a file in the roots of the current environment.
    pub find: Rc<FindFn>,
}

/// A map that is built on first use.
pub type LazyMap = LazyCell<Map, Box<dyn FnOnce() -> Map>>;

/// Takes a name below the roots, returns its file.
pub type FindFn = dyn Fn(&str) -> Option<super::files::SourceFile>;

/// Takes a text, its name, a pipeline and variables; returns data.
pub type RenderFn = dyn Fn(&str, &str, &str, &Map) -> Result<Value, String>;

/// Takes the name of a runner function and its arguments; the error is the text of an exception.
pub type RunnerFn = dyn Fn(&str, Vec<Value>, Map) -> Result<Value, String>;

/// How a function fails.
pub(super) enum CallError {
    /// `CommandExecutionError`, `SaltInvocationError`.
    Function(String),
    /// `TypeError`.
    Type(String),
    /// `KeyError` and all other exceptions, with the text that templates see.
    Other(String),
}

pub(super) type CallResult = Result<Value, CallError>;

pub(super) struct Function {
    name: &'static str,
    /// Parameters in order; `*` takes further positional arguments, `**` further named ones.
    params: &'static [&'static str],
    /// How many of them are required.
    required: usize,
    run: Run,
}

type Live = fn(&FunctionContext, &mut Cx, &[Option<Obj>]) -> Result<Obj, Error>;

pub(super) enum Run {
    /// Gets copies of its arguments.
    Data(fn(&FunctionContext, &Call) -> CallResult),
    /// Gets the template's own values, and may change them.
    Live(Live),
}

/// A call of a function: its arguments bound to its parameters.
pub(super) struct Call {
    bound: Vec<(&'static str, Option<Value>)>,
    /// Further positional arguments.
    pub rest: Vec<Value>,
    /// Further named arguments.
    pub more: Map,
}

impl Call {
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.bound.iter().find(|(n, _)| *n == name);
        found.and_then(|(_, value)| value.as_ref())
    }

    /// The argument, unless it is missing or `None`.
    pub fn some(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|v| !v.is_nil())
    }

    /// The argument as `str()` prints it; empty if missing.
    pub fn text(&self, name: &str) -> String {
        self.some(name).map(text_of).unwrap_or_default()
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, Value::truthy)
    }

    pub fn int(&self, name: &str, default: i64) -> Result<i64, CallError> {
        match self.some(name) {
            None => Ok(default),
            Some(Value::Int(i)) => Ok(*i),
            Some(Value::Str(text)) => text.trim().parse().map_err(|_| {
                CallError::Other(format!("invalid literal for int() with base 10: '{text}'"))
            }),
            Some(_) => Err(CallError::Type(format!("{name} must be a whole number"))),
        }
    }
}

/// `str(value)`.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => Obj::from(other).to_str().unwrap_or_default(),
    }
}

const TABLES: &[&[Function]] = &[
    cmd::FUNCTIONS,
    data::FUNCTIONS,
    files::FUNCTIONS,
    grains::FUNCTIONS,
    hashing::FUNCTIONS,
    matching::FUNCTIONS,
    random::FUNCTIONS,
    runner::FUNCTIONS,
    slsutil::FUNCTIONS,
];

/// Functions of stock Salt that are refused: they have side effects, or need something that is missing here.
const REFUSED: &[&str] = &[
    "cp.get_file_str",
    "event.fire",
    "event.send",
    "gpg.decrypt",
    "http.query",
    "publish.publish",
    "publish.runner",
    "saltutil.wheel",
    "sdb.get",
    "sdb.get_or_set_hash",
    "sdb.set",
    "vault.read_secret",
];

fn find(name: &str) -> Option<&'static Function> {
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .find(|f| f.name == name)
}

/// Whether templates that the master renders can call a function.
pub fn exists(name: &str) -> bool {
    find(name).is_some()
}

fn module_exists(module: &str) -> bool {
    let inside = |name: &str| name.split('.').next() == Some(module);
    TABLES
        .iter()
        .flat_map(|table| table.iter())
        .any(|f| inside(f.name))
        || REFUSED.iter().any(|name| inside(name))
}

/// The functions of these tables.
pub struct BuiltinFunctions(pub Rc<FunctionContext>);

impl FunctionLoader for BuiltinFunctions {
    fn function(&self, name: &str) -> Option<Obj> {
        let scope = self.0.clone();
        if let Some(function) = find(name) {
            return Some(Obj::native(Bound { scope, function }));
        }
        let mut refused = REFUSED.iter().filter(|_| scope.is_closed);
        let refused = refused.find(|known| **known == name)?;
        Some(Obj::native(Refused(refused)))
    }

    fn has_module(&self, module: &str) -> bool {
        module_exists(module)
    }

    fn contains(&self, name: &str) -> bool {
        find(name).is_some()
    }

    fn invoke(
        &self,
        name: &str,
        positional: &[Value],
        keyword: Map,
    ) -> Option<Result<Value, (&'static str, String)>> {
        let function = find(name)?;
        let Run::Data(run) = function.run else {
            return None;
        };
        let text = |key: &Value| key.as_str().map(Rc::from);
        let args = Args {
            positional: positional.iter().map(Obj::from).collect(),
            keyword: keyword
                .iter()
                .filter_map(|(key, value)| Some((text(key)?, Obj::from(value))))
                .collect(),
        };
        let call = match function.bind(&args) {
            Ok(call) => call,
            Err(e) => return Some(Err(("TypeError", e.to_string()))),
        };
        Some(run(&self.0, &call).map_err(|fault| match fault {
            CallError::Function(text) => ("CommandExecutionError", text),
            CallError::Type(text) => ("TypeError", text),
            CallError::Other(text) => ("Exception", text),
        }))
    }
}

struct Refused(&'static str);

impl Object for Refused {
    fn type_name(&self) -> &str {
        "LoadedFunc"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _: &mut Cx, _: &Args) -> Result<Obj, Error> {
        let text = format!(
            "the function {} is not available in templates of this master",
            self.0
        );
        Err(Error::new(ErrorKind::Function, text))
    }
}

struct Bound {
    scope: Rc<FunctionContext>,
    function: &'static Function,
}

impl Object for Bound {
    fn type_name(&self) -> &str {
        "LoadedFunc"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
        match self.function.run {
            Run::Live(run) => {
                let short = self.function.name.rsplit('.').next().unwrap_or_default();
                let bound =
                    args.bind_required(short, self.function.params, self.function.required)?;
                run(&self.scope, cx, &bound)
            }
            Run::Data(run) => {
                let call = self.function.bind(args)?;
                cx.charge(self.function.steps(&call))?;
                run(&self.scope, &call)
                    .map(Obj::from)
                    .map_err(|fault| match fault {
                        CallError::Function(text) => Error::new(ErrorKind::Function, text),
                        CallError::Type(text) => Error::type_error(text),
                        CallError::Other(text) => Error::new(ErrorKind::Other, text),
                    })
            }
        }
    }
}

/// Steps of a template for one match of a target, which may be a regular expression that searches long.
const MATCH_STEPS: usize = 5000;

impl Function {
    /// Steps of the template that a call takes.
    fn steps(&self, call: &Call) -> usize {
        if !self.name.starts_with("match.") {
            return 1;
        }
        let targets = call.get("lookup").and_then(Value::as_map);
        MATCH_STEPS.saturating_mul(targets.map_or(1, |all| all.len().max(1)))
    }

    fn bind(&self, args: &Args) -> Result<Call, Error> {
        let short = self.name.rsplit('.').next().unwrap_or_default();
        let named: Vec<&'static str> = self
            .params
            .iter()
            .copied()
            .filter(|p| !p.starts_with('*'))
            .collect();
        let (any, any_named) = (self.params.contains(&"*"), self.params.contains(&"**"));
        let mut plain = args.clone();
        let rest = if any && plain.positional.len() > named.len() {
            plain.positional.split_off(named.len())
        } else {
            Vec::new()
        };
        let mut more = Map::new();
        if any_named {
            let (known, other): (Vec<_>, Vec<_>) = plain
                .keyword
                .into_iter()
                .partition(|(name, _)| named.contains(&name.as_ref()));
            plain.keyword = known;
            for (name, value) in other {
                more.set(name.as_ref(), value.to_value()?);
            }
        }
        let bound = plain.bind_required(short, &named, self.required)?;
        let bound = named
            .into_iter()
            .zip(bound)
            .map(|(name, value)| Ok((name, value.map(|v| v.to_value()).transpose()?)));
        Ok(Call {
            bound: bound.collect::<Result<_, Error>>()?,
            rest: rest.iter().map(Obj::to_value).collect::<Result<_, _>>()?,
            more,
        })
    }
}

/// `salt/utils/data.py traverse_dict_and_list`: looks up the words of `key` in nested maps. In lists, numbers
/// are indices and other words are looked up in the elements.
pub(super) fn traverse<'a>(data: &'a Value, key: &str, delimiter: &str) -> Option<&'a Value> {
    let words: Vec<&str> = if delimiter.is_empty() {
        vec![key]
    } else {
        key.split(delimiter).collect()
    };
    let mut at = data;
    for word in words {
        at = match at {
            Value::Map(map) => map.get(word).or_else(|| {
                let number = Value::Int(word.parse().ok()?);
                map.iter().find(|(k, _)| *k == number).map(|(_, v)| v)
            })?,
            Value::Array(items) => match word.parse::<i64>() {
                Ok(n) if n >= 0 => items.get(usize::try_from(n).ok()?)?,
                Ok(n) => items.get(items.len().checked_sub(usize::try_from(-n).ok()?)?)?,
                Err(_) => items
                    .iter()
                    .filter_map(Value::as_map)
                    .find_map(|map| map.get(word))?,
            },
            _ => return None,
        };
    }
    Some(at)
}

/// Like [`traverse`], starting in a map.
pub(super) fn traverse_map(map: &Map, key: &str, delimiter: &str) -> Option<Value> {
    if let Some(value) = map
        .get(key)
        .filter(|_| !key.contains(delimiter) || delimiter.is_empty())
    {
        return Some(value.clone());
    }
    let (first, rest) = key
        .split_once(delimiter)
        .filter(|_| !delimiter.is_empty())?;
    traverse(map.get(first)?, rest, delimiter).cloned()
}

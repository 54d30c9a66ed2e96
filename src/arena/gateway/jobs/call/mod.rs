//! Parses the function of a job on a runtime.

use crate::wire::{Body, Json, Message, ModuleRequest, Object};
use halite_gateway::answer::{self, Args, FunctionResult};
use halite_wire::{Map, Value, yaml};
use serde_json::json;

/// Functions of runtimes, sorted.
pub(super) const FUNCTIONS: &[&str] = &[
    "arena.create",
    "arena.delete",
    "arena.logs",
    "arena.module",
    "arena.modules",
    "arena.runtime",
    "arena.send",
    "grains.get",
    "grains.item",
    "grains.items",
    "grains.ls",
    "saltutil.find_job",
    "saltutil.refresh_grains",
    "saltutil.running",
    "saltutil.sync_grains",
    "sys.list_functions",
    "test.ping",
];
/// Lines shown by `arena.logs` by default.
const LINES: usize = 50;

/// The function to run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// `test.ping`.
    Ping,
    /// Returns its grains.
    Grains,
    /// Stores its grains anew.
    Refresh,
    /// Looks for the job with this jid.
    FindJob(String),
    /// Lists the running jobs.
    Running,
    /// Lists the functions.
    Functions,
    /// Creates a module.
    Create {
        /// The request; its runtime is not set yet.
        request: Box<ModuleRequest>,
        /// Whether the orchestrator may choose another runtime.
        scheduled: bool,
    },
    /// Ends a module: its uuid or name.
    Delete(String),
    /// Lists all modules of the runtime.
    Modules,
    /// Shows a module: its uuid or name.
    Module(String),
    /// Shows the output of a module: its uuid or name, and the number of lines.
    Logs(String, usize),
    /// Sends input to a module: its uuid or name, and the data.
    Send(String, Vec<u8>),
    /// Shows the runtime's record.
    Runtime,
}

impl Call {
    /// Parses the function and arguments of a job.
    ///
    /// # Errors
    /// The return if the arguments are wrong.
    pub fn of(load: &Map) -> Result<Call, FunctionResult> {
        let Some(Value::Str(fun)) = load.get("fun") else {
            return Err(bad(
                "runtimes of ARENA run one function per job; send a job for each",
            ));
        };
        let args = Args::of(load);
        let mut given = ArgReader { fun, args, at: 0 };
        let call = match fun.as_str() {
            "grains.get" if given.args.positional.is_empty() => {
                return Err(bad("grains.get takes the name of a grain"));
            }
            // Their arguments are parsed by the code that answers them.
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" => return Ok(Call::Grains),
            "saltutil.refresh_grains" | "saltutil.sync_grains" => return Ok(Call::Refresh),
            "saltutil.find_job" => {
                return Ok(Call::FindJob(given.text("jid")?.unwrap_or_default()));
            }
            "saltutil.running" => return Ok(Call::Running),
            "sys.list_functions" => return Ok(Call::Functions),
            "test.ping" => return Ok(Call::Ping),
            "arena.create" => create(&mut given)?,
            "arena.delete" => Call::Delete(given.module()?),
            "arena.modules" => Call::Modules,
            "arena.module" => Call::Module(given.module()?),
            "arena.logs" => Call::Logs(given.module()?, given.count("lines", LINES)?),
            "arena.send" => send(&mut given)?,
            "arena.runtime" => Call::Runtime,
            other => return Err(bad(format!("'{other}' is not available."))),
        };
        given.end()?;
        Ok(call)
    }
}

fn bad(text: impl Into<String>) -> FunctionResult {
    FunctionResult::failure(text, 1)
}

/// The arguments of a job; positional ones are consumed one after the other.
struct ArgReader<'a> {
    fun: &'a str,
    args: Args,
    at: usize,
}

impl ArgReader<'_> {
    fn bad(&self, text: &str) -> FunctionResult {
        bad(format!("{}: {text}", self.fun))
    }

    /// The argument with this name, or the next positional one.
    fn text(&mut self, name: &str) -> Result<Option<String>, FunctionResult> {
        match self.args.named.remove(name) {
            Some(value @ (Value::Map(_) | Value::Array(_))) => {
                let text = format!(
                    "{name} must be a string, not {}",
                    yaml::emit_flow(&value).trim()
                );
                Err(self.bad(&text))
            }
            Some(value) if !value.is_nil() => Ok(Some(answer::text(&value))),
            _ => {
                let word = self.args.positional.get(self.at).cloned();
                self.at += usize::from(word.is_some());
                Ok(word)
            }
        }
    }

    /// A module's uuid or name.
    fn module(&mut self) -> Result<String, FunctionResult> {
        let module = self.text("module")?.filter(|text| !text.is_empty());
        module.ok_or_else(|| self.bad("the uuid or name of a module is missing"))
    }

    /// The argument with this name; a string is parsed as YAML.
    fn value(&mut self, name: &str) -> Result<Option<Value>, FunctionResult> {
        match self.args.named.remove(name) {
            Some(Value::Str(text)) => match yaml::parse(&text) {
                Ok(value) => Ok(Some(value).filter(|value| !value.is_nil())),
                Err(e) => Err(self.bad(&format!("{name} is not valid YAML: {e}"))),
            },
            other => Ok(other.filter(|value| !value.is_nil())),
        }
    }

    /// A list of strings; one string is a list of one, and numbers become strings.
    fn list(&mut self, name: &str) -> Result<Option<Vec<String>>, FunctionResult> {
        match self.value(name)? {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let nested = |item: &Value| matches!(item, Value::Map(_) | Value::Array(_));
                if items.iter().any(nested) {
                    Err(self.bad(&format!("{name} must be a list of strings")))
                } else {
                    Ok(Some(items.iter().map(answer::text).collect()))
                }
            }
            Some(Value::Map(_)) => Err(self.bad(&format!("{name} must be a list of strings"))),
            Some(one) => Ok(Some(vec![answer::text(&one)])),
        }
    }

    /// A whole number.
    fn count(&mut self, name: &str, default: usize) -> Result<usize, FunctionResult> {
        let Some(text) = self.text(name)? else {
            return Ok(default);
        };
        let number = text.parse();
        number.map_err(|_| self.bad(&format!("{name} must be a whole number, not {text:?}")))
    }

    /// Refuses arguments that were not consumed.
    fn end(&self) -> Result<(), FunctionResult> {
        if let Some(word) = self.args.positional.get(self.at) {
            return Err(self.bad(&format!("unexpected argument {word:?}")));
        }
        match self.args.named.iter().next() {
            None => Ok(()),
            Some((name, _)) => {
                let name = answer::text(name);
                Err(self.bad(&format!("unknown argument {name:?}")))
            }
        }
    }
}

/// `arena.create file=... name=... argv=[...] ...`.
///
/// The arguments become a message like those of users of the realm, so that one parser handles both.
fn create(given: &mut ArgReader) -> Result<Call, FunctionResult> {
    let mut data = Object::new();
    data.insert("type".to_owned(), "module".into());
    // Only the file may be positional.
    match given.text("file")? {
        Some(file) if !file.is_empty() => data.insert("file".to_owned(), file.into()),
        _ => return Err(given.bad("file=... is missing")),
    };
    for name in ["name", "uuid", "filetype", "policy", "location"] {
        let value = given.args.named.get(name).is_some();
        if value && let Some(text) = given.text(name)? {
            data.insert(name.to_owned(), text.into());
        }
    }
    let mut args = match given.value("args")? {
        None => Object::new(),
        Some(value @ Value::Map(_)) => match json(&value) {
            Json::Object(object) => object,
            _ => Object::new(),
        },
        Some(_) => return Err(given.bad("args must be a map")),
    };
    if let Some(argv) = given.list("argv")? {
        args.insert("argv".to_owned(), argv.into());
    }
    if let Some(env) = environment(given)? {
        args.insert("env".to_owned(), env.into());
    }
    data.insert("args".to_owned(), args.into());
    match given.value("apis")? {
        None => {}
        Some(Value::Str(text)) => {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            let words: Vec<&str> = words.collect();
            data.insert("apis".to_owned(), words.into());
        }
        Some(list) => {
            data.insert("apis".to_owned(), json(&list));
        }
    }
    if let Some(channels) = given.value("channels")? {
        data.insert("channels".to_owned(), json(&channels));
    }
    // Fields that only some runtimes know. Those that have an argument of their own cannot be set in two ways.
    match given.value("fields")? {
        None => {}
        Some(Value::Map(fields)) => {
            for (name, value) in fields.iter() {
                data.entry(answer::text(name))
                    .or_insert_with(|| json(value));
            }
        }
        Some(_) => return Err(given.bad("fields must be a map")),
    }
    let scheduled = given.args.named.remove("scheduled");
    let message =
        json!({"object_id": "job", "action": "create", "type": "req", "data": Json::Object(data)});
    let message = Message::parse(message.to_string().as_bytes());
    match message.map(|message| message.body) {
        Ok(Body::Create(request)) => Ok(Call::Create {
            request,
            scheduled: scheduled.is_some_and(|value| value.truthy()),
        }),
        Ok(_) => Err(given.bad("the arguments do not describe a module")),
        Err(fault) => Err(given.bad(&super::describe_fault(&fault))),
    }
}

/// `env`: a list of `NAME=value`, or a map.
fn environment(given: &mut ArgReader) -> Result<Option<Vec<String>>, FunctionResult> {
    let map = match given.value("env")? {
        Some(Value::Map(map)) => map,
        Some(other) => {
            given.args.named.set("env", other);
            return given.list("env");
        }
        None => return Ok(None),
    };
    let pairs = map
        .iter()
        .map(|(name, value)| format!("{}={}", answer::text(name), answer::text(value)));
    Ok(Some(pairs.collect()))
}

/// `arena.send MODULE DATA`: appends a newline, unless `raw=True`.
fn send(given: &mut ArgReader) -> Result<Call, FunctionResult> {
    let module = given.module()?;
    let data = given.text("data")?;
    let data = data.ok_or_else(|| given.bad("the data to send is missing"))?;
    let raw = given.args.named.remove("raw");
    let mut data = data.into_bytes();
    if !raw.is_some_and(|value| value.truthy()) && !data.ends_with(b"\n") {
        data.push(b'\n');
    }
    Ok(Call::Send(module, data))
}

fn json(value: &Value) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;

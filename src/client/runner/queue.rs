//! `queue.*`: queues in SQLite files, which store items until they are processed (`salt/runners/queue.py`,
//! `salt/queues/sqlite_queue.py`; same file format).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_sys::daemon::make_dir;
use halite_wire::{Map, Value};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a statement waits for another process.
const BUSY: Duration = Duration::from_secs(10);

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "queue.insert",
        args: &["queue", "items", "?backend"],
        doc: "Puts an item, or each of a list, at the end of a queue. A map is one item.",
        run: insert,
    },
    Function {
        name: "queue.delete",
        args: &["queue", "items", "?backend"],
        doc: "Removes an item, or each of a list, from a queue.",
        run: delete,
    },
    Function {
        name: "queue.list_queues",
        args: &["?backend"],
        doc: "Lists the queues.",
        run: list_queues,
    },
    Function {
        name: "queue.list_items",
        args: &["queue", "?backend"],
        doc: "The items of a queue.",
        run: |context, args| {
            let items: Vec<Value> = listed(context, args)?
                .into_iter()
                .map(Value::from)
                .collect();
            Ok(items.into())
        },
    },
    Function {
        name: "queue.list_length",
        args: &["queue", "?backend"],
        doc: "The number of items in a queue.",
        run: |context, args| Ok(Value::from(listed(context, args)?.len()).into()),
    },
    Function {
        name: "queue.pop",
        args: &["queue", "?quantity", "?backend", "?is_runner"],
        doc: "Removes the first items from a queue and returns them; quantity is a number or all.",
        run: |context, args| {
            let queue = Queue::open(context, &args.text(0, "queue"), args.text(2, "backend"))?;
            let items = queue.pop(args.get(1, "quantity"), args.flag(3, "is_runner"))?;
            Ok(items.into())
        },
    },
    Function {
        name: "queue.process_queue",
        args: &["queue", "?quantity", "?backend", "?is_runner"],
        doc: "Pops items and fires them as salt/queue/<queue>/process, for a reactor.",
        run: process_queue,
    },
    Function {
        name: "queue.insert_runner",
        args: &["fun", "?args", "?kwargs", "?queue", "?backend"],
        doc: "Puts a call of a runner into a queue, for queue.process_runner.",
        run: insert_runner,
    },
    Function {
        name: "queue.process_runner",
        args: &["?quantity", "?queue", "?backend"],
        doc: "Pops calls of runners and runs them.",
        run: process_runner,
    },
];

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

fn sqlite(e: rusqlite::Error) -> RunError {
    RunError::Raised("OperationalError".into(), e.to_string())
}

fn check_backend(backend: Option<String>, function: &str) -> Result<(), RunError> {
    match backend.as_deref() {
        None | Some("sqlite") => Ok(()),
        Some(other) => Err(invalid(format!(
            "Function \"{other}.{function}\" is not available; the only backend is sqlite"
        ))),
    }
}

struct Queue {
    name: String,
    connection: Connection,
}

impl Queue {
    /// Opens a queue, creating it if missing. Its name is used for a file and a table, so it must be a word.
    fn open(
        context: &RunContext,
        name: &Option<String>,
        backend: Option<String>,
    ) -> Result<Queue, RunError> {
        check_backend(backend, "insert")?;
        let name = name.clone().unwrap_or_default();
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.starts_with(begins) || !name.chars().all(word) || name.len() > 64 {
            return Err(invalid(format!(
                "{name:?} cannot name a queue: use letters, digits and _, a letter first"
            )));
        }
        let dir = &context.config.sqlite_queue_dir;
        make_dir(dir, 0o755)?;
        let connection = Connection::open(dir.join(format!("{name}.db"))).map_err(sqlite)?;
        connection.busy_timeout(BUSY).map_err(sqlite)?;
        connection
            .execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {name}(id INTEGER PRIMARY KEY, name TEXT UNIQUE)"
            ))
            .map_err(sqlite)?;
        Ok(Queue { name, connection })
    }

    /// Inserts all items or none; returns an error text if one is there already.
    fn insert(&mut self, items: &[String]) -> Result<Option<String>, RunError> {
        let sql = format!("INSERT INTO {}(name) VALUES(?1)", self.name);
        let change = self.connection.transaction().map_err(sqlite)?;
        for item in items {
            match change.execute(&sql, params![item]) {
                Ok(_) => {}
                Err(rusqlite::Error::SqliteFailure(e, text))
                    if e.code == ErrorCode::ConstraintViolation =>
                {
                    return Ok(Some(text.unwrap_or_else(|| e.to_string())));
                }
                Err(e) => return Err(sqlite(e)),
            }
        }
        change.commit().map_err(sqlite)?;
        Ok(None)
    }

    fn delete(&mut self, items: &[String]) -> Result<(), RunError> {
        let sql = format!("DELETE FROM {} WHERE name = ?1", self.name);
        let change = self.connection.transaction().map_err(sqlite)?;
        for item in items {
            change.execute(&sql, params![item]).map_err(sqlite)?;
        }
        change.commit().map_err(sqlite)
    }

    /// Items in order of insertion.
    fn list(&self) -> Result<Vec<String>, RunError> {
        let sql = format!("SELECT name FROM {} ORDER BY id", self.name);
        let mut query = self.connection.prepare(&sql).map_err(sqlite)?;
        let rows = query.query_map([], |row| row.get(0)).map_err(sqlite)?;
        rows.collect::<Result<_, _>>().map_err(sqlite)
    }

    fn pop(mut self, quantity: Option<&Value>, is_runner: bool) -> Result<Vec<Value>, RunError> {
        let number = |n: i64| usize::try_from(n).ok();
        let limit = match quantity {
            None => 1,
            Some(Value::Str(s)) if s == "all" => usize::MAX,
            Some(Value::Str(s)) => s.parse().map_err(|_| bad_quantity())?,
            Some(other) => other.as_int().and_then(number).ok_or_else(bad_quantity)?,
        };
        let change = self.connection.transaction().map_err(sqlite)?;
        let first = format!("SELECT id, name FROM {} ORDER BY id LIMIT 1", self.name);
        let remove = format!("DELETE FROM {} WHERE id = ?1", self.name);
        let mut items: Vec<String> = Vec::new();
        while items.len() < limit {
            let row = change.query_row(&first, [], |row| Ok((row.get(0)?, row.get(1)?)));
            let Some((id, name)): Option<(i64, String)> = row.optional().map_err(sqlite)? else {
                break;
            };
            change.execute(&remove, params![id]).map_err(sqlite)?;
            items.push(name);
        }
        if !is_runner {
            change.commit().map_err(sqlite)?;
            return Ok(items.into_iter().map(Value::from).collect());
        }
        // Items that cannot be parsed stay in the queue.
        let calls = items
            .iter()
            .map(|item| from_item(item))
            .collect::<Result<_, _>>()?;
        change.commit().map_err(sqlite)?;
        Ok(calls)
    }
}

fn bad_quantity() -> RunError {
    invalid("Quantity must be an integer or \"all\".")
}

/// A map in Salt's form: JSON with single quotes.
fn to_item(map: &Map) -> String {
    json(&Value::Map(map.clone())).replace('"', "'")
}

fn from_item(item: &str) -> Result<Value, RunError> {
    halite_wire::yaml::parse(&item.replace('\'', "\""))
        .map_err(|e| invalid(format!("{item:?} is not a call of a runner: {e}")))
}

/// JSON with the spacing of Python's `json.dumps`.
fn json(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(k, v)| {
                    let key = halite_modules::execution::python::str(k);
                    format!("{}: {}", serde_json::Value::from(key), json(v))
                })
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(", "))
        }
        other => serde_json::to_string(other).unwrap_or_else(|_| "null".to_owned()),
    }
}

fn items(args: &Args) -> Result<Vec<String>, RunError> {
    let text = |v: &Value| match v {
        Value::Str(s) => Ok(s.clone()),
        Value::Map(map) => Ok(to_item(map)),
        Value::Int(_) | Value::UInt(_) => Ok(json(v)),
        _ => Err(invalid("an item must be a string or a map")),
    };
    match args.get(1, "items") {
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(other) => Ok(vec![text(other)?]),
        None => Err(invalid("items must be a string, a map, or a list of these")),
    }
}

fn insert(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let items = items(args)?;
    let mut queue = Queue::open(context, &args.text(0, "queue"), args.text(2, "backend"))?;
    let many = matches!(args.get(1, "items"), Some(Value::Array(_)));
    inserted(queue.insert(&items)?, many)
}

fn inserted(there: Option<String>, many: bool) -> Result<RunnerOutput, RunError> {
    let what = if many {
        "One or more items already exists in this queue."
    } else {
        "Item already exists in this queue."
    };
    Ok(match there {
        None => Value::Bool(true),
        Some(why) => format!("{what} sqlite error: {why}").into(),
    }
    .into())
}

fn delete(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let items = items(args)?;
    Queue::open(context, &args.text(0, "queue"), args.text(2, "backend"))?.delete(&items)?;
    Ok(Value::Bool(true).into())
}

fn listed(context: &mut RunContext, args: &Args) -> Result<Vec<String>, RunError> {
    Queue::open(context, &args.text(0, "queue"), args.text(1, "backend"))?.list()
}

fn list_queues(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    check_backend(args.text(0, "backend"), "list_queues")?;
    let mut names = databases(&context.config.sqlite_queue_dir)?;
    names.sort_unstable();
    Ok(names.into())
}

fn databases(dir: &Path) -> Result<Vec<String>, RunError> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name = |path: PathBuf| {
        let is_db = path.extension().is_some_and(|e| e == "db");
        let stem = path.file_stem()?.to_str()?.to_owned();
        is_db.then_some(stem)
    };
    Ok(entries.flatten().filter_map(|e| name(e.path())).collect())
}

fn process_queue(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let name = args.text(0, "queue");
    let popped = Queue::open(context, &name, args.text(2, "backend"))
        .and_then(|q| q.pop(args.get(1, "quantity"), args.flag(3, "is_runner")));
    let items = match popped {
        Ok(items) => items,
        Err(e @ RunError::Raised(..)) => {
            context.progress(halite_wire::map! {"errors" => e.to_string()});
            context.run.retcode = 1;
            return Ok(Value::Bool(false).into());
        }
        Err(e) => return Err(e),
    };
    let name = name.unwrap_or_default();
    let data =
        halite_wire::map! {"items" => items, "backend" => "sqlite", "queue" => name.as_str()};
    let tag = format!("salt/queue/{name}/process");
    crate::call::fire(&context.config, tag, data.clone())?;
    Ok(Value::Map(data).into())
}

/// Queue and backend of runners: from the arguments, or from the option `runner_queue`.
fn runner_queue(context: &RunContext, args: &Args, at: usize) -> (Option<String>, Option<String>) {
    let option = |key: &str| context.config.runner_queue.str(key).map(str::to_owned);
    (
        args.text(at, "queue").or_else(|| option("queue")),
        args.text(at + 1, "backend").or_else(|| option("backend")),
    )
}

fn insert_runner(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (queue, backend) = runner_queue(context, args, 3);
    let mut queue = Queue::open(context, &queue, backend)?;
    let call = halite_wire::map! {
        "fun" => args.text(0, "fun").unwrap_or_default(),
        "args" => args.list(1, "args").unwrap_or_default(),
        "kwargs" => args.get(2, "kwargs").cloned().unwrap_or(Value::Map(Map::new())),
    };
    inserted(queue.insert(&[to_item(&call)])?, false)
}

fn process_runner(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (name, backend) = runner_queue(context, args, 1);
    let calls = Queue::open(context, &name, backend)?.pop(args.get(0, "quantity"), true)?;
    for call in calls {
        let Value::Map(call) = call else {
            return Err(invalid("an item of this queue is not a call of a runner"));
        };
        let fun = call.str("fun").unwrap_or_default();
        let function =
            super::find(&context.config, fun).ok_or_else(|| super::not_available(fun))?;
        let list = |key: &str| call.get(key).and_then(Value::as_array);
        let args = Args {
            positional: list("args").unwrap_or_default().to_vec(),
            keyword: call
                .get("kwargs")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default(),
        };
        super::run(context, &function, args)?;
    }
    Ok(Value::Nil.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_written_as_salt_writes_them() {
        let inner = halite_wire::map! {"data" => halite_wire::map! {"foo" => "bar"}};
        let call = halite_wire::map! {
            "fun" => "event.send", "args" => vec![Value::from("t")], "kwargs" => inner,
        };
        let item = to_item(&call);
        assert_eq!(
            item,
            "{'fun': 'event.send', 'args': ['t'], 'kwargs': {'data': {'foo': 'bar'}}}"
        );
        assert_eq!(from_item(&item).unwrap(), Value::Map(call));
    }
}

//! `mysql_query` (`salt/states/mysql_query.py`).

use super::{ask, error};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::file::os;
use halite_modules::execution::{CallError, mysql, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

pub const MODULE: StateModule = StateModule {
    name: "mysql_query",
    functions: &[
        StateFunction::new(
            "run",
            |s| super::run(s, |s| run(s, false)),
            "Runs a statement, and keeps its result in a file or a grain.",
        )
        .args(args![
            database,
            query,
            output = None,
            grain = None,
            key = None,
            overwrite = True,
            check_db_exists = True,
            client_flags = None
        ])
        .keywords(),
        StateFunction::new(
            "run_file",
            |s| super::run(s, |s| run(s, true)),
            "Runs the statements of a file, and keeps their results in a file or a grain.",
        )
        .args(args![
            database,
            query_file = None,
            output = None,
            grain = None,
            key = None,
            overwrite = True,
            saltenv = None,
            check_db_exists = True,
            client_flags = None
        ])
        .keywords(),
    ],
};

/// Where a result goes.
enum Output {
    Nowhere,
    File(String),
    Grain(String, Option<String>),
}

fn run(s: &mut State<'_, '_>, file: bool) -> Result {
    let database = python::str(s.arg("database"));
    let flags = match s.arg("client_flags") {
        Value::Nil => Value::Array(Vec::new()),
        list @ Value::Array(_) => list.clone(),
        _ => return Ok(StateOutcome::bad("Error: client_flags must be a list.")),
    };
    let flags = map! {"client_flags" => flags};
    let mut source = String::new();
    if file {
        source = match query_file(s)? {
            Ok(path) => path,
            Err(failed) => return Ok(failed),
        };
    }
    if s.flag("check_db_exists") {
        let args = vec![database.as_str().into()];
        if !ask(s, "db_exists", args, flags.clone())?.truthy() {
            if let Some(failed) = error() {
                return Ok(failed);
            }
            let shown = if file { database } else { s.name() };
            return Ok(StateOutcome::would(format!(
                "Database {shown} is not present"
            )));
        }
    }
    let output = match output(s)? {
        Ok(output) => output,
        Err(done) => return Ok(done),
    };
    let (function, what) = if file {
        ("file_query", source.into())
    } else {
        ("query", s.arg("query").clone())
    };
    let result = ask(s, function, vec![database.into(), what], flags)?;
    let Value::Map(result) = result else {
        // Stock trips over the answer, or has no comment.
        let why = mysql::take_error();
        return Ok(StateOutcome::bad(
            why.unwrap_or_else(|| "The query failed".to_owned()),
        ));
    };
    let comment = shown(&result, file);
    let kept = mapped(result, file);
    let mut change = "Executed".to_owned();
    match output {
        Output::Nowhere => {}
        Output::File(path) => {
            change = format!("Executed. Output into {path}");
            os::write_atomic(&path, lines(&kept).as_bytes())?;
        }
        Output::Grain(grain, None) => {
            change = format!("Executed. Output into grain: {grain}");
            s.salt("grains.setval", vec![grain.into(), kept.into()])?;
        }
        Output::Grain(grain, Some(key)) => {
            change = format!("Executed. Output into grain: {grain}:{key}");
            let mut value = current(s, &grain)?;
            value.set(key, kept);
            s.salt("grains.setval", vec![grain.into(), value.into()])?;
        }
    }
    Ok(StateOutcome::good(comment).changes(map! {"query" => change}))
}

/// The file with the statements on this host; fetched if it is elsewhere.
fn query_file(s: &mut State<'_, '_>) -> Result<Result<String, StateOutcome>> {
    let Some(mut path) = s.text("query_file") else {
        return Err(CallError::raised(
            "AttributeError",
            "'NoneType' object has no attribute 'startswith'",
        ));
    };
    let remote = ["http://", "https://", "salt://", "s3://", "swift://"];
    if remote.iter().any(|start| path.starts_with(start)) {
        let saltenv = s.text("saltenv").filter(|env| !env.is_empty());
        let saltenv = saltenv.unwrap_or_else(|| s.saltenv());
        let kwargs = map! {"saltenv" => saltenv};
        let cached = s.salt_with("cp.cache_file", vec![path.as_str().into()], kwargs)?;
        // Stock trips over a file that it does not get.
        path = cached.as_str().map_or(path, str::to_owned);
    }
    if Path::new(&path).exists() {
        return Ok(Ok(path));
    }
    Ok(Err(StateOutcome::bad(format!(
        "File {path} does not exist"
    ))))
}

/// The grain's value, to be extended.
fn current(s: &mut State<'_, '_>, grain: &str) -> Result<Map> {
    let value = s.salt("grains.get", vec![grain.into()])?;
    Ok(value.into_map().unwrap_or_default())
}

/// Where the result goes; the outcome if nothing is to be done.
fn output(s: &mut State<'_, '_>) -> Result<Result<Output, StateOutcome>> {
    let (Some(output), overwrite) = (s.text("output"), s.flag("overwrite")) else {
        return Ok(if s.test {
            Err(StateOutcome::would(
                "Query would execute, not storing result",
            ))
        } else {
            Ok(Output::Nowhere)
        });
    };
    if output != "grain" {
        if !overwrite && Path::new(&output).is_file() {
            return Ok(Err(StateOutcome::good(format!(
                "No execution needed. File {output} already set"
            ))));
        }
        return Ok(if s.test {
            Err(StateOutcome::would(format!(
                "Query would execute, storing result in file: {output}"
            )))
        } else {
            Ok(Output::File(output))
        });
    }
    let (Some(grain), key) = (s.text("grain"), s.text("key")) else {
        return Ok(Err(StateOutcome::bad(
            "Error: output type 'grain' needs the grain parameter\n",
        )));
    };
    let set = match &key {
        None => {
            let all = s.salt("grains.ls", vec![])?;
            all.str_list().contains(&grain)
        }
        Some(key) => current(s, &grain)?.contains(key),
    };
    let place = match &key {
        None => grain.clone(),
        Some(key) => format!("{grain}:{key}"),
    };
    if !overwrite && set {
        return Ok(Err(StateOutcome::good(format!(
            "No execution needed. Grain {place} already set"
        ))));
    }
    Ok(if s.test {
        Err(StateOutcome::would(format!(
            "Query would execute, storing result in grain: {place}"
        )))
    } else {
        Ok(Output::Grain(grain, key))
    })
}

/// The values of a list.
fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).unwrap_or_default()
}

/// Rows by their columns.
fn by_column(columns: &[Value], rows: &[Value]) -> Vec<Value> {
    let one = |row: &Value| {
        let values = list(Some(row)).iter().cloned();
        Value::Map(columns.iter().cloned().zip(values).collect())
    };
    rows.iter().map(one).collect()
}

/// The result with its rows by column. Stock's form for files has lists of names as names.
fn mapped(mut result: Map, file: bool) -> Map {
    if !result.contains("results") {
        return result;
    }
    let (columns, results) = (list(result.get("columns")), list(result.get("results")));
    let rows: Vec<Value> = if file {
        let of_each = columns.iter().zip(results);
        of_each
            .flat_map(|(columns, rows)| by_column(list(Some(columns)), list(Some(rows))))
            .collect()
    } else {
        by_column(columns, results)
    };
    result.set("results", rows);
    result
}

/// The result as Python prints it; columns are a tuple there.
fn shown(result: &Map, file: bool) -> String {
    let tuple = |value: &Value| python::repr_tuple(list(Some(value)));
    let brackets = |parts: Vec<String>| format!("[{}]", parts.join(", "));
    let columns = list(result.get("columns"));
    let part = |(key, value): &(Value, Value)| {
        let value = match (key.as_str(), file) {
            (Some("columns"), false) => tuple(value),
            (Some("columns"), true) => brackets(columns.iter().map(tuple).collect()),
            (Some("results"), false) => python::repr(&by_column(columns, list(Some(value))).into()),
            (Some("results"), true) => {
                let rows = list(Some(value)).iter().map(|rows| of_file(columns, rows));
                brackets(rows.collect())
            }
            _ => python::repr(value),
        };
        format!("{}: {value}", python::repr(key))
    };
    let parts: Vec<String> = result.iter().map(part).collect();
    format!("{{{}}}", parts.join(", "))
}

/// The rows of one statement of a file: stock takes the first rows for the columns of the first statements.
fn of_file(columns: &[Value], rows: &Value) -> String {
    let pairs = columns.iter().zip(list(Some(rows))).map(|(columns, row)| {
        format!(
            "{}: {}",
            python::repr_tuple(list(Some(columns))),
            python::repr_tuple(list(Some(row)))
        )
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

/// The result as the lines of a file.
fn lines(result: &Map) -> String {
    let pairs = |map: &Map| {
        let line = |(key, value): &(Value, Value)| {
            format!("{}:{}\n", python::str(key), python::str(value))
        };
        map.iter().map(line).collect::<String>()
    };
    if !result.contains("results") {
        return pairs(result);
    }
    let rows = list(result.get("results")).iter();
    rows.filter_map(Value::as_map).map(pairs).collect()
}

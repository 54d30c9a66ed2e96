//! `sqlite3`: an SQLite file (`salt/returners/sqlite3_return.py`).

use halite_config::Settings;
use halite_returners::json::{Strictness, dumps, dumps_map};
use halite_returners::{Question, Store, StoreError, described, function, read_json, result};
use halite_store::jobs::{JobUpdate, StoredReturn};
use halite_wire::pytext;
use halite_wire::{Map, Value};
use rusqlite::{Connection, ErrorCode, Transaction, params};
use std::path::PathBuf;
use std::time::Duration;

/// The tables of Salt's module, plus an index without which each insert would scan all returns.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS jids (jid TEXT PRIMARY KEY, load TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS salt_returns (
  fun TEXT KEY, jid TEXT KEY, id TEXT KEY, fun_args TEXT,
  date TEXT NOT NULL, full_ret TEXT NOT NULL, success TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS idx_salt_returns_jid_id ON salt_returns (jid, id);
";

/// The file of `sqlite3.database`.
pub struct Sqlite {
    path: Option<PathBuf>,
    timeout: Result<Duration, String>,
    connection: Option<Connection>,
}

impl Sqlite {
    /// Does not open the file yet.
    pub fn new(settings: &Settings) -> Sqlite {
        let seconds = settings.number::<f64>("timeout");
        let timeout = seconds.and_then(|seconds| {
            Duration::try_from_secs_f64(seconds.unwrap_or(5.0))
                .map_err(|_| "the option 'sqlite3.timeout' must be a number of seconds".to_owned())
        });
        Sqlite {
            path: settings.path("database"),
            timeout,
            connection: None,
        }
    }

    fn open(&self) -> Result<Connection, StoreError> {
        let Some(path) = &self.path else {
            let why = "set sqlite3.database to the path of the file";
            return Err(StoreError::Away(why.into()));
        };
        let timeout = self.timeout.clone().map_err(StoreError::Away)?;
        let open = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(timeout)?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        };
        open().map_err(|e: rusqlite::Error| StoreError::Away(format!("{}: {e}", path.display())))
    }
}

impl Store for Sqlite {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        write(&mut connection, updates).map_err(classify)?;
        self.connection = Some(connection);
        Ok(())
    }

    fn read(&mut self, question: Question<'_>) -> Result<Value, StoreError> {
        let connection = self.open()?;
        let rows = ask(&connection, question).map_err(|e| StoreError::Away(e.to_string()))?;
        if question == Question::Minions {
            return Ok(rows
                .into_iter()
                .map(|(id, _)| id)
                .collect::<Vec<_>>()
                .into());
        }
        let mut out = Map::new();
        for (name, json) in rows {
            let value = read_json(&json)?;
            let value = match question {
                Question::Jids => described(&name, &value),
                Question::Jid(_) => halite_wire::map! {"return" => value}.into(),
                _ => value,
            };
            out.set(name, value);
        }
        Ok(out.into())
    }
}

fn classify(e: rusqlite::Error) -> StoreError {
    match e.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
            StoreError::Refused(e.to_string())
        }
        _ => StoreError::Away(e.to_string()),
    }
}

fn write(connection: &mut Connection, updates: &[JobUpdate]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for job in updates {
        let jid = job.jid.as_str();
        if let Some(load) = &job.load {
            put_load(&transaction, jid, load)?;
        }
        for ret in &job.returns {
            put_return(&transaction, jid, ret)?;
        }
    }
    transaction.commit()
}

fn put_load(transaction: &Transaction, jid: &str, load: &Map) -> rusqlite::Result<()> {
    let sql = "INSERT INTO jids (jid, load) VALUES (?1, ?2)
               ON CONFLICT (jid) DO UPDATE SET load = excluded.load";
    let load = dumps_map(load, Strictness::Text);
    transaction
        .prepare_cached(sql)?
        .execute(params![jid, load])?;
    Ok(())
}

fn put_return(transaction: &Transaction, jid: &str, ret: &StoredReturn) -> rusqlite::Result<()> {
    let sql = "INSERT INTO salt_returns (fun, jid, id, fun_args, date, full_ret, success)
               SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
               WHERE NOT EXISTS (SELECT 1 FROM salt_returns WHERE jid = ?2 AND id = ?3)";
    let args = ret.load.get("fun_args").filter(|args| args.truthy());
    let now = jiff::Zoned::now()
        .strftime("%Y-%m-%d %H:%M:%S.%6f")
        .to_string();
    transaction.prepare_cached(sql)?.execute(params![
        function(&ret.load),
        jid,
        ret.id,
        args.map(pytext::repr),
        now,
        dumps(&result(ret), Strictness::Text),
        success(&ret.load),
    ])?;
    Ok(())
}

/// In a text column, Python's booleans are stored as `1` and `0`.
fn success(load: &Map) -> String {
    match load.get("success") {
        Some(Value::Bool(b)) => u8::from(*b).to_string(),
        Some(other) => pytext::str(other).into_owned(),
        None => String::new(),
    }
}

/// Queries two columns: a name and JSON.
fn ask(connection: &Connection, question: Question<'_>) -> rusqlite::Result<Vec<(String, String)>> {
    let (sql, about) = match question {
        Question::Jid(jid) => (
            "SELECT id, full_ret FROM salt_returns WHERE jid = ?1",
            Some(jid),
        ),
        Question::Fun(fun) => (
            "SELECT id, full_ret FROM salt_returns WHERE fun = ?1 ORDER BY jid",
            Some(fun),
        ),
        Question::Jids => ("SELECT jid, load FROM jids", None),
        Question::Minions => ("SELECT DISTINCT id, '' FROM salt_returns", None),
    };
    let mut statement = connection.prepare(sql)?;
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    statement
        .query_map(rusqlite::params_from_iter(about), pair)?
        .collect()
}

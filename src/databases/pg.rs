//! `pgjsonb` and `postgres`: PostgreSQL, with JSON in `jsonb` or in text columns
//! (`salt/returners/pgjsonb.py`, `postgres.py`).
//!
//! Salt's tables have no primary key for returns, so a return is inserted only if the minion has none for the job. That
//! is safe because there is only one writer.

use halite_ipc::Event;
use halite_returners::json::{Strictness, dumps, dumps_map};
use halite_returners::rawfile::data;
use halite_returners::{
    Opener, Question, Store, StoreError, described, function, read_json, result,
};
use halite_store::jobs::JobUpdate;
use halite_wire::pytext;
use halite_wire::{Map, Value};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// The database schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// `pgjsonb`
    Jsonb,
    /// `postgres`
    Text,
}

/// A PostgreSQL database.
pub struct Pg {
    config: Result<Config, String>,
    schema: Schema,
    /// The master's id, stored with events.
    id: String,
    client: Option<Client>,
}

/// Lengths of the columns `fun` and `tag`, in characters.
const FUN_LEN: usize = 50;
const TAG_LEN: usize = 255;

impl Pg {
    /// Does not connect yet.
    pub fn new(opener: &Opener, schema: Schema) -> Pg {
        Pg {
            config: config(opener, schema),
            schema,
            id: opener.id.to_owned(),
            client: None,
        }
    }

    /// Runs `work` in its own transaction.
    fn commit(
        &mut self,
        work: impl Fn(&mut postgres::Transaction) -> Result<(), postgres::Error>,
    ) -> Result<(), StoreError> {
        let mut client = match self.client.take().filter(|c| !c.is_closed()) {
            Some(client) => client,
            None => self.connect()?,
        };
        let attempt = |client: &mut Client| {
            let mut transaction = client.transaction()?;
            work(&mut transaction)?;
            transaction.commit()
        };
        let mut done = attempt(&mut client);
        if done
            .as_ref()
            .is_err_and(|e| e.code() == Some(&SqlState::UNDEFINED_TABLE))
        {
            log::warn!("the database has no tables for jobs and events; creating them");
            client.batch_execute(&self.schema.sql()).map_err(classify)?;
            done = attempt(&mut client);
        }
        // An error from the server leaves the connection usable.
        let kept = done.as_ref().err().is_none_or(|e| e.code().is_some());
        self.client = kept.then_some(client);
        done.map_err(classify)
    }

    fn connect(&self) -> Result<Client, StoreError> {
        let config = self
            .config
            .as_ref()
            .map_err(|e| StoreError::Away(e.clone()))?;
        let mut client = config.connect(NoTls).map_err(classify)?;
        // Set by a statement, because connection poolers reject it as a connection option.
        client
            .batch_execute("SET statement_timeout = 60000")
            .map_err(classify)?;
        Ok(client)
    }
}

fn config(opener: &Opener, schema: Schema) -> Result<Config, String> {
    let settings = &opener.settings;
    let mut config = Config::new();
    let password = match schema {
        Schema::Jsonb => "pass",
        Schema::Text => "passwd",
    };
    if let Some(mode) = settings.text("sslmode")
        && !matches!(mode.as_str(), "None" | "disable" | "allow" | "prefer")
    {
        return Err(format!(
            "sslmode {mode:?} requires TLS, which is not supported; use a Unix socket or a local proxy with TLS"
        ));
    }
    config
        .application_name(opener.program)
        .host(&settings.text_or("host", "localhost"))
        .port(settings.number("port")?.unwrap_or(5432))
        .user(&settings.text_or("user", "salt"))
        .password(settings.text_or(password, "salt"))
        .dbname(&settings.text_or("db", "salt"))
        .connect_timeout(Duration::from_secs(
            settings.number("connect_timeout")?.unwrap_or(10),
        ))
        .tcp_user_timeout(Duration::from_secs(60));
    Ok(config)
}

/// Errors about data (class 22) and integrity (23) would occur again with the same row; all others may pass.
fn classify(e: postgres::Error) -> StoreError {
    let text = match e.as_db_error() {
        Some(db) => db.message().to_owned(),
        None => match std::error::Error::source(&e) {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        },
    };
    match e.code().map(SqlState::code) {
        Some(code) if code.starts_with("22") || code.starts_with("23") => StoreError::Refused(text),
        _ => StoreError::Away(text),
    }
}

impl Store for Pg {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let loads = self.schema.loads(updates);
        let returns = self.schema.returns(updates);
        let (put_loads, put_returns) = (self.schema.put_loads(), self.schema.put_returns());
        self.commit(|transaction| {
            if !loads.0.is_empty() {
                transaction.execute(&put_loads, &[&loads.0, &loads.1])?;
            }
            if !returns.jid.is_empty() {
                let r = &returns;
                transaction.execute(
                    &put_returns,
                    &[&r.fun, &r.jid, &r.result, &r.id, &r.success, &r.full],
                )?;
            }
            Ok(())
        })
    }

    fn events(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let tags: Vec<String> = events.iter().map(|e| cut(&e.tag, TAG_LEN)).collect();
        let data: Vec<String> = events
            .iter()
            .map(|e| dumps(&data(e), self.schema.strictness()))
            .collect();
        let (sql, id) = (self.schema.put_events(), self.id.clone());
        self.commit(|transaction| {
            transaction.execute(&sql, &[&tags, &data, &id])?;
            Ok(())
        })
    }

    fn read(&mut self, question: Question<'_>) -> Result<Value, StoreError> {
        let (sql, about) = select(question);
        let mut client = match self.client.take().filter(|c| !c.is_closed()) {
            Some(client) => client,
            None => self.connect()?,
        };
        let rows = match about {
            Some(about) => client.query(sql, &[&about]),
            None => client.query(sql, &[]),
        };
        let pairs: Result<Vec<(String, String)>, _> = rows
            .map_err(classify)?
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect();
        self.client = Some(client);
        let pairs = pairs.map_err(classify)?;
        if question == Question::Minions {
            return Ok(pairs
                .into_iter()
                .map(|(id, _)| id)
                .collect::<Vec<_>>()
                .into());
        }
        let mut out = Map::new();
        for (name, json) in pairs {
            let value = read_json(&json)?;
            let value = match question {
                Question::Jids => described(&name, &value),
                _ => value,
            };
            out.set(name, value);
        }
        Ok(out.into())
    }

    /// Like `clean_old_jobs` of `pgjsonb`; `postgres` has no counterpart.
    fn expire(&mut self, keep: u64) -> Result<(), StoreError> {
        if self.schema == Schema::Text {
            return Ok(());
        }
        let keep = keep as f64;
        self.commit(|transaction| {
            PURGE
                .iter()
                .try_for_each(|sql| transaction.execute(*sql, &[&keep]).map(drop))
        })
    }
}

/// A statement that returns two columns, a name and JSON, and its parameter.
fn select<'a>(question: Question<'a>) -> (&'static str, Option<&'a str>) {
    match question {
        Question::Jid(jid) => (
            "SELECT id, full_ret::text FROM salt_returns WHERE jid = $1",
            Some(jid),
        ),
        Question::Fun(fun) => (
            "SELECT DISTINCT ON (id) id, full_ret::text FROM salt_returns WHERE fun = $1 \
             ORDER BY id, alter_time DESC",
            Some(fun),
        ),
        Question::Jids => ("SELECT jid, load::text FROM jids", None),
        Question::Minions => ("SELECT DISTINCT id, '' FROM salt_returns", None),
    }
}

/// Jobs are deleted once their last return is old, so no return is left without its load.
const PURGE: [&str; 3] = [
    "DELETE FROM jids j WHERE EXISTS (SELECT 1 FROM salt_returns r WHERE r.jid = j.jid) AND NOT EXISTS \
     (SELECT 1 FROM salt_returns r WHERE r.jid = j.jid AND r.alter_time >= now() - make_interval(secs => $1))",
    "DELETE FROM salt_returns WHERE alter_time < now() - make_interval(secs => $1)",
    "DELETE FROM salt_events WHERE alter_time < now() - make_interval(secs => $1)",
];

/// Returns by column.
#[derive(Default)]
struct Returns {
    fun: Vec<String>,
    jid: Vec<String>,
    result: Vec<String>,
    id: Vec<String>,
    success: Vec<String>,
    full: Vec<String>,
}

impl Schema {
    fn strictness(self) -> Strictness {
        match self {
            Schema::Jsonb => Strictness::Jsonb,
            Schema::Text => Strictness::Text,
        }
    }

    fn json(self) -> &'static str {
        match self {
            Schema::Jsonb => "jsonb",
            Schema::Text => "text",
        }
    }

    fn loads(self, updates: &[JobUpdate]) -> (Vec<String>, Vec<String>) {
        let with = updates
            .iter()
            .filter_map(|job| Some((job, job.load.as_ref()?)));
        with.map(|(job, load)| (job.jid.to_string(), dumps_map(load, self.strictness())))
            .unzip()
    }

    fn returns(self, updates: &[JobUpdate]) -> Returns {
        let mut out = Returns::default();
        for job in updates {
            for ret in &job.returns {
                out.fun.push(cut(&function(&ret.load), FUN_LEN));
                out.jid.push(job.jid.to_string());
                out.result.push(dumps(&result(ret), self.strictness()));
                out.id.push(ret.id.clone());
                out.success.push(success(&ret.load));
                out.full.push(dumps_map(&ret.load, self.strictness()));
            }
        }
        out
    }

    fn put_loads(self) -> String {
        format!(
            "INSERT INTO jids (jid, load) SELECT j, l::{} FROM unnest($1::text[], $2::text[]) AS t (j, l) \
             ON CONFLICT (jid) DO UPDATE SET load = EXCLUDED.load",
            self.json()
        )
    }

    fn put_returns(self) -> String {
        let json = self.json();
        format!(
            "INSERT INTO salt_returns (fun, jid, return, id, success, full_ret) \
             SELECT f, j, r::{json}, i, s, a::{json} \
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS t (f, j, r, i, s, a) \
             WHERE NOT EXISTS (SELECT 1 FROM salt_returns o WHERE o.jid = t.j AND o.id = t.i)"
        )
    }

    fn put_events(self) -> String {
        format!(
            "INSERT INTO salt_events (tag, data, master_id) \
             SELECT t, d::{}, $3 FROM unnest($1::text[], $2::text[]) AS e (t, d)",
            self.json()
        )
    }

    /// The tables as documented by Salt's module.
    pub fn sql(self) -> String {
        let json = self.json();
        let jid = match self {
            Schema::Jsonb => "varchar(255) NOT NULL PRIMARY KEY",
            Schema::Text => "varchar(20) PRIMARY KEY",
        };
        let mut sql = format!(
            "CREATE TABLE IF NOT EXISTS jids (jid {jid}, load {json} NOT NULL);\n\
             CREATE TABLE IF NOT EXISTS salt_returns (\n  \
               fun varchar(50) NOT NULL, jid varchar(255) NOT NULL, return {json} NOT NULL,\n  \
               full_ret {json}, id varchar(255) NOT NULL, success varchar(10) NOT NULL,\n  \
               alter_time TIMESTAMP WITH TIME ZONE DEFAULT now());\n\
             CREATE SEQUENCE IF NOT EXISTS seq_salt_events_id;\n\
             CREATE TABLE IF NOT EXISTS salt_events (\n  \
               id BIGINT NOT NULL UNIQUE DEFAULT nextval('seq_salt_events_id'), tag varchar(255) NOT NULL,\n  \
               data {json} NOT NULL, alter_time TIMESTAMP WITH TIME ZONE DEFAULT now(),\n  \
               master_id varchar(255) NOT NULL);\n"
        );
        let mut index = |name: &str, on: &str| {
            let _ = writeln!(sql, "CREATE INDEX IF NOT EXISTS {name} ON {on};");
        };
        index("idx_salt_returns_id", "salt_returns (id)");
        index("idx_salt_returns_jid", "salt_returns (jid)");
        index("idx_salt_returns_fun", "salt_returns (fun)");
        index("idx_salt_events_tag", "salt_events (tag)");
        if self == Schema::Text {
            index("idx_salt_returns_updated", "salt_returns (alter_time)");
            return sql;
        }
        index(
            "idx_jids_jsonb",
            "jids USING gin (load) WITH (fastupdate=on)",
        );
        index(
            "idx_salt_returns_return",
            "salt_returns USING gin (return) WITH (fastupdate=on)",
        );
        index(
            "idx_salt_returns_full_ret",
            "salt_returns USING gin (full_ret) WITH (fastupdate=on)",
        );
        index(
            "idx_salt_events_data",
            "salt_events USING gin (data) WITH (fastupdate=on)",
        );
        sql
    }
}

/// A boolean as PostgreSQL casts it to text; `false` if the return has none.
fn success(load: &Map) -> String {
    match load.get("success") {
        Some(Value::Bool(b)) => b.to_string(),
        Some(other) => cut(&pytext::str(other), 10),
        None => "false".into(),
    }
}

/// Truncates to `most` characters and removes NUL, which PostgreSQL's text cannot hold.
fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

//! `redis` (`salt/returners/redis_return.py`): `load:<jid>` and the hash `ret:<jid>` in JSON, `<minion>:<fun>` with the
//! last jid, and the set `minions`.

use halite_config::Settings;
use halite_returners::json::{Strictness, dumps_map};
use halite_returners::{Opener, Question, Store, StoreError, described, function, read_json};
use halite_store::jobs::JobUpdate;
use halite_wire::{Map, Value};
use redis::{
    Client, Commands, Connection, ConnectionAddr, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisResult,
};
use std::collections::BTreeMap;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A Redis server.
pub struct Redis {
    client: Result<Client, String>,
    keep: u64,
    connection: Option<Connection>,
}

impl Redis {
    /// Does not connect yet; keys expire after [`Opener::keep`] seconds.
    pub fn new(opener: &Opener) -> Redis {
        Redis {
            client: client(&opener.settings),
            keep: opener.keep,
            connection: None,
        }
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let client = self
            .client
            .as_ref()
            .map_err(|e| StoreError::Away(e.clone()))?;
        let open = || {
            let connection = client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            connection.set_write_timeout(Some(TIMEOUT))?;
            Ok(connection)
        };
        open().map_err(|e: redis::RedisError| StoreError::Away(e.to_string()))
    }
}

fn client(settings: &Settings) -> Result<Client, String> {
    let address = match settings.path("unix_socket_path") {
        Some(path) => ConnectionAddr::Unix(path),
        None => {
            let port = settings.number("port")?.unwrap_or(6379);
            ConnectionAddr::Tcp(settings.text_or("host", "salt"), port)
        }
    };
    let mut login = RedisConnectionInfo::default().set_db(settings.number("db")?.unwrap_or(0));
    if let Some(password) = settings.text("password") {
        login = login.set_password(password);
    }
    let info = address.into_connection_info().map_err(|e| e.to_string())?;
    Client::open(info.set_redis_settings(login)).map_err(|e| e.to_string())
}

impl Store for Redis {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut pipeline = redis::pipe();
        updates.iter().for_each(|job| self.put(&mut pipeline, job));
        // Any error may be temporary, including a full or read-only server.
        pipeline
            .exec(&mut connection)
            .map_err(|e| StoreError::Away(e.to_string()))?;
        self.connection = Some(connection);
        Ok(())
    }

    fn read(&mut self, question: Question<'_>) -> Result<Value, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let answer = ask(&mut connection, question);
        let answer = answer.map_err(|e| StoreError::Away(e.to_string()))?;
        self.connection = Some(connection);
        answer.value(question)
    }
}

impl Redis {
    fn put(&self, pipeline: &mut Pipeline, job: &JobUpdate) {
        let jid = job.jid.as_str();
        if let Some(load) = &job.load {
            self.set(
                pipeline,
                &format!("load:{jid}"),
                &dumps_map(load, Strictness::Text),
            );
        }
        if job.returns.is_empty() {
            return;
        }
        let key = format!("ret:{jid}");
        for ret in &job.returns {
            let json = dumps_map(&ret.load, Strictness::Text);
            pipeline.hset(&key, &ret.id, json).ignore();
            self.set(
                pipeline,
                &format!("{}:{}", ret.id, function(&ret.load)),
                jid,
            );
            pipeline.sadd("minions", &ret.id).ignore();
        }
        if let Ok(keep @ 1..) = i64::try_from(self.keep) {
            pipeline.expire(&key, keep).ignore();
        }
    }

    fn set(&self, pipeline: &mut Pipeline, key: &str, value: &str) {
        match self.keep {
            0 => pipeline.set(key, value).ignore(),
            keep => pipeline.set_ex(key, value, keep).ignore(),
        };
    }
}

/// The server's reply.
enum RedisReply {
    /// Names.
    Names(Vec<String>),
    /// JSON documents by name.
    Documents(Vec<(String, String)>),
}

fn ask(connection: &mut Connection, question: Question<'_>) -> RedisResult<RedisReply> {
    let minions = |connection: &mut Connection| -> RedisResult<Vec<String>> {
        connection.smembers("minions")
    };
    let documents = match question {
        Question::Minions => return minions(connection).map(RedisReply::Names),
        Question::Jid(jid) => {
            let all: BTreeMap<String, String> = connection.hgetall(format!("ret:{jid}"))?;
            all.into_iter().collect()
        }
        Question::Fun(fun) => {
            let mut out = Vec::new();
            for minion in minions(connection)? {
                let jid: Option<String> = connection.get(format!("{minion}:{fun}"))?;
                let Some(jid) = jid else {
                    continue;
                };
                let ret: Option<String> = connection.hget(format!("ret:{jid}"), &minion)?;
                out.extend(ret.map(|ret| (minion, ret)));
            }
            out
        }
        Question::Jids => {
            let keys = connection
                .scan_match::<_, String>("load:*")?
                .collect::<RedisResult<Vec<String>>>()?;
            let mut out = Vec::new();
            for key in keys {
                let load: Option<String> = connection.get(&key)?;
                let jid = key.strip_prefix("load:").unwrap_or(&key).to_owned();
                out.extend(load.map(|load| (jid, load)));
            }
            out
        }
    };
    Ok(RedisReply::Documents(documents))
}

impl RedisReply {
    fn value(self, question: Question<'_>) -> Result<Value, StoreError> {
        let documents = match self {
            RedisReply::Names(names) => return Ok(names.into()),
            RedisReply::Documents(documents) => documents,
        };
        let mut out = Map::new();
        for (name, json) in documents {
            let value = read_json(&json)?;
            let value = match question {
                Question::Jids => described(&name, &value),
                _ => value,
            };
            out.set(name, value);
        }
        Ok(out.into())
    }
}

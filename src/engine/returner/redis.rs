//! `redis` (`salt/returners/redis_return.py`): `load:<jid>` and the hash `ret:<jid>` in JSON,
//! `<minion>:<fun>` with the last jid, the set `minions`.

use super::json::{Strictness, dumps_map};
use super::sink::{SinkError, Store, function};
use crate::config::Settings;
use crate::store::jobs::News;
use halite_ipc::Event;
use redis::{
    Client, Connection, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A Redis server.
pub struct Redis {
    client: Result<Client, String>,
    keep: u64,
    connection: Option<Connection>,
}

impl Redis {
    /// Nothing is connected yet; keys live for `keep` seconds, 0 is for ever.
    pub fn new(settings: Settings, keep: u64) -> Redis {
        Redis {
            client: client(settings),
            keep,
            connection: None,
        }
    }

    fn connect(&self) -> Result<Connection, SinkError> {
        let client = self
            .client
            .as_ref()
            .map_err(|e| SinkError::Away(e.clone()))?;
        let open = || {
            let connection = client.get_connection_with_timeout(TIMEOUT)?;
            connection.set_read_timeout(Some(TIMEOUT))?;
            connection.set_write_timeout(Some(TIMEOUT))?;
            Ok(connection)
        };
        open().map_err(|e: redis::RedisError| SinkError::Away(e.to_string()))
    }
}

fn client(settings: Settings) -> Result<Client, String> {
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
    fn jobs(&mut self, news: &[News]) -> Result<(), SinkError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut pipeline = redis::pipe();
        news.iter().for_each(|job| self.put(&mut pipeline, job));
        // Whatever it is, a full or read-only server included, it may be well again later.
        pipeline
            .exec(&mut connection)
            .map_err(|e| SinkError::Away(e.to_string()))?;
        self.connection = Some(connection);
        Ok(())
    }

    fn events(&mut self, _: &[Arc<Event>]) -> Result<(), SinkError> {
        Err(SinkError::Refused("it keeps jobs only".into()))
    }
}

impl Redis {
    fn put(&self, pipeline: &mut Pipeline, job: &News) {
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

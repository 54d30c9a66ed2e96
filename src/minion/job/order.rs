//! What the minion passes to a job's process.

use halite_channel::link::JobCredentials;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;

/// What the minion passes to a job's process.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Pid of the minion.
    pub parent: u32,
    /// The publish load.
    pub load: Map,
    /// The configuration.
    pub opts: Map,
    /// The grains.
    pub grains: Arc<Map>,
    /// The pillar.
    pub pillar: Arc<Map>,
    /// Keys for requests to the master, as [`export`](halite_channel::link::export) packs them; `None` without
    /// a sign-in.
    pub credentials: Option<JobCredentials>,
    /// Log levels of console and file, and the log file: from the command line, else from the configuration.
    pub log: (String, String, String),
    /// The job keeps running if the minion exits.
    pub outlives: bool,
}

impl Order {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * 1024);
        msgpack::put_map_header(&mut out, 9 + usize::from(self.credentials.is_some()));
        let mut put = |key: &str, value: &dyn Fn(&mut Vec<u8>)| {
            msgpack::put_str(&mut out, key.as_bytes(), Profile::Local);
            value(&mut out);
        };
        let local = Profile::Local;
        let map = |m: &Map, out: &mut Vec<u8>| out.extend(msgpack::encode_map(m, local));
        put("parent", &|out| {
            msgpack::encode_into(out, &self.parent.into(), local)
        });
        put("load", &|out| map(&self.load, out));
        put("opts", &|out| map(&self.opts, out));
        put("grains", &|out| map(&self.grains, out));
        put("pillar", &|out| map(&self.pillar, out));
        if let Some(credentials) = &self.credentials {
            put("credentials", &|out| map(credentials.packed(), out));
        }
        put("log_console", &|out| {
            msgpack::encode_into(out, &self.log.0.as_str().into(), local)
        });
        put("log_file_level", &|out| {
            msgpack::encode_into(out, &self.log.1.as_str().into(), local)
        });
        put("log_file", &|out| {
            msgpack::encode_into(out, &self.log.2.as_str().into(), local)
        });
        put("outlives", &|out| {
            msgpack::encode_into(out, &self.outlives.into(), local)
        });
        out
    }

    /// Decodes it; `None` if it is not valid.
    pub(super) fn decode(bytes: &[u8]) -> Option<Order> {
        let mut map = msgpack::decode(bytes).ok()?.into_map()?;
        let mut take = |key: &str| map.remove(key).and_then(Value::into_map);
        let (load, opts, grains, pillar) = (
            take("load")?,
            take("opts")?,
            take("grains")?,
            take("pillar")?,
        );
        let credentials = take("credentials").map(JobCredentials::unpacked);
        let text = |key: &str| map.str(key).unwrap_or_default().to_owned();
        Some(Order {
            parent: map.int("parent").and_then(|p| u32::try_from(p).ok())?,
            load,
            opts,
            grains: Arc::new(grains),
            pillar: Arc::new(pillar),
            credentials,
            log: (
                text("log_console"),
                text("log_file_level"),
                text("log_file"),
            ),
            outlives: map.get("outlives").is_some_and(Value::truthy),
        })
    }
}

//! Publishes jobs like the client on the master's host (reference 7.1, 7.2), without its configuration.

use crate::local::{ClientError, Published, parse_published};
use halite_config::paths::master::client_key;
use halite_sys::process::user_name;
use halite_transport::requester::{Requester, RequesterOptions};
use halite_transport::sockets::tcp_url;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A function with its arguments and target.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Function.
    pub fun: String,
    /// Its arguments, as strings.
    pub arg: Vec<String>,
    /// A target of type `tgt_type`.
    pub tgt: String,
    /// `glob`, `list`, `grain`, ...
    pub tgt_type: String,
}

impl JobSpec {
    fn target(&self) -> Value {
        match self.tgt_type.as_str() {
            "list" => self
                .tgt
                .split(',')
                .map(Value::from)
                .collect::<Vec<Value>>()
                .into(),
            _ => self.tgt.as_str().into(),
        }
    }

    /// The parts of the job needed for answers.
    pub fn job(&self) -> Map {
        halite_wire::map! {
            "fun" => self.fun.as_str(),
            "arg" => self.arg.iter().map(|a| Value::from(a.as_str())).collect::<Vec<_>>(),
        }
    }
}

/// A client that publishes jobs.
pub struct Publisher {
    requester: Requester,
    key: String,
    timeout: Duration,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Publisher(***)")
    }
}

impl Publisher {
    /// A client of the master at `master`, with the content of one of its key files. `timeout` applies to each
    /// answer.
    pub fn new(
        master: SocketAddr,
        key: &str,
        timeout: Duration,
        options: RequesterOptions,
    ) -> Publisher {
        let url = tcp_url(&master.ip().to_string(), master.port());
        Publisher {
            requester: Requester::new(&url, options),
            key: key.trim_end().to_owned(),
            timeout,
        }
    }

    /// Publishes a job.
    ///
    /// # Errors
    /// The master is silent or refuses. A target that matches no minion is not an error; the jid is empty then.
    pub fn publish(&mut self, order: &JobSpec) -> Result<Published, ClientError> {
        let job = order.job();
        let load = halite_wire::map! {
            "cmd" => "publish", "tgt" => order.target(), "fun" => order.fun.as_str(),
            "arg" => job.get("arg").cloned().unwrap_or_default(), "key" => self.key.as_str(),
            "tgt_type" => order.tgt_type.as_str(), "ret" => "", "jid" => "", "kwargs" => Map::new(),
            "user" => "root",
        };
        let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
        let body = msgpack::encode_map(&envelope, Profile::Wire);
        let answer = self
            .requester
            .ask(&body, self.timeout)
            .map_err(|e| ClientError::NoMaster(e.to_string()))?
            .ok_or_else(|| ClientError::NoMaster(format!("no answer within {:?}", self.timeout)))?;
        parse_published(&answer)
    }
}

/// The key file to publish with: `.root_key` in a master's cache directory, or that of the current account.
pub fn key_file(cachedir: &Path) -> PathBuf {
    let root = client_key(cachedir, "root");
    if root.exists() {
        return root;
    }
    client_key(cachedir, &user_name())
}

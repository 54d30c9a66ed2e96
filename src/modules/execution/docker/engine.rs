//! The engine: where it listens, which version of its API it speaks, and its answers as values.

use super::super::{Call, CallError, python};
use super::http::{self, Address, Answer, Body, Patience, Request};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, json};
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The class of errors that mean that there is no engine to talk to.
pub const UNREACHABLE: &str = "docker.errors.DockerException";
/// How long the engine may take for an answer.
pub const USUAL: Duration = Duration::from_secs(60);
/// How long it may take for one that waits for something.
pub const LONG: Duration = Duration::from_secs(24 * 3600);

/// An engine.
#[derive(Clone, Debug)]
pub struct Engine {
    address: Address,
    version: String,
}

/// What an engine refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The status code.
    pub status: u16,
    /// Why.
    pub message: String,
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> CallError {
        CallError::Command(refusal.to_string())
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Error {}: {}", self.status, self.message)
    }
}

/// An answer, unless the engine refused.
pub type Reply<T = Value> = std::result::Result<T, Refusal>;

/// API versions by address: asked once per process.
static VERSIONS: Mutex<Vec<(Address, String)>> = Mutex::new(Vec::new());

fn unreachable(text: String) -> CallError {
    CallError::raised(UNREACHABLE, text)
}

/// An option of the minion, from its configuration, grains or pillar.
pub fn option(call: &mut Call<'_>, name: &str) -> Result<Option<Value>> {
    let found = call.salt("config.get", vec![name.into()], Map::new())?;
    Ok(Some(found).filter(Value::truthy))
}

fn address(url: &str) -> Result<Address> {
    let parts = url.split_once("://");
    match parts {
        Some(("unix" | "http+unix", path)) => Ok(Address::Unix(
            format!("/{}", path.trim_start_matches('/')).into(),
        )),
        Some(("tcp" | "http", host)) => {
            let host = host.trim_end_matches('/');
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let host = if has_port {
                host.to_owned()
            } else {
                format!("{host}:2375")
            };
            Ok(Address::Tcp(host))
        }
        None if url.starts_with('/') => Ok(Address::Unix(url.into())),
        _ => Err(unreachable(format!(
            "The engine's address {url} is of no known kind: set docker.url to unix:///path or tcp://host:port"
        ))),
    }
}

impl Engine {
    /// The engine of this minion: `docker.url` of its configuration, or `DOCKER_HOST`, or the usual socket.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn open(call: &mut Call<'_>) -> Result<Engine> {
        let given = option(call, "docker.url")?.map(|url| python::str(&url));
        let given = given.or_else(|| std::env::var("DOCKER_HOST").ok().filter(|v| !v.is_empty()));
        let address = address(given.as_deref().unwrap_or("unix:///var/run/docker.sock"))?;
        let wanted = option(call, "docker.version")?.map(|v| python::str(&v));
        let lock = || VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock()
            .iter()
            .find(|(of, _)| *of == address)
            .map(|(_, v)| v.clone());
        let mut engine = Engine {
            address,
            version: String::new(),
        };
        engine.version = match wanted.filter(|v| v != "auto").or(known) {
            Some(version) => version,
            None => {
                let said = engine.get("/version")??;
                let version = said.as_map().and_then(|m| m.str("ApiVersion"));
                let version = version.unwrap_or_default().to_owned();
                lock().push((engine.address.clone(), version.clone()));
                version
            }
        };
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        if engine.version.is_empty() || !engine.version.chars().all(plain) {
            return Err(unreachable(format!(
                "{} tells no version of its API",
                engine.address
            )));
        }
        Ok(engine)
    }

    /// The version of its API as numbers.
    pub fn api(&self) -> (u32, u32) {
        let mut parts = self.version.split('.').map(|n| n.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    fn failed(&self, e: &io::Error) -> CallError {
        use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, TimedOut};
        let at = &self.address;
        match e.kind() {
            NotFound => unreachable(format!(
                "No Docker engine at {at}: there is no such socket. Install and start Docker, or set docker.url in the \
                 minion's configuration"
            )),
            ConnectionRefused => unreachable(format!(
                "No Docker engine at {at}: nothing listens there. Start Docker, or set docker.url in the minion's \
                 configuration"
            )),
            PermissionDenied => unreachable(format!(
                "The Docker engine at {at} may not be used by this user. Run the minion as root, or add its user to the \
                 socket's group"
            )),
            TimedOut => CallError::raised(
                "requests.exceptions.ReadTimeout",
                format!("The Docker engine at {at} did not answer in time"),
            ),
            _ => unreachable(format!("The Docker engine at {at}: {e}")),
        }
    }

    /// Sends a request; its answer has a good status.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub fn send(
        &self,
        method: &'static str,
        path: &str,
        headers: &[(&'static str, String)],
        body: Body<'_>,
        patience: Patience,
    ) -> Result<Reply<Answer>> {
        let path = if self.version.is_empty() {
            path.to_owned()
        } else {
            format!("/v{}{path}", self.version)
        };
        let request = Request {
            method,
            path: &path,
            headers,
            body,
            patience,
        };
        let mut answer = http::send(&self.address, request).map_err(|e| self.failed(&e))?;
        if matches!(answer.status, 200..300 | 304) {
            return Ok(Ok(answer));
        }
        let status = answer.status;
        let body = answer.whole().map_err(|e| self.failed(&e))?;
        let said = json::parse::<Value>(&body).ok().and_then(Value::into_map);
        let message = said.and_then(|map| map.str("message").map(str::to_owned));
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&body).trim().to_owned());
        Ok(Err(Refusal { status, message }))
    }

    fn value(&self, answer: Reply<Answer>) -> Result<Reply> {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let body = answer.whole().map_err(|e| self.failed(&e))?;
        if body.trim_ascii().is_empty() {
            return Ok(Ok(Value::Nil));
        }
        // Plain words are an answer, too ("OK").
        let plain = |_| Value::Str(String::from_utf8_lossy(&body).into_owned());
        match json::parse::<Value>(&body) {
            Ok(value) => Ok(Ok(value)),
            Err(json::JsonError::Malformed(why)) => Ok(Ok(plain(why))),
            Err(e) => Err(unreachable(format!("The answer of {}: {e}", self.address))),
        }
    }

    /// `GET`.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub fn get(&self, path: &str) -> Result<Reply> {
        let answer = self.send("GET", path, &[], Body::None, Patience::Total(USUAL))?;
        self.value(answer)
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub fn delete(&self, path: &str) -> Result<Reply> {
        let patience = Patience::Total(USUAL);
        let answer = self.send("DELETE", path, &[], Body::None, patience)?;
        self.value(answer)
    }

    /// `POST` with or without JSON.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub fn post(&self, path: &str, body: Option<&Map>) -> Result<Reply> {
        self.post_within(path, body, Patience::Total(USUAL))
    }

    /// As [`Engine::post`], with another time limit.
    ///
    /// # Errors
    /// The engine cannot be reached.
    pub fn post_within(&self, path: &str, body: Option<&Map>, patience: Patience) -> Result<Reply> {
        let body = match body {
            Some(map) => Body::Json(encoded(map)?),
            None => Body::None,
        };
        let answer = self.send("POST", path, &[], body, patience)?;
        self.value(answer)
    }

    /// The lines of JSON with which an engine tells how it gets on.
    ///
    /// # Errors
    /// They exceed the limits, or the engine falls silent.
    pub fn progress(&self, mut answer: Answer) -> Result<Vec<Map>> {
        let body = answer.whole().map_err(|e| self.failed(&e))?;
        let mut found = Vec::new();
        for line in body.split(|b| *b == b'\n') {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let map = json::parse::<Value>(line).ok().and_then(Value::into_map);
            found.extend(map);
        }
        Ok(found)
    }

    /// An answer to the end, or into `to`.
    ///
    /// # Errors
    /// It is too large, or the engine falls silent.
    pub fn copy(&self, answer: Answer, to: &mut dyn io::Write) -> Result<u64> {
        let copied = io::copy(&mut answer.take(http::MAX_FILE), to);
        copied.map_err(|e| self.failed(&e))
    }

    /// Starts a command, sends its input and reads what it writes.
    ///
    /// # Errors
    /// The engine refuses or falls silent.
    pub fn talk(&self, path: &str, body: Vec<u8>, input: &[u8]) -> Result<Vec<u8>> {
        let answer = self.send("POST", path, &[], Body::Json(body), Patience::Each(LONG))??;
        answer.talk(input).map_err(|e| self.failed(&e))
    }

    /// All bytes of an answer.
    ///
    /// # Errors
    /// It is too large, or the engine falls silent.
    pub fn bytes(&self, mut answer: Answer) -> Result<Vec<u8>> {
        answer.whole().map_err(|e| self.failed(&e))
    }
}

/// A map as JSON.
///
/// # Errors
/// It has keys or bytes that JSON has not.
pub fn encoded(map: &Map) -> Result<Vec<u8>> {
    serde_json::to_vec(map).map_err(|e| CallError::Command(e.to_string()))
}

/// Seconds in an argument.
pub fn timeout(value: Option<&Value>) -> Result<Duration> {
    let seconds = match value {
        None | Some(Value::Nil) => return Ok(USUAL),
        Some(value) => python::int(value)?,
    };
    Ok(Duration::from_secs(
        u64::try_from(seconds).unwrap_or(60).max(1),
    ))
}

/// The query of a path.
pub fn query(pairs: &[(&str, String)]) -> String {
    let parts: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{key}={}", http::quoted(value)))
        .collect();
    parts.join("&")
}

/// Whether an error means that there is no engine to talk to.
pub fn is_unreachable(fault: &CallError) -> bool {
    matches!(fault, CallError::Raised(class, _) if class == UNREACHABLE)
}

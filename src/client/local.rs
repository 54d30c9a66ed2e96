//! LocalClient: publishes jobs as a local user (`salt/client/__init__.py LocalClient`; reference
//! `salt-local.md` 3.1, 3.2).

use halite_config::MasterConfig;
use halite_ipc::Subscriber;
use halite_sys::process::user_name;
use halite_sys::safe_open::read_text;
use halite_target::{expand_compound, expand_nodegroup};
use halite_transport::requester::{Requester, RequesterOptions};
use halite_transport::sockets::tcp_url;
use halite_transport::tls::{ClientTls, Trust};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Most bytes of a key file; a key has 76 characters.
pub(crate) const MAX_KEY_FILE: u64 = 4096;

/// A job to publish.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Function, or a list of functions.
    pub fun: Value,
    /// Arguments; for a list of functions, a list of lists.
    pub arg: Vec<Value>,
    /// Target: a string or a list of ids.
    pub tgt: Value,
    /// `glob`, `list`, `grain`, ...
    pub tgt_type: String,
    /// Comma-separated returners.
    pub ret: String,
    /// The jid; if empty, the master chooses.
    pub jid: String,
    /// Everything else, in the order in which it is sent.
    pub kwargs: Map,
}

/// The master's answer to a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// The jid; empty if no minion matched.
    pub jid: String,
    /// Ids expected to return.
    pub minions: Vec<String>,
    /// Listed ids without an accepted key.
    pub missing: Vec<String>,
    /// The master's message if nothing matched.
    pub error: Option<String>,
}

/// Why a job could not be published.
#[derive(Debug)]
pub enum ClientError {
    /// The master does not answer.
    NoMaster(String),
    /// The user's key file is not readable.
    NoKey(String),
    /// The master refused: name and message.
    Refused(String, String),
    /// An invalid answer.
    Protocol(String),
    /// Size of the request in bytes, and the master's limit.
    TooLarge(usize, u64),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ClientError::NoMaster(why) => {
                write!(
                    f,
                    "The salt master could not be contacted. Is master running? ({why})"
                )
            }
            ClientError::NoKey(why) => write!(
                f,
                "{why}; run this on the master's host as the master's user or as root"
            ),
            ClientError::Refused(_, message) => f.write_str(message),
            ClientError::Protocol(why) => write!(f, "the master's answer is invalid: {why}"),
            ClientError::TooLarge(bytes, most) => write!(
                f,
                "the request has {bytes} bytes, max_request_size allows {most}: have the minions fetch large contents from the file server (salt://), or raise max_request_size"
            ),
        }
    }
}

impl std::error::Error for ClientError {}

/// Credentials to use instead of the account's key file.
#[derive(Clone)]
pub enum Credentials {
    /// A token of the master.
    Token(String),
    /// A user and password for external authentication.
    Login {
        /// `pam`, `ldap`, `file`.
        system: String,
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Credentials::Token(_) => f.write_str("Token(***)"),
            Credentials::Login {
                system, username, ..
            } => write!(f, "Login({system}, {username}, ***)"),
        }
    }
}

impl Credentials {
    fn add_to(&self, fields: &mut Map) {
        match self {
            Credentials::Token(token) => fields.set("token", token.as_str()),
            Credentials::Login {
                system,
                username,
                password,
            } => {
                fields.set("eauth", system.as_str());
                fields.set("username", username.as_str());
                fields.set("password", password.as_str());
            }
        }
    }
}

/// How often a wait looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The end of a runner.
#[derive(Clone, Debug)]
pub struct RunnerEnd {
    /// The tag of the event with its result.
    pub tag: String,
    /// The data of that event; `None` if it has not come in time, and the runner goes on.
    pub data: Option<Map>,
}

/// A client of the master described by a configuration.
pub struct LocalClient {
    config: MasterConfig,
    requester: Requester,
    user: String,
    credentials: Option<Credentials>,
    is_here: bool,
}

/// TLS to the master of this host: its own certificate is the one to trust, and the client's as well, as in Salt.
fn client_tls(config: &MasterConfig) -> Option<ClientTls> {
    let options = config.tls()?.clone();
    let trust = Trust::Certificate(options.certfile.clone()?);
    Some(ClientTls { options, trust })
}

/// How long clients of this process try to connect to a master that is not there.
static CONNECTS_FOR: OnceLock<Duration> = OnceLock::new();

/// For a process that serves others, who do not wait until there is a master again: how long to try to connect. Without this, as
/// long as for an answer.
pub fn connect_within(time: Duration) {
    let _ = CONNECTS_FOR.set(time);
}

impl LocalClient {
    /// A client that is not connected yet.
    pub fn new(config: MasterConfig) -> LocalClient {
        let ports = config.ports();
        let ports = ports.first();
        let interface = ports.map_or(&config.interface, |ports| &ports.interface);
        let host = match interface.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            other => other,
        };
        let port = ports.map_or(config.ret_port, |ports| ports.ret_port);
        let options = RequesterOptions {
            transport: config.transport,
            tls: client_tls(&config),
            connects_for: CONNECTS_FOR.get().copied().unwrap_or(Duration::MAX),
            ..RequesterOptions::default()
        };
        let requester = Requester::new(&tcp_url(host, port), options);
        LocalClient {
            user: calling_user(),
            credentials: None,
            is_here: false,
            requester,
            config,
        }
    }

    /// Sets credentials to use instead of the key file.
    pub fn set_credentials(&mut self, credentials: Credentials) {
        self.credentials = Some(credentials);
    }

    /// Publishes in the name of another user from now on. The master accepts that only from its own account, so
    /// the caller must have checked what that user may do.
    pub fn publish_as(&mut self, user: &str) {
        self.user = user.to_owned();
    }

    /// Whether the account's key file is readable.
    pub fn can_read_key(&self) -> bool {
        self.read_key().is_ok()
    }

    /// Requests a token from the master.
    pub fn make_token(&mut self, login: &Credentials) -> Result<String, ClientError> {
        let answer = self.mk_token(login, None)?;
        Ok(answer.str("token").unwrap_or_default().to_owned())
    }

    /// The same; the master's answer, which has the token, its user and its times. `expire`: the lifetime in seconds that is
    /// asked for.
    ///
    /// # Errors
    /// The master cannot be reached or refuses.
    pub fn mk_token(
        &mut self,
        login: &Credentials,
        expire: Option<Value>,
    ) -> Result<Map, ClientError> {
        let mut load = halite_wire::map! {"cmd" => "mk_token"};
        login.add_to(&mut load);
        if let Some(expire) = expire {
            load.set("token_expire", expire);
        }
        let answer = self.request(load)?.into_map();
        let made = answer.filter(|map| map.str("token").is_some_and(|token| !token.is_empty()));
        made.ok_or_else(|| {
            let why = "Authentication failed: the master created no token";
            ClientError::Refused("EauthAuthenticationError".into(), why.into())
        })
    }

    /// Gives up a token; whether it was valid.
    ///
    /// # Errors
    /// The master cannot be reached.
    pub fn rm_token(&mut self, token: &str) -> Result<bool, ClientError> {
        let load = halite_wire::map! {"cmd" => "rm_token", "token" => token};
        Ok(self.request(load)? == Value::from(true))
    }

    /// Calls a runner or wheel function (`cmd` in the load) and returns the answer.
    pub fn call_master(&mut self, mut load: Map) -> Result<Value, ClientError> {
        match &self.credentials {
            Some(credentials) => credentials.add_to(&mut load),
            None => {
                load.set("key", self.read_key()?);
                load.set("user", self.user.as_str());
            }
        }
        self.answered(load)
    }

    /// Asks the master for something that the REST service alone may ask for, with its key.
    ///
    /// # Errors
    /// The master cannot be reached or refuses.
    pub fn ask_as_api(&mut self, ask: &str, mut load: Map) -> Result<Value, ClientError> {
        let path = self.config.api_key();
        let key = read_text(&path, MAX_KEY_FILE)
            .map_err(|e| ClientError::NoKey(format!("{}: {e}", path.display())))?;
        load.set("cmd", "_api");
        load.set("ask", ask);
        load.set("key", key.trim_end());
        self.answered(load)
    }

    fn answered(&mut self, load: Map) -> Result<Value, ClientError> {
        let answer = self.request(load)?;
        if let Some(error) = answer.as_map().and_then(|map| map.get("error")) {
            let part = |k| error.as_map().and_then(|e| e.str(k)).unwrap_or_default();
            return Err(ClientError::Refused(
                part("name").to_owned(),
                part("message").to_owned(),
            ));
        }
        Ok(answer)
    }

    /// Lets the master run a runner, and waits for its end: at most `patience`, or until `stop` says so.
    ///
    /// # Errors
    /// The master cannot be reached or refuses.
    pub fn run_runner(
        &mut self,
        load: Map,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<RunnerEnd, ClientError> {
        let mut events = self.listen()?;
        let answer = self.call_master(load)?;
        let tag = answer.as_map().and_then(|map| map.str("tag"));
        let tag = tag.ok_or_else(|| ClientError::Protocol("it has no tag".into()))?;
        let tag = format!("{tag}/ret");
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || stop() {
                return Ok(RunnerEnd { tag, data: None });
            }
            let event = events.next(Some(left.min(POLL_INTERVAL)));
            let event = event.map_err(|e| ClientError::NoMaster(e.to_string()))?;
            if let Some(event) = event.filter(|event| event.tag == tag) {
                let data = msgpack::decode(&event.payload).ok();
                let data = data.and_then(Value::into_map).unwrap_or_default();
                return Ok(RunnerEnd {
                    tag,
                    data: Some(data),
                });
            }
        }
    }

    /// The configuration in use.
    pub fn config(&self) -> &MasterConfig {
        &self.config
    }

    /// The user name under which jobs are published.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Listens to the master's event bus. Do so before publishing: events are not replayed.
    pub fn listen(&self) -> Result<Subscriber, ClientError> {
        let path = self.config.event_pub();
        Subscriber::connect(&path)
            .map_err(|e| ClientError::NoMaster(format!("{}: {e}", path.display())))
    }

    /// Whether credentials are used instead of the key file.
    pub fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// From now on, jobs are for the minions of this master alone, not for those of the others of its cluster.
    pub fn only_here(&mut self) {
        self.is_here = true;
    }

    /// What is published beside the function and its arguments.
    pub fn options(&self, job: &Job) -> Map {
        let mut options = job.kwargs.clone();
        if self.is_here {
            options.set("here", true);
        }
        options
    }

    /// Publishes a job.
    pub fn publish(&mut self, job: &Job) -> Result<Published, ClientError> {
        let mut kwargs = self.options(job);
        let key = match &self.credentials {
            Some(credentials) => {
                credentials.add_to(&mut kwargs);
                String::new()
            }
            None => self.read_key()?,
        };
        let mut load = halite_wire::map! {
            "cmd" => "publish", "tgt" => job.tgt.clone(), "fun" => job.fun.clone(),
            "arg" => job.arg.clone(), "key" => key, "tgt_type" => job.tgt_type.as_str(),
            "ret" => self.returners(&job.ret), "jid" => job.jid.as_str(), "kwargs" => kwargs,
            "user" => self.user.as_str(),
        };
        if self.config.order_masters {
            load.set("to", self.config.timeout);
        }
        let mut published = parse_published(&self.send(load)?)?;
        if self.config.order_masters {
            // A lower master may know the ids that this one does not.
            published.missing.clear();
        }
        Ok(published)
    }

    fn request(&mut self, load: Map) -> Result<Value, ClientError> {
        let answer = self.send(load)?;
        msgpack::decode(&answer).map_err(|e| ClientError::Protocol(e.to_string()))
    }

    fn send(&mut self, load: Map) -> Result<Vec<u8>, ClientError> {
        let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
        let body = msgpack::encode_map(&envelope, Profile::Wire);
        // The master would close the connection without an answer.
        if body.len() as u64 > self.config.max_request_size {
            return Err(ClientError::TooLarge(
                body.len(),
                self.config.max_request_size,
            ));
        }
        let timeout = Duration::from_secs(self.config.publish_timeout);
        let began = Instant::now();
        self.requester
            .ask(&body, timeout)
            .map_err(|e| ClientError::NoMaster(e.to_string()))?
            .ok_or_else(|| {
                ClientError::NoMaster(format!(
                    "no answer on port {} within {} seconds",
                    self.config.ret_port,
                    began.elapsed().as_secs_f64().round()
                ))
            })
    }

    /// Returners of a job, including `ext_job_cache` (`salt/client/__init__.py _prep_pub`).
    fn returners(&self, asked: &str) -> String {
        match (asked, self.config.ext_job_cache.as_str()) {
            (asked, "") => asked.to_owned(),
            ("", cache) => cache.to_owned(),
            (asked, cache) => format!("{asked},{cache}"),
        }
    }

    /// The content of the user's key file.
    fn read_key(&self) -> Result<String, ClientError> {
        let account = user_name();
        let names =
            if self.user == "root" || self.user.starts_with("sudo_") || account == self.config.user
            {
                [self.config.user.clone(), account]
            } else {
                [account, self.config.user.clone()]
            };
        let mut first = None;
        for name in names {
            let path = self.config.client_key(&name);
            // The master's account owns the directory, and what is read here is sent to it.
            match read_text(&path, MAX_KEY_FILE) {
                Ok(text) => return Ok(text.trim_end().to_owned()),
                Err(e) => first = first.or(Some(format!("{}: {e}", path.display()))),
            }
        }
        Err(ClientError::NoKey(first.unwrap_or_default()))
    }
}

/// `root`, `sudo_<name>` for root via sudo, or the account's name.
pub fn calling_user() -> String {
    let account = user_name();
    match std::env::var("SUDO_USER") {
        Ok(person) if account == "root" && !person.is_empty() && person != "root" => {
            format!("sudo_{person}")
        }
        _ => account,
    }
}

/// Parses the master's answer to `publish` (reference 7.2).
pub(crate) fn parse_published(answer: &[u8]) -> Result<Published, ClientError> {
    let protocol = |why: &str| ClientError::Protocol(why.to_owned());
    let value = msgpack::decode(answer).map_err(|e| ClientError::Protocol(e.to_string()))?;
    let map = match value {
        Value::Map(map) => map,
        Value::Str(text) => return Err(ClientError::Protocol(text)),
        _ => return Err(protocol("it is not a map")),
    };
    match map.get("error") {
        Some(Value::Map(error)) => {
            let part = |k| error.str(k).unwrap_or_default().to_owned();
            return Err(ClientError::Refused(part("name"), part("message")));
        }
        Some(Value::Str(error)) => return Err(ClientError::Refused(String::new(), error.clone())),
        _ => {}
    }
    let Some(load) = map.get("load").and_then(Value::as_map) else {
        return Err(protocol("it has no load"));
    };
    let list = |k| load.get(k).map(Value::str_list).unwrap_or_default();
    Ok(Published {
        jid: load.str("jid").unwrap_or_default().to_owned(),
        minions: list("minions"),
        missing: list("missing"),
        error: load.str("error").map(str::to_owned),
    })
}

/// A target given as text, and its type, as they are published. Node groups are expanded here: minions do not know them.
///
/// # Errors
/// What is wrong with it, for the operator.
pub fn resolve_target(
    kind: &str,
    config: &MasterConfig,
    target: String,
) -> Result<(Value, String), String> {
    match kind {
        "nodegroup" => {
            let expanded = expand_nodegroup(&target, config).map_err(|e| e.to_string())?;
            Ok((expanded.into(), "compound".into()))
        }
        "compound" => {
            let expanded = expand_compound(&target, config).map_err(|e| e.to_string())?;
            Ok((expanded.into(), kind.into()))
        }
        "list" => {
            let ids: Vec<String> = target
                .split(|c: char| c == ',' || c.is_whitespace())
                .filter(|id| !id.is_empty())
                .map(str::to_owned)
                .collect();
            Ok((ids.into(), kind.into()))
        }
        _ => Ok((target.into(), kind.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let bytes = |m: Map| msgpack::encode_map(&m, Profile::Wire);
        let good = halite_wire::map! {"enc" => "clear", "load" => halite_wire::map! {
        "jid" => "1", "minions" => vec![Value::from("a")], "missing" => Vec::<Value>::new()}};
        assert_eq!(parse_published(&bytes(good)).unwrap().minions, ["a"]);
        let refused = halite_wire::map! {"error" => halite_wire::map! {"name" => "AuthenticationError", "message" => "no"}};
        assert!(
            matches!(parse_published(&bytes(refused)), Err(ClientError::Refused(n, _)) if n == "AuthenticationError")
        );
        assert!(matches!(
            parse_published(b"\xa8bad load"),
            Err(ClientError::Protocol(_))
        ));
    }
}

//! One command of a client (reference `salt-api.md` 5).

use crate::answer::ApiError;
use crate::body::MOST_FIELDS;
use crate::master::{Master, refused};
use halite_client::batch::is_size;
use halite_client::command::{self, CmdJob, CmdReturns};
use halite_client::local::{ClientError, Credentials, Job, LocalClient, resolve_target};
use halite_config::MasterConfig;
use halite_sys::signals::StopFlag;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, pytext, yaml};
use hyper::StatusCode;
use std::time::Duration;

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Minions; waits for their returns.
    Local,
    /// Minions; answers with the jid.
    LocalAsync,
    /// Minions, some at a time.
    LocalBatch,
    /// Some of the minions that have the function.
    LocalSubset,
    /// A runner of the master; waits for its end.
    Runner,
    /// The same; answers with the jid.
    RunnerAsync,
    /// A wheel function of the master.
    Wheel,
    /// The same; answers with the jid.
    WheelAsync,
    /// Hosts without a minion: the runner `ssh.cmd` of an installed Salt.
    Ssh,
}

/// All clients, by the names that `netapi_enable_clients` has.
pub const CLIENTS: &[(&str, Client)] = &[
    ("local", Client::Local),
    ("local_async", Client::LocalAsync),
    ("local_batch", Client::LocalBatch),
    ("local_subset", Client::LocalSubset),
    ("runner", Client::Runner),
    ("runner_async", Client::RunnerAsync),
    ("ssh", Client::Ssh),
    ("wheel", Client::Wheel),
    ("wheel_async", Client::WheelAsync),
];

/// Fields of a lowstate that are no arguments of runners and wheel functions.
const OWN: &[&str] = &[
    "client",
    "fun",
    "arg",
    "kwarg",
    "token",
    "username",
    "password",
    "eauth",
    "full_return",
    "timeout",
    "user",
    "key",
    "print_event",
];
/// Fields of a lowstate that are arguments of `ssh.cmd`.
const OF_SSH: &[&str] = &["tgt", "fun", "arg", "timeout", "tgt_type", "kwarg"];
/// Longest wait for a runner, in seconds.
const LONGEST: u64 = 86_400;
/// Fields of a lowstate that go to the master with a job.
const OF_JOBS: &[&str] = &[
    "metadata",
    "ret_config",
    "ret_kwargs",
    "delimiter",
    "module_executors",
    "executor_opts",
];

/// What runs commands.
pub struct Runner<'a> {
    /// The master's configuration.
    pub config: &'a MasterConfig,
    /// Ends waiting.
    pub stop: &'a StopFlag,
}

/// What a client asks for.
fn client_of(low: &Map, enabled: &[String]) -> Result<Client, ApiError> {
    let name = match low.get("client") {
        None | Some(Value::Nil) => "None",
        Some(name) => name.as_str().unwrap_or("None"),
    };
    let found = CLIENTS.iter().find(|(one, _)| *one == name);
    if found.is_none() && name != "destroy" {
        return Err(ApiError::bad(format!(
            "Invalid client specified: '{name:.100}'"
        )));
    }
    let is_enabled = enabled.iter().any(|one| one == name);
    match found.filter(|_| is_enabled) {
        Some((_, client)) => Ok(*client),
        None => Err(ApiError::bad(format!(
            "Client disabled: '{name}'. Add to 'netapi_enable_clients' master config option to enable."
        ))),
    }
}

/// The credentials of a lowstate that comes without a session.
///
/// # Errors
/// There are none, or the token cannot be one.
pub fn credentials(low: &Map) -> Result<Credentials, ApiError> {
    if let Some(token) = low.get("token") {
        let text = token.as_str().filter(|text| {
            !text.is_empty() && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_hexdigit())
        });
        let text = text.ok_or_else(|| ApiError::unauthorized("Invalid token"))?;
        return Ok(Credentials::Token(text.to_owned()));
    }
    login(low).ok_or_else(|| ApiError::unauthorized("No authentication credentials given"))
}

/// `username`, `password` and `eauth` of a map.
pub fn login(low: &Map) -> Option<Credentials> {
    let text = |name: &str| low.str(name).map(str::to_owned);
    Some(Credentials::Login {
        system: text("eauth")?,
        username: text("username")?,
        password: text("password")?,
    })
}

/// The same for runners and wheel functions, of which stock tells the master's words.
fn refused_call(error: ClientError) -> ApiError {
    match error {
        ClientError::Refused(name, message)
            if name.ends_with("AuthenticationError") || name == "AuthorizationError" =>
        {
            ApiError::unauthorized(message)
        }
        other => refused(other),
    }
}

/// A lowstate that can be run, by which client and as whom.
pub type Checked<'l> = (Client, &'l Map, Credentials);

impl Runner<'_> {
    /// Runs a lowstate. With a session, `token` is its token, which counts in the place of credentials in the lowstate. The
    /// elements of `return`.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn run(
        &self,
        low: &Value,
        token: Option<&str>,
        enabled: &[String],
    ) -> Result<Vec<Value>, ApiError> {
        self.run_checked(self.checked(low, token, enabled)?)
    }

    /// Runs what [`Runner::checked`] has let pass.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn run_checked(
        &self,
        (client, low, credentials): Checked<'_>,
    ) -> Result<Vec<Value>, ApiError> {
        let one = match client {
            Client::LocalBatch => return self.batch(low, credentials),
            Client::Local | Client::LocalSubset => self.local(client, low, credentials)?,
            Client::LocalAsync => self.publish(low, credentials)?,
            Client::Runner => self.runner(low, credentials)?,
            Client::Ssh => self.runner(&over_ssh(low)?, credentials)?,
            Client::RunnerAsync => {
                let answer = self.call("runner", low, credentials)?;
                let part = |name: &str| answer.str(name).unwrap_or_default().to_owned();
                halite_wire::map! {"tag" => part("tag"), "jid" => part("jid")}.into()
            }
            Client::Wheel => self.call("wheel", low, credentials)?.into(),
            Client::WheelAsync => {
                let answer = self.call("wheel", low, credentials)?;
                let tag = answer.str("tag").unwrap_or_default().to_owned();
                let jid = tag.rsplit('/').next().unwrap_or_default().to_owned();
                halite_wire::map! {"tag" => tag, "jid" => jid}.into()
            }
        };
        Ok(vec![one])
    }

    /// A lowstate that can be run. Of several, none runs before all are checked: what had begun would be answered to nobody.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn checked<'l>(
        &self,
        low: &'l Value,
        token: Option<&str>,
        enabled: &[String],
    ) -> Result<Checked<'l>, ApiError> {
        let low = low.as_map().ok_or_else(no_map)?;
        let client = client_of(low, enabled)?;
        if low.len() > MOST_FIELDS || kwarg_of(low).is_some_and(|map| map.len() > MOST_FIELDS) {
            return Err(ApiError::bad("A lowstate has too many fields"));
        }
        let credentials = match token {
            Some(token) => Credentials::Token(token.to_owned()),
            None => credentials(low)?,
        };
        match client {
            Client::Runner | Client::RunnerAsync => drop(call_load("runner", low)?),
            Client::Ssh => drop(over_ssh(low)?),
            Client::Wheel | Client::WheelAsync => drop(call_load("wheel", low)?),
            Client::LocalBatch => {
                batch_size(low)?;
                self.check_job(low)?;
            }
            Client::Local | Client::LocalAsync | Client::LocalSubset => self.check_job(low)?,
        }
        Ok((client, low, credentials))
    }

    /// Whether a job can be made of a lowstate.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn check_job(&self, low: &Map) -> Result<(), ApiError> {
        job_of(low, self.config).map(drop)
    }

    fn client(&self, credentials: Credentials) -> LocalClient {
        let mut client = LocalClient::new(self.config.clone());
        client.set_credentials(credentials);
        client
    }

    /// Publishes a job; the jid and who is meant, nothing if nobody is.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn publish(&self, low: &Map, credentials: Credentials) -> Result<Value, ApiError> {
        let job = job_of(low, self.config)?;
        let published = self.client(credentials).publish(&job).map_err(refused)?;
        if published.jid.is_empty() || published.minions.is_empty() {
            return Ok(Map::new().into());
        }
        Ok(halite_wire::map! {"jid" => published.jid, "minions" => published.minions}.into())
    }

    fn command(
        &self,
        low: &Map,
        credentials: Credentials,
        change: impl FnOnce(&mut CmdJob),
    ) -> Result<CmdReturns, ApiError> {
        let mut command = CmdJob {
            job: job_of(low, self.config)?,
            timeout: number(low, "timeout").map(|n| n.min(self.config.rest_timeout)),
            expect_minions: true,
            credentials: Some(credentials),
            ..CmdJob::default()
        };
        change(&mut command);
        command::run_with(self.config, &Master(self.config), command, self.stop).map_err(refused)
    }

    fn local(
        &self,
        client: Client,
        low: &Map,
        credentials: Credentials,
    ) -> Result<Value, ApiError> {
        let returns = self.command(low, credentials, |command| {
            if client == Client::LocalSubset {
                let count = number(low, "subset").or_else(|| number(low, "sub"));
                command.subset = Some(count.and_then(|n| usize::try_from(n).ok()).unwrap_or(3));
                // That is of the job, not of the question who has the function.
                command.job.jid.clear();
            }
        })?;
        let is_full = low.get("full_return").is_some_and(Value::truthy);
        let mut map = Map::new();
        let unknown = returns.missing.into_iter();
        let unknown = unknown.map(|id| (id, halite_wire::map! {"failed" => true}));
        for (id, entry) in returns.minions.into_iter().chain(unknown) {
            map.set(id, value_of(entry, is_full, &returns.jid));
        }
        Ok(map.into())
    }

    fn batch(&self, low: &Map, credentials: Credentials) -> Result<Vec<Value>, ApiError> {
        let size = batch_size(low)?;
        let returns = self.command(low, credentials, |command| {
            command.batch = Some(size);
            let wait = number(low, "batch_wait").unwrap_or(0);
            command.batch_wait = Duration::from_secs(wait.min(self.config.rest_timeout));
            command.job.jid.clear();
            command.failhard = low.get("failhard").is_some_and(Value::truthy);
            command.expect_minions = false;
        })?;
        let one = |(id, entry): (String, Map)| {
            let value = value_of(entry, false, "");
            Value::Map(Map(vec![(id.into(), value)]))
        };
        Ok(returns.minions.into_iter().map(one).collect())
    }

    /// Calls a runner or wheel function; the master's answer.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub fn call(&self, kind: &str, low: &Map, credentials: Credentials) -> Result<Map, ApiError> {
        let load = call_load(kind, low)?;
        let answer = self.client(credentials).call_master(load);
        let answer = answer.map_err(refused_call)?.into_map();
        answer.ok_or_else(|| ApiError::unforeseen("the master's answer is not a map"))
    }

    /// Runs a runner and waits for its end.
    ///
    /// # Errors
    /// See [`ApiError`]; 504 if it takes too long.
    pub fn runner(&self, low: &Map, credentials: Credentials) -> Result<Value, ApiError> {
        let load = call_load("runner", low)?;
        let patience = number(low, "timeout").unwrap_or(self.config.rest_timeout);
        let patience = Duration::from_secs(patience.min(LONGEST));
        let mut client = self.client(credentials);
        let ended = client.run_runner(load, patience, &|| self.stop.is_set());
        let ended = ended.map_err(refused_call)?;
        let Some(mut data) = ended.data else {
            return Err(ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "The gateway server did not receive a timely response",
            ));
        };
        let has_failed = !data.get("success").is_some_and(Value::truthy);
        let is_unknown = |text: &str| text.trim_end().ends_with("' is not available.");
        if has_failed && data.str("return").is_some_and(is_unknown) {
            let fun = low.str("fun").unwrap_or_default();
            return Err(ApiError::mistaken(format!("'{fun}' is not available.")));
        }
        if low.get("full_return").is_some_and(Value::truthy) {
            return Ok(halite_wire::map! {"tag" => ended.tag, "data" => data}.into());
        }
        Ok(data.remove("return").unwrap_or_default())
    }
}

/// A lowstate or a login is something else.
pub fn no_map() -> ApiError {
    ApiError::mistaken("a map is expected, or a list of them")
}

/// How many minions at a time.
fn batch_size(low: &Map) -> Result<String, ApiError> {
    let size = match low.get("batch") {
        None | Some(Value::Nil) => "10%".to_owned(),
        Some(Value::Str(text)) => text.clone(),
        Some(Value::Float(number)) if number.fract() == 0.0 => format!("{number:.0}"),
        Some(other) => pytext::str(other).into_owned(),
    };
    match is_size(&size) {
        true => Ok(size),
        false => Err(ApiError::bad(format!(
            "batch: {size:.50} is neither a number nor a percentage"
        ))),
    }
}

/// The load of a call of this kind.
fn call_load(kind: &str, low: &Map) -> Result<Map, ApiError> {
    let fun = low.str("fun");
    let fun = fun.ok_or_else(|| ApiError::mistaken("`fun`, the name of a function, is missing"))?;
    let (arg, mut kwarg) = yaml::load_input(&args_of(low), &[]);
    if let Some(given) = kwarg_of(low) {
        for (name, value) in given.iter() {
            if let Some(name) = name.as_str() {
                kwarg.set(name, value.clone());
            }
        }
    }
    for (name, value) in low.iter() {
        if let Some(name) = name.as_str().filter(|name| !OWN.contains(name)) {
            kwarg.set(name, value.clone());
        }
    }
    Ok(match kind {
        "runner" => {
            let inner = halite_wire::map! {"arg" => arg, "kwarg" => kwarg};
            halite_wire::map! {"cmd" => kind, "fun" => fun, "kwarg" => inner}
        }
        _ => halite_wire::map! {"cmd" => kind, "fun" => fun, "arg" => arg, "kwarg" => kwarg},
    })
}

/// The call of the runner for hosts without a minion.
fn over_ssh(low: &Map) -> Result<Map, ApiError> {
    if low.get("tgt").is_none() || low.str("fun").is_none() {
        return Err(ApiError::mistaken("`tgt` or `fun` is missing"));
    }
    let mut kwarg = Map::new();
    for name in OF_SSH {
        if let Some(value) = low.get(name) {
            kwarg.set(*name, value.clone());
        }
    }
    let full = low.get("full_return").cloned();
    Ok(halite_wire::map! {"fun" => "ssh.cmd", "kwarg" => kwarg, "full_return" => full})
}

fn kwarg_of(low: &Map) -> Option<&Map> {
    low.get("kwarg").and_then(Value::as_map)
}

/// A number; forms have text.
fn number(low: &Map, name: &str) -> Option<u64> {
    match low.get(name)? {
        Value::Str(text) => text.trim().parse().ok(),
        other => u64::try_from(other.as_int()?).ok(),
    }
}

/// `arg`: what is not a list is a list of one.
fn args_of(low: &Map) -> Vec<Value> {
    match low.get("arg") {
        None | Some(Value::Nil) => Vec::new(),
        Some(Value::Array(all)) => all.clone(),
        Some(one) => vec![one.clone()],
    }
}

/// The job of a lowstate.
fn job_of(low: &Map, config: &MasterConfig) -> Result<Job, ApiError> {
    let (Some(tgt), Some(fun)) = (low.get("tgt"), low.get("fun")) else {
        return Err(ApiError::mistaken("`tgt` or `fun` is missing"));
    };
    let jid = low.str("jid").unwrap_or_default();
    if !jid.is_empty() && jid.parse::<Jid>().is_err() {
        return Err(ApiError::bad("Invalid jid: it has 20 digits"));
    }
    let keyword = kwarg_of(low).cloned();
    let kwargs = OF_JOBS.iter().filter_map(|name| {
        let value = low.get(name).filter(|value| !value.is_nil())?;
        Some((Value::from(*name), value.clone()))
    });
    let kind = low.str("tgt_type").unwrap_or("glob");
    let (tgt, tgt_type) = match tgt {
        Value::Str(text) => {
            resolve_target(kind, config, text.clone()).map_err(ApiError::mistaken)?
        }
        other => (other.clone(), kind.to_owned()),
    };
    Ok(Job {
        fun: fun.clone(),
        arg: command::arguments(args_of(low), keyword.unwrap_or_default()),
        tgt,
        tgt_type,
        ret: low.str("ret").unwrap_or_default().to_owned(),
        jid: jid.to_owned(),
        kwargs: Map(kwargs.collect()),
    })
}

/// What a minion has returned, as stock tells it.
fn value_of(mut entry: Map, is_full: bool, jid: &str) -> Value {
    let has_failed = entry.get("failed").is_some_and(Value::truthy);
    match (has_failed, is_full) {
        (true, true) => halite_wire::map! {
            "out" => "no_return", "ret" => command::no_response(jid), "retcode" => 1,
        }
        .into(),
        (true, false) => command::no_response(jid).into(),
        (false, false) => entry.remove("ret").unwrap_or_default(),
        (false, true) => {
            let mut take = |name: &str| entry.remove(name).unwrap_or_default();
            let (ret, retcode) = (take("ret"), take("retcode"));
            let own = take("jid");
            let jid = if own.is_nil() { jid.into() } else { own };
            let mut map = halite_wire::map! {"ret" => ret, "retcode" => retcode, "jid" => jid};
            let out = take("out");
            if !out.is_nil() {
                map.set("out", out);
            }
            map.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn low(text: &str) -> Map {
        halite_wire::yaml::parse(text).unwrap().into_map().unwrap()
    }

    #[test]
    fn only_enabled_clients_run() {
        let enabled = ["local".to_owned(), "destroy".to_owned()];
        let of = |text: &str| client_of(&low(text), &enabled).map_err(|e| e.message);
        assert_eq!(of("client: local"), Ok(Client::Local));
        for (text, message) in [
            ("tgt: x", "Invalid client specified: 'None'"),
            ("client: run", "Invalid client specified: 'run'"),
            ("client: __init__", "Invalid client specified: '__init__'"),
            (
                "client: wheel",
                "Client disabled: 'wheel'. Add to 'netapi_enable_clients' master config option to enable.",
            ),
            (
                "client: ssh",
                "Client disabled: 'ssh'. Add to 'netapi_enable_clients' master config option to enable.",
            ),
            (
                "client: destroy",
                "Client disabled: 'destroy'. Add to 'netapi_enable_clients' master config option to enable.",
            ),
        ] {
            assert_eq!(of(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn tokens_have_hexadecimal_digits() {
        for text in ["token: ../x", "token: 5", "token: ''", "token: [a]"] {
            let error = credentials(&low(text)).unwrap_err();
            assert_eq!(error.message, "Invalid token", "{text}");
        }
        assert!(credentials(&low("token: deadbeef")).is_ok());
        let error = credentials(&low("username: fred")).unwrap_err();
        assert_eq!(error.message, "No authentication credentials given");
        assert!(credentials(&low("{username: a, password: b, eauth: file}")).is_ok());
    }

    #[test]
    fn fields_become_arguments() {
        let call = call_load(
            "runner",
            &low("{client: runner, fun: test.arg, arg: [x, 'k=v'], kwarg: {y: 1}, z: 2, token: a}"),
        )
        .unwrap();
        let inner = call.get("kwarg").and_then(Value::as_map).unwrap();
        assert_eq!(inner.get("arg"), Some(&Value::Array(vec!["x".into()])));
        let kwarg = inner.get("kwarg").and_then(Value::as_map).unwrap();
        let names: Vec<_> = kwarg.iter().filter_map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["k", "y", "z"]);
        let call = low(
            "{client: ssh, tgt: w*, fun: f, arg: [1], token: a, ssh_options: [b], roster_file: c}",
        );
        let call = call_load("runner", &over_ssh(&call).unwrap()).unwrap();
        let inner = call.get("kwarg").and_then(Value::as_map).unwrap();
        let kwarg = inner.get("kwarg").and_then(Value::as_map).unwrap();
        let names: Vec<_> = kwarg.iter().filter_map(|(k, _)| k.as_str()).collect();
        assert_eq!(
            (call.str("fun"), names),
            (Some("ssh.cmd"), vec!["tgt", "fun", "arg"])
        );
        assert!(over_ssh(&low("{client: ssh, fun: f}")).is_err());
        let config = MasterConfig::from_map(Map::new(), std::path::Path::new("/nonexistent"));
        let config = config.unwrap();
        let job_of = |text: &str| job_of(&low(text), &config);
        let job = job_of("{tgt: '*', fun: f, arg: one, kwarg: {a: 1}, user: root, key: k}");
        let job = job.unwrap();
        assert_eq!(
            (job.tgt_type.as_str(), job.arg.len(), job.kwargs.len()),
            ("glob", 2, 0)
        );
        assert!(job_of("{tgt: '*', fun: f, jid: ../../x}").is_err());
        assert!(job_of("{fun: f}").is_err());
    }
}

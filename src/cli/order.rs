//! `halite-run --order`: runs a function of the master for another program on this host, using JSON.
//!
//! The order on standard input has `kind` (`runner`, `peer_run`, `wheel` or `cmd`), `fun`, `arg`, `kwarg`, `user`. The
//! result, an [`OrderResult`], is written to standard output. A minion on the master's host uses this for
//! `saltutil.runner` and similar functions, since it does not contain the master's code; a worker uses `peer_run` for
//! minions.

use halite_client::runner::{self, Args, Launch, RunContext, RunError, RunnerOutput};
use halite_client::wheel;
use halite_config::MasterConfig;
use halite_master::functions::Call;
use halite_sys::signals::StopFlag;
use halite_wire::ids::JidClock;
use halite_wire::{Map, Value};
use std::io::{Read, Write};

/// Largest order in bytes.
const MOST: u64 = 64 << 20;

/// Result of an order: `{"data": {...}}` as Salt's `full_return`, `{"missing": true}` for an unknown function,
/// `{"error": why}` for an invalid order.
type OrderResult = Result<Map, String>;

/// Executes the order on standard input; the exit status is 0 if a result was written.
pub(super) fn run(config: MasterConfig) -> i32 {
    let outcome = read().and_then(|order| execute(config, &order));
    let answer = outcome.unwrap_or_else(|why| halite_wire::map! {"error" => why});
    let text = serde_json::to_vec(&Value::Map(answer)).unwrap_or_default();
    match std::io::stdout().write_all(&text) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn read() -> Result<Map, String> {
    let mut text = Vec::new();
    let read = std::io::stdin().take(MOST).read_to_end(&mut text);
    read.map_err(|e| format!("standard input: {e}"))?;
    let value: Value =
        halite_wire::json::parse(&text).map_err(|e| format!("invalid order: {e}"))?;
    value.into_map().ok_or("an order must be a map".to_owned())
}

fn execute(config: MasterConfig, order: &Map) -> OrderResult {
    let fun = order.str("fun").ok_or("an order must name a function")?;
    let args = Args {
        positional: order
            .get("arg")
            .and_then(Value::as_array)
            .unwrap_or_default()
            .to_vec(),
        keyword: order
            .get("kwarg")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
    };
    let user = order.str("user").unwrap_or("UNKNOWN").to_owned();
    match order.str("kind") {
        Some("wheel") => Ok(by_wheel(&config, fun, args, user)),
        Some("runner") => Ok(by_runner(config, fun, args, user)),
        Some("peer_run") => value_of_runner(config, fun, args, user),
        Some("cmd") => {
            let mut quiet = |_: &str, _: &Value, _: bool| {};
            let stop = StopFlag::install().unwrap_or_default();
            let mut context = RunContext::new(config, stop, &mut quiet);
            let told = runner::command(&mut context, &args).map_err(|e| e.to_string())?;
            Ok(
                halite_wire::map! {"data" => halite_wire::map! {"return" => told, "success" => true}},
            )
        }
        _ => Err("the kind of an order must be runner, peer_run, wheel or cmd".to_owned()),
    }
}

fn missing() -> Map {
    halite_wire::map! {"missing" => true}
}

fn full(kind: &str, fun: &str, jid: &str, user: String, args: &Args) -> Map {
    halite_wire::map! {
        "fun" => format!("{kind}.{fun}"), "jid" => jid, "user" => user, "fun_args" => args.to_value(),
    }
}

fn by_wheel(config: &MasterConfig, fun: &str, args: Args, user: String) -> Map {
    if !wheel::exists(config, fun) {
        return missing();
    }
    let jid = JidClock::default().next();
    let mut data = full("wheel", fun, jid.as_str(), user.clone(), &args);
    let call = Call {
        fun: fun.to_owned(),
        args,
        jid,
        user,
    };
    let mut done = wheel::answer(config, &call);
    for key in ["return", "success"] {
        data.set(key, done.remove(key).unwrap_or_default());
    }
    halite_wire::map! {"data" => data}
}

fn by_runner(config: MasterConfig, fun: &str, args: Args, user: String) -> Map {
    if !runner::exists(&config, fun) {
        return missing();
    }
    let mut launch = Launch::by_current_user(&config);
    launch.user = user.clone();
    let mut data = full("runner", fun, launch.jid.as_str(), user, &args);
    let (value, success) = match run_function(config, fun, args, &launch) {
        Ok((ran, retcode)) => (ran.to_value(), retcode == 0),
        Err(e) => (e.event_text("runner", fun).into(), false),
    };
    data.set("return", value);
    data.set("success", success);
    halite_wire::map! {"data" => data}
}

fn run_function(
    config: MasterConfig,
    fun: &str,
    args: Args,
    launch: &Launch,
) -> Result<(RunnerOutput, i64), RunError> {
    let mut quiet = |_: &str, _: &Value, _: bool| {};
    let stop = StopFlag::install().unwrap_or_default();
    let function = runner::find(&config, fun);
    let mut context = RunContext::new(config, stop, &mut quiet);
    let ran = runner::run_as(&mut context, fun, function.as_ref(), Ok(args), launch)?;
    Ok((ran, context.run.retcode))
}

/// Only the value, as it is without an outputter. If a function fails with one, as for an unknown job, that one.
fn value_of_runner(config: MasterConfig, fun: &str, args: Args, user: String) -> OrderResult {
    let mut launch = Launch::by_current_user(&config);
    launch.user = user;
    let (ran, _) = run_function(config, fun, args, &launch).map_err(|e| e.to_string())?;
    Ok(halite_wire::map! {"data" => halite_wire::map! {"return" => ran.value}})
}

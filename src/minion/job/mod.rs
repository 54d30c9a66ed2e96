//! A job in its own process: the child's side.
//!
//! The minion starts its own program again with [`FLAG`], passes everything the job needs in a memory file as
//! standard input, and reads the finished `_return` load from standard output, a socket. Nothing is passed in
//! the environment, which the job's commands inherit.
//!
//! A job from a master outlives the minion if that is restarted, upgraded or killed: if nobody reads the
//! result, it goes into a file that the next minion process picks up (`left_results`).

mod order;

pub use order::Order;

use super::left_results;
use halite_channel::link::Link;
use halite_config::log_options_of;
use halite_ipc::{StampStyle, stamp_now};
use halite_modules::bus::stamp_style;
use halite_modules::execution::python_returners;
use halite_modules::execution::{CallError, CallOutcome, Context, python, scheduled_note};
use halite_modules::guard::{FunctionFilter, broken, guarded};
use halite_modules::returners::ReturnerSelection;
use halite_sys::daemon::survive_signals;
use halite_sys::logging::{self, Field, LogOptions};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The argument that makes a process run a job.
pub const FLAG: &str = "--run-job";

/// Exit status of a process that got no job.
const EXIT_NO_JOB: i32 = 64;

/// Whether this process was started to run a job.
pub fn is_job_process() -> bool {
    let mut args = std::env::args_os().skip(1);
    args.next().is_some_and(|a| a == FLAG) && args.next().is_none()
}

/// Runs the job on standard input; returns the exit status.
pub fn run() -> i32 {
    halite_sys::process::set_name("halite-job");
    halite_sys::memory::keep_freed();
    let mut bytes = Vec::new();
    let order = match std::io::stdin().lock().read_to_end(&mut bytes) {
        Ok(_) => Order::decode(&bytes),
        Err(_) => None,
    };
    drop(bytes);
    let Some(order) = order else {
        eprintln!("ERROR: {FLAG} is used by the minion itself, which passes a job to the process");
        return EXIT_NO_JOB;
    };
    let (parent, outlives) = (order.parent, order.outlives);
    let result = match detach((!outlives).then_some(parent)) {
        Ok(result) => result,
        Err(e) => {
            eprintln!("ERROR: cannot start the job: {e}");
            return 1;
        }
    };
    start_log(&order);
    survive_signals();
    let (ctx, ret) = perform(order);
    let bytes = msgpack::encode_map(&ret, Profile::Local);
    let sent = send(result, &bytes).or_else(|e| match outlives {
        true => leave(&ctx, &bytes),
        false => Err(e),
    });
    match sent {
        Ok(()) => {
            // The minion has its result; nobody waits for the returners.
            python_returners::run(&ctx, &ReturnerSelection::for_job(&ctx, &ret), ret);
            0
        }
        Err(e) => {
            log::error!("cannot pass the result to the minion: {e}");
            1
        }
    }
}

/// Makes the socket for the result private to this process, and ties its life to the minion `parent`.
fn detach(parent: Option<u32>) -> std::io::Result<UnixStream> {
    if let Some(parent) = parent {
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        // The minion may have exited before the call above took effect.
        if nix::unistd::getppid().as_raw() != i32::try_from(parent).unwrap_or(-1) {
            return Err(std::io::Error::other("the minion has exited"));
        }
    }
    let result = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    Ok(result.into())
}

fn start_log(order: &Order) {
    let pick = |text: &str| logging::level(text).unwrap_or(log::LevelFilter::Warn);
    let of = |map: &Map, key: &str| map.str(key).unwrap_or_default().to_owned();
    let (id, load) = (of(&order.opts, "id"), &order.load);
    logging::set_process_fields(&[
        (Field::Minion, &id),
        (Field::Jid, &of(load, "jid")),
        (Field::Fun, &of(load, "fun")),
    ]);
    logging::install(LogOptions {
        console: pick(&order.log.0),
        file: Some(pick(&order.log.1)),
        path: (!order.log.2.is_empty()).then(|| PathBuf::from(&order.log.2)),
        ..log_options_of(&order.opts)
    });
}

/// The length comes first, so that the minion can tell a complete result from a partial one.
///
/// # Errors
/// The minion has not read all of it: closing a socket with unread data resets it.
fn send(mut result: UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    result.write_all(&(bytes.len() as u64).to_le_bytes())?;
    result.write_all(bytes)?;
    result.shutdown(Shutdown::Write)?;
    result.read(&mut [0]).map(drop)
}

/// Leaves the result to the next minion process.
fn leave(ctx: &Context, bytes: &[u8]) -> std::io::Result<()> {
    let jid = ctx.job.as_ref().and_then(|job| job.str("jid"));
    let jid = jid.and_then(|jid| jid.parse().ok());
    let jid = jid.ok_or_else(|| std::io::Error::other("the job has no jid"))?;
    left_results::put(&ctx.cachedir, &jid, bytes)?;
    log::info!("the minion has exited; job {jid} leaves its result for the next");
    Ok(())
}

/// Runs the function or functions of a load; returns their context and the `_return` load.
fn perform(order: Order) -> (Context, Map) {
    let Order {
        load,
        opts,
        grains,
        pillar,
        credentials,
        ..
    } = order;
    let id = opts.str("id").unwrap_or_default().to_owned();
    let stamp = stamp_style(&opts);
    let allowed = FunctionFilter::from_opts(&opts);
    let mut opts = opts;
    opts.set("__cli", "salt-minion");
    let ctx = Context {
        id,
        master: Link::of_job(&opts, &grains, credentials),
        grains,
        pillar,
        cachedir: PathBuf::from(opts.str("cachedir").unwrap_or_default()),
        opts: std::sync::Arc::new(opts),
        job: Some(load),
        python: Default::default(),
    };
    let mut ret = call_functions(&ctx, &allowed, stamp);
    ret.0.extend(ctx.python.noted().0);
    (ctx, ret)
}

fn opts_flag(opts: &Map, key: &str) -> bool {
    opts.get(key).is_some_and(Value::truthy)
}

fn call_functions(ctx: &Context, allowed: &FunctionFilter, stamp: StampStyle) -> Map {
    let load = ctx.job.as_ref().unwrap_or(const { &Map(Vec::new()) });
    let args = |value: Option<&Value>| value.and_then(Value::as_array).unwrap_or_default().to_vec();
    let Some(funs) = load.get("fun").and_then(Value::as_array) else {
        let fun = load.str("fun").unwrap_or_default();
        let outcome = guarded(ctx, fun, &args(load.get("arg")), allowed);
        return returned(&ctx.id, load, outcome, stamp);
    };
    let several = opts_flag(&ctx.opts, "multifunc_ordered");
    let arg = args(load.get("arg"));
    let outcomes: Vec<(String, CallOutcome)> = funs
        .iter()
        .enumerate()
        .map(|(i, fun)| {
            let fun = fun.as_str().unwrap_or_default();
            (
                fun.to_owned(),
                guarded(ctx, fun, &args(arg.get(i)), allowed),
            )
        })
        .collect();
    compound(&ctx.id, load, outcomes, several, stamp)
}

/// The `_return` load of one function, in stock's order (reference 8.1).
fn returned(id: &str, load: &Map, outcome: CallOutcome, stamp: StampStyle) -> Map {
    if load.contains("schedule") {
        return scheduled(id, load, outcome, stamp);
    }
    let mut ret = halite_wire::map! {
        "cmd" => "_return",
        "id" => id,
        "success" => outcome.success,
        "return" => outcome.ret,
        "retcode" => outcome.retcode,
    };
    copy_job_fields(&mut ret, load);
    if let Some(out) = outcome.out {
        ret.set("out", out);
    }
    ret.set("_stamp", stamp_now(stamp));
    ret
}

/// The `_return` load of a scheduled job (`salt/utils/schedule.py handle_func`): a function that returned a
/// value has succeeded, whatever its return code; one that raised an error has failed.
fn scheduled(id: &str, load: &Map, outcome: CallOutcome, stamp: StampStyle) -> Map {
    let fun = load.str("fun").unwrap_or_default();
    let ran = outcome.returned_value();
    let (ret, retcode) = match outcome.fault {
        Some(CallError::Missing(text)) => (text.into(), 254),
        Some(_) => {
            let why = python::str(&outcome.ret);
            log::error!(
                "the scheduled job {}: {fun}: {why}",
                load.str("schedule").unwrap_or_default()
            );
            (format!("Unhandled exception running {fun}").into(), 254)
        }
        None => (outcome.ret, outcome.retcode),
    };
    let mut out = halite_wire::map! {"cmd" => "_return"};
    out.0.extend(scheduled_note(id, load).0);
    out.set("return", ret);
    let mut end = [("retcode", retcode.into()), ("success", Value::from(ran))];
    if !ran {
        end.reverse();
    }
    end.into_iter().for_each(|(key, value)| out.set(key, value));
    if ran && load.str("ret").is_some_and(|names| !names.is_empty()) {
        for key in ["ret_config", "ret_kwargs"] {
            if let Some(value) = load.get(key) {
                out.set(key, value.clone());
            }
        }
    }
    out.set("_stamp", stamp_now(stamp));
    out
}

/// The `_return` load of several functions: a map per field, by function
/// (`salt/minion.py Minion._thread_multi_return`), or lists with `multifunc_ordered`.
fn compound(
    id: &str,
    load: &Map,
    outcomes: Vec<(String, CallOutcome)>,
    ordered: bool,
    stamp: StampStyle,
) -> Map {
    let field = |pick: &dyn Fn(&CallOutcome) -> Value| -> Value {
        if ordered {
            return Value::Array(outcomes.iter().map(|(_, o)| pick(o)).collect());
        }
        let mut map = Map::new();
        outcomes
            .iter()
            .for_each(|(fun, o)| map.set(fun.as_str(), pick(o)));
        map.into()
    };
    let mut ret = halite_wire::map! {
        "cmd" => "_return",
        "id" => id,
        "return" => field(&|o| o.ret.clone()),
        "retcode" => field(&|o| o.retcode.into()),
        "success" => field(&|o| o.success.into()),
    };
    copy_job_fields(&mut ret, load);
    ret.set("_stamp", stamp_now(stamp));
    ret
}

/// Copies the fields of the job that a return repeats.
fn copy_job_fields(ret: &mut Map, load: &Map) {
    let copy = |from: &str| load.get(from).cloned().unwrap_or_default();
    ret.set("jid", copy("jid"));
    ret.set("fun", copy("fun"));
    ret.set("fun_args", copy("arg"));
    for key in ["user", "metadata", "master_id", "schedule"] {
        if let Some(value) = load.get(key) {
            ret.set(key, value.clone());
        }
    }
}

/// The `_return` load of a job whose process cannot report itself.
pub fn failed(id: &str, load: &Map, why: &str, retcode: i64, stamp: StampStyle) -> Map {
    let outcome = CallOutcome {
        retcode,
        ..broken(why.to_owned())
    };
    returned(id, load, outcome, stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn order(fun: Value, arg: Value) -> Order {
        Order {
            parent: 1,
            load: halite_wire::map! {
                "fun" => fun, "arg" => arg, "jid" => "20261121120000000001", "tgt" => "*", "ret" => "",
                "user" => "root", "metadata" => halite_wire::map! {"k" => 1},
            },
            opts: halite_wire::map! {"id" => "m1", "cachedir" => "/nonexistent", "salt_series" => "3008"},
            ..Order::default()
        }
    }

    fn done(order: Order) -> Map {
        perform(order).1
    }

    fn keys(map: &Map) -> Vec<&str> {
        map.iter().filter_map(|(k, _)| k.as_str()).collect()
    }

    #[test]
    fn orders_survive_the_pipe() {
        let mut order = order("test.ping".into(), Value::Array(vec![]));
        order.grains = Arc::new(halite_wire::map! {"a" => vec![0xffu8]});
        order.log = ("info".into(), "debug".into(), "/x".into());
        let back = Order::decode(&order.encode()).unwrap();
        assert_eq!(
            (back.load, back.opts, back.log),
            (order.load, order.opts, order.log)
        );
        assert_eq!(back.grains, order.grains);
        assert!(Order::decode(b"\x80").is_none());
    }

    #[test]
    fn a_return_has_stocks_order() {
        let ret = done(order("test.ping".into(), Value::Array(vec![])));
        assert_eq!(
            keys(&ret),
            [
                "cmd", "id", "success", "return", "retcode", "jid", "fun", "fun_args", "user",
                "metadata", "_stamp"
            ]
        );
        assert_eq!(ret.get("return"), Some(&true.into()));
        let ret = done(order("no.such".into(), Value::Array(vec![])));
        assert_eq!(ret.str("return"), Some("'no.such' is not available."));
        assert_eq!(ret.str("out"), Some("nested"));
        assert_eq!(ret.int("retcode"), Some(1));
    }

    #[test]
    fn several_functions_return_maps() {
        let funs = vec!["test.ping".to_owned(), "no.such".to_owned()];
        let ret = done(order(
            funs.into(),
            Value::Array(vec![Value::Array(vec![]), Value::Array(vec![])]),
        ));
        let codes = halite_wire::map! {"test.ping" => 0, "no.such" => 1};
        assert_eq!(ret.get("retcode"), Some(&codes.into()));
        let good = halite_wire::map! {"test.ping" => true, "no.such" => false};
        assert_eq!(ret.get("success"), Some(&good.into()));
    }
}

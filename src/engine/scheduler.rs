//! Scheduler: runs runner and wheel functions at scheduled times (option `schedule` of the master;
//! `salt/utils/schedule.py`, which Salt runs in Maintenance).
//!
//! Owns the times of the jobs. In a cluster, the master that leads runs what is due, once the role `cluster` has claimed it
//! ([`claims`](crate::claims)). Binds nothing; each job runs in a thread and fires the events of a runner and
//! Salt's `__schedule_return` on `master_event_pull.ipc`. Runs if the option `schedule` is set.
//!
//! On failure: its successor plans again from the moment it starts; jobs due in between are skipped, and so is one that was
//! claimed, but had not begun.

use crate::claims::Claims;
use halite_client::runner::{self, Args, Launch, RunContext};
use halite_client::wheel;
use halite_config::{MasterConfig, Returner, SaltSeries};
use halite_master::events::Bus;
use halite_master::functions::Call;
use halite_master::roles::Roles;
use halite_returners::Opener;
use halite_schedule::{ReturnJob, Schedule, Spec};
use halite_store::jobs::{JobUpdate, StoredReturn};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_wire::ids::{Jid, JidClock};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const USER: &str = "scheduler";
/// How long jobs wait at the start for the event bus.
const BUS_PATIENCE: Duration = Duration::from_secs(30);
const TURN: Duration = Duration::from_millis(200);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    // Errors in jobs were reported when the master started: see `faults`.
    let (schedule, _) = Schedule::new(&config.schedule);
    let mut schedule = schedule.eager(config.salt_series == SaltSeries::S3008);
    let running = Mutex::new(HashMap::new());
    roles.ready();
    // A job that is due at once would find no bus. Its socket may be there before it listens.
    let began = Instant::now();
    let silent = || UnixStream::connect(config.event_pub()).is_err();
    while began.elapsed() < BUS_PATIENCE && !stop.is_set() && silent() {
        std::thread::sleep(TURN);
    }
    let mut claims = config.cluster().map(|_| Claims::new(config)).transpose()?;
    std::thread::scope(|scope| {
        while !stop.is_set() {
            let due = schedule.runs(jiff::Zoned::now().datetime());
            let due = due.into_iter().filter(|run| !run.spec.dry);
            let due: Vec<Spec> = match &mut claims {
                Some(claims) => claims.next(due, unix_now()),
                None => due.map(|run| run.spec).collect(),
            };
            for spec in due {
                if !begin(&running, &spec) {
                    log::info!(
                        "the scheduled job {} is still running; not started again",
                        spec.name
                    );
                    continue;
                }
                let running = &running;
                scope.spawn(move || {
                    execute(config, stop, &spec);
                    end(running, &spec.name);
                });
            }
            debug_report::write_if_asked("scheduler", || {
                let running = running.lock().map(|r| format!("  running: {r:?}\n"));
                running.unwrap_or_default()
            });
            std::thread::sleep(TURN);
        }
    });
    Ok(())
}

/// Faulty entries of the option `schedule`; the others run.
pub(super) fn faults(config: &MasterConfig) -> Vec<String> {
    let (schedule, mut errors) = Schedule::new(&config.schedule);
    for spec in schedule.specs() {
        let (known, lister) = match spec.function.strip_prefix("wheel.") {
            Some(name) => (
                wheel::exists(config, name),
                "docs/compatibility.md lists wheel functions",
            ),
            None => (
                runner::exists(config, runner_name(spec)),
                "`halite-run -d` lists runner functions",
            ),
        };
        if !known {
            errors.push(format!(
                "schedule: {}: there is no function {}; {lister}",
                spec.name, spec.function
            ));
        }
    }
    errors
}

fn runner_name(spec: &Spec) -> &str {
    let name = spec.function.as_str();
    name.strip_prefix("runner.").unwrap_or(name)
}

type Running = Mutex<HashMap<String, i64>>;

/// Counts a start; `false` if the maximum number is running.
fn begin(running: &Running, spec: &Spec) -> bool {
    let Ok(mut running) = running.lock() else {
        return false;
    };
    let count = running.entry(spec.name.clone()).or_default();
    if spec.counted && spec.maxrunning.is_some_and(|most| *count >= most) {
        return false;
    }
    *count += 1;
    true
}

fn end(running: &Running, name: &str) {
    if let Ok(mut running) = running.lock()
        && let Some(count) = running.get_mut(name)
    {
        *count -= 1;
    }
}

fn execute(config: &MasterConfig, stop: &StopFlag, spec: &Spec) {
    log::info!("the scheduled job {} runs {}", spec.name, spec.function);
    let args = Args {
        positional: spec.args.clone(),
        keyword: spec.kwargs.clone(),
    };
    // Stock's master does not know its time zone.
    let metadata = spec.metadata(&jiff::Zoned::now(), "0000");
    let done = match spec.function.strip_prefix("wheel.") {
        Some(function) => wheel_function(config, function, args),
        None => runner_function(config, stop, spec, args),
    };
    let jid = JidClock::default().next();
    let mut ret = return_event(config, spec, metadata, jid.as_str(), done);
    let returners = returners_of(config, spec);
    if returners.is_empty() {
        if let Some(word) = spec.return_job.jid() {
            ret.set("jid", word);
        }
    } else if ret.get("success").is_some_and(Value::truthy) {
        for (key, value) in spec.return_settings() {
            ret.set(key, value.clone());
        }
        send_to_returners(config, &returners, jid, &ret);
    }
    if spec.return_job != ReturnJob::Discarded {
        Bus::new(config).fire("__schedule_return", ret);
    }
}

/// The returners of a job without duplicates: its own, then those of `schedule_returner`.
fn returners_of<'a>(config: &'a MasterConfig, spec: &'a Spec) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in spec.returners.iter().chain(&config.schedule_returner) {
        if !name.is_empty() && !all.contains(&name.as_str()) {
            all.push(name);
        }
    }
    all
}

/// Writes a result to returners; failures are logged.
fn send_to_returners(config: &MasterConfig, names: &[&str], jid: Jid, ret: &Map) {
    let mut load = ret.clone();
    load.remove("cmd");
    let news = JobUpdate {
        is_started_by_minion: false,
        jid,
        load: None,
        returns: vec![StoredReturn {
            id: config.id.clone(),
            load,
        }],
        end: 0,
    };
    for name in names {
        let Some(returner) = Returner::parse(name) else {
            log::error!(
                "the scheduled job {}: there is no returner {name}",
                ret.str("schedule").unwrap_or_default()
            );
            continue;
        };
        let mut store = crate::open_returner(&Opener {
            settings: config
                .returner(returner)
                .with_alternative(ret.str("ret_config").unwrap_or_default())
                .with_given(ret.get("ret_kwargs").and_then(Value::as_map)),
            id: &config.id,
            keep: config.keep_jobs_seconds,
            product: config.flavour.name(),
            program: "halite-master",
        });
        if let Err(e) = store.jobs(std::slice::from_ref(&news)) {
            log::error!(
                "the scheduled job {}: the returner {name}: {e}",
                ret.str("schedule").unwrap_or_default()
            );
        }
    }
}

/// Value and return code of a function.
type FunctionResult = Result<(Value, i64), String>;

fn wheel_function(config: &MasterConfig, function: &str, args: Args) -> FunctionResult {
    let call = Call {
        fun: function.to_owned(),
        args,
        jid: JidClock::default().next(),
        user: USER.to_owned(),
    };
    let mut done = wheel::answer(config, &call);
    let value = done.remove("return").unwrap_or_default();
    if done.get("success").is_some_and(Value::truthy) {
        Ok((value, 0))
    } else {
        Err(value.as_str().unwrap_or_default().to_owned())
    }
}

fn runner_function(
    config: &MasterConfig,
    stop: &StopFlag,
    spec: &Spec,
    args: Args,
) -> FunctionResult {
    let name = runner_name(spec);
    let mut quiet = |_: &str, _: &Value, _: bool| {};
    let mut context = RunContext::new(config.clone(), stop.clone(), &mut quiet);
    let mut launch = Launch::by_current_user(config);
    launch.user = USER.to_owned();
    launch.keep = spec.return_job == ReturnJob::Cached;
    let function = runner::find(config, name);
    match runner::run_as(&mut context, name, function.as_ref(), Ok(args), &launch) {
        Ok(ran) => {
            if let Some(why) = runner::failure(&ran, context.run.retcode) {
                log::error!("the scheduled job {}, jid {}: {why}", spec.name, launch.jid);
            }
            Ok((ran.to_value(), context.run.retcode))
        }
        Err(e) => {
            if stop.is_set() {
                log::warn!(
                    "the scheduled job {} was cut off by the stop: {e}",
                    spec.name
                );
            } else {
                log::error!("the scheduled job {}: {e}", spec.name);
            }
            Err(match function {
                Some(_) => format!("Unhandled exception running {}", spec.function),
                None => format!("{e}."),
            })
        }
    }
}

/// The event at the end of a scheduled job (`salt/utils/schedule.py Schedule.handle_func`).
fn return_event(
    config: &MasterConfig,
    spec: &Spec,
    metadata: Option<Map>,
    jid: &str,
    done: FunctionResult,
) -> Map {
    let mut fun_args = spec.args.clone();
    if let Some(kwargs) = spec.given_kwargs() {
        fun_args.push(kwargs.clone().into());
    }
    let (value, retcode, success) = match done {
        Ok((value, retcode)) => (value, retcode, true),
        Err(why) => (why.into(), 254, false),
    };
    let mut ret = halite_wire::map! {
        "cmd" => "_return", "id" => config.id.as_str(), "fun" => spec.function.as_str(),
        "fun_args" => fun_args, "schedule" => spec.name.as_str(), "jid" => jid,
    };
    if let Some(metadata) = metadata {
        ret.set("metadata", metadata);
    }
    ret.set("pid", i64::from(std::process::id()));
    ret.set("return", value);
    ret.set("retcode", retcode);
    ret.set("success", success);
    ret
}

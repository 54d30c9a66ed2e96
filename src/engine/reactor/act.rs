//! Executes reactions: jobs in order, runners and wheel functions in a few threads, all behind bounded queues
//! (`salt/utils/reactor.py ReactWrap`).

use super::USER;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use halite_client::command::arguments;
use halite_client::local::{Job, LocalClient};
use halite_client::runner::{self, Args, Launch, RunContext};
use halite_client::wheel;
use halite_config::MasterConfig;
use halite_master::events::Bus;
use halite_master::functions::Call;
use halite_master::score::Score;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::signals::StopFlag;
use halite_wire::ids::JidClock;
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(250);
/// Keys of a call that are not arguments (`REACTOR_INTERNAL_KEYWORDS`).
const OWN: [&str; 8] = [
    "__id__", "__sls__", "name", "order", "fun", "key", "state", "__env__",
];

enum Task {
    Job(Box<Job>),
    Runner(String, Args),
    Wheel(String, Args),
    Caller(String, Args),
}

/// Executes the calls.
pub(super) struct Executor {
    jobs: Sender<Task>,
    functions: Sender<Task>,
    bus: Bus,
    counts: Arc<Counts>,
    said: LogLimiter,
}

/// Counters.
#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    dropped: AtomicU64,
}

/// Publishes the counters from a thread: the loop sleeps while there are no events.
fn publish_counters(counts: Arc<Counts>, jobs: Sender<Task>, functions: Sender<Task>) {
    let mut score = Score::inherited("reactor");
    std::thread::spawn(move || {
        loop {
            score.tick(|| {
                halite_wire::map! {
                    "reactions" => counts.taken.load(Relaxed), "dropped" => counts.dropped.load(Relaxed),
                    "waiting" => jobs.len() + functions.len(),
                }
            });
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

impl Executor {
    /// Starts the threads; they stop with the role.
    pub fn start<'s, 'e: 's>(
        scope: &'s Scope<'s, 'e>,
        config: &'e MasterConfig,
        stop: &'e StopFlag,
    ) -> Executor {
        let most = config.reactor_worker_hwm.max(1) as usize;
        let (jobs, job_queue) = bounded(most);
        let (functions, queue) = bounded(most);
        // A single thread, so that jobs are published in the order of the events.
        scope.spawn(move || {
            let mut client = LocalClient::new(config.clone());
            let mut made = Instant::now();
            let keep = Duration::from_secs(config.reactor_refresh_interval);
            work(&job_queue, stop, &mut |task| {
                if made.elapsed() >= keep {
                    client = LocalClient::new(config.clone());
                    made = Instant::now();
                }
                if let Task::Job(job) = task
                    && let Err(e) = client.publish(&job)
                {
                    log::error!("a job of a reaction could not be published: {e}");
                }
            });
        });
        for _ in 0..config.reactor_worker_threads.max(1) {
            let queue = queue.clone();
            scope.spawn(move || work(&queue, stop, &mut |task| call(config, stop, task)));
        }
        let counts = Arc::new(Counts::default());
        publish_counters(counts.clone(), jobs.clone(), functions.clone());
        Executor {
            jobs,
            functions,
            bus: Bus::new(config),
            counts,
            said: LogLimiter::default(),
        }
    }

    /// Fires an event.
    pub fn fire(&mut self, tag: &str, data: Map) {
        self.bus.fire(tag, data);
    }

    /// Queues a call. If it is invalid, or the queue is full, an error is logged.
    pub fn take(&mut self, low: Map) {
        let text = |key: &str| low.str(key).unwrap_or_default().to_owned();
        let shown = format!("{} ({} {})", text("__id__"), text("state"), text("fun"));
        let task = match task(&low) {
            Ok(task) => task,
            Err(why) => {
                log::error!("the reaction {shown} in {}: {why}", text("__sls__"));
                return;
            }
        };
        let queue = match task {
            Task::Job(_) => &self.jobs,
            _ => &self.functions,
        };
        match queue.try_send(task) {
            Ok(()) => {
                self.counts.taken.fetch_add(1, Relaxed);
                log::info!("reaction {shown}");
            }
            Err(e) => {
                self.counts.dropped.fetch_add(1, Relaxed);
                let why = match e {
                    TrySendError::Full(_) => {
                        "the queue is full; raise reactor_worker_threads or reactor_worker_hwm"
                    }
                    TrySendError::Disconnected(_) => "the workers have stopped",
                };
                if let Some(n) = self.said.tick(Instant::now()) {
                    log::error!("the reaction {shown} is dropped: {why} ({n} such reactions)");
                }
            }
        }
    }
}

fn work(queue: &Receiver<Task>, stop: &StopFlag, each: &mut dyn FnMut(Task)) {
    while !stop.is_set() {
        if let Ok(task) = queue.recv_timeout(NAP) {
            each(task);
        }
    }
}

fn task(low: &Map) -> Result<Task, String> {
    let fun = low.str("fun").unwrap_or_default().to_owned();
    let args = args(low)?;
    Ok(match low.str("state").unwrap_or_default() {
        "local" | "cmd" => Task::Job(Box::new(job(low, fun, args)?)),
        "runner" => Task::Runner(fun, args),
        "wheel" => Task::Wheel(fun, args),
        "caller" => Task::Caller(fun, args),
        other => {
            return Err(format!(
                "{other:?} is not a kind of reaction; use local, runner, wheel or caller"
            ));
        }
    })
}

/// The arguments: `args` by name, or in the older form `arg` and `kwarg`, or (for functions on the master) all
/// other keys.
fn args(low: &Map) -> Result<Args, String> {
    let local = matches!(low.str("state"), Some("local" | "cmd"));
    if let Some(given) = low.get("args") {
        let caller = low.str("state") == Some("caller");
        return match named(given) {
            Some(keyword) => Ok(Args {
                positional: Vec::new(),
                keyword,
            }),
            None if caller => Ok(Args {
                positional: given.as_array().unwrap_or_default().to_vec(),
                keyword: Map::new(),
            }),
            None => Err("`args` must be a map, or a list of one-key maps".to_owned()),
        };
    }
    let mut args = Args::default();
    match low.get("arg") {
        None | Some(Value::Nil) => {}
        Some(Value::Array(list)) => args.positional = list.clone(),
        Some(one) => args.positional.push(one.clone()),
    }
    match low.get("kwarg") {
        None | Some(Value::Nil) => {}
        Some(given) => args.keyword = named(given).ok_or("`kwarg` must be a map")?,
    }
    if !local && !low.contains("arg") && !low.contains("kwarg") {
        let rest = low.iter().filter(|(k, _)| {
            let name = k.as_str().unwrap_or_default();
            !OWN.contains(&name) && !name.starts_with("__")
        });
        args.keyword = Map(rest.cloned().collect());
    }
    Ok(args)
}

/// Converts a map, or a list of one-key maps, to a map.
fn named(value: &Value) -> Option<Map> {
    match value {
        Value::Map(map) => Some(map.clone()),
        Value::Array(list) => {
            let maps = list.iter().map(|v| v.as_map().filter(|m| m.len() == 1));
            let maps: Option<Vec<&Map>> = maps.collect();
            Some(Map(maps?.into_iter().flat_map(|m| m.0.clone()).collect()))
        }
        _ => None,
    }
}

fn job(low: &Map, fun: String, args: Args) -> Result<Job, String> {
    let tgt = low.get("tgt").filter(|t| t.truthy()).cloned();
    let text = |key: &str| low.str(key).map(str::to_owned);
    let mut kwargs =
        halite_wire::map! {"delimiter" => text("delimiter").unwrap_or_else(|| ":".into())};
    for key in ["metadata", "ret_config", "ret_kwargs"] {
        if let Some(value) = low.get(key) {
            kwargs.set(key, value.clone());
        }
    }
    Ok(Job {
        fun: fun.into(),
        arg: arguments(args.positional, args.keyword),
        tgt: tgt.ok_or("a local reaction needs `tgt`")?,
        tgt_type: text("tgt_type").unwrap_or_else(|| "glob".into()),
        ret: text("ret").unwrap_or_default(),
        jid: text("jid").unwrap_or_default(),
        kwargs,
    })
}

fn call(config: &MasterConfig, stop: &StopFlag, task: Task) {
    match task {
        Task::Runner(fun, args) => run(config, stop, &fun, args),
        Task::Caller(fun, mut args) => {
            // The function runs on the master's host, like with `halite-run salt.cmd`.
            args.positional.insert(0, fun.into());
            run(config, stop, "salt.cmd", args);
        }
        Task::Wheel(fun, args) => {
            let call = Call {
                args,
                jid: JidClock::default().next(),
                user: USER.to_owned(),
                fun,
            };
            let done = wheel::answer(config, &call);
            if done.get("success") != Some(&true.into()) {
                log::error!("the wheel function {} of a reaction failed", call.fun);
            }
        }
        Task::Job(_) => {}
    }
}

fn run(config: &MasterConfig, stop: &StopFlag, fun: &str, args: Args) {
    let mut quiet = |_: &str, _: &Value, _: bool| {};
    let mut context = RunContext::new(config.clone(), stop.clone(), &mut quiet);
    let mut launch = Launch::by_current_user(config);
    launch.user = USER.to_owned();
    let function = runner::find(config, fun);
    let why = match runner::run_as(&mut context, fun, function.as_ref(), Ok(args), &launch) {
        Ok(ran) => runner::failure(&ran, context.run.retcode),
        Err(e) => Some(format!("it failed: {e}")),
    };
    if let Some(why) = why {
        let jid = &launch.jid;
        log::error!("the runner function {fun} of a reaction, jid {jid}: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::yaml;

    fn low(text: &str) -> Map {
        yaml::parse(text).unwrap().into_map().unwrap()
    }

    #[test]
    fn both_forms_of_arguments_are_read() {
        let new = args(&low("{state: local, args: [{mods: a}, {test: true}]}")).unwrap();
        assert_eq!(new.keyword.str("mods"), Some("a"));
        let old = args(&low("{state: local, arg: [1, 2], kwarg: {x: y}}")).unwrap();
        assert_eq!(old.positional.len(), 2);
        assert_eq!(old.keyword.str("x"), Some("y"));
        let bare = args(&low("{state: runner, fun: f, name: n, __id__: i, mods: a}")).unwrap();
        assert_eq!(bare.keyword, halite_wire::map! {"mods" => "a"});
        let caller = args(&low("{state: caller, args: [a, b]}")).unwrap();
        assert_eq!(caller.positional.len(), 2);
        assert!(args(&low("{state: runner, args: [a, b]}")).is_err());
    }

    #[test]
    fn what_is_no_reaction_is_refused() {
        assert!(task(&low("{state: engine, fun: x}")).is_err());
        assert!(
            task(&low("{state: local, fun: test.ping}")).is_err(),
            "no target"
        );
        assert!(task(&low("{state: cmd, fun: test.ping, tgt: '*'}")).is_ok());
    }
}

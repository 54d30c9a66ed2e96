//! `state.orchestrate` and related functions: states that run on the master (`salt/runners/state.py`; for the
//! available states see [`crate::orchestrate`]).

use super::{Args, Function, Launch, RunContext, RunError, RunnerOutput};
use crate::call::RunEvents;
use crate::orchestrate::MasterStates;
use crate::sls;
use halite_config::MasterConfig;
use halite_master::functions::Call;
use halite_modules::execution::{Context, python};
use halite_render::gpg::decrypt_given;
use halite_render::state::compile::{CompileOptions, Compiled, compile, resolve};
use halite_render::state::highstate::render_highstate;
use halite_render::state::{result, run};
use halite_states::declare::RunData;
use halite_states::{AllowedSlots, MinionStates, Progress};
use halite_sys::signals::StopFlag;
use halite_wire::ids::{Jid, JidClock};
use halite_wire::{Map, Value};
use std::rc::Rc;
use std::sync::Arc;

const ARGS: &[&str] = &[
    "mods",
    "?saltenv",
    "?test",
    "?exclude",
    "?pillar",
    "?pillarenv",
    "?pillar_enc",
    "?orchestration_jid",
];
const SHOW: &[&str] = &[
    "mods",
    "?saltenv",
    "?test",
    "?queue",
    "?pillar",
    "?pillarenv",
    "?pillar_enc",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "state.orchestrate",
        args: ARGS,
        doc: "Runs SLS files on the master: jobs on minions, runners, waits, in the order of their requisites.",
        run: orchestrate,
    },
    Function {
        name: "state.orch",
        args: ARGS,
        doc: "The same as state.orchestrate.",
        run: orchestrate,
    },
    Function {
        name: "state.sls",
        args: ARGS,
        doc: "The same as state.orchestrate.",
        run: orchestrate,
    },
    Function {
        name: "state.orchestrate_single",
        args: &["fun", "name", "?test", "?queue", "?pillar", "**kwargs"],
        doc: "Runs one state on the master: fun=salt.function name=test.ping tgt='*'.",
        run: single,
    },
    Function {
        name: "state.orchestrate_high",
        args: &["data", "?test", "?queue", "?pillar"],
        doc: "Runs states given as data on the master.",
        run: high,
    },
    Function {
        name: "state.orchestrate_show_sls",
        args: SHOW,
        doc: "Shows what SLS files say after rendering on the master; nothing runs.",
        run: show_sls,
    },
    Function {
        name: "state.orch_show_sls",
        args: SHOW,
        doc: "The same as state.orchestrate_show_sls.",
        run: show_sls,
    },
];

fn invalid(why: &str) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

fn pillar(args: &Args, at: usize) -> Result<Map, RunError> {
    match args.get(at, "pillar") {
        None => Ok(Map::new()),
        Some(Value::Map(map)) => Ok(map.clone()),
        Some(_) => Err(invalid("Pillar data must be formatted as a dictionary")),
    }
}

/// The SLS names in `mods`: a comma-separated string or a list.
fn sls_names(args: &Args) -> Result<Vec<String>, RunError> {
    let names: Vec<String> = match args.get(0, "mods") {
        Some(Value::Str(text)) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        Some(list @ Value::Array(_)) => list.str_list(),
        _ => Vec::new(),
    };
    if names.iter().all(|name| !name.is_empty()) && !names.is_empty() {
        Ok(names)
    } else {
        Err(invalid(
            "mods must name SLS files: a string such as `web.deploy,web.check`, or a list",
        ))
    }
}

fn orchestrate(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (host, collected) = collect_high(context, args)?;
    let mut high = match collected {
        Ok(high) => high,
        Err(errors) => {
            return Ok(
                OrchestrationResult::new(&context.config, errors.into()).into_envelope(context)
            );
        }
    };
    if let Some(exclude) = args.get(3, "exclude") {
        let mut list = match high.remove("__exclude__") {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        match exclude {
            Value::Str(names) => list.extend(names.split(',').map(Value::from)),
            Value::Array(more) => list.extend(more.iter().cloned()),
            _ => return Err(invalid("exclude must be a string or a list")),
        }
        high.set("__exclude__", list);
    }
    let jid = args
        .text(7, "orchestration_jid")
        .or_else(|| context.run.jid.as_ref().map(Jid::to_string))
        .unwrap_or_else(|| JidClock::default().next().to_string());
    Ok(run_high(
        context,
        high,
        args.flag(2, "test"),
        jid,
        (host, AllowedSlots::written()),
    )
    .into_envelope(context))
}

/// The master's host, and high data of the files or their errors.
fn collect_high(
    context: &mut RunContext,
    args: &Args,
) -> Result<(Context, Result<Map, Vec<String>>), RunError> {
    let saltenv = args.text(1, "saltenv").unwrap_or_else(|| "base".into());
    let pillarenv = args.text(5, "pillarenv");
    let mut given = Value::Map(pillar(args, 4)?);
    if let Some(renderer) = args.text(6, "pillar_enc")
        && let Err(why) = decrypt_given(
            &(&context.config).into(),
            &mut given,
            &renderer.to_lowercase(),
        )
    {
        // As in stock, it continues with the data as it is.
        log::error!("pillar_enc: the pillar data of the call is not decrypted: {why}");
    }
    let given = given.into_map().unwrap_or_default();
    let host =
        sls::host(&context.config, given, pillarenv.as_deref()).map_err(RunError::Unknown)?;
    let inner = InnerRuns::of(context);
    let runner = move |name: &str, positional: Vec<Value>, keyword: Map| {
        let args = Args {
            positional,
            keyword,
        };
        let ran = call_runner(&inner, name, args);
        let returned = ran.get("return").cloned().unwrap_or_default();
        match ran.get("success").is_some_and(Value::truthy) {
            true => Ok(returned),
            false => Err(format!("{name}: {}", python::str(&returned))),
        }
    };
    let mut source =
        sls::open_renderer(&context.config, &host, Rc::new(runner)).map_err(RunError::Unknown)?;
    let matches = [(saltenv, sls_names(args)?)];
    let found = render_highstate(&mut source, &matches, context.config.state_auto_order);
    let high = if found.errors.is_empty() {
        Ok(found.high)
    } else {
        Err(found.errors)
    };
    Ok((host, high))
}

/// The result of a run under the master's id. Errors take the place of results (`salt/modules/state.py sls`).
struct OrchestrationResult {
    value: Value,
    good: bool,
}

impl OrchestrationResult {
    fn new(config: &MasterConfig, results: Value) -> OrchestrationResult {
        let good = result::check_result(&results, false);
        let value = Value::Map(halite_wire::map! {config.id.as_str() => results});
        OrchestrationResult { value, good }
    }

    /// In the form returned by `state.orchestrate`: with outputter and exit status.
    fn into_envelope(self, context: &mut RunContext) -> RunnerOutput {
        let retcode = i64::from(!self.good);
        context.run.retcode = retcode;
        RunnerOutput {
            value: Value::Map(halite_wire::map! {
                "data" => self.value, "outputter" => "highstate", "retcode" => retcode,
            }),
            out: Some("highstate".to_owned()),
        }
    }

    /// In the form returned by `state.orchestrate_single` and `state.orchestrate_high`: the bare value, which
    /// is also fired as an event.
    fn into_bare(self, context: &mut RunContext) -> RunnerOutput {
        context.run.retcode = i64::from(!self.good);
        let told = halite_wire::map! {"data" => self.value.clone(), "outputter" => "highstate"};
        context.run.fire("progress", told);
        self.value.into()
    }
}

fn run_high(
    context: &mut RunContext,
    mut high: Map,
    test: bool,
    jid: String,
    (host, slots): (Context, AllowedSlots),
) -> OrchestrationResult {
    let rules = CompileOptions {
        disabled_requisites: Vec::new(),
        watching: halite_states::watching().map(str::to_owned).collect(),
        orchestration_jid: Some(jid.clone()),
    };
    let compiled = resolve(&mut high, &rules).and_then(|()| compile(high, &rules));
    match compiled {
        Ok(compiled) => execute(context, compiled, test, jid, (host, slots)),
        Err(errors) => OrchestrationResult::new(&context.config, errors.into()),
    }
}

fn execute(
    context: &mut RunContext,
    compiled: Compiled,
    test: bool,
    jid: String,
    (host, slots): (Context, AllowedSlots),
) -> OrchestrationResult {
    let (config, stop, user) = (&context.config, &context.stop, context.run.user.as_str());
    let inner = InnerRuns::of(context);
    let runner = |name: &str, positional: Vec<Value>, keyword: Map| {
        let args = Args {
            positional,
            keyword,
        };
        call_runner(&inner, name, args)
    };
    let wheel = |name: &str, positional: Vec<Value>, keyword: Map| {
        let jid = JidClock::default().next();
        let call = Call {
            fun: name.to_owned(),
            args: Args {
                positional,
                keyword,
            },
            user: user.to_owned(),
            jid: jid.clone(),
        };
        let mut done = crate::wheel::answer(config, &call);
        done.set("jid", &jid);
        done
    };
    // An engine in Python calls the function itself, so that there is no run.
    let events = match &context.run.bus {
        Some(events) => events.clone(),
        None => RunEvents::open(config, "run", &jid),
    };
    let progress = Progress {
        jid: jid.clone(),
        events: config.state_events,
        total: compiled.graph.chunks.len(),
        ..Progress::default()
    };
    let mut host = MinionStates::new(host, progress, None);
    host.run = Arc::new(RunData::new(compiled.graph.chunks.clone()));
    host.slots = slots;
    let states = MasterStates {
        host,
        config,
        stop,
        jid,
        failhard: config.failhard,
        events,
        runner: &runner,
        wheel: &wheel,
    };
    let options = run::RunOptions {
        test,
        failhard: config.failhard,
        max_parallel: 0,
    };
    OrchestrationResult::new(config, Value::Map(run::run(&states, compiled, &options)))
}

/// How deep orchestrations may call runners that call others.
const MOST_DEEP: usize = 10;

/// What the runs that an orchestration starts have in common.
struct InnerRuns {
    config: MasterConfig,
    stop: StopFlag,
    user: String,
    events: Option<RunEvents>,
    depth: usize,
}

impl InnerRuns {
    fn of(context: &RunContext) -> InnerRuns {
        InnerRuns {
            config: context.config.clone(),
            stop: context.stop.clone(),
            user: context.run.user.clone(),
            events: context.run.bus.clone(),
            depth: context.depth + 1,
        }
    }
}

/// Runs a runner function inside this process, with its own events and record.
fn call_runner(inner: &InnerRuns, name: &str, args: Args) -> Map {
    let InnerRuns {
        config,
        stop,
        user,
        events,
        depth,
    } = inner;
    if *depth > MOST_DEEP {
        let why = format!("{name} is not run: runners have called each other {MOST_DEEP} times");
        return halite_wire::map! {"return" => why, "success" => false};
    }
    let mut quiet = |_: &str, _: &Value, _: bool| {};
    let mut context = RunContext::new(config.clone(), stop.clone(), &mut quiet);
    context.depth = *depth;
    context.run.bus.clone_from(events);
    let mut launch = Launch::by_current_user(config);
    launch.user.clone_from(user);
    let function = super::find(config, name);
    let jid = launch.jid.to_string();
    let done = super::run_as(&mut context, name, function.as_ref(), Ok(args), &launch);
    let (value, success) = match done {
        Ok(ran) => (ran.to_value(), context.run.retcode == 0),
        Err(e) => (e.event_text("runner", name).into(), false),
    };
    halite_wire::map! {"return" => value, "success" => success, "jid" => jid}
}

/// Runs states that are the caller's own. The arguments from `test_at` are `test`, `queue` and `pillar`.
fn run_given(
    context: &mut RunContext,
    args: &Args,
    high: Map,
    test_at: usize,
) -> Result<RunnerOutput, RunError> {
    let jid = own_jid(context);
    let given = pillar(args, test_at + 2)?;
    let host = sls::host(&context.config, given, None).map_err(RunError::Unknown)?;
    let test = args.flag(test_at, "test");
    Ok(run_high(context, high, test, jid, (host, AllowedSlots::All)).into_bare(context))
}

fn own_jid(context: &RunContext) -> String {
    let jid = context.run.jid.as_ref().map(Jid::to_string);
    jid.unwrap_or_else(|| JidClock::default().next().to_string())
}

fn single(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let fun = args.text(0, "fun").unwrap_or_default();
    // `name=false` is a program.
    let name = args.get(1, "name").map(python::str).unwrap_or_default();
    if !fun.contains('.') {
        return Err(invalid(
            "fun must be `module.function`, such as salt.function",
        ));
    }
    let mut declaration = vec![Value::Map(halite_wire::map! {"name" => name.as_str()})];
    for (key, value) in args.keyword.iter() {
        let own = ["fun", "name", "test", "queue", "pillar"];
        if key
            .as_str()
            .is_some_and(|k| !own.contains(&k) && !k.starts_with("__"))
        {
            declaration.push(Value::Map(Map(vec![(key.clone(), value.clone())])));
        }
    }
    let body = halite_wire::map! {
        fun => declaration, "__sls__" => "", "__env__" => "base",
    };
    let high = normalize_high(halite_wire::map! {name => body})?;
    run_given(context, args, high, 2)
}

fn high(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let Some(Value::Map(data)) = args.get(0, "data") else {
        return Err(invalid("data must be a map of ids, as in an SLS file"));
    };
    let high = normalize_high(data.clone())?;
    run_given(context, args, high, 1)
}

/// Normalizes data from a caller like a file.
fn normalize_high(data: Map) -> Result<Map, RunError> {
    struct Given(Option<Value>);
    impl halite_render::state::highstate::SlsSource for Given {
        fn available(&self, _: &str) -> Option<Vec<String>> {
            Some(Vec::new())
        }
        fn render(
            &mut self,
            _: &str,
            _: &str,
        ) -> Result<Option<halite_render::state::highstate::RenderedSls>, String> {
            let data = self.0.take();
            Ok(data.map(|data| halite_render::state::highstate::RenderedSls { data, init: false }))
        }
    }
    let matches = [("base".to_owned(), vec!["data".to_owned()])];
    let found = render_highstate(&mut Given(Some(Value::Map(data))), &matches, true);
    if found.errors.is_empty() {
        Ok(found.high)
    } else {
        Err(RunError::Unknown(found.errors.join("\n")))
    }
}

fn show_sls(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let value = match collect_high(context, args)?.1 {
        Ok(mut high) => match resolve(&mut high, &CompileOptions::default()) {
            Ok(()) => Value::Map(high),
            Err(errors) => Value::from(errors),
        },
        Err(errors) => Value::from(errors),
    };
    context.run.retcode = i64::from(value.as_map().is_none());
    Ok(Value::Map(halite_wire::map! {context.config.id.as_str() => value}).into())
}

//! `halite-call`: the `salt-call` command (`salt/cli/caller.py`).

use super::common::{ArgumentOptions, Common, IgnoredOptions, OutputOptions, fail};
use super::output::texts;
use super::progress::StateProgress;
use super::start::{self, start_as};
use clap::Parser;
use halite_channel::channel::{Channel, Reply};
use halite_channel::interrupt::Stop;
use halite_channel::link::Link;
use halite_channel::pillar_request::PillarQuery;
use halite_channel::session::Session;
use halite_config::{MinionConfig, Roots, load_minion};
use halite_minion::setup::{become_user, make_places};
use halite_modules::execution::bind::INVALID_KEYWORDS;
use halite_modules::execution::{
    CallError, CallOutcome, Context, find_for, proc, sys, template_functions,
};
use halite_modules::execution::{executors, python_returners};
use halite_modules::grains::all_grains;
use halite_modules::guard;
use halite_modules::masters::resolve_master_func;
use halite_modules::pillar;
use halite_modules::returners::{self, ReturnerSelection};
use halite_sys::daemon::make_dir;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_transport::sockets;
use halite_wire::ids::{JidClock, MinionId};
use halite_wire::yaml::{parse_input, yamlify_arg};
use halite_wire::{Map, Value};
use std::io::Write;
use std::sync::Arc;

/// Run a function on this host and show what it returns.
#[derive(Parser, Debug)]
#[command(
    name = "halite-call",
    version,
    override_usage = "halite-call [OPTIONS] <FUNCTION> [ARGUMENTS]...",
    after_help = "Examples:\n  \
        halite-call --local test.ping            no master, no network\n  \
        halite-call --local -g                   the grains of this host\n  \
        halite-call -d cmd.run                   documentation\n  \
        halite-call --out=json cmd.run uptime    with the master's pillar; the master gets the result as well\n\n\
        Exit status: 0 good, 1 the function failed, 2 the key is not accepted, 64 wrong options, 67 there is no account `user`, 77 the key is \
        rejected; with --retcode-passthrough the function's own."
)]
struct CallOptions {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    arguments: ArgumentOptions,

    #[command(flatten)]
    ignored: IgnoredOptions,

    #[command(flatten)]
    output: OutputOptions,

    /// Work without a master: no sign-in, nothing is sent; files and pillar come from file_roots and pillar_roots of this host
    #[arg(long)]
    local: bool,

    /// Directory of the files and states, with --local; overrides the option `file_roots`. Several are searched in turn
    #[arg(long, value_name = "DIR")]
    file_root: Vec<std::path::PathBuf>,

    /// Directory of the pillar, with --local; overrides the option `pillar_roots`. Several are searched in turn
    #[arg(long, value_name = "DIR")]
    pillar_root: Vec<std::path::PathBuf>,

    /// Show the grains
    #[arg(short = 'g', long = "grains")]
    grains: bool,

    /// Show the documentation of the functions whose names start with FUNCTION, or of all
    #[arg(short = 'd', long = "doc", visible_alias = "documentation")]
    doc: bool,

    /// Show the result of each state on standard error as soon as it is there
    #[arg(long)]
    progress: bool,

    /// Show only states that changed something or failed
    #[arg(long, visible_alias = "output_diff")]
    output_diff: bool,

    /// Do not send the result to the master
    #[arg(long)]
    no_return_event: bool,

    /// Exit with the retcode of the function
    #[arg(long)]
    retcode_passthrough: bool,

    /// Show the whole return, not just the value
    #[arg(long, visible_alias = "print-metadata")]
    metadata: bool,

    /// Master to use; overrides the option `master`
    #[arg(long, value_name = "HOST")]
    master: Option<String>,

    /// Minion id; overrides the option `id`
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Seconds to wait for the answer to a sign-in; overrides the option `auth_timeout`
    #[arg(short = 't', long, visible_alias = "timeout", value_name = "SECONDS")]
    auth_timeout: Option<u64>,

    /// Further directory with modules in Python; in addition to the option `module_dirs`
    #[arg(short = 'm', long, visible_alias = "module_dirs", value_name = "DIR")]
    module_dirs: Vec<String>,

    /// Further directory with state modules in Python; in addition to the option `states_dirs`
    #[arg(long, visible_alias = "states_dir", value_name = "DIR")]
    states_dir: Vec<String>,

    /// Accepted for compatibility; grains are never cached
    #[arg(long, visible_alias = "refresh_grains_cache")]
    refresh_grains_cache: bool,

    /// Accepted for compatibility; a single process does not need it
    #[arg(long, value_name = "DIR")]
    cachedir: Option<std::path::PathBuf>,

    /// Executors that run the function, as YAML; overrides the option `module_executors`
    #[arg(long, value_name = "YAML")]
    module_executors: Option<String>,

    /// Options of the executors, as YAML; overrides the option `executor_opts`
    #[arg(long, value_name = "YAML")]
    executor_opts: Option<String>,

    /// Returners that get the result, separated by commas; overrides the option `return`
    #[arg(long = "return", value_name = "RETURNERS")]
    returner: Option<String>,

    /// Alternative configuration of the returners
    #[arg(
        long = "return-config",
        visible_alias = "return_config",
        value_name = "NAME"
    )]
    return_config: Option<String>,

    /// Settings of the returners, as YAML
    #[arg(
        long = "return-kwargs",
        visible_alias = "return_kwargs",
        value_name = "YAML"
    )]
    return_kwargs: Option<String>,

    /// Function and arguments
    #[arg(value_name = "FUNCTION", allow_negative_numbers = true)]
    words: Vec<String>,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<CallOptions>()
}

fn check(options: &CallOptions) -> Result<(), &'static str> {
    start::only_one(options.doc, options.words.get(1..).unwrap_or_default())
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: CallOptions = match start_as(command(), check) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match call(&options) {
        Ok(status) => status,
        Err(e) => {
            eprintln!("{e}");
            e.status
        }
    }
}

fn call(options: &CallOptions) -> Result<i32, ExitError> {
    let (fun, args) = match options.words.split_first() {
        Some((fun, args)) => (fun.as_str(), args),
        None if options.doc || options.grains => ("", &[][..]),
        None => {
            return Ok(fail(
                "name a function, such as test.ping; see --help",
                super::common::EXIT_USAGE,
            ));
        }
    };
    if options.doc {
        return Ok(documentation(options, fun));
    }
    let mut config = load(options)?;
    if options.local {
        config.file_client = "local".to_owned();
    }
    let local = options.local || config.file_client == "local";
    let mut grains = all_grains(&config);
    if !local {
        resolve_master_func(&mut config, &mut grains)?;
    }
    let (config, grains) = (Arc::new(config), Arc::new(grains));
    if options.grains {
        return show(
            options,
            &config,
            "grains",
            Value::Map(grains.as_ref().clone()),
        );
    }
    let mut master = if local {
        None
    } else {
        Some(MasterConnection::open(&config, &grains)?)
    };
    let mut opts = config.as_map();
    opts.set("__cli", "salt-call");
    for (key, text) in [
        (executors::EXECUTORS, &options.module_executors),
        (executors::SETTINGS, &options.executor_opts),
    ] {
        if let Some(text) = text {
            opts.set(key, yamlify_arg(text));
        }
    }
    let pillar = match &mut master {
        Some(connection) => connection.pillar(&grains)?,
        None => pillar::local(&opts, &grains, &PillarQuery::of(&opts), template_functions)?,
    };
    let jid = JidClock::default().next();
    let load = halite_wire::map! {
        "fun" => fun, "pid" => std::process::id(), "jid" => jid.as_str(), "tgt" => "salt-call",
    };
    let ctx = Context {
        id: config.id.clone(),
        grains,
        pillar: Arc::new(pillar),
        opts: Arc::new(opts),
        cachedir: config.cachedir.clone(),
        job: Some(load.clone()),
        master: match &master {
            Some(connection) => connection.link()?,
            None => Link::default(),
        },
        python: Default::default(),
    };
    // If the directory is not writable, find_job does not see this call; that is all.
    let noted = proc::write(&config.cachedir, jid.as_str(), &load, std::process::id()).is_ok();
    if options.progress {
        let progress = StateProgress::new();
        halite_states::on_result(Box::new(move |result, total| {
            progress.show(None, result, total)
        }));
    }
    let outcome = guard::guarded(
        &ctx,
        fun,
        &wire_args(args, &options.arguments.verbatim()),
        &guard::FunctionFilter::from_opts(&config.as_map()).despite_blackout(),
    );
    if noted && let Err(e) = proc::remove(&config.cachedir, jid.as_str()) {
        log::warn!("the file of job {jid} cannot be removed: {e}");
    }
    if let Some(status) = report_error(&ctx, fun, &outcome) {
        return Ok(status);
    }
    let python = ctx.python.noted();
    if let Some(told) = texts::run_elsewhere(fun, &python) {
        eprintln!("{told}");
    }
    if let Some(connection) = master.as_mut().filter(|_| !options.no_return_event) {
        let mut load = returner_load("req".into(), fun, args, &outcome, &python);
        load.set("cmd", "_return");
        load.set("id", config.id.as_str());
        connection.send_return(&load);
    }
    let returners = returners_for(options, &ctx);
    let returned = (!returners.names.is_empty())
        .then(|| returner_load(jid.as_str().into(), fun, args, &outcome, &python));
    let shown = if options.metadata {
        halite_wire::map! {
            "jid" => jid.as_str(), "return" => outcome.ret, "retcode" => outcome.retcode,
            "id" => config.id.as_str(), "fun" => fun, "fun_args" => args.to_vec(),
        }
        .into()
    } else {
        outcome.ret
    };
    let out = if options.metadata {
        "nested"
    } else {
        outcome.out.as_deref().unwrap_or("nested")
    };
    show(options, &config, out, shown)?;
    if let Some(returned) = returned {
        // Last, so that a hanging database delays nothing else.
        python_returners::run(&ctx, &returners, returned);
    }
    Ok(match (options.retcode_passthrough, outcome.retcode) {
        // The system keeps the lowest eight bits, as for Python's sys.exit.
        (true, code) => (code & 0xff) as i32,
        (false, 0) => 0,
        (false, _) => 1,
    })
}

/// The returners that get the result in addition to the master.
fn returners_for(options: &CallOptions, ctx: &Context) -> ReturnerSelection {
    let names = match &options.returner {
        Some(names) => names.clone(),
        None => returners::configured(&ctx.opts),
    };
    let kwargs = options.return_kwargs.as_deref().map(yamlify_arg);
    let config = options.return_config.as_deref().map(Value::from);
    ReturnerSelection::named(&names, config, kwargs)
}

/// The load for returners, in the form of `_return`; `python` is what ran in Python.
fn returner_load(
    jid: Value,
    fun: &str,
    args: &[String],
    outcome: &CallOutcome,
    python: &Map,
) -> Map {
    let mut ret = halite_wire::map! {
        "jid" => jid, "return" => outcome.ret.clone(), "retcode" => outcome.retcode,
    };
    if let Some(out) = &outcome.out {
        ret.set("out", out.as_str());
    }
    ret.set("fun", fun);
    ret.set("fun_args", args.to_vec());
    ret.set("success", outcome.success);
    ret.0.extend(python.clone().0);
    ret
}

fn load(options: &CallOptions) -> Result<MinionConfig, ExitError> {
    let bad = |e: &dyn std::fmt::Display| ExitError::new(1, format!("ERROR: {e}"));
    let mut config = load_minion(&options.common.config_dir).map_err(|e| bad(&e))?;
    if let Some(id) = &options.id {
        config.id = id.clone();
    }
    if let Some(master) = &options.master {
        config.master = vec![master.clone()];
    }
    config.module_dirs.extend(options.module_dirs.clone());
    config.states_dirs.extend(options.states_dir.clone());
    if let Some(seconds) = options.auth_timeout {
        config.auth_timeout = seconds;
    }
    if let Some(dir) = &options.cachedir {
        config.cachedir = dir.clone();
    }
    for (dirs, roots) in [
        (&options.file_root, &mut config.file_roots),
        (&options.pillar_root, &mut config.pillar_roots),
    ] {
        let dirs: Result<Vec<_>, _> = dirs.iter().map(std::path::absolute).collect();
        let dirs = dirs.map_err(|e| bad(&e))?;
        if !dirs.is_empty() {
            let dirs = dirs.iter().map(|dir| dir.to_string_lossy().into_owned());
            *roots = Roots(vec![("base".to_owned(), dirs.collect())]);
        }
    }
    config.id.parse::<MinionId>().map_err(|e| bad(&e))?;
    // The minion's account owns its files, so root switches to it (`salt/utils/verify.py check_user`).
    let places = [&config.pki_dir, &config.cachedir, &config.sock_dir];
    if config.user != "root" && places.into_iter().all(|place| !place.exists()) {
        make_places(&config)?;
    }
    become_user(&config)?;
    // As in stock, a call does not create a missing log file.
    options.common.start_log(config.command_log_options());
    log::debug!("Reading configuration from {}", config.conf_file.display());
    for warning in std::mem::take(&mut config.warnings) {
        log::debug!("{warning}");
    }
    Ok(config)
}

/// Arguments in the form used on the wire: keyword arguments are one map at the end (`salt/utils/args.py
/// condition_input`).
fn wire_args(args: &[String], verbatim: &[&str]) -> Vec<Value> {
    let (mut positional, keywords) = parse_input(args, verbatim);
    if !keywords.is_empty() {
        let mut map = keywords;
        map.set("__kwarg__", true);
        positional.push(map.into());
    }
    positional
}

fn documentation(options: &CallOptions, prefix: &str) -> i32 {
    // The site's own modules are in configured directories; without a configuration there are none.
    let ctx = match load_minion(&options.common.config_dir) {
        // Modules may ask for grains before they have functions.
        Ok(config) => Context {
            grains: Arc::new(all_grains(&config)),
            opts: Arc::new(config.as_map()),
            ..Context::default()
        },
        Err(_) => Context::default(),
    };
    let mut text = String::new();
    for (name, function) in sys::all_functions(&ctx, |name| name.starts_with(prefix)) {
        text.push_str(&format!("{name}:\n{}\n\n", function.doc));
    }
    // The reader may be gone, which is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}

/// Errors printed to standard error, without a result to show (`salt/cli/caller.py BaseCaller.call`).
fn report_error(ctx: &Context, fun: &str, outcome: &CallOutcome) -> Option<i32> {
    match outcome.fault.as_ref()? {
        // The return is the documentation of functions with similar names.
        CallError::Missing(_) if outcome.ret.as_map().is_some() => None,
        CallError::Missing(text) => {
            eprintln!("{text}");
            Some(255)
        }
        CallError::CommandNotFound(text) => {
            eprintln!("Command required for '{fun}' not found: {text}");
            Some(1)
        }
        CallError::Command(text) => {
            eprintln!("Error running '{fun}': {text}");
            Some(1)
        }
        // Python functions say it as stock does, but for what is said before they are called.
        CallError::Invocation(text)
            if text.starts_with(INVALID_KEYWORDS)
                || find_for(ctx, fun).is_none_or(|function| function.python.is_none()) =>
        {
            eprintln!("{text}");
            Some(1)
        }
        CallError::Type(text) | CallError::Invocation(text) => {
            eprintln!("\nPassed invalid arguments: {text}.\n\nUsage:");
            if let Some(function) = find_for(ctx, fun) {
                println!("{}", function.doc);
            }
            Some(1)
        }
        CallError::Raised(class, text) if text.is_empty() => {
            eprintln!("{class}");
            Some(1)
        }
        CallError::Traced(class, text, trace) => {
            let colon = if text.is_empty() { "" } else { ": " };
            eprintln!("Traceback (most recent call last):\n{trace}{class}{colon}{text}");
            Some(1)
        }
        CallError::Raised(class, text) => {
            eprintln!("{class}: {text}");
            Some(1)
        }
    }
}

fn show(
    options: &CallOptions,
    config: &MinionConfig,
    out: &str,
    value: Value,
) -> Result<i32, ExitError> {
    let bad = |e: String| ExitError::new(1, format!("ERROR: {e}"));
    let mut screen = options
        .output
        .open(super::common::output_config!(config))
        .map_err(bad)?;
    screen.style.state_output_diff |= options.output_diff;
    let name = super::output::choose_name(screen.out.as_deref(), out, false, "").to_owned();
    screen.show(&name, &halite_wire::map! {"local" => value}.into());
    Ok(0)
}

/// The connection to the master.
struct MasterConnection {
    session: Arc<Session>,
    stop: Stop,
    channel: Channel,
}

impl MasterConnection {
    fn open(config: &Arc<MinionConfig>, grains: &Map) -> Result<MasterConnection, ExitError> {
        make_dir(&config.cachedir, 0o755)
            .map_err(|e| ExitError::io("cachedir", &config.cachedir, &e))?;
        let stop = Stop::of(&StopFlag::install()?)?;
        let session = Arc::new(Session::new(
            config.clone(),
            grains,
            &sockets::Context::new(),
            true,
        )?);
        if session.renew(0, &stop)?.is_none() {
            return Err(interrupted());
        }
        Ok(MasterConnection {
            channel: Channel::new(&session, stop.clone())?,
            session,
            stop,
        })
    }

    /// A link for the called function.
    fn link(&self) -> Result<Link, ExitError> {
        Ok(Link::over(Channel::new(&self.session, self.stop.clone())?))
    }

    fn pillar(&mut self, grains: &Map) -> Result<Map, ExitError> {
        pillar::fetch_or_compile(&mut self.channel, grains, false, template_functions)?
            .ok_or_else(interrupted)
    }

    /// Sends the result to the master; a failure does not change the outcome of the call.
    fn send_return(&mut self, load: &Map) {
        let (timeout, tries) = self.channel.usual();
        match self.channel.call(load, timeout, tries) {
            Ok(Reply::Value(_)) => {}
            Ok(Reply::Stopped) => {}
            Ok(Reply::Silence) => log::error!("the master did not acknowledge the result"),
            Ok(Reply::Refused(words)) => log::error!("the master refused the result: {words}"),
            Err(e) => log::error!("the result did not reach the master: {e}"),
        }
    }
}

fn interrupted() -> ExitError {
    ExitError::new(130, "Exiting gracefully on Ctrl-c")
}

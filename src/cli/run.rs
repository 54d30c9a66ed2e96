//! `halite-run`: runners on the master's host.

use super::auth::AuthOptions;
use super::common::{ArgumentOptions, Common, EXIT_USAGE, IgnoredOptions, OutputOptions, fail};
use super::gateways::register_runners;
use super::output::{Outputter, render};
use super::salt::{output_config, start_log};
use super::start::{self, start_as};
use clap::Parser;
use halite_client::runner::{self, Args, Function, Launch, RunContext};
use halite_config::{MasterConfig, load_master};
use halite_master::functions::{Call, RUNNER_ROLE};
use halite_sys::daemon::private_umask;
use halite_sys::exit::EXIT_NO_USER;
use halite_sys::process::{drop_privileges, role};
use halite_sys::signals::StopFlag;
use halite_wire::Value;
use halite_wire::ids::Jid;
use halite_wire::yaml::parse_input;
use std::cell::RefCell;
use std::io::Read;
use std::io::Write;
use std::rc::Rc;

/// Run a function on the master: inspect jobs, list connected minions, watch events.
#[derive(Parser, Debug)]
#[command(
    name = "halite-run",
    version,
    after_help = "Examples:\n  halite-run -d                            the functions and what they do\n  halite-run manage.status\n  halite-run jobs.list_jobs search_function='state.*'\n  halite-run state.event 'salt/job/*' pretty=True\n\nExit status: 0 good, 1 the function failed or there is none of that name, 64 wrong options."
)]
struct RunOptions {
    #[command(flatten)]
    common: Common,

    /// Function
    #[arg(value_name = "FUNCTION")]
    fun: Option<String>,

    /// Arguments: values are read as YAML, name=value is a keyword argument
    #[arg(value_name = "ARGUMENTS", allow_negative_numbers = true)]
    args: Vec<String>,

    /// Show the documentation of a function, of a module, or of all
    #[arg(short = 'd', long = "doc", visible_alias = "documentation")]
    doc: bool,

    /// Run the function in a separate process and return at once; the result goes to the bus and the job cache
    #[arg(long = "async")]
    detach: bool,

    /// Seconds to wait for minions; overrides the option `timeout`
    #[arg(short = 't', long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Do not show the result
    #[arg(long)]
    quiet: bool,

    /// Read further arguments from standard input, one per line
    #[arg(long)]
    args_stdin: bool,

    /// Execute an order from standard input, for programs on this host
    #[arg(long, hide = true)]
    order: bool,

    /// Job id to use
    #[arg(long, value_name = "JID")]
    jid: Option<Jid>,

    /// Print the job id
    #[arg(long)]
    show_jid: bool,

    /// Accepted for compatibility: runners need no grains
    #[arg(long)]
    skip_grains: bool,

    #[command(flatten)]
    auth: AuthOptions,

    #[command(flatten)]
    arguments: ArgumentOptions,

    #[command(flatten)]
    ignored: IgnoredOptions,

    #[command(flatten)]
    output: OutputOptions,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<RunOptions>()
}

fn check(options: &RunOptions) -> Result<(), &'static str> {
    start::only_one(options.doc, &options.args)
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: RunOptions = match start_as(command(), check) {
        Ok(options) => options,
        Err(status) => return status,
    };
    register_runners();
    if options.doc {
        return document(&options);
    }
    let mut config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return fail(e, 1),
    };
    // The master's account owns its files, so root switches to it (`salt/utils/verify.py check_user`).
    if nix::unistd::geteuid().is_root()
        && !options.auth.is_enabled()
        && let Err(e) = drop_privileges(&config.user)
    {
        return fail(e, EXIT_NO_USER);
    }
    if let Some(timeout) = options.timeout {
        config.timeout = timeout;
    }
    start_log(&options.common, &config);
    if role().as_deref() == Some(RUNNER_ROLE) {
        private_umask();
        return runner::process::run(config);
    }
    if options.order {
        return super::order::run(config);
    }
    let Some(name) = &options.fun else {
        return fail("name a function; `halite-run -d` lists them", EXIT_USAGE);
    };
    if options.auth.is_enabled() {
        return remote(&options, name, config);
    }
    let Some(function) = runner::find(&config, name) else {
        let why = runner::missing(&config, name).to_string();
        let why = why.trim_end_matches('.');
        return fail(format!("{why}; `halite-run -d` lists all functions"), 1);
    };
    let args = match options.arguments() {
        Ok(args) => args,
        Err(e) => return fail(e, 1),
    };
    let mut launch = Launch::by_current_user(&config);
    if let Some(jid) = &options.jid {
        launch.jid = jid.clone();
    }
    if options.show_jid {
        println!("jid: {}", launch.jid);
    }
    if options.detach {
        detach(&function, args, launch)
    } else {
        execute(&options, config, &function, args, &launch)
    }
}

impl RunOptions {
    fn arguments(&self) -> Result<Args, String> {
        let mut words = self.args.clone();
        if self.args_stdin {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|e| format!("standard input: {e}"))?;
            words.extend(text.lines().map(str::to_owned));
        }
        let (positional, keyword) = parse_input(&words, &self.arguments.verbatim());
        Ok(Args {
            positional,
            keyword,
        })
    }
}

fn detach(function: &Function, args: Args, launch: Launch) -> i32 {
    let tag = format!("salt/run/{}", launch.jid);
    let call = Call {
        fun: function.name.to_owned(),
        args,
        jid: launch.jid,
        user: launch.user,
    };
    match runner::process::start(&call) {
        Ok(()) => {
            eprintln!(
                "The runner continues in the background; its result will be in the event {tag}/ret, and `halite-run jobs.lookup_jid {}` will show it.",
                call.jid
            );
            0
        }
        Err(e) => fail(format!("cannot start the runner: {e}"), 1),
    }
}

fn execute(
    options: &RunOptions,
    config: MasterConfig,
    function: &Function,
    args: Args,
    launch: &Launch,
) -> i32 {
    let screen = match options.output.open(output_config(&config)) {
        Ok(screen) => Rc::new(RefCell::new(screen)),
        Err(e) => return fail(e, 1),
    };
    let mut style = screen.borrow().style.clone();
    let mut show = |tag: &str, data: &Value, pretty: bool| {
        style.indent = Some(if pretty { 4 } else { -1 });
        let text = render(Outputter::Json, data, &style);
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{tag}\t{text}")
            .and_then(|()| out.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    };
    let stop = StopFlag::install().unwrap_or_default();
    let mut context = RunContext::new(config, stop, &mut show);
    let quiet = options.quiet;
    let progress = screen.clone();
    context.run.printer = Some(Box::new(move |value| {
        if !quiet {
            let mut screen = progress.borrow_mut();
            let name = screen.out.clone().unwrap_or_else(|| "nested".into());
            screen.show(&name, value);
        }
    }));
    let ran = runner::run_as(
        &mut context,
        function.name,
        Some(function),
        Ok(args),
        launch,
    );
    let ran = match ran {
        Ok(ran) => ran,
        Err(e) => return fail(e, 1),
    };
    let own = ran.value.as_map().and_then(|m| m.int("retcode"));
    if !quiet && !ran.value.is_nil() {
        let mut screen = screen.borrow_mut();
        let name = screen.out.clone().or(ran.out);
        screen.show(&name.unwrap_or_else(|| "nested".into()), &ran.value);
    }
    let status = match context.run.retcode {
        0 => own.unwrap_or(0),
        status => status,
    };
    i32::try_from(status).unwrap_or(1)
}

/// Calls the function through the master, which decides what this user may do.
fn remote(options: &RunOptions, name: &str, config: MasterConfig) -> i32 {
    let mut screen = match options.output.open(output_config(&config)) {
        Ok(screen) => screen,
        Err(e) => return fail(e, 1),
    };
    let mut client = match options.auth.client(config) {
        Ok(client) => client,
        Err(why) => return fail(why, 1),
    };
    let args = match options.arguments() {
        Ok(args) => args,
        Err(e) => return fail(e, 1),
    };
    let patience = options.timeout.unwrap_or(super::remote::PATIENCE);
    match super::remote::runner(&mut client, name, args.positional, args.keyword, patience) {
        Ok(answer) => {
            let out = screen.out.clone().or(answer.out);
            screen.show(&out.unwrap_or_else(|| "nested".into()), &answer.value);
            0
        }
        Err(e) => fail(e, 1),
    }
}

fn document(options: &RunOptions) -> i32 {
    let wanted = options.fun.as_deref().unwrap_or_default();
    // Without a configuration there are no files of users.
    let all = match load_master(&options.common.config_dir) {
        Ok(config) => runner::all_functions(&config),
        Err(_) => runner::functions().copied().collect(),
    };
    let mut found = false;
    for function in all {
        let module = function.name.split('.').next();
        if wanted.is_empty() || function.name == wanted || module == Some(wanted) {
            found = true;
            println!("{}:\n", function.name);
            println!("    {}\n", function.doc);
            println!(
                "        halite-run {}\n",
                format!("{} {}", function.name, function.usage()).trim_end()
            );
        }
    }
    if found {
        return 0;
    }
    fail(
        format!("'{wanted}' is not available; `halite-run -d` lists all functions"),
        1,
    )
}

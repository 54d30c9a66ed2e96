//! `halite-run`: runners on the master's host.

use super::common::{Accepted, ArgumentOptions, Common, EXIT_USAGE, OutputOptions, fail};
use super::output::{Outputter, render};
use super::salt::{output_config, start_log};
use super::start::{self, start};
use crate::client::runner::{self, Args, RunContext};
use crate::config::load_master;
use crate::sys::signals::StopFlag;
use crate::wire::Value;
use crate::wire::yaml::parse_input;
use clap::Parser;
use std::io::Write;

/// Run a function on the master: look at jobs, see who is up, watch events.
#[derive(Parser, Debug)]
#[command(
    name = "halite-run",
    version,
    after_help = "Examples:\n  halite-run -d                            the functions and what they do\n  halite-run manage.status\n  halite-run jobs.list_jobs search_function='state.*'\n  halite-run state.event 'salt/job/*' pretty=True"
)]
struct Options {
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

    /// Seconds to wait for minions; overrides the option `timeout`
    #[arg(short = 't', long, value_name = "SECONDS")]
    timeout: Option<u64>,

    #[command(flatten)]
    arguments: ArgumentOptions,

    #[command(flatten)]
    accepted: Accepted,

    #[command(flatten)]
    output: OutputOptions,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<Options>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: Options = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    if options.doc {
        return document(options.fun.as_deref().unwrap_or_default());
    }
    let Some(name) = &options.fun else {
        return fail("which function? `halite-run -d` lists them", EXIT_USAGE);
    };
    let mut config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return fail(e, 1),
    };
    if let Some(timeout) = options.timeout {
        config.timeout = timeout;
    }
    start_log(&options.common, &config);
    let mut screen = match options.output.open(&output_config(&config)) {
        Ok(screen) => screen,
        Err(e) => return fail(e, 1),
    };
    let Some(function) = runner::find(name) else {
        return fail(
            format!("'{name}' is not available; `halite-run -d` lists what is"),
            1,
        );
    };
    let (positional, keyword) = parse_input(&options.args, &options.arguments.verbatim());
    let mut style = screen.style.clone();
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
    let mut context = RunContext {
        jobs: crate::store::open::job_store(&config),
        config,
        stop: StopFlag::install().unwrap_or_default(),
        show: &mut show,
    };
    match runner::run(
        &mut context,
        function,
        Args {
            positional,
            keyword,
        },
    ) {
        Ok(ran) => {
            if !ran.value.is_nil() {
                let name = screen
                    .out
                    .clone()
                    .or(ran.out)
                    .unwrap_or_else(|| "nested".into());
                screen.show(&name, &ran.value);
            }
            0
        }
        Err(e) => fail(e, 1),
    }
}

fn document(wanted: &str) -> i32 {
    let mut found = false;
    for function in runner::functions() {
        let module = function.name.split('.').next();
        if wanted.is_empty() || function.name == wanted || module == Some(wanted) {
            found = true;
            println!("{} {}", function.name, function.usage());
            println!("    {}\n", function.doc);
        }
    }
    if found {
        return 0;
    }
    fail(
        format!("'{wanted}' is not available; `halite-run -d` lists what is"),
        1,
    )
}

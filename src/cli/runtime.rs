//! `halite-runtime`.

use super::common::{Common, fail};
use super::daemon::{DaemonOptions, background, begin, checked, dump, end, pid_file, refused};
use super::start::{self, start_as};
use clap::Parser;
use halite_arena::runtime::engine::{Spec, interpreter};
use halite_arena::runtime::{self, module_limits};
use halite_arena::wire::{Channel, Mode};
use halite_config::{Role, RuntimeConfig, load_runtime, sample_config};
use halite_sys::daemon::{Report, make_dir};
use halite_sys::ownership::chown_tree;
use halite_sys::process::drop_privileges;
use halite_sys::sandbox::Sandbox;
use halite_sys::service::Service;
use halite_sys::signals::StopFlag;
use std::path::{Path, PathBuf};

/// The halite runtime: executes WASM modules for an ARENA orchestrator over MQTT.
#[derive(Parser, Debug)]
#[command(
    name = "halite-runtime",
    version,
    after_help = "A runtime connects to an MQTT broker, registers with the orchestrator, and runs the modules that it is sent: a halite master \
        with 'gateways: arena', or any other that speaks ARENA's messages. Modules are WebAssembly with WASI preview 1. They get arguments \
        and environment, write to standard output and error, and have channels: files whose writes are published and whose reads wait for \
        messages. Nothing else of this host is within their reach.\n\n\
        Configuration: the file runtime in the configuration directory, and runtime.d/*.conf. The least of it:\n  \
        servers: [broker.example.net:1883]\n\n\
        Files: what a module is made of comes from below `module_dir`, from the master's file server (salt://, with `minion_config_dir`), \
        or from web servers in `file_hosts` (https://...#sha256=DIGEST).\n\n\
        Masters: with a halite master, the runtime's name waits among the keys until the operator accepts it:\n  \
        halite-key -L; halite-key -a NAME\n  \
        halite NAME arena.create file=hello.wasm\n  \
        halite NAME arena.modules\n\n\
        Signals: TERM and INT end it: modules are ended, the orchestrator is told (stop_timeout).\n\n\
        Exit status: 0 stopped, 1 cannot run, 64 wrong options, 78 the configuration lacks something; with --run that of the module, \
        or 134 it crashed, 137 over a limit, 143 ended by a signal.\n\n\
        Examples:\n  \
        halite-runtime --sample-config                    print a file to begin with\n  \
        halite-runtime -l info                            serve, and tell on the terminal what happens\n  \
        halite-runtime -d                                 the same in the background\n  \
        halite-runtime --run hello.wasm                   try a module in this terminal, without any broker\n  \
        halite-runtime --run tool.wasm --env LEVEL=3 --channel light=home/light:rw -- one two"
)]
struct RuntimeOptions {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    daemon: DaemonOptions,

    /// Run this module here, connected to this terminal, until it exits; what it publishes is shown
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,

    /// With --run: a variable of the module's environment
    #[arg(long, value_name = "NAME=VALUE", requires = "run")]
    env: Vec<String>,

    /// With --run: a channel of the module; MODE is r, w or rw
    #[arg(long, value_name = "PATH=TOPIC[:MODE]", requires = "run", value_parser = channel)]
    channel: Vec<Channel>,

    /// With --run: arguments of the module
    #[arg(value_name = "ARGUMENTS", requires = "run", last = true)]
    words: Vec<String>,
}

/// Exit status for an incomplete configuration (`EX_CONFIG`).
const EXIT_CONFIG: i32 = 78;

/// Parses an argument of `--channel`.
fn channel(text: &str) -> Result<Channel, String> {
    let (path, topic) = text.split_once('=').ok_or("write PATH=TOPIC")?;
    let ending = topic.rsplit_once(':');
    let ending = ending.and_then(|(topic, mode)| Some((topic, mode.parse().ok()?)));
    let (topic, mode) = ending.unwrap_or((topic, Mode::ReadWrite));
    Channel::new(path, mode, topic).map_err(|e| e.to_string())
}

fn check(options: &RuntimeOptions) -> Result<(), &'static str> {
    let good = |text: &String| {
        text.split_once('=')
            .is_some_and(|(name, _)| !name.is_empty())
    };
    if options.env.iter().all(good) {
        Ok(())
    } else {
        Err("write --env NAME=VALUE")
    }
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<RuntimeOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: RuntimeOptions = match start_as(command(), check) {
        Ok(options) => options,
        Err(status) => return status,
    };
    if options.daemon.sample_config {
        print!("{}", sample_config(Role::Runtime));
        return 0;
    }
    let config = match load(&options) {
        Ok(config) => config,
        Err(e) => return refused(&e, 1),
    };
    if options.daemon.config_dump {
        return dump(config.as_map());
    }
    if let Some(file) = &options.run {
        return match run_module(&options, &config, file) {
            Ok(status) => status,
            Err(why) => fail(why, 1),
        };
    }
    let lacking = config.incomplete();
    if options.daemon.check.check_config {
        let faults: Vec<String> = lacking.into_iter().collect();
        return checked(&config.conf_file, &config.warnings, &faults);
    }
    if let Some(why) = lacking {
        return refused(&why, EXIT_CONFIG);
    }
    if options.daemon.starts_another() {
        return background();
    }
    serve(&options, config)
}

fn load(options: &RuntimeOptions) -> Result<RuntimeConfig, String> {
    let dir = &options.common.config_dir;
    let mut config = load_runtime(dir).map_err(|e| e.to_string())?;
    options
        .daemon
        .overlay(&mut config.user, &mut config.pidfile);
    Ok(config)
}

/// Runs a module in the terminal; returns its exit status.
fn run_module(
    options: &RuntimeOptions,
    config: &RuntimeConfig,
    file: &Path,
) -> Result<i32, String> {
    options.common.start_log(config.command_log_options());
    let code = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let limits = module_limits(&config.limits());
    if code.len() > limits.code {
        let most = limits.code;
        return Err(format!(
            "{}: larger than {most} bytes (module_size)",
            file.display()
        ));
    }
    let program = file.file_name().unwrap_or_default().to_string_lossy();
    let spec = Spec {
        uuid: "terminal".parse().map_err(|e| format!("{e}"))?,
        code,
        argv: options.words.clone(),
        program: program.into_owned(),
        env: options.env.clone(),
        channels: options.channel.clone(),
        stdin: true,
        limits,
    };
    let stop = StopFlag::install().map_err(|e| e.to_string())?;
    let end = runtime::try_out(spec, &*interpreter(), &stop)?;
    if !end.reason.is_empty() {
        eprintln!("{}: {}", end.status, end.reason);
    }
    Ok(runtime::exit_status(&end))
}

fn serve(options: &RuntimeOptions, mut config: RuntimeConfig) -> i32 {
    let warnings = std::mem::take(&mut config.warnings);
    let mut report = begin(&options.common, config.log_options(), warnings);
    let ended = work(&config, &mut report).map_err(|why| (why, 1));
    end(ended, &mut report)
}

fn work(config: &RuntimeConfig, report: &mut Report) -> Result<(), String> {
    let stop = StopFlag::install().map_err(|e| e.to_string())?;
    let _kept = pid_file(&config.pidfile)?;
    if !config.user.is_empty() {
        let dir = &config.cachedir;
        let failed = |e: std::io::Error| format!("cachedir: {}: {e}", dir.display());
        make_dir(dir, 0o700).map_err(failed)?;
        if nix::unistd::geteuid().is_root() {
            chown_tree(dir, &config.user, &[]).map_err(failed)?;
        }
        drop_privileges(&config.user).map_err(|e| e.to_string())?;
    }
    // Modules run in an interpreter, in threads.
    let sandbox = Sandbox::daemon(Vec::new());
    sandbox.enter().map_err(|e| e.to_string())?;
    // Ready already now: a broker that is down must not keep the runtime from trying to connect.
    report.ready();
    let mut service = Service::inherited();
    service.ready("looking for the broker");
    runtime::run(config, &interpreter(), &stop, &mut service).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_arena::wire::Mode;

    #[test]
    fn channels_of_the_command_line() {
        let read = |text: &str| {
            let channel = channel(text)?;
            let parts = (channel.path.to_string(), channel.topic.to_string());
            Ok::<_, String>((parts.0, parts.1, channel.mode))
        };
        let is = |path: &str, topic: &str, mode| Ok((path.to_owned(), topic.to_owned(), mode));
        assert_eq!(
            read("light=home/light:r"),
            is("light", "home/light", Mode::Read)
        );
        assert_eq!(
            read("light=home/light"),
            is("light", "home/light", Mode::ReadWrite)
        );
        assert_eq!(read("a/b=home:8080:w"), is("a/b", "home:8080", Mode::Write));
        for bad in ["light", "=x", "a=", "../a=x", "a=x/+"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}

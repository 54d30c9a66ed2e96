//! Running rabbitmqctl and rabbitmq-plugins.

use crate::execution::cmd::which;
use crate::execution::command_helpers::{Argv, run_all_as};
use crate::execution::declare::Result;
use crate::execution::program::CommandOutput;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, map};

/// Status with which rabbitmqctl refuses its words.
const USAGE: i64 = 64;

fn who(call: &Call<'_>) -> Map {
    map! {"runas" => call.arg("runas").clone(), "reset_system_locale" => false}
}

/// Runs rabbitmqctl as the user of the call.
///
/// # Errors
/// It is not there.
pub fn ctl<T: Into<String>>(
    call: &mut Call<'_>,
    words: impl IntoIterator<Item = T>,
) -> Result<CommandOutput> {
    let mut argv = Argv::which("rabbitmqctl")?;
    argv.add(words);
    let kwargs = who(call);
    run_all_as(call, argv, kwargs)
}

/// Runs rabbitmqctl with a secret, which it reads from standard input, where no other process sees it.
///
/// # Errors
/// As [`ctl`].
pub fn ctl_with_secret(call: &mut Call<'_>, words: &[&str], secret: &str) -> Result<CommandOutput> {
    let mut argv = Argv::which("rabbitmqctl")?;
    argv.add(words.iter().copied());
    let mut kwargs = who(call);
    kwargs.set("output_loglevel", "quiet");
    let plain = kwargs.clone();
    kwargs.set("stdin", format!("{secret}\n"));
    // It takes blanks off what it reads.
    let mut ran = if secret == secret.trim() {
        run_all_as(call, argv.clone(), kwargs)?
    } else {
        CommandOutput {
            retcode: USAGE,
            ..CommandOutput::default()
        }
    };
    if ran.retcode == USAGE {
        // Before 3.8 it had to be a word.
        if secret.starts_with('-') {
            argv.add(["--"]);
        }
        argv.add([secret]);
        return run_all_as(call, argv, plain);
    }
    let kept = ran
        .stdout
        .lines()
        .filter(|line| line.trim_end() != "Password:");
    ran.stdout = kept.collect::<Vec<_>>().join("\n");
    Ok(ran)
}

/// Whether a program did what it should.
///
/// # Errors
/// The program failed, or had something to say against it.
pub fn check(ran: &CommandOutput) -> Result<()> {
    if ran.ok() && ran.stderr.is_empty() {
        return Ok(());
    }
    let text = format!("RabbitMQ command failed: {}", ran.stderr);
    Err(CallError::Command(text))
}

/// What it printed, under a word that says what was done.
///
/// # Errors
/// As [`check`].
pub fn done(ran: CommandOutput, word: &str) -> Result {
    check(&ran)?;
    Ok(map! {word => ran.stdout}.into())
}

/// A command whose words are arguments of the call.
///
/// # Errors
/// As [`ctl`] and [`check`].
pub fn plain(call: &mut Call<'_>, command: &[&str], args: &[&str], word: &str) -> Result {
    let mut words: Vec<String> = command.iter().map(|w| (*w).to_owned()).collect();
    words.extend(args.iter().map(|arg| python::str(call.arg(arg))));
    done(ctl(call, words)?, word)
}

/// A command whose output is the answer.
///
/// # Errors
/// As [`ctl`] and [`check`].
pub fn show(call: &mut Call<'_>, command: &str) -> Result {
    let ran = ctl(call, [command])?;
    check(&ran)?;
    Ok(ran.stdout.into())
}

/// `rabbitmq.join_cluster`.
///
/// # Errors
/// As [`ctl`] and [`check`].
pub fn join_cluster(call: &mut Call<'_>) -> Result {
    let node = format!(
        "{}@{}",
        python::str(call.arg("user")),
        python::str(call.arg("host"))
    );
    let mut words = vec!["join_cluster".to_owned()];
    if call.flag("ram_node") {
        words.push("--ram".to_owned());
    }
    words.push(node);
    show(call, "stop_app")?;
    let ran = ctl(call, words)?;
    show(call, "start_app")?;
    done(ran, "Join")
}

/// Some systems have rabbitmq-plugins only below the server's own directory.
fn plugins_program(call: &mut Call<'_>) -> Result<String> {
    if let Some(found) = which("rabbitmq-plugins") {
        return Ok(found);
    }
    let version = server_version(call)?;
    Ok(format!(
        "/usr/lib/rabbitmq/lib/rabbitmq_server-{version}/sbin/rabbitmq-plugins"
    ))
}

/// The version of the server's package; empty if it is not from a package.
///
/// # Errors
/// The package manager cannot be asked.
pub fn server_version(call: &mut Call<'_>) -> Result<String> {
    let package = if call.ctx.grains.str("os_family") == Some("FreeBSD") {
        "rabbitmq"
    } else {
        "rabbitmq-server"
    };
    let version = call.salt("pkg.version", vec![package.into()], Map::new())?;
    let version = python::str(&version);
    Ok(version.split('-').next().unwrap_or_default().to_owned())
}

fn run_plugins(call: &mut Call<'_>, words: &[&str]) -> Result<CommandOutput> {
    let mut argv = Argv::new(plugins_program(call)?);
    argv.add(words.iter().copied());
    let kwargs = who(call);
    run_all_as(call, argv, kwargs)
}

/// The names of plugins.
///
/// # Errors
/// As [`ctl`] and [`check`].
pub fn plugins(call: &mut Call<'_>, words: &[&str]) -> Result {
    let ran = run_plugins(call, words)?;
    check(&ran)?;
    Ok(super::text::words(&ran.stdout).into())
}

/// Enables or disables a plugin.
///
/// # Errors
/// As [`ctl`] and [`check`].
pub fn change_plugin(call: &mut Call<'_>, command: &str, word: &str) -> Result {
    let name = python::str(call.arg("name"));
    done(run_plugins(call, &[command, &name])?, word)
}

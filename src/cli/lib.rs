//! The command line tools.
//!
//! One file per command with its options; [`output`] shows results. Mains in `src/bin` only
//! call a `run` here and exit with what it returns.

mod auth;
pub mod call;
mod common;
pub mod cp;
mod daemon;
#[cfg(feature = "gateways")]
pub mod federation_broker;
mod gateways;
pub mod key;
pub mod master;
pub mod migrate;
pub mod minion;
mod order;
pub mod output;
mod remote;
#[cfg(feature = "databases")]
pub mod returner;
pub mod run;
#[cfg(feature = "gateways")]
pub mod runtime;
pub mod salt;
mod saltfile;
mod start;
pub mod swarm;
pub mod syndic;
#[cfg(feature = "gateways")]
pub mod sysinspect_minion;

/// A command: its name, and what runs it and gives the exit status.
pub type Run = (&'static str, fn() -> i32);

/// Runs the command that this program was called as, the first of `commands` where the name is none of them, and gives
/// its exit status. Packages install one program under several names; `salt-key` is `halite-key`, too.
pub fn run_as(commands: &[Run]) -> i32 {
    let called = std::env::args_os().next().unwrap_or_default();
    let called = std::path::Path::new(&called)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    command_of(&called, commands)
        .or(commands.first())
        .map_or(common::EXIT_USAGE, |(_, run)| run())
}

/// The row of a name; of a process title such as `halite-call Job-2026`, the first word counts.
fn command_of<'a, T>(called: &str, commands: &'a [(&str, T)]) -> Option<&'a (&'a str, T)> {
    let name = called.split(' ').next()?;
    let own = match name.strip_prefix("salt") {
        Some(rest) => format!("halite{rest}"),
        None => name.to_owned(),
    };
    commands.iter().find(|(name, _)| *name == own)
}

/// Every command with its options, for the manual pages and whatever else is made from them.
pub fn commands() -> Vec<clap::Command> {
    vec![
        call::command(),
        cp::command(),
        #[cfg(feature = "gateways")]
        federation_broker::command(),
        key::command(),
        master::command(),
        migrate::command(),
        minion::command(),
        #[cfg(feature = "databases")]
        returner::command(),
        run::command(),
        #[cfg(feature = "gateways")]
        runtime::command(),
        salt::command(),
        swarm::command(),
        syndic::command(),
        #[cfg(feature = "gateways")]
        sysinspect_minion::command(),
    ]
}

#[cfg(test)]
mod tests {
    use super::command_of;

    #[test]
    fn the_name_of_a_program_chooses_its_command() {
        let commands = [("halite", 0), ("halite-key", 1), ("halite-run", 2)];
        let chosen = |called| command_of(called, &commands).map(|(_, n)| *n);
        assert_eq!(chosen("halite"), Some(0));
        assert_eq!(chosen("salt"), Some(0));
        assert_eq!(chosen("halite-key"), Some(1));
        assert_eq!(chosen("salt-key"), Some(1));
        assert_eq!(chosen("halite-run Runner manage.up"), Some(2));
        assert_eq!(chosen("halite-keys"), None);
        assert_eq!(chosen(""), None);
    }
}

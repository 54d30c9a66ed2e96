//! Programs that packages install under several names.

use super::{call, cp, key, migrate, minion, run, salt};

/// `halite`, and the other commands for the master's host.
pub fn halite() -> i32 {
    run_as(&[
        ("halite", salt::run),
        ("halite-cp", cp::run),
        ("halite-key", key::run),
        ("halite-migrate", migrate::run),
        ("halite-run", run::run),
    ])
}

/// `halite-minion`, and `halite-call`.
pub fn halite_minion() -> i32 {
    run_as(&[("halite-minion", minion::run), ("halite-call", call::run)])
}

/// A command: its name, and the function that runs it and returns the exit status.
type Run = (&'static str, fn() -> i32);

/// Runs the command that this program was called as, or the first of `commands` if the name is unknown, and
/// returns its exit status. Packages install one program under several names; `salt-key` is `halite-key`, too.
fn run_as(commands: &[Run]) -> i32 {
    let called = std::env::args_os().next().unwrap_or_default();
    let called = std::path::Path::new(&called)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    command_of(&called, commands)
        .or(commands.first())
        .map_or(super::common::EXIT_USAGE, |(_, run)| run())
}

/// The row for a name; of a process title such as `halite-call Job-2026`, only the first word is used.
fn command_of<'a, T>(called: &str, commands: &'a [(&str, T)]) -> Option<&'a (&'a str, T)> {
    let name = called.split(' ').next()?;
    let own = match name.strip_prefix("salt") {
        Some(rest) => format!("halite{rest}"),
        None => name.to_owned(),
    };
    commands.iter().find(|(name, _)| *name == own)
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

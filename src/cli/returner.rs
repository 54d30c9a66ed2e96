//! `halite-returner`.

use super::start::parse;
use clap::{CommandFactory, Parser};

/// Writes a minion's returns to databases, and reads them: PostgreSQL, Redis and SQLite.
#[derive(Parser, Debug)]
#[command(
    name = "halite-returner",
    version,
    after_help = "halite-minion and halite-call start it for the returners pgjsonb, postgres, redis and sqlite3, so that they carry no client of \
        a database themselves. It has no use at a terminal: an order comes in on standard input, the answer goes out on standard \
        output, and it ends.\n\n\
        Exit status: 0 answered, 1 the answer could not be given, 64 wrong options or no order.\n\n\
        Examples:\n  \
        halite-call --return sqlite3 test.ping     starts it to write to the file of the option sqlite3.database\n  \
        halite-call ret.get_fun sqlite3 test.ping  starts it to read"
)]
struct ReturnerOptions {}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    ReturnerOptions::command()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    match parse::<ReturnerOptions>() {
        Ok(ReturnerOptions {}) => halite_returners::helper::serve(halite_databases::open),
        Err(status) => status,
    }
}

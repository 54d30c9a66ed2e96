//! `halite-migrate`: from a stock Salt master to halite, and back.

mod caches;
mod check;
mod compatibility;
mod finding;
mod options;
mod show;
mod transfer;
mod transfer_report;
mod trees;

#[cfg(test)]
mod tests;

use super::common::fail;
use super::start::parse;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use halite_config::Role;
use halite_sys::logging::{self, LogOptions};
use halite_wire::Value;
use std::path::PathBuf;

/// Shown by `--help` below the commands.
const HELP: &str = "\
Commands:
  check [-c /etc/salt] [--only master|minion] [--short] [--out json]
      reads a Salt configuration with its keys, caches, states and pillar, and says with file and
      line what halite does as Salt, does otherwise, ignores, does not know, and what somebody
      has to look at. Changes nothing
  import --from /etc/salt [--to /etc/halite] [--dry-run] [--delete] [--out json]
      copies the configuration, the master's key, the minions' keys, jobs, grains, pillar and
      mine of a stock master to halite's own directories. The source is not changed
  export --to /etc/salt [-c /etc/halite] [--dry-run] [--delete] [--out json]
      brings keys, jobs, grains, pillar and mine from halite back to the stock master

The way over:
  halite-master -c /etc/salt serves with Salt's own directory as it stands; then nothing is
  imported, and only export brings the returns of jobs to where stock Salt reads them.
  With import, both masters have directories of their own. Import may run as often as you like,
  also beside a running stock master, for a rehearsal; after the stock master has ended it
  brings what is new since. No minion needs a new key either way.

Examples:
  halite-migrate check
  halite-migrate check -c /srv/salt/etc --short
  halite-migrate import --from /etc/salt --dry-run
  systemctl stop salt-master && halite-migrate import --from /etc/salt
  systemctl stop halite-master && halite-migrate export --to /etc/salt

Exit status: check: 0 all is well, 1 something needs a hand, 2 something cannot be read. import and export: 0 all is there, 1 something was left out, 2 nothing was done. 64 wrong options.";

/// Migrates a Salt master to halite, and back
#[derive(Parser, Debug)]
#[command(name = "halite-migrate", version, after_help = HELP, disable_help_subcommand = true)]
struct MigrateOptions {
    #[command(subcommand)]
    what: MigrateCommand,
}

#[derive(Subcommand, Debug)]
enum MigrateCommand {
    /// Check a Salt configuration for use with halite
    Check {
        /// Directory of the Salt configuration
        #[arg(short = 'c', long, value_name = "DIR", default_value = "/etc/salt")]
        config_dir: PathBuf,

        /// Check only the files of the master or of the minion
        #[arg(long, value_enum)]
        only: Option<RoleFilter>,

        /// Omit what is supported
        #[arg(short = 's', long)]
        short: bool,

        /// How to print the result
        #[arg(long, value_enum, default_value = "table")]
        out: OutputFormat,
    },
    /// Copy the data of a stock master to halite's own directories
    Import {
        /// Directory of the stock master's configuration
        #[arg(long, value_name = "DIR", default_value = "/etc/salt")]
        from: PathBuf,

        /// Directory of halite's configuration
        #[arg(long, value_name = "DIR", default_value_os_t = halite_config::default_dir())]
        to: PathBuf,

        #[command(flatten)]
        how: TransferOptions,
    },
    /// Copy new data of halite back to a stock master
    Export {
        /// Directory of halite's configuration; that of the stock master if halite runs with it
        #[arg(short = 'c', long, value_name = "DIR", default_value_os_t = halite_config::default_dir())]
        config_dir: PathBuf,

        /// Directory of the stock master's configuration
        #[arg(long, value_name = "DIR", default_value = "/etc/salt")]
        to: PathBuf,

        #[command(flatten)]
        how: TransferOptions,
    },
}

/// Options of import and export.
#[derive(clap::Args, Clone, Copy, Debug)]
struct TransferOptions {
    /// Change nothing, only show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Remove keys of minions that the source does not have (any more)
    #[arg(long)]
    delete: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value = "table")]
    out: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// Human-readable
    Table,
    /// JSON, for programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleFilter {
    /// The master's file and the files it includes
    Master,
    /// The minion's file and the files it includes
    Minion,
}

/// Exit status if nothing could be done.
const EXIT_NOTHING: i32 = 2;

/// The command with its options.
pub(super) fn command() -> clap::Command {
    MigrateOptions::command()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: MigrateOptions = match parse() {
        Ok(options) => options,
        Err(status) => return status,
    };
    logging::install(LogOptions {
        console: log::LevelFilter::Warn,
        file: Some(log::LevelFilter::Off),
        path: None,
        journal: false,
        ..LogOptions::default()
    });
    match options.what {
        MigrateCommand::Check {
            config_dir,
            only,
            short,
            out,
        } => {
            let roles: &[Role] = match only {
                None => &[Role::Master, Role::Minion],
                Some(RoleFilter::Master) => &[Role::Master],
                Some(RoleFilter::Minion) => &[Role::Minion],
            };
            let report = check::check(&config_dir, roles);
            match out {
                OutputFormat::Json => print_json(&report.to_value()),
                OutputFormat::Table => print!("{}", show::table(&report, short, show::colours())),
            }
            report.status()
        }
        MigrateCommand::Import { from, to, how } => {
            print_report(transfer::import(&from, &to, how), how.out)
        }
        MigrateCommand::Export {
            config_dir,
            to,
            how,
        } => print_report(transfer::export(&config_dir, &to, how), how.out),
    }
}

fn print_report(done: Result<transfer_report::TransferReport, String>, out: OutputFormat) -> i32 {
    match done {
        Ok(done) => {
            match out {
                OutputFormat::Json => print_json(&done.to_value()),
                OutputFormat::Table => print!("{}", done.table()),
            }
            done.status()
        }
        Err(why) => fail(why, EXIT_NOTHING),
    }
}

fn print_json(value: &Value) {
    println!(
        "{}",
        serde_json::to_string_pretty(value).unwrap_or_default()
    );
}

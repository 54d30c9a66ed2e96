//! What all commands share: the configuration directory, log options, exit codes.

use crate::sys::logging::{self, LogOptions};
use clap::Parser;
use std::path::PathBuf;

/// Exit status of a wrong command line (`EX_USAGE`), as Salt's.
pub const EXIT_USAGE: i32 = 64;

/// Options of every command.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// Directory of the configuration files; a directory called `salt` means an existing Salt installation
    #[arg(short = 'c', long, value_name = "DIR", env = "HALITE_CONFIG_DIR", default_value_os_t = crate::config::default_dir())]
    pub config_dir: PathBuf,

    /// Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet
    #[arg(short = 'l', long, value_name = "LEVEL", value_parser = parse_level)]
    pub log_level: Option<String>,

    /// Log file; overrides the configuration
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<String>,

    /// Log level of the log file
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub log_file_level: Option<String>,
}

fn parse_level(text: &str) -> Result<String, String> {
    match logging::level(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("choose one of all, garbage, trace, debug, profile, info, warning, error, critical, quiet".into()),
    }
}

/// Log settings of a configuration, in the order in which options override them.
pub struct LogSettings<'a> {
    /// `log_level`.
    pub level: &'a str,
    /// `log_level_logfile`.
    pub file_level: Option<&'a str>,
    /// `log_file`.
    pub file: Option<&'a str>,
    /// `log_fmt_console`, `log_datefmt`.
    pub console: (&'a str, &'a str),
    /// `log_fmt_logfile`, `log_datefmt_logfile`.
    pub logfile: (&'a str, &'a str),
}

impl Common {
    /// Starts logging as configured.
    pub fn start_log(&self, settings: &LogSettings) {
        let pick = |text: &str| logging::level(text).unwrap_or(log::LevelFilter::Warn);
        let console = self.log_level.as_deref().unwrap_or(settings.level);
        let file_level = self
            .log_file_level
            .as_deref()
            .or(settings.file_level)
            .unwrap_or(console);
        let path = self.log_file.as_deref().or(settings.file);
        logging::install(LogOptions {
            console: pick(console),
            file: pick(file_level),
            path: path.filter(|p| !p.is_empty()).map(PathBuf::from),
            console_format: settings.console.0.to_owned(),
            console_date: settings.console.1.to_owned(),
            file_format: settings.logfile.0.to_owned(),
            file_date: settings.logfile.1.to_owned(),
        });
    }
}

/// Reads a command line. Help and version go to standard output with status 0, a wrong
/// command line to standard error with status 64.
pub fn parse<T: Parser>() -> Result<T, i32> {
    let name = std::env::args_os().next().unwrap_or_default();
    let words = std::iter::once(name).chain(crate::sys::process::arguments());
    T::try_parse_from(words).map_err(|e| {
        // A closed standard output is no reason to fail.
        let _ = e.print();
        if e.use_stderr() { EXIT_USAGE } else { 0 }
    })
}

/// Prints an error in the form all commands use and returns `status`.
pub fn fail(message: impl std::fmt::Display, status: i32) -> i32 {
    eprintln!("ERROR: {message}");
    status
}

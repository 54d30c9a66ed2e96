//! Logging settings taken from the configuration.

use super::{FederationConfig, LogFormat, MasterConfig, MinionConfig, OptionValue, RuntimeConfig};
use halite_sys::logging::{self, Lines, LogOptions, SyslogAddress};
use halite_wire::{Map, Value};
use log::LevelFilter;
use std::path::PathBuf;

/// The logging options as configured.
struct LogSettings<'a> {
    level: &'a str,
    file_level: Option<&'a str>,
    file: &'a str,
    format: LogFormat,
    file_format: Option<LogFormat>,
    journald: bool,
    granular: &'a Map,
    /// `log_fmt_console`, `log_datefmt`.
    console: (&'a str, &'a str),
    /// `log_fmt_logfile`, `log_datefmt_logfile`.
    logfile: (&'a str, &'a str),
    /// `log_fmt_jid`, `log_fmt_minion_id`.
    marks: (&'a str, &'a str),
}

impl LogSettings<'_> {
    fn options(&self) -> LogOptions {
        let lines = |format, (text, date): (&str, &str)| match format {
            LogFormat::Json => Lines::Json,
            LogFormat::Salt => Lines::Salt {
                format: text.to_owned(),
                date: date.to_owned(),
                jid: self.marks.0.to_owned(),
                minion: self.marks.1.to_owned(),
            },
        };
        LogOptions {
            console: level(self.level),
            file: self.file_level.map(level),
            path: (!self.file.is_empty()).then(|| PathBuf::from(self.file)),
            console_lines: lines(self.format, self.console),
            file_lines: lines(self.file_format.unwrap_or(self.format), self.logfile),
            journal: self.journald,
            granular: granular(self.granular),
        }
    }

    /// For a command at a terminal: lines have Salt's format, and the log file is left to daemons, a syslog daemon is not.
    fn for_command(self) -> LogOptions {
        let is_address = SyslogAddress::of_log_file(self.file).is_some();
        LogSettings {
            format: LogFormat::Salt,
            file_format: self.file_format.or(Some(self.format)),
            journald: false,
            file: if is_address { self.file } else { "" },
            ..self
        }
        .options()
    }
}

/// Level names were checked when the configuration was read; an unknown one means warning, as in Salt.
fn level(word: &str) -> LevelFilter {
    logging::level(word).unwrap_or(LevelFilter::Warn)
}

fn granular(levels: &Map) -> Vec<(String, LevelFilter)> {
    let pair = |(name, word): &(Value, Value)| {
        let (name, word) = (name.as_str()?, word.as_str()?);
        Some((name.to_owned(), level(word)))
    };
    levels.iter().filter_map(pair).collect()
}

macro_rules! log_options {
    ($($config:ident with $marks:expr;)*) => {$(
        impl $config {
            /// Logging of a daemon with this configuration.
            pub fn log_options(&self) -> LogOptions {
                self.log_settings().options()
            }

            /// Logging of a command with this configuration: in Salt's format, to standard error and a syslog daemon.
            pub fn command_log_options(&self) -> LogOptions {
                self.log_settings().for_command()
            }

            fn log_settings(&self) -> LogSettings<'_> {
                let marks: fn(&$config) -> (&str, &str) = $marks;
                LogSettings {
                    level: &self.log_level,
                    file_level: self.log_level_logfile.as_deref(),
                    file: &self.log_file,
                    format: self.log_format,
                    file_format: self.log_format_logfile,
                    journald: self.log_journald,
                    granular: &self.log_granular_levels,
                    console: (&self.log_fmt_console, &self.log_datefmt),
                    logfile: (&self.log_fmt_logfile, &self.log_datefmt_logfile),
                    marks: marks(self),
                }
            }
        }
    )*};
}

log_options! {
    MasterConfig with |c| (&c.log_fmt_jid, &c.log_fmt_minion_id);
    MinionConfig with |c| (&c.log_fmt_jid, &c.log_fmt_minion_id);
    FederationConfig with |_| ("", "");
    RuntimeConfig with |_| ("", "");
}

/// Logging of a process that got all options of its program as a map. Levels and log file are left to the parent
/// process.
pub fn log_options_of(all: &Map) -> LogOptions {
    let text = |name: &str| all.str(name).unwrap_or_default();
    let format = |name: &str| {
        let value = all.get(name)?;
        Some(LogFormat::from_value(value)?.value)
    };
    let none = Map::new();
    let levels = all.get("log_granular_levels").and_then(Value::as_map);
    LogSettings {
        level: text("log_level"),
        file_level: None,
        file: "",
        format: format("log_format").unwrap_or(LogFormat::Salt),
        file_format: format("log_format_logfile"),
        journald: all.get("log_journald").is_none_or(Value::truthy),
        granular: levels.unwrap_or(&none),
        console: (text("log_fmt_console"), text("log_datefmt")),
        logfile: (text("log_fmt_logfile"), text("log_datefmt_logfile")),
        marks: (text("log_fmt_jid"), text("log_fmt_minion_id")),
    }
    .options()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_process_with_the_map_logs_as_one_with_the_configuration() {
        let options = halite_wire::map! {
            "log_format" => "json", "log_format_logfile" => "salt", "log_journald" => false,
            "log_fmt_logfile" => "%(message)s",
            "log_granular_levels" => halite_wire::map! {"salt.minion" => "DEBUG", "other" => "loud"},
        };
        let config = MinionConfig::from_map(options, Path::new("/nonexistent")).unwrap();
        let warned = |w: &String| w.contains("'loud'") && w.contains("log_granular_levels");
        assert!(config.warnings.iter().any(warned), "{:?}", config.warnings);
        let own = config.log_options();
        let given = log_options_of(&config.as_map());
        assert_eq!(own.console_lines, Lines::Json);
        let pairs = [
            ("salt.minion", LevelFilter::Debug),
            ("other", LevelFilter::Warn),
        ];
        let pairs = pairs.map(|(name, level)| (name.to_owned(), level));
        assert_eq!(own.granular, pairs);
        assert!(!own.journal);
        assert_eq!(
            (
                &own.console_lines,
                &own.file_lines,
                own.journal,
                &own.granular
            ),
            (
                &given.console_lines,
                &given.file_lines,
                given.journal,
                &given.granular
            )
        );
        let command = config.command_log_options();
        assert!(matches!(command.console_lines, Lines::Salt { .. }));
        assert_eq!(command.path, None);
    }
}

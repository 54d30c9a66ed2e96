//! The log: standard error and a file, in Salt's formats.
//!
//! Formats are Python's `%(name)s` fields with width and precision as far as log formats use
//! them (reference `salt-local.md` 9.3). SIGHUP opens the file anew, so that logrotate needs
//! no copying.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What is logged where.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Level of standard error.
    pub console: LevelFilter,
    /// Level of the file.
    pub file: LevelFilter,
    /// The file; none logs to standard error only.
    pub path: Option<PathBuf>,
    /// `log_fmt_console`.
    pub console_format: String,
    /// `log_fmt_logfile`.
    pub file_format: String,
    /// `log_datefmt`.
    pub console_date: String,
    /// `log_datefmt_logfile`.
    pub file_date: String,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            console: LevelFilter::Warn,
            file: LevelFilter::Warn,
            path: None,
            console_format: "[%(levelname)-8s] %(message)s".into(),
            file_format: "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s".into(),
            console_date: "%H:%M:%S".into(),
            file_date: "%Y-%m-%d %H:%M:%S".into(),
        }
    }
}

/// The level of a Salt level name; `None` for an unknown one.
pub fn level(name: &str) -> Option<LevelFilter> {
    Some(match name.to_ascii_lowercase().as_str() {
        "all" | "garbage" | "trace" => LevelFilter::Trace,
        "debug" => LevelFilter::Debug,
        "profile" | "info" => LevelFilter::Info,
        "warning" | "warn" => LevelFilter::Warn,
        "error" | "critical" => LevelFilter::Error,
        "quiet" => LevelFilter::Off,
        _ => return None,
    })
}

/// Starts logging. A file that cannot be opened is reported on standard error and left out.
pub fn install(options: LogOptions) {
    let reopen = Arc::new(AtomicBool::new(false));
    // Without a handler SIGHUP would end the process; a failure leaves just that.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGHUP, reopen.clone());
    let file = options.path.as_deref().and_then(|path| match open(path) {
        Ok(file) => Some(file),
        Err(e) => {
            eprintln!(
                "[WARNING ] log file {}: {e}; logging to standard error only",
                path.display()
            );
            None
        }
    });
    let max = options.console.max(if file.is_some() {
        options.file
    } else {
        LevelFilter::Off
    });
    let logger = Logger {
        console: Format::parse(&options.console_format, &options.console_date),
        to_file: Format::parse(&options.file_format, &options.file_date),
        file: Mutex::new(file),
        reopen,
        options,
    };
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(max);
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        super::daemon::make_dir(dir, 0o750)?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(path)
}

struct Logger {
    options: LogOptions,
    console: Format,
    to_file: Format,
    file: Mutex<Option<File>>,
    reopen: Arc<AtomicBool>,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= self.options.console.max(self.options.file)
    }

    fn log(&self, record: &Record) {
        if record.level() <= self.options.console {
            let line = self.console.line(record);
            // Nobody is left to be told when standard error is gone.
            let _ = io::stderr().lock().write_all(line.as_bytes());
        }
        if record.level() > self.options.file {
            return;
        }
        let mut file = match self.file.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if self.reopen.swap(false, Ordering::Relaxed)
            && let Some(path) = &self.options.path
            && let Ok(fresh) = open(path)
        {
            *file = Some(fresh);
        }
        if let Some(file) = file.as_mut() {
            let _ = file.write_all(self.to_file.line(record).as_bytes());
        }
    }

    fn flush(&self) {}
}

#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Field {
        name: String,
        width: usize,
        left: bool,
        zero: bool,
    },
}

#[derive(Debug)]
struct Format {
    pieces: Vec<Piece>,
    date: String,
}

impl Format {
    fn parse(format: &str, date: &str) -> Format {
        let mut pieces = Vec::new();
        let mut rest = format;
        while let Some(at) = rest.find("%(") {
            pieces.push(Piece::Text(rest[..at].replace("%%", "%")));
            match field(&rest[at + 2..]) {
                Some((piece, used)) => {
                    pieces.push(piece);
                    rest = &rest[at + 2 + used..];
                }
                None => {
                    pieces.push(Piece::Text("%(".into()));
                    rest = &rest[at + 2..];
                }
            }
        }
        pieces.push(Piece::Text(rest.replace("%%", "%")));
        Format {
            pieces,
            date: date.to_owned(),
        }
    }

    fn line(&self, record: &Record) -> String {
        let now = jiff::Zoned::now();
        let mut out = String::with_capacity(160);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Field {
                    name,
                    width,
                    left,
                    zero,
                } => {
                    let value = self.value(name, record, &now);
                    match (left, zero) {
                        (true, _) => out.push_str(&format!("{value:<width$}")),
                        (false, true) => out.push_str(&format!("{value:0>width$}")),
                        (false, false) => out.push_str(&format!("{value:>width$}")),
                    }
                }
            }
        }
        // A line end inside a message would let a peer forge log lines, an escape sequence
        // would speak to the terminal of whoever reads them.
        let mut out = match out.contains(|c: char| c.is_control() && c != '\t') {
            true => out.chars().map(shown).collect(),
            false => out,
        };
        out.push('\n');
        out
    }

    fn value(&self, name: &str, record: &Record, now: &jiff::Zoned) -> String {
        match name {
            "asctime" => now.strftime(&self.date).to_string(),
            "msecs" => now.millisecond().to_string(),
            "name" => record.target().replace("::", "."),
            "lineno" => record.line().unwrap_or(0).to_string(),
            "levelname" => level_name(record.level()).to_owned(),
            "process" => std::process::id().to_string(),
            "message" => record.args().to_string(),
            _ => String::new(),
        }
    }
}

/// A character as it stands in a log line: control characters only in name.
fn shown(c: char) -> String {
    match c {
        '\t' => c.into(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.into(),
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
        Level::Trace => "TRACE",
    }
}

/// Parses `name)-17s`; returns the piece and the octets used.
fn field(text: &str) -> Option<(Piece, usize)> {
    let close = text.find(')')?;
    let spec = &text[close + 1..];
    let end = spec.find(|c: char| c.is_ascii_alphabetic())?;
    let flags = &spec[..end];
    let digits = flags.trim_start_matches('-');
    Some((
        Piece::Field {
            name: text[..close].to_owned(),
            width: digits.split('.').next()?.parse().unwrap_or(0).min(200),
            left: flags.starts_with('-'),
            zero: digits.starts_with('0'),
        },
        close + 1 + end + 1,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_pythons() {
        let format = Format::parse("[%(levelname)-8s] 100%% %(lineno)04d %(message)s", "%H");
        let line = format.line(
            &Record::builder()
                .level(Level::Warn)
                .line(Some(7))
                .args(format_args!("a\nb\u{1b}[2J"))
                .build(),
        );
        assert_eq!(line, "[WARNING ] 100% 0007 a\\nb\\u{1b}[2J\n");
    }

    #[test]
    fn levels_are_salts() {
        assert_eq!(level("Warning"), Some(LevelFilter::Warn));
        assert_eq!(level("quiet"), Some(LevelFilter::Off));
        assert_eq!(level("loud"), None);
    }
}

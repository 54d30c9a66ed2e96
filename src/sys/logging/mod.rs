//! Logging to standard error or the journal, and to a file or a syslog daemon, in Salt's format or as JSON.
//!
//! SIGHUP reopens the file, so logrotate needs no `copytruncate`.

mod fields;
mod journal;
mod json;
mod salt;
mod syslog;

pub use fields::{Field, set_process_fields};
pub use syslog::SyslogAddress;

use journal::Journal;
use log::{LevelFilter, Log, Metadata, Record};
use salt::Format;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use syslog::Syslog;

/// Salt's level names, from the fewest messages to the most.
#[rustfmt::skip]
pub const LEVELS: [&str; 10] = [
    "quiet", "critical", "error", "warning", "info", "profile", "debug", "trace", "garbage", "all",
];

/// Format of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Salt's format.
    Salt {
        /// `log_fmt_console` or `log_fmt_logfile`.
        format: String,
        /// `log_datefmt` or `log_datefmt_logfile`.
        date: String,
        /// `log_fmt_jid`.
        jid: String,
        /// `log_fmt_minion_id`.
        minion: String,
    },
    /// One JSON object per line.
    Json,
}

/// What is logged where.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Level of standard error.
    pub console: LevelFilter,
    /// Level of the file; that of standard error if `None`.
    pub file: Option<LevelFilter>,
    /// The log file, or the address of a syslog daemon ([`SyslogAddress`]); without it, only standard error is used.
    pub path: Option<PathBuf>,
    /// Format on standard error, unless that is the journal.
    pub console_lines: Lines,
    /// Format in the file.
    pub file_lines: Lines,
    /// Send records with their fields to the journal if standard error goes there.
    pub journal: bool,
    /// Levels by logger name prefix (`log_granular_levels`).
    pub granular: Vec<(String, LevelFilter)>,
}

impl Default for LogOptions {
    fn default() -> Self {
        let lines = |format: &str, date: &str| Lines::Salt {
            format: format.into(),
            date: date.into(),
            jid: String::new(),
            minion: String::new(),
        };
        let file = "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s";
        LogOptions {
            console: LevelFilter::Warn,
            file: None,
            path: None,
            console_lines: lines("[%(levelname)-8s] %(message)s", "%H:%M:%S"),
            file_lines: lines(file, "%Y-%m-%d %H:%M:%S"),
            journal: true,
            granular: Vec::new(),
        }
    }
}

/// Converts a Salt level name; `None` if unknown.
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

/// Starts logging. If the file cannot be opened, that is reported on standard error and it is not used.
pub fn install(options: LogOptions) {
    let reopen = Arc::new(AtomicBool::new(false));
    // Without a handler SIGHUP would kill the process; if this fails, that is all that is lost.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGHUP, reopen.clone());
    let mut path = options.path;
    let text = path.as_deref().and_then(Path::to_str).unwrap_or_default();
    let text = text.to_owned();
    let syslog = SyslogAddress::of_log_file(&text);
    if syslog.is_some() {
        path = None;
    }
    let syslog = syslog.and_then(|address| {
        let opened = address
            .map_err(io::Error::other)
            .and_then(|address| Syslog::open(&address));
        match opened {
            Ok(syslog) if !syslog.is_there() => {
                eprintln!(
                    "[WARNING ] The log_file does not exist. Logging not setup correctly or syslog service not started. \
                     Lines are sent to {text} once it does."
                );
                Some(syslog)
            }
            Ok(syslog) => Some(syslog),
            Err(e) => {
                eprintln!("[WARNING ] log_file {text}: {e}; logging to standard error only");
                None
            }
        }
    });
    let file = path.as_deref().and_then(|path| match open(path) {
        Ok(file) => Some(file),
        Err(e) => {
            eprintln!(
                "[WARNING ] log file {}: {e}; logging to standard error only",
                path.display()
            );
            None
        }
    });
    let level = if file.is_some() || syslog.is_some() {
        options.file.unwrap_or(options.console)
    } else {
        LevelFilter::Off
    };
    let logger = Logger {
        console: LineFormat::of(&options.console_lines),
        to_file: LineFormat::of(&options.file_lines),
        journal: options.journal.then(Journal::of_stderr).flatten(),
        granular: Granular::of(&options.granular),
        levels: (options.console, level),
        path,
        syslog,
        file: Mutex::new(file),
        reopen,
    };
    let most = options.console.max(level);
    if log::set_logger(LOGGER.get_or_init(|| logger)).is_ok() {
        log::set_max_level(most);
    }
}

/// The logger of this process.
static LOGGER: OnceLock<Logger> = OnceLock::new();

/// The log file of this process.
pub fn path() -> Option<PathBuf> {
    LOGGER.get()?.path.clone()
}

/// Descriptors of the log file, the journal and the syslog daemon, if open.
pub(super) fn descriptors() -> Vec<i32> {
    let Some(logger) = LOGGER.get() else {
        return Vec::new();
    };
    let file = logger.file().as_ref().map(AsRawFd::as_raw_fd);
    let journal = logger.journal.as_ref().map(Journal::descriptor);
    let syslog = logger.syslog.as_ref().map(Syslog::descriptor);
    file.into_iter().chain(journal).chain(syslog).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o640);
    let mut wary = false;
    if let Some(dir) = path.parent() {
        super::daemon::make_dir(dir, 0o750)?;
        // Daemons of several accounts share a log directory: none of them may make root write elsewhere.
        wary = nix::unistd::geteuid().is_root() && is_others(dir)?;
    }
    if !wary {
        return options.open(path);
    }
    // They may also have put a pipe there, which would make root wait.
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    super::safe_open::open_plain(&options, path).map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ELOOP) => io::Error::other(
            "it is a link in a directory in which others than root may write, and is not followed",
        ),
        _ => e,
    })
}

/// Whether accounts other than root can write to a directory.
fn is_others(dir: &Path) -> io::Result<bool> {
    let meta = std::fs::metadata(dir)?;
    Ok(meta.uid() != 0 || meta.mode() & 0o022 != 0)
}

struct Logger {
    console: LineFormat,
    to_file: LineFormat,
    journal: Option<Journal>,
    granular: Granular,
    /// Levels of standard error and of the file.
    levels: (LevelFilter, LevelFilter),
    path: Option<PathBuf>,
    syslog: Option<Syslog>,
    file: Mutex<Option<File>>,
    reopen: Arc<AtomicBool>,
}

impl Logger {
    fn file(&self) -> MutexGuard<'_, Option<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_console(&self, record: &Record) {
        let sent = self.journal.as_ref().map(|journal| journal.send(record));
        if !matches!(sent, Some(Ok(()))) {
            let line = self.console.line(record);
            // If standard error is gone, there is nobody to report to.
            let _ = io::stderr().lock().write_all(line.as_bytes());
        }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        let most = self.levels.0.max(self.levels.1);
        metadata.level() <= most && metadata.level() <= self.granular.level(metadata.target())
    }

    fn log(&self, record: &Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        if record.level() <= self.levels.0 {
            self.to_console(record);
        }
        if record.level() > self.levels.1 {
            return;
        }
        if let Some(syslog) = &self.syslog {
            return syslog.send(record.level(), &self.to_file.line(record));
        }
        let mut file = self.file();
        if self.reopen.swap(false, Ordering::Relaxed)
            && let Some(path) = &self.path
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

/// How lines are formatted.
#[derive(Debug)]
enum LineFormat {
    Salt(Format),
    Json,
}

impl LineFormat {
    fn of(lines: &Lines) -> LineFormat {
        match lines {
            Lines::Salt {
                format,
                date,
                jid,
                minion,
            } => LineFormat::Salt(Format::parse(format, date, jid, minion)),
            Lines::Json => LineFormat::Json,
        }
    }

    fn line(&self, record: &Record) -> String {
        match self {
            LineFormat::Salt(format) => format.line(record),
            LineFormat::Json => json::line(record),
        }
    }
}

/// Levels by logger name.
///
/// As in Salt, such a level applies on top of those of standard error and the file, so it can only suppress
/// messages. By default nothing from halite is suppressed, and libraries log warnings and above: they do not
/// know what is secret.
#[derive(Debug)]
struct Granular(Vec<(String, LevelFilter)>);

impl Granular {
    /// Names are those of `%(name)s`; a leading `salt` means this program.
    fn of(levels: &[(String, LevelFilter)]) -> Granular {
        let own = |name: &str| match name.split_once('.') {
            None if name == "salt" => OWN.to_owned(),
            Some(("salt", rest)) => format!("{OWN}.{rest}"),
            _ => name.to_owned(),
        };
        let mut levels: Vec<_> = levels
            .iter()
            .map(|(name, level)| (target_of(&own(name)), *level))
            .collect();
        // The longest matching name wins.
        levels.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Granular(levels)
    }

    fn level(&self, target: &str) -> LevelFilter {
        let within = |name: &str| {
            let rest = target.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with("::") || (name == OWN && rest.starts_with('_'))
            })
        };
        let named = self.0.iter().find(|(name, _)| within(name));
        match named {
            Some((_, level)) => *level,
            None if target.starts_with(OWN) => LevelFilter::Trace,
            None => LevelFilter::Warn,
        }
    }
}

/// Logger name prefix of this program.
const OWN: &str = "halite";

/// The name of a logger, as `%(name)s` shows it: `halite.minion.jobs` for the module `jobs` of the crate `halite_minion`.
fn logger_name(target: &str) -> String {
    match target.strip_prefix("halite_") {
        Some(rest) => format!("{OWN}.{}", rest.replace("::", ".")),
        None => target.replace("::", "."),
    }
}

/// The reverse: the target prefix of a logger name.
fn target_of(name: &str) -> String {
    match name.strip_prefix("halite.") {
        Some(rest) => format!("{OWN}_{}", rest.replace('.', "::")),
        None => name.replace('.', "::"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_salts() {
        assert_eq!(level("Warning"), Some(LevelFilter::Warn));
        assert_eq!(level("quiet"), Some(LevelFilter::Off));
        assert_eq!(level("loud"), None);
        assert!(LEVELS.iter().all(|word| level(word).is_some()));
    }

    #[test]
    fn root_follows_no_links_of_others() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("logs");
        std::fs::create_dir(&dir).unwrap();
        let (log, elsewhere) = (dir.join("minion"), top.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
        open(&log).unwrap();
        assert!(
            elsewhere.exists(),
            "links in a directory of one's own count"
        );

        // Directories of another account or writable by all: root does not follow links there.
        std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        assert!(is_others(&dir).unwrap());
        std::fs::remove_file(&elsewhere).unwrap();
        let opened = open(&log);
        if nix::unistd::geteuid().is_root() {
            assert!(opened.unwrap_err().to_string().contains("is a link"));
            assert!(!elsewhere.exists());
            std::fs::remove_file(&log).unwrap();
            nix::unistd::mkfifo(&log, nix::sys::stat::Mode::S_IRWXU).unwrap();
            assert!(open(&log).is_err(), "root does not wait for a pipe");
            std::fs::remove_file(&log).unwrap();
            open(&log).unwrap();
        }
    }

    #[test]
    fn the_longest_name_holds() {
        let levels = [
            ("salt", LevelFilter::Info),
            ("salt.minion", LevelFilter::Error),
            ("halite.minion.job", LevelFilter::Trace),
            ("ureq", LevelFilter::Debug),
        ];
        let granular = Granular::of(&levels.map(|(name, level)| (name.to_owned(), level)));
        for (target, level) in [
            ("halite_master::x", LevelFilter::Info),
            ("halite_minion", LevelFilter::Error),
            ("halite_minion::jobs", LevelFilter::Error),
            ("halite_minion::job::x", LevelFilter::Trace),
            ("ureq::run", LevelFilter::Debug),
            ("ureq_proto", LevelFilter::Warn),
        ] {
            assert_eq!(granular.level(target), level, "{target}");
        }
        for target in ["halite_minion::jobs", "ureq::run", "halite"] {
            assert_eq!(target_of(&logger_name(target)), target);
        }
        let none = Granular::of(&[]);
        assert_eq!(none.level("halite_master"), LevelFilter::Trace);
        assert_eq!(none.level("postgres::client"), LevelFilter::Warn);
    }
}

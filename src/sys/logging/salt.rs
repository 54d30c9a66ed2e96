//! Lines in Salt's format: Python's `%(name)s` fields with width and precision, as far as log formats use them
//! (reference `salt-local.md` 9.3).

use super::fields::{Field, Fields};
use log::{Level, Record};

#[derive(Debug, PartialEq)]
enum FormatPart {
    Text(String),
    Field {
        name: String,
        width: usize,
        left: bool,
        zero: bool,
    },
}

/// A parsed log format.
#[derive(Debug)]
pub(super) struct Format {
    pieces: Vec<FormatPart>,
    date: String,
    jid: String,
    minion: String,
}

impl Format {
    /// Parses a format; `date` is that of `asctime`, `jid` that of `%(jid)s` if a job is known (`log_fmt_jid`), `minion` that of
    /// `%(minion_id)s` if a minion is (`log_fmt_minion_id`).
    pub fn parse(format: &str, date: &str, jid: &str, minion: &str) -> Format {
        let mut pieces = Vec::new();
        let mut rest = format;
        while let Some(at) = rest.find("%(") {
            pieces.push(FormatPart::Text(rest[..at].replace("%%", "%")));
            match field(&rest[at + 2..]) {
                Some((piece, used)) => {
                    pieces.push(piece);
                    rest = &rest[at + 2 + used..];
                }
                None => {
                    pieces.push(FormatPart::Text("%(".into()));
                    rest = &rest[at + 2..];
                }
            }
        }
        pieces.push(FormatPart::Text(rest.replace("%%", "%")));
        Format {
            pieces,
            date: date.to_owned(),
            jid: jid.to_owned(),
            minion: minion.to_owned(),
        }
    }

    /// The line of a record, with a newline.
    pub fn line(&self, record: &Record) -> String {
        let now = crate::localtime::now();
        let mut out = String::with_capacity(160);
        for piece in &self.pieces {
            match piece {
                FormatPart::Text(text) => out.push_str(text),
                FormatPart::Field {
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
        let mut out = on_one_line(out);
        out.push('\n');
        out
    }

    fn value(&self, name: &str, record: &Record, now: &jiff::Zoned) -> String {
        match name {
            "asctime" => now.strftime(&self.date).to_string(),
            "msecs" => now.millisecond().to_string(),
            "name" => super::logger_name(record.target()),
            "lineno" => record.line().unwrap_or(0).to_string(),
            "levelname" => level_name(record.level()).to_owned(),
            // Its role, with Python's name of a process that has none.
            "processName" => crate::process::role().unwrap_or_else(|| "MainProcess".to_owned()),
            "process" => std::process::id().to_string(),
            "message" => record.args().to_string(),
            "jid" => match Fields::of(record).get(Field::Jid) {
                Some(jid) => self.jid.replace("%(jid)s", jid),
                None => String::new(),
            },
            "minion_id" => match Fields::of(record).get(Field::Minion) {
                Some(id) => self.minion.replace("%(minion_id)s", id),
                None => String::new(),
            },
            // Salt's own fields: coloured on a terminal there, never here.
            "bracketlevel" | "colorlevel" => format!("[{:<8}]", level_name(record.level())),
            "bracketname" | "colorname" => format!("[{:<17}]", super::logger_name(record.target())),
            "bracketprocess" | "colorprocess" => format!("[{:>5}]", std::process::id()),
            "colormsg" => record.args().to_string(),
            _ => String::new(),
        }
    }
}

/// Escapes control characters except tabs: a newline in a message would let a peer forge log lines, and escape
/// sequences would be interpreted by the reader's terminal.
pub(super) fn on_one_line(text: String) -> String {
    if text.contains(|c: char| c.is_control() && c != '\t') {
        text.chars().map(shown).collect()
    } else {
        text
    }
}

/// A character as shown in a log line: control characters are escaped.
fn shown(c: char) -> String {
    match c {
        '\t' => c.into(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.into(),
    }
}

/// Salt's name of a level.
pub(super) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
        Level::Trace => "TRACE",
    }
}

/// Parses `name)-17s`; returns the part and the number of bytes used.
fn field(text: &str) -> Option<(FormatPart, usize)> {
    let close = text.find(')')?;
    let spec = &text[close + 1..];
    let end = spec.find(|c: char| c.is_ascii_alphabetic())?;
    let flags = &spec[..end];
    let digits = flags.trim_start_matches('-');
    Some((
        FormatPart::Field {
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
        let format =
            "[%(levelname)-8s] 100%% %(lineno)04d %(jid)s%(minion_id)s %(processName)s %(message)s";
        let format = Format::parse(format, "%H", "[JID: %(jid)s]", "[%(minion_id)s]");
        let mut record = Record::builder();
        record
            .level(Level::Warn)
            .line(Some(7))
            .args(format_args!("a\nb\u{1b}[2J"));
        let shown = "a\\nb\\u{1b}[2J\n";
        assert_eq!(
            format.line(&record.build()),
            format!("[WARNING ] 100% 0007  MainProcess {shown}")
        );
        let values: &dyn log::kv::Source = &[("jid", "12"), ("minion", "web1")];
        assert_eq!(
            format.line(&record.key_values(values).build()),
            format!("[WARNING ] 100% 0007 [JID: 12][web1] MainProcess {shown}")
        );
    }
}

//! `syslog`: the return as a message to the system log (`salt/returners/syslog_return.py`).

use super::json::{Strictness, dumps_map};
use super::{Opener, Store, StoreError};
use halite_config::Settings;
use halite_store::jobs::JobUpdate;
use halite_wire::{Map, Value, pytext};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// Names and numbers from Python's module `syslog`, the same as in `syslog.h`.
const LEVELS: &[(&str, u8)] = &[
    ("LOG_EMERG", 0),
    ("LOG_ALERT", 1),
    ("LOG_CRIT", 2),
    ("LOG_ERR", 3),
    ("LOG_WARNING", 4),
    ("LOG_NOTICE", 5),
    ("LOG_INFO", 6),
    ("LOG_DEBUG", 7),
];
const FACILITIES: &[(&str, u8)] = &[
    ("LOG_KERN", 0),
    ("LOG_USER", 1),
    ("LOG_MAIL", 2),
    ("LOG_DAEMON", 3),
    ("LOG_AUTH", 4),
    ("LOG_SYSLOG", 5),
    ("LOG_LPR", 6),
    ("LOG_NEWS", 7),
    ("LOG_UUCP", 8),
    ("LOG_CRON", 9),
    ("LOG_AUTHPRIV", 10),
    ("LOG_LOCAL0", 16),
    ("LOG_LOCAL1", 17),
    ("LOG_LOCAL2", 18),
    ("LOG_LOCAL3", 19),
    ("LOG_LOCAL4", 20),
    ("LOG_LOCAL5", 21),
    ("LOG_LOCAL6", 22),
    ("LOG_LOCAL7", 23),
];
/// Accepted options; those that do not apply to a single datagram have no effect.
const OPTIONS: &[&str] = &[
    "LOG_PID",
    "LOG_CONS",
    "LOG_NDELAY",
    "LOG_NOWAIT",
    "LOG_ODELAY",
    "LOG_PERROR",
];
/// Maximum length of a tag in characters.
const MAX_TAG_LEN: usize = 32;

/// The system log.
pub struct Syslog {
    socket: PathBuf,
    form: Result<MessageFormat, String>,
}

/// How messages are prefixed.
struct MessageFormat {
    priority: u8,
    tag: String,
    /// `LOG_PERROR`: also print to standard error.
    to_stderr: bool,
}

impl Syslog {
    /// Does not connect yet; invalid settings are reported with the first message.
    pub fn new(opener: &Opener) -> Syslog {
        Syslog {
            socket: "/dev/log".into(),
            form: form(&opener.settings, opener.program),
        }
    }

    fn send(&self, load: &Map) -> Result<(), StoreError> {
        let form = self
            .form
            .as_ref()
            .map_err(|e| StoreError::Refused(e.clone()))?;
        let text = format!("{}: {}", form.tag, dumps_map(load, Strictness::Text));
        if form.to_stderr {
            eprintln!("{text}");
        }
        let now = jiff::Zoned::now().strftime("%b %e %H:%M:%S").to_string();
        let message = format!("<{}>{now} {text}", form.priority);
        let sent = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to(message.as_bytes(), &self.socket));
        match sent {
            Ok(_) => Ok(()),
            Err(e) => Err(StoreError::Away(format!("{}: {e}", self.socket.display()))),
        }
    }
}

fn form(settings: &Settings, program: &str) -> Result<MessageFormat, String> {
    let number = |name: &str, default: &str, known: &[(&str, u8)]| {
        let word = settings.text_or(name, default);
        let found = known.iter().find(|(known, _)| *known == word);
        found
            .map(|(_, number)| *number)
            .ok_or_else(|| unknown(&word))
    };
    let level = number("level", "LOG_INFO", LEVELS)?;
    let facility = number("facility", "LOG_USER", FACILITIES)?;
    let options = match settings.get("options") {
        Some(Value::Str(one)) => vec![one.clone()],
        other => other.map(Value::str_list).unwrap_or_default(),
    };
    if let Some(word) = options.iter().find(|o| !OPTIONS.contains(&o.as_str())) {
        return Err(unknown(word));
    }
    let mut tag = match settings.get("tag") {
        None => program.to_owned(),
        Some(Value::Str(tag)) if tag.chars().count() > MAX_TAG_LEN => {
            return Err(format!(
                "tag size is limited to {MAX_TAG_LEN} characters, and '{tag}' is longer"
            ));
        }
        Some(Value::Str(tag)) => tag.clone(),
        Some(other) => return Err(format!("tag must be a string, not {}", pytext::repr(other))),
    };
    let has = |option: &str| options.iter().any(|o| o == option);
    if has("LOG_PID") {
        tag = format!("{tag}[{}]", std::process::id());
    }
    Ok(MessageFormat {
        priority: facility * 8 + level,
        tag,
        to_stderr: has("LOG_PERROR"),
    })
}

fn unknown(word: &str) -> String {
    format!("syslog has no attribute {word}")
}

impl Store for Syslog {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let mut returns = updates.iter().flat_map(|job| &job.returns);
        returns.try_for_each(|ret| self.send(&ret.load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::Returner;

    fn syslog(options: &Map) -> Syslog {
        Syslog::new(&Opener {
            settings: Settings::new(Returner::Syslog, vec![options]),
            id: "m1",
            keep: 0,
            product: "halite",
            program: "halite-minion",
        })
    }

    #[test]
    fn a_message_per_return() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("log");
        let listener = UnixDatagram::bind(&socket).unwrap();
        let receive = |options: Map| {
            let mut syslog = syslog(&options);
            syslog.socket = socket.clone();
            syslog.send(&halite_wire::map! {"return" => "é\n"}).unwrap();
            let mut buffer = [0u8; 200];
            let length = listener.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        let text = receive(Map::new());
        assert!(text.starts_with("<14>"), "{text}");
        assert!(text.ends_with(" halite-minion: {\"return\": \"é\\n\"}"));
        let text = receive(halite_wire::map! {
            "syslog.level" => "LOG_ERR", "syslog.facility" => "LOG_LOCAL7",
            "syslog" => halite_wire::map! {"tag" => "mine", "options" => vec!["LOG_PID".to_owned()]},
        });
        assert!(text.starts_with("<187>"), "{text}");
        assert!(text.contains(&format!(" mine[{}]: ", std::process::id())));
    }

    #[test]
    fn wrong_settings_are_reported() {
        for (key, value, why) in [
            ("syslog.level", "LOG_LOUD", "no attribute LOG_LOUD"),
            ("syslog.facility", "LOG_INFO", "no attribute LOG_INFO"),
            ("syslog.options", "LOG_X", "no attribute LOG_X"),
            ("syslog.tag", &"x".repeat(33), "limited to 32"),
        ] {
            let options: Map = [(key, Value::from(value))].into_iter().collect();
            let refused = syslog(&options).send(&Map::new()).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}

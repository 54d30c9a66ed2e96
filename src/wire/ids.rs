//! Names that arrive from the network and may become paths or tags: one type and one parser each.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    what: &'static str,
    text: String,
    why: &'static str,
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{:?} is not a valid {}: {}",
            self.text, self.what, self.why
        )
    }
}

impl std::error::Error for InvalidName {}

fn refuse<T>(what: &'static str, text: &str, why: &'static str) -> Result<T, InvalidName> {
    // Long input is cut so that a hostile name does not flood the log.
    let text = text.chars().take(64).collect();
    Err(InvalidName { what, text, why })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates a text; the same as `text.parse()`.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                text.parse()
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl From<&$name> for super::Value {
            fn from(name: &$name) -> super::Value {
                super::Value::Str(name.0.to_string())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
    };
}

name! {
    /// The id of a minion; always a plain file name, because keys and caches are files of that name
    /// (`salt/utils/verify.py valid_id`).
    MinionId
}

impl FromStr for MinionId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let what = "minion id";
        if text.is_empty() {
            return refuse(what, text, "it is empty");
        }
        // Salt stores such names but never lists them. This excludes `.`, `..` and Salt's own dot files, too.
        if text.starts_with('.') {
            return refuse(what, text, "it starts with a dot");
        }
        if text.len() > 240 {
            return refuse(what, text, "it is longer than 240 bytes");
        }
        if text.contains(['/', '\\', '\0', '\n']) {
            return refuse(
                what,
                text,
                "it must not contain a slash, a backslash, a line end or NUL",
            );
        }
        Ok(MinionId(text.into()))
    }
}

name! {
    /// A job id: twenty digits `YYYYMMDDhhmmssffffff` in UTC, optionally `_` and a process id
    /// (`salt/utils/jid.py is_jid`).
    Jid
}

const JID_DIGITS: usize = 20;

impl FromStr for Jid {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let bytes = text.as_bytes();
        let digits =
            bytes.len() >= JID_DIGITS && bytes[..JID_DIGITS].iter().all(u8::is_ascii_digit);
        let tail = bytes.get(JID_DIGITS..).unwrap_or_default();
        let tail_ok = tail.is_empty()
            || (tail.len() > 1
                && tail.len() <= 32
                && tail[0] == b'_'
                && tail[1..].iter().all(u8::is_ascii_alphanumeric));
        if digits && tail_ok {
            return Ok(Jid(text.into()));
        }
        refuse(
            "jid",
            text,
            "it must be 20 digits, or 20 digits, `_` and letters or digits",
        )
    }
}

impl Jid {
    /// The jid for a time: Unix seconds and microseconds.
    pub fn from_time(secs: i64, micros: u32) -> Jid {
        let at = jiff::Timestamp::new(secs, (micros % 1_000_000) as i32 * 1000).unwrap_or_default();
        Jid(at.strftime("%Y%m%d%H%M%S%6f").to_string().into())
    }

    /// Whether its time is at most `far` seconds from `now`, in Unix seconds.
    pub fn is_near(&self, now: i64, far: i64) -> bool {
        let digits = |jid: &Jid| jid.as_str().get(..14).unwrap_or_default().to_owned();
        let [first, last] = [now - far, now + far].map(|at| digits(&Jid::from_time(at.max(0), 0)));
        (first..=last).contains(&digits(self))
    }

    /// The same jid with the process id appended (option `unique_jid`).
    pub fn with_pid(&self, pid: u32) -> Jid {
        Jid(format!("{}_{pid}", &self.0[..JID_DIGITS]).into())
    }

    /// Start time as Salt prints it: `2026, Nov 21 09:26:37.195592` (`salt/utils/jid.py jid_to_time`).
    pub fn time_text(&self) -> String {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let d = &self.0;
        let month = d[4..6].parse::<usize>().unwrap_or(0).wrapping_sub(1);
        let Some(month) = MONTHS.get(month) else {
            return String::new();
        };
        format!(
            "{}, {month} {} {}:{}:{}.{}",
            &d[..4],
            &d[6..8],
            &d[8..10],
            &d[10..12],
            &d[12..14],
            &d[14..20]
        )
    }
}

/// Generates jids that strictly increase within this process.
#[derive(Debug, Default)]
pub struct JidClock(());

/// The last jid of this process, in microseconds: threads that start at once must not get the same.
static LAST_JID: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

impl JidClock {
    /// The next jid: now, or a microsecond after the last one.
    pub fn next(&self) -> Jid {
        use std::sync::atomic::Ordering::Relaxed;
        let now = jiff::Timestamp::now().as_microsecond();
        let last = LAST_JID
            .fetch_update(Relaxed, Relaxed, |last| Some(now.max(last + 1)))
            .unwrap_or(now);
        let at = now.max(last + 1);
        Jid::from_time(at.div_euclid(1_000_000), at.rem_euclid(1_000_000) as u32)
    }
}

name! {
    /// The tag of an event. It ends at the first blank line of the event's body, so it contains none.
    Tag
}

impl FromStr for Tag {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() {
            return refuse("event tag", text, "it is empty");
        }
        if text.len() > 1024 {
            return refuse("event tag", text, "it is longer than 1024 bytes");
        }
        if text.contains("\n\n") {
            return refuse("event tag", text, "it contains a blank line");
        }
        Ok(Tag(text.into()))
    }
}

/// Jid and minion id of the tag of a job's return, `salt/job/<jid>/ret/<id>`, unvalidated.
pub fn parse_return_tag(tag: &str) -> Option<(&str, &str)> {
    tag.strip_prefix("salt/job/")?.split_once("/ret/")
}

/// A version 4 UUID (RFC 9562) from random bytes, with hyphens, in lower case.
pub fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut out = String::with_capacity(36);
    for (at, byte) in random.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_never_leave_their_directory() {
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "a\nb"] {
            assert!(bad.parse::<MinionId>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(241).parse::<MinionId>().is_err());
        for good in ["web1.example.org", "Ärger", "a b", "a.b", "-x"] {
            assert_eq!(good.parse::<MinionId>().unwrap().as_str(), good);
        }
    }

    #[test]
    fn return_tags_have_a_jid_and_an_id() {
        let found = parse_return_tag("salt/job/20261121092637195592/ret/a/b");
        assert_eq!(found, Some(("20261121092637195592", "a/b")));
        for other in ["salt/job/1/new", "salt/run/1/ret", "x/salt/job/1/ret/a"] {
            assert_eq!(parse_return_tag(other), None, "{other}");
        }
    }

    #[test]
    fn jids_are_digits() {
        for bad in [
            "",
            "1",
            "2026112109263719559x",
            "20261121092637195592/..",
            "20261121092637195592_",
            "202611210926371955920",
        ] {
            let parsed = bad.parse::<Jid>();
            assert!(parsed.is_err(), "{bad}");
        }
        let jid: Jid = "20261121092637195592".parse().unwrap();
        assert_eq!(jid.time_text(), "2026, Nov 21 09:26:37.195592");
        assert_eq!(jid.with_pid(7).as_str(), "20261121092637195592_7");
        assert_eq!(
            Jid::from_time(1_700_000_000, 42).as_str(),
            "20231114221320000042"
        );
    }

    #[test]
    fn the_clock_never_repeats() {
        let clock = JidClock::default();
        let mut last = clock.next();
        for _ in 0..1000 {
            let next = clock.next();
            assert!(next > last);
            last = next;
        }
    }

    #[test]
    fn uuids_have_their_form() {
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid([255; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}

//! The names that arrive as text and must not be trusted as text: one type and one parser each.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest minion id in bytes: it becomes one component of a path.
pub const MAX_MINION_ID: usize = 255;
/// Longest event tag in bytes.
pub const MAX_TAG: usize = 1024;
/// Longest part of a jid after the `_`.
const MAX_JID_SUFFIX: usize = 64;
/// Microseconds from 1970 to the end of the year 9999, the last a jid can name.
const LAST_MICRO: u64 = 253_402_300_799_999_999;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Why a text is not the name that it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdError {
    what: &'static str,
    text: String,
    reason: &'static str,
}

impl IdError {
    fn new(what: &'static str, text: &str, reason: &'static str) -> IdError {
        // Enough to recognise it in a log, not enough to flood one.
        let text = text.chars().take(80).collect();
        IdError { what, text, reason }
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:?} is no {}: {}", self.text, self.what, self.reason)
    }
}

impl std::error::Error for IdError {}

/// A minion's name. Cheap to clone, fit to be one component of a path.
///
/// Accepts what `salt/utils/verify.py valid_id` accepts, and refuses two things more: names of
/// more than 255 bytes, which no file system stores, and names that start with a dot, which Salt
/// stores but never lists (and of which one, `.key_cache`, is a file of its own).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MinionId(Arc<str>);

impl MinionId {
    /// Checks a name.
    pub fn parse(text: &str) -> Result<MinionId, IdError> {
        match Self::flaw(text) {
            None => Ok(MinionId(text.into())),
            Some(reason) => Err(IdError::new("minion id", text, reason)),
        }
    }

    fn flaw(text: &str) -> Option<&'static str> {
        if text.is_empty() {
            return Some("it is empty");
        }
        if text.len() > MAX_MINION_ID {
            return Some("it is longer than 255 bytes");
        }
        if text.contains(['/', '\\', '\0']) {
            return Some("it contains a slash, a backslash or a NUL");
        }
        text.starts_with('.').then_some("it starts with a dot")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A job id: 20 digits `YYYYMMDDhhmmssffffff` in UTC, with `unique_jid` also `_` and more.
///
/// `salt/utils/jid.py is_jid` takes anything after the `_`; here it is ASCII letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Jid(Arc<str>);

impl Jid {
    /// Checks a job id.
    pub fn parse(text: &str) -> Result<Jid, IdError> {
        match Self::flaw(text) {
            None => Ok(Jid(text.into())),
            Some(reason) => Err(IdError::new("job id", text, reason)),
        }
    }

    fn flaw(text: &str) -> Option<&'static str> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 || !bytes[..20].iter().all(u8::is_ascii_digit) {
            return Some("it does not start with 20 digits");
        }
        let (mark, suffix) = bytes[20..].split_first()?;
        if *mark != b'_' || suffix.is_empty() || !suffix.iter().all(u8::is_ascii_alphanumeric) {
            return Some("only '_' with letters and digits may follow the 20 digits");
        }
        (suffix.len() > MAX_JID_SUFFIX).then_some("it is too long")
    }

    /// The job id of a moment: seconds and microseconds since 1970, UTC.
    ///
    /// Moments after the year 9999 give the last one.
    pub fn from_time(secs: u64, micros: u32) -> Jid {
        let all = secs
            .saturating_mul(1_000_000)
            .saturating_add(micros.into())
            .min(LAST_MICRO);
        Jid::from_micros(all)
    }

    fn from_micros(all: u64) -> Jid {
        let (secs, micros) = (all / 1_000_000, all % 1_000_000);
        let (days, of_day) = (secs / 86_400, secs % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{micros:06}");
        Jid(text.into())
    }

    /// The moment in the form of `salt/utils/jid.py jid_to_time`, for example
    /// `2026, Nov 21 09:26:37.195592`. Empty when the month is none.
    pub fn time_text(&self) -> String {
        let t = &self.0;
        let Some(month) = t[4..6]
            .parse::<usize>()
            .ok()
            .and_then(|m| MONTHS.get(m.wrapping_sub(1)))
        else {
            return String::new();
        };
        format!(
            "{}, {} {} {}:{}:{}.{}",
            &t[..4],
            month,
            &t[6..8],
            &t[8..10],
            &t[10..12],
            &t[12..14],
            &t[14..20]
        )
    }

    /// The job id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Days since 1970 as year, month and day of the Gregorian calendar.
///
/// Counts from 1 March of year 0, so that the leap day ends a year and the lengths of the months
/// from March on follow `(153 * m + 2) / 5`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Gives out job ids that never repeat and never go back within one process, whatever the
/// system clock does.
#[derive(Debug, Default)]
pub struct JidClock(AtomicU64);

impl JidClock {
    /// A clock that has given out nothing yet.
    pub const fn new() -> JidClock {
        JidClock(AtomicU64::new(0))
    }

    /// The job id of this moment (seconds and microseconds since 1970, UTC), or one microsecond
    /// after the last one given out, whichever is later.
    pub fn next(&self, secs: u64, micros: u32) -> Jid {
        let now = secs.saturating_mul(1_000_000).saturating_add(micros.into());
        let later = |last: u64| now.min(LAST_MICRO).max(last.saturating_add(1));
        let update = |last| Some(later(last));
        let last = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .unwrap_or_else(|last| last);
        Jid::from_micros(later(last))
    }
}

/// An event tag: not empty, at most 1 KiB, and without the blank line that ends a tag on the
/// event bus (`salt/utils/event.py TAGEND`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(Arc<str>);

impl Tag {
    /// Checks a tag.
    pub fn parse(text: &str) -> Result<Tag, IdError> {
        match Self::flaw(text) {
            None => Ok(Tag(text.into())),
            Some(reason) => Err(IdError::new("event tag", text, reason)),
        }
    }

    fn flaw(text: &str) -> Option<&'static str> {
        if text.is_empty() {
            return Some("it is empty");
        }
        if text.len() > MAX_TAG {
            return Some("it is longer than 1024 bytes");
        }
        // A newline at the end would merge with the separator that follows.
        (text.contains("\n\n") || text.ends_with('\n')).then_some("it contains an empty line")
    }

    /// The tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        // Equality, order and hash are those of the text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<$name, IdError> {
                $name::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<$name, IdError> {
                $name::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl From<&$name> for super::Value {
            fn from(name: &$name) -> super::Value {
                super::Value::from(name.as_str())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }
    )*};
}

text!(MinionId Jid Tag);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jids_of_moments() {
        for (secs, micros, jid, text) in [
            (0, 0, "19700101000000000000", "1970, Jan 01 00:00:00.000000"),
            (
                1_795_253_197,
                195_592,
                "20261121092637195592",
                "2026, Nov 21 09:26:37.195592",
            ),
            (
                951_782_399,
                999_999,
                "20000228235959999999",
                "2000, Feb 28 23:59:59.999999",
            ),
            (
                951_782_400,
                0,
                "20000229000000000000",
                "2000, Feb 29 00:00:00.000000",
            ),
            (
                951_782_399,
                1_000_000,
                "20000229000000000000",
                "2000, Feb 29 00:00:00.000000",
            ),
            (
                4_107_542_400,
                5,
                "21000301000000000005",
                "2100, Mar 01 00:00:00.000005",
            ),
            (
                u64::MAX,
                9,
                "99991231235959999999",
                "9999, Dec 31 23:59:59.999999",
            ),
        ] {
            let made = Jid::from_time(secs, micros);
            assert_eq!(made, jid);
            assert_eq!(made.time_text(), text);
            assert_eq!(Jid::parse(jid), Ok(made));
        }
    }

    #[test]
    fn jids_that_are_none() {
        for bad in [
            "",
            "req",
            "2026112109263719559",
            "202611210926371955921",
            "2026112109263719559_",
            "20261121092637195592_",
            "20261121092637195592_a/b",
            "20261121092637195592_1_2",
            "20261121092637195592\n",
            "٢٠٢٦١١٢١٠٩٢٦٣٧١٩٥٥٩٢",
        ] {
            assert!(Jid::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Jid::parse("20261121092637195592_4711").is_ok());
        assert_eq!(Jid::parse("20261321092637195592").unwrap().time_text(), "");
        assert_eq!(Jid::parse("20260021092637195592").unwrap().time_text(), "");
    }

    #[test]
    fn clock_never_goes_back() {
        let clock = JidClock::new();
        let first = clock.next(1000, 5);
        let same = clock.next(1000, 5);
        let earlier = clock.next(3, 0);
        let later = clock.next(1001, 0);
        assert!(first < same && same < earlier && earlier < later);
        assert_eq!(earlier, Jid::from_time(1000, 7));
    }

    #[test]
    fn ids_and_tags() {
        for good in ["a", "web1.example.com", "größe", "a b", "UPPER", "x,y", "*"] {
            assert!(MinionId::parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".key_cache",
            "a/b",
            "a\\b",
            "a\0b",
            &"x".repeat(256),
        ] {
            assert!(MinionId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Tag::parse("salt/job/20261121092637195592/new").is_ok());
        assert!(Tag::parse("").is_err());
        assert!(Tag::parse("a\n\nb").is_err());
        assert!(Tag::parse("a\n").is_err());
        assert!(Tag::parse(&"t".repeat(1025)).is_err());
        let error = MinionId::parse("a/b").unwrap_err().to_string();
        assert!(error.contains("\"a/b\""), "{error}");
    }

    #[test]
    fn serde_checks() {
        let id: MinionId = serde_json::from_str("\"web1\"").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"web1\"");
        assert!(serde_json::from_str::<MinionId>("\"../x\"").is_err());
        assert!(serde_json::from_str::<Jid>("\"req\"").is_err());
    }

    proptest! {
        #[test]
        fn any_text(text in ".*") {
            if let Ok(id) = MinionId::parse(&text) {
                prop_assert_eq!(id.as_str(), &text);
            }
            let _ = Tag::parse(&text);
            let _ = Jid::parse(&text);
        }

        #[test]
        fn any_jid(digits in "[0-9]{20}(_[a-z0-9]{1,9})?") {
            let _ = Jid::parse(&digits).unwrap().time_text();
        }

        #[test]
        fn any_time(secs: u64, micros: u32) {
            let jid = Jid::from_time(secs, micros);
            prop_assert!(Jid::parse(jid.as_str()).is_ok());
        }
    }
}

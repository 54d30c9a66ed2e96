//! Moments as administrators write them.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Timestamp, ToSpan};

/// A point in time, once or again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Once.
    At(DateTime),
    /// Every day.
    Daily(Time),
    /// Once a week.
    Weekly(Weekday, Time),
}

impl Moment {
    /// Reads `5:00pm`, `17:00`, `Monday 5:00pm`, `2026-11-21 17:00`, `Nov 21 2026 5pm`,
    /// `11/21/2026 17:00`.
    ///
    /// # Errors
    /// None of these; the message lists them.
    pub fn parse(text: &str) -> Result<Moment, String> {
        let bad =
            || format!("{text:?} is no time; write `5:00pm`, `Monday 17:00` or `2026-11-21 17:00`");
        if let Ok(at) = text.trim().parse::<DateTime>() {
            return Ok(Moment::At(at));
        }
        let clean = text.replace(',', " ");
        let mut words: Vec<&str> = clean.split_whitespace().collect();
        let joined;
        // `5:00 pm` is one time.
        if let [.., time, half] = words.as_slice()
            && ["am", "pm"].contains(&half.to_ascii_lowercase().as_str())
        {
            joined = format!("{time}{half}");
            words.truncate(words.len() - 2);
            words.push(&joined);
        }
        let time = words.last().and_then(|word| parse_time(word));
        let before = match time {
            Some(_) => &words[..words.len() - 1],
            None => &words[..],
        };
        let at = time.unwrap_or(Time::midnight());
        match (before, time) {
            ([], Some(time)) => Ok(Moment::Daily(time)),
            ([day], Some(time)) if weekday(day).is_some() => weekday(day)
                .map(|day| Moment::Weekly(day, time))
                .ok_or_else(bad),
            (words, _) => date(words)
                .map(|date| Moment::At(date.to_datetime(at)))
                .ok_or_else(bad),
        }
    }

    /// The first time after `now`.
    pub fn after(&self, now: DateTime) -> Option<DateTime> {
        match *self {
            Moment::At(at) => (at > now).then_some(at),
            Moment::Daily(time) => {
                let today = now.date().to_datetime(time);
                if today > now {
                    return Some(today);
                }
                Some(today.saturating_add(1.day()))
            }
            Moment::Weekly(day, time) => {
                let ahead = now.date().weekday().until(day);
                let this = now
                    .date()
                    .saturating_add(i64::from(ahead).days())
                    .to_datetime(time);
                if this > now {
                    return Some(this);
                }
                Some(this.saturating_add(7.days()))
            }
        }
    }

    /// This moment as of today, for ranges.
    pub fn on(&self, now: DateTime) -> DateTime {
        match *self {
            Moment::At(at) => at,
            Moment::Daily(time) => now.date().to_datetime(time),
            Moment::Weekly(day, time) => {
                let ahead = now.date().weekday().until(day);
                now.date()
                    .saturating_add(i64::from(ahead).days())
                    .to_datetime(time)
            }
        }
    }
}

/// A time of day: `17:00`, `17:00:30`, `5pm`, `5:30pm`.
pub fn parse_time(text: &str) -> Option<Time> {
    let text = text.to_ascii_lowercase();
    let (digits, half) = match text.strip_suffix("pm") {
        Some(digits) => (digits, Some(12)),
        None => match text.strip_suffix("am") {
            Some(digits) => (digits, Some(0)),
            None => (text.as_str(), None),
        },
    };
    let parts: Vec<i8> = digits
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let (hour, minute, second) = match parts.as_slice() {
        [hour] if half.is_some() => (*hour, 0, 0),
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    let word = word.to_ascii_lowercase();
    let named = |name: &str| word.len() >= 3 && name.starts_with(&word);
    DAYS.iter()
        .find(|(name, _)| named(name))
        .map(|(_, day)| *day)
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let at = MONTHS
        .iter()
        .position(|name| word.len() >= 3 && name.starts_with(&word))?;
    i8::try_from(at + 1).ok()
}

/// `2026-11-21`, `11/21/2026`, `Nov 21 2026`, `21 November 2026`.
fn date(words: &[&str]) -> Option<Date> {
    match words {
        [one] if one.contains('/') => {
            let mut parts = one.split('/');
            let (m, d, y) = (parts.next()?, parts.next()?, parts.next()?);
            Date::new(y.parse().ok()?, m.parse().ok()?, d.parse().ok()?).ok()
        }
        [one] => one.parse().ok(),
        [a, b, year] => {
            let (month, day) = match (month(a), month(b)) {
                (Some(month), None) => (month, *b),
                (None, Some(month)) => (month, *a),
                _ => return None,
            };
            Date::new(year.parse().ok()?, month, day.parse().ok()?).ok()
        }
        _ => None,
    }
}

/// The first time after `now` that fits a cron expression.
pub(super) fn next_cron(cron: &cronexpr::Crontab, now: DateTime) -> Option<DateTime> {
    // The expression was read with UTC as its zone, in which the clock's time stands for itself.
    let stamp = now.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let from = cronexpr::MakeTimestamp::from_second(stamp.as_second()).ok()?;
    let next: Timestamp = cron.find_next(from).ok()?.timestamp();
    Some(next.to_zoned(jiff::tz::TimeZone::UTC).datetime())
}

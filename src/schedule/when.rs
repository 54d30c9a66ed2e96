//! Points in time as operators write them.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Timestamp, ToSpan};

/// Days searched for the next match: 29 February may be eight years away.
const MAX_DAYS: i64 = 366 * 8 + 1;

/// A point in time, single or recurring: missing fields match any value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// In this year only.
    pub year: Option<i16>,
    /// In this month only, from 1.
    pub month: Option<i8>,
    /// On this day of the month only, from 1.
    pub day: Option<i8>,
    /// On this day of the week only.
    pub weekday: Option<Weekday>,
    /// At this time of day.
    pub time: Time,
}

impl Moment {
    /// The only match, if year, month and day are given.
    pub fn once(&self) -> Option<DateTime> {
        let date = Date::new(self.year?, self.month?, self.day?).ok()?;
        Some(date.to_datetime(self.time))
    }

    /// The first match after `now`.
    pub fn after(&self, now: DateTime) -> Option<DateTime> {
        if let Some(once) = self.once() {
            return (once > now).then_some(once);
        }
        let days = (0..MAX_DAYS).map(|n| now.date().saturating_add(n.days()));
        // A day matches if the text, read on that day, means that day.
        days.filter_map(|day| self.seen_on(day).filter(|at| at.date() == day))
            .find(|at| *at > now)
    }

    /// The time as read today: the next such weekday, and today's date for missing fields. `None` if the date does not
    /// exist, such as 29 February.
    pub fn on(&self, now: DateTime) -> Option<DateTime> {
        self.seen_on(now.date())
    }

    fn seen_on(&self, today: Date) -> Option<DateTime> {
        let year = self.year.unwrap_or(today.year());
        let month = self.month.unwrap_or(today.month());
        let first = Date::new(year, month, 1).ok()?;
        // Today's day is limited to the length of the month; a given day is not.
        let day = self.day.unwrap_or(today.day().min(first.days_in_month()));
        let date = Date::new(year, month, day).ok()?;
        let ahead = match self.weekday {
            Some(weekday) => date.weekday().until(weekday),
            None => 0,
        };
        let date = date.saturating_add(i64::from(ahead).days());
        Some(date.to_datetime(self.time))
    }
}

/// The first time after `now` that fits a cron expression.
pub(super) fn next_cron(cron: &cronexpr::Crontab, now: DateTime) -> Option<DateTime> {
    // The expression was parsed with the zone UTC, so local times are passed as UTC.
    let stamp = now.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let from = cronexpr::MakeTimestamp::from_second(stamp.as_second()).ok()?;
    let next: Timestamp = cron.find_next(from).ok()?.timestamp();
    Some(next.to_zoned(jiff::tz::TimeZone::UTC).datetime())
}

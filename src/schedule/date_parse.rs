//! Parses dates and times in the forms that `dateutil.parser.parse` accepts, which stock Salt uses for `when`, `range`,
//! `after` and `until`. Forms that need more guessing (zone names, years BC, times without a separator) are rejected.

use super::when::Moment;
use jiff::civil::{Date, Time, Weekday};

/// Maximum number of tokens; no date needs more.
const MAX_TOKENS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    /// Digits.
    Number(&'a str),
    /// Letters.
    Word(&'a str),
    /// Any other character except whitespace.
    Sign(char),
}

/// The parts parsed so far.
#[derive(Default)]
struct Parts {
    clock: Option<Time>,
    weekday: Option<Weekday>,
    /// The numbers of the date in order, and the positions of those known to be year or month.
    numbers: Vec<i64>,
    month_at: Option<usize>,
    year_at: Option<usize>,
}

impl Moment {
    /// Parses `5:00pm`, `17:00`, `Monday 5:00pm`, `2026-11-21 17:00`, `Nov 21 2026 5pm`, `11/21/2026 17:00` and most other
    /// forms that `dateutil` accepts.
    ///
    /// # Errors
    /// The text is in none of these forms; the message gives examples.
    pub fn parse(text: &str) -> Result<Moment, String> {
        read(text).ok_or_else(|| {
            format!(
                "{text:?} is not a time, or has a zone; write `5:00pm`, `Monday 17:00` or `2026-11-21 17:00`"
            )
        })
    }
}

/// Parses a date and time; `None` if the text is not one.
fn read(text: &str) -> Option<Moment> {
    let text = text
        .to_lowercase()
        .replace("a.m", "am")
        .replace("p.m", "pm");
    let tokens = tokens(&text)?;
    let mut parts = Parts::default();
    let mut rest = tokens.as_slice();
    let mut read = 0;
    while let Some((first, after)) = rest.split_first() {
        let before = parts.count();
        rest = match *first {
            Token::Number(digits) => parts.number(digits, after)?,
            Token::Word(word) => parts.word(word, after)?,
            // Separators, not the sign of a number.
            Token::Sign(',' | '.' | ';' | '/') => after,
            Token::Sign('-') if parts.clock.is_none() => after,
            Token::Sign(_) => return None,
        };
        read += parts.count() - before;
    }
    if read == 0 {
        return None;
    }
    parts.resolve()
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let kind = |c: char| (c.is_ascii_digit(), c.is_alphabetic());
        let end = match kind(first) {
            (false, false) => first.len_utf8(),
            same => rest.find(|c| kind(c) != same).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        found.push(match kind(first) {
            (true, _) => Token::Number(token),
            (_, true) => Token::Word(token),
            _ => Token::Sign(first),
        });
        rest = after.trim_start();
        if found.len() > MAX_TOKENS {
            return None;
        }
    }
    Some(found)
}

impl Parts {
    fn count(&self) -> usize {
        self.numbers.len() + usize::from(self.clock.is_some()) + usize::from(self.weekday.is_some())
    }

    /// A number that starts a time of day or a date, or is part of a date.
    fn number<'a>(&mut self, digits: &str, after: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
        let value: i64 = digits.parse().ok()?;
        match after {
            [Token::Sign(':'), Token::Number(minute), rest @ ..] => {
                self.clock(value, minute.parse().ok()?, rest)
            }
            [Token::Word(half @ ("am" | "pm")), rest @ ..] if value < 24 => {
                self.set_clock(half_day(value, half), 0, 0, 0)?;
                Some(rest)
            }
            [Token::Word(unit), ..] if self.clock.is_none() && is_hours(unit) => {
                self.units(value, after)
            }
            _ if self.numbers.len() == 3 && self.clock.is_none() && digits.len() <= 6 => {
                self.run_together(digits)?;
                Some(after)
            }
            _ if digits.len() >= 8 => {
                self.run_together_date(digits)?;
                Some(after)
            }
            [Token::Sign(sign @ ('-' | '/' | '.')), ..] => {
                self.put(digits)?;
                self.date(*sign, after)
            }
            _ => {
                self.put(digits)?;
                Some(after)
            }
        }
    }

    /// `:30`, `:30.5` or `pm` after hour and minute.
    fn clock<'a>(
        &mut self,
        hour: i64,
        minute: i64,
        mut rest: &'a [Token<'a>],
    ) -> Option<&'a [Token<'a>]> {
        let (mut second, mut nanos) = (0, 0);
        if let [Token::Sign(':'), Token::Number(digits), more @ ..] = rest {
            (second, rest) = (digits.parse().ok()?, more);
            if let [Token::Sign('.' | ','), Token::Number(digits), more @ ..] = rest {
                // Up to six digits: microseconds.
                let micros: String = digits.chars().chain("000000".chars()).take(6).collect();
                (nanos, rest) = (micros.parse::<i32>().ok()? * 1000, more);
            }
        }
        let mut hour = hour;
        if let [Token::Word(half @ ("am" | "pm")), more @ ..] = rest {
            if !(0..=12).contains(&hour) {
                return None;
            }
            (hour, rest) = (half_day(hour, half), more);
        }
        self.set_clock(hour, minute, second, nanos)?;
        Some(rest)
    }

    /// `5h30m` or `5 hours`.
    fn units<'a>(&mut self, hour: i64, after: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
        let mut rest = &after[1..];
        let (mut minute, mut second) = (0, 0);
        if let [
            Token::Number(digits),
            Token::Word("m" | "minute" | "minutes"),
            more @ ..,
        ] = rest
        {
            (minute, rest) = (digits.parse().ok()?, more);
        }
        if let [
            Token::Number(digits),
            Token::Word("s" | "second" | "seconds"),
            more @ ..,
        ] = rest
        {
            (second, rest) = (digits.parse().ok()?, more);
        }
        self.set_clock(hour, minute, second, 0)?;
        Some(rest)
    }

    /// `17`, `1700` or `170030` after a complete date.
    fn run_together(&mut self, digits: &str) -> Option<()> {
        let two = |at: usize| digits.get(at..at + 2)?.parse().ok();
        match digits.len() {
            1 | 2 => self.set_clock(digits.parse().ok()?, 0, 0, 0),
            4 => self.set_clock(two(0)?, two(2)?, 0, 0),
            6 => self.set_clock(two(0)?, two(2)?, two(4)?, 0),
            _ => None,
        }
    }

    /// `20261121`, optionally followed by `1700` or `170030`.
    fn run_together_date(&mut self, digits: &str) -> Option<()> {
        if !self.numbers.is_empty() {
            return None;
        }
        self.put(digits.get(..4)?)?;
        self.put(digits.get(4..6)?)?;
        self.put(digits.get(6..8)?)?;
        match digits.get(8..)? {
            "" => Some(()),
            time if time.len() >= 4 => self.run_together(time),
            _ => None,
        }
    }

    /// The rest of `2026-11-21`, `11/21`, `21-Nov-2026`.
    fn date<'a>(&mut self, sign: char, mut rest: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
        for _ in 0..2 {
            match rest {
                [Token::Sign(s), Token::Number(digits), more @ ..] if *s == sign => {
                    self.put(digits)?;
                    rest = more;
                }
                [Token::Sign(s), Token::Word(word), more @ ..] if *s == sign => {
                    self.put_month(month(word)?)?;
                    rest = more;
                }
                _ => break,
            }
        }
        Some(rest)
    }

    fn word<'a>(&mut self, word: &str, after: &'a [Token<'a>]) -> Option<&'a [Token<'a>]> {
        if let Some(day) = weekday(word) {
            self.weekday = Some(day);
            return Some(after);
        }
        if let Some(month) = month(word) {
            self.put_month(month)?;
            return Some(after);
        }
        const JOINERS: [&str; 10] = ["at", "on", "and", "t", "of", "st", "nd", "rd", "th", "m"];
        JOINERS.contains(&word).then_some(after)
    }

    fn set_clock(&mut self, hour: i64, minute: i64, second: i64, nanos: i32) -> Option<()> {
        if self.clock.is_some() {
            return None;
        }
        let small = |n: i64| i8::try_from(n).ok();
        let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanos);
        self.clock = Some(time.ok()?);
        Some(())
    }

    /// Adds a number of the date.
    fn put(&mut self, digits: &str) -> Option<()> {
        let value: i64 = digits.parse().ok()?;
        if self.numbers.len() == 3 || digits.len() > 4 {
            return None;
        }
        if digits.len() > 2 {
            if self.year_at.is_some() {
                return None;
            }
            self.year_at = Some(self.numbers.len());
        }
        self.numbers.push(value);
        Some(())
    }

    fn put_month(&mut self, month: i64) -> Option<()> {
        if self.numbers.len() == 3 || self.month_at.is_some() {
            return None;
        }
        self.month_at = Some(self.numbers.len());
        self.numbers.push(month);
        Some(())
    }

    /// Decides which number is year, month and day (`resolve_ymd` in `dateutil`): known ones first, then numbers too large
    /// for a day, then the order month, day, year.
    fn resolve(self) -> Option<Moment> {
        let n = &self.numbers;
        let not = |taken: &[usize]| (0..n.len()).find(|at| !taken.contains(at));
        // Indexes of year, month and day.
        let places: [Option<usize>; 3] = match (n.as_slice(), self.month_at, self.year_at) {
            ([], ..) => [None; 3],
            ([_], Some(m), _) => [None, Some(m), None],
            ([one], None, _) if *one > 31 => [Some(0), None, None],
            ([_], None, _) => [None, None, Some(0)],
            ([_, _], Some(m), _) => {
                let other = 1 - m;
                if n[other] > 31 || self.year_at.is_some() {
                    [Some(other), Some(m), None]
                } else {
                    [None, Some(m), Some(other)]
                }
            }
            ([a, _], None, _) if *a > 31 => [Some(0), Some(1), None],
            ([_, b], None, _) if *b > 31 => [Some(1), Some(0), None],
            ([_, _], None, _) => [None, Some(0), Some(1)],
            (_, Some(m), Some(y)) => [Some(y), Some(m), not(&[m, y])],
            ([_, b, _], Some(0), _) if *b > 31 => [Some(1), Some(0), Some(2)],
            (_, Some(0), _) => [Some(2), Some(0), Some(1)],
            ([a, ..], Some(1), _) if *a > 31 => [Some(0), Some(1), Some(2)],
            (_, Some(1), _) => [Some(2), Some(1), Some(0)],
            ([_, b, _], Some(_), _) if *b > 31 => [Some(1), Some(2), Some(0)],
            (_, Some(_), _) => [Some(0), Some(2), Some(1)],
            ([a, ..], None, year) if *a > 31 || year == Some(0) => [Some(0), Some(1), Some(2)],
            ([a, ..], ..) if *a > 12 => [Some(2), Some(1), Some(0)],
            _ => [Some(2), Some(0), Some(1)],
        };
        let [year, month, day] = places.map(|at| at.and_then(|at| n.get(at).copied()));
        let century = |y: i64| match y {
            _ if self.year_at.is_some() => y,
            0..=75 => y + 2000,
            76..=99 => y + 1900,
            _ => y,
        };
        let moment = Moment {
            year: year.map(|y| i16::try_from(century(y))).transpose().ok()?,
            month: month.map(i8::try_from).transpose().ok()?,
            day: day.map(i8::try_from).transpose().ok()?,
            weekday: self.weekday.filter(|_| day.is_none()),
            time: self.clock.unwrap_or_default(),
        };
        moment.can_be().then_some(moment)
    }
}

impl Moment {
    /// Whether the date exists in some year.
    fn can_be(&self) -> bool {
        let year = self.year.unwrap_or(2024);
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        Date::new(year, month, day).is_ok()
    }
}

fn is_hours(word: &str) -> bool {
    ["h", "hour", "hours"].contains(&word)
}

fn half_day(hour: i64, half: &str) -> i64 {
    match (hour, half) {
        (12, "am") => 0,
        (0..12, "pm") => hour + 12,
        _ => hour,
    }
}

/// A weekday by its full name or first three letters.
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
    let found = DAYS.iter().find(|(name, _)| named(word, name));
    found.map(|(_, day)| *day)
}

fn month(word: &str) -> Option<i64> {
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
    let at = MONTHS
        .iter()
        .position(|name| named(word, name) || (word == "sept" && name.starts_with(word)))?;
    i64::try_from(at + 1).ok()
}

fn named(word: &str, name: &str) -> bool {
    word == name || (word.len() == 3 && name.starts_with(word))
}

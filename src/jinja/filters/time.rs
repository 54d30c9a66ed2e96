//! `strftime`: dates as text (`salt/utils/dateutils.py`).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, parse};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

pub(super) const TABLE: &[(&str, FilterFn)] = &[("date_format", strftime), ("strftime", strftime)];

fn strftime(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("strftime", &["format"])?;
    let format = super::text_or(&bound[0], "%Y-%m-%d")?;
    let time = date(value)?.with_time_zone(TimeZone::system());
    Ok(formatted(&time, format).into())
}

/// The current time, seconds since 1970 as a number or digits, or a date in ISO format.
fn date(value: &Obj) -> Result<Zoned, Error> {
    let unreadable = || {
        let text = value.to_str().unwrap_or_default();
        Error::new(ErrorKind::Other, format!("Unable to parse {text}"))
    };
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let seconds = match value {
        Obj::None => return Ok(Zoned::now()),
        Obj::Str(text) | Obj::Markup(text) => match parse::float(text) {
            Some(seconds) => Some(seconds),
            None => return iso(text).ok_or_else(unreadable),
        },
        other => other.as_float(),
    };
    let seconds = seconds.filter(|seconds| seconds.is_finite());
    let micros = seconds.map(|seconds| (seconds * 1e6).round_ties_even());
    let time = micros.and_then(|micros| Timestamp::from_microsecond(micros as i64).ok());
    let time = time.ok_or_else(unreadable)?;
    Ok(time.to_zoned(TimeZone::system()))
}

/// `2002-12-25` or `2002/12/25`, with or without a time of day.
fn iso(text: &str) -> Option<Zoned> {
    let text = text.trim().replace('/', "-");
    let zone = TimeZone::system();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.to_zoned(zone));
    }
    if let Ok(time) = text.parse::<jiff::civil::DateTime>() {
        return time.to_zoned(zone).ok();
    }
    let date = text.parse::<jiff::civil::Date>().ok()?;
    date.to_zoned(zone).ok()
}

/// `datetime.strftime` in the C locale. For a date without a time zone, `%z` and `%Z` are empty.
fn formatted(time: &Zoned, format: &str) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        // Flags of glibc: no padding, padding with spaces or zeros, upper case.
        let flag = code.filter(|c| matches!(c, '-' | '_' | '0' | '^' | '#'));
        if flag.is_some() {
            code = chars.next();
        }
        let Some(code) = code else {
            out.push('%');
            continue;
        };
        out.push_str(&conversion(time, code, flag));
    }
    out
}

fn conversion(time: &Zoned, code: char, flag: Option<char>) -> String {
    let hour12 = (time.hour() + 11) % 12 + 1;
    let week = |first: i16| {
        // Days since the start of the week.
        let since = (i16::from(time.weekday().to_sunday_zero_offset()) + 7 - first) % 7;
        (time.day_of_year() - 1 + 7 - since) / 7
    };
    let iso = time.date().iso_week_date();
    let (number, width, blank): (i64, usize, bool) = match code {
        'Y' => (time.year().into(), 1, false),
        'G' => (iso.year().into(), 1, false),
        'g' => ((iso.year() % 100).into(), 2, false),
        'V' => (iso.week().into(), 2, false),
        'C' => ((time.year() / 100).into(), 2, false),
        'm' => (time.month().into(), 2, false),
        'd' => (time.day().into(), 2, false),
        'e' => (time.day().into(), 2, true),
        'y' => ((time.year() % 100).into(), 2, false),
        'H' => (time.hour().into(), 2, false),
        'k' => (time.hour().into(), 2, true),
        'I' => (hour12.into(), 2, false),
        'l' => (hour12.into(), 2, true),
        'M' => (time.minute().into(), 2, false),
        'S' => (time.second().into(), 2, false),
        'f' => (i64::from(time.subsec_nanosecond()) / 1000, 6, false),
        'j' => (time.day_of_year().into(), 3, false),
        'U' => (week(0).into(), 2, false),
        'W' => (week(1).into(), 2, false),
        'w' => (time.weekday().to_sunday_zero_offset().into(), 1, false),
        'u' => (time.weekday().to_monday_one_offset().into(), 1, false),
        's' => (time.timestamp().as_second(), 1, false),
        other => return text_conversion(time, other, flag),
    };
    match (flag, blank) {
        (Some('-'), _) => number.to_string(),
        (Some('_'), _) => format!("{number:width$}"),
        (Some('0'), _) | (_, false) => format!("{number:0width$}"),
        _ => format!("{number:width$}"),
    }
}

fn text_conversion(time: &Zoned, code: char, flag: Option<char>) -> String {
    const DAYS: [&str; 7] = [
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
    ];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let at = |n: i8| usize::try_from(n).unwrap_or(0);
    let day = DAYS[at(time.weekday().to_sunday_zero_offset()) % 7];
    let month = MONTHS[at(time.month() - 1) % 12];
    let text = match code {
        'a' => day[..3].to_owned(),
        'A' => day.to_owned(),
        'b' | 'h' => month[..3].to_owned(),
        'B' => month.to_owned(),
        'p' => if time.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'P' => if time.hour() < 12 { "am" } else { "pm" }.to_owned(),
        'c' => formatted(time, "%a %b %e %H:%M:%S %Y"),
        'x' | 'D' => formatted(time, "%m/%d/%y"),
        'X' | 'T' => formatted(time, "%H:%M:%S"),
        'r' => formatted(time, "%I:%M:%S %p"),
        'R' => formatted(time, "%H:%M"),
        'F' => formatted(time, "%Y-%m-%d"),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        'z' | 'Z' => String::new(),
        other => format!("%{other}"),
    };
    match flag {
        Some('^') => text.to_uppercase(),
        _ => text,
    }
}

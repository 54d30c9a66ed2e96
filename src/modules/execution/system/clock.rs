//! Reading and setting the clock.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell, which};
use halite_wire::Value;
use halite_wire::map;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// Minutes east of UTC, from `+0130`.
fn offset_minutes(offset: &Value) -> Result<i32> {
    let Some(text) = offset.as_str() else {
        let class = python::type_name(offset);
        let text = format!("expected string or bytes-like object, got '{class}'");
        return Err(CallError::Type(text));
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CallError::Invocation("Invalid UTC offset".into()));
    }
    let number = |text: &str| text.parse::<i32>().unwrap_or(0);
    let total = number(&digits[..2]) * 60 + number(&digits[2..]);
    Ok(if text.starts_with('-') { -total } else { total })
}

/// The current time in the call's time zone.
fn now(call: &Call<'_>) -> Result<Zoned> {
    let zone = match call.arg("utc_offset") {
        Value::Nil => TimeZone::system(),
        offset => {
            let offset = Offset::from_seconds(offset_minutes(offset)? * 60)
                .map_err(|e| CallError::raised("ValueError", e.to_string()))?;
            TimeZone::fixed(offset)
        }
    };
    Ok(Timestamp::now().to_zoned(zone))
}

pub(super) fn get(call: &mut Call<'_>, format: &str) -> Result {
    Ok(now(call)?.strftime(format).to_string().into())
}

/// Whether the hardware clock can be set.
pub(super) fn settable(call: &mut Call<'_>) -> Result<bool> {
    if which("hwclock").is_none() {
        return Ok(false);
    }
    let options = map! {"output_loglevel" => "quiet", "ignore_retcode" => true};
    let done = shell::run_all_with(call, &["hwclock", "--test", "--systohc"], options)?;
    Ok(done.retcode == 0)
}

/// Parses text by the first matching format. Date formats yield only the date, time formats only the time.
fn parse(text: &Value, formats: &[&str]) -> Result<Option<DateTime>> {
    let Some(text) = text.as_str() else {
        let class = python::type_name(text);
        let text = format!("strptime() argument 1 must be str, not {class}");
        return Err(CallError::Type(text));
    };
    Ok(formats.iter().find_map(|format| strptime(text, format)))
}

/// `datetime.strptime` for the directives used here.
fn strptime(text: &str, format: &str) -> Option<DateTime> {
    let (mut year, mut month, mut day) = (1900, 1, 1);
    let (mut hour, mut minute, mut second) = (0, 0, 0);
    let (mut half, mut twelve) = (None, false);
    let mut rest = text;
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign == ' ' {
            let trimmed = rest.trim_start();
            if trimmed.len() == rest.len() {
                return None;
            }
            rest = trimmed;
            continue;
        }
        if sign != '%' {
            rest = rest.strip_prefix(sign)?;
            continue;
        }
        let directive = signs.next()?;
        if directive == 'p' {
            let word = rest.get(..2)?.to_lowercase();
            half = Some(word == "pm").filter(|_| word == "pm" || word == "am");
            half?;
            rest = &rest[2..];
            continue;
        }
        let (least, most) = match directive {
            'Y' => (4, 4),
            'y' => (2, 2),
            _ => (1, 2),
        };
        let digits = rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if digits < least {
            return None;
        }
        let number: i16 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        match directive {
            'Y' => year = number,
            'y' => {
                year = if number < 69 {
                    2000 + number
                } else {
                    1900 + number
                }
            }
            'm' => month = number,
            'd' => day = number,
            'H' => hour = number,
            'I' => {
                twelve = true;
                hour = Some(number).filter(|n| (1..=12).contains(n))?;
            }
            'M' => minute = number,
            _ => second = number,
        }
    }
    if !rest.is_empty() {
        return None;
    }
    if twelve {
        hour = hour % 12 + if half == Some(true) { 12 } else { 0 };
    }
    let small = |n: i16| i8::try_from(n).ok();
    DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        0,
    )
    .ok()
}

pub(super) fn set_time(call: &mut Call<'_>) -> Result {
    const FORMATS: [&str; 4] = ["%I:%M:%S %p", "%I:%M %p", "%H:%M:%S", "%H:%M"];
    let Some(time) = parse(call.arg("newtime"), &FORMATS)? else {
        return Ok(false.into());
    };
    let parts = [
        None,
        None,
        None,
        Some(time.hour().into()),
        Some(time.minute().into()),
        Some(time.second().into()),
    ];
    set(call, parts)
}

pub(super) fn set_date(call: &mut Call<'_>) -> Result {
    const FORMATS: [&str; 6] = [
        "%Y-%m-%d", "%m-%d-%Y", "%m-%d-%y", "%m/%d/%Y", "%m/%d/%y", "%Y/%m/%d",
    ];
    let Some(date) = parse(call.arg("newdate"), &FORMATS)? else {
        return Err(CallError::Invocation("Invalid date format".into()));
    };
    let parts = [
        Some(date.year().into()),
        Some(date.month().into()),
        Some(date.day().into()),
        None,
        None,
        None,
    ];
    set(call, parts)
}

pub(super) fn set_date_time(call: &mut Call<'_>) -> Result {
    let mut parts = [None; 6];
    let names = ["years", "months", "days", "hours", "minutes", "seconds"];
    for (part, name) in parts.iter_mut().zip(names) {
        *part = match call.arg(name) {
            Value::Nil => None,
            Value::Int(number) => Some(*number),
            other => {
                let class = python::type_name(other);
                let text = format!("'{class}' object cannot be interpreted as an integer");
                return Err(CallError::Type(text));
            }
        };
    }
    set(call, parts)
}

/// Sets the clock, changing only the given parts.
fn set(call: &mut Call<'_>, parts: [Option<i64>; 6]) -> Result {
    let now = now(call)?;
    let own = [
        i64::from(now.year()),
        now.month().into(),
        now.day().into(),
        now.hour().into(),
        now.minute().into(),
        now.second().into(),
    ];
    // Stock reads an attribute the exception does not have.
    let wrong = || {
        CallError::raised(
            "AttributeError",
            "'ValueError' object has no attribute 'message'",
        )
    };
    let mut values = [0_i16; 6];
    for (value, (part, own)) in values.iter_mut().zip(parts.into_iter().zip(own)) {
        *value = i16::try_from(part.unwrap_or(own)).map_err(|_| wrong())?;
    }
    let small = |at: usize| i8::try_from(values[at]).map_err(|_| wrong());
    let time = DateTime::new(
        values[0],
        small(1)?,
        small(2)?,
        small(3)?,
        small(4)?,
        small(5)?,
        0,
    )
    .map_err(|_| wrong())?;
    let by_offset = !call.arg("utc_offset").is_nil();
    let time = if by_offset {
        time.to_zoned(now.time_zone().clone())
            .map_err(|_| wrong())?
            .with_time_zone(TimeZone::UTC)
            .datetime()
    } else {
        time
    };
    run_date(call, time, by_offset)?;
    if settable(call)? {
        shell::run_all(call, &["hwclock", "--systohc"])?;
    }
    Ok(true.into())
}

fn run_date(call: &mut Call<'_>, time: DateTime, utc: bool) -> Result<()> {
    let plain = time.strftime("%m%d%H%M%Y").to_string();
    let full = format!("{plain}.{:02}", time.second());
    // Some programs do not accept seconds.
    let mut first = None;
    for text in [full, format!(" {plain}")] {
        let mut argv = vec!["date"];
        if utc {
            argv.push("-u");
        }
        argv.push(&text);
        let done = shell::run_all(call, &argv)?;
        if done.retcode == 0 {
            return Ok(());
        }
        first.get_or_insert(done.stderr);
    }
    Err(CallError::Command(format!(
        "date failed: {}",
        first.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let show = |text: &str, format: &str| strptime(text, format).map(|t| t.to_string());
        assert_eq!(show("12:05 am", "%I:%M %p").unwrap(), "1900-01-01T00:05:00");
        assert_eq!(
            show("1:05:07 PM", "%I:%M:%S %p").unwrap(),
            "1900-01-01T13:05:07"
        );
        assert_eq!(show("2/29/24", "%m/%d/%y").unwrap(), "2024-02-29T00:00:00");
        for (text, format) in [
            ("13:00 am", "%I:%M %p"),
            ("2023-02-29", "%Y-%m-%d"),
            ("24:00", "%H:%M"),
            ("12:00x", "%H:%M"),
            ("99-1-1", "%Y-%m-%d"),
        ] {
            assert_eq!(show(text, format), None, "{text}");
        }
    }

    #[test]
    fn offsets() {
        let get = |text: &str| offset_minutes(&text.into()).ok();
        assert_eq!(get("+0130"), Some(90));
        assert_eq!(get("-0200"), Some(-120));
        assert_eq!(get("0000"), Some(0));
        assert_eq!(get("1:00"), None);
    }
}

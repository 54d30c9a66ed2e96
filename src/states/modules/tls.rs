//! `tls`: certificates that are to be valid.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use jiff::Timestamp;

pub(super) const MODULE: StateModule = StateModule {
    name: "tls",
    functions: &[StateFunction::new(
        "valid_certificate",
        valid_certificate,
        "Checks that a certificate is valid, and will be for a time.",
    )
    .args(args![
        weeks = { 0 },
        days = { 0 },
        hours = { 0 },
        minutes = { 0 },
        seconds = { 0 }
    ])],
};

const DAY: i64 = 86400;

fn valid_certificate(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let info = match s.salt("tls.cert_info", [name.as_str().into()]) {
        Ok(info) => info.into_map().unwrap_or_default(),
        Err(e) => return Ok(StateOutcome::bad(e.to_string())),
    };
    let [start, end] = ["not_before", "not_after"].map(|key| info.int(key).unwrap_or_default());
    let now = Timestamp::now();
    if start > now.as_second() {
        return Ok(StateOutcome::bad("Certificate is not yet valid"));
    }
    if end < now.as_second() {
        return Ok(StateOutcome::bad("Certificate is expired"));
    }
    let units = [
        ("weeks", 7 * DAY),
        ("days", DAY),
        ("hours", 3600),
        ("minutes", 60),
        ("seconds", 1),
    ];
    let mut wanted: i64 = 0;
    for (unit, length) in units {
        let given = s.arg(unit);
        let number = given.as_int().or_else(|| python::str(given).parse().ok());
        let Some(time) = number.and_then(|number: i64| number.checked_mul(length)) else {
            return Ok(StateOutcome::bad(format!(
                "{unit} must be a whole number, not {}",
                python::repr(given)
            )));
        };
        wanted = wanted.saturating_add(time);
    }
    let micros = now.as_microsecond();
    let left = end.saturating_mul(1_000_000).saturating_sub(micros);
    let shown = duration(left);
    Ok(if left < wanted.saturating_mul(1_000_000) {
        let wanted = duration(wanted.saturating_mul(1_000_000));
        StateOutcome::bad(format!(
            "Certificate will expire in {shown}, which is less than {wanted}"
        ))
    } else {
        StateOutcome::good(format!("Certificate is valid for {shown}"))
    })
}

/// Microseconds as Python's `str(timedelta)` has them.
fn duration(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let days = match days {
        0 => String::new(),
        1 | -1 => format!("{days} day, "),
        _ => format!("{days} days, "),
    };
    let micros = match micros {
        0 => String::new(),
        micros => format!(".{micros:06}"),
    };
    format!(
        "{days}{}:{:02}:{:02}{micros}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

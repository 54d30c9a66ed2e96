//! Filters for numbers.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj, quote};
use super::{FilterFn, flag, integer, parse, text_of};
use num_bigint::BigInt;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("abs", abs),
    ("avg", avg),
    ("filesizeformat", filesizeformat),
    ("float", float),
    ("human_to_bytes", human_to_bytes),
    ("int", int),
    ("is_hex", is_hex),
    ("round", round),
    ("str_to_num", to_num),
    ("to_num", to_num),
];

/// `a + b`.
pub(super) fn add(cx: &mut Cx, a: &Obj, b: &Obj) -> Result<Obj, Error> {
    super::super::arith::binary(cx, super::super::ast::BinOp::Add, a, b)
}

fn abs(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("abs", &[])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    match value {
        Obj::Float(f) => Ok(Obj::Float(f.abs())),
        other => match other.as_bigint() {
            Some(big) => Ok(Obj::big(BigInt::from(big.magnitude().clone()))),
            None => Err(Error::type_error(format!(
                "bad operand type for abs(): '{}'",
                other.type_name()
            ))),
        },
    }
}

/// `int(float)`.
pub(super) fn whole(f: f64) -> Result<BigInt, Error> {
    if f.is_nan() {
        return Err(Error::value_error("cannot convert float NaN to integer"));
    }
    if f.is_infinite() {
        return Err(Error::new(
            ErrorKind::Overflow,
            "cannot convert float infinity to integer",
        ));
    }
    Ok(format!("{:.0}", f.trunc()).parse().unwrap_or_default())
}

fn int(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_int", &["default", "base"])?;
    let default = bound[0].clone().unwrap_or(Obj::Int(0));
    let base = integer(&bound[1], 10)?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    if let Some(text) = value.as_str() {
        if let Some(number) = parse::int(text, base) {
            return Ok(Obj::big(number));
        }
        return Ok(match parse::float(text).map(whole) {
            Some(Ok(number)) => Obj::big(number),
            _ => default,
        });
    }
    Ok(match value {
        Obj::Float(f) => match whole(*f) {
            Ok(number) => Obj::big(number),
            // Infinity overflows, which only Jinja's second attempt catches.
            Err(error) if f.is_infinite() => return Err(error),
            Err(_) => default,
        },
        other => other.as_bigint().map_or(default, Obj::big),
    })
}

fn float(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_float", &["default"])?;
    let default = bound[0].clone().unwrap_or(Obj::Float(0.0));
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let number = match value.as_str() {
        Some(text) => parse::float(text),
        None => value.as_float(),
    };
    Ok(number.map_or(default, Obj::Float))
}

fn filesizeformat(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_filesizeformat", &["binary"])?;
    let binary = flag(&bound[0], false)?;
    let bytes = as_float(value)?;
    let (base, units): (f64, [&str; 8]) = if binary {
        (
            1024.0,
            ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"],
        )
    } else {
        (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"])
    };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", whole(bytes)?).into());
    }
    let mut unit = base;
    for (n, name) in units.iter().enumerate() {
        unit *= base;
        if bytes < unit || n + 1 == units.len() {
            return Ok(format!("{:.1} {name}", base * bytes / unit).into());
        }
    }
    Ok(Obj::from(""))
}

/// `float(value)`, with Python's errors.
fn as_float(value: &Obj) -> Result<f64, Error> {
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    if let Some(text) = value.as_str() {
        return parse::float(text).ok_or_else(|| {
            Error::value_error(format!(
                "could not convert string to float: {}",
                quote(text)
            ))
        });
    }
    value.as_float().ok_or_else(|| {
        Error::type_error(format!(
            "float() argument must be a string or a real number, not '{}'",
            value.type_name()
        ))
    })
}

fn round(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_round", &["precision", "method"])?;
    let precision = integer(&bound[0], 0)?;
    let method = bound[1].as_ref().map_or(Some("common"), Obj::as_str);
    let ceil = match method {
        Some("common") => None,
        Some("ceil") => Some(true),
        Some("floor") => Some(false),
        _ => {
            return Err(Error::filter_argument(
                "method must be common, ceil or floor",
            ));
        }
    };
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let Some(f) = value.as_float() else {
        return Err(Error::type_error(match ceil {
            None => format!("type {} doesn't define __round__ method", value.type_name()),
            Some(_) => format!("must be real number, not {}", value.type_name()),
        }));
    };
    let Some(ceil) = ceil else {
        return Ok(match value {
            Obj::Float(f) => Obj::Float(round_float(*f, precision)),
            other => Obj::big(round_int(other.as_bigint().unwrap_or_default(), precision)),
        });
    };
    let power = 10f64.powi(i32::try_from(precision).unwrap_or(0));
    let scaled = f * power;
    let result = if ceil { scaled.ceil() } else { scaled.floor() };
    Ok(Obj::Float(result / power))
}

/// `round(f, digits)`: to nearest, ties of the exact value to even.
pub(super) fn round_float(f: f64, digits: i64) -> f64 {
    if !f.is_finite() || digits > 323 {
        return f;
    }
    if let Ok(digits) = usize::try_from(digits) {
        return format!("{f:.digits$}").parse().unwrap_or(f);
    }
    if digits < -308 {
        return 0.0 * f;
    }
    let power = 10f64.powi(-(digits as i32));
    (f / power).round_ties_even() * power
}

fn round_int(number: BigInt, digits: i64) -> BigInt {
    if digits >= 0 {
        return number;
    }
    if digits < -5000 {
        return BigInt::default();
    }
    let power = BigInt::from(10).pow(digits.unsigned_abs() as u32);
    let half = &power / 2;
    let mut down = &number / &power;
    let mut rest = &number - &down * &power;
    if rest < BigInt::default() {
        rest += &power;
        down -= 1;
    }
    let odd = (&down % 2) != BigInt::default();
    if rest > half || (rest == half && odd) {
        down += 1;
    }
    down * power
}

/// The average of a list; any other value is treated as a number (`salt/utils/jinja.py lst_avg`).
fn avg(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("lst_avg", &[])?;
    if super::truth::hashable(value) {
        return as_float(value).map(Obj::Float);
    }
    let items = cx.iterate(value)?;
    let mut total = Obj::Int(0);
    for item in &items {
        total = add(cx, &total, item)?;
    }
    if items.is_empty() {
        return Err(Error::new(ErrorKind::ZeroDivision, "division by zero"));
    }
    Ok(Obj::Float(as_float(&total)? / items.len() as f64))
}

/// An integer, a float, or the unchanged text (`salt/utils/stringutils.py to_num`).
pub(super) fn number_or_text(text: &str) -> Obj {
    if let Some(number) = parse::int(text, 10) {
        return Obj::big(number);
    }
    parse::float(text).map_or_else(|| text.into(), Obj::Float)
}

fn to_num(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("to_num", &[])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    match value {
        Obj::Str(text) | Obj::Markup(text) => Ok(number_or_text(text)),
        Obj::Float(f) if f.is_nan() => Ok(value.clone()),
        Obj::Float(f) => whole(*f).map(Obj::big),
        other => other.as_bigint().map(Obj::big).ok_or_else(|| {
            Error::type_error(format!(
                "int() argument must be a string, a bytes-like object or a real number, not '{}'",
                other.type_name()
            ))
        }),
    }
}

fn is_hex(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("is_hex", &[])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let hex = value.as_str().and_then(|text| parse::int(text, 16));
    Ok(Obj::Bool(hex.is_some()))
}

/// Converts `2G`, `30MB`, `64KiB` to bytes; 0 for anything it cannot parse (`salt/utils/stringutils.py
/// human_to_bytes`).
fn human_to_bytes(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("human_to_bytes", &["default_unit", "handle_metric"])?;
    let default = bound[0].clone().unwrap_or_else(|| "B".into());
    let metric = flag(&bound[1], false)?;
    let text = value.to_str()?;
    let text = text.trim_matches(halite_wire::pytext::is_space);
    let digits = text.find(|c: char| !matches!(c, '0'..='9' | '.'));
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit
        .trim_start_matches(halite_wire::pytext::is_space)
        .to_lowercase();
    let unit = if unit.is_empty() {
        text_of(&default)?.to_lowercase()
    } else {
        unit
    };
    let Some(power) = unit.chars().next().and_then(|c| "bkmgtpezy".find(c)) else {
        return Ok(Obj::Int(0));
    };
    let decimal = match (power, &unit[1..]) {
        (1.., "b") => metric,
        (_, "") | (1.., "ib") => false,
        _ => return Ok(Obj::Int(0)),
    };
    let factor = if decimal {
        BigInt::from(1000).pow(power as u32)
    } else {
        BigInt::from(1024).pow(power as u32)
    };
    if let Some(number) = parse::int(number, 10) {
        return Ok(Obj::big(number * factor));
    }
    match (parse::float(number), factor.to_string().parse::<f64>()) {
        (Some(number), Ok(factor)) => whole(number * factor).map(Obj::big),
        _ => Ok(Obj::Int(0)),
    }
}

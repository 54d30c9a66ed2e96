//! Python's arithmetic.

use super::ast::BinOp;
use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::value::{Dict, Obj, Set};
use super::{escape, format};
use num_bigint::{BigInt, Sign};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// Maximum size of a computed integer in bits.
const MAX_BITS: u64 = 1 << 17;

fn sign_of(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::FloorDiv => "//",
        BinOp::Mod => "%",
        BinOp::Pow => "** or pow()",
    }
}

/// `left op right`.
pub fn binary(cx: &mut Cx, op: BinOp, left: &Obj, right: &Obj) -> Result<Obj> {
    if let (Obj::Int(a), Obj::Int(b)) = (left, right)
        && let Some(result) = small(op, *a, *b)
    {
        return Ok(Obj::Int(result));
    }
    // `'text' % undefined` is formatting; the value fails when it is printed.
    let formats = op == BinOp::Mod && left.as_str().is_some();
    match (left, right) {
        (Obj::Undefined(missing), _) => return Err(missing.error()),
        (_, Obj::Undefined(missing)) if !formats => return Err(missing.error()),
        _ => {}
    }
    if let Some(result) = sequences(cx, op, left, right)? {
        return Ok(result);
    }
    if let (Some(a), Some(b)) = (left.as_bigint(), right.as_bigint()) {
        return integers(cx, op, &a, &b);
    }
    match (left.as_float(), right.as_float()) {
        (Some(a), Some(b)) => floats(op, a, b),
        _ => Err(unsupported(op, left, right)),
    }
}

fn unsupported(op: BinOp, left: &Obj, right: &Obj) -> Error {
    let (a, b) = (left.type_name(), right.type_name());
    let message = match (op, left) {
        (BinOp::Add, Obj::Str(_)) => format!("can only concatenate str (not \"{b}\") to str"),
        (BinOp::Add, Obj::List(_)) => format!("can only concatenate list (not \"{b}\") to list"),
        (BinOp::Add, Obj::Tuple(_)) => {
            format!("can only concatenate tuple (not \"{b}\") to tuple")
        }
        (BinOp::Mul, _) if is_sequence(left) => {
            format!("can't multiply sequence by non-int of type '{b}'")
        }
        (BinOp::Mul, _) if is_sequence(right) => {
            format!("can't multiply sequence by non-int of type '{a}'")
        }
        _ => format!(
            "unsupported operand type(s) for {}: '{a}' and '{b}'",
            sign_of(op)
        ),
    };
    Error::type_error(message)
}

fn is_sequence(obj: &Obj) -> bool {
    matches!(
        obj,
        Obj::Str(_) | Obj::Markup(_) | Obj::Bytes(_) | Obj::List(_) | Obj::Tuple(_)
    )
}

/// Operations on small integers with a small result.
fn small(op: BinOp, a: i64, b: i64) -> Option<i64> {
    match op {
        BinOp::Add => a.checked_add(b),
        BinOp::Sub => a.checked_sub(b),
        BinOp::Mul => a.checked_mul(b),
        BinOp::FloorDiv => floor_div(a, b),
        BinOp::Mod => {
            let quotient = floor_div(a, b)?;
            a.checked_sub(quotient.checked_mul(b)?)
        }
        BinOp::Pow => a.checked_pow(u32::try_from(b).ok()?),
        BinOp::Div => None,
    }
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    if a % b != 0 && (a < 0) != (b < 0) {
        quotient.checked_sub(1)
    } else {
        Some(quotient)
    }
}

/// Concatenation and repetition of texts and lists, formatting, and set differences.
fn sequences(cx: &mut Cx, op: BinOp, left: &Obj, right: &Obj) -> Result<Option<Obj>> {
    Ok(Some(match (op, left, right) {
        (BinOp::Add, Obj::Str(a), Obj::Str(b)) => {
            cx.check_size(a.len() + b.len())?;
            Obj::from([a.as_ref(), b.as_ref()].concat())
        }
        (BinOp::Add, Obj::Markup(a), Obj::Markup(b)) => markup(cx, a, b)?,
        (BinOp::Add, Obj::Markup(a), Obj::Str(b)) => markup(cx, a, &escape(b))?,
        (BinOp::Add, Obj::Str(a), Obj::Markup(b)) => markup(cx, &escape(a), b)?,
        (BinOp::Add, Obj::Bytes(a), Obj::Bytes(b)) => {
            cx.check_size(a.len() + b.len())?;
            Obj::Bytes([a.as_ref(), b.as_ref()].concat().into())
        }
        (BinOp::Add, Obj::List(a), Obj::List(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            cx.charge(a.len() + b.len())?;
            cx.check_size(a.len() + b.len())?;
            Obj::list(a.iter().chain(b.iter()).cloned().collect())
        }
        (BinOp::Add, Obj::Tuple(a), Obj::Tuple(b)) => {
            cx.charge(a.len() + b.len())?;
            cx.check_size(a.len() + b.len())?;
            Obj::tuple(a.iter().chain(b.iter()).cloned().collect())
        }
        (BinOp::Mul, _, _) if is_sequence(left) && right.as_int().is_some() => {
            repeat(cx, left, right)?
        }
        (BinOp::Mul, _, _) if is_sequence(right) && left.as_int().is_some() => {
            repeat(cx, right, left)?
        }
        (BinOp::Mod, Obj::Str(text), values) => Obj::from(format::percent(cx, text, values)?),
        (BinOp::Mod, Obj::Markup(text), values) => {
            let values = escaped(values, 0)?;
            Obj::Markup(format::percent(cx, text, &values)?.into())
        }
        (BinOp::Sub, Obj::Set(a), Obj::Set(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            cx.charge(a.len())?;
            let mut rest = Set::new();
            for item in a.iter() {
                if !b.contains(item)? {
                    rest.insert(item.clone())?;
                }
            }
            Obj::set(rest)
        }
        _ => return Ok(None),
    }))
}

fn markup(cx: &mut Cx, a: &str, b: &str) -> Result<Obj> {
    cx.check_size(a.len() + b.len())?;
    Ok(Obj::Markup([a, b].concat().into()))
}

/// Values for a format that is markup: texts that are not markup are escaped.
fn escaped(values: &Obj, depth: usize) -> Result<Obj> {
    Ok(match values {
        Obj::Str(text) => Obj::Markup(escape(text).into()),
        Obj::Tuple(items) if depth == 0 => {
            let items = items.iter().map(|item| escaped(item, 1));
            Obj::tuple(items.collect::<Result<_>>()?)
        }
        Obj::Dict(dict) if depth == 0 => {
            let mut out = Dict::new();
            for (key, value) in dict.borrow().iter() {
                out.insert(key.clone(), escaped(value, 1)?)?;
            }
            Obj::dict(out)
        }
        other => other.clone(),
    })
}

fn repeat(cx: &mut Cx, sequence: &Obj, times: &Obj) -> Result<Obj> {
    let times = usize::try_from(times.as_int().unwrap_or(0)).unwrap_or(0);
    let size = match sequence {
        Obj::Str(text) | Obj::Markup(text) => text.len(),
        other => other.length()?,
    };
    let size = size.saturating_mul(times);
    cx.check_size(size)?;
    Ok(match sequence {
        Obj::Str(text) => Obj::from(text.repeat(times)),
        Obj::Markup(text) => Obj::Markup(text.repeat(times).into()),
        Obj::Bytes(bytes) => Obj::Bytes(Rc::from(bytes.repeat(times))),
        Obj::List(list) => {
            cx.charge(size)?;
            Obj::list(repeated(&list.borrow(), times))
        }
        Obj::Tuple(items) => {
            cx.charge(size)?;
            Obj::tuple(repeated(items, times))
        }
        _ => Obj::None,
    })
}

fn repeated(items: &[Obj], times: usize) -> Vec<Obj> {
    std::iter::repeat_n(items, times)
        .flatten()
        .cloned()
        .collect()
}

fn zero_division(message: &str) -> Error {
    Error::new(ErrorKind::ZeroDivision, message)
}

/// Quotient and remainder, rounding down.
fn big_divmod(a: &BigInt, b: &BigInt) -> (BigInt, BigInt) {
    let quotient = a / b;
    let rest = a - &quotient * b;
    if rest.sign() != Sign::NoSign && rest.sign() != b.sign() {
        return (quotient - 1, rest + b);
    }
    (quotient, rest)
}

fn integers(cx: &mut Cx, op: BinOp, a: &BigInt, b: &BigInt) -> Result<Obj> {
    let no_divisor = b.sign() == Sign::NoSign;
    let bits = a.bits() + b.bits();
    cx.charge(usize::try_from(bits / 64).unwrap_or(0))?;
    Ok(match op {
        BinOp::Add => Obj::big(a + b),
        BinOp::Sub => Obj::big(a - b),
        BinOp::Mul if bits > MAX_BITS => return Err(too_large()),
        BinOp::Mul => {
            cx.charge(usize::try_from(a.bits() / 64 * (b.bits() / 64) / 8).unwrap_or(0))?;
            Obj::big(a * b)
        }
        BinOp::Div if no_divisor => return Err(zero_division("division by zero")),
        BinOp::Div => return true_division(a, b),
        BinOp::FloorDiv if no_divisor => {
            return Err(zero_division("integer division or modulo by zero"));
        }
        BinOp::FloorDiv => Obj::big(big_divmod(a, b).0),
        BinOp::Mod if no_divisor => return Err(zero_division("integer modulo by zero")),
        BinOp::Mod => Obj::big(big_divmod(a, b).1),
        BinOp::Pow if b.sign() == Sign::Minus => return floats(op, float(a), float(b)),
        BinOp::Pow => {
            let Ok(exponent) = u32::try_from(b) else {
                return match a.bits() {
                    0 | 1 if *a != BigInt::from(-1) => Ok(Obj::big(a.clone())),
                    _ => Err(too_large()),
                };
            };
            let bits = a.bits().saturating_mul(exponent.into());
            if bits > MAX_BITS && a.bits() > 1 {
                return Err(too_large());
            }
            cx.charge(usize::try_from(bits).unwrap_or(usize::MAX))?;
            Obj::big(a.pow(exponent))
        }
    })
}

fn too_large() -> Error {
    Error::limit("the integer would be too large")
}

fn float(value: &BigInt) -> f64 {
    Obj::big(value.clone()).as_float().unwrap_or(f64::NAN)
}

fn true_division(a: &BigInt, b: &BigInt) -> Result<Obj> {
    let (x, y) = (float(a), float(b));
    if x.is_finite() && y.is_finite() {
        return Ok(Obj::Float(x / y));
    }
    // Too large for floats: but the quotient of the leading bits may fit.
    let shift = a.bits().min(b.bits()).saturating_sub(900);
    let result = float(&(a >> shift)) / float(&(b >> shift));
    if result.is_finite() {
        return Ok(Obj::Float(result));
    }
    Err(Error::new(
        ErrorKind::Overflow,
        "integer division result too large for a float",
    ))
}

fn floats(op: BinOp, a: f64, b: f64) -> Result<Obj> {
    Ok(Obj::Float(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul => a * b,
        BinOp::Div if b == 0.0 => return Err(zero_division("float division by zero")),
        BinOp::Div => a / b,
        BinOp::FloorDiv if b == 0.0 => return Err(zero_division("float floor division by zero")),
        BinOp::FloorDiv => {
            let rest = float_mod(a, b);
            ((a - rest) / b).round()
        }
        BinOp::Mod if b == 0.0 => return Err(zero_division("float modulo")),
        BinOp::Mod => float_mod(a, b),
        BinOp::Pow if a == 0.0 && b < 0.0 => {
            return Err(zero_division("0.0 cannot be raised to a negative power"));
        }
        BinOp::Pow if a < 0.0 && b.fract() != 0.0 && b.is_finite() => {
            return Err(Error::type_error("complex numbers are not supported"));
        }
        BinOp::Pow => {
            let result = a.powf(b);
            if result.is_infinite() && a.is_finite() && b.is_finite() {
                return Err(Error::new(
                    ErrorKind::Overflow,
                    "(34, 'Numerical result out of range')",
                ));
            }
            result
        }
    }))
}

/// The remainder, with the sign of the divisor.
fn float_mod(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 {
        return 0.0f64.copysign(b);
    }
    if (rest < 0.0) != (b < 0.0) {
        return rest + b;
    }
    rest
}

/// `-value`.
pub fn negative(value: &Obj) -> Result<Obj> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Float(f) => Ok(Obj::Float(-f)),
        _ => match value.as_bigint() {
            Some(big) => Ok(Obj::big(-big)),
            None => Err(bad_unary("-", value)),
        },
    }
}

/// `+value`.
pub fn positive(value: &Obj) -> Result<Obj> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Float(_) | Obj::Int(_) | Obj::Big(_) => Ok(value.clone()),
        Obj::Bool(b) => Ok(Obj::Int((*b).into())),
        _ => Err(bad_unary("+", value)),
    }
}

fn bad_unary(sign: &str, value: &Obj) -> Error {
    Error::type_error(format!(
        "bad operand type for unary {sign}: '{}'",
        value.type_name()
    ))
}

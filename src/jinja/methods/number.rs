//! Methods of numbers.

use super::super::error::{Error, ErrorKind};
use super::super::value::Obj;
use super::{Table, integer, positional};
use num_bigint::{BigInt, Sign};

pub(super) const INT: Table = &[
    ("as_integer_ratio", |_, v, a| {
        positional("int.as_integer_ratio", a, 0, 0)?;
        Ok(Obj::tuple(vec![whole(v), Obj::Int(1)]))
    }),
    ("bit_count", |_, v, a| {
        positional("int.bit_count", a, 0, 0)?;
        let ones = big(v).magnitude().to_bytes_le();
        let ones: u32 = ones.iter().map(|byte| byte.count_ones()).sum();
        Ok(Obj::Int(ones.into()))
    }),
    ("bit_length", |_, v, a| {
        positional("int.bit_length", a, 0, 0)?;
        Ok(big(v).bits().into())
    }),
    ("conjugate", |_, v, a| {
        positional("int.conjugate", a, 0, 0)?;
        Ok(whole(v))
    }),
    ("to_bytes", |cx, v, a| {
        let bound = a.bind("to_bytes", &["length", "byteorder", "signed"])?;
        let length = bound[0].as_ref().map_or(Ok(1), integer)?;
        let length = usize::try_from(length)
            .map_err(|_| Error::value_error("length argument must be non-negative"))?;
        cx.check_size(length)?;
        let order = bound[1].as_ref().and_then(Obj::as_str).unwrap_or("big");
        let number = big(v);
        if number.sign() == Sign::Minus {
            return Err(Error::new(
                ErrorKind::Overflow,
                "can't convert negative int to unsigned",
            ));
        }
        let mut bytes = number.magnitude().to_bytes_le();
        if number.sign() == Sign::NoSign {
            bytes.clear();
        }
        if bytes.len() > length {
            return Err(Error::new(ErrorKind::Overflow, "int too big to convert"));
        }
        bytes.resize(length, 0);
        match order {
            "little" => {}
            "big" => bytes.reverse(),
            _ => {
                return Err(Error::value_error(
                    "byteorder must be either 'little' or 'big'",
                ));
            }
        }
        Ok(Obj::Bytes(bytes.into()))
    }),
];

pub(super) const FLOAT: Table = &[
    ("as_integer_ratio", |_, v, a| {
        positional("float.as_integer_ratio", a, 0, 0)?;
        ratio(float(v))
    }),
    ("conjugate", |_, v, a| {
        positional("float.conjugate", a, 0, 0)?;
        Ok(v.clone())
    }),
    ("hex", |_, v, a| {
        positional("float.hex", a, 0, 0)?;
        Ok(hex(float(v)).into())
    }),
    ("is_integer", |_, v, a| {
        positional("float.is_integer", a, 0, 0)?;
        Ok(Obj::Bool(float(v).fract() == 0.0))
    }),
];

fn big(value: &Obj) -> BigInt {
    value.as_bigint().unwrap_or_default()
}

/// An integer; booleans are converted.
fn whole(value: &Obj) -> Obj {
    Obj::big(big(value))
}

fn float(value: &Obj) -> f64 {
    value.as_float().unwrap_or(f64::NAN)
}

/// Mantissa and binary exponent of a finite float.
fn parts(f: f64) -> (u64, i32) {
    let bits = f.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    match exponent {
        0 => (fraction, -1074),
        e => (fraction | (1 << 52), e - 1075),
    }
}

fn ratio(f: f64) -> Result<Obj, Error> {
    if !f.is_finite() {
        return Err(Error::new(
            ErrorKind::Overflow,
            "cannot convert Infinity to integer ratio",
        ));
    }
    let (mut mantissa, mut exponent) = parts(f);
    while mantissa != 0 && mantissa.is_multiple_of(2) {
        mantissa /= 2;
        exponent += 1;
    }
    let power = BigInt::from(1) << exponent.unsigned_abs().min(2000);
    let number = BigInt::from(mantissa) * if f < 0.0 { -1 } else { 1 };
    let (top, bottom) = match (mantissa, exponent) {
        (0, _) => (BigInt::from(0), BigInt::from(1)),
        (_, e) if e >= 0 => (number * power, BigInt::from(1)),
        _ => (number, power),
    };
    Ok(Obj::tuple(vec![Obj::big(top), Obj::big(bottom)]))
}

fn hex(f: f64) -> String {
    if !f.is_finite() {
        return f.to_string().to_lowercase();
    }
    let sign = if f.is_sign_negative() { "-" } else { "" };
    let (mantissa, exponent) = parts(f);
    if mantissa == 0 {
        return format!("{sign}0x0.0p+0");
    }
    let leading = mantissa >> 52;
    let fraction = mantissa & ((1 << 52) - 1);
    format!("{sign}0x{leading}.{fraction:013x}p{:+}", exponent + 52)
}

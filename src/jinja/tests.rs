//! Tests of Jinja and Salt: `x is defined`.

use super::TestFn;
use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::filters;
use super::methods;
use super::value::{Args, CmpOp, Obj};
use num_bigint::BigInt;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &[(&str, TestFn)] = &[
    ("!=", |_, v, a| equal(v, a, "ne").map(|equal| !equal)),
    ("<", |_, v, a| compared(v, a, "lt", CmpOp::Lt)),
    ("<=", |_, v, a| compared(v, a, "le", CmpOp::Le)),
    ("==", |_, v, a| equal(v, a, "eq")),
    (">", |_, v, a| compared(v, a, "gt", CmpOp::Gt)),
    (">=", |_, v, a| compared(v, a, "ge", CmpOp::Ge)),
    ("boolean", |_, v, a| {
        no_args(a, "test_boolean", matches!(v, Obj::Bool(_)))
    }),
    ("callable", callable),
    ("defined", |_, v, a| {
        no_args(a, "test_defined", !v.is_undefined())
    }),
    ("divisibleby", divisibleby),
    ("eq", |_, v, a| equal(v, a, "eq")),
    ("equalto", |_, v, a| equal(v, a, "test_equalto")),
    ("escaped", |_, v, a| {
        no_args(a, "test_escaped", matches!(v, Obj::Markup(_)))
    }),
    ("even", |_, v, a| parity(v, a, "test_even", false)),
    ("false", |_, v, a| {
        no_args(a, "test_false", matches!(v, Obj::Bool(false)))
    }),
    ("filter", |_, v, a| {
        known(v, a, "test_filter", |name| filters::find(name).is_some())
    }),
    ("float", |_, v, a| {
        no_args(a, "test_float", matches!(v, Obj::Float(_)))
    }),
    ("ge", |_, v, a| compared(v, a, "ge", CmpOp::Ge)),
    ("greaterthan", |_, v, a| compared(v, a, "gt", CmpOp::Gt)),
    ("gt", |_, v, a| compared(v, a, "gt", CmpOp::Gt)),
    ("in", in_),
    ("integer", |_, v, a| {
        no_args(a, "test_integer", matches!(v, Obj::Int(_) | Obj::Big(_)))
    }),
    ("iterable", iterable),
    ("le", |_, v, a| compared(v, a, "le", CmpOp::Le)),
    ("lessthan", |_, v, a| compared(v, a, "lt", CmpOp::Lt)),
    ("list", |_, v, a| {
        no_args(a, "is_list", matches!(v, Obj::List(_)))
    }),
    ("lower", methods::test_lower),
    ("lt", |_, v, a| compared(v, a, "lt", CmpOp::Lt)),
    ("mapping", |_, v, a| {
        no_args(
            a,
            "test_mapping",
            matches!(v, Obj::Dict(_)) || is_native_map(v),
        )
    }),
    ("match", match_),
    ("ne", |_, v, a| equal(v, a, "ne").map(|equal| !equal)),
    ("none", |_, v, a| no_args(a, "test_none", v.is_none())),
    ("number", |_, v, a| {
        no_args(a, "test_number", v.as_float().is_some())
    }),
    ("odd", |_, v, a| parity(v, a, "test_odd", true)),
    ("sameas", |_, v, a| Ok(v.same(&one_arg(a, "test_sameas")?))),
    ("sequence", sequence),
    ("string", |_, v, a| {
        no_args(a, "test_string", v.as_str().is_some())
    }),
    ("test", |_, v, a| {
        known(v, a, "test_test", |name| find(name).is_some())
    }),
    ("true", |_, v, a| {
        no_args(a, "test_true", matches!(v, Obj::Bool(true)))
    }),
    ("undefined", |_, v, a| {
        no_args(a, "test_undefined", v.is_undefined())
    }),
    ("upper", methods::test_upper),
];

static BY_NAME: LazyLock<HashMap<&'static str, TestFn>> =
    LazyLock::new(|| TABLE.iter().copied().collect());

/// The test with this name.
pub fn find(name: &str) -> Option<TestFn> {
    BY_NAME.get(name).copied()
}

/// The names of all tests.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// The result of a test without arguments.
fn no_args(args: &Args, name: &str, answer: bool) -> Result<bool, Error> {
    check_arg_count(args, name, 0)?;
    Ok(answer)
}

/// In messages, the value itself counts as an argument.
fn check_arg_count(args: &Args, name: &str, most: usize) -> Result<(), Error> {
    let given = args.positional.len();
    if given > most {
        let plural = if most == 0 { "" } else { "s" };
        return Err(Error::type_error(format!(
            "{name}() takes {} positional argument{plural} but {} were given",
            most + 1,
            given + 1
        )));
    }
    Ok(())
}

/// The only argument.
fn one_arg(args: &Args, name: &str) -> Result<Obj, Error> {
    check_arg_count(args, name, 1)?;
    let found = args.positional.first();
    let found = found.or_else(|| args.keyword.first().map(|(_, value)| value));
    found.cloned().ok_or_else(|| {
        Error::type_error(format!("{name}() missing 1 required positional argument"))
    })
}

fn equal(value: &Obj, args: &Args, name: &str) -> Result<bool, Error> {
    value.equals(&one_arg(args, name)?)
}

fn compared(value: &Obj, args: &Args, name: &str, op: CmpOp) -> Result<bool, Error> {
    value.compare(op, &one_arg(args, name)?)
}

fn known(value: &Obj, args: &Args, name: &str, is: fn(&str) -> bool) -> Result<bool, Error> {
    check_arg_count(args, name, 0)?;
    if let Obj::Undefined(missing) = value {
        missing.check()?;
    }
    value.check_hashable()?;
    Ok(value.as_str().is_some_and(is))
}

/// `value % divisor`, for the types that tests need.
fn rest(value: &Obj, divisor: &Obj) -> Result<Obj, Error> {
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    if let (Some(a), Some(b)) = (value.as_bigint(), divisor.as_bigint()) {
        if b == BigInt::default() {
            return Err(Error::new(
                ErrorKind::ZeroDivision,
                "integer modulo by zero",
            ));
        }
        let rest = ((a % &b) + &b) % &b;
        return Ok(Obj::big(rest));
    }
    match (value.as_float(), divisor.as_float()) {
        (Some(_), Some(0.0)) => Err(Error::new(ErrorKind::ZeroDivision, "float modulo")),
        (Some(a), Some(b)) => Ok(Obj::Float(((a % b) + b) % b)),
        _ if value.as_str().is_some() => Err(Error::type_error(
            "not all arguments converted during string formatting",
        )),
        _ => Err(Error::type_error(format!(
            "unsupported operand type(s) for %: '{}' and '{}'",
            value.type_name(),
            divisor.type_name()
        ))),
    }
}

fn parity(value: &Obj, args: &Args, name: &str, odd: bool) -> Result<bool, Error> {
    check_arg_count(args, name, 0)?;
    let rest = rest(value, &Obj::Int(2))?;
    rest.equals(&Obj::Int(i64::from(odd)))
}

fn divisibleby(_: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    let divisor = one_arg(args, "test_divisibleby")?;
    rest(value, &divisor)?.equals(&Obj::Int(0))
}

fn callable(_: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    // Undefined values can be called, but the call fails.
    no_args(args, "callable", value.callable() || value.is_undefined())
}

fn in_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    let sequence = one_arg(args, "test_in")?;
    cx.contains(&sequence, value)
}

fn is_native_map(value: &Obj) -> bool {
    match value {
        Obj::Native(object) => matches!(object.as_data(), Some(Obj::Dict(_))),
        _ => false,
    }
}

fn sequence(_: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    no_args(
        args,
        "test_sequence",
        match value {
            Obj::Set(_) | Obj::View(_) | Obj::Iter(_) => false,
            Obj::Undefined(missing) => !missing.strict,
            other => other.length().is_ok(),
        },
    )
}

fn iterable(cx: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    no_args(args, "test_iterable", true)?;
    Ok(match value {
        Obj::Undefined(missing) => {
            missing.check()?;
            true
        }
        Obj::None | Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_) => false,
        Obj::Native(object) => object.clone().iter(cx)?.is_some(),
        _ => true,
    })
}

/// Salt's `match`: matches a regular expression at the start of a text.
fn match_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error> {
    let bound = args.bind_required("test_match", &["rgx", "ignorecase", "multiline"], 1)?;
    let flag = |n: usize| bound[n].as_ref().map_or(Ok(false), Obj::truthy);
    let pattern = bound[0].clone().unwrap_or(Obj::None);
    filters::matches(cx, &pattern, value, flag(1)?, flag(2)?)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn no_name_twice() {
        assert_eq!(TABLE.len(), BY_NAME.len());
    }
}

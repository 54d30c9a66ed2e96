//! `random`: random or seeded numbers, texts and choices, and password hashes.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_crypto::{Alphabet, HashType, hex_by_name};
use halite_wire::pyrandom::{Mersenne, Source};
use halite_wire::{Value, base64};

/// Maximum text length and number of choices.
const MAX_SIZE: i64 = 1 << 20;

pub(super) const MODULE: Module = Module {
    name: "random",
    functions: &[
        Function::new(
            "hash",
            hash,
            "The hash of a text by the name of its algorithm.",
        )
        .args(args![value, algorithm = "sha512"]),
        Function::new(
            "str_encode",
            str_encode,
            "Encodes a text in base64 or another encoding.",
        )
        .args(args![value, encoder = "base64"]),
        Function::new(
            "get_str",
            get_str,
            "A random text of a length from the chosen character classes.",
        )
        .args(args![
            length = { 20 },
            chars = None,
            lowercase = True,
            uppercase = True,
            digits = True,
            punctuation = True,
            whitespace = False,
            printable = False
        ]),
        Function::new(
            "shadow_hash",
            super::shadow::gen_password,
            "The hash of a password, random if not given, for /etc/shadow.",
        )
        .args(args![
            crypt_salt = None,
            password = None,
            algorithm = "sha512"
        ]),
        Function::new(
            "rand_int",
            rand_int,
            "A random integer in a range, bounds included.",
        )
        .args(args![start = { 1 }, end = { 10 }, seed = None]),
        Function::new(
            "seed",
            seed,
            "A number below the range that depends only on the seed, by default the minion's id.",
        )
        .args(args![range = { 10 }, hash = None]),
        Function::new(
            "sample",
            sample,
            "A number of list items, chosen at random or from a seed.",
        )
        .args(args![value, size, seed = None]),
        Function::new("shuffle", shuffle, "The items of a list in random order.")
            .args(args![value, seed = None]),
    ],
};

fn hash(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("algorithm"));
    let Some(bytes) = call.arg("value").as_bytes() else {
        return Err(CallError::Type(
            "object supporting the buffer API required".into(),
        ));
    };
    hex_by_name(&name, bytes).map(Value::from).ok_or_else(|| {
        CallError::raised(
            "salt.exceptions.SaltException",
            "You must specify a valid algorithm.",
        )
    })
}

fn str_encode(call: &mut Call<'_>) -> Result {
    const BAD: &str = "Value must be an encode-able string";
    let value = call.arg("value");
    let Some(bytes) = value.as_bytes() else {
        return Err(CallError::Invocation(BAD.into()));
    };
    // Stock has converted text to bytes by now, which have no encoders.
    if call.arg("encoder").is_str("base64") {
        Ok(base64::encode(bytes).into())
    } else {
        Err(CallError::Invocation(BAD.into()))
    }
}

fn get_str(call: &mut Call<'_>) -> Result {
    let length =
        python::int(call.arg("length")).map_err(|e| CallError::Command(e.message().to_owned()))?;
    if length > MAX_SIZE {
        return Err(CallError::Command(format!(
            "length must be at most {MAX_SIZE}"
        )));
    }
    let chars = call.arg("chars");
    let alphabet = Alphabet {
        chars: if chars.truthy() {
            python::str(chars)
        } else {
            String::new()
        },
        lowercase: call.flag("lowercase"),
        uppercase: call.flag("uppercase"),
        digits: call.flag("digits"),
        punctuation: call.flag("punctuation"),
        whitespace: call.flag("whitespace"),
        printable: call.flag("printable"),
    };
    alphabet
        .password(usize::try_from(length).unwrap_or(0))
        .map(Value::from)
        .ok_or_else(|| CallError::Command("unterminated character set at position 0".into()))
}

fn number(value: &Value) -> Result<i64> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        Value::Float(f) if f.fract() == 0.0 => Ok(*f as i64),
        Value::Float(_) => Err(CallError::raised(
            "ValueError",
            "non-integer arg 1 for randrange()",
        )),
        other => {
            python::int(other)?;
            Err(CallError::raised(
                "ValueError",
                "non-integer arg 1 for randrange()",
            ))
        }
    }
}

fn seeded(seed: &Value) -> Result<Mersenne> {
    Mersenne::from_value(seed).ok_or_else(|| {
        let text =
            "The only supported seed types are: None,\nint, float, str, bytes, and bytearray.";
        CallError::Type(text.into())
    })
}

fn rand_int(call: &mut Call<'_>) -> Result {
    let mut source = match call.arg("seed") {
        Value::Nil => Source::System,
        seed => Source::Seeded(Box::new(seeded(seed)?)),
    };
    let plus = match call.arg("end") {
        Value::Str(_) => {
            return Err(CallError::Type(
                "can only concatenate str (not \"int\") to str".into(),
            ));
        }
        end => number(end)?.saturating_add(1),
    };
    let start = number(call.arg("start"))?;
    let width = i128::from(plus) - i128::from(start);
    match u64::try_from(width) {
        Ok(width) if width > 0 => Ok(Value::Int(start.wrapping_add(source.below(width) as i64))),
        _ => {
            let text = format!("empty range for randrange() ({start}, {plus}, {width})");
            Err(CallError::raised("ValueError", text))
        }
    }
}

fn seed(call: &mut Call<'_>) -> Result {
    let mut numbers = match call.arg("hash") {
        Value::Nil => Mersenne::from_text(&call.ctx.id),
        seed => seeded(seed)?,
    };
    match u64::try_from(number(call.arg("range"))?) {
        Ok(range) if range > 0 => Ok(numbers.below(range).into()),
        _ => Err(CallError::raised(
            "ValueError",
            "empty range for randrange()",
        )),
    }
}

/// The items of what Python considers a sequence.
fn members(value: &Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(list) => Ok(list.clone()),
        Value::Str(text) => Ok(text.chars().map(|c| c.to_string().into()).collect()),
        _ => Err(CallError::Type(
            "Population must be a sequence.  For dicts or sets, use sorted(d).".into(),
        )),
    }
}

fn choose(call: &Call<'_>, size: &Value) -> Result {
    let mut source = match call.arg("seed") {
        Value::Nil => Source::System,
        seed => match seed.as_bytes() {
            // Salt hashes the given seed.
            Some(bytes) => {
                Source::Seeded(Box::new(Mersenne::from_text(&HashType::Sha512.hex(bytes))))
            }
            None => {
                return Err(CallError::Type(
                    "object supporting the buffer API required".into(),
                ));
            }
        },
    };
    let members = members(call.arg("value"))?;
    let size = match size {
        Value::Int(i) => usize::try_from(*i).ok(),
        Value::Bool(b) => Some(usize::from(*b)),
        other => {
            return Err(CallError::Type(format!(
                "'<=' not supported between instances of 'int' and '{}'",
                python::type_name(other)
            )));
        }
    };
    let places = size.and_then(|size| source.sample(members.len(), size));
    let places = places.ok_or_else(|| {
        CallError::raised("ValueError", "Sample larger than population or is negative")
    })?;
    let chosen: Vec<Value> = places
        .into_iter()
        .filter_map(|at| members.get(at).cloned())
        .collect();
    Ok(chosen.into())
}

fn sample(call: &mut Call<'_>) -> Result {
    let size = call.arg("size").clone();
    choose(call, &size)
}

fn shuffle(call: &mut Call<'_>) -> Result {
    let size = match call.arg("value") {
        Value::Map(map) => map.len(),
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
            let class = python::type_name(call.arg("value"));
            return Err(CallError::Type(format!(
                "object of type '{class}' has no len()"
            )));
        }
        other => members(other)?.len(),
    };
    choose(call, &size.into())
}

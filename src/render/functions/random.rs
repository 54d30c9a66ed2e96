//! `random.*` (`salt/modules/mod_random.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of};
use halite_crypto::{Alphabet, HashType};
use halite_wire::Value;
use halite_wire::pyrandom::Mersenne;
use rand::Rng;
use rand::seq::SliceRandom;

/// Longest text, in characters.
const MAX_LENGTH: i64 = 100_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "random.get_str",
        params: &[
            "length",
            "chars",
            "lowercase",
            "uppercase",
            "digits",
            "punctuation",
            "whitespace",
            "printable",
        ],
        required: 0,
        run: Run::Data(get_str),
    },
    Function {
        name: "random.hash",
        params: &["value", "algorithm"],
        required: 1,
        run: Run::Data(hash),
    },
    Function {
        name: "random.rand_int",
        params: &["start", "end", "seed"],
        required: 0,
        run: Run::Data(rand_int),
    },
    Function {
        name: "random.seed",
        params: &["range", "hash"],
        required: 0,
        run: Run::Data(seed),
    },
    Function {
        name: "random.sample",
        params: &["value", "size"],
        required: 2,
        run: Run::Data(sample),
    },
];

fn get_str(_: &FunctionContext, call: &Call) -> CallResult {
    let length = call.int("length", 20)?;
    if !(1..=MAX_LENGTH).contains(&length) {
        return Err(CallError::Function(format!(
            "length must be from 1 to {MAX_LENGTH}"
        )));
    }
    let alphabet = Alphabet {
        chars: call.text("chars"),
        lowercase: call.flag("lowercase", true),
        uppercase: call.flag("uppercase", true),
        digits: call.flag("digits", true),
        punctuation: call.flag("punctuation", true),
        whitespace: call.flag("whitespace", false),
        printable: call.flag("printable", false),
    };
    let length = usize::try_from(length).unwrap_or_default();
    match alphabet.password(length) {
        Some(text) => Ok(text.into()),
        None => Err(CallError::Function("no characters to choose from".into())),
    }
}

fn hash(_: &FunctionContext, call: &Call) -> CallResult {
    let name = match call.some("algorithm") {
        None => "sha512".to_owned(),
        Some(_) => call.text("algorithm"),
    };
    match name.parse::<HashType>() {
        Ok(hash) => Ok(hash.hex(call.text("value").as_bytes()).into()),
        Err(_) => Err(CallError::Function(
            "You must specify a valid algorithm.".into(),
        )),
    }
}

fn rand_int(_: &FunctionContext, call: &Call) -> CallResult {
    let (start, end) = (call.int("start", 1)?, call.int("end", 10)?);
    if let Some(seed) = call.some("seed") {
        return Ok((start + below(seed, end.saturating_sub(start).saturating_add(1))?).into());
    }
    if start <= end {
        Ok(rand::rngs::OsRng.gen_range(start..=end).into())
    } else {
        Err(CallError::Other(format!(
            "empty range for randrange() ({start}, {}, 1)",
            end.saturating_add(1)
        )))
    }
}

/// A number below `range` derived from `hash`, by default the minion's id.
fn seed(scope: &FunctionContext, call: &Call) -> CallResult {
    let own = Value::from(scope.id.as_str());
    Ok(below(call.some("hash").unwrap_or(&own), call.int("range", 10)?)?.into())
}

/// The first number of Python's generator after this seed.
fn below(seed: &Value, range: i64) -> Result<i64, CallError> {
    let Some(mut numbers) = Mersenne::from_value(seed) else {
        return Err(CallError::Type("a seed must be text or a number".into()));
    };
    match u64::try_from(range) {
        Ok(range) if range > 0 => Ok(i64::try_from(numbers.below(range)).unwrap_or_default()),
        _ => Err(CallError::Other("empty range for randrange()".into())),
    }
}

fn sample(_: &FunctionContext, call: &Call) -> CallResult {
    let size = usize::try_from(call.int("size", 1)?).unwrap_or(0);
    let items = call
        .get("value")
        .and_then(|v| v.as_array())
        .unwrap_or_default();
    if size > items.len() {
        return Err(CallError::Other(
            "Sample larger than population or is negative".into(),
        ));
    }
    let picked = items
        .choose_multiple(&mut rand::rngs::OsRng, size)
        .map(text_of);
    Ok(picked.collect::<Vec<_>>().into())
}

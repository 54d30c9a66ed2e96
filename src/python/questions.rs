//! What the host is asked (`host/halite/loader.py`), and what its answers mean.

use halite_wire::{Map, Value};

/// The arguments of `find`: whether there is a function, and what it is. If halite has one of that name, too (`is_ours`), only files
/// that show the name are loaded for it.
pub fn find_args(kind: &str, function: &str, is_ours: bool) -> Vec<Value> {
    vec![kind.into(), function.into(), (!is_ours).into()]
}

/// The arguments of `use`: calls a function that is a part of our own work. Of `optional`, it gets the keywords that it takes.
pub fn use_args(
    kind: &str,
    function: &str,
    args: Vec<Value>,
    keywords: Map,
    optional: Map,
) -> Vec<Value> {
    vec![
        kind.into(),
        function.into(),
        args.into(),
        keywords.into(),
        optional.into(),
    ]
}

/// The answer to `call` and `execute`: the value, and the return code that was set.
pub fn value_and_retcode(answer: Value) -> (Value, Value) {
    let Value::Array(mut pair) = answer else {
        return (answer, Value::Int(0));
    };
    let retcode = pair.pop().unwrap_or_default();
    (pair.pop().unwrap_or_default(), retcode)
}

/// Why the module of a function has none, in stock's words; `None` if it has some, or is not there. `ask` makes the request `reason`.
///
/// # Errors
/// Those of `ask`.
pub fn reason<E>(
    kind: &str,
    function: &str,
    ask: impl FnOnce(&str, Vec<Value>) -> Result<Value, E>,
) -> Result<Option<String>, E> {
    let module = function.split('.').next().unwrap_or_default();
    let why = ask("reason", vec![kind.into(), module.into()])?;
    Ok(why.as_str().map(|why| match why {
        "" => format!("'{module}' __virtual__ returned False"),
        why => format!("'{module}' __virtual__ returned False: {why}"),
    }))
}

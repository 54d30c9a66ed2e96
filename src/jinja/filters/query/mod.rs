//! `json_query`: JMESPath (jmespath.org), for which Salt uses the library of that name.

mod eval;
mod functions;
mod parse;

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, required, text_of};

pub(super) const TABLE: &[(&str, FilterFn)] = &[("json_query", json_query)];

/// Maximum nesting of expressions.
const DEPTH: usize = 60;

fn json_query(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("json_query", &["expr"], 1)?;
    let expression = required(&bound[0]);
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let node = parse::parse(text_of(&expression)?)?;
    eval::eval(cx, &node, value, 0)
}

fn fail(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Other, why)
}

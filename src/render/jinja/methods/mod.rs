//! Methods of Python's values: `text.split()`, `list.append(x)`, `dict.items()`.

use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::value::{Args, Obj};

/// Whether values of this kind have a method of that name.
pub fn has(_value: &Obj, _name: &str) -> bool {
    false
}

/// `value.name(*args)`.
///
/// # Errors
/// There is no such method, the arguments do not fit, or it fails.
pub fn call(_cx: &mut Cx, value: &Obj, name: &str, _args: &Args) -> Result<Obj, Error> {
    Err(Error::new(
        ErrorKind::Attribute,
        format!("'{}' object has no attribute '{name}'", value.type_name()),
    ))
}

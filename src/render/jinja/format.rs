//! `'%s' % x` and `'{}'.format(x)`.

use super::cx::Cx;
use super::error::Error;
use super::value::{Args, Obj};

/// `format % values`.
///
/// # Errors
/// As Python: too few or too many values, a bad format character.
pub fn percent(_cx: &mut Cx, format: &str, _values: &Obj) -> Result<String, Error> {
    Ok(format.to_owned())
}

/// `format.format(*args)`.
///
/// # Errors
/// As Python: an absent field, a bad format specification.
pub fn str_format(_cx: &mut Cx, format: &str, _args: &Args) -> Result<String, Error> {
    Ok(format.to_owned())
}

//! What operators do.

use super::cx::Cx;
use super::error::Error;
use super::value::Obj;

/// `value.name`.
pub fn get_attr(cx: &mut Cx, value: &Obj, name: &str) -> Result<Obj, Error> {
    Ok(cx.undefined_element(value, &Obj::from(name)))
}

/// `value[key]`.
pub fn get_item(cx: &mut Cx, value: &Obj, key: &Obj) -> Result<Obj, Error> {
    Ok(cx.undefined_element(value, key))
}

/// `item in container`.
pub fn contains(_cx: &mut Cx, _container: &Obj, _item: &Obj) -> Result<bool, Error> {
    Ok(false)
}

//! Attributes, elements, slices and membership tests.

use super::cx::Cx;
use super::error::Error;
use super::run::bound_method;
use super::value::{Obj, Range, UndefinedKind, quote};

type Result<T> = std::result::Result<T, Error>;

/// Attributes that every Python object has and that templates may not access.
const PRIVATE: [&str; 26] = [
    "__class__",
    "__delattr__",
    "__dict__",
    "__dir__",
    "__doc__",
    "__eq__",
    "__format__",
    "__ge__",
    "__getattribute__",
    "__getstate__",
    "__gt__",
    "__hash__",
    "__init__",
    "__init_subclass__",
    "__le__",
    "__lt__",
    "__module__",
    "__ne__",
    "__new__",
    "__reduce__",
    "__reduce_ex__",
    "__repr__",
    "__setattr__",
    "__sizeof__",
    "__str__",
    "__subclasshook__",
];
/// Further ones of containers and texts.
const PRIVATE_OF_CONTAINERS: [&str; 4] = ["__contains__", "__getitem__", "__iter__", "__len__"];

fn forbidden(cx: &Cx, value: &Obj, name: &str) -> Option<Obj> {
    let container = || PRIVATE_OF_CONTAINERS.contains(&name) && value.length().is_ok();
    let exists = PRIVATE.contains(&name) || name.starts_with("__") && container();
    exists.then(|| {
        cx.missing(UndefinedKind::Unsafe(format!(
            "access to attribute {} of {} object is unsafe.",
            quote(name),
            quote(value.type_name())
        )))
    })
}

/// The attributes of a number that are not methods.
fn number_part(value: &Obj, name: &str) -> Option<Obj> {
    match (value, name) {
        (Obj::Bool(_), "real" | "numerator") => value.as_int().map(Obj::Int),
        (Obj::Int(_) | Obj::Big(_), "real" | "numerator") | (Obj::Float(_), "real") => {
            Some(value.clone())
        }
        (Obj::Bool(_) | Obj::Int(_) | Obj::Big(_), "imag") => Some(Obj::Int(0)),
        (Obj::Bool(_) | Obj::Int(_) | Obj::Big(_), "denominator") => Some(Obj::Int(1)),
        (Obj::Float(_), "imag") => Some(Obj::Float(0.0)),
        _ => None,
    }
}

/// Python's `getattr(value, name)`.
fn attribute(cx: &mut Cx, value: &Obj, name: &str) -> Result<Option<Obj>> {
    if let Obj::Native(object) = value
        && let Some(found) = object.clone().get_attr(cx, name)?
    {
        return Ok(Some(found));
    }
    if let Some(method) = bound_method(value, name) {
        return Ok(Some(method));
    }
    if let Some(part) = number_part(value, name) {
        return Ok(Some(part));
    }
    Ok(forbidden(cx, value, name))
}

/// `value.name` in a template: the attribute, else the element.
pub fn get_attr(cx: &mut Cx, value: &Obj, name: &str) -> Result<Obj> {
    match value {
        Obj::Undefined(missing) => return Err(missing.error()),
        Obj::Dict(dict) => {
            if let Some(found) = attribute(cx, value, name)? {
                return Ok(found);
            }
            if let Some(found) = dict.borrow().get_str(name) {
                return Ok(found.clone());
            }
        }
        Obj::Native(object) => {
            if let Some(found) = attribute(cx, value, name)? {
                return Ok(found);
            }
            if let Some(found) = object.clone().get_item(cx, &Obj::from(name))? {
                return Ok(found);
            }
        }
        _ => {
            if let Some(found) = attribute(cx, value, name)? {
                return Ok(found);
            }
        }
    }
    Ok(cx.undefined_element(value, &Obj::from(name)))
}

/// `value[key]` in a template: the element, else the attribute.
pub fn get_item(cx: &mut Cx, value: &Obj, key: &Obj) -> Result<Obj> {
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    if let Some(found) = element(cx, value, key)? {
        return Ok(found);
    }
    if let Some(name) = key.as_str()
        && let Some(found) = attribute(cx, value, name)?
    {
        return Ok(found);
    }
    Ok(cx.undefined_element(value, key))
}

/// Python's `value[key]`; `None` instead of a `TypeError` or `LookupError`.
pub fn element(cx: &mut Cx, value: &Obj, key: &Obj) -> Result<Option<Obj>> {
    let at = |len: usize| key.as_int().and_then(|index| position(index, len));
    Ok(match value {
        Obj::Dict(dict) => match key.check_hashable() {
            Ok(()) => dict.borrow().get(key)?.cloned(),
            Err(_) => None,
        },
        Obj::List(list) => {
            let list = list.borrow();
            at(list.len()).and_then(|at| list.get(at).cloned())
        }
        Obj::Tuple(items) => at(items.len()).and_then(|at| items.get(at).cloned()),
        Obj::Str(text) | Obj::Markup(text) => {
            let found = if text.is_ascii() {
                at(text.len())
                    .and_then(|at| text.get(at..=at))
                    .map(Obj::str_from)
            } else {
                at(text.chars().count())
                    .and_then(|at| text.chars().nth(at))
                    .map(Obj::from)
            };
            match (value, found) {
                (Obj::Markup(_), Some(Obj::Str(text))) => Some(Obj::Markup(text)),
                (_, found) => found,
            }
        }
        Obj::Bytes(bytes) => at(bytes.len())
            .and_then(|at| bytes.get(at))
            .map(|b| Obj::Int((*b).into())),
        Obj::Range(range) => at(range.len()).and_then(|at| range.at(at)).map(Obj::Int),
        Obj::Native(object) => object.clone().get_item(cx, key)?,
        _ => None,
    })
}

/// The position for an index, which may be negative.
fn position(index: i64, len: usize) -> Option<usize> {
    match index {
        0.. => usize::try_from(index).ok().filter(|at| *at < len),
        _ => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// `item in container`.
pub fn contains(cx: &mut Cx, container: &Obj, item: &Obj) -> Result<bool> {
    match container {
        Obj::Str(text) | Obj::Markup(text) => match item {
            Obj::Undefined(missing) => Err(missing.error()),
            _ => match item.as_str() {
                Some(part) => {
                    cx.charge(text.len() / 100)?;
                    Ok(text.contains(part))
                }
                None => Err(Error::type_error(format!(
                    "'in <string>' requires string as left operand, not {}",
                    item.type_name()
                ))),
            },
        },
        Obj::Dict(dict) => dict.borrow().contains(item),
        Obj::Set(set) => set.borrow().contains(item),
        Obj::View(view) if view.kind == super::value::ViewKind::Keys => {
            view.dict.borrow().contains(item)
        }
        Obj::Range(range) => match item {
            Obj::Int(_) | Obj::Bool(_) => Ok(item.as_int().is_some_and(|i| range.contains(i))),
            Obj::Float(f) if f.fract() == 0.0 && f.abs() < 9e18 => Ok(range.contains(*f as i64)),
            _ => Ok(false),
        },
        Obj::Bytes(bytes) => match item {
            Obj::Bytes(part) => Ok(part.is_empty()
                || bytes
                    .windows(part.len())
                    .any(|window| window == part.as_ref())),
            Obj::Int(i) => Ok(bytes.iter().any(|b| i64::from(*b) == *i)),
            _ => Err(Error::type_error(format!(
                "a bytes-like object is required, not '{}'",
                item.type_name()
            ))),
        },
        Obj::Undefined(missing) => {
            missing.check()?;
            Ok(false)
        }
        Obj::List(_) | Obj::Tuple(_) | Obj::View(_) | Obj::Iter(_) => search(cx, container, item),
        Obj::Native(object) => {
            if let Some(found) = object.clone().contains(cx, item)? {
                return Ok(found);
            }
            search(cx, container, item)
        }
        _ => Err(not_a_container(container)),
    }
}

fn not_a_container(container: &Obj) -> Error {
    Error::type_error(format!(
        "argument of type '{}' is not iterable",
        container.type_name()
    ))
}

fn search(cx: &mut Cx, container: &Obj, item: &Obj) -> Result<bool> {
    let items = match container {
        Obj::Native(object) => match object.clone().iter(cx)? {
            Some(items) => items,
            None => return Err(not_a_container(container)),
        },
        _ => cx.iterate(container)?,
    };
    for other in &items {
        if item.same(other) || other.equals(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A slice bound as a number.
fn bound(value: &Obj) -> Result<Option<i64>> {
    match value {
        Obj::None => Ok(None),
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Big(big) => Ok(Some(match big.sign() {
            num_bigint::Sign::Minus => i64::MIN,
            _ => i64::MAX,
        })),
        other => match other.as_int() {
            Some(i) => Ok(Some(i)),
            None => Err(Error::type_error(
                "slice indices must be integers or None or have an __index__ method",
            )),
        },
    }
}

/// `start:stop:step` for a sequence of this length, without open or negative bounds (Python's `slice.indices`).
fn indices(
    len: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<(i64, i64, i64)> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::value_error("slice step cannot be zero"));
    }
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |value: i64| {
        let value = if value < 0 {
            value.saturating_add(len)
        } else {
            value
        };
        value.clamp(lowest, highest)
    };
    let start = start.map_or(if step > 0 { lowest } else { highest }, clamp);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, clamp);
    Ok((start, stop, step))
}

fn slice_range(
    range: &Range,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Range> {
    let (start, stop, step) = indices(range.len(), start, stop, step)?;
    let at = |index: i64| {
        let index = range.step.saturating_mul(index);
        range.start.saturating_add(index)
    };
    Ok(Range {
        start: at(start),
        stop: at(stop),
        step: range.step.saturating_mul(step),
    })
}

/// The positions selected by `start:stop:step` in a sequence of this length.
pub fn slice_positions(
    len: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Vec<usize>> {
    let (start, stop, step) = indices(len, start, stop, step)?;
    let mut positions = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        positions.extend(usize::try_from(at));
        at = at.saturating_add(step);
    }
    Ok(positions)
}

/// `value[start:stop:step]`.
pub fn slice(cx: &mut Cx, value: &Obj, start: &Obj, stop: &Obj, step: &Obj) -> Result<Obj> {
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let len = match value {
        Obj::Str(_)
        | Obj::Markup(_)
        | Obj::Bytes(_)
        | Obj::List(_)
        | Obj::Tuple(_)
        | Obj::Range(_) => value.length()?,
        Obj::Dict(_) => return Err(Error::type_error("unhashable type: 'slice'")),
        _ => {
            return Err(Error::type_error(format!(
                "'{}' object is not subscriptable",
                value.type_name()
            )));
        }
    };
    cx.charge(len / 10)?;
    let at = slice_positions(len, bound(start)?, bound(stop)?, bound(step)?)?;
    let pick = |items: &[Obj]| at.iter().filter_map(|at| items.get(*at).cloned()).collect();
    Ok(match value {
        Obj::List(list) => Obj::list(pick(&list.borrow())),
        Obj::Tuple(items) => Obj::tuple(pick(items)),
        Obj::Bytes(bytes) => {
            let picked: Vec<u8> = at.iter().filter_map(|at| bytes.get(*at).copied()).collect();
            Obj::Bytes(picked.into())
        }
        Obj::Range(range) => Obj::Range(std::rc::Rc::new(slice_range(
            range,
            bound(start)?,
            bound(stop)?,
            bound(step)?,
        )?)),
        Obj::Str(text) | Obj::Markup(text) => {
            let picked: String = if text.is_ascii() {
                at.iter()
                    .filter_map(|at| text.as_bytes().get(*at).map(|b| char::from(*b)))
                    .collect()
            } else {
                let chars: Vec<char> = text.chars().collect();
                at.iter().filter_map(|at| chars.get(*at)).collect()
            };
            match value {
                Obj::Markup(_) => Obj::Markup(picked.into()),
                _ => Obj::from(picked),
            }
        }
        _ => Obj::None,
    })
}

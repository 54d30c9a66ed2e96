//! Attribute paths of filters: `map(attribute='a.b.0')` (`jinja2/filters.py make_attrgetter`).

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::Obj;

/// Names and indices leading to a value inside another one.
pub struct Path(Vec<Obj>);

impl Path {
    /// Parses an argument: text with dots, or an index. Without an argument the path is empty.
    pub fn new(attribute: Option<&Obj>) -> Path {
        let Some(attribute) = attribute.filter(|attribute| !attribute.is_none()) else {
            return Path(Vec::new());
        };
        let Some(text) = attribute.as_str() else {
            return Path(vec![attribute.clone()]);
        };
        let part = |part: &str| match part.parse::<i64>() {
            Ok(index) if part.bytes().all(|b| b.is_ascii_digit()) => Obj::Int(index),
            _ => Obj::from(part),
        };
        Path(text.split('.').map(part).collect())
    }

    /// Several paths separated by commas.
    pub fn several(attribute: Option<&Obj>) -> Vec<Path> {
        match attribute.and_then(Obj::as_str) {
            Some(text) => {
                let parts = text.split(',');
                parts.map(|part| Path::new(Some(&part.into()))).collect()
            }
            None => vec![Path::new(attribute)],
        }
    }

    /// The value at the path; `default` if it does not exist.
    ///
    /// # Errors
    /// The errors of `value[part]` in a template.
    pub fn get(&self, cx: &mut Cx, item: &Obj, default: Option<&Obj>) -> Result<Obj, Error> {
        let mut item = item.clone();
        for part in &self.0 {
            item = cx.get_item(&item, part)?;
            if let Some(default) = default.filter(|default| !default.is_none())
                && item.is_undefined()
            {
                item = default.clone();
            }
        }
        Ok(item)
    }
}

/// Lower-cases text unless `case_sensitive`.
pub fn folded(value: Obj, case_sensitive: bool) -> Obj {
    match value.as_str() {
        Some(text) if !case_sensitive => text.to_lowercase().into(),
        _ => value,
    }
}

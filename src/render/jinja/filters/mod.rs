//! Filters of Jinja and Salt.

use super::FilterFn;

/// The filter of a name.
pub fn find(_name: &str) -> Option<FilterFn> {
    None
}

//! Tests of Jinja and Salt: `x is defined`.

use super::TestFn;

/// The test of a name.
pub fn find(_name: &str) -> Option<TestFn> {
    None
}

//! YAML as Ruby's Psych reads and writes it: data only (reference, section 8).
//!
//! What differs from other YAML: plain text that begins with a colon is a symbol, `!ruby/regexp` a regular expression, `1,000` a
//! number, `1:30` one of hours and minutes, `y` and `n` are text. Anchors, aliases, and tags beyond those that name data are refused.
//! Dates and times, which Ruby makes objects of, stay text.

mod read;
mod scalar;
mod write;

#[cfg(test)]
mod tests;

pub use read::read;
pub use write::write;

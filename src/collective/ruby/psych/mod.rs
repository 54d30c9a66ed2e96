//! YAML as Ruby's Psych reads and writes it: data only (reference, section 8).
//!
//! Differences from other YAML: plain text that starts with a colon is a symbol, `!ruby/regexp` a regular expression,
//! `1,000` a number, `1:30` a number from hours and minutes, `y` and `n` are text. Anchors, aliases, and tags other than
//! those of data are refused. Dates and times, which become objects in Ruby, stay text.

mod read;
mod scalar;
mod write;

#[cfg(test)]
mod tests;

pub use read::read;
pub use write::write;

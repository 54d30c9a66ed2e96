//! Ruby's `Marshal`, version 4.8: data only (reference, section 7).
//!
//! A reader in Ruby makes objects of any class that the bytes name, which is how hostile messages run code there. This one
//! knows nine kinds of data and refuses every other type by its name. Links to earlier objects are followed, but what
//! comes out is bounded by the limits of [`ruby`](super), however small the bytes were.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::read;
pub use write::{write, write_ascii};

/// The two bytes that every dump begins with: major version 4, minor version 8.
pub const VERSION: [u8; 2] = [4, 8];

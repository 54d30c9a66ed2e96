//! Ruby's `Marshal`, version 4.8: data only (reference, section 7).
//!
//! Ruby's reader creates objects of any class that the bytes name, which lets hostile messages run code. This one
//! supports nine kinds of data and refuses every other type by name. Links to earlier objects are followed, but the
//! result is subject to the limits of [`ruby`](super), however small the input was.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::read;
pub use write::{write, write_ascii};

/// The first two bytes of every dump: major version 4, minor version 8.
pub const VERSION: [u8; 2] = [4, 8];

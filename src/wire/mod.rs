//! Messages and codecs: bytes in, values out, no IO.

pub mod ids;
pub mod msgpack;
mod value;

pub use value::{Map, Value};

//! Messages and codecs: bytes in, values out, no IO.

pub mod base64;
pub mod budget;
pub mod difflib;
pub mod envelope;
pub mod fnmatch;
pub mod fnv;
pub mod ids;
mod incomplete;
pub mod json;
mod key_type;
pub mod msgpack;
pub mod network;
pub mod proxy;
pub mod pyjson;
pub mod pylines;
pub mod pyrandom;
pub mod pytext;
pub mod secret;
pub mod shlex;
pub mod tcp;
pub mod textwrap;
pub mod tls;
pub mod topics;
mod transport;
mod value;
pub mod ws;
pub mod xml;
pub mod yaml;
pub mod zmtp;

pub use key_type::KeyType;
pub use transport::{Spoken, Transport};
pub use value::{Map, Value};

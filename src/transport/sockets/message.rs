//! Message parts that move between sockets without copying.

use std::fmt;
use std::ops::Deref;

/// One part of a message: what libzmq received or will send. Moving it from one socket to another copies nothing, nor does
/// creating it from a vector.
pub struct Message(zmq::Message);

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message(bytes.into())
    }
}

impl From<zmq::Message> for Message {
    fn from(message: zmq::Message) -> Message {
        Message(message)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Message({} bytes)", self.len())
    }
}

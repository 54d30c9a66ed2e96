//! Bytes that are not copied on their way through a process.

use std::fmt;
use std::ops::Deref;

/// One part of a message. It is what libzmq received or will send, so that moving it from one socket to another copies
/// nothing; made from a vector, it takes the vector over.
pub struct Message(zmq::Message);

impl Message {
    pub(crate) fn into_inner(self) -> zmq::Message {
        self.0
    }

    /// The address of the peer that it came from, as libzmq knows it; empty if it does not.
    pub(crate) fn peer_address(&mut self) -> &str {
        self.0.gets("Peer-Address").unwrap_or_default()
    }
}

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
    fn from(octets: Vec<u8>) -> Message {
        Message(octets.into())
    }
}

impl From<zmq::Message> for Message {
    fn from(message: zmq::Message) -> Message {
        Message(message)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Message({} octets)", self.len())
    }
}

//! The transport envelope of a message: headers of STOMP, or the JSON packet of NATS (reference, sections 13 and 15 to 17).

mod json;

pub use json::{LARGEST_PACKET, MOST_HOPS, MOST_TARGETS};

/// Hops of `seen-by`: lists of two or three names each, or plain names as in the first description, each a list of one.
pub type Route = Vec<Vec<String>>;

/// The header `federation` (reference, section 16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Federation {
    /// `req`: id of the request.
    pub request: String,
    /// `reply-to`: reply address of the client.
    pub reply_to: Option<String>,
    /// `target`: subjects for the broker to publish to.
    pub targets: Vec<String>,
}

/// Whether the packet has a protocol field, and whether its base64 is in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketForm {
    /// Of G1: `{"data", "headers"}`, base64 in lines.
    Plain,
    /// `"protocol": "choria:transport:1"`, base64 in lines (Ruby).
    ChoriaLines,
    /// `"protocol": "choria:transport:1"`, base64 in one piece (Go).
    Choria,
}

/// A message with its headers, for any broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The form of the packet itself; only for NATS.
    pub form: PacketForm,
    /// The message, as encoded by the security plugin.
    pub data: Vec<u8>,
    /// `mc_sender`: identity of the sender, not authenticated.
    pub sender: Option<String>,
    /// `reply-to`; of requests only.
    pub reply_to: Option<String>,
    /// `federation`.
    pub federation: Option<Federation>,
    /// `seen-by`: present if hops must be recorded.
    pub seen_by: Option<Route>,
}

impl Packet {
    /// A packet with only data and sender.
    pub fn new(form: PacketForm, data: Vec<u8>, sender: &str) -> Packet {
        Packet {
            form,
            data,
            sender: Some(sender.to_owned()),
            reply_to: None,
            federation: None,
            seen_by: None,
        }
    }
}

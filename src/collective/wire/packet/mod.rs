//! What brokers carry around a message: headers of STOMP, or the JSON packet of NATS (reference, sections 13 and 15 to 17).

mod json;

pub use json::{LARGEST_PACKET, MOST_HOPS, MOST_TARGETS};

/// Hops of `seen-by`: lists of two or three names each, or the flat names of the seed, each a list of one.
pub type Route = Vec<Vec<String>>;

/// The header `federation` (reference, section 16).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Federation {
    /// `req`: id of the request.
    pub request: String,
    /// `reply-to`: where the client listens.
    pub reply_to: Option<String>,
    /// `target`: subjects that the broker is to publish to.
    pub targets: Vec<String>,
}

/// Whether the packet names its protocol, and how its base64 is broken into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketForm {
    /// Of G1: `{"data", "headers"}`, base64 in lines.
    Plain,
    /// `"protocol": "choria:transport:1"`, base64 in lines (Ruby).
    ChoriaLines,
    /// `"protocol": "choria:transport:1"`, base64 in one piece (Go).
    Choria,
}

/// A message with its headers, whatever the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// How the packet itself is written; only NATS has one.
    pub form: PacketForm,
    /// The message, as the security plugin made it.
    pub data: Vec<u8>,
    /// `mc_sender`: identity of the sender, which nothing vouches for.
    pub sender: Option<String>,
    /// `reply-to`; of requests only.
    pub reply_to: Option<String>,
    /// `federation`.
    pub federation: Option<Federation>,
    /// `seen-by`: present where hops are to be recorded.
    pub seen_by: Option<Route>,
}

impl Packet {
    /// A packet with data and sender alone.
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

//! Messages of MCollective and Choria in all generations: requests and replies, independent of their encoding.
//!
//! Generations (reference, section 1): G0 is MCollective with its security plugins PSK, SSL and AES; G1 is Choria of 2016 and
//! 2017 (YAML within JSON); G2 is Choria since (JSON). Envelopes are parsed here and verified in
//! [`security`](crate::security).

pub mod choria;
pub mod core;
mod filter;
mod packet;
mod refused;
mod rpc;
pub mod subjects;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use halite_config::gateways::collective::{
    AgentName, BadName, CallerId, Collective, Identity, RequestId, Serializer,
};
pub use packet::{Federation, LARGEST_PACKET, MOST_HOPS, MOST_TARGETS, Packet, PacketForm, Route};
pub use refused::Refused;
pub use rpc::{RpcReply, RpcRequest, Status};
pub use subjects::Place;

use crate::ruby::Datum;

/// `ttl` of requests without one, in seconds.
pub const DEFAULT_TTL: u32 = 60;

/// A request (`MCollective::Message`).
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The body: `"ping"`, or a SimpleRPC hash.
    pub body: Datum,
    /// Identity of the sender.
    pub sender: Identity,
    /// Its id, repeated in replies.
    pub id: RequestId,
    /// Which nodes must reply.
    pub filter: Filter,
    /// The (sub)collective it was sent to.
    pub collective: Collective,
    /// The agent it is for.
    pub agent: AgentName,
    /// The caller id.
    pub caller: CallerId,
    /// Time to live after `time`, in seconds.
    pub ttl: u32,
    /// Time of creation, in seconds since 1970.
    pub time: i64,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The body: `"pong"`, or a SimpleRPC hash.
    pub body: Datum,
    /// Identity of the node that replies.
    pub sender: Identity,
    /// The id of the request.
    pub id: RequestId,
    /// The agent that replies.
    pub agent: AgentName,
    /// Time of creation, in seconds since 1970.
    pub time: i64,
}

/// Which nodes must reply to a request. All five kinds must match; an empty filter matches every node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// `fact`.
    pub facts: Vec<FactFilter>,
    /// `cf_class`: names of classes, or `/regular expressions/`.
    pub classes: Vec<String>,
    /// `agent`: names of agents, or `/regular expressions/`.
    pub agents: Vec<String>,
    /// `identity`: names of nodes, or `/regular expressions/`.
    pub identities: Vec<String>,
    /// `compound`: each a list of tokens (Ruby), or one hash with an `expr` (Go).
    pub compound: Vec<Datum>,
    /// Other keys of the hash. In Ruby's servers a filter matches only if something in it matched, so that one with
    /// only unknown keys never matches (reference, section 9).
    pub unknown: Vec<String>,
}

/// One entry of `fact`.
#[derive(Clone, Debug, PartialEq)]
pub struct FactFilter {
    /// Name of the fact.
    pub fact: String,
    /// As received; `None` from clients before 1.1.
    pub operator: Option<String>,
    /// The value to compare with.
    pub value: String,
    /// Whether the keys were symbols. Servers of G1 do not see entries with string keys (reference, section 22).
    pub symbols: bool,
}

/// How a message is encoded and secured. A reply has the form of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// G0 with the security plugin PSK, always Marshal.
    Psk,
    /// G0 with the security plugin SSL.
    Ssl(Serializer),
    /// G0 with the security plugin AES.
    Aes(Serializer),
    /// G1: `mcollective::security::choria:request:1` around `mcollective:request:3`.
    Choria1 {
        /// Whether the inner document is JSON, not YAML: 0.0.27 with `choria.security.serializer = json`.
        json: bool,
    },
    /// G2: `choria:secure:request:1`.
    Choria2 {
        /// Whether the protocol of the inner document is that of G1, `mcollective:request:3`.
        old_inner: bool,
        /// Whether the inner document is YAML.
        yaml: bool,
        /// Whether the body is in the document as a value, not as a string of JSON.
        nested: bool,
    },
}

impl Form {
    /// Whether names within messages are symbols, as in all encodings of Ruby; JSON has none.
    pub fn symbols(self) -> bool {
        !matches!(
            self,
            Form::Choria1 { json: true } | Form::Choria2 { yaml: false, .. }
        )
    }

    /// The form of the first Choria.
    pub const CHORIA_YAML: Form = Form::Choria1 { json: false };
    /// The form of current Choria.
    pub const CHORIA: Form = Form::Choria2 {
        old_inner: false,
        yaml: false,
        nested: false,
    };
}

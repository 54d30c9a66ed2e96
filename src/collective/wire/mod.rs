//! MCollective's and Choria's messages, in every generation: what a request and a reply say, whatever they are written in.
//!
//! Generations (reference, section 1): G0 is MCollective with its security plugins PSK, SSL and AES; G1 is Choria of 2016 and
//! 2017 (YAML within JSON); G2 is Choria since (JSON). Envelopes are taken apart in this room; whether they
//! are genuine is for `crypto::collective` to say.

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

/// `ttl` of requests that name none, in seconds.
pub const DEFAULT_TTL: u32 = 60;

/// A request, as servers and clients think of it (`MCollective::Message`).
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked: `"ping"`, or a hash of SimpleRPC.
    pub body: Datum,
    /// Identity of the machine that asks.
    pub sender: Identity,
    /// Its id, which replies repeat.
    pub id: RequestId,
    /// Who is to answer.
    pub filter: Filter,
    /// The (sub)collective it was sent to.
    pub collective: Collective,
    /// The agent that is asked.
    pub agent: AgentName,
    /// Who asks.
    pub caller: CallerId,
    /// Seconds after `time` in which it is good.
    pub ttl: u32,
    /// Seconds since 1970.
    pub time: i64,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What is answered: `"pong"`, or a hash of SimpleRPC.
    pub body: Datum,
    /// Identity of the machine that answers.
    pub sender: Identity,
    /// The id of the request.
    pub id: RequestId,
    /// The agent that answers.
    pub agent: AgentName,
    /// Seconds since 1970.
    pub time: i64,
}

/// Who is to answer a request. All five kinds must hold; an empty filter lets everybody answer.
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
    /// Further keys that the hash had. Ruby's servers let a filter pass only if something in it matched, so that one of
    /// nothing but unknown keys passes nowhere (reference, section 9).
    pub unknown: Vec<String>,
}

/// One entry of `fact`.
#[derive(Clone, Debug, PartialEq)]
pub struct FactFilter {
    /// Name of the fact.
    pub fact: String,
    /// As it stands on the wire; `None` of clients before 1.1.
    pub operator: Option<String>,
    /// What it is compared with.
    pub value: String,
    /// Whether the keys were symbols. Servers of G1 do not see entries with string keys (reference, section 22).
    pub symbols: bool,
}

/// How a message is written and secured. An answer goes out in the form of its question.
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
        /// The inner document is JSON, not YAML: 0.0.27 with `choria.security.serializer = json`.
        json: bool,
    },
    /// G2: `choria:secure:request:1`.
    Choria2 {
        /// The protocol of the inner document is that of G1, `mcollective:request:3`.
        old_inner: bool,
        /// The inner document is YAML.
        yaml: bool,
        /// The body stands in the document as a value, not as a string that holds JSON.
        nested: bool,
    },
}

impl Form {
    /// Whether names within messages are symbols, as in all encodings of Ruby's own; JSON has none.
    pub fn symbols(self) -> bool {
        !matches!(
            self,
            Form::Choria1 { json: true } | Form::Choria2 { yaml: false, .. }
        )
    }

    /// What the first Choria spoke.
    pub const CHORIA_YAML: Form = Form::Choria1 { json: false };
    /// What today's Choria speaks.
    pub const CHORIA: Form = Form::Choria2 {
        old_inner: false,
        yaml: false,
        nested: false,
    };
}

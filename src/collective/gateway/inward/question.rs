//! An admitted request, kept while replies to it are due.

use super::agents::Prepared;
use crate::ruby::Datum;
use crate::wire::{
    AgentName, CallerId, Federation, Form, Identity, Packet, PacketForm, Reply, Request, RequestId,
    Route,
};

/// What replies need from their request.
#[derive(Debug)]
pub(super) struct Question {
    pub id: RequestId,
    pub agent: AgentName,
    pub caller: CallerId,
    pub sender: Identity,
    pub ttl: u32,
    pub form: Form,
    pub reply_to: String,
    packet_form: PacketForm,
    federation: Option<Federation>,
    /// Hops so far.
    seen_by: Option<Route>,
    pub prepared: Prepared,
}

impl Question {
    /// From a request and its packet. `None` if there is no reply address.
    pub fn new(
        request: &Request,
        form: Form,
        packet: &Packet,
        prepared: Prepared,
    ) -> Option<Question> {
        Some(Question {
            id: request.id.clone(),
            agent: request.agent.clone(),
            caller: request.caller.clone(),
            sender: request.sender.clone(),
            ttl: request.ttl,
            form,
            reply_to: packet.reply_to.clone().filter(|to| !to.is_empty())?,
            packet_form: packet.form,
            federation: packet.federation.clone(),
            seen_by: packet.seen_by.clone(),
            prepared,
        })
    }

    /// The reply of a node.
    pub fn reply(&self, node: &Identity, body: Datum, time: i64) -> Reply {
        Reply {
            body,
            sender: node.clone(),
            id: self.id.clone(),
            agent: self.agent.clone(),
            time,
        }
    }

    /// The packet of a node's reply, its data still empty: form, `federation` and hops as received. The connector adds
    /// the hop through this host.
    pub fn packet(&self, node: &Identity) -> Packet {
        Packet {
            form: self.packet_form,
            data: Vec::new(),
            sender: Some(node.as_str().to_owned()),
            reply_to: None,
            federation: self.federation.clone(),
            seen_by: self.seen_by.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Filter;

    fn request() -> Request {
        Request {
            body: Datum::from("ping"),
            sender: "client".parse().unwrap(),
            id: "0".repeat(32).parse().unwrap(),
            filter: Filter::default(),
            collective: "mcollective".parse().unwrap(),
            agent: "discovery".parse().unwrap(),
            caller: "choria=rip.mcollective".parse().unwrap(),
            ttl: 60,
            time: 1000,
        }
    }

    #[test]
    fn answers_carry_what_came_around_the_question() {
        let packet = Packet {
            form: PacketForm::ChoriaLines,
            data: vec![1],
            sender: Some("client".into()),
            reply_to: Some("mcollective.reply.x".into()),
            federation: Some(Federation {
                request: "r".into(),
                reply_to: Some("there".into()),
                targets: Vec::new(),
            }),
            seen_by: Some(vec![vec!["client".into(), "nats://a".into()]]),
        };
        let question = Question::new(&request(), Form::CHORIA, &packet, Prepared::Pong).unwrap();
        let node = "node1.example".parse().unwrap();
        let answer = question.packet(&node);
        assert_eq!(answer.form, PacketForm::ChoriaLines);
        assert_eq!(answer.federation, packet.federation);
        assert_eq!(answer.sender.as_deref(), Some("node1.example"));
        assert_eq!((answer.reply_to, answer.data.len()), (None, 0));
        assert_eq!(answer.seen_by, packet.seen_by);
        for reply_to in [None, Some(String::new())] {
            let mute = Packet {
                reply_to,
                ..packet.clone()
            };
            assert!(Question::new(&request(), Form::CHORIA, &mute, Prepared::Pong).is_none());
        }
    }
}

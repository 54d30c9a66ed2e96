//! Messages: which part of the fleet each concerns, and what is said about those that cannot be followed.

use super::out::Out;
use super::{Admission, Fleet, FleetEvent};
use crate::mqtt::Incoming;
use crate::wire::{Answer, Body, Dialect, Fault, Json, Message, Place, Stream, Trouble, Uuid};
use halite_gateway::clock::Clock;

/// Bytes of what a module wrote that are told at most; the rest of a message is cut off.
const MAX_OUTPUT: usize = 64 << 10;

/// A request, as far as it is needed to answer it.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// The topic on which it came, and is answered.
    pub topic: String,
    /// The runtime that the topic names.
    pub runtime: Option<Uuid>,
    /// Whether that runtime has received it as well: it came on its control topic.
    pub direct: bool,
    /// Its id.
    pub object_id: String,
    /// Its words.
    pub dialect: Dialect,
    /// Who says to have sent it.
    pub from: Option<Uuid>,
}

impl Fleet {
    /// A message, by its topic.
    pub(super) fn receive(
        &mut self,
        incoming: &Incoming,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        // Nothing here is ever retained (reference, section 1); what is comes again with each connection, however old.
        let place = if incoming.retained {
            None
        } else {
            self.rules.topics.place(&incoming.topic)
        };
        match place {
            Some(Place::Stdio(module, stream)) => self.output(module, stream, incoming, out),
            Some(Place::Reg(_) | Place::Keepalive(_) | Place::Control(_)) => {
                self.message(incoming, place, admission, now, out);
            }
            Some(Place::Log | Place::Notif | Place::Profile(..)) | None => self.stats.ignored += 1,
        }
    }

    fn output(&mut self, module: Uuid, stream: Stream, incoming: &Incoming, out: &mut Out) {
        if stream == Stream::Stdin || self.modules.get(&module).is_none() {
            self.stats.ignored += 1;
            return;
        }
        // Runtimes of halite say which stream it is where one topic is for both.
        let said = incoming.properties.iter().find(|(key, _)| key == "stream");
        let said = said.and_then(|(_, word)| word.parse().ok());
        let stream = match (stream, said) {
            (Stream::Both, Some(said @ (Stream::Stdout | Stream::Stderr))) => said,
            (stream, _) => stream,
        };
        let data = incoming
            .payload
            .slice(..incoming.payload.len().min(MAX_OUTPUT));
        out.tell(FleetEvent::Output(module, stream, data));
    }

    fn message(
        &mut self,
        incoming: &Incoming,
        place: Option<Place>,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        let message = match Message::parse(&incoming.payload) {
            Ok(message) => message,
            Err(fault) => return self.unreadable(*fault, incoming, now, out),
        };
        let says = matches!(message.body, Body::Answer(_) | Body::Error(_));
        if !says && self.ids.own(&message.object_id) {
            self.stats.ignored += 1;
            return;
        }
        let direct = matches!(place, Some(Place::Control(Some(_))));
        let runtime = match place {
            Some(Place::Reg(uuid) | Place::Keepalive(uuid) | Place::Control(uuid)) => uuid,
            _ => None,
        };
        let other = runtime.is_some()
            && speaker(&message.body).is_some_and(|of| runtime.as_ref() != Some(of));
        let ask = Ask {
            topic: incoming.topic.clone(),
            runtime,
            direct,
            object_id: message.object_id,
            dialect: message.dialect,
            from: message.from.and_then(|from| from.parse().ok()),
        };
        let silent = matches!(message.body, Body::Keepalive(_));
        let done = match message.body {
            // Brokers check topics, not what is in a message: whoever may write to `reg/X` is X, and nobody else.
            _ if other => Err(Fault::new(Trouble::BadField, "data/uuid")),
            Body::Register(runtime) => self.register(*runtime, &ask, admission, now, out),
            Body::Unregister(uuid, _) => self.unregister(&uuid, &ask, now, out),
            Body::RegisterManager(manager) => self.register_manager(manager, &ask, now, out),
            Body::UnregisterManager(uuid, _) => self.unregister_manager(&uuid, now, out),
            Body::Keepalive(keepalive) => self.keepalive(*keepalive, &ask, admission, now, out),
            Body::Create(request) => self.asked_create(*request, &ask, now, out),
            Body::CreateBatch(parent, requests) => {
                self.asked_batch(&parent, requests, &ask, now, out)
            }
            Body::Delete(module, parent) => {
                self.asked_delete(&module, parent.as_ref(), &ask, now, out)
            }
            Body::Exited(exit) => self.exited(exit, &ask, now, out),
            Body::Answer(answer) => {
                self.answered(&answer, &ask, now, out);
                Ok(())
            }
            // Somebody else's, or about something that was said here: nothing follows from it.
            Body::Error(_) => Ok(()),
        };
        if let Err(fault) = done {
            let fault = Fault {
                request: Some(ask.object_id.clone()),
                dialect: ask.dialect,
                ..fault
            };
            self.fault(fault, (!silent).then_some(ask.topic.as_str()), now, out);
        }
    }

    /// A message that is none. Answers and errors of others are not spoken of at all: two programs would go on for ever.
    fn unreadable(&mut self, fault: Fault, incoming: &Incoming, now: Clock, out: &mut Out) {
        let sort = Sort::of(&incoming.payload);
        if fault.request.is_some() && sort == Sort::Answer {
            self.stats.faults += 1;
            return;
        }
        let place = (sort == Sort::Request).then_some(incoming.topic.as_str());
        self.fault(fault, place, now, out);
    }

    /// A message that cannot be followed: one error on the topic for errors, and an answer where it came from.
    pub(super) fn fault(
        &mut self,
        fault: Fault,
        answer_on: Option<&str>,
        now: Clock,
        out: &mut Out,
    ) {
        self.stats.faults += 1;
        if !self.bucket.take(now) {
            self.stats.muted += 1;
            return;
        }
        let topic = self.rules.topics.topic(&Place::Log);
        let report = Message::new(self.ids.next(), fault.dialect, Body::Error(fault.report()));
        out.publish(topic.as_str(), &report);
        if let (Some(topic), Some(request)) = (answer_on, &fault.request) {
            let body = Body::Answer(fault.answer());
            out.publish(topic, &Message::new(request.clone(), fault.dialect, body));
        }
        out.tell(FleetEvent::Fault(fault));
    }

    /// An answer where the request came from, in its words.
    pub(super) fn reply(&mut self, ask: &Ask, answer: Answer, out: &mut Out) {
        let message = Message::new(ask.object_id.clone(), ask.dialect, Body::Answer(answer));
        out.publish(&ask.topic, &message);
    }
}

/// Of whom a message tells that only its sender can tell of: a runtime or manager.
fn speaker(body: &Body) -> Option<&Uuid> {
    match body {
        Body::Register(runtime) => Some(&runtime.uuid),
        Body::RegisterManager(manager) => Some(&manager.uuid),
        Body::Unregister(uuid, _) | Body::UnregisterManager(uuid, _) => Some(uuid),
        Body::Keepalive(keepalive) => Some(&keepalive.uuid),
        Body::Create(_) | Body::CreateBatch(..) | Body::Delete(..) => None,
        Body::Exited(_) | Body::Answer(_) | Body::Error(_) => None,
    }
}

/// What a message that cannot be read was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Request,
    Keepalive,
    Answer,
}

impl Sort {
    fn of(payload: &[u8]) -> Sort {
        let json: Json = if payload.len() <= crate::wire::MAX_MESSAGE {
            serde_json::from_slice(payload).unwrap_or_default()
        } else {
            Json::Null
        };
        let word = |key| json.get(key).and_then(Json::as_str).unwrap_or_default();
        match (word("type"), word("action")) {
            (kind, _) if kind.ends_with("resp") => Sort::Answer,
            (_, "error") => Sort::Answer,
            (_, "update") => Sort::Keepalive,
            _ => Sort::Request,
        }
    }
}

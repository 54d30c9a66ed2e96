//! Incoming messages: dispatch to the parts of the fleet, and errors about messages that cannot be processed.

use super::out::Out;
use super::{Admission, Fleet, FleetEvent};
use crate::mqtt::Incoming;
use crate::wire::{Answer, Body, Dialect, Fault, Json, Message, Place, Stream, Trouble, Uuid};
use halite_gateway::clock::Clock;
use halite_wire::budget::Budget;
use halite_wire::json::parse_within;

/// Output of a module per message, in bytes; the rest is cut off.
const MAX_OUTPUT: usize = 64 << 10;

/// The parts of a request needed to answer it.
#[derive(Clone, Debug)]
pub(super) struct RequestContext {
    /// The topic that it came in on and is answered on.
    pub topic: String,
    /// The runtime that the topic names.
    pub runtime: Option<Uuid>,
    /// Whether that runtime has received it as well: it was sent to its control topic.
    pub direct: bool,
    /// Its id.
    pub object_id: String,
    /// Its dialect.
    pub dialect: Dialect,
    /// The sender that it claims to have.
    pub from: Option<Uuid>,
}

impl Fleet {
    /// Handles a message, depending on its topic.
    pub(super) fn receive(
        &mut self,
        incoming: &Incoming,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        // Nothing here is ever retained (reference, section 1); a retained message is delivered again on each
        // connection, however old it is.
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
        let host = match self.modules.get(&module) {
            Some(entry) if stream != Stream::Stdin => self.place_of(&entry.kept),
            _ => {
                self.stats.ignored += 1;
                return;
            }
        };
        let ours = host.is_some_and(|kept| kept.runtime.metadata.get("halite").is_some());
        // Runtimes of halite name the stream if one topic is used for both.
        let said = incoming.properties.iter().find(|(key, _)| key == "stream");
        let said = said.and_then(|(_, word)| word.parse().ok());
        let stream = match (stream, said) {
            (Stream::Both, Some(said @ (Stream::Stdout | Stream::Stderr))) => said,
            (stream, _) => stream,
        };
        let data = match json_text(&incoming.payload) {
            // The applauncher writes each piece as JSON.
            Some(text) if stream != Stream::Both && !ours => text.into(),
            _ => incoming.payload.clone(),
        };
        let data = data.slice(..data.len().min(MAX_OUTPUT));
        out.report(FleetEvent::Output(module, stream, data));
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
        if !says && self.ids.is_own(&message.object_id) {
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
        let ask = RequestContext {
            topic: incoming.topic.clone(),
            runtime,
            direct,
            object_id: message.object_id,
            dialect: message.dialect,
            from: message.from.and_then(|from| from.parse().ok()),
        };
        let silent = matches!(message.body, Body::Keepalive(_));
        let done = match message.body {
            // Brokers check topics, not the content of messages: whoever may write to `reg/X` is X, and nobody else.
            _ if other => Err(Fault::new(Trouble::BadField, "data/uuid")),
            Body::Register(runtime) => self.register(*runtime, &ask, admission, now, out),
            Body::Unregister(uuid, _) => self.unregister(&uuid, &ask, now, out),
            Body::RegisterManager(manager) => self.register_manager(manager, &ask, now, out),
            Body::UnregisterManager(uuid, _) => self.unregister_manager(&uuid, now, out),
            Body::Keepalive(keepalive) => self.keepalive(*keepalive, &ask, admission, now, out),
            Body::Create(request) => self.handle_create(*request, &ask, now, out),
            Body::CreateBatch(parent, requests) => {
                self.handle_batch(&parent, requests, &ask, now, out)
            }
            Body::Delete(module, parent) => {
                self.handle_delete(&module, parent.as_ref(), &ask, now, out)
            }
            Body::Exited(exit) => self.handle_exit(exit, &ask, now, out),
            Body::Answer(answer) => {
                self.handle_answer(&answer, &ask, now, out);
                Ok(())
            }
            // An error about another peer's message, or about one of ours: nothing follows from it.
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

    /// Reports a message that cannot be parsed. Answers and errors are not reported: two peers would loop.
    fn unreadable(&mut self, fault: Fault, incoming: &Incoming, now: Clock, out: &mut Out) {
        let sort = MessageKind::of(&incoming.payload);
        if fault.request.is_some() && sort == MessageKind::Answer {
            self.stats.faults += 1;
            return;
        }
        let place = (sort == MessageKind::Request).then_some(incoming.topic.as_str());
        self.fault(fault, place, now, out);
    }

    /// Reports a message that cannot be processed: an error on the error topic, and an answer to the request.
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
        out.report(FleetEvent::Fault(fault));
    }

    /// Answers a request on its topic and in its dialect.
    pub(super) fn reply(&mut self, ask: &RequestContext, answer: Answer, out: &mut Out) {
        let message = Message::new(ask.object_id.clone(), ask.dialect, Body::Answer(answer));
        out.publish(&ask.topic, &message);
    }
}

/// The text, if the payload is a string in JSON.
fn json_text(payload: &[u8]) -> Option<String> {
    if payload.starts_with(b"\"") && payload.ends_with(b"\"") {
        halite_wire::json::parse(payload).ok()
    } else {
        None
    }
}

/// The runtime or manager that sent the message, for messages that only their subject may send.
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

/// What an unparseable message was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Request,
    Keepalive,
    Answer,
}

impl MessageKind {
    fn of(payload: &[u8]) -> MessageKind {
        let json: Json = if payload.len() <= crate::wire::MAX_MESSAGE {
            parse_within(payload, &mut Budget::fixed()).unwrap_or_default()
        } else {
            Json::Null
        };
        let word = |key| json.get(key).and_then(Json::as_str).unwrap_or_default();
        match (word("type"), word("action")) {
            (kind, _) if kind.ends_with("resp") => MessageKind::Answer,
            (_, "error") => MessageKind::Answer,
            (_, "update") => MessageKind::Keepalive,
            _ => MessageKind::Request,
        }
    }
}

//! Messages of real peers and of the draft, invalid messages, and properties of all messages.

mod captures;
mod channels;
mod draft;
mod keepalives;
mod properties;
mod refusals;
mod topics;

use super::*;
use serde_json::json;

/// A message in JSON.
fn read(value: Json) -> Message {
    Message::parse(value.to_string().as_bytes()).expect("a message")
}

/// The fault of a message in JSON.
fn refused(value: Json) -> Fault {
    *Message::parse(value.to_string().as_bytes()).expect_err("no message")
}

/// A message as JSON again.
fn written(message: &Message) -> Json {
    serde_json::from_slice(&message.to_json()).expect("JSON")
}

/// A request of the draft.
fn request(action: &str, data: Json) -> Json {
    json!({"object_id": "o", "action": action, "type": "req", "data": data})
}

/// What is wrong with a message in JSON.
fn trouble(value: Json) -> (Trouble, Json) {
    let fault = refused(value);
    (fault.trouble, fault.data)
}

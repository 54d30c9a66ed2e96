//! Approximate memory used by records. Limits on stored data use these sizes, not those of messages, since a list of
//! many short items takes far more than its text.

use super::{Channel, Json, Module, ModuleRequest, Object, Runtime};

/// Limit of `platform`, `metadata` and unknown fields of a runtime, in bytes.
pub const MAX_RUNTIME: usize = 16 << 10;
/// Limit of arguments, environment, channels and unknown fields of a module, in bytes.
pub const MAX_MODULE: usize = 64 << 10;
/// Bytes that a string or number takes in addition to its characters.
const EACH: usize = 16;
/// Bytes of a record without its contents.
const RECORD: usize = 512;

impl Runtime {
    /// Its size in bytes.
    pub fn byte_len(&self) -> usize {
        RECORD + self.name.len() + self.kind.len() + texts(&self.apis) + self.free_len()
    }

    /// Size of the fields that a runtime may fill freely, in bytes.
    pub(super) fn free_len(&self) -> usize {
        json(&self.platform) + json(&self.metadata) + object(&self.extra)
    }
}

impl ModuleRequest {
    /// Its size in bytes.
    pub fn byte_len(&self) -> usize {
        RECORD + self.name.len() + self.file.len() + texts(&self.apis) + self.free_len()
    }

    /// Size of the fields that a request may fill freely, in bytes.
    pub(super) fn free_len(&self) -> usize {
        free_len(
            &self.argv,
            &self.env,
            &self.args,
            &self.channels,
            &self.extra,
        )
    }
}

impl Module {
    /// Its size in bytes.
    pub fn byte_len(&self) -> usize {
        let named = self.name.len() + self.file.len() + texts(&self.apis);
        let free = free_len(
            &self.argv,
            &self.env,
            &self.args,
            &self.channels,
            &self.extra,
        );
        RECORD + named + free
    }
}

/// Size of a module's arguments, environment and other fields, in bytes.
fn free_len(
    argv: &[String],
    env: &[String],
    args: &Object,
    all: &[Channel],
    extra: &Object,
) -> usize {
    texts(argv) + texts(env) + object(args) + channels(all) + object(extra)
}

fn texts(texts: &[String]) -> usize {
    texts.iter().map(|text| text.len() + EACH).sum()
}

fn channels(channels: &[Channel]) -> usize {
    let one = |channel: &Channel| {
        let named = channel.path.as_str().len() + channel.topic.as_str().len();
        named + object(&channel.extra) + 2 * EACH
    };
    channels.iter().map(one).sum()
}

fn object(object: &Object) -> usize {
    let one = |(key, value): (&String, &Json)| key.len() + EACH + json(value);
    object.iter().map(one).sum()
}

fn json(value: &Json) -> usize {
    EACH + match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(list) => list.iter().map(json).sum(),
        Json::Object(map) => object(map),
    }
}

//! Answers in a form that satisfies both the draft's peers and the real ones (reference, section 4.1).

use super::{Answer, Json, KEEPALIVE, Manager, Module, Object, Runtime, Uuid, Verdict};

impl Answer {
    /// To a registration: the draft's `uuid`, `name` and `ka_interval_sec`, and the record as `details`.
    pub fn registered(runtime: &Runtime) -> Answer {
        let mut data = ok();
        data.insert("uuid".into(), runtime.uuid.as_str().into());
        data.insert("name".into(), runtime.name.as_str().into());
        data.insert("ka_interval_sec".into(), runtime.keepalive.into());
        Answer::ok(None, data, runtime.to_json())
    }

    /// To the registration of a manager.
    pub fn manager(manager: &Manager) -> Answer {
        let mut data = ok();
        data.insert("uuid".into(), manager.uuid.as_str().into());
        data.insert("name".into(), manager.name.as_str().into());
        Answer::ok(None, data, manager.to_json())
    }

    /// To a request for a module: its record.
    pub fn module(module: &Module) -> Answer {
        Answer::ok(Some("create"), named(module), module.to_json())
    }

    /// To a request to end a module: its record.
    pub fn deleted(module: &Module) -> Answer {
        Answer::ok(Some("delete"), named(module), module.to_json())
    }

    /// A runtime's own answer to `create` or `delete`: it carries it out (reference, T9 and T11).
    pub fn taken(action: &str, module: &Uuid) -> Answer {
        let mut details = Object::new();
        details.insert("uuid".into(), module.as_str().into());
        Answer::ok(Some(action), ok(), details.into())
    }

    fn ok(action: Option<&str>, mut data: Object, details: Json) -> Answer {
        data.insert("details".into(), details);
        Answer {
            action: action.map(String::from),
            verdict: Verdict::Ok,
            data,
        }
    }

    /// Seconds between keepalives set by a confirmation: the draft's field, or that of the record; [`KEEPALIVE`] if
    /// neither is present. 0 turns keepalives off.
    pub fn keepalive(&self) -> u64 {
        let told = self.field("ka_interval_sec");
        told.and_then(super::fields::whole).unwrap_or(KEEPALIVE)
    }

    /// A field of the draft, or else that of the record.
    fn field(&self, key: &str) -> Option<&Json> {
        let record = self.data.get("details").and_then(|record| record.get(key));
        self.data.get(key).filter(|v| !v.is_null()).or(record)
    }

    /// The uuid that it is about, if it has one: the draft's field, or that of the record.
    pub fn uuid(&self) -> Option<&str> {
        self.field("uuid").and_then(Json::as_str)
    }

    /// Why a request failed, as readable text; empty if it did not fail or has no reason.
    pub fn why(&self) -> String {
        if self.verdict == Verdict::Ok {
            return String::new();
        }
        let shown = |value: &Json| match value {
            Json::Null => String::new(),
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let details = self.data.get("details");
        let place = match details {
            Some(Json::Object(details)) if details.contains_key("desc") => details,
            Some(other) if !self.data.contains_key("desc") => return shown(other),
            _ => &self.data,
        };
        let part = |key| place.get(key).map(shown).filter(|text| !text.is_empty());
        match (part("desc"), part("data")) {
            (Some(desc), Some(data)) => format!("{desc}: {data}"),
            (Some(text), None) | (None, Some(text)) => text,
            (None, None) => String::new(),
        }
    }
}

fn ok() -> Object {
    let mut data = Object::new();
    data.insert("result".into(), "ok".into());
    data
}

fn named(module: &Module) -> Object {
    let mut data = ok();
    data.insert("uuid".into(), module.uuid.as_str().into());
    data.insert("name".into(), module.name.as_str().into());
    data
}

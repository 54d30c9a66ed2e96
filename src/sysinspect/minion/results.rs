//! How a result is sent: `rsp` in the seed's dialect, `evt` and `mvt` in the later one.

use super::settings::Settings;
use crate::wire::{Code, Dialect, MessageKind, MinionMessage};
use halite_wire::map;
use halite_wire::{Map, Value};

/// A command whose result is pending.
pub(super) struct PendingCommand {
    /// Its number in this process.
    pub number: u64,
    /// Its cycle at the master.
    pub cycle: String,
    /// The function; empty if the command could not be parsed.
    pub fun: String,
}

impl PendingCommand {
    /// The messages with a result; if it does not fit into a frame, messages that say so.
    pub fn messages(
        &self,
        settings: &Settings,
        value: &Value,
        retcode: i64,
        stamp: &str,
    ) -> Vec<MinionMessage> {
        let messages = self.all(settings, value, retcode, stamp);
        let fits = |message: &MinionMessage| message.to_frame(settings.dialect).is_ok();
        if messages.iter().all(fits) {
            return messages;
        }
        let why = "the result is too long for a frame; ask for less".into();
        self.all(settings, &why, 1, stamp)
    }

    fn all(
        &self,
        settings: &Settings,
        value: &Value,
        retcode: i64,
        stamp: &str,
    ) -> Vec<MinionMessage> {
        if settings.dialect == Dialect::Modern {
            let event =
                |kind, data: &Value| settings.message(kind, self.event(data, retcode, stamp));
            return vec![
                event(MessageKind::Evt, value),
                event(MessageKind::Mvt, &Value::Nil),
            ];
        }
        // JSON, so that the master can tell the text "1" from the number.
        let text = serde_json::to_string(value).unwrap_or_default();
        let mut answer = settings.message(MessageKind::Rsp, text);
        answer.code = match retcode {
            0 => Code::Success,
            _ => Code::GeneralFailure,
        };
        answer.cycle = self.cycle.clone();
        vec![answer]
    }

    /// Reference 10, `evt`.
    fn event(&self, value: &Value, retcode: i64, stamp: &str) -> Map {
        map! {
            "eid" => self.fun.as_str(), "aid" => self.fun.as_str(), "sid" => "",
            "cid" => self.cycle.as_str(), "timestamp" => stamp,
            "response" => map! {
                "retcode" => retcode, "warning" => Value::Nil, "message" => "", "data" => value.clone(),
            },
            "constraints" => map! {"id" => "", "descr" => "", "expr" => Vec::<Value>::new()},
            "telemetry" => Value::Nil,
        }
    }
}

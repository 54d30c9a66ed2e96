//! How a result is told: `rsp` in the seed's dialect, `evt` and `mvt` in the later one.

use super::course::Settings;
use crate::wire::{Code, Dialect, Kind, MinionMessage};
use halite_wire::map;
use halite_wire::{Map, Value};

/// A command that waits for its result.
pub(super) struct Asked {
    /// Its number here.
    pub number: u64,
    /// Its cycle at the master.
    pub cycle: String,
    /// The function; empty if it was not even read.
    pub fun: String,
}

impl Asked {
    /// The messages that tell a result; of one that fits no frame, that it does not.
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
        let why = "the result is longer than a frame may be; ask for less".into();
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
            return vec![event(Kind::Evt, value), event(Kind::Mvt, &Value::Nil)];
        }
        // JSON, so that the master can tell the text "1" from the number.
        let text = serde_json::to_string(value).unwrap_or_default();
        let mut answer = settings.message(Kind::Rsp, text);
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

//! The event bus for Python: listeners that code opens with `salt.utils.event.get_event`.

use crate::PythonError;
use halite_ipc::{DROPPED, Subscriber};
use halite_wire::{Value, msgpack};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Most listeners of one request.
const MAX_LISTENERS: usize = 64;
/// Longest wait for an event, in milliseconds: other threads of the code wait for the answer, too.
const MAX_WAIT: u64 = 1000;

/// The listeners of one request.
#[derive(Default)]
pub struct Listeners {
    open: BTreeMap<i64, Subscriber>,
    last: i64,
}

impl Listeners {
    /// Answers `event_open`, `event_next` (number, milliseconds) and `event_close` (number); `None` if the question is another one.
    /// `bus` is the socket that events come from.
    pub fn ask(
        &mut self,
        what: &str,
        args: &[Value],
        bus: impl FnOnce() -> PathBuf,
    ) -> Option<Result<Value, PythonError>> {
        let number = |at: usize| args.get(at).and_then(Value::as_int).unwrap_or(0);
        match what {
            "event_open" => Some(self.connect(bus())),
            "event_next" => {
                let millis = u64::try_from(number(1)).unwrap_or(0).min(MAX_WAIT);
                Some(self.next(number(0), Duration::from_millis(millis)))
            }
            "event_close" => {
                self.open.remove(&number(0));
                Some(Ok(Value::Nil))
            }
            _ => None,
        }
    }

    fn connect(&mut self, bus: PathBuf) -> Result<Value, PythonError> {
        if self.open.len() >= MAX_LISTENERS {
            let text = format!(
                "there are {MAX_LISTENERS} listeners for events already; destroy() ends one"
            );
            return Err(PythonError::new("OSError", text));
        }
        let listener = Subscriber::connect(bus);
        let listener = listener.map_err(|e| PythonError::new("OSError", e.to_string()))?;
        self.last += 1;
        self.open.insert(self.last, listener);
        Ok(self.last.into())
    }

    fn next(&mut self, number: i64, wait: Duration) -> Result<Value, PythonError> {
        let Some(listener) = self.open.get_mut(&number) else {
            return Err(PythonError::new("OSError", "this listener is closed"));
        };
        let event = match listener.next(Some(wait)) {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(Value::Nil),
            Err(e) => {
                self.open.remove(&number);
                let text = format!("the event bus has ended: {e}");
                return Err(PythonError::new("OSError", text));
            }
        };
        if event.tag == DROPPED {
            log::warn!("Python code reads events too slowly; some were left out");
            return Ok(Value::Nil);
        }
        let data = msgpack::decode(&event.payload);
        let data = data.map_err(|e| PythonError::new("ValueError", e.to_string()))?;
        Ok(Value::Array(vec![event.tag.into(), data]))
    }
}

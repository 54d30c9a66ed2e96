//! The event bus for clients that listen (reference `salt-api.md` 7): one reader for all.

use bytes::Bytes;
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::pyjson;
use halite_wire::{Value, msgpack};
use tokio::sync::broadcast;

/// Events that wait for a listener; one that is slower than that misses the oldest ones.
const WAITING: usize = 1024;
/// Largest event, in bytes: what waits is in memory.
const LARGEST: usize = 256 << 10;

/// What listeners get.
#[derive(Clone)]
pub struct Bus(broadcast::Sender<Bytes>);

impl Bus {
    /// Starts the thread that reads the bus; it ends with the process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: &MasterConfig, stop: &StopFlag) -> Result<Bus, ExitError> {
        let (sender, _) = broadcast::channel(WAITING);
        let bus = Bus(sender);
        let (told, path, stop) = (bus.clone(), config.event_pub(), stop.clone());
        let read = move || {
            let mut missed = || {};
            listen(path, &stop, &mut missed, &mut |event| {
                if event.payload.len() > LARGEST {
                    return;
                }
                // Nobody pays for what nobody hears.
                if told.0.receiver_count() > 0 {
                    // An error: they have gone meanwhile.
                    let _ = told.0.send(frame(&event.tag, &event.payload));
                }
            });
        };
        let builder = std::thread::Builder::new().name("bus".into());
        builder.spawn(read)?;
        Ok(bus)
    }

    /// From now on.
    pub fn listener(&self) -> broadcast::Receiver<Bytes> {
        self.0.subscribe()
    }
}

/// An event as stock sends it: `tag` is for people, `data` has both.
fn frame(tag: &str, payload: &[u8]) -> Bytes {
    let data = msgpack::decode(payload).ok().and_then(Value::into_map);
    let map = halite_wire::map! {"data" => data.unwrap_or_default(), "tag" => tag};
    // A tag of one line: whoever fires an event must not make others of it.
    let line: String = tag.chars().filter(|c| !c.is_control()).collect();
    let data = pyjson::dumps(&map.into());
    Bytes::from(format!("tag: {line}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::msgpack::Profile;

    #[test]
    fn an_event_is_one_frame() {
        let data = halite_wire::map! {"x" => "a\n\nb", "n" => 1};
        let packed = msgpack::encode_map(&data, Profile::Wire);
        let text = frame("salt/a\n\ndata: forged", &packed);
        assert_eq!(
            text,
            "tag: salt/adata: forged\n\
             data: {\"data\": {\"x\": \"a\\n\\nb\", \"n\": 1}, \"tag\": \"salt/a\\n\\ndata: forged\"}\n\n"
        );
    }
}

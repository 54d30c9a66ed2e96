//! Listens to the event bus of a master that may restart.

use halite_ipc::{Event, Subscriber};
use halite_sys::signals::StopFlag;
use std::path::PathBuf;
use std::time::Duration;

/// Pause between connection attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for an event, so that a stop takes effect.
const NAP: Duration = Duration::from_millis(250);

/// Passes every event to `each` until the role is stopped. `connected` is called after each connection to the
/// bus; earlier events are missed.
pub fn listen(
    path: PathBuf,
    stop: &StopFlag,
    connected: &mut dyn FnMut(),
    each: &mut dyn FnMut(Event),
) {
    let mut warned = false;
    while !stop.is_set() {
        match Subscriber::connect(&path) {
            Ok(mut bus) => {
                warned = false;
                connected();
                while !stop.is_set() {
                    match bus.next(Some(NAP)) {
                        Ok(Some(event)) => each(event),
                        Ok(None) => {}
                        Err(halite_ipc::Error::Event(e)) => log::debug!("an unreadable event: {e}"),
                        Err(e) => {
                            log::warn!("the event bus is gone: {e}; trying again");
                            break;
                        }
                    }
                }
            }
            Err(e) if !warned => {
                warned = true;
                log::warn!("the event bus is away: {e}; trying again");
            }
            Err(_) => {}
        }
        if !stop.is_set() {
            std::thread::sleep(PAUSE);
        }
    }
}

//! Listens to the event bus of a master that may restart.

use halite_ipc::{Event, Subscriber};
use halite_sys::signals::StopFlag;
use std::path::PathBuf;
use std::time::Duration;

/// Pause between connection attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// Failed attempts before the bus is said to be away: roles start beside each other, so that the bus may follow.
const ATTEMPTS: u32 = 10;
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
    let mut failed = 0u32;
    while !stop.is_set() {
        let mut gone = None;
        match Subscriber::connect(&path) {
            Ok(mut bus) => {
                failed = 0;
                connected();
                while !stop.is_set() {
                    match bus.next(Some(NAP)) {
                        Ok(Some(event)) => each(event),
                        Ok(None) => {}
                        Err(halite_ipc::Error::Event(e)) => log::debug!("an unreadable event: {e}"),
                        Err(e) => {
                            gone = Some(e);
                            break;
                        }
                    }
                }
            }
            Err(e) => {
                failed = failed.saturating_add(1);
                if failed == ATTEMPTS {
                    log::warn!("the event bus is away: {e}; trying again");
                }
            }
        }
        if !stop.is_set() {
            std::thread::sleep(PAUSE);
        }
        // When the master stops, all its processes do.
        if let Some(e) = gone.filter(|_| !stop.is_set()) {
            log::warn!("the event bus is gone: {e}; trying again");
        }
    }
}

//! Says which jobs have failed on which minion, as it happens:
//!
//!     cargo run -p halite-ipc --example failed_jobs -- /var/run/halite/master/master_event_pub.ipc

use halite_ipc::{Event, Subscriber};
use serde::Deserialize;

/// What we want to know of `salt/job/<jid>/ret/<id>`; other fields are passed over.
#[derive(Deserialize)]
struct Return {
    id: String,
    fun: String,
    jid: String,
    retcode: i64,
}

/// A line about the event, if it is a return that tells of a failure.
pub fn failure(event: &Event) -> Option<String> {
    let returned: Return = event.decode().ok()?;
    let Return { id, fun, jid, .. } = &returned;
    (returned.retcode != 0)
        .then(|| format!("{id}: {fun} of job {jid} ended with {}", returned.retcode))
}

fn main() {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or("/var/run/halite/master/master_event_pub.ipc".into());
    // Endless: connects again when the master restarts, and says so by an error.
    for event in Subscriber::reconnecting(path).with_prefix("salt/job/") {
        match event {
            Ok(event) => failure(&event).iter().for_each(|line| println!("{line}")),
            Err(e) => eprintln!("{e}; going on"),
        }
    }
}

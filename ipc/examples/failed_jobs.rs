//! Prints each failed job and its minion as the returns come in:
//!
//!     cargo run -p halite-ipc --example failed_jobs -- /var/run/halite/master/master_event_pub.ipc

use halite_ipc::{Event, Subscriber};
use serde::Deserialize;

/// The fields we need from `salt/job/<jid>/ret/<id>`; others are ignored.
#[derive(Deserialize)]
struct Return {
    id: String,
    fun: String,
    jid: String,
    retcode: i64,
}

/// A line about the event, if it is the return of a failed job.
pub fn failure(event: &Event) -> Option<String> {
    let returned: Return = event.decode().ok()?;
    let Return { id, fun, jid, .. } = &returned;
    (returned.retcode != 0)
        .then(|| format!("{id}: {fun} of job {jid} ended with {}", returned.retcode))
}

fn main() {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or("/var/run/halite/master/master_event_pub.ipc".into());
    // Never ends: when the master restarts it yields an error and reconnects.
    for event in Subscriber::reconnecting(path).with_prefix("salt/job/") {
        match event {
            Ok(event) => failure(&event).iter().for_each(|line| println!("{line}")),
            Err(e) => eprintln!("{e}; continuing"),
        }
    }
}

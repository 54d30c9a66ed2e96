//! Client side of the Salt event bus.
//!
//! A Salt master (stock or halite) has two Unix stream sockets in its `sock_dir`: clients
//! of `master_event_pub.ipc` receive every event, and what they write to
//! `master_event_pull.ipc` is fired. A minion has the same pair, named
//! `minion_event_<hash>_pub.ipc` and `minion_event_<hash>_pull.ipc`. There is no
//! handshake, no reply and no replay.
//!
//! An event is a tag and a map. On the socket it is a msgpack map
//! `{"head": {}, "body": <tag "\n\n" msgpack map>}`; some releases put a four-byte
//! length before it and some do not ([`Framing`]). Readers of this crate detect it.
//!
//! ```no_run
//! use halite_ipc::{Event, Framing, Publisher, Subscriber};
//! # fn main() -> Result<(), halite_ipc::Error> {
//! let mut bus = Subscriber::connect("/var/run/salt/master/master_event_pub.ipc")?
//!     .with_prefix("salt/job/");
//! while let Some(event) = bus.next(None)? {
//!     println!("{}", event.tag);
//! }
//!
//! let mut out = Publisher::connect("/var/run/salt/master/master_event_pull.ipc", Framing::Prefixed)?;
//! out.fire(&Event::new("my/app/started", &std::collections::BTreeMap::from([("port", 8080)]))?)?;
//! # Ok(())
//! # }
//! ```

mod error;
mod event;
pub mod frame;
mod msgpack;
mod publisher;
mod stamp;
mod subscriber;

pub use error::Error;
pub use event::{Event, EventError, MAX_DEPTH, MAX_TAG, split_body};
pub use frame::{Decoder, FrameError, Framing, MAX_FRAME};
pub use publisher::Publisher;
pub use stamp::{StampStyle, stamp_now};
pub use subscriber::{Reconnecting, Subscriber};

/// Tag of the event that halite's bus sends to a listener in place of those that it was too slow for; its data are
/// `{"count": n}`.
pub const DROPPED: &str = "halite/bus/dropped";

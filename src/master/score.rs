//! A role's own slot of the scoreboard, written by the clock: counters themselves are plain
//! fields, so that counting costs nothing.

use crate::sys::scoreboard::Scoreboard;
use crate::wire::Map;
use crate::wire::msgpack::{self, Profile};
use std::io;
use std::time::{Duration, Instant, SystemTime};

const EVERY: Duration = Duration::from_secs(1);

/// The own slot of a role.
pub struct Score {
    board: Option<(Scoreboard, usize)>,
    role: String,
    due: Instant,
}

impl Score {
    /// The slot that the supervisor gave this process; without one nothing is written.
    pub fn inherited(role: &str) -> Score {
        let board = Scoreboard::inherited()
            .inspect_err(|e| log::debug!("no counters of {role} are published: {e}"));
        Score {
            board: board.ok(),
            role: role.to_owned(),
            due: Instant::now(),
        }
    }

    /// Publishes what `counters` gives, if a second has passed since the last time.
    pub fn tick(&mut self, counters: impl FnOnce() -> Map) {
        if self.board.is_none() || Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + EVERY;
        if let Some((board, slot)) = &self.board
            && let Err(e) = put(board, *slot, &self.role, counters())
        {
            log::debug!("the counters of {} cannot be published: {e}", self.role);
        }
    }
}

/// Writes a record: `role`, `pid`, `at` (Unix seconds), then the counters.
pub fn put(board: &Scoreboard, slot: usize, role: &str, counters: Map) -> io::Result<()> {
    let mut record = crate::map! {
        "role" => role, "pid" => std::process::id(), "at" => unix_now(),
    };
    record.0.extend(counters.0);
    board.write(slot, &msgpack::encode_map(&record, Profile::Local))
}

/// Every record there is.
pub fn all(board: &Scoreboard) -> Vec<Map> {
    (0..board.slots().unwrap_or(0))
        .filter_map(|slot| msgpack::decode(&board.read(slot)?).ok()?.into_map())
        .collect()
}

/// Unix seconds.
pub fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let board = Scoreboard::create(2).unwrap();
        put(&board, 1, "publish", crate::map! {"publications" => 3}).unwrap();
        let all = all(&board);
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].str("role"), all[0].int("publications")),
            (Some("publish"), Some(3))
        );
    }
}

//! A role's own slot of the scoreboard, written periodically: the counters themselves are plain fields, so that
//! counting costs nothing.

use super::roles::CLUSTER;
use halite_config::MasterConfig;
use halite_sys::debug_report;
use halite_sys::memory::{IdleDetector, trim_memory};
use halite_sys::scoreboard::Scoreboard;
use halite_sys::time::unix_now;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value, yaml};
use std::time::{Duration, Instant};
use std::{fmt, io};

const EVERY: Duration = Duration::from_secs(1);
/// Seconds of silence of a role after which the master is not healthy. A worker is silent for as long as a
/// request takes.
const SILENT: u64 = 10;

/// A role's own slot.
pub struct Score {
    board: Option<(Scoreboard, usize)>,
    role: String,
    due: Instant,
    last: Map,
    rest: IdleDetector,
}

impl Score {
    /// The slot assigned by the supervisor; without one nothing is written.
    pub fn inherited(role: &str) -> Score {
        let board = Scoreboard::inherited()
            .inspect_err(|e| log::debug!("no counters of {role} are published: {e}"));
        Score {
            board: board.ok(),
            role: role.to_owned(),
            due: Instant::now(),
            last: Map::new(),
            rest: IdleDetector::default(),
        }
    }

    /// Publishes the counters at the next [`Score::tick`]: somebody waits for them.
    pub fn hasten(&mut self) {
        self.due = Instant::now();
    }

    /// Publishes `counters` if a second has passed since the last time. After a while without activity, the
    /// role frees memory that is only needed for work.
    pub fn tick(&mut self, counters: impl FnOnce() -> Map) {
        debug_report::write_if_asked(&self.role, || show(&self.last));
        if self.board.is_none() || Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + EVERY;
        let counters = counters();
        let worked = counters != self.last;
        if worked {
            self.last = counters.clone();
        }
        if let Some((board, slot)) = &self.board
            && let Err(e) = put(board, *slot, &self.role, counters)
        {
            log::debug!("the counters of {} cannot be published: {e}", self.role);
        }
        if self.rest.is_due(worked) {
            trim_memory();
        }
    }
}

/// Counters as indented lines, for a report.
pub fn show(counters: &Map) -> String {
    let text = yaml::emit(&Value::Map(counters.clone()), true);
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Writes a record: `role`, `pid`, `at` (Unix seconds), then the counters.
pub fn put(board: &Scoreboard, slot: usize, role: &str, counters: Map) -> io::Result<()> {
    let mut record = halite_wire::map! {
        "role" => role, "pid" => std::process::id(), "at" => unix_now(),
    };
    record.0.extend(counters.0);
    board.write(slot, &msgpack::encode_map(&record, Profile::Local))
}

/// All records.
pub fn all(board: &Scoreboard) -> Vec<Map> {
    (0..board.slots().unwrap_or(0))
        .filter_map(|slot| msgpack::decode(&board.read(slot)?).ok()?.into_map())
        .collect()
}

/// What the role `cluster` has told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterScore {
    /// Whether this master is connected to its cluster.
    pub is_member: bool,
    /// Whether it does what must happen once for all masters.
    pub is_leader: bool,
    /// Whether its minions are being sent to others.
    pub is_draining: bool,
    /// Whether it cannot belong to its cluster, since its key or its secret is another one.
    pub is_apart: bool,
}

/// Names of the tickets in the record of the role `cluster`, see [`claim`].
pub const CLAIMS_GRANTED: &str = "claims_granted";
/// The same, of runs that may not begin.
pub const CLAIMS_REFUSED: &str = "claims_refused";
/// How long what the role `cluster` has told counts, in seconds.
const MEMBER_FOR: u64 = 10;
/// The same for who leads: shorter than what is between the end of a leader and the next one.
const LEADER_FOR: u64 = 3;

/// Where this master stands in its cluster at `now` (Unix seconds).
pub fn cluster(board: &Scoreboard, now: u64) -> ClusterScore {
    let Some(role) = cluster_record(board) else {
        return ClusterScore::default();
    };
    let at = u64::try_from(role.int("at").unwrap_or(0)).unwrap_or(0);
    let tells = |name: &str, within| role.int(name) == Some(1) && now.abs_diff(at) <= within;
    ClusterScore {
        is_member: tells("member", MEMBER_FOR),
        is_leader: tells("leader", LEADER_FOR),
        is_draining: tells("draining", MEMBER_FOR),
        is_apart: tells("apart", MEMBER_FOR),
    }
}

/// Whether this master runs a gateway that one master of its cluster runs, at `now` (Unix seconds).
pub fn runs_gateway(board: &Scoreboard, now: u64, gateway: &str) -> bool {
    let Some(role) = cluster_record(board) else {
        return false;
    };
    let at = u64::try_from(role.int("at").unwrap_or(0)).unwrap_or(0);
    let held = role.get("gateways").and_then(Value::as_array);
    let is_held = held.is_some_and(|all| all.iter().any(|one| one.is_str(gateway)));
    is_held && now.abs_diff(at) <= LEADER_FOR
}

/// What the role `cluster` has answered to this ticket of the scheduler: whether the run may begin.
pub fn claim(board: &Scoreboard, ticket: u64) -> Option<bool> {
    let role = cluster_record(board)?;
    let has = |name: &str| {
        let tickets = role.get(name).and_then(Value::as_array);
        tickets.is_some_and(|all| all.contains(&Value::from(ticket)))
    };
    match (has(CLAIMS_GRANTED), has(CLAIMS_REFUSED)) {
        (false, false) => None,
        (is_granted, _) => Some(is_granted),
    }
}

/// Whether the role `cluster` was sending minions to other masters when it last told anything.
pub fn was_draining(board: &Scoreboard) -> bool {
    cluster_record(board).is_some_and(|role| role.int("draining") == Some(1))
}

/// What the role `cluster` has told last.
fn cluster_record(board: &Scoreboard) -> Option<Map> {
    let mut records = all(board).into_iter();
    records.find(|record| record.str("role") == Some(CLUSTER))
}

/// Tells the publisher that minions are to be sent to other masters of the cluster.
pub struct DrainSignal {
    board: Option<Scoreboard>,
    /// Within what time (`drain` of option `cluster`).
    pub within: Duration,
}

impl DrainSignal {
    /// Without a cluster it never comes.
    pub fn new(config: &MasterConfig) -> DrainSignal {
        let cluster = config.cluster();
        let board = cluster.as_ref().and_then(|_| Scoreboard::inherited().ok());
        DrainSignal {
            board: board.map(|(board, _)| board),
            within: cluster.map_or(Duration::ZERO, |cluster| cluster.drain),
        }
    }

    /// Whether it is there now; `true` once.
    pub fn begins(&mut self) -> bool {
        let is_draining = |board: &mut Scoreboard| cluster(board, unix_now()).is_draining;
        self.board.take_if(is_draining).is_some()
    }
}

/// A role that has been silent for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Its name.
    pub role: String,
    /// Seconds since its last sign of life.
    pub seconds: u64,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} (silent for {} s)", self.role, self.seconds)
    }
}

/// The roles that do not serve: those that are down, by what the supervisor writes, and those that are [`late`].
pub fn silent(board: &Scoreboard, request_timeout: u64) -> Vec<String> {
    let records = all(board);
    let down = records.iter().find_map(|record| record.get("down"));
    let mut out = down.map(Value::str_list).unwrap_or_default();
    let late = late(&records, unix_now(), request_timeout);
    out.extend(late.iter().map(ToString::to_string));
    out
}

/// The roles that have been silent for too long; `request_timeout` in seconds, as in the option.
pub fn late(records: &[Map], now: u64, request_timeout: u64) -> Vec<Late> {
    let patience = |role: &str| {
        if role.starts_with("MWorker-") {
            SILENT + request_timeout
        } else {
            SILENT
        }
    };
    let at = |r: &Map| {
        r.int("at")
            .and_then(|at| u64::try_from(at).ok())
            .unwrap_or(0)
    };
    records
        .iter()
        .filter_map(|r| Some((r.str("role")?, now.saturating_sub(at(r)))))
        .filter(|(role, seconds)| *seconds > patience(role))
        .map(|(role, seconds)| Late {
            role: role.to_owned(),
            seconds,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_noticed() {
        let record = |role: &str, at: u64| halite_wire::map! {"role" => role, "at" => at};
        let records = [
            record("event", 1000),
            record("publish", 985),
            record("MWorker-1", 985),
        ];
        let late = late(&records, 1000, 60);
        let words: Vec<String> = late.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["publish (silent for 15 s)"]);
    }

    #[test]
    fn what_a_cluster_told_counts_for_a_while() {
        let board = Scoreboard::create(1).unwrap();
        assert_eq!(cluster(&board, 0), ClusterScore::default());
        let gateways = Value::Array(vec!["collective".into()]);
        let counters =
            halite_wire::map! {"member" => 1u64, "leader" => 1u64, "gateways" => gateways};
        put(&board, 0, CLUSTER, counters).unwrap();
        let now = unix_now();
        let told = |later| cluster(&board, now + later);
        assert!(told(0).is_member && told(0).is_leader);
        assert!(told(8).is_member && !told(8).is_leader);
        assert!(!told(20).is_member);
        let runs = |later, name| runs_gateway(&board, now + later, name);
        assert!(runs(0, "collective") && !runs(0, "arena") && !runs(8, "collective"));
    }

    #[test]
    fn records_come_back() {
        let board = Scoreboard::create(2).unwrap();
        put(
            &board,
            1,
            "publish",
            halite_wire::map! {"publications" => 3},
        )
        .unwrap();
        let all = all(&board);
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].str("role"), all[0].int("publications")),
            (Some("publish"), Some(3))
        );
    }
}

//! Whether this master is the one of its cluster that runs a gateway.

use halite_config::MasterConfig;
use halite_master::score;
use halite_sys::scoreboard::Scoreboard;
use halite_sys::time::unix_now;
use std::time::{Duration, Instant};

/// How long an answer of the role `cluster` counts.
const LOOK: Duration = Duration::from_millis(200);

/// What the role `cluster` says about a gateway.
pub(crate) struct Duty {
    name: &'static str,
    /// Without it nobody knows.
    board: Option<Scoreboard>,
    looked: Option<Instant>,
    is_ours: bool,
}

impl Duty {
    /// Of the gateway `name`; `None` if each master that has it runs it.
    pub(crate) fn of(name: &'static str, config: &MasterConfig) -> Option<Duty> {
        let is_of_one = config.gateways_of_clusters().contains(&name);
        is_of_one.then(|| Duty {
            name,
            board: Scoreboard::inherited().ok().map(|(board, _)| board),
            looked: None,
            is_ours: false,
        })
    }

    /// Whether this master runs it now.
    pub(crate) fn is_ours(&mut self) -> bool {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            let runs = |board| score::runs_gateway(board, unix_now(), self.name);
            self.is_ours = self.board.as_ref().is_some_and(runs);
        }
        self.is_ours
    }
}

//! Minions after an outage of the master: each is back when it is subscribed and the master knows it.

use super::super::minion::{Outage, ReplyCheck, Request};
use super::super::session::Load;
use super::super::stats::Op;
use super::Shard;
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The event that a minion fires to find out whether the master knows it. It is encrypted, so that a master
/// with new keys asks for a new sign-in.
pub(super) fn question() -> Arc<Load> {
    Arc::new(Load::new(&halite_wire::map! {
        "cmd" => "_minion_event", "tag" => "swarm/back", "pretag" => Value::Nil, "data" => Map::new(),
    }))
}

impl Shard {
    /// Minion `n` has lost its publish connection.
    pub(super) fn publisher_lost(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if self.options.come_back && minion.subscribed && minion.absence == Outage::Never {
            minion.absence = Outage::Lost(Instant::now());
            self.shared.away.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The publish connection of minion `n` is open.
    pub(super) fn publisher_connected(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        minion.refused = 0;
        if let Outage::Lost(since) = minion.absence {
            let now = Instant::now();
            self.shared.reopened.get_or_init(|| now);
            minion.absence = Outage::Connected;
            self.stats.done(Op::Away, now.duration_since(since));
        }
    }

    /// Minion `n` is subscribed.
    pub(super) fn confirm_reconnect(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if minion.absence == Outage::Connected {
            minion.absence = Outage::Asking;
            let request = Request::new(self.question.clone(), ReplyCheck::Back);
            minion.queue.push_back(request);
            self.next_task(n);
        }
    }

    /// The master has answered minion `n`, which is back unless the connection was lost again meanwhile.
    pub(super) fn reconnected(&mut self, n: usize, now: Instant) {
        let minion = &mut self.minions[n];
        if !minion.subscribed {
            minion.absence = Outage::Connected;
            return;
        }
        minion.absence = Outage::Over;
        let since = self.shared.reopened.get().copied().unwrap_or(now);
        self.stats.done(Op::Back, now.duration_since(since));
        self.shared.back.fetch_add(1, Ordering::AcqRel);
    }
}

//! Limits on a module's memory, and on how fast it may publish and write.

use std::time::{Duration, Instant};
use wasmi::errors::{MemoryError, TableError};
use wasmi_core::{LimiterError, ResourceLimiter};

/// The burst allowed after a pause, as time at the rate.
const BURST: Duration = Duration::from_secs(1);
/// The first wait for room.
const SOON: Duration = Duration::from_millis(5);
/// The longest wait for room.
const RARELY: Duration = Duration::from_millis(250);
/// Tables per module; compilers create one.
const TABLES: usize = 16;

/// Limits memory and tables. Growing beyond a limit is a trap, so that the module ends with a clear reason.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    memory: usize,
    elements: usize,
    used_elements: usize,
    asked_elements: usize,
    over: Option<&'static str>,
}

impl MemoryLimiter {
    /// Limits: bytes of linear memory, and elements of all tables together.
    pub(super) fn new(memory: u64, elements: u64) -> MemoryLimiter {
        let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
        MemoryLimiter {
            memory: size(memory),
            elements: size(elements),
            used_elements: 0,
            asked_elements: 0,
            over: None,
        }
    }

    /// The limit that the module exceeded.
    pub(super) fn over(&self) -> Option<&'static str> {
        self.over
    }

    fn refuse(&mut self, what: &'static str) -> LimiterError {
        self.over = Some(what);
        LimiterError::ResourceLimiterDeniedAllocation
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        if desired > self.memory {
            return Err(self.refuse("memory"));
        }
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: &MemoryError) -> Result<(), LimiterError> {
        match error {
            // The call is resumed with more fuel, and tries again.
            MemoryError::OutOfFuel { .. } => Ok(()),
            _ => Err(self.refuse("memory of this machine")),
        }
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let used = self.used_elements.saturating_add(more);
        if used > self.elements {
            return Err(self.refuse("table elements"));
        }
        self.used_elements = used;
        self.asked_elements = more;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: &TableError) -> Result<(), LimiterError> {
        // Also if only the fuel of this slice was too little: wasmi 2.0.0 does not save the position of the call when
        // a growing table runs out of fuel, and a resumed call would go on elsewhere. Growing by a few elements is
        // free (see `interp`), so this affects large growths only, and rarely.
        self.used_elements = self.used_elements.saturating_sub(self.asked_elements);
        Err(self.refuse("growth of a table at once"))
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        1
    }
}

/// A rate limit: so many units per second, and as many at once after a second of rest. A single request may exceed
/// that, and delays the next one.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: u32,
    /// When the units taken so far are paid for.
    paid: Option<Instant>,
}

impl Rate {
    /// Units per second; 0 is no limit.
    pub(super) fn new(per_second: u32) -> Rate {
        Rate {
            per_second,
            paid: None,
        }
    }

    /// When the next units may be taken; `None` is now.
    pub(super) fn ready_at(&self, now: Instant) -> Option<Instant> {
        let ready = self.paid?.checked_sub(BURST)?;
        (ready > now).then_some(ready)
    }

    /// Takes units.
    pub(super) fn take(&mut self, units: u32, now: Instant) {
        if self.per_second == 0 {
            return;
        }
        let price = Duration::from_secs(1)
            .saturating_mul(units)
            .checked_div(self.per_second);
        let from = self.paid.map_or(now, |paid| paid.max(now));
        self.paid = price
            .and_then(|price| from.checked_add(price))
            .or(self.paid);
    }
}

/// When to retry if there was no room: soon at first, then less and less often.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// The next attempt, and its distance from the previous one.
    next: Option<(Instant, Duration)>,
}

impl Retry {
    /// Records that there was no room; returns the time of the next attempt.
    pub(super) fn refused(&mut self, now: Instant) -> Instant {
        let wait = self
            .next
            .map_or(SOON, |(_, wait)| wait.saturating_mul(2).min(RARELY));
        let at = now + wait;
        self.next = Some((at, wait));
        at
    }

    /// The time of the next attempt; `None` is now.
    pub(super) fn ready_at(&self, now: Instant) -> Option<Instant> {
        self.next.map(|(at, _)| at).filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_allows_a_second_at_once_and_then_its_pace() {
        let now = Instant::now();
        let mut rate = Rate::new(10);
        for _ in 0..11 {
            assert_eq!(rate.ready_at(now), None);
            rate.take(1, now);
        }
        let ready = rate.ready_at(now).expect("more than a second's worth");
        assert_eq!(ready - now, Duration::from_millis(100));
        assert_eq!(rate.ready_at(ready), None);
    }

    #[test]
    fn a_large_piece_is_paid_for_afterwards() {
        let now = Instant::now();
        let mut rate = Rate::new(100);
        rate.take(1000, now);
        assert_eq!(rate.ready_at(now), Some(now + Duration::from_secs(9)));
    }

    #[test]
    fn no_rate_is_no_limit() {
        let now = Instant::now();
        let mut rate = Rate::new(0);
        rate.take(u32::MAX, now);
        assert_eq!(rate.ready_at(now), None);
    }

    #[test]
    fn who_has_no_room_is_asked_more_and_more_rarely() {
        let mut now = Instant::now();
        let mut retry = Retry::default();
        assert_eq!(retry.ready_at(now), None);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let at = retry.refused(now);
            assert_eq!(retry.ready_at(now), Some(at));
            waits.push((at - now).as_millis());
            now = at;
            assert_eq!(retry.ready_at(now), None);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 250, 250]);
    }

    #[test]
    fn tables_share_their_limit() {
        let mut room = MemoryLimiter::new(1 << 20, 100);
        assert!(matches!(room.table_growing(0, 60, None), Ok(true)));
        assert!(matches!(room.table_growing(0, 30, Some(20)), Ok(false)));
        assert!(room.table_growing(0, 41, None).is_err());
        assert_eq!(room.over(), Some("table elements"));
    }

    #[test]
    fn memory_over_its_limit_is_refused_and_a_lack_of_fuel_is_not() {
        let mut room = MemoryLimiter::new(1 << 20, 100);
        assert!(matches!(room.memory_growing(0, 1 << 20, None), Ok(true)));
        let fuel = MemoryError::OutOfFuel { required_fuel: 1 };
        assert!(room.memory_grow_failed(&fuel).is_ok());
        assert_eq!(room.over(), None);
        assert!(room.memory_growing(0, (1 << 20) + 1, None).is_err());
        assert_eq!(room.over(), Some("memory"));
    }
}

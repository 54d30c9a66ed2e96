//! When to announce a change of the publications' key to minions. Pure.
//!
//! The announcement is a publication `{"rekey": seconds}` under the key known so far: fetch the new one
//! (`_aes_keys`) at a random time within so many seconds. It has neither `tgt` nor `jid`, so that stock minions
//! ignore it (`salt/minion.py Minion._target_load`), as do other minions that do not know it. A deleted minion
//! may read it; it contains no secret.

use halite_wire::Map;

/// The key of [`announcement`].
pub(crate) const REKEY: &str = "rekey";

/// The load of an announcement.
pub(crate) fn announcement(within: u64) -> Map {
    halite_wire::map! {REKEY => within}
}

/// What has been announced so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announcer {
    /// The last seen key in force; 0 before the first check.
    in_force: u64,
    /// The last seen offered key.
    offered: u64,
}

impl Announcer {
    /// Updates the generations in force and on offer; returns whether to announce a change under the previous
    /// key. `used`: a job was published under that key. Only then minions have it; an announcement they cannot
    /// decrypt would cause the very sign-ins that it is to avoid. An offer waits for that first job.
    pub fn observe(&mut self, in_force: u64, offered: Option<u64>, used: bool) -> bool {
        let before = *self;
        self.in_force = in_force;
        if before.in_force == 0 {
            self.offered = offered.unwrap_or_default();
            return false;
        }
        if in_force > before.in_force {
            return used && in_force != before.offered;
        }
        let offers = used && offered.is_some_and(|n| n > before.offered);
        if offers {
            self.offered = offered.unwrap_or_default();
        }
        offers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_announced_once() {
        let mut announcer = Announcer::default();
        assert!(!announcer.observe(1, None, true), "the first look");
        assert!(!announcer.observe(1, None, true));
        assert!(announcer.observe(1, Some(2), true), "an offer");
        assert!(!announcer.observe(1, Some(2), true));
        assert!(!announcer.observe(2, None, true), "as announced");
        assert!(announcer.observe(3, None, true), "replaced");
        assert!(!announcer.observe(3, None, true));
    }

    #[test]
    fn a_replacement_during_an_offer_is_news() {
        let mut announcer = Announcer::default();
        announcer.observe(1, None, true);
        assert!(announcer.observe(1, Some(2), true));
        assert!(
            announcer.observe(3, None, true),
            "2 was offered and is void"
        );
        assert!(announcer.observe(3, Some(4), true));
        assert!(!announcer.observe(4, None, true));
    }

    #[test]
    fn nothing_is_announced_under_a_key_that_nobody_has() {
        let mut announcer = Announcer::default();
        announcer.observe(1, None, false);
        assert!(!announcer.observe(2, None, false));
        assert!(!announcer.observe(2, Some(3), false));
        assert!(announcer.observe(2, Some(3), true), "since a job was");
        assert!(!announcer.observe(2, Some(3), true));
        assert!(!announcer.observe(3, None, false));
        assert!(!announcer.observe(4, None, false));
        assert!(announcer.observe(5, None, true));
    }
}

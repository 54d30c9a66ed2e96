//! When minions are told that the key of publications changes. Pure.
//!
//! The announcement is a publication `{"rekey": seconds}` under the key that is known so far: fetch the
//! new one (`_aes_keys`) at a moment of your own within so many seconds. It has neither `tgt` nor `jid`, so that
//! stock minions pass it over (`salt/minion.py Minion._target_load`), as does every minion that does not know it.
//! Who is deleted may read it; it holds nothing.

use halite_wire::Map;

/// The key of [`announcement`].
pub(crate) const REKEY: &str = "rekey";

/// The load of an announcement.
pub(crate) fn announcement(within: u64) -> Map {
    halite_wire::map! {REKEY => within}
}

/// What was announced so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announcer {
    /// The last key in force that was seen; 0 before the first look.
    in_force: u64,
    /// The last one on offer.
    offered: u64,
}

impl Announcer {
    /// Looks at the generation in force and the one on offer; whether there is something to announce under the key
    /// that was in force so far. `used`: a job was published under that key. Minions have it only then, and an
    /// announcement that they cannot open would bring about the very sign-ins that it is to avoid; an offer waits for
    /// that first job.
    pub fn look(&mut self, in_force: u64, offered: Option<u64>, used: bool) -> bool {
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
        assert!(!announcer.look(1, None, true), "the first look");
        assert!(!announcer.look(1, None, true));
        assert!(announcer.look(1, Some(2), true), "an offer");
        assert!(!announcer.look(1, Some(2), true));
        assert!(!announcer.look(2, None, true), "as announced");
        assert!(announcer.look(3, None, true), "replaced");
        assert!(!announcer.look(3, None, true));
    }

    #[test]
    fn a_replacement_during_an_offer_is_news() {
        let mut announcer = Announcer::default();
        announcer.look(1, None, true);
        assert!(announcer.look(1, Some(2), true));
        assert!(announcer.look(3, None, true), "2 was offered and is void");
        assert!(announcer.look(3, Some(4), true));
        assert!(!announcer.look(4, None, true));
    }

    #[test]
    fn nothing_is_announced_under_a_key_that_nobody_has() {
        let mut announcer = Announcer::default();
        announcer.look(1, None, false);
        assert!(!announcer.look(2, None, false));
        assert!(!announcer.look(2, Some(3), false));
        assert!(announcer.look(2, Some(3), true), "since a job was");
        assert!(!announcer.look(2, Some(3), true));
        assert!(!announcer.look(3, None, false));
        assert!(!announcer.look(4, None, false));
        assert!(announcer.look(5, None, true));
    }
}

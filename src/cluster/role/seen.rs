//! Which requests were answered: their session keys are the same at all masters, so that one that somebody has recorded must not
//! count at another master.

use super::{Cluster, Membership};
use crate::link::Channel;
use crate::pieces::Voice;

/// What it is about.
pub(super) const PURPOSE: &str = "seen";

impl Cluster<'_> {
    /// The request server has answered requests with these authentication codes.
    pub(super) fn tell_seen(&mut self, codes: &[u8]) {
        let Some(Voice { teller, .. }) = &mut self.seen else {
            return;
        };
        if self.membership != Membership::Member {
            return;
        }
        // It is small, and whoever does not hear it now needs it no more.
        for piece in teller.seal(codes).unwrap_or_default() {
            let origin = teller.origin.clone();
            self.link.tell(Channel::Seen, origin, piece);
        }
    }

    /// Another master has answered requests.
    pub(super) fn heard_seen(&mut self, origin: &str, bytes: &[u8]) {
        let Some(voice) = self.seen.as_mut().filter(|voice| !voice.is_own(origin)) else {
            return;
        };
        match voice.open(origin, bytes) {
            Ok((_, Some(codes))) => {
                // A request server that is being restarted misses them.
                let _ = self.requests.try_send(&[&b"S"[..], &codes]);
            }
            Ok((_, None)) => {}
            Err(_) => self.stranger(&format!("a message of seen.{origin:.100}")),
        }
    }
}

//! Topics of publications, with `zmq_filtering` (reference `salt-protocol.md` 1.4) and of subscribers that say who they are.

use sha1::{Digest, Sha1};

/// Publications for syndics.
pub const SYNDIC: &str = "syndic";
/// Messages for all minions.
pub const BROADCAST: &str = "broadcast";

/// First topic of a job that goes to each of its minions under its session key; their ids follow.
pub const PRIVATE: &str = "private";

/// The topic of what is for one minion alone. Only who has subscribed to exactly this gets it.
pub fn private(id: &str) -> String {
    format!("{PRIVATE}:{}", of_minion(id))
}

/// The topic of one minion: the SHA-1 of its id, in hexadecimal.
pub fn of_minion(id: &str) -> String {
    let digest = Sha1::digest(id.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_topic_of_a_minion() {
        let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(super::of_minion("abc"), sha1);
    }
}

//! Connections that have not said yet what they want. Their subscription is under way when a publication comes, for a
//! client knows no more than that it is connected: what is published meanwhile is kept for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A publication that somebody may want still.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// Names under which it goes out; none: its own beginning counts.
    pub topics: Arc<[Vec<u8>]>,
    /// The framed message.
    pub body: Arc<[u8]>,
    /// Bytes of `body` before the message.
    head: usize,
}

impl Recent {
    /// The message itself.
    pub fn message(&self) -> &[u8] {
        self.body.get(self.head..).unwrap_or_default()
    }
}

/// The newcomers, and what was published since the first of them came.
#[derive(Debug)]
pub(super) struct Newcomers {
    /// Publications and bytes that are kept at most.
    limits: (usize, usize),
    /// By token: when it came, and the number of the next publication then.
    waiting: HashMap<u64, (Instant, u64)>,
    recent: VecDeque<Recent>,
    octets: usize,
    /// The number of the next publication.
    next: u64,
}

impl Newcomers {
    /// Keeps at most so many publications, and so many bytes of them.
    pub fn new(publications: usize, octets: usize) -> Newcomers {
        Newcomers {
            limits: (publications, octets),
            waiting: HashMap::new(),
            recent: VecDeque::new(),
            octets: 0,
            next: 0,
        }
    }

    /// Somebody has connected.
    pub fn came(&mut self, token: u64, now: Instant) {
        self.waiting.insert(token, (now, self.next));
    }

    /// Whether anybody has to say still what it wants.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a publication.
    pub fn keep(&mut self, topics: &[Vec<u8>], message: usize, body: &Arc<[u8]>) {
        let (most, octets) = self.limits;
        self.next += 1;
        self.octets += body.len();
        self.recent.push_back(Recent {
            topics: topics.into(),
            body: body.clone(),
            head: body.len() - message,
        });
        while self.recent.len() > most || self.octets > octets {
            let Some(oldest) = self.recent.pop_front() else {
                break;
            };
            self.octets -= oldest.body.len();
        }
    }

    /// It is gone: no newcomer any more.
    pub fn gone(&mut self, token: u64) {
        self.waiting.remove(&token);
        self.forget();
    }

    /// It has said what it wants: no newcomer any more. What was published since it came.
    pub fn settled(&mut self, token: u64) -> Vec<Recent> {
        let Some((_, since)) = self.waiting.remove(&token) else {
            return Vec::new();
        };
        let missed = usize::try_from(self.next - since).unwrap_or(usize::MAX);
        let known = self.recent.len().saturating_sub(missed);
        let missed = self.recent.range(known..).cloned().collect();
        self.forget();
        missed
    }

    /// Who has wanted nothing for `limit` is waited for no longer.
    pub fn look(&mut self, now: Instant, limit: Duration) {
        let young = |came: Instant| now.duration_since(came) < limit;
        self.waiting.retain(|_, (came, _)| young(*came));
        self.forget();
    }

    fn forget(&mut self) {
        if self.waiting.is_empty() && self.octets > 0 {
            self.recent = VecDeque::new();
            self.octets = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(recent: &[Recent]) -> Vec<&[u8]> {
        recent.iter().map(Recent::message).collect()
    }

    #[test]
    fn each_is_given_what_it_missed_and_nothing_is_kept_for_nobody() {
        let now = Instant::now();
        let mut new = Newcomers::new(3, 100);
        let body = |text: &str| Arc::from(format!("#{text}").as_bytes());
        new.came(1, now);
        new.keep(&[], 1, &body("a"));
        new.came(2, now + Duration::from_secs(9));
        new.keep(&[b"t".to_vec()], 1, &body("b"));
        assert_eq!(messages(&new.settled(1)), [b"a", b"b"]);
        assert!(new.settled(1).is_empty(), "once");
        let missed = new.settled(2);
        assert_eq!(messages(&missed), [b"b"]);
        assert_eq!(*missed[0].topics, [b"t".to_vec()]);
        assert!(new.is_empty() && new.recent.is_empty() && new.octets == 0);
        new.came(3, now);
        new.look(now + Duration::from_secs(9), Duration::from_secs(10));
        for text in ["c", "d", "e", "f"] {
            new.keep(&[], 1, &body(text));
        }
        assert_eq!(messages(&new.settled(3)), [b"d", b"e", b"f"], "three");
        new.came(4, now);
        new.keep(&[], 99, &body(&"g".repeat(99)));
        new.keep(&[], 1, &body("h"));
        assert_eq!((new.recent.len(), new.octets), (1, 2), "100 octets");
        new.look(now + Duration::from_secs(10), Duration::from_secs(10));
        assert!(new.is_empty() && new.settled(4).is_empty());
    }
}

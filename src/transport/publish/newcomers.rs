//! Connections that have not subscribed yet. A client only knows that it is connected, so its subscription may still be in
//! transit when a publication is sent: publications are kept for it meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A publication that a newcomer may still need.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// Topics it is published under; if empty, the start of the message is matched.
    pub topics: Arc<[Vec<u8>]>,
    /// Whether only subscriptions to exactly one of the topics count, and the message comes without its topic.
    pub exact: bool,
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

/// The newcomers, and what was published since the first of them connected.
#[derive(Debug)]
pub(super) struct Newcomers {
    /// Most publications and most bytes that are kept.
    limits: (usize, usize),
    /// By token: when it connected, and the number of the next publication at that time.
    waiting: HashMap<u64, (Instant, u64)>,
    recent: VecDeque<Recent>,
    bytes: usize,
    /// The number of the next publication.
    next: u64,
}

impl Newcomers {
    /// Keeps at most that many publications and bytes.
    pub fn new(publications: usize, bytes: usize) -> Newcomers {
        Newcomers {
            limits: (publications, bytes),
            waiting: HashMap::new(),
            recent: VecDeque::new(),
            bytes: 0,
            next: 0,
        }
    }

    /// Adds a newcomer.
    pub fn add(&mut self, token: u64, now: Instant) {
        self.waiting.insert(token, (now, self.next));
    }

    /// Whether there are no newcomers.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Stores a publication.
    pub fn store(&mut self, topics: &[Vec<u8>], exact: bool, message: usize, body: &Arc<[u8]>) {
        let (most, bytes) = self.limits;
        self.next += 1;
        self.bytes += body.len();
        self.recent.push_back(Recent {
            topics: topics.into(),
            exact,
            body: body.clone(),
            head: body.len() - message,
        });
        while self.recent.len() > most || self.bytes > bytes {
            let Some(oldest) = self.recent.pop_front() else {
                break;
            };
            self.bytes -= oldest.body.len();
        }
    }

    /// Removes a newcomer that has disconnected.
    pub fn remove(&mut self, token: u64) {
        self.waiting.remove(&token);
        self.forget();
    }

    /// Removes a newcomer that has subscribed. Returns what was published since it connected.
    pub fn take_missed(&mut self, token: u64) -> Vec<Recent> {
        let Some((_, since)) = self.waiting.remove(&token) else {
            return Vec::new();
        };
        let missed = usize::try_from(self.next - since).unwrap_or(usize::MAX);
        let known = self.recent.len().saturating_sub(missed);
        let missed = self.recent.range(known..).cloned().collect();
        self.forget();
        missed
    }

    /// Removes newcomers that have not subscribed within `limit`.
    pub fn expire(&mut self, now: Instant, limit: Duration) {
        let young = |came: Instant| now.duration_since(came) < limit;
        self.waiting.retain(|_, (came, _)| young(*came));
        self.forget();
    }

    fn forget(&mut self) {
        if self.waiting.is_empty() && self.bytes > 0 {
            self.recent = VecDeque::new();
            self.bytes = 0;
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
        new.add(1, now);
        new.store(&[], false, 1, &body("a"));
        new.add(2, now + Duration::from_secs(9));
        new.store(&[b"t".to_vec()], false, 1, &body("b"));
        assert_eq!(messages(&new.take_missed(1)), [b"a", b"b"]);
        assert!(new.take_missed(1).is_empty(), "once");
        let missed = new.take_missed(2);
        assert_eq!(messages(&missed), [b"b"]);
        assert_eq!(*missed[0].topics, [b"t".to_vec()]);
        assert!(new.is_empty() && new.recent.is_empty() && new.bytes == 0);
        new.add(3, now);
        new.expire(now + Duration::from_secs(9), Duration::from_secs(10));
        for text in ["c", "d", "e", "f"] {
            new.store(&[], false, 1, &body(text));
        }
        assert_eq!(messages(&new.take_missed(3)), [b"d", b"e", b"f"], "three");
        new.add(4, now);
        new.store(&[], false, 99, &body(&"g".repeat(99)));
        new.store(&[], false, 1, &body("h"));
        assert_eq!((new.recent.len(), new.bytes), (1, 2), "100 bytes");
        new.expire(now + Duration::from_secs(10), Duration::from_secs(10));
        assert!(new.is_empty() && new.take_missed(4).is_empty());
    }
}

//! The subscriptions of all subscribers, by topic.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Subscriptions. A message goes to those who have subscribed to a prefix of it; the empty
/// prefix matches everything.
#[derive(Debug, Default)]
pub(super) struct Topics {
    wanted: HashMap<Arc<[u8]>, BTreeSet<u64>>,
    /// For each length, how many topics of `wanted` have it.
    lengths: BTreeMap<usize, usize>,
}

impl Topics {
    /// Adds a subscription; adding it twice has no effect. Returns the topic, of which there is one copy for all.
    pub fn add(&mut self, topic: &[u8], token: u64) -> Arc<[u8]> {
        let kept = match self.wanted.get_key_value(topic) {
            Some((kept, _)) => kept.clone(),
            None => {
                *self.lengths.entry(topic.len()).or_default() += 1;
                Arc::from(topic)
            }
        };
        self.wanted.entry(kept.clone()).or_default().insert(token);
        kept
    }

    /// Removes a subscription.
    pub fn remove(&mut self, topic: &[u8], token: u64) {
        let Some(tokens) = self.wanted.get_mut(topic) else {
            return;
        };
        tokens.remove(&token);
        if !tokens.is_empty() {
            return;
        }
        self.wanted.remove(topic);
        if let Some(count) = self.lengths.get_mut(&topic.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&topic.len());
            }
        }
    }

    /// Adds to `out` the subscribers of exactly this topic.
    pub fn exact(&self, topic: &[u8], out: &mut Vec<u64>) {
        out.extend(self.wanted.get(topic).into_iter().flatten());
    }

    /// Adds to `out` the subscribers whose topics match the start of a message, each once.
    pub fn matching(&self, message: &[u8], out: &mut Vec<u64>) {
        let from = out.len();
        let mut sets = 0;
        for (length, _) in self.lengths.range(..=message.len()) {
            let beginning = message.get(..*length).unwrap_or_default();
            if let Some(tokens) = self.wanted.get(beginning) {
                out.extend(tokens);
                sets += 1;
            }
        }
        if sets > 1
            && let Some(added) = out.get_mut(from..)
        {
            added.sort_unstable();
            out.dedup();
        }
    }
}

#[cfg(test)]
impl Topics {
    /// Whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.lengths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(topics: &Topics, message: &[u8]) -> Vec<u64> {
        let mut out = Vec::new();
        topics.matching(message, &mut out);
        out
    }

    #[test]
    fn beginnings_count_and_nobody_is_told_twice() {
        let mut topics = Topics::default();
        topics.add(b"", 1);
        topics.add(b"broad", 2);
        topics.add(b"broadcast", 2);
        // One copy for all subscribers.
        let first = topics.add(b"broadcast", 2);
        assert!(Arc::ptr_eq(&first, &topics.add(b"broadcast", 3)));
        topics.add(b"other", 4);
        assert_eq!(matching(&topics, b"broadcast"), [1, 2, 3]);
        assert_eq!(matching(&topics, b"broad"), [1, 2]);
        assert_eq!(matching(&topics, b""), [1]);
        topics.remove(b"", 1);
        topics.remove(b"broadcast", 2);
        topics.remove(b"broadcast", 9);
        topics.remove(b"never", 1);
        assert_eq!(matching(&topics, b"broadcast"), [2, 3]);
        topics.remove(b"broad", 2);
        topics.remove(b"broadcast", 3);
        topics.remove(b"other", 4);
        assert!(topics.is_empty());
    }
}

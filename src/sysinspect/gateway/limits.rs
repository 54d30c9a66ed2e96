//! Rate limits by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The window of the counts.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses with a count of their own. At this number, addresses whose window is over are dropped; if that does not
/// help, new addresses share one count.
const ADDRESSES: usize = 10_000;

/// Requests per address and minute.
#[derive(Debug)]
pub(super) struct Limit {
    most: u32,
    counts: HashMap<IpAddr, (Instant, u32)>,
    others: Option<(Instant, u32)>,
}

impl Limit {
    /// Allows `most` requests per minute and address.
    pub fn new(most: u32) -> Limit {
        Limit {
            most,
            counts: HashMap::new(),
            others: None,
        }
    }

    /// Counts a request; `false` if it is over the limit.
    pub fn take(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.counts.len() >= ADDRESSES && !self.counts.contains_key(&address) {
            self.counts
                .retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        let full = self.counts.len() >= ADDRESSES && !self.counts.contains_key(&address);
        let count = if full {
            self.others.get_or_insert((now, 0))
        } else {
            self.counts.entry(address).or_insert((now, 0))
        };
        if now.duration_since(count.0) >= WINDOW {
            *count = (now, 0);
        }
        count.1 = count.1.saturating_add(1);
        count.1 <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_by_address_and_minute() {
        let mut limit = Limit::new(2);
        let (now, one) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        let other = IpAddr::from([10, 0, 0, 2]);
        assert!(limit.take(one, now) && limit.take(one, now));
        assert!(!limit.take(one, now) && limit.take(other, now));
        assert!(limit.take(one, now + WINDOW));
    }

    #[test]
    fn many_addresses_take_no_more_room() {
        let mut limit = Limit::new(1);
        let now = Instant::now();
        let address = |n: usize| IpAddr::from((n as u128).to_be_bytes());
        for n in 0..ADDRESSES {
            assert!(limit.take(address(n), now));
        }
        assert!(limit.take(address(ADDRESSES), now));
        assert!(!limit.take(address(ADDRESSES + 1), now));
        assert_eq!(limit.counts.len(), ADDRESSES);
        assert!(limit.take(address(ADDRESSES + 1), now + WINDOW));
    }
}

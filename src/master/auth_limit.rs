//! Rate limit for sign-ins per source, applied before an RSA operation is spent on them.
//!
//! Pure: time is passed in, nothing is sent. A source is an IPv4 address or an IPv6 /64 network, within which
//! one host can choose addresses. Each may sign in `burst` times at once and then `rate` times per second: a
//! fleet behind one address comes back after a restart within the burst, while a host that floods gets a small
//! share of one core and does not delay others. Sign-ins over the limit get no answer: any answer makes a
//! minion try again sooner than silence does.

use halite_sys::allowance::Allowance;
use halite_sys::log_limiter::LogLimiter;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Most sources tracked at a time. Further ones share one allowance, so that a flood of addresses neither grows
/// this table nor evades it.
const SOURCES: usize = 65_536;

/// Allowances of all sources.
#[derive(Debug)]
pub(crate) struct AuthLimit {
    /// Time that one sign-in uses up; `None` without a limit.
    cost: Option<Duration>,
    /// How far a source may be ahead of its rate.
    tolerance: Duration,
    sources: HashMap<IpAddr, Allowance>,
    /// Shared by sources without an allowance of their own.
    others: Allowance,
    /// When idle sources were last removed.
    swept: Option<Instant>,
    turned_away: u64,
    /// Those of them not reported yet, and the source of the last.
    unreported: LogLimiter,
    last: Option<IpAddr>,
}

/// Sign-ins turned away since the last report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TurnedAway {
    /// How many.
    pub count: u64,
    /// The source of the last one, if known.
    pub last: Option<IpAddr>,
}

impl AuthLimit {
    /// `rate` sign-ins per second and `burst` at once, per source; rate 0 means no limit.
    pub fn new(rate: u32, burst: u32) -> AuthLimit {
        let cost = (rate > 0).then(|| Duration::from_secs(1) / rate.max(1));
        AuthLimit {
            cost,
            tolerance: cost.unwrap_or_default() * burst.saturating_sub(1),
            sources: HashMap::new(),
            others: Allowance::default(),
            swept: None,
            turned_away: 0,
            unreported: LogLimiter::default(),
            last: None,
        }
    }

    /// Whether to accept a sign-in from `peer` (an address as reported by ZeroMQ) now.
    pub fn admits(&mut self, peer: &str, now: Instant) -> bool {
        let Some(cost) = self.cost else {
            return true;
        };
        let source = source(peer);
        let tolerance = self.tolerance;
        if self.allowance(source, now).take(now, cost, tolerance) {
            return true;
        }
        self.turned_away += 1;
        self.unreported.add(1);
        self.last = source;
        false
    }

    fn allowance(&mut self, source: Option<IpAddr>, now: Instant) -> &mut Allowance {
        let Some(source) = source else {
            return &mut self.others;
        };
        if self.sources.len() >= SOURCES && !self.sources.contains_key(&source) {
            // At most once a second: with a full table, not every request may scan all of it.
            let due = |at: Instant| now.duration_since(at) >= Duration::from_secs(1);
            if self.swept.is_none_or(due) {
                self.swept = Some(now);
                self.sources.retain(|_, allowance| !allowance.is_idle(now));
            }
            if self.sources.len() >= SOURCES {
                return &mut self.others;
            }
        }
        self.sources.entry(source).or_default()
    }

    /// Number of sign-ins turned away so far.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// What to report to the operator, at most once a minute.
    pub fn report(&mut self, now: Instant) -> Option<TurnedAway> {
        let count = self.unreported.due(now)?;
        let last = self.last;
        Some(TurnedAway { count, last })
    }
}

/// The source of an address; `None` if it is not an address.
pub(crate) fn source(peer: &str) -> Option<IpAddr> {
    // A link-local address is followed by its interface.
    let address = peer.split('%').next().unwrap_or_default();
    Some(match address.parse().ok()? {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        },
        v4 => v4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// How many of `count` simultaneous sign-ins are accepted.
    fn admitted(limit: &mut AuthLimit, peer: &str, now: Instant, count: usize) -> usize {
        (0..count).filter(|_| limit.admits(peer, now)).count()
    }

    #[test]
    fn a_burst_passes_and_a_flood_gets_its_rate() {
        let mut limit = AuthLimit::new(10, 1000);
        let begin = Instant::now();
        assert_eq!(admitted(&mut limit, "192.0.2.1", begin, 5000), 1000);
        assert_eq!(limit.turned_away(), 4000);
        // A one-second flood at a thousand times the allowed rate.
        let taken: usize = (0..1000)
            .map(|n| admitted(&mut limit, "192.0.2.1", begin + millis(n), 10))
            .sum();
        assert_eq!(taken, 9, "ten a second, the first of them after 100 ms");
        assert_eq!(
            admitted(&mut limit, "192.0.2.2", begin + millis(500), 500),
            500,
            "nobody else waits for it"
        );
        // After a pause it has its burst again.
        let later = begin + Duration::from_secs(200);
        assert_eq!(admitted(&mut limit, "192.0.2.1", later, 5000), 1000);
    }

    #[test]
    fn networks_of_one_host_are_one_source() {
        let mut limit = AuthLimit::new(1, 2);
        let now = Instant::now();
        assert!(limit.admits("2001:db8::1", now));
        assert!(limit.admits("2001:db8::ffff:2", now));
        assert!(!limit.admits("2001:db8::3", now), "the same 64 bits");
        assert!(limit.admits("2001:db8:0:1::1", now));
        assert_eq!(admitted(&mut limit, "::ffff:192.0.2.1", now, 1), 1);
        assert_eq!(admitted(&mut limit, "192.0.2.1", now, 5), 1, "mapped");
        assert_eq!(admitted(&mut limit, "fe80::1%eth0", now, 5), 2);
        assert_eq!(admitted(&mut limit, "", now, 5), 2, "unknown is one more");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_who_is_quiet() {
        let mut limit = AuthLimit::new(1, 3);
        let begin = Instant::now();
        let flood = |limit: &mut AuthLimit, second: u8, now| -> usize {
            let peers = (0..=255u8).flat_map(|b| (0..=255u8).map(move |c| (b, c)));
            let peers = peers.flat_map(|(b, c)| (0..2u8).map(move |d| (b, c, d)));
            peers
                .map(|(b, c, d)| format!("{second}.{b}.{c}.{d}"))
                .filter(|peer| limit.admits(peer, now))
                .count()
        };
        let taken = flood(&mut limit, 10, begin);
        assert_eq!(limit.sources.len(), SOURCES);
        assert_eq!(taken, SOURCES + 3, "the rest shares one allowance");
        // A while later all sources are idle, and new ones fit.
        let later = begin + Duration::from_secs(10);
        assert!(limit.admits("192.0.2.1", later));
        assert_eq!(limit.sources.len(), 1);
    }

    #[test]
    fn reports_come_once_a_minute() {
        let mut limit = AuthLimit::new(1, 1);
        let begin = Instant::now();
        assert_eq!(limit.report(begin), None);
        admitted(&mut limit, "192.0.2.9", begin, 3);
        let first = TurnedAway {
            count: 2,
            last: Some([192, 0, 2, 9].into()),
        };
        assert_eq!(limit.report(begin), Some(first));
        admitted(&mut limit, "192.0.2.9", begin, 5);
        assert_eq!(limit.report(begin + Duration::from_secs(59)), None);
        let second = limit.report(begin + Duration::from_secs(60)).unwrap();
        assert_eq!(second.count, 5);
        assert_eq!(limit.report(begin + Duration::from_secs(600)), None);
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limit = AuthLimit::new(0, 0);
        let now = Instant::now();
        assert_eq!(admitted(&mut limit, "192.0.2.1", now, 100_000), 100_000);
        assert_eq!((limit.turned_away(), limit.sources.len()), (0, 0));
    }
}

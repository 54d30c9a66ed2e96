//! Which connection to close when a port has too many: of the addresses the one that has most, and of its
//! connections the one that has been silent longest. So a flood mostly displaces itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

#[derive(Clone, Copy, Debug)]
struct Connection {
    peer: SocketAddr,
    /// Its last sign of life.
    at: u64,
}

/// The open connections of a port, by token.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: HashMap<u64, Connection>,
    /// By address and last sign of life.
    silence: BTreeMap<(IpAddr, u64), u64>,
    counts: HashMap<IpAddr, usize>,
    /// The same, by number.
    crowds: BTreeSet<(usize, IpAddr)>,
    clock: u64,
}

impl Connections {
    /// Their number.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// A connection was accepted.
    pub fn opened(&mut self, token: u64, peer: SocketAddr) {
        self.closed(token);
        self.clock += 1;
        let connection = Connection {
            peer,
            at: self.clock,
        };
        self.open.insert(token, connection);
        let from = network(peer.ip());
        self.silence.insert((from, self.clock), token);
        self.count(from, 1);
    }

    /// A connection has sent a message.
    pub fn heard(&mut self, token: u64) {
        let Some(connection) = self.open.get_mut(&token) else {
            return;
        };
        self.clock += 1;
        let from = network(connection.peer.ip());
        self.silence.remove(&(from, connection.at));
        self.silence.insert((from, self.clock), token);
        connection.at = self.clock;
    }

    /// A connection has ended.
    pub fn closed(&mut self, token: u64) {
        let Some(connection) = self.open.remove(&token) else {
            return;
        };
        let from = network(connection.peer.ip());
        self.silence.remove(&(from, connection.at));
        self.count(from, -1);
    }

    /// Removes the connection that is to be closed first, and returns its token and peer.
    pub fn take_surplus(&mut self) -> Option<(u64, SocketAddr)> {
        let (_, from) = *self.crowds.last()?;
        let (_, token) = self.silence.range((from, 0)..).next()?;
        let token = *token;
        let peer = self.open.get(&token)?.peer;
        self.closed(token);
        Some((token, peer))
    }

    fn count(&mut self, from: IpAddr, change: isize) {
        let count = self.counts.entry(from).or_default();
        self.crowds.remove(&(*count, from));
        *count = count.saturating_add_signed(change);
        if *count > 0 {
            self.crowds.insert((*count, from));
        } else {
            self.counts.remove(&from);
        }
    }
}

/// What counts as one address: of IPv6 the network, because a host may have all addresses in it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_largest_crowd_loses_its_most_silent_one() {
        let mut all = Connections::default();
        assert_eq!(all.take_surplus(), None);
        for (token, address) in [
            (3, "10.0.0.1:1"),
            (4, "10.0.0.2:1"),
            (5, "10.0.0.2:2"),
            (6, "[2001:db8::1]:1"),
            (7, "[2001:db8::2]:1"),
            (8, "[2001:db8::3]:1"),
            (9, "[::ffff:10.0.0.1]:2"),
        ] {
            all.opened(token, peer(address));
        }
        all.heard(6);
        all.heard(99);
        let taken = [(); 3].map(|()| all.take_surplus().unwrap().0);
        assert_eq!(taken[..1], [7], "of three in one network");
        assert_eq!(all.len(), 4);
        all.opened(4, peer("10.0.0.3:1"));
        assert_eq!(all.len(), 4 + usize::from(taken.contains(&4)));
        while all.take_surplus().is_some() {}
        assert!(all.open.is_empty() && all.silence.is_empty());
        assert!(all.counts.is_empty() && all.crowds.is_empty());
    }

    #[test]
    fn a_token_is_one_connection() {
        let mut all = Connections::default();
        all.opened(3, peer("10.0.0.1:1"));
        all.opened(3, peer("10.0.0.2:1"));
        assert_eq!(all.len(), 1);
        all.closed(3);
        all.closed(3);
        assert_eq!((all.len(), all.take_surplus()), (0, None));
    }
}

//! Which connection to close when a port has too many: of the addresses the one that has most, and of its
//! connections the one that has been silent longest. So a flood mostly displaces itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

/// Bytes that a message takes on its way beside its content, at least.
const FRAMING: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Connection {
    peer: SocketAddr,
    /// Its last sign of life.
    at: u64,
    /// Bytes of the messages that it has sent.
    delivered: u64,
}

/// The open connections of a port, by descriptor.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: HashMap<RawFd, Connection>,
    /// By address and last sign of life.
    silence: BTreeMap<(IpAddr, u64), RawFd>,
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

    /// A connection was accepted. If its descriptor was in use, that one is closed.
    pub fn opened(&mut self, fd: RawFd, peer: SocketAddr) {
        self.closed(fd);
        self.clock += 1;
        let connection = Connection {
            peer,
            at: self.clock,
            delivered: 0,
        };
        self.open.insert(fd, connection);
        let from = network(peer.ip());
        self.silence.insert((from, self.clock), fd);
        self.count(from, 1);
    }

    /// A connection has sent a message of `len` bytes. Its silence is `counted` only if that is worth the effort.
    pub fn heard(&mut self, fd: RawFd, len: usize, counted: bool) {
        let Some(connection) = self.open.get_mut(&fd) else {
            return;
        };
        connection.delivered += len as u64 + FRAMING;
        if !counted {
            return;
        }
        self.clock += 1;
        let from = network(connection.peer.ip());
        self.silence.remove(&(from, connection.at));
        self.silence.insert((from, self.clock), fd);
        connection.at = self.clock;
    }

    /// Removes the connection of which most bytes were `received` beyond its messages, if these are more than `least`;
    /// returns its descriptor and peer.
    pub fn take_hoarder(
        &mut self,
        received: impl Fn(RawFd) -> Option<u64>,
        least: u64,
    ) -> Option<(RawFd, SocketAddr)> {
        let excess = |(fd, connection): (&RawFd, &Connection)| {
            let excess = received(*fd)?.saturating_sub(connection.delivered);
            (excess > least).then_some((excess, *fd, connection.peer))
        };
        let (_, fd, peer) = self
            .open
            .iter()
            .filter_map(excess)
            .max_by_key(|one| one.0)?;
        self.closed(fd);
        Some((fd, peer))
    }

    /// A connection has ended.
    pub fn closed(&mut self, fd: RawFd) {
        let Some(connection) = self.open.remove(&fd) else {
            return;
        };
        let from = network(connection.peer.ip());
        self.silence.remove(&(from, connection.at));
        self.count(from, -1);
    }

    /// Removes the connection that is to be closed first, and returns its descriptor and peer.
    pub fn take_surplus(&mut self) -> Option<(RawFd, SocketAddr)> {
        let (_, from) = *self.crowds.last()?;
        let (_, fd) = self.silence.range((from, 0)..).next()?;
        let fd = *fd;
        let peer = self.open.get(&fd)?.peer;
        self.closed(fd);
        Some((fd, peer))
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
        for (fd, address) in [
            (3, "10.0.0.1:1"),
            (4, "10.0.0.2:1"),
            (5, "10.0.0.2:2"),
            (6, "[2001:db8::1]:1"),
            (7, "[2001:db8::2]:1"),
            (8, "[2001:db8::3]:1"),
            (9, "[::ffff:10.0.0.1]:2"),
        ] {
            all.opened(fd, peer(address));
        }
        all.heard(6, 1, true);
        all.heard(7, 1, false);
        all.heard(99, 1, true);
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
    fn the_longest_message_without_an_end_is_found() {
        let mut all = Connections::default();
        (3..6).for_each(|fd| all.opened(fd, peer("10.0.0.1:1")));
        all.heard(3, 5000, false);
        let received = |fd: RawFd| (fd != 5).then_some(4000 + fd as u64);
        assert_eq!(all.take_hoarder(received, 4004), None);
        let (fd, _) = all.take_hoarder(received, 4000).unwrap();
        assert_eq!((fd, all.len()), (4, 2));
        assert_eq!(all.take_hoarder(received, 0), None);
    }

    #[test]
    fn a_descriptor_is_one_connection() {
        let mut all = Connections::default();
        all.opened(3, peer("10.0.0.1:1"));
        all.opened(3, peer("10.0.0.2:1"));
        assert_eq!(all.len(), 1);
        all.closed(3);
        all.closed(3);
        assert_eq!((all.len(), all.take_surplus()), (0, None));
    }
}

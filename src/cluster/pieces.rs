//! Messages of any size, from one master to others.
//!
//! A message has a number that grows: one that was there before is not taken again. What is too large for one is cut into
//! pieces, each sealed with the number of the whole, so that those of different messages do not fit together.

use crate::seal::{Peers, Seal, sender};
use halite_crypto::ClusterSecret;
use std::time::{Duration, Instant};

/// Most bytes of a piece: with what NATS adds, less than its `max_payload` of 1 MiB.
const PIECE: usize = 512 << 10;
/// Most pieces of a message: 16 MiB.
const MOST_PIECES: usize = 32;
/// Bytes before a piece: the number of the message, that of the piece, and how many there are.
const HEADER: usize = 12;
/// How long the next piece is waited for: its sender may have ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seals what this master tells.
pub struct Teller {
    /// Its own.
    pub origin: String,
    seal: Seal,
    /// That of the last message.
    number: u64,
}

impl Teller {
    /// For what a start of a master tells about `purpose`, in the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str, purpose: &'static str, origin: &str) -> Teller {
        Teller {
            seal: Seal::new(secret, mark, purpose, origin),
            origin: origin.to_owned(),
            number: 0,
        }
    }

    /// The pieces of a message, in order; the error is its size, which is too large.
    pub fn seal(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, usize> {
        let mut pieces: Vec<&[u8]> = bytes.chunks(PIECE).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        if pieces.len() > MOST_PIECES {
            return Err(bytes.len());
        }
        self.number += 1;
        let (number, count) = (self.number, pieces.len() as u16);
        let seal = |(n, piece): (usize, &&[u8])| {
            let places = [(n as u16).to_be_bytes(), count.to_be_bytes()].concat();
            let parts: [&[u8]; 3] = [&number.to_be_bytes(), &places, piece];
            self.seal.seal(&parts.concat())
        };
        Ok(pieces.iter().enumerate().map(seal).collect())
    }
}

/// The last message of one start of a master.
#[derive(Default)]
struct Heard {
    /// Its number, and how many pieces it has.
    number: u64,
    count: usize,
    /// Those that have come, until it is complete.
    pieces: Vec<u8>,
    /// The number of the next one.
    next: usize,
    /// When the last one came.
    at: Option<Instant>,
}

impl Heard {
    fn is_waiting(&self) -> bool {
        !self.pieces.is_empty() && self.at.is_some_and(|at| at.elapsed() < PATIENCE)
    }

    /// Adds a piece; the message if it is complete.
    fn add(&mut self, number: u64, n: usize, count: usize, piece: &[u8]) -> Option<Vec<u8>> {
        if count > MOST_PIECES {
            return None;
        }
        if n == 0 && number > self.number {
            (self.number, self.count, self.next) = (number, count, 0);
            self.pieces.clear();
        }
        if (number, n, count) != (self.number, self.next, self.count) {
            // It is there again, or the beginning of its message is missing.
            return None;
        }
        self.at = Some(Instant::now());
        self.pieces.extend_from_slice(piece);
        self.next += 1;
        (self.next == count).then(|| std::mem::take(&mut self.pieces))
    }
}

/// How a start of a master tells about something, and understands what others tell.
pub struct Voice {
    /// Seals.
    pub teller: Teller,
    /// Opens.
    pub listener: Listener,
}

impl Voice {
    /// For `purpose`, in the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str, purpose: &'static str, origin: &str) -> Voice {
        Voice {
            teller: Teller::new(secret, mark, purpose, origin),
            listener: Listener::new(secret, mark, purpose),
        }
    }

    /// Whether this start has told it.
    pub fn is_own(&self, origin: &str) -> bool {
        origin == self.teller.origin
    }

    /// Opens a piece: the master that has told it, and the message once it is complete.
    pub fn open(
        &mut self,
        origin: &str,
        sealed: &[u8],
    ) -> Result<(String, Option<Vec<u8>>), Foreign> {
        let peer = sender(origin).ok_or(Foreign)?;
        Ok((peer, self.listener.open(origin, sealed)?))
    }
}

/// No master of the cluster has sealed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Opens what others tell.
pub struct Listener(Peers<Heard>);

impl Listener {
    /// For what is told about `purpose`, in the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str, purpose: &'static str) -> Listener {
        Listener(Peers::new(secret, mark, purpose))
    }

    /// Whether the rest of a message is still to come.
    pub fn is_between_pieces(&self) -> bool {
        self.0.all().any(Heard::is_waiting)
    }

    /// Opens a piece; `None` until the message is complete.
    pub fn open(&mut self, origin: &str, sealed: &[u8]) -> Result<Option<Vec<u8>>, Foreign> {
        let opened = self.0.open(origin, sealed, Heard::is_waiting);
        let (heard, plain) = opened.ok_or(Foreign)?;
        let (header, piece) = plain.split_at_checked(HEADER).ok_or(Foreign)?;
        let (number, places) = header.split_first_chunk::<8>().ok_or(Foreign)?;
        let place = |at: usize| usize::from(u16::from_be_bytes([places[at], places[at + 1]]));
        Ok(heard.add(u64::from_be_bytes(*number), place(0), place(2), piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "m=2E1.ab";

    fn secret() -> ClusterSecret {
        ClusterSecret::new(&"a".repeat(32), "c").unwrap()
    }

    fn teller() -> Teller {
        Teller::new(&secret(), "mark", "log", ORIGIN)
    }

    fn listener() -> Listener {
        Listener::new(&secret(), "mark", "log")
    }

    fn message(length: usize) -> Vec<u8> {
        (0..length).map(|n| n as u8).collect()
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let (mut teller, mut listener) = (teller(), listener());
        for length in [0, 10, 3 * PIECE, 3 * PIECE + 1] {
            let message = message(length);
            let pieces = teller.seal(&message).unwrap();
            assert_eq!(pieces.len(), length.div_ceil(PIECE).max(1));
            let (last, first) = pieces.split_last().unwrap();
            for piece in first {
                assert_eq!(listener.open(ORIGIN, piece), Ok(None));
            }
            assert_eq!(listener.open(ORIGIN, last), Ok(Some(message)));
        }
        let huge = message(PIECE * MOST_PIECES + 1);
        assert!(teller.seal(&huge).is_err());
    }

    #[test]
    fn only_masters_of_the_cluster_are_believed() {
        let sealed = teller().seal(&message(1)).unwrap().remove(0);
        for (mark, purpose, origin) in [
            ("mark", "log", "m2.ab"),
            ("other", "log", ORIGIN),
            ("mark", "other", ORIGIN),
        ] {
            let mut listener = Listener::new(&secret(), mark, purpose);
            assert_eq!(listener.open(origin, &sealed), Err(Foreign));
        }
        let stranger = ClusterSecret::new(&"b".repeat(32), "c").unwrap();
        let mut listener = Listener::new(&stranger, "mark", "log");
        assert_eq!(listener.open(ORIGIN, &sealed), Err(Foreign));
    }

    #[test]
    fn a_missing_piece_costs_one_message() {
        let (mut teller, mut listener) = (teller(), listener());
        let pieces = teller.seal(&message(3 * PIECE)).unwrap();
        for piece in [&pieces[0], &pieces[2]] {
            assert_eq!(listener.open(ORIGIN, piece), Ok(None));
        }
        let next = teller.seal(&message(1)).unwrap();
        assert_eq!(listener.open(ORIGIN, &next[0]), Ok(Some(message(1))));
    }

    /// Somebody who can write to NATS repeats what masters have sent, in any order.
    #[test]
    fn repeated_pieces_change_nothing() {
        let (mut teller, mut listener) = (teller(), listener());
        let small = teller.seal(&message(1)).unwrap().remove(0);
        let first = teller.seal(&message(3 * PIECE)).unwrap();
        let second = teller.seal(&message(3 * PIECE - 1)).unwrap();
        let mut open = |piece: &[u8]| listener.open(ORIGIN, piece).unwrap();
        assert_eq!(open(&small), Some(message(1)));
        // Within a message: an old one, and a piece of another one.
        assert_eq!(open(&first[0]), None);
        assert_eq!(open(&small), None);
        assert_eq!(open(&second[1]), None);
        assert_eq!(open(&first[1]), None);
        assert_eq!(open(&first[0]), None);
        assert_eq!(open(&second[2]), None);
        assert_eq!(open(&first[2]), Some(message(3 * PIECE)));
        // Once more.
        assert!(
            first
                .iter()
                .chain([&small])
                .all(|piece| open(piece).is_none())
        );
        let last: Vec<_> = second.iter().filter_map(|piece| open(piece)).collect();
        assert_eq!(last, [message(3 * PIECE - 1)]);
    }
}

//! Records of the job log: `length u32 LE | kind u8 | crc32 u32 LE | marker (8 bytes) | msgpack`. The length is that of
//! the msgpack alone; the checksum covers kind and msgpack.
//!
//! A record may be torn (disk full, power cut) and be followed by intact ones. What is inside a torn record was
//! written by a minion, and may look like a record: so after a torn one, only a record with the marker of this
//! master is read. The marker is a random number that no minion knows.

use halite_wire::Map;
use halite_wire::msgpack::{self, Profile};
use std::io;

/// A number that no minion knows.
pub(in super::super) type Marker = [u8; 8];

pub(super) const LOAD: u8 = b'L';
pub(super) const RETURN: u8 = b'R';
/// A return of a job that a minion started: it is also the load.
pub(super) const STARTING_RETURN: u8 = b'B';
const KINDS: [u8; 3] = [LOAD, RETURN, STARTING_RETURN];

/// Bytes before the payload.
pub(super) const HEADER: usize = 17;
const SUM_AT: usize = 5;
const MARKER_AT: usize = 9;

/// An intact record.
pub(super) struct JobRecord<'a> {
    /// One of the constants above.
    pub kind: u8,
    pub payload: &'a [u8],
    /// Offset of its end.
    pub end: usize,
}

/// Appends one record to `out`.
pub(super) fn write(out: &mut Vec<u8>, marker: Marker, kind: u8, load: &Map) -> io::Result<()> {
    let begin = out.len();
    out.resize(begin + HEADER, 0);
    msgpack::encode_map_into(out, load, Profile::Local);
    let Ok(len) = u32::try_from(out.len() - begin - HEADER) else {
        out.truncate(begin);
        return Err(io::Error::other("a job record is limited to 4 GiB"));
    };
    let (header, payload) = out[begin..].split_at_mut(HEADER);
    header[..4].copy_from_slice(&len.to_le_bytes());
    header[4] = kind;
    header[SUM_AT..MARKER_AT].copy_from_slice(&checksum(kind, payload).to_le_bytes());
    header[MARKER_AT..].copy_from_slice(&marker);
    Ok(())
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(payload);
    sum.finalize()
}

/// Splits a file into its intact records. After a torn record it searches byte by byte for the next one with the
/// marker, so that intact records after it are not lost.
pub(super) fn records(all: &[u8], marker: Option<Marker>) -> Vec<JobRecord<'_>> {
    let mut out = Vec::new();
    let (mut at, mut torn) = (0, false);
    while all.len() - at >= HEADER {
        let trusted = !torn || marker.is_some_and(|m| all[at + MARKER_AT..].starts_with(&m));
        match intact(&all[at..]).filter(|_| trusted) {
            Some((kind, payload)) => {
                at += HEADER + payload.len();
                torn = false;
                out.push(JobRecord {
                    kind,
                    payload,
                    end: at,
                });
            }
            None => {
                at += 1;
                torn = true;
            }
        }
    }
    out
}

/// Length of the payload behind a header.
pub(super) fn payload_length(header: &[u8; HEADER]) -> u32 {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]])
}

fn intact(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let payload = rest.get(..usize::try_from(payload_length(header)).ok()?)?;
    let kind = header[4];
    let sum = u32::from_le_bytes(header[SUM_AT..MARKER_AT].try_into().ok()?);
    (KINDS.contains(&kind) && checksum(kind, payload) == sum).then_some((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Marker = *b"12345678";

    fn record(marker: Marker, kind: u8, word: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, marker, kind, &halite_wire::map! {"word" => word}).unwrap();
        out
    }

    fn words(all: &[u8], marker: Option<Marker>) -> Vec<(u8, String)> {
        let word = |r: &JobRecord| {
            let map = msgpack::decode(r.payload).unwrap().into_map().unwrap();
            (r.kind, map.str("word").unwrap().to_owned())
        };
        records(all, marker).iter().map(word).collect()
    }

    #[test]
    fn records_of_another_master_are_read_in_order() {
        let all = [record(OURS, LOAD, "a"), record(*b"anything", RETURN, "b")].concat();
        for marker in [Some(OURS), None] {
            let expected = [(LOAD, "a"), (RETURN, "b")];
            assert_eq!(
                words(&all, marker),
                expected.map(|(k, w)| (k, w.to_owned()))
            );
        }
    }

    #[test]
    fn a_record_within_a_torn_one_is_not_read() {
        let forged = [
            record(Marker::default(), RETURN, "forged"),
            record(*b"guessed.", LOAD, "forged"),
        ]
        .concat();
        let mut torn = record(OURS, RETURN, &"x".repeat(1000));
        torn.truncate(HEADER + 20);
        for forged in [forged.clone(), [vec![0; 100], forged].concat()] {
            let all = [
                record(OURS, LOAD, "a"),
                torn.clone(),
                forged,
                record(OURS, RETURN, "b"),
                record(OURS, RETURN, "c"),
            ]
            .concat();
            let whole = [(LOAD, "a"), (RETURN, "b"), (RETURN, "c")];
            assert_eq!(
                words(&all, Some(OURS)),
                whole.map(|(k, w)| (k, w.to_owned()))
            );
            assert_eq!(words(&all, None).len(), 1, "nothing can be told apart");
        }
    }
}

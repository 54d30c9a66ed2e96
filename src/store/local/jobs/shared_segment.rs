//! Jobs that minions start by themselves (`salt-call`, schedules) share files: they are many, small and complete from
//! the start, and a file for each would cost more than everything else.
//!
//! `cachedir/joblog/<slice>/+/<name>` holds the records of one job after another; `<name>.index` has an entry for each
//! job: `jid, 20 digits | length u32 LE | offset u64 LE`. Each pair of files is written by one process, with ascending
//! jids. Later records of such a job go to a file of its own and are read after these.
//!
//! The index is written after the records, each with one call. An incomplete entry at the end is ignored.

use super::disk::{names, write_whole};
use halite_crypto::random_hex;
use halite_sys::daemon::make_dir;
use halite_wire::ids::Jid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Directory of shared files in a slice; cannot be a jid.
const SEGMENT_DIR: &str = "+";
const INDEX: &str = ".index";
const DIGITS: usize = 20;
/// Size of an index entry in bytes.
const ENTRY: usize = DIGITS + 4 + 8;

/// Whether a job with that jid can be stored in a shared file.
pub(super) fn fits(jid: &Jid) -> bool {
    jid.as_str().len() == DIGITS
}

/// Writes jobs to shared files, a new pair of files for each slice.
#[derive(Debug, Default)]
pub(super) struct Writer {
    open: Mutex<Option<Segment>>,
}

#[derive(Debug)]
struct Segment {
    slice: PathBuf,
    last: Jid,
    data: File,
    index: File,
    /// Bytes in `data`.
    length: u64,
}

impl Writer {
    /// Appends jobs of the slice at `slice`: for each, a jid that [`fits`] and the end of its records in `records`,
    /// which holds them in this order. The jids must ascend.
    ///
    /// # Errors
    /// Those of the file system; then none of the jobs is stored.
    pub fn append(&self, slice: &Path, jobs: &[(&Jid, usize)], records: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(((first, _), (last, _))) = jobs.first().zip(jobs.last()) else {
            return Ok(());
        };
        // After an error, a segment is not written to again.
        let mut segment = match open.take() {
            Some(segment) if segment.slice == slice && segment.last < **first => segment,
            _ => Segment::create(slice, first)?,
        };
        segment.append(jobs, records)?;
        segment.last = (*last).clone();
        *open = Some(segment);
        Ok(())
    }
}

impl Segment {
    fn create(slice: &Path, first: &Jid) -> io::Result<Segment> {
        let dir = slice.join(SEGMENT_DIR);
        if !dir.is_dir() {
            make_dir(slice, 0o700)?;
            make_dir(&dir, 0o700)?;
        }
        let name = random_hex(8);
        let create = |name: &str| {
            OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(dir.join(name))
        };
        Ok(Segment {
            slice: slice.to_owned(),
            last: first.clone(),
            data: create(&name)?,
            index: create(&format!("{name}{INDEX}"))?,
            length: 0,
        })
    }

    fn append(&mut self, jobs: &[(&Jid, usize)], records: &[u8]) -> io::Result<()> {
        let mut index = Vec::with_capacity(jobs.len() * ENTRY);
        let mut begin = 0;
        for (jid, end) in jobs {
            let length = u32::try_from(end - begin)
                .map_err(|_| io::Error::other("a job record is limited to 4 GiB"))?;
            index.extend_from_slice(jid.as_str().as_bytes());
            index.extend_from_slice(&length.to_le_bytes());
            index.extend_from_slice(&(self.length + begin as u64).to_le_bytes());
            begin = *end;
        }
        write_whole(&mut self.data, records, &self.slice)?;
        self.length += records.len() as u64;
        write_whole(&mut self.index, &index, &self.slice)
    }
}

/// An open index, read as a whole or one entry at a time.
struct Index {
    file: File,
    entries: u64,
    data: PathBuf,
}

struct Entry {
    jid: [u8; DIGITS],
    length: u32,
    offset: u64,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<Entry> {
        let (jid, rest) = bytes.split_first_chunk::<DIGITS>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (offset, _) = rest.split_first_chunk::<8>()?;
        Some(Entry {
            jid: *jid,
            length: u32::from_le_bytes(*length),
            offset: u64::from_le_bytes(*offset),
        })
    }

    fn jid(&self) -> Option<Jid> {
        std::str::from_utf8(&self.jid).ok()?.parse().ok()
    }

    /// The records of the entry; `None` if the file is shorter than the index says.
    fn records(&self, data: &File) -> io::Result<Option<Vec<u8>>> {
        let end = self.offset.saturating_add(self.length.into());
        if end > data.metadata()?.len() {
            return Ok(None);
        }
        let mut bytes = vec![0; self.length as usize];
        data.read_exact_at(&mut bytes, self.offset)?;
        Ok(Some(bytes))
    }
}

impl Index {
    /// Every index of a slice.
    fn all(slice: &Path) -> io::Result<Vec<Index>> {
        let dir = slice.join(SEGMENT_DIR);
        let mut out = Vec::new();
        for name in names(&dir)? {
            let Some(data) = name.strip_suffix(INDEX) else {
                continue;
            };
            let file = match File::open(dir.join(&name)) {
                Ok(file) => file,
                // It expired after it was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            out.push(Index {
                entries: file.metadata()?.len() / ENTRY as u64,
                data: dir.join(data),
                file,
            });
        }
        Ok(out)
    }

    fn entry(&self, number: u64) -> io::Result<Option<Entry>> {
        let mut bytes = [0; ENTRY];
        self.file.read_exact_at(&mut bytes, number * ENTRY as u64)?;
        Ok(Entry::parse(&bytes))
    }

    fn find(&self, jid: &[u8; DIGITS]) -> io::Result<Option<Entry>> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low.midpoint(high);
            let Some(entry) = self.entry(middle)? else {
                return Ok(None);
            };
            match entry.jid.cmp(jid) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(entry)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; self.entries as usize * ENTRY];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.chunks_exact(ENTRY).filter_map(Entry::parse).collect())
    }
}

/// The records of a job in the shared files of its slice; `None` if it is not in any.
pub(super) fn find(slice: &Path, jid: &Jid) -> io::Result<Option<Vec<u8>>> {
    let Ok(digits) = <[u8; DIGITS]>::try_from(jid.as_str().as_bytes()) else {
        return Ok(None);
    };
    let mut found: Option<Vec<u8>> = None;
    // Two workers may have created the same jid in the same microsecond.
    for index in Index::all(slice)? {
        if let Some(entry) = index.find(&digits)?
            && let Some(records) = entry.records(&File::open(&index.data)?)?
        {
            found.get_or_insert_default().extend(records);
        }
    }
    Ok(found)
}

/// Every job in the shared files of a slice, in no order.
pub(super) fn jids(slice: &Path) -> io::Result<Vec<Jid>> {
    let mut out = Vec::new();
    for index in Index::all(slice)? {
        out.extend(index.entries()?.iter().filter_map(Entry::jid));
    }
    Ok(out)
}

/// Every job in the shared files of a slice with its records, in no order.
pub(super) fn each(slice: &Path, visit: &mut dyn FnMut(Jid, &[u8])) -> io::Result<()> {
    for index in Index::all(slice)? {
        let data = File::open(&index.data)?;
        for entry in index.entries()? {
            if let (Some(jid), Some(records)) = (entry.jid(), entry.records(&data)?) {
                visit(jid, &records);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jid(n: u64) -> Jid {
        format!("20260102030{n:09}").parse().unwrap()
    }

    fn put(writer: &Writer, slice: &Path, jobs: &[(u64, &str)]) {
        let mut records = Vec::new();
        let jids: Vec<_> = jobs.iter().map(|(n, _)| jid(*n)).collect();
        let mut ends = Vec::new();
        for (jid, (_, text)) in jids.iter().zip(jobs) {
            records.extend(text.as_bytes());
            ends.push((jid, records.len()));
        }
        writer.append(slice, &ends, &records).unwrap();
    }

    fn get(slice: &Path, n: u64) -> Option<String> {
        let found = find(slice, &jid(n)).unwrap()?;
        Some(String::from_utf8(found).unwrap())
    }

    #[test]
    fn jobs_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let slice = dir.path().join("20260102030");
        assert_eq!(get(&slice, 1), None);
        let (one, other) = (Writer::default(), Writer::default());
        for n in 0..50 {
            put(&one, &slice, &[(4 * n, "a"), (4 * n + 1, "bc")]);
            put(&other, &slice, &[(4 * n + 2, "d")]);
        }
        for n in 0..50 {
            assert_eq!(get(&slice, 4 * n).as_deref(), Some("a"));
            assert_eq!(get(&slice, 4 * n + 1).as_deref(), Some("bc"));
            assert_eq!(get(&slice, 4 * n + 2).as_deref(), Some("d"));
            assert_eq!(get(&slice, 4 * n + 3), None);
        }
        assert_eq!(
            names(&slice.join(SEGMENT_DIR)).unwrap().len(),
            4,
            "two pairs"
        );
        let mut all = jids(&slice).unwrap();
        all.sort_unstable();
        assert_eq!(all.len(), 150);
        let mut seen = Vec::new();
        each(&slice, &mut |jid, records| seen.push((jid, records.len()))).unwrap();
        seen.sort_unstable();
        assert_eq!(seen[1], (jid(1), 2));
        assert_eq!(seen.len(), 150);
    }

    #[test]
    fn a_clock_set_back_starts_a_new_pair() {
        let dir = tempfile::tempdir().unwrap();
        let slice = dir.path().join("20260102030");
        let writer = Writer::default();
        put(&writer, &slice, &[(5, "a")]);
        put(&writer, &slice, &[(3, "b")]);
        put(&writer, &slice, &[(3, "c"), (4, "d")]);
        assert_eq!(get(&slice, 5).as_deref(), Some("a"));
        assert_eq!(get(&slice, 4).as_deref(), Some("d"));
        assert_eq!(get(&slice, 3).unwrap().len(), 2, "both that are called so");
        assert_eq!(names(&slice.join(SEGMENT_DIR)).unwrap().len(), 6);
    }

    #[test]
    fn torn_entries_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let slice = dir.path().join("20260102030");
        put(&Writer::default(), &slice, &[(1, "one"), (2, "two")]);
        let dir = slice.join(SEGMENT_DIR);
        let name = names(&dir).unwrap().remove(0);
        let index = OpenOptions::new()
            .write(true)
            .open(dir.join(format!("{name}{INDEX}")))
            .unwrap();
        let data = OpenOptions::new()
            .write(true)
            .open(dir.join(&name))
            .unwrap();
        data.set_len(5).unwrap();
        assert_eq!(get(&slice, 1).as_deref(), Some("one"));
        assert_eq!(get(&slice, 2), None);
        index.set_len(ENTRY as u64 + 7).unwrap();
        assert_eq!(jids(&slice).unwrap(), [jid(1)]);
    }
}

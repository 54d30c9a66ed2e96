//! Chunks of files as `_serve_file` sends them.

use super::confined::ConfinedPath;
use flate2::Compression;
use flate2::write::GzEncoder;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The reply to `_serve_file`.
#[derive(Debug)]
pub enum Served {
    /// A complete reply.
    Answer(Value),
    /// A chunk that has not been read yet.
    Chunk(Chunk),
}

/// A chunk of an open file.
#[derive(Debug)]
pub struct Chunk {
    file: File,
    loc: u64,
    /// Bytes from `loc` to the end of the file when it was opened, at most the size of a chunk.
    len: usize,
    dest: String,
    /// Whether the file ends with it.
    is_last: bool,
    tells_end: bool,
}

impl Chunk {
    /// The `size` bytes at `loc` of a file that was just found; fewer at its end.
    pub(super) fn open(
        place: &ConfinedPath,
        loc: u64,
        size: usize,
        dest: String,
    ) -> io::Result<Chunk> {
        if loc > i64::MAX as u64 - size as u64 {
            // The kernel cannot read at such an offset, and stock fails.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (file, meta) = place.open_seen()?;
        let left = meta.len().saturating_sub(loc);
        Ok(Chunk {
            file,
            loc,
            len: size.min(usize::try_from(left).unwrap_or(size)),
            dest,
            is_last: left <= size as u64,
            tells_end: false,
        })
    }

    /// Sets whether the reply has `end`: whether this is the last chunk. Only halite's minions ask for it.
    pub(super) fn tells_end(&mut self, tells_end: bool) {
        self.tells_end = tells_end;
    }

    /// Whether it starts at or after the end of the file.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most bytes that [`Chunk::write`] appends.
    pub fn room(&self) -> usize {
        self.len + self.dest.len() + 32
    }

    /// Appends the reply, a msgpack map with `data` and `dest`. The file is read straight into the
    /// buffer that is sent.
    ///
    /// # Errors
    /// The file cannot be read; what was appended until then must be discarded.
    pub fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.reserve(self.room());
        msgpack::put_map_header(out, 2 + usize::from(self.tells_end));
        msgpack::put_str(out, b"data", Profile::Wire);
        let head = out.len();
        msgpack::put_str_header(out, self.len, Profile::Wire);
        let data = out.len();
        if self.read(out)? < self.len {
            // The file was truncated meanwhile, so the length before the data is wrong.
            let rest = out.split_off(data);
            out.truncate(head);
            msgpack::put_str(out, &rest, Profile::Wire);
        }
        msgpack::put_str(out, b"dest", Profile::Wire);
        msgpack::put_str(out, self.dest.as_bytes(), Profile::Wire);
        if self.tells_end {
            msgpack::put_str(out, b"end", Profile::Wire);
            msgpack::encode_into(out, &self.is_last.into(), Profile::Wire);
        }
        Ok(())
    }

    /// The reply as a value.
    pub(super) fn answer(self) -> io::Result<Value> {
        Ok(Value::Map(self.map()?))
    }

    /// The reply, with its data compressed at a zlib level (`salt/utils/gzip_util.py compress`).
    pub(super) fn compressed(self, level: &Value) -> io::Result<Value> {
        let mut answer = self.map()?;
        let data = gzip(answer.bytes("data").unwrap_or_default(), level)?;
        answer.set("data", Value::Bytes(data));
        answer.set("gzip", level.clone());
        Ok(Value::Map(answer))
    }

    fn map(self) -> io::Result<Map> {
        let mut data = Vec::with_capacity(self.len);
        self.read(&mut data)?;
        let mut map = halite_wire::map! {"data" => Value::Bytes(data), "dest" => self.dest};
        if self.tells_end {
            map.set("end", self.is_last);
        }
        Ok(map)
    }

    /// Appends the bytes of the chunk; returns how many there were.
    fn read(&self, out: &mut Vec<u8>) -> io::Result<usize> {
        let mut file = &self.file;
        if self.loc > 0 {
            file.seek(SeekFrom::Start(self.loc))?;
        }
        file.take(self.len as u64).read_to_end(out)
    }
}

fn gzip(data: &[u8], level: &Value) -> io::Result<Vec<u8>> {
    let level = match level {
        Value::Bool(true) => 1,
        level => level.as_int().unwrap_or(-2),
    };
    let level = match level {
        -1 => Compression::default(),
        0..=9 => Compression::new(level as u32),
        _ => return Err(io::Error::other("gzip is not a level from 0 to 9")),
    };
    let mut out = GzEncoder::new(Vec::with_capacity(data.len() / 2), level);
    out.write_all(data)?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::super::confined::Links;
    use super::*;

    #[test]
    fn the_reply_is_valid_if_the_file_changes_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let place = ConfinedPath {
            root: dir.path().to_owned(),
            rel: "f".into(),
            links: Links::Follow,
        };
        for (size, loc, now) in [
            (0, 0, 0),
            (10, 0, 10),
            (10, 4, 10),
            (10, 10, 10),
            (10, 12, 10),
            (70_000, 3, 70_000),
            (70_000, 0, 40_000),
            (70_000, 10, 20),
            (70_000, 10, 5),
            (300, 0, 40),
            (40, 0, 90),
        ] {
            let text: Vec<u8> = (0..100_000).map(|n| (n % 251) as u8).collect();
            std::fs::write(&path, &text[..size]).unwrap();
            let open = || Chunk::open(&place, loc, 65_536, "f".into()).unwrap();
            let (written, answered) = (open(), open());
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(now as u64).unwrap();
            let mut out = b"before".to_vec();
            written.write(&mut out).unwrap();
            assert!(out.len() - 6 <= written.room());
            let from = (loc as usize).min(now);
            let to = now.min(size).min(from + 65_536).max(from);
            let want = halite_wire::map! {"data" => &text[from..to], "dest" => "f"};
            let got = msgpack::decode(&out[6..]).unwrap().into_map().unwrap();
            assert_eq!(got.bytes("data"), want.bytes("data"), "{size} {loc} {now}");
            assert_eq!(got.str("dest"), Some("f"));
            assert!(!got.contains("end"), "stock has no such field");
            assert_eq!(answered.answer().unwrap(), Value::Map(want));
        }
    }

    #[test]
    fn the_last_chunk_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), [7; 10]).unwrap();
        let place = ConfinedPath {
            root: dir.path().to_owned(),
            rel: "f".into(),
            links: Links::Follow,
        };
        for (loc, size, last) in [
            (0, 9, false),
            (0, 10, true),
            (0, 11, true),
            (9, 1, true),
            (8, 1, false),
            (10, 5, true),
            (20, 5, true),
        ] {
            let mut chunk = Chunk::open(&place, loc, size, "f".into()).unwrap();
            chunk.tells_end(true);
            let mut out = Vec::new();
            chunk.write(&mut out).unwrap();
            assert!(out.len() <= chunk.room());
            let written = msgpack::decode(&out).unwrap();
            let end = written.as_map().unwrap().get("end").cloned();
            assert_eq!(end, Some(last.into()), "{loc} {size}");
            let answered = chunk.answer().unwrap();
            assert_eq!(answered.as_map().unwrap().get("end").cloned(), end);
        }
    }
}

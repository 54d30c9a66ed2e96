//! Listing archives.

use super::super::declare::Result;
use super::super::{Call, CallError, cmd, python};
use super::{cached, clean, error_about, names, text};
use flate2::read::MultiGzDecoder;
use halite_sys::safe_open::open_finite;
use halite_wire::map;
use halite_wire::{Value, shlex};
use regex::Regex;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// File name extensions and their formats.
const TAR: [&str; 10] = [
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.bz2",
    ".tbz2",
    ".tbz",
    ".tar.xz",
    ".txz",
    ".tar.lzma",
    ".tlz",
];

/// Most bytes of all names in an archive.
const MOST_NAMES: usize = 64 << 20;
/// Most bytes that describe one member: headers, and the long name that libraries read into memory.
const MOST_HEADERS: u64 = 1 << 20;

/// Names of archive members by type.
#[derive(Default)]
struct Names {
    dirs: Vec<String>,
    files: Vec<String>,
    links: Vec<String>,
}

pub fn list(call: &mut Call<'_>) -> Result {
    let cached = cached(call)?;
    let inside = found(call, &cached).map_err(|fault| match fault {
        CallError::Command(text) => error_about(&text, &cached),
        other => other,
    })?;
    if call.flag("verbose") {
        return Ok(verbose(inside));
    }
    let mut all = [inside.dirs, inside.files, inside.links].concat();
    all.sort();
    Ok(all.into())
}

fn found(call: &mut Call<'_>, cached: &str) -> Result<Names> {
    let strip = strip(call.arg("strip_components"))?;
    let name = text(call, "name");
    let format = format(call, &name)?;
    let mut inside = match format.as_str() {
        "tar" => tar(&name, cached, call.arg("options"))?,
        "zip" => zip(&name, cached)?,
        "rar" => rar(call, &name)?,
        other => {
            return Err(CallError::Command(format!(
                "Unsupported archive format '{other}'"
            )));
        }
    };
    clean(call, cached);
    if strip > 0 {
        for names in [&mut inside.dirs, &mut inside.files, &mut inside.links] {
            let cut = names
                .iter()
                .filter_map(|name| name.splitn(strip + 1, '/').nth(strip));
            *names = cut
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            names.sort();
        }
    }
    Ok(inside)
}

fn strip(value: &Value) -> Result<usize> {
    if !value.truthy() {
        return Ok(0);
    }
    let count = python::int(value)
        .ok()
        .and_then(|n| usize::try_from(n).ok());
    count
        .filter(|n| *n > 0)
        .ok_or_else(|| CallError::Command("'strip_components' must be a positive integer".into()))
}

fn format(call: &Call<'_>, name: &str) -> Result<String> {
    if call.flag("archive_format") {
        return Ok(text(call, "archive_format"));
    }
    let path = name.split_once("://").map_or(name, |(_, rest)| rest);
    let path = path
        .split(['?', '#'])
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let known = if TAR.iter().any(|end| path.ends_with(end)) {
        "tar"
    } else if path.ends_with(".zip") {
        "zip"
    } else if path.ends_with(".rar") {
        "rar"
    } else {
        return Err(CallError::Command(
            "Unable to guess archive format, please pass an 'archive_format' argument.".into(),
        ));
    };
    Ok(known.to_owned())
}

/// The system's error for a file.
fn unreadable(name: &str, path: &str, error: &io::Error) -> CallError {
    let text = python::os_error(error, path);
    CallError::Command(format!(
        "Failed to list contents of {name}: {}",
        text.message()
    ))
}

/// A program that decompresses to its standard output; killed when dropped.
struct Decompressor(Child);

impl Decompressor {
    fn start(words: &[String], path: &str) -> io::Result<Decompressor> {
        let (program, args) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let child = Command::new(program)
            .args(args)
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Decompressor(child))
    }
}

impl Read for Decompressor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0.stdout {
            Some(pipe) => pipe.read(into),
            None => Ok(0),
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        self.0.stdout = None;
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tar(name: &str, path: &str, options: &Value) -> Result<Names> {
    let reader = open(path).map_err(|e| unreadable(name, path, &e))?;
    if let Ok(found) = reader.and_then(members) {
        return Ok(found);
    }
    if cmd::which("tar").is_none() {
        return Err(CallError::Command("'tar' command not available".into()));
    }
    if let Value::Str(line) = options {
        let words = shlex::split(line).map_err(|e| {
            CallError::Command(format!(
                "Uncaught exception '{e}' when listing contents of {name}"
            ))
        })?;
        if !words.is_empty() {
            let reader = Decompressor::start(&words, path);
            let reader = reader.map_err(|e| unreadable(name, &words[0], &e))?;
            if let Ok(found) = members(Box::new(reader)) {
                return Ok(found);
            }
        }
    }
    Err(CallError::Command(format!(
        "Unable to list contents of {name}. If this is an XZ-compressed tar archive, install XZ Utils \
         to enable listing its contents. If it is compressed using something other than XZ, it may be \
         necessary to specify CLI options to decompress the archive. See the documentation for details."
    )))
}

/// Opens the file, decompressing its content by its magic number.
fn open(path: &str) -> io::Result<io::Result<Box<dyn Read>>> {
    let mut file = open_finite(path.as_ref())?;
    let mut head = [0; 6];
    let mut read = 0;
    while read < head.len() {
        match file.read(&mut head[read..])? {
            0 => break,
            n => read += n,
        }
    }
    file.rewind()?;
    let by = |program: &str| {
        let words = [program, "--decompress", "--stdout", "--"].map(str::to_owned);
        Decompressor::start(&words, path).map(|d| Box::new(d) as Box<dyn Read>)
    };
    Ok(match head {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(BufReader::new(file)))),
        [b'B', b'Z', b'h', ..] => by("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] | [0x5d, 0, 0, ..] => by("xz"),
        _ => Ok(Box::new(BufReader::new(file))),
    })
}

/// A reader that fails after a number of bytes.
struct Limited<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.get()).map_or(into.len(), |n| n.min(into.len()));
        if most == 0 && !into.is_empty() {
            return Err(io::Error::other("the headers of a member are too large"));
        }
        let read = self.inner.read(&mut into[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

fn members(reader: Box<dyn Read>) -> io::Result<Names> {
    let mut names = Names::default();
    let mut some = false;
    let left = Rc::new(Cell::new(MOST_HEADERS));
    let mut archive = tar::Archive::new(Limited {
        inner: reader,
        left: left.clone(),
    });
    let mut length = 0;
    for entry in archive.entries()? {
        let entry = entry?;
        some = true;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        length += name.len();
        if length > MOST_NAMES {
            return Err(io::Error::other("the names are too long"));
        }
        let kind = entry.header().entry_type();
        // What the archive has of it, which is skipped; a sparse file says how large it is with its holes.
        let size = match kind.is_gnu_sparse() {
            true => entry.header().entry_size()?,
            false => entry.size(),
        };
        left.set(size.saturating_add(MOST_HEADERS));
        if kind.is_symlink() {
            names.links.push(name);
        } else if kind.is_dir() {
            names.dirs.push(format!("{}/", name.trim_end_matches('/')));
        } else {
            names.files.push(name);
        }
    }
    left.set(MOST_HEADERS);
    // Even an archive without members has blocks of zeros.
    let mut rest = [0];
    if some || archive.into_inner().read(&mut rest).is_ok_and(|n| n == 0) {
        Ok(names)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

fn zip(name: &str, path: &str) -> Result<Names> {
    const KIND: u32 = 0o170_000;
    let file = open_finite(path.as_ref()).map_err(|e| unreadable(name, path, &e))?;
    let bad = |_| CallError::Command(format!("{name} is not a ZIP file"));
    let mut archive = zip::ZipArchive::new(BufReader::new(file)).map_err(bad)?;
    let mut names = Names::default();
    let mut dirs = BTreeSet::new();
    for at in 0..archive.len() {
        let entry = archive.by_index_raw(at).map_err(bad)?;
        let name = super::zip::name_of(&entry);
        match entry.unix_mode().unwrap_or(0) & KIND {
            0o120_000 => names.links.push(name),
            0o040_000 => {
                dirs.insert(name);
            }
            _ => names.files.push(name),
        }
    }
    let parents = names
        .files
        .iter()
        .filter_map(|f| Some(&f[..=f.rfind('/')?]));
    let parents: BTreeSet<String> = parents.map(str::to_owned).collect();
    names.files.retain(|f| !parents.contains(f));
    dirs.extend(parents);
    names.dirs = dirs.into_iter().collect();
    Ok(names)
}

fn rar(call: &mut Call<'_>, name: &str) -> Result<Names> {
    if cmd::which("rar").is_none() {
        return Err(CallError::Command(
            "rar command not available, is it installed?".into(),
        ));
    }
    let words: Vec<String> = ["rar", "lt", name].map(str::to_owned).into();
    let printed = call.salt(
        "cmd.run",
        vec![words.into()],
        map! {"python_shell" => false},
    )?;
    let printed = python::str(&printed);
    let mut names = Names::default();
    if let Ok(entry) = Regex::new(r"Name:\s*([^\n]+)\s*Type:\s*([^\n]+)") {
        for parts in entry.captures_iter(&printed) {
            match &parts[2] {
                "Directory" => names.dirs.push(format!("{}/", &parts[1])),
                _ => names.files.push(parts[1].to_owned()),
            }
        }
    }
    if names.dirs.is_empty() && names.files.is_empty() {
        return Err(CallError::Command(format!(
            "Failed to list {name}, is it a rar file? If so, the installed version of rar may be too \
             old to list data in a parsable format."
        )));
    }
    Ok(names)
}

/// The longest common prefix of all names.
fn common_prefix<'a>(mut names: impl Iterator<Item = &'a String>) -> &'a str {
    let first = names.next().map_or("", String::as_str);
    names.fold(first, |prefix, name| {
        let same = prefix.char_indices().zip(name.chars());
        let end = same.take_while(|((_, a), b)| a == b).last();
        &prefix[..end.map_or(0, |((at, c), _)| at + c.len_utf8())]
    })
}

fn verbose(mut inside: Names) -> Value {
    for names in [&mut inside.dirs, &mut inside.files, &mut inside.links] {
        names.sort();
    }
    let Names { dirs, files, links } = inside;
    let top = |names: &[String], slashes: usize| -> Vec<String> {
        let is_top = |name: &&String| name.matches('/').count() == slashes;
        names.iter().filter(is_top).cloned().collect()
    };
    let mut top_dirs = top(&dirs, 1);
    let prefix = common_prefix(dirs.iter().chain(&files).chain(&links));
    if let Some((head, _)) = prefix.split_once('/') {
        let head = format!("{head}/");
        if !top_dirs.contains(&head) {
            top_dirs.push(head);
        }
    }
    let (top_files, top_links) = (top(&files, 0), top(&links, 0));
    names([
        ("dirs", dirs),
        ("files", files),
        ("links", links),
        ("top_level_dirs", top_dirs),
        ("top_level_files", top_files),
        ("top_level_links", top_links),
    ])
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tar archive whose only member has a name of so many letters.
    fn long_name(letters: usize) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_entry_type(tar::EntryType::Regular);
        let name = "a".repeat(letters);
        archive
            .append_data(&mut header, &name, io::empty())
            .unwrap();
        archive.into_inner().unwrap()
    }

    #[test]
    fn a_member_is_not_described_without_end() {
        let list = |bytes: Vec<u8>| members(Box::new(io::Cursor::new(bytes)));
        assert_eq!(list(long_name(4000)).unwrap().files[0].len(), 4000);
        assert!(list(long_name(2 << 20)).is_err());
        // Content is skipped, however long it is.
        let mut archive = tar::Builder::new(Vec::new());
        for name in ["a", "b"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(3 << 20);
            let content = io::repeat(0).take(3 << 20);
            archive.append_data(&mut header, name, content).unwrap();
        }
        assert_eq!(
            list(archive.into_inner().unwrap()).unwrap().files,
            ["a", "b"]
        );
    }

    #[test]
    fn prefixes() {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(common_prefix(names(&["ab/c", "ab/d"]).iter()), "ab/");
        assert_eq!(common_prefix(names(&["äb", "äc"]).iter()), "ä");
        assert_eq!(common_prefix(names(&["a", "b"]).iter()), "");
        assert_eq!(common_prefix(names(&[]).iter()), "");
    }
}

//! Opens files in directories that others may write to: a symlink in the last component of the path is not
//! followed, and opening a pipe that has no other end does not block. Pipes and devices can still be opened, so
//! check the metadata of the open file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Options with `O_NOFOLLOW` and `O_NONBLOCK`.
pub fn no_follow() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    options
}

/// Opens a file for reading with [`no_follow`].
///
/// # Errors
/// Any I/O error; `ELOOP` for a symlink.
pub fn open_no_follow(path: &Path) -> io::Result<File> {
    no_follow().read(true).open(path)
}

/// Opens a regular file with one link: in a directory of another account, a link may lead to a file that only this
/// process may read or write.
///
/// # Errors
/// Any I/O error, or another kind of file.
pub fn open_plain(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.nlink() == 1 {
        return Ok(file);
    }
    Err(io::Error::other(
        "it is not a regular file with one link; remove it",
    ))
}

/// Reads a text of at most `most` bytes with [`open_plain`].
///
/// # Errors
/// Any I/O error, or another kind of file.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let file = open_plain(no_follow().read(true), path)?;
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file for reading that has an end. Links are followed, wherever they lead: not to a pipe, whose other end may
/// never come, nor to a device that never ends.
///
/// # Errors
/// Any I/O error, or such a file.
pub fn open_finite(path: &Path) -> io::Result<File> {
    const NULL: u64 = nix::libc::makedev(1, 3);
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    let meta = file.metadata()?;
    let kind = meta.file_type();
    let endless = kind.is_fifo() || (kind.is_char_device() && meta.rdev() != NULL);
    match endless {
        true => Err(io::Error::other(format!(
            "{} is a pipe or a device and is not read",
            path.display()
        ))),
        false => Ok(file),
    }
}

/// Reads a whole file of at most `most` bytes, opened with [`open_finite`].
///
/// # Errors
/// Any I/O error, or a larger file.
pub fn read_finite(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_whole(open_finite(path)?, path, most)
}

/// Reads a whole regular file of at most `most` bytes from a directory of another account: no link is followed, and
/// nothing is waited for.
///
/// # Errors
/// Any I/O error, another kind of file, or a larger one.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_no_follow(path)?;
    match file.metadata()?.is_file() {
        true => read_whole(file, path, most),
        false => Err(io::Error::other(format!(
            "{} is not a regular file",
            path.display()
        ))),
    }
}

fn read_whole(file: File, path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut data)?;
    if data.len() as u64 > most {
        let why = format!("{} is larger than {most} bytes", path.display());
        return Err(io::Error::other(why));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_its_own_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        assert_eq!(read_text(&at("file"), 3).unwrap(), "tex");
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert!(read_text(&at("link"), 9).is_err());
        std::fs::hard_link(at("file"), at("second")).unwrap();
        assert!(read_text(&at("second"), 9).is_err());
        assert!(read_text(dir.path(), 9).is_err());
    }
    use nix::sys::stat::Mode;

    #[test]
    fn what_has_no_end_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        for (name, to) in [
            ("a", "file"),
            ("b", "pipe"),
            ("c", "/dev/zero"),
            ("d", "/dev/null"),
        ] {
            std::os::unix::fs::symlink(to, at(name)).unwrap();
        }
        assert_eq!(read_finite(&at("a"), 4).unwrap(), b"text");
        assert_eq!(read_finite(&at("d"), 4).unwrap(), b"");
        assert!(read_finite(&at("a"), 3).is_err());
        assert_eq!(read_regular(&at("file"), 4).unwrap(), b"text");
        for name in ["a", "pipe", "c", "d"] {
            assert!(read_regular(&at(name), 4).is_err(), "{name}");
        }
        for name in ["pipe", "b", "c"] {
            let why = read_finite(&at(name), 4).unwrap_err().to_string();
            assert!(
                why.ends_with("is a pipe or a device and is not read"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_link_is_refused_and_a_pipe_does_not_wait() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open_no_follow(&file).unwrap().metadata().unwrap().is_file());
        let refused = open_no_follow(&link).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::ELOOP));
        assert!(no_follow().append(true).open(&link).is_err());
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        assert!(!open_no_follow(&pipe).unwrap().metadata().unwrap().is_file());
    }
}

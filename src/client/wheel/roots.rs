//! Files below a directory, opened component by component: no link is followed, no path leads
//! out (CVE-2021-25282 was a write through `pillar_roots.write`).

use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, fstatat, mkdirat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A path below a root: its components, none of them empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelPath(Vec<String>);

impl RelPath {
    /// `None` if the text leads out of a root or names none of its files.
    pub fn parse(text: &str) -> Option<RelPath> {
        if text.starts_with('/') || text.contains(['\0', '\n']) || text.len() > 4000 {
            return None;
        }
        let parts: Vec<String> = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .map(str::to_owned)
            .collect();
        let fits = !parts.is_empty() && parts.iter().all(|part| part != ".." && part.len() < 256);
        fits.then_some(RelPath(parts))
    }
}

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The directory that holds the file, and the file's name. Missing directories are made with `make`.
fn parent<'p>(root: &Path, path: &'p RelPath, make: bool) -> io::Result<(OwnedFd, &'p str)> {
    // The root itself may be a link: it is the operator's word.
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    if make {
        halite_sys::daemon::make_dir(root, 0o755)?;
    }
    let mut dir = open(root, flags, Mode::empty())?;
    let Some((name, above)) = path.0.split_last() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    for part in above {
        if make {
            match mkdirat(&dir, part.as_str(), Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        dir = openat(&dir, part.as_str(), DIRECTORY, Mode::empty())?;
    }
    Ok((dir, name))
}

/// Opens a regular file to read; `None` if there is none.
pub(super) fn read(root: &Path, path: &RelPath) -> Option<File> {
    let (dir, name) = parent(root, path, false).ok()?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    if !is_file(&fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?) {
        return None;
    }
    let file = File::from(openat(&dir, name, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// Writes a file, making directories that are missing. What stands there must be a regular file.
pub(super) fn write(root: &Path, path: &RelPath, content: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let (dir, name) = parent(root, path, true)?;
    if let Ok(stat) = fstatat(dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)
        && !is_file(&stat)
    {
        return Err(io::Error::other(format!("{name} is no regular file")));
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o644);
    let mut file = File::from(openat(&dir, name, flags, mode)?);
    file.set_len(0)?;
    file.write_all(content)
}

fn is_file(stat: &FileStat) -> bool {
    stat.st_mode & nix::libc::S_IFMT == nix::libc::S_IFREG
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn no_path_leads_out() {
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "a/../../b",
            "a\0b",
            ".",
            "a/..",
        ] {
            assert_eq!(RelPath::parse(bad), None, "{bad:?}");
        }
        let good = RelPath::parse("a//./b.sls").unwrap();
        assert_eq!(good.0, ["a", "b.sls"]);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, out) = (dir.path().join("root"), dir.path().join("out"));
        std::fs::create_dir_all(&out).unwrap();
        let path = RelPath::parse("d/f").unwrap();
        write(&root, &path, b"one").unwrap();
        write(&root, &path, b"2").unwrap();
        let mut text = String::new();
        read(&root, &path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "2");
        std::fs::write(out.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(&out, root.join("l")).unwrap();
        std::os::unix::fs::symlink(out.join("secret"), root.join("d/s")).unwrap();
        for link in ["l/secret", "d/s"] {
            let path = RelPath::parse(link).unwrap();
            assert!(read(&root, &path).is_none(), "{link}");
            assert!(write(&root, &path, b"x").is_err(), "{link}");
        }
        assert_eq!(std::fs::read(out.join("secret")).unwrap(), b"s");
    }
}

//! Files below a directory, opened component by component: symlinks are not followed, and no path leads out
//! (CVE-2021-25282 was a write through `pillar_roots.write`).

use halite_store::files::confined::{self, ConfinedPath, Links};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat};
use std::fs::File;
use std::io;
use std::path::Path;

/// A path below a root; no component is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelPath(String);

impl RelPath {
    /// `None` if the text leads out of the root or names no file.
    pub fn parse(text: &str) -> Option<RelPath> {
        if text.starts_with('/') || text.contains(['\0', '\n']) || text.len() > 4000 {
            return None;
        }
        let parts: Vec<&str> = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        let fits = !parts.is_empty() && parts.iter().all(|part| *part != ".." && part.len() < 256);
        fits.then(|| RelPath(parts.join("/")))
    }
}

/// Opens a regular file for reading; `None` if there is none.
pub(super) fn read(root: &Path, path: &RelPath) -> Option<File> {
    let place = ConfinedPath {
        root: root.to_owned(),
        rel: path.0.clone(),
        links: Links::Never,
    };
    place.open().ok()
}

/// Writes a file, creating missing directories. An existing file must be a regular file.
pub(super) fn write(root: &Path, path: &RelPath, content: &[u8]) -> io::Result<()> {
    use std::io::Write;
    // The root itself may be a symlink: it is configured by the operator.
    halite_sys::daemon::make_dir(root, 0o755)?;
    let (dir, name) = confined::parent(root, Path::new(&path.0), Some(0o755))?;
    if let Ok(stat) = fstatat(&dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
        && stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG
    {
        return Err(io::Error::other(format!("{name} is not a regular file")));
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o644);
    let mut file = File::from(openat(&dir, name.as_str(), flags, mode)?);
    file.set_len(0)?;
    file.write_all(content)
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
        assert_eq!(good.0, "a/b.sls");
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

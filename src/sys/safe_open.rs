//! Opens files in directories that others may write to: a symlink in the last component of the path is not
//! followed, and opening a pipe that has no other end does not block. Pipes and devices can still be opened, so
//! check the metadata of the open file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

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

//! Pseudo-terminals, for programs that behave differently without a terminal (`use_vt` of `cmd.run`).

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Columns and rows of a terminal, as `salt/utils/vt.py` makes it.
const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// Both ends of a pseudo-terminal. Neither survives `exec`.
#[derive(Debug)]
pub struct PseudoTerminal {
    /// The end of the program that watches. Reading fails with `EIO` once the other end is closed everywhere.
    pub controller: File,
    /// The end of the program that is watched.
    pub terminal: File,
}

/// Opens a pseudo-terminal that passes output on unchanged and does not echo. Its owner is `owner` if given.
///
/// # Errors
/// The system has no more of them, or a system call fails.
pub fn open(owner: Option<u32>) -> io::Result<PseudoTerminal> {
    let controller = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname_r(&controller)?;
    let terminal = File::options()
        .read(true)
        .write(true)
        .custom_flags(nix::libc::O_NOCTTY)
        .open(name)?;
    let mut modes = tcgetattr(&terminal)?;
    modes.output_flags.remove(OutputFlags::OPOST);
    modes.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal, SetArg::TCSANOW, &modes)?;
    // SAFETY: the descriptor is open, and the kernel only reads the structure.
    #[allow(unsafe_code)]
    let sized = unsafe { nix::libc::ioctl(terminal.as_raw_fd(), nix::libc::TIOCSWINSZ, &SIZE) };
    Errno::result(sized)?;
    if let Some(owner) = owner {
        std::os::unix::fs::fchown(&terminal, Some(owner), None)?;
    }
    Ok(PseudoTerminal {
        controller: File::from(OwnedFd::from(controller)),
        terminal,
    })
}

/// Lets a program lead a session whose terminal is its standard output, so that it can open `/dev/tty`.
pub fn lead_session(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only a system call is made, which neither allocates nor takes a lock.
    #[allow(unsafe_code)]
    unsafe {
        crate::process::apart(command).pre_exec(|| {
            Errno::result(nix::libc::ioctl(1, nix::libc::TIOCSCTTY, 0))?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_program_sees_its_terminal() {
        let PseudoTerminal {
            mut controller,
            terminal,
        } = open(None).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "stty size; tty >/dev/tty; printf 'a\\n'"])
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal);
        let mut child = lead_session(&mut command).spawn().unwrap();
        drop(command);
        let mut text = Vec::new();
        let end = controller.read_to_end(&mut text).unwrap_err();
        assert_eq!(end.raw_os_error(), Some(nix::libc::EIO));
        assert!(child.wait().unwrap().success());
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        assert_eq!((lines[0], lines[2]), ("24 80", "a"), "{text:?}");
        assert!(lines[1].starts_with("/dev/"), "{text:?}");
    }
}

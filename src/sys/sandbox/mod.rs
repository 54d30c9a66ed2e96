//! Restrictions that a process puts on itself, for good: on capabilities, system calls, files and TCP ports.
//!
//! They hold for the calling thread and those that it starts later, so call [`Sandbox::enter`] before there are others. Everything
//! is denied with an error and not by a signal: a library that tries something unexpected goes on, as on a system that does not
//! allow it, while an attacker gains nothing.

mod capabilities;
mod files;
mod system_calls;

use std::io;
use std::path::PathBuf;

/// What a process still may do.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// Start programs and other processes.
    pub programs: bool,
    /// Write to these files and below these directories; `None` for everywhere.
    pub writes: Option<Vec<PathBuf>>,
    /// Listen on these TCP ports.
    pub binds: Vec<u16>,
    /// Connect to TCP ports.
    pub connects: bool,
}

/// What the kernel enforces from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// Whether system calls are filtered.
    pub system_calls: bool,
    /// Whether files and ports are restricted.
    pub files: bool,
}

impl Sandbox {
    /// For a daemon of one process that starts no programs, connects to others, and listens on `binds`.
    pub fn daemon(binds: Vec<u16>) -> Sandbox {
        Sandbox {
            programs: false,
            writes: None,
            binds,
            connects: true,
        }
    }

    /// Enters the sandbox. What the kernel does not support is left out and written to the log at level debug.
    ///
    /// A process that starts programs is restricted only where privileges cannot be gained by executing a file anyway
    /// (`NoNewPrivileges=` of a unit), since a filter requires that: its programs might be `sudo` or PAM's `unix_chkpwd`.
    ///
    /// # Errors
    /// The kernel refuses to give up privileges.
    pub fn enter(&self) -> io::Result<Enforced> {
        if self.programs {
            let filtered = nix::sys::prctl::get_no_new_privs()? && self.filter();
            return Ok(Enforced {
                system_calls: filtered,
                files: false,
            });
        }
        capabilities::keep_few()?;
        nix::sys::prctl::set_no_new_privs()?;
        refuse_new_code();
        let files = files::restrict(self).unwrap_or_else(|e| {
            log::debug!("files and ports are not restricted: {e}");
            false
        });
        Ok(Enforced {
            system_calls: self.filter(),
            files,
        })
    }

    fn filter(&self) -> bool {
        let filtered = system_calls::filter(self.programs);
        if let Err(e) = &filtered {
            log::debug!("system calls are not filtered: {e}");
        }
        filtered.is_ok()
    }
}

/// From now on memory that was writable cannot be made executable. Older kernels (before 6.3) do not know this.
fn refuse_new_code() {
    const PR_SET_MDWE: i32 = 65;
    const PR_MDWE_REFUSE_EXEC_GAIN: nix::libc::c_ulong = 1;
    // SAFETY: takes numbers. Nothing in this program makes code at run time.
    #[allow(unsafe_code)]
    let refused = unsafe { nix::libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
    if refused != 0 {
        log::debug!("memory can still become executable: this kernel cannot prevent it");
    }
}

#[cfg(test)]
mod tests;

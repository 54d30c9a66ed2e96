//! Runs commands as another user without code between fork and exec.

use super::super::CallError;
use crate::execution::declare::Result;
use halite_sys::thread_identity::ThreadIdentity;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{self, Gid, Uid};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The umask belongs to all threads that share it, so only one spawn at a time may change it.
static IDENTITY_LOCK: Mutex<()> = Mutex::new(());

/// The user a command runs as.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Login name; empty if only the group changes.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// Resolves `runas` and `group`; `None` if neither changes anything.
///
/// # Errors
/// The name is unknown, or the minion is not root.
pub fn identity(runas: Option<&str>, group: Option<&str>) -> Result<Option<Identity>> {
    let fail = |text: String| Err(CallError::Command(text));
    if runas.is_none() && group.is_none() {
        return Ok(None);
    }
    let user = match runas {
        Some(name) => unistd::User::from_name(name),
        None => unistd::User::from_uid(unistd::geteuid()),
    };
    let Some(user) = user.ok().flatten() else {
        let name = runas.unwrap_or("of the minion");
        return fail(format!("User '{name}' is not available"));
    };
    let mut gid = user.gid;
    if let Some(name) = group {
        match unistd::Group::from_name(name).ok().flatten() {
            Some(found) => gid = found.gid,
            None => return fail(format!("Group '{name}' is not available")),
        }
    }
    if user.uid == unistd::geteuid() && gid == unistd::getegid() {
        return Ok(None);
    }
    if !unistd::geteuid().is_root() {
        return fail(format!(
            "Cannot run as user '{}': the minion does not run as root",
            user.name
        ));
    }
    let name = CString::new(user.name.as_str()).unwrap_or_default();
    let groups = unistd::getgrouplist(&name, gid).unwrap_or_else(|_| vec![gid]);
    Ok(Some(Identity {
        name: runas.unwrap_or_default().to_owned(),
        uid: user.uid.as_raw(),
        gid: gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        home: user.dir.to_string_lossy().into_owned(),
        shell: user.shell.to_string_lossy().into_owned(),
    }))
}

/// While this exists, children start with the given umask and identity.
///
/// `Command::uid` clears the supplementary groups, and setting them is not stable in std. Since a child inherits the ids of the
/// thread that starts it, that thread assumes the user's ids around the fork and keeps root as its *saved* id to switch back.
/// During that moment the user could signal this job's process; nothing else is exposed.
pub struct IdentityGuard {
    _one: MutexGuard<'static, ()>,
    umask: Option<Mode>,
    _identity: Option<ThreadIdentity>,
}

impl IdentityGuard {
    /// Assumes the umask and identity.
    ///
    /// # Errors
    /// A system call fails.
    pub fn take(mask: Option<u32>, identity: Option<&Identity>) -> nix::Result<IdentityGuard> {
        let one = IDENTITY_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let assumed = identity.map(|identity| {
            let groups: Vec<Gid> = identity.groups.iter().map(|g| Gid::from_raw(*g)).collect();
            ThreadIdentity::take(
                Uid::from_raw(identity.uid),
                Gid::from_raw(identity.gid),
                &groups,
            )
        });
        Ok(IdentityGuard {
            _one: one,
            _identity: assumed.transpose()?,
            umask: mask.map(|mask| umask(Mode::from_bits_truncate(mask))),
        })
    }
}

impl Drop for IdentityGuard {
    fn drop(&mut self) {
        if let Some(mode) = self.umask {
            umask(mode);
        }
    }
}

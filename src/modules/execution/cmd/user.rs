//! Runs commands as another user without code between fork and exec.

use super::super::CallError;
use crate::execution::declare::Result;
use nix::unistd::{self, Gid, Uid};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids and umask belong to the whole process, so only one spawn at a time may change them.
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
/// `Command::uid` clears the supplementary groups, and setting them is not stable in std. Since a child inherits its
/// parent's ids, the parent assumes the user's ids around the fork and keeps root as its *saved* id to switch back.
/// The kernel overwrites the saved id on exec, so the command cannot switch back. During that moment the user could
/// signal this job's process; nothing else is exposed.
pub struct IdentityGuard {
    _one: MutexGuard<'static, ()>,
    umask: Option<nix::sys::stat::Mode>,
    groups: Option<Vec<Gid>>,
}

impl IdentityGuard {
    /// Assumes the umask and identity.
    ///
    /// # Errors
    /// A system call fails.
    pub fn take(umask: Option<u32>, identity: Option<&Identity>) -> nix::Result<IdentityGuard> {
        let one = IDENTITY_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = IdentityGuard {
            _one: one,
            umask: None,
            groups: None,
        };
        if let Some(mask) = umask {
            let mode = nix::sys::stat::Mode::from_bits_truncate(mask);
            guard.umask = Some(nix::sys::stat::umask(mode));
        }
        let Some(identity) = identity else {
            return Ok(guard);
        };
        let root = (Uid::from_raw(0), Gid::from_raw(0));
        let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
        let groups: Vec<Gid> = identity.groups.iter().map(|g| Gid::from_raw(*g)).collect();
        guard.groups = Some(unistd::getgroups()?);
        unistd::setgroups(&groups)?;
        unistd::setresgid(gid, gid, root.1)?;
        unistd::setresuid(uid, uid, root.0)?;
        Ok(guard)
    }
}

impl Drop for IdentityGuard {
    fn drop(&mut self) {
        if let Some(mode) = self.umask {
            nix::sys::stat::umask(mode);
        }
        let Some(groups) = &self.groups else {
            return;
        };
        let (uid, gid) = (Uid::from_raw(0), Gid::from_raw(0));
        let back = unistd::setresuid(uid, uid, uid)
            .and_then(|()| unistd::setresgid(gid, gid, gid))
            .and_then(|()| unistd::setgroups(groups));
        if back.is_err() {
            // Aborting is safer than continuing with mixed identities.
            std::process::abort();
        }
    }
}

//! Running as another user without code between fork and exec.

use super::super::CallError;
use crate::execution::declare::Result;
use nix::unistd::{self, Gid, Uid};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids, umask and the like belong to the whole process; one spawn at a time changes them.
static PROCESS: Mutex<()> = Mutex::new(());

/// Whom a command runs as.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Login name, empty when only the group changes.
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

/// Resolves `runas` and `group`; `None` when neither asks for a change.
///
/// # Errors
/// Unknown names, or a minion that is not root.
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

/// While it lives, children start with this umask and identity.
///
/// `Command::uid` clears the supplementary groups and the setting of groups is not
/// stable in std; a child inherits whatever its parent has, so the parent takes on
/// the user's ids around the fork and keeps root as its *saved* id to come back. The
/// kernel overwrites the saved id on exec, so the command cannot come back. For that
/// moment the user could signal this job's process; nothing else is exposed.
pub struct IdentityGuard {
    _one: MutexGuard<'static, ()>,
    umask: Option<nix::sys::stat::Mode>,
    groups: Option<Vec<Gid>>,
}

impl IdentityGuard {
    /// Takes them on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take(umask: Option<u32>, identity: Option<&Identity>) -> nix::Result<IdentityGuard> {
        let one = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Going on under a mixture of identities would be worse than ending.
            std::process::abort();
        }
    }
}

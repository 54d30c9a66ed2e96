//! The identity of one thread.
//!
//! To the kernel, credentials belong to a thread (`man 7 credentials`, "C library/kernel differences"); the functions of the C
//! library change them in all threads. Here other threads keep theirs, so what they do to files meanwhile is not done as another
//! user.

use nix::errno::Errno;
use nix::libc::{self, c_long};
use nix::unistd::{self, Gid, Uid};
use std::marker::PhantomData;

/// The groups, group and user that this thread acts as, until the guard is dropped. A program started meanwhile runs as that user;
/// it cannot switch back, because `exec` overwrites the saved ids.
#[derive(Debug)]
pub struct ThreadIdentity {
    groups: Vec<Gid>,
    /// The guard must be dropped in its thread.
    _in_thread: PhantomData<*const ()>,
}

impl ThreadIdentity {
    /// Assumes an identity. Needs root.
    ///
    /// # Errors
    /// The system's error; the identity is as before.
    pub fn take(uid: Uid, gid: Gid, groups: &[Gid]) -> nix::Result<ThreadIdentity> {
        let guard = ThreadIdentity {
            groups: unistd::getgroups()?,
            _in_thread: PhantomData,
        };
        set_groups(groups)?;
        set_gid(gid, Gid::from_raw(0))?;
        set_uid(uid, Uid::from_raw(0))?;
        Ok(guard)
    }
}

impl Drop for ThreadIdentity {
    fn drop(&mut self) {
        let (uid, gid) = (Uid::from_raw(0), Gid::from_raw(0));
        let back = set_uid(uid, uid)
            .and_then(|()| set_gid(gid, gid))
            .and_then(|()| set_groups(&self.groups));
        if back.is_err() {
            // Aborting is safer than continuing with mixed identities.
            std::process::abort();
        }
    }
}

#[cfg(any(target_arch = "arm", target_arch = "x86"))]
const CALLS: [c_long; 3] = [
    libc::SYS_setgroups32,
    libc::SYS_setresgid32,
    libc::SYS_setresuid32,
];
#[cfg(not(any(target_arch = "arm", target_arch = "x86")))]
const CALLS: [c_long; 3] = [
    libc::SYS_setgroups,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
];

fn set_groups(groups: &[Gid]) -> nix::Result<()> {
    let ids: Vec<libc::gid_t> = groups.iter().map(|g| g.as_raw()).collect();
    // SAFETY: the call reads `ids.len()` ids from there, and nothing else.
    #[allow(unsafe_code)]
    let done = unsafe { libc::syscall(CALLS[0], ids.len(), ids.as_ptr()) };
    Errno::result(done).map(drop)
}

fn set_gid(gid: Gid, saved: Gid) -> nix::Result<()> {
    // SAFETY: the call takes three numbers.
    #[allow(unsafe_code)]
    let done = unsafe { libc::syscall(CALLS[1], gid.as_raw(), gid.as_raw(), saved.as_raw()) };
    Errno::result(done).map(drop)
}

fn set_uid(uid: Uid, saved: Uid) -> nix::Result<()> {
    // SAFETY: the call takes three numbers.
    #[allow(unsafe_code)]
    let done = unsafe { libc::syscall(CALLS[2], uid.as_raw(), uid.as_raw(), saved.as_raw()) };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn other_threads_stay_who_they_are() {
        if !Uid::effective().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(
            dir.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .unwrap();
        let owner = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            let meta = fs::metadata(&path).unwrap();
            (meta.uid(), meta.gid())
        };
        let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65533));
        let identity = ThreadIdentity::take(uid, gid, &[gid]).unwrap();
        assert_eq!(owner("here"), (65534, 65533));
        let child = std::process::Command::new("id").arg("-u").output().unwrap();
        assert_eq!(child.stdout, b"65534\n");
        std::thread::scope(|scope| {
            // A thread has what its creator has, so the other one must be older.
            let (ask, asked) = std::sync::mpsc::channel::<()>();
            drop(identity);
            let other = scope.spawn(move || {
                asked.recv().unwrap();
                owner("there")
            });
            let identity = ThreadIdentity::take(uid, gid, &[gid]).unwrap();
            ask.send(()).unwrap();
            assert_eq!(other.join().unwrap(), (0, 0));
            drop(identity);
        });
        assert_eq!(owner("again"), (0, 0));
    }
}

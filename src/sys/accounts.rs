//! All accounts and groups known to the host's name service (NSS).

use nix::libc;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

/// One entry of the account database (`passwd(5)`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// The password field.
    pub passwd: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Full name and addresses, separated by commas.
    pub gecos: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// One entry of the group database (`group(5)`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The password field.
    pub passwd: String,
    /// Group id.
    pub gid: u32,
    /// Login names of its members.
    pub members: Vec<String>,
}

/// `getpwent` and `getgrent` keep their position in one place per process.
static WALK: Mutex<()> = Mutex::new(());

/// # Safety
/// `text` is null or ends in NUL.
#[allow(unsafe_code)]
unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// All accounts in the order in which the name service lists them.
#[allow(unsafe_code)]
pub fn accounts() -> Vec<Account> {
    let _alone = WALK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Vec::new();
    // SAFETY: the lock keeps other threads out, and each entry is copied before the next call.
    unsafe {
        libc::setpwent();
        loop {
            let entry = libc::getpwent();
            if entry.is_null() {
                break;
            }
            let entry = &*entry;
            all.push(Account {
                name: owned(entry.pw_name),
                passwd: owned(entry.pw_passwd),
                uid: entry.pw_uid,
                gid: entry.pw_gid,
                gecos: owned(entry.pw_gecos),
                home: owned(entry.pw_dir),
                shell: owned(entry.pw_shell),
            });
        }
        libc::endpwent();
    }
    all
}

/// All groups in the order in which the name service lists them.
#[allow(unsafe_code)]
pub fn groups() -> Vec<Group> {
    let _alone = WALK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Vec::new();
    // SAFETY: the lock keeps other threads out, and each entry is copied before the next call.
    unsafe {
        libc::setgrent();
        loop {
            let entry = libc::getgrent();
            if entry.is_null() {
                break;
            }
            let entry = &*entry;
            all.push(Group {
                name: owned(entry.gr_name),
                passwd: owned(entry.gr_passwd),
                gid: entry.gr_gid,
                members: members(entry.gr_mem),
            });
        }
        libc::endgrent();
    }
    all
}

/// # Safety
/// `list` is null or a null-terminated array of C strings.
#[allow(unsafe_code)]
unsafe fn members(list: *mut *mut c_char) -> Vec<String> {
    let mut out = Vec::new();
    if list.is_null() {
        return out;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            out.push(owned(*at));
            at = at.add(1);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_there() {
        assert!(accounts().iter().any(|a| a.name == "root" && a.uid == 0));
        assert!(groups().iter().any(|g| g.gid == 0));
    }
}

//! Accounts and groups for `user`, `group` and `shadow`, from the name service or from files below another root.

use super::{CallError, command_helpers};
use crate::execution::declare::Result;
use halite_sys::accounts::{self, Account, Group};
use nix::unistd::{Gid, User, getgrouplist};
use std::ffi::CString;

/// A file below another root, like `os.path.join(root, name)`.
pub fn under_root(root: Option<&str>, name: &str) -> String {
    match root {
        None | Some("" | "/") => format!("/{name}"),
        Some(root) => format!("{}/{name}", root.trim_end_matches('/')),
    }
}

fn number(text: &str) -> Result<u32> {
    text.parse().map_err(|_| {
        CallError::raised(
            "ValueError",
            format!("invalid literal for int() with base 10: '{text}'"),
        )
    })
}

fn account(line: &str) -> Result<Account> {
    let parts: Vec<&str> = line.trim().split(':').collect();
    let [name, passwd, uid, gid, gecos, home, shell] = parts.as_slice() else {
        let text = match parts.len() {
            0..=3 => return Err(CallError::raised("IndexError", "list index out of range")),
            n => format!("pwd.struct_passwd() takes a 7-sequence ({n}-sequence given)"),
        };
        return Err(CallError::Type(text));
    };
    Ok(Account {
        name: (*name).to_owned(),
        passwd: (*passwd).to_owned(),
        uid: number(uid)?,
        gid: number(gid)?,
        gecos: (*gecos).to_owned(),
        home: (*home).to_owned(),
        shell: (*shell).to_owned(),
    })
}

/// All accounts, read below `root` if given.
///
/// # Errors
/// The file cannot be read.
pub fn accounts(root: Option<&str>) -> Result<Vec<Account>> {
    match root {
        None => Ok(accounts::accounts()),
        Some(_) => command_helpers::read(&under_root(root, "etc/passwd"))?
            .lines()
            .map(account)
            .collect(),
    }
}

/// One account by its name.
///
/// # Errors
/// The file cannot be read.
pub fn by_name(name: &str, root: Option<&str>) -> Result<Option<Account>> {
    if root.is_some() {
        let text = command_helpers::read(&under_root(root, "etc/passwd"))?;
        let line = text
            .lines()
            .find(|l| l.trim().split(':').next() == Some(name));
        return line.map(account).transpose();
    }
    let text = |c: CString| c.to_string_lossy().into_owned();
    let path = |p: std::path::PathBuf| p.to_string_lossy().into_owned();
    Ok(User::from_name(name).ok().flatten().map(|user| Account {
        name: user.name,
        passwd: text(user.passwd),
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        gecos: text(user.gecos),
        home: path(user.dir),
        shell: path(user.shell),
    }))
}

/// The groups of a file like `/etc/group`; lines with too few fields are skipped.
fn group_file(root: Option<&str>) -> Result<Vec<Group>> {
    let text = command_helpers::read(&under_root(root, "etc/group"))?;
    let mut all = Vec::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.trim().split(':').collect();
        let [name, passwd, gid, members, ..] = parts.as_slice() else {
            continue;
        };
        all.push(Group {
            name: (*name).to_owned(),
            passwd: (*passwd).to_owned(),
            gid: number(gid)?,
            members: if members.is_empty() {
                Vec::new()
            } else {
                members.split(',').map(str::to_owned).collect()
            },
        });
    }
    Ok(all)
}

/// All groups, read below `root` if given.
///
/// # Errors
/// The file cannot be read.
pub fn groups(root: Option<&str>) -> Result<Vec<Group>> {
    match root {
        None => Ok(accounts::groups()),
        Some(_) => group_file(root),
    }
}

/// One group by its name.
///
/// # Errors
/// The file cannot be read.
pub fn group(name: &str, root: Option<&str>) -> Result<Option<Group>> {
    if root.is_some() {
        return Ok(group_file(root)?.into_iter().find(|g| g.name == name));
    }
    // Look up by name to get the member list: the enumerated entry may come from another source.
    let found = nix::unistd::Group::from_name(name).ok().flatten();
    Ok(found.map(|g| Group {
        name: g.name,
        passwd: g.passwd.to_string_lossy().into_owned(),
        gid: g.gid.as_raw(),
        members: g.mem,
    }))
}

/// The sorted names of a user's groups, including the primary one (`salt/utils/user.py get_group_list`).
pub fn groups_of(name: &str) -> Vec<String> {
    let mut names = groups_by_id(name).unwrap_or_else(|| groups_by_scan(name));
    names.sort();
    names.dedup();
    names
}

fn groups_by_id(name: &str) -> Option<Vec<String>> {
    let user = User::from_name(name).ok()??;
    let ids = getgrouplist(&CString::new(name).ok()?, user.gid).ok()?;
    let local = group_file(None).ok()?;
    // Groups with ids above the highest local one come from a directory service and are looked up one by one.
    let most = local.iter().map(|g| g.gid).filter(|g| *g < 65_000).max()?;
    let mut names: Vec<String> = local
        .iter()
        .filter(|g| g.gid <= most && ids.contains(&Gid::from_raw(g.gid)))
        .map(|g| g.name.clone())
        .collect();
    for id in ids.into_iter().filter(|id| id.as_raw() > most) {
        names.push(nix::unistd::Group::from_gid(id).ok()??.name);
    }
    Some(names)
}

fn groups_by_scan(name: &str) -> Vec<String> {
    let mut names: Vec<String> = accounts::groups()
        .into_iter()
        .filter(|g| g.members.iter().any(|m| m == name))
        .map(|g| g.name)
        .collect();
    let primary = User::from_name(name)
        .ok()
        .flatten()
        .and_then(|u| nix::unistd::Group::from_gid(u.gid).ok().flatten());
    names.extend(primary.map(|g| g.name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let got = account("a:x:1:2:A B,1:/home/a:/bin/sh\n").unwrap();
        assert_eq!((got.uid, got.gid, got.gecos.as_str()), (1, 2, "A B,1"));
        assert!(matches!(account("a:x"), Err(CallError::Raised(..))));
        assert!(matches!(account("a:x:1:2:g"), Err(CallError::Type(_))));
        assert_eq!(under_root(Some("/r/"), "etc/x"), "/r/etc/x");
        assert_eq!(under_root(None, "etc/x"), "/etc/x");
    }
}

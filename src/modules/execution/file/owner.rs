//! Changes owners, groups and modes.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::stat;
use super::users::{group_to_gid, user_to_uid};
use halite_sys::held_path::{FileHandle, LastLink};
use halite_wire::Value;

/// Both ids, and an error text for invalid names.
fn owners(user: &Value, group: &Value) -> (Option<i64>, Option<i64>, String) {
    let (mut uid, mut gid) = (user_to_uid(user), group_to_gid(group));
    let mut err = String::new();
    if uid.is_none() {
        if user.truthy() {
            err.push_str("User does not exist\n")
        } else {
            uid = Some(-1)
        }
    }
    if gid.is_none() {
        if group.truthy() {
            err.push_str("Group does not exist\n")
        } else {
            gid = Some(-1)
        }
    }
    (uid, gid, err)
}

/// `-1` means no change.
fn id(number: Option<i64>, what: &str) -> Result<Option<u32>> {
    match number {
        None => Err(CallError::Type(format!(
            "{what} should be integer, not str"
        ))),
        Some(-1) => Ok(None),
        Some(n) => u32::try_from(n)
            .map(Some)
            .map_err(|_| CallError::raised("OverflowError", format!("{what} is out of range"))),
    }
}

/// Changes owner and group; returns an error text for invalid names (`file.chown`).
///
/// # Errors
/// System errors.
pub fn chown(path: &str, user: &Value, group: &Value) -> Result<Option<String>> {
    let path = expanduser(path);
    if paths::exists(&path) {
        let file = os::handle(&path, LastLink::Follow).map_err(|e| os::fault(&e, &path))?;
        return chown_file(&file, &path, user, group);
    }
    let (uid, gid, mut err) = owners(user, group);
    let ids = (id(uid, "uid")?, id(gid, "gid")?);
    if os::handle(&path, LastLink::Keep).is_ok_and(|link| link.chown(ids.0, ids.1).is_ok()) {
        return Ok(None);
    }
    err.push_str("File not found");
    Ok(Some(err))
}

fn set_owner(
    file: &FileHandle,
    path: &str,
    uid: Option<i64>,
    gid: Option<i64>,
) -> Result<Option<String>> {
    file.chown(id(uid, "uid")?, id(gid, "gid")?)
        .map_err(|e| os::fault(&e, path))?;
    Ok(None)
}

/// Like [`chown`], for an open file.
///
/// # Errors
/// System errors.
pub fn chown_file(
    file: &FileHandle,
    path: &str,
    user: &Value,
    group: &Value,
) -> Result<Option<String>> {
    let (uid, gid, err) = owners(user, group);
    if !err.is_empty() {
        return Ok(Some(err));
    }
    set_owner(file, path, uid, gid)
}

/// Like [`chown`], for a link itself (`file.lchown`).
///
/// # Errors
/// System errors, or unknown names.
pub fn lchown(path: &str, user: &Value, group: &Value) -> Result<Option<String>> {
    let path = expanduser(path);
    let link = os::handle(&path, LastLink::Keep).map_err(|e| os::fault(&e, &path))?;
    lchown_file(&link, &path, user, group)
}

/// Like [`lchown`], for an open link.
///
/// # Errors
/// System errors, or unknown names.
pub fn lchown_file(
    link: &FileHandle,
    path: &str,
    user: &Value,
    group: &Value,
) -> Result<Option<String>> {
    let (uid, gid, _) = owners(user, group);
    set_owner(link, path, uid, gid)
}

fn path(call: &Call<'_>) -> String {
    call.text("path").unwrap_or_default()
}

pub fn chown_function(call: &mut Call<'_>) -> Result {
    Ok(chown(&path(call), call.arg("user"), call.arg("group"))?.into())
}

pub fn lchown_function(call: &mut Call<'_>) -> Result {
    Ok(lchown(&path(call), call.arg("user"), call.arg("group"))?.into())
}

pub fn chgrp_function(call: &mut Call<'_>) -> Result {
    let path = expanduser(&path(call));
    let user = stat::Stats::read(&path, true)?.user();
    Ok(chown(&path, &user, call.arg("group"))?.into())
}

/// Sets a mode and returns the resulting one (`file.set_mode`).
///
/// # Errors
/// There is no such file.
pub fn set_mode(path: &str, mode: &Value) -> Result<String> {
    let path = expanduser(path);
    if !paths::exists(&path) {
        return os::command(format!("{path}: File not found"));
    }
    let text = digits(mode);
    match os::octal(&text).map(|bits| os::chmod(&path, bits)) {
        Some(Ok(())) => Ok(stat::Stats::read(&path, true)?.mode),
        _ => Ok(format!("Invalid Mode {text}")),
    }
}

/// The octal digits of a mode, without a prefix.
fn digits(mode: &Value) -> String {
    match python::str(mode).trim_start_matches(['0', 'O', 'o']) {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

/// Like [`set_mode`], for an open file. A mode that the system refuses is left to whoever compares.
pub fn set_mode_file(file: &FileHandle, mode: &Value) {
    if let Some(bits) = os::octal(&digits(mode)) {
        let _ = file.set_mode(bits);
    }
}

pub fn set_mode_function(call: &mut Call<'_>) -> Result {
    Ok(set_mode(&path(call), call.arg("mode"))?.into())
}

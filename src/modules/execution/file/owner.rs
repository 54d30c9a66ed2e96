//! Users, groups, owners and modes.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::stat;
use halite_wire::Value;
use nix::unistd::{Gid, Group, Uid, User};
use std::os::unix::fs::{chown as set_owner, lchown as set_link_owner};

/// A user's id by name. Numbers are returned as they are, nil is this process's user; `None` is Salt's empty string.
pub fn user_to_uid(user: &Value) -> Option<i64> {
    match user {
        Value::Nil => Some(i64::from(Uid::effective().as_raw())),
        Value::Int(_) | Value::Bool(_) => python::int(user).ok(),
        other => {
            let found = User::from_name(&python::str(other)).ok().flatten()?;
            Some(i64::from(found.uid.as_raw()))
        }
    }
}

/// A group's id by name. Numbers are returned as they are.
pub fn group_to_gid(group: &Value) -> Option<i64> {
    match group {
        Value::Nil => None,
        Value::Int(_) | Value::Bool(_) => python::int(group).ok(),
        other => {
            let found = Group::from_name(&python::str(other)).ok().flatten()?;
            Some(i64::from(found.gid.as_raw()))
        }
    }
}

/// A user's name, or the id if it has none.
pub fn uid_to_user(uid: u32) -> Value {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name.into(),
        _ => uid.into(),
    }
}

/// A group's name, or the id if it has none.
pub fn gid_to_group(gid: u32) -> Value {
    match Group::from_gid(Gid::from_raw(gid)) {
        Ok(Some(group)) => group.name.into(),
        _ => gid.into(),
    }
}

pub fn uid_to_user_function(call: &mut Call<'_>) -> Result {
    let uid = call.arg("uid");
    match uid {
        Value::Int(i) => Ok(u32::try_from(*i).map_or(uid.clone(), uid_to_user)),
        other => Err(CallError::Type(format!(
            "uid should be integer, not {}",
            python::type_name(other)
        ))),
    }
}

pub fn gid_to_group_function(call: &mut Call<'_>) -> Result {
    let given = call.arg("gid");
    let gid = match python::int(given) {
        Ok(gid) => Some(gid),
        Err(CallError::Raised(..)) => group_to_gid(given),
        Err(other) => return Err(other),
    };
    let Some(gid) = gid else {
        return Ok("".into());
    };
    Ok(u32::try_from(gid).map_or(gid.into(), gid_to_group))
}

fn number_or_empty(number: Option<i64>) -> Value {
    number.map_or("".into(), Value::Int)
}

pub fn user_to_uid_function(call: &mut Call<'_>) -> Result {
    Ok(number_or_empty(user_to_uid(call.arg("user"))))
}

pub fn group_to_gid_function(call: &mut Call<'_>) -> Result {
    Ok(number_or_empty(group_to_gid(call.arg("group"))))
}

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
    let (uid, gid, mut err) = owners(user, group);
    if !paths::exists(&path) {
        if set_link_owner(&path, id(uid, "uid")?, id(gid, "gid")?).is_ok() {
            return Ok(None);
        }
        err.push_str("File not found");
    }
    if !err.is_empty() {
        return Ok(Some(err));
    }
    set_owner(&path, id(uid, "uid")?, id(gid, "gid")?).map_err(|e| os::fault(&e, &path))?;
    Ok(None)
}

/// Like [`chown`], for a link itself (`file.lchown`).
///
/// # Errors
/// System errors, or unknown names.
pub fn lchown(path: &str, user: &Value, group: &Value) -> Result<Option<String>> {
    let path = expanduser(path);
    let (uid, gid, _) = owners(user, group);
    set_link_owner(&path, id(uid, "uid")?, id(gid, "gid")?).map_err(|e| os::fault(&e, &path))?;
    Ok(None)
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
    let user = stat::Stats::read(&path, true)?.user;
    Ok(chown(&path, &user, call.arg("group"))?.into())
}

/// Sets a mode and returns the resulting one (`file.set_mode`).
///
/// # Errors
/// There is no such file.
pub fn set_mode(path: &str, mode: &Value) -> Result<String> {
    let path = expanduser(path);
    let text = python::str(mode);
    let text = match text.trim_start_matches(['0', 'O', 'o']) {
        "" => "0",
        digits => digits,
    };
    if !paths::exists(&path) {
        return os::command(format!("{path}: File not found"));
    }
    match os::octal(text).map(|bits| os::chmod(&path, bits)) {
        Some(Ok(())) => Ok(stat::Stats::read(&path, true)?.mode),
        _ => Ok(format!("Invalid Mode {text}")),
    }
}

pub fn set_mode_function(call: &mut Call<'_>) -> Result {
    Ok(set_mode(&path(call), call.arg("mode"))?.into())
}

//! Users and groups: names and ids.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_wire::Value;
use nix::unistd::{Gid, Group, Uid, User};

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

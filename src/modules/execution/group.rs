//! `group`: the host's groups, through the shadow suite.

use super::accounts::{group, groups};
use super::command_helpers::{self, Argv};
use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, python};
use halite_sys::accounts::Group;
use halite_wire::map;
use halite_wire::{Map, Value};

const NO: Lit = Lit::Bool(false);

pub(super) const MODULE: Module = Module {
    name: "group",
    functions: &[
        Function::new("add", add, "Adds a group.")
            .args(&[
                req("name"),
                opt("gid", Lit::Nil),
                opt("system", NO),
                opt("root", Lit::Nil),
                opt("non_unique", NO),
                opt("local", NO),
            ])
            .names(&["name", "username"]),
        Function::new("delete", delete, "Removes a group.")
            .args(&[req("name"), opt("root", Lit::Nil), opt("local", NO)])
            .names(&["name", "username"]),
        Function::new(
            "info",
            info,
            "The data of a group; an empty map if it does not exist.",
        )
        .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new("getent", getent, "The data of all groups.")
            .args(&[opt("refresh", NO), opt("root", Lit::Nil)]),
        Function::new("chgid", chgid, "Changes the id of a group.")
            .args(&[
                req("name"),
                req("gid"),
                opt("root", Lit::Nil),
                opt("non_unique", NO),
            ])
            .names(&["name", "username"]),
        Function::new("adduser", adduser, "Adds a user to a group.")
            .args(&[req("name"), req("username"), opt("root", Lit::Nil)])
            .names(&["name", "username"]),
        Function::new("deluser", deluser, "Removes a user from a group.")
            .args(&[req("name"), req("username"), opt("root", Lit::Nil)])
            .names(&["name", "username"]),
        Function::new(
            "members",
            members,
            "Sets the members of a group, separated by commas.",
        )
        .args(&[req("name"), req("members_list"), opt("root", Lit::Nil)])
        .names(&["name", "username"]),
    ],
};

/// The map of `group.info`.
fn described(group: &Group) -> Map {
    map! {
        "name" => group.name.as_str(),
        "passwd" => group.passwd.as_str(),
        "gid" => group.gid,
        "members" => group.members.clone(),
    }
}

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

fn details(name: &str, root: Option<&str>) -> Result<Map> {
    Ok(group(name, root)?
        .as_ref()
        .map(described)
        .unwrap_or_default())
}

fn info(call: &mut Call<'_>) -> Result {
    Ok(details(&name(call), call.text("root").as_deref())?.into())
}

fn getent(call: &mut Call<'_>) -> Result {
    let all = groups(call.text("root").as_deref())?;
    let all: Vec<Value> = all.iter().map(|g| described(g).into()).collect();
    Ok(all.into())
}

fn add(call: &mut Call<'_>) -> Result {
    let local = call.flag("local");
    let mut argv = Argv::which(if local { "lgroupadd" } else { "groupadd" })?;
    if call.flag("gid") {
        argv.add([format!("-g {}", python::str(call.arg("gid")))]);
        if call.flag("non_unique") && !local {
            argv.add(["-o"]);
        }
    }
    if call.flag("system") {
        argv.add(["-r"]);
    }
    finish(call, argv, local)
}

fn delete(call: &mut Call<'_>) -> Result {
    let local = call.flag("local");
    let argv = Argv::which(if local { "lgroupdel" } else { "groupdel" })?;
    finish(call, argv, local)
}

fn finish(call: &mut Call<'_>, mut argv: Argv, local: bool) -> Result {
    if let Some(root) = call.text("root").filter(|_| !local) {
        argv.add(["-R".to_owned(), root]);
    }
    argv.value(call.arg("name"));
    Ok(command_helpers::run_all(call, argv)?.ok().into())
}

fn chgid(call: &mut Call<'_>) -> Result {
    let (name, root, gid) = (name(call), call.text("root"), call.arg("gid").clone());
    let before = details(&name, root.as_deref())?;
    if before.is_empty() {
        return Ok(false.into());
    }
    if before.get("gid") == Some(&gid) {
        return Ok(true.into());
    }
    let mut argv = Argv::which("groupmod")?;
    if let Some(root) = &root {
        argv.add(["-R", root]);
    }
    argv.add([if call.flag("non_unique") { "-og" } else { "-g" }]);
    argv.value(&gid).add([name.as_str()]);
    command_helpers::run(call, argv)?;
    let after = details(&name, root.as_deref())?;
    Ok((after.get("gid") == Some(&gid)).into())
}

fn adduser(call: &mut Call<'_>) -> Result {
    gpasswd(call, "--add", "username")
}

/// Removing a user who is not a member succeeds.
fn deluser(call: &mut Call<'_>) -> Result {
    let user = python::str(call.arg("username"));
    let member = group(&name(call), None)?.is_some_and(|g| g.members.contains(&user));
    if !member {
        return Ok(true.into());
    }
    gpasswd(call, "--del", "username")
}

fn members(call: &mut Call<'_>) -> Result {
    gpasswd(call, "--members", "members_list")
}

fn gpasswd(call: &mut Call<'_>, option: &str, who: &str) -> Result {
    let mut argv = Argv::which("gpasswd")?;
    argv.add([option])
        .value(call.arg(who))
        .value(call.arg("name"));
    if let Some(root) = call.text("root") {
        argv.add(["--root".to_owned(), root]);
    }
    Ok(command_helpers::run_all(call, argv)?.ok().into())
}

//! `user`: the host's accounts, through the shadow suite.

use super::accounts::{accounts, by_name, groups_of};
use super::command_helpers::{self, Argv};
use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python};
use halite_sys::accounts::Account;
use halite_wire::map;
use halite_wire::{Map, Value};

const NO: Lit = Lit::Bool(false);
const NAME: Lit = Lit::Str("");

/// The fields of the comment field.
const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];

pub(super) const MODULE: Module = Module {
    name: "user",
    functions: &[
        Function::new(
            "add",
            add,
            "Adds a user with useradd, then adds it to groups and sets the comment field.",
        )
        .args(&[
            req("name"),
            opt("uid", Lit::Nil),
            opt("gid", Lit::Nil),
            opt("groups", Lit::Nil),
            opt("home", Lit::Nil),
            opt("shell", Lit::Nil),
            opt("unique", Lit::Bool(true)),
            opt("system", NO),
            opt("fullname", NAME),
            opt("roomnumber", NAME),
            opt("workphone", NAME),
            opt("homephone", NAME),
            opt("other", NAME),
            opt("createhome", Lit::Bool(true)),
            opt("loginclass", Lit::Nil),
            opt("nologinit", NO),
            opt("root", Lit::Nil),
            opt("usergroup", Lit::Nil),
            opt("local", NO),
        ])
        .names(&["name", "new_name"]),
        Function::new(
            "delete",
            delete,
            "Removes a user; with remove, also the home directory.",
        )
        .args(&[
            req("name"),
            opt("remove", NO),
            opt("force", NO),
            opt("root", Lit::Nil),
            opt("local", NO),
        ])
        .names(&["name", "new_name"]),
        Function::new("getent", getent, "The data of all users.")
            .args(&[opt("refresh", NO), opt("root", Lit::Nil)]),
        Function::new(
            "info",
            info,
            "The data of a user; an empty map if it does not exist.",
        )
        .args(&[req("name"), opt("root", Lit::Nil)]),
        Function::new("list_users", list_users, "The names of all users, sorted.")
            .args(&[opt("root", Lit::Nil)]),
        Function::new(
            "list_groups",
            list_groups,
            "The sorted names of a user's groups.",
        )
        .args(&[req("name")]),
        Function::new(
            "primary_group",
            primary_group,
            "The name of the primary group of a user.",
        )
        .args(&[req("name")]),
        Function::new(
            "chuid",
            |c| attribute(c, "uid", "uid", "-u", false),
            "Changes a user's id.",
        )
        .args(&[req("name"), req("uid"), opt("root", Lit::Nil)]),
        Function::new(
            "chgid",
            |c| attribute(c, "gid", "gid", "-g", false),
            "Changes a user's primary group, by id.",
        )
        .args(&[req("name"), req("gid"), opt("root", Lit::Nil)]),
        Function::new(
            "chshell",
            |c| attribute(c, "shell", "shell", "-s", false),
            "Changes a user's login shell.",
        )
        .args(&[req("name"), req("shell"), opt("root", Lit::Nil)]),
        Function::new(
            "chhome",
            chhome,
            "Changes a user's home directory; with persist, its files are moved.",
        )
        .args(&[
            req("name"),
            req("home"),
            opt("persist", NO),
            opt("root", Lit::Nil),
        ]),
        Function::new(
            "chgroups",
            chgroups,
            "Sets the groups of a user, or with append adds groups.",
        )
        .args(&[
            req("name"),
            req("groups"),
            opt("append", NO),
            opt("root", Lit::Nil),
        ]),
        Function::new(
            "chfullname",
            |c| gecos(c, "fullname"),
            "Sets a user's full name.",
        )
        .args(&[req("name"), req("fullname"), opt("root", Lit::Nil)]),
        Function::new(
            "chroomnumber",
            |c| gecos(c, "roomnumber"),
            "Sets a user's room number.",
        )
        .args(&[req("name"), req("roomnumber"), opt("root", Lit::Nil)]),
        Function::new(
            "chworkphone",
            |c| gecos(c, "workphone"),
            "Sets a user's work phone number.",
        )
        .args(&[req("name"), req("workphone"), opt("root", Lit::Nil)]),
        Function::new(
            "chhomephone",
            |c| gecos(c, "homephone"),
            "Sets a user's home phone number.",
        )
        .args(&[req("name"), req("homephone"), opt("root", Lit::Nil)]),
        Function::new(
            "chother",
            |c| gecos(c, "other"),
            "Sets the last field of a user's comment field.",
        )
        .args(&[req("name"), req("other"), opt("root", Lit::Nil)]),
        Function::new(
            "chloginclass",
            |_| Ok(false.into()),
            "Always false: only OpenBSD has login classes.",
        )
        .args(&[req("name"), req("loginclass"), opt("root", Lit::Nil)]),
        Function::new(
            "get_loginclass",
            |_| Ok(false.into()),
            "Always false: only OpenBSD has login classes.",
        )
        .args(&[req("name")]),
        Function::new("rename", rename, "Changes a user's login name.")
            .args(&[req("name"), req("new_name"), opt("root", Lit::Nil)])
            .names(&["name", "new_name"]),
    ],
};

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

fn root(call: &Call<'_>) -> Option<String> {
    call.text("root")
}

/// Adds `-R root` if a root is given.
fn chroot(argv: &mut Argv, root: Option<&str>) {
    if let Some(root) = root {
        argv.add(["-R", root]);
    }
}

fn parts(gecos: &str) -> [String; 5] {
    let mut fields = gecos.splitn(5, ',').map(str::to_owned);
    std::array::from_fn(|_| fields.next().unwrap_or_default())
}

/// The map of `user.info`.
pub(super) fn described(account: &Account) -> Map {
    let mut map = map! {
        "gid" => account.gid,
        "groups" => groups_of(&account.name),
        "home" => account.home.as_str(),
        "name" => account.name.as_str(),
        "passwd" => account.passwd.as_str(),
        "shell" => account.shell.as_str(),
        "uid" => account.uid,
    };
    for (key, value) in GECOS.iter().zip(parts(&account.gecos)) {
        map.set(*key, value);
    }
    map
}

fn details(name: &str, root: Option<&str>) -> Result<Map> {
    Ok(by_name(name, root)?
        .as_ref()
        .map(described)
        .unwrap_or_default())
}

fn info(call: &mut Call<'_>) -> Result {
    Ok(details(&name(call), root(call).as_deref())?.into())
}

fn getent(call: &mut Call<'_>) -> Result {
    let all = accounts(root(call).as_deref())?;
    let all: Vec<Value> = all.iter().map(|a| described(a).into()).collect();
    Ok(all.into())
}

fn list_users(call: &mut Call<'_>) -> Result {
    let all = accounts(root(call).as_deref())?;
    let mut names: Vec<String> = all.into_iter().map(|a| a.name).collect();
    names.sort();
    Ok(names.into())
}

fn list_groups(call: &mut Call<'_>) -> Result {
    Ok(groups_of(&name(call)).into())
}

fn primary_group(call: &mut Call<'_>) -> Result {
    let argv = ["id", "-g", "-n", &name(call)].map(str::to_owned);
    Ok(command_helpers::run(call, argv)?.into())
}

fn add(call: &mut Call<'_>) -> Result {
    let argv = add_argv(call)?;
    if !command_helpers::run_all(call, argv)?.ok() {
        return Ok(false.into());
    }
    let (name, root) = (name(call), root(call));
    if call.flag("groups") {
        set_groups(
            call,
            &name,
            &call.arg("groups").clone(),
            false,
            root.as_deref(),
        )?;
    }
    for key in GECOS {
        if call.flag(key) {
            set_gecos(call, &name, key, &call.arg(key).clone(), root.as_deref())?;
        }
    }
    Ok(true.into())
}

fn add_argv(call: &mut Call<'_>) -> Result<Argv> {
    let local = call.flag("local");
    let mut argv = Argv::which(if local { "luseradd" } else { "useradd" })?;
    let given = |v: &Value| !v.is_nil() && !v.is_str("");
    if call.flag("shell") {
        argv.add(["-s"]).value(call.arg("shell"));
    }
    if given(call.arg("uid")) {
        argv.add(["-u"]).value(call.arg("uid"));
    }
    if given(call.arg("gid")) {
        argv.add(["-g"]).value(call.arg("gid"));
    } else if call.flag("usergroup") {
        if !local {
            argv.add(["-U"]);
        }
    } else if in_own_group(call) && usergroups_enabled() {
        let group = super::accounts::group(&name(call), None)?;
        argv.add([
            "-g".to_owned(),
            group.map(|g| g.gid.to_string()).unwrap_or_default(),
        ]);
    }
    if *call.arg("usergroup") == Value::Bool(false) {
        argv.add([if local { "-n" } else { "-N" }]);
    }
    match (call.flag("createhome"), local) {
        (true, false) => drop(argv.add(["-m"])),
        (true, true) => {}
        (false, _) => drop(argv.add(["-M"])),
    }
    if call.flag("nologinit") {
        argv.add(["-l"]);
    }
    if !call.arg("home").is_nil() {
        argv.add(["-d"]).value(call.arg("home"));
    }
    if !call.flag("unique") {
        argv.add(["-o"]);
    }
    if call.flag("system") {
        argv.add(["-r"]);
    }
    argv.value(call.arg("name"));
    if !local {
        chroot(&mut argv, root(call).as_deref());
    }
    Ok(argv)
}

/// Whether the wanted groups include one with the user's name.
fn in_own_group(call: &Call<'_>) -> bool {
    match call.arg("groups") {
        Value::Array(list) => list.contains(call.arg("name")),
        Value::Str(text) => text.contains(&name(call)),
        _ => false,
    }
}

/// `USERGROUPS_ENAB yes` in `login.defs`: `useradd` would fail to create an existing group.
fn usergroups_enabled() -> bool {
    let text = command_helpers::read("/etc/login.defs").unwrap_or_default();
    text.lines()
        .find(|l| {
            l.chars()
                .take(15)
                .collect::<String>()
                .contains("USERGROUPS_ENAB")
        })
        .is_some_and(|l| l.contains("yes"))
}

fn delete(call: &mut Call<'_>) -> Result {
    let local = call.flag("local");
    let mut argv = Argv::which(if local { "luserdel" } else { "userdel" })?;
    if call.flag("remove") {
        argv.add(["-r"]);
    }
    if call.flag("force") && !local {
        argv.add(["-f"]);
    }
    argv.value(call.arg("name"));
    if !local {
        chroot(&mut argv, root(call).as_deref());
    }
    let ran = command_helpers::run_all(call, argv)?;
    // Debian's userdel exits with 12 if there is no mail spool.
    let debian = call.ctx.grains.str("os_family") == Some("Debian");
    let spool = ran.stderr.contains("var/mail") || ran.stderr.contains("var/spool/mail");
    Ok((ran.ok() || (ran.retcode == 12 && debian && spool)).into())
}

/// Changes one attribute with `usermod`; whether it has the wanted value then.
fn attribute(call: &mut Call<'_>, arg: &str, key: &str, option: &str, persist: bool) -> Result {
    let (name, root) = (name(call), root(call));
    let value = call.arg(arg).clone();
    let before = details(&name, root.as_deref())?;
    if before.is_empty() {
        return Err(CallError::Command(format!("User '{name}' does not exist")));
    }
    if before.get(key) == Some(&value) {
        return Ok(true.into());
    }
    let mut argv = Argv::which("usermod")?;
    chroot(&mut argv, root.as_deref());
    if persist {
        argv.add(["-m"]);
    }
    argv.add([option]).value(&value).add([name.as_str()]);
    command_helpers::run(call, argv)?;
    let after = details(&name, root.as_deref())?;
    Ok((after.get(key).cloned().unwrap_or_default() == value).into())
}

fn chhome(call: &mut Call<'_>) -> Result {
    let persist = call.flag("persist");
    attribute(call, "home", "home", "-d", persist)
}

/// As in stock, the old name is checked last, so a successful rename returns false.
fn rename(call: &mut Call<'_>) -> Result {
    let new = python::str(call.arg("new_name"));
    if by_name(&new, root(call).as_deref())?.is_some() {
        return Err(CallError::Command(format!("User '{new}' already exists")));
    }
    attribute(call, "new_name", "name", "-l", false)
}

fn chgroups(call: &mut Call<'_>) -> Result {
    let (name, root) = (name(call), root(call));
    let (groups, append) = (call.arg("groups").clone(), call.flag("append"));
    Ok(set_groups(call, &name, &groups, append, root.as_deref())?.into())
}

fn set_groups(
    call: &mut Call<'_>,
    name: &str,
    groups: &Value,
    append: bool,
    root: Option<&str>,
) -> Result<bool> {
    let groups: Vec<String> = match groups {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!("'{class}' object is not iterable")));
        }
    };
    let mut wanted = groups.clone();
    wanted.sort();
    wanted.dedup();
    if wanted == groups_of(name) {
        return Ok(true);
    }
    let mut argv = Argv::which("usermod")?;
    if append {
        argv.add(["-a"]);
    }
    argv.add(["-G", &groups.join(","), name]);
    chroot(&mut argv, root);
    let ran = command_helpers::run_all(call, argv)?;
    if ran.ok() || !ran.stderr.contains("not found in") {
        return Ok(ran.ok());
    }
    // Users of a directory service are not in the files usermod reads.
    let mut all = true;
    for group in &groups {
        all &= command_helpers::run_all(call, ["gpasswd", "-a", name, group])?.ok();
    }
    Ok(all)
}

fn gecos(call: &mut Call<'_>, key: &str) -> Result {
    let (name, root, value) = (name(call), root(call), call.arg(key).clone());
    Ok(set_gecos(call, &name, key, &value, root.as_deref())?.into())
}

fn gecos_of(name: &str, root: Option<&str>) -> Result<[String; 5]> {
    let missing = || match root {
        Some(_) => CallError::raised("KeyError", ""),
        None => {
            let text = format!("getpwnam(): name not found: '{name}'");
            CallError::raised("KeyError", python::repr(&text.into()))
        }
    };
    let account = by_name(name, root)?.ok_or_else(missing)?;
    Ok(parts(&account.gecos))
}

fn set_gecos(
    call: &mut Call<'_>,
    name: &str,
    key: &str,
    value: &Value,
    root: Option<&str>,
) -> Result<bool> {
    let value = match value {
        Value::Nil => String::new(),
        other => python::str(other),
    };
    let at = GECOS.iter().position(|k| *k == key).unwrap_or(0);
    let mut parts = gecos_of(name, root)?;
    if parts[at] == value {
        return Ok(true);
    }
    parts[at] = value.clone();
    let mut argv = Argv::which("usermod")?;
    chroot(&mut argv, root);
    argv.add(["-c", parts.join(",").trim_end_matches(','), name]);
    command_helpers::run(call, argv)?;
    Ok(gecos_of(name, root)?[at] == value)
}

//! Sets owner, group, mode, attributes and SELinux context of a file (`file.check_perms`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::os;
use super::paths::{self, expanduser};
use super::stat::Stats;
use super::{attrs, owner, selinux};
use halite_sys::held_path::{FileHandle, LastLink};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::io::ErrorKind;

/// The wanted permissions; nil means no change.
#[derive(Clone, Debug, Default)]
pub struct Perms {
    /// Owner, by name or id.
    pub user: Value,
    /// Group, by name or id.
    pub group: Value,
    /// Octal mode.
    pub mode: Value,
    /// `chattr` letters.
    pub attrs: Value,
    /// Whether to follow links.
    pub follow_symlinks: bool,
    /// The SELinux context.
    pub selinux: selinux::WantedContext,
}

impl Perms {
    /// Owner, group and mode of a file, for use on another one.
    ///
    /// # Errors
    /// There is no such file.
    pub fn read(path: &str) -> Result<Perms> {
        let stats = Stats::read(path, true)?;
        Ok(Perms {
            user: stats.user(),
            group: stats.group(),
            mode: stats.mode.into(),
            ..Perms::default()
        })
    }
}

/// `__opts__["test"]`.
pub fn is_test(call: &Call<'_>) -> bool {
    call.ctx.opts.get("test").is_some_and(Value::truthy)
}

fn push(ret: &mut Map, text: impl Into<String>) {
    match ret.get_mut("comment") {
        Some(Value::Array(list)) => list.push(text.into().into()),
        _ => ret.set("comment", vec![Value::from(text.into())]),
    }
}

fn change(ret: &mut Map, key: &str, value: impl Into<Value>) {
    if ret.get("changes").is_none_or(|c| c.as_map().is_none()) {
        ret.set("changes", Map::new());
    }
    if let Some(Value::Map(changes)) = ret.get_mut("changes") {
        changes.set(key, value);
    }
}

/// Whether a state return has changes.
pub fn has_changes(ret: &Map) -> bool {
    ret.get("changes").is_some_and(Value::truthy)
}

/// Sets a file's permissions. `ret` is a state return to continue, if any; the second map has the previous values.
///
/// # Errors
/// The file is missing, a name is invalid, or a program is missing.
pub fn check_perms(
    call: &mut Call<'_>,
    name: &str,
    ret: Option<Map>,
    want: &Perms,
) -> Result<(Map, Map)> {
    let Some(mut ret) = ret.filter(|r| !r.is_empty()) else {
        let name = expanduser(name);
        let mut ret = map! {"name" => name.as_str(), "changes" => Map::new(), "comment" => Value::Array(vec![]), "result" => true};
        let done = set_perms(call, &name, &mut ret, "".into(), want)?;
        return Ok((ret, previous(done, want)));
    };
    let done = check_more_perms(call, name, &mut ret, want)?;
    Ok((ret, previous(done, want)))
}

/// The second answer of [`check_perms`].
fn previous((cur, changed): (Stats, Map), want: &Perms) -> Map {
    let is_int = |v: &Value| matches!(v, Value::Int(_) | Value::Bool(_));
    let mut perms = map! {
        "luser" => if is_int(&want.user) { cur.uid.into() } else { cur.user() },
        "lgroup" => if is_int(&want.group) { cur.gid.into() } else { cur.group() },
        "lmode" => cur.mode.as_str(),
    };
    for (key, value) in changed.iter() {
        perms.set(python::str(key), value.clone());
    }
    perms
}

/// Like [`check_perms`], with a state return that can go on with other files after a fault. Returns what was there and what
/// has been changed, without looking up names.
///
/// # Errors
/// Those of [`check_perms`].
pub fn check_more_perms(
    call: &mut Call<'_>,
    name: &str,
    ret: &mut Map,
    want: &Perms,
) -> Result<(Stats, Map)> {
    let Some(before) = ret.get("comment").cloned() else {
        return Err(CallError::raised("KeyError", "'comment'"));
    };
    ret.set("comment", Value::Array(Vec::new()));
    let done = set_perms(call, &expanduser(name), ret, before.clone(), want);
    if done.is_err() {
        ret.set("comment", before);
    }
    done
}

/// Returns what was there and what has been changed.
fn set_perms(
    call: &mut Call<'_>,
    name: &str,
    ret: &mut Map,
    before: Value,
    want: &Perms,
) -> Result<(Stats, Map)> {
    let mode = os::normalize_mode(&want.mode);
    let file = open(name, want.follow_symlinks)?;
    let stats = || -> Result<Stats> {
        let meta = file.metadata().map_err(|e| os::fault(&e, name))?;
        Ok(Stats::of(meta, name.to_owned(), want.follow_symlinks))
    };
    let cur = stats()?;
    let mut perms = Map::new();
    let whole = want.follow_symlinks || !cur.is_link();
    change_owner(call, &file, name, ret, &mut perms, &cur, want)?;
    if let Some(mode) = mode.as_deref()
        && !is_test(call)
        && whole
        && mode != cur.mode
    {
        perms.set("cmode", mode);
        owner::set_mode_file(&file, &mode.into());
    }
    let post = stats()?;
    record_changes(call, ret, &perms, &post, want);
    if let Some(mode) = mode.filter(|_| whole) {
        if mode != post.mode {
            if is_test(call) {
                change(ret, "mode", mode)
            } else {
                ret.set("result", false);
                push(ret, format!("Failed to change mode to {mode}"));
            }
        } else if perms.contains("cmode") {
            change(ret, "mode", mode);
        }
    }
    if !want.attrs.is_nil() && !paths::is_dir(name) && whole {
        change_attrs(call, name, ret, &want.attrs)?;
    }
    if want.selinux.is_set() {
        change_selinux(call, name, ret, &want.selinux)?;
    }
    finish(call, ret, before);
    Ok((cur, perms))
}

/// The file whose permissions are meant: where links are followed and one leads nowhere, the link itself.
fn open(name: &str, follow_symlinks: bool) -> Result<FileHandle> {
    let itself = || os::handle(name, LastLink::Keep);
    let opened = if follow_symlinks {
        os::handle(name, LastLink::Follow).or_else(|e| match e.kind() {
            ErrorKind::NotFound => itself(),
            _ => Err(e),
        })
    } else {
        itself()
    };
    match opened {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            os::command(format!("Path not found: {name}"))
        }
        opened => opened.map_err(|e| os::fault(&e, name)),
    }
}

fn finish(call: &Call<'_>, ret: &mut Map, before: Value) {
    if let Value::Str(before) = before {
        let mut texts = match ret.get("comment") {
            Some(Value::Array(list)) => list.iter().map(python::str).collect(),
            // A dry run of the SELinux context leaves a string, which Python joins letter by letter.
            Some(Value::Str(text)) => text.chars().map(String::from).collect(),
            _ => Vec::new(),
        };
        if !before.is_empty() {
            texts.insert(0, before);
        }
        ret.set("comment", texts.join("; "));
    }
    if is_test(call) && has_changes(ret) {
        ret.set("result", Value::Nil);
    }
}

fn change_owner(
    call: &Call<'_>,
    file: &FileHandle,
    name: &str,
    ret: &mut Map,
    perms: &mut Map,
    cur: &Stats,
    want: &Perms,
) -> Result<()> {
    if want.user.truthy() && !cur.is_user(&want.user) {
        perms.set("cuser", want.user.clone());
    }
    if want.group.truthy() && !cur.is_group(&want.group) {
        perms.set("cgroup", want.group.clone());
    }
    let needed = perms.contains("cuser") || perms.contains("cgroup");
    if !needed || is_test(call) {
        return Ok(());
    }
    let or = |given: &Value, there: Value| match given {
        Value::Nil => there,
        given => given.clone(),
    };
    let (user, group) = (or(&want.user, cur.user()), or(&want.group, cur.group()));
    let done = if cur.is_link() {
        owner::lchown_file(file, name, &user, &group)
    } else {
        owner::chown_file(file, name, &user, &group)
    };
    match done {
        Ok(Some(wrong)) => {
            ret.set("result", false);
            push(ret, wrong);
        }
        // Changing the owner clears the set-id bits.
        Ok(None) if !cur.is_link() => {
            owner::set_mode_file(file, &cur.mode.as_str().into());
        }
        Ok(None) => {}
        Err(e) if os::is_os_error(&e) => ret.set("result", false),
        Err(e) => return Err(e),
    }
    Ok(())
}

fn record_changes(call: &Call<'_>, ret: &mut Map, perms: &Map, post: &Stats, want: &Perms) {
    let both = [
        ("user", &want.user, post.is_user(&want.user), "cuser"),
        ("group", &want.group, post.is_group(&want.group), "cgroup"),
    ];
    for (what, wanted, there, changed) in both {
        if !wanted.truthy() {
            continue;
        }
        if there {
            if perms.contains(changed) {
                change(ret, what, wanted.clone());
            }
        } else if is_test(call) {
            change(ret, what, wanted.clone());
        } else {
            ret.set("result", false);
            push(
                ret,
                format!("Failed to change {what} to {}", python::str(wanted)),
            );
        }
    }
}

fn change_attrs(call: &mut Call<'_>, name: &str, ret: &mut Map, wanted: &Value) -> Result<()> {
    let letters = python::str(wanted);
    let Some(diff) = attrs::compare(call, name, &letters)?.filter(attrs::AttrChange::any) else {
        return Ok(());
    };
    let now = |call: &mut Call<'_>| -> Result<String> {
        attrs::read(call, name)?
            .and_then(|mut found| found.remove(name))
            .ok_or_else(|| CallError::raised("KeyError", python::repr(&name.into())))
    };
    let old = now(call)?;
    let mut new = letters.clone();
    if !is_test(call) {
        for (sign, some) in [('+', &diff.added), ('-', &diff.removed)] {
            if !some.is_empty() {
                attrs::change(call, sign, some, &[name.to_owned()], &[])?;
            }
        }
        let left = attrs::compare(call, name, &letters)?;
        if left.is_some_and(|d| d.any()) {
            ret.set("result", false);
            push(ret, format!("Failed to change attributes to {letters}"));
            new = now(call)?;
        }
    }
    if old != new {
        change(ret, "attrs", map! {"old" => old, "new" => new});
    }
    Ok(())
}

fn change_selinux(
    call: &mut Call<'_>,
    name: &str,
    ret: &mut Map,
    wanted: &selinux::WantedContext,
) -> Result<()> {
    let Some(current) = selinux::context_fields(&selinux::context(call, name)?) else {
        ret.set("result", false);
        push(ret, "Failed to get selinux attributes");
        return Ok(());
    };
    let titles = ["User", "Role", "Type", "Range"];
    let mut requested: [String; 4] = Default::default();
    let (mut old, mut new) = (String::new(), String::new());
    for i in 0..4 {
        if wanted.words[i].is_empty() || wanted.words[i] == current[i] {
            continue;
        }
        requested[i] = wanted.words[i].clone();
        new.push_str(&format!("{}: {} ", titles[i], requested[i]));
        old.push_str(&format!("{}: {} ", titles[i], current[i]));
    }
    if new.is_empty() {
        return Ok(());
    }
    if is_test(call) {
        ret.set(
            "comment",
            format!("File {name} selinux context to be updated"),
        );
        ret.set("result", Value::Nil);
        record_selinux_change(ret, &old, &new);
        return Ok(());
    }
    if requested[2].is_empty() {
        requested[2] = current[2].clone();
    }
    let Some(text) = selinux::set(call, name, &requested, true)? else {
        return Err(CallError::raised(
            "AttributeError",
            "'bool' object has no attribute 'split'",
        ));
    };
    let Some(now) = selinux::context_fields(&text) else {
        ret.set("result", false);
        push(ret, "Failed to set selinux attributes");
        return Ok(());
    };
    push(ret, format!("The file {name} is set to be changed"));
    for i in 0..4 {
        if !requested[i].is_empty() && now[i] != requested[i] {
            push(
                ret,
                format!("Unable to update {} context", selinux::WORDS[i]),
            );
            ret.set("result", false);
        }
    }
    record_selinux_change(ret, &old, &new);
    Ok(())
}

/// Records a change of SELinux context.
fn record_selinux_change(ret: &mut Map, old: &str, new: &str) {
    change(
        ret,
        "selinux",
        map! {"Old" => old.trim_end(), "New" => new.trim_end()},
    );
}

pub fn check_perms_function(call: &mut Call<'_>) -> Result {
    let want = Perms {
        user: call.arg("user").clone(),
        group: call.arg("group").clone(),
        mode: call.arg("mode").clone(),
        attrs: call.arg("attrs").clone(),
        follow_symlinks: call.flag("follow_symlinks"),
        selinux: selinux::WantedContext::from_call(call),
    };
    let name = call.text("name").unwrap_or_default();
    let ret = call.arg("ret").as_map().cloned();
    let (ret, perms) = check_perms(call, &name, ret, &want)?;
    Ok(Value::Array(vec![ret.into(), perms.into()]))
}

//! `file.hardlink` and `file.mknod`.

use super::simple::make_parents;
use super::symlink::check_owner;
use super::{Step, absolute, command_error, fail, named, outcome_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::{Perms, check_perms, paths, remove};
use halite_modules::execution::python;
use halite_wire::{Value, map};
use std::os::unix::fs::MetadataExt;

pub(super) fn hardlink(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "hardlink")?;
    let target = s.text("target").unwrap_or_default();
    let (user, group) = (s.arg("user").clone(), s.arg("group").clone());
    check_owner(&user, &group)?;
    if !paths::is_abs(&target) {
        return fail(format!("Specified target {target} is not an absolute path"));
    }
    if !paths::exists(&target) {
        return fail(format!("Target {target} for hard link does not exist"));
    }
    if paths::is_dir(&target) {
        return fail(format!("Unable to hard link from directory {target}"));
    }
    if paths::is_dir(&name) {
        return fail(format!("Unable to hard link to directory {name}"));
    }
    let is_hardlink = std::fs::symlink_metadata(&name).is_ok_and(|m| m.nlink() > 1);
    let same = is_hardlink && is_same(&name, &target);
    let force = s.flag("force");
    if s.test {
        return Ok(if same {
            StateOutcome::good(format!(
                "The hard link {name} is presently targetting {target}"
            ))
        } else if is_hardlink {
            StateOutcome::would(format!(
                "Link {name} target is set to be changed to {target}"
            ))
            .changes(map! {"change" => name})
        } else if !paths::exists(&name) {
            StateOutcome::would(format!("Hard link {name} to {target} is set for creation"))
                .changes(map! {"new" => name})
        } else if force {
            StateOutcome::would(format!(
                "The file or directory {name} is set for removal to make way for a new hard link targeting {target}"
            ))
        } else {
            StateOutcome::bad(format!(
                "File or directory exists where the hard link {name} should be. Did you mean to use force?"
            ))
        });
    }
    let dir = paths::dirname(&name).to_owned();
    if !paths::is_dir(&dir) {
        if !s.flag("makedirs") {
            return fail(format!("Directory {dir} for hard link is not present"));
        }
        let mode = s.arg("dir_mode").clone();
        make_parents(s, &name, &user, &group, &mode)?;
    }
    if same {
        return Ok(StateOutcome::good(format!(
            "Target of hard link {name} is already pointing to {target}"
        )));
    }
    let mut changes = map! {};
    if is_hardlink {
        remove(&name)?;
    } else if paths::is_file(&name) {
        if !force {
            return fail(format!("File exists where the hard link {name} should be"));
        }
        remove(&name)?;
        changes.set("forced", "File for hard link was forcibly replaced");
    }
    let link = vec![target.as_str().into(), name.as_str().into()];
    if let Err(why) = command_error(s.salt("file.link", link))? {
        let what = if is_hardlink {
            "set target of"
        } else {
            "create new"
        };
        return fail(format!(
            "Unable to {what} hard link {name} -> {target}: {why}"
        ));
    }
    changes.set("new", name.as_str());
    let what = if is_hardlink {
        "Set target of"
    } else {
        "Created new"
    };
    Ok(StateOutcome::good(format!("{what} hard link {name} -> {target}")).changes(changes))
}

/// Whether two paths are the same file.
fn is_same(a: &str, b: &str) -> bool {
    let id = |path: &str| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}

pub(super) fn mknod(s: &mut State<'_, '_>) -> Step {
    let name = named(s, "mknod")?;
    let kind = s.text("ntype").unwrap_or_default();
    let (what, kind_test) = match kind.as_str() {
        "c" => ("character device", "file.is_chrdev"),
        "b" => ("block device", "file.is_blkdev"),
        "p" => ("fifo pipe", "file.is_fifo"),
        _ => {
            return fail(format!(
                "Node type unavailable: '{kind}'. Available node types are character ('c'), block ('b'), and pipe \
                 ('p')"
            ));
        }
    };
    let title = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
    if paths::is_file(&name) {
        return fail(format!(
            "File {name} exists and is not a {what}. Refusing to continue"
        ));
    }
    let path = vec![Value::from(name.as_str())];
    if !s.salt(kind_test, path.clone())?.truthy() {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "{title} {name} is set to be created"
            )));
        }
        let with = s.pick(&["ntype", "major", "minor", "user", "group", "mode"]);
        let made = s.salt_with("file.mknod", path, with)?;
        return Ok(outcome_of(made.into_map().unwrap_or_default()));
    }
    if kind != "p" {
        let numbers = s.salt("file.get_devmm", path)?;
        let shown = |value: &Value| python::str(value);
        let there: Vec<String> = numbers
            .as_array()
            .unwrap_or_default()
            .iter()
            .map(shown)
            .collect();
        let wanted = [shown(s.arg("major")), shown(s.arg("minor"))];
        if there != wanted {
            return fail(format!(
                "{title} {name} exists and has a different major/minor {}. Refusing to continue",
                there.join("/")
            ));
        }
    }
    let perms = Perms {
        user: s.arg("user").clone(),
        group: s.arg("group").clone(),
        mode: s.arg("mode").clone(),
        ..Perms::default()
    };
    let (ret, _) = check_perms(s.call, &name, None, &perms)?;
    let mut outcome = outcome_of(ret);
    if !super::has_changes(&outcome) {
        outcome.comment = format!("{title} {name} is in the correct state");
    }
    Ok(outcome)
}

//! `file.symlink`.

use super::simple::make_parents;
use super::{Step, absolute, command_error, fail, user_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::os;
use halite_modules::execution::file::{
    Stats, SymlinkOptions, gid_to_group, group_to_gid, lchown, paths, remove, rename,
    symlink as link, uid_to_user, user_to_uid,
};
use halite_modules::execution::{CallError, python};
use halite_wire::{Value, map};
use nix::unistd::{Uid, User};

/// A link to require.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub name: String,
    pub target: String,
    pub user: Value,
    pub group: Value,
    /// The mode of directories that are created.
    pub mode: Value,
    pub force: bool,
    pub atomic: bool,
    pub makedirs: bool,
    pub backup: Option<String>,
    pub follow: bool,
}

pub(super) fn symlink(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "symlink")?;
    Link {
        target: s.text("target").unwrap_or_default(),
        user: user_of(s),
        group: s.arg("group").clone(),
        mode: s.arg("mode").clone(),
        force: s.flag("force"),
        atomic: s.flag("atomic"),
        makedirs: s.flag("makedirs"),
        backup: s.text("backupname").filter(|name| !name.is_empty()),
        follow: s.flag("follow_symlinks"),
        name,
    }
    .require(s)
}

impl Link {
    /// Requires the link.
    pub fn require(mut self, s: &mut State<'_, '_>) -> Step {
        self.complete_owner();
        check_owner(&self.user, &self.group)?;
        if s.test {
            return self.test();
        }
        let dir = paths::dirname(&self.name).to_owned();
        if !paths::is_dir(&dir) {
            if !self.makedirs {
                return fail(format!("Directory {dir} for symlink is not present"));
            }
            make_parents(s, &self.name, &self.user, &self.group, &self.mode)?;
        }
        self.apply()
    }

    /// Takes what is not given from the process.
    fn complete_owner(&mut self) {
        if self.user.is_nil() {
            self.user = uid_to_user(Uid::effective().as_raw());
        }
        if self.group.is_nil() {
            self.group = group_of(&self.user);
        }
    }

    /// `user:group` of the link as it is.
    fn owner(&self) -> String {
        Stats::read(&self.name, false).map_or_else(
            |_| String::new(),
            |stats| {
                format!(
                    "{}:{}",
                    python::str(&stats.user()),
                    python::str(&stats.group())
                )
            },
        )
    }

    fn owner_is_right(&self) -> bool {
        Stats::read(&self.name, false)
            .is_ok_and(|stats| stats.is_user(&self.user) && stats.is_group(&self.group))
    }

    fn wanted_owner(&self) -> String {
        format!("{}:{}", python::str(&self.user), python::str(&self.group))
    }

    fn points_right(&self) -> bool {
        paths::readlink(&self.name)
            .is_ok_and(|there| paths::normpath(&there) == paths::normpath(&self.target))
    }

    fn test(&self) -> Step {
        let Link { name, target, .. } = self;
        if paths::is_link(name) {
            // Unlike the real run, as it is written.
            if paths::readlink(name).ok().as_deref() != Some(target) {
                return Ok(StateOutcome::would(format!(
                    "Link {name} target is set to be changed to {target}"
                ))
                .changes(map! {"change" => name.as_str()}));
            }
            if self.owner_is_right() {
                return Ok(StateOutcome::good(format!("The symlink {name} is present")));
            }
            return Ok(StateOutcome::would(format!(
                "The symlink {name} is present, but the ownership of the symlink would be changed from {} to {}",
                self.owner(),
                self.wanted_owner()
            ))
            .changes(map! {"ownership" => self.owner()}));
        }
        if paths::exists(name) {
            return if self.force {
                Ok(StateOutcome::would(format!(
                    "The file or directory {name} is set for removal to make way for a new symlink targeting {target}"
                )))
            } else {
                fail(format!(
                    "File or directory exists where the symlink {name} should be. Did you mean to use force?"
                ))
            };
        }
        let mut text = format!("Symlink {name} to {target} is set for creation");
        let dir = paths::dirname(name);
        if !paths::is_dir(dir) {
            text.push_str(&match self.makedirs {
                true => format!("\n{dir} will be created"),
                false => format!("\nDirectory {dir} for symlink is not present"),
            });
        }
        Ok(StateOutcome::would(text).changes(map! {"new" => name.as_str()}))
    }

    fn apply(&self) -> Step {
        let Link { name, target, .. } = self;
        if paths::is_link(name) {
            if self.points_right() {
                return self.set_owner();
            }
            if !self.atomic {
                remove(name)?;
            }
        } else if paths::exists(name) {
            if let Some(backup) = &self.backup {
                self.back_up(backup)?;
            } else if !self.force && !self.atomic {
                let kind = if paths::is_file(name) {
                    "File"
                } else {
                    "Directory"
                };
                return fail(format!("{kind} exists where the symlink {name} should be"));
            }
        }
        let how = SymlinkOptions {
            force: self.force,
            atomic: self.atomic,
            follow_symlinks: self.follow,
        };
        match link(target, name, how) {
            Err(CallError::Command(why)) => {
                return fail(format!(
                    "Unable to create new symlink {name} -> {target}: {why}"
                ));
            }
            Err(e) if os::is_os_error(&e) => {
                let why = e.message();
                return fail(format!(
                    "Unable to create new symlink {name} -> {target}: {why}"
                ));
            }
            other => other?,
        };
        let mut outcome = StateOutcome::good(format!("Created new symlink {name} -> {target}"))
            .changes(map! {"new" => name.as_str()});
        if !self.owner_is_right() {
            let done = command_error(lchown(name, &self.user, &self.group).or_else(as_command))?;
            if done.is_err() || !self.owner_is_right() {
                outcome.result = Some(false);
                outcome.comment.push_str(&format!(
                    ", but was unable to set ownership to {}",
                    self.wanted_owner()
                ));
            }
        }
        Ok(outcome)
    }

    /// Renames what stands in the way.
    fn back_up(&self, backup: &str) -> Step<()> {
        let Link { name, target, .. } = self;
        let place = if paths::is_abs(backup) {
            backup.to_owned()
        } else if paths::basename(backup) == backup {
            paths::join(paths::dirname(name), backup)
        } else {
            return fail(format!(
                "Backupname must be an absolute path or a file name: {backup}"
            ));
        };
        if paths::lexists(&place) {
            if !self.force {
                return fail(format!(
                    "Symlink & backup dest exists and Force not set. {name} -> {target} - backup: {place}"
                ));
            }
            remove(&place)?;
        }
        match command_error(rename(name, &place))? {
            Ok(()) => Ok(()),
            Err(why) => fail(format!("Unable to rename {name} to {place}: {why}")),
        }
    }

    fn set_owner(&self) -> Step {
        let (name, wanted) = (&self.name, self.wanted_owner());
        if self.owner_is_right() {
            return Ok(StateOutcome::good(format!(
                "Symlink {name} is present and owned by {wanted}"
            )));
        }
        let done = command_error(lchown(name, &self.user, &self.group).or_else(as_command))?;
        if done.is_ok() && self.owner_is_right() {
            Ok(
                StateOutcome::good(format!("Set ownership of symlink {name} to {wanted}"))
                    .changes(map! {"ownership" => wanted}),
            )
        } else {
            fail(format!(
                "Failed to set ownership of symlink {name} to {wanted}"
            ))
        }
    }
}

/// System errors become part of a comment.
fn as_command<T>(fault: CallError) -> Result<T, CallError> {
    Err(match os::is_os_error(&fault) {
        true => CallError::Command(fault.message().to_owned()),
        false => fault,
    })
}

/// Requires that user and group exist, even in test mode.
pub(super) fn check_owner(user: &Value, group: &Value) -> Step<()> {
    let mut wrong = Vec::new();
    if user_to_uid(user).is_none() {
        wrong.push(format!("User {} does not exist", python::str(user)));
    }
    if !group.is_nil() && group_to_gid(group).is_none() {
        wrong.push(format!("Group {} does not exist", python::str(group)));
    }
    match wrong.len() {
        0 => Ok(()),
        1 => fail(wrong.concat()),
        _ => fail(format!("{}.", wrong.join(". "))),
    }
}

/// The primary group of a user.
pub(super) fn group_of(user: &Value) -> Value {
    let uid = user_to_uid(user).and_then(|uid| u32::try_from(uid).ok());
    let found = uid.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    found.map_or(Value::Nil, |user| gid_to_group(user.gid.as_raw()))
}

//! `quota`: quotas of disk space.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell};
use halite_wire::{Map, Value, map};

/// Words that are no options.
const NAMES: &[&str] = &["mount", "device", "user", "group"];

pub(super) const MODULE: Module = Module {
    name: "quota",
    functions: &[
        Function::new(
            "get_mode",
            get_mode,
            "Whether quotas are on for a file system.",
        )
        .args(args![device])
        .names(NAMES),
        Function::new("off", |c| switch(c, "quotaoff"), "Turns quotas off.")
            .args(args![device])
            .names(NAMES),
        Function::new("on", |c| switch(c, "quotaon"), "Turns quotas on.")
            .args(args![device])
            .names(NAMES),
        Function::new("report", report, "The quotas of users and groups.")
            .args(args![mount])
            .names(NAMES),
        Function::new(
            "set",
            set,
            "Sets the limits of a user or a group; those that are not given become 0.",
        )
        .inner("set_")
        .args(args![device])
        .keywords()
        .names(NAMES),
        Function::new("stats", stats, "Statistics of quotas."),
        Function::new(
            "warn",
            |c| {
                shell::run(c, &["quotawarn"])?;
                Ok(Value::Nil)
            },
            "Warns users who are over their quota.",
        ),
    ],
};

fn short() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

fn device(call: &Call<'_>) -> String {
    python::str(call.arg("device"))
}

fn switch(call: &mut Call<'_>, program: &str) -> Result {
    let device = device(call);
    shell::run(call, &[program, &device])?;
    Ok(true.into())
}

fn get_mode(call: &mut Call<'_>) -> Result {
    let device = device(call);
    let mut all = Map::new();
    for line in shell::run(call, &["quotaon", "-p", &device])?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().ok_or_else(short);
        let mount = word(3)?;
        if !all.contains(mount) {
            if word(0)?.starts_with("quotaon") {
                if word(1)?.starts_with("Mountpoint") {
                    all.set(word(4)?, "disabled");
                } else if word(1)?.starts_with("Cannot") {
                    all.set(device, "Not found");
                    return Ok(all.into());
                }
                continue;
            }
            all.set(mount, map! {"device" => word(4)?.replace(['(', ')'], "")});
        }
        if let Some(Value::Map(one)) = all.get_mut(mount) {
            one.set(word(0)?, word(6)?);
        }
    }
    Ok(all.into())
}

const COLUMNS: [&str; 8] = [
    "block-used",
    "block-soft-limit",
    "block-hard-limit",
    "block-grace",
    "file-used",
    "file-soft-limit",
    "file-hard-limit",
    "file-grace",
];

fn parse(text: &str, kind: &str) -> Result<Map> {
    let mut out = map! {kind => Map::new()};
    let mut of_names = Map::new();
    let mut header = true;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if header {
            if line.contains("Block grace time") {
                let (block, inode) = line.split_once(';').ok_or_else(|| {
                    CallError::raised(
                        "ValueError",
                        "not enough values to unpack (expected 2, got 1)",
                    )
                })?;
                for (key, part) in [("Block Grace Time", block), ("Inode Grace Time", inode)] {
                    let last = part.rsplit(": ").next().unwrap_or_default();
                    out.set(key, vec![Value::from(last)]);
                }
            } else if line.starts_with('-') {
                header = false;
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 8 {
            continue;
        }
        let mut one = Map::new();
        for (at, column) in COLUMNS.iter().enumerate() {
            one.set(*column, *words.get(at + 2).ok_or_else(short)?);
        }
        of_names.set(*words.first().ok_or_else(short)?, one);
    }
    out.set(kind, of_names);
    Ok(out)
}

fn report(call: &mut Call<'_>) -> Result {
    let mount = python::str(call.arg("mount"));
    let mut both = Map::new();
    for (key, option, kind) in [
        ("User Quotas", "-u", "Users"),
        ("Group Quotas", "-g", "Groups"),
    ] {
        let text = shell::run(call, &["repquota", "-vp", option, &mount])?;
        both.set(key, parse(&text, kind)?);
    }
    Ok(map! {mount => both}.into())
}

fn set(call: &mut Call<'_>) -> Result {
    let device = device(call);
    let kwargs = call.bound.kwargs.clone();
    let (option, kind, name) = match (kwargs.get("user"), kwargs.get("group")) {
        (Some(_), Some(_)) => {
            let text = "Please specify a user or group, not both.";
            return Err(CallError::Invocation(text.to_owned()));
        }
        (Some(user), None) => ("-u", "User", python::str(user)),
        (None, Some(group)) => ("-g", "Group", python::str(group)),
        (None, None) => {
            return Err(CallError::Command(
                "A valid user or group was not found".to_owned(),
            ));
        }
    };
    // As stock, which asks first.
    shell::run(call, &["repquota", "-vp", option, &device])?;
    let mut limits = Map::new();
    let mut argv = ["setquota", option, &name].map(str::to_owned).to_vec();
    for limit in [
        "block-soft-limit",
        "block-hard-limit",
        "file-soft-limit",
        "file-hard-limit",
    ] {
        let value = kwargs.get(limit).cloned().unwrap_or(0.into());
        argv.push(python::str(&value));
        limits.set(limit, value);
    }
    argv.push(device);
    let ran = shell::run_all(call, &argv)?;
    if ran.retcode != 0 {
        let text = format!(
            "Unable to set desired quota. Error follows: \n{}",
            ran.stderr
        );
        return Err(CallError::Command(text));
    }
    Ok(map! {format!("{kind}: {name}") => limits}.into())
}

fn stats(call: &mut Call<'_>) -> Result {
    let mut all = Map::new();
    for line in shell::run(call, &["quotastats"])?
        .lines()
        .filter(|line| !line.is_empty())
    {
        let mut parts = line.split(": ");
        let key = parts.next().unwrap_or_default();
        all.set(key, parts.next().ok_or_else(short)?);
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports() {
        let text = "*** Report for user quotas on device /dev/x\nBlock grace time: 7days; Inode grace time: 6days\n\
                    User  used\n------\nroot -- 20 0 0 0 2 0 0 0\n";
        let all = parse(text, "Users").unwrap();
        let root = all
            .get("Users")
            .and_then(Value::as_map)
            .and_then(|u| u.get("root"));
        assert_eq!(
            root.and_then(Value::as_map)
                .and_then(|r| r.str("file-used")),
            Some("2")
        );
        assert_eq!(
            all.get("Inode Grace Time"),
            Some(&vec![Value::from("6days")].into())
        );
    }
}

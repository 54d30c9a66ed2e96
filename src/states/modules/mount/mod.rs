//! `mount`: mounts, swap, and the table of file systems.

mod options;
mod table;

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "mount",
    functions: &[
        StateFunction::new(
            "fstab_absent",
            table::absent,
            "Ensures that the table of file systems lacks an entry.",
        )
        .args(args![fs_file, mount_by = None, config = "/etc/fstab"]),
        StateFunction::new(
            "fstab_present",
            table::present,
            "Ensures that the table of file systems has an entry.",
        )
        .args(args![
            fs_file,
            fs_vfstype,
            fs_mntops = "defaults",
            fs_freq = { 0 },
            fs_passno = { 0 },
            mount_by = None,
            config = "/etc/fstab",
            mount = True,
            match_on = "auto",
            not_change = False,
            fs_mount = True
        ]),
        StateFunction::new("mod_watch", mod_watch, "Remounts.")
            .args(args![user = None])
            .keywords(),
        StateFunction::new(
            "mounted",
            mounted,
            "Ensures that a device is mounted, and in the table of file systems.",
        )
        .args(args![
            device,
            fstype,
            mkmnt = False,
            opts = "defaults",
            dump = { 0 },
            pass_num = { 0 },
            config = "/etc/fstab",
            persist = True,
            mount = True,
            user = None,
            match_on = "auto",
            device_name_regex = None,
            extra_mount_invisible_options = None,
            extra_mount_invisible_keys = None,
            extra_mount_ignore_fs_keys = None,
            extra_mount_translate_options = None,
            hidden_opts = None,
            bind_mount_copy_active_opts = True
        ])
        .keywords(),
        StateFunction::new("swap", swap, "Ensures that swap space is in use.")
            .args(args![persist = True, config = "/etc/fstab"]),
        StateFunction::new(
            "unmounted",
            unmounted,
            "Ensures that nothing is mounted there.",
        )
        .args(args![
            device = None,
            config = "/etc/fstab",
            persist = False,
            user = None
        ])
        .keywords(),
    ],
};

/// The path without links, as the kernel names it.
fn real(path: &str) -> String {
    let path = Path::new(path);
    let real = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let real = real.unwrap_or_else(|_| path.to_path_buf());
    real.to_string_lossy().into_owned()
}

/// A mount, with its super block's options.
fn active(s: &mut State<'_, '_>, place: &str) -> Result<Option<Map>> {
    let all = s.salt_with("mount.active", Vec::new(), map! {"extended" => true})?;
    let found = all.as_map().and_then(|all| all.get(place)).cloned();
    Ok(found.and_then(Value::into_map))
}

/// An outcome while it is being made.
struct Report {
    result: Option<bool>,
    comment: String,
    changes: Map,
}

impl Report {
    fn done(self) -> StateOutcome {
        StateOutcome::new(self.result, self.comment).changes(self.changes)
    }

    fn failed(mut self, comment: impl Into<String>) -> StateOutcome {
        self.comment = comment.into();
        self.result = Some(false);
        self.done()
    }

    /// Another sentence.
    fn add(&mut self, text: &str) {
        if !self.comment.is_empty() {
            self.comment.push_str(". ");
        }
        self.comment.push_str(text);
    }
}

/// What a device may be called that is already mounted.
fn names_of(active: &Map) -> Vec<String> {
    let text = |key: &str| active.get(key).filter(|v| v.truthy()).map(python::str);
    let mut names = Vec::new();
    if let Some(device) = text("device") {
        names.push(device.clone());
        names.push(real(&device));
    }
    names.extend(text("alt_device"));
    names.extend(text("device_uuid").map(|id| format!("UUID={id}")));
    names.extend(text("device_label").map(|label| format!("LABEL={label}")));
    names
}

/// Whether a name of the device matches one of the patterns; the name.
fn by_pattern(s: &State<'_, '_>, names: &[String]) -> Option<String> {
    for pattern in s.list("device_name_regex") {
        let pattern = regex::Regex::new(&format!("^(?:{})", python::str(&pattern))).ok()?;
        if let Some(name) = names.iter().find(|name| pattern.is_match(name)) {
            return Some(name.clone());
        }
    }
    None
}

fn given(s: &State<'_, '_>, opts: &[String]) -> Map {
    let mut given = s.pick(&["device", "mkmnt", "fstype", "user"]);
    given.set("opts", opts.to_vec());
    given
}

fn mounted(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let name = match name.trim_end_matches('/') {
        "" => name,
        trimmed => trimmed.to_owned(),
    };
    let place = real(&name);
    let device = s.text("device").unwrap_or_default();
    let opts = options::given(s.arg("opts"));
    let mut report = Report {
        result: Some(true),
        comment: String::new(),
        changes: Map::new(),
    };
    if !s.flag("mount") {
        report.comment = match s.test {
            true => format!("{name} would not be mounted"),
            false => format!("{name} not mounted"),
        };
        return persist(s, &name, &opts, report);
    }
    let mut now = active(s, &place)?;
    if let Some(found) = now.clone() {
        report.comment = "Target was already mounted".to_owned();
        let changed = options::changed(s, &found, &opts);
        if let Some(outcome) = remount(s, &name, &place, &opts, changed, &mut report)? {
            return Ok(outcome);
        }
        let names = names_of(&found);
        let known = names.contains(&device) || names.contains(&real(&device));
        let bind = opts.iter().any(|o| o == "bind" || o == "rbind");
        if !known && !bind && s.flag("device") {
            if let Some(matched) = by_pattern(s, &names) {
                report.comment = format!(
                    "An umount will not be forced because device matched device_name_regex: {matched}"
                );
            } else if s.test {
                report.result = None;
                report.comment = format!(
                    "An umount would have been forced because devices do not match.  Watched: {device}"
                );
            } else {
                let mut shown = names.clone();
                shown.dedup();
                report.changes.set(
                    "umount",
                    format!(
                        "Forced unmount because devices don't match. Wanted: {device}, current: {}",
                        shown.get(..2).unwrap_or(&shown).join(", ")
                    ),
                );
                let args = [Value::from(place.as_str())];
                let out = s.salt_with("mount.umount", args, s.pick(&["user"]))?;
                now = active(s, &place)?;
                if now.is_some() {
                    let why = python::str(&out);
                    return Ok(report.failed(format!("Unable to unmount {place}: {why}.")));
                }
            }
        }
    }
    if now.is_none() {
        if !Path::new(&place).exists() && !s.flag("mkmnt") {
            return Ok(if s.test {
                StateOutcome::would(format!("{name} does not exist and would not be created"))
            } else {
                report.failed("Mount directory is not present")
            });
        }
        if s.test {
            return Ok(StateOutcome::would(if Path::new(&place).exists() {
                format!("{name} would be mounted")
            } else {
                format!("{name} would be created and mounted")
            }));
        }
        let given = given(s, &opts);
        let out = s.salt_with("mount.mount", [Value::from(name.as_str())], given)?;
        if out != Value::Bool(true) {
            let text = python::str(&out);
            return Ok(report.failed(text));
        }
        if active(s, &real(&name))?.is_some() {
            report.comment = "Target was successfully mounted".to_owned();
            report.changes.set("mount", true);
            cache(s, &real(&name), &opts)?;
        }
    }
    persist(s, &name, &opts, report)
}

/// Remembers with which options something is mounted.
fn cache(s: &mut State<'_, '_>, place: &str, opts: &[String]) -> Result<()> {
    let args = [
        Value::from(place),
        s.arg("device").clone(),
        s.arg("mkmnt").clone(),
        s.arg("fstype").clone(),
        opts.to_vec().into(),
    ];
    s.salt("mount.write_mount_cache", args)?;
    Ok(())
}

/// Remounts if options have changed. An outcome ends the state.
fn remount(
    s: &mut State<'_, '_>,
    name: &str,
    place: &str,
    opts: &[String],
    changed: options::Changed,
    report: &mut Report,
) -> Result<Option<StateOutcome>> {
    let cached = s.salt("mount.read_mount_cache", [Value::from(place)])?;
    let cached = cached.as_map().and_then(|c| c.get("opts")).cloned();
    let mut lost = options::given(&cached.unwrap_or_default());
    lost.retain(|o| !opts.contains(o));
    let (test, real) = if !changed.all.is_empty() {
        let all = changed.all.join(",");
        (
            format!("Remount would be forced because options ({all}) changed"),
            all,
        )
    } else if !lost.is_empty() {
        // Stock names another option when it remounts.
        (
            format!(
                "Remount would be forced because options ({})changed",
                lost.join(",")
            ),
            changed.last,
        )
    } else {
        return Ok(None);
    };
    if s.test {
        return Ok(Some(StateOutcome::would(test)));
    }
    let kind = s.text("fstype").unwrap_or_default();
    let again = matches!(kind.as_str(), "nfs" | "cvfs") || kind.starts_with("fuse");
    let args = [Value::from(place)];
    let out = if again {
        s.salt_with("mount.umount", args.clone(), s.pick(&["user"]))?;
        let given = given(s, opts);
        s.salt_with("mount.mount", args, given)?
    } else {
        let given = given(s, opts);
        s.salt_with("mount.remount", args, given)?
    };
    let what = if again {
        "unmount and mount"
    } else {
        "remount"
    };
    report.changes.set(
        "umount",
        format!("Forced {what} because options ({real}) changed"),
    );
    if out != Value::Bool(true) {
        report.comment = format!("{name} could not be remounted: {}", python::str(&out));
        report.result = Some(false);
    } else if !changed.all.is_empty() {
        cache(s, place, opts)?;
    }
    Ok(None)
}

/// Writes the entry of a mount, or tells about it.
fn persist(s: &mut State<'_, '_>, name: &str, opts: &[String], mut report: Report) -> Result {
    if !s.flag("persist") {
        return Ok(report.done());
    }
    let fstype = s.text("fstype").unwrap_or_default();
    // The kernel knows the path without links, but the table is for people.
    let place = if fstype == "swap" { "none" } else { name };
    let mut given = s.pick(&["device", "fstype", "dump", "pass_num", "config", "match_on"]);
    given.set("name", place);
    given.set("opts", opts.to_vec());
    given.set("test", s.test);
    let answer = s.salt_with("mount.set_fstab", Vec::new(), given)?;
    let answer = answer.as_str().unwrap_or_default();
    if s.test {
        let unmounted = !s.flag("mount");
        match answer {
            "present" => report.add("Entry already exists in the fstab."),
            kind => {
                report.result = None;
                report.add(&match (unmounted, kind) {
                    (true, "new") => format!(
                        "{name} needs to be written to the fstab in order to be made persistent."
                    ),
                    (true, _) => format!("The {name} fstab entry must be updated."),
                    (false, "new") => format!(
                        "{name} is mounted, but needs to be written to the fstab in order to be made persistent."
                    ),
                    (false, _) => {
                        format!("{name} is mounted, but its fstab entry must be updated.")
                    }
                });
            }
        }
        return Ok(report.done());
    }
    match answer {
        "present" => report.add("Entry already exists in the fstab."),
        "new" => {
            report.changes.set("persist", "new");
            report.add("Added new entry to the fstab.");
        }
        "change" => {
            report.changes.set("persist", "update");
            report.add("Updated the entry in the fstab.");
        }
        _ => {
            report.result = Some(false);
            report.add("However, the fstab was not found.");
        }
    }
    cache(s, &real(name), opts)?;
    Ok(report.done())
}

fn unmounted(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let (place, device) = (real(&name), s.arg("device").clone());
    let config = s.text("config").unwrap_or_default();
    let mut report = Report {
        result: Some(true),
        comment: "Target was already unmounted".to_owned(),
        changes: Map::new(),
    };
    if active(s, &place)?.is_some() {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "Mount point {name} is mounted but should not be"
            )));
        }
        let given = s.pick(&["device", "user"]);
        let out = s.salt_with("mount.umount", [Value::from(place.as_str())], given)?;
        if out == Value::Bool(true) {
            report.comment = "Target was successfully unmounted".to_owned();
            report.changes.set("umount", true);
            s.salt("mount.delete_mount_cache", [Value::from(place.as_str())])?;
        } else {
            report.comment = python::str(&out);
            report.result = Some(false);
        }
    }
    if !s.flag("persist") {
        return Ok(report.done());
    }
    let table = s.salt("mount.fstab", [Value::from(config.as_str())])?;
    let entry = table
        .as_map()
        .and_then(|t| t.get(&name))
        .and_then(Value::as_map);
    let Some(entry) = entry else {
        report.add("fstab entry not found");
        return Ok(report.done());
    };
    if device.truthy() && entry.get("device") != Some(&device) {
        let device = python::str(&device);
        report.add(&format!("fstab entry for device {device} not found"));
        return Ok(report.done());
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Mount point {name} is unmounted but needs to be purged from {config} to be made persistent"
        )));
    }
    let out = s.salt(
        "mount.rm_fstab",
        [Value::from(name.as_str()), device, config.into()],
    )?;
    if out == Value::Bool(true) {
        report.add("Removed target from fstab");
        report.changes.set("persist", "purged");
    } else {
        report.add(&python::str(&out));
        report.result = Some(false);
    }
    Ok(report.done())
}

fn swap(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let swaps = s.salt("mount.swaps", Vec::new())?;
    let mut report = Report {
        result: Some(true),
        comment: format!("Swap {name} already active"),
        changes: Map::new(),
    };
    if !swaps.as_map().is_some_and(|s| s.contains(&name)) {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "Swap {name} is set to be activated"
            )));
        }
        let out = s.salt("mount.swapon", [Value::from(name.as_str())])?;
        match out.as_map().and_then(|m| m.get("stats")) {
            Some(Value::Map(stats)) => {
                report.comment = format!("Swap {name} activated");
                report.changes = stats.clone();
            }
            _ => {
                report.comment = format!("Swap {name} failed to activate");
                report.result = Some(false);
            }
        }
    }
    if !s.flag("persist") {
        return Ok(report.done());
    }
    let mut given = map! {
        "name" => "none", "device" => name.as_str(), "fstype" => "swap", "opts" => "defaults", "dump" => 0,
        "pass_num" => 0,
    };
    given.set("config", s.arg("config").clone());
    given.set("test", s.test);
    let answer = s.salt_with("mount.set_fstab", Vec::new(), given)?;
    match (s.test, answer.as_str().unwrap_or_default()) {
        (_, "present") => {}
        (true, _) => {
            report.result = None;
            report.add("The fstab entry is set to be written.");
        }
        (_, "new") => {
            report.changes.set("persist", "new");
            report.add("Added new entry to the fstab.");
        }
        (_, "change") => {
            report.changes.set("persist", "update");
            report.add("Updated the entry in the fstab.");
        }
        _ => {
            report.result = Some(false);
            report.add("However, the fstab was not found.");
        }
    }
    Ok(report.done())
}

fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let find = |key: &str| {
        let found = s.low.get(key).cloned();
        found.ok_or_else(|| CallError::raised("KeyError", format!("'{key}'")))
    };
    let watched = python::str(&find("sfun")?);
    if watched != "mounted" {
        return Ok(StateOutcome::good(format!(
            "Watch not supported in {watched} at this time"
        )));
    }
    let (device, fstype, opts) = (find("device")?, find("fstype")?, find("opts")?);
    let mut given = s.pick(&["user"]);
    given.set("device", device);
    given.set("fstype", fstype);
    given.set("opts", opts);
    // Stock remounts in test mode too.
    if s.test {
        return Ok(StateOutcome::would(format!("{name} would be remounted")));
    }
    let out = s.salt_with("mount.remount", [Value::from(name.as_str())], given)?;
    Ok(if out.truthy() {
        StateOutcome::good(format!("{name} remounted"))
    } else {
        StateOutcome::bad(format!("{name} failed to remount: {}", python::str(&out)))
    })
}

//! `raid`: software RAID, through mdadm(8).

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// Words that are no options.
const NAMES: &[&str] = &["name", "device", "devices", "level", "metadata"];

pub(super) const MODULE: Module = Module {
    name: "raid",
    functions: &[
        Function::new("list", |c| Ok(list(c)?.into()), "The arrays of the host.").inner("list_"),
        Function::new(
            "detail",
            |c| {
                let device = python::str(c.arg("device"));
                Ok(detail(c, &device)?.into())
            },
            "What is known about an array and its members.",
        )
        .args(args![device = "/dev/md0"])
        .names(NAMES),
        Function::new("destroy", destroy, "Stops an array and clears its members.")
            .args(args![device])
            .names(NAMES),
        Function::new(
            "stop",
            |c| {
                // As stock: true if it failed.
                Ok((!shell::succeeds(c, &["mdadm", "--stop", "--scan"])?).into())
            },
            "Stops all arrays.",
        ),
        Function::new(
            "create",
            create,
            "Makes an array; in test mode, the command that would.",
        )
        .args(args![
            name,
            level,
            devices,
            metadata = "default",
            test_mode = False
        ])
        .keywords()
        .names(NAMES),
        Function::new(
            "save_config",
            save_config,
            "Writes the arrays to the configuration.",
        ),
        Function::new(
            "assemble",
            assemble,
            "Assembles an array; in test mode, the words of the command that would.",
        )
        .args(args![name, devices, test_mode = False])
        .keywords()
        .names(NAMES),
        Function::new("examine", examine, "What a member says about its array.")
            .args(args![device, quiet = False])
            .names(NAMES),
        Function::new(
            "add",
            |c| {
                let (name, device) = (python::str(c.arg("name")), python::str(c.arg("device")));
                Ok(shell::succeeds(c, &["mdadm", "--manage", &name, "--add", &device])?.into())
            },
            "Adds a device to an array.",
        )
        .args(args![name, device])
        .names(NAMES),
    ],
};

fn list(call: &mut Call<'_>) -> Result<Map> {
    let mut all = Map::new();
    for line in shell::stdout(call, &["mdadm", "--detail", "--scan"])?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.contains(' ') {
            continue;
        }
        let short = || CallError::raised("IndexError", "list index out of range");
        let device = *words.get(1).ok_or_else(short)?;
        let mut one = map! {"device" => device};
        for word in words.iter().skip(2) {
            let mut parts = word.split('=');
            let key = parts.next().unwrap_or_default().to_lowercase();
            one.set(key, parts.next().ok_or_else(short)?);
        }
        all.set(device, one);
    }
    Ok(all)
}

fn detail(call: &mut Call<'_>, device: &str) -> Result<Map> {
    if !Path::new(device).exists() {
        return Err(CallError::Command(format!(
            "Device {device} doesn't exist!"
        )));
    }
    let mut all = Map::new();
    let mut members = Map::new();
    for line in shell::stdout(call, &["mdadm", "--detail", device])?.lines() {
        if line.starts_with(device) || !line.contains(' ') {
            continue;
        }
        if line.contains(':') {
            if let Some((key, value)) = line.split_once(" : ") {
                let value = value.split(" : ").next().unwrap_or_default();
                all.set(key.to_lowercase().trim().replace(' ', "_"), value.trim());
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [number, major, minor, raid_device, state @ .., member] = words.as_slice()
            && line.contains("/dev/")
        {
            members.set(
                *number,
                map! {
                    "device" => *member, "major" => *major, "minor" => *minor, "number" => *number,
                    "raiddevice" => *raid_device, "state" => state.join(" "),
                },
            );
        }
    }
    let mut out = map! {"members" => members};
    out.0.extend(all.0);
    Ok(out)
}

fn is_debian(call: &Call<'_>) -> bool {
    call.ctx.grains.str("os_family") == Some("Debian")
}

fn config(call: &Call<'_>) -> &'static str {
    if is_debian(call) {
        "/etc/mdadm/mdadm.conf"
    } else {
        "/etc/mdadm.conf"
    }
}

/// `re.escape`.
fn escaped(text: &str) -> String {
    regex::escape(text)
}

fn destroy(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let details = match detail(call, &device) {
        Ok(details) => details,
        Err(CallError::Command(_)) => return Ok(false.into()),
        Err(other) => return Err(other),
    };
    if shell::succeeds(call, &["mdadm", "--stop", &device])? {
        let mut argv = ["mdadm", "--zero-superblock"].map(str::to_owned).to_vec();
        let members = details.get("members").and_then(Value::as_map);
        for (_, member) in members.cloned().unwrap_or_default().iter() {
            argv.extend(
                member
                    .as_map()
                    .and_then(|m| m.str("device"))
                    .map(str::to_owned),
            );
        }
        shell::succeeds(call, &argv)?;
    }
    let args = vec![
        config(call).into(),
        format!("ARRAY {} .*", escaped(&device)).into(),
        "".into(),
    ];
    match call.salt("file.replace", args, Map::new()) {
        // There is no configuration.
        Ok(_) | Err(CallError::Invocation(_)) => {}
        Err(other) => return Err(other),
    }
    Ok((!list(call)?.contains(&device)).into())
}

/// The devices of a call.
fn devices(call: &Call<'_>) -> Vec<String> {
    match call.arg("devices") {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        other => other.str_list(),
    }
}

/// `--key value` of the keywords.
fn options(call: &Call<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for (key, value) in call.bound.kwargs.iter() {
        let key = python::str(key);
        if key.starts_with("__") {
            continue;
        }
        out.push(format!("--{key}"));
        if *value != Value::Bool(true) {
            out.push(python::str(value));
        }
    }
    out
}

fn create(call: &mut Call<'_>) -> Result {
    let devices = devices(call);
    let text = |name: &str| python::str(call.arg(name));
    let mut count = i64::try_from(devices.len()).unwrap_or(i64::MAX);
    if let Some(spare) = call.bound.kwargs.get("spare-devices") {
        count = count.saturating_sub(python::int(spare)?);
    }
    let mut argv = [
        "mdadm",
        "-C",
        &text("name"),
        "-R",
        "-v",
        "-l",
        &text("level"),
    ]
    .map(str::to_owned)
    .to_vec();
    argv.extend(options(call));
    argv.extend(["-e", &text("metadata"), "-n", &count.to_string()].map(str::to_owned));
    argv.extend(devices);
    match call.arg("test_mode") {
        Value::Bool(true) => Ok(argv.join(" ").into()),
        Value::Bool(false) => Ok(shell::run(call, &argv)?.into()),
        _ => Ok(Value::Nil),
    }
}

fn assemble(call: &mut Call<'_>) -> Result {
    let mut argv = ["mdadm", "-A", &python::str(call.arg("name")), "-v"]
        .map(str::to_owned)
        .to_vec();
    argv.extend(options(call));
    argv.extend(devices(call));
    match call.arg("test_mode") {
        Value::Bool(true) => Ok(Value::Array(argv.into_iter().map(Value::Str).collect())),
        Value::Bool(false) => Ok(shell::run(call, &argv)?.into()),
        _ => Ok(Value::Nil),
    }
}

/// A line without what Ubuntu's mdadm does not understand there.
fn for_ubuntu(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_inclusive(char::is_whitespace) {
        let lower = word.to_lowercase();
        if lower.starts_with("name=") || lower.starts_with("metadata=") {
            // Its separator was that before it.
            out.truncate(out.trim_end().len());
            out.extend(word.chars().filter(|c| c.is_whitespace()));
        } else {
            out.push_str(word);
        }
    }
    out
}

fn save_config(call: &mut Call<'_>) -> Result {
    let scan = shell::run(call, &["mdadm", "--detail", "--scan"])?;
    let ubuntu = call.ctx.grains.str("os") == Some("Ubuntu");
    let lines: Vec<String> = scan
        .lines()
        .map(|l| if ubuntu { for_ubuntu(l) } else { l.to_owned() })
        .collect();
    let file = config(call);
    let mut seen = Map::new();
    for line in &lines {
        let volume = line.split_whitespace().nth(1);
        let volume =
            volume.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))?;
        seen.set(volume, line.as_str());
    }
    for (volume, line) in seen.iter() {
        let pattern = format!(r"^ARRAY\s+{}\s+.*$", escaped(&python::str(volume)));
        let args = vec![file.into(), pattern.into(), line.clone()];
        match call.salt("file.replace", args, map! {"append_if_not_found" => true}) {
            Ok(_) => {}
            Err(CallError::Invocation(_)) => {
                let all: Vec<Value> = lines.iter().map(|l| Value::from(l.as_str())).collect();
                call.salt("file.write", vec![file.into()], map! {"args" => all})?;
                break;
            }
            Err(other) => return Err(other),
        }
    }
    match call.ctx.grains.str("os_family") {
        Some("Debian") => Ok(shell::run(call, &["update-initramfs", "-u"])?.into()),
        Some("RedHat") => Ok(shell::run(call, &["dracut", "--force"])?.into()),
        _ => Ok(Value::Nil),
    }
}

fn examine(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let quiet = call.flag("quiet");
    let ran = shell::run_all_with(
        call,
        &["mdadm", "-Y", "-E", &device],
        map! {"ignore_retcode" => quiet},
    )?;
    let mut out = Map::new();
    for line in ran.stdout.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        out.set(key, value);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::for_ubuntu;

    #[test]
    fn lines_for_ubuntu() {
        let line = "ARRAY /dev/md0 metadata=1.2 name=h:0 UUID=a:b";
        assert_eq!(for_ubuntu(line), "ARRAY /dev/md0 UUID=a:b");
    }
}

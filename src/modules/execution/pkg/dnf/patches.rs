//! Advisories, and services that need a restart.

use super::{list, program, stdout, to_args};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, program as programs, systemd};
use halite_target::{PyRegex, RegexFlags as Mode};
use halite_wire::map;
use halite_wire::{Map, Value};

pub fn list_patches(call: &mut Call<'_>) -> Result {
    if call.flag("refresh") {
        list::refresh(call, &Map::new(), true)?;
    }
    patches(call).map(Value::from)
}

pub fn list_installed_patches(call: &mut Call<'_>) -> Result {
    let mut all = patches(call)?;
    let is_installed = |patch: &Value| {
        patch
            .as_map()
            .is_some_and(|p| p.get("installed") == Some(&true.into()))
    };
    all.0.retain(|(_, patch)| is_installed(patch));
    Ok(all.into())
}

/// Advisories by id.
///
/// # Errors
/// The program cannot be started.
pub fn patches(call: &mut Call<'_>) -> Result<Map> {
    let text = stdout(call, to_args(&["--quiet", "updateinfo", "list", "all"]))?;
    Ok(read(&text))
}

/// Lines of mark, id, severity and package.
const LINE: &str = r"([i|\s])? ?([^\s]+) +([^\s]+) +([^\s]+)";

fn read(text: &str) -> Map {
    let mode = Mode {
        anchored: true,
        exact: true,
        ..Mode::default()
    };
    let mut all = Map::new();
    let Ok(line) = PyRegex::with_flags(LINE, mode) else {
        return all;
    };
    for text in text.split('\n') {
        let Some(groups) = line.captures(text, 0) else {
            continue;
        };
        let group = |at: usize| {
            let (start, end) = groups.get(at).copied().flatten()?;
            text.get(start..end)
        };
        let (Some(id), Some(package)) = (group(2), group(4)) else {
            continue;
        };
        let installed = group(1) == Some("i");
        match all.get_mut(id) {
            Some(Value::Map(patch)) => {
                if let Some(Value::Array(list)) = patch.get_mut("summary") {
                    list.push(package.into());
                }
                if !installed {
                    patch.set("installed", false);
                }
            }
            _ => {
                let list = vec![package.to_owned()];
                all.set(id, map! {"installed" => installed, "summary" => list});
            }
        }
    }
    all
}

pub fn services_need_restart(call: &mut Call<'_>) -> Result {
    let program = program()?;
    if !program.starts_with("dnf") {
        return Err(CallError::Command(
            "dnf or dnf5 is required to list outdated services.".to_owned(),
        ));
    }
    if !systemd::booted() {
        return Err(CallError::Command(
            "systemd is required to list outdated services.".to_owned(),
        ));
    }
    let text = command_helpers::run_all(call, [program, "--quiet", "needs-restarting"])?.stdout;
    let mut services: Vec<String> = Vec::new();
    for pid in pids(&text) {
        let Some(service) = service_of(pid) else {
            continue;
        };
        if !services.contains(&service) {
            services.push(service);
        }
    }
    Ok(services.into())
}

/// The text before the colon of each line.
fn pids(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .filter_map(|l| l.split_once(':'))
        .map(|(pid, _)| pid.trim())
}

/// The service of a process.
fn service_of(pid: &str) -> Option<String> {
    pid.parse::<u32>().ok()?;
    let ran = programs::run(["systemctl", "--output", "json", "status", pid]).ok()?;
    if !ran.ok() {
        return None;
    }
    let records = ran.stdout.lines().filter(|l| l.starts_with('{'));
    let unit = |line: &str| {
        let record: serde_json::Value = halite_wire::json::parse(line.as_bytes()).ok()?;
        record.get("_SYSTEMD_UNIT")?.as_str().map(str::to_owned)
    };
    let name = records.filter_map(unit).next()?;
    name.strip_suffix(".service").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_are_read() {
        let text = "  HLT-1 Important/Sec. a-2.0-1.noarch\ni HLT-2 bugfix           b-1.6-2.noarch\n\
                    i HLT-1 Important/Sec. c-1-1.noarch\nHLT-3 enhancement d-1-1.noarch\nwords";
        let found = read(text);
        let one = |installed: bool, list: &[&str]| {
            let list: Vec<String> = list.iter().map(|p| (*p).to_owned()).collect();
            map! {"installed" => installed, "summary" => list}
        };
        let wanted = map! {
            "HLT-1" => one(false, &["a-2.0-1.noarch", "c-1-1.noarch"]), "HLT-2" => one(true, &["b-1.6-2.noarch"]),
            "HLT-3" => one(false, &["d-1-1.noarch"]),
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn processes_are_read() {
        let text = "12 : /usr/sbin/sshd -D\n 7: a:b\nwords";
        assert_eq!(pids(text).collect::<Vec<_>>(), ["12", "7"]);
    }
}

//! Custom grains: executables that print a JSON object, in `<extension_modules>/grains` and the directories of
//! `grains_dirs` (docs/own-modules.md).
//!
//! Each has ten seconds, so none can block the minion. They override core grains and are overridden by the
//! configuration.

use crate::programs;
use halite_python::files::is_python_module;
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::path::Path;
use std::time::Duration;

/// Timeout of one executable.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs them ordered by directory and name; later ones override earlier ones.
pub fn collect(opts: &Map) -> Map {
    let mut grains = Map::new();
    for dir in halite_python::files::module_dirs(opts, "grains", "grains_dirs") {
        for path in programs::executables(&dir) {
            if is_python_module("grains", &path) {
                continue;
            }
            match run(&path) {
                Ok(found) => super::add(&mut grains, &super::with_text_keys(found), opts),
                Err(why) => log::error!("{}: ignoring its grains: {why}", path.display()),
            }
        }
    }
    grains
}

fn run(path: &Path) -> Result<Map, String> {
    let done = Helper::new([path.to_string_lossy()])
        .run(TIMEOUT)
        .map_err(|e| e.to_string())?;
    if done.code != 0 {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(format!(
            "it exited with {}: {}",
            done.code,
            stderr.trim_end()
        ));
    }
    let value: Value = halite_wire::json::parse(&done.stdout).map_err(|e| e.to_string())?;
    value
        .into_map()
        .ok_or_else(|| "it did not print a JSON object".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn executables_print_grains() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        put("10-rack", "#!/bin/sh\necho '{\"rack\": 7, \"row\": 1}'\n");
        put("20-row", "#!/bin/sh\necho '{\"row\": 2}'\n");
        put("30-broken", "#!/bin/sh\necho '{\"lost\": 1}'; exit 1\n");
        put("40-words", "#!/bin/sh\necho no json\n");
        put("notes.txt", "not a program");
        let opts =
            halite_wire::map! {"grains_dirs" => vec![Value::from(dir.path().to_str().unwrap())]};
        assert_eq!(collect(&opts), halite_wire::map! {"rack" => 7, "row" => 2});
    }
}

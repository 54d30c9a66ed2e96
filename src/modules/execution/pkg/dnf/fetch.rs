//! Downloading and inspecting package files.

use super::program;
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::pkg::common::names;
use crate::execution::pkg::lowpkg;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

pub fn download(call: &mut Call<'_>) -> Result {
    let names = names(call);
    fetched(call, &names).map(Value::from)
}

fn fetched(call: &mut Call<'_>, packages: &[String]) -> Result<Map> {
    if which("yumdownloader").is_none() {
        return Err(CallError::Command(
            "'yumdownloader' command not available".to_owned(),
        ));
    }
    if packages.is_empty() {
        return Err(CallError::Invocation(
            "No packages were specified".to_owned(),
        ));
    }
    let dir: PathBuf = ["/var/cache", program()?, "packages"].iter().collect();
    let text = dir.to_string_lossy().into_owned();
    std::fs::create_dir_all(&dir).map_err(|e| python::os_error(&e, &text))?;
    for name in files(&dir) {
        if packages.iter().any(|p| name.starts_with(&format!("{p}-"))) {
            let path = dir.join(&name);
            if let Err(error) = std::fs::remove_file(&path) {
                log::error!("cannot remove {}: {error}", path.display());
            }
        }
    }
    let mut argv = vec![
        "yumdownloader".to_owned(),
        "-q".to_owned(),
        format!("--destdir={text}"),
    ];
    argv.extend(packages.iter().cloned());
    command_helpers::run(call, argv)?;
    let mut ret = Map::new();
    for name in files(&dir).iter().filter(|n| n.ends_with(".rpm")) {
        if let Some(package) = packages.iter().find(|p| name.starts_with(&format!("{p}-"))) {
            ret.set(package.clone(), format!("{text}/{name}"));
        }
    }
    if ret.is_empty() {
        return Err(CallError::Command(format!(
            "Unable to download any of the following packages: {}",
            packages.join(", ")
        )));
    }
    let failed: Vec<&str> = packages
        .iter()
        .map(String::as_str)
        .filter(|p| !ret.contains(p))
        .collect();
    if !failed.is_empty() {
        let text = format!(
            "The following package(s) failed to download: {}",
            failed.join(", ")
        );
        ret.set("_error", text);
    }
    Ok(ret)
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

pub fn diff(call: &mut Call<'_>) -> Result {
    lowpkg::diff(call, &Value::Nil, fetched)
}

//! Upgrading all or some packages.

use super::{is_dnf, list, normalized, options, run, split_input, to_args};
use crate::execution::Call;
use crate::execution::command_helpers;
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::failed_upgrade;
use crate::execution::pkg::common::{Targets, targets};
use crate::execution::pkg::rpm::{osarch, packages_by};
use halite_wire::{Map, Value};

/// `pkg.upgrade`, and `pkg.update`, which has other defaults.
pub fn upgrade(call: &mut Call<'_>) -> Result {
    let (dnf, obsoletes) = (is_dnf()?, call.flag("obsoletes"));
    if dnf && !obsoletes {
        let set = call.bound.kwargs.remove("setopt");
        let set = set.map(|v| split_input(&v)).unwrap_or_default();
        let mut set: Vec<String> = set
            .into_iter()
            .filter(|s| !s.starts_with("obsoletes="))
            .collect();
        set.push("obsoletes=False".to_owned());
        call.bound.kwargs.set("setopt", set);
    }
    let mut kwargs = call.bound.kwargs.clone();
    let attr = match call.arg("diff_attr") {
        // `pkg.update` has it among its keywords.
        Value::Nil => kwargs.remove("diff_attr").unwrap_or_default(),
        given => given.clone(),
    };
    if is_true(call.arg("refresh")) {
        let check = kwargs.get("check_update").is_none_or(Value::truthy);
        list::refresh(call, &kwargs, check)?;
    }
    let old = packages_by(call, &attr)?;
    let mut argv = to_args(&["--quiet", "-y"]);
    argv.extend(options(&kwargs, true));
    if call.flag("skip_verify") {
        argv.push("--nogpgcheck".to_owned());
    }
    argv.push(action(dnf || obsoletes, call.flag("minimal")).to_owned());
    argv.extend(requested_packages(call, kwargs)?);
    let ran = run(call, argv, false)?;
    let new = packages_by(call, &attr)?;
    let changes = command_helpers::compare(&old, &new);
    if ran.ok() {
        Ok(changes.into())
    } else {
        Err(failed_upgrade(&ran, changes))
    }
}

/// The packages named by the call.
fn requested_packages(call: &mut Call<'_>, kwargs: Map) -> Result<Vec<String>> {
    let (name, pkgs) = (call.arg("name").clone(), call.arg("pkgs").clone());
    if !name.truthy() && !pkgs.truthy() {
        return Ok(Vec::new());
    }
    let (own, normalize) = (osarch(call), call.flag("normalize"));
    let norm = |n: &str| {
        if normalize {
            normalized(&own, n)
        } else {
            n.to_owned()
        }
    };
    call.bound.kwargs = kwargs;
    Ok(match targets(call, &name, &pkgs, &Value::Nil, &norm)? {
        Targets::Repository(list) => list.into_iter().map(|(n, _)| n).collect(),
        Targets::Advisory(ids) => ids,
        _ => Vec::new(),
    })
}

fn action(upgrade: bool, minimal: bool) -> &'static str {
    match (upgrade, minimal) {
        (true, false) => "upgrade",
        (true, true) => "upgrade-minimal",
        (false, false) => "update",
        (false, true) => "update-minimal",
    }
}

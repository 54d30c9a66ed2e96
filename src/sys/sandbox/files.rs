//! Restricting files and TCP ports, by Landlock.

use super::Sandbox;
use landlock::{
    ABI, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::{Path, PathBuf};

/// The version whose rights are meant; kernels that know fewer of them restrict these.
const RIGHTS: ABI = ABI::V3;

/// Restricts this thread; returns whether the kernel does it. Reading stays free.
pub(super) fn restrict(sandbox: &Sandbox) -> Result<bool, RulesetError> {
    let writing = AccessFs::from_write(RIGHTS);
    // Without this right, which Linux has since 5.19, files could not be moved between directories.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Execute)?
        .scope(Scope::Signal)?;
    if sandbox.writes.is_some() {
        rules = rules.handle_access(writing)?;
    }
    rules = rules.handle_access(AccessNet::BindTcp)?;
    if !sandbox.connects {
        rules = rules.handle_access(AccessNet::ConnectTcp)?;
    }
    let mut rules = rules.create()?;
    match &sandbox.writes {
        Some(paths) => rules = rules.add_rules(path_beneath_rules(with_links(paths), writing))?,
        None => rules = rules.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?,
    }
    for port in &sandbox.binds {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::BindTcp))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// The paths, and where links in these directories lead: an operator may have moved a part of a directory to another disk.
fn with_links(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = paths.to_vec();
    for path in paths {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        all.extend(links.filter_map(|link| target(&link.path())));
    }
    all
}

fn target(link: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(link).ok()
}

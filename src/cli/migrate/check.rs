//! `halite-migrate check`: checks an existing Salt configuration for use with halite.

use super::finding::{Finding, Report, Verdict};
use super::{caches, options, trees};
use halite_config::{
    Inspection, MasterConfig, MinionConfig, Returner, Role, inspect, load_master, load_minion,
};
use halite_modules::beacons;
use std::path::Path;

/// Files next to those of master and minion, and the programs that read them.
const BESIDE: &[(&str, &str)] = &[
    ("proxy", "proxy minions"),
    ("proxy.d", "proxy minions"),
    ("cloud", "salt-cloud"),
    ("cloud.conf.d", "salt-cloud"),
    ("cloud.providers.d", "salt-cloud"),
    ("cloud.profiles.d", "salt-cloud"),
    ("roster", "salt-ssh"),
    ("spm", "spm"),
];

/// Checks the files of these roles in a configuration directory.
pub(super) fn check(dir: &Path, roles: &[Role]) -> Report {
    let mut report = Report::default();
    if let Err(e) = std::fs::read_dir(dir) {
        report.unreadable.push(format!("{}: {e}", dir.display()));
        return report;
    }
    let mut found = false;
    for role in roles {
        match inspect(dir, *role) {
            Err(e) => report.unreadable.push(e.to_string()),
            Ok(seen) if seen.files.is_empty() => continue,
            Ok(seen) => check_role(dir, *role, &seen, &mut report),
        }
        found = true;
    }
    if !found {
        let names: Vec<&str> = roles.iter().map(|r| r.name()).collect();
        let text = format!(
            "{}: there is no file called {}",
            dir.display(),
            names.join(" or ")
        );
        report.unreadable.push(text);
    }
    beside(dir, &mut report);
    report
}

fn check_role(dir: &Path, role: Role, seen: &Inspection, report: &mut Report) {
    options::check(seen, role, report);
    let told: Vec<String> = match role {
        Role::Minion => match load_minion(dir) {
            Ok(config) => minion(config),
            Err(e) => vec![e.to_string()],
        },
        _ => match load_master(dir) {
            Ok(config) => {
                let told = master(&config);
                caches::check(&config, report);
                trees::check(&config, report);
                told
            }
            Err(e) => vec![format!("halite-master does not start with this: {e}")],
        },
    };
    for text in told {
        let Some(finding) = options::sentence(&text, seen) else {
            continue;
        };
        // A sentence about the option as a whole replaces the option's own finding.
        let own = |f: &&mut Finding| {
            f.file == finding.file && f.line == finding.line && f.what == finding.what
        };
        match report.findings.iter_mut().find(own) {
            Some(there) if there.verdict == Verdict::NeedsAction => {
                there.note = format!("{}; {}", there.note, finding.note);
            }
            Some(there) => *there = finding,
            None => report.findings.push(finding),
        }
    }
}

fn master(config: &MasterConfig) -> Vec<String> {
    let mut told = config.warnings.clone();
    told.extend(halite_master::check::faults(config));
    told.extend(crate::master::denials(config));
    told.extend(halite_master::check::capacity(config));
    told
}

fn minion(config: MinionConfig) -> Vec<String> {
    let mut told = config.warnings;
    let known = Returner::ALL.map(Returner::name).join(", ");
    for name in &config.returners {
        if Returner::parse(name).is_none() {
            told.push(format!(
                "return: '{name}' is not available on halite-minion; available are {known}"
            ));
        }
    }
    for (name, _) in config.beacons.iter() {
        let name = name.as_str().unwrap_or_default();
        let own = config.beacons.get(name).and_then(|b| b.as_array());
        let module = own
            .unwrap_or_default()
            .iter()
            .find_map(|part| part.as_map()?.str("beacon_module"));
        let kind = module.unwrap_or(name);
        if name != "enabled" && !beacons::KINDS.contains(&kind) {
            let known = beacons::KINDS.join(", ");
            told.push(format!(
                "beacons: '{name}' is no beacon of halite-minion, which has {known}"
            ));
        }
    }
    told
}

fn beside(dir: &Path, report: &mut Report) {
    for (name, whose) in BESIDE {
        let path = dir.join(name);
        if !path.exists() {
            continue;
        }
        let note = format!("is for {whose}, which halite does not have; stock's goes on");
        let found = Finding::about(Verdict::Ignored, &path, name, note);
        report.findings.push(found);
    }
}

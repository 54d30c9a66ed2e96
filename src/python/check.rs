//! What `--check-config` tells of users' Python files.

use crate::files::{files, installed_salt};
use crate::{HostError, JobHost, Nothing, Scene};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long Python may take to read all files.
const LIMIT: Duration = Duration::from_secs(60);

/// Files that are not used, files that Python cannot compile, and what keeps Python from running. No user's code runs. Without files
/// and without an installed Salt nothing is started.
pub fn faults(opts: &Arc<Map>) -> Vec<String> {
    let files = files(opts);
    let mut out: Vec<String> = files.refused.iter().map(|one| one.why.clone()).collect();
    if files.files.is_empty() && installed_salt(opts).is_none() {
        return out;
    }
    match broken(opts) {
        Ok(found) => out.extend(found.str_list()),
        Err(why) => out.push(format!("Python: {why}")),
    }
    out
}

fn broken(opts: &Arc<Map>) -> Result<Value, HostError> {
    let scene = Scene::new(opts)?;
    JobHost::with_limit(LIMIT).request(&scene, "check", vec![], &mut Nothing)
}

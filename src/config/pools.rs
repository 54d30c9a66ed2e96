//! Worker pools, each for its own commands (`salt/config/worker_pools.py`).

use super::{ConfigError, MasterConfig, finish};
use halite_wire::Value;

/// A worker pool (`worker_pools`, `salt/config/worker_pools.py`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPool {
    /// Its name; part of its socket name.
    pub name: String,
    /// Number of processes.
    pub worker_count: u32,
    /// Commands it answers; `*` stands for every command that no other pool names.
    pub commands: Vec<String>,
}

impl MasterConfig {
    /// The worker pools in effect (`salt/config/worker_pools.py get_worker_pools_config`).
    pub fn pools(&self) -> Vec<WorkerPool> {
        // The pools were validated when the configuration was read.
        let origin = Default::default();
        self.read_pools(&finish::Checks::new(&origin))
            .unwrap_or_default()
    }

    pub(super) fn read_pools(
        &self,
        checks: &finish::Checks,
    ) -> Result<Vec<WorkerPool>, ConfigError> {
        if !self.worker_pools_enabled || self.worker_pools.is_empty() {
            return Ok(vec![WorkerPool {
                name: "default".into(),
                worker_count: self.worker_threads,
                commands: vec!["*".into()],
            }]);
        }
        let bad = |expected: &str| {
            let found = Value::Map(self.worker_pools.clone());
            checks.bad("worker_pools", &found, expected)
        };
        let mut pools: Vec<WorkerPool> = Vec::new();
        for (name, pool) in self.worker_pools.iter() {
            let pool = read_pool(name, pool).ok_or_else(|| {
                bad("a map of pool names (without '/') to maps with a 'worker_count' from 1 and a list of 'commands'")
            })?;
            let taken = |c: &String| pools.iter().any(|p| p.commands.contains(c));
            if let Some(command) = pool.commands.iter().find(|c| taken(c)) {
                return Err(bad(&format!(
                    "pools without a common command ('{command}' is in two)"
                )));
            }
            pools.push(pool);
        }
        if !pools.iter().any(|p| p.commands.iter().any(|c| c == "*")) {
            return Err(bad("pools of which one has the command '*'"));
        }
        Ok(pools)
    }
}

fn read_pool(name: &Value, pool: &Value) -> Option<WorkerPool> {
    let name = name.as_str()?;
    let pool = pool.as_map()?;
    let worker_count = u32::try_from(pool.int("worker_count")?).ok()?;
    let commands = pool.get("commands")?.as_array()?;
    let texts: Vec<String> = commands
        .iter()
        .map(|c| c.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    let named = !name.is_empty() && name != ".." && !name.contains(['/', '\\', '\0']);
    (named && worker_count > 0 && !texts.is_empty()).then(|| WorkerPool {
        name: name.to_owned(),
        worker_count,
        commands: texts,
    })
}

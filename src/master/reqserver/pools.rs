//! Which worker answers which command.

use halite_config::{MasterConfig, WorkerPool};

/// Worker pools: a single one, or those of `worker_pools`.
pub(crate) struct Pools {
    pools: Vec<WorkerPool>,
    named: bool,
}

impl Pools {
    pub(crate) fn new(config: &MasterConfig) -> Pools {
        Pools {
            pools: config.pools(),
            named: config.worker_pools_enabled && !config.worker_pools.is_empty(),
        }
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        self.pools.iter().map(|p| p.worker_count as usize).collect()
    }

    /// Name of a worker as shown in the process list.
    fn worker_name(&self, pool: &WorkerPool, n: u32) -> String {
        if self.named {
            format!("MWorker-{}-{n}", pool.name)
        } else {
            format!("MWorker-{n}")
        }
    }

    /// Names of all workers with the index of their pool.
    fn workers(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.pools
            .iter()
            .enumerate()
            .flat_map(move |(index, pool)| {
                (0..pool.worker_count).map(move |n| (index, self.worker_name(pool, n)))
            })
    }

    /// Names of all workers.
    pub(crate) fn worker_names(&self) -> Vec<String> {
        self.workers().map(|(_, name)| name).collect()
    }

    pub(super) fn of(&self, cmd: &str) -> usize {
        let named = |what: &str| {
            self.pools
                .iter()
                .position(|p| p.commands.iter().any(|c| c == what))
        };
        named(cmd).or_else(|| named("*")).unwrap_or(0)
    }

    pub(super) fn of_worker(&self, name: &[u8]) -> Option<usize> {
        self.workers()
            .find(|(_, known)| known.as_bytes() == name)
            .map(|(pool, _)| pool)
    }
}

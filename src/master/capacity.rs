//! Whether a configuration can serve all accepted keys (`halite-master --check-config`). Pure: the figures are
//! passed in.

use halite_config::MasterConfig;
use halite_sys::host::Host;

/// Descriptors of a process other than for minions: sockets, logs, files being read.
const OWN_FILES: u64 = 100;
/// Open files of the rest of the host.
const OTHER_FILES: u64 = 5000;
/// After a restart minions come back within about a second, and a process may be busy for part of it: the
/// divisor for queues.
const AT_ONCE: u64 = 4;
/// Minions for which one worker is enough: a slow request (pillar, file) delays only these.
const ONE_WORKER: u64 = 100;
/// Minions per worker, if there are processors for more workers.
const PER_WORKER: u64 = 2000;
/// Microseconds of processor time for a sign-in (docs/performance.md).
const SIGN_IN: u64 = 1000;
/// Bytes used by a connected minion in the master's processes and the kernel, without data in transit.
const PER_MINION: u64 = 80 << 10;
/// Bytes of the master without minions.
const OWN_MEMORY: u64 = 64 << 20;

/// What is insufficient for so many accepted keys on this host: the figure, the option, and the remedy.
pub fn warnings(config: &MasterConfig, keys: u64, host: &Host) -> Vec<String> {
    if keys == 0 {
        return Vec::new();
    }
    let mut out = Vec::new();
    files(config, keys, host, &mut out);
    queues(config, keys, host, &mut out);
    workers(config, keys, host, &mut out);
    if let Some(memory) = host.memory {
        let need = OWN_MEMORY + keys * PER_MINION;
        if need > memory / 2 {
            out.push(format!(
                "memory: {keys} accepted keys take about {} MiB when all are connected, and this host has {} MiB; give it more, or share the minions between masters",
                need >> 20,
                memory >> 20
            ));
        }
    }
    let most = u64::from(config.max_minions);
    if most > 0 && keys > most {
        out.push(format!(
            "max_minions: {most} may be connected, and {keys} keys are accepted; raise it, or set it to 0 for no limit"
        ));
    }
    out
}

/// A process has a descriptor for each minion: the publisher all the time, the request server during a minion's
/// requests.
fn files(config: &MasterConfig, keys: u64, host: &Host, out: &mut Vec<String>) {
    let need = keys + OWN_FILES;
    if config.max_open_files < need {
        out.push(format!(
            "max_open_files: {} are too few for {keys} accepted keys, each of which takes a connection in two processes; set it to {need} or more",
            config.max_open_files
        ));
    }
    if let Some((_, hard)) = host.open_files
        && hard < need
    {
        out.push(format!(
            "open files: the system allows {hard} to a process here, and {keys} accepted keys need {need}; raise it for the service by LimitNOFILE={need} in its unit, elsewhere by ulimit -Hn"
        ));
    }
    let need = 2 * keys + OTHER_FILES;
    if let Some(most) = host.file_max
        && most < need
    {
        out.push(format!(
            "open files: the system allows {most} to all processes together, and {keys} accepted keys need {need}; raise it by sysctl fs.file-max={need}"
        ));
    }
}

/// Queues that may hold all minions at once.
fn queues(config: &MasterConfig, keys: u64, host: &Host, out: &mut Vec<String>) {
    let need = keys / AT_ONCE;
    let backlog = u64::try_from(config.zmq_backlog).unwrap_or(u64::MAX);
    if backlog < need {
        out.push(format!(
            "zmq_backlog: {backlog} connections may wait to be accepted, and {keys} minions that come back at once need {need}, or some come seconds later; set it to {need} or more"
        ));
    }
    if let Some(most) = host.backlog
        && most < need
    {
        out.push(format!(
            "zmq_backlog: the system cuts it to {most}, and {keys} minions that come back at once need {need}; raise it by sysctl net.core.somaxconn={need}"
        ));
    }
    let room = u64::from(config.request_queue_limit);
    if room < keys {
        out.push(format!(
            "request_queue_limit: {room} requests of a kind may wait, and {keys} minions sign in at once after a restart; set it to {keys} or more"
        ));
    }
    let room = u64::from(config.event_queue_limit);
    if (1..keys).contains(&room) {
        out.push(format!(
            "event_queue_limit: {room} events may wait for a listener, and a job for all of {keys} minions fires as many; set it to {keys} or more, or slow listeners miss returns"
        ));
    }
}

fn workers(config: &MasterConfig, keys: u64, host: &Host, out: &mut Vec<String>) {
    let (name, workers) = match config.pools().as_slice() {
        [only] => ("worker_threads", u64::from(only.worker_count)),
        pools => (
            "worker_pools",
            pools.iter().map(|p| u64::from(p.worker_count)).sum(),
        ),
    };
    if workers == 1 && keys > ONE_WORKER {
        out.push(format!(
            "{name}: with one worker a pillar or a file holds up {keys} minions; set it to 3 or more"
        ));
    } else if workers < host.cpus && keys > workers.saturating_mul(PER_WORKER) {
        out.push(format!(
            "{name}: {workers} workers for {keys} accepted keys use {workers} of {} processors; set it to {}",
            host.cpus, host.cpus
        ));
    }
    let together = workers.min(host.cpus);
    if together == 0 {
        return;
    }
    let seconds = keys.saturating_mul(SIGN_IN) / together / 1_000_000;
    if seconds > config.request_timeout {
        out.push(format!(
            "request_timeout: {keys} minions take about {seconds} s to sign in with {together} workers at once, and a request is given up after {} s; give the master more processors and workers, or share the minions between masters",
            config.request_timeout
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::Map;
    use std::path::Path;

    /// A host that is large enough for anything.
    const LARGE: Host = Host {
        open_files: Some((1 << 20, 1 << 20)),
        file_max: Some(1 << 24),
        backlog: Some(1 << 16),
        cpus: 4,
        memory: Some(64 << 30),
    };

    fn config(options: Map) -> MasterConfig {
        MasterConfig::from_map(options, Path::new("/etc/halite")).unwrap()
    }

    /// The first words of the warnings.
    fn subjects(options: Map, keys: u64, host: &Host) -> Vec<String> {
        let all = warnings(&config(options), keys, host);
        for warning in &all {
            assert!(warning.contains(&keys.to_string()), "{warning}");
        }
        all.iter()
            .map(|w| w.split(':').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn defaults_serve_thousands_on_a_usual_host() {
        let host = Host {
            open_files: Some((1024, 524_288)),
            file_max: Some(1 << 20),
            backlog: Some(4096),
            cpus: 2,
            memory: Some(4 << 30),
        };
        for keys in [0, 1, 1000, 4000] {
            assert_eq!(subjects(Map::new(), keys, &host), [""; 0], "{keys}");
        }
        assert_eq!(subjects(Map::new(), 10_000, &host), ["zmq_backlog"]);
        let roomy = halite_wire::map! {"zmq_backlog" => 2500};
        assert_eq!(subjects(roomy, 10_000, &host), [""; 0]);
    }

    #[test]
    fn descriptors_are_counted_for_each_minion() {
        let few = halite_wire::map! {"max_open_files" => 1099};
        assert_eq!(subjects(few, 1000, &LARGE), ["max_open_files"]);
        let enough = halite_wire::map! {"max_open_files" => 1100};
        assert_eq!(subjects(enough, 1000, &LARGE), [""; 0]);
        let hard = Host {
            open_files: Some((1024, 1024)),
            ..LARGE
        };
        assert_eq!(subjects(Map::new(), 1000, &hard), ["open files"]);
        assert_eq!(subjects(Map::new(), 900, &hard), [""; 0]);
        let all = Host {
            file_max: Some(6999),
            ..LARGE
        };
        let told = warnings(&config(Map::new()), 1000, &all);
        assert!(told[0].contains("sysctl fs.file-max=7000"), "{told:?}");
    }

    #[test]
    fn queues_hold_all_minions_at_once() {
        let narrow = halite_wire::map! {"zmq_backlog" => 499};
        assert_eq!(subjects(narrow, 2000, &LARGE), ["zmq_backlog"]);
        let low = Host {
            backlog: Some(128),
            ..LARGE
        };
        let told = warnings(&config(Map::new()), 2000, &low);
        assert!(told[0].contains("net.core.somaxconn=500"), "{told:?}");
        let short = halite_wire::map! {"request_queue_limit" => 1999, "event_queue_limit" => 1999};
        assert_eq!(
            subjects(short, 2000, &LARGE),
            ["request_queue_limit", "event_queue_limit"]
        );
    }

    #[test]
    fn workers_use_the_processors() {
        let with = |n: u32| halite_wire::map! {"worker_threads" => n};
        assert_eq!(subjects(with(1), 100, &LARGE), [""; 0]);
        assert_eq!(subjects(with(1), 101, &LARGE), ["worker_threads"]);
        assert_eq!(subjects(with(2), 4000, &LARGE), [""; 0]);
        let told = warnings(&config(with(2)), 4001, &LARGE);
        assert!(
            told[0].ends_with("use 2 of 4 processors; set it to 4"),
            "{told:?}"
        );
        // The number of processors is unknown: nothing to compare with.
        let unknown = Host { cpus: 0, ..LARGE };
        assert_eq!(subjects(with(2), 4001, &unknown), [""; 0]);
        let busy = halite_wire::map! {
            "request_timeout" => 5, "zmq_backlog" => 60_000, "request_queue_limit" => 50_000,
            "event_queue_limit" => 50_000,
        };
        assert_eq!(subjects(busy, 24_001, &LARGE), ["request_timeout"]);
    }

    #[test]
    fn pools_are_counted_together() {
        let pool = |count: u32, commands: &str| {
            halite_wire::map! {"worker_count" => count, "commands" => vec![commands.to_owned()]}
        };
        let pools = halite_wire::map! {"fast" => pool(1, "_auth"), "rest" => pool(1, "*")};
        let options = halite_wire::map! {"worker_pools" => pools, "zmq_backlog" => 5000};
        assert_eq!(subjects(options, 4001, &LARGE), ["worker_pools"]);
    }

    #[test]
    fn memory_and_the_limit_of_minions_count() {
        let small = Host {
            memory: Some(128 << 20),
            ..LARGE
        };
        assert_eq!(subjects(Map::new(), 1000, &small), ["memory"]);
        let limited = halite_wire::map! {"max_minions" => 10};
        assert_eq!(subjects(limited, 11, &LARGE), ["max_minions"]);
    }
}

//! Information about this process, for `daemon_stats`.

use halite_sys::process::stat_fields;
use std::fs;

/// Threads and processor time of a process.
#[derive(Debug, Default)]
pub(super) struct ProcessInfo {
    pub pid: u32,
    /// Names of its threads.
    pub threads: Vec<String>,
    /// Processor time in seconds: `utime`, `stime`, `cutime`, `cstime`.
    pub times: Vec<(&'static str, f64)>,
}

/// Reads it for this process; what cannot be read is left out.
pub(super) fn read() -> ProcessInfo {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut threads: Vec<String> = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    threads.sort_unstable();
    ProcessInfo {
        pid: std::process::id(),
        threads,
        times: times(&stat),
    }
}

/// Clock ticks per second in times from Linux.
const TICKS: f64 = 100.0;

/// The fields 14 to 17 of `/proc/<pid>/stat`.
fn times(stat: &str) -> Vec<(&'static str, f64)> {
    let fields = stat_fields(stat);
    let names = ["utime", "stime", "cutime", "cstime"];
    let seconds = |at: usize| {
        let ticks = fields.get(at).and_then(|text| text.parse::<f64>().ok());
        ticks.unwrap_or(0.0) / TICKS
    };
    let all = names.into_iter().enumerate();
    all.map(|(at, name)| (name, seconds(11 + at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 5 0 0 0 150 25 3 4 20 0 1 0 99 0";
        let times = times(stat);
        let expected = [
            ("utime", 1.5),
            ("stime", 0.25),
            ("cutime", 0.03),
            ("cstime", 0.04),
        ];
        assert_eq!(times, expected);
        let own = read();
        assert_eq!(own.pid, std::process::id());
        assert!(!own.threads.is_empty());
    }
}

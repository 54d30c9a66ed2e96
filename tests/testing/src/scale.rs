//! Helpers for tests of scale: resource usage of a process, and jobs that wait for all replies.

use super::{LONG, Master, wait_for};
use halite::client::local::{Job, LocalClient};
use halite::config::MasterConfig;
use halite::store::Stores;
use halite::sys::procs;
use halite::wire::Value;
use std::time::{Duration, Instant};

/// The process of a gateway, with its CPU time at the last call.
pub struct Gateway {
    pid: u32,
    before: Duration,
}

impl Gateway {
    /// Finds the process with this word in its title.
    pub fn find(master: &Master, word: &str) -> Gateway {
        let process = wait_for("the gateway's process", || {
            let family = procs::family(master.id() as u32).ok()?;
            let named = |title: &str| title.to_lowercase().contains(word);
            family.into_iter().find(|p| named(&p.title))
        });
        let before = procs::cpu(process.pid).unwrap();
        Gateway {
            pid: process.pid,
            before,
        }
    }

    /// CPU time since the last call, in milliseconds.
    pub fn spent(&mut self) -> f64 {
        let now = procs::cpu(self.pid).unwrap();
        let spent = now.saturating_sub(self.before);
        self.before = now;
        spent.as_secs_f64() * 1e3
    }

    /// Proportional set size (PSS) in KiB.
    pub fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).unwrap();
        let line = text.lines().find(|l| l.starts_with("Pss:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// Waits far longer than `wait_until`, for conditions that need thousands of operations.
pub fn patiently(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < 4 * LONG, "{what}: not in {:?}", 4 * LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a job and waits until all these ids have answered; each must have succeeded.
pub fn run(config: &MasterConfig, job: &Job, ids: &[String]) -> Duration {
    let jobs = Stores::open(config).jobs;
    let begin = Instant::now();
    let published = LocalClient::new(config.clone()).publish(job).unwrap();
    assert_eq!(published.minions.len(), ids.len());
    let jid = published.jid.parse().unwrap();
    let returns = wait_for("all have answered", || {
        let job = jobs.get(&jid).unwrap()?;
        (job.returns.len() >= ids.len()).then_some(job.returns)
    });
    let took = begin.elapsed();
    let mut answered: Vec<&str> = returns.iter().map(|r| r.id.as_str()).collect();
    answered.sort_unstable();
    assert_eq!(answered, ids);
    let failed = returns
        .iter()
        .find(|r| r.load.get("success") != Some(&Value::Bool(true)));
    assert!(failed.is_none(), "{failed:?}");
    took
}

/// A job with these fields.
pub fn job(fun: &str, arg: Vec<Value>, tgt: Value, tgt_type: &str) -> Job {
    Job {
        fun: fun.into(),
        arg,
        tgt,
        tgt_type: tgt_type.into(),
        ..Job::default()
    }
}

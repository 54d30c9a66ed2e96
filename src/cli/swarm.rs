//! `halite-swarm`.

use super::common::fail;
use super::start::parse;
use crate::client::swarm::session::MinionKeys;
use crate::client::swarm::stats::{Op, Stats};
use crate::client::swarm::{Options as Settings, Swarm, procs};
use crate::crypto::PrivateKey;
use crate::sys::daemon::{make_dir, write_atomic};
use crate::sys::signals::StopFlag;
use clap::{CommandFactory, Parser, ValueEnum};
use serde_json::json;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HELP: &str = "\
Each simulated minion has its own id, session, request connection and subscription, checks every
signature and nonce, and counts a wrong answer as an error. The master must accept the keys:
set `auto_accept: true` there, or accept them with `halite-key -A` while the swarm waits.

Modes:
  signin   all minions sign in (--rounds N times more, as minions that know their master)
  serve    sign in, then answer test.ping, test.echo, test.arg and saltutil.find_job until Ctrl-C
  ping     as serve, until --jobs jobs have been answered by every minion
  returns  sign in, then send --count returns, --concurrency of them at a time

Examples:
  halite-swarm --master 127.0.0.1 --minions 1000 --mode signin --rounds 3
  halite-swarm --master 127.0.0.1 --minions 1000 --mode serve --seconds 60
      and on the master: halite '*' test.ping
  halite-swarm --master 127.0.0.1 --mode returns --count 100000 --master-pids auto --json

Exit status: 0 if everything was answered rightly, 1 if not, 64 for a wrong command line.";

/// Simulates Salt minions by the thousand, to load a master and to check its answers
#[derive(Parser, Debug)]
#[command(name = "halite-swarm", version, after_help = HELP)]
struct Options {
    /// Host of the master, halite's or a stock one
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    master: String,

    /// Port of the master's request server (its option `ret_port`)
    #[arg(long, value_name = "PORT", default_value_t = 4506)]
    ret_port: u16,

    /// Port of publications; if not given, the one that the master names at sign-in
    #[arg(long, value_name = "PORT")]
    publish_port: Option<u16>,

    /// Number of minions; each takes two open files and about 20 kB
    #[arg(long, value_name = "N", default_value_t = 100)]
    minions: usize,

    /// Ids are PREFIX-0, PREFIX-1, ...
    #[arg(long, value_name = "TEXT", default_value = "sw")]
    prefix: String,

    /// Directory to keep key pairs in from run to run; without it they are made anew, and a
    /// master that knows the ids refuses them
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,

    /// Key pairs that the minions share
    #[arg(long, value_name = "N", default_value_t = 16)]
    key_pool: usize,

    /// What the minions do
    #[arg(long, value_enum, default_value = "serve")]
    mode: Mode,

    /// Mode signin: further sign-ins of each minion
    #[arg(long, value_name = "N", default_value_t = 0)]
    rounds: usize,

    /// Mode ping: jobs to wait for
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u64,

    /// Mode returns: returns to send
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    count: u64,

    /// Mode returns: ask the master for a jid with each return, as `salt-call` does. Stock masters
    /// need this: they fail on returns for jobs that they have not published
    #[arg(long)]
    req: bool,

    /// Requests under way at the same time, for sign-ins and in mode returns
    #[arg(long, value_name = "N", default_value_t = 64)]
    concurrency: usize,

    /// Longest time of each part of the run; mode serve ends then, the others fail
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,

    /// Seconds to wait for one reply before the request is made again
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,

    /// Threads to share the minions among
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Count CPU time of the master's processes too: the pid of its main process, or `auto` for
    /// the owner of the port on this host
    #[arg(long, value_name = "auto|PID")]
    master_pids: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Signin,
    Serve,
    Ping,
    Returns,
}

/// One part of a run.
struct Part {
    op: Op,
    wall: Duration,
    cpu: Option<Duration>,
    complete: bool,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    Options::command()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: Options = match parse() {
        Ok(options) => options,
        Err(status) => return status,
    };
    match perform(&options) {
        Ok(status) => status,
        Err(e) => fail(e, 1),
    }
}

fn perform(options: &Options) -> io::Result<i32> {
    let stop = StopFlag::install()?;
    let mut settings = Settings::new(
        resolve(&options.master, options.ret_port)?,
        options.minions,
        keys(options)?,
    );
    settings.publish_port = options.publish_port;
    settings.prefix.clone_from(&options.prefix);
    settings.subscribe = options.mode != Mode::Signin;
    settings.sign_ins = options.concurrency.max(1);
    settings.timeout = Duration::from_secs(options.timeout.max(1));
    settings.threads = options.threads;
    settings.master_jids = options.req;
    let meter = Meter::new(options)?;
    let limit = Duration::from_secs(options.seconds.unwrap_or(86_400 * 365));
    let minions = options.minions;
    let mut parts = Vec::new();
    let mut swarm = None;
    parts.push(meter.part(Op::SignIn, || {
        let swarm = swarm.insert(Swarm::start(settings)?);
        Ok(swarm.wait(limit, |s| stop.is_set() || s.ready() >= minions) && !stop.is_set())
    })?);
    let Some(swarm) = swarm else { return Ok(1) };
    if parts[0].complete {
        if !options.json && options.mode != Mode::Signin {
            eprintln!("{minions} minions are signed in and listen");
        }
        parts.extend(work(options, &swarm, &meter, &stop, limit)?);
    }
    let stats = swarm.finish()?;
    if options.json {
        println!("{:#}", as_json(options, &parts, &stats));
    } else {
        print!("{}", as_table(options, &parts, &stats));
    }
    let good = parts.iter().all(|p| p.complete) && stats.error_count() == 0;
    Ok(i32::from(!good))
}

fn work(
    options: &Options,
    swarm: &Swarm,
    meter: &Meter,
    stop: &StopFlag,
    limit: Duration,
) -> io::Result<Option<Part>> {
    let until = |done: &dyn Fn(&Swarm) -> bool| {
        Ok(swarm.wait(limit, |s| stop.is_set() || done(s)) && !stop.is_set())
    };
    let minions = options.minions as u64;
    let part = match options.mode {
        Mode::Signin if options.rounds == 0 => return Ok(None),
        Mode::Signin => meter.part(Op::SignInAgain, || {
            swarm.sign_in_again(options.rounds);
            until(&|s| s.signed_in_again() >= minions * options.rounds as u64)
        })?,
        Mode::Serve => {
            let mut part = meter.part(Op::Answer, || until(&|_| false))?;
            part.complete = true;
            part
        }
        Mode::Ping => meter.part(Op::Answer, || {
            until(&|s| s.answered() >= minions * options.jobs)
        })?,
        Mode::Returns => meter.part(Op::Return, || {
            swarm.send_returns(options.count, options.concurrency);
            until(&|s| s.returned() + s.failed() >= options.count)
        })?,
    };
    Ok(Some(part))
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|e| io::Error::new(e.kind(), format!("--master {host}: {e}")))?;
    let mut all: Vec<SocketAddr> = found.collect();
    // A master listens on IPv4 unless told otherwise.
    all.sort_by_key(SocketAddr::is_ipv6);
    all.into_iter().next().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("--master {host}: the name has no address"),
        )
    })
}

/// The pool of keys, from the directory as far as they are there.
fn keys(options: &Options) -> io::Result<Vec<MinionKeys>> {
    let count = options.key_pool.clamp(1, options.minions.max(1));
    if let Some(dir) = &options.keys {
        make_dir(dir, 0o700)?;
    }
    (0..count)
        .map(|n| one_key(options.keys.as_deref(), n))
        .collect()
}

fn one_key(dir: Option<&Path>, n: usize) -> io::Result<MinionKeys> {
    let bad = |e: crate::crypto::CryptoError| io::Error::other(e.to_string());
    let Some(dir) = dir else {
        return Ok(MinionKeys::new(PrivateKey::generate(2048).map_err(bad)?));
    };
    let path = dir.join(format!("pool-{n}.pem"));
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = PrivateKey::from_pem(&text)
                .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
            Ok(MinionKeys::new(key))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let key = PrivateKey::generate(2048).map_err(bad)?;
            write_atomic(&path, key.to_pem().as_bytes(), 0o400)?;
            Ok(MinionKeys::new(key))
        }
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

/// Measures wall time and, if asked to, the master's CPU time.
struct Meter {
    master: Option<u32>,
}

impl Meter {
    fn new(options: &Options) -> io::Result<Meter> {
        let master = match options.master_pids.as_deref() {
            None => None,
            Some("auto") => Some(procs::find_master(options.ret_port)?),
            Some(text) => Some(text.parse().map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("--master-pids {text}: give a process id or `auto`"),
                )
            })?),
        };
        Ok(Meter { master })
    }

    fn cpu(&self) -> io::Result<Option<Duration>> {
        self.master.map(procs::cpu).transpose()
    }

    fn part(&self, op: Op, body: impl FnOnce() -> io::Result<bool>) -> io::Result<Part> {
        let (begun, before) = (Instant::now(), self.cpu()?);
        let complete = body()?;
        let wall = begun.elapsed();
        let cpu = self
            .cpu()?
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        Ok(Part {
            op,
            wall,
            cpu,
            complete,
        })
    }
}

const POINTS: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

fn per_op(cpu: Option<Duration>, count: usize) -> Option<f64> {
    cpu.filter(|_| count > 0)
        .map(|c| c.as_secs_f64() * 1000.0 / count as f64)
}

fn as_json(options: &Options, parts: &[Part], stats: &Stats) -> serde_json::Value {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| {
            let count = stats.count(part.op);
            let latency = stats.percentiles(part.op, &POINTS);
            let at = |n: usize| latency.get(n).copied();
            json!({
                "operation": part.op.name(),
                "complete": part.complete,
                "count": count,
                "wall_seconds": part.wall.as_secs_f64(),
                "per_second": count as f64 / part.wall.as_secs_f64().max(1e-9),
                "latency_ms": {"p50": at(0), "p90": at(1), "p99": at(2), "max": at(3)},
                "master_cpu_ms": part.cpu.map(|c| c.as_secs_f64() * 1000.0),
                "master_cpu_ms_per_operation": per_op(part.cpu, count),
            })
        })
        .collect();
    json!({
        "minions": options.minions,
        "parts": parts,
        "errors": stats.errors,
        "error_count": stats.error_count(),
        "notes": stats.notes,
    })
}

fn as_table(options: &Options, parts: &[Part], stats: &Stats) -> String {
    let mut out = format!(
        "{:<14} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8} {:>12}\n",
        format!("{} minions", options.minions),
        "count",
        "seconds",
        "per s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "CPU ms each"
    );
    for part in parts {
        let count = stats.count(part.op);
        let wall = part.wall.as_secs_f64();
        let latency = stats.percentiles(part.op, &POINTS);
        let at = |n: usize| latency.get(n).map_or("-".into(), |ms| format!("{ms:.2}"));
        let cpu = per_op(part.cpu, count).map_or("-".into(), |ms| format!("{ms:.4}"));
        out.push_str(&format!(
            "{:<14} {:>9} {:>9.3} {:>10.0} {:>8} {:>8} {:>8} {:>8} {:>12}{}\n",
            part.op.name(),
            count,
            wall,
            count as f64 / wall.max(1e-9),
            at(0),
            at(1),
            at(2),
            at(3),
            cpu,
            if part.complete { "" } else { "  INCOMPLETE" }
        ));
    }
    for (what, count) in &stats.notes {
        out.push_str(&format!("note: {count} {what}\n"));
    }
    for (what, count) in &stats.errors {
        out.push_str(&format!("error: {count} x {what}\n"));
    }
    out
}

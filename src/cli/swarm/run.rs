//! A run: sign-in first, then the work of the mode.

use super::keys::{keys, masters};
use super::meter::{Meter, RunPart};
use super::options::{Mode, SwarmArgs};
use super::report::{as_json, as_table};
use halite_client::swarm::answer::grains;
use halite_client::swarm::jobs::{JobRunner, ReturnListener};
use halite_client::swarm::listen::EventListener;
use halite_client::swarm::publish::{JobSpec, Publisher, key_file};
use halite_client::swarm::stats::{Op, Stats};
use halite_client::swarm::work::Work;
use halite_client::swarm::work::events::Events;
use halite_client::swarm::work::files::{FetchMode, Files};
use halite_client::swarm::work::pillar::Pillars;
use halite_client::swarm::{Swarm, SwarmOptions};
use halite_crypto::nonce;
use halite_sys::process::resident;
use halite_sys::signals::StopFlag;
use halite_transport::requester::RequesterOptions;
use halite_transport::tls::{ClientTls, Trust};
use halite_wire::tls::{Authority, TlsOptions};
use halite_wire::{Map, Value};
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job is given up after this many time-outs without an answer.
const PATIENCE: u32 = 3;
/// Default number of events to fire.
const USUAL_EVENTS: u64 = 10_000;

/// Runs all parts, prints the result and returns the exit status.
pub(super) fn perform(options: &SwarmArgs) -> io::Result<i32> {
    let stop = StopFlag::install()?;
    let settings = settings(options)?;
    // Keep waiting, since the master may be starting; but a wrong port must not look like a slow master.
    for master in &settings.masters {
        if let Err(e) = TcpStream::connect_timeout(&master.requests, Duration::from_secs(3)) {
            eprintln!("cannot reach {}: {e}; still trying", master.requests);
        }
    }
    let run = Run {
        options,
        stop: &stop,
        limit: Duration::from_secs(options.seconds.unwrap_or(86_400 * 365)),
        meter: Meter::new(options)?,
    };
    let ears = Listeners::open(options)?;
    let before = resident();
    let mut parts = Vec::new();
    let mut swarm = None;
    parts.push(run.meter.part(&[Op::SignIn], || {
        let swarm = swarm.insert(Swarm::start(settings)?);
        Ok(run.until(swarm, |s| s.ready() >= options.minions))
    })?);
    let Some(swarm) = swarm else { return Ok(1) };
    let grown = resident().saturating_sub(before);
    let mut stats = Stats::default();
    if parts.iter().all(|p| p.complete) {
        if !options.json && options.mode != Mode::Signin {
            eprintln!("{} minions are signed in and listening", options.minions);
        }
        if options.mode == Mode::Restart {
            eprintln!("restart the master now");
        }
        parts.extend(run.work(&swarm, ears, &mut stats)?);
    }
    stats.merge(swarm.finish()?);
    let each = grown / options.minions.max(1) as u64;
    if options.json {
        println!("{:#}", as_json(options, &parts, &stats, each));
    } else {
        print!("{}", as_table(options, &parts, &stats, each));
    }
    let good = parts.iter().all(|p| p.complete) && stats.error_count() == 0;
    Ok(i32::from(!good))
}

fn tls(options: &SwarmArgs) -> Option<ClientTls> {
    Some(ClientTls {
        options: TlsOptions {
            authorities: vec![Authority::File(options.ca.clone()?)],
            ..TlsOptions::default()
        },
        trust: Trust::Host,
    })
}

fn settings(options: &SwarmArgs) -> io::Result<SwarmOptions> {
    let masters = masters(options)?;
    let first = masters[0].requests;
    let mut settings = SwarmOptions::new(first, options.minions, keys(options)?);
    settings.masters = masters;
    settings.transport = options.transport;
    settings.tls = tls(options);
    settings.prefix.clone_from(&options.prefix);
    settings.subscribe = options.mode != Mode::Signin;
    settings.sign_ins = options.concurrency.max(1);
    settings.timeout = Duration::from_secs(options.timeout.max(1));
    settings.threads = options.threads;
    settings.master_jids = options.req;
    settings.record = options.mode == Mode::Jobs;
    settings.come_back = options.mode == Mode::Restart;
    settings.acknowledged.clone_from(&options.acknowledged);
    if settings.come_back || settings.masters.len() > 1 {
        // A master that starts under load answers slowly; the time limit of the run bounds the wait.
        settings.tries = u32::MAX;
    }
    Ok(settings)
}

/// Listeners on the master's bus. They are connected before the minions sign in.
#[derive(Default)]
struct Listeners {
    returns: Option<ReturnListener>,
    events: Option<Arc<Events>>,
    listeners: Vec<EventListener>,
}

impl Listeners {
    fn open(options: &SwarmArgs) -> io::Result<Listeners> {
        let mut ears = Listeners::default();
        if let (Mode::Jobs, Some(dir)) = (options.mode, &options.sock_dir) {
            ears.returns = Some(ReturnListener::open(dir)?);
        }
        if options.mode == Mode::Events {
            let events = Events::new(&nonce(), options.count.unwrap_or(USUAL_EVENTS));
            for _ in 0..options.listeners {
                let dir = options.sock_dir.as_deref().unwrap_or(Path::new(""));
                ears.listeners.push(EventListener::open(dir, &events)?);
            }
            ears.events = Some(events);
        }
        Ok(ears)
    }
}

/// State shared by all parts of a run.
struct Run<'a> {
    options: &'a SwarmArgs,
    stop: &'a StopFlag,
    limit: Duration,
    meter: Meter,
}

impl Run<'_> {
    /// Waits for `done`; returns `false` if the time is up or the run was interrupted.
    fn until(&self, swarm: &Swarm, done: impl Fn(&Swarm) -> bool) -> bool {
        swarm.wait(self.limit, |s| self.stop.is_set() || done(s)) && !self.stop.is_set()
    }

    fn work(&self, swarm: &Swarm, ears: Listeners, stats: &mut Stats) -> io::Result<Vec<RunPart>> {
        let (options, meter) = (self.options, &self.meter);
        let minions = options.minions as u64;
        let part = match options.mode {
            Mode::Signin if options.rounds == 0 => return Ok(Vec::new()),
            Mode::Signin => meter.part(&[Op::SignInAgain], || {
                swarm.sign_in_again(options.rounds);
                Ok(self.until(swarm, |s| {
                    s.signed_in_again() >= minions * options.rounds as u64
                }))
            })?,
            Mode::Serve => {
                let mut part = meter.part(&[Op::Answer], || Ok(self.until(swarm, |_| false)))?;
                part.complete = true;
                part
            }
            Mode::Ping => meter.part(&[Op::Answer], || {
                Ok(self.until(swarm, |s| s.answered() >= minions * options.jobs))
            })?,
            Mode::Jobs => self.jobs(swarm, ears.returns, stats)?,
            Mode::Returns => self.run_work(swarm, &[Op::Return], Work::Returns, 10_000)?,
            Mode::Pillar => {
                let expected = options.expect.as_deref().map(expected).transpose()?;
                let pillars = Arc::new(Pillars::new(&grains(), expected));
                self.run_work(swarm, &[Op::Pillar], Work::Pillars(pillars), 1000)?
            }
            Mode::Files => return self.files(swarm),
            Mode::Events => self.events(swarm, ears, stats)?,
            Mode::Restart => self.restart(swarm)?,
        };
        Ok(vec![part])
    }

    /// Work that minions do on their own, by default `usual` pieces.
    fn run_work(&self, swarm: &Swarm, ops: &[Op], work: Work, usual: u64) -> io::Result<RunPart> {
        let count = self.options.count.unwrap_or(usual);
        self.meter
            .part(ops, || Ok(self.do_work(swarm, work, count)))
    }

    /// Lets the swarm do `count` pieces of work and waits for them.
    fn do_work(&self, swarm: &Swarm, work: Work, count: u64) -> bool {
        let goal = swarm.finished() + swarm.failed() + count;
        swarm.work(work, count, self.options.concurrency);
        self.until(swarm, |s| s.finished() + s.failed() >= goal)
    }

    /// Waits for the master to stop, and then for all minions to be back.
    fn restart(&self, swarm: &Swarm) -> io::Result<RunPart> {
        self.until(swarm, |s| s.away() > 0);
        let ops = [Op::Back, Op::Away, Op::SignInAgain];
        self.meter.part(&ops, || {
            Ok(self.until(swarm, |s| s.back() >= self.options.minions))
        })
    }

    fn files(&self, swarm: &Swarm) -> io::Result<Vec<RunPart>> {
        let options = self.options;
        let file = options.file.as_deref().unwrap_or_default();
        if !options.chunk {
            let files = Arc::new(Files::new(file, &options.saltenv, FetchMode::Whole));
            let ops = [Op::File, Op::FileRequest];
            return Ok(vec![self.run_work(
                swarm,
                &ops,
                Work::Files(files),
                1000,
            )?]);
        }
        let reference = Arc::new(Files::new(file, &options.saltenv, FetchMode::Reference));
        let first = self.meter.part(&[Op::FileRequest], || {
            Ok(self.do_work(swarm, Work::Files(reference.clone()), 1) && swarm.failed() == 0)
        })?;
        if !first.complete {
            return Ok(vec![first]);
        }
        let (size, pieces) = reference.size();
        if pieces == 0 {
            return Err(io::Error::other(format!(
                "{file} is empty: it has no chunks"
            )));
        }
        if !options.json {
            eprintln!("{file} has {size} bytes in {pieces} chunks");
        }
        let files = Arc::new(reference.portions(FetchMode::Piece));
        Ok(vec![self.run_work(
            swarm,
            &[Op::FileRequest],
            Work::Files(files),
            1000,
        )?])
    }

    fn events(&self, swarm: &Swarm, ears: Listeners, stats: &mut Stats) -> io::Result<RunPart> {
        let Some(events) = ears.events else {
            return Err(io::Error::other("mode events without events"));
        };
        let count = self.options.count.unwrap_or(USUAL_EVENTS);
        let patience = Duration::from_secs(self.options.timeout.max(1)) * PATIENCE;
        let part = self.meter.part(&[Op::Event, Op::EventHeard], || {
            let fired = self.do_work(swarm, Work::Events(events), count);
            // An event is acknowledged before listeners have it.
            Ok(fired
                && ears
                    .listeners
                    .iter()
                    .all(|l| l.wait(count, patience, &|| self.stop.is_set())))
        })?;
        for listener in ears.listeners {
            stats.merge(listener.finish()?);
        }
        Ok(part)
    }

    fn jobs(
        &self,
        swarm: &Swarm,
        bus: Option<ReturnListener>,
        stats: &mut Stats,
    ) -> io::Result<RunPart> {
        let options = self.options;
        let file = options.key_file.clone();
        let file = file.unwrap_or_else(|| key_file(&options.cachedir));
        let key = std::fs::read_to_string(&file)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", file.display())))?;
        let timeout = Duration::from_secs(options.timeout.max(1));
        let master = masters(options)?[0].requests;
        let client = RequesterOptions {
            transport: options.transport,
            tls: tls(options),
            ..RequesterOptions::default()
        };
        let order = JobSpec {
            fun: options.fun.clone(),
            arg: options.arg.clone(),
            tgt: options.target.clone(),
            tgt_type: options.target_type.clone(),
        };
        let publisher = Publisher::new(master, &key, timeout, client);
        let mut jobs = JobRunner::new(swarm, publisher, order, timeout * PATIENCE, bus);
        let end = Instant::now().checked_add(self.limit);
        let over = || self.stop.is_set() || end.is_some_and(|e| Instant::now() > e);
        let part = self
            .meter
            .part(&[Op::Job, Op::Answer, Op::ReturnHeard], || {
                for _ in 0..options.jobs {
                    if over() || !jobs.run(&over)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
        stats.merge(jobs.finish()?);
        part
    }
}

/// Reads a pillar from a JSON file.
fn expected(path: &Path) -> io::Result<Map> {
    let bad = |e: String| io::Error::other(format!("--expect {}: {e}", path.display()));
    let text = std::fs::read(path).map_err(|e| bad(e.to_string()))?;
    halite_wire::json::parse::<Value>(&text)
        .map_err(|e| bad(e.to_string()))?
        .into_map()
        .ok_or_else(|| bad("it is not a map".into()))
}

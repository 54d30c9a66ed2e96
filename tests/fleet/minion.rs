//! A network that misbehaves, between a halite minion and its master, for ten thousand jobs.
//!
//! A relay before both ports understands ZMTP, so that it can do to whole messages what networks and
//! middle boxes do: it delays them, sends them twice, ends the connection before or in the middle of
//! one. Publications are cut only between rounds: a publication that nobody hears is no job of the
//! minion's (the CLI tells it as `[Lost]`, see tests/stock/interop/mod.rs).

use halite::client::local::Job;
use halite::sys::procs;
use halite::wire::ids::Jid;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testing::harness::{Master, eventually};

const ROUNDS: usize = 50;
const JOBS: usize = 200;
/// Bytes of a ZMTP 3 greeting.
const GREETING: usize = 64;

/// What may happen to a message, in thousandths.
#[derive(Clone, Copy)]
struct Chances {
    cut: u32,
    truncate: u32,
    twice: u32,
    delay: u32,
}

/// Relays a port and does what [`Chances`] say.
struct Relay {
    port: u16,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    done: Arc<Done>,
}

/// How often each thing was done.
#[derive(Default)]
struct Done {
    cut: AtomicU64,
    truncated: AtomicU64,
    twice: AtomicU64,
    delayed: AtomicU64,
}

impl Relay {
    fn before(port: u16, chances: Chances) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            port: listener.local_addr().unwrap().port(),
            streams: Arc::default(),
            done: Arc::default(),
        };
        let (streams, done) = (relay.streams.clone(), relay.done.clone());
        std::thread::spawn(move || {
            for (seed, inner) in listener.incoming().flatten().enumerate() {
                let Ok(outer) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let mut kept = streams.lock().unwrap();
                for (way, (from, to)) in
                    [(&inner, &outer), (&outer, &inner)].into_iter().enumerate()
                {
                    kept.extend(from.try_clone());
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (done, seed) = (done.clone(), (seed * 2 + way) as u64);
                    std::thread::spawn(move || {
                        let _ = carry(&from, &to, chances, StdRng::seed_from_u64(seed), &done);
                        for stream in [from, to] {
                            let _ = stream.shutdown(Shutdown::Both);
                        }
                    });
                }
            }
        });
        relay
    }

    /// Ends all connections.
    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Carries one direction of a connection until it ends or chance has it.
fn carry(
    mut from: &TcpStream,
    mut to: &TcpStream,
    chances: Chances,
    mut rng: StdRng,
    done: &Done,
) -> io::Result<()> {
    // In parts: each side says no more before it has heard the other.
    let mut left = GREETING;
    let mut greeting = [0; GREETING];
    while left > 0 {
        let n = from.read(&mut greeting[..left])?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&greeting[..n])?;
        left -= n;
    }
    loop {
        let (message, is_command) = message(from)?;
        if is_command {
            to.write_all(&message)?;
            continue;
        }
        let mut happens = |chance: u32| rng.gen_range(0..1000) < chance;
        let note = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
        if happens(chances.delay) {
            note(&done.delayed);
            std::thread::sleep(Duration::from_millis(20));
        }
        if happens(chances.cut) {
            note(&done.cut);
            return Ok(());
        }
        if happens(chances.truncate) {
            note(&done.truncated);
            return to.write_all(&message[..message.len() / 2]);
        }
        if happens(chances.twice) {
            note(&done.twice);
            to.write_all(&message)?;
        }
        to.write_all(&message)?;
    }
}

/// The frames of one message, or a command of the protocol itself.
fn message(mut from: &TcpStream) -> io::Result<(Vec<u8>, bool)> {
    const MORE: u8 = 1;
    const LONG: u8 = 2;
    const COMMAND: u8 = 4;
    let mut all = Vec::new();
    loop {
        let mut flags = [0];
        from.read_exact(&mut flags)?;
        let mut size = vec![0; if flags[0] & LONG == 0 { 1 } else { 8 }];
        from.read_exact(&mut size)?;
        let octets = size.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        let mut body = vec![0; octets];
        from.read_exact(&mut body)?;
        all.extend([&flags[..], &size, &body].concat());
        if flags[0] & MORE == 0 {
            return Ok((all, flags[0] & COMMAND != 0));
        }
    }
}

/// The process, and its log.
struct Minion(Child, PathBuf);

impl Minion {
    fn start(dir: &Path, publish_port: u16, ret_port: u16) -> Minion {
        std::fs::create_dir_all(dir).unwrap();
        let text = format!(
            "root_dir: {root}\nid: m\nmaster: 127.0.0.1\npublish_port: {publish_port}\nmaster_port: {ret_port}\n\
             acceptance_wait_time: 1\nrandom_reauth_delay: 0\nauth_timeout: 2\nrequest_channel_timeout: 1\n\
             return_retry_timer: 1\nreturn_retry_timer_max: 1\nrecon_default: 50\nrecon_max: 100\nprocess_count_max: 8\n\
             minion_jid_queue_hwm: 1000\nlog_level: quiet\nlog_level_logfile: info\nlog_file: {root}/log\n",
            root = dir.display()
        );
        std::fs::write(dir.join("minion"), text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_halite-minion"))
            .arg("-c")
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Minion(child, dir.join("log"))
    }

    /// Says of each thread of the minion and its jobs what it waits for.
    fn tell_waits(&self) {
        for process in procs::family(self.0.id()).unwrap_or_default() {
            let place = PathBuf::from(format!("/proc/{}", process.pid));
            let read = |file: PathBuf| std::fs::read_to_string(file).unwrap_or_default();
            let line = read(place.join("cmdline")).replace('\0', " ");
            eprintln!("--- process {}: {line:.100}", process.pid);
            for thread in std::fs::read_dir(place.join("task"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let told = |name: &str| read(thread.path().join(name)).trim().to_owned();
                eprintln!("{}: {}, {}", told("comm"), told("wchan"), told("syscall"));
            }
        }
    }

    /// Bytes of resident memory of the minion itself.
    fn memory(&self) -> u64 {
        let own = procs::family(self.0.id()).unwrap();
        own.iter()
            .filter(|p| p.pid == self.0.id())
            .map(|p| p.resident)
            .sum()
    }
}

impl Drop for Minion {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell_waits();
        }
        testing::harness::send(self.0.id(), nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.1).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(100)..];
            eprintln!("--- end of the minion's log:\n{}\n---", end.join("\n"));
        }
    }
}

#[test]
fn no_job_is_lost_or_done_twice() {
    let master = Master::start("");
    // Publications must not vanish in a round, so their line only delays and repeats.
    let heard = Relay::before(
        master.publish_port,
        Chances {
            cut: 0,
            truncate: 0,
            twice: 10,
            delay: 10,
        },
    );
    let asked = Relay::before(
        master.ret_port,
        Chances {
            cut: 2,
            truncate: 2,
            twice: 10,
            delay: 10,
        },
    );
    let dir = master.dir.path().join("minion-m");
    let minion = Minion::start(&dir, heard.port, asked.port);
    let (mut client, store) = (
        master.client(),
        halite::store::Stores::open(&master.config()).jobs,
    );
    let mut publish = |arg: Vec<halite::wire::Value>, fun: &str| {
        let job = Job {
            fun: fun.into(),
            arg,
            tgt: "m".into(),
            tgt_type: "glob".into(),
            ..Job::default()
        };
        client.publish(&job).unwrap()
    };
    let returned = |jid: &str| {
        let jid: Jid = jid.parse().unwrap();
        store.get(&jid).unwrap().map_or(0, |job| job.returns.len())
    };
    eventually("the minion answers", || {
        let published = publish(Vec::new(), "test.ping");
        std::thread::sleep(Duration::from_millis(200));
        !published.jid.is_empty() && returned(&published.jid) == 1
    });

    let file = dir.join("done");
    let mut memory = Vec::new();
    for round in 0..ROUNDS {
        let mut waiting: Vec<String> = (0..JOBS)
            .map(|n| {
                // One short write to the end of a file cannot mix with another.
                let line = format!("echo {round}.{n} >> {}", file.display());
                publish(vec![line.into()], "cmd.run").jid
            })
            .collect();
        eventually(&format!("all jobs of round {round} return"), || {
            waiting.retain(|jid| returned(jid) == 0);
            waiting.is_empty()
        });
        memory.push(minion.memory());
        if round % 5 == 0 {
            heard.cut();
            eventually("publications are heard again", || {
                let published = publish(Vec::new(), "test.ping");
                std::thread::sleep(Duration::from_millis(100));
                returned(&published.jid) == 1
            });
        }
    }

    let mut times: HashMap<String, usize> = HashMap::new();
    for line in std::fs::read_to_string(&file).unwrap().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, n)| **n != 1).collect();
    assert_eq!(
        (times.len(), twice),
        (ROUNDS * JOBS, Vec::new()),
        "each job is done once"
    );
    // A minion that rests gives memory back, so that single figures say little.
    let most = |rounds: std::ops::Range<usize>| memory[rounds].iter().copied().max().unwrap();
    let early = most(ROUNDS / 5..2 * ROUNDS / 5);
    let late = most(ROUNDS - ROUNDS / 5..ROUNDS);
    assert!(
        late < early + early / 4 + (2 << 20),
        "memory grows from {early} to {late}: {memory:?}"
    );
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let done = &asked.done;
    let faults = [&done.cut, &done.truncated, &done.twice, &done.delayed].map(count);
    eprintln!(
        "requests: {} cut, {} truncated, {} twice, {} delayed; publications: {} twice, {} delayed; memory {early} to {late}",
        faults[0],
        faults[1],
        faults[2],
        faults[3],
        count(&heard.done.twice),
        count(&heard.done.delayed)
    );
    assert!(
        faults.iter().all(|n| *n > 0),
        "the relay did nothing: {faults:?}"
    );
}

//! Periodic work of the file server, in a thread of Maintenance: a hanging remote must not delay the rotation
//! of the AES key (`salt/master.py FileserverUpdate`).

use super::events::Bus;
use halite_config::MasterConfig;
use halite_store::files::git::GitFs;
use halite_store::files::{RootsWatch, backend_names, clear_lists, expire_hashes};
use halite_sys::signals::StopFlag;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
const TIDY: Duration = Duration::from_secs(3600);

/// Starts the thread.
pub(super) fn start(config: &MasterConfig, stop: &StopFlag) -> std::io::Result<JoinHandle<()>> {
    let (config, stop) = (config.clone(), stop.clone());
    let thread = std::thread::Builder::new().name("file server".into());
    thread.spawn(move || Updates::new(config).run(&stop))
}

struct Updates {
    bus: Bus,
    git: Option<Git>,
    roots: Option<(RootsWatch, Option<Instant>)>,
    config: MasterConfig,
}

struct Git {
    fs: GitFs,
    /// Interval and time of the last fetch, per remote.
    clock: Vec<(Duration, Option<Instant>)>,
}

impl Updates {
    fn new(config: MasterConfig) -> Updates {
        let names = backend_names(&config);
        let git = names.contains(&"gitfs").then(|| {
            let fs = GitFs::new(&(&config).into());
            let intervals = fs.intervals().into_iter();
            let clock = intervals.map(|n| (Duration::from_secs(n), None)).collect();
            Git { fs, clock }
        });
        let watched = config.fileserver_events && names.contains(&"roots");
        Updates {
            bus: Bus::new(&config),
            git,
            roots: watched.then(|| (RootsWatch::default(), None)),
            config,
        }
    }

    fn run(&mut self, stop: &StopFlag) {
        let mut tidied: Option<Instant> = None;
        while !stop.is_set() {
            self.git(stop);
            self.roots();
            if tidied.is_none_or(|at| at.elapsed() >= TIDY) {
                tidied = Some(Instant::now());
                expire_hashes(&self.config.file_hashes());
            }
            std::thread::sleep(TICK);
        }
    }

    fn git(&mut self, stop: &StopFlag) {
        let Some(git) = &mut self.git else { return };
        let due = |(interval, last): &(Duration, Option<Instant>)| {
            last.is_none_or(|at| at.elapsed() >= *interval)
        };
        let clock = git.clock.iter().enumerate();
        let which: Vec<usize> = clock.filter(|(_, c)| due(c)).map(|(at, _)| at).collect();
        if which.is_empty() {
            return;
        }
        let gone = git.fs.prune();
        let changed = git.fs.update(&which, Some(stop)) || gone;
        for at in which {
            git.clock[at].1 = Some(Instant::now());
        }
        if changed && let Err(e) = clear_lists(&self.config.cachedir, &["gitfs".into()], None) {
            log::warn!("cached file lists could not be removed: {e}");
        }
        if self.config.fileserver_events {
            let data = halite_wire::map! {"changed" => changed, "backend" => "gitfs"};
            self.bus.fire("salt/fileserver/gitfs/update", data);
        }
    }

    fn roots(&mut self) {
        let Some((watch, last)) = &mut self.roots else {
            return;
        };
        let interval = Duration::from_secs(self.config.roots_update_interval.max(1));
        if last.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        *last = Some(Instant::now());
        let data = watch.scan(&self.config);
        self.bus.fire("salt/fileserver/roots/update", data);
    }
}

//! Fetches and starts modules in threads of their own, so that the loop never waits for them.

use super::board::{Board, ModuleEvent};
use super::engine::{Engine, Host};
use super::files::{Address, Fetcher};
use super::session::Launch;
use crossbeam_channel::{Sender, TrySendError};
use halite_channel::session::lock;
use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Modules that are fetched and started at the same time.
const THREADS: usize = 4;
/// Modules that may be queued, for files from the master and for others each.
const WAITING: usize = 4096;

/// State shared by the threads.
struct LauncherState {
    engine: Arc<dyn Engine>,
    board: Arc<Board>,
    fetcher: Fetcher,
    events: Sender<ModuleEvent>,
    wanted: Mutex<HashSet<u64>>,
}

/// Fetches and starts modules.
pub(super) struct Launcher {
    state: Arc<LauncherState>,
    orders: Sender<Launch>,
    /// The queue of modules whose files come from the master.
    salted: Sender<Launch>,
}

impl Launcher {
    /// Starts the threads; they stop when this value is dropped.
    ///
    /// # Errors
    /// No more threads can be created.
    pub fn new(
        engine: Arc<dyn Engine>,
        board: Arc<Board>,
        fetcher: Fetcher,
        events: Sender<ModuleEvent>,
    ) -> io::Result<Launcher> {
        let (orders, taken) = crossbeam_channel::bounded(WAITING);
        let (salted, from_master) = crossbeam_channel::bounded(WAITING);
        let state = Arc::new(LauncherState {
            engine,
            board,
            fetcher,
            events,
            wanted: Mutex::default(),
        });
        // Files are requested from the master one after the other; while it is silent, all others go on.
        let queues = std::iter::repeat_n(taken, THREADS).chain([from_master]);
        for taken in queues {
            let state = state.clone();
            std::thread::Builder::new()
                .name("launcher".into())
                .spawn(move || taken.iter().for_each(|launch| state.launch(launch)))?;
        }
        Ok(Launcher {
            state,
            orders,
            salted,
        })
    }

    /// Queues a launch; the result arrives as an event. `false` if the queue is full.
    pub fn order(&self, launch: Launch) -> bool {
        let serial = launch.serial;
        lock(&self.state.wanted).insert(serial);
        let queue = match launch.address {
            Address::Salt(_) => &self.salted,
            Address::Local(_) | Address::Web(..) => &self.orders,
        };
        match queue.try_send(launch) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.cancel(serial);
                false
            }
        }
    }

    /// Cancels a launch. `true` if that was in time: there will be no result. Else there will be one.
    pub fn cancel(&self, serial: u64) -> bool {
        lock(&self.state.wanted).remove(&serial)
    }
}

impl LauncherState {
    fn launch(&self, launch: Launch) {
        let (uuid, serial) = (launch.spec.uuid.clone(), launch.serial);
        let Some(how) = self.start(launch) else {
            return;
        };
        if self
            .events
            .send(ModuleEvent::Launched(uuid, serial, how))
            .is_err()
        {
            log::debug!("a module was launched after the runtime had ended");
        }
    }

    /// The result of a launch; `None` if it was cancelled.
    fn start(&self, launch: Launch) -> Option<Result<(), String>> {
        let Launch {
            serial,
            address,
            mut spec,
        } = launch;
        let wanted = || lock(&self.wanted).contains(&serial);
        if !wanted() {
            return None;
        }
        let most = spec.limits.code;
        let fetched = guarded("fetching", || self.fetcher.fetch(&address, most, &wanted));
        // From here on it cannot be cancelled; a module that is started now can be ended.
        if !lock(&self.wanted).remove(&serial) {
            return None;
        }
        match fetched {
            Ok(code) => spec.code = code,
            Err(why) => return Some(Err(why)),
        }
        let (uuid, stdin) = (spec.uuid.clone(), spec.stdin);
        let number = self.board.expect(&uuid);
        let host: Arc<dyn Host> = self.board.clone();
        let started = guarded("the start", || self.engine.start(spec, host));
        Some(match started {
            Ok(running) => {
                self.board.attach(&uuid, number, Arc::from(running), stdin);
                Ok(())
            }
            Err(why) => {
                self.board.detach(&uuid);
                Err(why)
            }
        })
    }
}

/// Turns a panic into an error: without a result nobody would ever be answered.
fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(format!("{what} failed because of a bug in this program")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Publication, Unsent};
    use crate::runtime::board::{Broker, Streams};
    use crate::runtime::engine::{Figures, Limits, Running, Spec};
    use crate::runtime::files::Address;
    use crate::wire::{Scheme, Topics};
    use crossbeam_channel::Receiver;
    use std::time::Duration;

    struct Nobody;

    impl Broker for Nobody {
        fn has_room(&self, _: usize) -> bool {
            true
        }

        fn publish(&self, _: Publication) -> Result<(), Unsent> {
            Ok(())
        }

        fn subscribe(&self, _: &str) {}

        fn unsubscribe(&self, _: &str) {}
    }

    struct Idle;

    impl Running for Idle {
        fn stop(&self) {}

        fn deliver(&self, _: &str, _: &bytes::Bytes) {}

        fn input(&self, _: &bytes::Bytes) {}

        fn wait_for_room(&self, _: usize) {}

        fn figures(&self) -> Figures {
            Figures::default()
        }
    }

    /// Starts a module for each message on the channel; refuses anything that is not a module.
    struct Slow(Receiver<()>);

    impl Engine for Slow {
        fn apis(&self) -> &[&'static str] {
            &["wasm"]
        }

        fn start(&self, spec: Spec, _: Arc<dyn Host>) -> Result<Box<dyn Running>, String> {
            assert!(!spec.code.starts_with(b"fault"), "an engine with a fault");
            let _ = self.0.recv();
            if spec.code.starts_with(b"module") {
                Ok(Box::new(Idle))
            } else {
                Err("no module".to_owned())
            }
        }
    }

    fn launch(serial: u64, file: &str) -> Launch {
        Launch {
            serial,
            address: Address::Local(file.parse().unwrap()),
            spec: Spec {
                uuid: format!("m{serial}").parse().unwrap(),
                code: Vec::new(),
                argv: Vec::new(),
                program: String::new(),
                env: Vec::new(),
                channels: Vec::new(),
                stdin: false,
                limits: Limits {
                    memory: 0,
                    table_elements: 0,
                    open_files: 0,
                    waiting_messages: 0,
                    message: 0,
                    messages_per_second: 0,
                    output_per_second: 0,
                    code: 100,
                },
            },
        }
    }

    #[test]
    fn modules_are_fetched_and_started_unless_they_are_cancelled_before() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "module").unwrap();
        std::fs::write(dir.path().join("noise.wasm"), "noise").unwrap();
        let (go, words) = crossbeam_channel::unbounded();
        let (sender, events) = crossbeam_channel::unbounded();
        let topics = Topics::new("realm", Scheme::Draft).unwrap();
        let board = Board::new(topics, Streams::One, Arc::new(Nobody), sender.clone());
        let board = Arc::new(board);
        let fetcher = Fetcher {
            module_dir: dir.path().to_owned(),
            salt: None,
            patience: Duration::from_secs(10),
        };
        let engine = Arc::new(Slow(words));
        let launcher = Launcher::new(engine, board.clone(), fetcher, sender).unwrap();
        // All threads are busy: the next launch waits.
        for serial in 1..=4 {
            assert!(launcher.order(launch(serial, "a.wasm")));
        }
        while !lock(&launcher.state.wanted).is_empty() {
            std::thread::yield_now();
        }
        assert!(!launcher.cancel(1), "it is being started");
        assert!(launcher.order(launch(5, "a.wasm")));
        assert!(launcher.cancel(5));
        assert!(launcher.order(launch(6, "noise.wasm")));
        assert!(launcher.order(launch(7, "none.wasm")));
        for _ in 0..5 {
            go.send(()).unwrap();
        }
        let told: Vec<_> = (0..6).map(|_| events.recv().unwrap()).collect();
        let how = |wanted: u64| {
            told.iter().find_map(|event| match event {
                ModuleEvent::Launched(_, serial, how) if *serial == wanted => Some(how.clone()),
                _ => None,
            })
        };
        for serial in 1..=4 {
            assert_eq!(how(serial), Some(Ok(())));
            let uuid = format!("m{serial}").parse().unwrap();
            assert!(board.running(&uuid).is_some());
        }
        assert_eq!(how(5), None);
        assert_eq!(how(6), Some(Err("no module".to_owned())));
        assert!(how(7).unwrap().unwrap_err().contains("file not found"));
        assert!(events.is_empty());
    }

    #[test]
    fn a_fault_costs_one_module_and_no_thread() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("fault.wasm"), "fault").unwrap();
        let (_go, words) = crossbeam_channel::unbounded();
        let (sender, events) = crossbeam_channel::unbounded();
        let topics = Topics::new("realm", Scheme::Draft).unwrap();
        let board = Board::new(topics, Streams::One, Arc::new(Nobody), sender.clone());
        let board = Arc::new(board);
        let fetcher = Fetcher {
            module_dir: dir.path().to_owned(),
            salt: None,
            patience: Duration::from_secs(10),
        };
        let launcher = Launcher::new(Arc::new(Slow(words)), board, fetcher, sender).unwrap();
        // More than there are threads.
        for serial in 1..=2 * THREADS as u64 {
            assert!(launcher.order(launch(serial, "fault.wasm")));
            match events.recv().unwrap() {
                ModuleEvent::Launched(_, told, Err(why)) => {
                    assert_eq!(told, serial);
                    assert!(why.contains("a bug in this program"), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

//! Masters.

use super::config::Home;
use super::harness::send;
use super::ports::{Ports, listens};
use super::process::Process;
use super::{Cli, Stock, halite_program, short_dir, wait_until};
use halite::sys::procs;
use halite_ipc::Subscriber;
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::process::Command;

/// A master in its own directory; dropping it stops its processes.
pub struct Master {
    // Fields are dropped in this order: the process before its directory.
    process: Option<Process>,
    program: PathBuf,
    /// Its directories.
    pub home: Home,
    /// Port for publications.
    pub publish_port: u16,
    /// Port for requests.
    pub ret_port: u16,
    dir: tempfile::TempDir,
}

impl Master {
    /// Starts `halite-master` with further lines of configuration.
    pub fn halite(extra: &str) -> Master {
        Master::start(halite_program("halite-master"), extra)
    }

    /// Starts a stock master with further lines of configuration.
    pub fn stock(stock: &Stock, extra: &str) -> Master {
        Master::start(stock.program("salt-master"), extra)
    }

    /// Starts the master at the path `program`, with further lines of configuration.
    pub fn start(program: PathBuf, extra: &str) -> Master {
        Master::start_prepared(program, extra, |_| ())
    }

    /// Starts `halite-master` with further lines of configuration, and with what `prepare` puts into its directories before.
    pub fn halite_prepared(extra: &str, prepare: impl FnOnce(&Home)) -> Master {
        Master::start_prepared(halite_program("halite-master"), extra, prepare)
    }

    fn start_prepared(program: PathBuf, extra: &str, prepare: impl FnOnce(&Home)) -> Master {
        let dir = short_dir();
        let home = Home::create(dir.path().join("m"), "master");
        let ports = Ports::hold(2);
        let numbers = ports.numbers();
        let (publish_port, ret_port) = (numbers[0], numbers[1]);
        let user = nix::unistd::User::from_uid(nix::unistd::getuid())
            .ok()
            .flatten()
            .map_or("root".into(), |u| u.name);
        home.write(&format!(
            "root_dir: {root}\ninterface: 127.0.0.1\npublish_port: {publish_port}\nret_port: {ret_port}\n\
             user: {user}\nworker_threads: 2\nloop_interval: 1\nlog_level: info\n{extra}\n",
            root = home.root().display()
        ));
        let mut master = Master {
            process: None,
            program,
            home,
            publish_port,
            ret_port,
            dir,
        };
        prepare(&master.home);
        ports.release();
        master.start_again();
        master
    }

    /// Starts it again in the same directory, after [`Master::stop`].
    pub fn start_again(&mut self) {
        let temporary = self.home.root().join("tmp");
        std::fs::create_dir_all(&temporary).expect("a directory can be made");
        let mut command = Command::new(&self.program);
        command
            .arg("-c")
            .arg(self.home.config_dir())
            .args(["-l", "info"])
            .env("TMPDIR", temporary);
        let name = format!("master {}", self.program.display());
        let mut process = Process::start(&name, &mut command, &self.home.log());
        let bus = self.bus();
        wait_until(&format!("{name} serves"), || {
            process.must_live();
            listens(self.publish_port)
                && listens(self.ret_port)
                && Subscriber::connect(&bus).is_ok()
        });
        self.process = Some(process);
    }

    /// After [`Master::stop`]: starts another program for the same minions, with directories named `product`.
    pub fn go_on_as(&mut self, program: PathBuf, product: &'static str) {
        self.program = program;
        self.home = self.home.beside(product);
        self.start_again();
    }

    /// Ends it in order and starts another program in its place.
    pub fn replace(&mut self, program: PathBuf) {
        self.terminate();
        self.program = program;
        self.start_again();
    }

    /// Stops it and waits until all its processes are gone.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// Adds lines to its configuration, which count from the next start on.
    pub fn add_lines(&self, lines: &str) {
        let path = self.home.config_dir().join("master");
        let mut all = std::fs::read_to_string(&path).expect("it has a configuration");
        // Each option once.
        let name = |line: &str| line.split_once(':').map(|(name, _)| name.to_owned());
        let new: Vec<_> = lines.lines().filter_map(name).collect();
        all = all
            .lines()
            .filter(|line| name(line).is_none_or(|name| !new.contains(&name)))
            .chain(lines.lines())
            .map(|line| format!("{line}\n"))
            .collect();
        std::fs::write(&path, all).expect("it can be written");
    }

    /// Ends it with SIGTERM to the main process alone, as a service manager does.
    pub fn terminate(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate();
        }
    }

    /// Ends all its processes with SIGKILL.
    pub fn kill(&mut self) {
        if self.process.is_some() {
            self.signal_all(Signal::SIGKILL);
        }
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::SIGKILL);
            process.stop();
        }
    }

    /// Stops all its processes as on a machine that hangs; [`Master::resume`] lets them go on.
    pub fn pause(&self) {
        self.signal_all(Signal::SIGSTOP);
    }

    /// Lets all its processes go on.
    pub fn resume(&self) {
        self.signal_all(Signal::SIGCONT);
    }

    /// Each role is a process group of its own. The main process comes first, so that it starts none meanwhile.
    fn signal_all(&self, signal: Signal) {
        let main = u32::try_from(self.id()).expect("it runs");
        let found = procs::family(main).expect("processes can be listed");
        found.iter().for_each(|one| send(one.pid, signal));
    }

    /// The socket on which it publishes events.
    pub fn bus(&self) -> PathBuf {
        self.home.sockets().join("master_event_pub.ipc")
    }

    /// Process id of the main process.
    pub fn id(&self) -> i32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    /// Whether this is a stock master.
    pub fn is_stock(&self) -> bool {
        self.program.ends_with("salt-master")
    }

    /// Directory for the minions of this master.
    pub fn place(&self, id: &str) -> PathBuf {
        self.dir.path().join(id)
    }

    /// The tools of halite for this master.
    pub fn halite_cli(&self) -> Cli {
        Cli::halite(self.home.config_dir())
    }

    /// The tools of a stock release for this master.
    pub fn stock_cli(&self, stock: &Stock) -> Cli {
        Cli::stock(stock, self.home.config_dir())
    }

    /// Its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.log()).unwrap_or_default()
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::tail)
    }
}

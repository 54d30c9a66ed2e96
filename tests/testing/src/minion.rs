//! Minions.

use super::config::Home;
use super::process::Process;
use super::{Master, Stock, halite_program};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A minion in its own directory; dropping it stops its processes.
pub struct Minion {
    process: Process,
    program: PathBuf,
    /// Its id.
    pub id: String,
    /// Its directories.
    pub home: Home,
}

impl Minion {
    /// Starts a stock minion at `master`, with further lines of configuration.
    pub fn stock(stock: &Stock, master: &Master, id: &str, extra: &str) -> Minion {
        Minion::start(stock.program("salt-minion"), master, id, extra)
    }

    /// Starts `halite-minion` at `master`, with further lines of configuration.
    pub fn halite(master: &Master, id: &str, extra: &str) -> Minion {
        Minion::start(halite_program("halite-minion"), master, id, extra)
    }

    /// Starts the minion at the path `program`, with further lines of configuration.
    pub fn start(program: PathBuf, master: &Master, id: &str, extra: &str) -> Minion {
        let home = Home::create(master.place(id), "minion");
        home.write(&format!(
            "root_dir: {root}\nid: {id}\nmaster: 127.0.0.1\nmaster_port: {}\npublish_port: {}\n\
             acceptance_wait_time: 1\nrandom_reauth_delay: 1\nrecon_default: 100\nrecon_max: 500\n\
             enable_fqdns_grains: false\nenable_gpu_grains: false\nlog_level: info\n{extra}\n",
            master.ret_port,
            master.publish_port,
            root = home.root().display()
        ));
        Minion {
            process: launch(&program, id, &home),
            program,
            id: id.into(),
            home,
        }
    }

    /// Ends it with SIGTERM, as a service manager does.
    pub fn terminate(&mut self) {
        self.process.terminate();
    }

    /// Starts a stock minion again that has ended by itself without an error: now and then one does when its connection is closed,
    /// since `Minion.tune_in` takes any RuntimeError for the end. Panics with its log if it has ended otherwise.
    pub fn must_live_or_start_again(&mut self) {
        let left = self.process.status().is_some_and(|status| status.success());
        if left && self.program.ends_with("salt-minion") {
            eprintln!(
                "the stock minion {} has ended by itself; it is started again",
                self.id
            );
            self.process = launch(&self.program, &self.id, &self.home);
        }
        self.process.must_live();
    }

    /// Panics with its log if it has exited.
    pub fn must_live(&mut self) {
        self.process.must_live();
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        self.process.tail()
    }
}

fn launch(program: &Path, id: &str, home: &Home) -> Process {
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(home.config_dir())
        .args(["-l", "info"]);
    Process::start(&format!("minion {id}"), &mut command, &home.log())
}

//! Minions.

use super::config::Home;
use super::process::Process;
use super::{Master, Stock, halite_program};
use std::path::PathBuf;
use std::process::Command;

/// A minion in its own directory; dropping it stops its processes.
pub struct Minion {
    process: Process,
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
        let mut command = Command::new(&program);
        command
            .arg("-c")
            .arg(home.config_dir())
            .args(["-l", "info"]);
        let process = Process::start(&format!("minion {id}"), &mut command, &home.log());
        Minion {
            process,
            id: id.into(),
            home,
        }
    }

    /// Ends it with SIGTERM, as a service manager does.
    pub fn terminate(&mut self) {
        self.process.terminate();
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

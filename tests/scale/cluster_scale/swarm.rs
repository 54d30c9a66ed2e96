//! Programs that simulate many minions.

use halite::wire::ids::Jid;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::Process;
use testing::scale::patiently;
use testing::{Master, halite_program};

/// Simulated minions of some masters, and the list of what was acknowledged to them.
pub struct Swarm {
    pub process: Process,
    acknowledged: PathBuf,
}

impl Swarm {
    /// Starts it; minions begin at these masters in turn.
    pub fn start(dir: &Path, masters: &[Master], name: &str, words: &[&str]) -> Swarm {
        let place =
            |master: &Master| format!("127.0.0.1:{}:{}", master.ret_port, master.publish_port);
        let places: Vec<String> = masters.iter().map(place).collect();
        let acknowledged = dir.join(format!("{name}.acknowledged"));
        let mut command = Command::new(halite_program("halite-swarm"));
        command
            .args([
                "--master",
                &places.join(","),
                "--prefix",
                name,
                "--timeout",
                "5",
            ])
            .arg("--acknowledged")
            .arg(&acknowledged)
            .args(words);
        let process = Process::start(name, &mut command, &dir.join(format!("{name}.log")));
        Swarm {
            process,
            acknowledged,
        }
    }

    /// Ends it; what it has printed. It must have found no fault in what masters said.
    pub fn finish(mut self) -> (String, Vec<(Jid, String)>) {
        self.process.terminate();
        let said = self.process.output();
        let status = self.process.status().expect("it has ended");
        assert!(status.success(), "{said}");
        let list = std::fs::read_to_string(&self.acknowledged).expect("there is a list");
        let line = |line: &str| {
            let (jid, id) = line.split_once(' ').expect("a jid and an id");
            (jid.parse().expect("a jid"), id.to_owned())
        };
        (said, list.lines().map(line).collect())
    }

    /// Waits for its end, which must be a success; what it has printed.
    pub fn run(mut self) -> String {
        patiently("the swarm is done", || self.process.status().is_some());
        let said = self.process.output();
        let status = self.process.status().expect("it has ended");
        assert!(status.success(), "{said}");
        said
    }
}

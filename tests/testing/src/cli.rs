//! Command line tools, with a time limit.

use super::process::Process;
use super::{Stock, halite_program};
use serde_json::{Map, Value};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit; a tool that takes longer counts as hanging.
const LIMIT: Duration = Duration::from_secs(90);

/// The tools of halite or of a stock release, for one configuration directory.
#[derive(Clone, Debug)]
pub struct Cli {
    /// Name for messages: `halite` or `stock 3008`.
    pub name: String,
    stock: Option<Stock>,
    config_dir: PathBuf,
}

/// The result of running a tool.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The command line.
    pub line: String,
    /// Exit status; `None` if it was killed by a signal or by the limit.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// How long it took.
    pub took: Duration,
}

impl Cli {
    /// The tools of halite.
    pub fn halite(config_dir: PathBuf) -> Cli {
        Cli {
            name: "halite".into(),
            stock: None,
            config_dir,
        }
    }

    /// The tools of a stock release.
    pub fn stock(stock: &Stock, config_dir: PathBuf) -> Cli {
        Cli {
            name: format!("stock {}", stock.series),
            stock: Some(stock.clone()),
            config_dir,
        }
    }

    /// Whether these are halite's tools.
    pub fn is_halite(&self) -> bool {
        self.stock.is_none()
    }

    /// The command for a tool by its stock name (`salt`, `salt-key`, `salt-run`, ...).
    pub fn command(&self, tool: &str) -> Command {
        let program = match &self.stock {
            Some(stock) => stock.program(tool),
            None => halite_program(&tool.replacen("salt", "halite", 1)),
        };
        let mut command = Command::new(program);
        command.arg("-c").arg(&self.config_dir);
        command
            .env("PYTHONUNBUFFERED", "1")
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "200");
        command
    }

    /// Runs a tool until it exits.
    pub fn run(&self, tool: &str, args: &[&str]) -> Ran {
        let mut command = self.command(tool);
        command.args(args);
        let line = format!("{} [{}] {}", tool, self.name, args.join(" "));
        run(command, line, LIMIT)
    }

    /// `salt`.
    pub fn salt(&self, args: &[&str]) -> Ran {
        self.run("salt", args)
    }

    /// `salt ... --out=json`: what each minion returned.
    pub fn ask(&self, args: &[&str]) -> Result<Map<String, Value>, String> {
        let mut all = args.to_vec();
        all.push("--out=json");
        self.salt(&all).returns()
    }

    /// `salt-key`.
    pub fn key(&self, args: &[&str]) -> Ran {
        self.run("salt-key", args)
    }

    /// `salt-run`.
    pub fn runner(&self, args: &[&str]) -> Ran {
        self.run("salt-run", args)
    }
}

/// Runs a command. Its output goes to files, so that it never blocks on a full pipe.
pub fn run(mut command: Command, line: String, limit: Duration) -> Ran {
    let dir = super::short_dir();
    let [out, err] = ["out", "err"].map(|name| dir.path().join(name));
    let begun = Instant::now();
    command.stdout(create(&out)).stderr(create(&err));
    let mut process = Process::start_quiet(&line, &mut command, &err);
    let status = loop {
        if let Some(status) = process.status() {
            break status.code();
        }
        if begun.elapsed() > limit {
            process.stop();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran {
        line,
        status,
        out: read(&out),
        err: read(&err),
        took: begun.elapsed(),
    }
}

fn create(path: &Path) -> File {
    File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn read(path: &Path) -> String {
    std::fs::read(path).map_or_else(
        |_| String::new(),
        |b| String::from_utf8_lossy(&b).into_owned(),
    )
}

impl Ran {
    /// Its output, if it exited with status 0.
    pub fn ok(self) -> Result<String, String> {
        match self.status {
            Some(0) => Ok(self.out),
            _ => Err(self.describe()),
        }
    }

    /// The JSON objects that it printed, merged.
    pub fn returns(&self) -> Result<Map<String, Value>, String> {
        let mut all = Map::new();
        for value in serde_json::Deserializer::from_str(&self.out).into_iter::<Value>() {
            match value {
                Ok(Value::Object(map)) => all.extend(map),
                _ => return Err(self.describe()),
            }
        }
        Ok(all)
    }

    /// Its standard output, which must be one JSON value.
    pub fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.out).map_err(|e| format!("{e}: {}", self.describe()))
    }

    /// The whole result, for messages.
    pub fn describe(&self) -> String {
        format!(
            "`{}` ended with {:?} after {:?}\nstdout: {}\nstderr: {}",
            self.line, self.status, self.took, self.out, self.err
        )
    }
}

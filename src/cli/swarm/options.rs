//! Options of `halite-swarm`.

use crate::common::key_type_parser;
use clap::{Parser, ValueEnum};
use halite_crypto::KeyType;
use halite_wire::Transport;
use std::path::PathBuf;

/// Shown by `--help` below the options.
const HELP: &str = "\
Each simulated minion has its own id, session, request connection and subscription, checks every
signature and nonce, and counts a wrong answer as an error. The master must accept the keys:
set `auto_accept: true` there, or accept them with `halite-key -A` while the swarm waits.

Modes:
  signin   all minions sign in (--rounds N times more, as minions that know their master)
  serve    sign in, then answer test.ping, test.echo, test.arg and saltutil.find_job until Ctrl-C
  ping     as serve, until --jobs jobs have been answered by every minion
  jobs     publish --jobs jobs, one after another, as a client on the master's host would; each
           must be answered by every minion that the master names
  returns  sign in, then send --count returns, --concurrency of them at a time
  pillar   ask for --count pillars; a minion must get the same one each time
  files    fetch --file --count times and hold it against its hash, or with --chunk one piece
           of it --count times
  events   fire --count events, which --listeners listeners must hear
  restart  sign in and wait until somebody restarts the master; then all must be back: subscribed
           again, and known to the master

Examples:
  halite-swarm --master 127.0.0.1 --minions 1000 --mode signin --rounds 3
  halite-swarm --master 127.0.0.1 --minions 1000 --mode serve --seconds 60
      and on the master: halite '*' test.ping
  halite-swarm --minions 1000 --mode jobs --jobs 20 --cachedir /var/cache/salt/master \\
      --sock-dir /var/run/salt/master --master-pids auto
  halite-swarm --master 127.0.0.1 --mode returns --count 100000 --master-pids auto --json
  halite-swarm --minions 10000 --mode restart
      and on the master: systemctl restart halite-master
  halite-swarm --master m1,m2,m3 --minions 9000 --mode serve --acknowledged returns.txt
      and on one of the masters, again and again: halite '*' test.ping

Exit status: 0 if everything was answered rightly, 1 if not, 64 for a wrong command line.";

/// Simulates thousands of Salt minions, to load a master and to check its answers
#[derive(Parser, Debug)]
#[command(name = "halite-swarm", version, after_help = HELP)]
pub(super) struct SwarmArgs {
    /// Host of the master, halite or stock; several with commas, each as HOST,
    /// HOST:RET_PORT or HOST:RET_PORT:PUBLISH_PORT. Minions begin at them in turn,
    /// and go to another one if theirs refuses connections or does not answer
    #[arg(
        long,
        value_name = "HOST,...",
        default_value = "127.0.0.1",
        value_delimiter = ','
    )]
    pub master: Vec<String>,

    /// Port of the master's request server (its option `ret_port`), if --master does not name it
    #[arg(long, value_name = "PORT", default_value_t = 4506)]
    pub ret_port: u16,

    /// Protocol of both ports: zeromq, tcp or ws
    #[arg(long, value_name = "NAME", default_value = "zeromq", value_parser = transport)]
    pub transport: Transport,

    /// The ports have TLS: file with the certificates to trust (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Port for publications; by default the one that the master names at sign-in
    #[arg(long, value_name = "PORT")]
    pub publish_port: Option<u16>,

    /// Sign in as halite's minions do, with AES-256-GCM afterwards; the master must be halite's
    #[arg(long)]
    pub noise: bool,

    /// Type of the keys: `rsa`, or `ed25519`, which is for the handshake alone
    #[arg(long, value_name = "TYPE", default_value = "rsa", value_parser = key_type_parser())]
    pub key_type: KeyType,

    /// Number of minions; each needs two open files and about 20 kB. For more than 25000, name several addresses of the
    /// master: to one, a host has 64000 ports at most, and soon looks long for a free one
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub minions: usize,

    /// Ids are PREFIX-0, PREFIX-1, ...
    #[arg(long, value_name = "TEXT", default_value = "sw")]
    pub prefix: String,

    /// Directory to keep key pairs in between runs; without it they are generated each time, and a
    /// master that knows the ids refuses them
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,

    /// Key pairs that the minions share
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub key_pool: usize,

    /// What the minions do
    #[arg(long, value_enum, default_value = "serve")]
    pub mode: Mode,

    /// Mode signin: further sign-ins of each minion
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rounds: usize,

    /// Mode ping: jobs to wait for; mode jobs: jobs to publish
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: u64,

    /// Mode jobs: function to run on the minions: test.ping, test.echo or test.arg
    #[arg(long, value_name = "FUNCTION", default_value = "test.ping")]
    pub fun: String,

    /// Mode jobs: an argument of the function; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub arg: Vec<String>,

    /// Mode jobs: target of the job
    #[arg(long, value_name = "TARGET", default_value = "*")]
    pub target: String,

    /// Mode jobs: type of the target: glob, pcre, list, grain, compound, ...
    #[arg(long, value_name = "TYPE", default_value = "glob")]
    pub target_type: String,

    /// Mode jobs: cache directory of the master (its option `cachedir`), with the key file used
    /// for publishing
    #[arg(long, value_name = "DIR", default_value = "/var/cache/salt/master")]
    pub cachedir: PathBuf,

    /// Mode jobs: the key file itself, if it is not `.root_key` or that of this account
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// Directory of the master's sockets (its option `sock_dir`). Mode jobs: if given, every
    /// return must be heard on the event bus, once and unmodified. Mode events: where to listen
    #[arg(long, value_name = "DIR")]
    pub sock_dir: Option<PathBuf>,

    /// Modes returns, pillar, files, events: how many; by default 10000 returns or events, or
    /// 1000 of the others
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,

    /// Mode pillar: file with the pillar, as JSON, that every minion must get
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,

    /// Mode files: the file, as salt://path
    #[arg(long, value_name = "URL", required_if_eq("mode", "files"))]
    pub file: Option<String>,

    /// Mode files: environment of the file
    #[arg(long, value_name = "NAME", default_value = "base")]
    pub saltenv: String,

    /// Mode files: request one chunk of the file at a time (1 MiB, or all of a smaller file)
    /// rather than its hash and all of its chunks
    #[arg(long)]
    pub chunk: bool,

    /// Mode events: listeners on the event bus; each must hear every event once and unmodified
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sock_dir")]
    pub listeners: usize,

    /// Mode returns: ask the master for a jid with each return, as `salt-call` does. Stock masters
    /// need this: they fail on returns for jobs that they have not published
    #[arg(long)]
    pub req: bool,

    /// Write a line `JID ID` for each acknowledged answer or return to this file; each of them must then be in the job cache of
    /// every master
    #[arg(long, value_name = "FILE")]
    pub acknowledged: Option<PathBuf>,

    /// Concurrent requests, for sign-ins and for what --count counts
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub concurrency: usize,

    /// Longest time of each part of the run; then mode serve exits, the others fail
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,

    /// Seconds to wait for a reply before the request is repeated
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub timeout: u64,

    /// Threads among which the minions are divided
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// Also measure CPU time of the (first) master's processes: the pid of its main process, or `auto` for
    /// the owner of the port on this host. Not in mode restart, where processes change
    #[arg(long, value_name = "auto|PID")]
    pub master_pids: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What the minions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    Signin,
    Serve,
    Ping,
    Jobs,
    Returns,
    Pillar,
    Files,
    Events,
    Restart,
}

fn transport(name: &str) -> Result<Transport, String> {
    Transport::of_name(name).ok_or_else(|| "it must be zeromq, tcp or ws".to_owned())
}

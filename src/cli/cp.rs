//! `halite-cp`: copies files of this host to minions.

use super::common::{Common, EXIT_USAGE, IgnoredOptions, OutputOptions, fail};
use super::salt::run::stop_on_signal;
use super::salt::{output_config, start_log};
use super::start::{self, start};
use clap::Parser;
use halite_client::copy::{CopyError, CopyResults, FileCopy};
use halite_client::gather::GatherTimeouts;
use halite_client::local::resolve_target;
use halite_client::local::{Job, LocalClient};
use halite_config::{MasterConfig, load_master};
use halite_target::DEFAULT_DELIMITER;
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Exit status if a source is not readable, as in Salt.
const EXIT_SOURCE: i32 = 42;
const EXIT_NOBODY: i32 = 2;

/// Copy files of this host to minions: small texts in one message, anything else in chunks.
#[derive(Parser, Debug)]
#[command(
    name = "halite-cp",
    version,
    override_usage = "halite-cp [OPTIONS] <TARGET> <SOURCE>... <DEST>",
    after_help = "Examples:\n  \
        halite-cp '*' motd /etc/motd\n  \
        halite-cp -C -G 'os:Debian' build/ /opt/app     directories and large files\n\n\
        Exit status: 0 all copied, 1 something was not, 2 nobody was reached, 42 a source cannot be read, 64 wrong options."
)]
struct CpOptions {
    #[command(flatten)]
    common: Common,

    /// Which minions: a glob of ids, or as given by one of the target options
    target: String,

    /// Files of this host, then their destination on the minions; a directory if it ends with a slash
    #[arg(value_name = "SOURCE... DEST", required = true, num_args = 2..)]
    paths: Vec<String>,

    /// Send in chunks: large files, binary files, whole directories
    #[arg(short = 'C', long)]
    chunked: bool,

    /// Do not compress the chunks
    #[arg(short = 'n', long)]
    no_compression: bool,

    /// Seconds of silence after which missing minions are asked whether they are still running the job
    #[arg(short = 't', long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// The target is a regular expression on ids
    #[arg(short = 'E', long, help_heading = "Target options", group = "kind")]
    pcre: bool,

    /// The target is a list of ids, separated by commas or blanks
    #[arg(short = 'L', long, help_heading = "Target options", group = "kind")]
    list: bool,

    /// The target is a grain: key:glob
    #[arg(short = 'G', long, help_heading = "Target options", group = "kind")]
    grain: bool,

    /// The target is a grain: key:regex
    #[arg(short = 'P', long, help_heading = "Target options", group = "kind")]
    grain_pcre: bool,

    /// The target is a node group of the configuration
    #[arg(short = 'N', long, help_heading = "Target options", group = "kind")]
    nodegroup: bool,

    #[command(flatten)]
    ignored: IgnoredOptions,

    #[command(flatten)]
    output: OutputOptions,
}

impl CpOptions {
    /// Salt's `tgt_type`. `-C` is not for compound targets here, as in `salt-cp`.
    fn kind(&self) -> &'static str {
        let kinds = [
            (self.pcre, "pcre"),
            (self.list, "list"),
            (self.grain, "grain"),
            (self.grain_pcre, "grain_pcre"),
            (self.nodegroup, "nodegroup"),
        ];
        let given = kinds.into_iter().find(|(on, _)| *on);
        given.map_or("glob", |(_, kind)| kind)
    }
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<CpOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: CpOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return fail(e, 1),
    };
    start_log(&options.common, &config);
    let mut screen = match options.output.open(output_config(&config)) {
        Ok(screen) => screen,
        Err(e) => return fail(e, 1),
    };
    match copy(&options, config) {
        Ok(results) => {
            let good = results.values().all(succeeded);
            let map: Map = results.into_iter().collect();
            let name = screen.out.clone().unwrap_or_else(|| "nested".into());
            screen.show(&name, &Value::Map(map));
            i32::from(!good)
        }
        Err(e @ CopyError::Source(_)) => fail(e, EXIT_SOURCE),
        Err(e @ (CopyError::Client(_) | CopyError::Nobody(_))) => fail(e, EXIT_NOBODY),
    }
}

fn copy(options: &CpOptions, config: MasterConfig) -> Result<CopyResults, CopyError> {
    let Some((dest, sources)) = options.paths.split_last() else {
        return Err(CopyError::Source("which files? see --help".into()));
    };
    let real = |source: &String| std::fs::canonicalize(source).unwrap_or_else(|_| source.into());
    let sources: Vec<PathBuf> = sources.iter().map(real).collect();
    let target = resolve_target(options.kind(), &config, options.target.clone());
    let (tgt, tgt_type) = target.unwrap_or_else(|e| std::process::exit(fail(e, EXIT_USAGE)));
    let jobs = halite_store::Stores::open(&config).jobs;
    let size = usize::try_from(config.salt_cp_chunk_size).unwrap_or(98_304);
    let patience = GatherTimeouts {
        timeout: Duration::from_secs(options.timeout.unwrap_or(config.timeout)),
        find_job: Duration::from_secs(config.gather_job_timeout),
        together: true,
    };
    let mut client = LocalClient::new(config);
    let mut events = client.listen()?;
    let stop = stop_on_signal();
    let mut copy = FileCopy {
        client: &mut client,
        events: &mut events,
        jobs: &*jobs,
        patience,
        target: Job {
            tgt,
            tgt_type,
            kwargs: halite_wire::map! {"delimiter" => DEFAULT_DELIMITER},
            ..Job::default()
        },
        stop: &|| stop.is_set(),
    };
    if options.chunked {
        copy.send_chunked(&sources, dest, size, !options.no_compression)
    } else {
        copy.send_whole(&sources, dest)
    }
}

/// Whether every file of one minion arrived.
fn succeeded(result: &Value) -> bool {
    let files = result.as_map();
    files.is_some_and(|files| files.iter().all(|(_, done)| *done == Value::Bool(true)))
}

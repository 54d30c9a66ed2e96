//! `halite`: the `salt` command.

mod batch;
pub(super) mod run;
mod show;

use super::auth::AuthOptions;
use super::common::{ArgumentOptions, Common, IgnoredOptions, OutputConfig, OutputOptions, fail};
use super::start::{self, start_as};
use clap::Parser;
use halite_config::{MasterConfig, load_master};

/// Run a function on minions and show what they return.
#[derive(Parser, Debug)]
#[command(
    name = "halite",
    version,
    override_usage = "halite [OPTIONS] <TARGET> <FUNCTION> [ARGUMENTS]...",
    after_help = "Examples:\n  \
        halite '*' test.ping                         is everybody there?\n  \
        halite -G 'os:Debian' pkg.upgrade            by grain\n  \
        halite -C 'web* and not G@env:prod' cmd.run 'uptime'\n  \
        halite -b 10% '*' service.restart nginx      a tenth of them at a time\n  \
        halite --async '*' test.sleep 60             print the jid and return\n\n\
        Exit status: 0 all good, 1 a minion failed or did not return, 2 no minion matched or the master refused, 64 wrong options."
)]
pub(crate) struct SaltOptions {
    #[command(flatten)]
    common: Common,

    /// Which minions: a glob of ids, or as given by one of the target options
    target: Option<String>,

    /// Function, or several separated by commas
    #[arg(value_name = "FUNCTION")]
    fun: Option<String>,

    /// Arguments: values are read as YAML, name=value is a keyword argument
    #[arg(value_name = "ARGUMENTS", allow_negative_numbers = true)]
    args: Vec<String>,

    /// Seconds of silence after which missing minions are asked whether they are still running the job
    #[arg(short = 't', long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Collect all returns and show them together at the end
    #[arg(short = 's', long = "static")]
    fixed: bool,

    /// Print the jid and do not wait
    #[arg(long = "async")]
    detached: bool,

    /// In a cluster: only to minions that are connected to this master, also while it cannot reach the others
    #[arg(long)]
    here: bool,

    /// Run on this many minions at a time: a number or a percentage
    #[arg(
        short = 'b',
        long = "batch-size",
        visible_alias = "batch",
        value_name = "N|N%"
    )]
    batch: Option<String>,

    /// Seconds to wait before a free slot in the batch is filled
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    batch_wait: f64,

    /// Run in batches when at least this many minions match
    #[arg(long, value_name = "N")]
    batch_safe_limit: Option<u32>,

    /// Size of such a batch
    #[arg(long, value_name = "N")]
    batch_safe_size: Option<u32>,

    /// Stop a batch run at the first minion that fails
    #[arg(long)]
    failhard: bool,

    /// Pick this many of the matching minions at random
    #[arg(long, value_name = "N")]
    subset: Option<usize>,

    /// Show the jid and the expected minions before the returns
    #[arg(short = 'v', long)]
    verbose: bool,

    /// Show progress on standard error
    #[arg(short = 'p', long)]
    progress: bool,

    /// Show the jid
    #[arg(long)]
    show_jid: bool,

    /// Do not list minions that did not return
    #[arg(long)]
    hide_timeout: bool,

    /// Show a summary after the returns
    #[arg(long)]
    summary: bool,

    /// Show the documentation of a function or module
    #[arg(short = 'd', long = "doc", visible_alias = "documentation")]
    doc: bool,

    /// Only print which minions match the target
    #[arg(long)]
    preview_target: bool,

    /// Read more arguments from standard input, one per line
    #[arg(long)]
    args_stdin: bool,

    /// Separator between the arguments of several functions
    #[arg(long, value_name = "TEXT", default_value = ",")]
    args_separator: String,

    /// Returners on the minions, separated by commas
    #[arg(long = "return", value_name = "RETURNERS", default_value = "")]
    returner: String,

    /// Alternative configuration of the returner
    #[arg(long = "return_config", value_name = "NAME")]
    return_config: Option<String>,

    /// Options of the returner, as YAML
    #[arg(long = "return_kwargs", value_name = "YAML")]
    return_kwargs: Option<String>,

    /// Executors on the minions, as YAML
    #[arg(long = "module-executors", value_name = "YAML")]
    module_executors: Option<String>,

    /// Options of the executors, as YAML
    #[arg(long = "executor-opts", value_name = "YAML")]
    executor_opts: Option<String>,

    /// Metadata kept with the job, as YAML
    #[arg(long, value_name = "YAML")]
    metadata: Option<String>,

    /// Show only states with changes, as differences
    #[arg(long)]
    output_diff: bool,

    /// Ask minions (3008 and later) to announce that they have received the job
    #[arg(long)]
    start_event: bool,

    /// Print the configuration in effect as YAML, and exit
    #[arg(long)]
    config_dump: bool,

    #[command(flatten)]
    arguments: ArgumentOptions,

    #[command(flatten)]
    ignored: IgnoredOptions,

    #[command(flatten)]
    target_options: TargetOptions,

    #[command(flatten)]
    auth: AuthOptions,

    #[command(flatten)]
    output: OutputOptions,
}

/// The type of the target.
#[derive(clap::Args, Clone, Debug)]
#[group(multiple = false)]
struct TargetOptions {
    /// The target is a regular expression on ids
    #[arg(short = 'E', long, help_heading = "Target options")]
    pcre: bool,

    /// The target is a list of ids, separated by commas or blanks
    #[arg(short = 'L', long, help_heading = "Target options")]
    list: bool,

    /// The target is a grain: key:glob
    #[arg(short = 'G', long, help_heading = "Target options")]
    grain: bool,

    /// The target is a grain: key:regex
    #[arg(short = 'P', long, help_heading = "Target options")]
    grain_pcre: bool,

    /// The target is a pillar key: key:glob
    #[arg(short = 'I', long, help_heading = "Target options")]
    pillar: bool,

    /// The target is a pillar key: key:regex
    #[arg(short = 'J', long, help_heading = "Target options")]
    pillar_pcre: bool,

    /// The target is a node group of the configuration
    #[arg(short = 'N', long, help_heading = "Target options")]
    nodegroup: bool,

    /// The target is an expression with and, or, not and prefixes such as G@ and L@
    #[arg(short = 'C', long, help_heading = "Target options")]
    compound: bool,

    /// The target is an address or network
    #[arg(short = 'S', long, help_heading = "Target options")]
    ipcidr: bool,

    /// The target is a range expression; as halite has no range server, it matches no minion
    #[arg(short = 'R', long, help_heading = "Target options")]
    range: bool,

    /// The hosts of rosters, which only salt-ssh has; it matches no minion
    #[arg(short = 'H', long, help_heading = "Target options")]
    hosts: bool,

    /// Separator of the components of a grain or pillar target
    #[arg(
        long,
        value_name = "TEXT",
        default_value = ":",
        group = "free",
        help_heading = "Target options"
    )]
    delimiter: String,
}

impl TargetOptions {
    /// Salt's `tgt_type`.
    fn kind(&self) -> &'static str {
        [
            (self.pcre, "pcre"),
            (self.list, "list"),
            (self.grain, "grain"),
            (self.grain_pcre, "grain_pcre"),
            (self.pillar, "pillar"),
            (self.pillar_pcre, "pillar_pcre"),
            (self.nodegroup, "nodegroup"),
            (self.compound, "compound"),
            (self.ipcidr, "ipcidr"),
            (self.range, "range"),
            (self.hosts, "list_hosts"),
        ]
        .into_iter()
        .find(|(on, _)| *on)
        .map_or("glob", |(_, name)| name)
    }
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<SaltOptions>()
}

fn check(options: &SaltOptions) -> Result<(), &'static str> {
    start::only_one(options.doc, &options.args)
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: SaltOptions = match start_as(command(), check) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return fail(e, 2),
    };
    if options.config_dump {
        return super::daemon::dump(config.as_map());
    }
    start_log(&options.common, &config);
    run::run(options, config)
}

/// Tools log to the terminal only: the log file belongs to the master.
pub(crate) fn start_log(common: &Common, config: &MasterConfig) {
    common.start_log(config.command_log_options());
    log::debug!("Reading configuration from {}", config.conf_file.display());
}

/// The output settings of a master's configuration.
pub(crate) fn output_config(config: &MasterConfig) -> OutputConfig<'_> {
    super::common::output_config!(config)
}

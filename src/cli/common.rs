//! Common parts of all commands: configuration directory, log options, exit codes.

use clap::ArgAction;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use halite_crypto::KeyType;
use halite_sys::logging::{self, LEVELS, LogOptions};
use std::path::PathBuf;

/// Exit status for a wrong command line (`EX_USAGE`), as in Salt.
pub const EXIT_USAGE: i32 = 64;

/// Options of all commands.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// Directory of the configuration files; a directory called `salt` means an existing Salt installation
    #[arg(short = 'c', long, value_name = "DIR", env = "HALITE_CONFIG_DIR", default_value_os_t = halite_config::default_dir())]
    pub config_dir: PathBuf,

    /// File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile
    #[arg(long, value_name = "FILE")]
    pub saltfile: Option<std::ffi::OsString>,

    /// Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet
    #[arg(short = 'l', long, value_name = "LEVEL", value_parser = parse_level)]
    pub log_level: Option<String>,

    /// Log file; overrides the configuration
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<String>,

    /// Log level of the log file
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    pub log_file_level: Option<String>,

    /// Print the versions of the program, its libraries and the system, and exit
    #[arg(short = 'V', long)]
    pub versions_report: bool,

    /// Print the version of the program, and exit
    #[arg(long, action = ArgAction::Version)]
    pub version: Option<bool>,
}

fn parse_level(text: &str) -> Result<String, String> {
    match logging::level(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("choose one of {}", LEVELS.join(", "))),
    }
}

/// The values of `--key-type`.
pub(crate) fn key_type_parser() -> impl TypedValueParser<Value = KeyType> {
    PossibleValuesParser::new(KeyType::ALL.map(KeyType::name))
        .try_map(|name| KeyType::of_name(&name).ok_or("no such type"))
}

/// A boolean on the command line; any other string that stock accepts is true there, even `no`.
pub fn parse_bool(word: &str) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write True or False".into()),
    }
}

impl Common {
    /// Refuses a configuration directory that was given and does not exist: a typo must not start a daemon with
    /// defaults. Returns the exit status.
    pub fn check_dir(&self) -> Result<(), i32> {
        let dir = &self.config_dir;
        if dir.is_dir() || *dir == halite_config::default_dir() {
            return Ok(());
        }
        let why = format!(
            "directory {} does not exist; give the configuration directory with -c",
            dir.display()
        );
        Err(fail(why, EXIT_USAGE))
    }

    /// Starts logging as configured, overridden by the command line.
    pub fn start_log(&self, mut options: LogOptions) {
        let level = |word: &Option<String>| word.as_deref().and_then(logging::level);
        options.console = level(&self.log_level).unwrap_or(options.console);
        options.file = level(&self.log_file_level).or(options.file);
        if let Some(file) = &self.log_file {
            options.path = (!file.is_empty()).then(|| PathBuf::from(file));
        }
        logging::install(options);
    }
}

/// Prints an error in the common format and returns `status`.
pub fn fail(message: impl std::fmt::Display, status: i32) -> i32 {
    eprintln!("ERROR: {message}");
    status
}

/// Options of stock's tools that have no effect here, for compatibility with scripts.
#[derive(clap::Args, Clone, Debug)]
pub struct IgnoredOptions {
    /// Accepted for compatibility; errors of the program itself always show their location
    #[arg(long)]
    hard_crash: bool,
}

/// How arguments on the command line are parsed.
#[derive(clap::Args, Clone, Debug)]
pub struct ArgumentOptions {
    /// Keyword arguments whose values are not parsed, separated by commas
    #[arg(
        long,
        value_name = "NAMES",
        env = "SALT_NO_PARSE",
        default_value = "",
        hide_env = true,
        hide_default_value = true
    )]
    no_parse: String,
}

impl ArgumentOptions {
    /// The names in `--no-parse`.
    pub fn verbatim(&self) -> Vec<&str> {
        self.no_parse.split(',').map(str::trim).collect()
    }
}

/// How to show results; the same for all commands.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct OutputOptions {
    /// How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only
    #[arg(
        long = "out",
        visible_alias = "output",
        value_name = "OUTPUTTER",
        help_heading = "Output options"
    )]
    pub out: Option<String>,

    /// Indentation in columns; -1 puts json on one line
    #[arg(
        long,
        visible_alias = "output-indent",
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Output options"
    )]
    pub out_indent: Option<i64>,

    /// Write results to this file
    #[arg(
        long,
        visible_alias = "output-file",
        value_name = "FILE",
        help_heading = "Output options"
    )]
    pub out_file: Option<PathBuf>,

    /// Append to the file of --out-file
    #[arg(
        long,
        visible_alias = "output-file-append",
        help_heading = "Output options"
    )]
    pub out_file_append: bool,

    /// No colours
    #[arg(long, visible_alias = "no-colour", help_heading = "Output options")]
    pub no_color: bool,

    /// Colours even if the output is not a terminal
    #[arg(long, visible_alias = "force-colour", help_heading = "Output options")]
    pub force_color: bool,

    /// States: full, terse, mixed, changes, filter
    #[arg(
        long,
        visible_alias = "state_output",
        value_name = "MODE",
        help_heading = "Output options"
    )]
    pub state_output: Option<String>,

    /// States: show successful ones as well
    #[arg(
        long,
        visible_alias = "state_verbose",
        value_name = "BOOL",
        value_parser = parse_bool,
        help_heading = "Output options"
    )]
    pub state_verbose: Option<bool>,

    /// States: end with the N that took longest; 10 if N is left out
    #[arg(
        long,
        visible_alias = "state_profile",
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        help_heading = "Output options"
    )]
    pub state_profile: Option<usize>,
}

/// Output settings of a configuration.
pub struct OutputConfig<'a> {
    /// `color`.
    pub color: Option<bool>,
    /// `output`.
    pub output: Option<&'a str>,
    /// The options `state_*`.
    pub style: super::output::Style,
    /// All options, for outputters in Python.
    pub opts: halite_wire::Map,
}

/// The output settings of a master's or minion's configuration, which have the same names.
macro_rules! output_config {
    ($config:expr) => {{
        let list = |names: &[String]| halite_wire::Value::from(names.to_vec());
        $crate::common::OutputConfig {
            opts: $config.as_map(),
            color: $config.color,
            output: $config.output.as_deref(),
            style: $crate::output::Style {
                state_output: $config.state_output.clone(),
                state_verbose: $config.state_verbose,
                state_output_diff: $config.state_output_diff,
                state_output_profile: $config.state_output_profile,
                state_output_pct: $config.state_output_pct,
                state_output_exclude: list(&$config.state_output_exclude),
                state_output_terse: list(&$config.state_output_terse),
                state_compress_ids: $config.state_compress_ids,
                state_tabular: $config.state_tabular,
                ..$crate::output::Style::default()
            },
        }
    }};
}
pub(crate) use output_config;

/// Where and how results are shown.
pub struct Screen {
    /// The outputter given by the user, if any.
    pub out: Option<String>,
    /// Colours, indentation and the rest.
    pub style: super::output::Style,
    custom: super::output::CustomOutputters,
    sink: Box<dyn std::io::Write>,
}

impl OutputOptions {
    /// Opens the output; if it is not writable, an error text is returned.
    pub fn open(&self, config: OutputConfig) -> Result<Screen, String> {
        use std::io::IsTerminal;
        let sink: Box<dyn std::io::Write> = match &self.out_file {
            None => Box::new(std::io::stdout()),
            Some(path) => Box::new(
                std::fs::OpenOptions::new()
                    .create(true)
                    .write(true)
                    .append(self.out_file_append)
                    .truncate(!self.out_file_append)
                    .open(path)
                    .map_err(|e| format!("--out-file {}: {e}", path.display()))?,
            ),
        };
        let tty = self.out_file.is_none() && std::io::stdout().is_terminal();
        let no_color = std::env::var("NO_COLOR").ok();
        let style = super::output::Style {
            color: super::output::want_color(
                self.no_color,
                self.force_color,
                config.color,
                tty,
                no_color.as_deref(),
            ),
            indent: self.out_indent,
            state_output: self
                .state_output
                .clone()
                .unwrap_or(config.style.state_output),
            state_verbose: self.state_verbose.unwrap_or(config.style.state_verbose),
            slowest_states: self.state_profile.unwrap_or(0),
            ..config.style
        };
        let out = self.out.as_deref().or(config.output).map(str::to_owned);
        let custom = super::output::CustomOutputters::new(config.opts);
        Ok(Screen {
            out,
            style,
            custom,
            sink,
        })
    }
}

impl Screen {
    /// Shows data with the outputter `name`; if it is unknown or fails, prints an error and uses nested.
    pub fn show(&mut self, name: &str, data: &halite_wire::Value) {
        let mut name = name;
        match self.custom.show(name, data, &self.style) {
            Some(Ok(text)) if text.is_empty() => return,
            Some(Ok(text)) => return self.line(&text),
            Some(Err(why)) => {
                let words = format!("the outputter {name} failed, nested is used: {why}");
                eprint!("{}", super::output::texts::log_error(&words));
                name = "nested";
            }
            None => {}
        }
        let outputter = name
            .parse()
            .unwrap_or_else(|e: super::output::UnknownOutputter| {
                eprint!("{}", super::output::texts::log_error(&e.to_string()));
                super::output::Outputter::Nested
            });
        let text = super::output::render(outputter, data, &self.style);
        if !text.is_empty() {
            self.line(&text);
        }
    }

    /// Writes text and a newline.
    pub fn line(&mut self, text: &str) {
        self.text(&format!("{text}\n"));
    }

    /// Writes text as it is. If the reader is gone, the program exits silently.
    pub fn text(&mut self, text: &str) {
        let written = self
            .sink
            .write_all(text.as_bytes())
            .and_then(|()| self.sink.flush());
        if let Err(e) = written {
            if e.kind() == std::io::ErrorKind::BrokenPipe {
                std::process::exit(0);
            }
            eprintln!("ERROR: cannot write the output: {e}");
            std::process::exit(1);
        }
    }
}

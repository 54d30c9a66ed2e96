//! Options of `halite-key`.

use crate::auth::AuthOptions;
use crate::common::{Common, IgnoredOptions, OutputOptions, key_type_parser, parse_bool};
use crate::start;
use clap::{Parser, ValueEnum};
use halite_client::keys::FingerForm;
use halite_crypto::{KeyType, MAX_BITS};
use halite_store::keys::KeyState;
use std::path::PathBuf;

/// Smallest key size in bits that may be requested.
pub(super) const MIN_KEYSIZE: u32 = 2048;
const TOO_SHORT: &str = "The minimum value for keysize is 2048";
const TOO_LONG: &str = "The maximum value for keysize is 8192";

/// Manages the keys of minions: accepts, rejects, deletes and shows them.
#[derive(Parser, Debug)]
#[command(
    name = "halite-key",
    version,
    infer_long_args = true,
    args_override_self = true,
    after_help = "NAME is a glob or a comma list of globs. Without an action all keys are listed.\n\nExamples:\n  halite-key                        list all keys\n  halite-key -f web1                show the fingerprint, to be compared with `key.finger` on web1\n  halite-key -a web1                trust the waiting key of web1\n  halite-key -d 'web*,db1' -y       delete keys without a question\n  halite-key -f master.pub          the value for `master_finger` of the minions\n  halite-key -c /etc/salt -L        the keys of an existing Salt master\n\nExit status: 0 done, or nothing to do, 1 something could not be done, 64 wrong options, 67 the account of --user cannot be taken on."
)]
pub(super) struct KeyOptions {
    #[command(flatten)]
    pub common: Common,

    /// Account to work as; only root can switch to another one
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,

    /// Suppress messages; results are still shown
    #[arg(short, long)]
    quiet: bool,

    /// Answer yes to all questions
    #[arg(short, long)]
    pub yes: bool,

    /// Whether to rotate the session key when keys are deleted or rejected; overrides the option
    /// `rotate_aes_key`
    #[arg(long, value_name = "BOOL", value_parser = parse_bool)]
    pub rotate_aes_key: Option<bool>,

    /// Whether to keep grains, pillar and mine of accepted minions when their keys are deleted
    #[arg(long, value_name = "BOOL", value_parser = parse_bool)]
    pub preserve_minions: Option<bool>,

    /// List keys: pre, un or unaccepted; acc or accepted; rej or rejected; den or denied; all
    #[arg(short, long, value_name = "ARG", value_parser = list_word, default_value = "", hide_default_value = true, help_heading = "Actions")]
    list: String,

    /// List all keys
    #[arg(short = 'L', long, help_heading = "Actions")]
    list_all: bool,

    /// Accept pending keys
    #[arg(
        short,
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Actions"
    )]
    accept: String,

    /// Accept all pending keys
    #[arg(short = 'A', long, help_heading = "Actions")]
    accept_all: bool,

    /// Reject pending keys
    #[arg(
        short,
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Actions"
    )]
    reject: String,

    /// Reject all pending keys
    #[arg(short = 'R', long, help_heading = "Actions")]
    reject_all: bool,

    /// Old form of --include-rejected when accepting and of --include-accepted when rejecting
    #[arg(long, help_heading = "Actions")]
    pub include_all: bool,

    /// Reject accepted keys too
    #[arg(long, help_heading = "Actions")]
    pub include_accepted: bool,

    /// Accept rejected keys too
    #[arg(long, help_heading = "Actions")]
    pub include_rejected: bool,

    /// Accept or reject denied keys too
    #[arg(long, help_heading = "Actions")]
    pub include_denied: bool,

    /// Print keys
    #[arg(
        short,
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Actions"
    )]
    print: String,

    /// Print all keys
    #[arg(short = 'P', long, help_heading = "Actions")]
    print_all: bool,

    /// Delete keys, in any state
    #[arg(
        short,
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Actions"
    )]
    delete: String,

    /// Delete all keys
    #[arg(short = 'D', long, help_heading = "Actions")]
    delete_all: bool,

    /// Show fingerprints, including those of the master's own keys
    #[arg(
        short,
        long,
        value_name = "NAME",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Actions"
    )]
    finger: String,

    /// Show all fingerprints
    #[arg(short = 'F', long, help_heading = "Actions")]
    finger_all: bool,

    /// Input of a fingerprint
    #[arg(long, value_name = "FORM", value_enum, default_value_t = FingerFormOption::Body, help_heading = "Actions")]
    pub finger_form: FingerFormOption,

    /// Create the key pair NAME.pem and NAME.pub and show its fingerprint; an existing pair is left unchanged
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Making keys"
    )]
    gen_keys: String,

    /// Directory of that pair
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        help_heading = "Making keys"
    )]
    pub gen_keys_dir: PathBuf,

    /// Size of a new key in bits, at least 2048; by default the option `keysize`
    #[arg(long, value_name = "BITS", help_heading = "Making keys")]
    pub keysize: Option<u32>,

    /// Type of that pair: `rsa`, or `ed25519`, which only halite's masters and minions know
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "rsa",
        value_parser = key_type_parser(),
        help_heading = "Making keys"
    )]
    pub key_type: KeyType,

    /// Sign the master's public key for minions that verify it
    #[arg(long, help_heading = "Making keys")]
    gen_signature: bool,

    /// Private key to sign with, instead of `master_sign_key_name` in `pki_dir`
    #[arg(
        long = "priv",
        value_name = "FILE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Making keys"
    )]
    pub private: String,

    /// Public key to sign, instead of `master.pub` in `pki_dir`
    #[arg(
        long = "pub",
        value_name = "FILE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Making keys"
    )]
    pub public: String,

    /// Directory of the signature file, instead of `pki_dir`
    #[arg(
        long,
        value_name = "DIR",
        default_value = "",
        hide_default_value = true,
        help_heading = "Making keys"
    )]
    pub signature_path: String,

    /// Create the signing key pair if it does not exist
    #[arg(long, help_heading = "Making keys")]
    pub auto_create: bool,

    #[command(flatten)]
    pub output: OutputOptions,

    #[command(flatten)]
    pub auth: AuthOptions,

    #[command(flatten)]
    ignored: IgnoredOptions,

    // Ignored, as in `salt-key`, unless a change of all keys would then affect others than those named.
    #[arg(hide = true)]
    names: Vec<String>,
}

/// Values of `--finger-form`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum FingerFormOption {
    /// the lines between BEGIN and END: the same as `key.finger` on a minion, suitable for `master_finger`,
    /// shown by salt-key of 3006 and 3007
    Body,
    /// the whole text: shown by salt-key of 3008
    Text,
}

impl From<FingerFormOption> for FingerForm {
    fn from(form: FingerFormOption) -> FingerForm {
        match form {
            FingerFormOption::Body => FingerForm::Body,
            FingerFormOption::Text => FingerForm::Text,
        }
    }
}

/// The requested action.
#[derive(Debug)]
pub(super) enum Action<'a> {
    GenKeys(&'a str),
    GenSignature,
    List(&'a str),
    Print(&'a str),
    Accept(&'a str),
    Reject(&'a str),
    Delete(&'a str),
    Finger(&'a str),
}

impl KeyOptions {
    /// The first of the given actions in stock's order (`salt/key.py KeyCLI._update_opts`); an empty name
    /// counts as not given.
    pub fn action<'a>(&'a self) -> Action<'a> {
        type Make<'a> = fn(&'a str) -> Action<'a>;
        let named: [(&'a str, bool, Make<'a>); 7] = [
            (&self.gen_keys, false, Action::GenKeys),
            (&self.list, self.list_all, Action::List),
            (&self.print, self.print_all, Action::Print),
            (&self.accept, self.accept_all, Action::Accept),
            (&self.reject, self.reject_all, Action::Reject),
            (&self.delete, self.delete_all, Action::Delete),
            (&self.finger, self.finger_all, Action::Finger),
        ];
        if self.gen_keys.is_empty() && self.gen_signature {
            return Action::GenSignature;
        }
        for (name, all, action) in named {
            if !name.is_empty() {
                return action(name);
            }
            if all {
                return action("*");
            }
        }
        Action::List("all")
    }

    fn check(&self) -> Result<(), &'static str> {
        for (is_asked, why) in [
            (
                self.accept_all,
                "--accept-all: Accept all takes no arguments; --accept takes names",
            ),
            (
                self.reject_all,
                "--reject-all: Reject all takes no arguments; --reject takes names",
            ),
            (
                self.delete_all,
                "--delete-all: Delete all takes no arguments; --delete takes names",
            ),
        ] {
            if is_asked && !self.names.is_empty() {
                return Err(why);
            }
        }
        match self.keysize {
            Some(_) if self.key_type != KeyType::Rsa => Err("--keysize is for RSA keys"),
            Some(bits) if bits < MIN_KEYSIZE => Err(TOO_SHORT),
            Some(bits) if bits as usize > MAX_BITS => Err(TOO_LONG),
            _ => Ok(()),
        }
    }
}

/// The command with its options; here `-l` is --list, not --log-level, and `-a` is --accept.
pub(crate) fn command() -> clap::Command {
    start::command::<KeyOptions>()
        .mut_arg("log_level", |arg| arg.short(None))
        .mut_arg("eauth", |arg| arg.short(None))
}

/// Parses the command line; errors are printed, and the status is 64 then.
pub(super) fn read() -> Result<KeyOptions, i32> {
    start::start_as(command(), KeyOptions::check)
}

/// The state for an argument of `--list`; `None` means all.
pub(super) fn state_of_word(word: &str) -> Option<KeyState> {
    const STARTS: [(&str, KeyState); 5] = [
        ("acc", KeyState::Accepted),
        ("pre", KeyState::Pending),
        ("un", KeyState::Pending),
        ("rej", KeyState::Rejected),
        ("den", KeyState::Denied),
    ];
    STARTS
        .iter()
        .find(|(start, _)| word.starts_with(start))
        .map(|(_, state)| *state)
}

fn list_word(word: &str) -> Result<String, String> {
    if word.is_empty() || word.starts_with("all") || state_of_word(word).is_some() {
        return Ok(word.to_owned());
    }
    Err(format!(
        "'{word}' is not a valid argument to '--list'; choose one of pre, un, unaccepted, acc, accepted, rej, rejected, den, denied, all"
    ))
}

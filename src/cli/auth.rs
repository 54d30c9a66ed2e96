//! Options for external authentication, and the token file (`salt/utils/parsers.py EAuthMixIn`,
//! `salt/auth/__init__.py Resolver`, `salt/config client_config`).

use halite_client::local::{Credentials, LocalClient};
use halite_config::MasterConfig;
use halite_sys::process::user_name;
use halite_sys::terminal::{ask, ask_hidden};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Options for authentication.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct AuthOptions {
    /// Authenticate with this system: pam, ldap, file
    #[arg(
        short = 'a',
        long = "auth",
        visible_aliases = ["eauth", "external-auth"],
        value_name = "SYSTEM",
        help_heading = "Authentication options"
    )]
    pub(crate) eauth: Option<String>,

    /// Store a token, so that the next commands need no password
    #[arg(short = 'T', long, help_heading = "Authentication options")]
    pub(crate) make_token: bool,

    /// User; prompted for if missing
    #[arg(long, value_name = "NAME", help_heading = "Authentication options")]
    pub(crate) username: Option<String>,

    /// Password; prompted for if missing. Other users of this host can see it in the process list
    #[arg(long, value_name = "TEXT", help_heading = "Authentication options")]
    pub(crate) password: Option<String>,
}

impl AuthOptions {
    /// Whether to authenticate to the master with a password or a token.
    pub(crate) fn is_enabled(&self) -> bool {
        self.eauth.is_some()
    }

    /// A client that authenticates with the given system, with a stored token, or with the key file of the
    /// account.
    ///
    /// With `-a`, a token is used if there is one and neither `-T` nor `--username` is given. Without `-a`, it
    /// is used if the key file is not readable.
    /// # Errors
    /// A message for the user.
    pub(crate) fn client(&self, config: MasterConfig) -> Result<LocalClient, String> {
        let mut client = LocalClient::new(config);
        let Some(system) = &self.eauth else {
            if self.make_token {
                return Err("--make-token needs --auth: with which system to authenticate".into());
            }
            if client.can_read_key() {
                return Ok(client);
            }
            if let Some(token) = read_token(client.config()) {
                client.set_credentials(Credentials::Token(token));
            }
            return Ok(client);
        };
        let fresh = self.make_token || self.username.is_some();
        if let Some(token) = read_token(client.config()).filter(|_| !fresh) {
            client.set_credentials(Credentials::Token(token));
            return Ok(client);
        }
        let nobody = |e: std::io::Error| format!("cannot prompt: {e}");
        let username = match &self.username {
            Some(name) => name.clone(),
            None => ask("username: ").map_err(nobody)?,
        };
        let username = if username.is_empty() {
            user_name()
        } else {
            username
        };
        let password = match &self.password {
            Some(password) => password.clone(),
            None => ask_hidden("password: ").map_err(nobody)?,
        };
        let login = Credentials::Login {
            system: system.clone(),
            username,
            password,
        };
        if !self.make_token {
            client.set_credentials(login);
            return Ok(client);
        }
        let token = client.make_token(&login).map_err(|e| e.to_string())?;
        let path = token_file(client.config()).ok_or("there is no home directory for the token")?;
        write_token(&path, &token).map_err(|e| format!("{}: {e}", path.display()))?;
        client.set_credentials(Credentials::Token(token));
        Ok(client)
    }
}

/// The path of the token file: `token_file`, else `salt_token` in `~/.config/salt` if that directory exists,
/// else in the home directory.
fn token_file(config: &MasterConfig) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    if !config.token_file.is_empty() {
        return match config.token_file.strip_prefix("~/") {
            Some(below) => Some(home?.join(below)),
            None => Some(PathBuf::from(&config.token_file)),
        };
    }
    let home = home?;
    let xdg = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty());
    let xdg = xdg
        .map_or_else(|| home.join(".config"), PathBuf::from)
        .join("salt");
    let dir = if xdg.is_dir() { xdg } else { home };
    Some(dir.join("salt_token"))
}

/// Reads a token that has not expired, from a file that only its owner can read.
fn read_token(config: &MasterConfig) -> Option<String> {
    let path = token_file(config)?;
    let meta = std::fs::symlink_metadata(&path).ok()?;
    if !meta.is_file() || meta.size() > 1024 {
        return None;
    }
    if meta.mode() & 0o077 != 0 {
        eprintln!(
            "WARNING: {} can be read by others and is not used; remove it",
            path.display()
        );
        return None;
    }
    let age = SystemTime::now().duration_since(meta.modified().ok()?);
    if age.is_ok_and(|age| age >= Duration::from_secs(config.token_expire)) {
        return None;
    }
    let text = std::fs::read_to_string(&path).ok()?;
    Some(text.trim().to_owned()).filter(|token| !token.is_empty())
}

fn write_token(path: &Path, token: &str) -> std::io::Result<()> {
    // The existing file may be a symlink, or have other permissions.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(token.as_bytes())
}

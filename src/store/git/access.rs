//! URLs of repositories, and how they are reached.

use base64::Engine;
use std::process::Command;

/// Protocols that are allowed in URLs, and in redirects by servers.
pub(crate) const PROTOCOLS: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// How a remote is reached.
#[derive(Clone, Debug)]
pub struct Access {
    /// Whether to check the certificate of the server.
    pub ssl_verify: bool,
    /// User name for HTTP; empty for none.
    pub user: String,
    /// Password of this user.
    pub password: String,
    /// File with a private key for SSH; empty for the keys of the account.
    pub privkey: String,
    /// Proxy for HTTP; empty for the one in the environment.
    pub proxy: String,
}

impl Access {
    /// Sets the environment of a `git` command that contacts the remote. Secrets are not passed as
    /// arguments, which every account on the host can read.
    pub fn apply(&self, command: &mut Command) {
        if !self.ssl_verify {
            command.env("GIT_SSL_NO_VERIFY", "true");
        }
        if !self.proxy.is_empty() {
            command
                .env("http_proxy", &self.proxy)
                .env("https_proxy", &self.proxy);
        }
        if !self.user.is_empty() {
            let pair = format!("{}:{}", self.user, self.password);
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            command
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "http.extraHeader")
                .env("GIT_CONFIG_VALUE_0", format!("Authorization: Basic {pair}"));
        }
        let mut ssh = "ssh -o BatchMode=yes".to_owned();
        if !self.privkey.is_empty() {
            // git passes this to a shell.
            let quoted = self.privkey.replace('\'', r"'\''");
            ssh.push_str(&format!(" -o IdentitiesOnly=yes -i '{quoted}'"));
        }
        command.env("GIT_SSH_COMMAND", ssh);
    }
}

/// Refuses URLs that git would take for an option or a program to run, and unknown protocols.
pub fn check_url(url: &str) -> Result<(), String> {
    if url.starts_with('-') || url.contains("::") || url.chars().any(|c| c.is_control() || c == ' ')
    {
        return Err("it is not the URL of a repository".into());
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        if !PROTOCOLS.contains(&scheme) {
            return Err(format!(
                "the protocol must be one of {}",
                PROTOCOLS.join(", ")
            ));
        }
        let host = rest.split('/').next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        if rest.starts_with('-') || host.starts_with('-') || rest.is_empty() {
            return Err("it is not the URL of a repository".into());
        }
        return Ok(());
    }
    // user@host:path, or host:path
    let scp = url.split_once(':').map(|(login, path)| {
        let (user, host) = login.split_once('@').unwrap_or(("git", login));
        (user, host, path)
    });
    let is_plain = |s: &str| !s.is_empty() && !s.starts_with('-') && !s.contains(['/', '@']);
    match scp {
        Some((user, host, path))
            if is_plain(user) && is_plain(host) && !path.is_empty() && !path.starts_with('-') =>
        {
            Ok(())
        }
        _ => Err("it must start with a protocol, or be host:path".into()),
    }
}

/// A URL for messages, without user name and password.
pub fn redact_url(url: &str) -> String {
    match url
        .split_once("://")
        .map(|(scheme, rest)| (scheme, rest.rsplit_once('@')))
    {
        Some((scheme, Some((_, rest)))) if scheme != "ssh" => format!("{scheme}://***@{rest}"),
        _ => url.to_owned(),
    }
}

/// `salt/utils/stringutils.py is_hex`.
pub fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// What is wrong with a refspec: it must map to `refs/remotes/origin/` or `refs/tags/`, where refs are looked up.
pub fn refspec_error(spec: &str) -> Option<String> {
    let target = spec.rsplit(':').next().unwrap_or_default();
    let known = target.starts_with("refs/remotes/origin/") || target.starts_with("refs/tags/");
    (spec.starts_with('-') || !known)
        .then(|| format!("refspecs: {spec:?} must map to refs/remotes/origin/ or refs/tags/"))
}

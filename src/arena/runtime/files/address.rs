//! The addresses of modules' files.

use crate::wire::ModulePath;

/// Digits of a SHA-256 digest.
const DIGITS: usize = 64;

/// Allowed sources of modules' files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Sources {
    /// Whether a master is configured for `salt://`.
    pub salt: bool,
    /// Allowed hosts, in lower case, with a port unless it is the default one.
    pub hosts: Vec<String>,
}

/// An address that may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Address {
    /// `salt://...`, on the master's file server.
    Salt(String),
    /// `http://...` or `https://...` without fragment, and the SHA-256 of the file as hexadecimal digits.
    Web(String, String),
    /// A file below the directory of modules.
    Local(ModulePath),
}

impl Sources {
    /// Parses `file` of a request.
    ///
    /// # Errors
    /// The reason why it may not be fetched.
    pub fn read(&self, file: &str) -> Result<Address, String> {
        if let Some(path) = file.strip_prefix("salt://") {
            if !self.salt {
                return Err(
                    "files from the master are not configured here (minion_config_dir)".to_owned(),
                );
            }
            let path = path.split('?').next().unwrap_or_default();
            if let Err(e) = path.parse::<ModulePath>() {
                return Err(e.to_string());
            }
            return Ok(Address::Salt(file.to_owned()));
        }
        match file.split_once("://") {
            Some(("http" | "https", rest)) => self.web(file, rest),
            Some((scheme, _)) => Err(format!("the scheme {scheme:?} is not supported for files")),
            None => file.parse().map(Address::Local).map_err(|e| e.to_string()),
        }
    }

    fn web(&self, file: &str, rest: &str) -> Result<Address, String> {
        let Some((address, digest)) = file.split_once("#sha256=") else {
            return Err(
                "a web address must end with #sha256= and the digest of the file".to_owned(),
            );
        };
        if digest.len() != DIGITS || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!(
                "the digest in the address is not {DIGITS} hexadecimal digits"
            ));
        }
        if address.contains('#') || !address.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("the web address is invalid".to_owned());
        }
        // Up to the path, the query or the fragment; a user name or password is not allowed.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.to_ascii_lowercase();
        if !self.hosts.contains(&host) {
            return Err(format!("files from {host:?} are not allowed (file_hosts)"));
        }
        Ok(Address::Web(
            address.to_owned(),
            digest.to_ascii_lowercase(),
        ))
    }
}

impl Address {
    /// The last part of the path, which the module gets as its `argv[0]`.
    pub fn program(&self) -> &str {
        let path = match self {
            Address::Salt(url) | Address::Web(url, _) => url.split('?').next().unwrap_or(url),
            Address::Local(path) => path.as_str(),
        };
        path.rsplit('/').next().unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn sources() -> Sources {
        Sources {
            salt: true,
            hosts: vec!["files.example.net".to_owned(), "localhost:8080".to_owned()],
        }
    }

    #[test]
    fn addresses_are_told_apart() {
        let read = |file: &str| sources().read(file).unwrap();
        assert_eq!(read("a/b.wasm").program(), "b.wasm");
        let salt = read("salt://modules/x.wasm?saltenv=dev");
        assert_eq!(
            salt,
            Address::Salt("salt://modules/x.wasm?saltenv=dev".to_owned())
        );
        assert_eq!(salt.program(), "x.wasm");
        let upper = format!(
            "https://Files.Example.NET/m/x.wasm?v=1#sha256={}",
            DIGEST.to_uppercase()
        );
        let address = "https://Files.Example.NET/m/x.wasm?v=1".to_owned();
        assert_eq!(read(&upper), Address::Web(address, DIGEST.to_owned()));
        assert_eq!(read(&upper).program(), "x.wasm");
        let port = read(&format!("http://localhost:8080/x#sha256={DIGEST}"));
        assert_eq!(port.program(), "x");
    }

    #[test]
    fn what_may_not_be_fetched_is_refused_with_the_reason() {
        let with = |address: &str| format!("{address}#sha256={DIGEST}");
        for (file, why) in [
            ("../x.wasm".to_owned(), "x.wasm"),
            ("/etc/passwd".to_owned(), "passwd"),
            ("a/../../x".to_owned(), ".."),
            (String::new(), ""),
            ("salt://../x".to_owned(), ".."),
            ("salt://".to_owned(), ""),
            ("ftp://files.example.net/x".to_owned(), "ftp"),
            ("https://files.example.net/x".to_owned(), "#sha256="),
            ("https://files.example.net/x#sha256=12".to_owned(), "digits"),
            (with("https://other.example.net/x"), "file_hosts"),
            (with("https://files.example.net:81/x"), "file_hosts"),
            (with("https://files.example.net@other/x"), "file_hosts"),
            (with("https://user:pass@files.example.net/x"), "file_hosts"),
            (with("https://other?files.example.net/x"), "file_hosts"),
            (
                with("https://files.example.net/a b"),
                "the web address is invalid",
            ),
        ] {
            let error = sources().read(&file).unwrap_err();
            assert!(error.contains(why), "{file}: {error}");
        }
        let without = Sources::default().read("salt://x.wasm").unwrap_err();
        assert!(without.contains("minion_config_dir"), "{without}");
    }
}

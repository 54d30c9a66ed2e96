//! The system `file`: users and hashed passwords in a file (`salt/auth/file.py`).

use super::crypt::{verify, verify_digest};
use halite_crypto::{HashType, constant_time_eq};
use halite_target::python_str;
use halite_wire::Map;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest file of users that is read.
const LARGEST: u64 = 16 << 20;
/// The hash of a password nobody has, verified for unknown users so that timing reveals little.
const NOBODY: &str = "$5$abcdefgh$azU9PNNJw9essBuwq5yihWY9lFXM0dF54Ph4sAxX.YB";

/// The file with the users, and how passwords are stored in it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileUsers {
    path: PathBuf,
    form: FileFormat,
}

#[derive(Clone, Debug, PartialEq)]
enum FileFormat {
    Htpasswd,
    Htdigest {
        realm: String,
    },
    Text {
        /// None: the passwords themselves.
        hash: Option<HashType>,
        separator: String,
        user: usize,
        password: usize,
    },
}

impl FileUsers {
    /// Parses the settings: the keys of `external_auth: file:` that start with `^`.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn parse(system: &Map) -> Result<FileUsers, String> {
        for (key, _) in system.iter() {
            let Some(name) = key.as_str().and_then(|k| k.strip_prefix('^')) else {
                continue;
            };
            let known = [
                "filename",
                "filetype",
                "hashtype",
                "realm",
                "field_separator",
                "username_field",
                "password_field",
            ];
            if !known.contains(&name) {
                return Err(format!("unknown setting ^{name}"));
            }
        }
        let text = |key: &str| system.get(key).map(|v| python_str(v).into_owned());
        let field = |key: &str, default: usize| match text(key) {
            None => Ok(default - 1),
            Some(number) => match number.trim().parse::<usize>() {
                Ok(n) if n > 0 => Ok(n - 1),
                _ => Err(format!("{key} must be a number from 1, not {number:?}")),
            },
        };
        let path = text("^filename").ok_or("^filename is missing")?;
        let form = match text("^filetype").as_deref().unwrap_or("text") {
            "htpasswd" => FileFormat::Htpasswd,
            "htdigest" => FileFormat::Htdigest {
                realm: text("^realm").ok_or("^realm is missing; htdigest needs it")?,
            },
            "text" => FileFormat::Text {
                hash: digest(&text("^hashtype").unwrap_or_else(|| "plaintext".into()))?,
                separator: text("^field_separator")
                    .filter(|s| !s.is_empty())
                    .unwrap_or_else(|| ":".into()),
                user: field("^username_field", 1)?,
                password: field("^password_field", 2)?,
            },
            other => {
                return Err(format!(
                    "^filetype must be htpasswd, htdigest or text, not {other:?}"
                ));
            }
        };
        Ok(FileUsers {
            path: path.into(),
            form,
        })
    }

    /// Whether the password is correct.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn check(&self, user: &str, password: &str) -> Result<bool, String> {
        let shown = |e: &dyn std::fmt::Display| format!("{}: {e}", self.path.display());
        let text = read(&self.path, self.form.open_to()).map_err(|e| shown(&e))?;
        self.check_in(&text, user, password).map_err(|e| shown(&e))
    }

    fn check_in(&self, text: &str, user: &str, password: &str) -> Result<bool, String> {
        match &self.form {
            FileFormat::Htpasswd => {
                let found = text
                    .lines()
                    .filter_map(|line| line.trim_end().split_once(':'))
                    .find(|(name, _)| *name == user);
                let Some((_, hash)) = found else {
                    let _ = verify(password, NOBODY);
                    return Ok(false);
                };
                verify(password, hash).map_err(|e| e.0)
            }
            FileFormat::Htdigest { realm } => {
                let own = HashType::Md5.hex(format!("{user}:{realm}:{password}").as_bytes());
                let begin = format!("{user}:{realm}:");
                let found = text.lines().find_map(|line| line.strip_prefix(&begin));
                let plain = !user.contains(':') && !realm.contains(':');
                Ok(plain
                    && found.is_some_and(|sum| {
                        constant_time_eq(own.as_bytes(), sum.trim_end().as_bytes())
                    }))
            }
            FileFormat::Text {
                hash,
                separator,
                user: at,
                password: behind,
            } => {
                for line in text.lines() {
                    let fields: Vec<&str> = line.trim().split(separator).collect();
                    let (Some(name), Some(sum)) = (fields.get(*at), fields.get(*behind)) else {
                        continue;
                    };
                    if *name == user {
                        return Ok(match hash {
                            Some(hash) => verify_digest(password, sum, *hash),
                            None => {
                                !sum.is_empty()
                                    && constant_time_eq(password.as_bytes(), sum.as_bytes())
                            }
                        });
                    }
                }
                Ok(false)
            }
        }
    }
}

impl FileFormat {
    /// The bits of the file's mode that must not be set, and the remedy.
    fn open_to(&self) -> (u32, &'static str) {
        match self {
            FileFormat::Text { hash: None, .. } => (
                0o077,
                "it has passwords in plain text and others may read it; `chmod 600` it, or keep hashes: `htpasswd -B` \
                 makes them for `^filetype: htpasswd`",
            ),
            _ => (0o002, "it is writable by everyone; `chmod o-w` it"),
        }
    }
}

/// The hash of a `^hashtype`; none for `plaintext`.
fn digest(hashtype: &str) -> Result<Option<HashType>, String> {
    if hashtype == "plaintext" {
        return Ok(None);
    }
    let known = hashtype.to_lowercase().parse().map(Some);
    known.map_err(|_| {
        format!("^hashtype {hashtype:?} is not supported; use plaintext, sha256, sha512, ...")
    })
}

/// Reads a regular file of which no bit of the mode is `forbidden`.
fn read(path: &Path, (forbidden, remedy): (u32, &str)) -> Result<String, String> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|e| e.to_string())?;
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("not a regular file".into());
    }
    if meta.mode() & forbidden != 0 {
        return Err(remedy.into());
    }
    if meta.size() > LARGEST {
        return Err(format!("larger than {LARGEST} bytes"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;
    use std::os::unix::fs::PermissionsExt;

    fn users(settings: Map) -> Result<FileUsers, String> {
        let mut all = map! {"fred" => vec![".*".to_owned()]};
        if settings.get("^filename").is_none() {
            all.set("^filename", "/dev/null");
        }
        all.0.extend(settings.0);
        FileUsers::parse(&all)
    }

    #[test]
    fn htpasswd() {
        let users = users(map! {"^filetype" => "htpasswd"}).unwrap();
        let text = "fred:$apr1$abcdefgh$bw9gEObk10asetVLiysIZ0\r\nold:rl3xAvK1iLsUw\nplain:geheim\nempty:\nfred:geheim\n";
        let check = |user, password| users.check_in(text, user, password);
        assert_eq!(check("fred", "geheim"), Ok(true));
        assert_eq!(check("fred", "Geheim"), Ok(false));
        assert_eq!(check("fred:$apr1$abcdefgh", "geheim"), Ok(false));
        assert_eq!(check("", "geheim"), Ok(false));
        assert_eq!(
            check("nobody", "geheim"),
            Ok(false),
            "also with the stand-in's password"
        );
        for refused in ["old", "plain"] {
            assert!(check(refused, "geheim").is_err(), "{refused}");
        }
        assert!(check("empty", "").is_err());
    }

    #[test]
    fn htdigest() {
        assert!(users(map! {"^filetype" => "htdigest"}).is_err());
        let users = users(map! {"^filetype" => "htdigest", "^realm" => "salt"}).unwrap();
        let text = format!("fred:salt:{}\n", HashType::Md5.hex(b"fred:salt:geheim"));
        assert_eq!(users.check_in(&text, "fred", "geheim"), Ok(true));
        assert_eq!(users.check_in(&text, "fred", "x"), Ok(false));
        assert_eq!(users.check_in(&text, "fred:salt", "geheim"), Ok(false));
    }

    #[test]
    fn text_with_digests() {
        let settings = map! {
            "^filetype" => "text", "^hashtype" => "sha256", "^field_separator" => "|",
            "^username_field" => 2, "^password_field" => "3",
        };
        let users = users(settings).unwrap();
        let text = format!("short\n46|fred|{}\n", HashType::Sha256.hex(b"geheim"));
        assert_eq!(users.check_in(&text, "fred", "geheim"), Ok(true));
        assert_eq!(users.check_in(&text, "fred", ""), Ok(false));
        assert_eq!(users.check_in(&text, "46", "geheim"), Ok(false));
    }

    #[test]
    fn plain_text_in_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, "fred:geheim\nempty:\n").unwrap();
        let users = users(map! {"^filename" => path.to_str().unwrap()}).unwrap();
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o600);
        assert_eq!(users.check("fred", "geheim"), Ok(true));
        assert_eq!(users.check("fred", "gehei"), Ok(false));
        assert_eq!(users.check("empty", ""), Ok(false));
        assert_eq!(users.check("nobody", ""), Ok(false));
        for open in [0o640, 0o604] {
            mode(open);
            let why = users.check("fred", "geheim").unwrap_err();
            assert!(why.contains("chmod 600"), "{why}");
        }
    }

    #[test]
    fn what_is_refused() {
        for settings in [
            map! {"^filetype" => "text", "^hashtype" => "whirlpool"},
            map! {"^filetype" => "sqlite"},
            map! {"^filetype" => "htpasswd", "^filnam" => "x"},
            map! {"^hashtype" => "md5", "^username_field" => 0},
        ] {
            assert!(users(settings).is_err());
        }
        assert!(FileUsers::parse(&map! {"^filetype" => "htpasswd"}).is_err());
    }
}

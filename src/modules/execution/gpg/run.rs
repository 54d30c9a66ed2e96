//! Runs `gpg` and reads its status lines.

use super::super::cmd::{
    CommandEnd, CommandSpec, Identity, OUTPUT_LIMIT, identity, start, wait_for, which,
};
use super::super::program::DEFAULT_TIMEOUT;
use super::super::{Call, CallError, python};
use crate::execution::declare::Result;
use crate::files::MAX_CONTENT;
use halite_sys::safe_open::read_finite;
use halite_wire::{Value, map};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A key ring and who uses it.
pub struct Gpg {
    home: String,
    keyring: Option<String>,
    identity: Option<Identity>,
}

/// What `gpg` did.
pub struct Ran {
    /// Its exit code.
    pub code: i64,
    /// What it wrote.
    pub data: Vec<u8>,
    /// What it said, with the status lines.
    pub said: String,
}

impl Ran {
    /// Its status lines: keyword and value.
    pub fn status(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.said.lines();
        let lines = lines.filter_map(|line| line.strip_prefix("[GNUPG:] "));
        lines.map(|line| {
            line.trim_end()
                .split_once(' ')
                .unwrap_or((line.trim_end(), ""))
        })
    }

    /// What it wrote, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }

    /// What it wrote: text, or bytes if it is none.
    pub fn value(self) -> Value {
        match String::from_utf8(self.data) {
            Ok(text) => text.into(),
            Err(e) => Value::Bytes(e.into_bytes()),
        }
    }
}

impl Gpg {
    /// From the arguments `user`, `gnupghome` and `keyring` of a call. The directory is created if it is missing.
    ///
    /// # Errors
    /// There is no such user, or the directory cannot be created.
    pub fn new(call: &mut Call<'_>) -> Result<Gpg> {
        let keyring = match call.arg("keyring") {
            ring if !ring.truthy() => None,
            Value::Str(ring) => Some(ring.clone()),
            _ => {
                return Err(CallError::Invocation(
                    "Please pass keyring as a string. Multiple keyrings are not allowed".to_owned(),
                ));
            }
        };
        let user = call.text("user").filter(|user| !user.is_empty());
        // The directory of the user `salt` is one of the configuration.
        let other = user.as_deref().filter(|user| *user != "salt");
        let identity = match other {
            Some(name) if nix::unistd::User::from_name(name).ok().flatten().is_none() => {
                return Err(CallError::Invocation(format!("User {name} does not exist")));
            }
            other => identity(other, None)?,
        };
        let given = call.text("gnupghome").filter(|home| !home.is_empty());
        let home = match given {
            Some(home) => home,
            None => default_home(call, user.as_deref())?,
        };
        let gpg = Gpg {
            home,
            keyring,
            identity,
        };
        gpg.make_home()?;
        Ok(gpg)
    }

    /// The same with another key ring.
    pub fn with_keyring(&self, keyring: &str) -> Gpg {
        Gpg {
            home: self.home.clone(),
            keyring: Some(keyring.to_owned()),
            identity: self.identity.clone(),
        }
    }

    fn make_home(&self) -> Result<()> {
        if Path::new(&self.home).is_dir() {
            return Ok(());
        }
        if self.identity.is_some() {
            let words = ["mkdir", "-p", "-m", "0700", "--", &self.home];
            let ran = self.spawn(words.map(str::to_owned).into(), None)?;
            return match ran.code {
                0 => Ok(()),
                _ => Err(CallError::Command(ran.said.trim_end().to_owned())),
            };
        }
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&self.home);
        made.map_err(|e| python::os_error(&e, &self.home))
    }

    /// Runs it with these arguments and input.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn run<T: AsRef<str>>(&self, args: &[T], input: Option<Vec<u8>>) -> Result<Ran> {
        self.run_with(args, input, None)
    }

    /// As [`Gpg::run`], with a pass phrase, which it gets before its input.
    ///
    /// # Errors
    /// It cannot be run, or the pass phrase has more than one line.
    pub fn run_with<T: AsRef<str>>(
        &self,
        args: &[T],
        input: Option<Vec<u8>>,
        passphrase: Option<&str>,
    ) -> Result<Ran> {
        if passphrase.is_some_and(|text| text.contains(['\n', '\r', '\0'])) {
            return Err(CallError::raised("ValueError", "Invalid passphrase"));
        }
        let Some(program) = which("gpg") else {
            return Err(CallError::Command("GPG is not installed".to_owned()));
        };
        let mut argv = vec![program];
        let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
        if passphrase.is_some() {
            add(&["--pinentry-mode", "loopback", "--passphrase-fd", "0"]);
        }
        add(&[
            "--status-fd",
            "2",
            "--no-tty",
            "--no-verbose",
            "--fixed-list-mode",
            "--batch",
        ]);
        add(&["--with-colons", "--homedir", &self.home]);
        if let Some(ring) = &self.keyring {
            add(&["--no-default-keyring", "--keyring", ring]);
        }
        argv.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let input = match passphrase {
            None => input,
            Some(text) => {
                let mut all = format!("{text}\n").into_bytes();
                all.extend(input.unwrap_or_default());
                Some(all)
            }
        };
        self.spawn(argv, input)
    }

    fn spawn(&self, argv: Vec<String>, input: Option<Vec<u8>>) -> Result<Ran> {
        let mut env = halite_sys::environment::all();
        let mut set = |name: &str, value: &str| {
            env.retain(|(known, _)| known != name);
            env.push((name.to_owned(), value.to_owned()));
        };
        // Messages are compared with English ones.
        set("LC_ALL", "C.UTF-8");
        if let Some(user) = &self.identity {
            set("HOME", &user.home);
            set("USER", &user.name);
            set("LOGNAME", &user.name);
        }
        let program = argv.first().cloned().unwrap_or_default();
        let spec = CommandSpec {
            argv,
            cwd: "/".to_owned(),
            env,
            stdin: input,
            identity: self.identity.clone(),
            timeout: Some(DEFAULT_TIMEOUT),
            limit: OUTPUT_LIMIT,
            ..CommandSpec::default()
        };
        let started = start(&spec).map_err(|e| CallError::Command(format!("{program}: {e}")));
        let (child, readers) = started?;
        match wait_for(&spec, child, readers)? {
            CommandEnd::Finished(done) => Ok(Ran {
                code: done.code,
                data: done.stdout,
                said: String::from_utf8_lossy(&done.stderr).into_owned(),
            }),
            _ => Err(CallError::Command(format!("{program} did not end"))),
        }
    }

    /// A directory for temporary files of this user.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn scratch(&self) -> Result<Scratch> {
        let name = format!("__salt.gpg.{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        let owned = made.and_then(|()| match &self.identity {
            Some(user) => std::os::unix::fs::lchown(&path, Some(user.uid), Some(user.gid)),
            None => Ok(()),
        });
        let scratch = Scratch(path);
        owned.map_err(|e| python::os_error(&e, &scratch.0.to_string_lossy()))?;
        Ok(scratch)
    }

    /// Whether files have to be given to it as input: it may not be allowed to read them.
    pub fn is_other_user(&self) -> bool {
        self.identity.is_some()
    }
}

/// A directory that is removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new file in it, which the user can read. No link is followed: the directory may be another user's.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn with(&self, name: &str, content: &[u8]) -> Result<String> {
        let path = self.file(name);
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o644).open(&path);
        made.and_then(|mut file| file.write_all(content))
            .map_err(|e| python::os_error(&e, &path))?;
        Ok(path)
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a user's keys are.
fn default_home(call: &mut Call<'_>, user: Option<&str>) -> Result<String> {
    let from_environment = match user {
        Some("salt") => {
            let dir = call.salt("config.get", vec!["config_dir".into()], map! {})?;
            return Ok(format!("{}/gpgkeys", python::str(&dir)));
        }
        None => halite_sys::environment::get("GNUPGHOME").unwrap_or_default(),
        Some(user) => {
            let kwargs = map! {"python_shell" => true, "runas" => user};
            let args = vec![Value::from("echo -n \"$GNUPGHOME\"")];
            let text = python::str(&call.salt("cmd.run_stdout", args, kwargs)?);
            match text.trim() {
                // The shell would have replaced it.
                text if text.starts_with('~') => String::new(),
                text => text.to_owned(),
            }
        }
    };
    if !from_environment.is_empty() {
        return Ok(from_environment);
    }
    let found = match user {
        Some(name) => nix::unistd::User::from_name(name),
        None => nix::unistd::User::from_uid(nix::unistd::geteuid()),
    };
    match found.ok().flatten() {
        Some(user) => Ok(user.dir.join(".gnupg").to_string_lossy().into_owned()),
        None => Err(CallError::Invocation(format!(
            "User {} does not exist",
            user.unwrap_or_default()
        ))),
    }
}

/// The content of a file that `gpg` gets as input.
///
/// # Errors
/// As raised by Python.
pub fn content(path: &str) -> Result<Vec<u8>> {
    read_finite(path.as_ref(), MAX_CONTENT).map_err(|e| python::os_error(&e, path))
}

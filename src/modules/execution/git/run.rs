//! Running git: arguments, directory, user, and error texts.

use super::super::{Call, CallError, python};
use super::identity::{IdentityFile, SSH, by_hand};
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value, shlex};
use regex::Regex;
use std::sync::LazyLock;

/// The output of git.
pub struct GitOutput {
    pub code: i64,
    pub stdout: String,
    pub stderr: String,
}

/// Builds and runs a git command.
pub struct Git {
    words: Vec<String>,
    cwd: Value,
    merge: bool,
    may_fail: bool,
    ignore_retcode: bool,
}

impl Git {
    /// `git` with arguments, in the directory of the argument `cwd`.
    pub fn plain(call: &Call<'_>, words: &[&str]) -> Git {
        Git {
            words: std::iter::once(&"git")
                .chain(words)
                .map(|w| (*w).to_owned())
                .collect(),
            cwd: cwd(call).map_or(Value::Nil, Value::from),
            merge: false,
            may_fail: false,
            ignore_retcode: call.flag("ignore_retcode"),
        }
    }

    /// The same, with the options of the argument `git_opts` first.
    pub fn new(call: &Call<'_>, words: &[&str]) -> Result<Git> {
        let mut git = Git::plain(call, words);
        git.words.splice(1..1, options(call.arg("git_opts"))?);
        Ok(git)
    }

    /// Sets the working directory; nil for none.
    pub fn current_dir(mut self, cwd: impl Into<Value>) -> Git {
        self.cwd = cwd.into();
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, word: impl Into<String>) -> Git {
        self.words.push(word.into());
        self
    }

    /// Adds an argument conditionally.
    pub fn flag(self, given: bool, word: &str) -> Git {
        if given { self.arg(word) } else { self }
    }

    /// Adds arguments.
    pub fn args(mut self, words: impl IntoIterator<Item = String>) -> Git {
        self.words.extend(words);
        self
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Merges standard error into the output.
    pub fn merge_stderr(mut self) -> Git {
        self.merge = true;
        self
    }

    /// Failure is not an error.
    pub fn may_fail(mut self) -> Git {
        self.may_fail = true;
        self
    }

    /// Failure does not set the job's return code.
    pub fn ignore_retcode(mut self) -> Git {
        self.ignore_retcode = true;
        self
    }

    /// Runs it, using the call's arguments `user`, `identity` and `output_encoding`.
    ///
    /// # Errors
    /// It cannot be run, or it failed and must not.
    pub fn run(self, call: &mut Call<'_>) -> Result<GitOutput> {
        let identity = call.arg("identity").clone();
        if identity.truthy() {
            return self.with_identity(call, &identity);
        }
        let done = self.once(call, Map::new())?;
        if done.code == 0 || self.may_fail {
            return Ok(done);
        }
        let mut text = format!("Command '{}' failed", redacted(&self.words.join(" ")));
        let output = self.output(&done);
        if !output.is_empty() {
            text.push_str(&format!(": {output}"));
        }
        Err(CallError::Command(text))
    }

    /// Runs it with one private key after the other until one works (`_git_run`).
    ///
    /// # Errors
    /// None works; the text says why and which files are missing.
    fn with_identity(&self, call: &mut Call<'_>, identity: &Value) -> Result<GitOutput> {
        let files: Vec<String> = match identity {
            Value::Array(items) => items.iter().map(python::str).collect(),
            one => vec![python::str(one)],
        };
        let (mut errors, mut missing) = (Vec::new(), Vec::new());
        let mut last = None;
        for name in files {
            let Some(key) = IdentityFile::find(call, &name)? else {
                if !name.contains("salt://") {
                    missing.push(name);
                }
                continue;
            };
            if key.is_encrypted()? && !by_hand(call) {
                errors.push(format!(
                    "Identity file {} is passphrase-protected and cannot be used in a non-interactive \
                     command. Using salt-call from the minion will allow a passphrase-protected key to \
                     be used.",
                    key.path
                ));
                continue;
            }
            let env = map! {"GIT_IDENTITY" => key.path.as_str(), "GIT_SSH_COMMAND" => SSH};
            let done = self.once(call, env)?;
            if done.code == 0 {
                return Ok(done);
            }
            let output = self.output(&done);
            if !output.is_empty() {
                errors.push(output);
            }
            last = Some(done);
        }
        if let Some(done) = last.filter(|_| self.may_fail) {
            return Ok(done);
        }
        let mut text = format!(
            "Unable to authenticate using identity file:\n\n{}",
            errors.join("\n")
        );
        if !missing.is_empty() {
            if !errors.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&format!(
                "The following identity file(s) were not found: {}",
                missing.join(", ")
            ));
        }
        Err(CallError::Command(text))
    }

    /// The error text for a failure.
    fn output(&self, done: &GitOutput) -> String {
        redacted(if self.merge {
            &done.stdout
        } else {
            &done.stderr
        })
    }

    /// Runs it once with these environment variables.
    ///
    /// # Errors
    /// It cannot be run.
    fn once(&self, call: &mut Call<'_>, env: Map) -> Result<GitOutput> {
        let user = call.arg("user").clone();
        let encoding = call.arg("output_encoding").clone();
        let options = map! {
            "cwd" => self.cwd.clone(), "runas" => user, "env" => env, "python_shell" => false,
            "ignore_retcode" => self.ignore_retcode, "redirect_stderr" => self.merge,
            "output_encoding" => encoding,
        };
        let ran = call.salt("cmd.run_all", vec![self.words.clone().into()], options)?;
        let ran = ran.into_map().unwrap_or_default();
        let text = |name: &str| ran.str(name).unwrap_or_default().to_owned();
        let code = ran.int("retcode").unwrap_or(1);
        // The last command determines the return code, like stock's `__context__`.
        call.retcode = if self.ignore_retcode { 0 } else { code }.into();
        Ok(GitOutput {
            code,
            stdout: text("stdout"),
            stderr: text("stderr"),
        })
    }

    /// Runs it and returns its output.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn text(self, call: &mut Call<'_>) -> Result<String> {
        Ok(self.run(call)?.stdout)
    }

    /// The output as a function's return value.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn value(self, call: &mut Call<'_>) -> Result<Value> {
        self.text(call).map(Value::from)
    }

    /// Runs it and returns true.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn done(self, call: &mut Call<'_>) -> Result<Value> {
        self.run(call)?;
        Ok(true.into())
    }
}

/// The argument `cwd`; relative to the user's home unless absolute.
pub fn cwd(call: &Call<'_>) -> Option<String> {
    call.text("cwd").map(|path| expand(call, &path))
}

/// A path relative to the home of the argument `user` unless absolute.
pub fn expand(call: &Call<'_>, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let user = Some(call.arg("user"))
        .filter(|u| u.truthy())
        .map(python::str);
    let home = python::expand_user(&format!("~{}", user.unwrap_or_default()));
    format!("{}/{path}", home.trim_end_matches('/'))
}

/// Options from text or a list (`_format_opts`); a trailing `--` in text is dropped.
///
/// # Errors
/// An unterminated quotation.
pub fn options(opts: &Value) -> Result<Vec<String>> {
    let mut words = match opts {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(items) => return Ok(items.iter().map(python::str).collect()),
        Value::Str(text) => shlex::split(text).map_err(|e| CallError::raised("ValueError", e))?,
        other => vec![python::str(other)],
    };
    if words.last().is_some_and(|w| w == "--") {
        words.pop();
    }
    Ok(words)
}

/// The argument `opts`.
///
/// # Errors
/// As [`options`].
pub fn opts(call: &Call<'_>) -> Result<Vec<String>> {
    options(call.arg("opts"))
}

/// Rejects keywords other than these and those of the job.
///
/// # Errors
/// The text of `salt.utils.args.invalid_kwargs`.
pub fn reject_unknown_kwargs(call: &Call<'_>, names: &[&str]) -> Result<()> {
    let given = call.bound.kwargs.iter().map(|(k, v)| (python::str(k), v));
    let wrong: Vec<String> = given
        .filter(|(k, _)| !k.starts_with("__") && !names.contains(&k.as_str()))
        .map(|(k, v)| format!("{k}={}", python::str(v)))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(CallError::Invocation(format!(
            "The following keyword arguments are not valid: {}",
            wrong.join(", ")
        )))
    }
}

/// A keyword that is not a named argument.
pub fn keyword<'a>(call: &'a Call<'_>, name: &str) -> &'a Value {
    call.bound.kwargs.get(name).unwrap_or(&Value::Nil)
}

/// A list, or comma-separated text.
pub fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(python::str).collect(),
        other => python::str(other).split(',').map(str::to_owned).collect(),
    }
}

/// The first word and the rest (`split(None, 1)`), if both exist.
pub fn first_word(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    (!rest.is_empty()).then_some((word, rest))
}

/// Hides credentials in URLs (`salt/utils/url.py redact_http_basic_auth`).
pub fn redacted(text: &str) -> String {
    static AUTH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)(https?)://.*@").ok());
    match &*AUTH {
        Some(auth) => auth.replace_all(text, "$1://<redacted>@").into_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_secrets() {
        assert_eq!(first_word(" M  a b "), Some(("M", "a b ")));
        assert_eq!(first_word("M"), None);
        assert_eq!(options(&"-a 'b c' --".into()).unwrap(), ["-a", "b c"]);
        assert_eq!(redacted("at HTTPS://u:p@h/x"), "at HTTPS://<redacted>@h/x");
    }
}

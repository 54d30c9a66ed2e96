//! One run of git: its words, where and as whom it runs, and what a failure says.

use super::super::{Call, CallError, python};
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value, shlex};
use regex::Regex;
use std::sync::LazyLock;

/// What git did.
pub struct GitOutput {
    pub code: i64,
    pub stdout: String,
    pub stderr: String,
}

/// A command under construction.
pub struct Git {
    words: Vec<String>,
    cwd: Value,
    merge: bool,
    may_fail: bool,
    ignore_retcode: bool,
}

impl Git {
    /// `git` with the words given, in the directory of the argument `cwd`.
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

    /// The same with the options of the argument `git_opts` first.
    pub fn new(call: &Call<'_>, words: &[&str]) -> Result<Git> {
        let mut git = Git::plain(call, words);
        git.words.splice(1..1, options(call.arg("git_opts"))?);
        Ok(git)
    }

    /// In another directory, or in none in particular.
    pub fn at(mut self, cwd: impl Into<Value>) -> Git {
        self.cwd = cwd.into();
        self
    }

    /// With one more word.
    pub fn arg(mut self, word: impl Into<String>) -> Git {
        self.words.push(word.into());
        self
    }

    /// With one more word under a condition.
    pub fn flag(self, given: bool, word: &str) -> Git {
        if given { self.arg(word) } else { self }
    }

    /// With more words.
    pub fn args(mut self, words: impl IntoIterator<Item = String>) -> Git {
        self.words.extend(words);
        self
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// With standard error in the output.
    pub fn merged(mut self) -> Git {
        self.merge = true;
        self
    }

    /// A failure is no error.
    pub fn may_fail(mut self) -> Git {
        self.may_fail = true;
        self
    }

    /// A failure does not become the job's return code.
    pub fn ignore_retcode(mut self) -> Git {
        self.ignore_retcode = true;
        self
    }

    /// Runs it, with the arguments `user`, `identity` and `output_encoding` of the call.
    ///
    /// # Errors
    /// It cannot be run, or fails without being allowed to.
    pub fn run(self, call: &mut Call<'_>) -> Result<GitOutput> {
        let identity = call.arg("identity").clone();
        if identity.truthy() {
            return super::remote::with_identity(self, call, &identity);
        }
        let done = self.once(call, Map::new())?;
        if done.code == 0 || self.may_fail {
            return Ok(done);
        }
        let mut text = format!("Command '{}' failed", redacted(&self.words.join(" ")));
        let said = self.output(&done);
        if !said.is_empty() {
            text.push_str(&format!(": {said}"));
        }
        Err(CallError::Command(text))
    }

    /// What it says about a failure.
    pub fn output(&self, done: &GitOutput) -> String {
        redacted(if self.merge {
            &done.stdout
        } else {
            &done.stderr
        })
    }

    /// Whether a failure is no error.
    pub fn can_fail(&self) -> bool {
        self.may_fail
    }

    /// Runs it once with these variables in its environment.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn once(&self, call: &mut Call<'_>, env: Map) -> Result<GitOutput> {
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
        // The last command counts, as in stock's `__context__`.
        call.retcode = if self.ignore_retcode { 0 } else { code }.into();
        Ok(GitOutput {
            code,
            stdout: text("stdout"),
            stderr: text("stderr"),
        })
    }

    /// Runs it for what it prints.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn text(self, call: &mut Call<'_>) -> Result<String> {
        Ok(self.run(call)?.stdout)
    }

    /// The same as the value that a function returns.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn value(self, call: &mut Call<'_>) -> Result<Value> {
        self.text(call).map(Value::from)
    }

    /// Runs it for what it does.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn done(self, call: &mut Call<'_>) -> Result<Value> {
        self.run(call)?;
        Ok(true.into())
    }
}

/// The argument `cwd`, below the home of the user unless it is absolute.
pub fn cwd(call: &Call<'_>) -> Option<String> {
    call.text("cwd").map(|path| expand(call, &path))
}

/// A path below the home of the argument `user` unless it is absolute.
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

/// Options from text or a list (`_format_opts`); a `--` at the end of text is left out.
///
/// # Errors
/// A quotation that does not end.
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

/// Refuses keywords other than these; those of the job do not count.
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

/// A keyword that is not among the named arguments.
pub fn keyword<'a>(call: &'a Call<'_>, name: &str) -> &'a Value {
    call.bound.kwargs.get(name).unwrap_or(&Value::Nil)
}

/// A list, or text separated by commas.
pub fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(python::str).collect(),
        other => python::str(other).split(',').map(str::to_owned).collect(),
    }
}

/// The first word and the rest (`split(None, 1)`), if there are both.
pub fn first_word(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    (!rest.is_empty()).then_some((word, rest))
}

/// Hides users and passwords of web addresses (`salt/utils/url.py redact_http_basic_auth`).
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

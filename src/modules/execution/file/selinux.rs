//! SELinux contexts of files.

use super::super::declare::Result;
use super::super::{Call, python, shell};
use super::os;
use halite_wire::Value;
use halite_wire::map;

/// Fields of a context in their order.
pub const WORDS: [&str; 4] = ["seuser", "serole", "setype", "serange"];

/// The wanted context; an empty field means no change.
#[derive(Clone, Debug, Default)]
pub struct WantedContext {
    /// User, role, type and range.
    pub words: [String; 4],
}

impl WantedContext {
    /// From the arguments `seuser`, `serole`, `setype`, `serange`.
    pub fn from_call(call: &Call<'_>) -> WantedContext {
        WantedContext {
            words: WORDS.map(|name| word(call, name)),
        }
    }

    /// Whether any field is given.
    pub fn is_set(&self) -> bool {
        self.words.iter().any(|w| !w.is_empty())
    }
}

fn word(call: &Call<'_>, name: &str) -> String {
    if call.flag(name) {
        python::str(call.arg(name))
    } else {
        String::new()
    }
}

/// The context as text (`file.get_selinux_context`).
///
/// # Errors
/// `stat` cannot be run.
pub fn context(call: &mut Call<'_>, path: &str) -> Result<String> {
    let ran = shell::run_all(call, &["stat", "-c", "%C", path])?;
    Ok(match ran.retcode {
        0 => ran.stdout,
        _ => format!("No selinux context information is available for {path}"),
    })
}

/// The four fields of a context; `None` if there are not four.
pub fn context_fields(text: &str) -> Option<[String; 4]> {
    let words: Vec<String> = text.split(':').map(str::to_owned).collect();
    words.try_into().ok()
}

/// Sets a context; returns the resulting one, or nil on failure (`file.set_selinux_context`).
///
/// # Errors
/// `chcon` or the `selinux` module is missing.
pub fn set(
    call: &mut Call<'_>,
    path: &str,
    words: &[String; 4],
    persist: bool,
) -> Result<Option<String>> {
    if words.iter().all(String::is_empty) {
        return Ok(None);
    }
    if persist {
        let some = |w: &String| {
            if w.is_empty() {
                Value::Nil
            } else {
                w.as_str().into()
            }
        };
        let how = map! {
            "sel_type" => some(&words[2]), "sel_user" => some(&words[0]), "sel_level" => some(&words[3]),
        };
        let ret = call.salt("selinux.fcontext_add_policy", vec![path.into()], how)?;
        let code = ret.as_map().and_then(|m| m.int("retcode"));
        if code != Some(0) {
            return os::command(format!("Problem setting fcontext: {}", python::str(&ret)));
        }
    }
    let mut argv = vec!["chcon".to_owned()];
    for (flag, word) in ["-u", "-r", "-t", "-l"].iter().zip(words) {
        if !word.is_empty() {
            argv.extend([(*flag).to_owned(), word.clone()]);
        }
    }
    argv.push(path.to_owned());
    if shell::succeeds(call, &argv)? {
        context(call, path).map(Some)
    } else {
        Ok(None)
    }
}

fn path(call: &Call<'_>) -> String {
    call.text("path").unwrap_or_default()
}

pub fn get_function(call: &mut Call<'_>) -> Result {
    let path = path(call);
    Ok(context(call, &path)?.into())
}

pub fn set_function(call: &mut Call<'_>) -> Result {
    let words = ["user", "role", "type", "range"].map(|name| word(call, name));
    let (path, persist) = (path(call), call.flag("persist"));
    Ok(match set(call, &path, &words, persist)? {
        Some(text) => text.into(),
        None => false.into(),
    })
}

pub fn restorecon_function(call: &mut Call<'_>) -> Result {
    let flags = if call.flag("recursive") { "-FR" } else { "-F" };
    let path = path(call);
    Ok(shell::succeeds(call, &["restorecon", flags, &path])?.into())
}

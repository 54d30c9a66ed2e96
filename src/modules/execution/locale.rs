//! `locale`: available locales and the system's locale.

use super::declare::{Function, Module, Result, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_target::{PyRegex, RegexFlags};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "locale",
    functions: &[
        Function::new("avail", avail, "Whether a locale is available.").args(&[req("locale")]),
        Function::new(
            "gen_locale",
            gen_locale,
            "Generates a locale; accepts verbose.",
        )
        .args(&[req("locale")])
        .keywords(),
        Function::new("get_locale", get_locale, "The host's locale."),
        Function::new(
            "list_avail",
            |c| Ok(Value::Array(list(c)?.into_iter().map(Value::Str).collect())),
            "The available locales.",
        ),
        Function::new("set_locale", set_locale, "Sets the host's locale.")
            .args(&[req("locale")])
            .one_line(&[]),
    ],
};

/// `language_TERRITORY.codeset@modifier charmap`.
#[derive(Debug, Default, PartialEq)]
struct Locale {
    language: String,
    territory: String,
    codeset: String,
    modifier: String,
    charmap: String,
}

impl Locale {
    fn parse(text: &str) -> Locale {
        let split = |text: &str, at: char| -> (String, String) {
            let (head, tail) = text.split_once(at).unwrap_or((text, ""));
            (head.to_owned(), tail.to_owned())
        };
        let (rest, charmap) = split(text, ' ');
        let (rest, modifier) = split(&rest, '@');
        let (rest, codeset) = split(&rest, '.');
        let (language, territory) = split(&rest, '_');
        Locale {
            language,
            territory,
            codeset,
            modifier,
            charmap,
        }
    }

    fn join(&self) -> String {
        let mut out = self.language.clone();
        for (mark, part) in [
            ('_', &self.territory),
            ('.', &self.codeset),
            ('@', &self.modifier),
            (' ', &self.charmap),
        ] {
            if !part.is_empty() {
                out.push(mark);
                out.push_str(part);
            }
        }
        out
    }

    /// In the form of `locale -a`.
    fn normal(text: &str) -> String {
        let mut locale = Locale::parse(text);
        locale.territory = locale.territory.to_uppercase();
        locale.codeset = locale.codeset.to_lowercase().replace('-', "");
        locale.charmap.clear();
        locale.join()
    }
}

fn list(call: &mut Call<'_>) -> Result<Vec<String>> {
    let text = shell::run(call, &["locale", "-a"])?;
    Ok(text.split('\n').map(str::to_owned).collect())
}

fn avail(call: &mut Call<'_>) -> Result {
    let wanted = Locale::normal(&python::str(call.arg("locale")));
    let all = list(call)?;
    Ok(all
        .iter()
        .any(|l| Locale::normal(l.trim()) == wanted)
        .into())
}

fn family(call: &Call<'_>) -> String {
    call.ctx
        .grains
        .str("os_family")
        .unwrap_or_default()
        .to_owned()
}

fn release(call: &Call<'_>) -> i64 {
    let grain = call.ctx.grains.get("osmajorrelease").map(python::str);
    grain.and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn booted() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The section `System Locale` of `localectl status`.
fn localectl(call: &mut Call<'_>) -> Result<Map> {
    if which("localectl").is_none() {
        return Err(CallError::Command("Unable to find \"localectl\"".into()));
    }
    let degraded = "Failed to connect to bus: No such file or directory";
    let text = shell::run(call, &["localectl", "status"])?;
    if text.contains(degraded) {
        return Err(CallError::Command(
            "Command \"localectl\" is in a degraded state.".into(),
        ));
    }
    let mut key = String::new();
    let mut any = false;
    let mut out = Map::new();
    for line in text.trim().lines() {
        let data = match line.split_once(": ") {
            Some((name, data)) => {
                key = name.trim().to_lowercase().replace(' ', "_");
                data
            }
            None => line.trim(),
        };
        if data.is_empty() || key.is_empty() {
            continue;
        }
        any = true;
        if key == "system_locale"
            && let Some((name, value)) = data.split_once('=')
            && !value.contains('=')
        {
            out.set(name, value);
        }
    }
    if any {
        Ok(out)
    } else {
        Err(CallError::Command(
            "Unable to parse result of \"localectl\"".into(),
        ))
    }
}

fn get_locale(call: &mut Call<'_>) -> Result {
    let family = family(call);
    if booted() && !(family == "Suse" && release(call) == 12) {
        let all = localectl(call)?;
        return Ok(all.get("LANG").cloned().unwrap_or_else(|| "".into()));
    }
    let argv = match family.as_str() {
        "Suse" => ["grep", "^RC_LANG", "/etc/sysconfig/language"],
        "RedHat" => ["grep", "^LANG=", "/etc/sysconfig/i18n"],
        "Debian" => ["grep", "^LANG=", "/etc/default/locale"],
        "Gentoo" => {
            let text = shell::run(call, &["eselect", "--brief", "locale", "show"])?;
            return Ok(text.trim().into());
        }
        _ => {
            let name = call.ctx.grains.get("oscodename").map(python::str);
            let text = format!("Error: \"{}\" is unsupported!", name.unwrap_or_default());
            return Err(CallError::Command(text));
        }
    };
    let text = shell::run(call, &argv)?;
    let value = text.split('=').nth(1).unwrap_or_default();
    Ok(value.replace('"', "").into())
}

/// Replaces a line of a file through the `file` module.
fn put_line(call: &mut Call<'_>, path: &str, pattern: &str, line: &str) -> Result {
    let options = map! {"append_if_not_found" => true};
    call.salt(
        "file.replace",
        vec![path.into(), pattern.into(), line.into()],
        options,
    )
}

fn touch(call: &mut Call<'_>, path: &str) -> Result {
    if Path::new(path).is_file() {
        Ok(Value::Nil)
    } else {
        call.salt("file.touch", vec![path.into()], Map::new())
    }
}

fn set_locale(call: &mut Call<'_>) -> Result {
    let locale = python::str(call.arg("locale"));
    let (family, release) = (family(call), release(call));
    let by_file = (family == "Suse" && release == 12) || (family == "Debian" && release >= 13);
    if booted() && !by_file {
        return set_by_localectl(call, &locale);
    }
    match family.as_str() {
        "Suse" => {
            touch(call, "/etc/sysconfig/language")?;
            let line = format!("RC_LANG=\"{locale}\"");
            put_line(call, "/etc/sysconfig/language", "^RC_LANG=.*", &line)?;
        }
        "RedHat" => {
            touch(call, "/etc/sysconfig/i18n")?;
            let line = format!("LANG=\"{locale}\"");
            put_line(call, "/etc/sysconfig/i18n", "^LANG=.*", &line)?;
        }
        "Debian" => {
            let Some(program) = which("update-locale") else {
                return Err(CallError::Command(
                    "Cannot set locale: \"update-locale\" was not found.".into(),
                ));
            };
            shell::run(call, &[&program])?;
            let line = format!("LANG=\"{locale}\"");
            put_line(call, "/etc/default/locale", "^LANG=.*", &line)?;
        }
        "Gentoo" => {
            let options = map! {"python_shell" => false};
            let argv = ["eselect", "--brief", "locale", "set", &locale];
            let argv: Vec<Value> = argv.into_iter().map(Into::into).collect();
            let code = call.salt("cmd.retcode", vec![argv.into()], options)?;
            return Ok((code == Value::Int(0)).into());
        }
        _ => return Err(CallError::Command("Error: Unsupported platform!".into())),
    }
    Ok(true.into())
}

fn set_by_localectl(call: &mut Call<'_>, locale: &str) -> Result {
    let mut all = localectl(call)?;
    all.set("LANG", locale);
    let mut argv: Vec<Value> = vec!["localectl".into(), "set-locale".into()];
    argv.extend(
        all.iter()
            .map(|(k, v)| format!("{}={}", python::str(k), python::str(v)).into()),
    );
    let options = map! {"python_shell" => false};
    let code = call.salt("cmd.retcode", vec![argv.into()], options)?;
    if code == Value::Int(0) {
        return Ok(true.into());
    }
    touch(call, "/etc/locale.conf")?;
    put_line(
        call,
        "/etc/locale.conf",
        "^LANG=.*",
        &format!("LANG={locale}"),
    )?;
    Ok(true.into())
}

fn gen_locale(call: &mut Call<'_>) -> Result {
    let os = call.ctx.grains.str("os").unwrap_or_default().to_owned();
    let (ubuntu, gentoo) = (os == "Ubuntu", family(call) == "Gentoo");
    let mut locale = python::str(call.arg("locale"));
    let mut parts = Locale::parse(&locale);
    let name = format!("{}_{}", parts.language, parts.territory);
    if parts.charmap.is_empty() && !ubuntu {
        parts.charmap.clone_from(&parts.codeset);
        locale = parts.join();
    }
    if !is_known(call, &locale, &name, os == "Debian" || gentoo)? {
        log::error!("The provided locale \"{locale}\" is not found");
        return Ok(false.into());
    }
    if Path::new("/etc/locale.gen").exists() {
        let pattern = format!(r"^\s*#\s*{locale}\s*$");
        put_line(call, "/etc/locale.gen", &pattern, &format!("{locale}\n"))?;
    } else if ubuntu {
        let path = format!("/var/lib/locales/supported.d/{}", parts.language);
        call.salt("file.touch", vec![path.as_str().into()], Map::new())?;
        put_line(call, &path, &locale, &locale)?;
    }
    let verbose = call.bound.kwargs.get("verbose").is_some_and(Value::truthy);
    let mut argv: Vec<String> = Vec::new();
    if which("locale-gen").is_some() {
        argv.push("locale-gen".into());
        if gentoo {
            argv.push("--generate".into());
        }
        argv.push(if ubuntu {
            Locale::normal(&locale)
        } else {
            locale
        });
    } else if which("localedef").is_some() {
        let full = format!("{name}.{}", parts.codeset);
        let loud = if verbose { "--verbose" } else { "--quiet" };
        argv.extend(
            [
                "localedef",
                "--force",
                "-i",
                &name,
                "-f",
                &parts.codeset,
                &full,
                loud,
            ]
            .map(str::to_owned),
        );
    } else {
        return Err(CallError::Command(
            "Command \"locale-gen\" or \"localedef\" was not found on this system.".into(),
        ));
    }
    call.retcode = 0.into();
    let options = map! {"python_shell" => false};
    let done = call.salt("cmd.run_all", vec![argv.into()], options)?;
    if verbose {
        return Ok(done);
    }
    let code = done.as_map().and_then(|m| m.int("retcode"));
    Ok((code == Some(0)).into())
}

/// Whether the host supports such a locale.
fn is_known(call: &Call<'_>, locale: &str, name: &str, listed: bool) -> Result<bool> {
    if listed {
        let path = "/usr/share/i18n/SUPPORTED";
        let pattern = format!("^(?:{locale})$");
        let regex = PyRegex::with_flags(&pattern, RegexFlags::default())
            .map_err(|e| CallError::raised("re.error", e))?;
        let text = command_helpers::read_file(path)
            .map_err(|_| CallError::Invocation(format!("File not found: {path}")))?;
        return Ok(text.lines().any(|line| regex.captures(line, 0).is_some()));
    }
    let dir = match family(call).as_str() {
        "Suse" => "/usr/share/locale",
        _ => "/usr/share/i18n/locales",
    };
    let entries = std::fs::read_dir(dir)
        .map_err(|_| CallError::Command(format!("Locale \"{locale}\" is not available.")))?;
    let mut names = entries.flatten().map(|e| e.file_name());
    Ok(names.any(|n| n == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_locale() {
        let text = "ca_ES.UTF-8@valencia UTF-8";
        assert_eq!(Locale::parse(text).join(), text);
        assert_eq!(Locale::normal(text), "ca_ES.utf8@valencia");
        assert_eq!(Locale::normal("C"), "C");
    }
}

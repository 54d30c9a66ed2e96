//! The minion's process and its environment.

use super::put;
use crate::programs::which;
use halite_wire::{Map, Value};

/// The shell for commands: `SHELL`, else `/bin/sh` (`salt/grains/extra.py shell`).
pub fn default_shell() -> String {
    std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())
}

pub(super) fn add(grains: &mut Map) {
    let path = std::env::var("PATH").unwrap_or_default().trim().to_owned();
    let parts: Vec<Value> = path.split(':').map(Value::from).collect();
    grains.set("path", path.as_str());
    grains.set("systempath", parts);
    let cwd = std::env::current_dir().ok();
    put(
        grains,
        "cwd",
        cwd.map(|dir| dir.to_string_lossy().into_owned()),
    );
    grains.set("shell", default_shell());
    grains.set("transactional", which("transactional-update").is_some());
    account(grains);
    locale(grains);
}

fn account(grains: &mut Map) {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    let group = user
        .as_ref()
        .and_then(|u| nix::unistd::Group::from_gid(u.gid).ok().flatten());
    grains.set("username", user.map_or_else(String::new, |u| u.name));
    grains.set("groupname", group.map_or_else(String::new, |g| g.name));
    grains.set("pid", std::process::id());
    grains.set("gid", gid.as_raw());
    grains.set("uid", uid.as_raw());
}

/// Like Python's `locale.getlocale`; the C locale counts as American English in UTF-8.
fn locale(grains: &mut Map) {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let (language, encoding) = split(set.as_deref().unwrap_or("C"));
    let zone = halite_sys::localtime::now().strftime("%Z").to_string();
    grains.set(
        "locale_info",
        halite_wire::map! {
            "defaultlanguage" => language,
            "defaultencoding" => encoding,
            "detectedencoding" => "utf-8",
            "timezone" => zone,
        },
    );
}

fn split(locale: &str) -> (String, String) {
    let locale = locale.split('@').next().unwrap_or_default();
    let (language, encoding) = locale.split_once('.').unwrap_or((locale, "UTF-8"));
    let language = match language {
        "" | "C" | "POSIX" => "en_US",
        other => other,
    };
    let encoding = match encoding.to_ascii_lowercase().as_str() {
        "utf8" | "utf-8" => "UTF-8".to_owned(),
        _ => encoding.to_owned(),
    };
    (language.to_owned(), encoding)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn locales() {
        let is = |locale, language: &str, encoding: &str| {
            assert_eq!(split(locale), (language.to_owned(), encoding.to_owned()));
        };
        is("C", "en_US", "UTF-8");
        is("C.UTF-8", "en_US", "UTF-8");
        is("de_DE.utf8@euro", "de_DE", "UTF-8");
        is("de_DE.ISO8859-1", "de_DE", "ISO8859-1");
    }
}

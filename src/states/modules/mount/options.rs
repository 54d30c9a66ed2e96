//! Which options of a mount differ.

use super::State;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

/// Options that the kernel does not show.
const INVISIBLE: &[&str] = &[
    "_netdev",
    "actimeo",
    "auto",
    "backup-volfile-servers",
    "bg",
    "bind",
    "comment",
    "credentials",
    "defaults",
    "delay_connect",
    "direct-io-mode",
    "intr",
    "loop",
    "nobootwait",
    "nofail",
    "nointr",
    "nonempty",
    "password",
    "port",
    "reconnect",
    "retry",
    "secretfile",
    "soft",
    "transform_symlinks",
    "users",
];
/// Options with values that the kernel does not show.
const INVISIBLE_KEYS: &[&str] = &[
    "actimeo",
    "comment",
    "credentials",
    "direct-io-mode",
    "password",
    "port",
    "retry",
    "secretfile",
];

/// The options of a declaration: a list, or text with commas.
pub fn given(opts: &Value) -> Vec<String> {
    match opts {
        Value::Nil => Vec::new(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other).split(',').map(str::to_owned).collect(),
    }
}

/// Differing options.
pub struct Changed {
    /// All of them, sorted.
    pub all: Vec<String>,
    /// The one that stock names if an option was taken away.
    pub last: String,
}

/// An option as the kernel shows it.
fn shown(fstype: &str, option: &str) -> String {
    let id = |value: &str, of: fn(&str) -> Option<u32>| of(value).map(|i| i.to_string());
    match option {
        "tcp" | "udp" => return format!("proto={option}"),
        _ => {}
    }
    let Some((key, value)) = option.split_once('=') else {
        return option.to_owned();
    };
    let value = match key {
        "uid" if !value.bytes().all(|b| b.is_ascii_digit()) => id(value, |v| {
            nix::unistd::User::from_name(v)
                .ok()
                .flatten()
                .map(|u| u.uid.as_raw())
        }),
        "gid" if !value.bytes().all(|b| b.is_ascii_digit()) => id(value, |v| {
            nix::unistd::Group::from_name(v)
                .ok()
                .flatten()
                .map(|g| g.gid.as_raw())
        }),
        "size" => kibibytes(value),
        "user" if fstype == "cifs" => return format!("username={value}"),
        _ => None,
    };
    value.map_or_else(|| option.to_owned(), |value| format!("{key}={value}"))
}

/// `2m` as `2048k`.
fn kibibytes(size: &str) -> Option<String> {
    let unit = size.chars().last()?.to_ascii_lowercase();
    let factor: u64 = match unit {
        'k' => 1,
        'm' => 1 << 10,
        'g' => 1 << 20,
        't' => 1 << 30,
        _ => return None,
    };
    let number: u64 = size.get(..size.len() - 1)?.parse().ok()?;
    Some(format!("{}k", number.checked_mul(factor)?))
}

/// The wanted options that a mount does not have.
pub fn changed(s: &State<'_, '_>, active: &Map, opts: &[String]) -> Changed {
    let fstype = s.text("fstype").unwrap_or_default();
    let texts = |value: &Value| given(value);
    let extra = |name: &str| s.list(name).iter().map(python::str).collect::<Vec<_>>();
    let hidden = [extra("extra_mount_invisible_options"), extra("hidden_opts")].concat();
    let hidden_keys = extra("extra_mount_invisible_keys");
    let of_fs = s.arg("extra_mount_ignore_fs_keys").as_map();
    let ignored = of_fs
        .and_then(|m| m.get(&fstype))
        .map(texts)
        .unwrap_or_default();
    let translated = s.arg("extra_mount_translate_options").as_map();
    let has: Vec<String> = ["opts", "superopts"]
        .iter()
        .filter_map(|key| active.get(key))
        .flat_map(texts)
        .collect();
    let mut all = Vec::new();
    let mut last = String::new();
    for option in opts {
        let option = match translated.and_then(|t| t.get(option)) {
            Some(other) => python::str(other),
            None => shown(&fstype, option),
        };
        last.clone_from(&option);
        let key = option.split_once('=').map(|(key, _)| key.to_owned());
        let unseen = match &key {
            None => INVISIBLE.contains(&option.as_str()) || hidden.contains(&option),
            Some(key) => {
                INVISIBLE_KEYS.contains(&key.as_str())
                    || hidden_keys.contains(key)
                    || ignored.contains(key)
                    || hidden.contains(&option)
            }
        };
        if !unseen && !has.contains(&option) {
            all.push(option);
        }
    }
    all.sort();
    // A file system with a size of its own is not remounted for other options, as in stock.
    let superopts = active.get("superopts").map(texts).unwrap_or_default();
    if let Some(size) = superopts.into_iter().find(|o| o.starts_with("size=")) {
        all.clear();
        last = size;
    }
    Changed { all, last }
}

//! The operating system: distribution, release, architecture, init.

use super::os_names::{FAMILY, OS};
use super::{put, read};
use crate::programs::which;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::path::Path;

pub(super) fn add(grains: &mut Map) {
    if which("systemctl").is_some() && which("localectl").is_some() {
        grains.set(
            "systemd",
            map! {"version" => systemd_version(), "features" => ""},
        );
    }
    grains.set("init", init());
    let lsb = read("/etc/lsb-release").unwrap_or_default();
    distribution(grains, &os_release_text(), &lsb);
    let family = grains.str("os_family").unwrap_or_default().to_owned();
    let machine = grains.str("cpuarch").unwrap_or_default().to_owned();
    grains.set("osarch", osarch(&family, machine));
    grains.set(
        "ps",
        match family.as_str() {
            "NILinuxRT" => "ps -o user,pid,ppid,tty,time,comm",
            _ => "ps -efHww",
        },
    );
}

/// The file that describes the distribution (`os-release(5)`); empty if missing.
pub(super) fn os_release_text() -> String {
    let release = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"));
    release.unwrap_or_default()
}

/// `key=value` lines with optional quotes; in double quotes a backslash escapes.
pub(super) fn pairs(text: &str) -> HashMap<&str, String> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.trim().split_once('=')?;
            let quoted = value.strip_prefix(['"', '\'']);
            let value = match quoted {
                Some(rest) => rest.strip_suffix(['"', '\'']).unwrap_or(rest),
                None => value,
            };
            Some((key, unescape(value)))
        })
        .filter(|(key, _)| !key.is_empty() && !key.starts_with('#'))
        .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && matches!(chars.peek(), Some('$' | '"' | '\'' | '\\' | '`'));
        out.push(if escaped {
            chars.next().unwrap_or(c)
        } else {
            c
        });
    }
    out
}

/// `os`, `os_family`, `osfullname`, `osrelease...`, `oscodename`, `osfinger` and `lsb_...`
/// (`_linux_distribution_data`, `_legacy_linux_distribution_data`, `_osrelease_data`).
///
/// Stock uses its legacy code on every host without Python's `lsb_release` module, so that is what we follow.
fn distribution(grains: &mut Map, os_release: &str, lsb_release: &str) {
    let release = pairs(os_release);
    let get = |key: &str| release.get(key).cloned().filter(|v| !v.is_empty());
    let mut lsb: HashMap<&str, String> = HashMap::new();
    let parsed = pairs(lsb_release);
    for (key, name) in LSB {
        if let Some(value) = parsed.get(key) {
            lsb.insert(name, value.trim_end().to_owned());
        }
    }
    let mut os = get("NAME").map(|name| os_name(&name, get("ID").as_deref()));
    let mut fullname = get("NAME").map(|n| n.trim().to_owned());
    if !lsb.contains_key("lsb_distrib_id") {
        lsb_from_release(&mut lsb, &get);
        if let Some((vendor, version)) = get("CPE_NAME").and_then(|c| cpe(&c)).filter(is_suse) {
            os = Some("SUSE".to_owned());
            fullname = suse_name(&get).or(fullname);
            if let Some(version) = version.filter(|_| vendor == "opensuse") {
                lsb.insert("lsb_distrib_release", version);
            }
        }
    }
    let fullname = fullname
        .or_else(|| lsb.get("lsb_distrib_id").cloned())
        .unwrap_or_default();
    let os = os.unwrap_or_else(|| os_name(&fullname, None));
    bracketed_codename(&os, &mut lsb);
    let codename = lsb
        .get("lsb_distrib_codename")
        .map(|c| c.trim().to_owned())
        .filter(|c| !c.is_empty() && !c.contains("Red Hat"));
    let codename = codename.or_else(|| get("VERSION_CODENAME")).or_else(|| {
        // `VERSION="9.4 (Plow)"`
        let version = get("VERSION")?;
        Some(version.split_once('(')?.1.split_once(')')?.0.to_owned())
    });
    let osrelease = lsb
        .get("lsb_distrib_release")
        .cloned()
        .or_else(|| get("VERSION_ID"))
        .unwrap_or_default();
    for (_, name) in LSB {
        put(grains, name, lsb.get(name).cloned());
    }
    let family = FAMILY
        .iter()
        .find(|(name, _)| *name == os)
        .map_or(os.as_str(), |f| f.1);
    grains.set("os_family", family);
    grains.set("oscodename", codename.unwrap_or_default());
    grains.set("osfullname", fullname.as_str());
    if !osrelease.is_empty() {
        release_parts(grains, &os, &fullname, osrelease.trim());
    }
    grains.set("os", os);
}

const LSB: [(&str, &str); 4] = [
    ("DISTRIB_ID", "lsb_distrib_id"),
    ("DISTRIB_RELEASE", "lsb_distrib_release"),
    ("DISTRIB_CODENAME", "lsb_distrib_codename"),
    ("DISTRIB_DESCRIPTION", "lsb_distrib_description"),
];

/// Without `lsb-release`, its grains come from `os-release`.
fn lsb_from_release(lsb: &mut HashMap<&str, String>, get: &impl Fn(&str) -> Option<String>) {
    let codename = get("VERSION_CODENAME").or_else(|| get("PRETTY_NAME"));
    let name = get("NAME").map(|n| n.trim().to_owned());
    for (grain, value) in [
        ("lsb_distrib_id", name),
        ("lsb_distrib_release", get("VERSION_ID")),
        ("lsb_distrib_codename", codename),
    ] {
        if let Some(value) = value {
            lsb.insert(grain, value);
        }
    }
}

fn is_suse((vendor, _): &(String, Option<String>)) -> bool {
    matches!(vendor.as_str(), "suse" | "opensuse")
}

fn suse_name(get: &impl Fn(&str) -> Option<String>) -> Option<String> {
    if get("NAME").as_deref() == Some("openSUSE Leap") {
        return Some("Leap".to_owned());
    }
    get("VERSION").filter(|v| v == "Tumbleweed")
}

/// Some distributions put the codename in brackets after their name.
fn bracketed_codename(os: &str, lsb: &mut HashMap<&str, String>) {
    if !["Rocky", "AlmaLinux", "AstraLinuxSE"]
        .iter()
        .any(|o| os.contains(o))
    {
        return;
    }
    let Some(codename) = lsb.get_mut("lsb_distrib_codename") else {
        return;
    };
    let Some((_, inner)) = codename.split_once('(') else {
        return;
    };
    let inner = inner.split(')').next().unwrap_or_default();
    *codename = if os == "AstraLinuxSE" {
        inner
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_lowercase()
    } else {
        inner.to_owned()
    };
}

/// The `os` grain for a distribution's name.
fn os_name(fullname: &str, id: Option<&str>) -> String {
    match (id, fullname) {
        (Some("astra"), "Astra Linux (Orel)") => return "AstraLinuxCE".to_owned(),
        (Some("astra"), "Astra Linux (Smolensk)") => return "AstraLinuxSE".to_owned(),
        (Some("pop"), "Pop!_OS") => return "Pop".to_owned(),
        _ => {}
    }
    let name = without_linux(fullname);
    let short: String = name
        .to_lowercase()
        .chars()
        .filter(|c| *c != ' ')
        .take(10)
        .collect();
    match OS.iter().find(|(key, _)| *key == short) {
        Some((_, os)) => (*os).to_owned(),
        None => name,
    }
}

/// Removes ` Linux` and ` GNU/Linux` with the preceding character.
fn without_linux(name: &str) -> String {
    let mut out = name.to_owned();
    while let Some(at) = out.to_ascii_lowercase().find("linux") {
        let end = at + "linux".len();
        let before = out[..at].to_ascii_lowercase();
        let start = before.strip_suffix("gnu/").map_or(at, str::len);
        let Some((cut, c)) = out[..start].char_indices().next_back() else {
            break;
        };
        if c.is_alphanumeric() || c == '_' {
            break;
        }
        out.replace_range(cut..end, "");
    }
    out.trim().to_owned()
}

/// Vendor and version of a CPE name in either notation.
fn cpe(name: &str) -> Option<(String, Option<String>)> {
    let parts: Vec<&str> = name.split(':').collect();
    let given = |s: &&str| Some((*s).to_owned()).filter(|s| s != "*");
    match parts.as_slice() {
        ["cpe", part, vendor, _, version, ..] if part.starts_with('/') => {
            Some((vendor.to_lowercase(), given(version)))
        }
        ["cpe", "2.3", _, vendor, _, version, ..] => Some((vendor.to_lowercase(), given(version))),
        _ => None,
    }
}

fn release_parts(grains: &mut Map, os: &str, fullname: &str, release: &str) {
    let info: Vec<Value> = release
        .split('.')
        .map(|part| match part.parse::<i64>() {
            Ok(number) if part.bytes().all(|b| b.is_ascii_digit()) => number.into(),
            _ => part.into(),
        })
        .collect();
    let first = release.split('.').next().unwrap_or_default();
    let own_name = matches!(os, "Debian" | "Raspbian" | "AlmaLinux");
    let whole = matches!(os, "Ubuntu" | "Pop" | "NixOS");
    let name = if own_name { os } else { fullname };
    let shown = if whole {
        release.to_owned()
    } else {
        // Printed from the number, without leading zeros.
        first
            .parse::<i64>()
            .map_or(first.to_owned(), |n| n.to_string())
    };
    grains.set("osrelease", release);
    grains.set("osrelease_info", info);
    put(grains, "osmajorrelease", first.parse::<i64>().ok());
    grains.set("osfinger", format!("{name}-{shown}"));
}

fn osarch(family: &str, machine: String) -> String {
    if family != "Debian" {
        return machine;
    }
    // The file exists only if a foreign architecture was added; its first line is the native one.
    if let Some(list) = read("/var/lib/dpkg/arch").filter(|l| !l.is_empty()) {
        return list.lines().next().unwrap_or_default().to_owned();
    }
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "i386",
        "aarch64" => "arm64",
        "arm" => "armhf",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64el",
        other => other,
    }
    .to_owned()
}

/// The number in `libsystemd-shared-<version>.so`.
fn systemd_version() -> String {
    let multiarch = format!("/usr/lib/{}-linux-gnu/systemd", std::env::consts::ARCH);
    let dirs = [
        "/usr/lib/systemd",
        "/lib/systemd",
        "/usr/lib64/systemd",
        &multiarch,
    ];
    let version = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten())
        .find_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let rest = name
                .strip_prefix("libsystemd-shared-")?
                .strip_suffix(".so")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (!digits.is_empty()).then_some(digits)
        });
    version.unwrap_or_else(|| "UNDEFINED".to_owned())
}

/// `_linux_init_system`.
fn init() -> String {
    if Path::new("/run/systemd/system").exists() {
        return "systemd".to_owned();
    }
    let raw = std::fs::read("/proc/1/cmdline").unwrap_or_default();
    let line = String::from_utf8_lossy(&raw).replace('\0', " ");
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(binary) = words.first().and_then(|w| which(w)) else {
        return named_init(&words);
    };
    if !binary.ends_with("bin/init") {
        return named_init(&words);
    }
    let content = std::fs::read(&binary)
        .unwrap_or_default()
        .to_ascii_lowercase();
    ["upstart", "sysvinit", "systemd"]
        .into_iter()
        .find(|name| content.windows(name.len()).any(|w| w == name.as_bytes()))
        .unwrap_or("unknown")
        .to_owned()
}

fn named_init(words: &[&str]) -> String {
    for name in ["supervisord", "dumb-init", "tini"] {
        if which(name).is_some_and(|path| words.contains(&path.as_str())) {
            return name.to_owned();
        }
    }
    if words == ["runit"] || words.contains(&"/sbin/my_init") {
        return "runit".to_owned();
    }
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(os_release: &str, lsb_release: &str) -> Map {
        let mut grains = Map::new();
        distribution(&mut grains, os_release, lsb_release);
        grains
    }

    fn check(os_release: &str, lsb_release: &str, want: &[(&str, &str)]) {
        let grains = of(os_release, lsb_release);
        for (key, value) in want {
            assert_eq!(grains.str(key), Some(*value), "{key}");
        }
    }

    #[test]
    fn names() {
        for (full, os) in [
            ("Debian GNU/Linux", "Debian"),
            ("Raspbian GNU/Linux", "Raspbian"),
            ("Ubuntu", "Ubuntu"),
            ("Red Hat Enterprise Linux", "RedHat"),
            ("Alpine Linux", "Alpine"),
            ("Arch Linux", "Arch"),
            ("AlmaLinux", "AlmaLinux"),
            ("Rocky Linux", "Rocky"),
            ("Oracle Linux Server", "OEL"),
            ("SLES", "SUSE"),
            ("Amazon Linux", "Amazon"),
        ] {
            assert_eq!(os_name(full, None), os, "{full}");
        }
    }

    #[test]
    fn debian() {
        let text = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        check(
            text,
            "",
            &[
                ("os", "Debian"),
                ("os_family", "Debian"),
                ("osfullname", "Debian GNU/Linux"),
                ("osrelease", "12"),
                ("oscodename", "bookworm"),
                ("osfinger", "Debian-12"),
                ("lsb_distrib_id", "Debian GNU/Linux"),
                ("lsb_distrib_release", "12"),
                ("lsb_distrib_codename", "bookworm"),
            ],
        );
        assert_eq!(of(text, "").int("osmajorrelease"), Some(12));
    }

    #[test]
    fn ubuntu() {
        let text = "NAME=\"Ubuntu\"\nVERSION_ID=\"22.04\"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\n";
        let lsb = "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=22.04\nDISTRIB_CODENAME=jammy\nDISTRIB_DESCRIPTION=\"Ubuntu 22.04.4 LTS\"\n";
        check(
            text,
            lsb,
            &[
                ("os", "Ubuntu"),
                ("os_family", "Debian"),
                ("osrelease", "22.04"),
                ("osfinger", "Ubuntu-22.04"),
                ("oscodename", "jammy"),
                ("lsb_distrib_description", "Ubuntu 22.04.4 LTS"),
            ],
        );
        assert_eq!(
            of(text, lsb).get("osrelease_info"),
            Some(&Value::Array(vec![22.into(), 4.into()]))
        );
    }

    #[test]
    fn others() {
        let rocky = "NAME=\"Rocky Linux\"\nVERSION=\"9.4 (Blue Onyx)\"\nID=\"rocky\"\nVERSION_ID=\"9.4\"\nPRETTY_NAME=\"Rocky Linux 9.4 (Blue Onyx)\"\nCPE_NAME=\"cpe:/o:rocky:rocky:9::baseos\"\n";
        check(
            rocky,
            "",
            &[
                ("os", "Rocky"),
                ("os_family", "RedHat"),
                ("oscodename", "Blue Onyx"),
                ("osrelease", "9.4"),
                ("osfinger", "Rocky Linux-9"),
            ],
        );
        let leap = "NAME=\"openSUSE Leap\"\nVERSION=\"15.5\"\nID=\"opensuse-leap\"\nVERSION_ID=\"15.5\"\nPRETTY_NAME=\"openSUSE Leap 15.5\"\nCPE_NAME=\"cpe:/o:opensuse:leap:15.5\"\n";
        check(
            leap,
            "",
            &[
                ("os", "SUSE"),
                ("os_family", "Suse"),
                ("osfullname", "Leap"),
                ("osrelease", "15.5"),
                ("osfinger", "Leap-15"),
            ],
        );
        assert_eq!(of("", "").str("os_family"), Some(""));
    }
}

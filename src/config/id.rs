//! The id of a host that has none configured.

use std::fs;
use std::io;
use std::path::Path;

/// The id stored in the file by the first start (`salt/config/__init__.py get_id`).
pub(super) fn cached(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().next()?;
    let id = line.trim_start_matches('\u{feff}').trim();
    (!id.is_empty() && id != "localhost").then(|| id.to_owned())
}

/// Stores the id for later starts.
pub(super) fn cache(file: &Path, id: &str) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(file, id)
}

/// The full host name, else the host name, else a name from `/etc/hostname` or `/etc/hosts`, else `localhost`; loopback
/// names are skipped (`salt/utils/network.py _generate_minion_id`, without its search for addresses).
pub(super) fn generate() -> String {
    let host = nix::unistd::gethostname().ok();
    let host = host.and_then(|h| h.into_string().ok()).unwrap_or_default();
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let own = fs::read_to_string("/etc/hostname").unwrap_or_default();
    choose(&host, own.trim(), &hosts)
}

/// [`generate`] for a given host name and the text of the two files.
fn choose(host: &str, own: &str, hosts: &str) -> String {
    let lines: Vec<Vec<&str>> = hosts
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default())
        .map(|l| l.split_whitespace().skip(1).collect())
        .collect();
    let line = lines.iter().find(|names| names.contains(&host));
    let full = line.and_then(|names| names.iter().find(|n| n.contains('.')));
    let loopback = lines.iter().flatten();
    full.into_iter()
        .copied()
        .chain([host, own])
        .chain(loopback.copied())
        .find(|name| usable(name))
        .unwrap_or("localhost")
        .to_owned()
}

fn usable(name: &str) -> bool {
    let prefixes = [
        "localhost",
        "ip6-",
        "ipv6-",
        "::1",
        "fe00::",
        "fe02::",
        "0.0.0.0",
    ];
    let loopback = name
        .strip_prefix("127.")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    !name.is_empty() && !loopback && !prefixes.iter().any(|p| name.starts_with(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_the_full_name() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 web1.example.org web1 # me\n";
        assert_eq!(choose("web1", "", hosts), "web1.example.org");
        assert_eq!(choose("web1", "", "127.0.0.1 localhost\n"), "web1");
        assert_eq!(choose("web1.x", "", "10.0.0.1 web1.x alias.y\n"), "web1.x");
    }

    #[test]
    fn passes_over_names_of_the_loopback() {
        let hosts = "127.0.0.1 localhost localhost.localdomain\n::1 ip6-localhost\n10.1.1.1 db\n";
        assert_eq!(choose("localhost", "", hosts), "db");
        assert_eq!(choose("localhost", "box", hosts), "box");
        assert_eq!(choose("", "", ""), "localhost");
    }

    #[test]
    fn keeps_the_id_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("conf/minion_id");
        assert_eq!(cached(&file), None);
        cache(&file, "web1").unwrap();
        assert_eq!(cached(&file).as_deref(), Some("web1"));
        fs::write(&file, "\u{feff} web2 \nrest").unwrap();
        assert_eq!(cached(&file).as_deref(), Some("web2"));
        fs::write(&file, "localhost\n").unwrap();
        assert_eq!(cached(&file), None);
    }
}

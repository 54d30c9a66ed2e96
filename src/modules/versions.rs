//! Versions of this program, its libraries and the host: `--versions-report` of every command, and the functions
//! `test.versions*` (`salt/version.py versions_report`).

use super::grains::{self, COMPAT_VERSION};
use halite_wire::map;
use halite_wire::{Map, Value};

/// Width of the name column; stock's fits its longest name and `Not Installed`.
const NAME_WIDTH: usize = 14;

/// Sections of names and versions.
pub fn information() -> Map {
    map! {
        "Salt Version" => map! {"Salt" => COMPAT_VERSION},
        "Halite Version" => map! {"halite" => env!("CARGO_PKG_VERSION")},
        "Protocol Versions" => map! {"Salt series" => "3006, 3007, 3008"},
        "Dependency Versions" => dependencies(),
        "System Versions" => system(),
    }
}

/// The same as text: a line per name, and a line with one blank after each section.
pub fn report() -> String {
    let mut lines = Vec::new();
    for (title, parts) in information().iter() {
        lines.push(format!("{}:", title.as_str().unwrap_or_default()));
        for (name, version) in parts.as_map().into_iter().flat_map(Map::iter) {
            let [name, version] = [name, version].map(|v| v.as_str().unwrap_or_default());
            lines.push(format!("{name:>NAME_WIDTH$}: {version}"));
        }
        lines.push(" ".to_owned());
    }
    lines.join("\n")
}

/// Linked libraries by name.
fn dependencies() -> Map {
    map! {
        "RSA" => halite_crypto::rsa_library(),
        "ZMQ" => halite_transport::sockets::version(),
    }
}

fn system() -> Map {
    let uname = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map(|s| s.trim().to_owned())
            .unwrap_or_default()
    };
    let release = grains::os_release();
    let words = |keys: [&str; 3]| {
        let words = keys.iter().filter_map(|key| release.get(*key));
        let words: Vec<&str> = words.map(String::as_str).collect();
        Value::Str(words.join(" "))
    };
    map! {
        "dist" => words(["ID", "VERSION_ID", "VERSION_CODENAME"]),
        "locale" => "utf-8",
        "machine" => std::env::consts::ARCH,
        "release" => uname("osrelease"),
        "system" => uname("ostype"),
        "version" => words(["NAME", "VERSION_ID", "VERSION_CODENAME"]),
    }
}

//! Red Hat packages: `dnf5`, `dnf`, `tdnf` or `yum`, whichever exists (`salt/modules/yumpkg.py`).

mod fetch;
mod groups;
mod holds;
mod install;
mod list;
mod patches;
mod remove;
mod repos;
mod table;
mod upgrade;

use super::rpm;
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::program::CommandOutput;
use crate::execution::{Call, CallError, command_helpers, python, systemd};
use halite_sys::command::Helper;
use halite_wire::{Map, Value};

pub use table::MODULE;

/// This host's program.
///
/// # Errors
/// None of them is installed.
fn program() -> Result<&'static str> {
    ["dnf5", "dnf", "tdnf", "yum"]
        .into_iter()
        .find(|p| which(p).is_some())
        .ok_or_else(|| CallError::Command("DNF nor YUM found".to_owned()))
}

/// Whether it is dnf of any version.
fn is_dnf() -> Result<bool> {
    Ok(program()?.starts_with("dnf"))
}

/// Runs it, in its own systemd scope if possible, because a package may restart the minion.
fn run(call: &mut Call<'_>, words: Vec<String>, merge: bool) -> Result<CommandOutput> {
    let mut argv = Vec::new();
    if systemd::scope(call) {
        argv.extend(["systemd-run".to_owned(), "--scope".to_owned()]);
    }
    argv.push(program()?.to_owned());
    argv.extend(words);
    command_helpers::run_all_with(
        call,
        Helper {
            merge,
            ..Helper::new(argv)
        },
    )
}

/// Like [`run`], but failures do not fail the call.
fn run_query(call: &mut Call<'_>, words: Vec<String>) -> Result<CommandOutput> {
    let ran = run(call, words, false)?;
    call.retcode = 0.into();
    Ok(ran)
}

/// Its output.
fn stdout(call: &mut Call<'_>, words: Vec<String>) -> Result<String> {
    let mut argv = vec![program()?.to_owned()];
    argv.extend(words);
    Ok(command_helpers::run_all(call, argv)?.stdout)
}

fn to_args(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

/// A list as it is, or comma-separated text (`salt/utils/args.py split_input`).
fn split_input(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other)
            .split(',')
            .map(|w| w.trim().to_owned())
            .collect(),
    }
}

/// Command line options for keywords; `extra` passes unknown ones on.
fn options(kwargs: &Map, extra: bool) -> Vec<String> {
    const KNOWN: [&str; 8] = [
        "fromrepo",
        "repo",
        "disablerepo",
        "enablerepo",
        "disableexcludes",
        "branch",
        "setopt",
        "get_extra_options",
    ];
    let given = |name: &str| kwargs.get(name).filter(|v| v.truthy());
    let mut list = Vec::new();
    if let Some(from) = given("fromrepo").or(given("repo")) {
        list.extend([
            "--disablerepo=*".to_owned(),
            format!("--enablerepo={}", python::str(from)),
        ]);
    } else {
        for name in ["disablerepo", "enablerepo"] {
            let repos = match given(name) {
                Some(Value::Array(list)) => list.as_slice(),
                Some(one) => std::slice::from_ref(one),
                None => &[],
            };
            list.extend(repos.iter().map(|r| format!("--{name}={}", python::str(r))));
        }
    }
    for name in ["disableexcludes", "branch"] {
        list.extend(given(name).map(|v| format!("--{name}={}", python::str(v))));
    }
    if let Some(set) = kwargs.get("setopt").filter(|v| !v.is_nil()) {
        list.extend(split_input(set).iter().map(|s| format!("--setopt={s}")));
    }
    if extra {
        let mut rest: Vec<_> = kwargs.iter().map(|(k, v)| (python::str(k), v)).collect();
        rest.sort_by(|a, b| a.0.cmp(&b.0));
        rest.retain(|(k, _)| !k.starts_with("__") && !KNOWN.contains(&k.as_str()));
        for (key, value) in rest {
            match value {
                Value::Str(text) => list.push(format!("--{key}={text}")),
                Value::Bool(true) => list.push(format!("--{key}")),
                _ => {}
            }
        }
    }
    list
}

/// One package of a package list.
#[derive(Clone, Debug, PartialEq)]
struct ListedPackage {
    name: String,
    arch: String,
    version: String,
    repo: String,
}

/// The packages printed by `list`; long names wrap lines.
fn parse_list(text: &str, own: &str) -> Vec<ListedPackage> {
    const HEADINGS: [&str; 5] = [
        "installed packages",
        "available packages",
        "available upgrades",
        "updated packages",
        "upgraded packages",
    ];
    let lines = text
        .lines()
        .filter(|l| !HEADINGS.contains(&l.to_lowercase().as_str()));
    let all: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let one = |triple: &[&str]| {
        let (name, arch) = triple[0].rsplit_once('.').unwrap_or((triple[0], own));
        ListedPackage {
            name: rpm::name_with_foreign_arch(name, arch, own),
            arch: arch.to_owned(),
            version: triple[1].trim_end_matches('-').to_owned(),
            repo: triple[2].trim_start_matches('@').to_owned(),
        }
    };
    all.chunks_exact(3).map(one).collect()
}

/// A name without this host's architecture.
fn normalized(own: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((plain, arch))
            if (rpm::is_arch(arch) || arch == "noarch")
                && rpm::name_with_foreign_arch(plain, arch, own) == plain =>
        {
            plain.to_owned()
        }
        _ => name.to_owned(),
    }
}

/// A name without its architecture, and the architecture with a leading dot.
fn split_arch(name: &str, own: &str, always: bool) -> (String, String) {
    match name.rsplit_once('.') {
        Some((plain, arch)) if rpm::is_arch(arch) && (arch != own || always) => {
            (plain.to_owned(), format!(".{arch}"))
        }
        _ => (name.to_owned(), String::new()),
    }
}

/// Whether to split names from their architectures; on by default.
fn splits_arch(call: &Call<'_>) -> bool {
    let word = call.bound.kwargs.get("split_arch");
    word.is_none_or(Value::truthy)
}

/// A version without its epoch.
fn without_epoch(version: &str) -> &str {
    version.split_once(':').map_or(version, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn lists_are_read() {
        let text = "Available Packages\nbash.x86_64      5.2-1.el9     baseos\nglibc.i686\n     2:2.3-1   @updates\nfoo.noarch 1- r\n";
        let own = |n: &str, a: &str, v: &str, r: &str| ListedPackage {
            name: n.to_owned(),
            arch: a.to_owned(),
            version: v.to_owned(),
            repo: r.to_owned(),
        };
        let wanted = [
            own("bash", "x86_64", "5.2-1.el9", "baseos"),
            own("glibc.i686", "i686", "2:2.3-1", "updates"),
            own("foo", "noarch", "1", "r"),
        ];
        assert_eq!(parse_list(text, "x86_64"), wanted);
    }

    #[test]
    fn options_of_keywords() {
        let some = map! {
            "enablerepo" => vec![Value::from("a"), "b".into()], "disablerepo" => "*", "setopt" => "x=1, y=2",
            "disableexcludes" => "main", "security" => true, "advisory" => "A", "__pub_fun" => "f", "n" => 1,
        };
        let all = [
            "--disablerepo=*",
            "--enablerepo=a",
            "--enablerepo=b",
            "--disableexcludes=main",
            "--setopt=x=1",
            "--setopt=y=2",
        ];
        assert_eq!(options(&some, false), all);
        assert_eq!(options(&some, true)[6..], ["--advisory=A", "--security"]);
        let from = map! {"repo" => "c", "enablerepo" => "a"};
        assert_eq!(options(&from, false), ["--disablerepo=*", "--enablerepo=c"]);
    }

    #[test]
    fn names() {
        assert_eq!(normalized("x86_64", "a.x86_64"), "a");
        assert_eq!(normalized("x86_64", "a.i686"), "a.i686");
        assert_eq!(normalized("x86_64", "a.b"), "a.b");
        let own = |name, always| split_arch(name, "x86_64", always);
        assert_eq!(own("a.i686", false), ("a".to_owned(), ".i686".to_owned()));
        assert_eq!(own("a.x86_64", false).1, "");
        assert_eq!(own("a.x86_64", true).1, ".x86_64");
        assert_eq!(own("a.b", true).0, "a.b");
    }
}

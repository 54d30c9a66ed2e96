//! `gem`: Ruby gems. Stock 3008 has no such states any more; these are those of 3007 (`salt/states/gem.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_wire::{Map, Value, map};
use std::cmp::Ordering;

pub(super) const MODULE: StateModule = StateModule {
    name: "gem",
    functions: &[
        StateFunction::new("installed", installed, "Ensures that a gem is installed.").args(args![
            ruby = None,
            gem_bin = None,
            user = None,
            version = None,
            rdoc = False,
            ri = False,
            pre_releases = False,
            proxy = None,
            source = None
        ]),
        StateFunction::new("removed", removed, "Ensures that a gem is not installed.").args(args![
            ruby = None,
            user = None,
            gem_bin = None
        ]),
        StateFunction::new(
            "sources_add",
            |s| source(s, &ADD),
            "Ensures that gems are looked for at an address.",
        )
        .args(args![ruby = None, user = None]),
        StateFunction::new(
            "sources_remove",
            |s| source(s, &REMOVE),
            "Ensures that gems are not looked for at an address.",
        )
        .args(args![ruby = None, user = None]),
    ],
};

/// Who runs gem, and which one.
fn runner(s: &State<'_, '_>, names: &[&str]) -> Map {
    let mut kwargs = s.pick(names);
    kwargs.set("runas", s.arg("user").clone());
    kwargs
}

/// The installed versions of the gem; `None` if there are none.
fn versions(s: &mut State<'_, '_>) -> Result<Option<Vec<String>>> {
    let name = s.name();
    let kwargs = runner(s, &["ruby", "gem_bin"]);
    let all = s.salt_with("gem.list", vec![name.as_str().into()], kwargs)?;
    let found = all.as_map().and_then(|all| all.get(&name));
    Ok(found.map(Value::str_list))
}

/// A part of a version.
#[derive(PartialEq)]
enum Part {
    Number(u64),
    Word(String),
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(match (self, other) {
            (Part::Number(a), Part::Number(b)) => a.cmp(b),
            (Part::Word(a), Part::Word(b)) => a.cmp(b),
            (Part::Number(a), Part::Word(b)) => a.to_string().cmp(b),
            (Part::Word(a), Part::Number(b)) => a.cmp(&b.to_string()),
        })
    }
}

/// Numbers and words of a version, without the dots between them and zeros at the end.
fn parts(version: &str) -> Vec<Part> {
    let mut all = Vec::new();
    let mut rest = version;
    while let Some(first) = rest.chars().next() {
        let kind = |c: char| (c.is_ascii_digit(), c == '.');
        let end = rest.find(|c| kind(c) != kind(first)).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(end);
        rest = tail;
        match part.parse() {
            Ok(number) => all.push(Part::Number(number)),
            Err(_) if first == '.' => {}
            Err(_) => all.push(Part::Word(part.to_owned())),
        }
    }
    while all.last() == Some(&Part::Number(0)) {
        all.pop();
    }
    all
}

/// `>= 1.2` as the sign and the version. For stock `<=` holds always.
fn comparison(version: &str) -> Option<(&str, &str)> {
    let sign = [">=", "<=", ">", "<"]
        .into_iter()
        .find(|s| version.starts_with(s))?;
    Some((sign, version[sign.len()..].trim()))
}

fn holds(own: &str, sign: &str, wanted: &str) -> bool {
    let (own, wanted) = (parts(own), parts(wanted));
    match sign {
        ">=" => own >= wanted,
        "<=" => own <= wanted,
        ">" => own > wanted,
        _ => own < wanted,
    }
}

fn installed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let version = s.text("version");
    if let Some(own) = versions(s)? {
        let there = "Gem is already installed.";
        let Some(version) = &version else {
            return Ok(StateOutcome::good(there));
        };
        if let Some((sign, wanted)) = comparison(version) {
            let newest = own.first().map(|v| v.replace("default: ", ""));
            if holds(newest.unwrap_or_default().trim(), sign, wanted) {
                let text = "Installed Gem meets version requirements.";
                return Ok(StateOutcome::good(text));
            }
        } else if own.contains(version) {
            return Ok(StateOutcome::good(there));
        }
    }
    if s.test {
        let text = format!("The gem {name} would have been installed");
        return Ok(StateOutcome::would(text));
    }
    let kwargs = runner(
        s,
        &[
            "ruby",
            "gem_bin",
            "version",
            "rdoc",
            "ri",
            "pre_releases",
            "proxy",
            "source",
        ],
    );
    let out = s.salt_with("gem.install", vec![name.as_str().into()], kwargs)?;
    Ok(if out.truthy() {
        StateOutcome::good("Gem was successfully installed").changes(map! {name => "Installed"})
    } else {
        StateOutcome::bad("Could not install gem.")
    })
}

fn removed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if versions(s)?.is_none() {
        return Ok(StateOutcome::good("Gem is not installed."));
    }
    if s.test {
        let text = format!("The gem {name} would have been removed");
        return Ok(StateOutcome::would(text));
    }
    let kwargs = runner(s, &["ruby", "gem_bin"]);
    let out = s.salt_with("gem.uninstall", vec![name.as_str().into()], kwargs)?;
    Ok(if out.truthy() {
        StateOutcome::good("Gem was successfully removed.").changes(map! {name => "Removed"})
    } else {
        StateOutcome::bad("Could not remove gem.")
    })
}

/// What adding and removing addresses differ in.
struct Wanted {
    fun: &'static str,
    there: bool,
    /// It is so already.
    already: &'static str,
    done: &'static str,
    change: &'static str,
    failed: &'static str,
}

const ADD: Wanted = Wanted {
    fun: "gem.sources_add",
    there: true,
    already: "Gem source is already added.",
    done: "Gem source was successfully added.",
    change: "Installed",
    failed: "Could not add gem source.",
};

const REMOVE: Wanted = Wanted {
    fun: "gem.sources_remove",
    there: false,
    already: "Gem source is already removed.",
    done: "Gem source was successfully removed.",
    change: "Removed",
    failed: "Could not remove gem source.",
};

fn source(s: &mut State<'_, '_>, wanted: &Wanted) -> Result {
    let name = s.name();
    let kwargs = runner(s, &["ruby"]);
    let all = s.salt_with("gem.sources_list", Vec::new(), kwargs.clone())?;
    if all.str_list().contains(&name) == wanted.there {
        return Ok(StateOutcome::good(wanted.already));
    }
    if s.test {
        return Ok(StateOutcome::would(if wanted.there {
            format!("The gem source {name} would have been added.")
        } else {
            "The gem source would have been removed.".to_owned()
        }));
    }
    let out = s.salt_with(wanted.fun, vec![name.as_str().into()], kwargs)?;
    Ok(if out.truthy() {
        StateOutcome::good(wanted.done).changes(map! {name => wanted.change})
    } else {
        StateOutcome::bad(wanted.failed)
    })
}

#[cfg(test)]
mod tests {
    use super::{comparison, holds};

    #[test]
    fn versions() {
        assert_eq!(comparison(">= 1.2"), Some((">=", "1.2")));
        assert_eq!(comparison("~> 1.2"), None);
        assert!(
            holds("1.10", ">", "1.9") && holds("1.0", "<=", "1.0.0") && holds("2.0", ">=", "2.0")
        );
        assert!(!holds("1.0.0.pre", "<=", "1.0.0"));
    }
}

//! `gem`: Ruby gems (`gem(1)`), also those of RVM and rbenv.

use super::cmd::which;
use super::command_helpers::run_all_as;
use super::declare::{Arg, Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

const GEMS: &[Arg] = args![gems, ruby = None, runas = None, gem_bin = None];
const SOURCE: &[Arg] = args![source_uri, ruby = None, runas = None, gem_bin = None];
const NONE: &[Arg] = args![ruby = None, runas = None, gem_bin = None];

pub(super) const MODULE: Module = Module {
    name: "gem",
    functions: &[
        Function::new("install", install, "Installs gems.")
            .args(args![
                gems,
                ruby = None,
                gem_bin = None,
                runas = None,
                version = None,
                rdoc = False,
                ri = False,
                pre_releases = False,
                proxy = None,
                source = None
            ])
            .names(&["gems"]),
        Function::new(
            "uninstall",
            |c| several(c, "uninstall", &["-a", "-x"]),
            "Removes all versions of gems, and their programs.",
        )
        .args(GEMS)
        .names(&["gems"]),
        Function::new("update", |c| several(c, "update", &[]), "Updates gems.")
            .args(GEMS)
            .names(&["gems"]),
        Function::new("update_system", update_system, "Updates RubyGems itself.")
            .args(args![
                version = "",
                ruby = None,
                runas = None,
                gem_bin = None
            ])
            .names(&["version"]),
        Function::new(
            "version",
            |c| Ok(version(c)?.into()),
            "The version of RubyGems.",
        )
        .args(NONE),
        Function::new("list", list, "The installed gems with their versions.")
            .inner("list_")
            .args(args![
                prefix = "",
                ruby = None,
                runas = None,
                gem_bin = None
            ])
            .names(&["prefix"]),
        Function::new(
            "list_upgrades",
            list_upgrades,
            "Gems that have a newer version.",
        )
        .args(NONE),
        Function::new(
            "sources_add",
            |c| sources(c, "--add"),
            "Adds a place where gems are looked for.",
        )
        .args(SOURCE)
        .names(&["source_uri"]),
        Function::new(
            "sources_remove",
            |c| sources(c, "--remove"),
            "Removes a place where gems are looked for.",
        )
        .args(SOURCE)
        .names(&["source_uri"]),
        Function::new(
            "sources_list",
            sources_list,
            "The places where gems are looked for.",
        )
        .args(NONE),
    ],
};

/// RVM of a user, or of the system, if it is installed.
fn rvm(runas: Option<&str>) -> Option<String> {
    let own = runas.map(|user| python::expand_user(&format!("~{user}/.rvm/bin/rvm")));
    let own = own.filter(|path| Path::new(path).exists());
    which(&own.unwrap_or_else(|| "/usr/local/rvm/bin/rvm".to_owned()))
}

/// The directory of rbenv, if it is installed.
fn rbenv(call: &Call<'_>, runas: Option<&str>) -> Option<String> {
    let set = call.ctx.opts.str("rbenv.root").filter(|r| !r.is_empty());
    let root = match (set, runas) {
        (Some(root), _) => root.to_owned(),
        (None, None | Some("root")) => "/usr/local/rbenv".to_owned(),
        (None, Some(user)) => format!("~{user}/.rbenv"),
    };
    let root = python::expand_user(&root);
    which(&format!("{root}/bin/rbenv")).map(|_| root)
}

/// Runs gem and returns its output. RVM and rbenv run it if they are installed and no program is named; where they
/// fail, the answer is `None`.
fn gem(call: &mut Call<'_>, words: Vec<String>) -> Result<Option<String>> {
    let (ruby, runas) = (call.text("ruby"), call.text("runas"));
    let bin = call.text("gem_bin");
    let mut argv = vec![bin.clone().unwrap_or_else(|| "gem".to_owned())];
    argv.extend(words);
    let mut kwargs = map! {"runas" => call.arg("runas").clone()};
    if bin.is_none() {
        if let Some(rvm) = rvm(runas.as_deref()) {
            let ruby = ruby.filter(|r| !r.is_empty());
            let mut all = vec![
                rvm,
                ruby.unwrap_or_else(|| "default".to_owned()),
                "do".into(),
            ];
            all.append(&mut argv);
            let ran = run_all_as(call, all, kwargs)?;
            return Ok(ran.ok().then_some(ran.stdout));
        }
        if let Some(root) = rbenv(call, runas.as_deref()) {
            let path = std::env::var("PATH").unwrap_or_default();
            let mut env = map! {"PATH" => format!("{root}/shims:{path}")};
            if let Some(ruby) = ruby.filter(|r| !r.is_empty()) {
                env.set("RBENV_VERSION", ruby);
            }
            let mut again = kwargs.clone();
            kwargs.set("env", env);
            let ran = run_all_as(call, argv, kwargs)?;
            if !ran.ok() {
                return Ok(None);
            }
            again.set("env", map! {"RBENV_ROOT" => root.as_str()});
            run_all_as(
                call,
                [format!("{root}/bin/rbenv"), "rehash".to_owned()],
                again,
            )?;
            return Ok(Some(ran.stdout));
        }
    }
    let ran = run_all_as(call, argv, kwargs)?;
    if ran.ok() {
        Ok(Some(ran.stdout))
    } else {
        Err(CallError::Command(ran.stderr))
    }
}

fn said(out: Option<String>) -> Value {
    out.map_or(false.into(), Value::from)
}

/// The declared gems: a list, or words.
fn gems(call: &Call<'_>) -> Result<Vec<String>> {
    let list: Vec<String> = match call.arg("gems") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other)
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    };
    // Words in the middle of a text would be options, too.
    match list.iter().find(|word| word.starts_with('-')) {
        Some(word) => Err(CallError::Invocation(format!("{word} is not a gem"))),
        None => Ok(list),
    }
}

fn install(call: &mut Call<'_>) -> Result {
    let mut words = vec!["install".to_owned()];
    words.extend(gems(call)?);
    if call.flag("version") {
        words.extend(["--version".to_owned(), python::str(call.arg("version"))]);
    }
    let (rdoc, ri) = (call.flag("rdoc"), call.flag("ri"));
    let major = version(call)?;
    let major = major.split('.').next().and_then(|m| m.parse::<u32>().ok());
    let modern = major.is_some_and(|major| major >= 3);
    let before = if modern { "--prerelease" } else { "--pre" };
    for (wanted, option) in [
        (modern && !(rdoc && ri), "--no-document"),
        (!modern && !rdoc, "--no-rdoc"),
        (!modern && !ri, "--no-ri"),
        (call.flag("pre_releases"), before),
    ] {
        if wanted {
            words.push(option.to_owned());
        }
    }
    for (arg, option) in [("proxy", "-p"), ("source", "--source")] {
        if call.flag(arg) {
            words.extend([option.to_owned(), python::str(call.arg(arg))]);
        }
    }
    Ok(said(gem(call, words)?))
}

fn several(call: &mut Call<'_>, command: &str, options: &[&str]) -> Result {
    let mut words = vec![command.to_owned()];
    words.extend(gems(call)?);
    words.extend(options.iter().map(|o| (*o).to_owned()));
    Ok(said(gem(call, words)?))
}

fn update_system(call: &mut Call<'_>) -> Result {
    let version = python::str(call.arg("version"));
    let words = ["update".to_owned(), "--system".to_owned(), version];
    Ok(said(gem(call, words.to_vec())?))
}

fn version(call: &mut Call<'_>) -> Result<String> {
    let out = gem(call, vec!["--version".to_owned()])?.unwrap_or_default();
    let is_version = |line: &&str| line.starts_with(|c: char| c == '.' || c.is_ascii_digit());
    Ok(out.lines().find(is_version).unwrap_or_default().to_owned())
}

fn list(call: &mut Call<'_>) -> Result {
    let mut words = vec!["list".to_owned()];
    words.extend(call.text("prefix").filter(|prefix| !prefix.is_empty()));
    let out = gem(call, words)?.unwrap_or_default();
    let mut found = Map::new();
    for line in out.lines() {
        let Some((name, rest)) = line.split_once(' ') else {
            continue;
        };
        let versions = rest.strip_prefix('(').and_then(|r| r.rsplit_once(')'));
        if let Some((versions, _)) = versions.filter(|(v, _)| !name.is_empty() && !v.is_empty()) {
            let versions: Vec<String> = versions.split(", ").map(str::to_owned).collect();
            found.set(name, versions);
        }
    }
    Ok(found.into())
}

fn list_upgrades(call: &mut Call<'_>) -> Result {
    let out = gem(call, vec!["outdated".to_owned()])?.unwrap_or_default();
    let mut found = Map::new();
    for line in out.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [name, own, "<", new] if own.starts_with('(') => {
                found.set(*name, new.trim_end_matches(')'));
            }
            _ => log::error!("Can't parse line '{line}'"),
        }
    }
    Ok(found.into())
}

fn sources(call: &mut Call<'_>, option: &str) -> Result {
    let uri = python::str(call.arg("source_uri"));
    let words = ["sources".to_owned(), option.to_owned(), uri];
    Ok(said(gem(call, words.to_vec())?))
}

fn sources_list(call: &mut Call<'_>) -> Result {
    let out = gem(call, vec!["sources".to_owned()])?.unwrap_or_default();
    // The first two lines are a heading.
    let uris: Vec<String> = out.lines().skip(2).map(str::to_owned).collect();
    Ok(uris.into())
}

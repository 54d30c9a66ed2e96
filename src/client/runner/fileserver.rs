//! `fileserver.*`: content and caches of the file server (`salt/runners/fileserver.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_config::FileServerOptions;
use halite_store::files::git::{self, GitFs};
use halite_store::files::{FileListKind, FileServer, backend_names, clear_lists};
use halite_wire::{Map, Value};

const LIST: &[&str] = &["?saltenv", "?backend"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "fileserver.envs",
        args: &["?backend", "?sources"],
        doc: "Environments of all backends or of some.",
        run: |context, args| {
            let load = halite_wire::map! {"back" => backend(args, 0), "sources" => args.flag(1, "sources")};
            let envs = server(context).envs(&load);
            // As in stock: with sources, only the names of the backends are returned.
            Ok(match envs {
                Value::Map(map) => {
                    let mut names = names(&map);
                    names.sort_unstable();
                    names.into()
                }
                other => other.into(),
            })
        },
    },
    Function {
        name: "fileserver.file_list",
        args: LIST,
        doc: "Files of an environment.",
        run: |context, args| {
            Ok(server(context)
                .list(&load(args), FileListKind::Files)
                .into())
        },
    },
    Function {
        name: "fileserver.dir_list",
        args: LIST,
        doc: "Directories of an environment.",
        run: |context, args| Ok(server(context).list(&load(args), FileListKind::Dirs).into()),
    },
    Function {
        name: "fileserver.empty_dir_list",
        args: LIST,
        doc: "Empty directories of an environment.",
        // As in stock, selecting backends has no effect here.
        run: |context, args| {
            Ok(server(context)
                .list(&load(args), FileListKind::EmptyDirs)
                .into())
        },
    },
    Function {
        name: "fileserver.symlink_list",
        args: LIST,
        doc: "Symbolic links of an environment and their targets.",
        run: |context, args| Ok(server(context).symlinks(&load(args)).into()),
    },
    Function {
        name: "fileserver.update",
        args: &["?backend", "?remotes"],
        doc: "Fetches the repositories now: all, or those given by URL or name.",
        run: update,
    },
    Function {
        name: "fileserver.clear_cache",
        args: &["?backend"],
        doc: "Removes the copies of repositories.",
        run: clear_cache,
    },
    Function {
        name: "fileserver.clear_file_list_cache",
        args: &["?saltenv", "?backend"],
        doc: "Removes cached lists of files, of all environments or of some.",
        run: clear_file_list_cache,
    },
    Function {
        name: "fileserver.lock",
        args: &["?backend", "?remote"],
        doc: "Keeps repositories from being fetched: all, or those whose URL matches a glob.",
        run: |context, args| mark(context, args, true),
    },
    Function {
        name: "fileserver.clear_lock",
        args: &["?backend", "?remote"],
        doc: "Lets repositories be fetched again: all, or those whose URL matches a glob.",
        run: |context, args| mark(context, args, false),
    },
];

/// A file server without cached lists: files created here could belong to the caller's account.
fn server(context: &RunContext) -> FileServer {
    FileServer::new(&FileServerOptions::from(&context.config).uncached())
}

fn backend(args: &Args, at: usize) -> Value {
    args.get(at, "backend").cloned().unwrap_or_default()
}

fn load(args: &Args) -> Map {
    let env = args
        .get(0, "saltenv")
        .cloned()
        .unwrap_or_else(|| "base".into());
    halite_wire::map! {"saltenv" => env, "fsbackend" => backend(args, 1)}
}

/// Enabled backends selected by an argument.
fn backends(context: &RunContext, args: &Args, at: usize) -> Vec<String> {
    let load = halite_wire::map! {"back" => backend(args, at), "sources" => true};
    match server(context).envs(&load) {
        Value::Map(map) => names(&map),
        _ => Vec::new(),
    }
}

fn names(map: &Map) -> Vec<String> {
    let names = map.iter().filter_map(|(name, _)| name.as_str());
    names.map(str::to_owned).collect()
}

fn with_git(context: &RunContext, args: &Args) -> bool {
    backends(context, args, 0)
        .iter()
        .any(|name| name == "gitfs")
}

fn update(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    if with_git(context, args) {
        let mut git = GitFs::new(&(&context.config).into());
        let wanted = texts(args.get(1, "remotes"));
        let which = git.select(&wanted);
        git.update(&which, Some(&context.stop));
        let dir = context.config.gitfs();
        if nix::unistd::geteuid().is_root() && dir.is_dir() {
            halite_sys::ownership::chown_tree(&dir, &context.config.user, &[])?;
        }
    }
    Ok(Value::Bool(true).into())
}

fn clear_cache(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    if !with_git(context, args) {
        return Ok(Value::from("No cache was cleared").into());
    }
    let mut errors = git::clear_cache(&context.config.cachedir);
    if let Err(e) = clear_lists(&context.config.cachedir, &["gitfs".into()], None) {
        errors.push(e.to_string());
    }
    let cleared = if errors.is_empty() {
        vec!["The gitfs fileserver cache was successfully cleared".to_owned()]
    } else {
        Vec::new()
    };
    Ok(report(cleared, errors, "No cache was cleared"))
}

fn clear_file_list_cache(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let backends = match args.get(1, "backend") {
        Some(_) => backends(context, args, 1),
        None => backend_names(&context.config)
            .iter()
            .map(|n| (*n).to_owned())
            .collect(),
    };
    let envs = args.get(0, "saltenv").map(|v| texts(Some(v)));
    let cleared = clear_lists(&context.config.cachedir, &backends, envs.as_deref())?;
    let map: Map = cleared.into_iter().collect();
    Ok(Value::Map(map).into())
}

fn mark(context: &mut RunContext, args: &Args, set: bool) -> Result<RunnerOutput, RunError> {
    let (mut done, mut errors) = (Vec::new(), Vec::new());
    if with_git(context, args) {
        (done, errors) =
            GitFs::new(&(&context.config).into()).set_locks(args.text(1, "remote").as_deref(), set);
    }
    let (key, nothing) = if set {
        ("locked", "No locks were set")
    } else {
        ("cleared", "No locks were removed")
    };
    let RunnerOutput { value, .. } = report(done, errors, nothing);
    Ok(match value {
        Value::Map(map) => {
            let rename =
                |(k, v): (Value, Value)| (if k.is_str("cleared") { key.into() } else { k }, v);
            Value::Map(Map(map.0.into_iter().map(rename).collect())).into()
        }
        other => other.into(),
    })
}

/// What was done and what failed, or the given message if neither.
fn report(done: Vec<String>, errors: Vec<String>, nothing: &str) -> RunnerOutput {
    let mut map = Map::new();
    for (key, list) in [("cleared", done), ("errors", errors)] {
        if !list.is_empty() {
            map.set(key, list);
        }
    }
    if map.is_empty() {
        Value::from(nothing).into()
    } else {
        Value::Map(map).into()
    }
}

/// A list, or a comma-separated string.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(_)) => value.map(Value::str_list).unwrap_or_default(),
        Some(other) => {
            let text = other.as_str().unwrap_or_default();
            text.split(',').map(|t| t.trim().to_owned()).collect()
        }
        None => Vec::new(),
    }
}

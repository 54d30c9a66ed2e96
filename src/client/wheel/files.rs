//! `file_roots.*` and `pillar_roots.*`: the source files of the file server and of pillar
//! (`salt/wheel/file_roots.py`, `pillar_roots.py`).

use super::Function;
use super::roots::{self, RelPath};
use crate::call::{Args, RunError, as_text};
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::io::Read;
use std::path::Path;

/// Largest file that `read` returns, in bytes.
const LARGEST: u64 = 32 << 20;
/// Number of bytes checked to decide whether a file is text (`salt/utils/files.py is_text`).
const SAMPLE: u64 = 512;
/// Depth up to which directories are listed.
const DEEPEST: usize = 64;

macro_rules! of_roots {
    ($($prefix:literal, $roots:ident;)*) => {
        pub(super) const FUNCTIONS: &[Function] = &[$(
            Function {
                name: concat!($prefix, ".find"),
                args: &["path", "?saltenv"],
                doc: "Where a file with that path is, and whether it is text (txt) or not (bin).",
                run: |context, args| find(&$roots(context.config), args),
            },
            Function {
                name: concat!($prefix, ".list_env"),
                args: &["?saltenv"],
                doc: "The files of one environment as a tree.",
                run: |context, args| Ok(list_env(&$roots(context.config), &saltenv(args, 0))),
            },
            Function {
                name: concat!($prefix, ".list_roots"),
                args: &[],
                doc: "The files of all environments.",
                run: |context, _| Ok(list_roots(&$roots(context.config))),
            },
            Function {
                name: concat!($prefix, ".read"),
                args: &["path", "?saltenv"],
                doc: "The text of the files of that path.",
                run: |context, args| read(&$roots(context.config), args),
            },
            Function {
                name: concat!($prefix, ".write"),
                args: &["data", "path", "?saltenv", "?index"],
                doc: "Writes a file below one root of an environment.",
                run: |context, args| write(&$roots(context.config), args),
            },
        )*];
    };
}

of_roots! {
    "file_roots", file_roots;
    "pillar_roots", pillar_roots;
}

type Roots = Vec<(String, Vec<String>)>;

fn file_roots(config: &MasterConfig) -> Roots {
    config.file_roots.0.clone()
}

/// By name, as the option is declared by the part of the program that reads pillar.
fn pillar_roots(config: &MasterConfig) -> Roots {
    let known = config.as_map();
    let value = known
        .get("pillar_roots")
        .or_else(|| config.extra.get("pillar_roots"));
    let Some(map) = value.and_then(Value::as_map) else {
        let default = ["/srv/pillar", "/srv/spm/pillar"].map(str::to_owned);
        return vec![("base".to_owned(), default.to_vec())];
    };
    map.iter()
        .filter_map(|(env, dirs)| Some((as_text(env)?, dirs.str_list())))
        .collect()
}

fn saltenv(args: &Args, at: usize) -> String {
    args.text(at, "saltenv").unwrap_or_else(|| "base".into())
}

fn dirs<'r>(roots: &'r Roots, saltenv: &str) -> Option<&'r Vec<String>> {
    roots
        .iter()
        .find(|(env, _)| env == saltenv)
        .map(|(_, dirs)| dirs)
}

/// The regular files with that path: full names and opened files.
fn found(roots: &Roots, args: &Args) -> Vec<(String, std::fs::File)> {
    let path = args.text(0, "path").unwrap_or_default();
    let Some(rel) = RelPath::parse(&path) else {
        return Vec::new();
    };
    let dirs = dirs(roots, &saltenv(args, 1)).into_iter().flatten();
    dirs.filter_map(|root| {
        let file = roots::read(Path::new(root), &rel)?;
        let full = Path::new(root).join(&path);
        Some((full.to_string_lossy().into_owned(), file))
    })
    .collect()
}

fn find(roots: &Roots, args: &Args) -> Result<Value, RunError> {
    let mut out = Vec::new();
    for (full, file) in found(roots, args) {
        let form = if is_text(&head(&file)?) { "txt" } else { "bin" };
        out.push(Value::Map(halite_wire::map! {full => form}));
    }
    Ok(out.into())
}

fn head(file: &std::fs::File) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(SAMPLE).read_to_end(&mut head)?;
    Ok(head)
}

fn is_text(head: &[u8]) -> bool {
    if head.contains(&0) {
        return false;
    }
    if head.is_empty() || std::str::from_utf8(head).is_ok() {
        return true;
    }
    let odd = |b: &&u8| !(32..=126).contains(*b) && !b"\n\r\t\x0c\x08".contains(b);
    let count = head.iter().filter(odd).count();
    count * 10 <= head.len() * 3
}

fn read(roots: &Roots, args: &Args) -> Result<Value, RunError> {
    let mut out = Vec::new();
    for (full, mut file) in found(roots, args) {
        let mut content = head(&file)?;
        if !is_text(&content) {
            continue;
        }
        if file.metadata()?.len() > LARGEST {
            let why = format!("{full} is larger than {LARGEST} bytes");
            return Err(RunError::Raised("SaltInvocationError".into(), why));
        }
        file.by_ref().take(LARGEST).read_to_end(&mut content)?;
        let text = String::from_utf8(content)
            .map_err(|e| RunError::Raised("UnicodeDecodeError".into(), format!("{full}: {e}")))?;
        out.push(Value::Map(halite_wire::map! {full => text}));
    }
    Ok(out.into())
}

fn list_env(roots: &Roots, saltenv: &str) -> Value {
    let dirs = dirs(roots, saltenv).into_iter().flatten();
    let out: Map = dirs
        .map(|root| (root.as_str(), Value::Map(tree(Path::new(root), 0))))
        .collect();
    Value::Map(out)
}

/// Directories as maps, anything else as `f`; symlinks to directories are not followed.
fn tree(dir: &Path, depth: usize) -> Map {
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut out = Map::new();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if !path.is_dir() {
            out.set(name, "f");
        } else if path.is_symlink() || depth >= DEEPEST {
            out.set(name, Map::new());
        } else {
            out.set(name, tree(&path, depth + 1));
        }
    }
    out
}

fn list_roots(roots: &Roots) -> Value {
    let out: Map = roots
        .iter()
        .map(|(env, _)| (env.as_str(), Value::from(vec![list_env(roots, env)])))
        .collect();
    Value::Map(out)
}

fn write(roots: &Roots, args: &Args) -> Result<Value, RunError> {
    let data = args.text(0, "data").unwrap_or_default();
    let path = args.text(1, "path").unwrap_or_default();
    let saltenv = saltenv(args, 2);
    let index = args.int(3, "index").unwrap_or(0);
    let Some(dirs) = dirs(roots, &saltenv) else {
        return Ok(format!("Named environment {saltenv} is not present").into());
    };
    let root = usize::try_from(index).ok().and_then(|i| dirs.get(i));
    let Some(root) = root else {
        return Ok(
            format!("Specified index {index} in environment {saltenv} is not present").into(),
        );
    };
    if path.starts_with('/') {
        return Ok(format!(
            "The path passed in {path} is not relative to the environment {saltenv}"
        )
        .into());
    }
    let Some(rel) = RelPath::parse(&path) else {
        return Ok(format!("Invalid path: {path}").into());
    };
    let full = Path::new(root).join(&path);
    roots::write(Path::new(root), &rel, data.as_bytes())
        .map_err(|e| RunError::Raised("OSError".into(), format!("{}: {e}", full.display())))?;
    Ok(format!("Wrote data to file {}", full.display()).into())
}

//! `file_tree`: directories and files as maps and texts, per node group and per minion
//! (`salt/pillar/file_tree.py`).

use super::super::super::merge::update;
use super::super::super::pipeline::{Pipeline, Source};
use super::super::Compilation;
use super::nodegroups::member;
use super::{ExtArgs, ExtResult};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) const ARGS: &[&str] = &[
    "root_dir",
    "follow_dir_links",
    "debug",
    "keep_newline",
    "render_default",
    "renderer_blacklist",
    "renderer_whitelist",
    "template",
];

/// Deepest directory level.
const MAX_DEPTH: usize = 64;
/// Total size of all files, in bytes.
const MAX_BYTES: u64 = 64 << 20;

pub(super) fn run(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let mut pillar = Map::new();
    for dir in dirs(compile, args)? {
        update(&mut pillar, &of_dir(compile, args, &dir)?, false);
    }
    Ok(Value::Map(pillar))
}

/// `root_dir`; a relative one is looked for below each root of the environment.
fn dirs(compile: &Compilation, args: &ExtArgs) -> Result<Vec<PathBuf>, String> {
    let Some(root) = args.text("root_dir")?.filter(|root| !root.is_empty()) else {
        log::error!("file_tree: no root_dir specified");
        return Ok(Vec::new());
    };
    if root.starts_with('/') {
        return Ok(vec![root.into()]);
    }
    let Some(env) = &compile.settings.pillarenv else {
        log::error!("file_tree: root_dir is relative but pillarenv is not set");
        return Ok(Vec::new());
    };
    let Some(roots) = compile.settings.roots_of(env) else {
        log::error!(
            "file_tree: root_dir is relative but no pillar_roots are specified for pillarenv {env}"
        );
        return Ok(Vec::new());
    };
    let mut dirs: Vec<PathBuf> = roots.iter().map(|r| Path::new(r).join(root)).collect();
    dirs.dedup();
    Ok(dirs)
}

fn of_dir(compile: &Compilation, args: &ExtArgs, root: &Path) -> Result<Map, String> {
    let mut pillar = Map::new();
    if !root.is_dir() {
        log::error!(
            "file_tree: root_dir {} does not exist or is not a directory",
            root.display()
        );
        return Ok(pillar);
    }
    if !matches!(
        args.0.get("keep_newline"),
        None | Some(Value::Bool(_) | Value::Array(_))
    ) {
        log::error!("file_tree: keep_newline must be either True/False or a list of file globs");
        return Ok(pillar);
    }
    let groups = root.join("nodegroups");
    if let Ok(entries) = fs::read_dir(&groups)
        && !compile.options().nodegroups.is_empty()
    {
        for name in entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
        {
            if member(compile, &name) {
                update(
                    &mut pillar,
                    &Tree::new(compile, args).read(&groups.join(&name))?,
                    false,
                );
            }
        }
    }
    let host = root.join("hosts").join(compile.request.id.as_str());
    if host.is_dir() {
        update(&mut pillar, &Tree::new(compile, args).read(&host)?, false);
    } else if host.exists() {
        log::error!(
            "file_tree: {} exists, but is not a directory",
            host.display()
        );
    }
    Ok(pillar)
}

struct Tree<'a, 'b> {
    compile: &'a Compilation<'b>,
    follow: bool,
    /// Globs of files that keep their last newline; `None` for all files.
    keep: Option<Vec<String>>,
    template: Option<Pipeline>,
    bytes_read: u64,
}

impl<'a, 'b> Tree<'a, 'b> {
    fn new(compile: &'a Compilation<'b>, args: &ExtArgs) -> Tree<'a, 'b> {
        let keep = args.0.get("keep_newline");
        let template = args.0.get("template").and_then(Value::as_bool) == Some(true);
        let default = args.0.str("render_default").unwrap_or_default();
        Tree {
            compile,
            follow: args.flag("follow_dir_links"),
            keep: match keep {
                Some(Value::Bool(true)) => None,
                _ => Some(keep.map(Value::str_list).unwrap_or_default()),
            },
            template: template.then(|| Pipeline {
                default: default.to_owned(),
                blacklist: args.list("renderer_blacklist"),
                whitelist: args.list("renderer_whitelist"),
            }),
            bytes_read: 0,
        }
    }

    fn read(&mut self, dir: &Path) -> Result<Map, String> {
        self.dir(dir, ".", 0)
    }

    /// Directories, then files, each in the order of the file system.
    fn dir(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<Map, String> {
        if depth > MAX_DEPTH {
            return Err(format!(
                "{} is more than {MAX_DEPTH} directories deep",
                dir.display()
            ));
        }
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                log::error!("{}: {e}", dir.display());
                return Ok(Map::new());
            }
        };
        let mut map = Map::new();
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = entry.path();
            if !path.is_dir() {
                files.push((name, path));
                continue;
            }
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let below = match prefix {
                "." => name.clone(),
                prefix => format!("{prefix}/{name}"),
            };
            let inner = if link && !self.follow {
                Map::new()
            } else {
                self.dir(&path, &below, depth + 1)?
            };
            map.set(name, inner);
        }
        for (name, path) in files {
            if !path.is_file() {
                log::error!("file_tree: {}: not a regular file", path.display());
                continue;
            }
            match self.file(&path, &format!("{prefix}/{name}")) {
                Ok(value) => map.set(name, value),
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
        Ok(map)
    }

    fn file(&mut self, path: &Path, name: &str) -> Result<Value, String> {
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|e| e.to_string())?;
        let room = MAX_BYTES.saturating_sub(self.bytes_read);
        let read = file
            .take(room + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| e.to_string())?;
        self.bytes_read += read as u64;
        if self.bytes_read > MAX_BYTES {
            return Err(format!(
                "with this file, the total size is more than {MAX_BYTES} bytes"
            ));
        }
        let keeps = match &self.keep {
            None => true,
            Some(globs) => globs.iter().any(|glob| fnmatch(name, glob)),
        };
        if !keeps && bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) if self.template.is_none() => return Ok(Value::Bytes(e.into_bytes())),
            Err(_) => return Err("a template must be UTF-8 text".to_owned()),
        };
        let Some(pipeline) = &self.template else {
            return Ok(Value::Str(text));
        };
        let none = Map::new();
        let source = Source {
            text: &text,
            path: &path.to_string_lossy(),
            saltenv: "base",
            sls: "",
            defaults: &none,
        };
        pipeline
            .compile(&source, &*self.compile.renderer())
            .map_err(|e| e.to_string())
    }
}

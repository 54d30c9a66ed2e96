//! Custom modules from the file server (`salt/utils/extmods.py sync`): Python files, which halite stores where stock
//! does but does not run, and executables, which `execution::custom` runs.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::refresh;
use crate::files::{FileClient, FileError, FileFilter, hash_file};
use crate::local;
use crate::programs;
use halite_config::paths::minion::cache;
use halite_crypto::HashType;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files stock treats as modules.
const MODULES: &str = r"E@\.(pyx?|so|zip)$";
/// Types whose executables are synced as well, whatever their names.
const RUN_HERE: [&str; 2] = ["modules", "grains"];
/// Types synced by `sync_all`, in stock's order; the last three only without a master.
pub(in crate::execution) const ALL: &[&str] = &[
    "clouds",
    "beacons",
    "modules",
    "states",
    "sdb",
    "grains",
    "renderers",
    "returners",
    "output",
    "utils",
    "log_handlers",
    "executors",
    "proxy",
    "engines",
    "thorium",
    "serializers",
    "matchers",
    "resources",
];

/// `sync_<kind>`.
pub(super) fn run(call: &mut Call<'_>, form: &str) -> Result {
    require_masterless(call, form)?;
    let (allowed, denied) = (call.arg("extmod_whitelist"), call.arg("extmod_blacklist"));
    let changed = sync(call, form, allowed, denied)?;
    if !call.flag("refresh") {
        return Ok(changed.into());
    }
    match form {
        "sdb" | "tops" => {}
        "beacons" => {
            refresh::fire_refresh(call, "beacons_refresh")?;
        }
        "resources" => {
            refresh::fire_refresh(call, "resource_refresh")?;
        }
        "grains" | "pillar" => refresh_pillar(call),
        _ => {
            refresh::fire_refresh(call, "module_refresh")?;
        }
    }
    Ok(changed.into())
}

fn refresh_pillar(call: &Call<'_>) {
    let clean = call.arg("clean_pillar_cache").clone();
    local::fire(
        call.ctx,
        "pillar_refresh",
        &halite_wire::map! {"clean_cache" => clean},
    );
}

/// Types for the master's side are only for minions without a master.
fn require_masterless(call: &Call<'_>, form: &str) -> Result<()> {
    let what = match form {
        "pillar" => "Pillar modules",
        "tops" => "Master top modules",
        "wrapper" => "Wrapper modules",
        _ => return Ok(()),
    };
    if is_masterless(call) {
        Ok(())
    } else {
        Err(CallError::Command(format!(
            "{what} can only be synced to masterless minions"
        )))
    }
}

fn is_masterless(call: &Call<'_>) -> bool {
    call.ctx.opts.str("file_client") == Some("local")
}

/// `sync_all`.
pub(super) fn all(call: &mut Call<'_>) -> Result {
    let (allowed, denied) = (call.arg("extmod_whitelist"), call.arg("extmod_blacklist"));
    let alone = is_masterless(call);
    let first: &[&str] = if alone { &["tops"] } else { &[] };
    let last: &[&str] = if alone { &["pillar", "wrapper"] } else { &[] };
    let mut out = Map::new();
    for form in first.iter().chain(ALL).chain(last) {
        let name = if *form == "proxy" {
            "proxymodules"
        } else {
            form
        };
        out.set(name, sync(call, form, allowed, denied)?);
    }
    if call.flag("refresh") {
        refresh_pillar(call);
    }
    Ok(out.into())
}

/// The environments to sync from.
fn envs(call: &Call<'_>) -> Vec<String> {
    let split = |text: &str| text.split(',').map(str::to_owned).collect();
    match call.arg("saltenv") {
        Value::Nil => match call.ctx.opts.str("saltenv").filter(|e| !e.is_empty()) {
            Some(env) => vec![env.to_owned()],
            // Stock evaluates the top file.
            None => vec!["base".to_owned()],
        },
        Value::Str(text) => split(text),
        other => other.str_list(),
    }
}

/// Names in `extmod_whitelist` or `extmod_blacklist` for a type, from the argument or else the option.
fn names(call: &Call<'_>, given: &Value, option: &str, form: &str) -> Option<Vec<String>> {
    let of_map = |map: &Map| map.get(form).map(Value::str_list);
    match given {
        Value::Nil => call.ctx.opts.get(option)?.as_map().and_then(of_map),
        Value::Map(map) => of_map(map),
        other => Some(python::str(other).split(',').map(str::to_owned).collect()),
    }
}

/// The directory of custom modules.
fn directory(call: &Call<'_>) -> PathBuf {
    let ctx = call.ctx;
    match ctx.opts.str("extension_modules").filter(|d| !d.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => cache::extmods(&ctx.cachedir),
    }
}

fn sync(call: &Call<'_>, form: &str, allowed: &Value, denied: &Value) -> Result<Vec<String>> {
    let allowed = names(call, allowed, "extmod_whitelist", form);
    let denied = names(call, denied, "extmod_blacklist", form).unwrap_or_default();
    let wanted =
        |name: &String| allowed.as_ref().is_none_or(|a| a.contains(name)) && !denied.contains(name);
    let dir = directory(call).join(form);
    let mut sync = Sync {
        client: FileClient::new(call.ctx)?,
        cache: cache::files(&call.ctx.cachedir),
        form,
        dir,
        there: BTreeSet::new(),
        changed: Vec::new(),
    };
    let done = envs(call)
        .iter()
        .try_for_each(|env| sync.env(env, &wanted))
        .and_then(|()| sync.clean(call));
    if let Err(e) = done {
        // As in stock, what was copied before the error counts.
        log::error!("Failed to sync {form} module: {e}");
    }
    if !sync.changed.is_empty() {
        halite_python::files::forget();
        let mark = cache::module_refresh(&call.ctx.cachedir);
        let _ = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(mark);
    }
    Ok(sync.changed)
}

struct Sync<'a> {
    client: FileClient,
    /// `cachedir/files`.
    cache: PathBuf,
    form: &'a str,
    dir: PathBuf,
    /// Files on the file server.
    there: BTreeSet<PathBuf>,
    changed: Vec<String>,
}

impl Sync<'_> {
    fn env(&mut self, env: &str, wanted: &dyn Fn(&String) -> bool) -> Result<(), FileError> {
        let url = format!("salt://_{}", self.form);
        let stock = FileFilter::new(&MODULES.into(), &Value::Nil);
        let runs_here = RUN_HERE.contains(&self.form);
        let all = FileFilter::default();
        // Executables are only recognized by their first bytes.
        let pick = if runs_here { &all } else { &stock };
        let mut cached = self.client.cache_dir(&url, env, false, pick, None)?;
        cached.retain(|file| {
            stock.selects(&file.to_string_lossy()) || runs_here && programs::is_program(file)
        });
        let root = self.cache.join(env).join(format!("_{}", self.form));
        make(&self.dir).map_err(|e| FileError::Io(self.dir.clone(), e))?;
        for file in cached {
            let Ok(below) = file.strip_prefix(&root) else {
                continue;
            };
            let name = below.with_extension("").to_string_lossy().replace('/', ".");
            if !wanted(&name) {
                continue;
            }
            self.there.insert(below.to_owned());
            let dest = self.dir.join(below);
            if copy(&file, &dest).map_err(|e| FileError::Io(dest.clone(), e))? {
                self.changed.push(format!("{}.{name}", self.form));
            }
        }
        Ok(())
    }

    /// `clean_dynamic_modules`: removes files that are no longer on the file server.
    fn clean(&self, call: &Call<'_>) -> Result<(), FileError> {
        let wanted = call.ctx.opts.get("clean_dynamic_modules");
        if wanted.is_some_and(|v| !v.truthy()) {
            return Ok(());
        }
        remove_stale(&self.dir, &self.dir, &self.there)
            .map_err(|e| FileError::Io(self.dir.clone(), e))
    }
}

fn make(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Copies a file unless the same one exists.
fn copy(from: &Path, to: &Path) -> io::Result<bool> {
    let hash = |path: &Path| hash_file(path, HashType::Sha256);
    if to.is_file() && hash(from)? == hash(to)? {
        return Ok(false);
    }
    make(to.parent().unwrap_or(Path::new("/")))?;
    fs::copy(from, to)?;
    Ok(true)
}

/// Removes files that are not in `there`, and directories left empty.
fn remove_stale(root: &Path, dir: &Path, there: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_stale(root, &path, there)?;
            continue;
        }
        let below = path.strip_prefix(root).unwrap_or(&path);
        if !there.contains(below) {
            fs::remove_file(&path)?;
        }
    }
    if fs::read_dir(dir)?.next().is_none() {
        fs::remove_dir(dir)?;
    }
    Ok(())
}

pub(super) fn list_extmods(call: &mut Call<'_>) -> Result {
    let root = cache::extmods(&call.ctx.cachedir);
    let missing = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => CallError::raised(
            "FileNotFoundError",
            format!("[Errno 2] No such file or directory: '{}'", root.display()),
        ),
        _ => CallError::raised("OSError", e.to_string()),
    };
    let mut out = Map::new();
    let mut kinds: Vec<_> = fs::read_dir(&root).map_err(missing)?.flatten().collect();
    kinds.sort_by_key(fs::DirEntry::file_name);
    for kind in kinds {
        let mut names = BTreeSet::new();
        collect(&kind.path(), &mut names);
        let names: Vec<String> = names.into_iter().collect();
        out.set(kind.file_name().to_string_lossy(), names);
    }
    Ok(out.into())
}

fn collect(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            collect(&entry.path(), names);
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        names.insert(name.split('.').next().unwrap_or_default().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Context, call};
    use super::*;
    use halite_wire::map;

    struct Place {
        dir: tempfile::TempDir,
        ctx: Context,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let roots = dir.path().join("roots");
        fs::create_dir_all(roots.join("_modules/deep")).unwrap();
        fs::write(roots.join("_modules/one.py"), "1").unwrap();
        fs::write(roots.join("_modules/deep/two.py"), "2").unwrap();
        fs::write(roots.join("_modules/README"), "no").unwrap();
        let base = vec![roots.to_string_lossy().into_owned()];
        let ctx = Context {
            cachedir: dir.path().join("cache"),
            opts: std::sync::Arc::new(map! {
                "file_client" => "local", "file_roots" => map! {"base" => base}, "clean_dynamic_modules" => true,
            }),
            ..Context::default()
        };
        Place { dir, ctx }
    }

    fn run(place: &Place, fun: &str, kwargs: Map) -> Value {
        let mut kwargs = kwargs;
        kwargs.set("__kwarg__", true);
        call(&place.ctx, fun, &[kwargs.into()]).ret
    }

    #[test]
    fn modules_come_and_go() {
        let place = place();
        let sync = || {
            let mut names = run(&place, "saltutil.sync_modules", Map::new()).str_list();
            names.sort();
            names
        };
        assert_eq!(sync(), ["modules.deep.two", "modules.one"]);
        assert!(sync().is_empty());
        let roots = place.dir.path().join("roots/_modules");
        fs::write(roots.join("one.py"), "new").unwrap();
        fs::remove_dir_all(roots.join("deep")).unwrap();
        assert_eq!(sync(), ["modules.one"]);
        let there = place.ctx.cachedir.join("extmods/modules");
        assert_eq!(fs::read(there.join("one.py")).unwrap(), b"new");
        assert!(!there.join("deep").exists());
        let listed = run(&place, "saltutil.list_extmods", Map::new());
        let want = map! {"modules" => vec!["one".to_owned()]};
        assert_eq!(listed, want.into());
    }

    #[test]
    fn types_can_be_selected_and_synced_together() {
        let place = place();
        let chosen = map! {"extmod_whitelist" => "one"};
        assert_eq!(
            run(&place, "saltutil.sync_modules", chosen).str_list(),
            ["modules.one"]
        );
        let denied = map! {"extmod_blacklist" => map! {"modules" => vec!["one".to_owned()]}};
        let all = run(&place, "saltutil.sync_all", denied);
        let all = all.as_map().unwrap();
        assert_eq!(all.get("modules").unwrap().str_list(), ["modules.deep.two"]);
        assert!(all.contains("pillar") && all.contains("proxymodules"));
        assert_eq!(all.len(), 21);
    }

    #[test]
    fn master_types_are_rejected_below_a_master() {
        let mut place = place();
        std::sync::Arc::make_mut(&mut place.ctx.opts).set("file_client", "remote");
        let synced = run(&place, "saltutil.sync_pillar", Map::new());
        let want = "ERROR: Pillar modules can only be synced to masterless minions";
        assert_eq!(synced, want.into());
    }
}

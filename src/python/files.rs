//! Which Python files of users there are, and which module names they may have.
//!
//! A file is used if it, its directory and, of a package, everything in it belong to root or to this account and nobody
//! else may write them. Whether a name may be a Python function is told from the files' text alone, so that jobs without
//! Python start none.

use halite_sys::programs::{MAX_FILES, which, why_unsafe, why_unsafe_place};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Kinds of files, each with the options that name further directories and files that are not to be used.
pub const KINDS: &[(&str, &str, &str)] = &[
    ("modules", "module_dirs", "disable_modules"),
    ("states", "states_dirs", "disable_states"),
    ("grains", "grains_dirs", "disable_grains"),
    ("utils", "utils_dirs", "disable_utils"),
    ("renderers", "render_dirs", "disable_renders"),
    ("returners", "returner_dirs", "disable_returners"),
    ("beacons", "beacons_dirs", "disable_beacons"),
    ("matchers", "matchers_dirs", "disable_matchers"),
    ("executors", "executor_dirs", "disable_executors"),
    ("sdb", "sdb_dirs", "disable_sdbs"),
    ("output", "outputter_dirs", "disable_outputs"),
    ("runners", "runner_dirs", "disable_runners"),
    ("wheel", "wheel_dirs", "disable_wheels"),
    ("pillar", "pillar_dirs", "disable_pillars"),
    ("tops", "top_dirs", "disable_tops"),
    ("engines", "engines_dirs", "disable_engines"),
    ("auth", "auth_dirs", "disable_auths"),
];
/// How long directories are taken for unchanged in a process. Another process may have changed them.
const FRESH: Duration = Duration::from_secs(1);
/// Bytes of a file that are searched for names.
const MAX_TEXT: usize = 1 << 20;

/// A file with users' code.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonFile {
    /// `modules`, `states`, ...
    pub kind: &'static str,
    /// The module's name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Changes with its content.
    pub stamp: String,
}

/// A file or a directory that is not used.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// `modules`, `states`, ...
    pub kind: &'static str,
    /// The module's name; `None` for a directory.
    pub name: Option<String>,
    /// Its path, and why.
    pub why: String,
}

/// The Python files of a minion or a master.
#[derive(Debug, Default)]
pub struct PythonFiles {
    /// The files.
    pub files: Arc<Vec<PythonFile>>,
    /// Of those that may rename themselves: kind and text.
    renaming: Vec<(&'static str, String)>,
    /// Others that are not used.
    pub refused: Vec<Refused>,
    /// Another one for each reading.
    pub number: u64,
}

impl PythonFiles {
    /// The file of a module's very name.
    fn file(&self, kind: &str, module: &str) -> Option<&PythonFile> {
        let is_it = |file: &&PythonFile| file.kind == kind && file.name == module;
        self.files.iter().find(is_it)
    }

    /// Whether files come before a function of ours: one of that very name, or, if stock's own file has another one, one that
    /// may rename itself.
    pub fn overrides(&self, kind: &str, module: &str, is_renamed: bool) -> bool {
        self.file(kind, module).is_some() || is_renamed && self.may_have(kind, module)
    }

    /// Whether a module of a kind may be among them.
    pub fn may_have(&self, kind: &str, module: &str) -> bool {
        let quoted = [format!("'{module}'"), format!("\"{module}\"")];
        self.file(kind, module).is_some()
            || self
                .renaming
                .iter()
                .any(|(k, text)| *k == kind && quoted.iter().any(|q| text.contains(q)))
    }

    /// Whether Python is to be asked for a module. If halite has it, too (`is_ours`), only a file that shows its name comes before that;
    /// else any that may have other names, and an installed Salt.
    pub fn is_possible(&self, opts: &Map, kind: &str, module: &str, is_ours: bool) -> bool {
        let elsewhere = || self.may_rename(kind) || installed_salt(opts).is_some();
        self.may_have(kind, module) || !is_ours && elsewhere()
    }

    /// What is wrong with the file of a function that is not there although its module has a file.
    pub fn fault(&self, kind: &str, function: &str) -> Option<String> {
        let (module, name) = function.split_once('.')?;
        let refused = self
            .refused
            .iter()
            .find(|one| one.kind == kind && one.name.as_deref().is_none_or(|name| name == module));
        match self.file(kind, module) {
            Some(file) => Some(format!("{} has no function {name}", file.path)),
            None => refused.map(|refused| refused.why.clone()),
        }
    }

    /// Whether a kind has files that may be modules of other names.
    pub fn may_rename(&self, kind: &str) -> bool {
        self.renaming.iter().any(|(k, _)| *k == kind)
    }

    /// Whether there is any file of a kind.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.files.iter().any(|file| file.kind == kind)
    }
}

/// Whether Python is to be asked for a function, as [`PythonFiles::is_possible`] tells of the files that there are now.
pub fn is_possible(opts: &Arc<Map>, kind: &str, function: &str, is_ours: bool) -> bool {
    let module = function.split('.').next().unwrap_or_default();
    files(opts).is_possible(opts, kind, module, is_ours)
}

/// What Python has told of the files of one reading, by name. The next reading is asked anew.
pub struct Known<T>(Mutex<Option<(u64, HashMap<String, T>)>>);

impl<T: Clone> Known<T> {
    /// Nothing is known.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Known<T> {
        Known(Mutex::new(None))
    }

    /// What is known of a name, else what `look` finds; nothing is kept if it finds nothing.
    pub fn get(
        &self,
        files: &PythonFiles,
        name: &str,
        look: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, known)) = &*lock()
            && *number == files.number
            && let Some(found) = known.get(name)
        {
            return Some(found.clone());
        }
        // Unlocked: the host may ask for other names meanwhile.
        let found = look()?;
        let mut all = lock();
        let (number, known) = all.get_or_insert_default();
        if *number != files.number {
            *number = files.number;
            known.clear();
        }
        known.insert(name.to_owned(), found.clone());
        Some(found)
    }
}

/// The installed Salt that has further functions (`legacy_salt`): a directory with `bin/python3`, or that file.
pub fn installed_salt(opts: &Map) -> Option<&str> {
    opts.str("legacy_salt").filter(|path| !path.is_empty())
}

/// The interpreter: that of [`installed_salt`], the option `python`, or the first `python3` in `PATH`.
///
/// # Errors
/// There is none: text with the remedy.
pub fn interpreter(opts: &Map) -> Result<String, String> {
    if let Some(place) = installed_salt(opts) {
        let inside = Path::new(place).join("bin/python3");
        let python = if inside.exists() {
            &inside
        } else {
            Path::new(place)
        };
        return Ok(python.to_string_lossy().into_owned());
    }
    match opts.str("python").filter(|path| !path.is_empty()) {
        Some(path) => Ok(path.to_owned()),
        None => which("python3").ok_or_else(|| {
            "there is no python3 in PATH; the option `python` names the interpreter".to_owned()
        }),
    }
}

/// A directory or a file, and what changes with its entries or its content.
type Stamp = (PathBuf, Option<[i64; 8]>);

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::symlink_metadata(path).ok();
    let stamp = meta.map(|m| {
        let numbers = [m.ino(), m.size(), u64::from(m.mode()), u64::from(m.uid())];
        let [inode, size, mode, owner] = numbers.map(|n| i64::from_ne_bytes(n.to_ne_bytes()));
        let [modified, changed] = [(m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())];
        [
            inode, size, mode, owner, modified.0, modified.1, changed.0, changed.1,
        ]
    });
    (path.to_owned(), stamp)
}

/// The last reading.
struct Reading {
    /// Of which options, which are held so that no others have their place.
    opts: Arc<Map>,
    /// Those that name directories and files.
    of: Vec<Option<Value>>,
    /// By which process and when they were last looked at.
    looked: (u32, Instant),
    /// Directories, and files in them.
    stamps: Vec<Stamp>,
    files: Arc<PythonFiles>,
}

static LAST: Mutex<Option<Reading>> = Mutex::new(None);
static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Reads the files anew at the next look: a synchronisation changes files in place.
pub fn forget() {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The directories of a kind of custom files: those of the kind's name in `module_dirs`, those of the option, and what is synced. The
/// first file of a name counts.
pub fn module_dirs(opts: &Map, kind: &str, option: &str) -> Vec<PathBuf> {
    let list = |option: &str| opts.get(option).map(Value::str_list).unwrap_or_default();
    let synced = match opts.str("extension_modules") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => {
            let cachedir = Path::new(opts.str("cachedir").unwrap_or_default());
            halite_config::paths::minion::cache::extmods(cachedir)
        }
    };
    let below = list("module_dirs").into_iter().map(PathBuf::from);
    below
        .flat_map(|dir| [dir.join(kind), dir.join(format!("_{kind}"))])
        .chain(list(option).into_iter().map(PathBuf::from))
        .chain([synced.join(kind)])
        .collect()
}

/// Whether there may be files of a kind: looks at its directories alone, for those that need no others.
pub fn may_have_any(opts: &Map, kind: &str) -> bool {
    let dirs = KINDS
        .iter()
        .filter(|(known, ..)| *known == kind)
        .flat_map(|(_, option, _)| module_dirs(opts, kind, option));
    let has_entries = |dir: PathBuf| {
        let mut entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.next().is_some()
    };
    dirs.into_iter().any(has_entries)
}

/// The files for these options, read again if a directory or one of them has changed.
pub fn files(opts: &Arc<Map>) -> Arc<PythonFiles> {
    let me = std::process::id();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_fresh = |last: &Reading| last.looked.0 == me && last.looked.1.elapsed() < FRESH;
    // Each lookup of a function comes here.
    if let Some(last) = &*last
        && is_fresh(last)
        && Arc::ptr_eq(&last.opts, opts)
    {
        return last.files.clone();
    }
    let named = ["extension_modules", "cachedir", "module_dirs"];
    let of_kinds = KINDS
        .iter()
        .flat_map(|(_, dirs, disabled)| [*dirs, *disabled]);
    let options = named.into_iter().chain(of_kinds);
    let of: Vec<Option<Value>> = options.map(|option| opts.get(option).cloned()).collect();
    if let Some(last) = last.as_mut().filter(|last| last.of == of) {
        last.opts = opts.clone();
        if is_fresh(last) {
            return last.files.clone();
        }
        if last.stamps.iter().all(|known| stamp(&known.0) == *known) {
            last.looked = (me, Instant::now());
            return last.files.clone();
        }
    }
    let looked = (me, Instant::now());
    let mut all = PythonFiles {
        number: NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        ..PythonFiles::default()
    };
    let (mut found, mut stamps) = (Vec::new(), Vec::new());
    for (kind, option, disabled) in KINDS {
        let disabled = opts.get(disabled).map(Value::str_list).unwrap_or_default();
        for dir in module_dirs(opts, kind, option) {
            // Before it is read: what changes meanwhile is seen the next time.
            stamps.push(stamp(&dir));
            read_dir(kind, &dir, &disabled, &mut found, &mut stamps, &mut all);
        }
    }
    for refused in &all.refused {
        log::warn!("{}", refused.why);
    }
    all.files = Arc::new(found);
    let files = Arc::new(all);
    *last = Some(Reading {
        opts: opts.clone(),
        of,
        looked,
        stamps,
        files: files.clone(),
    });
    files
}

fn read_dir(
    kind: &'static str,
    dir: &Path,
    disabled: &[String],
    found: &mut Vec<PythonFile>,
    stamps: &mut Vec<Stamp>,
    all: &mut PythonFiles,
) {
    let named = dir;
    let Ok(dir) = &std::fs::canonicalize(named) else {
        return;
    };
    let Ok(meta) = std::fs::symlink_metadata(dir) else {
        return;
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_FILES)
        .filter_map(|entry| module_file(&entry.path()))
        .collect();
    paths.sort();
    paths.retain(|path| !disabled.contains(&module_name(path)));
    stamps.extend(paths.iter().map(|path| stamp(path)));
    if paths.is_empty() {
        return;
    }
    if let Some(why) = why_unsafe(dir, &meta).or_else(|| why_unsafe_place(named)) {
        let name = None;
        all.refused.push(Refused { kind, name, why });
        return;
    }
    let mut refuse = |path: &Path, why| {
        let name = Some(module_name(path));
        all.refused.push(Refused { kind, name, why });
    };
    for path in paths {
        let Ok(meta) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        if meta.is_symlink() {
            let shown = path.display();
            let why = format!(
                "{shown}: not used, because it is a symbolic link; name its directory instead"
            );
            refuse(&path, why);
            continue;
        }
        if !meta.is_file() {
            continue;
        }
        let why = why_unsafe(&path, &meta).or_else(|| {
            let package = path.parent().filter(|_| path.ends_with("__init__.py"));
            package.and_then(why_unsafe_package)
        });
        if let Some(why) = why {
            refuse(&path, why);
            continue;
        }
        let text = head(&path);
        if is_executable_module(kind, &text) {
            continue;
        }
        if text.contains("__virtual") {
            all.renaming.push((kind, text));
        }
        found.push(PythonFile {
            kind,
            name: module_name(&path),
            stamp: format!("{:?}", stamp(&path).1),
            path: path.to_string_lossy().into_owned(),
        });
    }
}

/// `x.py`, or `__init__.py` of a directory. Names with dots, or that begin with `_`, are no modules, as in stock.
fn module_file(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_str()?;
    if stem.contains('.') || stem.starts_with('_') {
        return None;
    }
    if path.extension().is_some_and(|e| e == "py") {
        return Some(path.to_owned());
    }
    let inner = path.join("__init__.py");
    inner.is_file().then_some(inner)
}

fn module_name(path: &Path) -> String {
    let own = if path.ends_with("__init__.py") {
        path.parent().unwrap_or(path)
    } else {
        path
    };
    own.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Why a package is not to be used: it may import any file in it.
fn why_unsafe_package(dir: &Path) -> Option<String> {
    let mut left = vec![dir.to_owned()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        seen += 1;
        let Ok(meta) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        if seen > MAX_FILES {
            let dir = dir.display();
            return Some(format!(
                "{dir}: not used, because it has more than {MAX_FILES} files"
            ));
        }
        if let Some(why) = why_unsafe(&path, &meta) {
            return Some(why);
        }
        if meta.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
    }
    None
}

fn head(path: &Path) -> String {
    use std::io::Read;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        // What cannot be read has no names; Python will tell why.
        let _ = file.take(MAX_TEXT as u64).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a file is for `execution::custom` or `grains::external`: many Python modules begin with `#!` although nobody
/// runs them.
fn is_executable_module(kind: &str, text: &str) -> bool {
    text.starts_with("#!")
        && match kind {
            "modules" => text.contains("'describe'") || text.contains("\"describe\""),
            "grains" => text.contains("json"),
            _ => false,
        }
}

/// Whether a file that begins with `#!` is a Python module all the same.
pub fn is_python_module(kind: &str, path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "py") && !is_executable_module(kind, &head(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn found(dir: &Path) -> Arc<PythonFiles> {
        forget();
        files(&Arc::new(
            halite_wire::map! {"extension_modules" => dir.to_str().unwrap()},
        ))
    }

    #[test]
    fn names_are_told_from_the_text() {
        let dir = tempfile::tempdir().unwrap();
        let modules = dir.path().join("modules");
        std::fs::create_dir_all(modules.join("packed")).unwrap();
        std::fs::write(modules.join("packed/__init__.py"), "").unwrap();
        std::fs::write(modules.join("plain.py"), "x = 'cmd'").unwrap();
        let text = "__virtualname__ = 'cmd'\ndef __virtual__(): return __virtualname__";
        std::fs::write(modules.join("other.py"), text).unwrap();
        std::fs::write(modules.join("run.py"), "#!/usr/bin/python3\nif 'describe'").unwrap();
        let files = found(dir.path());
        for name in ["packed", "plain", "other", "cmd"] {
            assert!(files.may_have("modules", name), "{name}");
        }
        assert!(!files.may_have("modules", "run") && !files.may_have("modules", "test"));
        assert!(!files.may_have("states", "plain"));
    }

    #[test]
    fn what_others_may_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let modules = dir.path().join("modules");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("a.py"), "").unwrap();
        std::fs::write(modules.join("b.py"), "").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(&modules.join("a.py"), 0o666);
        let files = found(dir.path());
        assert!(!files.may_have("modules", "a") && files.may_have("modules", "b"));
        std::fs::create_dir(modules.join("p")).unwrap();
        std::fs::write(modules.join("p/__init__.py"), "").unwrap();
        std::fs::write(modules.join("p/inner.py"), "").unwrap();
        assert!(found(dir.path()).may_have("modules", "p"));
        mode(&modules.join("p/inner.py"), 0o666);
        assert!(!found(dir.path()).may_have("modules", "p"));
        mode(&modules, 0o777);
        assert!(found(dir.path()).files.is_empty());
    }

    /// Whoever owns a link may let it lead elsewhere, also in a directory that is sticky.
    #[test]
    fn links_of_others_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("real/modules")).unwrap();
        std::fs::write(dir.path().join("real/modules/a.py"), "").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("real"), &link).unwrap();
        assert!(found(&link).may_have("modules", "a"));
        // Nor on the way of a link of our own.
        let outer = dir.path().join("outer");
        std::os::unix::fs::symlink("link", &outer).unwrap();
        assert!(found(&outer).may_have("modules", "a"));
        if std::os::unix::fs::lchown(&link, Some(65_534), None).is_ok() {
            assert!(found(&link).files.is_empty());
            assert!(found(&outer).files.is_empty());
        }
    }
}

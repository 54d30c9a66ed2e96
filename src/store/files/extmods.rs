//! Copies custom Python modules to `extension_modules` of the master (`salt/utils/extmods.py sync`).

use super::{FileServer, Opened, confined, names};
use halite_config::MasterConfig;
use halite_wire::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

/// File name extensions of modules.
const EXTENSIONS: [&str; 4] = [".py", ".pyx", ".so", ".zip"];

/// Which modules are copied: names per module type. A type without an entry is not filtered.
#[derive(Clone, Debug, Default)]
pub struct ModuleFilter {
    /// Only these are copied.
    pub white: Value,
    /// None of these is copied.
    pub black: Value,
}

impl ModuleFilter {
    /// Whether a module may be copied.
    ///
    /// # Errors
    /// An entry is not a list, map or text.
    fn allow(&self, form: &str, module: &str) -> Result<bool, String> {
        Ok(lists_module(&self.white, form, module)?.unwrap_or(true)
            && !lists_module(&self.black, form, module)?.unwrap_or(false))
    }
}

/// Python's `module in lists[form]`; `None` without an entry.
fn lists_module(lists: &Value, form: &str, module: &str) -> Result<Option<bool>, String> {
    match lists {
        Value::Map(lists) => match lists.get(form) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list.iter().any(|m| m.is_str(module)))),
            Some(Value::Map(map)) => Ok(Some(map.contains(module))),
            Some(Value::Str(text)) => Ok(Some(text.contains(module))),
            Some(_) => Err(format!("the entry for {form} is not a list of modules")),
        },
        Value::Array(list) if list.iter().any(|m| m.is_str(form)) => {
            Err("whitelist and blacklist must map module types to names".to_owned())
        }
        _ => Ok(None),
    }
}

/// Copies the modules of one type (`modules`, `states`, ...) from `salt://_<type>` of some
/// environments; later environments override earlier ones. With `clean_dynamic_modules`, files that
/// are gone from the environments are removed. Returns the names of new and changed modules; errors
/// are logged.
pub fn sync(
    server: &mut FileServer,
    config: &MasterConfig,
    form: &str,
    envs: &[String],
    lists: &ModuleFilter,
) -> Vec<String> {
    let mut sync = Sync {
        server,
        form,
        dir: config.extension_modules.join(form),
        changed: Vec::new(),
        kept: BTreeSet::new(),
    };
    let done = sync.copy(envs, lists).and_then(|()| {
        if config.clean_dynamic_modules {
            clean(&sync.dir, "", &sync.kept).map_err(|e| with_path(&sync.dir, &e))?;
        }
        Ok(())
    });
    if let Err(why) = done {
        log::error!("not all custom {form} were copied: {why}");
    }
    sync.changed
}

struct Sync<'a> {
    server: &'a mut FileServer,
    form: &'a str,
    dir: PathBuf,
    changed: Vec<String>,
    /// Paths below the directory that are not removed.
    kept: BTreeSet<String>,
}

impl Sync<'_> {
    fn copy(&mut self, envs: &[String], lists: &ModuleFilter) -> Result<(), String> {
        halite_sys::daemon::make_dir(&self.dir, 0o700).map_err(|e| with_path(&self.dir, &e))?;
        let below = format!("_{}/", self.form);
        for env in envs {
            for path in self.server.files(env) {
                let Some(rel) = path.strip_prefix(&below) else {
                    continue;
                };
                if !EXTENSIONS.iter().any(|extension| rel.ends_with(extension)) {
                    continue;
                }
                let module = module_of(rel);
                if names::inside(rel).as_deref() != Some(rel) || !lists.allow(self.form, &module)? {
                    continue;
                }
                let opened = self.server.open(&path, env).map_err(|e| e.to_string())?;
                let Some(Opened { file, .. }) = opened else {
                    continue;
                };
                self.kept.insert(rel.to_owned());
                if self
                    .copy_file(rel, file)
                    .map_err(|e| with_path(&self.dir.join(rel), &e))?
                {
                    self.changed.push(format!("{}.{module}", self.form));
                }
            }
        }
        Ok(())
    }

    /// Copies a file; `false` if the copy is already up to date.
    fn copy_file(&self, rel: &str, mut file: File) -> io::Result<bool> {
        let place = self.dir.join(rel);
        if place.is_file() && same(&mut file, &place)? {
            return Ok(false);
        }
        file.rewind()?;
        let (dir, name) = rel.rsplit_once('/').unwrap_or(("", rel));
        let fresh = names::join(dir, &format!(".{name}.{}", std::process::id()));
        let mut copy = confined::create(&self.dir, &fresh, true)?;
        let done = io::copy(&mut file, &mut copy)
            .and_then(|_| copy.flush())
            .and_then(|()| std::fs::rename(self.dir.join(&fresh), &place));
        if done.is_err() {
            // An incomplete copy is useless.
            let _ = std::fs::remove_file(self.dir.join(&fresh));
        }
        done.map(|()| true)
    }
}

fn with_path(path: &Path, e: &io::Error) -> String {
    format!("{}: {e}", path.display())
}

/// The path without its extension, with dots for slashes.
fn module_of(rel: &str) -> String {
    let name = rel.rfind('/').map_or(0, |at| at + 1);
    // Leading dots of a name do not start an extension (`os.path.splitext`).
    let first = rel.len() - rel[name..].trim_start_matches('.').len();
    let end = rel[first..].rfind('.').map_or(rel.len(), |at| first + at);
    rel[..end].replace('/', ".")
}

/// Whether two files have the same content.
fn same(one: &mut File, other: &Path) -> io::Result<bool> {
    let other = File::open(other)?;
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let count = a.len().min(b.len());
        if count == 0 {
            return Ok(a.len() == b.len());
        }
        if a[..count] != b[..count] {
            return Ok(false);
        }
        one.consume(count);
        other.consume(count);
    }
}

/// Removes files that are not in `kept`, and then empty directories, including `dir` itself.
/// Links to directories stay.
fn clean(dir: &Path, below: &str, kept: &BTreeSet<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let (entry, path) = entry.map(|e| (e.file_name(), e.path()))?;
        let rel = names::join(below, &entry.to_string_lossy());
        if path.is_dir() {
            if !path.is_symlink() {
                clean(&path, &rel, kept)?;
            }
        } else if path.is_file() && !kept.contains(&rel) && !not_cleaned(below) {
            std::fs::remove_file(&path)?;
        }
    }
    match std::fs::remove_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty => Err(e),
        _ => Ok(()),
    }
}

/// Stock strips dots from both ends of a directory's path, and so never finds the files there.
fn not_cleaned(below: &str) -> bool {
    below.starts_with('.') || below.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        dir: tempfile::TempDir,
        config: MasterConfig,
    }

    impl Fixture {
        fn new(options: halite_wire::Map) -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let top = dir.path().to_str().unwrap();
            let roots = halite_wire::map! {
                "base" => vec![format!("{top}/base")], "dev" => vec![format!("{top}/dev")],
            };
            let mut all = halite_wire::map! {
                "root_dir" => top, "file_roots" => roots, "fileserver_list_cache_time" => 0,
                "extension_modules" => "/extmods", "sock_dir" => "/s", "cachedir" => "/c",
            };
            all.0.extend(options.0);
            let config = MasterConfig::from_map(all, dir.path()).unwrap();
            Fixture { dir, config }
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (name, text) in files {
                let path = self.dir.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
        }

        fn sync(&self, envs: &[&str], lists: &ModuleFilter) -> Vec<String> {
            let envs: Vec<String> = envs.iter().map(|e| (*e).to_owned()).collect();
            let mut server = FileServer::new(&(&self.config).into());
            sync(&mut server, &self.config, "modules", &envs, lists)
        }

        fn read(&self, name: &str) -> Option<String> {
            let dir = self.dir.path().join("extmods/modules");
            std::fs::read_to_string(dir.join(name)).ok()
        }
    }

    #[test]
    fn modules_are_copied_and_removed() {
        let f = Fixture::new(halite_wire::map! {});
        f.write(&[
            ("base/_modules/a.py", "a"),
            ("base/_modules/sub/b.so", "b"),
            ("base/_modules/read.me", "no module"),
            ("base/_modulesx/x.py", "another kind"),
            ("dev/_modules/a.py", "dev"),
            ("extmods/modules/old/gone.py", ""),
            ("extmods/modules/__pycache__/a.pyc", ""),
        ]);
        let none = ModuleFilter::default();
        assert_eq!(f.sync(&["base"], &none), ["modules.a", "modules.sub.b"]);
        assert_eq!(f.read("a.py").as_deref(), Some("a"));
        assert_eq!(f.read("sub/b.so").as_deref(), Some("b"));
        for gone in ["read.me", "old", "__pycache__"] {
            assert!(!f.dir.path().join("extmods/modules").join(gone).exists());
        }
        assert!(f.sync(&["base"], &none).is_empty());
        f.write(&[("base/_modules/a.py", "A")]);
        assert_eq!(f.sync(&["base"], &none), ["modules.a"]);
        assert_eq!(f.sync(&["base", "dev"], &none), ["modules.a"]);
        assert_eq!(f.read("a.py").as_deref(), Some("dev"));
        // Without any module the directory is removed too.
        assert!(f.sync(&["none"], &none).is_empty());
        assert!(!f.dir.path().join("extmods/modules").exists());
    }

    #[test]
    fn lists_and_options_are_applied() {
        let f = Fixture::new(halite_wire::map! {"clean_dynamic_modules" => false});
        f.write(&[
            ("base/_modules/a.py", "a"),
            ("base/_modules/b.py", "b"),
            ("extmods/modules/old.py", ""),
        ]);
        let per_form = |list: Value| Value::Map(halite_wire::map! {"modules" => list});
        let only = |white: Value, black: Value| f.sync(&["base"], &ModuleFilter { white, black });
        let a = || Value::from(vec!["a".to_owned()]);
        assert_eq!(
            only(per_form(Value::Array(Vec::new())), Value::Nil),
            [""; 0]
        );
        assert_eq!(only(per_form(Value::Nil), Value::Nil), [""; 0]);
        assert_eq!(only(Value::Nil, per_form(a())), ["modules.b"]);
        assert_eq!(only(per_form(a()), Value::Nil), ["modules.a"]);
        assert_eq!(f.read("old.py").as_deref(), Some(""));
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let f = Fixture::new(halite_wire::map! {});
        f.write(&[
            ("base/_modules/sub/a.py", "evil"),
            ("base/_modules/b.py", "b"),
            ("other/a.py", "good"),
            ("file", "good"),
            ("extmods/modules/x", ""),
        ]);
        let top = f.dir.path();
        let modules = top.join("extmods/modules");
        std::os::unix::fs::symlink(top.join("other"), modules.join("sub")).unwrap();
        std::os::unix::fs::symlink(top.join("file"), modules.join("b.py")).unwrap();
        f.sync(&["base"], &ModuleFilter::default());
        let read = |name: &str| std::fs::read_to_string(top.join(name)).unwrap();
        assert_eq!(
            (read("other/a.py"), read("file")),
            ("good".into(), "good".into())
        );
        assert_eq!(f.read("b.py").as_deref(), Some("b"));
    }

    #[test]
    fn names_of_modules() {
        for (path, module) in [
            ("a.py", "a"),
            ("a/b.c.so", "a.b.c"),
            ("a.b/c.py", "a.b.c"),
            (".py", ".py"),
            ("a/..py", "a...py"),
        ] {
            assert_eq!(module_of(path), module);
        }
    }
}

//! `cache.*`: cached data of minions, and raw access to the master's banks (`salt/runners/cache.py`,
//! `salt/cache/localfs.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use halite_config::SaltSeries;
use halite_store::cached_data::{CachedPart, cached_data};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_target::Target;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

const TARGET: &[&str] = &["?tgt", "?tgt_type"];

/// Directories of `cachedir` that are not banks: their content is secret, or must not be edited.
const PRIVATE: &[&str] = &[
    "tokens",
    "sessions",
    "jobs",
    "joblog",
    "proc",
    "publish_auth",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "cache.grains",
        args: &["tgt", "?tgt_type", "**kwargs"],
        doc: "The cached grains of minions.",
        run: |context, args| show(context, args, CachedPart::Grains),
    },
    Function {
        name: "cache.pillar",
        args: &["?tgt", "?tgt_type", "**kwargs"],
        doc: "The cached pillar of minions, of all without a target.",
        run: |context, args| show(context, args, CachedPart::Pillar),
    },
    Function {
        name: "cache.mine",
        args: &["?tgt", "?tgt_type", "**kwargs"],
        doc: "The cached mine data of minions, of all without a target.",
        run: |context, args| show(context, args, CachedPart::Mine),
    },
    Function {
        name: "cache.clear_grains",
        args: TARGET,
        doc: "Forgets the grains of minions.",
        run: |context, args| clear(context, args, &["grains"]),
    },
    Function {
        name: "cache.clear_pillar",
        args: TARGET,
        doc: "Forgets the pillar of minions.",
        run: |context, args| clear(context, args, &["pillar"]),
    },
    Function {
        name: "cache.clear_mine",
        args: TARGET,
        doc: "Forgets the mine data of minions.",
        run: |context, args| clear(context, args, &["mine"]),
    },
    Function {
        name: "cache.clear_mine_func",
        args: &["?tgt", "?tgt_type", "?clear_mine_func_flag"],
        doc: "Forgets one function of the mine of minions.",
        run: clear_mine_func,
    },
    Function {
        name: "cache.clear_all",
        args: TARGET,
        doc: "Forgets grains, pillar and mine data of minions.",
        run: |context, args| clear(context, args, &["grains", "pillar", "mine"]),
    },
    Function {
        name: "cache.list",
        args: &["bank"],
        doc: "The keys and banks in a bank.",
        run: |context, args| Ok(Bank::of(context, args)?.list()?.into()),
    },
    Function {
        name: "cache.fetch",
        args: &["bank", "key"],
        doc: "A value of a bank; an empty map if there is none.",
        run: |context, args| {
            let found = Bank::of(context, args)?.fetch(&key(args)?)?;
            Ok(found.unwrap_or(Value::Map(Map::new())).into())
        },
    },
    Function {
        name: "cache.store",
        args: &["bank", "key", "data"],
        doc: "Puts a value into a bank.",
        run: |context, args| {
            let data = args.get(2, "data").cloned().unwrap_or_default();
            Bank::of(context, args)?.store(&key(args)?, &data)?;
            Ok(Value::Nil.into())
        },
    },
    Function {
        name: "cache.flush",
        args: &["bank", "?key"],
        doc: "Removes a key from a bank, or the whole bank.",
        run: |context, args| {
            let bank = Bank::of(context, args)?;
            let done = match args.get(1, "key") {
                Some(_) => bank.flush(&key(args)?)?,
                None => bank.flush_all()?,
            };
            Ok(Value::Bool(done).into())
        },
    },
];

fn invalid(why: impl Into<String>) -> RunError {
    RunError::Raised("SaltInvocationError".into(), why.into())
}

/// A directory below `cachedir`, with a file `<key>.p` for each key.
struct Bank {
    dir: PathBuf,
}

impl Bank {
    fn of(context: &RunContext, args: &Args) -> Result<Bank, RunError> {
        let name = args.text(0, "bank").unwrap_or_default();
        let parts = bank_path(&name);
        let parts = parts
            .filter(|parts| !PRIVATE.contains(&parts[0]))
            .ok_or_else(|| invalid(format!("{name:?} is not a bank of the cache")))?;
        Ok(Bank::at(&context.config.cachedir, &parts))
    }

    fn at(cachedir: &Path, parts: &[&str]) -> Bank {
        Bank {
            dir: cachedir.join(parts.join("/")),
        }
    }

    fn file(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.p"))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut out = Vec::new();
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string() {
                let key = name.strip_suffix(".p").unwrap_or(&name);
                out.push(key.to_owned());
            }
        }
        out.sort_unstable();
        Ok(out)
    }

    /// Reads the file of the key, or else the key in the bank's file.
    fn fetch(&self, key: &str) -> io::Result<Option<Value>> {
        if let Some(value) = read(&self.file(key))? {
            return Ok(Some(value));
        }
        let mut file = self.dir.clone().into_os_string();
        file.push(".p");
        let whole = read(Path::new(&file))?;
        let map = whole.and_then(Value::into_map);
        Ok(map.and_then(|mut map| map.remove(key)))
    }

    fn store(&self, key: &str, data: &Value) -> io::Result<()> {
        let path = self.file(key);
        make_dir(path.parent().unwrap_or(&self.dir), 0o755)?;
        write_atomic(&path, &msgpack::encode(data, Profile::Local), 0o600)
    }

    fn flush(&self, key: &str) -> io::Result<bool> {
        existed(std::fs::remove_file(self.file(key)))
    }

    fn flush_all(&self) -> io::Result<bool> {
        if self.dir.is_dir() {
            existed(std::fs::remove_dir_all(&self.dir))
        } else {
            Ok(false)
        }
    }
}

fn existed(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn read(path: &Path) -> io::Result<Option<Value>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => {}
        _ => return Ok(None),
    }
    let bytes = std::fs::read(path)?;
    let value = msgpack::decode(&bytes)
        .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
    Ok(Some(value))
}

/// The components of a bank name; `None` if one could leave the cache or is hidden.
fn bank_path(name: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = name.split('/').collect();
    let fits = |part: &&str| !part.is_empty() && !part.starts_with('.') && part.len() < 256;
    let whole = !name.contains(['\0', '\\', '\n']) && parts.len() < 32;
    (whole && parts.iter().all(fits)).then_some(parts)
}

fn key(args: &Args) -> Result<String, RunError> {
    let key = args.text(1, "key").unwrap_or_default();
    match bank_path(&key) {
        Some(_) => Ok(key),
        None => Err(invalid(format!("{key:?} is not a key of a bank"))),
    }
}

/// Ids that match the target; `None` without a target.
fn targets(context: &RunContext, args: &Args) -> Result<Option<Vec<MinionId>>, RunError> {
    let Some(tgt) = args.get(0, "tgt") else {
        return Ok(None);
    };
    let kind = args.text(1, "tgt_type").unwrap_or_else(|| "glob".into());
    let target = Target::parse(tgt, &kind, None).map_err(|e| invalid(e.to_string()))?;
    let fleet = Fleet::open(&context.config)?;
    let expected = target.expected(&fleet.inventory(), &context.config);
    Ok(Some(expected.minions.to_vec()))
}

fn show(context: &mut RunContext, args: &Args, part: CachedPart) -> Result<RunnerOutput, RunError> {
    let config = &context.config;
    let fleet = Fleet::open(config)?;
    let kind = args.text(1, "tgt_type").unwrap_or_else(|| "glob".into());
    let tgt = args.get(0, "tgt").map(|tgt| (tgt, kind.as_str()));
    let found = cached_data(config, &fleet.inventory(), part, tgt).map_err(invalid)?;
    Ok(Value::Map(found).into())
}

/// The banks of minions in the layout of the configured series.
struct MinionBanks<'a> {
    cachedir: &'a Path,
    combined: bool,
}

impl<'a> MinionBanks<'a> {
    fn new(context: &'a RunContext) -> MinionBanks<'a> {
        MinionBanks {
            cachedir: &context.config.cachedir,
            combined: context.config.salt_series != SaltSeries::S3008,
        }
    }

    /// Bank and key of grains, pillar or mine.
    fn location<'k>(&self, id: &'k MinionId, what: &'k str) -> (Bank, &'k str) {
        match (self.combined, what) {
            (true, "mine") => (Bank::at(self.cachedir, &["minions", id.as_str()]), "mine"),
            (true, _) => (Bank::at(self.cachedir, &["minions", id.as_str()]), "data"),
            (false, _) => (Bank::at(self.cachedir, &[what]), id.as_str()),
        }
    }

    fn get(&self, id: &MinionId, what: &str) -> io::Result<Option<Map>> {
        let (bank, key) = self.location(id, what);
        let found = bank.fetch(key)?.and_then(Value::into_map);
        if self.combined && what != "mine" {
            return Ok(found.and_then(|mut both| both.remove(what)?.into_map()));
        }
        Ok(found)
    }

    fn clear(&self, id: &MinionId, what: &str) -> io::Result<()> {
        let (bank, key) = self.location(id, what);
        if !self.combined || what == "mine" {
            return bank.flush(key).map(drop);
        }
        let Some(mut both) = bank.fetch(key)?.and_then(Value::into_map) else {
            return Ok(());
        };
        both.remove(what);
        if both.is_empty() {
            bank.flush(key).map(drop)
        } else {
            bank.store(key, &Value::Map(both))
        }
    }
}

fn clear(context: &mut RunContext, args: &Args, what: &[&str]) -> Result<RunnerOutput, RunError> {
    let Some(ids) = targets(context, args)? else {
        return Ok(Value::Bool(false).into());
    };
    let cache = MinionBanks::new(context);
    for id in &ids {
        for what in what {
            cache.clear(id, what)?;
        }
    }
    Ok(Value::Bool(true).into())
}

fn clear_mine_func(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let fun = args.text(2, "clear_mine_func_flag");
    let (Some(ids), Some(fun)) = (targets(context, args)?, fun) else {
        return Ok(Value::Bool(false).into());
    };
    let cache = MinionBanks::new(context);
    for id in &ids {
        let Some(mut mine) = cache.get(id, "mine")? else {
            continue;
        };
        if mine.remove(&fun).is_some() {
            let (bank, key) = cache.location(id, "mine");
            bank.store(key, &Value::Map(mine))?;
        }
    }
    Ok(Value::Bool(true).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_stay_below_the_cache() {
        for bad in [
            "",
            "..",
            "a/../b",
            "/etc",
            "a//b",
            ".root_key",
            "a/.x",
            "a\0",
        ] {
            assert!(bank_path(bad).is_none(), "{bad:?}");
        }
        assert_eq!(bank_path("minions/web1"), Some(vec!["minions", "web1"]));
    }

    #[test]
    fn banks_as_localfs_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let bank = Bank::at(dir.path(), &["a", "b"]);
        assert!(bank.list().unwrap().is_empty());
        bank.store("k", &Value::Int(7)).unwrap();
        assert_eq!(bank.fetch("k").unwrap(), Some(Value::Int(7)));
        assert!(dir.path().join("a/b/k.p").is_file());
        let above = Bank::at(dir.path(), &["a"]);
        assert_eq!(above.list().unwrap(), ["b"]);
        let whole = halite_wire::map! {"x" => 8};
        above.store("c", &Value::Map(whole)).unwrap();
        let inside = Bank::at(dir.path(), &["a", "c"]);
        assert_eq!(inside.fetch("x").unwrap(), Some(Value::Int(8)));
        assert!(bank.flush("k").unwrap() && !bank.flush("k").unwrap());
        assert!(bank.flush_all().unwrap() && !bank.flush_all().unwrap());
    }
}

//! External pillars: a closed table of sources in addition to the files of `pillar_roots`
//! (`Pillar.ext_pillar`, `_external_pillar_data`).

mod commands;
mod extra_minion_data;
mod file_tree;
mod git;
mod nodegroups;
mod python;

use super::{Compilation, PillarError};
use halite_config::SaltSeries;
use halite_wire::{Map, Value};

/// Data of an external pillar. Anything but a map is ignored if it is empty, else an error.
type ExtResult = Result<Value, String>;

/// One external pillar.
struct ExtPillar {
    name: &'static str,
    /// Names of its arguments, in order.
    args: &'static [&'static str],
    run: fn(&Compilation, &Map, &ExtArgs) -> ExtResult,
}

const EXT_PILLARS: &[ExtPillar] = &[
    ExtPillar {
        name: "cmd_json",
        args: &["command"],
        run: commands::json,
    },
    ExtPillar {
        name: "cmd_yaml",
        args: &["command"],
        run: commands::yaml,
    },
    ExtPillar {
        name: "extra_minion_data_in_pillar",
        args: &["include"],
        run: extra_minion_data::run,
    },
    ExtPillar {
        name: "file_tree",
        args: file_tree::ARGS,
        run: file_tree::run,
    },
    ExtPillar {
        name: "git",
        args: git::ARGS,
        run: git::run,
    },
    ExtPillar {
        name: "nodegroups",
        args: &["pillar_name"],
        run: nodegroups::run,
    },
];

/// The names of the external pillars that exist here.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXT_PILLARS.iter().map(|s| s.name)
}

/// The arguments of one entry, by name.
struct ExtArgs(Map);

impl ExtArgs {
    /// A map has named arguments, a list positional ones; any other value is the first argument.
    fn read(names: &[&str], given: &Value) -> Result<ExtArgs, String> {
        let mut args = Map::new();
        let list = match given {
            Value::Map(map) => {
                for (name, value) in map.iter() {
                    match name.as_str().filter(|name| names.contains(name)) {
                        Some(name) => args.set(name, value.clone()),
                        None => {
                            let name = name.as_str().unwrap_or("that is no text");
                            let names = names.join(", ");
                            return Err(format!("there is no argument '{name}'; it takes {names}"));
                        }
                    }
                }
                return Ok(ExtArgs(args));
            }
            Value::Array(list) if names == ["*"] => {
                args.set("*", list.clone());
                return Ok(ExtArgs(args));
            }
            Value::Array(list) => list.as_slice(),
            single => std::slice::from_ref(single),
        };
        if list.len() > names.len() {
            return Err(format!(
                "it takes {} arguments, but {} were given",
                names.len(),
                list.len()
            ));
        }
        for (name, value) in names.iter().zip(list) {
            args.set(*name, value.clone());
        }
        Ok(ExtArgs(args))
    }

    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(_) => Err(format!("the argument '{name}' must be text")),
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(Value::truthy)
    }

    fn list(&self, name: &str) -> Vec<String> {
        self.0.get(name).map(Value::str_list).unwrap_or_default()
    }
}

impl Compilation<'_> {
    /// Merges the data of the external pillars into `pillar`.
    pub(super) fn ext_pillar(
        &self,
        pillar: Map,
        errors: &mut Vec<String>,
    ) -> Result<Map, PillarError> {
        const MALFORMED: &str = "The \"ext_pillar\" option is malformed";
        let entries = match &self.settings.ext_pillar {
            Value::Array(entries) => entries,
            Value::Nil => return Ok(pillar),
            _ => {
                errors.push(MALFORMED.to_owned());
                return Ok(pillar);
            }
        };
        let mut pillar = self.merger.merge(pillar, &self.request.pillar_override);
        for entry in entries {
            let Value::Map(entry) = entry else {
                errors.push(MALFORMED.to_owned());
                // Before 3008, the whole pillar is lost then.
                return Ok(match self.options().salt_series {
                    SaltSeries::S3008 => pillar,
                    SaltSeries::S3006 | SaltSeries::S3007 => Map::new(),
                });
            };
            // If an entry has several names, the last one that returns data wins.
            let mut given = None;
            for (name, args) in entry.iter() {
                let name = name.as_str().unwrap_or("?");
                let source = EXT_PILLARS.iter().find(|s| s.name == name);
                let data = match (self.python_pillar(name, source.is_some(), &pillar), source) {
                    (Err(why), _) => Err(why),
                    (Ok(Some(python)), _) => self.by_python(&python, name, args, &pillar),
                    (Ok(None), Some(source)) => self.external(source, args, &pillar),
                    (Ok(None), None) => {
                        // Minions get their pillar without it, as on stock where a module is missing.
                        match self.fault_of_pillar(name, &pillar) {
                            Some(why) => {
                                log::error!(
                                    "The external pillar {name:?} of ext_pillar is left out: {why}"
                                );
                            }
                            None => log::error!("{}", not_available(name)),
                        }
                        continue;
                    }
                };
                match data {
                    Ok(data) => given = Some(data),
                    Err(why) => errors.push(format!("Failed to load ext_pillar {name}: {why}")),
                }
            }
            match given.filter(Value::truthy) {
                Some(Value::Map(given)) => pillar = self.merger.merge(pillar, &given),
                Some(_) => {
                    let names: Vec<_> =
                        entry.iter().filter_map(|(name, _)| name.as_str()).collect();
                    errors.push(format!(
                        "Failed to load ext_pillar {}: it did not give a dictionary",
                        names.join(", ")
                    ));
                }
                None => {}
            }
        }
        Ok(pillar)
    }

    fn external(&self, source: &ExtPillar, given: &Value, pillar: &Map) -> ExtResult {
        let args = ExtArgs::read(source.args, given)?;
        (source.run)(self, pillar, &args)
    }
}

/// What the log says about a source of stock's that is not there.
fn not_available(name: &str) -> String {
    let known: Vec<_> = names().collect();
    format!(
        "The external pillar {name:?} of ext_pillar is left out: this master has {} and the Python files that \
         `halite-run saltutil.sync_pillar` fetches from salt://_pillar",
        known.join(", ")
    )
}

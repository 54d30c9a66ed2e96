//! The minion's returners: where results go besides the master, their settings, and their functions (`salt/minion.py
//! _thread_return`, `salt/returners/__init__.py`).

use crate::context::Context;
use crate::python;
use halite_config::{Flavour, Returner, Settings};
use halite_returners::helper::Helper;
use halite_returners::{Opener, Store};
use halite_store::jobs::{JobUpdate, StoredReturn};
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Timeout for all returners of a job together.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Keys of a `_return` load that only the master uses.
const FOR_THE_MASTER: [&str; 3] = ["cmd", "id", "_stamp"];

/// The returners of a result, and their settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReturnerSelection {
    /// Unique names.
    pub names: Vec<String>,
    /// `ret_config`: the alternative settings.
    pub config: Option<Value>,
    /// `ret_kwargs`: settings of highest priority.
    pub kwargs: Option<Value>,
}

impl ReturnerSelection {
    /// From comma-separated names.
    pub fn named(names: &str, config: Option<Value>, kwargs: Option<Value>) -> ReturnerSelection {
        let mut out = Vec::new();
        for name in names.split(',').map(str::trim) {
            if !name.is_empty() && !out.iter().any(|known| known == name) {
                out.push(name.to_owned());
            }
        }
        ReturnerSelection {
            names: out,
            config,
            kwargs,
        }
    }

    /// The returners of a job: those in its load and, for a single function from a master, those of the option
    /// `return`. Scheduled jobs have their own, which get no errors.
    pub fn for_job(ctx: &Context, ret: &Map) -> ReturnerSelection {
        let Some(load) = &ctx.job else {
            return ReturnerSelection::default();
        };
        let mut names = load.str("ret").unwrap_or_default().to_owned();
        let several = load.get("fun").is_some_and(|f| f.as_array().is_some());
        let scheduled = load.contains("schedule");
        if scheduled && !ret.get("success").is_some_and(Value::truthy) {
            return ReturnerSelection::default();
        }
        if !several && !scheduled {
            names = format!("{names},{}", configured(&ctx.opts));
        }
        let copy = |key: &str| load.get(key).cloned();
        ReturnerSelection::named(&names, copy("ret_config"), copy("ret_kwargs"))
    }
}

/// The names of the option `return`, separated by commas.
pub fn configured(opts: &Map) -> String {
    match opts.get("return") {
        Some(Value::Str(names)) => names.clone(),
        other => other.map(Value::str_list).unwrap_or_default().join(","),
    }
}

/// A returner by name, unless `disable_returners` lists it.
pub fn find(ctx: &Context, name: &str) -> Option<Returner> {
    let found = Returner::parse(name)?;
    let disabled = ctx.opts.get("disable_returners").map(Value::str_list);
    let disabled = disabled.unwrap_or_default();
    let forbidden = disabled.iter().any(|d| d == name || d == found.name());
    (!forbidden).then_some(found)
}

/// Opens a returner with the settings of `config.option` and those of `wanted`.
pub fn open(ctx: &Context, returner: Returner, wanted: &ReturnerSelection) -> Box<dyn Store> {
    let mut sources = vec![&ctx.opts, &*ctx.grains, &*ctx.pillar];
    sources.extend(ctx.pillar.get("master").and_then(Value::as_map));
    let config = wanted.config.as_ref().filter(|c| c.truthy());
    let keep = ctx.opts.int("keep_jobs_seconds");
    let conf_file = Path::new(ctx.opts.str("conf_file").unwrap_or_default());
    let opener = Opener {
        settings: Settings::new(returner, sources)
            .with_alternative(&config.map(python::str).unwrap_or_default())
            .with_given(wanted.kwargs.as_ref().and_then(Value::as_map)),
        id: &ctx.id,
        keep: keep.and_then(|k| u64::try_from(k).ok()).unwrap_or(86_400),
        product: conf_file
            .parent()
            .map_or(Flavour::Halite, Flavour::of)
            .name(),
        program: "halite-minion",
    };
    halite_returners::open(&opener, |opener, _| Box::new(Helper::new(opener)))
}

/// Passes a result to the returners; errors are logged.
pub fn run(ctx: &Context, wanted: &ReturnerSelection, ret: Map) {
    if wanted.names.is_empty() {
        return;
    }
    let ret = as_returned(ctx, wanted, ret);
    let mut places = Vec::new();
    for name in &wanted.names {
        match find(ctx, name) {
            Some(returner) => places.push((name.clone(), open(ctx, returner, wanted))),
            None => log::error!(
                "Returner {name}.returner could not be loaded: '{name}.returner' is not available."
            ),
        }
    }
    write(places, &ctx.id, ret, TIMEOUT);
}

/// A `_return` load in the form that returners get.
pub fn as_returned(ctx: &Context, wanted: &ReturnerSelection, mut ret: Map) -> Map {
    FOR_THE_MASTER.iter().for_each(|key| {
        ret.remove(key);
    });
    for (key, value) in [
        ("ret_config", &wanted.config),
        ("ret_kwargs", &wanted.kwargs),
    ] {
        if let Some(value) = value {
            ret.set(key, value.clone());
        }
    }
    ret.set("id", ctx.id.as_str());
    ret
}

/// Whether `disable_returners` lists it.
pub fn is_disabled(ctx: &Context, name: &str) -> bool {
    let disabled = ctx.opts.get("disable_returners").map(Value::str_list);
    disabled.unwrap_or_default().iter().any(|d| d == name)
}

/// Writes to all returners in parallel, so that a hanging one does not block the others.
fn write(places: Vec<(String, Box<dyn Store>)>, id: &str, load: Map, within: Duration) {
    let text = load.str("jid").unwrap_or_default().to_owned();
    let failed = |name: &str, why: &str| {
        log::error!("The return failed for job {text}: {name}: {why}");
    };
    let Ok(jid) = text.parse::<Jid>() else {
        return failed("all returners", "it has no jid");
    };
    let news = Arc::new(JobUpdate {
        is_started_by_minion: false,
        jid,
        load: None,
        returns: vec![StoredReturn {
            id: id.to_owned(),
            load,
        }],
        end: 0,
    });
    let (sender, outcomes) = channel();
    let mut waiting = Vec::new();
    for (name, mut store) in places {
        let (sender, news, own) = (sender.clone(), news.clone(), name.clone());
        let begun = std::thread::Builder::new().spawn(move || {
            let outcome = store.jobs(std::slice::from_ref(&*news));
            // After the deadline nobody receives.
            let _ = sender.send((own, outcome));
        });
        match begun {
            Ok(_) => waiting.push(name),
            Err(e) => failed(&name, &e.to_string()),
        }
    }
    drop(sender);
    let end = Instant::now() + within;
    while !waiting.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let why = match outcomes.recv_timeout(left) {
            Ok((name, outcome)) => {
                waiting.retain(|n| *n != name);
                if let Err(e) = outcome {
                    failed(&name, &e.to_string());
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => format!("no end within {} seconds", within.as_secs()),
            Err(RecvTimeoutError::Disconnected) => "it ended unexpectedly".to_owned(),
        };
        waiting.iter().for_each(|name| failed(name, &why));
        return;
    }
}

/// A returner's function, for the module `sys`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReturnerDoc {
    /// Its full name.
    pub name: String,
    /// Its arguments, all without defaults.
    pub args: Vec<&'static str>,
    /// What it does.
    pub doc: &'static str,
}

/// Functions of readable returners.
const READ_FUNCTIONS: [(&str, &[&str], &str); 4] = [
    (
        "get_fun",
        &["fun"],
        "The last return of a function, by minion.",
    ),
    ("get_jid", &["jid"], "The returns of a job, by minion."),
    ("get_jids", &[], "All jobs with a stored load."),
    ("get_minions", &[], "All minions with a stored return."),
];

/// The documentation of a returner's function `returner`.
fn doc(returner: Returner) -> &'static str {
    match returner {
        Returner::Pgjsonb => "Writes a return to PostgreSQL, as jsonb.",
        Returner::Postgres => "Writes a return to PostgreSQL, as text.",
        Returner::Redis => "Writes a return to Redis.",
        Returner::Sqlite3 => "Writes a return to an SQLite file.",
        Returner::RawfileJson => "Appends a return to a file, as a line of JSON.",
        Returner::Syslog => "Writes a return to the system log, as JSON.",
        Returner::Local => "Prints a return.",
    }
}

/// All functions of this minion's returners, sorted.
pub fn functions(ctx: &Context) -> Vec<ReturnerDoc> {
    let mut out = Vec::new();
    for returner in Returner::ALL {
        let name = returner.name();
        if find(ctx, name).is_none() {
            continue;
        }
        let reading = READ_FUNCTIONS.iter().filter(|_| returner.keeps_jobs());
        out.extend(reading.map(|(function, args, doc)| ReturnerDoc {
            name: format!("{name}.{function}"),
            args: args.to_vec(),
            doc,
        }));
        out.push(ReturnerDoc {
            name: format!("{name}.returner"),
            args: vec!["ret"],
            doc: doc(returner),
        });
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_returners::StoreError;
    use halite_wire::map;

    fn names_for(load: Map, opts: Map) -> Vec<String> {
        let ctx = Context {
            job: Some(load),
            opts: Arc::new(opts),
            ..Context::default()
        };
        ReturnerSelection::for_job(&ctx, &map! {"success" => true}).names
    }

    #[test]
    fn returners_of_a_result() {
        let usual = || map! {"return" => vec!["redis".to_owned(), "syslog".to_owned()]};
        let load = |ret: &str| map! {"fun" => "test.ping", "ret" => ret};
        assert_eq!(names_for(load(""), Map::new()), [""; 0]);
        assert_eq!(
            names_for(load("sqlite3, redis,,sqlite3"), usual()),
            ["sqlite3", "redis", "syslog"]
        );
        let mut scheduled = load("local");
        scheduled.set("schedule", "daily");
        assert_eq!(names_for(scheduled, usual()), ["local"]);
        let ctx = Context {
            job: Some(map! {"fun" => "test.ping", "ret" => "local", "schedule" => "daily"}),
            ..Context::default()
        };
        assert_eq!(
            ReturnerSelection::for_job(&ctx, &map! {"success" => false}).names,
            [""; 0]
        );
        let mut several = load("local");
        several.set("fun", vec!["test.ping".to_owned()]);
        assert_eq!(names_for(several, usual()), ["local"]);
        let text = map! {"return" => "redis,local"};
        assert_eq!(names_for(load(""), text), ["redis", "local"]);
    }

    #[test]
    fn disabled_returners_are_not_found() {
        let ctx = Context {
            opts: Arc::new(map! {"disable_returners" => vec!["redis".to_owned()]}),
            ..Context::default()
        };
        assert_eq!(find(&ctx, "sqlite3"), Some(Returner::Sqlite3));
        for name in ["redis", "redis_return", "mysql", ""] {
            assert_eq!(find(&ctx, name), None, "{name}");
        }
        let names: Vec<String> = functions(&ctx).into_iter().map(|f| f.name).collect();
        assert!(names.contains(&"sqlite3.get_jid".to_owned()), "{names:?}");
        assert!(names.contains(&"syslog.returner".to_owned()));
        assert!(
            !names
                .iter()
                .any(|n| n.starts_with("redis.") || n == "local.get_jid")
        );
    }

    struct Hanging(std::sync::mpsc::Receiver<()>);

    impl Store for Hanging {
        fn jobs(&mut self, _: &[JobUpdate]) -> Result<(), StoreError> {
            self.0.recv().map_err(|e| StoreError::Away(e.to_string()))
        }
    }

    #[test]
    fn a_hanging_returner_blocks_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let ctx = Context {
            id: "m1".into(),
            pillar: Arc::new(map! {"master" => map! {
                "rawfile_json.filename" => path.to_string_lossy().as_ref(),
            }}),
            ..Context::default()
        };
        let (_kept, never) = channel();
        let file = open(&ctx, Returner::RawfileJson, &ReturnerSelection::default());
        let places: Vec<(String, Box<dyn Store>)> = vec![
            ("hanging".into(), Box::new(Hanging(never))),
            ("rawfile_json".into(), file),
        ];
        let load = map! {"jid" => "20261121120000000001", "return" => true};
        write(places, "m1", load, Duration::from_millis(300));
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            "{\"jid\": \"20261121120000000001\", \"return\": true}\n"
        );
    }
}

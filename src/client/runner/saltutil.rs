//! `saltutil.sync_*`: copies administrators' Python modules (`salt/runners/saltutil.py`). The master runs those of runners, wheel,
//! pillar, tops, renderers and utils; the others are for stock's tools.

use super::{Args, Function, RunContext, RunError, RunnerOutput, not_available};
use halite_config::{FileServerOptions, SaltSeries};
use halite_store::files::FileServer;
use halite_store::files::extmods::{ModuleFilter, sync};
use halite_wire::{Map, Value};

const ARGS: &[&str] = &["?saltenv", "?extmod_whitelist", "?extmod_blacklist"];

/// A function that copies the modules of one kind.
macro_rules! of_kind {
    ($name:literal, $form:literal) => {
        Function {
            name: concat!("saltutil.sync_", $name),
            args: ARGS,
            doc: concat!(
                "Copies the modules of salt://_",
                $form,
                " into `extension_modules` on the master: the names of new and changed ones."
            ),
            run: |context, args| Ok(one(context, args, $form).into()),
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "saltutil.sync_all",
        args: ARGS,
        doc: "Copies the modules of all kinds into `extension_modules` on the master.",
        run: all,
    },
    of_kind!("cache", "cache"),
    of_kind!("clouds", "clouds"),
    of_kind!("eauth_tokens", "tokens"),
    of_kind!("engines", "engines"),
    of_kind!("executors", "executors"),
    of_kind!("fileserver", "fileserver"),
    of_kind!("grains", "grains"),
    of_kind!("modules", "modules"),
    of_kind!("output", "output"),
    of_kind!("pillar", "pillar"),
    of_kind!("proxymodules", "proxy"),
    of_kind!("queues", "queues"),
    of_kind!("renderers", "renderers"),
    of_kind!("returners", "returners"),
    of_kind!("roster", "roster"),
    of_kind!("runners", "runners"),
    of_kind!("sdb", "sdb"),
    of_kind!("serializers", "serializers"),
    of_kind!("states", "states"),
    of_kind!("thorium", "thorium"),
    of_kind!("tops", "tops"),
    of_kind!("utils", "utils"),
    of_kind!("wheel", "wheel"),
    Function {
        name: "saltutil.sync_wrapper",
        args: ARGS,
        doc: "Copies the modules of salt://_wrapper into `extension_modules` on the master (3007 and later).",
        run: wrapper,
    },
];

/// Kinds copied by `sync_all`, in the order of its result.
pub(super) const ALL: &[(&str, &str)] = &[
    ("clouds", "clouds"),
    ("modules", "modules"),
    ("states", "states"),
    ("grains", "grains"),
    ("renderers", "renderers"),
    ("returners", "returners"),
    ("output", "output"),
    ("proxymodules", "proxy"),
    ("runners", "runners"),
    ("wheel", "wheel"),
    ("engines", "engines"),
    ("thorium", "thorium"),
    ("queues", "queues"),
    ("pillar", "pillar"),
    ("utils", "utils"),
    ("sdb", "sdb"),
    ("cache", "cache"),
    ("fileserver", "fileserver"),
    ("tops", "tops"),
    ("tokens", "tokens"),
    ("serializers", "serializers"),
    ("executors", "executors"),
    (WRAPPER, WRAPPER),
    ("roster", "roster"),
];

/// A kind that 3006 does not have.
const WRAPPER: &str = "wrapper";

fn all(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let mut done = Map::new();
    for (name, form) in ALL {
        if *form == WRAPPER && context.config.salt_series == SaltSeries::S3006 {
            continue;
        }
        done.set(*name, one(context, args, form));
    }
    Ok(Value::Map(done).into())
}

fn wrapper(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    match context.config.salt_series {
        SaltSeries::S3006 => Err(not_available("saltutil.sync_wrapper")),
        _ => Ok(one(context, args, WRAPPER).into()),
    }
}

fn one(context: &RunContext, args: &Args, form: &str) -> Value {
    let envs = match args.get(0, "saltenv") {
        None => vec!["base".to_owned()],
        Some(Value::Str(text)) => text.split(',').map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(text).collect(),
        Some(other) => {
            log::error!("saltenv: {other:?} is not a list of environments; nothing is copied");
            return Value::Array(Vec::new());
        }
    };
    let config = &context.config;
    let lists = ModuleFilter {
        white: list(args, 1, "extmod_whitelist", form, &config.extmod_whitelist),
        black: list(args, 2, "extmod_blacklist", form, &config.extmod_blacklist),
    };
    // A cached list may be outdated.
    let options = FileServerOptions::from(config).uncached();
    // What a minion has sent must not run on the master.
    let options = options.without_minions();
    sync(&mut FileServer::new(&options), config, form, &envs, &lists).into()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Names per kind: the argument, comma-separated names for this kind, or the option.
fn list(args: &Args, at: usize, name: &str, form: &str, option: &Map) -> Value {
    match args.get(at, name) {
        None => Value::Map(option.clone()),
        Some(Value::Str(names)) => {
            let names: Vec<String> = names.split(',').map(str::to_owned).collect();
            Value::Map(halite_wire::map! {form => names})
        }
        Some(Value::Map(lists)) => Value::Map(lists.clone()),
        Some(other) => {
            log::error!(
                "{name}: {other:?} must be a comma-separated string or a map of kinds to lists"
            );
            other.clone()
        }
    }
}

//! `cache.*`: cached data of minions, and raw access to the master's banks (`salt/runners/cache.py`,
//! `salt/cache/localfs.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use halite_store::cached_data::{CachedPart, cached_data};
use halite_store::local::Bank;
use halite_store::minions::DataPart;
use halite_target::Target;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};

const TARGET: &[&str] = &["?tgt", "?tgt_type"];

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
        run: |context, args| clear(context, args, &[CachedPart::Grains]),
    },
    Function {
        name: "cache.clear_pillar",
        args: TARGET,
        doc: "Forgets the pillar of minions.",
        run: |context, args| clear(context, args, &[CachedPart::Pillar]),
    },
    Function {
        name: "cache.clear_mine",
        args: TARGET,
        doc: "Forgets the mine data of minions.",
        run: |context, args| clear(context, args, &[CachedPart::Mine]),
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
        run: |context, args| {
            clear(
                context,
                args,
                &[CachedPart::Grains, CachedPart::Pillar, CachedPart::Mine],
            )
        },
    },
    Function {
        name: "cache.list",
        args: &["bank"],
        doc: "The keys and banks in a bank.",
        run: |context, args| Ok(bank(context, args)?.list()?.into()),
    },
    Function {
        name: "cache.fetch",
        args: &["bank", "key"],
        doc: "A value of a bank; an empty map if there is none.",
        run: |context, args| {
            let found = bank(context, args)?.fetch(&key(args)?)?;
            Ok(found.unwrap_or(Value::Map(Map::new())).into())
        },
    },
    Function {
        name: "cache.store",
        args: &["bank", "key", "data"],
        doc: "Puts a value into a bank.",
        run: |context, args| {
            let data = args.get(2, "data").cloned().unwrap_or_default();
            bank(context, args)?.store(&key(args)?, &data)?;
            Ok(Value::Nil.into())
        },
    },
    Function {
        name: "cache.flush",
        args: &["bank", "?key"],
        doc: "Removes a key from a bank, or the whole bank.",
        run: |context, args| {
            let bank = bank(context, args)?;
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

fn bank(context: &RunContext, args: &Args) -> Result<Bank, RunError> {
    let name = args.text(0, "bank").unwrap_or_default();
    Bank::named(&context.config.cachedir, &name)
        .ok_or_else(|| invalid(format!("{name:?} is not the name of a bank of the cache")))
}

fn key(args: &Args) -> Result<String, RunError> {
    let key = args.text(1, "key").unwrap_or_default();
    if Bank::is_key(&key) {
        Ok(key)
    } else {
        Err(invalid(format!("{key:?} is not a key of a bank")))
    }
}

/// Ids that match the target; `None` without a target.
pub(super) fn targets(
    context: &RunContext,
    args: &Args,
) -> Result<Option<Vec<MinionId>>, RunError> {
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
    let mine = &*context.stores.mine;
    let found = cached_data(config, mine, &fleet.inventory(), part, tgt).map_err(invalid)?;
    Ok(Value::Map(found).into())
}

fn clear(
    context: &mut RunContext,
    args: &Args,
    parts: &[CachedPart],
) -> Result<RunnerOutput, RunError> {
    let Some(ids) = targets(context, args)? else {
        return Ok(Value::Bool(false).into());
    };
    let stores = &context.stores;
    for id in &ids {
        for part in parts {
            match part {
                CachedPart::Grains => stores.minions.clear(id, DataPart::Grains)?,
                CachedPart::Pillar => stores.minions.clear(id, DataPart::Pillar)?,
                CachedPart::Mine => stores.mine.flush(id).map(drop)?,
            }
        }
    }
    Ok(Value::Bool(true).into())
}

fn clear_mine_func(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let fun = args.text(2, "clear_mine_func_flag");
    let (Some(ids), Some(fun)) = (targets(context, args)?, fun) else {
        return Ok(Value::Bool(false).into());
    };
    for id in &ids {
        context.stores.mine.delete(id, &fun)?;
    }
    Ok(Value::Bool(true).into())
}

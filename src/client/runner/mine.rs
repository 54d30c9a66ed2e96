//! `mine.*`: reads and updates the mine from the master's host (`salt/runners/mine.py`).

use super::query::{QueryTimeouts, query};
use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use crate::gather::MinionOutcome;
use crate::local::Job;
use halite_store::mine::query::{self, MineQuery};
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "mine.get",
        args: &["tgt", "fun", "?tgt_type"],
        doc: "Values of a function, or of several, from the mines of minions, as a minion gets them.",
        run: get,
    },
    Function {
        name: "mine.update",
        args: &["tgt", "?tgt_type", "?clear", "?mine_functions"],
        doc: "Makes minions send their values to the mine.",
        run: update,
    },
];

fn kind(args: &Args, at: usize) -> String {
    let kind = args.text(at, "tgt_type").filter(|kind| !kind.is_empty());
    kind.unwrap_or_else(|| "glob".into())
}

/// The master asks under its own id: values restricted to certain minions are not returned.
fn get(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let config = &context.config;
    let fleet = Fleet::open(config)?;
    let part = |at, name| args.get(at, name).cloned().unwrap_or_default();
    let request = MineQuery {
        asker: &config.id,
        tgt: &part(0, "tgt"),
        tgt_type: &kind(args, 2).to_lowercase(),
        fun: &part(1, "fun"),
    };
    let found = query::get(config, &*context.stores.mine, &fleet.inventory(), &request);
    Ok(Value::from(found).into())
}

fn update(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let keywords = halite_wire::map! {
        "__kwarg__" => true, "clear" => args.flag(2, "clear"),
        "mine_functions" => args.get(3, "mine_functions").cloned(),
    };
    let job = Job {
        fun: "mine.update".into(),
        arg: vec![keywords.into()],
        tgt: args.get(0, "tgt").cloned().unwrap_or_default(),
        tgt_type: kind(args, 1),
        ..Job::default()
    };
    let mut out = Map::new();
    for (id, outcome) in query(context, job, QueryTimeouts::default())? {
        if let MinionOutcome::Returned(load) = outcome {
            out.set(id, load.get("return").cloned().unwrap_or_default());
        }
    }
    Ok(Value::from(out).into())
}

//! `sdb.*`: values by URI, with the profiles of the master's configuration (`salt/runners/sdb.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_modules::execution::{Context, invoke};
use halite_python::JobHost;
use std::time::Duration;

/// How long a driver may take.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sdb.get",
        args: &["uri"],
        doc: "The value of a URI sdb://PROFILE/KEY; anything else as it is.",
        run: |context, args| run(context, "sdb.get", args),
    },
    Function {
        name: "sdb.set",
        args: &["uri", "value"],
        doc: "Sets the value of an sdb:// URI.",
        run: |context, args| run(context, "sdb.set", args),
    },
    Function {
        name: "sdb.delete",
        args: &["uri"],
        doc: "Deletes the value of an sdb:// URI.",
        run: |context, args| run(context, "sdb.delete", args),
    },
    Function {
        name: "sdb.get_or_set_hash",
        args: &["uri", "?length", "?chars"],
        doc: "The value of an sdb:// URI; a new random text, which is set, if there is none.",
        run: |context, args| run(context, "sdb.get_or_set_hash", args),
    },
];

/// The execution function of the same name, with the master's configuration.
fn run(context: &mut RunContext, name: &str, args: &Args) -> Result<RunnerOutput, RunError> {
    let ctx = Context {
        python: JobHost::with_limit(LIMIT),
        ..Context::of_master(&context.config)
    };
    let done = invoke(&ctx, name, args.positional.clone(), args.keyword.clone());
    match done {
        Ok(value) => Ok(value.into()),
        Err(e) => Err(RunError::Raised(
            e.class().to_owned(),
            e.message().to_owned(),
        )),
    }
}

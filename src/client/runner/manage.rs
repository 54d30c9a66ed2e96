//! `manage.*`: who answers (`salt/runners/manage.py`).

use super::{Args, Function, Ran, RunContext, RunError};
use crate::client::gather::{Gather, Outcome, Patience};
use crate::client::local::Job;
use crate::wire::Value;
use std::time::Duration;

const ARGS: &[&str] = &["?tgt", "?tgt_type", "?timeout", "?gather_job_timeout"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "manage.up",
        args: ARGS,
        doc: "Minions that answer a ping.",
        run: |context, args| Ok(ask(context, args)?.0.into()),
    },
    Function {
        name: "manage.down",
        args: ARGS,
        doc: "Minions with an accepted key that do not answer a ping.",
        run: |context, args| Ok(ask(context, args)?.1.into()),
    },
    Function {
        name: "manage.status",
        args: ARGS,
        doc: "Both: who answers a ping and who does not.",
        run: |context, args| {
            let (up, down) = ask(context, args)?;
            Ok(Value::Map(crate::map! {"up" => up, "down" => down}).into())
        },
    },
];

impl From<Vec<String>> for Ran {
    fn from(ids: Vec<String>) -> Ran {
        Value::from(ids).into()
    }
}

fn ask(context: &mut RunContext, args: &Args) -> Result<(Vec<String>, Vec<String>), RunError> {
    let mut client = context.client();
    let mut events = client.listen()?;
    let seconds = |at, name, default| {
        let given = args.int(at, name).and_then(|n| u64::try_from(n).ok());
        Duration::from_secs(given.unwrap_or(default))
    };
    let patience = Patience {
        timeout: seconds(2, "timeout", context.config.timeout),
        find_job: seconds(3, "gather_job_timeout", context.config.gather_job_timeout),
        together: true,
    };
    let published = client.publish(&Job {
        fun: "test.ping".into(),
        tgt: args.text(0, "tgt").unwrap_or_else(|| "*".into()).into(),
        tgt_type: args.text(1, "tgt_type").unwrap_or_else(|| "glob".into()),
        kwargs: crate::map! {"delimiter" => ":"},
        ..Job::default()
    })?;
    let (mut up, mut down) = (Vec::new(), published.missing.clone());
    let stop = context.stop.clone();
    let mut gather = Gather::new(&mut client, &mut events, Some(&context.jobs), patience);
    gather.watch(&published);
    gather.run(&|| stop.is_set(), &mut |id, outcome| match outcome {
        Outcome::Returned(_) => up.push(id.to_owned()),
        _ => down.push(id.to_owned()),
    })?;
    up.sort_unstable();
    down.sort_unstable();
    Ok((up, down))
}

//! Returners of users' Python files (`_returners`), and those of an installed Salt.

use super::{Context, python_modules};
use crate::returners::{self, ReturnerSelection, TIMEOUT, as_returned, find, is_disabled};
use halite_python::JobHost;
use halite_wire::Map;

const KIND: &str = "returners";

/// Passes a result to all returners, halite's own first; errors are logged.
pub fn run(ctx: &Context, wanted: &ReturnerSelection, ret: Map) {
    if wanted.names.is_empty() {
        return;
    }
    let is_python = |name: &String| {
        let ours = find(ctx, name).is_some();
        !is_disabled(ctx, name) && python_modules::has(ctx, KIND, &format!("{name}.returner"), ours)
    };
    let (in_python, ours): (Vec<_>, Vec<_>) = wanted.names.iter().cloned().partition(is_python);
    let wanted = ReturnerSelection {
        names: ours,
        ..wanted.clone()
    };
    if in_python.is_empty() {
        returners::run(ctx, &wanted, ret);
        return;
    }
    returners::run(ctx, &wanted, ret.clone());
    let ret = as_returned(ctx, &wanted, ret);
    // Of their own, with a limit: what the job has left in its host is none of theirs.
    let ctx = Context {
        python: JobHost::with_limit(TIMEOUT),
        ..ctx.clone()
    };
    for name in in_python {
        let args = vec![ret.clone().into()];
        let function = format!("{name}.returner");
        let done = python_modules::use_function(&ctx, KIND, &function, args, Map::new());
        if let Err(e) = done {
            let jid = ret.str("jid").unwrap_or_default();
            log::error!("The return failed for job {jid}: {name}: {}", e.message());
        }
    }
}

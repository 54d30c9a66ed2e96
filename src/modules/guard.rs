//! Restricts which functions may run, and isolates panics to a single call.

use crate::execution::{self, CallError, CallOutcome, Context};
use halite_wire::{Map, Value};

/// Which functions may run: `disable_modules`, `whitelist_modules`.
#[derive(Clone, Debug, Default)]
pub struct FunctionFilter {
    disabled: Vec<String>,
    only: Vec<String>,
    /// Whether `minion_blackout` applies.
    blackout: bool,
}

impl FunctionFilter {
    /// From the configuration, for jobs from masters and the schedule.
    pub fn from_opts(opts: &Map) -> FunctionFilter {
        let list = |key: &str| opts.get(key).map(Value::str_list).unwrap_or_default();
        FunctionFilter {
            disabled: list("disable_modules"),
            only: list("whitelist_modules"),
            blackout: true,
        }
    }

    /// For local callers, who are exempt from blackouts.
    pub fn despite_blackout(mut self) -> FunctionFilter {
        self.blackout = false;
        self
    }

    fn holds(&self, fun: &str) -> bool {
        execution::names_module(&self.only, fun) && !execution::is_disabled(fun, &self.disabled)
    }
}

/// Calls a function; a panic becomes an exception.
pub fn guarded(ctx: &Context, fun: &str, args: &[Value], allowed: &FunctionFilter) -> CallOutcome {
    if allowed.blackout && is_blacked_out(ctx, fun) {
        return CallOutcome {
            fault: Some(CallError::Invocation(BLACKOUT.to_owned())),
            ..broken(format!("ERROR executing '{fun}': {BLACKOUT}"))
        };
    }
    // What the daemon itself schedules cannot be disabled.
    let scheduled = ctx.job.as_ref().and_then(|job| job.str("schedule"));
    let is_ours = scheduled == Some("__mine_interval") && fun == "mine.update";
    if !allowed.holds(fun) && !is_ours {
        let text = format!("'{fun}' is not available.");
        return CallOutcome {
            fault: Some(CallError::Missing(text.clone())),
            ..broken(text)
        };
    }
    let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        execution::executors::call(ctx, fun, args)
    }));
    called.unwrap_or_else(|_| {
        broken(format!(
            "The minion function caused an exception: {fun} ended unexpectedly; see the minion's log"
        ))
    })
}

/// Stock's message (`salt/minion.py _execute_job_function`).
const BLACKOUT: &str = "Minion in blackout mode. Set 'minion_blackout' to False in pillar or grains to resume operations. \
                        Only saltutil.refresh_pillar allowed in blackout mode.";

/// Whether `minion_blackout` in pillar or grains forbids a job from a master or the schedule.
fn is_blacked_out(ctx: &Context, fun: &str) -> bool {
    let forbids = |data: &Map| {
        let listed = data.get("minion_blackout_whitelist").map(Value::str_list);
        data.get("minion_blackout").is_some_and(Value::truthy)
            && fun != "saltutil.refresh_pillar"
            && !listed.is_some_and(|list| list.iter().any(|f| f == fun))
    };
    forbids(&ctx.pillar) || forbids(&ctx.grains)
}

/// The outcome of a function that could not run.
pub fn broken(text: String) -> CallOutcome {
    CallOutcome {
        ret: text.into(),
        retcode: 1,
        success: false,
        out: Some("nested".into()),
        fault: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn disabled_functions_are_not_available() {
        let disabled = ["cmd".to_owned(), "test.sleep".to_owned()];
        assert!(execution::is_disabled("cmd.run", &disabled));
        assert!(execution::is_disabled("test.sleep", &disabled));
        assert!(!execution::is_disabled("test.ping", &disabled));
        assert!(execution::is_disabled("cmd.run", &["cmdmod".to_owned()]));
        let only = FunctionFilter::from_opts(
            &halite_wire::map! {"whitelist_modules" => vec!["test".to_owned()]},
        );
        assert!(only.holds("test.ping") && !only.holds("cmd.run"));
    }

    #[test]
    fn a_blackout_allows_few_functions() {
        let dark = |pillar: Map, grains: Map, fun: &str| {
            let ctx = Context {
                pillar: Arc::new(pillar),
                grains: Arc::new(grains),
                ..Context::default()
            };
            guarded(&ctx, fun, &[], &FunctionFilter::from_opts(&Map::new()))
        };
        let on = || halite_wire::map! {"minion_blackout" => true};
        let outcome = dark(on(), Map::new(), "test.ping");
        assert!(
            outcome
                .ret
                .as_str()
                .unwrap()
                .starts_with("ERROR executing 'test.ping': Minion in blackout")
        );
        assert_eq!((outcome.retcode, outcome.success), (1, false));
        assert!(!dark(Map::new(), on(), "test.ping").success);
        let mut but = on();
        but.set("minion_blackout_whitelist", vec!["test.ping".to_owned()]);
        assert!(dark(but.clone(), Map::new(), "test.ping").success);
        assert!(!dark(but, on(), "test.ping").success, "both count");
        let refresh = dark(on(), on(), "saltutil.refresh_pillar");
        assert_eq!(refresh.ret, false.into(), "there is no daemon");
    }
}

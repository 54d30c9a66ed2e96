//! What the results of requisites mean for a call (`salt/state.py State._check_requisites`).

use super::Requisite;
use super::graph::flag;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

/// The state of a call's requisites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    /// A required call has not been made yet.
    Unmet,
    /// A required call is still running in parallel.
    Pending,
    Fail,
    Change,
    /// `prereq`: nothing would change.
    NoChange,
    Onfail,
    Onchanges,
    SkipRequisites,
    SkipWatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequisiteState {
    Unmet,
    Skip,
    Onfail,
    Onchanges,
    OnchangesMet,
    Fail,
    Change,
    Pre,
    PreMet,
    Met,
}

/// What follows from the states of all requisites; `running`: one still runs in parallel.
pub(super) fn verdict(found: &BTreeSet<RequisiteState>, running: bool) -> Verdict {
    let has = |f| found.contains(&f);
    if has(RequisiteState::Unmet) {
        Verdict::Unmet
    } else if running {
        Verdict::Pending
    } else if has(RequisiteState::Fail) {
        Verdict::Fail
    } else if has(RequisiteState::Skip)
        && (has(RequisiteState::OnchangesMet) || has(RequisiteState::PreMet))
    {
        Verdict::SkipRequisites
    } else if has(RequisiteState::Skip) && has(RequisiteState::Change) {
        Verdict::SkipWatch
    } else if has(RequisiteState::Pre) && !has(RequisiteState::PreMet) {
        Verdict::NoChange
    } else if has(RequisiteState::Pre) {
        Verdict::Met
    } else if has(RequisiteState::Onfail) && !has(RequisiteState::OnchangesMet) {
        Verdict::Onfail
    } else if has(RequisiteState::Onchanges) && !has(RequisiteState::OnchangesMet) {
        Verdict::Onchanges
    } else if has(RequisiteState::Change) {
        Verdict::Change
    } else if has(RequisiteState::Onfail) {
        Verdict::Onfail
    } else {
        Verdict::Met
    }
}

/// Checks the calls of one requisite.
pub(super) fn check_requisite<'r>(
    kind: Requisite,
    names: &[String],
    result_of: &dyn Fn(&str) -> Option<&'r Map>,
) -> BTreeSet<RequisiteState> {
    use Requisite::*;
    let mut found = BTreeSet::new();
    for name in names {
        let result = result_of(name);
        let Some(result) = result else {
            found.insert(RequisiteState::Unmet);
            continue;
        };
        if flag(result, "skip_req") {
            found.insert(RequisiteState::Skip);
        }
        let outcome = result.get("result").and_then(Value::as_bool);
        let changed = flag(result, "changes");
        found.insert(match kind {
            Onfail | OnfailAny | OnfailAll if outcome == Some(true) => RequisiteState::Onfail,
            Onchanges | OnchangesAny if outcome == Some(false) || !changed => {
                RequisiteState::Onchanges
            }
            Onchanges | OnchangesAny => RequisiteState::OnchangesMet,
            Onfail | OnfailAny | OnfailAll => RequisiteState::Met,
            _ if outcome == Some(false) => RequisiteState::Fail,
            Watch | WatchAny if changed => RequisiteState::Change,
            Prereq if outcome.is_none() => RequisiteState::PreMet,
            Prereq => RequisiteState::Pre,
            _ if result.get("__state_ran__").is_none_or(Value::truthy) => RequisiteState::Met,
            _ => continue,
        });
    }
    if matches!(
        kind,
        Onfail | OnfailAny | RequireAny | OnchangesAny | WatchAny
    ) {
        if found.contains(&RequisiteState::Met) || found.contains(&RequisiteState::Change) {
            found.remove(&RequisiteState::Fail);
        }
        if found.contains(&RequisiteState::OnchangesMet) {
            found.remove(&RequisiteState::Onchanges);
            found.remove(&RequisiteState::Fail);
        }
        if found.contains(&RequisiteState::Met) {
            found.remove(&RequisiteState::Onfail);
        }
    }
    if kind == OnfailAll && found.contains(&RequisiteState::Onfail) {
        found.remove(&RequisiteState::Met);
    }
    found
}

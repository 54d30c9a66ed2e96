//! Chooses the runtime of ARENA that a module goes to (reference, section 5): among those that are connected, offer
//! all the apis it needs and have a free place, the one with the fewest modules, then with the least memory in use,
//! then by name.

use crate::wire::Uuid;
use std::fmt;

/// A runtime to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// Its uuid.
    pub uuid: &'a Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its minion id.
    pub id: &'a str,
    /// Its `runtime_type`.
    pub kind: &'a str,
    /// The apis that it offers.
    pub apis: &'a [String],
    /// How many modules it accepts; 0 is no limit.
    pub max_modules: u32,
    /// How many modules it has, queued ones included.
    pub modules: u32,
    /// Memory used by its modules, in bytes.
    pub memory: u64,
    /// Whether it is connected and its key accepted.
    pub alive: bool,
}

/// Whether a runtime can take the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It can.
    Fits,
    /// It is not connected.
    Gone,
    /// It runs no modules at all: it offers no apis.
    RunsNone,
    /// It only measures modules.
    Measures,
    /// It lacks these apis.
    Lacks(Vec<String>),
    /// It has no free place.
    Full,
}

impl fmt::Display for Fit {
    /// The text shown after the candidate's name.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fit::Fits => f.write_str("fits"),
            Fit::Gone => f.write_str("is not connected"),
            Fit::RunsNone => f.write_str("runs no modules"),
            Fit::Measures => f.write_str("only measures modules"),
            Fit::Lacks(apis) => write!(f, "lacks {}", apis.join(", ")),
            Fit::Full => f.write_str("is full"),
        }
    }
}

/// The result of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The index of the chosen candidate.
    pub chosen: Option<usize>,
    /// Whether one of them could take the module later: it offers all apis but is full.
    pub later: bool,
    /// The verdict on each candidate, in their order.
    pub fits: Vec<Fit>,
}

/// Chooses among candidates. What the operator says about a runtime overrides what it reports itself: one that is not
/// alive is [`Fit::Gone`], whatever else holds for it.
pub fn choose(apis: &[String], candidates: &[Candidate]) -> Choice {
    let fits: Vec<Fit> = candidates.iter().map(|one| fit(apis, one)).collect();
    let best = |(_, one): &(usize, &Candidate)| (one.modules, one.memory);
    let fitting = candidates.iter().enumerate().zip(&fits);
    let chosen = fitting
        .filter(|(_, fit)| **fit == Fit::Fits)
        .map(|(candidate, _)| candidate)
        .min_by(|a, b| {
            let order = best(a).cmp(&best(b));
            // The uuid only makes the choice deterministic if everything else is equal.
            order.then_with(|| (a.1.name, a.1.uuid).cmp(&(b.1.name, b.1.uuid)))
        })
        .map(|(place, _)| place);
    Choice {
        chosen,
        later: fits.contains(&Fit::Full),
        fits,
    }
}

fn fit(apis: &[String], candidate: &Candidate) -> Fit {
    if !candidate.alive {
        return Fit::Gone;
    }
    if candidate.apis.is_empty() {
        return Fit::RunsNone;
    }
    if !suits(apis, candidate.kind) {
        return Fit::Measures;
    }
    let lacks = lacks(apis, candidate.apis);
    if !lacks.is_empty() {
        return Fit::Lacks(lacks);
    }
    if candidate.max_modules > 0 && candidate.modules >= candidate.max_modules {
        return Fit::Full;
    }
    Fit::Fits
}

/// Whether a runtime of this kind runs a module with these apis as it was meant: a benchmarking one runs it a few times
/// to measure it, and ends it, so only a module that asks to be measured goes there by itself.
pub fn suits(apis: &[String], kind: &str) -> bool {
    kind.split('/').next() != Some("benchmarking") || apis.iter().any(|api| is_wish(api))
}

/// Whether an api only asks for a record of how a module performs, as `profile:deployed` does (reference, section 6).
fn is_wish(api: &str) -> bool {
    api.starts_with("profile:")
}

/// Those of `apis` that a runtime with `offered` lacks. `profile:deployed` and the like never count as lacking: they
/// ask for records of how a module performs, and it runs without them as well (reference, section 6).
pub fn lacks(apis: &[String], offered: &[String]) -> Vec<String> {
    let needed = apis.iter().filter(|api| !is_wish(api));
    let lacks = needed.filter(|api| !offers(offered, api));
    lacks.cloned().collect()
}

/// Whether a runtime with `offered` has `api`: `wasi` is satisfied by `wasi:snapshot_preview1`, and so on.
pub fn offers(offered: &[String], api: &str) -> bool {
    let special = |word: &str| {
        let rest = word.strip_prefix(api);
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    offered.iter().any(|word| word == api || special(word))
}

#[cfg(test)]
mod tests;

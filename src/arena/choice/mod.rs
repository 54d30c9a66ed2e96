//! Which runtime of ARENA a module goes to (reference, section 5): those that are there, offer all apis that it needs and have a free
//! place; of these the one with the fewest modules, then with the least memory in use, then by name.

use crate::wire::Uuid;
use std::fmt;

/// A runtime that may be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// Which.
    pub uuid: &'a Uuid,
    /// Its name.
    pub name: &'a str,
    /// Its minion id.
    pub id: &'a str,
    /// What it offers.
    pub apis: &'a [String],
    /// Modules that it takes; 0 is no limit.
    pub max_modules: u32,
    /// Modules that it has, queued ones included.
    pub modules: u32,
    /// Bytes of memory that they take.
    pub memory: u64,
    /// Whether it is there, and its key accepted.
    pub alive: bool,
}

/// What is said of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It could take the module.
    Fits,
    /// It is not there.
    Gone,
    /// It runs no modules at all (no apis).
    RunsNone,
    /// It lacks these apis.
    Lacks(Vec<String>),
    /// It has no free place.
    Full,
}

impl fmt::Display for Fit {
    /// What is said of a candidate after its name.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fit::Fits => f.write_str("fits"),
            Fit::Gone => f.write_str("is not connected"),
            Fit::RunsNone => f.write_str("runs no modules"),
            Fit::Lacks(apis) => write!(f, "lacks {}", apis.join(", ")),
            Fit::Full => f.write_str("is full"),
        }
    }
}

/// What came of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The place of the chosen one among the candidates.
    pub chosen: Option<usize>,
    /// Whether one of them could take the module later: it has all apis and is full.
    pub later: bool,
    /// Of each candidate, in their order.
    pub fits: Vec<Fit>,
}

/// Chooses among candidates. What an operator says of a runtime stands above what it tells of itself: one that is not there is
/// [`Fit::Gone`], whatever else holds for it.
pub fn choose(apis: &[String], candidates: &[Candidate]) -> Choice {
    let fits: Vec<Fit> = candidates.iter().map(|one| fit(apis, one)).collect();
    let best = |(_, one): &(usize, &Candidate)| (one.modules, one.memory);
    let fitting = candidates.iter().enumerate().zip(&fits);
    let chosen = fitting
        .filter(|(_, fit)| **fit == Fit::Fits)
        .map(|(candidate, _)| candidate)
        .min_by(|a, b| {
            let order = best(a).cmp(&best(b));
            // The uuid only makes the choice definite where everything else is equal.
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
    let lacks = lacks(apis, candidate.apis);
    if !lacks.is_empty() {
        return Fit::Lacks(lacks);
    }
    if candidate.max_modules > 0 && candidate.modules >= candidate.max_modules {
        return Fit::Full;
    }
    Fit::Fits
}

/// Those of `apis` that a runtime with `offered` lacks. `profile:deployed` and its like are never lacking: they ask for records of how
/// a module fares, and it runs without as well (reference, section 6).
pub fn lacks(apis: &[String], offered: &[String]) -> Vec<String> {
    let needed = apis.iter().filter(|api| !api.starts_with("profile:"));
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

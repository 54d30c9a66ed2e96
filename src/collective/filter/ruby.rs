//! Filters as Ruby's servers evaluate them (`Security::Base#validate_filter?`).

use super::compound::Test;
use super::{Compound, FactTest, Name, Node, Verdict};
use crate::wire::Filter;

#[derive(Debug)]
pub(super) struct Ruby {
    facts: Vec<FactTest>,
    classes: Vec<Name>,
    agents: Vec<(Name, bool)>,
    identities: Vec<Name>,
    compound: Vec<Compound>,
    /// The filter has only unknown keys: never matches.
    only_unknown: bool,
}

impl Ruby {
    pub(super) fn new(filter: &Filter, symbols_only: bool) -> Ruby {
        let nothing = filter.facts.is_empty()
            && filter.classes.is_empty()
            && filter.agents.is_empty()
            && filter.identities.is_empty()
            && filter.compound.is_empty();
        let names = |texts: &[String]| texts.iter().map(|text| Name::new(text)).collect();
        let facts = filter.facts.iter();
        let agents = filter.agents.iter();
        Ruby {
            facts: facts.map(|f| FactTest::new(f, symbols_only)).collect(),
            classes: names(&filter.classes),
            // Every server has the agent `mcollective`, with exactly that name.
            agents: agents
                .map(|text| (Name::new(text), text == "mcollective"))
                .collect(),
            identities: names(&filter.identities),
            compound: filter.compound.iter().map(Compound::new).collect(),
            only_unknown: nothing && !filter.unknown.is_empty(),
        }
    }

    pub(super) fn passes(&self, node: &Node) -> Verdict {
        if self.only_unknown {
            return Ok(false);
        }
        if !self.identities.is_empty() {
            let mut hits = 0;
            for name in &self.identities {
                hits += usize::from(name.is(node.identity)?);
            }
            if hits != 1 {
                return Ok(false);
            }
        }
        for (name, always) in &self.agents {
            if !name.among(node.agents)? && !always {
                return Ok(false);
            }
        }
        for name in &self.classes {
            if !name.among(node.classes)? {
                return Ok(false);
            }
        }
        for fact in &self.facts {
            if !fact.holds(node.facts)? {
                return Ok(false);
            }
        }
        for compound in &self.compound {
            if !compound.holds(&mut |test| match test {
                Test::Class(name) => name.among(node.classes),
                Test::Fact(fact) => fact.holds(node.facts),
                Test::Data(query) => query.holds(node),
                Test::Never(reason) => Err(reason.clone()),
            })? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

//! What targets ask of the data of a minion, for whoever knows answers without looking at all of them.

use super::data::DataExpr;
use super::ip::IpTest;
use halite_wire::Map;
use std::fmt;

/// One test of a target. Shown as text, questions are equal where they mean the same.
#[derive(Clone, Copy, Debug)]
pub enum DataQuery<'a> {
    /// Whether the grains match.
    Grains(&'a DataExpr),
    /// Whether the pillar matches.
    Pillar(&'a DataExpr),
    /// Whether the grains have such an address.
    Address(&'a IpTest),
}

/// The answers of minions to one question.
pub trait QueryResults {
    /// The answer of the minion at that place among the ids of the inventory; `None` if nothing is known of it.
    fn get(&self, at: usize) -> Option<bool>;
}

impl DataQuery<'_> {
    /// Whether it is about the pillar, not the grains.
    pub fn is_pillar(&self) -> bool {
        matches!(self, DataQuery::Pillar(_))
    }

    /// The one grain that the answer depends on, provided that all names of grains are texts; `None` if it
    /// depends on more.
    pub fn grain(&self) -> Option<&str> {
        match self {
            DataQuery::Grains(expr) => expr.single_key(),
            DataQuery::Pillar(_) => None,
            DataQuery::Address(test) => Some(test.grain()),
        }
    }

    /// The answer of a minion with these data.
    pub fn matches(&self, data: &Map) -> bool {
        match self {
            DataQuery::Grains(expr) | DataQuery::Pillar(expr) => expr.matches(data),
            DataQuery::Address(test) => test.matches(data),
        }
    }

    /// What counts for a minion of which nothing is known: an address cannot be ruled out.
    pub(super) fn default_match(&self) -> bool {
        matches!(self, DataQuery::Address(_))
    }
}

impl fmt::Display for DataQuery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DataQuery::Grains(expr) => write!(f, "grains {}", expr.canonical()),
            DataQuery::Pillar(expr) => write!(f, "pillar {}", expr.canonical()),
            DataQuery::Address(test) => write!(f, "address {test:?}"),
        }
    }
}

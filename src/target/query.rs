//! Queries of targets on minion data, for an index that can answer them without looking at every minion.

use super::data::DataExpr;
use super::ip::IpTest;
use super::py_regex::RegexLimit;
use halite_wire::Map;
use std::fmt;

/// One test of a target. Queries with the same `Display` text are equivalent.
#[derive(Clone, Copy, Debug)]
pub enum DataQuery<'a> {
    /// Whether the grains match.
    Grains(&'a DataExpr),
    /// Whether the pillar matches.
    Pillar(&'a DataExpr),
    /// Whether the grains contain such an address.
    Address(&'a IpTest),
}

/// The results of one query for all minions.
pub trait QueryResults {
    /// The result for the minion at this index of the inventory's ids; `None` if nothing is known about it.
    ///
    /// # Errors
    /// A regular expression of the query takes too many steps.
    fn get(&self, at: usize) -> Result<Option<bool>, RegexLimit>;
}

impl DataQuery<'_> {
    /// Whether it tests the pillar instead of the grains.
    pub fn is_pillar(&self) -> bool {
        matches!(self, DataQuery::Pillar(_))
    }

    /// The only grain that the result depends on, provided that all grain names are text; `None` if it depends on more.
    pub fn grain(&self) -> Option<&str> {
        match self {
            DataQuery::Grains(expr) => expr.single_key(),
            DataQuery::Pillar(_) => None,
            DataQuery::Address(test) => Some(test.grain()),
        }
    }

    /// The result for a minion with this data.
    ///
    /// # Errors
    /// A regular expression takes too many steps.
    pub fn matches(&self, data: &Map) -> Result<bool, RegexLimit> {
        match self {
            DataQuery::Grains(expr) | DataQuery::Pillar(expr) => expr.matches(data),
            DataQuery::Address(test) => Ok(test.matches(data)),
        }
    }

    /// The result for a minion without data: an address cannot be ruled out.
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

//! Evaluates targets: a minion for itself, the master for all of its minions.

use super::compound::{Node, operand, parse};
use super::data::{Compare, DataExpr};
use super::error::TargetError;
use super::ip::IpTest;
use super::py_regex::{PyRegex, RegexLimit};
use super::query::{DataQuery, QueryResults};
use super::{
    MAX_NAMES, MAX_PATTERN, MAX_PATTERNS, MAX_REGEXES, MAX_WORDS, MinionId, Nodegroups, Target,
    TargetExpr, TargetType, nodegroup, pytext,
};
use halite_wire::Map;
use halite_wire::fnmatch::Glob;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

/// The data of a minion about itself.
pub trait Subject {
    /// Its id.
    fn id(&self) -> &str;
    /// Its grains.
    fn grains(&self) -> &Map;
    /// Its pillar, as held in memory.
    fn pillar(&self) -> &Map;
    /// The nodegroups of its own configuration. Publishers expand theirs, so this is used by top files and by minions
    /// without a master.
    fn nodegroups(&self) -> Option<&Map> {
        None
    }
}

/// The data of the master about its minions: the accepted keys and the data last cached.
pub trait Inventory {
    /// The accepted minions, in the order of reports.
    fn ids(&self) -> &[MinionId];
    /// Whether this is the id of an accepted minion.
    fn contains(&self, id: &str) -> bool;
    /// The cached grains, `None` if there are none.
    fn grains(&self, id: &MinionId) -> Option<Arc<Map>>;
    /// The cached pillar, `None` if there is none.
    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>>;
    /// Whether any data is cached (`minion_data_cache`). If not, targets that need data are taken to mean every minion.
    fn caches_data(&self) -> bool {
        true
    }
    /// The results of a query for all minions, if there is an index; otherwise data is fetched minion by minion.
    fn query<'a>(&'a self, query: DataQuery<'a>) -> Option<Box<dyn QueryResults + 'a>> {
        let _ = query;
        None
    }
}

/// The minions from which the master expects a return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The accepted minions that match, without duplicates: for a list in its order, else in the order of the
    /// inventory.
    pub minions: Vec<MinionId>,
    /// Names in lists that are not accepted minions, without duplicates.
    pub missing: Vec<String>,
    /// Why nothing can match, if that is so; for the log or the answer.
    pub error: Option<TargetError>,
}

impl Target {
    /// Whether this minion is targeted. A target that cannot be evaluated matches no minion; see
    /// [`Target::try_matches`].
    ///
    /// `pillar_pcre` and `pillar_exact` use the delimiter, as the master does when it predicts the answers. Stock
    /// minions ignore it there (`minion.py Minion._target_load`).
    pub fn matches(&self, subject: &dyn Subject) -> bool {
        self.try_matches(subject).unwrap_or(false)
    }

    /// Like [`Target::matches`], with the reason if the target cannot be evaluated.
    pub fn try_matches(&self, subject: &dyn Subject) -> Result<bool, TargetError> {
        if self.kind == TargetType::List {
            return Ok(self.lists(subject.id()));
        }
        if self.kind == TargetType::CompoundPillarExact {
            return Err(TargetError::Unsupported("compound_pillar_exact"));
        }
        let none = Map::new();
        let groups = subject.nodegroups().unwrap_or(&none);
        let plan = Plan::new(self, Evaluator::Minion, groups.into())?;
        let minion = SubjectData(subject);
        Ok(plan.node.holds(&mut |test| test.holds(&minion))?)
    }

    /// `salt/matchers/list_match.py`: in a text, the id must be delimited by commas or the ends.
    fn lists(&self, id: &str) -> bool {
        match &self.expr {
            TargetExpr::List(ids) => ids.iter().any(|own| own == id),
            TargetExpr::Text(text) if id.contains(',') => {
                format!(",{text},").contains(&format!(",{id},"))
            }
            TargetExpr::Text(text) => text.split(',').any(|own| own == id),
        }
    }

    /// The minions that the master expects to answer: `CkMinions.check_minions`, greedy, of the current 3006 and 3008.
    ///
    /// A minion without cached data matches no grain and no pillar, but every address. The work is the number of
    /// minions times the number of patterns; all plain names together count as one pattern.
    pub fn expected<'a>(
        &self,
        inventory: &dyn Inventory,
        nodegroups: impl Into<Nodegroups<'a>>,
    ) -> Expected {
        match self.try_expected(inventory, nodegroups.into()) {
            Ok(expected) => expected,
            Err(error) => Expected {
                error: Some(error),
                ..Expected::default()
            },
        }
    }

    fn try_expected(
        &self,
        inventory: &dyn Inventory,
        nodegroups: Nodegroups,
    ) -> Result<Expected, TargetError> {
        if self.kind == TargetType::List {
            return Ok(self.expected_of_list(inventory));
        }
        let mut plan = Plan::new(self, Evaluator::Master, nodegroups)?;
        if self.needs_data() && !inventory.caches_data() {
            return Ok(Expected {
                minions: inventory.ids().to_vec(),
                ..Expected::default()
            });
        }
        let only = plan.single_key().map(|name| known(inventory, name));
        let minions = match only {
            Some(only) => only.into_iter().collect(),
            None => plan.select(inventory)?,
        };
        Ok(Expected {
            minions,
            missing: missing(inventory, plan.listed),
            error: None,
        })
    }

    fn needs_data(&self) -> bool {
        !matches!(
            self.kind,
            TargetType::Glob | TargetType::Pcre | TargetType::List | TargetType::Range
        )
    }

    fn expected_of_list(&self, inventory: &dyn Inventory) -> Expected {
        let mut expected = Expected::default();
        let mut seen = HashSet::new();
        for name in self.names().filter(|name| !name.is_empty()) {
            if !seen.insert(name) {
                continue;
            }
            match known(inventory, name) {
                Some(id) => expected.minions.push(id),
                None => expected.missing.push(name.to_owned()),
            }
        }
        expected
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.expr {
            TargetExpr::Text(text) => Box::new(text.split(',')),
            TargetExpr::List(items) => Box::new(items.iter().map(String::as_str)),
        }
    }
}

fn known(inventory: &dyn Inventory, name: &str) -> Option<MinionId> {
    if inventory.contains(name) {
        MinionId::parse(name).ok()
    } else {
        None
    }
}

fn missing(inventory: &dyn Inventory, listed: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    listed
        .into_iter()
        .filter(|name| !inventory.contains(name) && seen.insert(name.clone()))
        .collect()
}

/// The side that evaluates a target.
#[derive(Clone, Copy, PartialEq)]
enum Evaluator {
    Minion,
    Master,
}

/// A target with all of its patterns compiled.
struct Plan {
    node: Node<Test>,
    /// Names in `L@` to report if they are missing.
    listed: Vec<String>,
}

enum Test {
    Names(HashSet<String>),
    Glob(Glob),
    Pcre(PyRegex),
    Data(DataTest),
    Constant(bool),
}

/// A test of a minion's data, with its index among those of the plan.
struct DataTest {
    number: usize,
    what: DataTestKind,
}

enum DataTestKind {
    Grains(DataExpr),
    Pillar(DataExpr),
    Ip(IpTest),
}

impl DataTest {
    fn query(&self) -> DataQuery<'_> {
        match &self.what {
            DataTestKind::Grains(expr) => DataQuery::Grains(expr),
            DataTestKind::Pillar(expr) => DataQuery::Pillar(expr),
            DataTestKind::Ip(test) => DataQuery::Address(test),
        }
    }
}

impl Plan {
    fn new(target: &Target, side: Evaluator, nodegroups: Nodegroups) -> Result<Plan, TargetError> {
        let delimiter = &target.delimiter;
        match (&target.expr, target.kind) {
            (TargetExpr::Text(text), TargetType::Nodegroup) => {
                let words = nodegroup::expand_words(vec![format!("N@{text}")], nodegroups)?;
                Plan::compound(&words, side, TargetType::Compound)
            }
            (TargetExpr::Text(text), TargetType::Compound | TargetType::CompoundPillarExact) => {
                let words = pytext::words(text).map(str::to_owned).collect();
                let words = nodegroup::expand_words(words, nodegroups)?;
                Plan::compound(&words, side, target.kind)
            }
            (TargetExpr::List(words), kind) => {
                let words = nodegroup::expand_words(words.clone(), nodegroups)?;
                Plan::compound(&words, side, kind)
            }
            (TargetExpr::Text(text), kind) => Ok(Plan {
                node: Node::Test(Test::new(kind, text, delimiter)?),
                listed: Vec::new(),
            }),
        }
    }

    fn compound(words: &[String], side: Evaluator, kind: TargetType) -> Result<Plan, TargetError> {
        if words.len() > MAX_WORDS {
            return Err(TargetError::TooMany {
                what: "words",
                limit: MAX_WORDS,
            });
        }
        let mut listed = Vec::new();
        let (mut names, mut patterns, mut regexes) = (0, 0, 0);
        let node = parse(words, |word, negated| {
            let test = Test::of_word(word, kind)?;
            match &test {
                Test::Names(list) => count(&mut names, list.len(), "names", MAX_NAMES)?,
                _ => count(&mut patterns, 1, "patterns", MAX_PATTERNS)?,
            }
            if matches!(operand(word).engine, Some('E' | 'P' | 'J')) {
                count(&mut regexes, 1, "regular expressions", MAX_REGEXES)?;
            }
            // Names after a `not` need not exist.
            if side == Evaluator::Master && !negated && operand(word).engine == Some('L') {
                listed.extend(split_list(operand(word).pattern));
            }
            Ok(test)
        })?;
        Ok(Plan {
            node: merge_names(node),
            listed,
        })
    }

    /// The minions of an inventory that match, in the inventory's order.
    fn select(&mut self, inventory: &dyn Inventory) -> Result<Vec<MinionId>, RegexLimit> {
        let mut tests = 0;
        self.node.each(&mut |test| {
            if let Test::Data(test) = test {
                test.number = tests;
                tests += 1;
            }
        });
        // Index results per data test, filled in on first use.
        let ready: Vec<OnceCell<Option<Box<dyn QueryResults + '_>>>> =
            (0..tests).map(|_| OnceCell::new()).collect();
        let mut chosen = Vec::new();
        for (at, id) in inventory.ids().iter().enumerate() {
            let minion = CachedData::new(inventory, id);
            let holds = self.node.holds(&mut |test| {
                let Test::Data(data) = test else {
                    return test.holds(&minion);
                };
                let ask = || inventory.query(data.query());
                match ready
                    .get(data.number)
                    .and_then(|r| r.get_or_init(ask).as_ref())
                {
                    Some(answers) => {
                        let known = answers.get(at)?;
                        Ok(known.unwrap_or(data.query().default_match()))
                    }
                    None => test.holds(&minion),
                }
            })?;
            if holds {
                chosen.push(id.clone());
            }
        }
        Ok(chosen)
    }

    /// The name, if at most one minion can match.
    fn single_key(&self) -> Option<&str> {
        match &self.node {
            Node::Test(Test::Names(names)) if names.len() == 1 => {
                names.iter().next().map(String::as_str)
            }
            Node::Test(Test::Glob(glob)) => glob.literal(),
            _ => None,
        }
    }
}

/// Merges all names joined by `or` into one set: a nodegroup of ten thousand names then costs one lookup per minion.
fn merge_names(node: Node<Test>) -> Node<Test> {
    match node {
        Node::Any(nodes) => {
            let mut names = HashSet::new();
            let mut rest = Vec::new();
            for node in nodes {
                match merge_names(node) {
                    Node::Test(Test::Names(list)) => names.extend(list),
                    node => rest.push(node),
                }
            }
            if !names.is_empty() {
                // First, because it is the cheapest test.
                rest.insert(0, Node::Test(Test::Names(names)));
            }
            Node::Any(rest)
        }
        Node::All(nodes) => Node::All(nodes.into_iter().map(merge_names).collect()),
        Node::Not(node) => Node::Not(Box::new(merge_names(*node))),
        node => node,
    }
}

fn count(
    sum: &mut usize,
    more: usize,
    what: &'static str,
    limit: usize,
) -> Result<(), TargetError> {
    *sum += more;
    if *sum <= limit {
        return Ok(());
    }
    Err(TargetError::TooMany { what, limit })
}

fn split_list(text: &str) -> impl Iterator<Item = String> {
    text.split(',').filter(|n| !n.is_empty()).map(str::to_owned)
}

impl Test {
    fn new(kind: TargetType, text: &str, delimiter: &str) -> Result<Test, TargetError> {
        if kind != TargetType::List && text.len() > MAX_PATTERN {
            return Err(TargetError::TooLong {
                what: "pattern",
                limit: MAX_PATTERN,
            });
        }
        let data = |compare| DataExpr::new(text, delimiter, compare);
        let of = |what| Test::Data(DataTest { number: 0, what });
        Ok(match kind {
            TargetType::Glob => Test::glob(text),
            TargetType::Pcre => Test::pcre(text)?,
            TargetType::List => Test::Names(split_list(text).collect()),
            TargetType::Grain => of(DataTestKind::Grains(data(Compare::Glob)?)),
            TargetType::GrainPcre => of(DataTestKind::Grains(data(Compare::Regex)?.checked()?)),
            TargetType::Pillar => of(DataTestKind::Pillar(data(Compare::Glob)?)),
            TargetType::PillarPcre => of(DataTestKind::Pillar(data(Compare::Regex)?.checked()?)),
            TargetType::PillarExact => of(DataTestKind::Pillar(data(Compare::Exact)?)),
            // Salt treats one that is neither address nor network as a test that fails, so that `not S@typo` matches
            // everyone.
            TargetType::Ipcidr => {
                let test = IpTest::parse(text);
                let test = test.ok_or_else(|| TargetError::Address(text.to_owned()))?;
                of(DataTestKind::Ip(test))
            }
            TargetType::Range => return Err(TargetError::Unsupported("a target of type range")),
            TargetType::Compound | TargetType::CompoundPillarExact | TargetType::Nodegroup => {
                return Err(TargetError::NotText { kind: kind.name() });
            }
        })
    }

    fn glob(text: &str) -> Test {
        let glob = Glob::new(text);
        match glob.literal() {
            Some(name) => Test::Names(HashSet::from([name.to_owned()])),
            None => Test::Glob(glob),
        }
    }

    fn pcre(text: &str) -> Result<Test, TargetError> {
        let regex = |reason| TargetError::Regex {
            pattern: text.to_owned(),
            reason,
        };
        PyRegex::new(text).map(Test::Pcre).map_err(regex)
    }

    /// One operand of a compound (`_check_compound_minions` and `compound_match`).
    fn of_word(word: &str, kind: TargetType) -> Result<Test, TargetError> {
        let operand = operand(word);
        let mut buffer = [0; 4];
        let delimiter = match operand.delimiter {
            Some(c) => c.encode_utf8(&mut buffer),
            None => super::DEFAULT_DELIMITER,
        };
        let exact = kind == TargetType::CompoundPillarExact;
        let kind = match operand.engine {
            None => TargetType::Glob,
            Some('E') => TargetType::Pcre,
            Some('L') => TargetType::List,
            Some('G') => TargetType::Grain,
            Some('P') => TargetType::GrainPcre,
            Some('I' | 'J') if exact => TargetType::PillarExact,
            Some('I') => TargetType::Pillar,
            Some('J') => TargetType::PillarPcre,
            Some('S') => TargetType::Ipcidr,
            // Salt evaluates it on neither side: minions lack the Python module, and the master calls `_all_minions`
            // with one argument too many.
            Some('R') => return Err(TargetError::Unsupported("R@")),
            // 3008: the minion that manages resources, by its full name.
            Some('M') => {
                return Ok(Test::Names(HashSet::from([operand.pattern.to_owned()])));
            }
            // 3008: resources. There are none here.
            Some(_) => return Ok(Test::Constant(false)),
        };
        Test::new(kind, operand.pattern, delimiter)
    }

    fn holds(&self, minion: &impl MinionData) -> Result<bool, RegexLimit> {
        Ok(match self {
            Test::Names(names) => names.contains(minion.id()),
            Test::Glob(glob) => glob.matches(minion.id()),
            Test::Pcre(regex) => regex.matches(minion.id())?,
            Test::Data(test) => {
                let query = test.query();
                let data = if query.is_pillar() {
                    minion.pillar()
                } else {
                    minion.grains()
                };
                match data {
                    Some(data) => query.matches(data)?,
                    None => query.default_match(),
                }
            }
            Test::Constant(value) => *value,
        })
    }
}

/// The data of one minion, as needed by tests.
trait MinionData {
    fn id(&self) -> &str;
    fn grains(&self) -> Option<&Map>;
    fn pillar(&self) -> Option<&Map>;
}

struct SubjectData<'a>(&'a dyn Subject);

impl MinionData for SubjectData<'_> {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn grains(&self) -> Option<&Map> {
        Some(self.0.grains())
    }

    fn pillar(&self) -> Option<&Map> {
        Some(self.0.pillar())
    }
}

/// Data is fetched when a test needs it, once per minion.
struct CachedData<'a> {
    inventory: &'a dyn Inventory,
    id: &'a MinionId,
    grains: OnceCell<Option<Arc<Map>>>,
    pillar: OnceCell<Option<Arc<Map>>>,
}

impl<'a> CachedData<'a> {
    fn new(inventory: &'a dyn Inventory, id: &'a MinionId) -> Self {
        CachedData {
            inventory,
            id,
            grains: OnceCell::new(),
            pillar: OnceCell::new(),
        }
    }
}

impl MinionData for CachedData<'_> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn grains(&self) -> Option<&Map> {
        self.grains
            .get_or_init(|| self.inventory.grains(self.id))
            .as_deref()
    }

    fn pillar(&self) -> Option<&Map> {
        self.pillar
            .get_or_init(|| self.inventory.pillar(self.id))
            .as_deref()
    }
}

//! Evaluation of targets: a minion about itself, the master about all of its minions.

use super::compound::{Node, operand, parse};
use super::data::{Compare, DataExpr};
use super::error::TargetError;
use super::ip::IpTest;
use super::pyre::PyRegex;
use super::question::{Answers, Question};
use super::{
    Expr, Groups, Kind, MAX_NAMES, MAX_PATTERN, MAX_PATTERNS, MAX_REGEXES, MAX_WORDS, MinionId,
    Target, nodegroup, pytext,
};
use halite_wire::Map;
use halite_wire::fnmatch::Glob;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

/// What a minion knows of itself.
pub trait Subject {
    /// Its id.
    fn id(&self) -> &str;
    /// Its grains.
    fn grains(&self) -> &Map;
    /// Its pillar, as it has it in memory.
    fn pillar(&self) -> &Map;
    /// The nodegroups of its own configuration. Publishers expand theirs, so this serves top files
    /// and minions without a master.
    fn nodegroups(&self) -> Option<&Map> {
        None
    }
}

/// What the master knows of its minions: the accepted keys and the data that were last cached.
pub trait Inventory {
    /// The accepted minions, in the order in which they shall be reported.
    fn ids(&self) -> &[MinionId];
    /// Whether this is the id of an accepted minion.
    fn contains(&self, id: &str) -> bool;
    /// The cached grains, `None` if there are none.
    fn grains(&self, id: &MinionId) -> Option<Arc<Map>>;
    /// The cached pillar, `None` if there is none.
    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>>;
    /// Whether data are cached at all (`minion_data_cache`). If not, targets that need them are
    /// taken to mean every minion.
    fn caches_data(&self) -> bool {
        true
    }
    /// The answers of all minions to a question, where there is an index; else data are fetched minion by minion.
    fn answers<'a>(&'a self, question: Question<'a>) -> Option<Box<dyn Answers + 'a>> {
        let _ = question;
        None
    }
}

/// The minions from which the master expects a return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The accepted minions that match, each once: in the order of the list for a list, else in the
    /// order of the inventory.
    pub minions: Vec<MinionId>,
    /// Names in lists that are no accepted minion, each once.
    pub missing: Vec<String>,
    /// Why nothing can match, if that is so: worth a line in the log or in the answer.
    pub error: Option<TargetError>,
}

impl Target {
    /// Whether a minion is meant. What cannot be evaluated means no one; see [`Target::verdict`].
    ///
    /// `pillar_pcre` and `pillar_exact` heed the delimiter, as the master does when it predicts who
    /// answers. Stock minions forget it there (`minion.py Minion._target_load`).
    pub fn matches(&self, subject: &dyn Subject) -> bool {
        self.verdict(subject).unwrap_or(false)
    }

    /// As [`Target::matches`], with the reason why a target cannot be evaluated.
    pub fn verdict(&self, subject: &dyn Subject) -> Result<bool, TargetError> {
        if self.kind == Kind::List {
            return Ok(self.lists(subject.id()));
        }
        if self.kind == Kind::CompoundPillarExact {
            return Err(TargetError::Unsupported("compound_pillar_exact"));
        }
        let none = Map::new();
        let groups = subject.nodegroups().unwrap_or(&none);
        let plan = Plan::new(self, Side::Minion, groups.into())?;
        let facts = MinionFacts(subject);
        Ok(plan.node.holds(&mut |test| test.holds(&facts)))
    }

    /// `salt/matchers/list_match.py`: in a text the id must stand between commas or ends.
    fn lists(&self, id: &str) -> bool {
        match &self.expr {
            Expr::List(ids) => ids.iter().any(|own| own == id),
            Expr::Text(text) if id.contains(',') => {
                format!(",{text},").contains(&format!(",{id},"))
            }
            Expr::Text(text) => text.split(',').any(|own| own == id),
        }
    }

    /// The minions that the master expects to answer: `CkMinions.check_minions`, greedy, of the
    /// current 3006 and 3008.
    ///
    /// A minion without cached data matches no grain and no pillar, but every address.
    /// The work is the number of minions times the number of patterns; any number of names counts as
    /// one pattern.
    pub fn expected<'a>(
        &self,
        inventory: &dyn Inventory,
        nodegroups: impl Into<Groups<'a>>,
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
        nodegroups: Groups,
    ) -> Result<Expected, TargetError> {
        if self.kind == Kind::List {
            return Ok(self.expected_of_list(inventory));
        }
        let mut plan = Plan::new(self, Side::Master, nodegroups)?;
        if self.needs_data() && !inventory.caches_data() {
            return Ok(Expected {
                minions: inventory.ids().to_vec(),
                ..Expected::default()
            });
        }
        let only = plan.only_name().map(|name| known(inventory, name));
        let minions = match only {
            Some(only) => only.into_iter().collect(),
            None => plan.select(inventory),
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
            Kind::Glob | Kind::Pcre | Kind::List | Kind::Range
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
            Expr::Text(text) => Box::new(text.split(',')),
            Expr::List(items) => Box::new(items.iter().map(String::as_str)),
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

/// Who evaluates.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Minion,
    Master,
}

/// A target with all of its patterns compiled.
struct Plan {
    node: Node<Test>,
    /// Names in `L@` whose absence is worth a report.
    listed: Vec<String>,
}

enum Test {
    Names(HashSet<String>),
    Glob(Glob),
    Pcre(PyRegex),
    Data(DataTest),
    Constant(bool),
}

/// A test of a minion's data, with its number among those of the plan.
struct DataTest {
    number: usize,
    what: What,
}

enum What {
    Grains(DataExpr),
    Pillar(DataExpr),
    Ip(IpTest),
}

impl DataTest {
    fn question(&self) -> Question<'_> {
        match &self.what {
            What::Grains(expr) => Question::Grains(expr),
            What::Pillar(expr) => Question::Pillar(expr),
            What::Ip(test) => Question::Address(test),
        }
    }
}

impl Plan {
    fn new(target: &Target, side: Side, nodegroups: Groups) -> Result<Plan, TargetError> {
        let delimiter = &target.delimiter;
        match (&target.expr, target.kind) {
            (Expr::Text(text), Kind::Nodegroup) => {
                let words = nodegroup::expand_words(vec![format!("N@{text}")], nodegroups)?;
                Plan::compound(&words, side, Kind::Compound)
            }
            (Expr::Text(text), Kind::Compound | Kind::CompoundPillarExact) => {
                let words = pytext::words(text).map(str::to_owned).collect();
                let words = nodegroup::expand_words(words, nodegroups)?;
                Plan::compound(&words, side, target.kind)
            }
            (Expr::List(words), kind) => {
                let words = nodegroup::expand_words(words.clone(), nodegroups)?;
                Plan::compound(&words, side, kind)
            }
            (Expr::Text(text), kind) => Ok(Plan {
                node: Node::Test(Test::new(kind, text, delimiter)?),
                listed: Vec::new(),
            }),
        }
    }

    fn compound(words: &[String], side: Side, kind: Kind) -> Result<Plan, TargetError> {
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
            // The names after a `not` need not exist.
            if side == Side::Master && !negated && operand(word).engine == Some('L') {
                listed.extend(split_list(operand(word).pattern));
            }
            Ok(test)
        })?;
        Ok(Plan {
            node: merge_names(node),
            listed,
        })
    }

    /// The minions of an inventory that match, in its order.
    fn select(&mut self, inventory: &dyn Inventory) -> Vec<MinionId> {
        let mut tests = 0;
        self.node.each(&mut |test| {
            if let Test::Data(test) = test {
                test.number = tests;
                tests += 1;
            }
        });
        // What an index has to say to each of them, once it is asked.
        let ready: Vec<OnceCell<Option<Box<dyn Answers + '_>>>> =
            (0..tests).map(|_| OnceCell::new()).collect();
        let mut chosen = Vec::new();
        for (at, id) in inventory.ids().iter().enumerate() {
            let facts = MasterFacts::new(inventory, id);
            let holds = self.node.holds(&mut |test| {
                let Test::Data(data) = test else {
                    return test.holds(&facts);
                };
                let ask = || inventory.answers(data.question());
                match ready
                    .get(data.number)
                    .and_then(|r| r.get_or_init(ask).as_ref())
                {
                    Some(answers) => answers.of(at).unwrap_or(data.question().in_doubt()),
                    None => test.holds(&facts),
                }
            });
            if holds {
                chosen.push(id.clone());
            }
        }
        chosen
    }

    /// The name, if one minion at most can match.
    fn only_name(&self) -> Option<&str> {
        match &self.node {
            Node::Test(Test::Names(names)) if names.len() == 1 => {
                names.iter().next().map(String::as_str)
            }
            Node::Test(Test::Glob(glob)) => glob.literal(),
            _ => None,
        }
    }
}

/// Makes one set of all the names that stand side by side between `or`s: a nodegroup of ten
/// thousand names then costs one look-up per minion.
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
                // First, because it is the cheapest.
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
    fn new(kind: Kind, text: &str, delimiter: &str) -> Result<Test, TargetError> {
        if kind != Kind::List && text.len() > MAX_PATTERN {
            return Err(TargetError::TooLong {
                what: "pattern",
                limit: MAX_PATTERN,
            });
        }
        let data = |compare| DataExpr::new(text, delimiter, compare);
        let of = |what| Test::Data(DataTest { number: 0, what });
        Ok(match kind {
            Kind::Glob => Test::glob(text),
            Kind::Pcre => Test::pcre(text)?,
            Kind::List => Test::Names(split_list(text).collect()),
            Kind::Grain => of(What::Grains(data(Compare::Glob)?)),
            Kind::GrainPcre => of(What::Grains(data(Compare::Regex)?)),
            Kind::Pillar => of(What::Pillar(data(Compare::Glob)?)),
            Kind::PillarPcre => of(What::Pillar(data(Compare::Regex)?)),
            Kind::PillarExact => of(What::Pillar(data(Compare::Exact)?)),
            // Neither address nor network: Salt logs it and takes it for a test that fails, on
            // both sides, so `not S@typo` is everyone.
            Kind::Ipcidr => {
                IpTest::parse(text).map_or(Test::Constant(false), |test| of(What::Ip(test)))
            }
            Kind::Range => return Err(TargetError::Unsupported("a target of type range")),
            Kind::Compound | Kind::CompoundPillarExact | Kind::Nodegroup => {
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
    fn of_word(word: &str, kind: Kind) -> Result<Test, TargetError> {
        let operand = operand(word);
        let mut buffer = [0; 4];
        let delimiter = match operand.delimiter {
            Some(c) => c.encode_utf8(&mut buffer),
            None => super::DEFAULT_DELIMITER,
        };
        let exact = kind == Kind::CompoundPillarExact;
        let kind = match operand.engine {
            None => Kind::Glob,
            Some('E') => Kind::Pcre,
            Some('L') => Kind::List,
            Some('G') => Kind::Grain,
            Some('P') => Kind::GrainPcre,
            Some('I' | 'J') if exact => Kind::PillarExact,
            Some('I') => Kind::Pillar,
            Some('J') => Kind::PillarPcre,
            Some('S') => Kind::Ipcidr,
            // Neither side of Salt evaluates it: the minion lacks the Python module, and the master
            // calls `_all_minions` with an argument too many.
            Some('R') => return Err(TargetError::Unsupported("R@")),
            // 3008: the minion that manages resources, named in full.
            Some('M') => {
                return Ok(Test::Names(HashSet::from([operand.pattern.to_owned()])));
            }
            // 3008: resources. There are none here.
            Some(_) => return Ok(Test::Constant(false)),
        };
        Test::new(kind, operand.pattern, delimiter)
    }

    fn holds(&self, facts: &impl Facts) -> bool {
        match self {
            Test::Names(names) => names.contains(facts.id()),
            Test::Glob(glob) => glob.matches(facts.id()),
            Test::Pcre(regex) => regex.matches(facts.id()),
            Test::Data(test) => {
                let question = test.question();
                let data = if question.of_pillar() {
                    facts.pillar()
                } else {
                    facts.grains()
                };
                data.map_or(question.in_doubt(), |data| question.holds(data))
            }
            Test::Constant(value) => *value,
        }
    }
}

/// What tests ask of one minion.
trait Facts {
    fn id(&self) -> &str;
    fn grains(&self) -> Option<&Map>;
    fn pillar(&self) -> Option<&Map>;
}

struct MinionFacts<'a>(&'a dyn Subject);

impl Facts for MinionFacts<'_> {
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

/// Data are fetched when a test asks for them, once per minion.
struct MasterFacts<'a> {
    inventory: &'a dyn Inventory,
    id: &'a MinionId,
    grains: OnceCell<Option<Arc<Map>>>,
    pillar: OnceCell<Option<Arc<Map>>>,
}

impl<'a> MasterFacts<'a> {
    fn new(inventory: &'a dyn Inventory, id: &'a MinionId) -> Self {
        MasterFacts {
            inventory,
            id,
            grains: OnceCell::new(),
            pillar: OnceCell::new(),
        }
    }
}

impl Facts for MasterFacts<'_> {
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

//! Filters of collectives, judged by halite and by MCollective's own code, over a few thousand generated cases.
//!
//! Runs where `ruby` and its `mcollective` are installed.

use halite::collective::filter::{Matcher, Node, Semantics, Unusable};
use halite::collective::ruby::Datum;
use halite::collective::wire::{FactFilter, Filter};
use halite::map;
use halite::wire::{Map, Value};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

const CASES: usize = 6000;

/// Whether Ruby has MCollective.
fn installed() -> bool {
    let found = Command::new("ruby")
        .args(["-W0", "-e", "require 'mcollective'"])
        .output();
    let there = found.is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: there is no ruby with mcollective here");
    }
    there
}

/// MCollective's code, one answer a line.
struct Ruby(Child);

impl Ruby {
    fn start() -> Ruby {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/foreign/collective_filter/filter.rb"
        );
        let child = Command::new("ruby")
            .args(["-W0", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Ruby(child.unwrap())
    }

    /// The answers to all cases, in their order.
    fn judge(mut self, cases: &[Case]) -> Vec<bool> {
        let mut input = self.0.stdin.take().unwrap();
        let lines: Vec<String> = cases.iter().map(|case| case.json().to_string()).collect();
        let writer = std::thread::spawn(move || {
            for line in lines {
                writeln!(input, "{line}").unwrap();
            }
        });
        let output = BufReader::new(self.0.stdout.take().unwrap());
        let answers = output.lines().map(|line| match line.unwrap().as_str() {
            "true" => true,
            "false" => false,
            other => panic!("an answer that is none: {other}"),
        });
        let answers = answers.collect();
        writer.join().unwrap();
        assert!(self.0.wait().unwrap().success());
        answers
    }
}

/// Numbers that are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % below as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.next(from.len())]
    }

    fn some(&mut self, from: &[&str], most: usize) -> Vec<String> {
        let count = self.next(most + 1);
        (0..count).map(|_| self.pick(from).to_owned()).collect()
    }
}

const WORDS: &[&str] = &[
    "uk",
    "us",
    "UK",
    "",
    "web",
    "db",
    "10",
    "9",
    "010",
    "08",
    "2048",
    "1.5",
    "1.25",
    "2e3",
    "1x5",
    "-3",
    "true",
    "false",
    "2.12.5",
    "2.9.0",
    "1_5",
    "0x1",
    "a\n12\nb",
    "ü",
    "uk\n",
    "99999999999999999999999",
    "/uk/",
    " uk ",
    "0",
];
const PATTERNS: &[&str] = &[
    "uk",
    "/^u/",
    "/k$/",
    "^[0-9]+$",
    r"/\d+/",
    "(?i)UK",
    "/(?i:uk)|db/",
    "(",
    "/[/",
    "u{",
    r"\Au",
    "a.12",
    "(?m)a.12",
    r"\w+\Z",
    "[[:alpha:]]",
    "/(.)\\1/",
    "(?<=u)k",
    "x*+",
    "//",
    "/",
    "a{,2}$",
    r"\h\h",
    "(?!u)",
    "[^u]k",
    r"\p{Alpha}",
];
const FACTS: &[&str] = &[
    "country", "memory", "list", "map", "flag", "nothing", "absent", "float", "odd", "a.b", "",
];
const OPERATORS: &[&str] = &["==", "=~", "!=", "<", "<=", ">", ">=", "=", "~", "==="];
const CLASSES: &[&str] = &["testing::linux", "web", "Web", "db::server", "x y"];
const AGENTS: &[&str] = &["discovery", "rpcutil", "package", "mcollective", "puppet"];
const NAMES: &[&str] = &[
    "testing::linux",
    "web",
    "/^web/",
    "/web",
    "/co/mmon/",
    "absent",
    "/(/",
    "discovery",
    "package",
    "mcollective",
    "/^rpc/",
    "node1.example",
    "node2.example",
    "/node1/",
    "/./",
    "",
    "/",
    "a\n/web",
];

struct Case {
    node: Own,
    filter: Filter,
}

struct Own {
    identity: &'static str,
    facts: Map,
    classes: Vec<String>,
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl Own {
    fn agent(&self, name: &str) -> Option<Map> {
        let known = self.agents.iter().any(|own| own == name);
        known.then(|| {
            map! {
                "license" => "ASL", "timeout" => 10, "description" => "of uk", "url" => "http://example",
                "version" => "2.0", "author" => "us",
            }
        })
    }

    fn passes(&self, matcher: &Matcher) -> Result<bool, Unusable> {
        matcher.passes(&Node {
            identity: self.identity,
            facts: &self.facts,
            classes: &self.classes,
            agents: &self.agents,
            collectives: &self.collectives,
            agent: &|name| self.agent(name),
        })
    }
}

fn scalar(dice: &mut Dice) -> Value {
    match dice.next(8) {
        0 => Value::from(i64::try_from(dice.next(3000)).unwrap() - 100),
        1 => Value::from(f64::from(u32::try_from(dice.next(400)).unwrap()) / 8.0),
        2 => [1e16, 1e-5, 1.5e300, -0.0, 2048.0][dice.next(5)].into(),
        3 => Value::from(dice.next(2) == 0),
        4 if dice.next(4) == 0 => Value::Nil,
        _ => Value::from(dice.pick(WORDS)),
    }
}

fn node(dice: &mut Dice) -> Own {
    let list: Vec<Value> = (0..dice.next(4)).map(|_| scalar(dice)).collect();
    let odd = vec![
        Value::from(map! { "k" => scalar(dice) }),
        Value::Array(vec![scalar(dice)]),
        scalar(dice),
    ];
    let inner = map! { "uk" => scalar(dice), "db" => map! { "deep" => scalar(dice) }, "12" => list.clone() };
    let mut facts = map! {
        "country" => dice.pick(WORDS), "memory" => scalar(dice), "list" => list, "map" => inner,
        "flag" => dice.next(2) == 0, "float" => scalar(dice), "a.b" => scalar(dice), "nothing" => Value::Nil,
    };
    if dice.next(3) == 0 {
        facts.set("odd", odd);
    }
    let mut agents = dice.some(&["discovery", "rpcutil", "package", "puppet"], 4);
    agents.sort();
    agents.dedup();
    Own {
        identity: dice.pick(&["node1.example", "node2.example"]),
        facts,
        classes: dice.some(CLASSES, 4),
        agents,
        collectives: dice.some(&["mcollective", "uk_collective"], 2),
    }
}

fn value(dice: &mut Dice, operator: &str) -> String {
    let pattern = operator.contains('~') || dice.next(8) == 0;
    dice.pick(if pattern { PATTERNS } else { WORDS }).to_owned()
}

fn hash(key: &str, value: Datum) -> Datum {
    Datum::Hash(vec![(key.into(), value)])
}

fn statement(dice: &mut Dice) -> Datum {
    let text = match dice.next(5) {
        0 => dice.pick(NAMES).to_owned(),
        1 => dice.pick(CLASSES).to_owned(),
        _ => {
            let operator = dice.pick(&[
                "=", "=", "=", ">=", "<=", "<", ">", "==", "!=", "=~", "=>", "=<",
            ]);
            let slashes = dice.next(4) == 0;
            let value = value(dice, if slashes { "=~" } else { "=" });
            format!("{}{operator}{value}", dice.pick(FACTS))
        }
    };
    hash("statement", text.as_str().into())
}

fn call(dice: &mut Dice) -> Datum {
    let (name, params, outputs) = match dice.next(5) {
        0 => (
            "agent",
            AGENTS,
            &["version", "timeout", "author", "agent", "description"][..],
        ),
        1 => (
            "collective",
            &["mcollective", "uk_collective", "x", ""][..],
            &["member"][..],
        ),
        2 => (
            dice.pick(&["fact", "Fact", "FACT_DATA", "nothing"]),
            FACTS,
            &["value", "exists", "value_encoding", "nope"][..],
        ),
        _ => (
            "fact",
            &[
                "country",
                "map.uk",
                "map.db",
                "map.db.deep",
                "list.0",
                "list.-1",
                "list.x",
                "list.7",
                "odd.0.k",
                "country.x",
                "a.b",
                "map.12.0",
                "list",
                ".",
                "country.",
                "country`",
                "",
            ][..],
            &["value", "exists", "value_encoding"][..],
        ),
    };
    let operator = dice.pick(&[
        "==", "!=", "<", ">", "<=", ">=", "=~", "!=~", "=", " == ", "=>", "x",
    ]);
    let right: Datum = match dice.next(6) {
        0 => dice
            .pick(&["true", "false", " true ", "10", "10.5", "2.0", "us", "0x0a"])
            .into(),
        1 if operator.contains('~') => Datum::Regexp {
            source: dice.pick(&["^U", "k", "[0-9] # x", "a.1"]).to_owned(),
            options: u8::try_from(dice.next(8)).unwrap(),
        },
        2 => Datum::Int(10),
        _ => value(dice, operator).as_str().into(),
    };
    let mut pairs: Vec<(Datum, Datum)> = vec![
        ("name".into(), name.into()),
        ("operator".into(), operator.into()),
        ("r_compare".into(), right),
        ("params".into(), dice.pick(params).into()),
    ];
    if dice.next(12) != 0 {
        pairs.push(("value".into(), dice.pick(outputs).into()));
    }
    hash("fstatement", Datum::Hash(pairs))
}

/// Tokens that mostly make a sentence.
fn sentence(dice: &mut Dice, deep: usize, out: &mut Vec<Datum>) {
    let word = |word: &str| hash(word, word.into());
    for n in 0..=dice.next(3) {
        if n > 0 {
            out.push(word(dice.pick(&["and", "or"])));
        }
        if dice.next(3) == 0 {
            out.push(word("not"));
        }
        match dice.next(6) {
            0 if deep < 3 => {
                out.push(word("("));
                if dice.next(12) != 0 {
                    sentence(dice, deep + 1, out);
                }
                out.push(word(")"));
            }
            1 | 2 => out.push(call(dice)),
            _ => out.push(statement(dice)),
        }
    }
    if dice.next(25) == 0 {
        out.push(word(dice.pick(&["and", "or", "not", "(", ")", "other"])));
    }
    if dice.next(40) == 0 {
        let at = dice.next(out.len());
        out.remove(at);
    }
}

fn filter(dice: &mut Dice) -> Filter {
    let mut filter = Filter::default();
    // Mostly one kind at a time: what all five of them decide is too often no.
    for _ in 0..=usize::from(dice.next(4) == 0) {
        match dice.next(8) {
            0 => filter.classes = dice.some(NAMES, 2),
            1 => filter.agents = dice.some(NAMES, 2),
            2 => filter.identities = dice.some(NAMES, 3),
            3..=5 => {
                filter.facts = (0..=usize::from(dice.next(5) == 0))
                    .map(|_| {
                        let operator = dice.pick(OPERATORS);
                        FactFilter {
                            fact: dice.pick(FACTS).to_owned(),
                            operator: Some(operator.to_owned()),
                            value: value(dice, operator),
                            symbols: true,
                        }
                    })
                    .collect();
            }
            _ => {
                let mut tokens = Vec::new();
                sentence(dice, 0, &mut tokens);
                filter.compound.push(Datum::Array(tokens));
            }
        }
    }
    if dice.next(40) == 0 {
        filter.unknown.push("collective".to_owned());
    }
    filter
}

/// As JSON, with a hash of its own for what JSON does not have.
fn plain(datum: &Datum) -> Json {
    match datum {
        Datum::Regexp { source, options } => json!({"regexp": source, "options": options}),
        Datum::Array(items) => items.iter().map(plain).collect(),
        Datum::Hash(pairs) => {
            let pairs = pairs.iter();
            Json::Object(
                pairs
                    .map(|(key, value)| (key.as_str().unwrap().to_owned(), plain(value)))
                    .collect(),
            )
        }
        Datum::Int(number) => json!(i64::try_from(*number).unwrap()),
        other => json!(other.as_str().unwrap()),
    }
}

impl Case {
    fn json(&self) -> Json {
        let (node, filter) = (&self.node, &self.filter);
        let agents: serde_json::Map<String, Json> = node
            .agents
            .iter()
            .map(|name| {
                (
                    name.clone(),
                    serde_json::to_value(node.agent(name).unwrap()).unwrap(),
                )
            })
            .collect();
        let entry =
            |f: &FactFilter| json!({"fact": f.fact, "operator": f.operator, "value": f.value});
        let facts: Vec<Json> = filter.facts.iter().map(entry).collect();
        let compound: Vec<Json> = filter.compound.iter().map(plain).collect();
        let mut wire = json!({
            "fact": facts, "cf_class": filter.classes, "agent": filter.agents, "identity": filter.identities,
            "compound": compound,
        });
        for key in &filter.unknown {
            wire[key] = json!("mcollective");
        }
        json!({
            "node": {
                "identity": node.identity, "facts": node.facts, "classes": node.classes, "agents": agents,
                "collectives": node.collectives,
            },
            "filter": wire,
        })
    }
}

#[test]
fn as_mcollective_judges() {
    if !installed() {
        return;
    }
    let mut dice = Dice(2010);
    let cases: Vec<Case> = (0..CASES)
        .map(|_| Case {
            node: node(&mut dice),
            filter: filter(&mut dice),
        })
        .collect();
    let theirs = Ruby::start().judge(&cases);
    assert_eq!(theirs.len(), cases.len());
    let mut wrong = Vec::new();
    for (case, theirs) in cases.iter().zip(&theirs) {
        let matcher = Matcher::new(&case.filter, Semantics::Choria).unwrap();
        let verdict = case.node.passes(&matcher);
        if verdict.clone().unwrap_or(false) != *theirs {
            wrong.push(format!(
                "Ruby says {theirs}, halite {verdict:?}: {}",
                case.json()
            ));
        }
    }
    let yes = theirs.iter().filter(|yes| **yes).count();
    eprintln!("{CASES} cases, {yes} pass in Ruby");
    assert!(
        yes > CASES / 10 && yes < CASES * 9 / 10,
        "the cases decide nothing"
    );
    let shown = wrong
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(wrong.is_empty(), "{} differ:\n{shown}", wrong.len());
}

//! Checked against stock Salt: `tests/data/target_cases.json`, made by the script next to it.

use super::compound::operand;
use super::*;
use halite_wire::map;
use halite_wire::{Map, msgpack};
use proptest::prelude::*;
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const CASES: &str = include_str!("../../tests/data/target_cases.json");

fn cases() -> Json {
    serde_json::from_str(CASES).unwrap()
}

fn value(json: &Json) -> Value {
    serde_json::from_value(json.clone()).unwrap()
}

fn rows<'a>(json: &'a Json, section: &str) -> &'a [Json] {
    json[section].as_array().unwrap()
}

fn texts(json: &Json) -> Vec<String> {
    value(json).str_list()
}

/// The answers of the releases: only one if they agree.
fn answers(json: &Json) -> Vec<(&str, &Json)> {
    match json.as_object() {
        Some(each) => each.iter().map(|(k, v)| (k.as_str(), v)).collect(),
        None => vec![("all", json)],
    }
}

fn unpack(hex: &Json) -> Value {
    let hex = hex.as_str().unwrap();
    let octets: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    msgpack::decode(&octets).unwrap()
}

fn unpack_map(hex: &Json) -> Map {
    unpack(hex).into_map().unwrap()
}

struct Minion {
    id: String,
    grains: Arc<Map>,
    pillar: Arc<Map>,
    nodegroups: Map,
}

impl Subject for Minion {
    fn id(&self) -> &str {
        &self.id
    }
    fn grains(&self) -> &Map {
        &self.grains
    }
    fn pillar(&self) -> &Map {
        &self.pillar
    }
    fn nodegroups(&self) -> Option<&Map> {
        Some(&self.nodegroups)
    }
}

#[derive(Default)]
struct Master {
    ids: Vec<MinionId>,
    known: HashSet<MinionId>,
    cached: HashMap<MinionId, (Arc<Map>, Arc<Map>)>,
    no_cache: bool,
}

impl Master {
    fn accept(&mut self, id: &str) -> MinionId {
        let id = MinionId::parse(id).unwrap();
        self.ids.push(id.clone());
        self.known.insert(id.clone());
        id
    }
}

impl Inventory for Master {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }
    fn contains(&self, id: &str) -> bool {
        self.known.contains(id)
    }
    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cached.get(id).map(|data| data.0.clone())
    }
    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cached.get(id).map(|data| data.1.clone())
    }
    fn caches_data(&self) -> bool {
        !self.no_cache
    }
}

fn fleet(json: &Json) -> (Master, Vec<Minion>, Map) {
    let nodegroups: Map = rows(json, "nodegroups")
        .iter()
        .map(|row| (row[0].as_str().unwrap(), value(&row[1])))
        .collect();
    let mut master = Master::default();
    let mut minions = Vec::new();
    for row in rows(json, "fleet") {
        let minion = Minion {
            id: row[0].as_str().unwrap().to_owned(),
            grains: Arc::new(unpack_map(&row[1])),
            pillar: Arc::new(unpack_map(&row[2])),
            nodegroups: nodegroups.clone(),
        };
        let id = MinionId::parse(&minion.id).unwrap();
        if row[3] == true {
            master.accept(&minion.id);
        }
        if row[4] == true {
            let data = (minion.grains.clone(), minion.pillar.clone());
            master.cached.insert(id, data);
        }
        minions.push(minion);
    }
    (master, minions, nodegroups)
}

/// Intended differences: type, target, the side that differs from stock, reason.
#[rustfmt::skip]
const DIFFERENT: &[(&str, &str, &str, &str)] = &[
    ("ipcidr", "10.0.0.4", "master+minion", SUBSTRING),
    ("compound", "( web1", "master", UNCLOSED),
    ("compound", "( ( web1 )", "master", UNCLOSED),
    ("compound", "not ( web1 or web2", "master", UNCLOSED),
    ("compound", "web1 or ( )", "minion", EMPTY),
    ("compound", "( ) or web1", "minion", EMPTY),
    ("compound", "not N@two", "master+minion", BARE_GROUP),
    ("compound", "db-1 and N@two", "master+minion", BARE_GROUP),
    ("compound", "N@two and web2", "master+minion", BARE_GROUP),
    ("compound", "N@mixed and not N@one", "master+minion", BARE_GROUP),
    ("compound", r#"["N@two","and","web2"]"#, "master+minion", BARE_GROUP),
    ("compound", "web1 N@nope", "master+minion", LOST_GROUP),
    ("compound", "not S@junk", "master+minion", MALFORMED),
    ("compound", "web1 or P@os:[", "master+minion", MALFORMED),
    ("pillar_pcre", "role|we.", "minion", DELIMITER),
    ("pillar_exact", "role|web", "minion", DELIMITER),
];
const SUBSTRING: &str = "when the grain is one text and no list, Salt looks for the address \
    anywhere in it, so 10.0.0.4 finds 10.0.0.40";
const UNCLOSED: &str = "the master closes the parenthesis, the minions do not: everyone it expects \
    stays silent";
const EMPTY: &str = "minions take () for false, the master for an error: they answer unasked";
const BARE_GROUP: &str = "Salt puts the words of a group into the expression without parentheses, so \
    that a `not` or `and` beside it reaches only the nearest word of the group";
const LOST_GROUP: &str = "an unknown group vanishes from the expression and leaves the rest as if \
    it had been asked for";
const MALFORMED: &str =
    "a test that cannot be read fails in Salt, so that its opposite selects everyone";
const DELIMITER: &str = "the master predicts with the delimiter, minion.py forgets to pass it on: \
    everyone it expects stays silent";

fn is_known(kind: &str, tgt: &Json, side: &str) -> bool {
    let tgt = tgt.as_str().map_or_else(|| tgt.to_string(), str::to_owned);
    DIFFERENT
        .iter()
        .any(|(k, t, s, _)| *k == kind && *t == tgt && s.contains(side))
}

#[test]
fn targets() {
    let json = cases();
    let (master, minions, nodegroups) = fleet(&json);
    let mut wrong = Vec::new();
    let mut used = HashSet::new();
    for case in rows(&json, "targets") {
        let kind = case["type"].as_str().unwrap();
        let delimiter = case["delimiter"].as_str();
        let target = Target::parse(&value(&case["tgt"]), kind, delimiter);

        let expected = match &target {
            Ok(target) => target.expected(&master, &nodegroups),
            Err(error) => Expected {
                error: Some(error.clone()),
                ..Expected::default()
            },
        };
        let mut found: Vec<String> = expected.minions.iter().map(ToString::to_string).collect();
        found.sort();
        let mut missing = expected.missing.clone();
        missing.sort();
        let agrees = answers(&case["master"])
            .iter()
            .any(|(_, a)| texts(&a[0]) == found && texts(&a[1]) == missing);
        if !agrees {
            if is_known(kind, &case["tgt"], "master") {
                used.insert((kind, case["tgt"].to_string(), "master"));
            } else {
                wrong.push(format!("master {case}\n   {expected:?}"));
            }
        }

        // The matcher for nodegroups needs an argument that jobs do not pass.
        if kind == "nodegroup" {
            continue;
        }
        let matching: Vec<String> = minions
            .iter()
            .filter(|minion| target.as_ref().is_ok_and(|t| t.matches(*minion)))
            .map(|minion| minion.id.clone())
            .collect();
        let mut matching = matching;
        matching.sort();
        let agrees = answers(&case["minion"])
            .iter()
            .any(|(_, a)| texts(a) == matching);
        if !agrees {
            if is_known(kind, &case["tgt"], "minion") {
                used.insert((kind, case["tgt"].to_string(), "minion"));
            } else {
                wrong.push(format!("minion {case}\n   {matching:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    let sides: usize = DIFFERENT.iter().map(|d| d.2.split('+').count()).sum();
    assert_eq!(used.len(), sides, "a listed difference is none: {used:?}");
}

#[test]
fn fnmatch_as_python() {
    for row in rows(&cases(), "fnmatch") {
        let (pattern, text) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        assert_eq!(
            fnmatch(text, pattern),
            row[2] == true,
            "{pattern:?} {text:?}"
        );
    }
}

#[test]
fn regexes_as_python() {
    let json = cases();
    let mut wrong = Vec::new();
    for row in rows(&json, "regex") {
        let (pattern, text) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let regex = PyRegex::new(pattern);
        let found = match &regex {
            Ok(regex) => regex.matches(text).map_or(Json::Null, Json::from),
            Err(_) => Json::Null,
        };
        if found != row[2] && !is_unsupported(&regex, pattern, text) {
            wrong.push(format!("{row} {found} {:?}", regex.err()));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Python accepts it and we refuse it with an error; also `\\B`, which before Python 3.14 does not match in an empty
/// text.
fn is_unsupported(regex: &Result<PyRegex, String>, pattern: &str, text: &str) -> bool {
    match regex {
        Ok(_) => pattern.contains("\\B") && text.is_empty(),
        // A repeated look-around, or a possessive repeat of nothing.
        Err(reason) if reason.contains("Target of repeat operator is invalid") => true,
        // A condition on a group that comes later or is not closed yet.
        Err(reason) => pattern.contains("(?(") && reason.contains(" group"),
    }
}

#[test]
fn subdict_match_as_salt() {
    let json = cases();
    let data: Vec<Map> = rows(&json, "data").iter().map(unpack_map).collect();
    let mut wrong = Vec::new();
    for row in rows(&json, "subdict") {
        let data = &data[row[0].as_u64().unwrap() as usize];
        let (expr, delimiter) = (row[1].as_str().unwrap(), row[2].as_str().unwrap());
        let (regex, exact) = (row[3] == true, row[4] == true);
        let found = subdict_match(data, expr, delimiter, regex, exact);
        if found != (row[5] == true) {
            wrong.push(format!("{row}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nodegroups_as_salt() {
    let json = cases();
    let (_, _, nodegroups) = fleet(&json);
    for row in rows(&json, "nodegroups") {
        let name = row[0].as_str().unwrap();
        let found = expand_nodegroup(name, &nodegroups);
        if ["cycle", "cycle2", "self", "unknown", "bad"].contains(&name) {
            // Salt logs these and continues with the rest of the expression.
            assert!(found.is_err(), "{name}: {found:?}");
            continue;
        }
        assert_eq!(found.unwrap(), texts(&row[2]).join(" "), "{name}");
    }
}

#[test]
fn classes_of_collective_nodes_as_groups() {
    let mut master = Master::default();
    for (id, gateway, classes) in [
        ("node1", "collective", &["common::linux", "web"][..]),
        ("node2", "collective", &["common::linux"]),
        // A minion, not a node, whose grains may claim anything.
        ("web1", "none", &["web"]),
    ] {
        let classes: Vec<Value> = classes.iter().map(|class| Value::from(*class)).collect();
        let grains = map! { "gateway" => gateway, "classes" => classes };
        let id = master.accept(id);
        master.cached.insert(id, (Arc::new(grains), Arc::default()));
    }
    let dir = tempfile::tempdir().unwrap();
    let config = |gateways: &str| {
        let text = format!("id: master\ngateways: {gateways}\nnodegroups: {{defined: web1}}\n");
        std::fs::write(dir.path().join("master"), text).unwrap();
        halite_config::load_master(dir.path()).unwrap()
    };
    let psk = "{collective: {security: psk, psk_file: /x}}";
    let ask = |config: &halite_config::MasterConfig, tgt: &str, kind: &str| {
        let target = Target::parse(&tgt.into(), kind, None).unwrap();
        let found = target.expected(&master, config);
        let ids: Vec<&str> = found.minions.iter().map(MinionId::as_str).collect();
        (ids.join(" "), found.error.is_some())
    };
    let with = config(psk);
    for (tgt, kind, expected) in [
        ("web", "nodegroup", "node1"),
        ("common::linux", "nodegroup", "node1 node2"),
        ("defined", "nodegroup", "web1"),
        ("absent", "nodegroup", ""),
        ("N@common::linux and not N@web", "compound", "node2"),
        ("N@web or web1", "compound", "node1 web1"),
    ] {
        assert_eq!(ask(&with, tgt, kind), (expected.to_owned(), false), "{tgt}");
    }
    let off = "{collective: {security: psk, psk_file: /x, outward: false}}";
    for gateways in ["{}", off] {
        let without = config(gateways);
        assert_eq!(ask(&without, "web", "nodegroup"), (String::new(), true));
    }
}

#[test]
fn small_things_as_salt() {
    let json = cases();
    for row in rows(&json, "str") {
        let value = unpack(&row[0]);
        assert_eq!(pytext::str(&value), row[1].as_str().unwrap());
        assert_eq!(pytext::lower(&value), row[2].as_str().unwrap());
    }
    for row in rows(&json, "words") {
        let word = row[0].as_str().unwrap();
        let found = operand(word);
        let agrees = answers(&row[1]).iter().any(|(_, a)| {
            let text = |n: usize| a[n].as_str().map(str::to_owned);
            text(0) == found.engine.map(String::from)
                && text(1) == found.delimiter.map(String::from)
                && text(2).as_deref() == Some(found.pattern)
        });
        assert!(agrees, "{word:?} {found:?} {row}");
    }
    for row in rows(&json, "jids") {
        let jid = Jid::parse(row[0].as_str().unwrap()).ok();
        assert_eq!(Json::from(jid.map(|jid| jid.time_text())), row[1], "{row}");
    }
    for row in rows(&json, "ids") {
        let id = MinionId::parse(row[0].as_str().unwrap());
        if row[0].as_str().unwrap().contains('\n') {
            assert!(
                id.is_err(),
                "on purpose: it would forge lines of logs and listings"
            );
            continue;
        }
        assert_eq!(Json::from(id.is_ok()), row[1], "{row}");
    }
}

fn crowd(count: usize) -> Master {
    let mut master = Master::default();
    for n in 0..count {
        let id = master.accept(&format!("web{n}.example.com"));
        let os = if n % 2 == 0 { "Debian" } else { "RedHat" };
        let grains = map! { "id" => &id, "os" => os, "ipv4" => vec![Value::from("10.0.0.1")] };
        master.cached.insert(id, (Arc::new(grains), Arc::default()));
    }
    master
}

fn parse(tgt: impl Into<Value>, kind: &str) -> Target {
    Target::parse(&tgt.into(), kind, None).unwrap()
}

/// Work that grows with the square of the fleet would never finish.
#[test]
fn large_fleets_and_long_lists() {
    let master = crowd(20_000);
    let none = Map::new();
    let names: Vec<String> = master.ids.iter().map(ToString::to_string).collect();

    let listed = parse(names.clone(), "list").expected(&master, &none);
    assert_eq!(listed.minions, master.ids);
    let text = names.join(",");
    let compound = parse(format!("L@{text},nope and G@os:Debian"), "compound");
    let found = compound.expected(&master, &none);
    assert_eq!(found.minions.len(), 10_000);
    assert_eq!(found.missing, ["nope"]);

    let many = names.join(" or ");
    let found = parse(many.as_str(), "compound").expected(&master, &none);
    assert_eq!(found.minions.len(), 20_000);
    let groups = map! { "g" => many };
    let found = parse("g", "nodegroup").expected(&master, &groups);
    assert_eq!(found.minions.len(), 20_000);
}

#[test]
fn order_and_doubles() {
    let master = crowd(3);
    let list = parse(
        "web2.example.com,nope,web0.example.com,web2.example.com,nope",
        "list",
    );
    let found = list.expected(&master, &Map::new());
    assert_eq!(found.minions, ["web2.example.com", "web0.example.com"]);
    assert_eq!(found.missing, ["nope"]);
    let all = parse("*", "glob").expected(&master, &Map::new());
    assert_eq!(all.minions, master.ids);
}

/// As with `minion_data_cache: False` in 3006.
#[test]
fn without_cached_data_everyone_is_expected() {
    let mut master = crowd(3);
    master.no_cache = true;
    for (tgt, kind, count) in [
        ("os:none", "grain", 3),
        ("web1*", "compound", 3),
        ("web1*", "glob", 1),
        ("1.2.3.4", "ipcidr", 3),
        ("web1 and", "compound", 0),
    ] {
        let found = parse(tgt, kind).expected(&master, &Map::new());
        assert_eq!(found.minions.len(), count, "{tgt}");
    }
}

#[test]
fn form_and_size() {
    let fails = |tgt: Value, kind, delimiter| Target::parse(&tgt, kind, delimiter).unwrap_err();
    assert!(matches!(
        fails("x".into(), "sql", None),
        TargetError::UnknownType(_)
    ));
    assert!(matches!(
        fails(5.into(), "glob", None),
        TargetError::NotText { .. }
    ));
    assert!(matches!(
        fails(vec![Value::from(5)].into(), "list", None),
        TargetError::NotText { .. }
    ));
    assert!(matches!(
        fails(Vec::<Value>::new().into(), "glob", None),
        TargetError::NotText { .. }
    ));
    assert!(matches!(
        fails("x".into(), "grain", Some("")),
        TargetError::Delimiter(_)
    ));
    let long = "x".repeat(MAX_PATTERN + 1);
    assert!(matches!(
        fails(long.as_str().into(), "glob", None),
        TargetError::TooLong { .. }
    ));
    assert_eq!(
        parse(Value::Nil, "").expr(),
        &TargetExpr::Text(String::new())
    );
    for kind in TargetType::ALL {
        assert_eq!(kind.to_string().parse::<TargetType>().unwrap(), *kind);
    }
    let found = parse(long, "compound").expected(&crowd(1), &Map::new());
    assert!(
        found
            .error
            .unwrap()
            .to_string()
            .contains("longer than 65536 bytes")
    );
    let many = vec!["E@x"; MAX_REGEXES + 1].join(" or ");
    let found = parse(many, "compound").expected(&crowd(1), &Map::new());
    assert!(matches!(found.error, Some(TargetError::TooMany { .. })));
    let ids = [MinionId::parse("a").unwrap()];
    assert_eq!(
        Value::from(Target::list(&ids).expr()),
        Value::from(vec![Value::from("a")])
    );
}

proptest! {
    #[test]
    fn nothing_panics(tgt in ".*", kind in 0..TargetType::ALL.len(), delimiter in ".{0,2}") {
        any_target(&tgt, TargetType::ALL[kind], &delimiter);
    }

    #[test]
    fn likely_compounds(
        tgt in "(and |or |not |\\( |\\) |web\\* |[GPIJLNSERTM]\\|?@[a-z0-9:.*|/]{0,6} ){0,9}"
    ) {
        any_target(&tgt, TargetType::Compound, ":");
    }
}

fn any_target(tgt: &str, kind: TargetType, delimiter: &str) {
    let master = crowd(2);
    let groups = map! { "a" => "web* or N@b", "b" => "N@a", "c" => tgt };
    let minion = Minion {
        id: "web1".to_owned(),
        grains: Arc::new(map! { "os" => "Debian" }),
        pillar: Arc::default(),
        nodegroups: groups.clone(),
    };
    for tgt in [Value::from(tgt), Value::from(vec![Value::from(tgt)])] {
        if let Ok(target) = Target::parse(&tgt, kind.name(), Some(delimiter)) {
            let _ = target.try_matches(&minion);
            let _ = target.expected(&master, &groups);
        }
    }
}

/// A regular expression that takes too many steps is an error on both sides, never "no match": a `not` around it must
/// not select anybody.
#[test]
fn what_cannot_be_told_selects_nobody() {
    let slow = "a((?=)|(?=)){18}z";
    let long = "a".repeat(200);
    let data = Arc::new(
        map! {"x" => long.as_str(), "list" => vec![Value::from("b"), long.as_str().into()]},
    );
    let mut master = Master::default();
    for id in [long.as_str(), "web1"] {
        let id = master.accept(id);
        master.cached.insert(id, (data.clone(), data.clone()));
    }
    let minion = Minion {
        id: long.clone(),
        grains: data.clone(),
        pillar: data.clone(),
        nodegroups: Map::new(),
    };
    for (kind, text) in [
        ("pcre", slow.to_owned()),
        ("grain_pcre", format!("x:{slow}")),
        ("pillar_pcre", format!("list:{slow}")),
        ("compound", format!("E@{slow}")),
        ("compound", format!("not E@{slow}")),
        ("compound", format!("not ( web1 or P@x:{slow} )")),
        ("compound", format!("a* and not J@list:{slow}")),
        ("compound", format!("E@{slow} or a*")),
    ] {
        let target = Target::parse(&text.as_str().into(), kind, None).unwrap();
        assert_eq!(
            target.try_matches(&minion),
            Err(TargetError::RegexLimit),
            "{text}"
        );
        assert!(!target.matches(&minion), "{text}");
        let expected = target.expected(&master, &Map::new());
        assert_eq!(expected.error, Some(TargetError::RegexLimit), "{text}");
        assert!(expected.minions.is_empty(), "{text}");
    }
    // A value that does match decides, whatever others would have done.
    let sure = Target::parse(&format!("list:b|{slow}").into(), "grain_pcre", None).unwrap();
    assert_eq!(sure.try_matches(&minion), Ok(true));
}

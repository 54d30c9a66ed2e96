use super::*;
use crate::ruby::Datum;
use crate::wire::{FactFilter, Serializer};
use halite_wire::map;
use proptest::prelude::*;

struct TestNode {
    facts: Map,
    classes: Vec<String>,
    agents: Vec<String>,
    collectives: Vec<String>,
}

impl TestNode {
    fn passes(&self, matcher: &Matcher) -> Verdict {
        matcher.passes(&Node {
            identity: "node1.example",
            facts: &self.facts,
            classes: &self.classes,
            agents: &self.agents,
            collectives: &self.collectives,
            agent: &|name| {
                let known = self.agents.iter().any(|own| own == name);
                known.then(|| map! { "version" => "2.0", "timeout" => 10, "author" => "us" })
            },
        })
    }
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|text| (*text).to_owned()).collect()
}

fn node() -> TestNode {
    let os = map! { "family" => "Debian", "release" => map! { "major" => 12 } };
    TestNode {
        facts: map! {
            "country" => "uk", "memory" => 2048, "puppet" => "2.12.5", "load" => 1.5, "virtual" => true,
            "none" => Value::Nil, "roles" => vec![Value::from("web"), Value::from("db")], "os" => os,
            "zero" => "08", "octal" => "010", "minus" => -5, "a.b" => "dotted", "lines" => "x\nuk\ny",
            "odd" => vec![Value::from(map! { "k" => 1 })],
        },
        classes: texts(&["common::linux", "Webserver"]),
        agents: texts(&["discovery", "rpcutil", "package"]),
        collectives: texts(&["mcollective", "uk_collective"]),
    }
}

fn passes(filter: &Filter, semantics: Semantics) -> bool {
    let matcher = Matcher::new(filter, semantics).unwrap();
    node().passes(&matcher).unwrap_or(false)
}

fn fact(fact: &str, operator: Option<&str>, value: &str) -> Filter {
    let operator = operator.map(str::to_owned);
    let (fact, value) = (fact.to_owned(), value.to_owned());
    Filter {
        facts: vec![FactFilter {
            fact,
            operator,
            value,
            symbols: true,
        }],
        ..Filter::default()
    }
}

#[test]
fn facts_of_ruby_and_of_go() {
    for (name, operator, value, ruby, go) in [
        ("country", "==", "uk", true, true),
        ("country", "==", "UK", false, true),
        ("country", "!=", "uk", false, false),
        ("country", "!=", "us", true, true),
        ("country", "=~", "^u", true, true),
        ("country", "=~", "/^u/", true, true),
        ("country", "=~", "/U/", false, true),
        ("country", "=~", "(", false, false),
        ("country", "=", "uk", false, false),
        ("absent", "!=", "x", false, false),
        ("memory", ">=", "1024", true, true),
        ("memory", ">=", "1024.5", true, true),
        ("memory", "<", "999", false, false),
        ("memory", "==", "2048", true, true),
        ("memory", "==", "2048.0", false, true),
        ("memory", "=>", "1024", true, false),
        ("memory", "=<", "1024", false, false),
        ("puppet", ">=", "2.9.0", false, false),
        ("puppet", ">", "2.12.4", true, true),
        ("load", ">", "1.25", true, true),
        ("load", "==", "1.5", true, true),
        ("load", "<", "2", true, true),
        ("minus", "<", "3", true, true),
        ("minus", "<", "10", true, true),
        ("minus", ">", "-10", true, true),
        ("virtual", "==", "true", true, true),
        ("virtual", "==", "1", false, true),
        ("virtual", "!=", "false", true, true),
        ("virtual", "<", "z", true, false),
        ("none", "==", "", true, false),
        ("roles", "==", "db", true, false),
        ("roles", "!=", "db", true, false),
        ("roles", "=~", "/^w/", true, false),
        ("roles.1", "==", "db", false, true),
        ("os", "==", "family", true, false),
        ("os", "==", "Debian", false, false),
        ("os.family", "==", "debian", false, true),
        ("os.release.major", ">=", "11", false, true),
        ("a.b", "==", "dotted", true, false),
        ("a\\.b", "==", "dotted", false, true),
        ("octal", "<=", "8", true, true),
        ("octal", ">", "9", false, false),
        ("zero", "<=", "9", false, true),
        ("zero", "==", "08", true, true),
        ("lines", "=~", "^uk$", true, false),
        ("odd", "!=", "x", true, false),
        ("odd", "=~", "x", false, false),
        ("odd", "==", "x", false, false),
    ] {
        let filter = fact(name, Some(operator), value);
        let what = format!("{name} {operator} {value}");
        assert_eq!(passes(&filter, Semantics::Choria), ruby, "Ruby: {what}");
        assert_eq!(passes(&filter, Semantics::Go), go, "Go: {what}");
    }
}

#[test]
fn entries_of_old_clients() {
    assert!(passes(&fact("country", None, "uk"), Semantics::Mcollective));
    assert!(passes(
        &fact("country", None, "/^u/"),
        Semantics::Mcollective
    ));
    assert!(!passes(
        &fact("country", None, "^u"),
        Semantics::Mcollective
    ));
    assert!(!passes(&fact("country", None, "uk"), Semantics::Go));
    let mut strings = fact("country", Some("=="), "uk");
    strings.facts[0].symbols = false;
    assert!(!passes(&strings, Semantics::of(Form::CHORIA_YAML)));
    assert!(!passes(
        &strings,
        Semantics::of(Form::Ssl(Serializer::Yaml))
    ));
    assert!(passes(&strings, Semantics::of(Form::CHORIA)));
}

#[test]
fn names() {
    type Set = fn(&mut Filter, Vec<String>);
    let class: Set = |filter, names| filter.classes = names;
    let agent: Set = |filter, names| filter.agents = names;
    let identity: Set = |filter, names| filter.identities = names;
    for (set, names, ruby, go) in [
        (class, &["common::linux"][..], true, true),
        (class, &["Webserver"], true, false),
        (class, &["webserver"], false, false),
        (class, &["/^common/"], true, true),
        (class, &["/^COMMON/"], false, true),
        (class, &["/common"], true, false),
        (class, &["/com/mon/"], true, false),
        (class, &["common::linux", "absent"], false, false),
        (class, &["/(/"], false, false),
        (agent, &["package"], true, true),
        (agent, &["package", "absent"], false, false),
        (agent, &["/^rpc/"], true, true),
        (agent, &["mcollective"], true, false),
        (identity, &["node1.example"], true, true),
        (identity, &["node1.example", "node2.example"], true, true),
        (identity, &["node1.example", "/node1/"], false, true),
        (identity, &["/node[12]/"], true, true),
        (identity, &["node1"], false, false),
        (identity, &["node1.example", "/(/"], false, true),
    ] {
        let mut filter = Filter::default();
        set(&mut filter, texts(names));
        assert_eq!(passes(&filter, Semantics::Choria), ruby, "Ruby: {names:?}");
        assert_eq!(passes(&filter, Semantics::Go), go, "Go: {names:?}");
    }
}

#[test]
fn empty_and_unknown() {
    let mut filter = Filter::default();
    assert!(passes(&filter, Semantics::Choria));
    assert!(passes(&filter, Semantics::Go));
    filter.unknown = texts(&["collective"]);
    assert!(!passes(&filter, Semantics::Choria));
    filter.agents = texts(&["discovery"]);
    assert!(passes(&filter, Semantics::Choria));
}

fn token(word: &str) -> Datum {
    let kind = match word {
        "and" | "or" | "not" | "(" | ")" => word,
        _ => "statement",
    };
    Datum::Hash(vec![(kind.into(), word.into())])
}

fn compound(words: &str) -> bool {
    let tokens = words.split_whitespace().map(token).collect();
    let filter = Filter {
        compound: vec![Datum::Array(tokens)],
        ..Filter::default()
    };
    passes(&filter, Semantics::Choria)
}

#[test]
fn compounds() {
    for (words, expected) in [
        ("country=uk", true),
        ("country=us", false),
        ("country=/^u/", true),
        ("country=~/^u/", false),
        ("country!=us", false),
        ("memory>=1024", true),
        ("memory=>1024", false),
        ("country==uk", false),
        ("/^common/", true),
        ("Webserver", true),
        ("absent", false),
        ("not absent", true),
        ("not not Webserver", true),
        ("Webserver or absent and absent", true),
        ("( Webserver or absent ) and absent", false),
        ("not absent and absent", false),
        ("not ( absent and absent )", true),
        ("( )", false),
        ("not ( )", true),
        ("Webserver Webserver", false),
        ("Webserver and", false),
        ("( Webserver", false),
        ("Webserver )", false),
        ("and Webserver", false),
        ("", false),
        // An invalid statement fails the whole compound, wherever it is.
        ("Webserver or country=", false),
        ("Webserver or country=/(/", false),
        ("not /(/", false),
        // A pattern for a missing fact is never evaluated.
        ("not nowhere=/(/", true),
    ] {
        assert_eq!(compound(words), expected, "{words:?}");
    }
    let deep = "( ".repeat(4000) + "Webserver" + &" )".repeat(4000);
    assert!(!compound(&deep));
    let nots = "not ".repeat(8000) + "Webserver";
    assert!(compound(&nots));
}

#[test]
fn compounds_of_go() {
    let expr = Datum::Hash(vec![("expr".into(), "true".into())]);
    for list in [expr.clone(), Datum::Array(vec![expr])] {
        let filter = Filter {
            compound: vec![list],
            ..Filter::default()
        };
        for semantics in [Semantics::Choria, Semantics::Go] {
            let verdict = node().passes(&Matcher::new(&filter, semantics).unwrap());
            assert!(verdict.unwrap_err().to_string().contains("expr"));
        }
    }
}

fn query(name: &str, params: &str, value: Option<&str>, operator: &str, right: Datum) -> bool {
    let optional = |text: Option<&str>| text.map_or(Datum::Nil, Datum::from);
    let call = Datum::Hash(vec![
        ("name".into(), name.into()),
        ("params".into(), params.into()),
        ("value".into(), optional(value)),
        ("operator".into(), operator.into()),
        ("r_compare".into(), right),
    ]);
    let token = Datum::Hash(vec![("fstatement".into(), call)]);
    let filter = Filter {
        compound: vec![Datum::Array(vec![token])],
        ..Filter::default()
    };
    passes(&filter, Semantics::Choria)
}

#[test]
fn data_plugins() {
    for (name, params, value, operator, right, expected) in [
        ("fact", "country", "value", "==", "uk", true),
        ("Fact_Data", "country", "value", "=", "uk", true),
        ("fact", "os.release.major", "value", "==", "12", true),
        (
            "fact",
            "os.release",
            "value",
            "==",
            r#"{"major":"12"}"#,
            true,
        ),
        ("fact", "os.release", "value_encoding", "=~", "json", true),
        ("fact", "roles.1", "value", "==", "db", true),
        ("fact", "roles.-1", "value", "==", "db", true),
        ("fact", "roles.x", "exists", "==", "false", false),
        ("fact", "roles.9", "exists", "==", "false", true),
        ("fact", "absent", "exists", "==", " false ", true),
        ("fact", "absent", "exists", "!=", "false", false),
        ("fact", "absent", "exists", "==", "maybe", false),
        ("fact", "country", "value", "!=~", "x", true),
        ("fact", "country", "value", "=~", "^u", true),
        ("fact", "country", "value", ">", "a", false),
        ("fact", "absent", "value", "=~", "f", false),
        ("fact", "country`", "value", "!=", "x", false),
        ("fact", "country", "nothing", "!=", "x", false),
        ("agent", "package", "version", "==", "2.0", true),
        ("agent", "package", "timeout", ">=", "10", true),
        ("agent", "package", "timeout", "<", "10.5", true),
        ("agent", "package", "timeout", "<", "ten", false),
        ("agent", "package", "timeout", "=~", "1", false),
        ("agent", "absent", "version", "!=", "2.0", false),
        ("collective", "uk_collective", "member", "==", "true", true),
        ("collective", "uk_collective", "member", ">", "true", false),
        ("collective", "other", "member", "==", "false", true),
        ("fstat", "/etc/passwd", "present", "!=", "1", false),
    ] {
        let found = query(name, params, Some(value), operator, right.into());
        let what = format!("{name}({params}).{value} {operator} {right}");
        assert_eq!(found, expected, "{what}");
    }
    let regexp = Datum::Regexp {
        source: "^U".to_owned(),
        options: 1,
    };
    assert!(query("fact", "country", Some("value"), "=~", regexp));
    assert!(query(
        "agent",
        "package",
        Some("timeout"),
        "==",
        Datum::Int(10)
    ));
    assert!(query("fact", "country", None, "!=", "x".into()));
    assert!(!query("fact", "country", None, "==", "x".into()));
}

#[test]
fn limits() {
    let filter = Filter {
        classes: vec!["x".to_owned(); MAX_ENTRIES + 1],
        ..Filter::default()
    };
    assert!(Matcher::new(&filter, Semantics::Choria).is_err());
    let filter = Filter {
        compound: vec![Datum::Array(vec![token("x"); MAX_TOKENS + 1])],
        ..Filter::default()
    };
    assert!(Matcher::new(&filter, Semantics::Choria).is_err());
    // Gives up instead of trying for hours.
    let slow = fact("long", Some("=~"), r"^(a|aa)+\1$");
    let matcher = Matcher::new(&slow, Semantics::Choria).unwrap();
    let mut own = node();
    own.facts.set("long", "a".repeat(60) + "b");
    assert!(own.passes(&matcher).is_err());
}

proptest! {
    #[test]
    fn any_fact(name in ".*", operator in "[<>=!~]{0,3}", value in ".*") {
        let filter = fact(&name, Some(&operator), &value);
        passes(&filter, Semantics::Choria);
        passes(&filter, Semantics::Go);
    }

    #[test]
    fn any_compound(words in "((and|or|not|[(]|[)]|Webserver|country=uk|a=|/x) ){0,20}") {
        compound(&words);
    }

    #[test]
    fn any_query(params in ".*", value in "[a-z_]*", operator in "[<>=!~ ]{0,4}", right in ".*") {
        query("fact", &params, Some(&value), &operator, right.as_str().into());
    }
}

//! Execution functions take the arguments that those of stock Salt take.

use halite::modules::execution::declare::{Arg, Function, Lit};
use halite::modules::execution::{Context, functions, functions_for};
use halite::wire::Value;
use std::collections::{BTreeMap, BTreeSet};
use testing::modules::{Stock, families, reasons, scenarios, stock};

#[test]
fn names_and_defaults_are_those_of_stock() {
    let stock = stock();
    let others = reasons("arguments.yaml");
    let mut wrong = Vec::new();
    for (name, function) in functions() {
        let Some(stock) = stock.get(&name) else {
            continue;
        };
        let (own, theirs) = (own(function), theirs(stock));
        match (own == theirs, others.contains_key(&name)) {
            (false, false) => wrong.push(format!("{name}\n  stock  {theirs}\n  halite {own}")),
            (true, true) => wrong.push(format!(
                "{name}: stands in arguments.yaml, but is as stock's"
            )),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `pkg` has other arguments on hosts of other families.
#[test]
fn packages_of_families_are_those_of_stock() {
    let mut wrong = Vec::new();
    for (family, stock) in families() {
        let grains = halite::map! {"os_family" => family.as_str()};
        let ctx = Context {
            grains: grains.into(),
            ..Context::default()
        };
        let mut own: BTreeMap<_, _> = functions_for(&ctx).into_iter().collect();
        own.retain(|name, _| name.starts_with("pkg."));
        for name in stock.keys().chain(own.keys()).collect::<BTreeSet<_>>() {
            let theirs = stock.get(name).map(theirs).unwrap_or_default();
            let own = own.get(name).map(|f| self::own(f)).unwrap_or_default();
            if own != theirs {
                wrong.push(format!(
                    "{family}, {name}\n  stock  {theirs}\n  halite {own}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn reasons_are_about_functions_that_exist() {
    let stock = stock();
    let own: Vec<String> = functions().into_iter().map(|(name, _)| name).collect();
    for name in reasons("arguments.yaml").keys() {
        assert!(own.contains(name), "arguments.yaml: {name} is not there");
    }
    for name in reasons("absent.yaml").keys() {
        let all = name.strip_suffix('*');
        let is_meant = |fun: &String| all.map_or(fun == name, |head| fun.starts_with(head));
        assert!(
            stock.keys().any(is_meant),
            "absent.yaml: stock has no {name}"
        );
        assert!(!own.iter().any(is_meant), "absent.yaml: {name} is there");
    }
}

#[test]
fn calls_can_be_read() {
    assert!(!scenarios().is_empty());
}

fn own(function: &Function) -> String {
    let args = function.args.iter().map(|arg| match arg.default {
        None => arg.name.to_owned(),
        Some(_) => format!("{}={}", arg.name, default(arg)),
    });
    text(args.collect(), function.varargs, function.keywords)
}

fn default(arg: &Arg) -> String {
    match arg.default {
        // What the shell of the minion is depends on who asks.
        Some(Lit::Shell) => "'/bin/sh'".to_owned(),
        // Python objects that mean "not given".
        Some(Lit::Str(text)) if text.starts_with('<') => text.to_owned(),
        Some(Lit::Empty) => "()".to_owned(),
        Some(lit) => halite::wire::pytext::repr(&lit.value()),
        None => String::new(),
    }
}

fn theirs(stock: &Stock) -> String {
    let args = stock.args.iter().map(|(name, default)| match default {
        None => name.clone(),
        Some(value) => format!("{name}={}", python(value)),
    });
    text(args.collect(), stock.varargs, stock.keywords)
}

fn python(value: &serde_json::Value) -> String {
    let value = match value {
        serde_json::Value::Object(map) => return map["repr"].as_str().unwrap().to_owned(),
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => (*b).into(),
        serde_json::Value::Number(n) if n.is_i64() => n.as_i64().unwrap().into(),
        serde_json::Value::Number(n) => n.as_f64().unwrap().into(),
        other => other.as_str().unwrap().into(),
    };
    halite::wire::pytext::repr(&value)
}

fn text(mut args: Vec<String>, varargs: bool, keywords: bool) -> String {
    args.extend(varargs.then(|| "*args".to_owned()));
    args.extend(keywords.then(|| "**kwargs".to_owned()));
    format!("({})", args.join(", "))
}

//! The encoding of filters (reference, section 9).

use super::{Collective, FactFilter, Filter, Refused};
use crate::ruby::{Datum, float_text};

/// The five kinds, in the order written by Ruby's clients.
const KINDS: [&str; 5] = ["fact", "cf_class", "agent", "identity", "compound"];

fn malformed(what: String) -> Refused {
    Refused::Malformed(format!("its filter: {what}"))
}

impl Filter {
    /// Reads the hash of a filter from any encoding. Kinds that are missing or `nil` are empty; other keys are remembered by
    /// name. Keys that contain `puppet_class` or `cf_class` are for classes, too.
    ///
    /// # Errors
    /// It is not a hash, a kind is not a list, or an entry has a type that makes Ruby's servers drop the request.
    pub fn read(datum: &Datum) -> Result<Filter, Refused> {
        let Datum::Hash(pairs) = datum else {
            return Err(malformed("it is not a hash".to_owned()));
        };
        let mut filter = Filter::default();
        for (key, value) in pairs {
            let Some(key) = key.as_str() else {
                return Err(malformed("a key is not text".to_owned()));
            };
            match key {
                "fact" => filter.facts = entries(key, value, FactFilter::read)?,
                "cf_class" => filter.classes.extend(entries(key, value, text)?),
                "agent" => filter.agents = entries(key, value, text)?,
                "identity" => filter.identities = entries(key, value, text)?,
                other if other.contains("puppet_class") || other.contains("cf_class") => {
                    filter.classes.extend(entries(key, value, text)?);
                    filter.remember(other);
                }
                "compound" => filter.compound = entries(key, value, |entry| Some(entry.clone()))?,
                other => filter.remember(other),
            }
        }
        Ok(filter)
    }

    /// A name may be there as text and as a symbol; it is written as text.
    fn remember(&mut self, unknown: &str) {
        if !self.unknown.iter().any(|known| known == unknown) {
            self.unknown.push(unknown.to_owned());
        }
    }

    /// The hash of a filter. Ruby's servers before JSON see facts only if their keys are `symbols`.
    ///
    /// Of unknown keys only their presence matters: `collective`, which discovery adds, gets that of the request, others an
    /// empty list.
    pub fn write(&self, symbols: bool, collective: &Collective) -> Datum {
        let texts = |items: &[String]| {
            let items = items.iter().map(|item| Datum::Str(item.clone()));
            Datum::Array(items.collect())
        };
        let facts = self.facts.iter().map(|fact| fact.write(symbols));
        let mut pairs: Vec<(Datum, Datum)> = KINDS
            .iter()
            .map(|kind| Datum::from(*kind))
            .zip([
                Datum::Array(facts.collect()),
                texts(&self.classes),
                texts(&self.agents),
                texts(&self.identities),
                Datum::Array(self.compound.clone()),
            ])
            .collect();
        for key in &self.unknown {
            let value = match key.as_str() {
                "collective" => collective.as_str().into(),
                _ => Datum::Array(Vec::new()),
            };
            pairs.push((Datum::Str(key.clone()), value));
        }
        Datum::Hash(pairs)
    }
}

/// The entries of one kind. Go writes an empty list as `null` in places.
fn entries<T>(
    kind: &str,
    list: &Datum,
    read: impl Fn(&Datum) -> Option<T>,
) -> Result<Vec<T>, Refused> {
    let items = match list {
        Datum::Nil => &[],
        Datum::Array(items) => items.as_slice(),
        _ => return Err(malformed(format!("{kind} is not a list"))),
    };
    let bad = || malformed(format!("an entry of {kind} is of a wrong type"));
    items
        .iter()
        .map(|item| read(item).ok_or_else(bad))
        .collect()
}

/// A name, or a regular expression in slashes; Ruby's clients sometimes send the latter as a `Regexp`.
fn text(entry: &Datum) -> Option<String> {
    match entry {
        Datum::Regexp { source, options: 0 } => Some(format!("/{source}/")),
        Datum::Regexp { .. } => Some(format!("/{}/", entry.regexp_text()?)),
        other => other.as_str().map(str::to_owned),
    }
}

impl FactFilter {
    /// Reads an entry. Without a name it is for the fact of the empty name, which no node has; numbers and booleans are
    /// compared as text.
    fn read(entry: &Datum) -> Option<FactFilter> {
        let Datum::Hash(pairs) = entry else {
            return None;
        };
        let scalar = |datum: &Datum| match datum {
            Datum::Nil => Some(String::new()),
            Datum::Bool(flag) => Some(flag.to_string()),
            Datum::Int(number) => Some(number.to_string()),
            Datum::Float(number) => Some(float_text(*number)),
            other => text(other),
        };
        let operator = match entry.get("operator") {
            None | Some(Datum::Nil) => None,
            Some(operator) => Some(operator.as_str()?.to_owned()),
        };
        let symbol = |(key, _): &(Datum, Datum)| matches!(key, Datum::Symbol(k) if k == "fact");
        Some(FactFilter {
            fact: entry.get("fact").map_or(Some(String::new()), scalar)?,
            operator,
            value: entry.get("value").map_or(Some(String::new()), scalar)?,
            symbols: pairs.iter().any(symbol),
        })
    }

    fn write(&self, symbols: bool) -> Datum {
        let key = |name: &str| {
            if symbols {
                Datum::symbol(name)
            } else {
                Datum::from(name)
            }
        };
        let mut pairs = vec![
            (key("fact"), Datum::Str(self.fact.clone())),
            (key("value"), Datum::Str(self.value.clone())),
        ];
        if let Some(operator) = &self.operator {
            pairs.push((key("operator"), Datum::Str(operator.clone())));
        }
        Datum::Hash(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruby::{json, marshal, psych};

    fn read(text: &str) -> Result<Filter, Refused> {
        Filter::read(&psych::read(text.as_bytes()).unwrap())
    }

    fn everything() -> Filter {
        let fact = |fact: &str, operator: Option<&str>, value: &str| FactFilter {
            fact: fact.into(),
            operator: operator.map(str::to_owned),
            value: value.into(),
            symbols: true,
        };
        Filter {
            facts: vec![fact("country", Some("=~"), "/u/"), fact("os", None, "x")],
            classes: vec!["role::web".into(), "/common/".into()],
            agents: vec!["rpcutil".into()],
            identities: vec!["/node/".into()],
            compound: vec![Datum::Array(vec![Datum::Hash(vec![(
                "statement".into(),
                "country=uk".into(),
            )])])],
            unknown: vec!["collective".into(), "other".into()],
        }
    }

    #[test]
    fn every_encoding_says_the_same() {
        let collective = "mcollective".parse().unwrap();
        let mut filter = everything();
        let symbols = filter.write(true, &collective);
        assert_eq!(symbols.get("collective"), Some(&"mcollective".into()));
        let again = marshal::read(&marshal::write(&symbols)).unwrap();
        assert_eq!(Filter::read(&again), Ok(filter.clone()));
        let again = psych::read(psych::write(&symbols).as_bytes()).unwrap();
        assert_eq!(Filter::read(&again), Ok(filter.clone()));
        let strings = filter.write(false, &collective);
        let again = json::read(json::write(&strings).as_bytes()).unwrap();
        filter.facts.iter_mut().for_each(|f| f.symbols = false);
        assert_eq!(Filter::read(&again), Ok(filter));
    }

    #[test]
    fn entries_are_read_as_servers_read_them() {
        assert_eq!(read("{}"), Ok(Filter::default()));
        assert_eq!(read("fact:\nagent: []\n"), Ok(Filter::default()));
        let filter = read(
            "fact:\n- {fact: n, value: 5, operator: :==}\n- :value: true\n- :fact: x\n\
             identity:\n- !ruby/regexp /^n/\n- !ruby/regexp /^n/i\n- :sym\n",
        )
        .unwrap();
        let [number, nameless, valueless] = filter.facts.as_slice() else {
            panic!("{filter:?}");
        };
        assert_eq!((number.value.as_str(), number.symbols), ("5", false));
        assert_eq!(number.operator.as_deref(), Some("=="));
        assert_eq!(
            (nameless.fact.as_str(), nameless.value.as_str()),
            ("", "true")
        );
        assert_eq!((valueless.value.as_str(), valueless.symbols), ("", true));
        assert_eq!(filter.identities, ["/^n/", "/(?i-mx:^n)/", "sym"]);
    }

    #[test]
    fn what_servers_stumble_over_is_refused() {
        for bad in [
            "- a",
            "ping",
            "fact: x",
            "fact: [country=uk]",
            "fact: [{fact: [1]}]",
            "fact: [{fact: a, operator: 1}]",
            "agent: {a: b}",
            "agent: [1]",
            "cf_class: [[a]]",
            "identity: [null]",
            "5: []",
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.to_string().contains("filter"), "{bad}: {refused}");
        }
    }
}

//! Finds the filters and functions that a template uses, without rendering it.

use super::env::EnvironmentOptions;
use super::error::Error;
use super::filters;
use super::lexer::{Tok, Token, tokenize};
use super::parser;
use std::rc::Rc;

/// A name and its line, from 1.
pub type UsedName = (String, usize);

/// Names used by a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateUsage {
    /// Filters that do not exist here, or are refused because they access the disk or the network.
    pub absent_filters: Vec<UsedName>,
    /// Functions: `salt['module.function']`, `salt.module.function` and `salt["..."]`.
    pub functions: Vec<UsedName>,
}

/// Scans a template. Names that are built at runtime are not found.
///
/// # Errors
/// The first syntax error, with its line.
pub fn scan(source: &str, name: &str) -> Result<TemplateUsage, Error> {
    let options = EnvironmentOptions::default();
    let name = Rc::from(name);
    let tokens = tokenize(source, &name, &options)?;
    let mut usage = TemplateUsage::default();
    for at in 0..tokens.len() {
        if let Some(function) = function(&tokens[at..]) {
            usage.functions.push(function);
        }
        if let Some((filter, line)) = filter(&tokens[at..])
            && !filters::exists(&filter)
        {
            usage.absent_filters.push((filter, line));
        }
    }
    // An unknown filter is a syntax error too, but it is already reported above, by name.
    match parser::parse(source, &name, true, &options) {
        Err(error) if usage.absent_filters.is_empty() => Err(error),
        _ => Ok(usage),
    }
}

/// `| name`
fn filter(tokens: &[Token]) -> Option<UsedName> {
    match tokens {
        [
            Token {
                kind: Tok::Op("|"), ..
            },
            Token {
                kind: Tok::Name(name),
                line,
            },
            ..,
        ] => Some((name.to_string(), *line)),
        _ => None,
    }
}

fn function(tokens: &[Token]) -> Option<UsedName> {
    let [first, rest @ ..] = tokens else {
        return None;
    };
    if !matches!(&first.kind, Tok::Name(name) if name.as_ref() == "salt") {
        return None;
    }
    let kinds: Vec<&Tok> = rest.iter().take(4).map(|t| &t.kind).collect();
    match kinds.as_slice() {
        [Tok::Op("["), Tok::Str(name), Tok::Op("]"), ..] => Some((name.to_string(), first.line)),
        [
            Tok::Op("."),
            Tok::Name(module),
            Tok::Op("."),
            Tok::Name(name),
        ] => Some((format!("{module}.{name}"), first.line)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_their_lines() {
        let text = "a: {{ salt['grains.get']('os') | upper }}\nb: {{ 'x' | which }}\n\
                    {% set c = salt.cmd.run('id') | nonsense(1) %}\n{# salt['no.no'] #}\n";
        let usage = scan(text, "t").unwrap();
        assert_eq!(
            usage.functions,
            [("grains.get".into(), 1), ("cmd.run".into(), 3)]
        );
        assert_eq!(
            usage.absent_filters,
            [("which".into(), 2), ("nonsense".into(), 3)]
        );
        assert_eq!(
            scan("plain: salt['a.b']\n", "t"),
            Ok(TemplateUsage::default())
        );
        assert!(scan("{% if %}", "t").is_err());
    }
}

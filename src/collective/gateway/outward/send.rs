//! The recipients of a request: each node directly, or a broadcast with a filter that names the nodes.

use crate::wire::{Filter, Identity};

/// Longest regular expression over identities, in bytes. With the overhead of security plugins and packets,
/// this is far below the limits of brokers (1 MiB in NATS).
const LONGEST: usize = 48 << 10;

/// The filter of a request to single nodes: it only requires the agent (reference, section 10).
pub(super) fn direct(agent: &str) -> Filter {
    Filter {
        agents: vec![agent.to_owned()],
        ..Filter::default()
    }
}

/// The filter of a broadcast to exactly these nodes. One entry names them all: with several entries, Ruby's servers
/// require that exactly one matches; and they remove slashes within an expression (reference, section 9).
pub(super) fn broadcast(agent: &str, nodes: &[Identity]) -> Filter {
    let names: Vec<String> = nodes.iter().map(escaped).collect();
    Filter {
        identities: vec![format!("/^({})$/", names.join("|"))],
        ..direct(agent)
    }
}

/// An identity as a regular expression. Only dots need an escape.
fn escaped(node: &Identity) -> String {
    node.as_str().replace('.', r"\.")
}

/// Splits `nodes` so that the filter of each part is not too long.
pub(super) fn parts(nodes: Vec<Identity>) -> Vec<Vec<Identity>> {
    let mut out: Vec<Vec<Identity>> = Vec::new();
    let mut size = LONGEST;
    for node in nodes {
        let more = escaped(&node).len() + 1;
        match out.last_mut() {
            Some(part) if size + more <= LONGEST => {
                size += more;
                part.push(node);
            }
            _ => {
                size = more;
                out.push(vec![node]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: impl IntoIterator<Item = String>) -> Vec<Identity> {
        names.into_iter().map(|n| n.parse().unwrap()).collect()
    }

    #[test]
    fn one_entry_names_all() {
        let filter = broadcast("package", &nodes(["a.b".to_owned(), "c-1".to_owned()]));
        assert_eq!(filter.identities, [r"/^(a\.b|c-1)$/"]);
        assert_eq!(filter.agents, ["package"]);
        let inner = filter.identities[0].trim_matches('/');
        let regex = halite_target::PyRegex::new(inner).unwrap();
        for (name, expected) in [
            ("a.b", true),
            ("axb", false),
            ("c-1", true),
            ("c-12", false),
        ] {
            assert_eq!(regex.matches(name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn long_filters_are_split() {
        let all = nodes((0..5000).map(|n| format!("node{n}.some.example.org")));
        let parts = parts(all.clone());
        assert!(parts.len() > 1);
        for part in &parts {
            assert!(broadcast("a", part).identities[0].len() <= LONGEST + 8);
        }
        assert_eq!(parts.concat(), all);
    }
}

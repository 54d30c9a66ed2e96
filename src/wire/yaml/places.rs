//! Line numbers of the keys in a text, for reports.

use super::compose::{Id, Node, NodeKind, compose};
use super::{YamlError, construct};
use crate::Value;
use crate::budget::Budget;

/// Levels that are recorded: an option, a name within it, a name within that.
const LEVELS: usize = 3;

/// A key, or a text in a list, with its path from the top. Lists themselves do not count in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPosition {
    /// Keys from the top down to and including this one.
    pub path: Vec<String>,
    /// Line, from 1.
    pub line: usize,
}

/// As [`super::parse`], with the lines of the keys and listed texts of the first three levels, in order.
/// What an alias refers to is listed once, at its anchor.
///
/// # Errors
/// As [`super::parse`].
pub fn parse_with_places(text: &str) -> Result<(Value, Vec<KeyPosition>), YamlError> {
    let mut budget = Budget::of(text.len());
    let graph = compose(text, &mut budget)?;
    let mut finder = Finder {
        seen: vec![false; graph.nodes.len()],
        nodes: &graph.nodes,
        path: Vec::new(),
        positions: Vec::new(),
    };
    if let Some(root) = graph.root {
        finder.visit(root);
    }
    let positions = finder.positions;
    let value = construct::construct(graph, &mut budget)?;
    Ok((value, positions))
}

struct Finder<'a> {
    nodes: &'a [Node],
    seen: Vec<bool>,
    path: Vec<String>,
    positions: Vec<KeyPosition>,
}

impl Finder<'_> {
    fn visit(&mut self, id: Id) {
        let Some(node) = self.nodes.get(id) else {
            return;
        };
        if self.path.len() >= LEVELS || std::mem::replace(&mut self.seen[id], true) {
            return;
        }
        match &node.kind {
            NodeKind::Scalar(_) => {}
            NodeKind::Map(pairs) => {
                for (key, value) in pairs {
                    if self.record(*key) {
                        self.visit(*value);
                        self.path.pop();
                    }
                }
            }
            NodeKind::Seq(items) => {
                for item in items {
                    if self.record(*item) {
                        self.path.pop();
                    } else {
                        self.visit(*item);
                    }
                }
            }
        }
    }

    /// Records a text as the end of the path; `false` if the node is not text.
    fn record(&mut self, id: Id) -> bool {
        let Some(Node {
            kind: NodeKind::Scalar(text),
            at,
            ..
        }) = self.nodes.get(id)
        else {
            return false;
        };
        self.path.push(text.clone());
        self.positions.push(KeyPosition {
            path: self.path.clone(),
            line: at.0,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str) -> Vec<(String, usize)> {
        let (_, positions) = parse_with_places(text).unwrap();
        positions
            .into_iter()
            .map(|s| (s.path.join("/"), s.line))
            .collect()
    }

    #[test]
    fn keys_and_listed_texts_have_lines() {
        let text = "# c\nuser: root\next_pillar:\n  - vault: path\n  - git:\n    - main url:\n      - x: y\nback: [roots, 's3fs']\n";
        let expected = [
            ("user", 2),
            ("ext_pillar", 3),
            ("ext_pillar/vault", 4),
            ("ext_pillar/git", 5),
            ("ext_pillar/git/main url", 6),
            ("back", 8),
            ("back/roots", 8),
            ("back/s3fs", 8),
        ];
        assert_eq!(positions(text), expected.map(|(w, l)| (w.to_owned(), l)));
    }

    #[test]
    fn aliases_and_empty_texts_end() {
        assert_eq!(positions(""), []);
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(
            positions(text),
            [("a".into(), 1), ("a/b".into(), 2), ("c".into(), 3)]
        );
        let (value, _) = parse_with_places(text).unwrap();
        assert_eq!(Ok(value), crate::yaml::parse(text));
        assert!(parse_with_places("a: [").is_err());
    }
}

//! Where in a text its keys stand, for reports that name a line.

use super::compose::{Id, Kind, Node, compose};
use super::{YamlError, construct};
use crate::Value;

/// Levels that are looked at: an option, a name within it, a name within that.
const LEVELS: usize = 3;

/// A key, or a text in a list, by the way to it from the top. Lists themselves are no step of the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Keys from the top, and the last one itself.
    pub way: Vec<String>,
    /// Line, from 1.
    pub line: usize,
}

/// As [`super::parse`], with the lines of the keys and listed texts of the first three levels, in their order.
/// What stands behind an alias has its line once, where it was written.
///
/// # Errors
/// As [`super::parse`].
pub fn parse_with_places(text: &str) -> Result<(Value, Vec<Spot>), YamlError> {
    let (nodes, root) = compose(text)?;
    let Some(root) = root else {
        return Ok((Value::Nil, Vec::new()));
    };
    let mut finder = Finder {
        seen: vec![false; nodes.len()],
        nodes: &nodes,
        way: Vec::new(),
        spots: Vec::new(),
    };
    finder.look(root);
    let spots = finder.spots;
    let value = construct::construct(nodes, root, text.len())?;
    Ok((value, spots))
}

struct Finder<'a> {
    nodes: &'a [Node],
    seen: Vec<bool>,
    way: Vec<String>,
    spots: Vec<Spot>,
}

impl Finder<'_> {
    fn look(&mut self, id: Id) {
        let Some(node) = self.nodes.get(id) else {
            return;
        };
        if self.way.len() >= LEVELS || std::mem::replace(&mut self.seen[id], true) {
            return;
        }
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::Map(pairs) => {
                for (key, value) in pairs {
                    if self.note(*key) {
                        self.look(*value);
                        self.way.pop();
                    }
                }
            }
            Kind::Seq(items) => {
                for item in items {
                    if self.note(*item) {
                        self.way.pop();
                    } else {
                        self.look(*item);
                    }
                }
            }
        }
    }

    /// Writes a text down as the end of the way; `false` if it is none.
    fn note(&mut self, id: Id) -> bool {
        let Some(Node {
            kind: Kind::Scalar(text),
            at,
            ..
        }) = self.nodes.get(id)
        else {
            return false;
        };
        self.way.push(text.clone());
        self.spots.push(Spot {
            way: self.way.clone(),
            line: at.0,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(text: &str) -> Vec<(String, usize)> {
        let (_, spots) = parse_with_places(text).unwrap();
        spots
            .into_iter()
            .map(|s| (s.way.join("/"), s.line))
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
        assert_eq!(spots(text), expected.map(|(w, l)| (w.to_owned(), l)));
    }

    #[test]
    fn aliases_and_empty_texts_end() {
        assert_eq!(spots(""), []);
        let text = "a: &x\n  b: 1\nc: *x\n";
        assert_eq!(
            spots(text),
            [("a".into(), 1), ("a/b".into(), 2), ("c".into(), 3)]
        );
        let (value, _) = parse_with_places(text).unwrap();
        assert_eq!(Ok(value), crate::yaml::parse(text));
        assert!(parse_with_places("a: [").is_err());
    }
}

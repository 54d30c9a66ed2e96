//! From parser events to a graph of nodes with resolved tags.

use super::{MAX_DEPTH, YamlError, scalar};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag as RawTag};
use std::collections::HashMap;

/// Index of a node in the graph; an alias is the same index again.
pub(super) type Id = usize;

/// What a node's tag makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Binary,
    Merge,
    /// The `=` of YAML 1.1: plain text as a key, nothing Salt can construct elsewhere.
    Default,
    Seq,
    Map,
    Set,
    Pairs,
    Other(String),
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Scalar(String),
    Seq(Vec<Id>),
    Map(Vec<(Id, Id)>),
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub tag: Tag,
    pub at: (usize, usize),
}

impl Node {
    /// An error placed at this node.
    pub fn error(&self, message: impl Into<String>) -> YamlError {
        error_at(self.at, message)
    }
}

pub(super) fn error_at((line, column): (usize, usize), message: impl Into<String>) -> YamlError {
    YamlError {
        line,
        column,
        message: message.into(),
    }
}

/// An open container, and for a map the key that waits for its value.
struct Open {
    id: Id,
    key: Option<Id>,
}

#[derive(Default)]
struct Composer {
    nodes: Vec<Node>,
    anchors: HashMap<usize, Id>,
    open: Vec<Open>,
    root: Option<Id>,
}

/// Reads the one document of `text`: its nodes, and which of them is the root (none if there is no document).
pub(super) fn compose(text: &str) -> Result<(Vec<Node>, Option<Id>), YamlError> {
    check_characters(text)?;
    let mut c = Composer::default();
    let mut documents = 0;
    let mut parser = Parser::new_from_str(text);
    while let Some(step) = parser.next_event() {
        let (event, span) = step.map_err(scan_error)?;
        let at = place(&span.start);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(error_at(
                        at,
                        "a second document starts here, but only one is read; remove the '---'",
                    ));
                }
            }
            Event::Alias(anchor) => {
                let id = c.alias(anchor, at)?;
                c.add(id);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let tag = scalar_tag(tag.as_deref(), &text, plain);
                let id = c.node(Kind::Scalar(text.into_owned()), tag, at, anchor);
                c.add(id);
            }
            Event::SequenceStart(anchor, tag) => {
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Seq);
                c.start(Kind::Seq(Vec::new()), tag, at, anchor)?;
            }
            Event::MappingStart(anchor, tag) => {
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Map);
                c.start(Kind::Map(Vec::new()), tag, at, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                c.open.pop();
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok((c.nodes, c.root))
}

impl Composer {
    fn node(&mut self, kind: Kind, tag: Tag, at: (usize, usize), anchor: usize) -> Id {
        let id = self.nodes.len();
        self.nodes.push(Node { kind, tag, at });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        id
    }

    /// Puts a node into the container that is open, or makes it the root.
    fn add(&mut self, id: Id) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(id);
            return;
        };
        match &mut self.nodes[open.id].kind {
            Kind::Scalar(_) => {}
            Kind::Seq(items) => items.push(id),
            Kind::Map(pairs) => match open.key.take() {
                Some(key) => pairs.push((key, id)),
                None => open.key = Some(id),
            },
        }
    }

    fn start(
        &mut self,
        kind: Kind,
        tag: Tag,
        at: (usize, usize),
        anchor: usize,
    ) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} lists or maps inside one another");
            return Err(error_at(at, message));
        }
        let id = self.node(kind, tag, at, anchor);
        self.add(id);
        self.open.push(Open { id, key: None });
        Ok(())
    }

    fn alias(&self, anchor: usize, at: (usize, usize)) -> Result<Id, YamlError> {
        let Some(&id) = self.anchors.get(&anchor) else {
            return Err(error_at(at, "the alias names no anchor before it"));
        };
        if self.open.iter().any(|o| o.id == id) {
            return Err(error_at(
                at,
                "the alias stands inside the list or map that it names",
            ));
        }
        Ok(id)
    }
}

fn place(mark: &Marker) -> (usize, usize) {
    (mark.line(), mark.col() + 1)
}

fn scan_error(e: ScanError) -> YamlError {
    error_at(place(e.marker()), e.info())
}

/// PyYAML refuses control characters wherever they stand (`yaml/reader.py NON_PRINTABLE`).
fn check_characters(text: &str) -> Result<(), YamlError> {
    let (mut line, mut column) = (1, 1);
    for c in text.chars() {
        let printable = matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{7e}' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
        if !printable {
            let message = format!("the character U+{:04X} may not stand in YAML", c as u32);
            return Err(error_at((line, column), message));
        }
        match c {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    Ok(())
}

fn scalar_tag(raw: Option<&RawTag>, text: &str, plain: bool) -> Tag {
    match raw {
        Some(raw) => explicit(Some(raw)).unwrap_or(Tag::Str),
        None if plain => scalar::implicit_tag(text),
        None => Tag::Str,
    }
}

/// The tag as written; `None` if there is none or it is the lone `!`.
fn explicit(raw: Option<&RawTag>) -> Option<Tag> {
    let raw = raw?;
    let full = format!("{}{}", raw.handle, raw.suffix);
    if full == "!" {
        return None;
    }
    Some(match full.strip_prefix("tag:yaml.org,2002:") {
        Some("null") => Tag::Null,
        Some("bool") => Tag::Bool,
        Some("int") => Tag::Int,
        Some("float") => Tag::Float,
        Some("str" | "python/unicode" | "timestamp") => Tag::Str,
        Some("binary") => Tag::Binary,
        Some("merge") => Tag::Merge,
        Some("value") => Tag::Default,
        Some("seq") => Tag::Seq,
        Some("map") => Tag::Map,
        Some("set") => Tag::Set,
        Some("omap" | "pairs") => Tag::Pairs,
        Some(name) => Tag::Other(format!("!!{name}")),
        None => Tag::Other(full),
    })
}

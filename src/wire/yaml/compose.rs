//! From parser events to a graph of nodes with resolved tags.

use super::YamlError;
use super::scalar::{self, Tag};
use super::source::{Fix, Source, check_characters, place};
use crate::budget::{Budget, deeper};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag as RawTag};
use std::collections::HashMap;

/// Index of a node in the graph; an alias repeats the index of its node.
pub(super) type Id = usize;

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Scalar(String),
    Seq(Vec<Id>),
    Map(Vec<(Id, Id)>),
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: NodeKind,
    pub tag: Tag,
    pub at: (usize, usize),
}

impl Node {
    /// An error with the position of this node.
    pub fn error(&self, message: impl Into<String>) -> YamlError {
        YamlError::at(self.at, message)
    }
}

/// An open container, and for a map the key that has no value yet.
struct Open {
    id: Id,
    key: Option<Id>,
    flow: bool,
}

struct Composer {
    budget: Budget,
    nodes: Vec<Node>,
    anchors: HashMap<usize, Id>,
    open: Vec<Open>,
    root: Option<Id>,
    has_aliases: bool,
}

/// A document.
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    /// `None` if there is no document.
    pub root: Option<Id>,
    /// Whether a node may be used more than once.
    pub has_aliases: bool,
}

/// Composes the only document of `text`. Nodes count as the values that they become, texts that are read again as text.
///
/// libyaml accepts a tab after the colon of a key, a comment directly after a quote or bracket, and lines of a quoted
/// text or inside brackets that are indented less than their key, and a colon directly after an anchor. The scanner used
/// here rejects all of them; we insert the blanks that it requires and read the text again.
pub(super) fn compose(text: &str, budget: &mut Budget) -> Result<Graph, YamlError> {
    check_characters(text)?;
    let mut text = std::borrow::Cow::Borrowed(text);
    loop {
        let stop = match read(&text, *budget) {
            Ok(graph) => return Ok(graph),
            Err(stop) => stop,
        };
        let Some((start, end, blanks)) = stop.fix.and_then(|fix| fix.edit(&text)) else {
            return Err(stop.blame(&text));
        };
        if budget.take_text(text.len()).is_err() {
            return Err(stop.error);
        }
        text.to_mut().replace_range(start..end, &" ".repeat(blanks));
    }
}

/// Why reading stopped, and a change of the text that may fix it.
struct Stop {
    error: YamlError,
    fix: Option<Fix>,
}

impl Stop {
    /// The error at the line with the fault, which the scanner may notice only in a line after it: when a key has no
    /// colon, or a bracket is not closed.
    fn blame(self, text: &str) -> YamlError {
        let mut error = self.error;
        let what = error.message.as_str();
        let unclosed = matches!(
            what,
            "illegal placement of ':' indicator" | "invalid indentation"
        );
        let count = |line: &str, brackets: [char; 2]| line.matches(brackets).count();
        let opens = |line: &str| count(line, ['[', '{']) > count(line, [']', '}']);
        let above = || text.lines().enumerate().take(error.line.saturating_sub(1));
        if let Some((at, line)) = above().filter(|(_, line)| unclosed && opens(line)).last() {
            let column = line.find(['[', '{']).unwrap_or_default() + 1;
            return YamlError::at((at + 1, column), "the bracket is not closed");
        }
        let late = what == "simple key expect ':'";
        if !late && what != "mapping values are not allowed in this context" {
            return error;
        }
        let is_content = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
        let before = above().filter(|(_, line)| is_content(line)).last();
        let has_colon = |line: &str| line.contains(": ") || line.trim_end().ends_with(':');
        if let Some((at, line)) = before.filter(|(_, line)| late || !has_colon(line)) {
            error.line = at + 1;
            error.column = line.chars().take_while(|c| *c == ' ').count() + 1;
        }
        error
    }
}

impl From<YamlError> for Stop {
    fn from(error: YamlError) -> Self {
        Stop { error, fix: None }
    }
}

impl From<(YamlError, Option<Fix>)> for Stop {
    fn from((error, fix): (YamlError, Option<Fix>)) -> Self {
        Stop { error, fix }
    }
}

impl From<ScanError> for Stop {
    fn from(e: ScanError) -> Self {
        let fix = Fix::of(&e);
        let error = YamlError::at(place(e.marker()), e.info());
        Stop { error, fix }
    }
}

fn read(text: &str, budget: Budget) -> Result<Graph, Stop> {
    let mut c = Composer {
        budget,
        nodes: Vec::new(),
        anchors: HashMap::new(),
        open: Vec::new(),
        root: None,
        has_aliases: false,
    };
    let source = Source::new(text);
    let mut documents = 0;
    let mut parser = Parser::new_from_str(text);
    while let Some(step) = parser.next_event() {
        let (event, span) = step?;
        let at = place(&span.start);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    let what =
                        "a second document starts here, but only one is read; remove the '---'";
                    return Err(YamlError::at(at, what).into());
                }
            }
            Event::Alias(anchor) => {
                let id = c.alias(anchor, at)?;
                c.add(id);
            }
            Event::Scalar(scalar, style, anchor, tag) => {
                source.check_anchor(anchor, &span)?;
                let tag = scalar_tag(tag.as_deref(), &scalar, style);
                if style == ScalarStyle::Plain {
                    source.check_plain(&scalar, &span, c.in_flow())?;
                }
                let mut scalar = scalar.into_owned();
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if block && source.ends_open(&span) && scalar.ends_with('\n') {
                    scalar.pop();
                }
                let id = c.node(NodeKind::Scalar(scalar), tag, at, anchor)?;
                c.add(id);
            }
            Event::SequenceStart(anchor, tag) => {
                source.check_anchor(anchor, &span)?;
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Seq);
                let id = c.node(NodeKind::Seq(Vec::new()), tag, at, anchor)?;
                c.open(id, source.is_bracket(&span))?;
            }
            Event::MappingStart(anchor, tag) => {
                source.check_anchor(anchor, &span)?;
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Map);
                let id = c.node(NodeKind::Map(Vec::new()), tag, at, anchor)?;
                c.open(id, source.is_bracket(&span))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                c.open.pop();
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok(Graph {
        nodes: c.nodes,
        root: c.root,
        has_aliases: c.has_aliases,
    })
}

impl Composer {
    fn node(
        &mut self,
        kind: NodeKind,
        tag: Tag,
        at: (usize, usize),
        anchor: usize,
    ) -> Result<Id, YamlError> {
        let spent = self.budget.take(1);
        spent.map_err(|limit| YamlError::at(at, limit.to_string()))?;
        let id = self.nodes.len();
        self.nodes.push(Node { kind, tag, at });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        Ok(id)
    }

    /// Adds a node to the innermost open container, or makes it the root.
    fn add(&mut self, id: Id) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(id);
            return;
        };
        match &mut self.nodes[open.id].kind {
            NodeKind::Scalar(_) => {}
            NodeKind::Seq(items) => items.push(id),
            NodeKind::Map(pairs) => match open.key.take() {
                Some(key) => pairs.push((key, id)),
                None => open.key = Some(id),
            },
        }
    }

    /// Whether the innermost container is in brackets.
    fn in_flow(&self) -> bool {
        self.open.last().is_some_and(|o| o.flow)
    }

    /// Adds a container and makes it the innermost.
    fn open(&mut self, id: Id, bracket: bool) -> Result<(), YamlError> {
        deeper(self.open.len()).map_err(|limit| self.nodes[id].error(limit.to_string()))?;
        self.add(id);
        let (key, flow) = (None, bracket || self.in_flow());
        self.open.push(Open { id, key, flow });
        Ok(())
    }

    fn alias(&mut self, anchor: usize, at: (usize, usize)) -> Result<Id, YamlError> {
        self.has_aliases = true;
        let Some(&id) = self.anchors.get(&anchor) else {
            return Err(YamlError::at(at, "the alias names no anchor before it"));
        };
        if self.open.iter().any(|o| o.id == id) {
            return Err(YamlError::at(
                at,
                "the alias is inside the list or map that it names",
            ));
        }
        Ok(id)
    }
}

/// After a lone `!`, libyaml resolves text as if it had no quotes, except that an empty plain scalar is text.
fn scalar_tag(raw: Option<&RawTag>, text: &str, style: ScalarStyle) -> Tag {
    let plain = style == ScalarStyle::Plain;
    match (raw, explicit(raw)) {
        (_, Some(tag)) => tag,
        (Some(_), None) if plain && text.is_empty() => Tag::Str,
        (Some(_), None) => scalar::implicit_tag(text),
        (None, None) if plain => scalar::implicit_tag(text),
        (None, None) => Tag::Str,
    }
}

/// The explicit tag; `None` if there is none or it is a lone `!`.
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

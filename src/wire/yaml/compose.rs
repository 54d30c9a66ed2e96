//! From parser events to a graph of nodes with resolved tags.

use super::{MAX_DEPTH, YamlError, scalar};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag as RawTag};
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
    flow: bool,
}

#[derive(Default)]
struct Composer {
    nodes: Vec<Node>,
    anchors: HashMap<usize, Id>,
    open: Vec<Open>,
    root: Option<Id>,
}

/// Nodes, and which of them is the root (none if there is no document).
type Graph = (Vec<Node>, Option<Id>);

/// Bytes that may be read again because of [`Stop::fix`].
const FIX_BUDGET: usize = 64 << 20;

/// Reads the one document of `text`.
///
/// libyaml takes a tab behind the colon of a key, and a comment right behind a quote or bracket. The scanner used
/// here stops at both; there the blank that it wants is put in, and the text is read again.
pub(super) fn compose(text: &str) -> Result<Graph, YamlError> {
    check_characters(text)?;
    let mut text = std::borrow::Cow::Borrowed(text);
    let mut budget = FIX_BUDGET;
    loop {
        let stop = match read(&text) {
            Ok(graph) => return Ok(graph),
            Err(stop) => stop,
        };
        let Some((start, end)) = stop.fix.and_then(|fix| fix.range(&text)) else {
            return Err(stop.error);
        };
        let Some(left) = budget.checked_sub(text.len()) else {
            return Err(stop.error);
        };
        budget = left;
        let spaces = " ".repeat((end - start).max(1));
        text.to_mut().replace_range(start..end, &spaces);
    }
}

/// Why reading stopped, and what may help.
struct Stop {
    error: YamlError,
    fix: Option<Fix>,
}

/// A place where blanks are to be put; the index counts characters.
#[derive(Clone, Copy)]
enum Fix {
    /// For the blanks before this, if there is a tab among them.
    TabsBefore(usize),
    /// Before the '#' here.
    Comment(usize),
}

impl Fix {
    /// The range in bytes to replace.
    fn range(self, text: &str) -> Option<(usize, usize)> {
        let byte = |at| text.char_indices().nth(at).map_or(text.len(), |(i, _)| i);
        match self {
            Fix::TabsBefore(at) => {
                let end = byte(at);
                let start = text[..end].trim_end_matches([' ', '\t']).len();
                text[start..end].contains('\t').then_some((start, end))
            }
            Fix::Comment(at) => {
                let at = byte(at);
                text[at..].starts_with('#').then_some((at, at))
            }
        }
    }
}

impl From<YamlError> for Stop {
    fn from(error: YamlError) -> Self {
        Stop { error, fix: None }
    }
}

impl From<ScanError> for Stop {
    fn from(e: ScanError) -> Self {
        let (what, at) = (e.info(), e.marker().index());
        let fix = if what.starts_with("':' must be followed by a valid") {
            Some(Fix::TabsBefore(at))
        } else if what.starts_with("comments must be separated") {
            Some(Fix::Comment(at))
        } else {
            None
        };
        let error = error_at(place(e.marker()), what);
        Stop { error, fix }
    }
}

fn read(text: &str) -> Result<Graph, Stop> {
    let mut c = Composer::default();
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
                    return Err(error_at(at, what).into());
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
                let id = c.node(Kind::Scalar(scalar), tag, at, anchor);
                c.add(id);
            }
            Event::SequenceStart(anchor, tag) => {
                source.check_anchor(anchor, &span)?;
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Seq);
                let id = c.node(Kind::Seq(Vec::new()), tag, at, anchor);
                c.open(id, source.is_bracket(&span))?;
            }
            Event::MappingStart(anchor, tag) => {
                source.check_anchor(anchor, &span)?;
                let tag = explicit(tag.as_deref()).unwrap_or(Tag::Map);
                let id = c.node(Kind::Map(Vec::new()), tag, at, anchor);
                c.open(id, source.is_bracket(&span))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                c.open.pop();
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok((c.nodes, c.root))
}

/// The text by characters, for what events do not tell.
struct Source<'a> {
    text: &'a str,
    /// Empty where no bracket or anchor makes them necessary.
    chars: Vec<char>,
    /// Number of characters of a text whose last line has no end.
    unended: Option<usize>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let needed = text.contains(['[', '{', '&']);
        let ended = text.ends_with(['\n', '\r']);
        Source {
            text,
            chars: if needed {
                text.chars().collect()
            } else {
                Vec::new()
            },
            unended: (!ended).then(|| text.chars().count()),
        }
    }

    /// Whether a container starts with a bracket, which its tag and anchor may precede.
    fn is_bracket(&self, span: &Span) -> bool {
        let mut rest = self.chars.get(span.start.index()..).unwrap_or_default();
        while let Some('!' | '&') = rest.first() {
            let end = rest.iter().position(|c| c.is_whitespace());
            rest = end.map_or(&[], |end| &rest[end..]);
            let start = rest.iter().position(|c| !c.is_whitespace());
            rest = start.map_or(&[], |start| &rest[start..]);
        }
        matches!(rest.first(), Some('[' | '{'))
    }

    /// Refuses anchors that would swallow text, such as the password `&secret!`. The span of a
    /// node starts at its anchor or tag.
    fn check_anchor(&self, anchor: usize, span: &Span) -> Result<(), YamlError> {
        let rest = self.chars.get(span.start.index()..).unwrap_or_default();
        let words = rest.split(|c| c.is_whitespace());
        let mut anchors = words.filter(|w| w.first() == Some(&'&'));
        let Some(name) = anchors.next().filter(|_| anchor != 0) else {
            return Ok(());
        };
        let name = name[1..].split(|c| matches!(c, ',' | ']' | '}')).next();
        let name = name.unwrap_or_default();
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !name.is_empty() && name.iter().all(plain) {
            return Ok(());
        }
        let what = "an anchor ('&') has letters, digits, '-' and '_' only; put text that starts with '&' in quotes";
        Err(error_at(place(&span.start), what))
    }

    /// Whether a block scalar runs to the end of a text without final line end. Then it gets
    /// none, unlike in YAML 1.2, unless the last line is blank and too short to belong to it.
    fn ends_open(&self, span: &Span) -> bool {
        let last = self.text.rsplit('\n').next().unwrap_or_default();
        let blanks = last.len() - last.trim_end_matches(' ').len();
        if self
            .unended
            .is_none_or(|end| span.end.index() + blanks < end)
        {
            return false;
        }
        // The span starts behind the indentation of the first line.
        !last.trim_matches(' ').is_empty() || last.len() >= span.start.col()
    }

    /// Refuses plain text that YAML 1.1 does not have.
    fn check_plain(&self, text: &str, span: &Span, flow: bool) -> Result<(), YamlError> {
        let Some(first) = text.chars().next() else {
            return Ok(());
        };
        let reserved = "|>%@`".contains(first) || (flow && matches!(first, ':' | '?'));
        if reserved {
            let message = format!("'{first}' cannot start plain text here; put it in quotes");
            return Err(error_at(place(&span.start), message));
        }
        let (start, end) = (span.start.index(), span.end.index());
        let shown = self.chars.get(start..self.chars.len().min(end + 2));
        let colon = |pair: &[char]| pair[0] == ':' && ",?[]{}".contains(pair[1]);
        if flow && shown.is_some_and(|s| s.windows(2).any(colon)) {
            let message =
                "a ':' inside brackets needs a space behind it; or put the text in quotes";
            return Err(error_at(place(&span.start), message));
        }
        Ok(())
    }
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

    /// Whether the innermost container stands in brackets.
    fn in_flow(&self) -> bool {
        self.open.last().is_some_and(|o| o.flow)
    }

    /// Adds a container and makes it the innermost.
    fn open(&mut self, id: Id, bracket: bool) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} lists or maps inside one another");
            return Err(self.nodes[id].error(message));
        }
        self.add(id);
        let (key, flow) = (None, bracket || self.in_flow());
        self.open.push(Open { id, key, flow });
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

/// The lone `!` has libyaml read text as if it stood there without quotes, but nothing at all is text.
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

//! The variable `loop`, and the sequences that loops iterate over.

use super::Scope;
use crate::ast::For;
use crate::cx::Cx;
use crate::error::{Error, ErrorKind};
use crate::value::{Args, Generator, List, Obj, Object, Range, View, ViewKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// The sequence of a loop.
pub(super) enum LoopSource {
    /// A list, read at each step: it may grow during the loop.
    List(Rc<List>, usize),
    /// Precomputed elements.
    Items(std::vec::IntoIter<Obj>),
    /// A dict, which must not change its size during the loop: part, position, size.
    View(Rc<View>, usize, usize),
    /// Numbers.
    Range(Rc<Range>, usize),
    /// A generator, which may have other users.
    Iter(Rc<Generator>),
    /// Elements that satisfy the condition of the loop.
    Filtered(Box<LoopSource>, Box<Scope>, Rc<For>),
}

impl LoopSource {
    pub(super) fn of(cx: &mut Cx, value: Obj) -> Result<LoopSource> {
        Ok(match value {
            Obj::List(list) => LoopSource::List(list, 0),
            Obj::Range(range) => LoopSource::Range(range, 0),
            Obj::Iter(iter) => LoopSource::Iter(iter),
            Obj::Dict(dict) => {
                let kind = ViewKind::Keys;
                LoopSource::of(cx, Obj::View(Rc::new(View { kind, dict })))?
            }
            Obj::View(view) => {
                let length = view.dict.borrow().len();
                LoopSource::View(view, 0, length)
            }
            other => LoopSource::Items(cx.iterate(&other)?.into_iter()),
        })
    }

    pub(super) fn filtered(self, scope: &Scope, node: &Rc<For>) -> LoopSource {
        LoopSource::Filtered(Box::new(self), Box::new(scope.clone()), node.clone())
    }

    /// The length, if it is known without iterating.
    fn length(&self) -> Option<usize> {
        match self {
            LoopSource::List(list, _) => Some(list.borrow().len()),
            LoopSource::Range(range, _) => Some(range.len()),
            LoopSource::View(_, _, length) => Some(*length),
            // Only correct before the first step, which is when a loop asks.
            LoopSource::Items(items) => Some(items.len()),
            LoopSource::Iter(_) | LoopSource::Filtered(..) => None,
        }
    }

    pub(super) fn next(&mut self, cx: &mut Cx) -> Result<Option<Obj>> {
        cx.charge(1)?;
        match self {
            LoopSource::List(list, at) => {
                let item = list.borrow().get(*at).cloned();
                *at += 1;
                Ok(item)
            }
            LoopSource::Items(items) => Ok(items.next()),
            LoopSource::View(view, at, length) => {
                if view.dict.borrow().len() != *length {
                    return Err(Error::new(
                        ErrorKind::Other,
                        "dictionary changed size during iteration",
                    ));
                }
                *at += 1;
                Ok(view.at(*at - 1))
            }
            LoopSource::Range(range, at) => {
                let item = range.at(*at).map(Obj::Int);
                *at += 1;
                Ok(item)
            }
            LoopSource::Iter(iter) => Ok(iter.next()),
            LoopSource::Filtered(source, scope, node) => {
                let Some(test) = &node.test else {
                    return source.next(cx);
                };
                while let Some(item) = source.next(cx)? {
                    let inner = scope.inner();
                    cx.assign(&inner, &node.target, item.clone())?;
                    if cx.eval(&inner, test)?.truthy()? {
                        return Ok(Some(item));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// The state of a loop (`jinja2.runtime.LoopContext`).
pub(super) struct LoopState {
    source: RefCell<LoopSource>,
    /// Number of iterations started.
    index: Cell<usize>,
    before: RefCell<Option<Obj>>,
    current: RefCell<Option<Obj>>,
    /// The next element, if it was peeked; `Some(None)` is the end.
    after: RefCell<Option<Option<Obj>>>,
    length: Cell<Option<usize>>,
    changed: RefCell<Option<Obj>>,
    depth: usize,
}

impl LoopState {
    pub(super) fn new(source: LoopSource, depth: usize) -> LoopState {
        // A list may still grow.
        let length = match source {
            LoopSource::List(..) => None,
            _ => source.length(),
        };
        LoopState {
            source: RefCell::new(source),
            index: Cell::new(0),
            before: RefCell::new(None),
            current: RefCell::new(None),
            after: RefCell::new(None),
            length: Cell::new(length),
            changed: RefCell::new(None),
            depth,
        }
    }

    fn fetch(&self, cx: &mut Cx) -> Result<Option<Obj>> {
        // The condition of a loop cannot use the loop itself.
        match self.source.try_borrow_mut() {
            Ok(mut source) => source.next(cx),
            Err(_) => Err(Error::value_error("generator already executing")),
        }
    }

    pub(super) fn advance(&self, cx: &mut Cx) -> Result<Option<Obj>> {
        let peeked = self.after.borrow_mut().take();
        let item = match peeked {
            Some(Some(item)) => Some(item),
            // If the list has grown, the end was reported too early.
            Some(None) | None => self.fetch(cx)?,
        };
        let Some(item) = item else {
            return Ok(None);
        };
        self.index.set(self.index.get() + 1);
        let before = self.current.borrow_mut().replace(item.clone());
        *self.before.borrow_mut() = before;
        Ok(Some(item))
    }

    fn peek(&self, cx: &mut Cx) -> Result<Option<Obj>> {
        if let Some(Some(item)) = &*self.after.borrow() {
            return Ok(Some(item.clone()));
        }
        let item = self.fetch(cx)?;
        *self.after.borrow_mut() = Some(item.clone());
        Ok(item)
    }

    fn length(&self, cx: &mut Cx) -> Result<usize> {
        if let Some(length) = self.length.get() {
            return Ok(length);
        }
        let known = self.source.borrow().length();
        let length = match known {
            Some(length) => length,
            None => {
                let mut rest = Vec::new();
                while let Some(item) = self.fetch(cx)? {
                    rest.push(item);
                }
                let peeked = matches!(&*self.after.borrow(), Some(Some(_)));
                let length = rest.len() + self.index.get() + usize::from(peeked);
                *self.source.borrow_mut() = LoopSource::Items(rest.into_iter());
                length
            }
        };
        self.length.set(Some(length));
        Ok(length)
    }
}

/// The variable `loop`.
pub(super) struct LoopObject {
    state: Rc<LoopState>,
    scope: Scope,
    node: Rc<For>,
}

impl LoopObject {
    pub(super) fn new(state: Rc<LoopState>, scope: &Scope, node: &Rc<For>) -> LoopObject {
        LoopObject {
            state,
            scope: scope.clone(),
            node: node.clone(),
        }
    }

    fn number(&self, cx: &mut Cx, name: &str) -> Result<Option<usize>> {
        let state = &self.state;
        let index = state.index.get();
        Ok(Some(match name {
            "index" => index,
            "index0" => index.saturating_sub(1),
            "revindex" => (state.length(cx)? + 1).saturating_sub(index),
            "revindex0" => state.length(cx)?.saturating_sub(index),
            "length" => state.length(cx)?,
            "depth" => state.depth + 1,
            "depth0" => state.depth,
            _ => return Ok(None),
        }))
    }

    fn changed(&self, args: &Args) -> Result<bool> {
        let value = Obj::tuple(args.positional.clone());
        let mut last = self.state.changed.borrow_mut();
        let same = match &*last {
            Some(last) => last.equals(&value)?,
            None => false,
        };
        if !same {
            *last = Some(value);
        }
        Ok(!same)
    }
}

impl Object for LoopObject {
    fn type_name(&self) -> &str {
        "LoopContext"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        if let Some(number) = self.number(cx, name)? {
            return Ok(Some(Obj::from(number)));
        }
        Ok(Some(match name {
            "first" => Obj::Bool(self.state.index.get() == 1),
            "last" => Obj::Bool(self.state.peek(cx)?.is_none()),
            "previtem" if self.state.index.get() == 1 => cx.undefined("there is no previous item"),
            "previtem" => self.state.before.borrow().clone().unwrap_or(Obj::None),
            "nextitem" => match self.state.peek(cx)? {
                Some(item) => item,
                None => cx.undefined("there is no next item"),
            },
            _ => return Ok(None),
        }))
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj> {
        if !self.node.recursive {
            return Err(Error::type_error(
                "The loop must have the 'recursive' marker to be called recursively.",
            ));
        }
        let bound = args.bind_required("__call__", &["iterable"], 1)?;
        let Some(Some(iterable)) = bound.into_iter().next() else {
            return Ok(Obj::None);
        };
        let source = LoopSource::of(cx, iterable)?;
        let mut text = String::new();
        let depth = self.state.depth + 1;
        cx.run_loop(&self.scope, &self.node, source, depth, &mut text)?;
        Ok(cx.markup_if_escaping(text))
    }

    fn call_method(&self, _cx: &mut Cx, name: &str, args: &Args) -> Result<Option<Obj>> {
        Ok(Some(match name {
            "cycle" => match args.positional.len() {
                0 => return Err(Error::type_error("no items for cycling given")),
                n => args.positional[self.state.index.get().saturating_sub(1) % n].clone(),
            },
            "changed" => Obj::Bool(self.changed(args)?),
            _ => return Ok(None),
        }))
    }

    fn repr(&self) -> String {
        let index = self.state.index.get();
        let source = self.state.source.borrow();
        match self.state.length.get().or_else(|| source.length()) {
            Some(length) => format!("<LoopContext {index}/{length}>"),
            None => format!("<LoopContext {index}/?>"),
        }
    }
}

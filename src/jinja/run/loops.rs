//! The loop variable and what a loop goes through.

use super::Scope;
use crate::ast::For;
use crate::cx::Cx;
use crate::error::{Error, ErrorKind};
use crate::value::{Args, Generator, List, Obj, Object, Range, View, ViewKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// What a loop goes through.
pub(super) enum Source {
    /// A list, as it is at every step: it may grow while it is gone through.
    List(Rc<List>, usize),
    /// Elements that are there already.
    Items(std::vec::IntoIter<Obj>),
    /// A dict, which must not grow or shrink meanwhile: which part, where, how many.
    View(Rc<View>, usize, usize),
    /// Numbers.
    Range(Rc<Range>, usize),
    /// A generator, which others may use too.
    Iter(Rc<Generator>),
    /// Elements that pass the test of the loop.
    Filtered(Box<Source>, Box<Scope>, Rc<For>),
}

impl Source {
    pub(super) fn of(cx: &mut Cx, value: Obj) -> Result<Source> {
        Ok(match value {
            Obj::List(list) => Source::List(list, 0),
            Obj::Range(range) => Source::Range(range, 0),
            Obj::Iter(iter) => Source::Iter(iter),
            Obj::Dict(dict) => {
                let kind = ViewKind::Keys;
                Source::of(cx, Obj::View(Rc::new(View { kind, dict })))?
            }
            Obj::View(view) => {
                let length = view.dict.borrow().len();
                Source::View(view, 0, length)
            }
            other => Source::Items(cx.iterate(&other)?.into_iter()),
        })
    }

    pub(super) fn filtered(self, scope: &Scope, node: &Rc<For>) -> Source {
        Source::Filtered(Box::new(self), Box::new(scope.clone()), node.clone())
    }

    /// The length, where it is known without going through.
    fn length(&self) -> Option<usize> {
        match self {
            Source::List(list, _) => Some(list.borrow().len()),
            Source::Range(range, _) => Some(range.len()),
            Source::View(_, _, length) => Some(*length),
            // Right only before the first step, when a loop asks.
            Source::Items(items) => Some(items.len()),
            Source::Iter(_) | Source::Filtered(..) => None,
        }
    }

    pub(super) fn next(&mut self, cx: &mut Cx) -> Result<Option<Obj>> {
        cx.charge(1)?;
        match self {
            Source::List(list, at) => {
                let item = list.borrow().get(*at).cloned();
                *at += 1;
                Ok(item)
            }
            Source::Items(items) => Ok(items.next()),
            Source::View(view, at, length) => {
                if view.dict.borrow().len() != *length {
                    return Err(Error::new(
                        ErrorKind::Other,
                        "dictionary changed size during iteration",
                    ));
                }
                *at += 1;
                Ok(view.at(*at - 1))
            }
            Source::Range(range, at) => {
                let item = range.at(*at).map(Obj::Int);
                *at += 1;
                Ok(item)
            }
            Source::Iter(iter) => Ok(iter.next()),
            Source::Filtered(source, scope, node) => {
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
    source: RefCell<Source>,
    /// Rounds begun.
    index: Cell<usize>,
    before: RefCell<Option<Obj>>,
    current: RefCell<Option<Obj>>,
    /// The next element, if it has been looked at; `Some(None)` is the end.
    after: RefCell<Option<Option<Obj>>>,
    length: Cell<Option<usize>>,
    changed: RefCell<Option<Obj>>,
    depth: usize,
}

impl LoopState {
    pub(super) fn new(source: Source, depth: usize) -> LoopState {
        // A list may still grow.
        let length = match source {
            Source::List(..) => None,
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
        // The test of a loop cannot use the loop itself.
        match self.source.try_borrow_mut() {
            Ok(mut source) => source.next(cx),
            Err(_) => Err(Error::value_error("generator already executing")),
        }
    }

    pub(super) fn advance(&self, cx: &mut Cx) -> Result<Option<Obj>> {
        let peeked = self.after.borrow_mut().take();
        let item = match peeked {
            Some(Some(item)) => Some(item),
            // The end may have been seen too early, of a list that grew.
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
                *self.source.borrow_mut() = Source::Items(rest.into_iter());
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
        let source = Source::of(cx, iterable)?;
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

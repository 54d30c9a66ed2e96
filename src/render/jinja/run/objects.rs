//! Objects of a running template: the loop variable, macros, modules, blocks, namespaces.

use super::{Context, Scope, Vars};
use crate::render::jinja::ast::{For, Macro};
use crate::render::jinja::cx::Cx;
use crate::render::jinja::error::{Error, ErrorKind};
use crate::render::jinja::methods;
use crate::render::jinja::value::{Args, Dict, Generator, List, Obj, Object, Range, quote};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// What a loop goes through.
pub(super) enum Source {
    /// A list, as it is at every step: it may grow while it is gone through.
    List(Rc<List>, usize),
    /// Elements that are there already.
    Items(std::vec::IntoIter<Obj>),
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

/// A macro, or the body of a call block.
pub(super) struct MacroObject {
    pub(super) node: Rc<Macro>,
    pub(super) scope: Scope,
    pub(super) autoescape: bool,
}

impl MacroObject {
    pub(super) fn new(node: &Rc<Macro>, scope: &Scope, autoescape: bool) -> MacroObject {
        MacroObject {
            node: node.clone(),
            scope: scope.clone(),
            autoescape,
        }
    }
}

impl Object for MacroObject {
    fn type_name(&self) -> &str {
        "Macro"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        let node = &self.node;
        Ok(Some(match name {
            "name" => Obj::from(node.name.clone()),
            "arguments" => {
                let names = node.params.iter().map(|(name, _)| Obj::from(name.clone()));
                Obj::tuple(names.collect())
            }
            "catch_kwargs" => Obj::Bool(node.uses.kwargs),
            "catch_varargs" => Obj::Bool(node.uses.varargs),
            "caller" => Obj::Bool(node.uses.caller),
            _ => return Ok(None),
        }))
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj> {
        cx.call_macro(self, args)
    }

    fn repr(&self) -> String {
        match &self.node.name {
            Some(name) => format!("<Macro {}>", quote(name)),
            None => "<Macro anonymous>".to_owned(),
        }
    }
}

/// An imported template.
pub(in crate::render::jinja) struct ModuleObject {
    pub(super) name: Rc<str>,
    pub(super) text: Rc<str>,
    pub(super) names: Vars,
}

impl ModuleObject {
    pub(super) fn get(&self, name: &str) -> Option<Obj> {
        self.names.get(name).cloned()
    }
}

impl Object for ModuleObject {
    fn type_name(&self) -> &str {
        "TemplateModule"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.environment")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok(self.get(name))
    }

    fn str(&self) -> String {
        self.text.to_string()
    }

    fn repr(&self) -> String {
        format!("<TemplateModule {}>", quote(&self.name))
    }

    fn as_data(&self) -> Option<Obj> {
        Some(Obj::Str(self.text.clone()))
    }
}

/// The variable `self`: blocks by name.
pub(super) struct TemplateReference(Scope);

impl TemplateReference {
    pub(super) fn new(scope: &Scope) -> TemplateReference {
        TemplateReference(scope.clone())
    }
}

impl Object for TemplateReference {
    fn type_name(&self) -> &str {
        "TemplateReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        self.get_item(cx, &Obj::from(name))
    }

    fn get_item(&self, _cx: &mut Cx, key: &Obj) -> Result<Option<Obj>> {
        let Some(name) = key.as_str() else {
            return Ok(None);
        };
        let found = self.0.context.block(name, 0);
        Ok(found.map(|_| block_at(&self.0.context, name, 0)))
    }

    fn repr(&self) -> String {
        let template = &self.0.template;
        match template.anonymous {
            true => "<TemplateReference None>".to_owned(),
            false => format!("<TemplateReference {}>", quote(&template.name)),
        }
    }
}

/// A block to be called: `self.name()` or `super()`.
struct BlockReference {
    context: Rc<Context>,
    name: Rc<str>,
    level: usize,
}

fn block_at(context: &Rc<Context>, name: &str, level: usize) -> Obj {
    Obj::native(BlockReference {
        context: context.clone(),
        name: name.into(),
        level,
    })
}

/// The version of a block below the one at `level`.
pub(super) fn super_block(cx: &Cx, context: &Rc<Context>, name: &str, level: usize) -> Obj {
    match context.block(name, level + 1) {
        Some(_) => block_at(context, name, level + 1),
        None => cx.undefined(format!("there is no parent block called {}.", quote(name))),
    }
}

impl Object for BlockReference {
    fn type_name(&self) -> &str {
        "BlockReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok((name == "super").then(|| super_block(cx, &self.context, &self.name, self.level)))
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, _args: &Args) -> Result<Obj> {
        let Some(found) = self.context.block(&self.name, self.level) else {
            return Ok(Obj::None);
        };
        let mut text = String::new();
        cx.run_block(&self.context, &found, self.level, &mut text)?;
        Ok(cx.markup_if_escaping(text))
    }
}

/// `namespace(...)`: attributes that inner scopes can set.
#[derive(Default)]
pub struct Namespace(RefCell<Dict>);

impl Namespace {
    pub(in crate::render::jinja) fn new(dict: Dict) -> Namespace {
        Namespace(RefCell::new(dict))
    }
}

impl Object for Namespace {
    fn type_name(&self) -> &str {
        "Namespace"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok(self.0.borrow().get_str(name).cloned())
    }

    fn set_attr(&self, name: &str, value: Obj) -> Result<()> {
        let old = self.0.borrow().get_str(name).cloned();
        self.0.borrow_mut().set_str(name, value);
        drop(old);
        Ok(())
    }

    fn shown(&self) -> Option<(String, Obj, &'static str)> {
        let dict = Obj::dict(self.0.borrow().clone());
        Some(("<Namespace ".to_owned(), dict, ">"))
    }
}

/// A method of a value that is not called at once: `{% set add = list.append %}`.
pub struct BoundMethod {
    value: Obj,
    name: Rc<str>,
}

/// The method of a name, if values of this kind have it.
pub(in crate::render::jinja) fn bound_method(value: &Obj, name: &str) -> Option<Obj> {
    methods::has(value, name).then(|| {
        Obj::native(BoundMethod {
            value: value.clone(),
            name: name.into(),
        })
    })
}

impl Object for BoundMethod {
    fn type_name(&self) -> &str {
        "builtin_function_or_method"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj> {
        methods::call(cx, &self.value, &self.name, args)
    }

    fn repr(&self) -> String {
        format!(
            "<built-in method {} of {} object>",
            self.name,
            self.value.type_name()
        )
    }
}

/// The function `show_full_context`, which needs the variables around its call.
pub(in crate::render::jinja) struct ShowFullContext;

impl Object for ShowFullContext {
    fn type_name(&self) -> &str {
        "function"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _cx: &mut Cx, _args: &Args) -> Result<Obj> {
        Err(Error::new(
            ErrorKind::Type,
            "show_full_context must be called by its name",
        ))
    }
}

/// Only what is data: texts, numbers, booleans, lists and dicts of them; the rest by its `repr`
/// (`salt/utils/data.py simple_types_filter`).
pub(super) fn simple_types(dict: &Dict) -> Obj {
    fn simple(value: &Obj, depth: usize) -> Obj {
        if depth > 50 {
            return Obj::from("...");
        }
        match value {
            Obj::None
            | Obj::Bool(_)
            | Obj::Int(_)
            | Obj::Big(_)
            | Obj::Float(_)
            | Obj::Str(_)
            | Obj::Markup(_) => value.clone(),
            Obj::List(list) => {
                let items = list.borrow();
                Obj::list(items.iter().map(|item| simple(item, depth + 1)).collect())
            }
            Obj::Tuple(items) => {
                Obj::list(items.iter().map(|item| simple(item, depth + 1)).collect())
            }
            Obj::Dict(dict) => simple_dict(&dict.borrow(), depth + 1),
            other => Obj::from(other.repr().unwrap_or_default()),
        }
    }
    fn simple_dict(dict: &Dict, depth: usize) -> Obj {
        let mut out = Dict::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let key = match key {
                Obj::Str(_) | Obj::Int(_) | Obj::Bool(_) | Obj::Float(_) | Obj::Big(_) => {
                    key.clone()
                }
                other => Obj::from(other.repr().unwrap_or_default()),
            };
            let _ = out.insert(key, simple(value, depth));
        }
        Obj::dict(out)
    }
    simple_dict(dict, 0)
}

//! Runs parsed templates: scopes and variables.

mod call;
mod eval;
mod exec;
mod loops;
mod objects;
mod templates;
#[cfg(test)]
mod tests;

pub use objects::Namespace;
pub(super) use objects::{ModuleObject, ShowFullContext, bound_method};

use super::ast::{Block, Template};
use super::cx::Cx;
use super::value::{Obj, drop_all};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Variables by name.
pub(super) type Vars = HashMap<Rc<str>, Obj>;

/// The variables of a scope inside a template, such as an iteration of a loop or a call of a macro.
pub(super) struct Frame {
    vars: RefCell<Vec<(Rc<str>, Obj)>>,
    parent: Option<Rc<Frame>>,
}

impl Frame {
    fn new(parent: Option<Rc<Frame>>) -> Rc<Frame> {
        Rc::new(Frame {
            vars: RefCell::new(Vec::new()),
            parent,
        })
    }

    fn get_own(&self, name: &str) -> Option<Obj> {
        let vars = self.vars.borrow();
        let mut found = vars.iter().filter(|(n, _)| n.as_ref() == name);
        found.next().map(|(_, value)| value.clone())
    }

    fn set(&self, name: &Rc<str>, value: Obj) {
        let mut vars = self.vars.borrow_mut();
        let old = match vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, slot)) => std::mem::replace(slot, value),
            None => {
                vars.push((name.clone(), value));
                return;
            }
        };
        drop(vars);
        drop(old);
    }

    fn clear(&self) {
        let vars = std::mem::take(&mut *self.vars.borrow_mut());
        drop_all(vars.into_iter().map(|(_, value)| value).collect());
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Variables below a context; they do not change.
pub(super) struct Base {
    vars: Vars,
    below: Option<Rc<Base>>,
}

impl Base {
    pub(super) fn new(vars: Vars, below: Option<Rc<Base>>) -> Rc<Base> {
        Rc::new(Base { vars, below })
    }

    fn get(&self, name: &str) -> Option<Obj> {
        let mut base = Some(self);
        while let Some(this) = base {
            if let Some(value) = this.vars.get(name) {
                return Some(value.clone());
            }
            base = this.below.as_deref();
        }
        None
    }

    fn names(&self, into: &mut Vec<Rc<str>>) {
        if let Some(below) = &self.below {
            below.names(into);
        }
        into.extend(self.vars.keys().cloned());
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        drop_all(std::mem::take(&mut self.vars).into_values().collect());
    }
}

/// A block and its template.
type BlockOf = (Rc<Template>, Rc<Block>);

/// The top level of a running template (`jinja2.runtime.Context`).
pub(super) struct Context {
    base: Rc<Base>,
    /// Variables set at the top level, and the names of those that importing templates see.
    vars: RefCell<Vec<(Rc<str>, Obj)>>,
    exported: RefCell<Vec<Rc<str>>>,
    /// Blocks by name, those of the most derived template first.
    blocks: RefCell<HashMap<Rc<str>, Vec<BlockOf>>>,
}

impl Context {
    fn new(base: Rc<Base>) -> Rc<Context> {
        Rc::new(Context {
            base,
            vars: RefCell::new(Vec::new()),
            exported: RefCell::new(Vec::new()),
            blocks: RefCell::new(HashMap::new()),
        })
    }

    fn get(&self, name: &str) -> Option<Obj> {
        let vars = self.vars.borrow();
        if let Some((_, value)) = vars.iter().find(|(n, _)| n.as_ref() == name) {
            return Some(value.clone());
        }
        drop(vars);
        self.base.get(name)
    }

    fn set(&self, name: &Rc<str>, value: Obj, exported: bool) {
        let mut vars = self.vars.borrow_mut();
        let old = match vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, slot)) => Some(std::mem::replace(slot, value)),
            None => {
                vars.push((name.clone(), value));
                None
            }
        };
        drop(vars);
        drop(old);
        let mut names = self.exported.borrow_mut();
        let at = names.iter().position(|n| n == name);
        match (at, exported && !name.starts_with('_')) {
            (None, true) => names.push(name.clone()),
            (Some(at), false) if !exported => drop(names.remove(at)),
            _ => {}
        }
    }

    /// Appends the blocks of a template to the existing ones.
    fn add_blocks(&self, template: &Rc<Template>) {
        let mut blocks = self.blocks.borrow_mut();
        for block in &template.blocks {
            let stack = blocks.entry(block.name.clone()).or_default();
            stack.push((template.clone(), block.clone()));
        }
    }

    fn block(&self, name: &str, level: usize) -> Option<BlockOf> {
        self.blocks.borrow().get(name)?.get(level).cloned()
    }

    fn clear(&self) {
        let vars = std::mem::take(&mut *self.vars.borrow_mut());
        drop_all(vars.into_iter().map(|(_, value)| value).collect());
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The context in which a statement runs.
#[derive(Clone)]
pub(super) struct Scope {
    template: Rc<Template>,
    context: Rc<Context>,
    /// The innermost scope; `None` at the top level.
    frame: Option<Rc<Frame>>,
    /// Set after an `extends`: then output outside of blocks is suppressed.
    extended: Option<Rc<Cell<bool>>>,
}

impl Scope {
    fn lookup(&self, name: &str) -> Option<Obj> {
        let mut frame = self.frame.as_ref();
        while let Some(this) = frame {
            if let Some(value) = this.get_own(name) {
                return Some(value);
            }
            frame = this.parent.as_ref();
        }
        self.context.get(name)
    }

    fn assign(&self, name: &Rc<str>, value: Obj) {
        match &self.frame {
            Some(frame) => frame.set(name, value),
            None => self.context.set(name, value, true),
        }
    }

    /// The same context with a new scope.
    fn inner(&self) -> Scope {
        Scope {
            frame: Some(Frame::new(self.frame.clone())),
            ..self.clone()
        }
    }

    fn own_frame(&self) -> Option<&Rc<Frame>> {
        self.frame.as_ref()
    }

    fn is_silent(&self) -> bool {
        self.extended.as_ref().is_some_and(|e| e.get())
    }

    /// A copy of all visible variables.
    fn snapshot(&self) -> Rc<Base> {
        let mut vars: Vars = self.context.vars.borrow().iter().cloned().collect();
        let mut frames = Vec::new();
        let mut frame = self.frame.as_ref();
        while let Some(this) = frame {
            frames.push(this);
            frame = this.parent.as_ref();
        }
        for frame in frames.into_iter().rev() {
            vars.extend(frame.vars.borrow().iter().cloned());
        }
        if vars.is_empty() {
            return self.context.base.clone();
        }
        Base::new(vars, Some(self.context.base.clone()))
    }

    /// All variables, for `show_full_context`.
    fn all(&self) -> Vec<(Rc<str>, Obj)> {
        let base = self.snapshot();
        let mut names = Vec::new();
        base.names(&mut names);
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| base.get(&name).map(|value| (name, value)))
            .collect()
    }
}

impl Cx {
    /// Records a scope referenced by a macro that the scope refers to itself: such reference cycles are broken at the
    /// end of the run.
    fn remember(&mut self, scope: &Scope) {
        // Contexts are always recorded.
        if let Some(frame) = &scope.frame {
            self.run.frames.push(Rc::downgrade(frame));
        }
    }

    /// Breaks reference cycles, so that nothing of the run stays in memory.
    pub(super) fn finish(&mut self) {
        for frame in self.run.frames.drain(..) {
            if let Some(frame) = frame.upgrade() {
                frame.clear();
            }
        }
        for context in self.run.contexts.drain(..) {
            if let Some(context) = context.upgrade() {
                context.clear();
            }
        }
        self.run.modules.clear();
    }
}

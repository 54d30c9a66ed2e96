//! Statements.

use super::loops::{LoopObject, LoopSource, LoopState};
use super::objects::MacroObject;
use super::{Frame, Scope};
use crate::ast::{Expr, For, Stmt, Target};
use crate::cx::Cx;
use crate::error::Error;
use crate::value::Obj;
use crate::{escape, stack};
use std::rc::Rc;

/// How the execution of a body ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

type Result<T> = std::result::Result<T, Error>;

impl Cx {
    /// Adds the location of a statement to its error.
    pub(super) fn located<T>(&self, scope: &Scope, line: usize, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.with_location(&scope.template, line))
    }

    pub(super) fn exec(&mut self, scope: &Scope, body: &[Stmt], out: &mut String) -> Result<Flow> {
        if stack::exceeded(self.stack, self.env.options.max_stack) {
            return Err(Error::limit("the template calls itself too deeply"));
        }
        for stmt in body {
            self.charge(1)?;
            let flow = match stmt {
                Stmt::Data(text) => {
                    if !scope.is_silent() {
                        self.write(out, text)?;
                    }
                    Flow::Next
                }
                Stmt::Print(expr) => {
                    if !scope.is_silent() {
                        let result = self.print(scope, expr, out);
                        self.located(scope, expr.line, result)?;
                    }
                    Flow::Next
                }
                Stmt::If(branches, otherwise) => {
                    let body = self.branch(scope, branches, otherwise)?;
                    self.exec(scope, body, out)?
                }
                Stmt::For(node) => {
                    self.for_loop(scope, node, out)?;
                    Flow::Next
                }
                Stmt::Break => Flow::Break,
                Stmt::Continue => Flow::Continue,
                other => {
                    self.exec_other(scope, other, out)?;
                    Flow::Next
                }
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn branch<'b>(
        &mut self,
        scope: &Scope,
        branches: &'b [(Expr, Vec<Stmt>)],
        otherwise: &'b [Stmt],
    ) -> Result<&'b [Stmt]> {
        for (test, body) in branches {
            let result = self.eval(scope, test).and_then(|value| value.truthy());
            if self.located(scope, test.line, result)? {
                return Ok(body);
            }
        }
        Ok(otherwise)
    }

    /// Rarer statements; in a separate function, so that loops need little stack.
    #[inline(never)]
    fn exec_other(&mut self, scope: &Scope, stmt: &Stmt, out: &mut String) -> Result<()> {
        match stmt {
            Stmt::Set(target, expr, line) => {
                let result = self.set(scope, target, expr);
                self.located(scope, *line, result)
            }
            Stmt::SetBlock(target, filter, body, line) => {
                let text = self.capture(scope, body, true)?;
                let value = self.markup_if_escaping(text);
                let value = match filter {
                    Some(filter) => {
                        let result = self.eval_captured(scope, filter, value);
                        self.located(scope, *line, result)?
                    }
                    None => value,
                };
                let result = self.assign(scope, target, value);
                self.located(scope, *line, result)
            }
            Stmt::Load(target, filter, body, line) => {
                let text = self.capture(scope, body, true)?;
                let result = self.eval_captured(scope, filter, Obj::from(text));
                let value = self.located(scope, *line, result)?;
                let result = self.assign(scope, target, value);
                self.located(scope, *line, result)
            }
            Stmt::Do(expr) => {
                let result = self.eval(scope, expr);
                self.located(scope, expr.line, result).map(drop)
            }
            Stmt::Macro(node) => {
                let name = node.name.clone().unwrap_or_else(|| "caller".into());
                let value = Obj::native(MacroObject::new(node, scope, self.autoescape));
                self.remember(scope);
                scope.assign(&name, value);
                Ok(())
            }
            Stmt::CallBlock(call, node, line) => {
                let caller = Obj::native(MacroObject::new(node, scope, self.autoescape));
                let result = self.eval_call(scope, call, Some(caller));
                let value = self.located(scope, *line, result)?;
                if scope.is_silent() {
                    return Ok(());
                }
                let result = self.print_value(&value, out);
                self.located(scope, *line, result)
            }
            Stmt::FilterBlock(filter, body) => {
                let text = self.capture(scope, body, false)?;
                let value = self.markup_if_escaping(text);
                let result = self.eval_captured(scope, filter, value);
                let value = self.located(scope, filter.line, result)?;
                if scope.is_silent() {
                    return Ok(());
                }
                let result = self.print_value(&value, out);
                self.located(scope, filter.line, result)
            }
            Stmt::With(targets, body) => {
                let inner = scope.inner();
                for (target, expr) in targets {
                    let result = self
                        .eval(scope, expr)
                        .and_then(|value| self.assign(&inner, target, value));
                    self.located(scope, expr.line, result)?;
                }
                self.exec(&inner, body, out).map(drop)
            }
            Stmt::Autoescape(expr, body) => {
                let result = self.eval(scope, expr).and_then(|value| value.truthy());
                let on = self.located(scope, expr.line, result)?;
                let before = std::mem::replace(&mut self.autoescape, on);
                let result = self.exec(&scope.inner(), body, out);
                self.autoescape = before;
                result.map(drop)
            }
            Stmt::Include(node) => self.include(scope, node, out),
            Stmt::Import(node) => {
                let result = self.import(scope, node);
                self.located(scope, node.line, result)
            }
            Stmt::FromImport(template, names, with_context, line) => {
                let result = self.import_names(scope, template, names, *with_context, *line);
                self.located(scope, *line, result)
            }
            Stmt::Extends(template) => {
                let result = self.extend(scope, template);
                self.located(scope, template.line, result)
            }
            Stmt::Block(block, line) => {
                if scope.frame.is_none() && scope.is_silent() {
                    return Ok(());
                }
                self.block(scope, block, *line, out)
            }
            Stmt::Data(_)
            | Stmt::Print(_)
            | Stmt::If(..)
            | Stmt::For(_)
            | Stmt::Break
            | Stmt::Continue => Ok(()),
        }
    }

    pub(super) fn write(&mut self, out: &mut String, text: &str) -> Result<()> {
        if out.len() + text.len() > self.env.options.max_output {
            return Err(Error::limit("the output of the template is too long"));
        }
        self.charge(text.len() / 32)?;
        out.push_str(text);
        Ok(())
    }

    fn print(&mut self, scope: &Scope, expr: &Expr, out: &mut String) -> Result<()> {
        let value = self.eval(scope, expr)?;
        self.print_value(&value, out)
    }

    pub(super) fn print_value(&mut self, value: &Obj, out: &mut String) -> Result<()> {
        match value {
            Obj::Markup(text) => return self.write(out, text),
            Obj::Str(text) if !self.autoescape => return self.write(out, text),
            _ => {}
        }
        let mut text = String::new();
        value.print_to(&mut text)?;
        if self.autoescape {
            text = escape(&text);
        }
        self.write(out, &text)
    }

    /// The output of a body; with `speaking`, even after an `extends`, which otherwise suppresses output.
    fn capture(&mut self, scope: &Scope, body: &[Stmt], speaking: bool) -> Result<String> {
        let mut inner = scope.inner();
        if speaking {
            inner.extended = None;
        }
        let mut text = String::new();
        self.exec(&inner, body, &mut text)?;
        Ok(text)
    }

    pub(super) fn markup_if_escaping(&self, text: String) -> Obj {
        if self.autoescape {
            Obj::Markup(text.into())
        } else {
            Obj::from(text)
        }
    }

    pub(super) fn eval_captured(
        &mut self,
        scope: &Scope,
        filter: &Expr,
        value: Obj,
    ) -> Result<Obj> {
        let before = self.captured.replace(value);
        let result = self.eval(scope, filter);
        self.captured = before;
        result
    }

    fn set(&mut self, scope: &Scope, target: &Target, expr: &Expr) -> Result<()> {
        self.check_namespaces(scope, target)?;
        let value = self.eval(scope, expr)?;
        self.assign(scope, target, value)
    }

    /// Only namespaces allow setting attributes; this is checked before the value is computed.
    fn check_namespaces(&mut self, scope: &Scope, target: &Target) -> Result<()> {
        match target {
            Target::Name(_) => Ok(()),
            Target::Attr(name, _) => match scope.lookup(name) {
                Some(value) if value.downcast::<super::Namespace>().is_some() => Ok(()),
                _ => Err(Error::runtime(
                    "cannot assign attribute on non-namespace object",
                )),
            },
            Target::Tuple(items) => items
                .iter()
                .try_for_each(|item| self.check_namespaces(scope, item)),
        }
    }

    pub(super) fn assign(&mut self, scope: &Scope, target: &Target, value: Obj) -> Result<()> {
        match target {
            Target::Name(name) => scope.assign(name, value),
            Target::Attr(name, attr) => match scope.lookup(name) {
                Some(Obj::Native(object)) => object.set_attr(attr, value)?,
                _ => {
                    return Err(Error::runtime(
                        "cannot assign attribute on non-namespace object",
                    ));
                }
            },
            Target::Tuple(items) => {
                let values = self.unpack(&value, items.len())?;
                for (item, value) in items.iter().zip(values) {
                    self.assign(scope, item, value)?;
                }
            }
        }
        Ok(())
    }

    fn unpack(&mut self, value: &Obj, wanted: usize) -> Result<Vec<Obj>> {
        let values = match value {
            Obj::Tuple(items) => items.to_vec(),
            Obj::List(items) => items.borrow().clone(),
            Obj::Int(_) | Obj::Bool(_) | Obj::None | Obj::Float(_) | Obj::Big(_) => {
                return Err(Error::type_error(format!(
                    "cannot unpack non-iterable {} object",
                    value.type_name()
                )));
            }
            _ => self.iterate(value)?,
        };
        if values.len() > wanted {
            return Err(Error::value_error(format!(
                "too many values to unpack (expected {wanted})"
            )));
        }
        if values.len() < wanted {
            return Err(Error::value_error(format!(
                "not enough values to unpack (expected {wanted}, got {})",
                values.len()
            )));
        }
        Ok(values)
    }

    #[inline(never)]
    fn for_loop(&mut self, scope: &Scope, node: &Rc<For>, out: &mut String) -> Result<()> {
        let result = self
            .eval(scope, &node.iter)
            .and_then(|value| LoopSource::of(self, value));
        let source = self.located(scope, node.iter.line, result)?;
        if !node.recursive {
            return self.run_loop(scope, node, source, 0, out);
        }
        let mut text = String::new();
        self.run_loop(scope, node, source, 0, &mut text)?;
        if scope.is_silent() {
            return Ok(());
        }
        self.write(out, &text)
    }

    /// Runs a loop over the elements of `source`.
    pub(super) fn run_loop(
        &mut self,
        scope: &Scope,
        node: &Rc<For>,
        source: LoopSource,
        depth: usize,
        out: &mut String,
    ) -> Result<()> {
        let source = match node.test {
            Some(_) => source.filtered(scope, node),
            None => source,
        };
        let rounds = if node.uses_loop {
            self.extended_rounds(scope, node, source, depth, out)
        } else {
            self.plain_rounds(scope, node, source, out)
        };
        if rounds? || node.otherwise.is_empty() {
            return Ok(());
        }
        self.exec(&scope.inner(), &node.otherwise, out).map(drop)
    }

    /// Returns whether there was an iteration.
    fn plain_rounds(
        &mut self,
        scope: &Scope,
        node: &Rc<For>,
        mut source: LoopSource,
        out: &mut String,
    ) -> Result<bool> {
        let mut any = false;
        let mut inner = scope.inner();
        loop {
            let next = source.next(self);
            let Some(item) = self.located(scope, node.iter.line, next)? else {
                return Ok(any);
            };
            renew(&mut inner, scope);
            let result = self.assign(&inner, &node.target, item);
            self.located(scope, node.iter.line, result)?;
            let flow = self.exec(&inner, &node.body, out)?;
            any |= flow == Flow::Next;
            if flow == Flow::Break {
                return Ok(any);
            }
        }
    }

    fn extended_rounds(
        &mut self,
        scope: &Scope,
        node: &Rc<For>,
        source: LoopSource,
        depth: usize,
        out: &mut String,
    ) -> Result<bool> {
        let state = Rc::new(LoopState::new(source, depth));
        let object: Rc<LoopObject> = Rc::new(LoopObject::new(state.clone(), scope, node));
        let result = self.rounds_of(scope, node, &state, &object, out);
        if Rc::strong_count(&object) > 1 {
            // Something refers to the loop object, perhaps the scope that the loop object refers to.
            self.remember(scope);
        }
        result
    }

    fn rounds_of(
        &mut self,
        scope: &Scope,
        node: &Rc<For>,
        state: &LoopState,
        object: &Rc<LoopObject>,
        out: &mut String,
    ) -> Result<bool> {
        let name: Rc<str> = "loop".into();
        let mut any = false;
        let mut inner = scope.inner();
        loop {
            let next = state.advance(self);
            let Some(item) = self.located(scope, node.iter.line, next)? else {
                return Ok(any);
            };
            renew(&mut inner, scope);
            if let Some(frame) = inner.own_frame() {
                frame.set(&name, Obj::Native(object.clone()));
            }
            let result = self.assign(&inner, &node.target, item);
            self.located(scope, node.iter.line, result)?;
            let flow = self.exec(&inner, &node.body, out)?;
            any |= flow == Flow::Next;
            if flow == Flow::Break {
                return Ok(any);
            }
        }
    }
}

/// An empty scope for the next iteration: the last one, unless something refers to it.
fn renew(inner: &mut Scope, outer: &Scope) {
    match &inner.frame {
        Some(frame) if Rc::strong_count(frame) == 1 && Rc::weak_count(frame) == 0 => frame.clear(),
        _ => inner.frame = Some(Frame::new(outer.frame.clone())),
    }
}

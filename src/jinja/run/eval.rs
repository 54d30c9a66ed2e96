//! Expressions.

use super::Scope;
use crate::ast::{CallArgs, Comparison, Cond, Expr, ExprKind, Filter, Test};
use crate::cx::Cx;
use crate::error::Error;
use crate::value::{Args, Dict, Obj, UndefinedKind, quote};
use crate::{arith, escape, ops, stack};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

impl Cx {
    pub(super) fn eval(&mut self, scope: &Scope, expr: &Expr) -> Result<Obj> {
        self.charge(1)?;
        match &expr.kind {
            ExprKind::Const(value) => Ok(value.clone()),
            ExprKind::Name(name) => Ok(match scope.lookup(name) {
                Some(value) => value,
                None => self.missing(UndefinedKind::Name(name.clone())),
            }),
            ExprKind::Attr(value, name) => {
                let value = self.eval(scope, value)?;
                ops::get_attr(self, &value, name)
            }
            ExprKind::Item(value, key) => {
                let value = self.eval(scope, value)?;
                let key = self.eval(scope, key)?;
                ops::get_item(self, &value, &key)
            }
            _ => self.eval_deeper(scope, expr),
        }
    }

    #[inline(never)]
    fn eval_deeper(&mut self, scope: &Scope, expr: &Expr) -> Result<Obj> {
        if stack::exceeded(self.stack, self.env.options.max_stack) {
            return Err(Error::limit("the template calls itself too deeply"));
        }
        match &expr.kind {
            ExprKind::Call(call) => self.eval_call(scope, call, None),
            ExprKind::Filter(filter) => self.eval_filter(scope, filter),
            ExprKind::Test(test) => self.eval_test(scope, test).map(Obj::Bool),
            ExprKind::Not(inner) => Ok(Obj::Bool(!self.eval(scope, inner)?.truthy()?)),
            ExprKind::And(parts) => self.eval_logic(scope, parts, false),
            ExprKind::Or(parts) => self.eval_logic(scope, parts, true),
            ExprKind::Compare(first, rest) => self.eval_compare(scope, first, rest),
            ExprKind::Bin(op, left, right) => {
                let left = self.eval(scope, left)?;
                let right = self.eval(scope, right)?;
                arith::binary(self, *op, &left, &right)
            }
            ExprKind::Neg(inner) => arith::negative(&self.eval(scope, inner)?),
            ExprKind::Pos(inner) => arith::positive(&self.eval(scope, inner)?),
            ExprKind::Concat(parts) => self.eval_concat(scope, parts),
            ExprKind::Cond(cond) => self.eval_cond(scope, cond, expr.line),
            ExprKind::Tuple(items) => Ok(Obj::tuple(self.eval_all(scope, items)?)),
            ExprKind::List(items) => Ok(Obj::list(self.eval_all(scope, items)?)),
            ExprKind::Dict(items) => self.eval_dict(scope, items),
            ExprKind::Slice(value, bounds) => self.eval_slice(scope, value, bounds),
            ExprKind::Captured => Ok(self.captured.clone().unwrap_or(Obj::None)),
            ExprKind::Const(_) | ExprKind::Name(_) | ExprKind::Attr(..) | ExprKind::Item(..) => {
                self.eval(scope, expr)
            }
        }
    }

    fn eval_all(&mut self, scope: &Scope, items: &[Expr]) -> Result<Vec<Obj>> {
        items.iter().map(|item| self.eval(scope, item)).collect()
    }

    fn eval_dict(&mut self, scope: &Scope, items: &[(Expr, Expr)]) -> Result<Obj> {
        let mut dict = Dict::with_capacity(items.len());
        for (key, value) in items {
            let key = self.eval(scope, key)?;
            let value = self.eval(scope, value)?;
            dict.insert(key, value)?;
        }
        Ok(Obj::dict(dict))
    }

    fn eval_slice(
        &mut self,
        scope: &Scope,
        value: &Expr,
        bounds: &[Option<Expr>; 3],
    ) -> Result<Obj> {
        let value = self.eval(scope, value)?;
        let mut found = [Obj::None, Obj::None, Obj::None];
        for (slot, bound) in found.iter_mut().zip(bounds) {
            if let Some(bound) = bound {
                *slot = self.eval(scope, bound)?;
            }
        }
        let [start, stop, step] = &found;
        ops::slice(self, &value, start, stop, step)
    }

    /// `or` returns the first true value, `and` the first false one, else the last.
    fn eval_logic(&mut self, scope: &Scope, parts: &[Expr], until: bool) -> Result<Obj> {
        let Some((last, init)) = parts.split_last() else {
            return Ok(Obj::None);
        };
        for part in init {
            let value = self.eval(scope, part)?;
            if value.truthy()? == until {
                return Ok(value);
            }
        }
        self.eval(scope, last)
    }

    fn eval_compare(
        &mut self,
        scope: &Scope,
        first: &Expr,
        rest: &[(Comparison, Expr)],
    ) -> Result<Obj> {
        let mut left = self.eval(scope, first)?;
        for (comparison, right) in rest {
            let right = self.eval(scope, right)?;
            let holds = match comparison {
                Comparison::Eq => left.equals(&right)?,
                Comparison::Ne => !left.equals(&right)?,
                Comparison::Order(op) => left.compare(*op, &right)?,
                Comparison::In => ops::contains(self, &right, &left)?,
                Comparison::NotIn => !ops::contains(self, &right, &left)?,
            };
            if !holds {
                return Ok(Obj::Bool(false));
            }
            left = right;
        }
        Ok(Obj::Bool(true))
    }

    fn eval_concat(&mut self, scope: &Scope, parts: &[Expr]) -> Result<Obj> {
        let values = self.eval_all(scope, parts)?;
        let markup = self.autoescape && values.iter().any(|v| matches!(v, Obj::Markup(_)));
        let mut out = String::new();
        for value in &values {
            match value {
                Obj::Str(text) if !markup => out.push_str(text),
                Obj::Markup(text) => out.push_str(text),
                _ if markup => out.push_str(&escape(&value.to_str()?)),
                _ => out.push_str(&value.to_str()?),
            }
            self.check_size(out.len())?;
        }
        Ok(if markup {
            Obj::Markup(out.into())
        } else {
            Obj::from(out)
        })
    }

    fn eval_cond(&mut self, scope: &Scope, cond: &Cond, line: usize) -> Result<Obj> {
        if self.eval(scope, &cond.test)?.truthy()? {
            return self.eval(scope, &cond.then);
        }
        if let Some(otherwise) = &cond.otherwise {
            return self.eval(scope, otherwise);
        }
        let position = scope.template.position(line);
        // Lenient even if undefined values are strict.
        Ok(Obj::Undefined(Rc::new(crate::value::Undefined {
            strict: false,
            what: UndefinedKind::Hint(format!(
                "the inline if-expression on {position} evaluated to false and no else \
                     section was defined."
            )),
        })))
    }

    pub(super) fn eval_args(&mut self, scope: &Scope, args: &CallArgs) -> Result<Args> {
        let mut found = Args {
            positional: self.eval_all(scope, &args.positional)?,
            keyword: Vec::new(),
        };
        for (name, value) in &args.keyword {
            found.keyword.push((name.clone(), self.eval(scope, value)?));
        }
        if let Some(star) = &args.star {
            let more = self.eval(scope, star)?;
            if matches!(
                more,
                Obj::None | Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_)
            ) {
                return Err(Error::type_error(format!(
                    "Value after * must be an iterable, not {}",
                    more.type_name()
                )));
            }
            found.positional.extend(self.iterate(&more)?);
        }
        if let Some(star_star) = &args.star_star {
            let more = self.eval(scope, star_star)?;
            self.spread(&more, &mut found)?;
        }
        Ok(found)
    }

    /// Adds `**kwargs`.
    fn spread(&mut self, more: &Obj, found: &mut Args) -> Result<()> {
        let Obj::Dict(dict) = more else {
            if let Obj::Undefined(missing) = more {
                return Err(missing.error());
            }
            return Err(Error::type_error(format!(
                "argument after ** must be a mapping, not {}",
                more.type_name()
            )));
        };
        for (key, value) in dict.borrow().iter() {
            let Some(name) = key.as_shared_str() else {
                return Err(Error::type_error("keywords must be strings"));
            };
            if found.named(name).is_some() {
                return Err(Error::type_error(format!(
                    "got multiple values for keyword argument '{name}'"
                )));
            }
            found.push_named(name.clone(), value.clone());
        }
        Ok(())
    }

    fn eval_filter(&mut self, scope: &Scope, filter: &Filter) -> Result<Obj> {
        let Some(function) = filter.function else {
            return Err(unknown("filter", &filter.name));
        };
        let value = self.eval(scope, &filter.value)?;
        let args = self.eval_args(scope, &filter.args)?;
        function(self, &value, &args)
    }

    fn eval_test(&mut self, scope: &Scope, test: &Test) -> Result<bool> {
        let Some(function) = test.function else {
            return Err(unknown("test", &test.name));
        };
        let value = self.eval(scope, &test.value)?;
        let args = self.eval_args(scope, &test.args)?;
        function(self, &value, &args)
    }
}

fn unknown(kind: &str, name: &str) -> Error {
    Error::runtime(format!("No {kind} named {} found.", quote(name)))
}

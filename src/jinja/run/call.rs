//! Calls of functions, methods and macros.

use super::Scope;
use super::objects::{MacroObject, ShowFullContext};
use crate::ast::{Call, ExprKind};
use crate::cx::Cx;
use crate::error::Error;
use crate::methods;
use crate::value::{Args, Dict, Obj, quote};
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

impl Cx {
    /// Evaluates a call; `caller` is the body of a call block.
    pub(super) fn eval_call(
        &mut self,
        scope: &Scope,
        call: &Call,
        caller: Option<Obj>,
    ) -> Result<Obj> {
        if let ExprKind::Attr(value, name) = &call.function.kind {
            let value = self.eval(scope, value)?;
            // Methods are called directly, without creating a bound method.
            if matches!(value, Obj::Native(_)) || methods::has(&value, name) {
                let args = self.call_args(scope, call, caller)?;
                return self.call_method(&value, name, &args);
            }
            let function = self.get_attr(&value, name)?;
            let args = self.call_args(scope, call, caller)?;
            return self.call_in(scope, &function, &args);
        }
        let function = self.eval(scope, &call.function)?;
        let args = self.call_args(scope, call, caller)?;
        self.call_in(scope, &function, &args)
    }

    fn call_args(&mut self, scope: &Scope, call: &Call, caller: Option<Obj>) -> Result<Args> {
        let mut args = self.eval_args(scope, &call.args)?;
        if let Some(caller) = caller {
            args.push_named("caller", caller);
        }
        Ok(args)
    }

    fn call_in(&mut self, scope: &Scope, function: &Obj, args: &Args) -> Result<Obj> {
        if function.downcast::<ShowFullContext>().is_some() {
            let all: Dict = scope.all().into_iter().collect();
            return Ok(super::objects::simple_types(&all));
        }
        self.call(function, args)
    }

    /// Runs a macro.
    pub(super) fn call_macro(&mut self, object: &MacroObject, args: &Args) -> Result<Obj> {
        let node = object.node.clone();
        let name = node.name.as_deref();
        let mut scope = object.scope.inner();
        scope.extended = None;
        let mut rest = args.clone();
        let taken = rest.positional.len().min(node.params.len());
        let more = rest.positional.split_off(taken);
        let mut given = rest.positional.into_iter();
        let mut keyword = rest.keyword;
        let explicit_caller = node.params.iter().any(|(n, _)| n.as_ref() == "caller");
        let mut values = Vec::with_capacity(node.params.len());
        for (param, _) in &node.params {
            values.push(match given.next() {
                Some(value) => Some(value),
                None => take(&mut keyword, param),
            });
        }
        if node.uses.caller && !explicit_caller {
            let caller = match take(&mut keyword, "caller") {
                Some(caller) if !caller.is_none() => caller,
                _ => self.undefined("No caller defined"),
            };
            scope.assign(&"caller".into(), caller);
        }
        if node.uses.kwargs {
            let dict: Dict = keyword.into_iter().collect();
            scope.assign(&"kwargs".into(), Obj::dict(dict));
        } else if let Some((first, _)) = keyword.first() {
            return Err(unknown_keyword(name, &keyword, first));
        }
        if node.uses.varargs {
            scope.assign(&"varargs".into(), Obj::tuple(more));
        } else if !more.is_empty() {
            return Err(Error::type_error(format!(
                "macro {} takes not more than {} argument(s)",
                macro_name(name),
                node.params.len()
            )));
        }
        self.bind_params(&scope, &node, values)?;
        let before = std::mem::replace(&mut self.autoescape, object.autoescape);
        let mut text = String::new();
        let result = self.exec(&scope, &node.body, &mut text);
        self.autoescape = before;
        result?;
        Ok(if object.autoescape {
            Obj::Markup(text.into())
        } else {
            Obj::from(text)
        })
    }

    /// Binds parameters in order; a default sees the parameters before it.
    fn bind_params(
        &mut self,
        scope: &Scope,
        node: &Rc<crate::ast::Macro>,
        values: Vec<Option<Obj>>,
    ) -> Result<()> {
        for ((param, default), value) in node.params.iter().zip(values) {
            let value = match (value, default) {
                (Some(value), _) => value,
                (None, Some(default)) => {
                    let result = self.eval(scope, default);
                    self.located(scope, node.line, result)?
                }
                (None, None) => {
                    self.undefined(format!("parameter {} was not provided", quote(param)))
                }
            };
            scope.assign(param, value);
        }
        Ok(())
    }
}

fn take(keyword: &mut Vec<(Rc<str>, Obj)>, name: &str) -> Option<Obj> {
    let at = keyword.iter().position(|(key, _)| key.as_ref() == name)?;
    Some(keyword.remove(at).1)
}

fn macro_name(name: Option<&str>) -> String {
    name.map_or_else(|| "None".to_owned(), quote)
}

fn unknown_keyword(name: Option<&str>, keyword: &[(Rc<str>, Obj)], first: &str) -> Error {
    let name = macro_name(name);
    if keyword.iter().any(|(key, _)| key.as_ref() == "caller") {
        return Error::type_error(format!(
            "macro {name} was invoked with two values for the special caller argument. This is \
             most likely a bug."
        ));
    }
    Error::type_error(format!(
        "macro {name} takes no keyword argument {}",
        quote(first)
    ))
}

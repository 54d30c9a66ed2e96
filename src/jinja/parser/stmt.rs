//! Statements.

use super::Parser;
use crate::ast::{Body, Expr, ExprKind, For, Macro, Param, Stmt, Target, Uses};
use crate::error::Error;
use crate::lexer::Tok;
use crate::value::quote;
use std::rc::Rc;

impl Parser {
    /// Parses statements up to one of the names in `ends`, which stays the current token; without names, up to the end
    /// of the template.
    pub(super) fn subparse(
        &mut self,
        ends: Option<&'static [&'static str]>,
    ) -> Result<Body, Error> {
        self.check_stack()?;
        self.ends.extend(ends);
        let mut body = Vec::new();
        loop {
            match self.current().clone() {
                Tok::Data(text) => {
                    self.next();
                    body.push(Stmt::Data(text));
                }
                Tok::VariableBegin => {
                    self.next();
                    body.push(Stmt::Print(self.tuple(true, false)?));
                    self.expect_tok(&Tok::VariableEnd)?;
                }
                Tok::BlockBegin => {
                    self.next();
                    let at_end = match (ends, self.current()) {
                        (Some(ends), Tok::Name(name)) => ends.contains(&name.as_ref()),
                        _ => false,
                    };
                    if at_end {
                        break;
                    }
                    self.statement(&mut body)?;
                    self.expect_tok(&Tok::BlockEnd)?;
                }
                // The end, or a tag that ends an enclosing body.
                _ => break,
            }
        }
        if *self.current() == Tok::Eof && ends.is_some() {
            return self.fail_open(None, self.line());
        }
        if ends.is_some() {
            self.ends.pop();
        }
        Ok(body)
    }

    /// The body of a statement: `%}`, statements, and one of the names in `ends`.
    pub(super) fn body(&mut self, ends: &'static [&'static str]) -> Result<Body, Error> {
        self.skip_op(":");
        self.expect_tok(&Tok::BlockEnd)?;
        self.subparse(Some(ends))
    }

    /// A body with only one possible end, which is skipped.
    pub(super) fn whole_body(&mut self, end: &'static [&'static str]) -> Result<Body, Error> {
        let body = self.body(end)?;
        self.next();
        Ok(body)
    }

    /// Parses in a new scope, in which unknown filters are immediate errors.
    pub(super) fn scoped<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let soft = std::mem::replace(&mut self.soft, false);
        self.inner += 1;
        let result = parse(self);
        self.inner -= 1;
        self.soft = soft;
        result
    }

    fn statement(&mut self, body: &mut Body) -> Result<(), Error> {
        let line = self.line();
        let Tok::Name(tag) = self.current().clone() else {
            return self.fail("tag name expected");
        };
        self.tags.push(tag.clone());
        match tag.as_ref() {
            "for" => body.push(self.for_stmt()?),
            "if" => body.push(self.if_stmt()?),
            "block" => body.push(self.block_stmt()?),
            "extends" => body.push(self.extends_stmt()?),
            "print" => self.print_stmt(body)?,
            "macro" => body.push(self.macro_stmt()?),
            "include" => body.push(self.include_stmt()?),
            "from" => body.push(self.import_names_stmt()?),
            "import" => body.push(self.import_stmt(None)?),
            "set" => body.push(self.set_stmt()?),
            "with" => body.push(self.with_stmt()?),
            "autoescape" => body.push(self.autoescape_stmt()?),
            "call" => body.push(self.call_stmt()?),
            "filter" => body.push(self.filter_stmt()?),
            "do" => {
                let line = self.next();
                let mut expr = self.tuple(true, false)?;
                expr.line = line;
                body.push(Stmt::Do(expr));
            }
            "break" | "continue" => {
                self.next();
                if self.loops == 0 {
                    return self.fail_at(format!("'{tag}' outside loop"), line);
                }
                body.push(match tag.as_ref() {
                    "break" => Stmt::Break,
                    _ => Stmt::Continue,
                });
            }
            "load_yaml" | "load_json" | "load_text" => body.push(self.load_stmt(&tag)?),
            "import_yaml" => body.push(self.import_stmt(Some("load_yaml"))?),
            "import_json" => body.push(self.import_stmt(Some("load_json"))?),
            "import_text" => body.push(self.import_stmt(Some("load_text"))?),
            "profile" => self.profile_stmt(body)?,
            _ => {
                self.tags.pop();
                return self.fail_open(Some(&tag), line);
            }
        }
        self.tags.pop();
        Ok(())
    }

    /// The target of an assignment: a name, a namespace attribute if allowed, or several of them separated by commas.
    fn target(&mut self, with_namespace: bool) -> Result<Target, Error> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            if self.is_tuple_end() {
                break;
            }
            items.push(self.target_item(with_namespace)?);
            if !self.is_op(",") {
                break;
            }
            is_tuple = true;
        }
        if !is_tuple {
            return match items.pop() {
                Some(only) => Ok(only),
                None => {
                    let got = quote(&self.current().to_string());
                    self.fail(format!("Expected an expression, got {got}"))
                }
            };
        }
        Ok(Target::Tuple(items))
    }

    fn target_item(&mut self, with_namespace: bool) -> Result<Target, Error> {
        self.check_stack()?;
        let line = self.line();
        if self.is_op("(") {
            self.next();
            let inner = if self.is_op(")") {
                Target::Tuple(Vec::new())
            } else {
                self.target(false)?
            };
            self.expect_op(")")?;
            return Ok(inner);
        }
        if let Tok::Name(name) = self.current().clone()
            && with_namespace
            && *self.peek() == Tok::Op(".")
        {
            self.next();
            self.next();
            return Ok(Target::Attr(name, self.expect_any_name()?));
        }
        let node = self.primary()?;
        let what = match node.kind {
            ExprKind::Name(name) => {
                if name.as_ref() == "loop" {
                    self.loop_stores += 1;
                }
                return Ok(Target::Name(name));
            }
            ExprKind::List(_) => "list",
            ExprKind::Dict(_) => "dict",
            _ => "const",
        };
        self.fail_at(format!("can't assign to '{what}'"), line)
    }

    /// Parses a name as the only target.
    pub(super) fn target_name(&mut self) -> Result<Rc<str>, Error> {
        let line = self.line();
        let name = self.expect_any_name()?;
        if matches!(
            name.as_ref(),
            "true" | "false" | "none" | "True" | "False" | "None"
        ) {
            return self.fail_at("can't assign to 'name'", line);
        }
        if name.as_ref() == "loop" {
            self.loop_stores += 1;
        }
        Ok(name)
    }

    fn set_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let target = self.target(true)?;
        if self.skip_op("=") {
            let value = self.tuple(true, false)?;
            return Ok(Stmt::Set(target, value, line));
        }
        let filter = if self.is_op("|") {
            Some(self.captured_filters()?)
        } else {
            None
        };
        let body = self.scoped(|p| p.whole_body(&["endset"]))?;
        Ok(Stmt::SetBlock(target, filter, body, line))
    }

    /// `| a | b`, applied to the captured text.
    fn captured_filters(&mut self) -> Result<Expr, Error> {
        let line = self.line();
        let mut node = self.expr(ExprKind::Captured, line, 0)?;
        while self.skip_op("|") {
            node = self.filter(node)?;
        }
        Ok(node)
    }

    fn for_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let stores = self.loop_stores;
        let target = self.target(false)?;
        self.expect_name("in")?;
        let mut iter = self.tuple(false, false)?;
        iter.line = line;
        self.scoped(|p| {
            let test = if p.skip_name("if") {
                Some(p.expression(true)?)
            } else {
                None
            };
            let recursive = p.skip_name("recursive");
            let seen = p.seen.looped;
            let blocks = p.blocks.len();
            p.loops += 1;
            let body = p.body(&["endfor", "else"]);
            p.loops -= 1;
            let body = body?;
            let scoped_block = p.blocks[blocks..].iter().any(|block| block.scoped);
            let uses_loop = recursive || p.seen.looped > seen || scoped_block;
            // Uses of `loop` in the body do not count for an enclosing loop.
            p.seen.looped = seen;
            let otherwise = if p.is_name("else") {
                p.next();
                p.whole_body(&["endfor"])?
            } else {
                p.next();
                Vec::new()
            };
            if p.loop_stores > stores {
                return p.fail_at(
                    "Can't assign to special loop variable in for-loop target",
                    line,
                );
            }
            Ok(Stmt::For(Rc::new(For {
                target,
                iter,
                test,
                body,
                otherwise,
                recursive,
                uses_loop,
            })))
        })
    }

    fn if_stmt(&mut self) -> Result<Stmt, Error> {
        let soft = std::mem::replace(&mut self.soft, true);
        let result = self.if_branches();
        self.soft = soft;
        result
    }

    fn if_branches(&mut self) -> Result<Stmt, Error> {
        let mut line = self.next();
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let mut test = self.tuple(false, false)?;
            test.line = line;
            branches.push((test, self.body(&["elif", "else", "endif"])?));
            let is_elif = self.is_name("elif");
            let is_else = self.is_name("else");
            self.next();
            if is_elif {
                line = self.line();
                continue;
            }
            if is_else {
                otherwise = self.whole_body(&["endif"])?;
            }
            return Ok(Stmt::If(branches, otherwise));
        }
    }

    fn with_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let mut targets = Vec::new();
        while *self.current() != Tok::BlockEnd {
            if !targets.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.with_target()?;
            self.expect_op("=")?;
            let mut value = self.expression(true)?;
            value.line = line;
            targets.push((target, value));
        }
        let body = self.scoped(|p| p.whole_body(&["endwith"]))?;
        Ok(Stmt::With(targets, body))
    }

    fn with_target(&mut self) -> Result<Target, Error> {
        // The target may be a tuple without parentheses: `with a, b = pair`.
        self.target(false)
    }

    fn autoescape_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let mut value = self.expression(true)?;
        value.line = line;
        let body = self.scoped(|p| p.whole_body(&["endautoescape"]))?;
        Ok(Stmt::Autoescape(value, body))
    }

    fn signature(&mut self) -> Result<Vec<Param>, Error> {
        self.expect_op("(")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.is_op(")") {
            if !params.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.target_name()?;
            let default = if self.skip_op("=") {
                Some(self.expression(true)?)
            } else {
                None
            };
            if default.is_none() && params.last().is_some_and(|(_, d)| d.is_some()) {
                return self.fail("non-default argument follows default argument");
            }
            if params.iter().any(|(seen, _)| *seen == name) {
                return self.fail(format!(
                    "duplicate argument {} in function definition",
                    quote(&name)
                ));
            }
            params.push((name, default));
        }
        self.expect_op(")")?;
        Ok(params)
    }

    fn macro_body(
        &mut self,
        name: Option<Rc<str>>,
        params: Vec<Param>,
        end: &'static [&'static str],
        line: usize,
    ) -> Result<Macro, Error> {
        let seen = self.seen;
        let loops = std::mem::replace(&mut self.loops, 0);
        let body = self.scoped(|p| p.whole_body(end));
        self.loops = loops;
        let body = body?;
        let has = |wanted: &str| params.iter().any(|(name, _)| name.as_ref() == wanted);
        let caller = self.seen.caller > seen.caller;
        let bare_caller = params
            .iter()
            .any(|(name, default)| name.as_ref() == "caller" && default.is_none());
        if caller && bare_caller {
            return self.fail_at(
                "When defining macros or call blocks the special \"caller\" argument must be \
                 omitted or be given a default.",
                line,
            );
        }
        let uses = Uses {
            varargs: self.seen.varargs > seen.varargs && !has("varargs"),
            kwargs: self.seen.kwargs > seen.kwargs && !has("kwargs"),
            caller,
        };
        Ok(Macro {
            name,
            params,
            body,
            uses,
            line,
        })
    }

    fn macro_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let name = self.target_name()?;
        let params = self.signature()?;
        let node = self.macro_body(Some(name), params, &["endmacro"], line)?;
        Ok(Stmt::Macro(Rc::new(node)))
    }

    fn call_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let params = if self.is_op("(") {
            self.signature()?
        } else {
            Vec::new()
        };
        let call = self.expression(true)?;
        let ExprKind::Call(call) = call.kind else {
            return self.fail_at("expected call", line);
        };
        let node = self.macro_body(None, params, &["endcall"], line)?;
        Ok(Stmt::CallBlock(call, Rc::new(node), line))
    }

    fn filter_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let captured = self.expr(ExprKind::Captured, line, 0)?;
        let mut node = self.filter(captured)?;
        while self.skip_op("|") {
            node = self.filter(node)?;
        }
        node.line = line;
        let body = self.scoped(|p| p.whole_body(&["endfilter"]))?;
        Ok(Stmt::FilterBlock(node, body))
    }

    /// `{% load_yaml as name %}...{% endload %}` (`salt/utils/jinja.py SerializerExtension`).
    fn load_stmt(&mut self, tag: &str) -> Result<Stmt, Error> {
        let line = self.next();
        self.expect_name("as")?;
        let target = self.target(false)?;
        let filter = self.filter_of_captured(tag, line)?;
        let loops = std::mem::replace(&mut self.loops, 0);
        let body = self.scoped(|p| p.whole_body(&["endload"]));
        self.loops = loops;
        Ok(Stmt::Load(target, filter, body?, line))
    }

    /// `{% profile as label %}...{% endprofile %}`: only the body is used; nothing is measured.
    fn profile_stmt(&mut self, body: &mut Body) -> Result<(), Error> {
        let line = self.next();
        self.expect_name("as")?;
        let mut label = self.expression(true)?;
        label.line = line;
        body.push(Stmt::Do(label));
        body.append(&mut self.whole_body(&["endprofile"])?);
        Ok(())
    }
}

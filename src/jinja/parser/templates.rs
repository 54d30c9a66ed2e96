//! Statements that refer to other templates: blocks, `extends`, `include`, `import`.

use super::Parser;
use crate::ast::{Block, Body, CallArgs, Expr, ExprKind, Filter, Import, Include, Stmt};
use crate::error::Error;
use crate::filters;
use crate::lexer::Tok;
use crate::value::quote;
use std::rc::Rc;

impl Parser {
    pub(super) fn block_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let name = self.expect_any_name()?;
        let scoped = self.skip_name("scoped");
        let required = self.skip_name("required");
        if self.is_op("-") {
            return self.fail(
                "Block names in Jinja have to be valid Python identifiers and may not contain \
                 hyphens, use an underscore instead.",
            );
        }
        if self.blocks.iter().any(|block| block.name == name) {
            return self.fail_at(format!("block {} defined twice", quote(&name)), line);
        }
        let seen = self.seen;
        let at = self.blocks.len();
        let loops = std::mem::replace(&mut self.loops, 0);
        let body = self.scoped(|p| p.whole_body(&["endblock"]));
        self.loops = loops;
        let body = body?;
        let blank = |stmt: &Stmt| {
            matches!(stmt, Stmt::Data(text)
                if text.chars().all(halite_wire::pytext::is_space))
        };
        if required && !body.iter().all(blank) {
            return self.fail("Required blocks can only contain comments or whitespace");
        }
        self.skip_name(&name);
        if self.blocks[at..].iter().any(|block| block.name == name) {
            return self.fail_at(format!("block {} defined twice", quote(&name)), line);
        }
        let block = Rc::new(Block {
            name,
            scoped,
            required,
            body,
            uses_self: self.seen.selfed > seen.selfed,
            uses_super: self.seen.supered > seen.supered,
        });
        // Names used in a block do not count for the code around it.
        self.seen = seen;
        self.blocks.push(block.clone());
        Ok(Stmt::Block(block, line))
    }

    pub(super) fn extends_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let mut template = self.expression(true)?;
        template.line = line;
        if self.inner > 0 {
            return self.fail_at("cannot use extend from a non top-level scope", line);
        }
        Ok(Stmt::Extends(template))
    }

    pub(super) fn print_stmt(&mut self, body: &mut Body) -> Result<(), Error> {
        self.next();
        let mut first = true;
        while *self.current() != Tok::BlockEnd {
            if !first {
                self.expect_op(",")?;
            }
            first = false;
            body.push(Stmt::Print(self.expression(true)?));
        }
        Ok(())
    }

    /// `with context`, `without context` or neither.
    pub(super) fn import_context(&mut self) -> Option<bool> {
        let with = self.is_name("with");
        if !(with || self.is_name("without")) || !self.peek_is_name("context") {
            return None;
        }
        self.next();
        self.next();
        Some(with)
    }

    pub(super) fn include_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let mut template = self.expression(true)?;
        template.line = line;
        let ignore_missing = self.is_name("ignore") && self.peek_is_name("missing");
        if ignore_missing {
            self.next();
            self.next();
        }
        let with_context = self.import_context().unwrap_or(true);
        Ok(Stmt::Include(Include {
            template,
            ignore_missing,
            with_context,
        }))
    }

    /// `{% import %}`, or with a filter, `{% import_yaml %}` and similar tags.
    pub(super) fn import_stmt(&mut self, filter: Option<&str>) -> Result<Stmt, Error> {
        let line = self.next();
        let mut template = self.expression(true)?;
        template.line = line;
        self.expect_name("as")?;
        let target = self.target_name()?;
        let with_context = self.import_context().unwrap_or(false);
        let filter = match filter {
            Some(name) => Some(self.filter_of_captured(name, line)?),
            None => None,
        };
        Ok(Stmt::Import(Import {
            template,
            target,
            with_context,
            filter,
            line,
        }))
    }

    pub(super) fn filter_of_captured(&mut self, name: &str, line: usize) -> Result<Expr, Error> {
        let value = self.expr(ExprKind::Captured, line, 0)?;
        let filter = Filter {
            value,
            name: name.into(),
            function: filters::find(name),
            args: CallArgs::default(),
        };
        self.expr(ExprKind::Filter(Box::new(filter)), line, 1)
    }

    pub(super) fn import_names_stmt(&mut self) -> Result<Stmt, Error> {
        let line = self.next();
        let mut template = self.expression(true)?;
        template.line = line;
        self.expect_name("import")?;
        let mut names: Vec<(Rc<str>, Rc<str>)> = Vec::new();
        let mut with_context;
        loop {
            if !names.is_empty() {
                self.expect_op(",")?;
            }
            if !matches!(self.current(), Tok::Name(_)) {
                self.expect_any_name()?;
            }
            with_context = self.import_context();
            if with_context.is_some() {
                break;
            }
            let name_line = self.line();
            let name = self.target_name()?;
            if name.starts_with('_') {
                return self.fail_at(
                    "names starting with an underline can not be imported",
                    name_line,
                );
            }
            let alias = if self.skip_name("as") {
                self.target_name()?
            } else {
                name.clone()
            };
            names.push((name, alias));
            with_context = self.import_context();
            if with_context.is_some() || !self.is_op(",") {
                break;
            }
        }
        let with_context = with_context.unwrap_or(false);
        Ok(Stmt::FromImport(template, names, with_context, line))
    }
}

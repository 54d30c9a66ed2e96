//! Expressions, from the lowest precedence to the highest.

use super::Parser;
use crate::ast::{BinOp, Call, CallArgs, Comparison, Cond, Expr, ExprKind, Filter, Test};
use crate::error::Error;
use crate::lexer::Tok;
use crate::value::{CmpOp, Obj, quote};
use crate::{filters, tests};
use std::rc::Rc;

fn deepest<'a>(parts: impl IntoIterator<Item = &'a Expr>) -> usize {
    parts.into_iter().map(|e| e.depth).max().unwrap_or(0)
}

fn args_depth(args: &CallArgs) -> usize {
    let named = args.keyword.iter().map(|(_, value)| value);
    deepest(
        args.positional
            .iter()
            .chain(named)
            .chain(&args.star)
            .chain(&args.star_star),
    )
}

impl Parser {
    pub(super) fn expression(&mut self, with_cond: bool) -> Result<Expr, Error> {
        self.check_stack()?;
        if with_cond { self.cond() } else { self.or() }
    }

    fn cond(&mut self) -> Result<Expr, Error> {
        let mut line = self.line();
        let before = self.soft;
        let mut then = self.or()?;
        while self.skip_name("if") {
            self.soft = true;
            let test = self.or();
            let test = test?;
            let otherwise = if self.skip_name("else") {
                self.check_stack()?;
                Some(self.cond()?)
            } else {
                None
            };
            self.soft = before;
            let depth = deepest([&then, &test].into_iter().chain(&otherwise));
            let kind = ExprKind::Cond(Box::new(Cond {
                test,
                then,
                otherwise,
            }));
            then = self.expr(kind, line, depth)?;
            line = self.line();
        }
        Ok(then)
    }

    fn or(&mut self) -> Result<Expr, Error> {
        let line = self.line();
        let first = self.and()?;
        if !self.is_name("or") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_name("or") {
            parts.push(self.and()?);
        }
        let depth = deepest(&parts);
        self.expr(ExprKind::Or(parts), line, depth)
    }

    fn and(&mut self) -> Result<Expr, Error> {
        let line = self.line();
        let first = self.not()?;
        if !self.is_name("and") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_name("and") {
            parts.push(self.not()?);
        }
        let depth = deepest(&parts);
        self.expr(ExprKind::And(parts), line, depth)
    }

    fn not(&mut self) -> Result<Expr, Error> {
        if !self.is_name("not") {
            return self.compare();
        }
        self.check_stack()?;
        let line = self.next();
        let inner = self.not()?;
        let depth = inner.depth;
        self.expr(ExprKind::Not(Box::new(inner)), line, depth)
    }

    fn compare(&mut self) -> Result<Expr, Error> {
        let mut line = self.line();
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison() {
            rest.push((comparison, self.sum()?));
            line = self.line();
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let depth = deepest(rest.iter().map(|(_, e)| e)).max(first.depth);
        self.expr(ExprKind::Compare(Box::new(first), rest), line, depth)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let found = match self.current() {
            Tok::Op("==") => Comparison::Eq,
            Tok::Op("!=") => Comparison::Ne,
            Tok::Op("<") => Comparison::Order(CmpOp::Lt),
            Tok::Op("<=") => Comparison::Order(CmpOp::Le),
            Tok::Op(">") => Comparison::Order(CmpOp::Gt),
            Tok::Op(">=") => Comparison::Order(CmpOp::Ge),
            Tok::Name(name) if name.as_ref() == "in" => Comparison::In,
            Tok::Name(name) if name.as_ref() == "not" && self.peek_is_name("in") => {
                self.next();
                Comparison::NotIn
            }
            _ => return None,
        };
        self.next();
        Some(found)
    }

    fn bin(&self, op: BinOp, left: Expr, right: Expr, line: usize) -> Result<Expr, Error> {
        let depth = deepest([&left, &right]);
        let kind = ExprKind::Bin(op, Box::new(left), Box::new(right));
        self.expr(kind, line, depth)
    }

    fn sum(&mut self) -> Result<Expr, Error> {
        let mut line = self.line();
        let mut left = self.concat()?;
        loop {
            let op = match self.current() {
                Tok::Op("+") => BinOp::Add,
                Tok::Op("-") => BinOp::Sub,
                _ => return Ok(left),
            };
            self.next();
            let right = self.concat()?;
            left = self.bin(op, left, right, line)?;
            line = self.line();
        }
    }

    fn concat(&mut self) -> Result<Expr, Error> {
        let line = self.line();
        let first = self.product()?;
        if !self.is_op("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_op("~") {
            parts.push(self.product()?);
        }
        let depth = deepest(&parts);
        self.expr(ExprKind::Concat(parts), line, depth)
    }

    fn product(&mut self) -> Result<Expr, Error> {
        let mut line = self.line();
        let mut left = self.power()?;
        loop {
            let op = match self.current() {
                Tok::Op("*") => BinOp::Mul,
                Tok::Op("/") => BinOp::Div,
                Tok::Op("//") => BinOp::FloorDiv,
                Tok::Op("%") => BinOp::Mod,
                _ => return Ok(left),
            };
            self.next();
            let right = self.power()?;
            left = self.bin(op, left, right, line)?;
            line = self.line();
        }
    }

    /// Powers are left-associative, unlike in Python.
    fn power(&mut self) -> Result<Expr, Error> {
        let mut line = self.line();
        let mut left = self.unary(true)?;
        while self.skip_op("**") {
            let right = self.unary(true)?;
            left = self.bin(BinOp::Pow, left, right, line)?;
            line = self.line();
        }
        Ok(left)
    }

    pub(super) fn unary(&mut self, with_filter: bool) -> Result<Expr, Error> {
        self.check_stack()?;
        let line = self.line();
        let node = if self.skip_op("-") {
            let inner = self.unary(false)?;
            let depth = inner.depth;
            self.expr(ExprKind::Neg(Box::new(inner)), line, depth)?
        } else if self.skip_op("+") {
            let inner = self.unary(false)?;
            let depth = inner.depth;
            self.expr(ExprKind::Pos(Box::new(inner)), line, depth)?
        } else {
            self.primary()?
        };
        let node = self.postfix(node)?;
        if with_filter {
            return self.filters_and_tests(node);
        }
        Ok(node)
    }

    pub(super) fn primary(&mut self) -> Result<Expr, Error> {
        let line = self.line();
        let kind = match self.current().clone() {
            Tok::Name(name) => {
                self.next();
                self.name_expr(name)
            }
            Tok::Str(text) => {
                self.next();
                ExprKind::Const(Obj::Str(self.adjacent(text)))
            }
            Tok::Int(value) => {
                self.next();
                ExprKind::Const(Obj::big(value))
            }
            Tok::Float(value) => {
                self.next();
                ExprKind::Const(Obj::Float(value))
            }
            Tok::Op("(") => {
                self.next();
                let inner = self.tuple(true, true)?;
                self.expect_op(")")?;
                return Ok(inner);
            }
            Tok::Op("[") => return self.list(),
            Tok::Op("{") => return self.dict(),
            other => {
                let got = quote(&other.to_string());
                return self.fail_at(format!("unexpected {got}"), line);
            }
        };
        self.expr(kind, line, 0)
    }

    /// Adjacent string literals are joined.
    fn adjacent(&mut self, first: Rc<str>) -> Rc<str> {
        if !matches!(self.current(), Tok::Str(_)) {
            return first;
        }
        let mut text = first.to_string();
        while let Tok::Str(more) = self.current() {
            text.push_str(more);
            self.next();
        }
        text.into()
    }

    fn name_expr(&mut self, name: Rc<str>) -> ExprKind {
        match name.as_ref() {
            "true" | "True" => return ExprKind::Const(Obj::Bool(true)),
            "false" | "False" => return ExprKind::Const(Obj::Bool(false)),
            "none" | "None" => return ExprKind::Const(Obj::None),
            "varargs" => self.seen.varargs += 1,
            "kwargs" => self.seen.kwargs += 1,
            "caller" => self.seen.caller += 1,
            "loop" => self.seen.looped += 1,
            "self" => self.seen.selfed += 1,
            "super" => self.seen.supered += 1,
            _ => {}
        }
        ExprKind::Name(name)
    }

    pub(super) fn is_tuple_end(&self) -> bool {
        matches!(
            self.current(),
            Tok::VariableEnd | Tok::BlockEnd | Tok::Op(")")
        )
    }

    /// One expression, or a tuple of several separated by commas.
    pub(super) fn tuple(&mut self, with_cond: bool, parenthesised: bool) -> Result<Expr, Error> {
        let mut line = self.line();
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            if self.is_tuple_end() {
                break;
            }
            items.push(self.expression(with_cond)?);
            if !self.is_op(",") {
                break;
            }
            is_tuple = true;
            line = self.line();
        }
        if !is_tuple {
            if let Some(only) = items.pop() {
                return Ok(only);
            }
            if !parenthesised {
                let got = quote(&self.current().to_string());
                return self.fail(format!("Expected an expression, got {got}"));
            }
        }
        let depth = deepest(&items);
        self.expr(ExprKind::Tuple(items), line, depth)
    }

    fn list(&mut self) -> Result<Expr, Error> {
        let line = self.expect_op("[")?;
        let mut items = Vec::new();
        while !self.is_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            if self.is_op("]") {
                break;
            }
            items.push(self.expression(true)?);
        }
        self.expect_op("]")?;
        let depth = deepest(&items);
        self.expr(ExprKind::List(items), line, depth)
    }

    fn dict(&mut self) -> Result<Expr, Error> {
        let line = self.expect_op("{")?;
        let mut items = Vec::new();
        while !self.is_op("}") {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            if self.is_op("}") {
                break;
            }
            let key = self.expression(true)?;
            self.expect_op(":")?;
            items.push((key, self.expression(true)?));
        }
        self.expect_op("}")?;
        let depth = deepest(items.iter().flat_map(|(key, value)| [key, value]));
        self.expr(ExprKind::Dict(items), line, depth)
    }

    pub(super) fn postfix(&mut self, mut node: Expr) -> Result<Expr, Error> {
        loop {
            node = match self.current() {
                Tok::Op(".") => self.attribute(node)?,
                Tok::Op("[") => self.subscript(node)?,
                Tok::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn filters_and_tests(&mut self, mut node: Expr) -> Result<Expr, Error> {
        loop {
            node = match self.current() {
                Tok::Op("|") => {
                    self.next();
                    self.filter(node)?
                }
                Tok::Name(name) if name.as_ref() == "is" => self.test(node)?,
                Tok::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn attribute(&mut self, node: Expr) -> Result<Expr, Error> {
        let line = self.next();
        let depth = node.depth;
        let found = self.current().clone();
        let found_line = self.next();
        let kind = match found {
            Tok::Name(name) => ExprKind::Attr(Box::new(node), name),
            Tok::Int(value) => {
                let index = self.expr(ExprKind::Const(Obj::big(value)), found_line, 0)?;
                ExprKind::Item(Box::new(node), Box::new(index))
            }
            _ => return self.fail_at("expected name or number", found_line),
        };
        self.expr(kind, line, depth)
    }

    fn subscript(&mut self, node: Expr) -> Result<Expr, Error> {
        let line = self.next();
        let mut keys = Vec::new();
        while !self.is_op("]") {
            if !keys.is_empty() {
                self.expect_op(",")?;
            }
            if let Some(slice) = self.slice_or_key(&mut keys)? {
                if self.is_op("]") && keys.is_empty() {
                    self.next();
                    let depth = deepest(slice.iter().flatten()).max(node.depth);
                    let kind = ExprKind::Slice(Box::new(node), Box::new(slice));
                    return self.expr(kind, line, depth);
                }
                return self.fail("slices within tuples are not supported");
            }
        }
        self.expect_op("]")?;
        let key = match keys.len() {
            1 => keys.remove(0),
            _ => {
                let depth = deepest(&keys);
                self.expr(ExprKind::Tuple(keys), line, depth)?
            }
        };
        let depth = deepest([&node, &key]);
        self.expr(ExprKind::Item(Box::new(node), Box::new(key)), line, depth)
    }

    /// Parses a key into `keys`, or returns a slice.
    fn slice_or_key(&mut self, keys: &mut Vec<Expr>) -> Result<Option<[Option<Expr>; 3]>, Error> {
        let start = if self.is_op(":") {
            None
        } else {
            Some(self.expression(true)?)
        };
        if !self.skip_op(":") {
            keys.extend(start);
            return Ok(None);
        }
        let stop = if self.is_op(":") || self.is_op("]") || self.is_op(",") {
            None
        } else {
            Some(self.expression(true)?)
        };
        let mut step = None;
        if self.skip_op(":") && !self.is_op("]") && !self.is_op(",") {
            step = Some(self.expression(true)?);
        }
        Ok(Some([start, stop, step]))
    }

    fn call(&mut self, function: Expr) -> Result<Expr, Error> {
        let line = self.line();
        let args = self.call_args()?;
        let depth = args_depth(&args).max(function.depth);
        self.expr(
            ExprKind::Call(Box::new(Call { function, args })),
            line,
            depth,
        )
    }

    fn call_args(&mut self) -> Result<CallArgs, Error> {
        const INVALID: &str = "invalid syntax for function call expression";
        let line = self.expect_op("(")?;
        let mut args = CallArgs::default();
        let mut first = true;
        while !self.is_op(")") {
            if !first {
                self.expect_op(",")?;
                if self.is_op(")") {
                    break;
                }
            }
            first = false;
            let starred = args.star.is_some() || args.star_star.is_some();
            if self.is_op("*") {
                if starred {
                    return self.fail_at(INVALID, line);
                }
                self.next();
                args.star = Some(self.expression(true)?);
            } else if self.is_op("**") {
                if args.star_star.is_some() {
                    return self.fail_at(INVALID, line);
                }
                self.next();
                args.star_star = Some(self.expression(true)?);
            } else if matches!(self.current(), Tok::Name(_)) && *self.peek() == Tok::Op("=") {
                if args.star_star.is_some() {
                    return self.fail_at(INVALID, line);
                }
                let key = self.expect_any_name()?;
                self.next();
                if args.keyword.iter().any(|(seen, _)| *seen == key) {
                    return self.fail_at(format!("keyword argument repeated: {key}"), line);
                }
                args.keyword.push((key, self.expression(true)?));
            } else {
                if starred || !args.keyword.is_empty() {
                    return self.fail_at(INVALID, line);
                }
                args.positional.push(self.expression(true)?);
            }
        }
        self.expect_op(")")?;
        Ok(args)
    }

    fn dotted_name(&mut self) -> Result<Rc<str>, Error> {
        let mut name = self.expect_any_name()?;
        while self.skip_op(".") {
            name = format!("{name}.{}", self.expect_any_name()?).into();
        }
        Ok(name)
    }

    /// Parses a filter, after its bar.
    pub(super) fn filter(&mut self, value: Expr) -> Result<Expr, Error> {
        let line = self.line();
        let name = self.dotted_name()?;
        let args = if self.is_op("(") {
            self.call_args()?
        } else {
            CallArgs::default()
        };
        let function = filters::find(&name);
        if function.is_none() && !self.soft {
            return self.fail_at(format!("No filter named {}.", quote(&name)), line);
        }
        let depth = args_depth(&args).max(value.depth);
        let filter = Filter {
            value,
            name,
            function,
            args,
        };
        self.expr(ExprKind::Filter(Box::new(filter)), line, depth)
    }

    fn test(&mut self, value: Expr) -> Result<Expr, Error> {
        let line = self.next();
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let args = if self.is_op("(") {
            self.call_args()?
        } else if self.begins_operand() {
            if self.is_name("is") {
                return self.fail("You cannot chain multiple tests with is");
            }
            let operand = self.primary()?;
            CallArgs {
                positional: vec![self.postfix(operand)?],
                ..CallArgs::default()
            }
        } else {
            CallArgs::default()
        };
        let function = tests::find(&name);
        if function.is_none() && !self.soft {
            return self.fail_at(format!("No test named {}.", quote(&name)), line);
        }
        let depth = args_depth(&args).max(value.depth);
        let test = Test {
            value,
            name,
            function,
            args,
        };
        let test = self.expr(ExprKind::Test(Box::new(test)), line, depth)?;
        if !negated {
            return Ok(test);
        }
        let depth = test.depth;
        self.expr(ExprKind::Not(Box::new(test)), line, depth)
    }

    /// Whether the operand of a test without parentheses starts here.
    fn begins_operand(&self) -> bool {
        match self.current() {
            Tok::Name(name) => !matches!(name.as_ref(), "else" | "or" | "and"),
            Tok::Str(_) | Tok::Int(_) | Tok::Float(_) | Tok::Op("(" | "[" | "{") => true,
            _ => false,
        }
    }
}

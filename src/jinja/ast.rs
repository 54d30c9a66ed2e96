//! Parsed templates.

use super::value::Obj;
use super::{FilterFn, TestFn};
use std::rc::Rc;

/// A parsed template.
pub struct Template {
    /// Its name in messages.
    pub name: Rc<str>,
    /// Whether messages omit its name: true for the template that is rendered, since Jinja gets it as text.
    pub anonymous: bool,
    /// Its source text, for messages.
    pub source: Rc<str>,
    /// Its statements.
    pub body: Body,
    /// Its blocks.
    pub blocks: Vec<Rc<Block>>,
    /// Whether the variable `self` is used outside of blocks.
    pub uses_self: bool,
}

impl Template {
    /// A line of it, as text for a message.
    pub fn position(&self, line: usize) -> String {
        if self.anonymous {
            format!("line {line}")
        } else {
            format!("line {line} in {}", super::value::quote(&self.name))
        }
    }
}

/// Statements in order.
pub type Body = Vec<Stmt>;

/// An expression and its line.
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Line, from 1.
    pub line: usize,
    /// Nesting depth of the expressions inside it.
    pub depth: usize,
}

/// The kind of an expression.
pub enum ExprKind {
    /// A literal.
    Const(Obj),
    /// A variable.
    Name(Rc<str>),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{a: b}`
    Dict(Vec<(Expr, Expr)>),
    /// `a.b`
    Attr(Box<Expr>, Rc<str>),
    /// `a[b]`
    Item(Box<Expr>, Box<Expr>),
    /// `a[b:c:d]`
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    /// `a(b)`
    Call(Box<Call>),
    /// `a | b`
    Filter(Box<Filter>),
    /// `a is b`
    Test(Box<Test>),
    /// `not a`
    Not(Box<Expr>),
    /// `-a`
    Neg(Box<Expr>),
    /// `+a`
    Pos(Box<Expr>),
    /// `a and b and c`
    And(Vec<Expr>),
    /// `a or b or c`
    Or(Vec<Expr>),
    /// `a + b`
    Bin(BinOp, Box<Expr>, Box<Expr>),
    /// `a ~ b ~ c`
    Concat(Vec<Expr>),
    /// `a < b <= c`
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// `a if b else c`
    Cond(Box<Cond>),
    /// The text captured by a filter block or a block assignment.
    Captured,
}

/// `a if b else c`
pub struct Cond {
    /// `b`
    pub test: Expr,
    /// `a`
    pub then: Expr,
    /// `c`
    pub otherwise: Option<Expr>,
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`
    FloorDiv,
    /// `%`
    Mod,
    /// `**`
    Pow,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`, `<=`, `>` or `>=`
    Order(super::value::CmpOp),
    /// `in`
    In,
    /// `not in`
    NotIn,
}

/// Arguments of a call, a filter or a test.
#[derive(Default)]
pub struct CallArgs {
    /// By position.
    pub positional: Vec<Expr>,
    /// By name.
    pub keyword: Vec<(Rc<str>, Expr)>,
    /// `*args`
    pub star: Option<Expr>,
    /// `**kwargs`
    pub star_star: Option<Expr>,
}

/// `a(b)`
pub struct Call {
    /// `a`
    pub function: Expr,
    /// `b`
    pub args: CallArgs,
}

/// `a | b(c)`
pub struct Filter {
    /// `a`
    pub value: Expr,
    /// `b`
    pub name: Rc<str>,
    /// The function of `b`; `None` if it is unknown, which is an error only when it is reached.
    pub function: Option<FilterFn>,
    /// `c`
    pub args: CallArgs,
}

/// `a is b(c)`
pub struct Test {
    /// `a`
    pub value: Expr,
    /// `b`
    pub name: Rc<str>,
    /// The function of `b`; `None` if it is unknown.
    pub function: Option<TestFn>,
    /// `c`
    pub args: CallArgs,
}

/// The target of an assignment.
pub enum Target {
    /// A variable.
    Name(Rc<str>),
    /// An attribute of a namespace.
    Attr(Rc<str>, Rc<str>),
    /// Several targets.
    Tuple(Vec<Target>),
}

/// A statement.
pub enum Stmt {
    /// Text.
    Data(Rc<str>),
    /// `{{ expression }}`
    Print(Expr),
    /// `{% for %}`
    For(Rc<For>),
    /// `{% if %}`: branches in order, then the `else` body.
    If(Vec<(Expr, Body)>, Body),
    /// `{% set a = b %}`
    Set(Target, Expr, usize),
    /// `{% set a %}...{% endset %}`: the filter is applied to the captured text.
    SetBlock(Target, Option<Expr>, Body, usize),
    /// `{% load_yaml as a %}...{% endload %}`: target, filter, body.
    Load(Target, Expr, Body, usize),
    /// `{% macro %}`
    Macro(Rc<Macro>),
    /// `{% call %}`
    CallBlock(Box<Call>, Rc<Macro>, usize),
    /// `{% filter %}`
    FilterBlock(Expr, Body),
    /// `{% with %}`
    With(Vec<(Target, Expr)>, Body),
    /// `{% autoescape %}`
    Autoescape(Expr, Body),
    /// `{% do %}`
    Do(Expr),
    /// `{% include %}`
    Include(Include),
    /// `{% import a as b %}`
    Import(Import),
    /// `{% from a import b as c %}`
    FromImport(Expr, Vec<(Rc<str>, Rc<str>)>, bool, usize),
    /// `{% extends %}`
    Extends(Expr),
    /// `{% block %}`
    Block(Rc<Block>, usize),
    /// `{% break %}`
    Break,
    /// `{% continue %}`
    Continue,
}

/// `{% for %}`
pub struct For {
    /// Target of the assignment in each iteration.
    pub target: Target,
    /// The value to iterate over.
    pub iter: Expr,
    /// Condition for elements to be included.
    pub test: Option<Expr>,
    /// The body.
    pub body: Body,
    /// The `else` body, for an empty loop.
    pub otherwise: Body,
    /// Whether `loop(...)` can be called recursively.
    pub recursive: bool,
    /// Whether the variable `loop` is used.
    pub uses_loop: bool,
}

/// A parameter of a macro and its default.
pub type Param = (Rc<str>, Option<Expr>);

/// A macro, or the body of a call block.
pub struct Macro {
    /// Its name; `None` for a call block.
    pub name: Option<Rc<str>>,
    /// Parameters with their defaults.
    pub params: Vec<Param>,
    /// The body.
    pub body: Body,
    /// Whether it accepts further positional arguments, further keyword arguments, and a caller.
    pub uses: Uses,
    /// Line.
    pub line: usize,
}

/// Which special names a body uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// `varargs`
    pub varargs: bool,
    /// `kwargs`
    pub kwargs: bool,
    /// `caller`
    pub caller: bool,
}

/// `{% include %}`
pub struct Include {
    /// A name or a list of names.
    pub template: Expr,
    /// Whether a missing template is ignored.
    pub ignore_missing: bool,
    /// Whether it sees the current variables.
    pub with_context: bool,
}

/// `{% import %}`
pub struct Import {
    /// Name.
    pub template: Expr,
    /// The variable of the module.
    pub target: Rc<str>,
    /// Whether it sees the current variables.
    pub with_context: bool,
    /// The filter that parses its output: that of `import_yaml`, for example.
    pub filter: Option<Expr>,
    /// Line.
    pub line: usize,
}

/// `{% block %}`
pub struct Block {
    /// Its name.
    pub name: Rc<str>,
    /// Whether it sees the variables around it.
    pub scoped: bool,
    /// Whether a child template must override it.
    pub required: bool,
    /// The body.
    pub body: Body,
    /// Whether `self` is used.
    pub uses_self: bool,
    /// Whether `super` is used.
    pub uses_super: bool,
}

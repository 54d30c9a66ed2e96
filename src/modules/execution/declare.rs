//! How a module file declares its functions.
//!
//! Each module is one constant table of [`Function`]. Argument binding, `sys.doc`,
//! `sys.argspec` and dispatch all read these tables; there is no other way from a
//! name on the wire to code.

use super::{Call, CallError};
use halite_wire::{Map, Value};

/// What an execution function, or a step of one, returns.
pub type Result<T = Value, E = CallError> = std::result::Result<T, E>;

/// A default value that can stand in a constant table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lit {
    /// `None`.
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// Text.
    Str(&'static str),
    /// A list, or tuple, without members.
    Empty,
    /// The shell of the minion's environment, as the `shell` grain.
    Shell,
}

impl Lit {
    /// The same as a free-form value.
    pub fn value(self) -> Value {
        match self {
            Lit::Nil => Value::Nil,
            Lit::Bool(b) => b.into(),
            Lit::Int(i) => i.into(),
            Lit::Float(f) => Value::Float(f),
            Lit::Empty => Value::Array(Vec::new()),
            Lit::Str(s) => s.into(),
            Lit::Shell => crate::grains::default_shell().into(),
        }
    }
}

/// One named argument; without a default it is required.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Its name, usable as a keyword.
    pub name: &'static str,
    /// What it is when not given.
    pub default: Option<Lit>,
}

/// A required argument.
pub const fn req(name: &'static str) -> Arg {
    Arg {
        name,
        default: None,
    }
}

/// An argument with a default.
pub const fn opt(name: &'static str, default: Lit) -> Arg {
    Arg {
        name,
        default: Some(default),
    }
}

/// An argument list as Python writes one: `args![cwd, rev = "HEAD", force = False, user = None]`.
macro_rules! args {
    ($($name:ident $(= $default:tt)?),* $(,)?) => {
        &[$($crate::execution::declare::args!(@ $name $($default)?)),*]
    };
    (@ $name:ident) => { $crate::execution::declare::req(stringify!($name)) };
    (@ $name:ident None) => { $crate::execution::declare::args!(@@ $name, Nil) };
    (@ $name:ident True) => { $crate::execution::declare::args!(@@ $name, Bool(true)) };
    (@ $name:ident False) => { $crate::execution::declare::args!(@@ $name, Bool(false)) };
    (@ $name:ident {$number:literal}) => {
        $crate::execution::declare::args!(@@ $name, Int($number))
    };
    (@ $name:ident $text:literal) => { $crate::execution::declare::args!(@@ $name, Str($text)) };
    (@@ $name:ident, $($lit:tt)+) => {
        $crate::execution::declare::opt(
            stringify!($name),
            $crate::execution::declare::Lit::$($lit)+,
        )
    };
}
pub(in crate::execution) use args;

/// One execution function.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name inside the module.
    pub name: &'static str,
    /// The name that stock Salt shows in argument errors; differs where the
    /// public name is a Python keyword (`true` is `true_`).
    pub inner: &'static str,
    /// Named arguments, required ones first.
    pub args: &'static [Arg],
    /// Whether further positional arguments are taken (`*args`).
    pub varargs: bool,
    /// Whether named arguments can only be given by keyword.
    pub keyword_only: bool,
    /// Whether any keyword is taken (`**kwargs`); such functions also get `__pub_<key>`.
    pub keywords: bool,
    /// What it does, for `sys.doc` and argument errors.
    pub doc: &'static str,
    /// The code.
    pub run: fn(&mut Call<'_>) -> Result,
}

impl Function {
    /// A function without arguments.
    pub const fn new(
        name: &'static str,
        run: fn(&mut Call<'_>) -> Result,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            inner: name,
            args: &[],
            varargs: false,
            keyword_only: false,
            keywords: false,
            doc,
            run,
        }
    }

    /// With these named arguments.
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }

    /// Taking further positional arguments.
    pub const fn varargs(mut self) -> Self {
        self.varargs = true;
        self
    }

    /// Taking any keyword.
    pub const fn keywords(mut self) -> Self {
        self.keywords = true;
        self
    }

    /// With named arguments that can only be given by keyword.
    pub const fn keyword_only(mut self) -> Self {
        self.keyword_only = true;
        self
    }

    /// Shown in argument errors under another name.
    pub const fn inner(mut self, inner: &'static str) -> Self {
        self.inner = inner;
        self
    }

    /// Whether a keyword can be passed by that name.
    pub fn takes(&self, key: &str) -> bool {
        self.keywords || self.args.iter().any(|a| a.name == key)
    }
}

/// One module: its public name and its functions.
#[derive(Clone, Copy)]
pub struct Module {
    /// The part before the dot.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Function],
}

/// Modules of one name: a host has the first whose test its grains pass.
pub type ModulesByHost = &'static [(Module, fn(&Map) -> bool)];

//! Declarations of execution functions.
//!
//! Each module is one constant table of [`Function`]. Argument binding, `sys.doc`, `sys.argspec` and dispatch all
//! read these tables; a name on the wire reaches code only through them.

use super::{Call, CallError};
use halite_wire::{Map, Value};

/// The result of an execution function or of a part of one.
pub type Result<T = Value, E = CallError> = std::result::Result<T, E>;

/// A default value in a constant table.
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
    /// An empty list or tuple.
    Empty,
    /// Any value, of functions that are not ours.
    Value(&'static Value),
    /// The shell from the minion's environment, like the `shell` grain.
    Shell,
}

impl Lit {
    /// The value it stands for.
    pub fn value(self) -> Value {
        match self {
            Lit::Nil => Value::Nil,
            Lit::Bool(b) => b.into(),
            Lit::Int(i) => i.into(),
            Lit::Float(f) => Value::Float(f),
            Lit::Empty => Value::Array(Vec::new()),
            Lit::Str(s) => s.into(),
            Lit::Value(value) => value.clone(),
            Lit::Shell => crate::grains::default_shell().into(),
        }
    }
}

/// One named argument; without a default it is required.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Its name, usable as a keyword.
    pub name: &'static str,
    /// Its default.
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

/// An argument list in Python's notation: `args![cwd, rev = "HEAD", force = False, user = None]`.
#[macro_export]
macro_rules! args {
    ($($name:ident $(= $default:tt)?),* $(,)?) => {
        &[$($crate::args!(@ $name $($default)?)),*]
    };
    (@ $name:ident) => { $crate::execution::declare::req(stringify!($name)) };
    (@ $name:ident None) => { $crate::args!(@@ $name, Nil) };
    (@ $name:ident True) => { $crate::args!(@@ $name, Bool(true)) };
    (@ $name:ident False) => { $crate::args!(@@ $name, Bool(false)) };
    (@ $name:ident {$number:literal}) => {
        $crate::args!(@@ $name, Int($number))
    };
    (@ $name:ident $text:literal) => { $crate::args!(@@ $name, Str($text)) };
    (@@ $name:ident, $($lit:tt)+) => {
        $crate::execution::declare::opt(
            stringify!($name),
            $crate::execution::declare::Lit::$($lit)+,
        )
    };
}
pub use crate::args;

/// Whose a function in Python is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A user's file.
    User,
    /// An installed Salt's, named with its place: `Salt 3008.3 in /opt/salt`.
    Salt(&'static str),
}

/// One execution function.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name within the module.
    pub name: &'static str,
    /// The name in argument errors of stock Salt; differs where the public name is a Python keyword (`true` is
    /// `true_`).
    pub inner: &'static str,
    /// Named arguments, required ones first.
    pub args: &'static [Arg],
    /// Whether it accepts more positional arguments (`*args`).
    pub varargs: bool,
    /// Whether named arguments are keyword-only.
    pub keyword_only: bool,
    /// Whether it accepts any keyword (`**kwargs`); such functions also get `__pub_<key>`.
    pub keywords: bool,
    /// If it writes its arguments to a file of lines: those that may contain line breaks nevertheless.
    pub lines: Option<&'static [&'static str]>,
    /// Arguments that become words of a command line where they may not be taken for options.
    pub names: &'static [&'static str],
    /// Python runs it, with its arguments as they are: the code checks them itself.
    pub python: Option<Origin>,
    /// The outputter for its results (`__outputter__`).
    pub out: Option<&'static str>,
    /// Its documentation, for `sys.doc` and argument errors.
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
            lines: None,
            names: &[],
            python: None,
            out: None,
            doc,
            run,
        }
    }

    /// With these named arguments.
    pub const fn args(mut self, args: &'static [Arg]) -> Self {
        self.args = args;
        self
    }

    /// Accepts more positional arguments.
    pub const fn varargs(mut self) -> Self {
        self.varargs = true;
        self
    }

    /// Accepts any keyword.
    pub const fn keywords(mut self) -> Self {
        self.keywords = true;
        self
    }

    /// Makes named arguments keyword-only.
    pub const fn keyword_only(mut self) -> Self {
        self.keyword_only = true;
        self
    }

    /// Rejects line breaks in its arguments, except in these: it writes them to a file of lines, where they would add
    /// lines of their own.
    pub const fn one_line(mut self, except: &'static [&'static str]) -> Self {
        self.lines = Some(except);
        self
    }

    /// Rejects options as values of these arguments, which become words of a command line; `*` are those without a name.
    pub const fn names(mut self, names: &'static [&'static str]) -> Self {
        self.names = names;
        self
    }

    /// Sets the outputter for its results.
    pub const fn outputter(mut self, out: &'static str) -> Self {
        self.out = Some(out);
        self
    }

    /// Sets the name used in argument errors.
    pub const fn inner(mut self, inner: &'static str) -> Self {
        self.inner = inner;
        self
    }

    /// Whether it accepts a keyword.
    pub fn accepts(&self, key: &str) -> bool {
        self.keywords || self.args.iter().any(|a| a.name == key)
    }
}

/// The functions of a module, each with the same [`Function::names`].
pub const fn with_names<const N: usize>(
    names: &'static [&'static str],
    mut functions: [Function; N],
) -> [Function; N] {
    let mut at = 0;
    while at < N {
        functions[at].names = names;
        at += 1;
    }
    functions
}

/// [`Function::names`] of package managers.
pub const PACKAGES: &[&str] = &["*", "name", "names", "pkgs", "packages", "groups"];

/// One module: its public name and its functions.
#[derive(Clone, Copy)]
pub struct Module {
    /// The part of a function's full name before the dot.
    pub name: &'static str,
    /// Its functions.
    pub functions: &'static [Function],
}

/// Modules of the same name. A host has the first one whose predicate accepts its grains.
pub type ModulesByHost = &'static [(Module, fn(&Map) -> bool)];

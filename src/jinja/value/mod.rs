//! Python values in templates.

mod compare;
mod containers;
mod repr;
mod wire;

pub use compare::{Budget, CmpOp};
pub(super) use containers::drop_all;
pub use containers::{
    Dict, DictKind, Generator, Key, List, PyList, Range, Set, StrKey, Tuple, View, ViewKind,
};
pub use repr::{ascii, float_repr, quote};

use super::cx::Cx;
use super::error::{Error, ErrorKind};
use num_bigint::BigInt;
use std::any::Any;
use std::rc::Rc;

/// A Python value.
/// A Python value.
///
/// Clones are cheap and share their content: two clones of a list are the same list, like two names in Python.
#[derive(Clone)]
pub enum Obj {
    /// A name, attribute or element that does not exist (`jinja2.Undefined`, `StrictUndefined`).
    Undefined(Rc<Undefined>),
    /// `None`.
    None,
    /// `True` or `False`; also a number.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An integer that does not fit into [`Obj::Int`]; create it with [`Obj::big`].
    Big(Rc<BigInt>),
    /// A float.
    Float(f64),
    /// Text.
    Str(Rc<str>),
    /// Text that is not escaped when printed with escaping on (`markupsafe.Markup`).
    Markup(Rc<str>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A list.
    List(Rc<List>),
    /// A tuple.
    Tuple(Rc<Tuple>),
    /// A dict.
    Dict(PyDict),
    /// A set, in insertion order.
    Set(PySet),
    /// `range(...)`.
    Range(Rc<Range>),
    /// The result of `dict.keys()`, `values()` or `items()`.
    View(Rc<View>),
    /// Something that can be iterated once: the result of `map`, `select`, `reversed`...
    Iter(Rc<Generator>),
    /// A native object: a function, the loop variable, a namespace, `salt`...
    Native(Rc<dyn Object>),
}

/// A shared dict.
pub type PyDict = Rc<std::cell::RefCell<Dict>>;
/// A shared set.
pub type PySet = Rc<std::cell::RefCell<Set>>;

/// Why a value is missing, and how it behaves.
pub struct Undefined {
    /// Whether printing, comparing, testing and iterating also fail (`StrictUndefined`).
    pub strict: bool,
    /// What is missing.
    pub what: UndefinedKind,
}

/// What is missing.
pub enum UndefinedKind {
    /// A variable.
    Name(Rc<str>),
    /// An attribute or element of an object that Jinja calls `owner` (`jinja2.utils.object_type_repr`: `dict object`,
    /// `None`).
    Element {
        /// The description of the object.
        owner: String,
        /// The attribute or key.
        key: Obj,
    },
    /// Something with its own message.
    Hint(String),
    /// An attribute that templates may not access.
    Unsafe(String),
}

impl Undefined {
    /// Jinja's message.
    pub fn message(&self) -> String {
        match &self.what {
            UndefinedKind::Name(name) => format!("{} is undefined", quote(name)),
            UndefinedKind::Element { owner, key } => match key.as_str() {
                Some(name) => format!("{} has no attribute {}", quote(owner), quote(name)),
                None => {
                    let key = key.repr().unwrap_or_else(|_| "?".to_owned());
                    format!("{owner} has no element {key}")
                }
            },
            UndefinedKind::Hint(text) | UndefinedKind::Unsafe(text) => text.clone(),
        }
    }

    /// The error of using the value.
    pub fn error(&self) -> Error {
        let kind = match self.what {
            UndefinedKind::Unsafe(_) => ErrorKind::Security,
            _ => ErrorKind::Undefined,
        };
        Error::new(kind, self.message())
    }

    /// The error of a use that only fails for strict values.
    pub fn check(&self) -> Result<(), Error> {
        if self.strict {
            Err(self.error())
        } else {
            Ok(())
        }
    }
}

/// A native object in a template.
///
/// The default methods are those of an object without any members.
// Emptiness is expressed by `truthy`.
#[allow(clippy::len_without_is_empty)]
pub trait Object: Any {
    /// The name of its class, as in `'namespace object'`.
    fn type_name(&self) -> &str;

    /// The Python module of its class, if messages include it: `jinja2.utils`.
    fn module(&self) -> Option<&str> {
        None
    }

    /// `self.name`; `None` if there is no such attribute.
    ///
    /// # Errors
    /// Any error while getting it.
    fn get_attr(&self, _cx: &mut Cx, _name: &str) -> Result<Option<Obj>, Error> {
        Ok(None)
    }

    /// `self[key]`; `None` if there is no such element.
    ///
    /// # Errors
    /// Any error while getting it.
    fn get_item(&self, _cx: &mut Cx, _key: &Obj) -> Result<Option<Obj>, Error> {
        Ok(None)
    }

    /// Sets an attribute: `{% set ns.name = value %}`.
    ///
    /// # Errors
    /// Only namespaces allow it.
    fn set_attr(&self, _name: &str, _value: Obj) -> Result<(), Error> {
        Err(Error::runtime(
            "cannot assign attribute on non-namespace object",
        ))
    }

    /// Whether it can be called.
    fn callable(&self) -> bool {
        false
    }

    /// `self(*args)`.
    ///
    /// # Errors
    /// It is not a function, the arguments do not match, or the function fails.
    fn call(&self, _cx: &mut Cx, _args: &Args) -> Result<Obj, Error> {
        Err(Error::type_error(format!(
            "'{}' object is not callable",
            self.type_name()
        )))
    }

    /// `self.name(*args)` in one step, for objects that need no bound method; `None` to fall back to
    /// [`Object::get_attr`].
    ///
    /// # Errors
    /// The arguments do not match, or the method fails.
    fn call_method(&self, _cx: &mut Cx, _name: &str, _args: &Args) -> Result<Option<Obj>, Error> {
        Ok(None)
    }

    /// Its elements, if it can be iterated.
    ///
    /// # Errors
    /// Any error while getting them.
    fn iter(&self, _cx: &mut Cx) -> Result<Option<Vec<Obj>>, Error> {
        Ok(None)
    }

    /// `len(self)`; `None` if it has no length.
    fn len(&self) -> Option<usize> {
        None
    }

    /// `bool(self)`.
    fn truthy(&self) -> bool {
        self.len() != Some(0)
    }

    /// `item in self`; `None` to search its elements instead.
    ///
    /// # Errors
    /// Any error while searching.
    fn contains(&self, _cx: &mut Cx, _item: &Obj) -> Result<Option<bool>, Error> {
        Ok(None)
    }

    /// `repr(self)`.
    fn repr(&self) -> String {
        format!("<{} object>", self.type_name())
    }

    /// `str(self)`.
    fn str(&self) -> String {
        self.repr()
    }

    /// For a `repr(self)` that includes another value: the text before it, the value, the text after it. It is printed
    /// with limits that [`Object::repr`] cannot enforce.
    fn shown(&self) -> Option<(String, Obj, &'static str)> {
        None
    }

    /// The object as plain data (for `tojson`, `yaml`...), if it has such a form.
    fn as_data(&self) -> Option<Obj> {
        None
    }
}

/// Arguments of a call.
#[derive(Clone, Default)]
pub struct Args {
    /// By position.
    pub positional: Vec<Obj>,
    /// By name.
    pub keyword: Vec<(Rc<str>, Obj)>,
}

impl Obj {
    /// Text.
    pub fn str_from(text: impl AsRef<str>) -> Obj {
        Obj::Str(Rc::from(text.as_ref()))
    }

    /// A list.
    pub fn list(items: Vec<Obj>) -> Obj {
        Obj::List(Rc::new(List::new(items)))
    }

    /// A tuple.
    pub fn tuple(items: Vec<Obj>) -> Obj {
        Obj::Tuple(Rc::new(Tuple::new(items)))
    }

    /// A dict.
    pub fn dict(dict: Dict) -> Obj {
        Obj::Dict(Rc::new(std::cell::RefCell::new(dict)))
    }

    /// A set.
    pub fn set(set: Set) -> Obj {
        Obj::Set(Rc::new(std::cell::RefCell::new(set)))
    }

    /// A generator over precomputed elements; `label` is the name of its Python class (`generator`, `map`,
    /// `list_reverseiterator`...).
    pub fn generator(label: &'static str, items: Vec<Obj>) -> Obj {
        Obj::Iter(Rc::new(Generator::new(label, items)))
    }

    /// An integer of any size, in its canonical form.
    pub fn big(value: BigInt) -> Obj {
        match i64::try_from(&value) {
            Ok(small) => Obj::Int(small),
            Err(_) => Obj::Big(Rc::new(value)),
        }
    }

    /// A native object.
    pub fn native(object: impl Object) -> Obj {
        Obj::Native(Rc::new(object))
    }

    /// The text of a string or markup.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Obj::Str(text) | Obj::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// The shared text of a string or markup.
    pub fn as_shared_str(&self) -> Option<&Rc<str>> {
        match self {
            Obj::Str(text) | Obj::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// A 64-bit integer; booleans are integers too.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Obj::Int(i) => Some(*i),
            Obj::Bool(b) => Some(i64::from(*b)),
            _ => None,
        }
    }

    /// An integer of any size; booleans are integers too.
    pub fn as_bigint(&self) -> Option<BigInt> {
        match self {
            Obj::Int(i) => Some(BigInt::from(*i)),
            Obj::Bool(b) => Some(BigInt::from(i64::from(*b))),
            Obj::Big(b) => Some(BigInt::clone(b)),
            _ => None,
        }
    }

    /// Any number as a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Obj::Float(f) => Some(*f),
            Obj::Int(i) => Some(*i as f64),
            Obj::Bool(b) => Some(f64::from(u8::from(*b))),
            Obj::Big(b) => Some(compare::big_to_f64(b)),
            _ => None,
        }
    }

    /// Whether it is an undefined value.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Obj::Undefined(_))
    }

    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Obj::None)
    }

    /// The name of its class.
    pub fn type_name(&self) -> &str {
        match self {
            Obj::Undefined(missing) if missing.strict => "StrictUndefined",
            Obj::Undefined(_) => "Undefined",
            Obj::None => "NoneType",
            Obj::Bool(_) => "bool",
            Obj::Int(_) | Obj::Big(_) => "int",
            Obj::Float(_) => "float",
            Obj::Str(_) => "str",
            Obj::Markup(_) => "Markup",
            Obj::Bytes(_) => "bytes",
            Obj::List(_) => "list",
            Obj::Tuple(_) => "tuple",
            Obj::Dict(dict) => dict.borrow().kind.type_name(),
            Obj::Set(_) => "set",
            Obj::Range(_) => "range",
            Obj::View(view) => view.kind.type_name(),
            Obj::Iter(iter) => iter.label,
            Obj::Native(object) => object.type_name(),
        }
    }

    /// The description used in Jinja's messages (`jinja2.utils.object_type_repr`): `dict object`, `None`.
    pub fn described(&self) -> String {
        match self {
            Obj::None => "None".to_owned(),
            Obj::Markup(_) => "markupsafe.Markup object".to_owned(),
            Obj::Undefined(_) => format!("jinja2.runtime.{} object", self.type_name()),
            Obj::Dict(dict) if dict.borrow().kind == DictKind::Ordered => {
                "collections.OrderedDict object".to_owned()
            }
            Obj::Native(object) if object.module().is_some() => {
                let module = object.module().unwrap_or_default();
                format!("{module}.{} object", object.type_name())
            }
            _ => format!("{} object", self.type_name()),
        }
    }

    /// `bool(self)`.
    ///
    /// # Errors
    /// A strict undefined value.
    pub fn truthy(&self) -> Result<bool, Error> {
        Ok(match self {
            Obj::Undefined(missing) => {
                missing.check()?;
                false
            }
            Obj::None => false,
            Obj::Bool(b) => *b,
            Obj::Int(i) => *i != 0,
            Obj::Big(_) | Obj::Iter(_) => true,
            Obj::Float(f) => *f != 0.0,
            Obj::Str(text) | Obj::Markup(text) => !text.is_empty(),
            Obj::Bytes(bytes) => !bytes.is_empty(),
            Obj::List(list) => !list.borrow().is_empty(),
            Obj::Tuple(items) => !items.is_empty(),
            Obj::Dict(dict) => !dict.borrow().is_empty(),
            Obj::Set(set) => !set.borrow().is_empty(),
            Obj::Range(range) => !range.is_empty(),
            Obj::View(view) => !view.dict.borrow().is_empty(),
            Obj::Native(object) => object.truthy(),
        })
    }

    /// `len(self)`: characters of a text, elements of a container.
    ///
    /// # Errors
    /// Undefined values, and types without a length.
    pub fn length(&self) -> Result<usize, Error> {
        Ok(match self {
            Obj::Undefined(missing) => {
                missing.check()?;
                0
            }
            Obj::Str(text) | Obj::Markup(text) => text.chars().count(),
            Obj::Bytes(bytes) => bytes.len(),
            Obj::List(list) => list.borrow().len(),
            Obj::Tuple(items) => items.len(),
            Obj::Dict(dict) => dict.borrow().len(),
            Obj::Set(set) => set.borrow().len(),
            Obj::Range(range) => range.len(),
            Obj::View(view) => view.dict.borrow().len(),
            Obj::Native(object) if object.len().is_some() => object.len().unwrap_or_default(),
            _ => {
                return Err(Error::type_error(format!(
                    "object of type '{}' has no len()",
                    self.type_name()
                )));
            }
        })
    }

    /// Whether it is the same object (Python's `is`): shared containers, equal small values.
    pub fn same(&self, other: &Obj) -> bool {
        match (self, other) {
            (Obj::None, Obj::None) => true,
            (Obj::Bool(a), Obj::Bool(b)) => a == b,
            (Obj::Int(a), Obj::Int(b)) => a == b,
            (Obj::Str(a), Obj::Str(b)) | (Obj::Markup(a), Obj::Markup(b)) => Rc::ptr_eq(a, b),
            (Obj::List(a), Obj::List(b)) => Rc::ptr_eq(a, b),
            (Obj::Tuple(a), Obj::Tuple(b)) => Rc::ptr_eq(a, b),
            (Obj::Dict(a), Obj::Dict(b)) => Rc::ptr_eq(a, b),
            (Obj::Set(a), Obj::Set(b)) => Rc::ptr_eq(a, b),
            (Obj::Iter(a), Obj::Iter(b)) => Rc::ptr_eq(a, b),
            (Obj::Native(a), Obj::Native(b)) => Rc::ptr_eq(a, b),
            (Obj::Undefined(a), Obj::Undefined(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether it can be called.
    pub fn callable(&self) -> bool {
        matches!(self, Obj::Native(object) if object.callable())
    }

    /// The native object, if it has this type.
    pub fn downcast<T: Object>(&self) -> Option<&T> {
        match self {
            Obj::Native(object) => {
                let any: &dyn Any = object.as_ref();
                any.downcast_ref()
            }
            _ => None,
        }
    }
}

macro_rules! from {
    ($($from:ty => |$x:ident| $make:expr;)*) => {$(
        impl From<$from> for Obj {
            fn from($x: $from) -> Obj {
                $make
            }
        }
    )*};
}

from! {
    bool => |x| Obj::Bool(x);
    i32 => |x| Obj::Int(x.into());
    i64 => |x| Obj::Int(x);
    u64 => |x| Obj::big(x.into());
    usize => |x| Obj::big(x.into());
    f64 => |x| Obj::Float(x);
    &str => |x| Obj::Str(x.into());
    String => |x| Obj::Str(x.into());
    &String => |x| Obj::Str(x.as_str().into());
    Rc<str> => |x| Obj::Str(x);
    char => |x| Obj::str_from(x.encode_utf8(&mut [0; 4]));
    Vec<Obj> => |x| Obj::list(x);
    Dict => |x| Obj::dict(x);
}

impl<T: Into<Obj>> From<Option<T>> for Obj {
    fn from(x: Option<T>) -> Obj {
        x.map_or(Obj::None, Into::into)
    }
}

impl std::fmt::Debug for Obj {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.repr() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

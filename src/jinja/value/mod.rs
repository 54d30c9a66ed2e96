//! Python values as a template sees them.

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
///
/// Copies are cheap and share what they hold: two copies of one list are the same list, as two
/// names are in Python.
#[derive(Clone)]
pub enum Obj {
    /// A name, attribute or element that does not exist (`jinja2.Undefined`, `StrictUndefined`).
    Undefined(Rc<Undefined>),
    /// `None`.
    None,
    /// `True` or `False`; a number too.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// An integer that does not fit [`Obj::Int`]; make it with [`Obj::big`].
    Big(Rc<BigInt>),
    /// A float.
    Float(f64),
    /// Text.
    Str(Rc<str>),
    /// Text that is safe to print where output is escaped (`markupsafe.Markup`).
    Markup(Rc<str>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A list.
    List(Rc<List>),
    /// A tuple.
    Tuple(Rc<Tuple>),
    /// A dict.
    Dict(PyDict),
    /// A set, in order of insertion.
    Set(PySet),
    /// `range(...)`.
    Range(Rc<Range>),
    /// What `dict.keys()`, `values()` and `items()` give.
    View(Rc<View>),
    /// Something that can be gone through once: the result of `map`, `select`, `reversed`...
    Iter(Rc<Generator>),
    /// An object of this program: a function, the loop variable, a namespace, `salt`...
    Native(Rc<dyn Object>),
}

/// A shared dict.
pub type PyDict = Rc<std::cell::RefCell<Dict>>;
/// A shared set.
pub type PySet = Rc<std::cell::RefCell<Set>>;

/// Why a value is missing, and how it behaves.
pub struct Undefined {
    /// Whether printing, comparing, testing and iterating fail too (`StrictUndefined`).
    pub strict: bool,
    /// What is missing.
    pub what: UndefinedKind,
}

/// What is missing.
pub enum UndefinedKind {
    /// A variable.
    Name(Rc<str>),
    /// An attribute or an element of an object that Jinja calls `owner`
    /// (`jinja2.utils.object_type_repr`: `dict object`, `None`).
    Element {
        /// The object, described.
        owner: String,
        /// The attribute or key.
        key: Obj,
    },
    /// Something with its own explanation.
    Hint(String),
    /// An attribute that templates may not touch.
    Unsafe(String),
}

impl Undefined {
    /// The sentence Jinja gives.
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

    /// The error of using it.
    pub fn error(&self) -> Error {
        let kind = match self.what {
            UndefinedKind::Unsafe(_) => ErrorKind::Security,
            _ => ErrorKind::Undefined,
        };
        Error::new(kind, self.message())
    }

    /// The error of using it where only a strict one fails.
    pub fn check(&self) -> Result<(), Error> {
        if self.strict {
            Err(self.error())
        } else {
            Ok(())
        }
    }
}

/// An object of this program inside a template.
///
/// Every method has the default of an object that has nothing.
// Whether it is empty is a question of its truth.
#[allow(clippy::len_without_is_empty)]
pub trait Object: Any {
    /// The name of its class, as in `'namespace object'`.
    fn type_name(&self) -> &str;

    /// The Python module of its class, if messages name it: `jinja2.utils`.
    fn module(&self) -> Option<&str> {
        None
    }

    /// `self.name`, or nothing where there is no such attribute.
    ///
    /// # Errors
    /// Whatever goes wrong while it is fetched.
    fn get_attr(&self, _cx: &mut Cx, _name: &str) -> Result<Option<Obj>, Error> {
        Ok(None)
    }

    /// `self[key]`, or nothing where there is no such element.
    ///
    /// # Errors
    /// Whatever goes wrong while it is fetched.
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
    /// It is no function, the arguments do not fit, or the function fails.
    fn call(&self, _cx: &mut Cx, _args: &Args) -> Result<Obj, Error> {
        Err(Error::type_error(format!(
            "'{}' object is not callable",
            self.type_name()
        )))
    }

    /// `self.name(*args)` in one step, for objects that need no bound method in between; nothing
    /// where [`Object::get_attr`] shall be asked.
    ///
    /// # Errors
    /// The arguments do not fit, or the method fails.
    fn call_method(&self, _cx: &mut Cx, _name: &str, _args: &Args) -> Result<Option<Obj>, Error> {
        Ok(None)
    }

    /// Its elements, if it can be iterated.
    ///
    /// # Errors
    /// Whatever goes wrong while they are fetched.
    fn iter(&self, _cx: &mut Cx) -> Result<Option<Vec<Obj>>, Error> {
        Ok(None)
    }

    /// `len(self)`, if it has one.
    fn len(&self) -> Option<usize> {
        None
    }

    /// `bool(self)`.
    fn truthy(&self) -> bool {
        self.len() != Some(0)
    }

    /// `item in self`, or nothing where its elements shall be searched.
    ///
    /// # Errors
    /// Whatever goes wrong while it is searched.
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

    /// What `repr(self)` shows of other values, between two texts, where it shows any: printed
    /// within the limits that [`Object::repr`] cannot keep.
    fn shown(&self) -> Option<(String, Obj, &'static str)> {
        None
    }

    /// The same as free-form data (to be serialised by `tojson`, `yaml`...), if it has a form.
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

    /// A generator over elements that are computed already; `label` is what Python calls its
    /// class (`generator`, `map`, `list_reverseiterator`...).
    pub fn generator(label: &'static str, items: Vec<Obj>) -> Obj {
        Obj::Iter(Rc::new(Generator::new(label, items)))
    }

    /// An integer of any size, in its one form.
    pub fn big(value: BigInt) -> Obj {
        match i64::try_from(&value) {
            Ok(small) => Obj::Int(small),
            Err(_) => Obj::Big(Rc::new(value)),
        }
    }

    /// An object of this program.
    pub fn native(object: impl Object) -> Obj {
        Obj::Native(Rc::new(object))
    }

    /// The text of a string or of markup.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Obj::Str(text) | Obj::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// The shared text of a string or of markup.
    pub fn as_shared_str(&self) -> Option<&Rc<str>> {
        match self {
            Obj::Str(text) | Obj::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// An integer of 64 bits; booleans are integers too.
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

    /// How Jinja's messages describe it (`jinja2.utils.object_type_repr`): `dict object`, `None`.
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

    /// `len(self)`, where it has one: characters of text, elements of a container.
    ///
    /// # Errors
    /// Undefined values; kinds without a length.
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

    /// Whether it is the same object (`is` of Python): shared containers, equal small values.
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

    /// The object of this program of a certain type that it is.
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

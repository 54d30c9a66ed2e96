//! Jinja2 templates as Salt renders them (`salt/utils/templates.py render_jinja_tmpl`): the language
//! of Jinja2 3.1 in its sandbox with the extensions `do`, `loopcontrols` and Salt's
//! `SerializerExtension`.

mod args;
mod cx;
mod env;
pub mod error;
pub mod filters;
pub mod format;
pub mod methods;
mod ops;
pub mod tests;
pub mod value;

pub use cx::Cx;
pub use env::{Environment, Loaded, Loader, Options};
pub use error::{Error, ErrorKind};
pub use value::{Args, Dict, Obj, Object};

/// A filter: `value | name(*args)`.
pub type FilterFn = fn(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error>;
/// A test: `value is name(*args)`.
pub type TestFn = fn(cx: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error>;

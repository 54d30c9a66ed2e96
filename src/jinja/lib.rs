//! Jinja2 templates as rendered by Salt (`salt/utils/templates.py render_jinja_tmpl`): the language of Jinja2 3.1 in
//! its sandbox, with the extensions `do`, `loopcontrols` and Salt's `SerializerExtension`.

mod args;
mod arith;
mod ast;
mod cx;
mod env;
pub mod error;
pub mod filters;
pub mod format;
mod globals;
mod lexer;
pub mod methods;
mod ops;
mod parser;
mod run;
mod stack;
pub mod tests;
mod unescape;
pub mod usage;
pub mod value;

pub use cx::Cx;
pub use env::{Environment, EnvironmentOptions, HostFilters, LoadedTemplate, TemplateLoader};
pub use error::{Error, ErrorKind};
pub use value::{Args, Dict, Obj, Object, PyDict};

/// A filter: `value | name(*args)`.
pub type FilterFn = fn(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error>;
/// A test: `value is name(*args)`.
pub type TestFn = fn(cx: &mut Cx, value: &Obj, args: &Args) -> Result<bool, Error>;

/// Escapes a text for HTML (`markupsafe.escape`).
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            other => out.push(other),
        }
    }
    out
}

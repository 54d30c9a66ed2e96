//! The variable `salt` of templates and the trait behind it.

use halite_jinja::{Cx, Error, Obj, Object};
use halite_wire::{Map, Value};
use std::rc::Rc;

/// Finds the functions that templates call.
pub trait FunctionLoader {
    /// The function of a full name, `module.function`, as an object for templates.
    fn function(&self, name: &str) -> Option<Obj>;

    /// Whether there is such a module.
    fn has_module(&self, module: &str) -> bool;

    /// Whether templates may name this function or module (`whitelist_modules`, `disable_modules` of a minion).
    fn allows(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Whether a name is `in salt`.
    fn contains(&self, name: &str) -> bool {
        self.function(name).is_some()
    }

    /// Calls a function with plain data, for Python; `None` if there is none that can be called so. The error is the class and the
    /// text of Salt's exception.
    fn invoke(
        &self,
        name: &str,
        positional: &[Value],
        keyword: Map,
    ) -> Option<Result<Value, (&'static str, String)>> {
        let _ = (name, positional, keyword);
        None
    }

    /// Whether there is a renderer in Python of this name; `is_ours` if halite has one, too.
    fn has_renderer(&self, renderer: &str, is_ours: bool) -> bool {
        let _ = (renderer, is_ours);
        false
    }

    /// Renders in Python; the arguments are those of [`crate::pipeline::python_args`].
    ///
    /// # Errors
    /// What the renderer raises.
    fn render(&self, args: Vec<Value>) -> Result<Value, String> {
        let _ = args;
        Err("there is no Python here".to_owned())
    }
}

/// Two loaders; the first one takes precedence, and the second one says what is allowed.
pub struct ChainedLoader(pub Rc<dyn FunctionLoader>, pub Rc<dyn FunctionLoader>);

impl FunctionLoader for ChainedLoader {
    fn function(&self, name: &str) -> Option<Obj> {
        let first = self.0.function(name).filter(|_| self.1.allows(name));
        first.or_else(|| self.1.function(name))
    }

    fn has_module(&self, module: &str) -> bool {
        (self.0.has_module(module) && self.1.allows(module)) || self.1.has_module(module)
    }
}

/// The variable: `salt['module.function']`, and `salt.module.function`.
pub struct SaltVariable(pub Rc<dyn FunctionLoader>);

impl Object for SaltVariable {
    fn type_name(&self) -> &str {
        "AliasedLoader"
    }

    fn module(&self) -> Option<&str> {
        Some("salt.utils.templates")
    }

    fn get_item(&self, _: &mut Cx, key: &Obj) -> Result<Option<Obj>, Error> {
        Ok(key.as_str().and_then(|name| self.0.function(name)))
    }

    fn get_attr(&self, _: &mut Cx, name: &str) -> Result<Option<Obj>, Error> {
        let module = || Module {
            loader: self.0.clone(),
            name: name.to_owned(),
        };
        Ok(self.0.has_module(name).then(|| Obj::native(module())))
    }

    fn contains(&self, _: &mut Cx, item: &Obj) -> Result<Option<bool>, Error> {
        Ok(Some(
            item.as_str().is_some_and(|name| self.0.contains(name)),
        ))
    }
}

/// `salt.module`.
struct Module {
    loader: Rc<dyn FunctionLoader>,
    name: String,
}

impl Object for Module {
    fn type_name(&self) -> &str {
        "LoadedMod"
    }

    fn module(&self) -> Option<&str> {
        Some("salt.loader.lazy")
    }

    fn get_attr(&self, _: &mut Cx, name: &str) -> Result<Option<Obj>, Error> {
        Ok(self.loader.function(&format!("{}.{name}", self.name)))
    }
}

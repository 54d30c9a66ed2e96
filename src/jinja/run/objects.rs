//! Objects of a running template: macros, modules, blocks, namespaces.

use super::{Context, Scope, Vars};
use crate::ast::Macro;
use crate::cx::Cx;
use crate::error::{Error, ErrorKind};
use crate::methods;
use crate::value::{Args, Dict, Obj, Object, quote};
use std::cell::RefCell;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

/// A macro, or the body of a call block.
pub(super) struct MacroObject {
    pub(super) node: Rc<Macro>,
    pub(super) scope: Scope,
    pub(super) autoescape: bool,
}

impl MacroObject {
    pub(super) fn new(node: &Rc<Macro>, scope: &Scope, autoescape: bool) -> MacroObject {
        MacroObject {
            node: node.clone(),
            scope: scope.clone(),
            autoescape,
        }
    }
}

impl Object for MacroObject {
    fn type_name(&self) -> &str {
        "Macro"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        let node = &self.node;
        Ok(Some(match name {
            "name" => Obj::from(node.name.clone()),
            "arguments" => {
                let names = node.params.iter().map(|(name, _)| Obj::from(name.clone()));
                Obj::tuple(names.collect())
            }
            "catch_kwargs" => Obj::Bool(node.uses.kwargs),
            "catch_varargs" => Obj::Bool(node.uses.varargs),
            "caller" => Obj::Bool(node.uses.caller),
            _ => return Ok(None),
        }))
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj> {
        cx.call_macro(self, args)
    }

    fn repr(&self) -> String {
        match &self.node.name {
            Some(name) => format!("<Macro {}>", quote(name)),
            None => "<Macro anonymous>".to_owned(),
        }
    }
}

/// An imported template.
pub(crate) struct ModuleObject {
    pub(super) name: Rc<str>,
    pub(super) text: Rc<str>,
    pub(super) names: Vars,
}

impl ModuleObject {
    pub(super) fn get(&self, name: &str) -> Option<Obj> {
        self.names.get(name).cloned()
    }
}

impl Object for ModuleObject {
    fn type_name(&self) -> &str {
        "TemplateModule"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.environment")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok(self.get(name))
    }

    fn str(&self) -> String {
        self.text.to_string()
    }

    fn repr(&self) -> String {
        format!("<TemplateModule {}>", quote(&self.name))
    }

    fn as_data(&self) -> Option<Obj> {
        Some(Obj::Str(self.text.clone()))
    }
}

/// The variable `self`: access to blocks by name.
pub(super) struct TemplateReference(Scope);

impl TemplateReference {
    pub(super) fn new(scope: &Scope) -> TemplateReference {
        TemplateReference(scope.clone())
    }
}

impl Object for TemplateReference {
    fn type_name(&self) -> &str {
        "TemplateReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        self.get_item(cx, &Obj::from(name))
    }

    fn get_item(&self, _cx: &mut Cx, key: &Obj) -> Result<Option<Obj>> {
        let Some(name) = key.as_str() else {
            return Ok(None);
        };
        let found = self.0.context.block(name, 0);
        Ok(found.map(|_| block_at(&self.0.context, name, 0)))
    }

    fn repr(&self) -> String {
        let template = &self.0.template;
        if template.anonymous {
            "<TemplateReference None>".to_owned()
        } else {
            format!("<TemplateReference {}>", quote(&template.name))
        }
    }
}

/// A callable block: `self.name()` or `super()`.
struct BlockReference {
    context: Rc<Context>,
    name: Rc<str>,
    level: usize,
}

fn block_at(context: &Rc<Context>, name: &str, level: usize) -> Obj {
    Obj::native(BlockReference {
        context: context.clone(),
        name: name.into(),
        level,
    })
}

/// The version of a block overridden by the one at `level`.
pub(super) fn super_block(cx: &Cx, context: &Rc<Context>, name: &str, level: usize) -> Obj {
    match context.block(name, level + 1) {
        Some(_) => block_at(context, name, level + 1),
        None => cx.undefined(format!("there is no parent block called {}.", quote(name))),
    }
}

impl Object for BlockReference {
    fn type_name(&self) -> &str {
        "BlockReference"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.runtime")
    }

    fn get_attr(&self, cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok((name == "super").then(|| super_block(cx, &self.context, &self.name, self.level)))
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, _args: &Args) -> Result<Obj> {
        let Some(found) = self.context.block(&self.name, self.level) else {
            return Ok(Obj::None);
        };
        let mut text = String::new();
        cx.run_block(&self.context, &found, self.level, &mut text)?;
        Ok(cx.markup_if_escaping(text))
    }
}

/// `namespace(...)`: attributes that inner scopes can set.
#[derive(Default)]
pub struct Namespace(RefCell<Dict>);

impl Namespace {
    pub(crate) fn new(dict: Dict) -> Namespace {
        Namespace(RefCell::new(dict))
    }
}

impl Object for Namespace {
    fn type_name(&self) -> &str {
        "Namespace"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>> {
        Ok(self.0.borrow().get_str(name).cloned())
    }

    fn set_attr(&self, name: &str, value: Obj) -> Result<()> {
        let old = self.0.borrow().get_str(name).cloned();
        self.0.borrow_mut().set_str(name, value);
        drop(old);
        Ok(())
    }

    fn shown(&self) -> Option<(String, Obj, &'static str)> {
        let dict = Obj::dict(self.0.borrow().clone());
        Some(("<Namespace ".to_owned(), dict, ">"))
    }
}

/// A method that is not called immediately: `{% set add = list.append %}`.
pub struct BoundMethod {
    value: Obj,
    name: Rc<str>,
}

/// The bound method with a name, if values of this type have it.
pub(crate) fn bound_method(value: &Obj, name: &str) -> Option<Obj> {
    methods::has(value, name).then(|| {
        Obj::native(BoundMethod {
            value: value.clone(),
            name: name.into(),
        })
    })
}

impl Object for BoundMethod {
    fn type_name(&self) -> &str {
        "builtin_function_or_method"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj> {
        methods::call(cx, &self.value, &self.name, args)
    }

    fn repr(&self) -> String {
        format!(
            "<built-in method {} of {} object>",
            self.name,
            self.value.type_name()
        )
    }
}

/// The function `show_full_context`, which needs the variables at its call.
pub(crate) struct ShowFullContext;

impl Object for ShowFullContext {
    fn type_name(&self) -> &str {
        "function"
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _cx: &mut Cx, _args: &Args) -> Result<Obj> {
        Err(Error::new(
            ErrorKind::Type,
            "show_full_context must be called by its name",
        ))
    }
}

/// Keeps only data: texts, numbers, booleans, and lists and dicts of them; anything else becomes its `repr`
/// (`salt/utils/data.py simple_types_filter`).
pub(super) fn simple_types(dict: &Dict) -> Obj {
    fn simple(value: &Obj, depth: usize) -> Obj {
        if depth > 50 {
            return Obj::from("...");
        }
        match value {
            Obj::None
            | Obj::Bool(_)
            | Obj::Int(_)
            | Obj::Big(_)
            | Obj::Float(_)
            | Obj::Str(_)
            | Obj::Markup(_) => value.clone(),
            Obj::List(list) => {
                let items = list.borrow();
                Obj::list(items.iter().map(|item| simple(item, depth + 1)).collect())
            }
            Obj::Tuple(items) => {
                Obj::list(items.iter().map(|item| simple(item, depth + 1)).collect())
            }
            Obj::Dict(dict) => simple_dict(&dict.borrow(), depth + 1),
            other => Obj::from(other.repr().unwrap_or_default()),
        }
    }
    fn simple_dict(dict: &Dict, depth: usize) -> Obj {
        let mut out = Dict::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let key = match key {
                Obj::Str(_) | Obj::Int(_) | Obj::Bool(_) | Obj::Float(_) | Obj::Big(_) => {
                    key.clone()
                }
                other => Obj::from(other.repr().unwrap_or_default()),
            };
            let _ = out.insert(key, simple(value, depth));
        }
        Obj::dict(out)
    }
    simple_dict(dict, 0)
}

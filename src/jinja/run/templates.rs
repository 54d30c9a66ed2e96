//! Templates that refer to others: include, import, extends, blocks.

use super::objects::{ModuleObject, TemplateReference};
use super::{Base, BlockOf, Context, Frame, Scope, Vars};
use crate::ast::{Block, Expr, ExprKind, Import, Include, Template};
use crate::cx::Cx;
use crate::error::{Error, ErrorKind};
use crate::value::{Obj, quote};
use std::cell::Cell;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Error>;

impl Cx {
    /// Runs a template, and the templates it extends.
    pub(crate) fn render_root(
        &mut self,
        template: &Rc<Template>,
        vars: Vec<(String, Obj)>,
    ) -> Result<String> {
        let vars: Vars = vars.into_iter().map(|(k, v)| (Rc::from(k), v)).collect();
        let base = Base::new(vars, Some(self.env.builtins.clone()));
        self.run.base = Some(base.clone());
        let context = Context::new(base);
        let mut out = String::new();
        self.run_template(template, &context, &mut out)?;
        Ok(out)
    }

    /// The variables of templates that do not get those of another one: the variables of the render call, since Salt
    /// makes them global (`salt/utils/templates.py`).
    fn globals(&mut self) -> Rc<Base> {
        let base = self.run.base.clone();
        let below = base.unwrap_or_else(|| self.env.builtins.clone());
        if self.run.globals.is_empty() {
            return below;
        }
        Base::new(self.run.globals.clone(), Some(below))
    }

    fn run_template(
        &mut self,
        template: &Rc<Template>,
        context: &Rc<Context>,
        out: &mut String,
    ) -> Result<()> {
        self.run.contexts.push(Rc::downgrade(context));
        context.add_blocks(template);
        let mut template = template.clone();
        loop {
            let scope = Scope {
                template: template.clone(),
                context: context.clone(),
                frame: None,
                extended: Some(Rc::new(Cell::new(false))),
            };
            if template.uses_self {
                let value = Obj::native(TemplateReference::new(&scope));
                self.remember(&scope);
                context.set(&"self".into(), value, false);
            }
            let before = self.run.parent.take();
            let result = self.exec(&scope, &template.body, out);
            let parent = std::mem::replace(&mut self.run.parent, before);
            result?;
            match parent {
                Some(parent) => {
                    // The chain of templates may be a cycle.
                    self.charge(1000)?;
                    template = parent;
                }
                None => return Ok(()),
            }
        }
    }

    /// Loads a template by name.
    fn template(&mut self, name: &str, from: &Scope) -> Result<Rc<Template>> {
        if let Some(template) = self.run.templates.get(name) {
            return Ok(template.clone());
        }
        self.charge(100)?;
        let loaded = match self.env.loader.clone() {
            Some(loader) => loader.load(name, Some(&from.template.name)),
            None => {
                return Err(Error::type_error(
                    "no loader for this environment specified",
                ));
            }
        };
        let loaded = match loaded {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Err(Error::new(ErrorKind::NotFound, name)),
            Err(why) => return Err(Error::new(ErrorKind::Other, why)),
        };
        for (key, value) in loaded.globals {
            self.run.globals.insert(key.into(), value);
        }
        let shown = if loaded.name.is_empty() {
            name
        } else {
            &loaded.name
        };
        self.charge(loaded.source.len() / 32)?;
        let template = self.env.parsed(&loaded.source, shown, false)?;
        // The meaning of relative names depends on the template that uses them.
        if !name.starts_with('.') {
            self.run.templates.insert(name.into(), template.clone());
        }
        Ok(template)
    }

    fn named_template(&mut self, scope: &Scope, expr: &Expr) -> Result<Rc<Template>> {
        match self.eval(scope, expr)? {
            Obj::Undefined(missing) => Err(missing.error()),
            name => match name.as_str() {
                Some(name) => self.template(name, scope),
                None => Err(Error::new(ErrorKind::NotFound, name.to_str()?)),
            },
        }
    }

    /// The first existing template among several names.
    fn one_of(&mut self, scope: &Scope, expr: &Expr) -> Result<Rc<Template>> {
        let names = self.eval(scope, expr)?;
        if let Obj::Undefined(missing) = &names {
            return Err(missing.error());
        }
        let listed = matches!(expr.kind, ExprKind::Tuple(_) | ExprKind::List(_));
        if let (Some(name), false) = (names.as_str(), listed) {
            return self.template(name, scope);
        }
        let names = self.iterate(&names)?;
        if names.is_empty() {
            return Err(Error::new(
                ErrorKind::NotFound,
                "Tried to select from an empty list of templates.",
            ));
        }
        let mut tried = Vec::new();
        for name in names {
            if let Obj::Undefined(missing) = &name {
                tried.push(missing.message());
                continue;
            }
            let name = name.to_str()?;
            match self.template(&name, scope) {
                Err(error) if error.kind() == ErrorKind::NotFound => tried.push(name),
                result => return result,
            }
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "none of the templates given were found: {}",
                tried.join(", ")
            ),
        ))
    }

    pub(super) fn include(
        &mut self,
        scope: &Scope,
        node: &Include,
        out: &mut String,
    ) -> Result<()> {
        let line = node.template.line;
        let template = match self.one_of(scope, &node.template) {
            Err(error) if node.ignore_missing && error.kind() == ErrorKind::NotFound => {
                return Ok(());
            }
            result => self.located(scope, line, result)?,
        };
        let entered = self.enter();
        self.located(scope, line, entered)?;
        let result = self.run_included(scope, node, &template, out);
        self.leave();
        self.located(scope, line, result)
    }

    fn run_included(
        &mut self,
        scope: &Scope,
        node: &Include,
        template: &Rc<Template>,
        out: &mut String,
    ) -> Result<()> {
        if node.with_context {
            let context = Context::new(scope.snapshot());
            let mut text = String::new();
            self.run_template(template, &context, &mut text)?;
            if scope.is_silent() {
                return Ok(());
            }
            return self.write(out, &text);
        }
        let module = self.default_module(template)?;
        if scope.is_silent() {
            return Ok(());
        }
        self.write(out, &module.text)
    }

    /// A template run as a module, once for all templates that import it without context.
    fn default_module(&mut self, template: &Rc<Template>) -> Result<Rc<ModuleObject>> {
        let key = Rc::as_ptr(template) as usize;
        if let Some((_, module)) = self.run.modules.get(&key) {
            return Ok(module.clone());
        }
        let base = self.globals();
        let module = self.make_module(template, base)?;
        let entry = (template.clone(), module.clone());
        self.run.modules.insert(key, entry);
        Ok(module)
    }

    fn make_module(&mut self, template: &Rc<Template>, base: Rc<Base>) -> Result<Rc<ModuleObject>> {
        let context = Context::new(base);
        let mut text = String::new();
        self.enter()?;
        let result = self.run_template(template, &context, &mut text);
        self.leave();
        result?;
        let exported = context.exported.borrow().clone();
        let names = exported
            .into_iter()
            .filter_map(|name| context.get(&name).map(|value| (name, value)))
            .collect();
        Ok(Rc::new(ModuleObject {
            name: template.name.clone(),
            text: text.into(),
            names,
        }))
    }

    fn module(
        &mut self,
        scope: &Scope,
        template: &Expr,
        with_context: bool,
    ) -> Result<Rc<ModuleObject>> {
        let template = self.named_template(scope, template)?;
        if with_context {
            self.make_module(&template, scope.snapshot())
        } else {
            self.default_module(&template)
        }
    }

    pub(super) fn import(&mut self, scope: &Scope, node: &Import) -> Result<()> {
        let module = self.module(scope, &node.template, node.with_context)?;
        if let Some(filter) = &node.filter {
            let text = Obj::Str(module.text.clone());
            let value = self.eval_captured(scope, filter, text)?;
            scope.assign(&node.target, value);
            return Ok(());
        }
        assign_import(scope, &node.target, Obj::Native(module));
        Ok(())
    }

    pub(super) fn import_names(
        &mut self,
        scope: &Scope,
        template: &Expr,
        names: &[(Rc<str>, Rc<str>)],
        with_context: bool,
        line: usize,
    ) -> Result<()> {
        let module = self.module(scope, template, with_context)?;
        for (name, alias) in names {
            let value = module.get(name).unwrap_or_else(|| {
                self.undefined(format!(
                    "the template {} (imported on {}) does not export the requested name {}",
                    quote(&module.name),
                    scope.template.position(line),
                    quote(name)
                ))
            });
            assign_import(scope, alias, value);
        }
        Ok(())
    }

    pub(super) fn extend(&mut self, scope: &Scope, template: &Expr) -> Result<()> {
        if scope.is_silent() {
            return Err(Error::runtime("extended multiple times"));
        }
        let parent = self.named_template(scope, template)?;
        scope.context.add_blocks(&parent);
        self.run.parent = Some(parent);
        if let Some(extended) = &scope.extended {
            extended.set(true);
        }
        Ok(())
    }

    /// Runs the most derived version of a block.
    pub(super) fn block(
        &mut self,
        scope: &Scope,
        block: &Rc<Block>,
        line: usize,
        out: &mut String,
    ) -> Result<()> {
        let context = if block.scoped {
            let derived = Context::new(scope.snapshot());
            *derived.blocks.borrow_mut() = scope.context.blocks.borrow().clone();
            derived
        } else {
            scope.context.clone()
        };
        if block.required && context.block(&block.name, 1).is_none() {
            let error = Error::runtime(format!("Required block {} not found", quote(&block.name)));
            return self.located(scope, line, Err(error));
        }
        let Some(found) = context.block(&block.name, 0) else {
            return Ok(());
        };
        let entered = self.enter();
        self.located(scope, line, entered)?;
        let result = self.run_block(&context, &found, 0, out);
        self.leave();
        self.located(scope, line, result)
    }

    pub(super) fn run_block(
        &mut self,
        context: &Rc<Context>,
        (template, block): &BlockOf,
        level: usize,
        out: &mut String,
    ) -> Result<()> {
        let frame = Frame::new(None);
        let scope = Scope {
            template: template.clone(),
            context: context.clone(),
            frame: Some(frame.clone()),
            extended: None,
        };
        if block.uses_self {
            frame.set(&"self".into(), Obj::native(TemplateReference::new(&scope)));
            self.remember(&scope);
        }
        if block.uses_super {
            let value = super::objects::super_block(self, context, &block.name, level);
            frame.set(&"super".into(), value);
            self.remember(&scope);
        }
        self.exec(&scope, &block.body, out).map(drop)
    }
}

/// Names imported at the top level are not exported again.
fn assign_import(scope: &Scope, name: &Rc<str>, value: Obj) {
    match &scope.frame {
        Some(_) => scope.assign(name, value),
        None => scope.context.set(name, value, false),
    }
}

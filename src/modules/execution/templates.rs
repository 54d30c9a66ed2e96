//! Templates with this minion's execution functions.

use super::{Context, declare};
use crate::execution::declare::Result;
use crate::render::{FunctionCaller, Template, render};
use halite_wire::{Map, Value};
use std::rc::Rc;

/// The execution functions of this minion.
struct Functions(Rc<Context>);

impl Functions {
    /// An installed Salt may have any function; only a call shows.
    fn legacy(&self, function: &str) -> bool {
        function.contains('.') && self.0.opts.get("legacy_salt").is_some_and(Value::truthy)
    }
}

impl FunctionCaller for Functions {
    fn has(&self, function: &str) -> bool {
        super::find_for(&self.0, function).is_some() || self.legacy(function)
    }

    fn has_module(&self, module: &str) -> bool {
        let inside = |name: &str| name.split('.').next() == Some(module);
        let mut all = super::functions_for(&self.0).into_iter();
        all.any(|(name, _)| inside(&name)) || self.legacy("x.x")
    }

    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> declare::Result {
        super::invoke(&self.0, function, args, kwargs)
    }

    fn host_filters(&self) -> halite_jinja::HostFilters {
        super::host_filters::apply
    }
}

/// A minion's execution functions, for templates.
pub fn template_functions(ctx: Context) -> Rc<dyn FunctionCaller> {
    Rc::new(Functions(Rc::new(ctx)))
}

/// Renders a text with this minion's functions; the inner error is text for a state return.
///
/// # Errors
/// `SaltRenderError`: invalid template, or an error in a function it calls.
pub fn template(ctx: &Context, template: &Template<'_>) -> Result<Result<String, String>> {
    let ctx = Rc::new(ctx.clone());
    let caller: Rc<dyn FunctionCaller> = Rc::new(Functions(ctx.clone()));
    render(&ctx, &caller, template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn rendered(text: &str, variables: Map) -> Result<String, String> {
        let ctx = Context {
            id: "m".into(),
            grains: std::sync::Arc::new(map! {"os" => "Debian"}),
            opts: map! {"jinja_env" => map! {"trim_blocks" => true}},
            ..Context::default()
        };
        let template_ = Template {
            format: "jinja",
            text,
            saltenv: "",
            variables: &variables,
        };
        match template(&ctx, &template_) {
            Ok(inner) => inner,
            Err(e) => Err(e.message().to_owned()),
        }
    }

    #[test]
    fn templates_call_functions() {
        let shown = rendered(
            "{% if 1 %}\n{{ grains.os }} {{ x }} {{ salt['test.echo']('a') }} {{ salt.test.echo(text='b') }}{% endif %}\n",
            map! {"x" => 3},
        );
        assert_eq!(shown.unwrap(), "Debian 3 a b\n");
        let wrong = rendered("{{ salt['test.echo']() }}", Map::new()).unwrap_err();
        assert!(wrong.contains("missing 1 required"), "{wrong}");
        let none = rendered("{{ salt['no.such']() }}", Map::new()).unwrap_err();
        assert!(
            none.contains("undefined") || none.contains("no attribute"),
            "{none}"
        );
        let other = Template {
            format: "mako",
            text: "",
            saltenv: "",
            variables: &Map::new(),
        };
        assert!(template(&Context::default(), &other).unwrap().is_err());
    }
}

//! Templates with this minion's execution functions.

use super::{Context, declare};
use crate::execution::declare::Result;
use crate::render::{FunctionCaller, Template, TemplateRenderer};
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The execution functions of this minion.
struct Functions(Rc<Context>);

impl FunctionCaller for Functions {
    fn has(&self, function: &str) -> bool {
        super::find_listed(&self.0, function).is_some()
    }

    fn allows(&self, name: &str) -> bool {
        super::is_listed(&self.0, name)
    }

    fn has_module(&self, module: &str) -> bool {
        if !super::is_listed(&self.0, module) {
            return false;
        }
        // An installed Salt may have any module; only a call shows.
        if super::python_modules::may_have(&self.0, module)
            || halite_python::files::installed_salt(&self.0.opts).is_some()
        {
            return true;
        }
        let inside = |name: &str| name.split('.').next() == Some(module);
        let mut all = super::native_functions(&self.0).into_iter();
        all.any(|(name, _)| inside(&name))
    }

    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> declare::Result {
        super::invoke_listed(&self.0, function, args, kwargs).map(|(ret, _)| ret)
    }

    fn has_renderer(&self, renderer: &str, is_ours: bool) -> bool {
        super::python_modules::has_renderer(&self.0, renderer, is_ours)
    }

    fn python(&self, request: &str, args: Vec<Value>) -> declare::Result {
        super::python_modules::ask(&self.0, request, args, &mut halite_python::Nothing)
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
    let known = LAST.with_borrow(|last| {
        let (known, renderer) = last.as_ref()?;
        is_same(known, ctx).then(|| renderer.clone())
    });
    let renderer = match known {
        Some(renderer) => renderer,
        None => {
            let ctx = Rc::new(ctx.clone());
            let caller: Rc<dyn FunctionCaller> = Rc::new(Functions(ctx.clone()));
            let renderer = Rc::new(TemplateRenderer::new(&ctx, &caller)?);
            LAST.set(Some((ctx, renderer.clone())));
            renderer
        }
    };
    renderer.render(template)
}

thread_local! {
    /// The renderer of the last template: a run of states renders many, and what templates see takes longer to build
    /// than most take to render.
    static LAST: RefCell<Option<(Rc<Context>, Rc<TemplateRenderer>)>> = const { RefCell::new(None) };
}

/// Whether templates see the same with both: the very same data, of the same job.
fn is_same(a: &Context, b: &Context) -> bool {
    Arc::ptr_eq(&a.opts, &b.opts)
        && Arc::ptr_eq(&a.grains, &b.grains)
        && Arc::ptr_eq(&a.pillar, &b.pillar)
        && a.job.is_some()
        && a.job == b.job
        && a.id == b.id
        && a.cachedir == b.cachedir
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn rendered(text: &str, variables: Map) -> Result<String, String> {
        let ctx = Context {
            id: "m".into(),
            grains: Arc::new(map! {"os" => "Debian"}),
            opts: std::sync::Arc::new(map! {"jinja_env" => map! {"trim_blocks" => true}}),
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
        let in_place = rendered(
            "{% set d = {'a': {'b': 1}} %}{% set a = d.a %}{% do salt['defaults.merge'](d, {'a': {'c': 2}}) %}\
             {% do salt['defaults.update'](d, {'z': 9}) %}{% do salt['slsutil.update'](d, {'q': 1}) %}\
             {% do salt['defaults.merge'](d, {'r': 1}, in_place=False) %}{{ d|json }} {{ a.c }}",
            Map::new(),
        );
        let want = "{\"a\": {\"b\": 1, \"c\": 2, \"z\": 9}, \"q\": 1} 2";
        assert_eq!(in_place.unwrap(), want);
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
